/* SPDX-License-Identifier: Apache-2.0
 * The checks of an iteration that has ended, by two launches beside the next one's labels: while
 * centroids are packed nearly all multiprocessors are without work. Rows move in the book, and
 * those that left a cluster are looked at; then a warp compares the sums, the size and the centroid
 * of a cluster with what the book and other instructions than those of the step make of them, and
 * warps without a cluster look at rows. The block that is done last decides. */
#include "device/cuda/room.h"
#include "ops/lloyd/cuda/check.cuh"

#define BOOK_EACH 10    /* rows of a thread, under way at once */
#define BOOK_MANY 16384 /* from so many moved rows on a block adds up what moves for itself */
#define BOOK_LIST (BOOK_EACH * HF_UPDATE_THREADS) /* rows of a block, under way at once */
#define CHECK_WARPS (HF_UPDATE_THREADS / UPDATE_WARP)

/* Is there a step that nobody has looked at? Its centroids are the current ones, its labels those
 * of the last step; what it began with is on this side. */
static __device__ __forceinline__ bool
step_to_check(const struct hf_lloyd_job &job, const struct hf_lloyd_checks &checks, int *side) {
    const int32_t steps = job.control->steps;
    *side = (steps - 1) & 1;
    return checks.ledger->ended == 0 && checks.ledger->looked != steps;
}

/* ---- the book */

/* Centroids: those of the labels of a step, and of the labels before it, NULL: nobody knows that
 * these were the nearest. */
struct both_centers {
    const void *now, *before;
};

/* Shared memory of a block: what it adds up, and rows that left a cluster. */
struct book_memory {
    uint32_t *bins; /* [3 * k], or as audit_bins_of() */
    struct left_row *list;
    int *listed;
};

/* A row whose label is not that of the book. */
static __device__ __forceinline__ void book_row(const struct hf_audit_job &audit,
                                                const struct audit_bins &own,
                                                const struct book_memory &m,
                                                const struct left_row &row) {
    if (audit_move_row(audit, own, row.row, row.from, row.to))
        m.list[atomicAdd(m.listed, 1)] = row;
}

/* Rows whose label differs from the book move in it; those that left a cluster are looked at. */
template <hf_dtype T>
static __device__ void book_rows(const struct hf_lloyd_job &job,
                                 const struct hf_lloyd_checks &checks, const int32_t *labels,
                                 const struct both_centers &c, const struct book_memory &m) {
    const struct hf_audit_job &audit = checks.audit;
    const int k = (int)audit.k;
    const bool local = k <= AUDIT_BINS && job.control->last.changed >= BOOK_MANY;
    const struct audit_bins own = audit_bins_of(local ? m.bins : NULL, k);
    const int64_t threads = (int64_t)gridDim.x * HF_UPDATE_THREADS;
    int changed = 0;
    audit_bins_clear(own, k, HF_UPDATE_THREADS);
    for (int64_t first = (int64_t)blockIdx.x * HF_UPDATE_THREADS; first < audit.n;
         first += BOOK_EACH * threads) {
        const int64_t base = first + threadIdx.x;
        int32_t from[BOOK_EACH], to[BOOK_EACH];
#pragma unroll
        for (int u = 0; u < BOOK_EACH; u++) {
            const int64_t i = base + u * threads;
            from[u] = i < audit.n ? audit.booked[i] : 0;
            to[u] = i < audit.n ? labels[i] : 0;
        }
        if (threadIdx.x == 0)
            *m.listed = 0;
        __syncthreads();
#pragma unroll
        for (int u = 0; u < BOOK_EACH; u++)
            if (from[u] != to[u]) {
                changed++;
                book_row(audit, own, m, {(int32_t)(base + u * threads), from[u], to[u]});
            }
        __syncthreads();
        if (c.now != NULL)
            look_at_list<T>(job, checks, m.list, *m.listed, c.now, c.before);
        __syncthreads();
    }
    changed = __reduce_add_sync(ALL, changed);
    if (threadIdx.x % UPDATE_WARP == 0 && changed > 0)
        atomicAdd((hf_u64 *)&audit.found->changed, (hf_u64)changed);
    audit_bins_add(audit, own, k, HF_UPDATE_THREADS);
}

/* ---- the clusters */

/* What a warp adds to the signatures. */
struct signs {
    hf_u64 used, next;
};

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

/* ---- the verdict */

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

/* By one thread, for which all others wait: what is known is read at once. */
static __device__ void decide(const struct hf_lloyd_job &job, const struct hf_lloyd_checks &checks,
                              const double *sums) {
    const struct hf_lloyd_ledger l = *checks.ledger;
    const struct hf_lloyd_control control = *job.control;
    const int64_t row = row_of(l);
    const uint32_t of_row = row >= 0 ? wrong_row(l) & checks.checks : 0;
    const uint32_t wrong =
        of_row != 0 ? of_row : l.wrong | (look_at_totals(job, l, control, sums) & checks.checks);
    if (wrong != 0) {
        end_with(job, checks, l, wrong, of_row != 0 ? row : -1);
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
    next->looked = control.steps;
}

/* The totals over the clusters once more, by one block. */
static __device__ void total_again(const struct hf_lloyd_job &job,
                                   const struct hf_lloyd_checks &checks, double *lane) {
    const int warp = (int)threadIdx.x / UPDATE_WARP;
    fill_lanes(job.inertia, job.shift, job.update.k, lane);
    __syncthreads();
    if (warp >= 2)
        return;
    const double sum = fold_lanes(lane + warp * TREE_LANES);
    if (threadIdx.x % UPDATE_WARP == 0)
        checks.ledger->totals[warp] = sum;
}

/* ---- the first labels */

static __global__ void __launch_bounds__(HF_UPDATE_THREADS)
    lloyd_first(const int32_t *labels, const int32_t *again, int64_t n, int64_t *late) {
    const int64_t step = (int64_t)gridDim.x * HF_UPDATE_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * HF_UPDATE_THREADS + threadIdx.x; i < n; i += step)
        if (labels[i] != again[i])
            audit_note(late, i);
}

hf_status hf_lloyd_check_first(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                               const struct hf_lloyd_checks *checks) {
    lloyd_first<<<(unsigned)cuda->sms * HF_UPDATE_BLOCKS, HF_UPDATE_THREADS, 0, cuda->stream>>>(
        job->labels[1], checks->first, job->update.n, &checks->ledger->late);
    return hf_cuda_launched(cuda, "lloyd_first");
}

/* ---- launches */

/* The centroids that rows which moved are looked at with; NULL: they are not. Labels of a run's
 * first step follow some that others may have made. */
static __device__ __forceinline__ struct both_centers
centers_of_step(const struct hf_lloyd_job &job, const struct hf_lloyd_checks &checks, int side) {
    if (!job.exact || (checks.checks & HF_CHECK_BIT(HF_FAULT_MOVES)) == 0)
        return {NULL, NULL};
    const int last = (checks.ledger->moves + HF_LLOYD_KEPT - 1) % HF_LLOYD_KEPT;
    const bool before = job.control->steps > 1 && looks_for_rest(job, checks);
    return {job.centers[side], before ? checks.kept[last] : NULL};
}

template <hf_dtype T>
static __global__ void __launch_bounds__(HF_UPDATE_THREADS, HF_UPDATE_BLOCKS)
    lloyd_book(const __grid_constant__ struct hf_lloyd_job job,
               const __grid_constant__ struct hf_lloyd_checks checks) {
    extern __shared__ struct left_row list[];
    __shared__ int listed;
    int side;
    if (!step_to_check(job, checks, &side))
        return;
    const struct book_memory m = {(uint32_t *)(list + BOOK_LIST), list, &listed};
    book_rows<T>(job, checks, job.labels[1 - side], centers_of_step(job, checks, side), m);
}

template <hf_dtype T>
static __global__ void __launch_bounds__(HF_UPDATE_THREADS, HF_UPDATE_BLOCKS)
    lloyd_check(const __grid_constant__ struct hf_lloyd_job job,
                const __grid_constant__ struct hf_lloyd_checks checks) {
    __shared__ double lanes[2 * TREE_LANES];
    __shared__ bool last;
    struct hf_lloyd_ledger *l = checks.ledger;
    int side;
    if (!step_to_check(job, checks, &side))
        return;
    /* neighbouring warps of a list are on different multiprocessors */
    const int64_t warps = (int64_t)gridDim.x * CHECK_WARPS;
    const int64_t own = (int64_t)threadIdx.x / UPDATE_WARP * gridDim.x + blockIdx.x;
    look_at_clusters(job, checks, side, own, warps);
    if (looks_at_rows(job, checks) && own >= job.update.k)
        look_at_row<T>(job, checks, side, own - job.update.k);
    if (blockIdx.x == gridDim.x - 1)
        total_again(job, checks, lanes);
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

template <hf_dtype T>
static cudaError_t start(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                         const struct hf_lloyd_checks *checks, cudaStream_t stream) {
    const unsigned grid = (unsigned)cuda->sms * HF_UPDATE_BLOCKS;
    const size_t k = job->update.k <= AUDIT_BINS ? (size_t)job->update.k : 0;
    const size_t shared = BOOK_LIST * sizeof(struct left_row) + 3 * k * sizeof(uint32_t);
    if (checks->audit.list == NULL) { /* else its own launches have booked the rows */
        const cudaError_t error = hf_cuda_room(cuda, (const void *)lloyd_book<T>);
        if (error != cudaSuccess)
            return error;
        lloyd_book<T><<<grid, HF_UPDATE_THREADS, shared, stream>>>(*job, *checks);
    }
    lloyd_check<T><<<grid, HF_UPDATE_THREADS, 0, stream>>>(*job, *checks);
    return cudaGetLastError();
}

hf_status hf_lloyd_check(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                         const struct hf_lloyd_checks *checks, cudaStream_t stream) {
    cudaError_t error = cudaSuccess;
    hf_for_dtype(job->update.dtype, [&](auto type) {
        error = start<decltype(type)::value>(cuda, job, checks, stream);
    });
    return hf_cuda_check(cuda, error, "lloyd_check");
}
