/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"
#include "base/mem.h"
#include "ops/cases/data_case.h"
#include "ops/gemm/gemm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    M = 10,
    N,
    K,
    BATCH,
    TRANS,
    ALPHA,
    BETA,
    GAP,
    OFFSET,
    SHARED,
    HOSTILE
}; /* of hf_data_pick() */

#define OLD_C 77           /* stream of the numbers that C holds before */
#define CHECKED_ELEMENT 29 /* every so many elements one is compared with the truth */
#define TAILS 84
#define MIDDLES 28

static const hf_dtype types[][2] = {{HF_F32, HF_F32}, {HF_F64, HF_F64},   {HF_F16, HF_F16},
                                    {HF_F16, HF_F32}, {HF_BF16, HF_BF16}, {HF_BF16, HF_F32},
                                    {HF_I8, HF_I32}};
#define TYPES ((int64_t)(sizeof types / sizeof types[0]))

static const double alphas[] = {1, 1, -1, 0.3, 2, 0};
static const double betas[] = {0, 0, 1, -0.5, 0.7};
static const double whole_alphas[] = {1, 1, -1, 3, 70000, 0};
static const double whole_betas[] = {0, 0, 1, -2, 99991};

/* m, n, k, batch: nothing to do, or less than one tile, line or block */
static const int64_t edges[][4] = {{0, 5, 3, 1},    {5, 0, 3, 1},    {4, 5, 0, 2},
                                   {3, 2, 1, 0},    {1, 1, 1, 1},    {1, 1, 1000, 1},
                                   {1, 300, 40, 1}, {300, 1, 40, 1}, {2, 3, 256, 1},
                                   {2, 3, 257, 1},  {2, 3, 512, 3}};
#define EDGES ((int64_t)(sizeof edges / sizeof edges[0]))

/* Many tiles, more than one piece of each dimension, work for many threads */
static const int64_t large[][4] = {{61, 397, 301, 1}, {1100, 3, 530, 1}, {4, 1100, 300, 1}};
#define LARGE ((int64_t)(sizeof large / sizeof large[0]))

/* The same shapes of the 16-bit types for tensor cores. */
#define PORTABLE_CASES ((EDGES + LARGE) * TYPES + TAILS + MIDDLES)

static bool pick_shape(int64_t id, hf_gemm_args *args) {
    const int64_t *edge = NULL;
    int64_t most = 40;
    args->dtype = types[id % TYPES][0];
    args->dtype_c = types[id % TYPES][1];
    args->portable = args->dtype == HF_F16 || args->dtype == HF_BF16;
    if (id >= PORTABLE_CASES) {
        id -= PORTABLE_CASES;
        if (!args->portable)
            args->dtype = HF_BF16;
        if (!args->portable)
            args->dtype_c = HF_F32;
        args->portable = 0;
    }
    if (id < EDGES * TYPES) {
        edge = edges[id / TYPES];
    } else if ((id -= EDGES * TYPES) >= TAILS) {
        id -= TAILS;
        most = 100;
        if (id >= MIDDLES) {
            id -= MIDDLES;
            if (id >= LARGE * TYPES)
                return false;
            edge = large[id / TYPES];
        }
    }
    args->m = edge ? edge[0] : 1 + hf_data_pick(id, M, most);
    args->n = edge ? edge[1] : 1 + hf_data_pick(id, N, most);
    args->k = edge ? edge[2] : 1 + hf_data_pick(id, K, most * 3);
    args->batch = edge ? edge[3] : 1 + hf_data_pick(id, BATCH, 5) / 3;
    return true;
}

static void pick_rest(int64_t id, hf_gemm_args *args) {
    const bool whole = args->dtype == HF_I8;
    const int64_t alpha = hf_data_pick(id, ALPHA, 6), beta = hf_data_pick(id, BETA, 5);
    args->trans_a = (int)hf_data_pick(id, TRANS, 4) & 1;
    args->trans_b = (int)hf_data_pick(id, TRANS, 4) >> 1;
    args->alpha = whole ? whole_alphas[alpha] : alphas[alpha];
    args->beta = whole ? whole_betas[beta] : betas[beta];
    if (hf_gemm_compute(args->dtype) == HF_F32) {
        args->alpha = (double)(float)args->alpha;
        args->beta = (double)(float)args->beta;
    }
}

/* A NaN, infinities, and products of 0 and infinity, in some places. */
static double hostile(double v, int64_t i) {
    static const double odd[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, -0.0, 0x1p-149};
    return i % 23 == 5 ? odd[i / 23 % 5] : v;
}

/* Matrices of A or B as they are stored. */
struct stored {
    int64_t rows, cols, count, ld, stride;
};

static const void *make_matrices(struct hf_rng *rng, struct hf_case *c, int64_t id,
                                 const struct stored *s) {
    const hf_dtype dtype = ((const hf_gemm_args *)c->args)->dtype;
    const struct hf_data_shape shape = {.kind = (enum hf_data_kind)(id / TYPES % HF_DATA_COLUMN),
                                        .dtype = dtype,
                                        .n = s->rows + 1,
                                        .k = 1,
                                        .d = s->cols + 1};
    const int64_t bytes = (int64_t)hf_dtype_bytes(dtype);
    const int64_t offset = hf_data_pick(id, OFFSET, 3);
    const bool odd = hf_data_pick(id, HOSTILE, 5) == 0 && dtype != HF_I8;
    const int64_t all = offset + s->count * s->stride + s->rows * s->ld + 1;
    char *data = hf_case_alloc(c, (size_t)(all * bytes), false);
    for (int64_t row = 0; data && row < s->count * s->rows; row++)
        for (int64_t j = 0; j < s->cols; j++) {
            const int64_t i = row % s->rows;
            const int64_t at = offset + row / s->rows * s->stride + i * s->ld + j;
            const double v = dtype == HF_I8 ? (double)(int8_t)(hf_rng_next(rng) & 0xff)
                                            : hf_data_value(rng, &shape, i, j);
            hf_store_f64(data, dtype, at, odd ? hostile(v, at) : v);
        }
    return data ? data + offset * bytes : NULL;
}

/* Element i of C before the call. */
static double old_c(const hf_gemm_args *args, int64_t i) {
    const double v = 8 * hf_rng_unit(OLD_C, 0, (uint64_t)i) - 4;
    return args->dtype_c == HF_I32 ? floor(v * 1e6) : hf_round_to(v, args->dtype_c);
}

static void make_c(struct hf_case *c, int64_t id, hf_gemm_args *args) {
    const int64_t bytes = (int64_t)hf_dtype_bytes(args->dtype_c);
    const int64_t offset = hf_data_pick(id, OFFSET + 1, 3);
    const int64_t all = offset + args->batch * args->stride_c + args->m * args->ldc + 1;
    char *data = hf_case_alloc(c, (size_t)(all * bytes), true);
    if (!data)
        return;
    args->c = data + offset * bytes;
    memset(data, 0xFF, (size_t)(all * bytes)); /* NaN: not to be read */
    for (int64_t i = 0; args->beta != 0 && i < args->batch * args->m * args->n; i++)
        hf_store_f64(args->c, args->dtype_c,
                     i / (args->m * args->n) * args->stride_c + i / args->n % args->m * args->ldc +
                         i % args->n,
                     old_c(args, i));
}

static bool make_args(struct hf_rng *rng, struct hf_case *c, int64_t id, int64_t gap) {
    hf_gemm_args *args = c->args;
    struct stored a = {.rows = args->m, .cols = args->k, .count = args->batch};
    struct stored b = {.rows = args->k, .cols = args->n, .count = args->batch};
    const bool shared = hf_data_pick(id, SHARED, 3) == 0;
    if (args->trans_a) {
        a.rows = args->k;
        a.cols = args->m;
    }
    if (args->trans_b) {
        b.rows = args->n;
        b.cols = args->k;
    }
    a.ld = a.cols + gap + (a.cols == 0);
    b.ld = b.cols + 2 * gap + (b.cols == 0);
    a.stride = shared ? 0 : a.rows * a.ld + gap;
    b.stride = b.rows * b.ld + gap;
    args->a = make_matrices(rng, c, id, &a);
    args->b = make_matrices(rng, c, id, &b);
    args->lda = a.ld;
    args->ldb = b.ld;
    args->stride_a = a.stride;
    args->stride_b = b.stride;
    args->ldc = args->n + 3 * gap + (args->n == 0);
    args->stride_c = args->m * args->ldc + gap;
    make_c(c, id, args);
    return !c->failed;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    hf_gemm_args *args = c->args;
    if (!pick_shape(id, args))
        return false;
    pick_rest(id, args);
    make_args(rng, c, id, hf_data_pick(id, GAP, 3));
    snprintf(c->name, sizeof c->name, "m=%lld n=%lld k=%lld batch=%lld %s->%s%s%s alpha=%g beta=%g",
             (long long)args->m, (long long)args->n, (long long)args->k, (long long)args->batch,
             hf_dtype_name(args->dtype), hf_dtype_name(args->dtype_c), args->trans_a ? " ta" : "",
             args->trans_b ? " tb" : "", args->alpha, args->beta);
    return true;
}

/* What the arithmetic of 64 bits makes of element i, and how far C may be from it; INFINITY where
 * it may overflow. */
static long double exact(const hf_gemm_args *args, int64_t i, double *bound) {
    const int64_t b = i / (args->m * args->n), row = i / args->n % args->m, col = i % args->n;
    const struct hf_gemm_view va = hf_gemm_view_a(args, b), vb = hf_gemm_view_b(args, b);
    long double sum = 0, size = 0, old = 0, lost = 0;
    double relative = 0, tiny = 0;
    for (int64_t p = 0; hf_gemm_reads_ab(args) && p < args->k; p++) {
        const long double x = hf_load_f64(va.data, va.dtype, row * va.row + p * va.col);
        const long double y = hf_load_f64(vb.data, vb.dtype, p * vb.row + col * vb.col);
        sum += x * y;
        size += fabsl(x * y);
        lost += hf_gemm_may_lose(args, (double)x, (double)y) ? fabsl(x * y) : 0;
    }
    if (args->beta != 0)
        old = (long double)args->beta * old_c(args, i);
    hf_gemm_error(args, hf_gemm_may_use_tensors(args), &relative, &tiny);
    const double most = args->dtype_c == HF_F64   ? 1e300
                        : args->dtype_c == HF_F16 ? 6e4
                        : args->dtype_c == HF_I32 ? INT32_MAX
                                                  : 1e38;
    size = fabsl(args->alpha) * size + fabsl(old);
    *bound = size < most ? (relative + 0x1p-60 * (double)args->k) * (double)size +
                               (double)(fabsl(args->alpha) * lost) + tiny
                         : INFINITY;
    return args->alpha * sum + old;
}

/* Is place i of C's memory one of its elements? */
static bool is_element(const hf_gemm_args *args, int64_t i) {
    if (i < 0 || args->m == 0 || args->n == 0)
        return false;
    const int64_t b = args->batch > 1 ? hf_min64(i / args->stride_c, args->batch - 1) : 0;
    const int64_t in = i - b * args->stride_c;
    return in / args->ldc < args->m && in % args->ldc < args->n;
}

/* Bits of the reference, gaps included, and some elements as near to the truth as promised; all of
 * them where tensor cores may have summed. */
static bool compare(const void *p, void *const *ref, void *const *got, char *why,
                    size_t why_bytes) {
    const hf_gemm_args *args = p;
    const int64_t bytes = (int64_t)hf_dtype_bytes(args->dtype_c);
    const int64_t offset = ((const char *)args->c - (const char *)got[0]) / bytes;
    const int64_t all = offset + args->batch * args->stride_c + args->m * args->ldc + 1;
    const bool tensors = hf_gemm_may_use_tensors(args);
    for (int64_t i = 0; i < all; i++)
        if (memcmp((const char *)ref[0] + i * bytes, (const char *)got[0] + i * bytes,
                   (size_t)bytes) != 0 &&
            !(tensors && is_element(args, i - offset))) {
            snprintf(why, why_bytes, "element %lld of its memory (ldc %lld) is %.17g, not %.17g",
                     (long long)(i - offset), (long long)args->ldc,
                     hf_load_f64(got[0], args->dtype_c, i), hf_load_f64(ref[0], args->dtype_c, i));
            return false;
        }
    for (int64_t i = 0; i < args->batch * args->m * args->n; i += tensors ? 5 : CHECKED_ELEMENT) {
        double bound = 0;
        const int64_t at = i / (args->m * args->n) * args->stride_c +
                           i / args->n % args->m * args->ldc + i % args->n;
        const long double want = exact(args, i, &bound);
        const double is = hf_load_f64(args->c, args->dtype_c, at);
        if (isnan((double)want) && !isnan(is)) {
            snprintf(why, why_bytes, "element %lld is %.17g, not NaN", (long long)i, is);
            return false;
        }
        if (bound < INFINITY && !(fabsl(is - want) <= bound)) {
            snprintf(why, why_bytes, "element %lld is %.17g, off by %g, which is more than %g",
                     (long long)i, is, (double)(is - want), bound);
            return false;
        }
    }
    return true;
}

static bool make_bench(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c) {
    hf_gemm_args *args = c->args;
    const int64_t *dim = bench->key.dim;
    bool known = false;
    for (int64_t i = 0; i < TYPES; i++)
        known |= types[i][0] == bench->key.dtype[0] && types[i][1] == bench->key.dtype[1];
    *args = (hf_gemm_args){.m = dim[0],
                           .n = dim[1],
                           .k = dim[2],
                           .batch = dim[3],
                           .dtype = bench->key.dtype[0],
                           .dtype_c = bench->key.dtype[1],
                           .trans_a = (int)(bench->key.flags & 1),
                           .trans_b = (int)(bench->key.flags >> 1 & 1),
                           .alpha = 1};
    return known && make_args(rng, c, 0, 0);
}

const struct hf_op_cases hf_gemm_cases = {
    .make_case = make_case,
    .compare = compare,
    .make_bench = make_bench,
    .data = {"normal"},
    .example = {{HF_F32, HF_F32}, {512, 512, 512, 1}, 0},
};
