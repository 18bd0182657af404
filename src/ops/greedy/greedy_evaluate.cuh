/* SPDX-License-Identifier: Apache-2.0
 * What the candidates of a step gain. Float32 dot products with the bound of seed_filter.h (terms
 * are added one after the other, so m = dp + 6 there) prove for most pairs that the candidate is no
 * nearer; the others get their reference distance. */
#ifndef HF_GREEDY_EVALUATE_CUH
#define HF_GREEDY_EVALUATE_CUH

#include "ops/chains.cuh"
#include "ops/greedy/greedy_state.cuh"

#define EVALUATE_THREADS 128
#define EVALUATE_ROWS (GREEDY_TILE / EVALUATE_THREADS) /* of a thread */
#define EVALUATE_SLAB 256 /* columns of the candidates staged at once */
#define SMALL_SQUARE 1e-280
#define LARGE_SQUARE 1e280

/* Rows as the filter sees them; a warp turns 32 rows. */
template <hf_dtype T> static __global__ void greedy_convert(const struct greedy_job job) {
    const int lane = (int)threadIdx.x % GREEDY_WARP;
    const int64_t groups = job.tiles * (GREEDY_TILE / GREEDY_WARP);
    const int64_t step = (int64_t)gridDim.x * (blockDim.x / GREEDY_WARP);
    for (int64_t g = (int64_t)blockIdx.x * (blockDim.x / GREEDY_WARP) + threadIdx.x / GREEDY_WARP;
         g < groups; g += step) {
        const int64_t i = g * GREEDY_WARP + lane;
        const char *row = (const char *)job.x.data + (i < job.n ? i : job.n - 1) * job.row_bytes;
        double square = 0;
        for (int64_t j = 0; j < job.dp; j += 4) {
            float t[4];
            for (int e = 0; e < 4; e++) {
                const double s = job.shift && j + e < job.d ? job.shift[j + e] : 0;
                const double v = j + e < job.d ? hf_device_load<T>(row, j + e) : 0;
                t[e] = (float)((v - s) * job.scale);
                square += (double)t[e] * (double)t[e];
            }
            ((float4 *)job.t)[(g * (job.dp / 4) + j / 4) * GREEDY_WARP + lane] =
                make_float4(t[0], t[1], t[2], t[3]);
        }
        if (i < job.n)
            job.nx[i] = (float)square;
    }
}

/* What row i adds to the limit: seed_row_limit() of seed_filter.h. */
static __device__ float row_limit(const struct greedy_job &job, double nearest, float nx) {
    double limit;
    if (job.cosine) {
        const double square = (double)nx / job.scale / job.scale;
        if (!(nx > 0x1p-60f && square > SMALL_SQUARE && square < LARGE_SQUARE))
            return NAN;
        limit = sqrt((double)nx) * (1 - nearest - job.slack);
    } else {
        const double near = nearest * job.scale * job.scale * (1 + 0x1p-20) + job.floor;
        limit = 0.5 * ((double)nx * (1 - job.slack) - near);
    }
    return (float)(limit - fabs(limit) * 0x1p-22);
}

/* dots [rows of this thread][C] */
template <int C>
static __device__ __forceinline__ void all_dots(const struct greedy_job &job, int64_t group,
                                                float (&dot)[EVALUATE_ROWS][C], float4 *staged) {
    const int lane = (int)threadIdx.x % GREEDY_WARP;
    const int64_t fours = job.dp / 4;
    const float4 *row = (const float4 *)job.t + group * fours * GREEDY_WARP + lane;
    for (int64_t from = 0; from < fours; from += EVALUATE_SLAB / 4) {
        const int count = (int)min(fours - from, (int64_t)EVALUATE_SLAB / 4);
        __syncthreads();
        for (int i = (int)threadIdx.x; i < count * C; i += EVALUATE_THREADS) {
            const float4 none = make_float4(0, 0, 0, 0);
            const int l = i / count, j = i % count;
            staged[j * C + l] =
                l < job.trials ? ((const float4 *)job.c)[l * fours + from + j] : none;
        }
        __syncthreads();
#pragma unroll 4
        for (int j = 0; j < count; j++) {
            float4 x[EVALUATE_ROWS];
#pragma unroll
            for (int r = 0; r < EVALUATE_ROWS; r++)
                x[r] = row[(r * fours + from + j) * GREEDY_WARP];
#pragma unroll
            for (int l = 0; l < C; l++) {
                const float4 c = staged[j * C + l];
#pragma unroll
                for (int r = 0; r < EVALUATE_ROWS; r++) {
                    float sum = fmaf(x[r].x, c.x, dot[r][l]);
                    sum = fmaf(x[r].y, c.y, sum);
                    sum = fmaf(x[r].z, c.z, sum);
                    dot[r][l] = fmaf(x[r].w, c.w, sum);
                }
            }
        }
    }
}

/* The reference distance of row i and candidate l, as seed.h has it. */
template <hf_dtype T, bool COSINE>
static __device__ double pair_distance(const struct greedy_job &job, int64_t i, int l) {
    constexpr hf_metric M = COSINE ? HF_COSINE : HF_EUCLIDEAN;
    const char *row = (const char *)job.x.data + i * job.row_bytes;
    const double *c = job.c64 + l * job.d;
    struct hf_chain s = {0, 0, 0};
#pragma unroll 8
    for (int64_t j = 0; j < job.d; j++)
        hf_chain_add<M>(&s, hf_device_load<T>(row, j), c[j]);
    const double v = hf_chain_distance<M>(s);
    return COSINE && v < 0 ? 0 : v;
}

/* A block has GREEDY_TILE rows, a thread two of them, GREEDY_WARP apart; C: trials rounded up. */
template <hf_dtype T, int C, bool COSINE>
static __global__ void __launch_bounds__(EVALUATE_THREADS, 4)
    greedy_evaluate(const struct greedy_job job) {
    __shared__ float4 staged[EVALUATE_SLAB / 4 * C];
    __shared__ unsigned short queue[GREEDY_TILE * C]; /* open pairs: row in the tile * C + l */
    __shared__ unsigned queued, mask[GREEDY_TILE];
    __shared__ hf_u64 gain[C];
    __shared__ double nearest[GREEDY_TILE];
    if (job.state->stop)
        return;
    const int64_t first = (int64_t)blockIdx.x * GREEDY_TILE;
    const int own = (int)threadIdx.x / GREEDY_WARP * EVALUATE_ROWS * GREEDY_WARP +
                    (int)threadIdx.x % GREEDY_WARP;
    float dot[EVALUATE_ROWS][C] = {};
    float limit[EVALUATE_ROWS];
    bool there[EVALUATE_ROWS];
    if (threadIdx.x < C)
        gain[threadIdx.x] = 0;
    if (threadIdx.x == 0)
        queued = 0;
#pragma unroll
    for (int r = 0; r < EVALUATE_ROWS; r++) {
        const int at = own + r * GREEDY_WARP;
        there[r] = first + at < job.n;
        nearest[at] = there[r] ? job.nearest[first + at] : 0;
        limit[r] = there[r] ? row_limit(job, nearest[at], job.nx[first + at]) : 0;
        there[r] = there[r] && nearest[at] > 0;
        mask[at] = 0;
    }
    all_dots<C>(job, (first + own) / GREEDY_WARP, dot, staged);
#pragma unroll
    for (int l = 0; l < C; l++) {
        const float c_limit = l < job.trials ? job.state->limit[l] : INFINITY;
#pragma unroll
        for (int r = 0; r < EVALUATE_ROWS; r++)
            if (there[r] && l < job.trials && !(dot[r][l] <= limit[r] + c_limit))
                queue[atomicAdd(&queued, 1)] = (unsigned short)((own + r * GREEDY_WARP) * C + l);
    }
    __syncthreads();
    for (unsigned p = threadIdx.x; p < queued; p += EVALUATE_THREADS) {
        const int at = queue[p] / C, l = queue[p] % C;
        const int64_t i = first + at;
        const double v = pair_distance<T, COSINE>(job, i, l);
        if (!(v < nearest[at]))
            continue;
        job.found[l * job.n + i] = v;
        atomicOr(&mask[at], 1u << l);
        const double unit = job.state->unit;
        atomicAdd(&gain[l],
                  greedy_quantum(job, unit, i, nearest[at]) - greedy_quantum(job, unit, i, v));
    }
    __syncthreads();
    for (int at = (int)threadIdx.x; at < GREEDY_TILE && first + at < job.n; at += EVALUATE_THREADS)
        job.mask[first + at] = mask[at];
    if (threadIdx.x < job.trials && gain[threadIdx.x] > 0)
        atomicAdd(&job.state->gain[threadIdx.x], gain[threadIdx.x]);
}

#endif
