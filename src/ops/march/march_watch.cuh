/* SPDX-License-Identifier: Apache-2.0
 * The watcher of a block of op march: one warp, which decides when all leave. */
#ifndef HF_MARCH_WATCH_CUH
#define HF_MARCH_WATCH_CUH

#include "ops/march/march_board.cuh"

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

/* Is there nothing more to watch? Looks at the clock. */
static __device__ bool is_over(const struct march_job &job, struct board *board, long long begin) {
    if (threadIdx.x % 32 == 0 && clock64() - begin > job.limit)
        board->abort = 1;
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
    const int own = (int)(job.map.block_start[blockIdx.x + 1] - job.map.block_start[blockIdx.x]);
    double sum = 0;
    __threadfence_block();
    for (int r = (int)threadIdx.x % 32; r < own; r += 32)
        sum = __dadd_rn(sum, *(const volatile double *)&squares[slot * job.map.own + r]);
    return warp_total(sum);
}

/* Decisions of one round, until the last epoch is known. */
static __device__ void watch_round(const struct march_job &job, struct board *board,
                                   const double *squares, long long begin) {
    struct watch w = {0, INFINITY, 0, 0};
    bool over = false;
    for (int epoch = seen_by_one(board->first);; epoch += job.every) {
        while (!over && seen_by_one(board->done) < epoch)
            over = is_over(job, board, begin);
        if (over)
            return;
        const int slot = epoch / job.every % SLOTS;
        double sum = sum_squares(job, squares, slot);
        if (threadIdx.x % 32 == 0)
            store_tag(job.sum + slot * job.map.blocks + blockIdx.x, sum, job.first + (hf_u64)epoch);
        sum = collect(job.sum + slot * job.map.blocks, (int)job.map.blocks,
                      job.first + (hf_u64)epoch, [&] { return over = is_over(job, board, begin); });
        if (over)
            return;
        const bool end = decide(job, board, &w, sum);
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
                                    const double *squares, long long begin) {
    for (int round = 1;; round++) {
        while (seen_by_one(board->round) < round)
            if (is_over(job, board, begin) && seen_by_one(board->over))
                return;
        if (job.tested)
            watch_round(job, board, squares, begin);
    }
}

#endif
