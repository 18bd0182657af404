/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/matmul/gemm_check.h"

#include "base/mem.h"
#include "ops/gemm/gemm.h"

#include <math.h>

static hf_status check_sizes(hf_context *ctx, const hf_gemm_args *args) {
    if (args->m < 0 || args->n < 0 || args->k < 0 || args->batch < 0)
        return hf_ctx_fail(
            ctx, HF_E_ARG, "gemm: m = %lld, n = %lld, k = %lld, batch = %lld: none may be below 0",
            (long long)args->m, (long long)args->n, (long long)args->k, (long long)args->batch);
    if (args->order != HF_ROW_MAJOR && args->order != HF_COL_MAJOR)
        return hf_ctx_fail(ctx, HF_E_ARG, "gemm: order is %d: give 0 (by rows) or 1 (by columns)",
                           (int)args->order);
    return HF_OK;
}

static hf_status check_signatures(hf_context *ctx, const hf_gemm_args *args) {
    hf_gemm_signatures *s = args->signatures;
    if (s == NULL)
        return HF_OK;
    if (hf_gemm_checksum_id(args) < 0)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "gemm: there is no checksum '%s' to make signatures of: give crc32c, "
                           "fletcher or another that hf_gemm_checksum() names",
                           s->checksum);
    const int64_t batch = args->batch == 0 ? 1 : args->batch;
    const int64_t most = hf_gemm_most_tiles(args->m, args->n, batch);
    if (s->tile != NULL && s->tile_room < most)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "gemm: there is room for %lld signatures of tiles, but there may be "
                           "%lld: hf_gemm_most_tiles() says how many",
                           (long long)s->tile_room, (long long)most);
    s->a = s->b = s->c = 0;
    s->panels = s->tiles = 0;
    return HF_OK;
}

static bool is_factor(hf_dtype dtype) {
    return dtype == HF_F32 || dtype == HF_F64 || dtype == HF_F16 || dtype == HF_BF16 ||
           dtype == HF_I8;
}

static hf_status check_types(hf_context *ctx, hf_gemm_args *full) {
    const hf_dtype a = full->dtype;
    if (!is_factor(a))
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "gemm: matrices of type %s cannot be multiplied: give f32, f64, f16, "
                           "bf16 or i8",
                           hf_dtype_name(a));
    if (full->dtype_c == HF_DTYPE_NONE)
        full->dtype_c = a == HF_I8 ? HF_I32 : a;
    if (full->dtype_c != hf_gemm_compute(a) && (full->dtype_c != a || a == HF_I8))
        return hf_ctx_fail(ctx, HF_E_ARG, "gemm: a product of %s cannot be %s: give a C of %s%s",
                           hf_dtype_name(a), hf_dtype_name(full->dtype_c),
                           hf_dtype_name(hf_gemm_compute(a)),
                           a == HF_F16    ? " or f16"
                           : a == HF_BF16 ? " or bf16"
                                          : "");
    return HF_OK;
}

static hf_status check_factors(hf_context *ctx, hf_gemm_args *full) {
    if (full->dtype == HF_I8) {
        const double factor[] = {full->alpha, full->beta};
        for (int i = 0; i < 2; i++)
            if (!(factor[i] >= INT32_MIN && factor[i] <= INT32_MAX && factor[i] == rint(factor[i])))
                return hf_ctx_fail(ctx, HF_E_ARG,
                                   "gemm: %s is %g: for i8 it must be a whole number from "
                                   "-2147483648 to 2147483647",
                                   i == 0 ? "alpha" : "beta", factor[i]);
    } else if (hf_gemm_compute(full->dtype) == HF_F32) {
        full->alpha = (double)(float)full->alpha;
        full->beta = (double)(float)full->beta;
    }
    return HF_OK;
}

/* A matrix as it is stored. */
struct stored {
    const char *name;
    const void *data;
    int64_t rows, cols; /* lines in memory, and elements of a line */
    int64_t *ld;
    int64_t *stride;
    hf_dtype dtype;
    bool used; /* read or written */
};

static hf_status check_stored(hf_context *ctx, const struct stored *s, const hf_gemm_args *args) {
    const char *line = args->order == HF_ROW_MAJOR ? "row" : "column";
    size_t bytes = 0;
    if (*s->ld == 0)
        *s->ld = s->cols > 0 ? s->cols : 1;
    if (*s->ld < s->cols)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "gemm: ld%s is %lld, but a %s of %s as stored has %lld elements: give "
                           "at least as many, or 0 where there are no gaps",
                           s->name, (long long)*s->ld, line, s->name, (long long)s->cols);
    if (*s->stride < 0)
        return hf_ctx_fail(ctx, HF_E_ARG, "gemm: stride_%s is %lld: it may not be below 0", s->name,
                           (long long)*s->stride);
    int64_t last = 0, all = 0;
    if (!hf_mul3_size(s->rows, *s->ld, (int64_t)hf_dtype_bytes(s->dtype), &bytes) ||
        bytes > INT64_MAX ||
        __builtin_mul_overflow(args->batch > 1 ? args->batch - 1 : 0, *s->stride, &last) ||
        __builtin_add_overflow(last, s->rows * *s->ld, &all) ||
        __builtin_mul_overflow(all, (int64_t)hf_dtype_bytes(s->dtype), &all))
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "gemm: %s has %lld %ss %lld elements apart, %lld times: that is more "
                           "than can be addressed",
                           s->name, (long long)s->rows, line, (long long)*s->ld,
                           (long long)args->batch);
    if (s->used && s->data == NULL)
        return hf_ctx_fail(ctx, HF_E_ARG, "gemm: %s is NULL, but is needed for this product",
                           s->name);
    return HF_OK;
}

static hf_status check_matrices(hf_context *ctx, hf_gemm_args *full) {
    const bool some = full->m > 0 && full->n > 0 && full->batch > 0;
    const bool reads = some && hf_gemm_reads_ab(full);
    const bool by_cols = full->order == HF_COL_MAJOR;
    const bool turn_a = by_cols != (full->trans_a != 0), turn_b = by_cols != (full->trans_b != 0);
    const struct stored a = {"a",
                             full->a,
                             turn_a ? full->k : full->m,
                             turn_a ? full->m : full->k,
                             &full->lda,
                             &full->stride_a,
                             full->dtype,
                             reads};
    const struct stored b = {"b",
                             full->b,
                             turn_b ? full->n : full->k,
                             turn_b ? full->k : full->n,
                             &full->ldb,
                             &full->stride_b,
                             full->dtype,
                             reads};
    const struct stored c = {"c",
                             full->c,
                             by_cols ? full->n : full->m,
                             by_cols ? full->m : full->n,
                             &full->ldc,
                             &full->stride_c,
                             full->dtype_c,
                             some};
    HF_TRY(check_stored(ctx, &a, full));
    HF_TRY(check_stored(ctx, &b, full));
    HF_TRY(check_stored(ctx, &c, full));
    const int64_t whole = c.rows > 0 ? (c.rows - 1) * full->ldc + c.cols : 0;
    if (some && full->batch > 1 && full->stride_c < whole)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "gemm: stride_c is %lld, but each C takes %lld elements: the products "
                           "of a batch would overwrite each other",
                           (long long)full->stride_c, (long long)whole);
    return HF_OK;
}

/* A product by columns is that of the transposes by rows: C' = op(B)' op(A)'. */
static void by_rows(hf_gemm_args *full) {
    const hf_gemm_args given = *full;
    if (given.order == HF_ROW_MAJOR)
        return;
    full->order = HF_ROW_MAJOR;
    full->m = given.n;
    full->n = given.m;
    full->a = given.b;
    full->b = given.a;
    full->lda = given.ldb;
    full->ldb = given.lda;
    full->stride_a = given.stride_b;
    full->stride_b = given.stride_a;
    full->trans_a = given.trans_b;
    full->trans_b = given.trans_a;
}

hf_status hf_gemm_check(hf_context *ctx, const hf_gemm_args *args, hf_gemm_args *full) {
    *full = *args;
    full->batch = args->batch == 0 ? 1 : args->batch;
    full->trans_a = args->trans_a != 0;
    full->trans_b = args->trans_b != 0;
    HF_TRY(check_sizes(ctx, full));
    HF_TRY(check_signatures(ctx, full));
    HF_TRY(check_types(ctx, full));
    HF_TRY(check_factors(ctx, full));
    HF_TRY(check_matrices(ctx, full));
    by_rows(full);
    return HF_OK;
}
