/* SPDX-License-Identifier: Apache-2.0
 * Weighted sums of the rows and columns of a matrix, from which the checks of a product are made.
 * In float64, in any order. */
#ifndef HF_GEMM_SUMS_H
#define HF_GEMM_SUMS_H

#include "core/context.h"
#include "ops/gemm/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* row[i] = sum of m[i][j] by_col[j], col[j] = sum of m[i][j] by_row[i]; the sizes are the same of
 * absolute values, with weights of their own. All arrays lie where the matrix lies. */
struct hf_sums_pass {
    struct hf_gemm_view m; /* one of its strides is 1 */
    int64_t rows, cols;
    const double *by_row, *by_row_size; /* [rows]; NULL: 1 */
    const double *by_col, *by_col_size; /* [cols]; NULL: 1 */
    double *row, *row_size;             /* [rows] out; NULL: not wanted */
    double *col, *col_size;             /* [cols] out; likewise */
};

/* The same of the transpose, if that has its rows in one piece. */
struct hf_sums_pass hf_sums_by_rows(const struct hf_sums_pass *pass);

/* On the CPU; in memory of the context's device. */
hf_status hf_gemm_sums(hf_context *ctx, const struct hf_sums_pass *pass);
hf_status hf_gemm_sums_there(hf_context *ctx, const struct hf_sums_pass *pass);

/* On the stream of a CUDA context; the rows of the matrix lie in one piece. (cuda/sums.cu) */
hf_status hf_gemm_sums_cuda(void *stream, const struct hf_sums_pass *pass);

/* Rows [begin, end) of a pass by one worker: the columns are added to `col` and `col_size`. The
 * rows of the matrix lie in one piece. (host/sums_simd.c, once for each instruction set) */
typedef void hf_sums_fn(const struct hf_sums_pass *pass, int64_t begin, int64_t end, double *col,
                        double *col_size);

#ifdef __cplusplus
}
#endif
#endif
