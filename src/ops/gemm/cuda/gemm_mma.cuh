/* SPDX-License-Identifier: Apache-2.0
 * Products of 16-bit numbers by mma.sync. A tile's 8 warps have 64 x 32 sums each; four stages of
 * 32 products lie in shared memory, brought by cp.async. An element's sum goes through steps of 16
 * products in order, so that its bits depend on its row and column alone. */
#ifndef HF_GEMM_MMA_CUH
#define HF_GEMM_MMA_CUH

#include "device/cuda/ptx.cuh"
#include "ops/gemm/cuda/gemm_sign.cuh"

#define MMA_TILE 128
#define MMA_DEPTH 32 /* products of a stage */
#define MMA_STAGES 4
#define MMA_SIDE (MMA_TILE * MMA_DEPTH * 2) /* bytes of a stage of A or B */
#define MMA_SHARED (MMA_STAGES * 2 * MMA_SIDE)
#define MMA_PIECES (MMA_SIDE / 16 / GEMM_THREADS) /* of 16 bytes a thread brings of a side */

/* Where 16 bytes of a side lie in its stage. By lines (the products of a line lie in one piece in
 * memory): [line][4 pieces], by products: [product][16 pieces]; pieces are exchanged so that eight
 * lines, or products, at one place meet all banks. */
static __device__ __forceinline__ uint32_t mma_by_line(int line, int piece) {
    return (uint32_t)(line * 64 + ((piece ^ (line >> 1 & 3)) << 4));
}
static __device__ __forceinline__ uint32_t mma_by_product(int product, int piece) {
    return (uint32_t)(product * 256 + ((piece ^ (product & 7)) << 4));
}

/* Start the copies of products from `from` on; what is not there becomes 0. */
static __device__ __forceinline__ void mma_fetch(const struct gemm_side &side, const uint16_t *data,
                                                 uint32_t stage, int64_t first, int64_t from,
                                                 int64_t k) {
    const bool along = side.step == 1;
#pragma unroll
    for (int i = 0; i < MMA_PIECES; i++) {
        const int at = (int)threadIdx.x + i * GEMM_THREADS;
        const int line = along ? at / 4 : at % 16 * 8;
        const int product = along ? at % 4 * 8 : at / 16;
        const int64_t l = first + line, p = from + product;
        const int64_t left = along ? k - p : side.lines - l;
        const bool there = along ? l < side.lines : p < k;
        const int bytes = !there || left <= 0 ? 0 : left >= 8 ? 16 : (int)left * 2;
        const uint16_t *src = bytes > 0 ? data + l * side.line + p * side.step : data;
        hf_copy_async(
            stage + (along ? mma_by_line(line, product / 8) : mma_by_product(product, line / 8)),
            src, (uint32_t)bytes);
    }
}

static __device__ __forceinline__ void mma_ldmatrix_turned(uint32_t (&r)[4], uint32_t p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(p)
                 : "memory");
}

/* 16 lines from `line` on, 16 products from `product` on (both multiples of 16). Of A: registers as
 * mma wants them: lines + 0, + 8, then products + 8. Of B (columns): products + 0, + 8 of the first
 * eight lines, then of the others. */
template <bool OF_A>
static __device__ __forceinline__ void mma_load(uint32_t (&r)[4], uint32_t stage, bool along,
                                                int line, int product) {
    const int lane = (int)threadIdx.x % 32, eight = lane % 8;
    const int first = lane / 8 % 2, second = lane / 16;
    const int l = line + (OF_A ? first : second) * 8, p = product + (OF_A ? second : first) * 8;
    if (along)
        hf_ldmatrix(r, stage + mma_by_line(l + eight, p / 8));
    else
        mma_ldmatrix_turned(r, stage + mma_by_product(p + eight, l / 8));
}

template <hf_dtype T>
static __device__ __forceinline__ void mma_step(float *d, const uint32_t (&a)[4], uint32_t b0,
                                                uint32_t b1) {
    if constexpr (T == HF_F16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The words of a stage of one side that this thread signs: its own 16 bytes, as they lie. */
static __device__ __forceinline__ void mma_sign(struct gemm_sign *sign, int checksum,
                                                const uint32_t *table, const char *stage) {
    uint32_t w[4 * MMA_PIECES];
#pragma unroll
    for (int i = 0; i < MMA_PIECES; i++) {
        const uint4 v = *(const uint4 *)(stage + ((int)threadIdx.x + i * GEMM_THREADS) * 16);
        w[4 * i] = v.x, w[4 * i + 1] = v.y, w[4 * i + 2] = v.z, w[4 * i + 3] = v.w;
    }
    gemm_sign_words(sign, checksum, table, w);
}

/* A fault on purpose: bit plant_at % 32 of the word that holds element plant_at / 32 of op(A). */
static __device__ __forceinline__ void
mma_plant(const struct gemm_job &job, const struct gemm_place &place, int64_t stage, char *a) {
    const int64_t element = job.plant_at / 32, row = element / job.k, p = element % job.k;
    const int64_t product = p - stage * MMA_DEPTH, line = row - (int64_t)place.row * MMA_TILE;
    __syncthreads();
    if (threadIdx.x == 0 && place.col == 0 && place.batch == 0 && product >= 0 &&
        product < MMA_DEPTH && line >= 0 && line < MMA_TILE) {
        const int l = (int)line, q = (int)product;
        const uint32_t at = job.a.step == 1 ? mma_by_line(l, q / 8) + (uint32_t)(q % 8 * 2)
                                            : mma_by_product(q, l / 8) + (uint32_t)(l % 8 * 2);
        *(uint32_t *)(a + at / 4 * 4) ^= 1u << job.plant_at % 32;
    }
    __syncthreads();
}

template <hf_dtype T>
static __device__ __forceinline__ void mma_multiply(float (&sum)[4][16], uint32_t stage,
                                                    bool along_a, bool along_b) {
    const int row = (int)threadIdx.x / 32 % 2 * 64, col = (int)threadIdx.x / 64 * 32;
#pragma unroll
    for (int p = 0; p < MMA_DEPTH; p += 16) {
        uint32_t a[4][4], b[2][4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            mma_load<true>(a[i], stage, along_a, row + i * 16, p);
#pragma unroll
        for (int j = 0; j < 2; j++)
            mma_load<false>(b[j], stage + MMA_SIDE, along_b, col + j * 16, p);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                mma_step<T>(sum[i] + 4 * j, a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
}

template <hf_dtype T, bool SIGNED>
static __global__ void __launch_bounds__(GEMM_THREADS, 2)
    mma_kernel(const __grid_constant__ struct gemm_job job) {
    extern __shared__ __align__(128) char mma_shared[];
    const uint32_t base = hf_shared(mma_shared);
    char *const signs = mma_shared + MMA_SHARED;
    const int64_t tile = job.first_tile + blockIdx.x;
    const struct gemm_place place = gemm_place_of(job, tile);
    const uint16_t *const a = (const uint16_t *)job.a.data + place.batch * job.a.stride;
    const uint16_t *const b = (const uint16_t *)job.b.data + place.batch * job.b.stride;
    const int64_t row = (int64_t)place.row * MMA_TILE, col = (int64_t)place.col * MMA_TILE;
    const bool along_a = job.a.step == 1, along_b = job.b.step == 1;
    const int count = (int)((job.k + MMA_DEPTH - 1) / MMA_DEPTH), warp = (int)threadIdx.x / 32;
    float sum[4][16] = {};
    struct gemm_signer signer;
    if (SIGNED)
        gemm_signer_begin(&signer, signs + GEMM_SUMS_BYTES + warp * GEMM_KEPT_BYTES,
                          (uint32_t *)(signs + GEMM_SUMS_BYTES + GEMM_WARPS * GEMM_KEPT_BYTES),
                          job.checksum, place);
    if (SIGNED)
        signer.stages = count;
    if (SIGNED && gemm_is_crc(job.checksum))
        gemm_crc_fill(signer.table, job.checksum);
    const auto fetch = [&](int stage) {
        const uint32_t to = base + (uint32_t)(stage % MMA_STAGES * 2 * MMA_SIDE);
        const int64_t from = (int64_t)stage * MMA_DEPTH;
        if (stage < count) {
            mma_fetch(job.a, a, to, row, from, job.k);
            mma_fetch(job.b, b, to + MMA_SIDE, col, from, job.k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int s = 0; s < MMA_STAGES - 1; s++)
        fetch(s);
    for (int stage = 0; stage < count; stage++) {
        const int own = stage % MMA_STAGES * 2 * MMA_SIDE;
        const auto sign = [&](struct gemm_sign *state, bool of_a) {
            mma_sign(state, job.checksum, signer.table, mma_shared + own + (of_a ? 0 : MMA_SIDE));
        };
        asm volatile("cp.async.wait_group %0;" ::"n"(MMA_STAGES - 2) : "memory");
        __syncthreads(); /* this stage has come for all, and the one before is free */
        fetch(stage + MMA_STAGES - 1);
        if (SIGNED)
            gemm_staged(gemm_turns_of(job), &signer, stage, sign);
        if (SIGNED && job.plant == HF_GEMM_PLANT_A)
            mma_plant(job, place, stage, mma_shared + own);
        mma_multiply<T>(sum, base + (uint32_t)own, along_a, along_b);
        if (SIGNED)
            gemm_released(job, &signer, tile, {row, col}, sign);
    }
    struct gemm_sign sums;
    float *const block = (float *)(mma_shared + warp * GEMM_BLOCK_BYTES);
    const auto see = [&](const struct gemm_spot &spot, float(&v)[4]) {
        if (SIGNED)
            gemm_sign_four<true>(job, signer, &sums, spot, v);
    };
    gemm_sign_begin(&sums, job.checksum);
    __syncthreads(); /* the table is there, the stages are free */
#pragma unroll 1
    for (int r = 0; r < 4; r++) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i == r)
                gemm_block_keep(block, sum[i]);
        gemm_block_store(job, {place.batch, row + warp % 2 * 64 + r * 16, col + warp / 2 * 32},
                         block, see);
    }
    gemm_sign_fold(&sums, job.checksum);
    if (SIGNED) {
        gemm_signer_end<0>(job, &signer, &sums, place, gemm_key(place), (uint64_t *)signs);
        gemm_finish<0>(job, 1, (uint64_t *)signs);
    }
}

template <hf_dtype T, bool SIGNED>
static hf_status mma_start(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    const int shared = MMA_SHARED + (SIGNED ? GEMM_SIGN_BYTES : 0);
    return gemm_start(cuda, mma_kernel<T, SIGNED>, job, blocks, shared);
}

template <hf_dtype T>
static hf_status mma_launch(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    return job->entries != NULL ? mma_start<T, true>(cuda, job, blocks)
                                : mma_start<T, false>(cuda, job, blocks);
}

#endif
