/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm/gemm.h"

#include "base/checksum/checksum.h"
#include "base/dtype.h"

#include <math.h>

enum { TRANS_A = 1, TRANS_B = 2, PORTABLE = 4 }; /* flags of the key */

static void gemm_key(const void *p, struct hf_key *key) {
    const hf_gemm_args *args = p;
    *key = (struct hf_key){.dtype = {args->dtype, args->dtype_c},
                           .dim = {args->m, args->n, args->k, args->batch},
                           .flags = (args->trans_a ? (uint32_t)TRANS_A : 0) |
                                    (args->trans_b ? (uint32_t)TRANS_B : 0) |
                                    (args->portable ? (uint32_t)PORTABLE : 0)};
}

static void gemm_cost(const void *p, double *flops, double *bytes) {
    const hf_gemm_args *args = p;
    const double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    const double one = (double)hf_dtype_bytes(args->dtype);
    const double c = (double)hf_dtype_bytes(args->dtype_c) * (args->beta != 0 ? 2 : 1);
    *flops = 2 * m * n * k * (double)args->batch;
    *bytes = (one * k * (m + n) + c * m * n) * (double)args->batch;
}

bool hf_gemm_is_tensor(const hf_gemm_args *args, const struct hf_kernel *kernel) {
    if (kernel == NULL || !hf_gemm_may_use_tensors(args))
        return hf_gemm_may_use_tensors(args);
    return (kernel->dtypes & HF_DT(HF_F32)) == 0;
}

const char *hf_gemm_arithmetic(const hf_gemm_args *args, const struct hf_kernel *kernel,
                               const struct hf_device_props *device) {
    if (!hf_gemm_reads_ab(args) || args->m == 0 || args->n == 0 || args->batch == 0)
        return "none";
    if (hf_gemm_is_tensor(args, kernel) && kernel->device == HF_DEV_HOST)
        return "f32 by AMX, 32 products at once";
    if (hf_gemm_is_tensor(args, kernel))
        return hf_gemm_tensor_depth(device->sm) == 16 ? "f32 by tensor cores, 16 products at once"
                                                      : "f32 by tensor cores, 8 products at once";
    switch (hf_gemm_compute(args->dtype)) {
    case HF_F64:
        return "f64 FMA chain, blocks of 256";
    case HF_I32:
        return "i32 exact, modulo 2^32";
    default:
        return "f32 FMA chain, blocks of 256";
    }
}

const char *hf_gemm_checksum(int i) {
    const struct hf_checksum_info *info = hf_checksum_at(i);
    return info != NULL ? info->name : NULL;
}

const char *hf_gemm_checksum_text(int i) {
    const struct hf_checksum_info *info = hf_checksum_at(i);
    return info != NULL ? info->text : NULL;
}

int hf_gemm_checksum_id(const hf_gemm_args *args) {
    const char *name = args->signatures->checksum;
    return name != NULL ? hf_checksum_find(name) : HF_CHECKSUM_CRC32C;
}

/* The smallest tile is that of float64 on AVX2. */
int64_t hf_gemm_most_tiles(int64_t m, int64_t n, int64_t batch) {
    return (m + 5) / 6 * ((n + 7) / 8) * batch;
}

static struct hf_gemm_view view(const void *data, hf_dtype dtype, int64_t first, int64_t ld,
                                int trans) {
    const char *begin = data;
    struct hf_gemm_view v = {data, dtype, trans ? 1 : ld, trans ? ld : 1};
    if (data != NULL)
        v.data = begin + (size_t)first * hf_dtype_bytes(dtype);
    return v;
}

struct hf_gemm_view hf_gemm_view_a(const hf_gemm_args *args, int64_t b) {
    return view(args->a, args->dtype, b * args->stride_a, args->lda, args->trans_a);
}

struct hf_gemm_view hf_gemm_view_b(const hf_gemm_args *args, int64_t b) {
    return view(args->b, args->dtype, b * args->stride_b, args->ldb, args->trans_b);
}

/* Half the distance from 1 to the next number of a type, and from 0. */
static double unit_of(hf_dtype dtype) {
    return dtype == HF_F64    ? 0x1p-53
           : dtype == HF_F16  ? 0x1p-11
           : dtype == HF_BF16 ? 0x1p-8
                              : 0x1p-24;
}

static double least_of(hf_dtype dtype) {
    return dtype == HF_F64    ? 0x1p-1074
           : dtype == HF_F16  ? 0x1p-25
           : dtype == HF_BF16 ? 0x1p-134
                              : 0x1p-150;
}

/* Tensor cores cut each of at most 16 products and the sum so far to 2^-23 of the largest of them,
 * and their sum to 24 bits: with half a unit in the last place as the unit, that is up to
 * twice 18 roundings for 16 products or 10 for 8. */
static double tensor_roundings(double k) { return 2 * (1.25 * k + 18); }

/* A product goes through the roundings of its chain, at most one for each of the block, then
 * through those of the sums of blocks; alpha, beta and beta C are rounded once each and so is the
 * result. (1 + u)^r - 1 < r u / (1 - r u). Each rounding that underflows is off by at most
 * least_of(), with AMX by HF_GEMM_FLUSHED; alpha multiplies those of the sum. */
void hf_gemm_error(const hf_gemm_args *args, bool tensors, double *relative, double *tiny) {
    const hf_dtype in = hf_gemm_compute(args->dtype);
    *relative = *tiny = 0;
    if (in == HF_I32)
        return;
    const double k = hf_gemm_reads_ab(args) ? (double)args->k : 0;
    const double blocks = tensors ? 1.5 * k + 36 : ceil(k / HF_GEMM_BLOCK);
    const double roundings = (tensors ? tensor_roundings(k) : fmin(k, HF_GEMM_BLOCK) + blocks) + 3;
    const double u = unit_of(in);
    const double least = tensors && args->dtype == HF_BF16 ? HF_GEMM_FLUSHED : least_of(in);
    *relative = roundings * u < 0.5 ? roundings * u / (1 - roundings * u) : INFINITY;
    *tiny = least * 2 * (fabs(args->alpha) * (k + blocks) + 3);
    if (args->dtype_c != in) {
        *relative += (1 + *relative) * unit_of(args->dtype_c);
        *tiny = 2 * *tiny + least_of(args->dtype_c);
    }
}

/* C as it was before the call is not known any more, so nothing is promised where beta is not 0. */
static double gemm_bound(const void *p, int out, int64_t i) {
    const hf_gemm_args *args = p;
    if (out != HF_GEMM_C || args->dtype_c == HF_I32)
        return 0;
    if (args->beta != 0)
        return INFINITY;
    const int64_t b = i / (args->m * args->n);
    const int64_t row = i / args->n % args->m, col = i % args->n;
    const struct hf_gemm_view va = hf_gemm_view_a(args, b), vb = hf_gemm_view_b(args, b);
    double sum = 0, lost = 0, relative = 0, tiny = 0;
    for (int64_t q = 0; hf_gemm_reads_ab(args) && q < args->k; q++) {
        const double x = hf_load_f64(va.data, va.dtype, row * va.row + q * va.col);
        const double y = hf_load_f64(vb.data, vb.dtype, q * vb.row + col * vb.col);
        sum += fabs(x * y);
        if (hf_gemm_may_lose(args, x, y))
            lost += fabs(args->alpha * x * y);
    }
    hf_gemm_error(args, hf_gemm_may_use_tensors(args), &relative, &tiny);
    const double most = fabs(args->alpha) * sum;
    return most < INFINITY ? relative * most * (1 + 0x1p-20) + lost + tiny : INFINITY;
}

const struct hf_op hf_gemm_op = {
    .name = "gemm",
    .args_size = sizeof(hf_gemm_args),
    .type = {"a", "c"},
    .dim = {"m", "n", "k", "batch"},
    .flag = {"ta", "tb", "portable"},
    .key = gemm_key,
    .cost = gemm_cost,
    .bound = gemm_bound,
};
