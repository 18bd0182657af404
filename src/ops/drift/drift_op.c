/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/drift/drift.h"

#include <math.h>

static void drift_key(const void *p, struct hf_key *key) {
    const struct hf_drift_args *args = p;
    *key = (struct hf_key){.dtype = {args->a.dtype},
                           .dim = {args->a.rows, args->a.elements, args->blocks, args->k}};
}

static void drift_cost(const void *p, double *flops, double *bytes) {
    const struct hf_drift_args *args = p;
    const double epochs = (double)args->epochs;
    const int64_t elements = args->a.elements;
    *flops = epochs * (2 * (double)elements + 3.0 * args->k * (double)args->a.rows);
    *bytes = hf_sparse_bytes(&args->a) + 32.0 * (double)args->a.rows;
}

static bool drift_unanimous(const void *args) {
    (void)args;
    return false;
}

/* Let q < 1 be the largest sum of |damping a_ij / a_ii| over a row with |1 - damping| for the
 * diagonal. No x that is read is older than 2 lag epochs, so the largest error falls by q at least
 * every 2 lag + 1 epochs (Chazan and Miranker 1969), but for 1 / (1 - q) of what one relaxation
 * rounds off: m + 4 roundings of at most 2^-53 of terms that sum up to twice the largest x. Where q
 * is not below 1, or nobody takes over, nothing is promised. */
static double drift_bound(const void *p, int out, int64_t i) {
    const struct hf_drift_args *args = p;
    double q = 0, right = 0, start = 0, most = 0;
    (void)i;
    if (out != 0)
        return 0;
    for (int64_t row = 0; row < args->a.rows; row++) {
        double sum = fabs(1 - args->damping);
        for (int64_t e = args->a.row_start[row]; e < args->a.row_start[row + 1]; e++)
            if (args->a.column[e] != row)
                sum += fabs(sparse_value(args->a.value, args->a.dtype, e) * args->damping *
                            args->inverse[row]);
        q = fmax(q, sum);
        right = fmax(right, fabs(args->b[row] * args->damping * args->inverse[row]));
        start = fmax(start, fabs(args->x[row]));
        most = fmax(most, (double)(args->a.row_start[row + 1] - args->a.row_start[row]));
    }
    /* where two workers relaxed a block, the later one to write may have read long ago */
    if (!(q < 1) || args->lag == 0 || args->report->takeovers > 0)
        return INFINITY;
    const double largest = fmax(start, right / (1 - q));
    const double rounds = floor((double)args->epochs / (2 * (double)args->lag + 1));
    return 2 * largest * (pow(q, rounds) + (most + 4) * 0x1p-53 / (1 - q));
}

const struct hf_op hf_drift_op = {
    .name = "drift",
    .args_size = sizeof(struct hf_drift_args),
    .type = {"a"},
    .dim = {"rows", "nnz", "blocks", "k"},
    .key = drift_key,
    .cost = drift_cost,
    .unanimous = drift_unanimous,
    .bound = drift_bound,
};
