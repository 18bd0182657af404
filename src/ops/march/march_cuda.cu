/* SPDX-License-Identifier: Apache-2.0
 * march on CUDA: one cooperative launch, a block of threads for each block of rows. Its elements
 * stay in registers and its x in shared memory for the whole call. A value travels to a neighbour
 * with the number of its epoch in one store of 16 bytes, so that neither fence, flag nor barrier is
 * needed, and a block waits for its neighbours alone.
 *
 * One more warp watches. At epochs every, 2 every, ... it adds up the squared residuals of its
 * block, publishes the sum and adds up those of all blocks, which is the same number in each: all
 * decide alike that `lead` epochs later is the end, without waiting, because no worker passes that
 * epoch before its watcher has decided. Whatever waits gives up when the time is over.
 *
 * Blocks of threads beyond those of the map stand by and take over (march_life.cuh,
 * march_adopt.cuh). */
#include "ops/march/march_adopt.cuh"
#include "ops/march/march_check.cuh"
#include "ops/march/march_rows.cuh"
#include "ops/march/march_watch.cuh"

#define SILENCE_S 10e-6 /* signs of life come at least every 2 us */

/* The board as the next round finds it: made + 1 is its first epoch. By one thread. */
static __device__ void open_round(const struct march_job &job, struct board *board, int round,
                                  int made, double target) {
    const int first = (made / job.every + 1) * job.every;
    if (round > 1 && job.spares > 0 && may_tell(job, board)) {
        struct tag *place = job.round + round % 2 * 2 * job.map.blocks + board->block;
        store_tag(place, target, job.first + (hf_u64)round);
        store_tag(place + job.map.blocks, made, job.first + (hf_u64)round);
    }
    board->before = board->start = 0;
    board->least = INFINITY;
    board->since = 0;
    board->target = target;
    board->first = first;
    board->horizon = job.tested ? first + job.lead : NEVER - 1;
    board->last = NEVER;
    __threadfence_block();
    board->round = round;
}

static __device__ void tell(const struct march_job &job, const struct board *board, int made,
                            int checks, double square) {
    struct hf_march_report *report = job.report;
    report->call = job.first + 1;
    report->square = square;
    report->estimate = board->estimate;
    report->epochs = made;
    report->checks = checks;
    report->stop = board->leave[0] || board->leave[1]                        ? HF_MARCH_ABORTED
                   : job.tested && square <= job.goal                        ? HF_MARCH_GOAL
                   : job.tested && (board->hopeless || !(square < INFINITY)) ? HF_MARCH_STALL
                                                                             : HF_MARCH_MOST;
}

/* Where the workers of a block are. */
struct place {
    int it;    /* the epoch to be made next */
    int cur;   /* side of x */
    int lose;  /* in an experiment: the epoch before which it is lost, */
    bool lost; /* and this is it */
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
    bool lost = false;
    for (; it <= job.most && may_go(board, it); it++) {
        lost = it == at.lose;
        if (lost)
            break;
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
    return {it, cur, at.lose, lost};
}

template <int WIDTH, int LANES>
static __device__ void work(const struct march_job &job, const struct near &near) {
    struct board *board = near.board;
    const int threads = job.map.threads;
    struct row own;
    load_row(job, near, &own);
    meet(threads);
    struct place at = {board->done + 1, 0, is_spare(job) ? 0 : job.lose_epoch, false};
    int checks = board->round - 1;
    double square = 0, target = board->target;
    bool over = false;
    while (!over) {
        at = make_epochs<WIDTH, LANES>(job, near, &own, at);
        if (at.lost) {
            lose_in_epochs(job, own, at.it);
            at.lose = 0;
            continue;
        }
        if (own.is_own && may_tell(job, board))
            __stcg(&job.x[own.begin + own.row], own.x);
        over = !job.tested || board->leave[0] || board->leave[1];
        if (over)
            break;
        checks++;
        square = check_all(job, own.begin, own.own, job.first + (hf_u64)checks);
        lose_worker(job, HF_MARCH_CHECK_ENDS, checks);
        over = square <= job.goal || !(square < INFINITY) || at.it > job.most || board->hopeless ||
               board->leave[0];
        target = fmin(target, board->estimate) * fmin(0.5, 0.5 * job.goal / square);
        if (!over && threadIdx.x == 0)
            open_round(job, board, checks + 1, at.it - 1, target);
        meet(threads);
    }
    if (!job.tested)
        meet(threads); /* x is complete before the watcher says so */
    if (threadIdx.x == 0) {
        if (board->block == 0 && !board->deposed && may_tell(job, board))
            tell(job, board, at.it - 1, checks, square);
        board->over = 1;
    }
}

/* By one thread. */
static __device__ __forceinline__ void open_board(const struct march_job &job) {
    struct board *board = board_here();
    board->done = board->abort = board->over = board->hopeless = 0;
    board->leave[0] = board->leave[1] = 0;
    board->deposed = board->dead = board->doubt = 0;
    board->sleep = 0;
    board->estimate = 0;
    board->block = (int)blockIdx.x;
    board->begin = board->lease = clock64();
    open_round(job, board, 1, 0, job.target);
}

template <int WIDTH, int LANES>
static __global__ void __launch_bounds__(WIDTH > 6 ? 512 : 768)
    march_blocks(const __grid_constant__ struct march_job job) {
    if (threadIdx.x == 0)
        open_board(job);
    if (is_spare(job) && !take_over<WIDTH, LANES>(job))
        return;
    const int block = is_spare(job) ? board_here()->block : (int)blockIdx.x;
    const struct near near = lay_out(job, block);
    if (!is_spare(job)) {
        fill(job, near, block);
        __syncthreads();
    }
    if ((int)threadIdx.x < job.map.threads)
        work<WIDTH, LANES>(job, near);
    else
        watch_blocks(job, near.board, near.squares);
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
    job.limit = (long long)(args->limit_s * CLOCK);
    job.silence = args->spares > 0
                      ? (long long)(CLOCK * (args->silence_s > 0 ? args->silence_s : SILENCE_S))
                      : INT64_MAX;
    job.spares = args->spares < HF_MARCH_SPARES ? args->spares : HF_MARCH_SPARES;
    job.tells_p = args->momentum || (job.spares > 0 && args->factors > 1);
    job.first = args->first;
    job.n = n;
    job.x_tag = (struct tag *)hf_stage_inout(stage, args->state, bytes);
    job.p_tag = job.x_tag + 2 * n;
    job.sum = job.p_tag + 2 * n;
    job.arrival = job.sum + SLOTS * blocks;
    job.round = job.arrival + 2 * blocks;
    job.verdict = job.round + 4 * blocks;
    job.beat = (hf_u64 *)(job.verdict + 8 * blocks);
    job.claim = job.beat + blocks;
    job.report =
        (struct hf_march_report *)hf_stage_inout(stage, args->report, sizeof *args->report);
    if (args->loss.blocks == NULL)
        return job;
    job.loss = args->loss;
    job.loss.blocks = (const uint8_t *)hf_stage_in(stage, args->loss.blocks, (size_t)blocks);
    job.pause = (long long)(args->loss.pause_s * CLOCK);
    job.lose_epoch = job.loss.moment <= HF_MARCH_HALF_TOLD ? (int)job.loss.at : 0;
    return job;
}

/* Blocks of threads beside those of the map, as many as are wanted and find room. */
static cudaError_t fit_spares(const struct hf_cuda *cuda, struct march_job *job,
                              march_kernel *kernel) {
    const int threads = job->map.threads + 32;
    int each = 1;
    if (job->spares + job->map.blocks > cuda->sms) {
        const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &each, (const void *)kernel, threads, near_bytes(*job));
        if (error != cudaSuccess)
            return error;
    }
    const int room = each * cuda->sms - (int)job->map.blocks;
    job->spares = job->spares < room ? job->spares : room;
    return cudaSuccess;
}

static hf_status launch(struct hf_cuda *cuda, struct march_job *job, bool timed) {
    const struct hf_device *device = hf_device_of(HF_DEV_CUDA);
    march_kernel *kernel = pick(&job->map);
    const int shared = (int)near_bytes(*job);
    void *list[] = {job};
    cudaError_t error = cudaFuncSetAttribute((const void *)kernel,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (error == cudaSuccess && job->spares > 0)
        error = fit_spares(cuda, job, kernel);
    if (error == cudaSuccess && job->first == 0)
        error = cudaMemsetAsync(job->x_tag, 0, hf_march_state_bytes(job->n, job->map.blocks),
                                cuda->stream);
    HF_TRY(hf_cuda_check(cuda, error, "march"));
    if (timed)
        HF_TRY(device->mark(cuda, 0));
    const dim3 grid((unsigned)job->map.blocks + (unsigned)job->spares);
    error = cudaLaunchCooperativeKernel((const void *)kernel, grid,
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
