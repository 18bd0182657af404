/* SPDX-License-Identifier: Apache-2.0 */
#include "device/host/isa.h"
#include "base/cpuid.h"
#include "base/mem.h"
#include "ops/assign/assign.h"
#include <stdatomic.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define PACKED_TILE 32                   /* rows of a tile, at most */
#define PACKED_STEP 32                   /* features of a step, at most */
#define PACKED_FEATURE 4                 /* bytes of a feature: float32, or two bf16 parts */
#define ADD_GRAIN 65536                  /* words that one worker adds up */
#define PACKED_NORMS 16                  /* |x|^2, loss, unit, and the sum of words */
#define SWEEP_MORE 16                    /* centroids: the last group of a sweep is half empty */
#define SWEEP_BOUNDS 1000                /* units: making the bounds that a sweep needs */
#define FUSED_BYTES ((int64_t)512 << 10) /* sums up to this size stay in cache */

bool hf_assign_packs(const hf_context *ctx) { return hf_ctx_is_host(ctx); }

bool hf_assign_fuses(const hf_context *ctx, const struct hf_sums *sums) {
    return hf_ctx_is_host(ctx) &&
           sums->k * sums->d * sums->limbs <= FUSED_BYTES / (int64_t)sizeof(int64_t);
}

size_t hf_assign_packed_bytes(int64_t n, int64_t d) {
    const int64_t rows = (n + PACKED_TILE - 1) / PACKED_TILE * PACKED_TILE;
    const int64_t row =
        (d + PACKED_STEP - 1) / PACKED_STEP * PACKED_STEP * PACKED_FEATURE + PACKED_NORMS;
    size_t bytes;
    if (!(hf_cpu_isas() & ~(uint32_t)(1 << HF_ISA_ID_scalar)) || !hf_mul_size(rows, row, &bytes))
        return 0;
    return bytes;
}

struct adding {
    const uint32_t *word;
    _Atomic uint32_t sum;
};

static uint32_t add_plain(const uint32_t *word, int64_t count) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += word[i];
    return sum;
}

#if defined(__x86_64__)
/* In vectors, which no compiler makes of it for any machine. */
__attribute__((target("avx2"))) static uint32_t add_avx2(const uint32_t *word, int64_t count) {
    const __m256i *at = (const void *)word;
    __m256i sum[4];
    uint32_t lane[32];
    int64_t i = 0;
    for (int t = 0; t < 4; t++)
        sum[t] = _mm256_setzero_si256();
    for (; i + 32 <= count; i += 32, at += 4)
        for (int t = 0; t < 4; t++)
            sum[t] = _mm256_add_epi32(sum[t], _mm256_loadu_si256(at + t));
    for (int t = 0; t < 4; t++)
        _mm256_storeu_si256((void *)(lane + 8 * t), sum[t]);
    return add_plain(lane, 32) + add_plain(word + i, count - i);
}
#endif

static void add_range(void *user, int worker, int64_t begin, int64_t end) {
    struct adding *a = user;
    uint32_t sum;
    (void)worker;
#if defined(__x86_64__)
    if (hf_cpu_has_avx2())
        sum = add_avx2(a->word + begin, end - begin);
    else
#endif
        sum = add_plain(a->word + begin, end - begin);
    atomic_fetch_add_explicit(&a->sum, sum, memory_order_relaxed);
}

static uint32_t add_words(hf_pool *pool, const void *data, size_t bytes) {
    struct adding a = {.word = data};
    hf_parallel_for(pool, (int64_t)(bytes / sizeof *a.word), ADD_GRAIN, add_range, &a);
    return a.sum;
}

/* Are packed rows, whole groups of p->lanes, and what is beside them those that were summed? */
static bool sums_agree(hf_pool *pool, const struct hf_assign_packed *p, int64_t row,
                       int64_t count) {
    const int64_t tile = 2 * (int64_t)p->lanes; /* TILE_ROWS of the kernel */
    const size_t all = (size_t)((p->rows + tile - 1) / tile * tile);
    const size_t beside = (size_t)count * sizeof(float);
    const char *data = p->data;
    const float *number = (const float *)(const void *)(data + all * p->row_bytes) + row;
    uint32_t sum = add_words(pool, data + (size_t)row * p->row_bytes, (size_t)count * p->row_bytes);
    sum += add_words(pool, number, beside);
    if (p->loss)
        sum += add_words(pool, number + all, beside);
    if (p->unit)
        sum += add_words(pool, number + 2 * all, beside);
    return sum == add_words(pool, number + 3 * all, beside);
}

bool hf_assign_packed_right(hf_pool *pool, const struct hf_assign_packed *p) {
    return p->form == 0 || !p->summed ||
           sums_agree(pool, p, 0, (p->filled + p->lanes - 1) / p->lanes * p->lanes);
}

int hf_assign_packed_wrong(hf_pool *pool, const struct hf_assign_packed *p, int64_t *first,
                           int most) {
    int count = 0;
    for (int64_t row = 0; row < p->filled; row += p->lanes) {
        if (sums_agree(pool, p, row, p->lanes))
            continue;
        if (count < most)
            first[count] = row;
        count++;
    }
    return count;
}

/* What the steps of one row cost, in units of 0.009 ns on one core of about 3.3 GHz. */
struct prices {
    double bounds; /* testing its bounds */
    double pack;   /* packing it again if they do not settle it */
    double all;    /* comparing it with all centroids */
    double one;    /* comparing it with one */
    double read;   /* reading it packed */
};

static struct prices prices_of(int64_t k, int64_t d) {
    const double features = (double)d;
    struct prices p = {.bounds = 1000 + 20 * features,
                       .pack = 500 + 40 * features,
                       .one = 2.4 * features + 14,
                       .read = 1000 + 20 * features};
#if defined(HF_HAVE_ISA_avx512)
    if (hf_cpu_isas() >> HF_ISA_ID_avx512 & 1)
        p.one = 0.5 * features + 10;
#endif
#if defined(HF_HAVE_ISA_amx)
    if (hf_cpu_isas() >> HF_ISA_ID_amx & 1)
        p.one = 0.15 * features + 8;
#endif
    p.all = (double)k * p.one;
    return p;
}

/* Packed rows only help if all of them are compared: a row that bounds do not settle is packed
 * again. */
double hf_assign_packed_share(int64_t k, int64_t d, int64_t compared) {
    const struct prices p = prices_of(k, d);
    const double without = compared < k ? p.read + (double)compared * p.one : p.all;
    return 1 - (without - p.bounds) / (p.pack + p.all);
}

double hf_assign_sweep_share(int64_t k, int64_t d, int64_t moved) {
    const struct prices p = prices_of(k, d);
    const double saved = (double)(k - moved - SWEEP_MORE) * p.one - SWEEP_BOUNDS;
    return 1 - saved / (p.pack + p.all);
}

double hf_assign_packed_partial(int64_t k, int64_t d) {
    const struct prices p = prices_of(k, d);
    return p.all / (p.pack + p.all);
}

static void assign_key(const void *args, struct hf_key *key) {
    const struct hf_assign_args *a = args;
    *key = (struct hf_key){.dtype = {a->x.dtype}, .dim = {a->x.rows, a->c.rows, a->x.cols}};
}

static void assign_cost(const void *args, double *flops, double *bytes) {
    const struct hf_assign_args *a = args;
    const double n = (double)a->x.rows;
    const double k = (double)a->c.rows;
    const double d = (double)a->x.cols;
    *flops = 2.0 * n * k * d;
    *bytes = n * d * (double)hf_dtype_bytes(a->x.dtype) + 4.0 * n +
             k * d * (double)hf_dtype_bytes(a->c.dtype);
}

/* Calls that are not exact take the answer of the filter, and each kernel has its own. */
static bool assign_unanimous(const void *args) {
    return ((const struct hf_assign_args *)args)->exact;
}

const struct hf_op hf_assign_op = {
    .name = "assign",
    .args_size = sizeof(struct hf_assign_args),
    .type = {"x"},
    .dim = {"n", "k", "d"},
    .key = assign_key,
    .cost = assign_cost,
    .unanimous = assign_unanimous,
};
