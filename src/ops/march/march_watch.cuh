/* SPDX-License-Identifier: Apache-2.0
 * The watcher of a block of op march: one warp, which decides when all leave. */
#ifndef HF_MARCH_WATCH_CUH
#define HF_MARCH_WATCH_CUH

#include "ops/march/march_life.cuh"

#define STALL 1000    /* decisions in which the estimate must fall */
#define DIVERGED 1e16 /* times the first estimate */
#define CAUTION 4     /* times a forecast must be below the target */

struct watch {
    double before, least, start;
    int since; /* decisions without a lower estimate */
};

/* What one thread of the warp sees, so that all do the same. */
static __device__ __forceinline__ int seen_by_one(int value) {
    return __shfl_sync(0xffffffffu, value, 0);
}

/* Is there nothing more to watch? Looks at the clock, and gives signs of life. */
static __device__ bool is_over(const struct march_job &job, struct board *board) {
    if (threadIdx.x % 32 == 0) {
        if (clock64() - board->begin > job.limit)
            board->abort = 1;
        if (GUARDED)
            give_sign(job, board);
    }
    __syncwarp();
    return seen_by_one(board->over || board->abort) != 0;
}

/* Is the epoch `lead` after this one the last? Forecast is the residual at its end, where every
 * epoch is looked at, else that at its beginning. */
static __device__ bool decide(const struct march_job &job, struct board *board, struct watch *w,
                              double sum) {
    const double ratio = w->before > 0 ? fmin(1.0, sum / w->before) : 1;
    double forecast = sum;
    for (int ahead = job.every > 1; ahead <= job.lead / job.every; ahead++)
        forecast *= ratio;
    w->start = w->start > 0 ? w->start : sum;
    w->since = sum < w->least ? 0 : w->since + 1;
    w->least = fmin(w->least, sum);
    w->before = sum;
    board->estimate = sum;
    if (w->since >= STALL || !(sum <= DIVERGED * w->start)) {
        board->hopeless = 1;
        return true;
    }
    return (forecast < sum ? CAUTION : 1) * forecast <= board->target;
}

/* The squared residuals of the block's rows at the beginning of `epoch`. */
static __device__ double sum_squares(const struct march_job &job, const double *squares, int slot) {
    const int64_t *start = job.map.block_start + block_at(board_here());
    const int own = (int)(start[1] - start[0]);
    double sum = 0;
    __threadfence_block();
    for (int r = (int)threadIdx.x % 32; r < own; r += 32)
        sum = __dadd_rn(sum, *(const volatile double *)&squares[slot * job.map.own + r]);
    return warp_total(sum);
}

/* The block's sum for `epoch` to all; what one that was lost has told already stays. By one thread.
 */
static __device__ void tell_sum(const struct march_job &job, const struct board *board,
                                struct tag *place, double sum, hf_u64 epoch) {
    if (is_spare(job) && load_tag(place).epoch == epoch)
        return;
    if (may_tell(job, board))
        store_tag(place, sum, epoch);
}

/* For one that may have to go on: read_verdicts(). */
static __device__ void note_verdict(const struct march_job &job, const struct board *board,
                                    const struct watch &w, int epoch, bool end) {
    if (!GUARDED)
        return;
    const int lane = (int)threadIdx.x % 32;
    const double word = 4 * w.since + 2 * (board->hopeless != 0) + (end ? 1 : 0);
    const double value = lane == 0 ? w.before : lane == 1 ? w.least : lane == 2 ? w.start : word;
    const int64_t place = (4 * (epoch / job.every % 2) + lane) * job.map.blocks + board->block;
    if (job.spares > 0 && lane < 4 && may_tell(job, board))
        store_tag(job.verdict + place, value, job.first + (hf_u64)epoch);
}

/* Decisions of one round, until the last epoch is known. */
static __device__ void watch_round(const struct march_job &job, struct board *board,
                                   const double *squares) {
    struct watch w = {0, INFINITY, 0, 0};
    if (is_spare(job))
        w = {board->before, board->least, board->start, board->since};
    bool over = false;
    for (int epoch = seen_by_one(board->first);; epoch += job.every) {
        while (!over && seen_by_one(board->done) < epoch)
            over = is_over(job, board);
        if (over)
            return;
        const int slot = epoch / job.every % SLOTS;
        double sum = sum_squares(job, squares, slot);
        if (threadIdx.x % 32 == 0)
            tell_sum(job, board, job.sum + slot * job.map.blocks + block_at(board), sum,
                     job.first + (hf_u64)epoch);
        sum = collect(job.sum + slot * job.map.blocks, (int)job.map.blocks,
                      job.first + (hf_u64)epoch, [&] { return over = is_over(job, board); });
        if (over)
            return;
        const bool end = decide(job, board, &w, sum);
        note_verdict(job, board, w, epoch, end);
        __threadfence_block();
        __syncwarp();
        if (end)
            board->last = epoch + job.lead;
        else
            board->horizon = epoch + job.every + job.lead;
        if (end)
            return;
    }
}

static __device__ void watch_blocks(const struct march_job &job, struct board *board,
                                    const double *squares) {
    for (int round = seen_by_one(board->round);; round++) {
        while (seen_by_one(board->round) < round)
            if (is_over(job, board) && seen_by_one(board->over))
                return give_last_sign(job, board);
        if (job.tested && seen_by_one(board->last == NEVER))
            watch_round(job, board, squares);
    }
}

#endif
