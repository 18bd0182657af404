/* SPDX-License-Identifier: Apache-2.0
 * The filter of greedy: 16-bit products on the matrix units that prove for most pairs that the
 * candidate is no nearer than the centroid the row has.
 *
 * A row x is stored as t = f16(x'), x' = (x - shift) * scale with |x'| <= 1 a component, or
 * x' = x / |x| for the cosine, whose distance is |x' - c'|^2 / 2. Candidates are rows, so they are
 * stored already. rho = |t - x'| is measured, not assumed: a float64 sum, widened for the float64
 * roundings of x' itself. With p the computed t.tc, off by at most
 * acc |t||tc| <= acc (A + C) / 2 (A = |t|^2, C = |tc|^2, acc = (ceil(d / 16) + 4) 2^-21),
 *
 *   |x' - c'| >= sqrt((A + C)(1 - acc) - 2 p) - rho_x - rho_c
 *
 * so the pair is dropped when h = (A + C)(1 - slack) - 2 p is at least (R + rho_c)^2 (1 + 2^-20),
 * R = rho_x + sqrt(near' (1 + 2^-20) + floor), near' = nearest * scale^2 (cosine: 2 nearest);
 * slack = acc + 2^-20 pays for the float32 roundings of A, C, h and R as well. The factor 1 + 2^-20
 * and floor pay for roundings and underflow of the reference: a share (d + 4) 2^-53 and
 * d 2^-1074 scale^2; for the cosine 2 (d + 8) 2^-52. NaN, Inf, and vectors whose square may under-
 * or overflow fail the comparison: the pair stays open. */
#ifndef HF_GREEDY_FILTER_CUH
#define HF_GREEDY_FILTER_CUH

#include "ops/greedy/greedy_state.cuh"

#define SMALL_SQUARE 1e-280
#define LARGE_SQUARE 1e280

/* Where columns 2 j and 2 j + 1 of row i lie in t, counted in pairs of values: lane (i % 8) * 4 +
 * j % 4 of the A operand of the 16 rows, its register 2 (j / 4 % 2) + i / 8 % 2. */
static __device__ __forceinline__ int64_t pair_place(const struct greedy_job &job, int64_t i,
                                                     int64_t j) {
    const int64_t operand = i / GREEDY_M * job.kp + j / (GREEDY_K / 2);
    const int lane = (int)(i % 8 * 4 + j % 4);
    return (operand * GREEDY_WARP + lane) * 4 + j / 4 % 2 * 2 + i / 8 % 2;
}

static __device__ __forceinline__ double warp_sum(double v) {
    for (int step = GREEDY_WARP / 2; step > 0; step /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

/* A warp a row. Rows behind the last are 0. */
template <hf_dtype T> static __global__ void greedy_convert(const struct greedy_job job) {
    const int lane = (int)threadIdx.x % GREEDY_WARP;
    const int64_t warps = (int64_t)gridDim.x * (blockDim.x / GREEDY_WARP);
    for (int64_t i = (int64_t)blockIdx.x * (blockDim.x / GREEDY_WARP) + threadIdx.x / GREEDY_WARP;
         i < job.chunks * GREEDY_CHUNK; i += warps) {
        const char *row = job.x + (i < job.n ? i : 0) * job.row_bytes;
        double factor = i < job.n ? job.scale : 0, square = 1;
        if (job.cosine && i < job.n) {
            square = 0;
            for (int64_t j = lane; j < job.d; j += GREEDY_WARP)
                square += hf_device_load<T>(row, j) * hf_device_load<T>(row, j);
            square = warp_sum(square);
            factor = 1 / sqrt(square);
        }
        double length = 0, loss = 0;
        for (int64_t j = lane; j < job.kp * (GREEDY_K / 2); j += GREEDY_WARP) {
            __half2 pair;
            for (int e = 0; e < 2; e++) {
                const int64_t at = 2 * j + e;
                const double s = job.shift && at < job.d ? job.shift[at] : 0;
                const double v =
                    at < job.d && i < job.n ? (hf_device_load<T>(row, at) - s) * factor : 0;
                const __half t = __double2half(v);
                const double stored = (double)__half2float(t);
                length += stored * stored;
                loss += (stored - v) * (stored - v);
                (e ? pair.y : pair.x) = t;
            }
            ((__half2 *)job.t)[pair_place(job, i, j)] = pair;
        }
        length = warp_sum(length);
        loss = sqrt(warp_sum(loss)) * (1 + 0x1p-40) + 0x1p-50 * sqrt(length) +
               (double)(job.d + 8) * 0x1p-51 * (job.cosine ? 1 : 0x1p-51);
        const bool known = length < 1e30 && square > SMALL_SQUARE && square < LARGE_SQUARE;
        if (lane == 0 && i < job.n)
            job.size[i] = make_float2(known ? (float)length : NAN, __double2float_ru(loss));
    }
}

/* R of a row. */
static __device__ __forceinline__ float row_radius(const struct greedy_job &job, double nearest,
                                                   float rho) {
    const double near = job.cosine ? 2 * nearest : nearest * job.scale * job.scale;
    return rho + __fsqrt_ru(__double2float_ru(near * (1 + 0x1p-20) + job.floor));
}

/* Can the candidate be nearer? size: |t|^2 and rho of either. */
static __device__ __forceinline__ bool is_open(const struct greedy_job &job, float square,
                                               float radius, float2 c, float p) {
    const float h = (square + c.x) * (1 - job.slack) - 2 * p;
    const float r = radius + c.y;
    return !(h >= r * r * (1 + 0x1p-20f));
}

static __device__ __forceinline__ void multiply(float (&d)[4], uint4 a, uint2 b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
}

/* Candidates as B operands: register h of lane is columns 8 h + 2 (lane % 4) and the next of
 * candidate lane / 4. */
template <int C>
static __device__ void stage_candidates(const struct greedy_job &job, int64_t from, int steps,
                                        struct greedy_shared<C> &sh) {
    for (int e = (int)threadIdx.x; e < steps * C * 8; e += GREEDY_THREADS) {
        const int j = e % 8, l = e / 8 % C, k = e / 8 / C;
        unsigned v = 0;
        if (l < job.trials)
            v = ((const unsigned *)job.t)[pair_place(job, sh.drawn[l], (from + k) * 8 + j)];
        unsigned *to = (unsigned *)&sh.c[k][l / GREEDY_N][l % GREEDY_N * 4 + j % 4];
        to[j / 4] = v;
    }
}

/* What the filter needs of the rows of a pass; rows that no candidate can bring nearer have 0 as
 * nearest. */
template <int C>
static __device__ __forceinline__ void look_at_rows(const struct greedy_job &job, int64_t first,
                                                    int64_t stop, struct greedy_shared<C> &sh) {
    constexpr int EACH = GREEDY_PASS / GREEDY_THREADS;
    static_assert(EACH == 1, "a thread a row: publish() and clear_pass() count on it");
    double nearest[EACH];
    float2 size[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int64_t i = first + e * GREEDY_THREADS + threadIdx.x;
        const bool valid = i < job.n && i < stop;
        nearest[e] = valid ? __ldcg(&job.nearest[i]) : 0;
        size[e] = valid ? job.size[i] : make_float2(0, 0);
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int at = e * GREEDY_THREADS + (int)threadIdx.x;
        sh.nearest[at] = nearest[e];
        sh.row[at] = make_float2(size[e].x, row_radius(job, nearest[e], size[e].y));
        sh.mask[at] = 0;
    }
}

/* After look_at_rows(): open pairs of rows [first, first + GREEDY_PASS) into sh.queue, none from
 * row `stop` on. own: the block's rows, from row base on, in the order of t. */
template <int C>
static __device__ void filter_pass(const struct greedy_job &job, int64_t base, int64_t first,
                                   int64_t stop, const uint4 *own, struct greedy_shared<C> &sh) {
    constexpr int EACH = GREEDY_PASS / GREEDY_M / GREEDY_WARPS; /* operands of a warp */
    constexpr int GROUPS = C / GREEDY_N;
    const int warp = (int)threadIdx.x / GREEDY_WARP, lane = (int)threadIdx.x % GREEDY_WARP;
    const int64_t row = first + warp * EACH * GREEDY_M;
    const int count = (int)min((stop - row) / GREEDY_M, (int64_t)EACH); /* may be negative */
    float dot[EACH][GROUPS][4] = {};
    for (int64_t from = 0; from < job.kp; from += GREEDY_SLAB) {
        const int steps = (int)min(job.kp - from, (int64_t)GREEDY_SLAB);
        __syncthreads();
        stage_candidates<C>(job, from, steps, sh);
        __syncthreads();
        const uint4 *a = own + ((row - base) / GREEDY_M * job.kp + from) * GREEDY_WARP + lane;
#pragma unroll 4
        for (int k = 0; k < steps; k++) {
            uint4 rows[EACH];
#pragma unroll
            for (int m = 0; m < EACH; m++)
                rows[m] = m < count ? a[(m * job.kp + k) * GREEDY_WARP] : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                const uint2 c = sh.c[k][g][lane];
#pragma unroll
                for (int m = 0; m < EACH; m++)
                    multiply(dot[m][g], rows[m], c);
            }
        }
    }
#pragma unroll
    for (int m = 0; m < EACH; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int at = (warp * EACH + m) * GREEDY_M + half * 8 + lane / 4;
            const float2 own_row = sh.row[at];
            if (!(sh.nearest[at] > 0))
                continue;
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int l = g * GREEDY_N + lane % 4 * 2 + e;
                    if (l < job.trials &&
                        is_open(job, own_row.x, own_row.y, sh.size[l], dot[m][g][half * 2 + e]))
                        sh.queue[atomicAdd(&sh.queued, 1)] = (unsigned short)(at * C + l);
                }
        }
}

#endif
