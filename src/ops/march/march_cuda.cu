/* SPDX-License-Identifier: Apache-2.0
 * march on CUDA: one cooperative launch, a block of threads for each block of rows. Its elements
 * stay in registers and its x in shared memory for the whole call. A value travels to a neighbour
 * with the number of its epoch in one store of 16 bytes, so that neither fence, flag nor barrier is
 * needed, and a block waits for its neighbours alone.
 *
 * One more warp watches. At epochs every, 2 every, ... it adds up the squared residuals of its
 * block, publishes the sum and adds up those of all blocks, which is the same number in each: all
 * decide alike that `lead` epochs later is the end, without waiting, because no worker passes that
 * epoch before its watcher has decided. Whatever waits gives up when the time is over. */
#include "ops/march/march_check.cuh"
#include "ops/march/march_rows.cuh"
#include "ops/march/march_watch.cuh"

/* The board as the next round finds it: made + 1 is its first epoch. By one thread. */
static __device__ void open_round(const struct march_job &job, struct board *board, int round,
                                  int made, double target) {
    const int first = (made / job.every + 1) * job.every;
    board->target = target;
    board->first = first;
    board->horizon = job.tested ? first + job.lead : NEVER - 1;
    board->last = NEVER;
    __threadfence_block();
    board->round = round;
}

static __device__ void tell(const struct march_job &job, const struct board *board, int made,
                            int checks, double square) {
    struct hf_march_report report;
    report.square = square;
    report.estimate = board->estimate;
    report.epochs = made;
    report.checks = checks;
    report.stop = board->leave[0] || board->leave[1]                        ? HF_MARCH_ABORTED
                  : job.tested && square <= job.goal                        ? HF_MARCH_GOAL
                  : job.tested && (board->hopeless || !(square < INFINITY)) ? HF_MARCH_STALL
                                                                            : HF_MARCH_MOST;
    *job.report = report;
}

/* Where the workers of a block are. */
struct place {
    int it;  /* the epoch to be made next */
    int cur; /* side of x */
};

/* Epochs of a round. The elements are read at its beginning, so that no register need be kept for
 * them while the residual is taken. */
template <int WIDTH, int LANES>
static __device__ __forceinline__ struct place make_epochs(const struct march_job &job,
                                                           const struct near &near,
                                                           struct row *state, struct place at) {
    struct board *board = near.board;
    const int threads = job.map.threads;
    rows<WIDTH, LANES> own;
    static_cast<struct row &>(own) = *state;
    own.load_elements(job);
    own.begin_round(job, at.it);
    int it = at.it, cur = at.cur;
    for (; it <= job.most && may_go(board, it); it++) {
        own.step(job, near, cur, it);
        cur ^= (job.sweeps - 1) & 1;
        if (own.leads && own.acts)
            near.x(cur ^ 1)[own.row] = own.x;
        own.publish(job, it);
        if (job.sweeps > 1)
            meet(threads);
        cur ^= 1;
        own.bring(job, near, cur, it);
        if (threadIdx.x == 0)
            board->leave[it % 2] = board->abort;
        meet(threads);
        if (board->leave[it % 2])
            break;
        if (threadIdx.x == 0) {
            __threadfence_block();
            board->done = it;
        }
        if (own.acts && own.row >= own.own) {
            own.x = near.x(cur)[own.row];
            own.p = job.momentum ? near.p[own.row] : own.p;
        }
    }
    state->x = own.x;
    state->p = own.p;
    return {it, cur};
}

template <int WIDTH, int LANES>
static __device__ void work(const struct march_job &job, const struct near &near) {
    struct board *board = near.board;
    const int threads = job.map.threads;
    struct row own;
    load_row(job, near, &own);
    meet(threads);
    struct place at = {1, 0};
    int checks = 0;
    double square = 0, target = job.target;
    bool over = false;
    while (!over) {
        at = make_epochs<WIDTH, LANES>(job, near, &own, at);
        if (own.is_own)
            __stcg(&job.x[own.begin + own.row], own.x);
        over = !job.tested || board->leave[0] || board->leave[1];
        if (over)
            break;
        checks++;
        square = check_all(job, own.begin, own.own, job.first + (hf_u64)checks);
        over = square <= job.goal || !(square < INFINITY) || at.it > job.most || board->hopeless ||
               board->leave[0];
        target = fmin(target, board->estimate) * fmin(0.5, 0.5 * job.goal / square);
        if (!over && threadIdx.x == 0)
            open_round(job, board, checks + 1, at.it - 1, target);
        meet(threads);
    }
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0)
            tell(job, board, at.it - 1, checks, square);
        board->over = 1;
    }
}

template <int WIDTH, int LANES>
static __global__ void __launch_bounds__(WIDTH > 6 ? 512 : 768)
    march_blocks(const __grid_constant__ struct march_job job) {
    const long long begin = clock64();
    struct near near;
    double *at = partial_here() + 32;
    near.board = board_here();
    near.factor = at;
    at += 2 * job.factors;
    near.squares = at;
    at += job.map.own * (SLOTS + 1);
    near.p = at;
    at += job.map.rows;
    near.x0 = at;
    near.extent = job.map.extent;
    at += job.map.rhs > 2 * job.map.extent ? job.map.rhs : 2 * job.map.extent;
    near.source = (int *)at;
    const int64_t from = job.map.source_start[blockIdx.x];
    near.sources = (int)(job.map.source_start[blockIdx.x + 1] - from);
    for (int i = (int)threadIdx.x; i < near.sources; i += (int)blockDim.x)
        near.source[i] = job.map.source[from + i];
    for (int i = (int)threadIdx.x; i < 2 * job.factors; i += (int)blockDim.x)
        near.factor[i] = job.factor[i];
    for (int i = (int)threadIdx.x; i < job.map.rows; i += (int)blockDim.x)
        near.p[i] = 0;
    if (threadIdx.x == 0) {
        struct board *board = near.board;
        board->done = board->abort = board->over = board->hopeless = 0;
        board->leave[0] = board->leave[1] = 0;
        board->estimate = 0;
        open_round(job, board, 1, 0, job.target);
    }
    __syncthreads();
    if ((int)threadIdx.x < job.map.threads)
        work<WIDTH, LANES>(job, near);
    else
        watch_blocks(job, near.board, near.squares, begin);
}

/* ---- the row */

typedef void march_kernel(struct march_job);

template <int LANES> static march_kernel *pick_width(int width) {
    return width <= 3   ? march_blocks<3, LANES>
           : width <= 6 ? march_blocks<6, LANES>
           : width <= 9 ? march_blocks<9, LANES>
                        : march_blocks<16, LANES>;
}

static march_kernel *pick(const struct hf_march_map *map) {
    return map->lanes == 1   ? pick_width<1>(map->width)
           : map->lanes == 2 ? pick_width<2>(map->width)
                             : pick_width<4>(map->width);
}

static bool march_supports(const struct hf_call *call) {
    const struct hf_march_args *args = (const struct hf_march_args *)call->args;
    struct march_job job = {};
    job.map = args->map;
    job.factors = args->factors;
    const size_t most = call->device->sm >= 90 ? (size_t)227 << 10 : (size_t)99 << 10;
    return args->map.blocks <= call->device->sms && near_bytes(job) <= most &&
           args->a.rows < INT32_MAX / 2;
}

static struct hf_march_map stage_map(struct hf_stage *stage, const struct hf_march_map *map) {
    struct hf_march_map seen = *map;
    const size_t blocks = (size_t)map->blocks, starts = (blocks + 1) * sizeof(int64_t);
    const size_t places = blocks * (size_t)map->width * (size_t)map->threads;
    seen.block_start = (const int64_t *)hf_stage_in(stage, map->block_start, starts);
    seen.row_count = (const int32_t *)hf_stage_in(stage, map->row_count, blocks * sizeof(int32_t));
    seen.source_start = (const int64_t *)hf_stage_in(stage, map->source_start, starts);
    seen.source =
        (const int32_t *)hf_stage_in(stage, map->source, (size_t)map->sources * sizeof(int32_t));
    seen.value = (const double *)hf_stage_in(stage, map->value, places * sizeof(double));
    seen.column = (const uint16_t *)hf_stage_in(stage, map->column, places * sizeof(uint16_t));
    if (map->rhs_map == NULL)
        return seen;
    seen.rhs_start = (const int64_t *)hf_stage_in(stage, map->rhs_start, starts);
    seen.rhs_place = (const int32_t *)hf_stage_in(stage, map->rhs_place,
                                                  (size_t)map->rhs_places * sizeof(int32_t));
    seen.rhs_map_start = (const int64_t *)hf_stage_in(stage, map->rhs_map_start, starts);
    seen.rhs_map =
        (const double *)hf_stage_in(stage, map->rhs_map, hf_vector_bytes(map->rhs_elements));
    return seen;
}

static struct march_job stage_job(struct hf_stage *stage, const struct hf_march_args *args) {
    const int64_t n = args->a.rows, blocks = args->map.blocks;
    const size_t bytes = hf_march_state_bytes(n, blocks);
    struct march_job job = {};
    job.map = stage_map(stage, &args->map);
    job.a = hf_stage_sparse(stage, &args->a);
    job.inverse = (const double *)hf_stage_in(stage, args->inverse, hf_vector_bytes(n));
    job.b = (const double *)hf_stage_in(stage, args->b, hf_vector_bytes(n));
    job.x = (double *)hf_stage_inout(stage, args->x, hf_vector_bytes(n));
    job.factor =
        (const double *)hf_stage_in(stage, args->factor, hf_vector_bytes(2 * args->factors));
    job.sweeps = args->sweeps;
    job.factors = args->factors;
    job.every = args->every;
    job.lead = args->lead;
    job.most = (int)args->most;
    job.momentum = args->momentum;
    job.free = args->free;
    job.tested = args->goal >= 0;
    job.target = args->target;
    job.goal = args->goal;
    job.limit = (long long)(args->limit_s * 1.9e9);
    job.first = args->first;
    job.n = n;
    job.x_tag = (struct tag *)hf_stage_inout(stage, args->state, bytes);
    job.p_tag = job.x_tag + 2 * n;
    job.sum = job.p_tag + 2 * n;
    job.arrival = job.sum + SLOTS * blocks;
    job.report = (struct hf_march_report *)hf_stage_out(stage, args->report, sizeof *args->report);
    return job;
}

static hf_status launch(struct hf_cuda *cuda, struct march_job *job, bool timed) {
    const struct hf_device *device = hf_device_of(HF_DEV_CUDA);
    march_kernel *kernel = pick(&job->map);
    const int shared = (int)near_bytes(*job);
    void *list[] = {job};
    cudaError_t error = cudaFuncSetAttribute((const void *)kernel,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (error == cudaSuccess && job->first == 0)
        error = cudaMemsetAsync(job->x_tag, 0, hf_march_state_bytes(job->n, job->map.blocks),
                                cuda->stream);
    HF_TRY(hf_cuda_check(cuda, error, "march"));
    if (timed)
        HF_TRY(device->mark(cuda, 0));
    error = cudaLaunchCooperativeKernel((const void *)kernel, dim3((unsigned)job->map.blocks),
                                        dim3((unsigned)job->map.threads + 32), list, (size_t)shared,
                                        cuda->stream);
    HF_TRY(hf_cuda_check(cuda, error, "march"));
    return timed ? device->mark(cuda, 1) : HF_OK;
}

static hf_status march_run(const struct hf_call *call) {
    const struct hf_march_args *args = (const struct hf_march_args *)call->args;
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    struct march_job job = stage_job(&stage, args);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    return hf_stage_end(&stage, launch(stage.cuda, &job, args->timed));
}

static double march_estimate(const struct hf_call *call) {
    const struct hf_march_args *args = (const struct hf_march_args *)call->args;
    return hf_cuda_pass_ns(hf_sparse_bytes(&args->a)) +
           (double)args->most * (500.0 + 200.0 * args->sweeps);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("march_blocks_cuda", HF_DT(HF_F32) | HF_DT(HF_F64), 80, 0, HF_NO_TILE,
                   march_supports, NULL, march_run, march_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_march_kernels_cuda;
const struct hf_kernel_table hf_march_kernels_cuda = {kernels, 1};
}
