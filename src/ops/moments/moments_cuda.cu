/* SPDX-License-Identifier: Apache-2.0
 * moments on CUDA: one pass over x, sums of a thread's columns in registers. A term costs ten
 * float64 operations and eight on integers, which for 16-bit data take longer than the memory.
 * Where nothing but the last digit of a square can be rounded, seven and two do. blockIdx.z
 * is the problem. */
#include "core/kernel.h"
#include "device/cuda/pack.cuh"
#include "device/cuda/reduce.cuh"
#include "device/cuda/stage.h"
#include "ops/moments/moments.h"

#define THREADS 256
#define FLIGHT_BYTES 64 /* loads of a thread that are under way at once */
#define SUMS 4          /* both limbs of both sums */

#define EXACT_FLIGHT 32 /* likewise where the next ones are loaded while terms are added */
#define EXACT_TURNS 256 /* of a loop over 8 rows at most, after which float64 sums are put away */
#define EXACT_SHIFT 0x1p16 /* the largest shift */

struct moments_job {
    const char *x;
    int64_t row_bytes, n, d; /* n rows of a problem */
    int64_t batch;
    const double *shift, *mult, *mult_square; /* [batch, d] */
    double limb;                              /* 2^bits */
    hf_u64 *sum;                              /* [batch, 2, d] */
    hf_u64 *square;
};

/* What a block sees: its problem alone. */
static __device__ __forceinline__ struct moments_job own_problem(const struct moments_job &all) {
    struct moments_job job = all;
    const int64_t p = blockIdx.z;
    job.x += p * job.n * job.row_bytes;
    job.shift += p * job.d;
    job.mult += p * job.d;
    job.mult_square += p * job.d;
    job.sum += p * 2 * job.d;
    job.square += p * 2 * job.d;
    return job;
}

/* Values of T are multiples of 2^-digits_of<T> with an absolute value below 2^16; -1: they may be
 * smaller or larger. */
template <hf_dtype T> static constexpr int digits_of = T == HF_F16 ? 24 : T == HF_U8 ? 0 : -1;

/* What a thread adds up: N columns, with the magic bits (see add_limbs) of some number of terms. */
template <int N> struct moments_sums {
    hf_u64 sum[N][SUMS];
    hf_u64 terms;
};

template <int N> static __device__ __forceinline__ void sums_start(struct moments_sums<N> *to) {
    to->terms = 0;
#pragma unroll
    for (int e = 0; e < N; e++)
#pragma unroll
        for (int s = 0; s < SUMS; s++)
            to->sum[e][s] = 0;
}

/* The low bits of v + HF_RINT_MAGIC are those of the whole number next to v. */
static __device__ __forceinline__ void add_whole(double v, hf_u64 *sum) {
    *sum += (hf_u64)__double_as_longlong(v);
}

/* Both limbs of v onto sum[0] and sum[1], each with the bits of HF_RINT_MAGIC on top: mult is a
 * power of two, so v * mult is exact and one fma rounds it to a whole number. */
static __device__ __forceinline__ void add_limbs(double v, double mult, double limb, hf_u64 *sum) {
    const double high = __fma_rn(v, mult, HF_RINT_MAGIC);
    const double rest = __fma_rn(v, mult, -__dsub_rn(high, HF_RINT_MAGIC));
    add_whole(high, &sum[0]);
    add_whole(__fma_rn(rest, limb, HF_RINT_MAGIC), &sum[1]);
}

/* UNROLL packs of this thread from the turn that begins at row `base`; row `base` for those behind
 * the last row. */
template <hf_dtype T, int N, int UNROLL>
static __device__ __forceinline__ void load_rows(const struct moments_job &job,
                                                 const struct hf_lanes at, int64_t base,
                                                 hf_pack<T, N> (&v)[UNROLL]) {
    const char *const own = job.x + at.column * hf_device_bytes<T>;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const int64_t row = base + u * at.rows + at.row;
        v[u] = *(const hf_pack<T, N> *)(own + (row < job.n ? row : base) * job.row_bytes);
    }
}

/* The same of a turn whose rows are all there; row: the thread's first. */
template <hf_dtype T, int N, int UNROLL>
static __device__ __forceinline__ void load_turn(const char *row, int64_t apart,
                                                 hf_pack<T, N> (&v)[UNROLL]) {
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        v[u] = *(const hf_pack<T, N> *)(row + u * apart);
}

/* Sums of any data. Rows behind the last add 0, and the bits of the magic number. */
template <hf_dtype T, int N>
static __device__ __forceinline__ void
sum_any(const struct moments_job &job, const struct hf_lanes at, struct moments_sums<N> *to) {
    constexpr int SIZE = hf_device_bytes<T> * N;
    constexpr int UNROLL = FLIGHT_BYTES / SIZE < 8 ? FLIGHT_BYTES / SIZE : 8;
    double shift[N], mult[N], mult_square[N];
#pragma unroll
    for (int e = 0; e < N; e++) {
        shift[e] = job.shift[at.column + e];
        mult[e] = job.mult[at.column + e];
        mult_square[e] = job.mult_square[at.column + e];
    }
    const int64_t step = (int64_t)at.rows * UNROLL;
    for (int64_t base = blockIdx.x * step; at.active && base < job.n; base += gridDim.x * step) {
        hf_pack<T, N> v[UNROLL];
        load_rows<T, N, UNROLL>(job, at, base, v);
        to->terms += UNROLL;
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const bool valid = base + u * at.rows + at.row < job.n;
#pragma unroll
            for (int e = 0; e < N; e++) {
                const double x = (double)hf_widen<T>(v[u].e[e]);
                const double t = valid ? __dsub_rn(x, shift[e]) : 0;
                add_limbs(t, mult[e], job.limb, to->sum[e]);
                add_limbs(__dmul_rn(t, t), mult_square[e], job.limb, to->sum[e] + 2);
            }
        }
    }
}

/* May sum_exact() be used for column j? With h = digits_of<T> + 1: x and the shift are multiples of
 * 2^-h, so t = x - shift is one, is below 2^17, and is not rounded.
 * - mult >= 2^h: t * mult is a whole number, so limb 0 is all of it and limb 1 is 0. Sums of t over
 *   EXACT_TURNS * 8 = 2^11 rows have 17 + 11 + h <= 53 bits: float64 holds them.
 * - t * t is rounded once, as the reference does, and is a multiple of 2^-2h before and after. What
 *   limb 0 leaves of t * t * mult_square is a multiple of u = mult_square * 2^-2h and 1/2 at most:
 *   limb 1 is not rounded if u >= 2^-bits, and sums over 2^11 rows are exact if u >= 2^-43. */
template <hf_dtype T>
static __device__ __forceinline__ bool is_exact(const struct moments_job &job, int64_t j) {
    constexpr double unit = (double)((int64_t)1 << (digits_of<T> + 1)); /* 2^h */
    const double scaled = job.shift[j] * unit;
    const double least = job.mult_square[j] * (1 / unit) * (1 / unit); /* u */
    return fabs(job.shift[j]) <= EXACT_SHIFT && scaled == rint(scaled) && job.mult[j] >= unit &&
           least * job.limb >= 1 && least >= 0x1p-43;
}

/* What sum_exact() keeps in float64. */
template <int N> struct moments_exact {
    double shift[N], mult_square[N];
    double t[N], rest[N];
};

template <int N>
static __device__ __forceinline__ void
put_away(const struct moments_job &job, const struct hf_lanes at, struct moments_exact<N> *own,
         struct moments_sums<N> *to) {
#pragma unroll
    for (int e = 0; e < N; e++) {
        to->sum[e][0] += (hf_u64)__double2ll_rn(own->t[e] * job.mult[at.column + e]);
        to->sum[e][3] += (hf_u64)__double2ll_rn(own->rest[e] * job.limb);
        own->t[e] = own->rest[e] = 0;
    }
}

/* Terms of a turn. TAIL: rows may be behind the last one, bits of `there` say which are not. */
template <hf_dtype T, int N, bool TAIL, int UNROLL>
static __device__ __forceinline__ void add_exact(const hf_pack<T, N> (&v)[UNROLL],
                                                 const unsigned valid, struct moments_exact<N> *own,
                                                 struct moments_sums<N> *to) {
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
#pragma unroll
        for (int e = 0; e < N; e++) {
            const double off = __dsub_rn((double)hf_widen<T>(v[u].e[e]), own->shift[e]);
            const double t = !TAIL || (valid >> u & 1) ? off : 0;
            const double s = __dmul_rn(t, t);
            const double high = __fma_rn(s, own->mult_square[e], HF_RINT_MAGIC);
            const double whole = __dsub_rn(high, HF_RINT_MAGIC);
            own->t[e] = __dadd_rn(own->t[e], t);
            own->rest[e] = __dadd_rn(own->rest[e], __fma_rn(s, own->mult_square[e], -whole));
            add_whole(high, &to->sum[e][2]);
        }
}

/* The same sums where is_exact() holds for all columns of the block. */
template <hf_dtype T, int N>
static __device__ __forceinline__ void
sum_exact(const struct moments_job &job, const struct hf_lanes at, struct moments_sums<N> *to) {
    constexpr int SIZE = hf_device_bytes<T> * N;
    constexpr int UNROLL = EXACT_FLIGHT / SIZE < 8 ? EXACT_FLIGHT / SIZE : 8;
    struct moments_exact<N> own;
#pragma unroll
    for (int e = 0; e < N; e++) {
        own.shift[e] = job.shift[at.column + e];
        own.mult_square[e] = job.mult_square[at.column + e];
        own.t[e] = own.rest[e] = 0;
    }
    const int64_t step = (int64_t)at.rows * UNROLL, stride = gridDim.x * step;
    const int64_t apart = at.rows * job.row_bytes; /* bytes between rows of a turn */
    int64_t base = blockIdx.x * step;
    const char *row = job.x + (base + at.row) * job.row_bytes + at.column * hf_device_bytes<T>;
    hf_pack<T, N> v[2][UNROLL];
    bool more = at.active && base + step <= job.n; /* all rows of the turn are there */
    if (more)
        load_turn<T, N, UNROLL>(row, apart, v[0]);
    for (int turn = 2; more; turn += 2) {
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
            base += stride;
            row += stride * job.row_bytes;
            const bool next = base + step <= job.n;
            if (next)
                load_turn<T, N, UNROLL>(row, apart, v[odd ^ 1]);
            add_exact<T, N, false, UNROLL>(v[odd], 0, &own, to);
            to->terms += UNROLL;
            more = next;
            if (!more)
                break;
        }
        if (turn % EXACT_TURNS == 0)
            put_away<N>(job, at, &own, to);
    }
    put_away<N>(job, at, &own, to);
    if (!at.active || base >= job.n)
        return;
    unsigned valid = 0;
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
        valid |= (unsigned)(base + u * at.rows + at.row < job.n) << u;
    load_rows<T, N, UNROLL>(job, at, base, v[0]);
    add_exact<T, N, true, UNROLL>(v[0], valid, &own, to);
    to->terms += UNROLL;
    put_away<N>(job, at, &own, to);
}

/* The sum over the threads with the same columns, for the first of them. */
static __device__ hf_u64 fold_rows(const struct hf_lanes at, hf_u64 v) {
    __shared__ hf_u64 all[THREADS];
    all[threadIdx.x] = v;
    __syncthreads();
    if (at.row == 0)
        for (int r = 1; r < at.rows; r++)
            v += all[r * at.lanes + at.lane];
    __syncthreads();
    return v;
}

template <hf_dtype T, int N>
static __global__ void __launch_bounds__(THREADS, 3) moments_columns(const struct moments_job all) {
    const struct moments_job job = own_problem(all);
    const struct hf_lanes at = hf_lanes_of(job.d, N);
    struct moments_sums<N> own;
    bool exact = false;
    sums_start<N>(&own);
    if constexpr (digits_of<T> >= 0) {
        bool fits = true;
#pragma unroll
        for (int e = 0; e < N; e++)
            fits = fits && is_exact<T>(job, at.column + e);
        exact = __syncthreads_and(fits);
        if (exact)
            sum_exact<T, N>(job, at, &own);
    }
    if (!exact)
        sum_any<T, N>(job, at, &own);
    const hf_u64 magic = own.terms * (hf_u64)__double_as_longlong(HF_RINT_MAGIC);
#pragma unroll
    for (int e = 0; e < N; e++)
#pragma unroll
        for (int s = 0; s < SUMS; s++) {
            const hf_u64 total = fold_rows(at, own.sum[e][s] - (!exact || s == 2 ? magic : 0));
            hf_u64 *dst = (s < 2 ? job.sum : job.square) + (s & 1) * job.d + at.column + e;
            if (at.row == 0)
                atomicAdd(dst, total);
        }
}

template <hf_dtype T, int N>
static void launch_columns(struct hf_cuda *cuda, const struct moments_job &job) {
    const int64_t packs = (job.d + N - 1) / N;
    const int64_t most = (job.n * packs + THREADS - 1) / THREADS;
    dim3 grid = hf_lanes_grid(cuda, moments_columns<T, N>, THREADS, packs, most * job.batch);
    grid.x = (unsigned)((grid.x + job.batch - 1) / job.batch); /* blocks of a problem */
    grid.z = (unsigned)job.batch;
    moments_columns<T, N><<<grid, THREADS, 0, cuda->stream>>>(job);
}

template <hf_dtype T> static void launch_type(struct hf_cuda *cuda, const struct moments_job &job) {
    constexpr int N = 2; /* more would take registers from the warps that hide the loads */
    constexpr int SIZE = hf_device_bytes<T> * N;
    if (((uintptr_t)job.x | (uintptr_t)job.row_bytes) % SIZE == 0 && job.d % N == 0)
        launch_columns<T, N>(cuda, job);
    else
        launch_columns<T, 1>(cuda, job);
}

static hf_status moments_run(const struct hf_call *call) {
    const struct hf_moments_args *args = (const struct hf_moments_args *)call->args;
    struct hf_cuda *cuda = (struct hf_cuda *)call->stream;
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    const hf_array x = hf_stage_array(&stage, &args->x);
    const int64_t batch = hf_moments_batch(args);
    const size_t column_bytes = (size_t)(batch * x.cols) * sizeof(double);
    struct moments_job job;
    job.shift = (const double *)hf_stage_in(&stage, args->shift, column_bytes);
    job.mult = (const double *)hf_stage_in(&stage, args->mult, column_bytes);
    job.mult_square = (const double *)hf_stage_in(&stage, args->mult_square, column_bytes);
    job.sum = (hf_u64 *)hf_stage_inout(&stage, args->sum, 2 * column_bytes);
    job.square = (hf_u64 *)hf_stage_inout(&stage, args->sum_square, 2 * column_bytes);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    job.x = (const char *)x.data;
    job.row_bytes = (x.row_stride ? x.row_stride : x.cols) * (int64_t)hf_dtype_bytes(x.dtype);
    job.n = x.rows / batch;
    job.batch = batch;
    job.d = x.cols;
    job.limb = (double)((int64_t)1 << args->bits);
    hf_for_dtype(x.dtype, [&](auto type) { launch_type<decltype(type)::value>(cuda, job); });
    return hf_stage_end(&stage, hf_cuda_launched(cuda, "moments"));
}

/* What blockIdx.z can count. */
static bool moments_supports(const struct hf_call *call) {
    return hf_moments_batch((const struct hf_moments_args *)call->args) <= 65535;
}

static double moments_estimate(const struct hf_call *call) {
    const struct hf_moments_args *args = (const struct hf_moments_args *)call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_cuda_pass_ns(values * (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("moments_any_cuda", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE,
                   moments_supports, NULL, moments_run, moments_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_moments_kernels_cuda;
const struct hf_kernel_table hf_moments_kernels_cuda = {kernels, 1};
}
