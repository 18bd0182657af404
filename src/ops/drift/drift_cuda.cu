/* SPDX-License-Identifier: Apache-2.0
 * drift on CUDA: one cooperative launch; a block of threads works on its share of the blocks of
 * rows, one after another, with whatever x the others have by then. x is read past the first cache,
 * which would never see a new one. */
#include "base/mem.h"
#include "ops/drift/drift.h"
#include "ops/sparse.cuh"

#define SHARED_ROWS 512           /* of a block whose x lies in shared memory */
#define EACH 2                    /* blocks of threads to a multiprocessor, at most */
#define LIMIT (20ll * 1900000000) /* clock cycles after which all stop: nothing can hang */

struct drift_state {
    hf_u64 epoch;
    double square;
    int held;
    int pad;
};

struct drift_totals {
    hf_u64 relaxations, takeovers;
    int stop, pad;
};

struct drift_job {
    struct hf_sparse a;
    const double *inverse;
    const int64_t *block_start;
    int64_t blocks, largest;
    const int32_t *inner;
    int k;
    double damping;
    int64_t epochs, lag;
    double target;
    const uint8_t *lost;
    int64_t lost_from;
    const double *b;
    double *x;
    struct drift_state *state; /* [blocks] */
    struct drift_totals *totals;
    double *scratch; /* [grid, 3, largest]; NULL: in shared memory */
    struct hf_drift_report *report;
};

struct inside {
    double *x, *next, *outside; /* [largest] */
};

/* What all threads of a block do next; by the first of them. */
struct choice {
    int64_t block;
    bool go;
    double square[SPARSE_THREADS / 32];
    hf_u64 epoch[SPARSE_THREADS / 32];
    int left[SPARSE_THREADS / 32];
};

/* The sum of squared residuals of the block before this call, in the first thread. */
template <typename V>
static __device__ double relax_block(const struct drift_job &job, int64_t block, struct inside own,
                                     struct choice *choice) {
    const int64_t begin = job.block_start[block], rows = job.block_start[block + 1] - begin;
    const V *value = (const V *)job.a.value;
    double square = 0;
    for (int64_t p = threadIdx.x; p < rows; p += SPARSE_THREADS) {
        const int64_t i = begin + p, left = job.a.row_start[i] + job.inner[2 * i];
        const int64_t right = left + job.inner[2 * i + 1];
        double sum = 0;
        for (int64_t e = job.a.row_start[i]; e < job.a.row_start[i + 1]; e++)
            if (e < left || e >= right)
                sum += (double)value[e] * __ldcg(&job.x[job.a.column[e]]);
        own.outside[p] = job.b[i] - sum;
        own.x[p] = __ldcg(&job.x[i]);
    }
    for (int k = 0; k < job.k; k++) {
        __syncthreads();
        for (int64_t p = threadIdx.x; p < rows; p += SPARSE_THREADS) {
            const int64_t i = begin + p, first = job.a.row_start[i] + job.inner[2 * i];
            const int64_t last = first + job.inner[2 * i + 1];
            double in = 0;
            for (int64_t e = first; e < last; e++)
                in += (double)value[e] * own.x[job.a.column[e] - begin];
            const double r = own.outside[p] - in;
            own.next[p] = own.x[p] + job.damping * (job.inverse[i] * r);
            square += k == 0 ? r * r : 0;
        }
        double *const before = own.x;
        own.x = own.next;
        own.next = before;
    }
    for (int64_t p = threadIdx.x; p < rows; p += SPARSE_THREADS)
        __stcg(&job.x[begin + p], own.x[p]);
    __threadfence();
    for (int step = 16; step > 0; step /= 2)
        square += __shfl_xor_sync(0xffffffffu, square, step);
    if (threadIdx.x % 32 == 0)
        choice->square[threadIdx.x / 32] = square;
    __syncthreads();
    square = 0;
    for (int w = 0; w < SPARSE_THREADS / 32; w++)
        square += choice->square[w];
    return square;
}

static __device__ __forceinline__ hf_u64 epoch_of(const struct drift_job &job, int64_t block) {
    return *(volatile hf_u64 *)&job.state[block].epoch;
}

static __device__ __forceinline__ bool is_silent(const struct drift_job &job, int64_t block,
                                                 hf_u64 epoch) {
    return job.lost != NULL && job.lost[block] != 0 && epoch >= (hf_u64)job.lost_from;
}

/* False: another block of threads is at it. The first thread asks, all do the same. */
template <typename V>
static __device__ bool relax(const struct drift_job &job, int64_t block, const struct inside &own,
                             struct choice *choice, bool wanted) {
    struct drift_state *state = &job.state[block];
    if (threadIdx.x == 0) {
        choice->go = wanted && atomicExch(&state->held, 1) == 0;
        __threadfence();
    }
    __syncthreads();
    const bool go = choice->go;
    __syncthreads(); /* before the next one is asked */
    if (!go)
        return false;
    const double square = relax_block<V>(job, block, own, choice);
    if (threadIdx.x == 0) {
        *(volatile double *)&state->square = square;
        __threadfence();
        *(volatile hf_u64 *)&state->epoch = state->epoch + 1;
        __threadfence();
        atomicExch(&state->held, 0);
        atomicAdd(&job.totals->relaxations, 1ull);
    }
    __syncthreads();
    return true;
}

/* The slowest epoch of all blocks, whether any has something left to do, and whether all should
 * stop: by all threads. */
static __device__ bool look_around(const struct drift_job &job, struct choice *choice,
                                   long long begin, hf_u64 *slowest) {
    double square = 0;
    hf_u64 least = ~0ull;
    int left = 0;
    for (int64_t block = threadIdx.x; block < job.blocks; block += SPARSE_THREADS) {
        const hf_u64 epoch = epoch_of(job, block);
        square += *(volatile double *)&job.state[block].square;
        least = epoch < least ? epoch : least;
        left |= epoch < (hf_u64)job.epochs && !(job.lag == 0 && is_silent(job, block, epoch));
    }
    for (int step = 16; step > 0; step /= 2) {
        const hf_u64 other = __shfl_xor_sync(0xffffffffu, least, step);
        least = other < least ? other : least;
        square += __shfl_xor_sync(0xffffffffu, square, step);
        left |= __shfl_xor_sync(0xffffffffu, left, step);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        choice->square[threadIdx.x / 32] = square;
        choice->epoch[threadIdx.x / 32] = least;
        choice->left[threadIdx.x / 32] = left;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < SPARSE_THREADS / 32; w++) {
            square += choice->square[w];
            least = choice->epoch[w] < least ? choice->epoch[w] : least;
            left |= choice->left[w];
        }
        if ((job.target > 0 && least > 0 && square <= job.target) || clock64() - begin > LIMIT)
            *(volatile int *)&job.totals->stop = 1;
        choice->epoch[0] = least;
        choice->go = left != 0 && *(volatile int *)&job.totals->stop == 0;
    }
    __syncthreads();
    *slowest = choice->epoch[0];
    const bool go = choice->go;
    __syncthreads();
    return go;
}

/* The next block after `from` that has fallen behind `lead`, blocks: none. */
static __device__ int64_t find_laggard(const struct drift_job &job, int64_t from, hf_u64 lead) {
    for (int64_t block = from; block < job.blocks; block++) {
        const hf_u64 epoch = epoch_of(job, block);
        if (epoch < (hf_u64)job.epochs && epoch + (hf_u64)job.lag <= lead)
            return block;
    }
    return job.blocks;
}

template <typename V>
static __device__ void help(const struct drift_job &job, const struct inside &own,
                            struct choice *choice, hf_u64 lead) {
    for (int64_t block = 0;;) {
        if (threadIdx.x == 0)
            choice->block = find_laggard(job, block, lead);
        __syncthreads();
        block = choice->block;
        __syncthreads();
        if (block >= job.blocks)
            return;
        if (relax<V>(job, block, own, choice, true) && threadIdx.x == 0)
            atomicAdd(&job.totals->takeovers, 1ull);
        block++;
    }
}

template <typename V>
static __global__ void __launch_bounds__(SPARSE_THREADS) drift_blocks(struct drift_job job) {
    __shared__ double near[3 * SHARED_ROWS];
    __shared__ struct choice choice;
    const long long begin = clock64();
    double *scratch =
        job.scratch != NULL ? job.scratch + 3 * job.largest * (int64_t)blockIdx.x : near;
    const struct inside own = {scratch, scratch + job.largest, scratch + 2 * job.largest};
    const int64_t first = job.blocks * blockIdx.x / gridDim.x;
    const int64_t last = job.blocks * (blockIdx.x + 1) / gridDim.x;
    hf_u64 slowest = 0;
    while (look_around(job, &choice, begin, &slowest)) {
        hf_u64 lead = 0;
        for (int64_t block = first; block < last; block++) {
            const hf_u64 epoch = epoch_of(job, block);
            const bool may = epoch < (hf_u64)job.epochs && !is_silent(job, block, epoch) &&
                             (job.lag == 0 || epoch < slowest + 2 * (hf_u64)job.lag);
            if (relax<V>(job, block, own, &choice, may))
                lead = epoch + 1 > lead ? epoch + 1 : lead;
        }
        if (job.lag > 0)
            help<V>(job, own, &choice, lead);
    }
}

/* What the blocks did, by one block of threads after all have ended. */
static __global__ void drift_tell(struct drift_job job) {
    if (threadIdx.x != 0)
        return;
    struct hf_drift_report report = {};
    report.slowest = INT64_MAX;
    for (int64_t block = 0; block < job.blocks; block++) {
        const int64_t epoch = (int64_t)job.state[block].epoch;
        report.square += job.state[block].square;
        report.slowest = epoch < report.slowest ? epoch : report.slowest;
    }
    report.relaxations = (int64_t)job.totals->relaxations;
    report.takeovers = (int64_t)job.totals->takeovers;
    *job.report = report;
}

static size_t carve(const struct hf_drift_args *args, int sms, struct drift_job *job, void *ws) {
    hf_carve carve = {(char *)ws, 0};
    job->totals = (struct drift_totals *)hf_carve_take(&carve, sizeof *job->totals);
    job->state =
        (struct drift_state *)hf_carve_take(&carve, (size_t)args->blocks * sizeof *job->state);
    job->scratch = args->largest <= SHARED_ROWS
                       ? NULL
                       : (double *)hf_carve_take(
                             &carve, hf_vector_bytes(EACH * (int64_t)sms * 3 * args->largest));
    return carve.used;
}

static size_t drift_workspace(const struct hf_call *call) {
    struct drift_job job;
    return carve((const struct hf_drift_args *)call->args, call->device->sms, &job, NULL);
}

static struct drift_job stage_job(struct hf_stage *stage, const struct hf_drift_args *args) {
    const size_t rows = hf_vector_bytes(args->a.rows);
    struct drift_job job = {};
    job.a = hf_stage_sparse(stage, &args->a);
    job.inverse = (const double *)hf_stage_in(stage, args->inverse, rows);
    job.block_start =
        (const int64_t *)hf_stage_in(stage, args->block_start, hf_vector_bytes(args->blocks + 1));
    job.blocks = args->blocks;
    job.largest = args->largest;
    job.inner = (const int32_t *)hf_stage_in(stage, args->inner, rows); /* two of 4 bytes */
    job.k = args->k;
    job.damping = args->damping;
    job.epochs = args->epochs;
    job.lag = args->lag;
    job.target = args->target;
    job.lost = (const uint8_t *)hf_stage_in(stage, args->lost, (size_t)args->blocks);
    job.lost_from = args->lost_from;
    job.b = (const double *)hf_stage_in(stage, args->b, rows);
    job.x = (double *)hf_stage_inout(stage, args->x, rows);
    job.report = (struct hf_drift_report *)hf_stage_out(stage, args->report, sizeof *args->report);
    return job;
}

static cudaError_t launch(const struct hf_cuda *cuda, struct drift_job *job) {
    const char *end = (const char *)(job->state + job->blocks);
    cudaError_t error =
        cudaMemsetAsync(job->totals, 0, (size_t)(end - (const char *)job->totals), cuda->stream);
    hf_for_sparse(job->a.dtype, [&](auto type) {
        const int64_t full = (int64_t)EACH * cuda->sms;
        const dim3 grid((unsigned)(job->blocks < full ? job->blocks : full));
        void *list[] = {job};
        if (error == cudaSuccess)
            error = cudaLaunchCooperativeKernel((const void *)drift_blocks<decltype(type)>, grid,
                                                dim3(SPARSE_THREADS), list, 0, cuda->stream);
    });
    return error;
}

static hf_status drift_run(const struct hf_call *call) {
    const struct hf_drift_args *args = (const struct hf_drift_args *)call->args;
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    struct drift_job job = stage_job(&stage, args);
    (void)carve(args, stage.cuda->sms, &job, call->ws);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    hf_status launched = hf_cuda_check(stage.cuda, launch(stage.cuda, &job), "drift");
    if (launched == HF_OK) {
        drift_tell<<<1, 32, 0, stage.cuda->stream>>>(job);
        launched = hf_cuda_launched(stage.cuda, "drift");
    }
    return hf_stage_end(&stage, launched);
}

static double drift_estimate(const struct hf_call *call) {
    const struct hf_drift_args *args = (const struct hf_drift_args *)call->args;
    return hf_cuda_pass_ns(0) +
           (double)args->epochs * (3000.0 + hf_sparse_bytes(&args->a) / 2000.0);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("drift_blocks_cuda", HF_DT(HF_F32) | HF_DT(HF_F64), 80, 0, HF_NO_TILE, NULL,
                   drift_workspace, drift_run, drift_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_drift_kernels_cuda;
const struct hf_kernel_table hf_drift_kernels_cuda = {kernels, 1};
}
