/* SPDX-License-Identifier: Apache-2.0
 * The sum of a part of ops/sparse.h, in the vectors of the instruction set. */
#ifndef HF_SPARSE_SUM_H
#define HF_SPARSE_SUM_H

#include "device/host/isa.h"
#include "ops/sparse.h"

#define SUM_VECTORS (SPARSE_LANES / VDW)

/* The sum of y_i w_i over a part, whose first term is number 0. */
ALWAYS_INLINE double sparse_part_sum(const double *y, const double *w, int64_t count) {
    struct sparse_sum sum;
    vd lane[SUM_VECTORS];
    int64_t i = 0;
    UNROLL(2) for (int v = 0; v < SUM_VECTORS; v++) lane[v] = vd_set1(0);
    for (; i + SPARSE_LANES <= count; i += SPARSE_LANES)
        UNROLL(2) for (int v = 0; v < SUM_VECTORS; v++) {
            const int64_t at = i + VDW * v;
            lane[v] = vd_add(lane[v], vd_mul(vd_load(y + at), vd_load(w + at)));
        }
    UNROLL(2) for (int v = 0; v < SUM_VECTORS; v++) vd_store(sum.lane + VDW * v, lane[v]);
    for (; i < count; i++)
        sparse_sum_add(&sum, i, y[i] * w[i]);
    return sparse_sum_end(&sum);
}

#endif
