/* SPDX-License-Identifier: Apache-2.0
 * update on CUDA: see update_cuda.cuh. One launch, whose blocks wait for each other; or, for few
 * sums, one whose blocks have sums of their own in shared memory. */
#include "ops/update/update_cuda.cuh"
#include "core/array.h"
#include "core/kernel.h"
#include "device/cuda/reduce.cuh"
#include "device/cuda/stage.h"

#define FACTOR_THREADS 128
#define CELL_THREADS 512
#define CELL_BLOCKS 2    /* of a multiprocessor */
#define CELL_ROWS 512    /* of a block at least */
#define CELL_BYTES 49152 /* of shared memory, that a block gets without asking for more */

struct carve {
    char *base;
    size_t used;
};

static void *carve_take(struct carve *c, size_t bytes) {
    char *p = c->base != NULL ? c->base + c->used : NULL;
    c->used += (bytes + 255) / 256 * 256;
    return p;
}

size_t hf_update_scratch_carve(int64_t entries, int64_t clusters, void *memory,
                               struct hf_update_scratch *scratch) {
    struct carve c = {(char *)memory, 0};
    const int64_t pieces =
        entries / HF_UPDATE_LEAST_PIECE + (clusters < entries ? clusters : entries) + 1;
    const size_t each = sizeof(uint32_t);
    scratch->taken = (unsigned long long *)carve_take(&c, sizeof *scratch->taken);
    scratch->barrier = (unsigned *)carve_take(&c, sizeof *scratch->barrier);
    scratch->next = (unsigned *)carve_take(&c, sizeof *scratch->next);
    scratch->held = (uint32_t *)carve_take(&c, (size_t)clusters * each);
    scratch->start = (uint32_t *)carve_take(&c, (size_t)clusters * each);
    scratch->first_piece = (uint32_t *)carve_take(&c, (size_t)clusters * each);
    scratch->rank = (uint32_t *)carve_take(&c, (size_t)entries * each);
    scratch->order = (uint32_t *)carve_take(&c, (size_t)entries * each);
    scratch->pieces =
        (struct hf_update_piece *)carve_take(&c, (size_t)pieces * sizeof *scratch->pieces);
    return c.used;
}

hf_status hf_update_scratch_clear(struct hf_cuda *cuda, const struct hf_update_scratch *scratch,
                                  int64_t clusters) {
    const size_t bytes =
        (size_t)((char *)(scratch->held + clusters) - (char *)scratch->taken); /* the first four */
    return hf_cuda_check(cuda, cudaMemsetAsync(scratch->taken, 0, bytes, cuda->stream),
                         "clear of update");
}

/* ---- factors of the cosine metric */

template <hf_dtype T>
static __global__ void __launch_bounds__(FACTOR_THREADS)
    update_factors(const struct hf_update_job job, double *factor) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= job.batch * job.n)
        return;
    const char *x = job.x + i * job.row_bytes;
    double sum = 0;
    for (int64_t j = 0; j < job.d; j++) {
        const double v = hf_device_load<T>(x, j);
        sum = __dadd_rn(sum, __dmul_rn(v, v));
    }
    const double weight = job.weights != NULL ? job.weights[i] : 1;
    factor[i] = sum > 0 ? __ddiv_rn(weight, __dsqrt_rn(sum)) : 0;
}

hf_status hf_update_factors(struct hf_cuda *cuda, const struct hf_update_job *job, double *factor) {
    const int64_t blocks = (job->batch * job->n + FACTOR_THREADS - 1) / FACTOR_THREADS;
    hf_for_dtype(job->dtype, [&](auto type) {
        update_factors<decltype(type)::value>
            <<<(unsigned)blocks, FACTOR_THREADS, 0, cuda->stream>>>(*job, factor);
    });
    return hf_cuda_launched(cuda, "update_factors");
}

/* ---- the op */

template <hf_dtype T>
static __global__ void __launch_bounds__(HF_UPDATE_THREADS, HF_UPDATE_BLOCKS)
    update_sorted(const struct hf_update_job job, const int32_t *old_labels,
                  const int32_t *labels) {
    extern __shared__ uint32_t bins[];
    struct update_source from;
    from.labels = labels;
    from.old_labels = old_labels;
    from.list = NULL;
    from.moves = old_labels != NULL;
    from.entries = (uint32_t)(from.moves ? 2 * job.n : job.n);
    update_many<T>(job, from, bins);
    hf_grid_wait(job.scratch.barrier);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        update_release(job);
}

template <hf_dtype T>
static __global__ void __launch_bounds__(HF_UPDATE_THREADS, HF_UPDATE_BLOCKS)
    update_direct(const struct hf_update_job job, const int32_t *old_labels,
                  const int32_t *labels) {
    update_few<T>(job, NULL, job.n, old_labels, labels);
}

/* Sums of few clusters of few columns in the block's shared memory, in halves of 32 bits, whose
 * additions it makes by itself: the lower ones tell of a carry. */
struct cells {
    uint32_t *low, *high; /* [limbs, k, d] */
    int *count;           /* [k] */
};

static __device__ __forceinline__ void cells_add(const struct cells &c, int at, int64_t q) {
    const uint32_t low = (uint32_t)q;
    const uint32_t before = atomicAdd(&c.low[at], low);
    const uint32_t high = (uint32_t)((uint64_t)q >> 32) + (before + low < low);
    if (high != 0)
        atomicAdd(&c.high[at], high);
}

/* Values of column j of a few rows, from their old to their new clusters; label -1: none. */
template <int ROWS>
static __device__ __forceinline__ void
cells_move(const struct hf_update_job &job, const struct cells &c, const double (&v)[ROWS],
           const int32_t (&from)[ROWS], const int32_t (&to)[ROWS], int j) {
    const int d = (int)job.d, kd = (int)job.k * d;
    const double mult = job.mult[j], scale = update_scale(job.bits);
#pragma unroll
    for (int u = 0; u < ROWS; u++) {
        const double high = update_high(v[u], mult);
        for (int limb = 0; limb < job.limbs; limb++) {
            const int64_t q =
                update_integer(limb == 0 ? high : update_low(v[u], mult, high, scale));
            if (to[u] >= 0)
                cells_add(c, limb * kd + to[u] * d + j, q);
            if (from[u] >= 0)
                cells_add(c, limb * kd + from[u] * d + j, -q);
        }
    }
}

/* Rows of this block into its cells: a group of threads has a row. */
template <hf_dtype T>
static __device__ void cells_fill(const struct hf_update_job &job, const int32_t *old_labels,
                                  const int32_t *labels, const struct cells &c) {
    constexpr int ROWS = 4; /* of a group, under way at once */
    const int group = update_group(job.d, 1), lane = (int)threadIdx.x % group;
    const int64_t groups = (int64_t)gridDim.x * (CELL_THREADS / group);
    for (int64_t i = ((int64_t)blockIdx.x * CELL_THREADS + threadIdx.x) / group; i < job.n;
         i += groups * ROWS) {
        int32_t from[ROWS], to[ROWS];
        double factor[ROWS];
#pragma unroll
        for (int u = 0; u < ROWS; u++) {
            const int64_t row = i + u * groups;
            to[u] = row < job.n ? update_label(job, labels[row]) : -1;
            from[u] = row < job.n && old_labels != NULL ? update_label(job, old_labels[row]) : -1;
            factor[u] = row < job.n && job.factor != NULL ? job.factor[row] : 1;
            if (from[u] == to[u])
                from[u] = to[u] = -1;
            if (lane == 0 && to[u] >= 0)
                atomicAdd(&c.count[to[u]], 1);
            if (lane == 0 && from[u] >= 0)
                atomicAdd(&c.count[from[u]], -1);
        }
        for (int j = lane; j < (int)job.d; j += group) {
            double v[ROWS];
#pragma unroll
            for (int u = 0; u < ROWS; u++) {
                const int64_t row = i + u * groups < job.n ? i + u * groups : i;
                v[u] = hf_device_load<T>(job.x + row * job.row_bytes, j);
                v[u] = job.factor != NULL ? __dmul_rn(v[u], factor[u]) : v[u];
            }
            cells_move<ROWS>(job, c, v, from, to, j);
        }
    }
}

template <hf_dtype T>
static __global__ void __launch_bounds__(CELL_THREADS, CELL_BLOCKS)
    update_cells(const struct hf_update_job job, const int32_t *old_labels, const int32_t *labels) {
    extern __shared__ uint32_t shared[];
    const int size = job.limbs * (int)(job.k * job.d), k = (int)job.k;
    const struct cells c = {shared, shared + size, (int *)(shared + 2 * size)};
    for (int i = (int)threadIdx.x; i < 2 * size + k; i += CELL_THREADS)
        shared[i] = 0;
    __syncthreads();
    cells_fill<T>(job, old_labels, labels, c);
    __syncthreads();
    const int begin =
        (int)((int64_t)size * blockIdx.x / gridDim.x); /* each block from another on */
    for (int i = (int)threadIdx.x; i < size; i += CELL_THREADS) {
        const int at = begin + i < size ? begin + i : begin + i - size;
        const uint64_t q = (uint64_t)c.high[at] << 32 | c.low[at];
        if (q != 0)
            update_red(job.sum + at, (int64_t)q);
    }
    for (int j = (int)threadIdx.x; j < k; j += CELL_THREADS)
        if (c.count[j] != 0)
            update_red(job.count + j, c.count[j]);
}

enum way { SORTED, DIRECT, CELLS };

/* What the kernels of the op share, and where they part. */
struct call {
    struct hf_update_job job;
    const int32_t *old_labels, *labels;
    enum way way;
};

template <hf_dtype T> static hf_status launch_direct(struct hf_cuda *cuda, struct call &call) {
    const int64_t per_block = HF_UPDATE_THREADS / update_group(call.job.d, 1);
    const int64_t most = (int64_t)cuda->sms * HF_UPDATE_BLOCKS;
    const int64_t blocks = (call.job.n + per_block - 1) / per_block;
    update_direct<T>
        <<<(unsigned)(blocks < most ? blocks : most), HF_UPDATE_THREADS, 0, cuda->stream>>>(
            call.job, call.old_labels, call.labels);
    return hf_cuda_launched(cuda, "update_direct");
}

static int64_t cell_blocks(int64_t rows, int sms) {
    const int64_t most = (int64_t)sms * CELL_BLOCKS, some = (rows + CELL_ROWS - 1) / CELL_ROWS;
    return some < most ? some : most;
}

static size_t cell_bytes(int64_t cells, int64_t k) {
    return (size_t)(2 * cells + k) * sizeof(uint32_t);
}

template <hf_dtype T> static hf_status launch_cells(struct hf_cuda *cuda, struct call &call) {
    const struct hf_update_job &job = call.job;
    update_cells<T><<<(unsigned)cell_blocks(job.n, cuda->sms), CELL_THREADS,
                      cell_bytes(job.limbs * job.k * job.d, job.k), cuda->stream>>>(
        job, call.old_labels, call.labels);
    return hf_cuda_launched(cuda, "update_cells");
}

template <hf_dtype T> static hf_status launch_sorted(struct hf_cuda *cuda, struct call &call) {
    HF_TRY(hf_update_scratch_clear(cuda, &call.job.scratch, call.job.k));
    const dim3 grid((unsigned)cuda->sms * HF_UPDATE_BLOCKS);
    void *args[] = {&call.job, &call.old_labels, &call.labels};
    return hf_cuda_check(
        cuda,
        cudaLaunchCooperativeKernel((const void *)update_sorted<T>, grid, dim3(HF_UPDATE_THREADS),
                                    args, hf_update_bins_bytes(1, call.job.k), cuda->stream),
        "update_sorted");
}

static hf_status launch(struct hf_cuda *cuda, struct call &call) {
    hf_status status = HF_OK;
    hf_for_dtype(call.job.dtype, [&](auto type) {
        constexpr hf_dtype T = decltype(type)::value;
        status = call.way == SORTED   ? launch_sorted<T>(cuda, call)
                 : call.way == DIRECT ? launch_direct<T>(cuda, call)
                                      : launch_cells<T>(cuda, call);
    });
    return status;
}

static size_t factor_bytes(const struct hf_update_args *args) {
    const size_t bytes = args->metric == HF_COSINE ? (size_t)args->x.rows * sizeof(double) : 0;
    return (bytes + 255) / 256 * 256;
}

static int64_t entry_count(const struct hf_update_args *args) {
    return args->old_labels != NULL ? 2 * args->x.rows : args->x.rows;
}

static size_t sorted_workspace(const struct hf_call *call) {
    const struct hf_update_args *args = (const struct hf_update_args *)call->args;
    struct hf_update_scratch scratch;
    return factor_bytes(args) +
           hf_update_scratch_carve(entry_count(args), args->sums->k, NULL, &scratch);
}

static size_t direct_workspace(const struct hf_call *call) {
    return factor_bytes((const struct hf_update_args *)call->args);
}

static void fill_job(struct hf_stage *stage, const struct hf_update_args *args,
                     struct hf_update_job *job) {
    const struct hf_sums *s = args->sums;
    const hf_array x = hf_stage_array(stage, &args->x);
    job->x = (const char *)x.data;
    job->row_bytes = hf_array_stride(&x) * (int64_t)hf_dtype_bytes(x.dtype);
    job->dtype = x.dtype;
    job->batch = 1;
    job->n = x.rows;
    job->k = s->k;
    job->d = s->d;
    job->limbs = s->limbs;
    job->bits = s->bits;
    job->mult_stride = 0;
    const size_t sums = (size_t)(s->limbs * s->k) * sizeof(int64_t);
    job->mult = (const double *)hf_stage_in(stage, s->mult, (size_t)s->d * sizeof(double));
    job->weight_mult = NULL; /* copied, and waited for, only where it is used */
    if (s->weight)
        job->weight_mult = (const double *)hf_stage_in(stage, &s->weight_mult, sizeof(double));
    job->weights = (const double *)hf_stage_in(stage, args->weights,
                                               args->weights ? (size_t)x.rows * sizeof(double) : 0);
    job->factor = job->weights;
    job->sum = (int64_t *)hf_stage_inout(stage, s->sum, sums * (size_t)s->d);
    job->count = (int64_t *)hf_stage_inout(stage, s->count, (size_t)s->k * sizeof(int64_t));
    job->weight = (int64_t *)hf_stage_inout(stage, s->weight, s->weight ? sums : 0);
}

static hf_status run(const struct hf_call *asked, enum way way) {
    const struct hf_update_args *args = (const struct hf_update_args *)asked->args;
    struct hf_cuda *cuda = (struct hf_cuda *)asked->stream;
    struct hf_stage stage;
    struct call call;
    hf_stage_begin(&stage, cuda);
    fill_job(&stage, args, &call.job);
    const size_t label_bytes = (size_t)call.job.n * sizeof(int32_t);
    call.way = way;
    call.labels = (const int32_t *)hf_stage_in(&stage, args->labels, label_bytes);
    call.old_labels = (const int32_t *)hf_stage_in(&stage, args->old_labels,
                                                   args->old_labels != NULL ? label_bytes : 0);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    hf_status status = HF_OK;
    if (args->metric == HF_COSINE) {
        status = hf_update_factors(cuda, &call.job, (double *)asked->ws);
        call.job.factor = (const double *)asked->ws;
    }
    if (way == SORTED)
        hf_update_scratch_carve(entry_count(args), call.job.k,
                                (char *)asked->ws + factor_bytes(args), &call.job.scratch);
    if (status == HF_OK)
        status = launch(cuda, call);
    return hf_stage_end(&stage, status);
}

static hf_status sorted_run(const struct hf_call *call) { return run(call, SORTED); }

static hf_status direct_run(const struct hf_call *call) { return run(call, DIRECT); }

static hf_status cells_run(const struct hf_call *call) { return run(call, CELLS); }

static bool update_supports(const struct hf_call *call) {
    const struct hf_update_args *args = (const struct hf_update_args *)call->args;
    return args->x.rows <= INT32_MAX / 2 && args->sums->k < INT32_MAX &&
           args->x.cols < INT32_MAX / 256;
}

static int64_t cell_count(const struct hf_update_args *args) {
    return args->sums->limbs * args->sums->k * args->x.cols;
}

static bool cells_supports(const struct hf_call *call) {
    const struct hf_update_args *args = (const struct hf_update_args *)call->args;
    return update_supports(call) && args->sums->weight == NULL && args->sums->k <= CELL_BYTES &&
           cell_count(args) <= CELL_BYTES &&
           cell_bytes(cell_count(args), args->sums->k) <= CELL_BYTES;
}

/* A pass over the rows, the sorting, and four waits of all blocks for each other. */
static double sorted_estimate(const struct hf_call *call) {
    const struct hf_update_args *args = (const struct hf_update_args *)call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return 8000 + hf_cuda_pass_ns(values * (double)hf_dtype_bytes(args->x.dtype) +
                                  64 * (double)args->x.rows);
}

/* Additions to memory, twice where rows move: at 54 in a nanosecond, of which those to one place
 * take 13 ns each (measured on an H100). */
static double atomics_ns(double count, double places) {
    const double all = count / 54, one = count / places * 13;
    return all > one ? all : one;
}

static double terms_of(const struct hf_update_args *args) {
    const double values = (double)args->x.rows * (double)args->x.cols;
    return values * args->sums->limbs * (args->old_labels != NULL ? 2 : 1);
}

static double direct_estimate(const struct hf_call *call) {
    const struct hf_update_args *args = (const struct hf_update_args *)call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_cuda_pass_ns(values * (double)hf_dtype_bytes(args->x.dtype)) +
           atomics_ns(terms_of(args), (double)cell_count(args));
}

/* Additions in shared memory, and then those of all blocks to memory. */
static double cells_estimate(const struct hf_call *call) {
    const struct hf_update_args *args = (const struct hf_update_args *)call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    const double cells = (double)cell_count(args), blocks = (double)cell_blocks(args->x.rows, 132);
    return hf_cuda_pass_ns(values * (double)hf_dtype_bytes(args->x.dtype)) +
           terms_of(args) * 0.002 + atomics_ns(cells * blocks, cells);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("update_any_cuda_sorted", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE,
                   update_supports, sorted_workspace, sorted_run, sorted_estimate, NULL),
    HF_CUDA_KERNEL("update_any_cuda_direct", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE,
                   update_supports, direct_workspace, direct_run, direct_estimate, NULL),
    HF_CUDA_KERNEL("update_any_cuda_cells", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE,
                   cells_supports, direct_workspace, cells_run, cells_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_update_kernels_cuda;
const struct hf_kernel_table hf_update_kernels_cuda = {kernels, 3};
}
