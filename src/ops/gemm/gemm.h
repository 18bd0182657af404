/* SPDX-License-Identifier: Apache-2.0
 * gemm: products of matrices, alone or many of one shape. */
#ifndef HF_OP_GEMM_H
#define HF_OP_GEMM_H

#include "core/kernel.h"
#include "core/run.h"
#include <holdfast/gemm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The arguments are those of hf_gemm(), checked and complete: HF_ROW_MAJOR, no leading dimension,
 * type or batch left 0, trans_a and trans_b 0 or 1, alpha and beta rounded to the type computed in.
 * m, n, k and batch may be 0, the matrices NULL where they are not read. */

/* Outputs, as hf_op::bound() counts them. */
enum { HF_GEMM_C /* element (b * m + i) * n + j: element (i, j) of product b */ };

/* Products are summed in chains of so many, whose sums are added in order. The bits follow from it:
 * it is the same for all kernels. */
#define HF_GEMM_BLOCK 256

static inline hf_status hf_gemm_run(hf_context *ctx, const hf_gemm_args *args) {
    return hf_run(ctx, HF_OP_GEMM, args);
}

/* The type computed in: F32, F64 or I32. */
static inline hf_dtype hf_gemm_compute(hf_dtype dtype) {
    return dtype == HF_F64 ? HF_F64 : dtype == HF_I8 ? HF_I32 : HF_F32;
}

/* May tensor cores, or AMX (bfloat16), compute it, whose bits are not the chain's? */
static inline int hf_gemm_may_use_tensors(const hf_gemm_args *args) {
    return (args->dtype == HF_F16 || args->dtype == HF_BF16) && !args->portable;
}

/* Products that tensor cores add up at once, with one rounding, on a GPU of this compute
 * capability. */
static inline int hf_gemm_tensor_depth(int sm) { return sm >= 90 ? 16 : 8; }

/* The arithmetic's name in reports: calls of equal names and arguments give equal bits. */
const char *hf_gemm_arithmetic(const hf_gemm_args *args, const struct hf_kernel *kernel,
                               const struct hf_device_props *device);

#define HF_GEMM_FLUSHED 0x1p-126 /* sums below it are 0 with AMX */

/* May this product of x and y be left out? */
static inline bool hf_gemm_may_lose(const hf_gemm_args *args, double x, double y) {
    return hf_gemm_may_use_tensors(args) && args->dtype == HF_BF16 &&
           ((x < HF_GEMM_FLUSHED && x > -HF_GEMM_FLUSHED) ||
            (y < HF_GEMM_FLUSHED && y > -HF_GEMM_FLUSHED));
}

/* Is it a kernel for tensor cores or AMX? kernel may be NULL: the worst that may compute this. */
bool hf_gemm_is_tensor(const hf_gemm_args *args, const struct hf_kernel *kernel);

/* An element of C is off by at most relative * (|alpha| |op A| |op B| + |beta C|) + tiny, if
 * nothing overflows on the way; tensors: it was computed by tensor cores. AMX takes 0 for
 * subnormal numbers of A and B: the product is that of matrices without them then. */
void hf_gemm_error(const hf_gemm_args *args, bool tensors, double *relative, double *tiny);

/* The id of the checksum of the signatures; -1: there is none of that name. */
int hf_gemm_checksum_id(const hf_gemm_args *args);

/* Are A and B read? */
static inline int hf_gemm_reads_ab(const hf_gemm_args *args) {
    return args->k > 0 && args->alpha != 0;
}

/* A matrix as the op sees it: element (i, j) is element i * row + j * col of data. */
struct hf_gemm_view {
    const void *data;
    hf_dtype dtype;
    int64_t row, col;
};

/* op(A) [m, k] and op(B) [k, n] of product `b`. */
struct hf_gemm_view hf_gemm_view_a(const hf_gemm_args *args, int64_t b);
struct hf_gemm_view hf_gemm_view_b(const hf_gemm_args *args, int64_t b);

#ifdef __cplusplus
}
#endif
#endif
