/* SPDX-License-Identifier: Apache-2.0
 * The fastest this machine does simple things: multiply-add in registers, matrix tiles in
 * registers, reading memory. All workers at once, because clock and bandwidth depend on how many
 * are busy. */
#include "base/clock.h"
#include "base/cpuid.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "device/host/isa.h"
#include "harness/harness.h"
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define UNIT_SECONDS 0.08
#define ROUNDS_PER_LOOK 20000                /* between two looks at the clock */
#define READ_BYTES_MAX ((uint64_t)768 << 20) /* past the largest shared caches */

static volatile float float_sink;

/* Multiply and add without vector registers or fusing: what a plain C loop may reach. */
static double rate_scalar(double seconds) {
    float a[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    volatile const float in[2] = {0.9999999f, 1e-6f};
    const float x = in[0];
    const float y = in[1];
    const double start = hf_now_s();
    double rounds = 0;
    double now;
    do {
        for (int r = 0; r < ROUNDS_PER_LOOK; r++)
            UNROLL(8)
        for (int i = 0; i < 8; i++)
            a[i] = a[i] * x + y;
        rounds += ROUNDS_PER_LOOK;
        now = hf_now_s();
    } while (now - start < seconds);
    for (int i = 1; i < 8; i++)
        a[0] += a[i];
    float_sink = a[0];
    return rounds * 8 * 2 / (now - start);
}

#if defined(__x86_64__)
/* 12 accumulators hide the latency (4 cycles) of two multiply-add ports and fit 16 registers. */
__attribute__((target("avx2,fma"))) static double rate_avx2(double seconds) {
    __m256 a[12];
    const __m256 x = _mm256_set1_ps(0.9999999f);
    const __m256 y = _mm256_set1_ps(1e-6f);
    UNROLL(12)
    for (int i = 0; i < 12; i++)
        a[i] = _mm256_set1_ps((float)i + 1);
    const double start = hf_now_s();
    double rounds = 0;
    double now;
    do {
        for (int r = 0; r < ROUNDS_PER_LOOK; r++)
            UNROLL(12)
        for (int i = 0; i < 12; i++)
            a[i] = _mm256_fmadd_ps(a[i], x, y);
        rounds += ROUNDS_PER_LOOK;
        now = hf_now_s();
    } while (now - start < seconds);
    UNROLL(12)
    for (int i = 1; i < 12; i++)
        a[0] = _mm256_add_ps(a[0], a[i]);
    float_sink = _mm256_cvtss_f32(a[0]);
    return rounds * 12 * 16 / (now - start);
}

__attribute__((target("avx512f"))) static double rate_avx512(double seconds) {
    __m512 a[12];
    const __m512 x = _mm512_set1_ps(0.9999999f);
    const __m512 y = _mm512_set1_ps(1e-6f);
    UNROLL(12)
    for (int i = 0; i < 12; i++)
        a[i] = _mm512_set1_ps((float)i + 1);
    const double start = hf_now_s();
    double rounds = 0;
    double now;
    do {
        for (int r = 0; r < ROUNDS_PER_LOOK; r++)
            UNROLL(12)
        for (int i = 0; i < 12; i++)
            a[i] = _mm512_fmadd_ps(a[i], x, y);
        rounds += ROUNDS_PER_LOOK;
        now = hf_now_s();
    } while (now - start < seconds);
    UNROLL(12)
    for (int i = 1; i < 12; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    float_sink = _mm512_cvtss_f32(a[0]);
    return rounds * 12 * 32 / (now - start);
}

/* Eight tiles of 16 rows of 64 bytes. Constant data: gcc 12 does not know that _tile_loadconfig
 * reads all 64 bytes and drops what was stored on the stack. */
static const struct tile_config {
    uint8_t palette, start, zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config = {.palette = 1,
                 .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                 .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

__attribute__((target("amx-tile,amx-bf16"))) double hf_rate_amx(double seconds) {
    uint16_t in[512]; /* a tile of bf16 */
    float out[256];
    for (int i = 0; i < 512; i++)
        in[i] = (uint16_t)(0x3c00 + i % 7);
    _tile_loadconfig(&tile_config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, in, 64);
    _tile_loadd(5, in, 64);
    _tile_loadd(6, in, 64);
    _tile_loadd(7, in, 64);
    const double start = hf_now_s();
    double rounds = 0;
    double now;
    do {
        for (int r = 0; r < ROUNDS_PER_LOOK; r++) {
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        rounds += ROUNDS_PER_LOOK;
        now = hf_now_s();
    } while (now - start < seconds);
    _tile_stored(0, out, 64);
    _tile_release();
    float_sink = out[0];
    return rounds * 4 * 16 * 16 * 32 * 2 / (now - start);
}
#else
double hf_rate_amx(double seconds) {
    (void)seconds;
    return 0;
}
#endif

hf_rate_fn *hf_rate_fma(int isa) {
    if (!((hf_cpu_isas() >> isa) & 1u))
        return NULL;
    switch (isa) {
#if defined(__x86_64__)
    case HF_ISA_ID_avx2:
        return rate_avx2;
    case HF_ISA_ID_avx512:
    case HF_ISA_ID_amx:
        return rate_avx512;
#endif
    case HF_ISA_ID_scalar:
        return rate_scalar;
    default:
        return NULL;
    }
}

struct rate_job {
    hf_rate_fn *fn;
    double sum[1024]; /* by item, one a worker */
};

static void rate_item(void *job_, int worker, int64_t begin, int64_t end) {
    struct rate_job *job = job_;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        job->fn(UNIT_SECONDS / 4); /* wide units take a while to reach their clock */
        job->sum[i] = job->fn(UNIT_SECONDS);
    }
}

static double rate_of(hf_pool *pool, hf_rate_fn *fn, struct rate_job *job) {
    const int workers = hf_pool_workers(pool);
    double sum = 0;
    job->fn = fn;
    hf_parallel_for(pool, workers, 1, rate_item, job);
    for (int i = 0; i < workers; i++)
        sum += job->sum[i];
    return sum;
}

struct read_job {
    uint64_t *data; /* [words] */
    int64_t words;  /* of an item */
    double seconds; /* 0: fill it */
    double rate[1024];
    uint64_t sink;
};

static uint64_t sum_words(const uint64_t *p, int64_t count) {
    uint64_t s[8] = {0};
    for (int64_t i = 0; i + 8 <= count; i += 8)
        UNROLL(8)
    for (int j = 0; j < 8; j++)
        s[j] += p[i + j];
    return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

static void read_item(void *job_, int worker, int64_t begin, int64_t end) {
    struct read_job *job = job_;
    (void)worker;
    for (int64_t item = begin; item < end; item++) {
        uint64_t *const p = job->data + item * job->words;
        if (job->seconds <= 0) {
            for (int64_t i = 0; i < job->words; i++)
                p[i] = (uint64_t)i * 0x9E3779B97F4A7C15u;
            continue;
        }
        const double start = hf_now_s();
        double bytes = 0;
        double now;
        uint64_t sum = 0;
        do {
            sum += sum_words(p, job->words);
            bytes += 8.0 * (double)job->words;
            now = hf_now_s();
        } while (now - start < job->seconds);
        __atomic_fetch_add(&job->sink, sum, __ATOMIC_RELAXED);
        job->rate[item] = bytes / (now - start);
    }
}

static hf_status measure_read(hf_context *ctx, hf_pool *pool, double *rate) {
    const int workers = hf_pool_workers(pool);
    const uint64_t free_bytes = hf_mem_available() / 4;
    const uint64_t bytes = free_bytes < READ_BYTES_MAX ? free_bytes : READ_BYTES_MAX;
    struct read_job *job = hf_alloc_zero(sizeof *job);
    if (job) {
        job->words = (int64_t)(bytes / 8 / (uint64_t)workers) & ~(int64_t)7;
        job->data = hf_alloc((size_t)job->words * 8 * (size_t)workers);
    }
    if (!job || !job->data) {
        hf_free(job);
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory to measure the memory bandwidth");
    }
    hf_parallel_for(pool, workers, 1, read_item, job);
    job->seconds = UNIT_SECONDS;
    hf_parallel_for(pool, workers, 1, read_item, job);
    *rate = 0;
    for (int i = 0; i < workers; i++)
        *rate += job->rate[i];
    hf_free(job->data);
    hf_free(job);
    return HF_OK;
}

hf_status hf_dev_measure_ceiling(hf_context *ctx, hf_dev_ceiling *ceiling) {
    memset(ceiling, 0, sizeof *ceiling);
    if (!hf_ctx_is_host(ctx))
        return HF_OK;
    struct rate_job job;
    hf_pool *pool = ctx->stream;
    for (int isa = 0; isa < HF_ISA_COUNT && isa < HF_DEV_MAX_ISAS; isa++) {
        hf_rate_fn *const fn = hf_rate_fma(isa);
        const bool same = isa > 0 && fn == hf_rate_fma(isa - 1);
        ceiling->fma_f32[isa] =
            same ? ceiling->fma_f32[isa - 1] : (fn ? rate_of(pool, fn, &job) : 0);
    }
    if ((hf_cpu_isas() >> HF_ISA_ID_amx) & 1u)
        ceiling->amx_bf16 = rate_of(pool, hf_rate_amx, &job);
    return measure_read(ctx, pool, &ceiling->read_bytes);
}
