/* SPDX-License-Identifier: Apache-2.0
 * march on CUDA, its kernels: one cooperative launch, a block of threads for each block of rows.
 * Its elements stay in registers and its x in shared memory for the whole call. A value travels to
 * a neighbour with the number of its epoch in one store of 16 bytes, so that neither fence, flag
 * nor barrier is needed, and a block waits for its neighbours alone.
 *
 * One more warp watches. At epochs every, 2 every, ... it adds up the squared residuals of its
 * block, publishes the sum and adds up those of all blocks, which is the same number in each: all
 * decide alike that `lead` epochs later is the end, without waiting, because no worker passes that
 * epoch before its watcher has decided. Whatever waits gives up when the time is over.
 *
 * Blocks of threads beyond those of the map stand by and take over (march_life.cuh,
 * march_adopt.cuh). */
#ifndef HF_MARCH_KERNELS_CUH
#define HF_MARCH_KERNELS_CUH

#include "ops/march/march_adopt.cuh"
#include "ops/march/march_check.cuh"
#include "ops/march/march_rows.cuh"
#include "ops/march/march_watch.cuh"

/* The board as the next round finds it: made + 1 is its first epoch. By one thread. */
static __device__ void open_round(const struct march_job &job, struct board *board, int round,
                                  int made, double target) {
    const int first = (made / job.every + 1) * job.every;
    if (GUARDED && round > 1 && job.spares > 0 && may_tell(job, board)) {
        struct tag *place = job.round + round % 2 * 2 * job.map.blocks + board->block;
        store_tag(place, target, job.first + (hf_u64)round);
        store_tag(place + job.map.blocks, made, job.first + (hf_u64)round);
    }
    if (GUARDED) { /* read_verdicts() may know better */
        board->before = board->start = 0;
        board->least = INFINITY;
        board->since = 0;
    }
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
        lost = GUARDED && it == at.lose;
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
    struct place at = {is_spare(job) ? board->done + 1 : 1, 0, is_spare(job) ? 0 : job.lose_epoch,
                       false};
    int checks = is_spare(job) ? board->round - 1 : 0;
    double square = 0, target = is_spare(job) ? board->target : job.target;
    bool over = false;
    while (!over) {
        at = make_epochs<WIDTH, LANES>(job, near, &own, at);
        if (GUARDED && at.lost) {
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
    if (GUARDED && !job.tested)
        meet(threads); /* x is complete before the watcher says so */
    if (threadIdx.x == 0) {
        if (block_at(board) == 0 && !board->deposed && may_tell(job, board))
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

#endif
