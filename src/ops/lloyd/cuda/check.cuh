/* SPDX-License-Identifier: Apache-2.0
 * The checks of op lloyd as parts of the launch that ends an iteration, where multiprocessors have
 * nothing else to do: while the sums follow the labels rows move in the book, and those that left a
 * cluster are looked at; while a block adds up the totals a warp compares the sums, the size and
 * the centroid of a cluster with what the book and other instructions than those of the step make
 * of them, and warps without a cluster look at rows. The block that is done last decides. */
#ifndef HF_LLOYD_CUDA_CHECK_CUH
#define HF_LLOYD_CUDA_CHECK_CUH

#include "device/cuda/pack.cuh"
#include "device/cuda/rng.cuh"
#include "ops/audit/audit.cuh"
#include "ops/lloyd/cuda/book.h"
#include "ops/lloyd/cuda/means.cuh"

#define ROW_SEED 0x726f7773ull
#define ROW_LANES 8
#define ROW_VALUES 1024 /* of centroids that a warp compares a row with: 1 us */
#define BOOK_EACH 10    /* rows of a thread, under way at once */
#define BOOK_MANY 16384 /* from so many moved rows on a block adds up what moves for itself */
#define MOVES_AT_ONCE 4 /* moved rows that a warp looks at */
#define CHECK_WARPS (HF_UPDATE_THREADS / UPDATE_WARP)

/* ---- the book */

/* Rows whose label differs from the book move in it. shared: hf_lloyd_checks_shared(). */
static __device__ void book_rows(const struct hf_lloyd_job &job,
                                 const struct hf_lloyd_checks &checks, int side, uint32_t *shared) {
    const struct hf_audit_job &audit = checks.audit;
    const int32_t *labels = job.labels[1 - side];
    const int k = (int)audit.k;
    const bool local = k <= AUDIT_BINS && job.control->moved >= BOOK_MANY;
    const struct audit_bins own = audit_bins_of(local ? shared : NULL, k);
    const int64_t threads = (int64_t)gridDim.x * HF_UPDATE_THREADS;
    int changed = 0;
    audit_bins_clear(own, k, HF_UPDATE_THREADS);
    for (int64_t base = (int64_t)blockIdx.x * HF_UPDATE_THREADS + threadIdx.x; base < audit.n;
         base += BOOK_EACH * threads) {
        int32_t from[BOOK_EACH], to[BOOK_EACH];
#pragma unroll
        for (int u = 0; u < BOOK_EACH; u++) {
            const int64_t i = base + u * threads;
            from[u] = i < audit.n ? audit.booked[i] : 0;
            to[u] = i < audit.n ? labels[i] : 0;
        }
#pragma unroll
        for (int u = 0; u < BOOK_EACH; u++)
            if (from[u] != to[u]) {
                changed++;
                (void)audit_move_row(audit, own, base + u * threads, from[u], to[u]);
            }
    }
    changed = __reduce_add_sync(ALL, changed);
    if (threadIdx.x % UPDATE_WARP == 0 && changed > 0)
        atomicAdd((hf_u64 *)&audit.found->changed, (hf_u64)changed);
    audit_bins_add(audit, own, k, HF_UPDATE_THREADS);
}

/* ---- moves */

/* |x - c|^2 of the reference, by one thread. */
template <hf_dtype T>
static __device__ __noinline__ double ordered_distance(const struct hf_lloyd_job &job,
                                                       const char *x, int64_t center, int side) {
    double sum = 0;
    for (int64_t f = 0; f < job.update.d; f++) {
        const double diff =
            __dsub_rn(hf_device_load<T>(x, f),
                      center_at(job.centers[side], job.rule.type, center * job.update.d + f));
        sum = __dadd_rn(sum, __dmul_rn(diff, diff));
    }
    return sum;
}

/* Less than this times a sum of d squares is all that may be rounded in it, in whatever order. */
static __device__ __forceinline__ double rounding(int64_t d) { return (double)(d + 64) * 0x1p-52; }

/* A row that left a cluster for another one. */
struct left_row {
    int32_t row, from, to;
};

/* May it, by the reference? */
template <hf_dtype T>
static __device__ bool may_move(const struct hf_lloyd_job &job, const struct left_row &move,
                                int side) {
    const char *x = job.update.x + move.row * job.update.row_bytes;
    const double was = ordered_distance<T>(job, x, move.from, side);
    const double is = ordered_distance<T>(job, x, move.to, side);
    return !(was < is || (was == is && move.from < move.to));
}

/* The type of centroids of rows of type T. */
template <hf_dtype T> inline constexpr hf_dtype center_type = T == HF_F64 ? HF_F64 : HF_F32;

/* Columns [f, f + V): squared distances to both centroids are added. V 1: of any type. */
template <hf_dtype T, int V>
static __device__ __forceinline__ void add_ways(const struct hf_lloyd_job &job,
                                                const struct left_row &move, int f, int side,
                                                double *was, double *is) {
    const struct hf_update_job &u = job.update;
    const char *x = u.x + move.row * u.row_bytes;
    const int64_t from = move.from * u.d + f, to = move.to * u.d + f;
    if constexpr (V == 1) {
        const double v = hf_device_load<T>(x, f);
        const double a = v - center_at(job.centers[side], job.rule.type, from);
        const double b = v - center_at(job.centers[side], job.rule.type, to);
        *was += a * a;
        *is += b * b;
    } else {
        typedef hf_pack<center_type<T>, V> centers;
        typedef typename hf_element<center_type<T>>::type element;
        const element *const c = (const element *)job.centers[side];
        const hf_pack<T, V> v = *(const hf_pack<T, V> *)(x + (int64_t)f * hf_device_bytes<T>);
        const centers a = *(const centers *)(c + from), b = *(const centers *)(c + to);
#pragma unroll
        for (int e = 0; e < V; e++) {
            const double w = (double)hf_widen<T>(v.e[e]);
            *was += (w - (double)a.e[e]) * (w - (double)a.e[e]);
            *is += (w - (double)b.e[e]) * (w - (double)b.e[e]);
        }
    }
}

/* Up to MOVES_AT_ONCE rows of a warp, in its first lanes; a row that is not there is -1. By sums in
 * any order, and by the reference where these are too close. */
template <hf_dtype T, int V>
static __device__ __forceinline__ void look_at_some_moves(const struct hf_lloyd_job &job,
                                                          const struct hf_lloyd_checks &checks,
                                                          const struct left_row &own, int side) {
    const int d = (int)job.update.d;
    struct left_row move[MOVES_AT_ONCE];
    double was[MOVES_AT_ONCE] = {}, is[MOVES_AT_ONCE] = {};
    const unsigned there = __ballot_sync(ALL, own.row >= 0);
#pragma unroll
    for (int u = 0; u < MOVES_AT_ONCE; u++) {
        move[u].row = max(__shfl_sync(ALL, own.row, u), 0);
        move[u].from = __shfl_sync(ALL, own.from, u);
        move[u].to = __shfl_sync(ALL, own.to, u);
    }
    for (int f = (int)threadIdx.x % UPDATE_WARP * V; f < d; f += UPDATE_WARP * V)
#pragma unroll
        for (int u = 0; u < MOVES_AT_ONCE; u++)
            add_ways<T, V>(job, move[u], f, side, &was[u], &is[u]);
#pragma unroll
    for (int u = 0; u < MOVES_AT_ONCE; u++) {
        const double before = fold_warp(was[u]), after = fold_warp(is[u]);
        if ((there >> u & 1) == 0 || after < before - rounding(d) * (before + after))
            continue;
        if (!may_move<T>(job, move[u], side) && threadIdx.x % UPDATE_WARP == 0)
            audit_note(&checks.ledger->found.farther, move[u].row);
    }
}

/* The rows of the step's list that left a cluster; that it has all of them the sums tell. */
template <hf_dtype T, int V>
static __device__ void look_at_moves_by(const struct hf_lloyd_job &job,
                                        const struct hf_lloyd_checks &checks, int side) {
    const uint32_t n = (uint32_t)job.update.n, k = (uint32_t)job.update.k;
    const int64_t warps = (int64_t)gridDim.x * CHECK_WARPS;
    const int64_t count = min((int64_t)job.control->moved, job.update.n);
    const int lane = (int)threadIdx.x % UPDATE_WARP;
    const int64_t own = (int64_t)threadIdx.x / UPDATE_WARP * gridDim.x + blockIdx.x;
    for (int64_t base = own * MOVES_AT_ONCE; base < count; base += warps * MOVES_AT_ONCE) {
        struct left_row move = {-1, 0, 0};
        if (lane < MOVES_AT_ONCE && base + lane < count) {
            const int32_t row = job.moved[base + lane];
            const int32_t from = (uint32_t)row < n ? job.labels[side][row] : -1;
            const int32_t to = (uint32_t)row < n ? job.labels[1 - side][row] : -1;
            if ((uint32_t)from < k && (uint32_t)to < k)
                move = {row, from, to};
        }
        if (__any_sync(ALL, move.row >= 0))
            look_at_some_moves<T, V>(job, checks, move, side);
    }
}

template <hf_dtype T>
static __device__ void look_at_moves(const struct hf_lloyd_job &job,
                                     const struct hf_lloyd_checks &checks, int side) {
    constexpr int V = T == HF_F64 ? 2 : 4;
    const struct hf_update_job &u = job.update;
    const bool rows = ((uintptr_t)u.x | (uintptr_t)u.row_bytes) % (V * hf_device_bytes<T>) == 0;
    if (rows && u.d % V == 0 && job.rule.type == center_type<T> &&
        (uintptr_t)job.centers[side] % 16 == 0)
        look_at_moves_by<T, V>(job, checks, side);
    else
        look_at_moves_by<T, 1>(job, checks, side);
}

/* Before anything goes by the labels of a step, or beside it. */
template <hf_dtype T>
static __device__ void check_labels(const struct hf_lloyd_job &job,
                                    const struct hf_lloyd_checks &checks, int side,
                                    uint32_t *shared) {
    if (checks.audit.list != NULL) /* booked and looked at by launches of their own */
        return;
    if (job.exact && (checks.checks & HF_CHECK_BIT(HF_FAULT_MOVES)) != 0)
        look_at_moves<T>(job, checks, side);
    book_rows(job, checks, side, shared);
}

/* ---- the clusters */

/* What a warp adds to the signatures. */
struct signs {
    hf_u64 used, next;
};

/* What value i of centroids adds to their signature. */
static __device__ __forceinline__ hf_u64 sign_center(double value, hf_dtype type, int64_t i) {
    if (type != HF_F64)
        return audit_sign(__float_as_uint((float)value), i);
    const hf_u64 bits = (hf_u64)__double_as_longlong(value);
    return audit_sign((uint32_t)bits, 2 * i) + audit_sign((uint32_t)(bits >> 32), 2 * i + 1);
}

static __device__ __forceinline__ bool same(double a, double b) {
    return __double_as_longlong(a) == __double_as_longlong(b);
}

/* What a warp looks at clusters with. */
struct looking {
    const struct hf_lloyd_job &job;
    const struct hf_lloyd_checks &checks;
    int side;
    void *kept;
    struct signs *signs;
};

/* What a warp finds in a cluster. */
struct found {
    hf_u64 word; /* of its sums, a part of each lane */
    struct lane_sums lane;
    bool right; /* the centroid, in this lane */
};

/* Columns of a centroid, whose loads are under way together. */
#define CHECK_COLUMNS 4

/* Columns first, first + UPDATE_WARP, ...: the words of the sums, and the centroid once more,
 * compared and kept. */
static __device__ __forceinline__ void look_at_columns(const struct looking &look,
                                                       const struct cluster &c,
                                                       const struct divisor &divisor, int first,
                                                       struct found *found) {
    const struct hf_lloyd_job &job = look.job;
    const int side = look.side;
    const hf_dtype type = job.rule.type;
    const int d = (int)job.update.d;
    int64_t sum[CHECK_COLUMNS];
    double before[CHECK_COLUMNS], stored[CHECK_COLUMNS];
#pragma unroll
    for (int u = 0; u < CHECK_COLUMNS; u++) {
        const int f = min(first + u * UPDATE_WARP, d - 1);
        sum[u] = c.sum[f];
        before[u] = center_at(job.centers[side], type, c.at + f);
        stored[u] = center_at(job.centers[1 - side], type, c.at + f);
    }
#pragma unroll
    for (int u = 0; u < CHECK_COLUMNS; u++) {
        const int f = first + u * UPDATE_WARP;
        if (f >= d)
            break;
        put_center(look.kept, type, c.at + f, stored[u]);
        found->word += look.checks.factor[f] * (hf_u64)sum[u];
        look.signs->used += sign_center(before[u], type, c.at + f);
        look.signs->next += sign_center(stored[u], type, c.at + f);
    }
#pragma unroll
    for (int u = 0; u < CHECK_COLUMNS; u++) {
        const int f = first + u * UPDATE_WARP;
        if (f >= d)
            break;
        const double value = sum_at<false>(job.update, c, f, sum[u]);
        add_inertia(job.rule.metric, job.rule.metric == HF_EUCLIDEAN ? job.rule.shift[f] : 0, c,
                    value, before[u], found->lane);
        found->right &=
            same(moved_to<false>(job.rule, divisor, value, before[u], found->lane), stored[u]);
    }
}

/* The words of second limbs and of the weight, a part of each lane. */
static __device__ __forceinline__ hf_u64 other_words(const struct hf_update_job &u,
                                                     const uint64_t *factor, int64_t j) {
    const int lane = (int)threadIdx.x % UPDATE_WARP;
    hf_u64 word = 0;
    for (int64_t f = lane; u.limbs > 1 && f < u.d; f += UPDATE_WARP)
        word += factor[u.d + 1 + f] * (hf_u64)u.sum[(u.k + j) * u.d + f];
    if (u.weight == NULL || lane >= u.limbs)
        return word;
    return word + factor[lane * (u.d + 1) + u.d] * (hf_u64)u.weight[lane * u.k + j];
}

/* Cluster j, by a warp; returns HF_CHECK_BIT()s of what is wrong. */
static __device__ uint32_t look_at(const struct looking &look, int64_t j) {
    const struct hf_lloyd_job &job = look.job;
    const struct hf_lloyd_checks &checks = look.checks;
    const struct hf_update_job &u = job.update;
    const hf_u64 booked = checks.audit.word[j];
    const int64_t count = u.count[j], rows = checks.audit.rows[j];
    const double part = job.inertia[j], way = job.shift[j];
    struct cluster c;
    c.sum = u.sum + j * u.d;
    c.unit = job.rule.unit;
    c.p = 0;
    c.at = j * u.d;
    c.weight = weight_of(u, 0, j);
    const struct divisor divisor = {divisor_of(job, c), 0};
    struct found found = {other_words(u, checks.factor, j), {0, 0, 0}, true};
    for (int f = (int)threadIdx.x % UPDATE_WARP; f < (int)u.d; f += CHECK_COLUMNS * UPDATE_WARP)
        look_at_columns(look, c, divisor, f, &found);
    const double inertia = inertia_part(job.rule.metric, c, found.lane);
    const double shift = fold_warp(found.lane.moved);
    found.right &= same(c.weight > 0 ? inertia : 0, part) && same(shift, way);
    if (job.drift != NULL) /* at least how far it moved */
        found.right &= !(__dmul_rn(job.drift[j], job.drift[j]) < shift);
    uint32_t wrong = 0;
    if (hf_warp_sum(found.word) != booked)
        wrong |= HF_CHECK_BIT(HF_FAULT_SUMS);
    if (count != rows)
        wrong |= HF_CHECK_BIT(HF_FAULT_COUNTS);
    if (!__all_sync(ALL, found.right))
        wrong |= HF_CHECK_BIT(HF_FAULT_MEANS);
    if (threadIdx.x % UPDATE_WARP == 0 && !(c.weight > 0))
        atomicAdd((hf_u64 *)&checks.ledger->empty, (hf_u64)1);
    return wrong & checks.checks;
}

/* Clusters `first`, first + warps, ... */
static __device__ void look_at_clusters(const struct hf_lloyd_job &job,
                                        const struct hf_lloyd_checks &checks, int side,
                                        int64_t first, int64_t warps) {
    struct hf_lloyd_ledger *l = checks.ledger;
    void *kept = checks.kept[(l->moves + 1) % HF_LLOYD_KEPT];
    struct signs signs = {0, 0};
    const struct looking look = {job, checks, side, kept, &signs};
    for (int64_t j = first; j < job.update.k; j += warps) {
        const uint32_t wrong = look_at(look, j);
        if (wrong == 0 || threadIdx.x % UPDATE_WARP != 0)
            continue;
        atomicOr(&l->wrong, wrong);
        l->cluster = (int32_t)j;
    }
    signs.used = hf_warp_sum(signs.used);
    signs.next = hf_warp_sum(signs.next);
    if (threadIdx.x % UPDATE_WARP != 0)
        return;
    atomicAdd((hf_u64 *)&l->used, signs.used);
    atomicAdd((hf_u64 *)&l->next, signs.next);
}

/* ---- rows */

/* |x - c_j|^2, in all lanes of a group of ROW_LANES. */
template <hf_dtype T>
static __device__ __forceinline__ double distance_to(const struct hf_lloyd_job &job, const char *x,
                                                     int64_t j, int side) {
    const struct hf_update_job &u = job.update;
    double sum = 0;
#pragma unroll 4
    for (int64_t f = threadIdx.x % ROW_LANES; f < u.d; f += ROW_LANES) {
        const double diff =
            hf_device_load<T>(x, f) - center_at(job.centers[side], job.rule.type, j * u.d + f);
        sum += diff * diff;
    }
    for (int step = ROW_LANES / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(ALL, sum, step);
    return sum;
}

/* Is a row that the lot chooses in this step nearer to another centroid than to its own, by more
 * than rounding? Warp number `spare` of those without a cluster looks at some of the centroids; the
 * rows of an iteration find a multiprocessor that computes wrongly again and again. */
template <hf_dtype T>
static __device__ void look_at_row(const struct hf_lloyd_job &job,
                                   const struct hf_lloyd_checks &checks, int side, int64_t spare) {
    constexpr int GROUPS = UPDATE_WARP / ROW_LANES;
    const struct hf_update_job &u = job.update;
    const int64_t some = max(ROW_VALUES / u.d, (int64_t)1), parts = (u.k + some - 1) / some;
    const uint64_t lot =
        hf_device_rng_bits(ROW_SEED, (uint64_t)checks.ledger->moves, (uint64_t)(spare / parts));
    const int64_t row = (int64_t)(lot % (uint64_t)u.n);
    const int32_t label = checks.audit.booked[row];
    const int64_t begin = spare % parts * some, end = min(begin + some, u.k);
    const char *x = u.x + row * u.row_bytes;
    if ((uint32_t)label >= (uint32_t)u.k)
        return; /* told as outside */
    const double own = distance_to<T>(job, x, label, side);
    const double most = own - 2 * rounding(u.d) * own - (double)u.d * 0x1p-1000;
    bool nearer = false;
    for (int64_t base = begin; base < end; base += GROUPS) {
        const int64_t j = base + threadIdx.x % UPDATE_WARP / ROW_LANES;
        nearer |= distance_to<T>(job, x, min(j, end - 1), side) < most;
    }
    if (nearer)
        audit_note(&checks.ledger->stray, row);
}

static __device__ __forceinline__ bool looks_at_rows(const struct hf_lloyd_job &job,
                                                     const struct hf_lloyd_checks &checks) {
    return job.exact && job.rule.metric == HF_EUCLIDEAN &&
           (checks.checks & HF_CHECK_BIT(HF_FAULT_INDEX)) != 0;
}

/* ---- the verdict */

/* Did the centroids move? */
static __device__ __forceinline__ bool moved(int32_t stop) {
    return stop == HF_STOP_NONE || stop == HF_STOP_TOL;
}

/* HF_CHECK_BIT()s of what is wrong in the numbers of the iteration; sums: those of inertia and
 * shift over the clusters, as fold_lanes() gives them. */
static __device__ uint32_t look_at_totals(const struct hf_lloyd_job &job,
                                          const struct hf_lloyd_ledger &l,
                                          const struct hf_lloyd_control &control,
                                          const double *sums) {
    const bool euclidean = job.rule.metric == HF_EUCLIDEAN;
    const double all = euclidean ? __dadd_rn(job.total_square[0], sums[0]) : sums[0];
    const double inertia = euclidean && !(all > 0) ? 0 : all;
    uint32_t wrong = 0;
    if (!same(control.last.inertia, inertia) || control.last.empty != l.empty ||
        (moved(control.state.stop) && !same(control.last.shift, sums[1])))
        wrong |= HF_CHECK_BIT(HF_FAULT_MEANS);
    if (l.used != l.sign[l.moves % HF_LLOYD_KEPT])
        wrong |= HF_CHECK_BIT(HF_FAULT_STATE);
    if (control.last.changed != l.found.changed)
        wrong |= HF_CHECK_BIT(HF_FAULT_CHANGES);
    return wrong;
}

/* The iteration was wrong: it did not happen. */
static __device__ void end_with(const struct hf_lloyd_job &job,
                                const struct hf_lloyd_checks &checks,
                                const struct hf_lloyd_ledger &l, uint32_t wrong, int64_t row) {
    struct hf_finding finding;
    finding.fault = (uint32_t)__ffs((int)wrong) - 1;
    finding.kernel = checks.kernel;
    finding.unit = -1;
    finding.column = l.cluster;
    finding.row = row;
    hf_slot_tell(checks.slot, finding);
    struct hf_lloyd_state state = job.state[0];
    state.stop = HF_LLOYD_FAULT;
    state.iterations = l.iterations;
    job.state[0] = state;
    job.control->state = state;
    job.control->moves = l.moves;
    job.control->halt = 1;
    checks.ledger->ended = 1;
}

/* By one thread, for which all others wait: what is known is read at once. */
static __device__ void decide(const struct hf_lloyd_job &job, const struct hf_lloyd_checks &checks,
                              const double *sums) {
    const struct hf_lloyd_ledger l = *checks.ledger;
    const struct hf_lloyd_control control = *job.control;
    const int64_t row = l.found.outside >= 0   ? l.found.outside
                        : l.found.farther >= 0 ? l.found.farther
                                               : l.stray;
    uint32_t wrong = l.wrong;
    if (l.found.outside >= 0)
        wrong = HF_CHECK_BIT(HF_FAULT_RANGE);
    else if (l.found.farther >= 0)
        wrong = HF_CHECK_BIT(HF_FAULT_MOVES);
    else if (l.stray >= 0)
        wrong = HF_CHECK_BIT(HF_FAULT_INDEX);
    else
        wrong |= look_at_totals(job, l, control, sums) & checks.checks;
    if (wrong != 0) {
        end_with(job, checks, l, wrong, row);
        return;
    }
    struct hf_lloyd_ledger *next = checks.ledger;
    if (moved(control.state.stop)) {
        next->moves = l.moves + 1;
        next->sign[(l.moves + 1) % HF_LLOYD_KEPT] = l.next;
    }
    next->iterations = control.state.iterations;
    next->used = next->next = 0;
    next->empty = 0;
    next->listed = 0;
    next->ticket = 0;
    next->found.changed = 0;
}

/* The totals over the clusters once more, by one block. */
static __device__ void total_again(const struct hf_lloyd_job &job,
                                   const struct hf_lloyd_checks &checks, double *lane) {
    const int warp = (int)threadIdx.x / UPDATE_WARP;
    fill_lanes(job.inertia, job.shift, job.update.k, lane);
    __syncthreads();
    if (warp >= 2)
        return;
    const double sum = fold_lanes(lane + warp * LANES);
    if (threadIdx.x % UPDATE_WARP == 0)
        checks.ledger->totals[warp] = sum;
}

/* Beside the end of the iteration, which block 0 makes. shared: 2 * LANES. */
template <hf_dtype T>
static __device__ void check_step(const struct hf_lloyd_job &job,
                                  const struct hf_lloyd_checks &checks, int side, double *shared) {
    __shared__ bool last;
    struct hf_lloyd_ledger *l = checks.ledger;
    /* neighbouring warps of a list are on different multiprocessors; those of block 0 come last */
    const int64_t warps = (int64_t)gridDim.x * CHECK_WARPS;
    const int64_t own =
        (int64_t)threadIdx.x / UPDATE_WARP * gridDim.x + (gridDim.x - 1 - blockIdx.x);
    look_at_clusters(job, checks, side, own, warps);
    if (looks_at_rows(job, checks) && own >= job.update.k && blockIdx.x > 0)
        look_at_row<T>(job, checks, side, own - job.update.k);
    if (blockIdx.x == min(1, gridDim.x - 1))
        total_again(job, checks, shared);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(&l->ticket, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last || threadIdx.x > 0)
        return;
    __threadfence();
    decide(job, checks, l->totals);
}

#endif
