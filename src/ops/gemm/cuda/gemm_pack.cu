/* SPDX-License-Identifier: Apache-2.0
 * A copy of a matrix whose rows, as they lie in memory, begin at multiples of 16 bytes, with zeros
 * behind the last line of a tile: kernels read 16 bytes at a time then, and ask no more. */
#include "base/dtype.h"
#include "base/mem.h"
#include "ops/gemm/cuda/gemm_job.h"
#include "ops/gemm/cuda/gemm_tile.cuh"

#define THREADS 256

/* Rows and columns as they lie in memory. */
struct pack {
    const void *from;
    void *to;
    int64_t rows, cols, count; /* of a matrix, and of matrices */
    int64_t ld, stride;        /* of from */
    int64_t rows_to, ld_to;
};

/* Numbers of so many bytes. */
template <typename E>
static __global__ void __launch_bounds__(THREADS) gemm_pack_rows(struct pack p) {
    constexpr int V = 16 / sizeof(E);
    const int64_t all = p.count * p.rows_to;
    for (int64_t line = blockIdx.x; line < all; line += gridDim.x) {
        const int64_t b = line / p.rows_to, row = line - b * p.rows_to;
        const E *const from = (const E *)p.from + b * p.stride + row * p.ld;
        const int64_t cols = row < p.rows ? p.cols : 0;
        E *const to = (E *)p.to + line * p.ld_to;
        for (int64_t i = threadIdx.x * V; i < p.ld_to; i += THREADS * V) {
            gemm_vec<E, V> v;
#pragma unroll
            for (int j = 0; j < V; j++)
                v.e[j] = i + j < cols ? from[i + j] : (E)0;
            *(gemm_vec<E, V> *)(to + i) = v;
        }
    }
}

static int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/* Lines are filled up to a whole tile where they are as many as one. */
static struct pack pack_of(const struct gemm_pack_args *args) {
    const struct gemm_side *side = args->side;
    const bool along = side->step == 1;
    const int64_t bytes =
        args->k >= 256 ? 128 : 16; /* whole lines of the cache, if that is not much */
    const int64_t per = bytes / (int64_t)hf_dtype_bytes(args->dtype);
    const int64_t lines =
        side->lines >= args->tile ? round_up(side->lines, args->tile) : side->lines;
    struct pack p = {};
    p.from = side->data;
    p.rows = along ? side->lines : args->k;
    p.cols = along ? args->k : side->lines;
    p.count = side->stride == 0 ? 1 : args->batch;
    p.ld = along ? side->line : side->step;
    p.stride = side->stride;
    p.rows_to = along ? lines : args->k;
    p.ld_to = round_up(along ? args->k : lines, per);
    return p;
}

size_t hf_gemm_packed_bytes(const struct gemm_pack_args *args) {
    const struct pack p = pack_of(args);
    return hf_align_up((size_t)(p.count * p.rows_to * p.ld_to) * hf_dtype_bytes(args->dtype));
}

hf_status hf_gemm_pack(struct hf_cuda *cuda, const struct gemm_pack_args *args, void *to) {
    struct gemm_side *side = args->side;
    struct pack p = pack_of(args);
    const int64_t lines = p.count * p.rows_to, most = 16 * (int64_t)cuda->sms;
    const unsigned blocks = (unsigned)(lines < most ? lines : most);
    p.to = to;
    switch (hf_dtype_bytes(args->dtype)) {
    case 8:
        gemm_pack_rows<uint64_t><<<blocks, THREADS, 0, cuda->stream>>>(p);
        break;
    case 4:
        gemm_pack_rows<uint32_t><<<blocks, THREADS, 0, cuda->stream>>>(p);
        break;
    default:
        gemm_pack_rows<uint16_t><<<blocks, THREADS, 0, cuda->stream>>>(p);
    }
    side->data = to;
    side->stride = p.count == 1 ? 0 : p.rows_to * p.ld_to;
    side->lines = side->step == 1 ? p.rows_to : side->lines < args->tile ? side->lines : p.ld_to;
    *(side->step == 1 ? &side->line : &side->step) = p.ld_to;
    side->wide = true;
    return hf_cuda_launched(cuda, "gemm");
}
