/* SPDX-License-Identifier: Apache-2.0
 * Rows of a sparse matrix on CUDA, in the order of ops/sparse.h. A block of threads multiplies the
 * elements of its rows as they lie in memory, which loads whole sectors, and puts the products into
 * shared memory; then each thread adds up those of one row, in their order. */
#ifndef HF_SPARSE_CUH
#define HF_SPARSE_CUH

#include "core/kernel.h"
#include "device/cuda/reduce.cuh"
#include "device/cuda/stage.h"
#include "ops/sparse.h"

#define SPARSE_THREADS 256
#define SPARSE_EACH 9                               /* elements that a thread multiplies at once */
#define SPARSE_CHUNK (SPARSE_EACH * SPARSE_THREADS) /* products in shared memory */
#define SPARSE_GROUP_THREADS 128 /* where rows come in groups: fewer wait for each other */
#define SPARSE_CACHED                                                                              \
    (int64_t)(40 << 20) /* bytes of a matrix that stays in the L2 cache from pass to pass */
#define SPARSE_GROUPS (SPARSE_PART / SPARSE_THREADS)

/* A device view of a matrix. */
static inline struct hf_sparse hf_stage_sparse(struct hf_stage *stage, const struct hf_sparse *a) {
    struct hf_sparse seen = *a;
    const size_t elements = (size_t)a->elements;
    seen.row_start =
        (const int64_t *)hf_stage_in(stage, a->row_start, (size_t)(a->rows + 1) * sizeof(int64_t));
    seen.column = (const int32_t *)hf_stage_in(stage, a->column, elements * sizeof(int32_t));
    seen.value = hf_stage_in(stage, a->value, elements * hf_dtype_bytes(a->dtype));
    return seen;
}

static inline size_t hf_vector_bytes(int64_t n) { return (size_t)n * sizeof(double); }

/* Calls f with a value of the type of the matrix. */
template <typename F> static void hf_for_sparse(hf_dtype dtype, F f) {
    if (dtype == HF_F32)
        f(0.0f);
    else
        f(0.0);
}

/* x + damping * (inverse * r), each operation rounded */
static __device__ __forceinline__ double sparse_relaxed(double x, double damping, double inverse,
                                                        double r) {
    return __dadd_rn(x, __dmul_rn(damping, __dmul_rn(inverse, r)));
}

/* How the elements of a matrix pass the L2 cache: one that is too large for it leaves it to x. */
static __device__ __forceinline__ uint64_t sparse_policy(const struct hf_sparse &a) {
    uint64_t keep, pass;
    asm("createpolicy.fractional.L2::evict_normal.b64 %0;" : "=l"(keep));
    asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(pass));
    return a.elements * 12 > SPARSE_CACHED ? pass : keep;
}

static __device__ __forceinline__ int32_t sparse_load(const int32_t *p, uint64_t policy) {
    int32_t v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.b32 %0, [%1], %2;"
                 : "=r"(v)
                 : "l"(p), "l"(policy));
    return v;
}

static __device__ __forceinline__ float sparse_load(const float *p, uint64_t policy) {
    float v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.f32 %0, [%1], %2;"
                 : "=f"(v)
                 : "l"(p), "l"(policy));
    return v;
}

static __device__ __forceinline__ double sparse_load(const double *p, uint64_t policy) {
    double v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.f64 %0, [%1], %2;"
                 : "=d"(v)
                 : "l"(p), "l"(policy));
    return v;
}

/* The products of elements base .. base + count, at most SPARSE_EACH a thread. All elements of a
 * thread are asked for at once, then all x: a store to shared memory between them would make each
 * wait. */
template <typename V, int THREADS, typename X>
static __device__ __forceinline__ void sparse_products(const struct hf_sparse &a, int64_t base,
                                                       int count, uint64_t policy, double *product,
                                                       X x) {
    constexpr int EACH = SPARSE_EACH;
    const V *value = (const V *)a.value + base;
    const int32_t *column = a.column + base;
    const int first = (int)threadIdx.x;
    int32_t j[EACH];
    double term[EACH], factor[EACH];
#pragma unroll
    for (int u = 0; u < EACH; u++) { /* beyond the last element that again: no branch */
        const int at = min(first + u * THREADS, count - 1);
        j[u] = sparse_load(column + at, policy);
        term[u] = (double)sparse_load(value + at, policy);
    }
    __syncwarp(); /* keeps the loads together */
#pragma unroll
    for (int u = 0; u < EACH; u++)
        factor[u] = x(j[u]);
    __syncwarp();
#pragma unroll
    for (int u = 0; u < EACH; u++)
        if (first + u * THREADS < count)
            product[first + u * THREADS] = __dmul_rn(term[u], factor[u]);
}

/* Rows [begin, end), at most THREADS: add(e, product) for the elements of row begin + threadIdx.x
 * in their order. x(j) is the number that column j is multiplied by. All threads of the block call
 * it. product: [SPARSE_EACH * THREADS] in shared memory. */
template <typename V, int THREADS = SPARSE_THREADS, typename X, typename F>
static __device__ __forceinline__ void sparse_walk(const struct hf_sparse &a, int64_t begin,
                                                   int64_t end, double *product, X x, F add) {
    const int64_t i = begin + threadIdx.x;
    int64_t at = i < end ? a.row_start[i] : 0;
    const int64_t last = i < end ? a.row_start[i + 1] : 0;
    const int64_t stop = a.row_start[end];
    const uint64_t policy = sparse_policy(a);
    constexpr int chunk = SPARSE_EACH * THREADS;
    for (int64_t base = a.row_start[begin]; base < stop; base += chunk) {
        const int64_t until = base + chunk < stop ? base + chunk : stop;
        sparse_products<V, THREADS>(a, base, (int)(until - base), policy, product, x);
        __syncthreads();
        const int64_t to = last < until ? last : until;
#pragma unroll 8
        for (; at < to; at++)
            add(at, product[at - base]);
        __syncthreads();
    }
}

/* The sum of row begin + threadIdx.x. */
template <typename V, int THREADS = SPARSE_THREADS, typename X>
static __device__ __forceinline__ double sparse_row(const struct hf_sparse &a, int64_t begin,
                                                    int64_t end, double *product, X x) {
    double sum = 0;
    sparse_walk<V, THREADS>(a, begin, end, product, x,
                            [&](int64_t, double term) { sum = __dadd_rn(sum, term); });
    return sum;
}

/* The lanes of a sum, one in each of SPARSE_LANES neighbouring threads, folded: the first has the
 * result. mask: the threads that call it. */
static __device__ __forceinline__ double sparse_lanes_fold(double lane, unsigned mask) {
    for (int half = SPARSE_LANES / 2; half > 0; half /= 2)
        lane = __dadd_rn(lane, __shfl_down_sync(mask, lane, half, SPARSE_LANES));
    return lane;
}

/* The sum of `count` terms in shared memory, by a warp: its first thread has it. */
static __device__ __forceinline__ double sparse_terms(const double *term, int count) {
    double lane = 0;
    for (int i = (int)threadIdx.x % SPARSE_LANES; i < count; i += SPARSE_LANES)
        lane = __dadd_rn(lane, term[i]);
    return sparse_lanes_fold(lane, 0xffffffffu);
}

/* Totals of sums whose parts are known: one block each. */
struct sparse_totals {
    const double *part[2]; /* [parts] */
    double *out[2];        /* NULL: not wanted */
    int64_t parts;
};

static __global__ void sparse_total_sums(struct sparse_totals job) {
    __shared__ double lane[SPARSE_TOTAL];
    const double *part = job.part[blockIdx.x];
    if (job.out[blockIdx.x] == NULL)
        return;
    double sum = 0;
#pragma unroll 16
    for (int64_t i = threadIdx.x; i < job.parts; i += SPARSE_TOTAL)
        sum = __dadd_rn(sum, part[i]);
    lane[threadIdx.x] = sum;
    for (int half = SPARSE_TOTAL / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half)
            lane[threadIdx.x] = __dadd_rn(lane[threadIdx.x], lane[threadIdx.x + half]);
    }
    if (threadIdx.x == 0)
        *job.out[blockIdx.x] = lane[0];
}

static inline void sparse_launch_totals(const struct hf_cuda *cuda,
                                        const struct sparse_totals &job) {
    const unsigned blocks = job.out[1] != NULL ? 2 : job.out[0] != NULL ? 1 : 0;
    if (blocks > 0)
        sparse_total_sums<<<blocks, SPARSE_TOTAL, 0, cuda->stream>>>(job);
}

/* Rows with about as many elements as SPARSE_GROUP_THREADS threads multiply at once: of long rows
 * that is a few, so that many blocks of threads share a small matrix. */
static inline int hf_sparse_group(const struct hf_sparse &a) {
    const double each = (double)a.elements / (double)(a.rows > 0 ? a.rows : 1);
    const double rows = 0.97 * SPARSE_EACH * SPARSE_GROUP_THREADS / (each > 1 ? each : 1);
    return rows < 1 ? 1 : rows > SPARSE_GROUP_THREADS ? SPARSE_GROUP_THREADS : (int)rows;
}

/* Blocks that keep the device busy with `most` pieces of work. */
static inline unsigned sparse_grid(const struct hf_cuda *cuda, int64_t most) {
    const int64_t full = (int64_t)cuda->sms * 16;
    const int64_t blocks = most < full ? most : full;
    return (unsigned)(blocks > 0 ? blocks : 1);
}

#endif
