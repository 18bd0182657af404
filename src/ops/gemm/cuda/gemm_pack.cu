/* SPDX-License-Identifier: Apache-2.0
 * A copy of a matrix of 16-bit numbers whose rows, as they lie in memory, begin at multiples of 16
 * bytes: tensor cores are fed 16 bytes at a time. */
#include "base/mem.h"
#include "ops/gemm/cuda/gemm_job.h"

#define THREADS 256

/* Rows and columns as they lie in memory. */
struct pack {
    const uint16_t *from;
    uint16_t *to;
    int64_t rows, cols, count; /* of a matrix, and of matrices */
    int64_t ld, stride;        /* of from */
    int64_t ld_to;
};

static __global__ void __launch_bounds__(THREADS) gemm_pack_rows(const struct pack p) {
    const int64_t all = p.count * p.rows;
    for (int64_t line = blockIdx.x; line < all; line += gridDim.x) {
        const int64_t b = line / p.rows, row = line - b * p.rows;
        const uint16_t *const from = p.from + b * p.stride + row * p.ld;
        uint16_t *const to = p.to + line * p.ld_to;
        for (int64_t i = threadIdx.x * 2; i < p.ld_to; i += THREADS * 2) {
            const uint32_t low = i < p.cols ? from[i] : 0, high = i + 1 < p.cols ? from[i + 1] : 0;
            *(uint32_t *)(to + i) = low | high << 16;
        }
    }
}

static struct pack pack_of(const struct gemm_side *side, int64_t k, int64_t batch) {
    const bool along = side->step == 1;
    struct pack p = {};
    p.rows = along ? side->lines : k;
    p.cols = along ? k : side->lines;
    p.count = side->stride == 0 ? 1 : batch;
    p.ld = along ? side->line : side->step;
    p.stride = side->stride;
    p.ld_to = (p.cols + 7) / 8 * 8;
    return p;
}

size_t hf_gemm_packed_bytes(const struct gemm_side *side, int64_t k, int64_t batch) {
    const struct pack p = pack_of(side, k, batch);
    return hf_align_up((size_t)(p.count * p.rows * p.ld_to) * sizeof(uint16_t));
}

hf_status hf_gemm_pack(struct hf_cuda *cuda, struct gemm_side *side, int64_t k, int64_t batch,
                       void *to) {
    struct pack p = pack_of(side, k, batch);
    const int64_t lines = p.count * p.rows, most = 16 * (int64_t)cuda->sms;
    p.from = (const uint16_t *)side->data;
    p.to = (uint16_t *)to;
    gemm_pack_rows<<<(unsigned)(lines < most ? lines : most), THREADS, 0, cuda->stream>>>(p);
    side->data = to;
    side->stride = p.count == 1 ? 0 : p.rows * p.ld_to;
    *(side->step == 1 ? &side->line : &side->step) = p.ld_to;
    side->wide = true;
    return hf_cuda_launched(cuda, "gemm");
}
