/* SPDX-License-Identifier: Apache-2.0
 * assign on vectors and matrix tiles; compiled once per instruction set. A worker takes rows, skips
 * those that the bounds decide, and sends the others in blocks through the tiles (the filter). The
 * few rows that stay open go through the tiles again, which list their candidates; differences and,
 * at last, float64 in order decide between these. */
#include "base/cpuid.h"
#include "core/kernel.h"
#include "ops/assign/host/job.h"

#if HF_ISA_TILES
#include "ops/assign/host/sweep_amx.h"
#else
#include "ops/assign/host/tile_f32.h"
#endif
#include "ops/assign/host/dense.h"
#include "ops/assign/host/gather.h"
#include "ops/assign/host/guard/guard_dense.h"
#include "ops/assign/host/guard/guard_open.h"
#include "ops/assign/host/guard/guard_verdict.h"
#include "ops/assign/host/packed_rows.h"
#include "ops/assign/host/prepare.h"
#include "ops/assign/host/project.h"
#include "ops/assign/host/settle.h"
#include "ops/assign/host/skip.h"
#include "ops/assign/host/start.h"
#include <float.h>

#define PROJECT_FEATURES 96 /* with fewer, directions do not pay */
#define PROJECT_CENTROIDS 64
#define I16_FEATURES 4096
#define MERGE_GRAIN 4096 /* sums that a worker adds up at once */

/* Take `count` rows from the end of a queue, pack them, find the best two centroids of each. */
static void filter_block(const struct job *job, struct worker *w, const struct pack *p,
                         int64_t *queue, int *queued, int count) {
    struct block *b = &w->block;
    const int project = job->project && p == &job->all;
    *queued -= count;
    memcpy(b->row, queue + *queued, sizeof(int64_t) * (size_t)count);
    b->rows = count;
    if (job->begin_dense && p == &job->all) {
        for (int i = 0; i < count; i++)
            leave_open(w, b->row[i], -INFINITY, 0);
        b->rows = 0;
        return;
    }
    load_block(job, w);
    best_clear(b);
    if (!project) {
        tile_argmax(job, w, p);
        return;
    }
    project_argmax(job, w);
    STRIKE_BLOCK_BEST(w);
    if (job->guard.share > 1)
        guard_untested(job, w, p);
}

/* The label of an open row from its list, which is overwritten. */
static void settle_list(const struct job *job, struct worker *w, int slot, int listed) {
    int32_t *list = w->list + slot * CANDIDATES_MAX;
    int32_t all[CANDIDATES_MAX];
    memcpy(all, list, sizeof *list * (size_t)listed);
    difference_list(job, w, slot, list, listed);
    if (guard_checks(&job->guard, HF_FAULT_SETTLE))
        guard_check_list(job, w, slot, all, listed);
    if (job->guard.near) /* the list itself was not looked at */
        guard_look_near(job, w, slot);
}

/* The label of each open row of the block: from its list of candidates, or from all centroids if it
 * has none. */
static void settle_lists(const struct job *job, struct worker *w) {
    const struct block *b = &w->block;
    int n_dense = 0;
    for (int s = 0; s < b->rows; s++) {
        const int listed = w->listed[s];
        if (listed == GUARD_LISTED)
            exact_all(job, w, s);
        else if (listed > 0 && listed <= CANDIDATES_MAX)
            settle_list(job, w, s, listed);
        else
            w->dense[n_dense++] = s;
    }
    dense_settle(job, w, w->dense, n_dense);
    if (guard_checks(&job->guard, HF_FAULT_SETTLE))
        guard_check_dense(job, w, n_dense);
}

/* Second pass over some open rows: candidates, then differences, then float64 in order. */
static void settle_open(const struct job *job, struct worker *w) {
    struct block *b = &w->block;
    const int most = open_most(job, &w->block);
    b->rows = w->n_open < most ? w->n_open : most;
    w->n_open -= b->rows;
    const struct open_row *open = w->open + w->n_open;
    b->rows = guard_open_rows(job, w, b->rows);
    for (int s = 0; s < b->capacity; s++)
        b->best[s] = s < b->rows && open[s].threshold > -FLT_MAX ? open[s].threshold : INFINITY;
    for (int s = 0; s < b->rows; s++) {
        b->row[s] = open[s].row;
        w->least[s] = INFINITY;
        w->least_arg[s] = INT32_MAX;
        w->others[s] = -1;
        w->decided[s] = 0;
        w->listed[s] = 0;
    }
    w->slot64 = -1;
    memset(w->guard.listed, 0, sizeof *w->guard.listed * (size_t)b->rows);
    const int lists = job->usable && !job->dense_first && !job->begin_dense && b->rows > 0;
    if (lists) {
        load_block(job, w);
        tile_collect(job, w, &job->all);
        /* scores of a row out of range may be infinite, and then reach any threshold */
        for (int s = 0; s < b->rows; s++)
            w->listed[s] = b->best[s] < INFINITY ? w->listed[s] : 0;
    }
    for (int s = 0; s < b->rows && job->guard.scores; s++)
        if (open[s].threshold != open[s].threshold || (lists && guard_wrong_list(job, w, s)))
            w->listed[s] = GUARD_LISTED;
    settle_lists(job, w);
    for (int s = 0; s < b->rows; s++) {
        settle_row(job, w, b->row[s], w->least_arg[s], NAN, 0);
        w->stats.float64 += !w->decided[s];
        if (job->a->bounds)
            settle_bounds(job, w, b->row[s], w->least_arg[s],
                          w->decided[s] ? skip_upper(w->least[s])
                                        : skip_own_distance(job, b->row[s], w->least_arg[s]),
                          larger(open[s].lower, skip_lower(w->others[s])));
    }
    w->stats.rechecked += b->rows;
    b->rows = 0;
}

/* Send queued rows through the tiles; `rest` also sends what does not fill a block. */
static void drain(const struct job *job, struct worker *w, int rest) {
    const int room = w->block.capacity;
    while (w->n_partial >= room || (rest && w->n_partial > 0)) {
        filter_block(job, w, &job->moved, w->partial, &w->n_partial,
                     w->n_partial < room ? w->n_partial : room);
        settle_partial(job, w);
        while (w->n_full >= room) {
            filter_block(job, w, &job->all, w->full, &w->n_full, room);
            settle_block(job, w);
            while (w->n_open >= open_most(job, &w->block))
                settle_open(job, w);
        }
    }
    while (w->n_full >= room || (rest && w->n_full > 0)) {
        filter_block(job, w, &job->all, w->full, &w->n_full, w->n_full < room ? w->n_full : room);
        settle_block(job, w);
        while (w->n_open >= open_most(job, &w->block))
            settle_open(job, w);
    }
    while (rest && w->n_open > 0)
        settle_open(job, w);
}

static void note_old_labels(const struct job *job, int64_t begin, int64_t end) {
    const struct hf_assign_args *a = job->a;
    if (a->old_labels)
        memcpy(a->old_labels + begin, a->labels + begin, sizeof(int32_t) * (size_t)(end - begin));
}

/* Few columns, many centroids: two looks at the centroids near a row, in different lanes, cost less
 * than the filter. Does it keep its label? */
static int stays_near(const struct job *job, struct worker *w, int64_t i) {
    const int32_t label = job->a->labels[i];
    if (!job->guard.near || !job->exact || job->a->bounds || label < 0 || label >= job->k ||
        !guard_near(job, w, i, label, 0, 0) || !guard_near_again(job, w, label))
        return 0;
    guard_note_label(job, w, i, label);
    return 1;
}

static void queue_rows(const struct job *job, struct worker *w, int64_t begin, int64_t end) {
    const struct hf_assign_args *a = job->a;
    if (!job->usable || (job->begin_dense && !(a->bounds && a->bounds->valid))) {
        for (int64_t i = begin; i < end; i++) {
            leave_open(w, i, -INFINITY, 0);
            while (w->n_open >= open_most(job, &w->block))
                settle_open(job, w);
        }
    } else if (a->bounds && a->bounds->valid) {
        skip_rows(job, w, begin, end);
    } else {
        for (int64_t i = begin; i < end; i++)
            if (!stays_near(job, w, i))
                w->full[w->n_full++] = i;
    }
}

/* Rows [begin, end) through the tiles, from or to the memory where they stay packed. */
static void packed_rows(const struct job *job, struct worker *w, int64_t begin, int64_t end) {
    struct block *b = &w->block;
    for (int64_t first = begin; first < end; first += b->capacity) {
        const int64_t count = end - first < b->capacity ? end - first : b->capacity;
        const struct rows_at at = {.x = (char *)job->packed.x +
                                        (size_t)first * tile_packed_bytes(job),
                                   .norm2 = job->packed.norm2 + first,
                                   .loss = job->packed.loss ? job->packed.loss + first : NULL,
                                   .unit = job->packed.unit ? job->packed.unit + first : NULL,
                                   .word = job->packed.word + first};
        block_put(b, &at);
        b->first = first;
        b->rows = (int)count;
        if (job->packed_use == PACKED_FILL)
            load_block(job, w);
        best_clear(b);
        tile_argmax(job, w, job->sweep ? &job->moved : &job->all);
        if (job->sweep)
            settle_partial(job, w);
        else
            settle_block(job, w);
        block_put(b, &w->own);
        drain(job, w, 0);
        while (w->n_open >= open_most(job, &w->block))
            settle_open(job, w);
    }
}

/* The first of the next rows for a worker. If all of them will go through the tiles, these prefetch
 * them. */
static int64_t take_rows(struct job *job, struct worker *w) {
    int64_t first = atomic_load_explicit(&job->next_row, memory_order_relaxed);
    while (first < job->n &&
           !atomic_compare_exchange_weak_explicit(&job->next_row, &first, take_end(job, first),
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    w->fetch = w->fetch_end = NULL;
    const int skips = job->a->bounds && job->a->bounds->valid && job->packed_use == PACKED_NONE;
    if (first < job->n && !skips) {
        const int64_t end = take_end(job, first);
        const int packed = job->packed_use == PACKED_READ;
        const size_t row = packed ? tile_packed_bytes(job) : job->row_bytes;
        w->fetch = packed ? (const char *)job->packed.x + (size_t)first * row : job_row(job, first);
        w->fetch_end = w->fetch + (size_t)(end - first) * row;
    }
    return first;
}

/* One item a worker; who comes first may take more than one, and the rows of others with them. What
 * a worker notes is its own, so that a fault is told of the core that made it. */
static void work(void *user, int worker, int64_t begin, int64_t end) {
    struct job *job = user;
    struct worker *w = &job->workers[worker];
    for (int64_t item = begin; item < end; item++) {
        STRIKE_BEGIN(worker);
        tile_begin();
        int64_t first = take_rows(job, w);
        while (first < job->n) {
            const int64_t stop = take_end(job, first);
            const int64_t next = take_rows(job, w);
            note_old_labels(job, first, stop);
            if (job->packed_use != PACKED_NONE) {
                packed_rows(job, w, first, stop);
            } else {
                queue_rows(job, w, first, stop);
                drain(job, w, 0);
            }
            first = next;
        }
        drain(job, w, 1);
        guard_verdicts(job, w);
        /* a few rows cost merge() less than the sums of k clusters */
        if (worker == 0 || w->has_sums || (int64_t)w->n_moves * (job->n_workers - 1) > job->k)
            settle_moves(job, w);
        tile_end();
    }
}

/* A sum that a fault changed may pass the end of the type: it goes round, and a check sees it. */
static void add_up(int64_t *restrict to, const int64_t *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        to[i] = (int64_t)((uint64_t)to[i] + (uint64_t)from[i]);
}

/* Add the workers' own sums [begin, end) to the caller's. */
static void merge_range(void *user, int worker, int64_t begin, int64_t end) {
    const struct job *job = user;
    (void)worker;
    for (int i = 1; i < job->n_workers; i++) {
        const struct worker *w = &job->workers[i];
        if (w->has_sums)
            add_up(job->a->sums->sum + begin, w->sums.sum + begin, end - begin);
    }
}

static void merge_sums(struct job *job, hf_pool *pool) {
    const struct hf_sums *to = job->a->sums;
    bool any = false;
    for (int i = 1; i < job->n_workers; i++) {
        const struct worker *w = &job->workers[i];
        if (!w->has_sums)
            continue;
        add_up(to->count, w->sums.count, to->k);
        if (to->weight)
            add_up(to->weight, w->sums.weight, to->k * to->limbs);
        any = true;
    }
    if (any)
        hf_parallel_for(pool, to->k * to->d * to->limbs, MERGE_GRAIN, merge_range, job);
}

/* Add what the workers have to the caller's sums and counters. */
static void merge(struct job *job, hf_pool *pool) {
    struct hf_assign_stats *stats = job->a->stats;
    merge_sums(job, pool);
    for (int i = 0; i < job->n_workers; i++) {
        struct worker *w = &job->workers[i];
        w->sums = job->workers[0].sums;
        settle_moves(job, w);
    }
    guard_check_packs(job);
    guard_check_labels(job, pool);
    for (int i = 0; i < job->n_workers; i++) {
        const struct worker *w = &job->workers[i];
        stats->changed += w->stats.changed;
        stats->skipped += w->stats.skipped;
        stats->partial += w->stats.partial;
        stats->rechecked += w->stats.rechecked;
        stats->float64 += w->stats.float64;
        stats->pairs += w->stats.pairs;
        stats->lasting += w->stats.lasting;
    }
    guard_sum_bounds(job);
    guard_count(job);
}

static hf_status run(const struct hf_call *call, enum variant variant) {
    struct job job;
    hf_pool *pool = call->stream;
    carve_job(&job, call, variant, hf_pool_workers(pool), call->ws);
    prepare(&job, pool);
    job.project = job.project && project_pays(&job);
#if TILE_HAS_HALF
    while (half_in_doubt(&job) && !half_pays(&job)) {
        carve_job(&job, call, half_fallback(&job), hf_pool_workers(pool), call->ws);
        prepare(&job, pool);
    }
#endif
    guard_calibrate(&job);
    job.begin_dense = !filter_pays(&job);
    packed_begin(&job);
    STRIKE_PACK(&job, &job.all);
    hf_parallel_for(pool, job.n_workers, 1, work, &job);
    packed_end(&job);
    merge(&job, pool);
    return HF_OK;
}

#if TILE_HAS_I16
static bool i16_supports(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    return hf_cpu_has_avx512_vnni() && a->x.cols >= 4 && a->x.cols <= I16_FEATURES;
}
#endif

/* Are all scores of the call checked? */
static int call_checks_scores(const struct hf_call *call) {
    struct job job = {.n = 0};
    guard_begin_call(&job, call);
    return job.guard.scores && job.guard.share == 1;
}

/* The filter that takes the place of directions, or of bytes. */
static enum variant project_fallback(const struct hf_call *call) {
#if TILE_HAS_I16
    return i16_supports(call) ? VARIANT_I16 : VARIANT_PLAIN;
#elif TILE_HAS_HALF
    const struct hf_assign_args *a = call->args;
    return a->exact ? half_variant(a, VARIANT_HALF) : VARIANT_PLAIN;
#else
    (void)call;
    return VARIANT_PLAIN;
#endif
}

static hf_status simd_run(const struct hf_call *call) { return run(call, VARIANT_PLAIN); }

static size_t simd_workspace(const struct hf_call *call) {
    struct job job;
    return carve_job(&job, call, VARIANT_PLAIN, call->device->workers, NULL);
}

/* Bounds from directions have no checksums: a protected call takes another filter. */
static hf_status project_run(const struct hf_call *call) {
    return run(call, call_checks_scores(call) ? project_fallback(call) : VARIANT_PROJECT);
}

static size_t project_workspace(const struct hf_call *call) {
    struct job job;
    const int workers = call->device->workers;
    const enum variant variants[] = {VARIANT_PROJECT, VARIANT_PLAIN,
                                     TILE_HAS_HALF &&
                                             ((const struct hf_assign_args *)call->args)->exact
                                         ? VARIANT_HALF
                                         : project_fallback(call)};
    size_t most = 0;
    for (int i = 0; i < 3; i++) {
        const size_t bytes = carve_job(&job, call, variants[i], workers, NULL);
        most = bytes > most ? bytes : most;
    }
    return most;
}

#if TILE_HAS_HALF
static hf_status half_run(const struct hf_call *call) {
    return run(call, half_variant(call->args, VARIANT_HALF));
}

static size_t half_workspace(const struct hf_call *call) {
    struct job job;
    const size_t half = carve_job(&job, call, VARIANT_HALF, call->device->workers, NULL);
    const size_t plain = carve_job(&job, call, VARIANT_PLAIN, call->device->workers, NULL);
    return half > plain ? half : plain;
}

/* `fast` takes the best score, which is too inaccurate here. */
static bool half_supports(const struct hf_call *call) {
    return ((const struct hf_assign_args *)call->args)->exact;
}

static double half_estimate(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    return (double)a->x.rows * half_row_ns(a);
}

/* Sums of bytes have no checksums: a protected call takes another filter. */
static hf_status i8_run(const struct hf_call *call) {
    const enum variant variant = call_checks_scores(call) ? VARIANT_HALF : VARIANT_I8;
    return run(call, half_variant(call->args, variant));
}

/* Of a variant in bytes, or of its fallback if that needs more. */
static size_t bytes_workspace(const struct hf_call *call, enum variant variant) {
    struct job job;
    const size_t bytes = carve_job(&job, call, variant, call->device->workers, NULL);
    const size_t half = half_workspace(call);
    return bytes > half ? bytes : half;
}

static size_t i8_workspace(const struct hf_call *call) { return bytes_workspace(call, VARIANT_I8); }

/* Whole numbers whose distance from the middle of their column fits a byte, with middles that are
 * exact in float32. */
static bool i8_supports(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    const struct hf_filter *f = &a->filter;
    if (!half_supports(call) || a->metric != HF_EUCLIDEAN || !f->least || a->x.cols > I8_FEATURES)
        return false;
    uint32_t beyond = 0;
    for (int64_t j = 0; j < a->x.cols; j += VDW) {
        const int n = columns_left(a->x.cols, j);
        const vd middle = filter_middle(f, j, n);
        const vd above = vd_sub(vd_load_as_n(f->most, HF_F64, j, n), middle);
        const vd below = vd_sub(middle, vd_load_as_n(f->least, HF_F64, j, n));
        const vd known = _mm512_cvtps_pd(_mm512_cvtpd_ps(middle));
        beyond |= vdm_bits(vd_ne(known, middle)) | vdm_bits(vd_lt(vd_set1(127), above)) |
                  vdm_bits(vd_lt(vd_set1(128), below));
    }
    return !beyond;
}

static double i8_estimate(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    return (double)a->x.rows * i8_row_ns(a);
}

static hf_status i8x2_run(const struct hf_call *call) {
    const enum variant variant = call_checks_scores(call) ? VARIANT_HALF : VARIANT_I8X2;
    return run(call, half_variant(call->args, variant));
}

static size_t i8x2_workspace(const struct hf_call *call) {
    return bytes_workspace(call, VARIANT_I8X2);
}

static bool i8x2_supports(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    return a->x.cols <= I8X2_STEPS * I8_STEP && rows_are_whole(a) && i8_supports(call);
}

static double i8x2_estimate(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    return (double)a->x.rows * i8x2_row_ns(a);
}
#endif

#if TILE_HAS_I16
static hf_status i16_run(const struct hf_call *call) { return run(call, VARIANT_I16); }

static size_t i16_workspace(const struct hf_call *call) {
    struct job job;
    return carve_job(&job, call, VARIANT_I16, call->device->workers, NULL);
}

static double i16_estimate(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    return (double)a->x.rows * i16_row_ns(a);
}
#endif

static bool project_supports(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    return a->x.cols >= PROJECT_FEATURES && a->c.rows >= PROJECT_CENTROIDS;
}

static double simd_estimate(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    return (double)a->x.rows * tile_row_ns(a);
}

/* Most data with many features lie close to a few directions; if they do not, project_pays()
 * returns to the plain tiles. */
static double project_estimate(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    const double d = (double)a->x.cols;
    const double k = (double)a->c.rows;
    /* the second best of a row is only bounded, so that bounds made from it settle fewer rows */
    const double loose = a->bounds ? 1.5 : 1;
    return (double)a->x.rows * tile_project_ns(a) * loose + 1.5 * k * d + 1e6;
}

/* The checks that kernels of this file make (docs/numerics/guard.md). */
#define GUARD_MOVES                                                                                \
    (HF_CHECK_BIT(HF_FAULT_MOVES) | HF_CHECK_BIT(HF_FAULT_OPEN) | HF_CHECK_BIT(HF_FAULT_SETTLE))
#define GUARD_SCORES                                                                               \
    (HF_CHECK_BIT(HF_FAULT_ROWS) | HF_CHECK_BIT(HF_FAULT_OPERAND) | HF_CHECK_BIT(HF_FAULT_BEST) |  \
     HF_CHECK_BIT(HF_FAULT_INDEX) | HF_CHECK_BIT(HF_FAULT_PACK))
#define GUARD_CHECKS (GUARD_SCORES | GUARD_MOVES)

/* A kernel of this file; the call's functions begin with `prefix`. */
#define KERNEL(kernel, prefix, more)                                                               \
    .name = "assign_" kernel "_" HF_ISA_TEXT, .device = HF_DEV_HOST, .dtypes = HF_DT_DATA,         \
    .isa = HF_ISA_ID, .traits = HF_TRAIT_FIXED_ORDER, .tile = {TILE_ROWS, TILE_K, 0},              \
    .guards = GUARD_CHECKS | (more), .workspace = prefix##_workspace, .run = prefix##_run,         \
    .estimate = prefix##_estimate

static const struct hf_kernel kernels[] = {
    {KERNEL(TILE_NAME, simd, TILE_HAS_GUARD ? HF_CHECK_BIT(HF_FAULT_TILE) : 0)},
    {KERNEL("project", project, 0), .supports = project_supports},
#if TILE_HAS_HALF
    {KERNEL(TILE_HALF_NAME, half, 0), .supports = half_supports},
    {KERNEL(TILE_I8_NAME, i8, 0), .supports = i8_supports},
    {KERNEL(TILE_I8X2_NAME, i8x2, 0), .supports = i8x2_supports},
#endif
#if TILE_HAS_I16
    {KERNEL(I16_NAME, i16, 0), .supports = i16_supports},
#endif
};

const struct hf_kernel_table HF_ISA_NAME(hf_assign_kernels) = {kernels,
                                                               sizeof kernels / sizeof *kernels};
