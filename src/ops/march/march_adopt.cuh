/* SPDX-License-Identifier: Apache-2.0
 * How a spare block of threads of op march goes on with a block whose own one was lost: from the
 * last epoch that all its rows were told of. Its neighbours wait for the next one, so what they
 * told of the same epoch is still there; but one that read only rows that were told of the next
 * epoch already may be two further, whose values do as well. */
#ifndef HF_MARCH_ADOPT_CUH
#define HF_MARCH_ADOPT_CUH

#include "ops/march/march_rows.cuh"

static __device__ __forceinline__ int64_t side_of(const struct march_job &job, int epoch) {
    return job.free || epoch % 2 == 0 ? 0 : job.n;
}

/* A row of the block: `own` ones lead those of others. */
struct place_of_row {
    int row, own, count, begin;
    bool acts, is_own;
};

static __device__ struct place_of_row find_row(const struct march_job &job, int block) {
    struct place_of_row r;
    r.begin = (int)job.map.block_start[block];
    r.own = (int)job.map.block_start[block + 1] - r.begin;
    r.count = job.map.row_count[block];
    r.row = (int)threadIdx.x / job.map.lanes;
    r.acts = r.row < r.count;
    r.is_own = r.row < r.own && (int)threadIdx.x % job.map.lanes == 0;
    return r;
}

/* The last epoch that all own rows were told of; 0: none. The same in all workers. */
static __device__ int last_told(const struct march_job &job, const struct place_of_row &r) {
    double *partial = partial_here();
    int epoch = NEVER;
    if (r.is_own) {
        epoch = 0;
        for (int side = 0; side < (job.free ? 1 : 2); side++) {
            const struct tag seen = load_tag(job.x_tag + side * job.n + r.begin + r.row);
            const hf_u64 made = seen.epoch - job.first;
            if (seen.epoch > job.first && made <= (hf_u64)job.most)
                epoch = max(epoch, (int)made);
        }
    }
    epoch = __reduce_min_sync(0xffffffffu, epoch);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = epoch;
    meet(job.map.threads);
    for (int w = 0; w < job.map.threads / 32; w++)
        epoch = min(epoch, (int)partial[w]);
    meet(job.map.threads);
    return epoch;
}

/* x and p of `epoch` from their tags. */
static __device__ void read_told(const struct march_job &job, const struct near &near,
                                 const struct place_of_row &r, int epoch) {
    const int64_t side = side_of(job, epoch);
    const hf_u64 wanted = job.first + (hf_u64)epoch;
    if (r.is_own) {
        const double x = load_tag(job.x_tag + side + r.begin + r.row).value;
        near.x(0)[r.row] = x;
        near.x(1)[r.row] = x;
        if (job.tells_p)
            near.p[r.row] = load_tag(job.p_tag + side + r.begin + r.row).value;
    }
    for (int i = (int)threadIdx.x; i < near.sources; i += job.map.threads) {
        struct tag x, p = {0, wanted};
        const bool copy = job.momentum && r.own + i < r.count;
        do {
            x = load_tag(job.x_tag + side + near.source[i]);
            if (copy)
                p = load_tag(job.p_tag + side + near.source[i]);
        } while ((x.epoch < wanted || p.epoch < wanted) && !job.free && !near.board->abort);
        if (x.epoch <= job.first)
            continue;
        near.x(0)[r.own + i] = x.value;
        near.x(1)[r.own + i] = x.value;
        if (copy && p.epoch > job.first)
            near.p[r.own + i] = p.value;
    }
}

/* c of the own rows, where a map makes it, behind the squares, and the x of the call's start. */
static __device__ void begin_again(const struct march_job &job, const struct near &near,
                                   const struct place_of_row &r) {
    if (job.map.rhs_map != NULL)
        map_right_side(job, r.own, near.x(0), near.squares + SLOTS * job.map.own);
    for (int i = (int)threadIdx.x; i < r.own + near.sources; i += job.map.threads) {
        const double v = job.x[i < r.own ? r.begin + i : near.source[i - r.own]];
        near.x(0)[i] = v;
        near.x(1)[i] = v;
    }
    meet(job.map.threads);
}

/* The residual of the rows as they are stands in for those of earlier epochs that the lost block
 * told nobody. */
template <int WIDTH, int LANES>
static __device__ void measure(const struct march_job &job, const struct near &near,
                               const struct place_of_row &r) {
    rows<WIDTH, LANES> row;
    row.load_elements(job);
    const double g = row.multiply(near.x(0));
    if (!r.is_own || !job.tested)
        return;
    const double inverse = job.inverse[r.begin + r.row];
    const double c = job.map.rhs_map != NULL ? near.squares[SLOTS * job.map.own + r.row]
                                             : inverse * job.b[r.begin + r.row];
    const double rest = (g + c) / inverse;
    for (int slot = 0; slot < SLOTS; slot++)
        near.squares[slot * job.map.own + r.row] = rest * rest;
}

/* The workers of a spare block, at a block that was lost: its x and p to shared memory, and
 * board->done says of which epoch they are. */
template <int WIDTH, int LANES>
static __device__ void resume(const struct march_job &job, const struct near &near) {
    struct board *board = near.board;
    const struct place_of_row r = find_row(job, board->block);
    begin_again(job, near, r);
    const int epoch = last_told(job, r);
    if (epoch > 0)
        read_told(job, near, r, epoch);
    meet(job.map.threads);
    measure<WIDTH, LANES>(job, near, r);
    meet(job.map.threads);
    if (threadIdx.x > 0)
        return;
    struct hf_march_taken *taken = job.report->taken + (blockIdx.x - (unsigned)job.map.blocks);
    taken->block = board->block;
    taken->epoch = epoch;
    taken->after_s = (double)(clock64() - board->begin) / CLOCK;
    taken->call = job.first + 1;
    __threadfence_block();
    board->done = epoch;
}

/* By all threads of a spare block: wait until one is lost, and take its place. False: none was. A
 * function of its own, before anything else: what it keeps in registers is not taken from the
 * iterations. */
template <int WIDTH, int LANES>
static __device__ __noinline__ bool take_over(const struct march_job &job) {
    struct board *board = board_here();
    __syncthreads();
    if ((int)threadIdx.x >= job.map.threads)
        stand_by(job, board);
    __syncthreads();
    const int block = board->block;
    if (block < 0 || block >= (int)job.map.blocks)
        return false;
    const struct near near = lay_out(job, block);
    fill(job, near, block);
    __syncthreads();
    if ((int)threadIdx.x < job.map.threads)
        resume<WIDTH, LANES>(job, near);
    return true;
}

/* For experiments: the worker is lost before epoch `it`, maybe with half of what it told before. */
static __device__ __noinline__ void lose_in_epochs(const struct march_job &job,
                                                   const struct row own, int it) {
    const bool half = job.loss.moment == HF_MARCH_HALF_TOLD && !job.free && !is_spare(job) &&
                      job.loss.blocks[blockIdx.x] != 0;
    if (half && own.is_own && threadIdx.x / 32 % 2 == 1) {
        const hf_u64 before = job.first + (hf_u64)(it > 3 ? it - 3 : 0);
        const int64_t at = side_of(job, it - 1) + own.begin + own.row;
        store_tag(job.x_tag + at, own.x, before);
        if (job.tells_p)
            store_tag(job.p_tag + at, own.p, before);
    }
    lose_worker(job, job.loss.moment, it);
}

#endif
