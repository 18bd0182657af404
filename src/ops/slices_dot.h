/* SPDX-License-Identifier: Apache-2.0
 * Sums of rows by slices, in the vectors of the instruction set. */
#ifndef HF_SLICES_DOT_H
#define HF_SLICES_DOT_H

#include "device/host/isa_load.h"
#include "ops/slices.h"

#define SLICE_VECTORS (SLICE_ROWS / VDW)

/* x of a list of columns. Loads of one number each: the gather instructions of the CPUs measured
 * (AMD Zen 5) take twice as long. */
ALWAYS_INLINE vd slice_pick(const double *x, const int32_t *c) {
#if VDW == 8
    return _mm512_set_pd(x[c[7]], x[c[6]], x[c[5]], x[c[4]], x[c[3]], x[c[2]], x[c[1]], x[c[0]]);
#else
    return _mm256_set_pd(x[c[3]], x[c[2]], x[c[1]], x[c[0]]);
#endif
}

/* The sum of value * x of each row of a slice. */
ALWAYS_INLINE void slice_dot(const struct hf_slices *s, hf_dtype dtype, int64_t slice,
                             const double *x, vd sum[SLICE_VECTORS]) {
    const int64_t first = s->slot[slice], last = s->slot[slice + 1];
    UNROLL(2) for (int v = 0; v < SLICE_VECTORS; v++) sum[v] = vd_set1(0);
    if (s->list[slice] < 0) {
        for (int64_t j = first; j < last; j++)
            UNROLL(2) for (int v = 0; v < SLICE_VECTORS; v++) {
                const vd value = vd_load_as(s->value, dtype, SLICE_ROWS * j + VDW * v);
                sum[v] = vd_add(sum[v], vd_mul(value, vd_load(x + s->base[j] + VDW * v)));
            }
        return;
    }
    const int32_t *column = s->column + SLICE_ROWS * s->list[slice];
    for (int64_t j = first; j < last; j++) {
        const bool listed = s->base[j] < 0;
        UNROLL(2) for (int v = 0; v < SLICE_VECTORS; v++) {
            const vd value = vd_load_as(s->value, dtype, SLICE_ROWS * j + VDW * v);
            const vd from =
                listed ? slice_pick(x, column + VDW * v) : vd_load(x + s->base[j] + VDW * v);
            sum[v] = vd_add(sum[v], vd_mul(value, from));
        }
        column += listed ? SLICE_ROWS : 0;
    }
}

/* The numbers of the rows of a slice, `rows` of them; the other lanes are 0 and stay untouched. */
ALWAYS_INLINE void slice_load(const double *p, int64_t rows, vd v[SLICE_VECTORS]) {
    double part[SLICE_ROWS] = {0};
    for (int64_t i = 0; i < rows && rows < SLICE_ROWS; i++)
        part[i] = p[i];
    p = rows < SLICE_ROWS ? part : p;
    UNROLL(2) for (int i = 0; i < SLICE_VECTORS; i++) v[i] = vd_load(p + VDW * i);
}

ALWAYS_INLINE void slice_store(double *p, int64_t rows, const vd v[SLICE_VECTORS]) {
    double part[SLICE_ROWS];
    double *to = rows < SLICE_ROWS ? part : p;
    UNROLL(2) for (int i = 0; i < SLICE_VECTORS; i++) vd_store(to + VDW * i, v[i]);
    for (int64_t i = 0; i < rows && rows < SLICE_ROWS; i++)
        p[i] = part[i];
}

#endif
