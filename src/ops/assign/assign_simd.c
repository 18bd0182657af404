/* SPDX-License-Identifier: Apache-2.0
 * assign on vectors and matrix tiles; compiled once per instruction set. A worker takes rows, skips
 * what the bounds decide, sends the rest in blocks through the tiles (the filter), and gathers the
 * few rows that stay open for a second pass that names their candidates, which float64 then
 * decides. */
#include "base/cpuid.h"
#include "core/kernel.h"
#include "ops/assign/assign_job.h"

#if HF_ISA_TILES
#include "ops/assign/assign_tile_amx.h"
#else
#include "ops/assign/assign_tile_f32.h"
#endif
#include "ops/assign/assign_gather.h"
#include "ops/assign/assign_prepare.h"
#include "ops/assign/assign_project.h"
#include "ops/assign/assign_settle.h"
#include "ops/assign/assign_skip.h"
#include <float.h>

#define PROJECT_FEATURES 96 /* fewer are looked at at once */
#define PROJECT_CENTROIDS 64
#define I16_FEATURES 4096

/* Pack rows block.row[0 .. block.rows) for the tiles; empty lanes up to the last tile become zeros.
 */
static void load_block(const struct job *job, struct worker *w) {
    for (int slot = 0; slot < w->block.rows || slot % TILE_ROWS; slot += VW) {
        float *rows = w->rows + (job->project ? slot * job->d_pad : 0);
        gather_panel(job, w, slot, rows);
        tile_pack_panel(job, w, slot, rows);
    }
}

/* Take `count` rows from the end of a queue, pack them, find the best two centroids of each. */
static void filter_block(const struct job *job, struct worker *w, const struct pack *p,
                         int64_t *queue, int *queued, int count) {
    struct block *b = &w->block;
    const int project = job->project && p == &job->all;
    *queued -= count;
    memcpy(b->row, queue + *queued, sizeof(int64_t) * (size_t)count);
    b->rows = count;
    load_block(job, w);
    for (int slot = 0; slot < count; slot += VW) {
        vf_store(b->best + slot, vf_set1(-FLT_MAX));
        vf_store(b->next + slot, vf_set1(-FLT_MAX));
        vi_store(b->arg + slot, vi_set1(0));
    }
    if (!project) {
        tile_argmax(job, w, p);
        return;
    }
    project_argmax(job, w);
}

/* Do directions pay? One tile of rows from all over the data tells, the same whatever the workers
 * are. */
static int project_pays(const struct job *job) {
    struct worker *w = &job->workers[0];
    struct block *b = &w->block;
    b->rows = job->n < TILE_ROWS ? (int)job->n : TILE_ROWS;
    for (int i = 0; i < b->rows; i++)
        b->row[i] = i * job->n / b->rows;
    tile_begin();
    load_block(job, w);
    project_argmax(job, w);
    tile_end();
    const int64_t most = (job->k / LOOK_WORTH + 8) * b->rows;
    b->rows = 0;
    return w->looks <= most;
}

/* Second pass over up to a block of open rows: candidates, then float64. */
static void settle_open(const struct job *job, struct worker *w) {
    struct block *b = &w->block;
    b->rows = w->n_open < b->capacity ? w->n_open : b->capacity;
    w->n_open -= b->rows;
    const struct open_row *open = w->open + w->n_open;
    for (int s = 0; s < b->capacity; s++)
        b->best[s] = s < b->rows && open[s].threshold > -FLT_MAX ? open[s].threshold : INFINITY;
    for (int s = 0; s < b->rows; s++) {
        b->row[s] = open[s].row;
        w->least[s] = INFINITY;
        w->least_arg[s] = INT32_MAX;
    }
    w->n_pairs = 0;
    w->slot64 = -1;
    if (job->usable) {
        load_block(job, w);
        tile_collect(job, w, &job->all);
        exact_drain(job, w);
    }
    for (int s = 0; s < b->rows; s++) {
        /* Rows out of the filter's range look at all centroids, whatever its scores said. */
        if (!(open[s].threshold > -FLT_MAX) || w->least_arg[s] == INT32_MAX)
            exact_all(job, w, s);
        settle_row(job, w, b->row[s], w->least_arg[s]);
        settle_bounds(job, b->row[s], w->least_arg[s],
                      (float)sqrt(fmax(w->least[s], 0)) * (1 + 0x1p-20f) + 0x1p-126f,
                      open[s].lower);
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
            while (w->n_open >= 2 * TILE_ROWS)
                settle_open(job, w);
        }
    }
    while (w->n_full >= room || (rest && w->n_full > 0)) {
        filter_block(job, w, &job->all, w->full, &w->n_full, w->n_full < room ? w->n_full : room);
        settle_block(job, w);
        while (w->n_open >= 2 * TILE_ROWS)
            settle_open(job, w);
    }
    while (rest && w->n_open > 0)
        settle_open(job, w);
}

static void queue_rows(const struct job *job, struct worker *w, int64_t begin, int64_t end) {
    const struct hf_assign_args *a = job->a;
    if (a->old_labels)
        memcpy(a->old_labels + begin, a->labels + begin, sizeof(int32_t) * (size_t)(end - begin));
    if (!job->usable) {
        for (int64_t i = begin; i < end; i++) {
            leave_open(w, i, -INFINITY, 0);
            if (w->n_open >= w->block.capacity)
                settle_open(job, w);
        }
    } else if (a->bounds && a->bounds->valid) {
        skip_scan(job, w, begin, end);
    } else {
        for (int64_t i = begin; i < end; i++)
            w->full[w->n_full++] = i;
    }
}

/* The next SCAN_ROWS rows; where all of them will go through the tiles they are fetched ahead. */
static int64_t take_rows(struct job *job, struct worker *w) {
    const int64_t first =
        atomic_fetch_add_explicit(&job->next_row, SCAN_ROWS, memory_order_relaxed);
    w->soon = w->soon_end = NULL;
    if (first < job->n && !(job->a->bounds && job->a->bounds->valid)) {
        const int64_t end = first + SCAN_ROWS < job->n ? first + SCAN_ROWS : job->n;
        w->soon = job_row(job, first);
        w->soon_end = w->soon + (size_t)(end - first) * job->row_bytes;
    }
    return first;
}

static void work(void *user, int worker, int64_t begin, int64_t end) {
    struct job *job = user;
    (void)worker;
    for (int64_t id = begin; id < end; id++) {
        struct worker *w = &job->workers[id];
        tile_begin();
        int64_t first = take_rows(job, w);
        while (first < job->n) {
            const int64_t stop = first + SCAN_ROWS < job->n ? first + SCAN_ROWS : job->n;
            const int64_t soon = take_rows(job, w);
            queue_rows(job, w, first, stop);
            drain(job, w, 0);
            first = soon;
        }
        drain(job, w, 1);
        tile_end();
    }
}

/* Fold the shares of the workers into the caller's sums and counters. */
static void merge(struct job *job) {
    struct hf_sums *to = job->a->sums;
    struct hf_assign_stats *stats = job->a->stats;
    for (int i = 0; i < job->n_workers; i++) {
        const struct worker *w = &job->workers[i];
        stats->changed += w->stats.changed;
        stats->skipped += w->stats.skipped;
        stats->partial += w->stats.partial;
        stats->rechecked += w->stats.rechecked;
        stats->pairs += w->stats.pairs;
        if (i == 0 || !w->has_sums)
            continue;
        for (int64_t j = 0; j < to->k * to->d * to->limbs; j++)
            to->sum[j] += w->sums.sum[j];
        for (int64_t k = 0; k < to->k; k++)
            to->count[k] += w->sums.count[k];
        for (int64_t k = 0; to->weight && k < to->k * to->limbs; k++)
            to->weight[k] += w->sums.weight[k];
    }
}

static hf_status run(void *stream, const void *args, enum idea idea, void *ws) {
    struct job job;
    carve_job(&job, args, idea, hf_pool_workers(stream), ws);
    prepare(&job, stream);
    job.project = job.project && project_pays(&job);
    hf_parallel_for(stream, job.n_workers, 1, work, &job);
    merge(&job);
    return HF_OK;
}

static hf_status simd_run(void *stream, const void *args, void *ws) {
    return run(stream, args, IDEA_PLAIN, ws);
}

static size_t simd_workspace(const void *args, int workers) {
    struct job job;
    return carve_job(&job, args, IDEA_PLAIN, workers, NULL);
}

static hf_status project_run(void *stream, const void *args, void *ws) {
    return run(stream, args, IDEA_PROJECT, ws);
}

static size_t project_workspace(const void *args, int workers) {
    struct job job;
    return carve_job(&job, args, IDEA_PROJECT, workers, NULL);
}

#if TILE_HAS_I16
static hf_status i16_run(void *stream, const void *args, void *ws) {
    return run(stream, args, IDEA_I16, ws);
}

static size_t i16_workspace(const void *args, int workers) {
    struct job job;
    return carve_job(&job, args, IDEA_I16, workers, NULL);
}

static bool i16_supports(const void *args) {
    const struct hf_assign_args *a = args;
    return hf_cpu_has_avx512_vnni() && a->x.cols >= 4 && a->x.cols <= I16_FEATURES;
}

static double i16_estimate(const void *args) {
    const struct hf_assign_args *a = args;
    const double n = (double)a->x.rows;
    const double d = (double)a->x.cols;
    const double k = ceil((double)a->c.rows / TILE_K) * TILE_K;
    return n * (k * (0.0046 * d + 0.085) + 0.09 * d + 6);
}
#endif

static bool project_supports(const void *args) {
    const struct hf_assign_args *a = args;
    return a->x.cols >= PROJECT_FEATURES && a->c.rows >= PROJECT_CENTROIDS;
}

/* Cost model: nanoseconds of a score and of a row, fitted to one core with AMX at about 3.3 GHz and
 * one with AVX2 at about 3.4 GHz. */
static double simd_estimate(const void *args) {
    const struct hf_assign_args *a = args;
    const double n = (double)a->x.rows;
    const double d = (double)a->x.cols;
    const double k = ceil((double)a->c.rows / TILE_K) * TILE_K;
#if HF_ISA_TILES
    const double steps = ceil((a->filter.whole ? 1 : 2) * d / STEP) + ceil(d / STEP);
    return n * (k * (0.022 * steps + 0.067) + 0.33 * d + 5);
#elif VREGS == 32
    return n * (k * (0.0088 * d + 0.065) + 0.08 * d + 3.5);
#else
    return n * (k * (0.021 * d + 0.12) + 0.15 * d + 5);
#endif
}

/* Most data with many features are near a few directions; where they are not, project_pays() goes
 * back to the plain tiles. */
static double project_estimate(const void *args) {
    const struct hf_assign_args *a = args;
    const double d = (double)a->x.cols;
    const double k = (double)a->c.rows;
    const double p = tile_directions(a->c.rows);
#if HF_ISA_TILES
    const double steps = ceil((a->filter.whole ? 1 : 2) * d / STEP) + ceil(d / STEP);
    const double row = p * 0.022 * steps + 0.0015 * p * k + 0.1 * k + 0.75 * d + 60;
#elif VREGS == 32
    const double row = (d + k) * p * 0.0088 + 0.15 * k + 0.5 * d + 100;
#else
    const double row = (d + k) * p * 0.021 + 0.3 * k + 0.8 * d + 100;
#endif
    /* the second best of a row is known roughly only: bounds made from it settle less */
    const double loose = a->bounds ? 1.5 : 1;
    return (double)a->x.rows * row * loose + 1.5 * k * d + 1e6;
}

#if HF_ISA_TILES
#define ROW_NAME "assign_bf16_32x32_" HF_ISA_TEXT
#elif VREGS == 32
#define ROW_NAME "assign_f32_32x12_" HF_ISA_TEXT
#else
#define ROW_NAME "assign_f32_16x6_" HF_ISA_TEXT
#endif

static const struct hf_kernel rows[] = {
    {
        .name = ROW_NAME,
        .device = HF_DEV_HOST,
        .dtypes = HF_DT_DATA,
        .isa = HF_ISA_ID,
        .traits = HF_TRAIT_FIXED_ORDER,
        .tile = {TILE_ROWS, TILE_K, 0},
        .workspace = simd_workspace,
        .run = simd_run,
        .estimate = simd_estimate,
    },
    {
        .name = "assign_project_" HF_ISA_TEXT,
        .device = HF_DEV_HOST,
        .dtypes = HF_DT_DATA,
        .isa = HF_ISA_ID,
        .traits = HF_TRAIT_FIXED_ORDER,
        .tile = {TILE_ROWS, TILE_K, 0},
        .supports = project_supports,
        .workspace = project_workspace,
        .run = project_run,
        .estimate = project_estimate,
    },
#if TILE_HAS_I16
    {
        .name = "assign_i16_32x12_" HF_ISA_TEXT,
        .device = HF_DEV_HOST,
        .dtypes = HF_DT_DATA,
        .isa = HF_ISA_ID,
        .traits = HF_TRAIT_FIXED_ORDER,
        .tile = {TILE_ROWS, TILE_K, 0},
        .supports = i16_supports,
        .workspace = i16_workspace,
        .run = i16_run,
        .estimate = i16_estimate,
    },
#endif
};

const struct hf_kernel_table HF_ISA_NAME(hf_assign_rows) = {rows, sizeof rows / sizeof *rows};
