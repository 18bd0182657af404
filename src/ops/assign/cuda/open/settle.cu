/* SPDX-License-Identifier: Apache-2.0
 * Float64 where other tiers left a doubt: one chain of additions for each pair; a block takes some
 * rows and spreads their pairs over its warps, as one row may have many more than another. */
#include "base/mem.h"
#include "device/cuda/chain.cuh"
#include "device/cuda/pack.cuh"
#include "device/cuda/phase.cuh"
#include "ops/assign/cuda/bounds.cuh"
#include "ops/assign/cuda/open/exact.cuh"
#include "ops/assign/cuda/open/pairs.cuh"
#include "ops/assign/cuda/open/settle.h"

#include <float.h>

#define WARPS 4       /* of a block of settle_pairs */
#define BLOCKS 4      /* of a multiprocessor: one wave */
#define GROUP 32      /* pairs a warp evaluates side by side, at most */
#define PAIR_ROWS 32  /* rows a block takes at a time, at most, */
#define PAIR_MOST 512 /* with so many pairs, at most */

#define COMPARE_THREADS 256
#define COMPARE_BLOCKS 6 /* of a multiprocessor; one wave if possible: a block's end takes long */
#define COMPARE_EACH 8   /* rows that a thread reads together, */
#define COMPARE_TURNS 4  /* at most so many times */

struct pairs_job : hf_settle_job {
    hf_metric metric;
    const float *norm_x; /* [batch, n] |x16|, NULL: not known */
    const double *norm;  /* [batch, k] */
};

struct pairs_shared {
    double term[WARPS][2 * PAIR_TERMS];
    double distance[PAIR_MOST]; /* of the pairs, row after row */
    int32_t arg[PAIR_MOST];     /* their centroids */
    int32_t entry[32];          /* of the open list; of each lane */
    int32_t row[32];            /* within the problem */
    int32_t end[32];            /* pairs up to and with this row */
    uint8_t owner[PAIR_MOST];   /* whose pair: number of the row here */
    int rows;                   /* that were taken */
};

/* The row that a lane of the first warp answers for. */
struct pair_row {
    int32_t row; /* within the problem */
    int count;   /* candidates, 0: none of this kernel's business */
    int end;     /* candidates up to and with this row */
};

/* Did differences leave a list of those that they could not decide? */
__device__ __forceinline__ bool listed_doubt(const struct pairs_job &job, int64_t b) {
    return job.s.doubt && job.s.doubt_count[b] != HF_SETTLE_ALL;
}

/* Rows of the list from number `first` on, up to `end`, to the lanes of the first warp: as many as
 * have no more than PAIR_MOST candidates. */
__device__ static struct pair_row take_rows(const struct pairs_job &job, struct pairs_shared &sm,
                                            int64_t b, int64_t first, int64_t end) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const struct hf_filter_open &open = job.s.open;
    struct pair_row r = {};
    const int64_t number = first + lane < end ? first + lane : first;
    const int64_t own = listed_doubt(job, b) ? job.s.doubt[b * open.cap + number] : number;
    const int64_t entry = b * open.cap + own;
    r.row = open.row[entry];
    const int emitted = open.emitted[entry];
    const bool known = open.threshold[entry] > -FLT_MAX; /* not -Inf, not NaN */
    const bool listed = known && emitted >= 1 && emitted <= HF_FILTER_SLOTS;
    int sum = listed ? emitted : 0;
    for (int step = 1; step < 32; step *= 2) {
        const int before = __shfl_up_sync(~0u, sum, step);
        sum += lane >= step ? before : 0;
    }
    const bool valid = first + lane < end && sum <= PAIR_MOST;
    sm.rows = __popc(__ballot_sync(~0u, valid)); /* the same for all lanes */
    /* a row of zeros is at the same distance from all, unless lengths matter */
    const bool zero =
        job.metric != HF_EUCLIDEAN && job.norm_x && job.norm_x[b * job.n + r.row] == 0;
    if (valid && zero)
        job.labels[b * job.n + r.row] = 0;
    else if (valid && listed)
        r.count = emitted;
    else if (valid)
        job.s.rest[b * job.n + atomicAdd(job.s.rest_count + b, 1)] = r.row;
    sm.entry[lane] = static_cast<int32_t>(own);
    sm.row[lane] = r.row;
    return r;
}

/* The first warp: what all must know of its rows' pairs. */
__device__ static void list_pairs(struct pairs_shared &sm, struct pair_row *r) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    r->end = r->count;
    for (int step = 1; step < PAIR_ROWS; step *= 2) {
        const int before = __shfl_up_sync(~0u, r->end, step);
        r->end += lane >= step ? before : 0;
    }
    sm.end[lane] = r->end;
    for (int i = r->end - r->count; i < r->end; i++)
        sm.owner[i] = static_cast<uint8_t>(lane);
}

/* The distances of this warp's share of the pairs. */
template <hf_dtype X, bool C_F64, bool PRODUCT>
__device__ static void pair_distances(const struct pairs_job &job, struct pairs_shared &sm,
                                      int64_t b) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int group = job.d <= PAIR_SHORT ? GROUP : pair_group<X, C_F64>;
    const char *x = static_cast<const char *>(job.x) + b * job.n * job.stride * hf_device_bytes<X>;
    const char *c = static_cast<const char *>(job.c) + b * job.k * job.d * (C_F64 ? 8 : 4);
    const int total = sm.end[PAIR_ROWS - 1], share = (total + WARPS - 1) / WARPS;
    const int end = min(total, (warp + 1) * share);
    for (int done = warp * share; done < end; done += group) {
        const int pairs = min(group, end - done);
        const int mine = done + (lane < pairs ? lane : 0);
        const int owner = sm.owner[mine];
        const int slot = mine - (owner > 0 ? sm.end[owner - 1] : 0);
        const int64_t entry = b * job.s.open.cap + sm.entry[owner];
        const int32_t arg = hf_slot_get(job.s.slots, entry, slot);
        const int32_t row = sm.row[owner];
        const char *its_x = x + row * job.stride * hf_device_bytes<X>;
        const char *its_c = c + arg * job.d * (C_F64 ? 8 : 4);
        const double sum = pair_sum<X, C_F64, PRODUCT>(its_x, its_c, static_cast<int>(job.d), pairs,
                                                       sm.term[warp]);
        double norm_x = 0, norm_c = 0;
        if (job.metric == HF_COSINE) {
            norm_x = hf_exact_norm<X>(its_x, job.d);
            norm_c = job.norm[b * job.k + arg];
        }
        if (lane < pairs) {
            sm.distance[mine] = hf_exact_finish(job.metric, sum, norm_x, norm_c);
            sm.arg[mine] = arg;
        }
    }
}

/* A row's label from the distances of its candidates. */
__device__ static void settle_row(const struct pairs_job &job, const struct pairs_shared &sm,
                                  int64_t b, const struct pair_row &r, bool bounded) {
    struct hf_winner best = hf_winner_none();
    double second = best.least; /* distance, or 0 where some are not known */
    for (int i = r.end - r.count; i < r.end; i++) {
        const double its = sm.distance[i];
        second = its >= 0 ? fmin(second, fmax(best.least, its)) : 0;
        hf_winner_offer(&best, its, sm.arg[i]);
    }
    job.labels[b * job.n + r.row] = hf_winner_label(best);
    if (bounded)
        hf_bounds_settled(job.s.bounds, b * job.n + r.row, best.least, second);
}

template <hf_dtype X, bool C_F64, bool PRODUCT>
static __global__ void __launch_bounds__(WARPS * 32, BLOCKS)
    settle_pairs(const struct pairs_job job) {
    __shared__ struct pairs_shared sm;
    hf_chain_wait();
    hf_chain_next();
    if (job.stop && *job.stop)
        return;
    const bool bounded = hf_bounds_wanted(job.s.bounds);
    for (int64_t b = blockIdx.y; b < job.batch; b += gridDim.y) {
        const int64_t listed = listed_doubt(job, b) ? job.s.doubt_count[b] : job.s.open.count[b];
        const int64_t count = listed < job.s.open.cap ? listed : job.s.open.cap;
        /* rows of a block at a time: few enough that all blocks have some */
        const int64_t share = (count + gridDim.x - 1) / gridDim.x;
        const int64_t turns = (share + PAIR_ROWS - 1) / PAIR_ROWS;
        const int64_t each = turns > 0 ? (share + turns - 1) / turns : 1;
        unsigned long long pairs = 0, rows = 0;
        for (int64_t first = blockIdx.x * each; first < count; first += gridDim.x * each) {
            const int64_t end = first + each < count ? first + each : count;
            for (int64_t at = first; at < end; at += sm.rows) {
                struct pair_row r = {};
                __syncthreads(); /* all know sm.rows */
                if (threadIdx.x < 32) {
                    r = take_rows(job, sm, b, at, end);
                    list_pairs(sm, &r);
                }
                __syncthreads();
                pairs += static_cast<unsigned>(sm.end[PAIR_ROWS - 1]);
                pair_distances<X, C_F64, PRODUCT>(job, sm, b);
                __syncthreads();
                rows += static_cast<unsigned>(__syncthreads_count(r.count > 0));
                if (r.count > 0)
                    settle_row(job, sm, b, r, bounded);
            }
        }
        if (threadIdx.x == 0 && pairs > 0) {
            atomicAdd(&job.s.tally[b].pairs, pairs);
            atomicAdd(&job.s.tally[b].float64, rows);
        }
    }
}

template <hf_dtype X, bool C_F64>
static cudaError_t launch_pairs(struct hf_cuda *cuda, dim3 grid, const struct pairs_job &job) {
    return hf_chain_launch(cuda,
                           job.metric == HF_EUCLIDEAN ? settle_pairs<X, C_F64, false>
                                                      : settle_pairs<X, C_F64, true>,
                           grid, WARPS * 32, 0, 1, job);
}

hf_status hf_settle_pairs(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                          const struct hf_assign_step *step, const struct hf_settle *s) {
    const struct hf_assign_problem *p = &rows->problem;
    struct pairs_job job = {};
    static_cast<struct hf_settle_job &>(job) = hf_settle_job_of(rows, step, s);
    job.metric = p->metric;
    job.norm_x = rows->norm;
    job.norm = s->norm;
    const int64_t most = rows->n;
    const int64_t share = (cuda->sms * BLOCKS + p->batch - 1) / p->batch;
    const dim3 grid((unsigned)(most < share ? most : share),
                    (unsigned)(p->batch < 65535 ? p->batch : 65535));
    cudaError_t error = cudaSuccess;
    hf_for_dtype(p->x.dtype, [&](auto type) {
        constexpr hf_dtype X = decltype(type)::value;
        error = p->c_type == HF_F64 ? launch_pairs<X, true>(cuda, grid, job)
                                    : launch_pairs<X, false>(cuda, grid, job);
    });
    return hf_cuda_check(cuda, error, "assign: settle pairs");
}

struct compare_job {
    const int32_t *old_labels, *labels;
    int32_t *replaced, *before; /* see hf_assign_step */
    int64_t n, k, batch;
    int turns;            /* of COMPARE_EACH rows of a thread */
    const int32_t *dense; /* [batch] rows compared with all centroids, NULL: every row */
    struct hf_settle s;
    struct hf_assign_counts *counts;
    struct hf_assign_stats *stats;
    int32_t *moved, *moved_count;
    const int32_t *stop;
};

template <int WIDE> struct __align__(4 * WIDE) label_pack { int32_t e[WIDE]; };

/* Row i of this thread behind its first. */
template <int WIDE> __device__ __forceinline__ int compare_row(int i) {
    return i / WIDE * WIDE * COMPARE_THREADS + i % WIDE;
}

/* Bit i: the label of this thread's row i of COMPARE_EACH changed. What old labels become is
 * written. */
template <int WIDE>
__device__ static unsigned changed_rows(const struct compare_job &job, int64_t first, int64_t end) {
    struct label_pack<WIDE> now[COMPARE_EACH / WIDE], old[COMPARE_EACH / WIDE];
#pragma unroll
    for (int p = 0; p < COMPARE_EACH / WIDE; p++) {
        const int64_t row = first + compare_row<WIDE>(p * WIDE);
        for (int i = 0; i < WIDE; i++)
            now[p].e[i] = old[p].e[i] = -1;
        if (row < end)
            now[p] = *reinterpret_cast<const struct label_pack<WIDE> *>(job.labels + row);
        if (row < end && job.old_labels)
            old[p] = *reinterpret_cast<const struct label_pack<WIDE> *>(job.old_labels + row);
    }
    unsigned bits = 0;
#pragma unroll
    for (int p = 0; p < COMPARE_EACH / WIDE; p++) {
        const int64_t row = first + compare_row<WIDE>(p * WIDE);
        unsigned differ = 0;
#pragma unroll
        for (int i = 0; i < WIDE; i++)
            differ |= (now[p].e[i] != old[p].e[i] ? 1u : 0u) << i;
        if (row >= end)
            continue;
        bits |= differ << p * WIDE;
        if (job.replaced && differ != 0)
            *reinterpret_cast<struct label_pack<WIDE> *>(job.replaced + row) = now[p];
        if (job.before)
            *reinterpret_cast<struct label_pack<WIDE> *>(job.before + row) = old[p];
    }
    return bits;
}

/* The same for all rows of this thread in problem b, bits of later turns above. */
template <int WIDE>
__device__ static unsigned all_changed_rows(const struct compare_job &job, int64_t b,
                                            int64_t first) {
    const int64_t end = (b + 1) * job.n;
    unsigned bits = 0;
    constexpr int64_t turn = COMPARE_THREADS * COMPARE_EACH;
#pragma unroll 1
    for (int t = 0; t < job.turns; t++)
        bits |= changed_rows<WIDE>(job, first + t * turn, end) << t * COMPARE_EACH;
    return bits;
}

/* Counts of a step carry in their upper bits how many blocks have added theirs, so that the last
 * one knows that it is, and the sum, by one trip to memory. */
#define COMPARE_TICKET (1ull << 32)

__device__ __forceinline__ unsigned long long compare_blocks(unsigned long long count) {
    return count / COMPARE_TICKET;
}

/* Append the changed rows of the block; returns their number to thread 0. */
template <int WIDE>
__device__ static int list_moved(const struct compare_job &job, int64_t first, unsigned bits) {
    __shared__ int start[COMPARE_THREADS / 32 + 1];
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int count = static_cast<int>(__reduce_add_sync(~0u, __popc(bits)));
    __syncthreads();
    if (lane == 0)
        start[warp + 1] = count;
    __syncthreads();
    int total = 0;
    if (threadIdx.x == 0) {
        for (int w = 1; w <= COMPARE_THREADS / 32; w++)
            total += start[w];
        start[0] = 0;
        if (job.moved) {
            const unsigned long long before =
                atomicAdd(job.s.moved, COMPARE_TICKET + static_cast<unsigned>(total));
            start[0] = static_cast<int>(before % COMPARE_TICKET);
            if (compare_blocks(before) ==
                static_cast<unsigned long long>(gridDim.x) * job.batch - 1)
                *job.moved_count = start[0] + total;
        }
        for (int w = 1; w <= COMPARE_THREADS / 32; w++)
            start[w] += start[w - 1];
    }
    if (!job.moved) /* the same for all threads */
        return total;
    __syncthreads();
    if (count == 0)
        return total;
    int at = start[warp];
    const int each = job.turns * COMPARE_EACH;
#pragma unroll 8
    for (int i = 0; i < each; i++) {
        const unsigned who = __ballot_sync(~0u, bits >> i & 1);
        if (bits >> i & 1)
            job.moved[at + __popc(who & ((1u << lane) - 1))] =
                static_cast<int32_t>(first + compare_row<WIDE>(i));
        at += __popc(who);
    }
    return total;
}

/* What the caller is told of problem b once all of its blocks have counted. */
__device__ static void report(const struct compare_job &job, int64_t b,
                              unsigned long long changed) {
    const int64_t open = job.s.open.count[b];
    const int64_t dense = job.dense ? job.dense[b] : job.n;
    struct hf_assign_counts counts = {};
    counts.changed = changed;
    if (job.s.scored && *job.s.scored_all != 0)
        counts.skipped = static_cast<unsigned long long>(job.n - job.s.scored[b]);
    counts.rechecked = static_cast<unsigned long long>(open > dense ? open : dense);
    counts.float64 = job.s.tally[b].float64 + static_cast<unsigned long long>(dense);
    counts.pairs = job.s.tally[b].pairs + static_cast<unsigned long long>(job.k * dense);
    job.counts[b] = counts;
    if (job.stats) {
        job.stats->changed += static_cast<int64_t>(counts.changed);
        job.stats->rechecked += static_cast<int64_t>(counts.rechecked);
        job.stats->float64 += static_cast<int64_t>(counts.float64);
        job.stats->pairs += static_cast<int64_t>(counts.pairs);
        job.stats->skipped += static_cast<int64_t>(counts.skipped);
    }
}

/* WIDE: labels that a thread reads together. */
template <int WIDE>
static __global__ void __launch_bounds__(COMPARE_THREADS, COMPARE_BLOCKS)
    compare_labels(const struct compare_job job) {
    hf_chain_wait();
    if (job.stop && *job.stop)
        return;
    for (int64_t b = blockIdx.y; b < job.batch; b += gridDim.y) {
        constexpr int64_t turn = COMPARE_THREADS * COMPARE_EACH;
        const int64_t first =
            b * job.n + blockIdx.x * turn * job.turns + static_cast<int64_t>(threadIdx.x) * WIDE;
        const unsigned bits = all_changed_rows<WIDE>(job, b, first);
        const int changed = list_moved<WIDE>(job, first, bits);
        if (threadIdx.x == 0) {
            const unsigned long long before =
                atomicAdd(&job.s.tally[b].changed, COMPARE_TICKET + static_cast<unsigned>(changed));
            if (compare_blocks(before) == gridDim.x - 1)
                report(job, b, before % COMPARE_TICKET + static_cast<unsigned>(changed));
        }
    }
}

static bool labels_wide(const struct compare_job *job) {
    const uintptr_t all = (uintptr_t)job->labels | (uintptr_t)job->old_labels |
                          (uintptr_t)job->replaced | (uintptr_t)job->before;
    return all % 16 == 0 && job->n % 4 == 0;
}

hf_status hf_settle_compare(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                            const struct hf_assign_step *step, const struct hf_settle *s,
                            const int32_t *dense_count) {
    const int64_t batch = rows->problem.batch;
    struct compare_job job = {};
    job.old_labels = step->old_labels;
    job.labels = step->labels;
    job.replaced = step->replaced;
    job.before = step->before;
    job.n = rows->n;
    job.k = rows->problem.k;
    job.batch = batch;
    job.dense = dense_count;
    job.s = *s;
    job.counts = step->counts;
    job.stats = step->stats;
    job.moved = step->moved;
    job.moved_count = step->moved_count;
    job.stop = step->stop;
    const int64_t turn = COMPARE_THREADS * COMPARE_EACH;
    const int64_t wave = batch * rows->n / (turn * cuda->sms * COMPARE_BLOCKS) + 1;
    const int64_t enough = (rows->n + turn - 1) / turn;
    const int64_t turns = wave < enough ? wave : enough;
    static_assert(COMPARE_EACH * COMPARE_TURNS == 32, "as many as a word has bits");
    job.turns = static_cast<int>(turns < COMPARE_TURNS ? turns : COMPARE_TURNS);
    const int64_t each = turn * job.turns;
    const dim3 grid((unsigned)((rows->n + each - 1) / each),
                    (unsigned)(batch < 65535 ? batch : 65535));
    return hf_cuda_check(cuda,
                         hf_chain_launch(cuda,
                                         labels_wide(&job) ? compare_labels<4> : compare_labels<1>,
                                         grid, COMPARE_THREADS, 0, 1, job),
                         "assign: compare labels");
}

size_t hf_settle_carve(const struct hf_assign_problem *problem, void *ws, struct hf_settle *s) {
    hf_carve carve = {(char *)ws, 0};
    const size_t batch = (size_t)problem->batch;
    const size_t rows = (size_t)problem->x.rows;
    const size_t items = batch < HF_SETTLE_ITEMS ? HF_SETTLE_ITEMS / batch : 1;
    *s = (struct hf_settle){};
    s->items = (int64_t)items;
    s->parts = (int64_t)items * HF_SETTLE_TILE;
    s->open.cap = problem->x.rows / problem->batch;
    s->open.row = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * rows);
    s->open.threshold = (float *)hf_carve_take(&carve, sizeof(float) * rows);
    s->open.emitted = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * rows);
    s->slots.narrow = hf_slots_narrow(problem->k);
    const size_t slots = (size_t)hf_slots_bytes(problem->k) * rows * HF_FILTER_SLOTS;
    s->slots.at = hf_carve_take(&carve, slots);
    const bool has_room = hf_neighbors_carve(problem, s->slots.at, slots, &s->neighbors);
    const size_t ordered = has_room ? (size_t)problem->k : 0;
    if (problem->metric == HF_EUCLIDEAN)
        s->unsure = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * rows);
    s->rest = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * rows);
    if (problem->metric == HF_COSINE)
        s->norm = (double *)hf_carve_take(&carve, sizeof(double) * batch * (size_t)problem->k);
    s->least = (double *)hf_carve_take(&carve, sizeof(double) * batch * (size_t)s->parts);
    s->least_arg = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * batch * (size_t)s->parts);
    /* the counters in one piece, widest first */
    const size_t tally = sizeof(struct hf_assign_counts) * batch;
    const size_t words = tally / sizeof(int32_t) + 3 + batch * (4 + items) +
                         HF_PHASES * sizeof(struct hf_phase) / sizeof(int32_t) + ordered;
    s->n_counters = (int64_t)words;
    s->counters = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * words);
    if (s->counters != NULL) {
        s->tally = (struct hf_assign_counts *)s->counters;
        s->moved = (unsigned long long *)(s->tally + batch);
        s->left_count = (int32_t *)(s->moved + 1);
        s->open.count = s->left_count + 1;
        s->rest_count = s->open.count + batch;
        s->unsure_count = s->rest_count + batch;
        s->last_count = s->unsure_count + batch;
        s->split = s->last_count + batch; /* [batch, items] of the dense kernel */
        s->phases = (struct hf_phase *)(s->split + batch * items);
        s->order_count = (int32_t *)(s->phases + HF_PHASES);
    }
    return carve.used;
}

hf_status hf_settle_open(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, const struct hf_settle *s,
                         const struct hf_filter_call *filter) {
    struct hf_settle left = *s;
    HF_TRY(hf_settle_by_neighbors(cuda, rows, step, &left));
    HF_TRY(hf_filter_emit(cuda, filter, &left.open, step->labels, left.slots));
    HF_TRY(hf_settle_differences(cuda, rows, step, &left));
    return hf_settle_pairs(cuda, rows, step, &left);
}
