/* SPDX-License-Identifier: Apache-2.0
 * The checks of op lloyd after each step: a warp compares the sums, the size and the centroid of a
 * cluster with what the book and other instructions than those of the step make of them; the block
 * that is done last decides. */
#include "device/cuda/rng.cuh"
#include "ops/audit/audit.cuh"
#include "ops/lloyd/cuda/book.h"
#include "ops/lloyd/cuda/means.cuh"

#define ROW_SEED 0x726f7773ull
#define ROW_LANES 8
#define ROW_VALUES 16384 /* of centroids that a block compares a row with: 2 us */

static size_t center_bytes(const struct hf_lloyd_args *a) {
    return (size_t)(a->sums->k * a->sums->d) * hf_dtype_bytes(a->rule.type);
}

size_t hf_lloyd_checks_carve(const struct hf_lloyd_args *args, void *memory,
                             struct hf_lloyd_checks *checks) {
    size_t used = 0;
    auto take = [&](size_t bytes) {
        void *p = memory != NULL ? (char *)memory + used : NULL;
        used += (bytes + 255) / 256 * 256;
        return p;
    };
    checks->ledger = (struct hf_lloyd_ledger *)take(sizeof *checks->ledger);
    for (int i = 0; i < HF_LLOYD_KEPT; i++)
        checks->kept[i] = take(center_bytes(args));
    checks->audit.list =
        (struct hf_audit_move *)take((size_t)args->x.rows * sizeof(struct hf_audit_move));
    return used;
}

void hf_lloyd_checks_stage(struct hf_stage *stage, const struct hf_call *call,
                           const struct hf_update_job *update, struct hf_lloyd_checks *checks) {
    const struct hf_lloyd_args *a = (const struct hf_lloyd_args *)call->args;
    const struct hf_lloyd_book *b = a->book;
    struct hf_audit_job *audit = &checks->audit;
    const size_t n = (size_t)update->n, k = (size_t)update->k;
    const size_t factors = (size_t)(update->limbs * (update->d + 1));
    audit->hash = (const uint64_t *)hf_stage_in(stage, b->hash, n * sizeof(uint64_t));
    audit->booked = (int32_t *)hf_stage_inout(stage, b->labels, n * sizeof(int32_t));
    audit->word = (uint64_t *)hf_stage_inout(stage, b->word, k * sizeof(uint64_t));
    audit->rows = (int64_t *)hf_stage_inout(stage, b->count, k * sizeof(int64_t));
    checks->factor = (const uint64_t *)hf_stage_in(stage, b->factor, factors * sizeof(uint64_t));
    audit->x = update->x;
    audit->x_bytes = update->row_bytes;
    audit->c_bytes = update->d * (int64_t)hf_dtype_bytes(a->rule.type);
    audit->dtype = update->dtype;
    audit->metric = a->rule.metric;
    audit->n = update->n;
    audit->k = update->k;
    audit->d = update->d;
    checks->slot = call->slot;
    checks->kernel = call->kernel;
    checks->checks = call->checks;
}

/* ---- beginning and end */

hf_status hf_lloyd_checks_begin(struct hf_cuda *cuda, const struct hf_lloyd_args *args,
                                const struct hf_lloyd_job *job,
                                const struct hf_lloyd_checks *checks) {
    static const struct hf_audit_found none = {0, -1, -1, -1, -1, 0};
    static_assert(HF_LLOYD_KEPT == 3, "the previous centroids are the last of three");
    struct hf_lloyd_ledger ledger;
    memset(&ledger, 0, sizeof ledger);
    ledger.cluster = -1;
    ledger.found = none;
    ledger.stray = -1;
    ledger.sign[0] = args->book->sign[0];
    ledger.sign[HF_LLOYD_KEPT - 1] = args->book->sign[1];
    HF_TRY(hf_cuda_check(
        cuda,
        cudaMemcpyAsync(checks->ledger, &ledger, sizeof ledger, cudaMemcpyDefault, cuda->stream),
        "lloyd: checks"));
    for (int i = 0; i < 2; i++)
        HF_TRY(hf_cuda_check(cuda,
                             cudaMemcpyAsync(checks->kept[i * (HF_LLOYD_KEPT - 1)], job->centers[i],
                                             center_bytes(args), cudaMemcpyDefault, cuda->stream),
                             "lloyd: checks"));
    return HF_OK;
}

hf_status hf_lloyd_checks_end(struct hf_stage *stage, const struct hf_lloyd_args *args,
                              const struct hf_lloyd_job *job, int moves,
                              const struct hf_lloyd_checks *checks) {
    for (int i = 0; i < 2; i++) {
        const int slot = (moves + i * (HF_LLOYD_KEPT - 1)) % HF_LLOYD_KEPT;
        HF_TRY(
            hf_cuda_check(stage->cuda,
                          cudaMemcpyAsync(job->centers[i], checks->kept[slot], center_bytes(args),
                                          cudaMemcpyDefault, stage->cuda->stream),
                          "lloyd: checks"));
        hf_stage_fetch(stage, args->book->sign + i, &checks->ledger->sign[slot], sizeof(uint64_t));
    }
    return HF_OK;
}

/* ---- the labels */

/* Whether rows move to nearer centroids: where these decide. The Euclidean distance is looked at
 * beside the clusters. */
static __host__ __device__ bool looks_at_moves(const struct hf_lloyd_job *job,
                                               const struct hf_lloyd_checks *checks) {
    return job->exact && (checks->checks & HF_CHECK_BIT(HF_FAULT_MOVES)) != 0;
}

hf_status hf_lloyd_check_labels(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                                const struct hf_lloyd_checks *checks, int side) {
    struct hf_audit_job audit = checks->audit;
    audit.labels = job->labels[1 - side];
    audit.c = (const char *)job->centers[side];
    audit.found = &checks->ledger->found;
    audit.listed = &checks->ledger->listed;
    audit.old = job->labels[side];
    audit.moved = job->moved;
    audit.moved_count = &job->control->moved;
    audit.stop = &job->control->halt;
    audit.wrong = &job->control->halt;
    if (!looks_at_moves(job, checks))
        audit.list = NULL;
    HF_TRY(hf_audit_book(cuda, &audit));
    return looks_at_moves(job, checks) && job->rule.metric != HF_EUCLIDEAN
               ? hf_audit_moves(cuda, &audit)
               : HF_OK;
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
#define COLUMNS 4

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
    int64_t sum[COLUMNS];
    double before[COLUMNS], stored[COLUMNS];
#pragma unroll
    for (int u = 0; u < COLUMNS; u++) {
        const int f = min(first + u * UPDATE_WARP, d - 1);
        sum[u] = c.sum[f];
        before[u] = center_at(job.centers[side], type, c.at + f);
        stored[u] = center_at(job.centers[1 - side], type, c.at + f);
    }
#pragma unroll
    for (int u = 0; u < COLUMNS; u++) {
        const int f = first + u * UPDATE_WARP;
        if (f >= d)
            break;
        put_center(look.kept, type, c.at + f, stored[u]);
        found->word += look.checks.factor[f] * (hf_u64)sum[u];
        look.signs->used += sign_center(before[u], type, c.at + f);
        look.signs->next += sign_center(stored[u], type, c.at + f);
    }
#pragma unroll
    for (int u = 0; u < COLUMNS; u++) {
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
    for (int f = (int)threadIdx.x % UPDATE_WARP; f < (int)u.d; f += COLUMNS * UPDATE_WARP)
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

static __device__ void look_at_clusters(const struct hf_lloyd_job &job,
                                        const struct hf_lloyd_checks &checks, int side) {
    struct hf_lloyd_ledger *l = checks.ledger;
    void *kept = checks.kept[(l->moves + 1) % HF_LLOYD_KEPT];
    const int64_t warps = (int64_t)gridDim.x * (HF_UPDATE_THREADS / UPDATE_WARP);
    struct signs signs = {0, 0};
    const struct looking look = {job, checks, side, kept, &signs};
    for (int64_t j = ((int64_t)blockIdx.x * HF_UPDATE_THREADS + threadIdx.x) / UPDATE_WARP;
         j < job.update.k; j += warps) {
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

/* Blocks from the last one on: the first ones have clusters. */
static __device__ __forceinline__ int64_t block_from_end(void) {
    return (int64_t)gridDim.x - 1 - blockIdx.x;
}

/* |x - c|^2 of the reference, by one thread. */
template <hf_dtype T>
static __device__ double ordered_distance(const struct hf_lloyd_job &job, const char *x,
                                          int64_t center, int side) {
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

/* May a row have left its cluster? By sums in any order, and by the reference where these are too
 * close. */
template <hf_dtype T>
static __device__ bool may_move(const struct hf_lloyd_job &job, const struct hf_audit_move &move,
                                int32_t to, int side) {
    const struct hf_update_job &u = job.update;
    const char *x = u.x + move.row * u.row_bytes;
    const int64_t from_at = move.from * u.d, to_at = to * u.d;
    double was = 0, is = 0;
#pragma unroll 4
    for (int64_t f = threadIdx.x % UPDATE_WARP; f < u.d; f += UPDATE_WARP) {
        const double v = hf_device_load<T>(x, f);
        const double a = v - center_at(job.centers[side], job.rule.type, from_at + f);
        const double b = v - center_at(job.centers[side], job.rule.type, to_at + f);
        was += a * a;
        is += b * b;
    }
    was = fold_warp(was);
    is = fold_warp(is);
    if (is < was - rounding(u.d) * (was + is))
        return true;
    was = ordered_distance<T>(job, x, move.from, side);
    is = ordered_distance<T>(job, x, to, side);
    return !(was < is || (was == is && move.from < to));
}

/* The rows that left a cluster: a warp has one. */
template <hf_dtype T>
static __device__ void look_at_moves(const struct hf_lloyd_job &job,
                                     const struct hf_lloyd_checks &checks, int side) {
    const int64_t warps = (int64_t)gridDim.x * (HF_UPDATE_THREADS / UPDATE_WARP);
    const int64_t count = checks.ledger->listed;
    for (int64_t i = (block_from_end() * HF_UPDATE_THREADS + threadIdx.x) / UPDATE_WARP; i < count;
         i += warps) {
        const struct hf_audit_move move = checks.audit.list[i];
        const bool may = may_move<T>(job, move, checks.audit.booked[move.row], side);
        if (!may && threadIdx.x % UPDATE_WARP == 0)
            audit_note(&checks.ledger->found.farther, move.row);
    }
}

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
 * than rounding? A block looks at some of the centroids; the rows of an iteration find a
 * multiprocessor that computes wrongly again and again. */
template <hf_dtype T>
static __device__ void look_at_row(const struct hf_lloyd_job &job,
                                   const struct hf_lloyd_checks &checks, int side) {
    constexpr int GROUPS = HF_UPDATE_THREADS / ROW_LANES;
    const struct hf_update_job &u = job.update;
    const int64_t some = max(ROW_VALUES / u.d, (int64_t)1), parts = (u.k + some - 1) / some;
    const uint64_t lot = hf_device_rng_bits(ROW_SEED, (uint64_t)job.control->steps,
                                            (uint64_t)(block_from_end() / parts));
    const int64_t row = (int64_t)(lot % (uint64_t)u.n);
    const int64_t begin = block_from_end() % parts * some, end = min(begin + some, u.k);
    const char *x = u.x + row * u.row_bytes;
    const double own = distance_to<T>(job, x, checks.audit.booked[row], side);
    const double most = own - 2 * rounding(u.d) * own - (double)u.d * 0x1p-1000;
    bool nearer = false;
    for (int64_t base = begin; base < end; base += GROUPS) {
        const int64_t j = base + threadIdx.x / ROW_LANES;
        nearer |= distance_to<T>(job, x, min(j, end - 1), side) < most;
    }
    if (nearer)
        audit_note(&checks.ledger->stray, row);
}

/* Blocks that no cluster needs look at rows. */
static __device__ __forceinline__ bool looks_at_rows(const struct hf_lloyd_job &job,
                                                     const struct hf_lloyd_checks &checks) {
    constexpr int WARPS = HF_UPDATE_THREADS / UPDATE_WARP;
    return job.exact && (checks.checks & HF_CHECK_BIT(HF_FAULT_INDEX)) != 0 &&
           (int64_t)blockIdx.x * WARPS >= job.update.k;
}

template <hf_dtype T>
static __device__ void look_at_some(const struct hf_lloyd_job &job,
                                    const struct hf_lloyd_checks &checks, int side) {
    if (job.rule.metric != HF_EUCLIDEAN)
        return;
    if (looks_at_moves(&job, &checks))
        look_at_moves<T>(job, checks, side);
    if (looks_at_rows(job, checks))
        look_at_row<T>(job, checks, side);
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
                              bool ran, const double *sums) {
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
    else if (ran)
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
    next->steps = control.steps;
    next->used = next->next = 0;
    next->empty = 0;
    next->listed = 0;
    next->ticket = 0;
    next->found.changed = 0;
}

template <hf_dtype T>
static __global__ void __launch_bounds__(HF_UPDATE_THREADS)
    lloyd_check(const __grid_constant__ struct hf_lloyd_job job,
                const __grid_constant__ struct hf_lloyd_checks checks, int side) {
    __shared__ double lane[2 * LANES], sums[2];
    __shared__ bool last;
    struct hf_lloyd_ledger *l = checks.ledger;
    const bool ran = job.control->steps != l->steps;
    if (l->ended || (!ran && l->found.outside < 0 && l->found.farther < 0))
        return;
    if (ran)
        look_at_clusters(job, checks, side);
    if (ran)
        look_at_some<T>(job, checks, side);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(&l->ticket, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    fill_lanes(job.inertia, job.shift, job.update.k, lane);
    __syncthreads();
    const int warp = (int)threadIdx.x / UPDATE_WARP;
    if (warp < 2) {
        const double sum = fold_lanes(lane + warp * LANES);
        if (threadIdx.x % UPDATE_WARP == 0)
            sums[warp] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        decide(job, checks, ran, sums);
}

hf_status hf_lloyd_check_step(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                              const struct hf_lloyd_checks *checks, int side) {
    hf_for_dtype(job->update.dtype, [&](auto type) {
        lloyd_check<decltype(type)::value>
            <<<(unsigned)cuda->sms * 2, HF_UPDATE_THREADS, 0, cuda->stream>>>(*job, *checks, side);
    });
    return hf_cuda_launched(cuda, "lloyd_check");
}
