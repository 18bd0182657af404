/* SPDX-License-Identifier: Apache-2.0
 * gemm_es on CUDA. An element of C is one thread's, which signs what it multiplies
 * (es_internal.cuh); of a pair a warp signs a step (es_pairs.cuh). As many faults as are asked for
 * are tried at once, each by a thread that goes through all words in their order. */
#include "base/dtype.h"
#include "core/kernel.h"
#include "device/cuda/stage.h"
#include "ops/gemm/cuda/checksum.cuh"
#include "ops/gemm_es/es_pairs.cuh"

#define THREADS 128
#define FOLD_VECTORS 256 /* of an internal loop, before sums are reduced */
#define FLIPS_OF_LAUNCH ((int64_t)1 << 30)

struct es_job {
    struct hf_gemm_es_args args; /* with pointers of the device */
    int64_t flip, flips;         /* of this launch */
};

static __global__ void __launch_bounds__(THREADS) es_product(const struct hf_gemm_es_args p) {
    const int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= p.m * p.n)
        return;
    const int64_t i = at / p.n, j = at % p.n;
    float sum = 0;
    for (int64_t q = 0; q < p.k; q++)
        sum = __fadd_rn(sum, __fmul_rn(p.a[i * p.k + q], p.b[q * p.n + j]));
    p.c[at] = sum != sum ? __int_as_float((int)0xffc00000) : sum; /* the NaN that a CPU makes */
}

/* The operands with one bit flipped. */
struct es_words {
    const uint32_t *a, *b;
    int64_t of_a; /* words of A */
    int64_t at;   /* operand */
    uint32_t mask;
};

static __device__ __forceinline__ uint32_t es_word(const struct es_words &w, int64_t at) {
    const uint32_t v = at < w.of_a ? __ldg(w.a + at) : __ldg(w.b + (at - w.of_a));
    return at == w.at ? v ^ w.mask : v;
}

struct es_sum {
    int checksum;
    const uint32_t *table;
    struct gemm_sign entry[HF_ES_ENTRIES];
};

static __device__ __forceinline__ void es_take(struct es_sum *s, int entry, uint32_t word) {
    const uint32_t w[1] = {word};
    gemm_sign_words(&s->entry[entry], s->checksum, s->table, w);
}

static __device__ __forceinline__ void es_begin(struct es_sum *s) {
#pragma unroll
    for (int e = 0; e < HF_ES_ENTRIES; e++)
        gemm_sign_begin(&s->entry[e], s->checksum);
}

static __device__ __forceinline__ void es_fold(struct es_sum *s) {
#pragma unroll
    for (int e = 0; e < HF_ES_ENTRIES; e++)
        gemm_sign_fold(&s->entry[e], s->checksum);
}

/* Columns of b in whole vectors; none of the sequential form. */
static __device__ __forceinline__ int64_t es_whole(const struct hf_gemm_es_args &p) {
    return p.form == HF_ES_AVX ? p.n / HF_ES_LANES * HF_ES_LANES : 0;
}

/* The words of the internal loop of (i, q). */
static __device__ __forceinline__ void es_internal(const struct hf_gemm_es_args &p,
                                                   const struct es_words &w, int64_t i, int64_t q,
                                                   struct es_sum *s) {
    const int64_t whole = es_whole(p), row = w.of_a + q * p.n;
    /* The entry of the rest, by a constant: an index would move all entries to memory. */
    const auto rest = [&](uint32_t word) {
        if (p.form == HF_ES_AVX)
            es_take(s, HF_ES_LANES, word);
        else
            es_take(s, 0, word);
    };
    rest(es_word(w, i * p.k + q));
    for (int64_t j = 0; j < whole; j += HF_ES_LANES) {
#pragma unroll
        for (int l = 0; l < HF_ES_LANES; l++)
            es_take(s, l, es_word(w, row + j + l));
        if (j / HF_ES_LANES % FOLD_VECTORS == FOLD_VECTORS - 1)
            es_fold(s);
    }
    for (int64_t j = whole; j < p.n; j++) {
        rest(es_word(w, row + j));
        if (j % FOLD_VECTORS == FOLD_VECTORS - 1)
            es_fold(s);
    }
    es_fold(s);
}

/* After the internal loop, or (external) after the intermediate one. */
static __device__ __forceinline__ void es_after(const struct hf_gemm_es_args &p,
                                                const struct es_words &w, int64_t i, int64_t q,
                                                bool external, struct es_sum *s) {
    const bool avx = p.form == HF_ES_AVX;
    const int64_t whole = es_whole(p), row = w.of_a + q * p.n;
    if (!avx) {
        es_take(s, 0, es_word(w, i * p.k + q));
        es_take(s, 0, es_word(w, row + p.n - 1));
        gemm_sign_fold(&s->entry[0], s->checksum);
        return;
    }
    es_take(s, HF_ES_LANES, es_word(w, i * p.k + q));
    if (whole > 0) {
#pragma unroll
        for (int l = 0; l < HF_ES_LANES; l++)
            es_take(s, l, es_word(w, row + whole - HF_ES_LANES + l));
    } else if (external) {
        es_take(s, HF_ES_LANES, es_word(w, row + p.n - 1));
    }
    for (int64_t j = whole; !external && j < p.n; j++)
        es_take(s, HF_ES_LANES, es_word(w, row + j));
    es_fold(s);
}

/* The values of an inner checksum are the words of the outer one. */
static __device__ __forceinline__ void es_pair(const struct es_sum &inner, bool wide,
                                               struct es_sum *outer) {
#pragma unroll
    for (int e = 0; e < HF_ES_ENTRIES; e++) {
        const uint64_t value = gemm_sign_value(&inner.entry[e], inner.checksum);
        es_take(outer, e, (uint32_t)value);
        if (wide)
            es_take(outer, e, (uint32_t)(value >> 32));
    }
    es_fold(outer);
}

static __device__ __forceinline__ void es_single(const struct hf_gemm_es_args &p,
                                                 const struct es_words &w, struct es_sum *s) {
    es_begin(s);
    for (int64_t i = 0; i < p.m; i++) {
        for (int64_t q = 0; q < p.k && p.level != HF_ES_E; q++)
            if (p.level == HF_ES_I)
                es_internal(p, w, i, q, s);
            else if (p.level == HF_ES_M)
                es_after(p, w, i, q, false, s);
        if (p.level == HF_ES_E)
            es_after(p, w, i, p.k - 1, true, s);
    }
}

static __device__ __forceinline__ void es_double(const struct hf_gemm_es_args &p,
                                                 const struct es_words &w, struct es_sum *inner,
                                                 struct es_sum *outer) {
    es_begin(outer);
    for (int64_t i = 0; i < p.m; i++)
        for (int64_t q = 0; q < p.k; q++) {
            es_begin(inner);
            es_internal(p, w, i, q, inner);
            es_pair(*inner, inner->checksum == HF_CHECKSUM_FLETCHER, outer);
        }
}

/* Each thread compares the signature with its fault with that without. */
template <bool PAIR>
static __global__ void __launch_bounds__(THREADS) es_sign(const struct es_job job) {
    __shared__ uint32_t table[2][GEMM_CRC_WORDS];
    const struct hf_gemm_es_args &p = job.args;
    const int64_t f = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (gemm_is_crc(p.checksum))
        gemm_crc_fill(table[0], p.checksum);
    if (PAIR && gemm_is_crc(p.outer))
        gemm_crc_fill(table[1], p.outer);
    __syncthreads();
    if (f >= job.flips)
        return;
    const int64_t fault = p.first_flip + job.flip + f;
    const struct es_words w = {(const uint32_t *)p.a, (const uint32_t *)p.b, p.m * p.k, fault / 32,
                               1u << fault % 32};
    struct es_sum s = {p.checksum, table[0], {}}, outer = {p.outer, table[1], {}};
    if (PAIR)
        es_double(p, w, &s, &outer);
    else if (p.level != HF_ES_NONE)
        es_single(p, w, &s);
    else
        es_begin(&s);
    const struct es_sum &all = PAIR ? outer : s;
    bool differs = false;
#pragma unroll
    for (int e = 0; e < HF_ES_ENTRIES; e++) {
        const bool used = e == 0 || p.form == HF_ES_AVX;
        const uint64_t value = used ? gemm_sign_value(&all.entry[e], all.checksum) : 0;
        differs |= value != p.signature[e];
    }
    p.seen[job.flip + f] = differs;
}

static hf_status sign(struct hf_cuda *cuda, const struct es_job &job) {
    const int64_t blocks = (job.flips + THREADS - 1) / THREADS;
    if (job.args.level == HF_ES_PAIR)
        es_sign<true><<<(unsigned)blocks, THREADS, 0, cuda->stream>>>(job);
    else
        es_sign<false><<<(unsigned)blocks, THREADS, 0, cuda->stream>>>(job);
    return hf_cuda_launched(cuda, "gemm_es");
}

/* The same for one loop and for pairs: the threads sign what they multiply, or a warp a step. */
template <int CHECKSUM>
static void launch_signed(struct hf_cuda *cuda, const struct hf_gemm_es_args &args,
                          struct es_work *work, const struct es_two_powers &powers) {
    const unsigned blocks = (unsigned)((args.m * args.n + ES_THREADS - 1) / ES_THREADS);
    const int64_t steps = (args.m * args.k + ES_WARPS - 1) / ES_WARPS, most = 16 * cuda->sms;
    if (args.level != HF_ES_PAIR && es_is_crc(CHECKSUM))
        es_fill_jumps<<<2 * GEMM_CRC_WORDS / ES_THREADS, ES_THREADS, 0, cuda->stream>>>(
            args, work, powers.inner);
    if (args.level == HF_ES_PAIR)
        es_pair_cells<CHECKSUM>
            <<<(unsigned)(steps < most ? steps : most), ES_THREADS, 0, cuda->stream>>>(args, work,
                                                                                       powers);
    else if (args.level == HF_ES_I)
        es_signed_product<CHECKSUM, true>
            <<<blocks, ES_THREADS, 0, cuda->stream>>>(args, work, powers.inner);
    else
        es_signed_product<CHECKSUM, false>
            <<<blocks, ES_THREADS, 0, cuda->stream>>>(args, work, powers.inner);
}

/* Warps of a product whose CRCs are joined by another launch. */
static int64_t parts_of(const struct hf_gemm_es_args &args) {
    const bool joins = es_is_crc(args.checksum) && args.form == HF_ES_SEQ && args.level == HF_ES_I;
    return joins ? (args.m * args.n + ES_THREADS - 1) / ES_THREADS * ES_WARPS : 0;
}

static hf_status signed_product(struct hf_cuda *cuda, const struct hf_gemm_es_args &args,
                                struct es_work *work) {
    const struct es_two_powers powers = {es_powers_of(args.checksum), es_powers_of(args.outer)};
    HF_TRY(hf_cuda_check(cuda, cudaMemsetAsync(work->total, 0, sizeof work->total, cuda->stream),
                         "gemm_es"));
    switch (args.checksum) {
    case HF_CHECKSUM_XOR:
        launch_signed<HF_CHECKSUM_XOR>(cuda, args, work, powers);
        break;
    case HF_CHECKSUM_ONES:
        launch_signed<HF_CHECKSUM_ONES>(cuda, args, work, powers);
        break;
    case HF_CHECKSUM_FLETCHER:
        launch_signed<HF_CHECKSUM_FLETCHER>(cuda, args, work, powers);
        break;
    case HF_CHECKSUM_CRC32:
    case HF_CHECKSUM_CRC32C:
        launch_signed<HF_CHECKSUM_CRC32>(cuda, args, work, powers);
        break;
    default: /* plain sums */
        launch_signed<HF_CHECKSUM_TWOS>(cuda, args, work, powers);
    }
    HF_TRY(hf_cuda_launched(cuda, "gemm_es"));
    const int64_t parts = parts_of(args);
    if (parts > 0)
        es_join_parts<<<(unsigned)((parts + ES_THREADS - 1) / ES_THREADS), ES_THREADS, 0,
                        cuda->stream>>>((const struct es_part *)(work + 1), parts, work->total,
                                        powers.inner);
    es_signed_end<<<1, HF_ES_ENTRIES, 0, cuda->stream>>>(
        args, work, args.level == HF_ES_PAIR ? powers.outer : powers.inner);
    return hf_cuda_launched(cuda, "gemm_es");
}

static hf_status product(struct hf_cuda *cuda, const struct hf_gemm_es_args &args,
                         struct es_work *work) {
    const int64_t blocks = (args.m * args.n + THREADS - 1) / THREADS;
    if (args.level == HF_ES_NONE || args.level == HF_ES_PAIR) {
        es_product<<<(unsigned)blocks, THREADS, 0, cuda->stream>>>(args);
        HF_TRY(hf_cuda_launched(cuda, "gemm_es"));
    }
    if (args.level != HF_ES_NONE)
        return signed_product(cuda, args, work);
    return hf_cuda_check(
        cuda,
        cudaMemsetAsync(args.signature, 0, HF_ES_ENTRIES * sizeof *args.signature, cuda->stream),
        "gemm_es");
}

static hf_status launch(struct hf_cuda *cuda, const struct hf_gemm_es_args &args,
                        struct es_work *work) {
    struct es_job job = {args, 0, 0};
    HF_TRY(product(cuda, args, work));
    for (; job.flip < args.flips; job.flip += FLIPS_OF_LAUNCH) {
        const int64_t left = args.flips - job.flip;
        job.flips = left < FLIPS_OF_LAUNCH ? left : FLIPS_OF_LAUNCH;
        HF_TRY(sign(cuda, job));
    }
    return HF_OK;
}

static hf_status es_run(const struct hf_call *call) {
    struct hf_gemm_es_args args = *(const struct hf_gemm_es_args *)call->args;
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    const size_t a = (size_t)(args.m * args.k), b = (size_t)(args.k * args.n);
    args.a = (const float *)hf_stage_in(&stage, args.a, a * sizeof(float));
    args.b = (const float *)hf_stage_in(&stage, args.b, b * sizeof(float));
    args.c = (float *)hf_stage_out(&stage, args.c, (size_t)(args.m * args.n) * sizeof(float));
    args.signature =
        (uint64_t *)hf_stage_out(&stage, args.signature, HF_ES_ENTRIES * sizeof(uint64_t));
    args.seen = (uint8_t *)hf_stage_out(&stage, args.seen, (size_t)args.flips);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    return hf_stage_end(&stage,
                        launch((struct hf_cuda *)call->stream, args, (struct es_work *)call->ws));
}

static bool es_supports(const struct hf_call *call) {
    const struct hf_gemm_es_args *args = (const struct hf_gemm_es_args *)call->args;
    return args->checksum != HF_CHECKSUM_CRC_COLUMNS &&
           (args->level != HF_ES_PAIR || args->outer != HF_CHECKSUM_CRC_COLUMNS);
}

static size_t es_workspace(const struct hf_call *call) {
    const struct hf_gemm_es_args *args = (const struct hf_gemm_es_args *)call->args;
    return sizeof(struct es_work) + (size_t)parts_of(*args) * sizeof(struct es_part);
}

static double es_estimate(const struct hf_call *call) {
    const struct hf_gemm_es_args *args = (const struct hf_gemm_es_args *)call->args;
    return 20000 + 0.1 * (double)args->m * (double)args->k * (double)(args->n + 1);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("gemm_es_f32_cuda", HF_DT(HF_F32), 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE,
                   es_supports, es_workspace, es_run, es_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_gemm_es_kernels_cuda;
const struct hf_kernel_table hf_gemm_es_kernels_cuda = {kernels, 1};
}
