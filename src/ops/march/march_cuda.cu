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
#include "base/mem.h"
#include "ops/march/march.h"
#include "ops/sparse.cuh"

#define SLOTS 4       /* decisions whose sums may be under way at once */
#define SUM_LANES 8   /* threads to a row of the true residual */
#define STALL 1000    /* decisions in which the estimate must fall */
#define DIVERGED 1e16 /* times the first estimate */
#define CAUTION 4     /* times a forecast must be below the target */
#define NEVER 0x7fffffff

struct __align__(16) tag {
    double value;
    hf_u64 epoch;
};

struct march_job {
    struct hf_march_map map;
    struct hf_sparse a;
    const double *inverse, *b, *factor;
    double *x;
    int sweeps, factors, every, lead, most;
    bool momentum, free, tested;
    double target, goal;
    long long limit; /* clock cycles */
    hf_u64 first;
    int64_t n;
    struct tag *x_tag, *p_tag; /* [2, n] */
    struct tag *sum;           /* [SLOTS, blocks] */
    struct tag *arrival;       /* [2, blocks] */
    struct hf_march_report *report;
};

/* What workers and watcher of a block tell each other. */
struct board {
    volatile int done;    /* epochs that are complete */
    volatile int horizon; /* epochs that may be made */
    volatile int last;    /* the last one, NEVER: not decided */
    volatile int first;   /* that the watcher looks at, of */
    volatile int round;
    volatile int abort, over;
    volatile int hopeless; /* the estimate does not fall, or grew beyond bounds */
    volatile int leave[2];
    volatile double target, estimate;
    double total;
};

static __device__ __forceinline__ struct tag load_tag(const struct tag *p) {
    struct tag t;
    asm volatile("{.reg .b128 v; ld.relaxed.gpu.global.b128 v, [%2]; mov.b128 {%0, %1}, v;}"
                 : "=d"(t.value), "=l"(t.epoch)
                 : "l"(p)
                 : "memory");
    return t;
}

static __device__ __forceinline__ void store_tag(struct tag *p, double value, hf_u64 epoch) {
    asm volatile(
        "{.reg .b128 v; mov.b128 v, {%1, %2}; st.relaxed.gpu.global.b128 [%0], v;}" ::"l"(p),
        "d"(value), "l"(epoch)
        : "memory");
}

/* All workers, but not the watcher. */
static __device__ __forceinline__ void meet(int threads) {
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

/* The same bits in all threads of the warp. */
static __device__ __forceinline__ double warp_total(double v) {
    for (int step = 16; step > 0; step /= 2)
        v = __dadd_rn(v, __shfl_xor_sync(0xffffffffu, v, step));
    return v;
}

/* The sum of what all blocks published for `epoch`, by a warp; waits for them. */
static __device__ double collect(const struct tag *from, int64_t blocks, hf_u64 epoch,
                                 const struct board *board) {
    double sum = 0;
    for (int64_t j = threadIdx.x % 32; j < blocks; j += 32) {
        struct tag seen = load_tag(from + j);
        while (seen.epoch != epoch && !board->abort)
            seen = load_tag(from + j);
        sum = __dadd_rn(sum, seen.value);
    }
    return warp_total(sum);
}

/* ---- the watcher */

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

/* The sum of what all blocks published for `epoch`; *over: it was not waited for. */
static __device__ double watch_sums(const struct march_job &job, struct board *board, int slot,
                                    hf_u64 epoch, long long begin, bool *over) {
    const struct tag *from = job.sum + slot * job.map.blocks;
    double sum = 0;
    for (int64_t base = 0; base < job.map.blocks && !*over; base += 32) {
        const int64_t j = base + threadIdx.x % 32;
        struct tag seen = {0, epoch};
        bool missing = true;
        while (missing && !*over) {
            if (j < job.map.blocks)
                seen = load_tag(from + j);
            missing = __any_sync(0xffffffffu, seen.epoch != epoch);
            *over = missing && is_over(job, board, begin);
        }
        sum = __dadd_rn(sum, seen.value);
    }
    return warp_total(sum);
}

/* Is the epoch `lead` after this one the last? */
static __device__ bool decide(const struct march_job &job, struct board *board, struct watch *w,
                              double sum) {
    const double ratio = w->before > 0 ? fmin(1.0, sum / w->before) : 1;
    double forecast = sum;
    for (int ahead = 0; ahead < job.lead; ahead += job.every)
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
        sum = watch_sums(job, board, slot, job.first + (hf_u64)epoch, begin, &over);
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

/* ---- workers */

struct near {
    double *x[2];    /* [extent] */
    double *p;       /* [rows] of copies */
    double *squares; /* [SLOTS, own] */
    double *factor;  /* [factors, 2] */
    double *partial; /* [32] */
    int *source;     /* [extent] places that the block brings from outside */
    int sources;
    struct board *board;
};

static __host__ __device__ inline size_t near_bytes(const struct march_job &job) {
    const size_t spare =
        job.map.rhs > 2 * job.map.extent ? (size_t)job.map.rhs : 2 * (size_t)job.map.extent;
    return sizeof(double) * (spare + (size_t)job.map.rows + (size_t)job.map.own * (SLOTS + 1) +
                             2 * (size_t)job.factors + 32) +
           sizeof(struct board) + sizeof(int) * (size_t)job.map.extent;
}

/* c of own rows by the map from b, a warp to a row: to `c`. */
static __device__ void map_right_side(const struct march_job &job, int own, double *b, double *c) {
    const int64_t first = job.map.rhs_start[blockIdx.x];
    const int count = (int)(job.map.rhs_start[blockIdx.x + 1] - first);
    const double *map = job.map.rhs_map + job.map.rhs_map_start[blockIdx.x];
    const int threads = job.map.threads, lane = (int)threadIdx.x % 32;
    for (int i = (int)threadIdx.x; i < count; i += threads)
        b[i] = job.b[job.map.rhs_place[first + i]];
    meet(threads);
    for (int r = (int)threadIdx.x / 32; r < own; r += threads / 32) {
        const double *row = map + (int64_t)r * count;
        double sum = 0;
#pragma unroll 4
        for (int i = lane; i < count; i += 32)
            sum = fma(__ldg(row + i), b[i], sum);
        sum = warp_total(sum);
        if (lane == 0)
            c[r] = sum;
    }
    meet(threads);
}

/* May epoch `it` be made? The same answer for all workers: the horizon is behind the last epoch
 * until that is known. */
static __device__ __forceinline__ bool may_go(const struct board *board, int it) {
    for (;;) {
        const bool aborted = board->abort != 0;
        if (it > board->last)
            return false;
        if (it <= board->horizon || aborted)
            return true;
    }
}

/* Rows of a block in registers. */
template <int WIDTH, int LANES, int EACH> struct rows {
    double value[WIDTH];
    uint16_t column[WIDTH];
    double c, scale; /* scale: the diagonal, for the residual */
    double x, p;
    int row, own, count, begin;
    bool leads, acts, is_own;

    __device__ void load(const struct march_job &job, const struct near &near);
    __device__ double multiply(const double *x_ext) const;
    __device__ void step(const struct march_job &job, const struct near &near, int cur, int it);
    __device__ void publish(const struct march_job &job, int it);
    __device__ void bring(const struct march_job &job, const struct near &near, int cur, int it);
    __device__ double square(const struct march_job &job) const;
};

template <int WIDTH, int LANES, int EACH>
__device__ void rows<WIDTH, LANES, EACH>::load(const struct march_job &job,
                                               const struct near &near) {
    const struct hf_march_map &map = job.map;
    const int t = (int)threadIdx.x;
    const int64_t base = (int64_t)blockIdx.x * WIDTH * map.threads + t;
    begin = (int)map.block_start[blockIdx.x];
    own = (int)map.block_start[blockIdx.x + 1] - begin;
    count = map.row_count[blockIdx.x];
    row = t / LANES;
    leads = t % LANES == 0;
    acts = row < count;
    is_own = leads && row < own;
#pragma unroll
    for (int w = 0; w < WIDTH; w++) {
        value[w] = map.value[base + (int64_t)w * map.threads];
        column[w] = map.column[base + (int64_t)w * map.threads];
    }
    c = p = x = 0;
    scale = 1;
    if (map.rhs_map != NULL) {
        map_right_side(job, own, near.x[0], near.squares);
        c = acts ? near.squares[row] : 0;
        meet(map.threads);
    }
    if (acts) {
        const int place = row < own ? begin + row : near.source[row - own];
        c = map.rhs_map != NULL ? c : job.inverse[place] * job.b[place];
        scale = 1 / job.inverse[place];
        x = job.x[place];
    }
    for (int i = t; i < own + near.sources; i += map.threads) {
        const double v = job.x[i < own ? begin + i : near.source[i - own]];
        near.x[0][i] = v;
        near.x[1][i] = v;
    }
}

template <int WIDTH, int LANES, int EACH>
__device__ __forceinline__ double rows<WIDTH, LANES, EACH>::multiply(const double *x_ext) const {
    double sum[3] = {0, 0, 0};
#pragma unroll
    for (int w = 0; w < WIDTH; w++)
        sum[w % 3] = fma(value[w], x_ext[column[w]], sum[w % 3]);
    double all = sum[0] + sum[1] + sum[2];
#pragma unroll
    for (int o = LANES / 2; o > 0; o /= 2)
        all += __shfl_xor_sync(0xffffffffu, all, o);
    return all;
}

/* The sweeps of epoch `it`: x_ext in near.x[cur], which stays as it is but for sweeps > 1. */
template <int WIDTH, int LANES, int EACH>
__device__ __forceinline__ void rows<WIDTH, LANES, EACH>::step(const struct march_job &job,
                                                               const struct near &near, int cur,
                                                               int it) {
    for (int s = 0; s < job.sweeps; s++) {
        const int64_t made = (int64_t)(it - 1) * job.sweeps + s;
        const double *factor = near.factor + 2 * (made < job.factors ? (int)made : job.factors - 1);
        const double g = multiply(near.x[cur]) + c;
        p = fma(factor[1], p, factor[0] * g);
        x += p;
        if (s == 0 && job.tested && is_own && it % job.every == 0) {
            const double r = scale * g;
            near.squares[it / job.every % SLOTS * job.map.own + row] = r * r;
        }
        if (s + 1 == job.sweeps)
            break;
        if (leads && acts)
            near.x[cur ^ 1][row] = x;
        meet(job.map.threads);
        cur ^= 1;
    }
}

template <int WIDTH, int LANES, int EACH>
__device__ __forceinline__ void rows<WIDTH, LANES, EACH>::publish(const struct march_job &job,
                                                                  int it) {
    const int64_t at = (job.free ? 0 : it % 2) * job.n + begin + row;
    if (!is_own)
        return;
    store_tag(job.x_tag + at, x, job.first + (hf_u64)it);
    if (job.momentum)
        store_tag(job.p_tag + at, p, job.first + (hf_u64)it);
}

static __device__ __forceinline__ double
bring_momentum(const struct march_job &job, const struct near &near, int64_t at, hf_u64 epoch) {
    struct tag seen = load_tag(job.p_tag + at);
    while (seen.epoch != epoch && !job.free && !near.board->abort)
        seen = load_tag(job.p_tag + at);
    return seen.epoch > job.first ? seen.value : 0;
}

/* What others have computed, to near.x[cur]; with several sweeps to the other buffer as well. */
template <int WIDTH, int LANES, int EACH>
__device__ __forceinline__ void rows<WIDTH, LANES, EACH>::bring(const struct march_job &job,
                                                                const struct near &near, int cur,
                                                                int it) {
    const hf_u64 epoch = job.first + (hf_u64)it;
    const int64_t side = (job.free ? 0 : it % 2) * job.n;
    const int threads = job.map.threads;
    for (int base = (int)threadIdx.x; base < near.sources; base += EACH * threads) {
        struct tag seen[EACH];
        int source[EACH];
        bool missing;
#pragma unroll
        for (int u = 0; u < EACH; u++)
            source[u] = base + u * threads < near.sources ? near.source[base + u * threads] : -1;
        do {
            missing = false;
#pragma unroll
            for (int u = 0; u < EACH; u++)
                if (source[u] >= 0)
                    seen[u] = load_tag(job.x_tag + side + source[u]);
#pragma unroll
            for (int u = 0; u < EACH; u++)
                missing = missing || (source[u] >= 0 && seen[u].epoch != epoch);
        } while (missing && !job.free && !near.board->abort);
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            const int at = own + base + u * threads;
            if (source[u] < 0 || seen[u].epoch <= job.first)
                continue; /* of an earlier call: the start stays */
            near.x[cur][at] = seen[u].value;
            if (job.sweeps > 1)
                near.x[cur ^ 1][at] = seen[u].value;
            if (job.momentum && at < count)
                near.p[at] = bring_momentum(job, near, side + source[u], epoch);
        }
    }
}

/* The squared true residual of this thread's rows; x of all blocks has arrived. */
template <int WIDTH, int LANES, int EACH>
__device__ double rows<WIDTH, LANES, EACH>::square(const struct march_job &job) const {
    const int each = job.map.threads / SUM_LANES, lane = (int)threadIdx.x % SUM_LANES;
    double square = 0;
    for (int base = 0; base < own; base += each) {
        const int r = base + (int)threadIdx.x / SUM_LANES;
        const int64_t i = begin + r;
        double sum = 0;
        const int64_t last = r < own ? job.a.row_start[i + 1] : 0;
        for (int64_t e = r < own ? job.a.row_start[i] + lane : 0; e < last; e += SUM_LANES)
            sum = fma(job.a.dtype == HF_F32 ? (double)((const float *)job.a.value)[e]
                                            : ((const double *)job.a.value)[e],
                      __ldcg(&job.x[job.a.column[e]]), sum);
        for (int o = SUM_LANES / 2; o > 0; o /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, o);
        const double rest = r < own && lane == 0 ? job.b[i] - sum : 0;
        square = fma(rest, rest, square);
    }
    return square;
}

/* All blocks have called this for `epoch`, and what they wrote before is seen. Returns the sum of
 * their values, in all workers. */
static __device__ double meet_all(const struct march_job &job, const struct near &near,
                                  struct tag *place, double value, hf_u64 epoch) {
    const int threads = job.map.threads;
    value = warp_total(value);
    if (threadIdx.x % 32 == 0)
        near.partial[threadIdx.x / 32] = value;
    __threadfence();
    meet(threads);
    if (threadIdx.x < 32) {
        double sum = 0;
        for (int w = 0; w < threads / 32; w++)
            sum = __dadd_rn(sum, near.partial[w]);
        if (threadIdx.x == 0) {
            __threadfence();
            store_tag(place + blockIdx.x, sum, epoch);
        }
        sum = collect(place, job.map.blocks, epoch, near.board);
        __threadfence();
        if (threadIdx.x == 0) {
            near.board->total = sum;
            near.board->leave[0] = near.board->abort;
        }
    }
    meet(threads);
    __threadfence();
    return near.board->total;
}

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

template <int WIDTH, int LANES, int EACH>
static __device__ void work(const struct march_job &job, const struct near &near) {
    struct board *board = near.board;
    const int threads = job.map.threads;
    rows<WIDTH, LANES, EACH> own;
    own.load(job, near);
    meet(threads);
    int it = 1, cur = 0, checks = 0;
    double square = 0, target = job.target;
    bool over = false;
    while (!over) {
        for (; it <= job.most && may_go(board, it); it++) {
            own.step(job, near, cur, it);
            cur ^= (job.sweeps - 1) & 1;
            if (own.leads && own.acts)
                near.x[cur ^ 1][own.row] = own.x;
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
                own.x = near.x[cur][own.row];
                own.p = job.momentum ? near.p[own.row] : own.p;
            }
        }
        if (own.is_own)
            __stcg(&job.x[own.begin + own.row], own.x);
        over = !job.tested || board->leave[0] || board->leave[1];
        if (over)
            break;
        checks++;
        (void)meet_all(job, near, job.arrival, 0, job.first + (hf_u64)checks);
        square = own.square(job);
        square =
            meet_all(job, near, job.arrival + job.map.blocks, square, job.first + (hf_u64)checks);
        over = square <= job.goal || !(square < INFINITY) || it > job.most || board->hopeless ||
               board->leave[0];
        target = fmin(target, board->estimate) * fmin(0.5, 0.5 * job.goal / square);
        if (!over && threadIdx.x == 0)
            open_round(job, board, checks + 1, it - 1, target);
        meet(threads);
    }
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0)
            tell(job, board, it - 1, checks, square);
        board->over = 1;
    }
}

template <int WIDTH, int LANES, int EACH>
static __global__ void __launch_bounds__(WIDTH > 9   ? 480
                                         : WIDTH > 6 ? 640
                                                     : 768)
    march_blocks(const __grid_constant__ struct march_job job) {
    extern __shared__ __align__(16) double shared[];
    const long long begin = clock64();
    struct near near;
    double *at = shared;
    near.board = (struct board *)at;
    at += sizeof(struct board) / sizeof(double);
    near.partial = at;
    at += 32;
    near.factor = at;
    at += 2 * job.factors;
    near.squares = at;
    at += job.map.own * (SLOTS + 1);
    near.p = at;
    at += job.map.rows;
    near.x[0] = at;
    near.x[1] = at + job.map.extent;
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
        work<WIDTH, LANES, EACH>(job, near);
    else
        watch_blocks(job, near.board, near.squares, begin);
}

/* ---- the row */

typedef void march_kernel(struct march_job);

template <int WIDTH, int LANES> static march_kernel *pick_each(int64_t each) {
    return each <= 1 ? march_blocks<WIDTH, LANES, 1> : march_blocks<WIDTH, LANES, 4>;
}

template <int LANES> static march_kernel *pick_width(int width, int64_t each) {
    return width <= 3   ? pick_each<3, LANES>(each)
           : width <= 6 ? pick_each<6, LANES>(each)
           : width <= 9 ? pick_each<9, LANES>(each)
                        : pick_each<16, LANES>(each);
}

/* Values that a thread brings from outside, at most. */
static int64_t most_each(const struct hf_march_map *map) {
    return (map->extent + map->threads - 1) / map->threads;
}

static march_kernel *pick(const struct hf_march_map *map) {
    const int64_t each = most_each(map);
    return map->lanes == 1   ? pick_width<1>(map->width, each)
           : map->lanes == 2 ? pick_width<2>(map->width, each)
                             : pick_width<4>(map->width, each);
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

static cudaError_t launch(const struct hf_cuda *cuda, struct march_job *job) {
    march_kernel *kernel = pick(&job->map);
    const int shared = (int)near_bytes(*job);
    void *list[] = {job};
    cudaError_t error = cudaFuncSetAttribute((const void *)kernel,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (error == cudaSuccess && job->first == 0)
        error = cudaMemsetAsync(job->x_tag, 0, hf_march_state_bytes(job->n, job->map.blocks),
                                cuda->stream);
    if (error != cudaSuccess)
        return error;
    return cudaLaunchCooperativeKernel((const void *)kernel, dim3((unsigned)job->map.blocks),
                                       dim3((unsigned)job->map.threads + 32), list, (size_t)shared,
                                       cuda->stream);
}

static hf_status march_run(const struct hf_call *call) {
    const struct hf_march_args *args = (const struct hf_march_args *)call->args;
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    struct march_job job = stage_job(&stage, args);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    return hf_stage_end(&stage, hf_cuda_check(stage.cuda, launch(stage.cuda, &job), "march"));
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
