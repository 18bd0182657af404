/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/march/march.h"

#include <math.h>

static void march_key(const void *p, struct hf_key *key) {
    const struct hf_march_args *args = p;
    *key = (struct hf_key){.dtype = {args->a.dtype},
                           .dim = {args->a.rows, args->a.elements, args->map.blocks, args->sweeps},
                           .flags = (args->momentum ? 1U : 0U) | (args->free ? 2U : 0U)};
}

static void march_cost(const void *p, double *flops, double *bytes) {
    const struct hf_march_args *args = p;
    const double steps = (double)args->most * args->sweeps;
    *flops = steps * 2 * (double)args->a.elements;
    *bytes = hf_sparse_bytes(&args->a) + 32.0 * (double)args->a.rows;
}

static bool march_unanimous(const void *args) {
    (void)args;
    return false;
}

/* Largest sums of absolute values that all rows share. */
struct norms {
    double map;     /* of a row of I - M's negative: of the elements of M */
    double right;   /* |c| */
    double start;   /* |x| */
    double scale;   /* 1 / diagonal */
    double outside; /* of a row of I + M: q, where M = -D^-1 A */
    double length;  /* elements of a row */
};

static struct norms norms_of(const struct hf_march_args *args) {
    struct norms most = {0};
    for (int64_t i = 0; i < args->a.rows; i++) {
        double sum = 0, others = 0;
        for (int64_t e = args->a.row_start[i]; e < args->a.row_start[i + 1]; e++) {
            const double term =
                fabs(sparse_value(args->a.value, args->a.dtype, e) * args->inverse[i]);
            sum += term;
            others += args->a.column[e] == i ? 0 : term;
        }
        most.map = fmax(most.map, sum);
        most.outside = fmax(most.outside, others);
        most.right = fmax(most.right, fabs(args->b[i] * args->inverse[i]));
        most.start = fmax(most.start, fabs(args->x[i]));
        most.scale = fmax(most.scale, fabs(args->inverse[i]));
        most.length = fmax(most.length, (double)(args->a.row_start[i + 1] - args->a.row_start[i]));
    }
    return most;
}

/* With a goal: |D^-1 r| / (1 - q) bounds the error of an x with residual r in the largest norm, for
 * x = (I - Q)^-1 D^-1 b with |Q| = q. Without one: the largest |x|, |p| and their errors follow the
 * recurrences of the op; each step rounds each of its terms, of which a row has at most length + 6,
 * by 2^-53 at most. Values that are older by some steps obey the same bounds, which only grow. */
static double march_bound(const void *p, int out, int64_t i) {
    const struct hf_march_args *args = p;
    (void)i;
    if (out != 0)
        return 0;
    if (args->free && args->goal < 0)
        return INFINITY;
    const struct norms m = norms_of(args);
    if (args->goal >= 0)
        return m.outside < 1 && args->report->stop == HF_MARCH_GOAL
                   ? sqrt(args->goal) * m.scale / (1 - m.outside) * (1 + 0x1p-20)
                   : INFINITY;
    const double unit = (m.length + 6) * 0x1p-53;
    double x = m.start, step = 0, x_error = 0, step_error = 0;
    for (int64_t s = 0; s < args->most * args->sweeps; s++) {
        const double *factor = args->factor + 2 * (s < args->factors ? s : args->factors - 1);
        const double alpha = fabs(factor[0]), beta = fabs(factor[1]);
        const double g = m.right + m.map * x, g_error = m.map * x_error + unit * g;
        step_error = alpha * g_error + beta * step_error + 3 * 0x1p-53 * (alpha * g + beta * step);
        step = alpha * g + beta * step;
        x += step;
        x_error += step_error + 0x1p-53 * x;
    }
    return x_error;
}

const struct hf_op hf_march_op = {
    .name = "march",
    .args_size = sizeof(struct hf_march_args),
    .type = {"a"},
    .dim = {"rows", "nnz", "blocks", "sweeps"},
    .flag = {"momentum", "free"},
    .key = march_key,
    .cost = march_cost,
    .unanimous = march_unanimous,
    .bound = march_bound,
};
