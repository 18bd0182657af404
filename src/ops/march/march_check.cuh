/* SPDX-License-Identifier: Apache-2.0
 * The true residual in the launch of op march. */
#ifndef HF_MARCH_CHECK_CUH
#define HF_MARCH_CHECK_CUH

#include "ops/march/march_rows.cuh"

#define SUM_LANES 8 /* threads to a row */
#define AHEAD 4     /* elements of a row that a thread asks for before x has arrived */

/* All blocks have called this for `epoch`, and what they wrote before is seen: a fence of one
 * thread covers what the others of its block wrote before the barrier. Returns the sum of their
 * values in all workers; those of a block are added up here if `sums`, else taken for 0. */
static __device__ double meet_all(const struct march_job &job, struct tag *place, bool sums,
                                  double value, hf_u64 epoch) {
    struct board *board = board_here();
    double *partial = partial_here();
    const int threads = job.map.threads, lane = (int)threadIdx.x;
    if (sums) {
        value = warp_total(value);
        if (lane % 32 == 0)
            partial[lane / 32] = value;
    }
    meet(threads);
    if (lane < 32) {
        double sum = sums && lane < threads / 32 ? partial[lane] : 0;
        sum = sums ? warp_total(sum) : 0;
        if (lane == 0) {
            struct tag *own = place + block_at(board);
            __threadfence();
            const bool told = is_spare(job) && load_tag(own).epoch == epoch; /* by one now lost */
            if (!told && may_tell(job, board))
                store_tag(own, sum, epoch);
        }
        sum = collect(place, (int)job.map.blocks, epoch, [&] { return board->abort != 0; });
        if (lane == 0) {
            board->total = sum;
            board->leave[0] = board->abort;
        }
        __threadfence();
    }
    meet(threads);
    return board->total;
}

/* What a thread knows of a row before it needs x. */
struct row_ahead {
    int64_t first, last; /* of its elements, SUM_LANES apart */
    double b, value[AHEAD];
    int column[AHEAD]; /* -1: none */
};

static __device__ __forceinline__ double element(const struct march_job &job, int64_t e) {
    return job.a.dtype == HF_F32 ? (double)((const float *)job.a.value)[e]
                                 : ((const double *)job.a.value)[e];
}

/* Row i; it is not there where `there` is false. */
static __device__ __forceinline__ void look_ahead(const struct march_job &job, int64_t i,
                                                  bool there, struct row_ahead *row) {
    const int lane = (int)threadIdx.x % SUM_LANES;
    row->first = there ? job.a.row_start[i] + lane : 0;
    row->last = there ? job.a.row_start[i + 1] : 0;
    row->b = there ? job.b[i] : 0;
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
        const int64_t e = row->first + u * SUM_LANES;
        row->column[u] = e < row->last ? job.a.column[e] : -1;
        row->value[u] = e < row->last ? element(job, e) : 0;
    }
}

/* b - A x of the row, in all threads of its group. */
static __device__ __forceinline__ double rest_of(const struct march_job &job,
                                                 const struct row_ahead &row) {
    double sum = 0;
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        if (row.column[u] >= 0)
            sum = fma(row.value[u], __ldcg(&job.x[row.column[u]]), sum);
    for (int64_t e = row.first + AHEAD * SUM_LANES; e < row.last; e += SUM_LANES)
        sum = fma(element(job, e), __ldcg(&job.x[job.a.column[e]]), sum);
    for (int o = SUM_LANES / 2; o > 0; o /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
    return row.b - sum;
}

/* |b - A x|^2 by rows begin .. begin + own of this block and those of all others, from the caller's
 * matrix, once the x of all has arrived. A function of its own: what it keeps in registers is not
 * taken from the iterations. */
static __device__ __noinline__ double check_all(const struct march_job &job, int begin, int own,
                                                hf_u64 meeting) {
    const int each = job.map.threads / SUM_LANES, first = (int)threadIdx.x / SUM_LANES;
    const bool leads = threadIdx.x % SUM_LANES == 0;
    struct row_ahead row;
    double square = 0;
    look_ahead(job, begin + first, first < own, &row);
    lose_worker(job, HF_MARCH_CHECK_BEGINS, (int64_t)(meeting - job.first));
    (void)meet_all(job, job.arrival, false, 0, meeting);
    lose_worker(job, HF_MARCH_CHECK_HALF, (int64_t)(meeting - job.first));
    for (int r = first; r - first < own; r += each) {
        struct row_ahead next;
        look_ahead(job, begin + r + each, r + each < own, &next);
        const double rest = rest_of(job, row);
        square = leads && r < own ? fma(rest, rest, square) : square;
        row = next;
    }
    return meet_all(job, job.arrival + job.map.blocks, true, square, meeting);
}

#endif
