/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/distance/distance.h"

#include "base/dtype.h"
#include "core/array.h"

#include <math.h>

static void distance_key(const void *p, struct hf_key *key) {
    const struct hf_distance_args *args = p;
    *key = (struct hf_key){.dtype = {args->x.dtype},
                           .dim = {args->x.rows, args->c.rows, args->x.cols}};
}

static void distance_cost(const void *p, double *flops, double *bytes) {
    const struct hf_distance_args *args = p;
    const double n = (double)args->x.rows;
    const double k = (double)args->c.rows;
    const double d = (double)args->x.cols;
    *flops = (args->metric == HF_EUCLIDEAN ? 3 : 2) * n * k * d;
    *bytes = n * d * (double)hf_dtype_bytes(args->x.dtype) +
             k * d * (double)hf_dtype_bytes(args->c.dtype) + 8 * n * k;
}

#define UNIT 0x1p-53   /* half the distance of 1 to the next float64 */
#define TINY 0x1p-1074 /* twice what a product that underflows may be off */

/* Of sums, in float64, of what a pair is computed from. */
struct sums {
    double square; /* (x - c)^2 */
    double dot;    /* |x c| */
    double xx, cc;
};

static struct sums sums_of(const struct hf_distance_args *a, int64_t row, int64_t centroid) {
    const void *x = hf_array_row(&a->x, row), *c = hf_array_row(&a->c, centroid);
    struct sums s = {0, 0, 0, 0};
    for (int64_t j = 0; j < a->x.cols; j++) {
        const double xj = hf_load_f64(x, a->x.dtype, j), cj = hf_load_f64(c, a->c.dtype, j);
        s.square += (xj - cj) * (xj - cj);
        s.dot += fabs(xj * cj);
        s.xx += xj * xj;
        s.cc += cj * cj;
    }
    return s;
}

/* A sum of d products is off by at most d + 2 roundings of the sum of their absolute values, where
 * a factor is itself a rounded difference; by one more as these sums are rounded, too. The root
 * divides an error by at least the root of the sum. The cosine has d + 1 roundings in the product,
 * half of that and one in each norm, and six in what follows, none of which is of more than 2; a
 * norm that underflows or overflows, in part or when multiplied, promises nothing. */
static double distance_bound(const void *p, int out, int64_t i) {
    const struct hf_distance_args *a = p;
    const struct sums s = sums_of(a, i / a->c.rows, i % a->c.rows);
    const double d = (double)a->x.cols;
    if (out != HF_DISTANCE_OUT)
        return 0;
    if (a->metric == HF_DOT)
        return s.dot < INFINITY ? (d + 3) * UNIT * s.dot + d * TINY : INFINITY;
    if (a->metric == HF_COSINE) {
        const double least = fmin(s.xx, s.cc), most = fmax(s.xx, s.cc);
        return least > 0x1p-900 && most < 0x1p900 ? (2 * d + 10) * UNIT : INFINITY;
    }
    if (!(s.square < INFINITY))
        return INFINITY;
    const double error = (d + 3) * UNIT * s.square + d * TINY;
    const double root = sqrt(s.square);
    if (!a->root)
        return error;
    return root > 0 ? fmin(error / root, sqrt(error)) + 2 * UNIT * root : sqrt(error);
}

const struct hf_op hf_distance_op = {
    .name = "distance",
    .args_size = sizeof(struct hf_distance_args),
    .type = {"x"},
    .dim = {"n", "k", "d"},
    .key = distance_key,
    .cost = distance_cost,
    .bound = distance_bound,
};
