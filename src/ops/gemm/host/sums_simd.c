/* SPDX-License-Identifier: Apache-2.0
 * Sums of rows and columns in SIMD: four rows at a time go through the columns, so that the sums of
 * the columns are loaded and stored once for them. */
#include "base/dtype.h"
#include "device/host/isa.h"
#include "ops/gemm/sums.h"

#include <string.h>

#define ROWS 4

#if !HF_ISA_TILES
extern hf_sums_fn HF_ISA_NAME(hf_gemm_sum_rows);

/* Up to VDW numbers of a type from element `at` on. */
ALWAYS_INLINE vd load_some(const void *data, hf_dtype dtype, int64_t at, int n) {
    double v[VDW] = {0};
    switch (dtype) {
    case HF_F32:
        return n == VDW ? vd_from_f32((const float *)data + at)
                        : vd_from_f32_n((const float *)data + at, n);
    case HF_F64:
        return n == VDW ? vd_load((const double *)data + at)
                        : vd_load_n((const double *)data + at, n);
    case HF_F16:
        return n == VDW ? vd_from_f16((const uint16_t *)data + at)
                        : vd_from_f16_n((const uint16_t *)data + at, n);
    case HF_BF16:
        return n == VDW ? vd_from_bf16((const uint16_t *)data + at)
                        : vd_from_bf16_n((const uint16_t *)data + at, n);
    case HF_I8:
        for (int i = 0; i < n; i++)
            v[i] = ((const int8_t *)data)[at + i];
        return vd_load(v);
    default:
        for (int i = 0; i < n; i++)
            v[i] = ((const int32_t *)data)[at + i];
        return vd_load(v);
    }
}

ALWAYS_INLINE vd weights(const double *by, int64_t j, int n) {
    return by == NULL ? vd_set1(1) : n == VDW ? vd_load(by + j) : vd_load_n(by + j, n);
}

/* Rows i .. i + count - 1 and their sums so far. */
struct four {
    const struct hf_sums_pass *pass;
    int64_t i;
    vd row[ROWS], row_size[ROWS], by[ROWS], by_size[ROWS];
};

/* Columns [j, j + n). */
ALWAYS_INLINE void add_columns(struct four *f, hf_dtype dtype, int count, int64_t j, int n,
                               double *const col[2]) {
    const struct hf_sums_pass *p = f->pass;
    const vd y = weights(p->by_col, j, n), y_size = weights(p->by_col_size, j, n);
    vd c = vd_set1(0), c_size = c;
    if (p->col != NULL) {
        c = n == VDW ? vd_load(col[0] + j) : vd_load_n(col[0] + j, n);
        c_size = n == VDW ? vd_load(col[1] + j) : vd_load_n(col[1] + j, n);
    }
    UNROLL(4)
    for (int r = 0; r < count; r++) {
        const vd x = load_some(p->m.data, dtype, (f->i + r) * p->m.row + j, n);
        const vd size = vd_max(x, vd_sub(vd_set1(0), x));
        f->row[r] = vd_fma(x, y, f->row[r]);
        f->row_size[r] = vd_fma(size, y_size, f->row_size[r]);
        c = vd_fma(x, f->by[r], c);
        c_size = vd_fma(size, f->by_size[r], c_size);
    }
    if (p->col == NULL)
        return;
    if (n == VDW) {
        vd_store(col[0] + j, c);
        vd_store(col[1] + j, c_size);
    } else {
        vd_store_n(col[0] + j, c, n);
        vd_store_n(col[1] + j, c_size, n);
    }
}

ALWAYS_INLINE void sum_four(const struct hf_sums_pass *pass, hf_dtype dtype, int64_t i, int count,
                            double *const col[2]) {
    struct four f = {.pass = pass, .i = i};
    const int64_t whole = pass->cols / VDW * VDW;
    UNROLL(4)
    for (int r = 0; r < count; r++) {
        f.row[r] = f.row_size[r] = vd_set1(0);
        f.by[r] = vd_set1(pass->by_row != NULL ? pass->by_row[i + r] : 1);
        f.by_size[r] = vd_set1(pass->by_row_size != NULL ? pass->by_row_size[i + r] : 1);
    }
    for (int64_t j = 0; j < whole; j += VDW)
        add_columns(&f, dtype, count, j, VDW, col);
    if (whole < pass->cols)
        add_columns(&f, dtype, count, whole, (int)(pass->cols - whole), col);
    for (int r = 0; pass->row != NULL && r < count; r++) {
        pass->row[i + r] = vd_sum(f.row[r]);
        pass->row_size[i + r] = vd_sum(f.row_size[r]);
    }
}

ALWAYS_INLINE void sum_range(const struct hf_sums_pass *pass, hf_dtype dtype, int64_t begin,
                             int64_t end, double *const col[2]) {
    int64_t i = begin;
    for (; i + ROWS <= end; i += ROWS)
        sum_four(pass, dtype, i, ROWS, col);
    for (; i < end; i++)
        sum_four(pass, dtype, i, 1, col);
}

void HF_ISA_NAME(hf_gemm_sum_rows)(const struct hf_sums_pass *pass, int64_t begin, int64_t end,
                                   double *col, double *col_size) {
    double *const out[2] = {col, col_size};
    switch (pass->m.dtype) {
    case HF_F32:
        sum_range(pass, HF_F32, begin, end, out);
        break;
    case HF_F64:
        sum_range(pass, HF_F64, begin, end, out);
        break;
    case HF_F16:
        sum_range(pass, HF_F16, begin, end, out);
        break;
    case HF_BF16:
        sum_range(pass, HF_BF16, begin, end, out);
        break;
    case HF_I8:
        sum_range(pass, HF_I8, begin, end, out);
        break;
    default:
        sum_range(pass, HF_I32, begin, end, out);
    }
}
#endif
