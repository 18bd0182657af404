/* SPDX-License-Identifier: Apache-2.0
 * update in SIMD. The sums are integers, so it does not matter who adds what in which order. Two
 * ways to keep workers apart, chosen by size:
 *   copies  small sums: worker 0 adds to the caller's, every other worker to its own copy, merged
 *           at the end
 *   split   large sums: every worker walks all rows that changed and adds only its features, or
 *           only its clusters */
#include "device/host/isa.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "ops/chains.h"
#include "ops/estimate.h"
#include "ops/reference.h"
#include "ops/update/update_row.h"
#include <string.h>

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_update_kernels) = {NULL, 0};
#else

#define COPIES_MAX_BYTES (INT64_C(4) << 20)
#define COPIES_GRAIN 512               /* rows */
#define SPLIT_ROWS (INT64_C(1) << 16)  /* whose changes are listed at once */
#define SPLIT_MIN_FEATURES 16          /* for each worker */
#define AHEAD_BYTES (INT64_C(6) << 10) /* of rows that are fetched ahead, */
#define AHEAD_MOST 16                  /* in rows, */
#define AHEAD_ROW (INT64_C(4) << 10)   /* and of one of them; the rest the CPU sees coming */

struct update_job {
    const struct hf_update_args *args;
    size_t row_bytes; /* from one row of x to the next */
    int64_t *copies;  /* [workers - 1][copy_size] */
    uint8_t *used;    /* [workers] whether a worker's copy was begun */
    int workers;
    int64_t copy_size; /* int64s from one copy to the next: sum, count, weight */
    int64_t first;     /* split: of the rows from here on */
    int64_t n_changed; /* so many change their cluster: */
    int32_t *changed;  /* [n_changed] these, counted from `first`, */
    double *factor;    /* [n_changed] with these r_i; NULL but for HF_COSINE */
};

static int64_t copy_size(const struct hf_sums *s) {
    return s->limbs * s->k * s->d + s->k + (s->weight ? s->limbs * s->k : 0);
}

static bool takes_copies(const struct hf_sums *s, int workers) {
    return (double)copy_size(s) * 8 * (workers - 1) <= (double)COPIES_MAX_BYTES;
}

/* Lay out what split needs; returns the bytes. ws NULL measures. */
static size_t carve_split(struct update_job *job, void *ws) {
    const struct hf_update_args *args = job->args;
    const size_t rows = (size_t)(args->x.rows < SPLIT_ROWS ? args->x.rows : SPLIT_ROWS);
    hf_carve carve = {ws, 0};
    job->changed = hf_carve_take(&carve, rows * sizeof(int32_t));
    if (args->metric == HF_COSINE)
        job->factor = hf_carve_take(&carve, rows * sizeof(double));
    return carve.used;
}

static size_t update_workspace(const struct hf_call *call) {
    const struct hf_update_args *args = call->args;
    struct update_job job = {.args = args};
    if (call->device->workers == 1)
        return 0;
    if (!takes_copies(args->sums, call->device->workers))
        return carve_split(&job, NULL);
    return hf_align_up((size_t)call->device->workers) +
           (size_t)(call->device->workers - 1) * hf_align_up((size_t)copy_size(args->sums) * 8);
}

static int32_t old_label(const struct hf_update_args *args, int64_t i) {
    return args->old_labels ? args->old_labels[i] : -1;
}

static double row_weight(const struct hf_update_args *args, int64_t i) {
    return args->weights ? args->weights[i] : 1;
}

/* The sums that a worker adds to; its copy is zeroed when it is first asked for. */
static struct hf_sums worker_sums(struct update_job *job, int worker) {
    struct hf_sums s = *job->args->sums;
    if (worker == 0)
        return s;
    int64_t *copy = job->copies + (worker - 1) * job->copy_size;
    if (!job->used[worker]) {
        memset(copy, 0, (size_t)copy_size(&s) * 8);
        job->used[worker] = 1;
    }
    s.sum = copy;
    s.count = copy + s.limbs * s.k * s.d;
    s.weight = s.weight ? s.count + s.k : NULL;
    return s;
}

static const void *row_at(const struct update_job *job, int64_t i) {
    return (const char *)job->args->x.data + (size_t)i * job->row_bytes;
}

/* r_i of count <= CHAIN_ROWS rows, given by number. */
static void row_factors(double *factor, const struct update_job *job, const int64_t *row,
                        int count) {
    const struct hf_update_args *args = job->args;
    if (args->metric != HF_COSINE) {
        for (int r = 0; r < count; r++)
            factor[r] = row_weight(args, row[r]);
        return;
    }
    const void *x[CHAIN_ROWS];
    double square[CHAIN_ROWS];
    for (int r = 0; r < CHAIN_ROWS; r++)
        x[r] = row_at(job, row[r < count ? r : count - 1]);
    chain_squares(square, x, args->x.dtype, args->x.cols);
    for (int r = 0; r < count; r++)
        factor[r] = square[r] > 0 ? row_weight(args, row[r]) / sqrt(square[r]) : 0;
}

/* Features [begin, end) of row i into the L2 cache. */
static void fetch_row(const struct update_job *job, int64_t i, int64_t begin, int64_t end) {
    const int64_t size = (int64_t)hf_dtype_bytes(job->args->x.dtype);
    const char *x = (const char *)row_at(job, i) + begin * size;
    const int64_t bytes = (end - begin) * size;
    for (int64_t at = 0; at < bytes && at < AHEAD_ROW; at += HF_ALIGN)
        __builtin_prefetch(x + at, 0, 2);
}

/* Sums are asked for a row ahead: they are in the L2 cache at best. Where all rows are added those
 * of the next call are asked for too: the CPU sees them coming, but no further than to the end of a
 * page. */
static void move_light(const struct update_job *job, const struct hf_sums *s, const int64_t *row,
                       int count) {
    const struct hf_update_args *args = job->args;
    for (int r = 0; r < count; r++) {
        if (!args->old_labels && row[r] + CHAIN_ROWS < args->x.rows)
            fetch_row(job, row[r] + CHAIN_ROWS, 0, s->d);
        if (r + 1 < count)
            update_fetch(s, old_label(args, row[r + 1]), args->labels[row[r + 1]]);
        update_move_light(s, row_at(job, row[r]), old_label(args, row[r]), args->labels[row[r]]);
    }
}

static void move_rows(const struct update_job *job, const struct hf_sums *s, const int64_t *row,
                      int count) {
    const struct hf_update_args *args = job->args;
    double factor[CHAIN_ROWS];
    if (update_is_light(s, args->x.dtype, args->metric, args->weights)) {
        move_light(job, s, row, count);
        return;
    }
    row_factors(factor, job, row, count);
    for (int r = 0; r < count; r++) {
        const struct update_row m = {.row = row_at(job, row[r]),
                                     .dtype = args->x.dtype,
                                     .factor = factor[r],
                                     .weight = row_weight(args, row[r]),
                                     .from = old_label(args, row[r]),
                                     .to = args->labels[row[r]]};
        update_move_row(s, &m);
    }
}

/* Copies: rows [begin, end), those that changed gathered CHAIN_ROWS at a time. */
static void add_range(void *job_, int worker, int64_t begin, int64_t end) {
    struct update_job *job = job_;
    const struct hf_update_args *args = job->args;
    struct hf_sums s = *args->sums;
    bool begun = false;
    int64_t row[CHAIN_ROWS];
    int count = 0;
    for (int64_t i = begin; i < end; i++) {
        if (old_label(args, i) != args->labels[i])
            row[count++] = i;
        if (count == 0 || (count < CHAIN_ROWS && i + 1 < end))
            continue;
        if (!begun)
            s = worker_sums(job, worker);
        begun = true;
        move_rows(job, &s, row, count);
        count = 0;
    }
}

/* Copies: int64s [begin, end) of every copy that was begun onto the caller's sums. */
static void merge_range(void *job_, int worker, int64_t begin, int64_t end) {
    (void)worker;
    struct update_job *job = job_;
    const struct hf_sums *s = job->args->sums;
    const int64_t sums = s->limbs * s->k * s->d;
    for (int w = 1; w < job->workers; w++) {
        if (!job->used[w])
            continue;
        const int64_t *copy = job->copies + (w - 1) * job->copy_size;
        for (int64_t e = begin; e < end && e < sums; e++)
            s->sum[e] += copy[e];
        for (int64_t e = begin > sums ? begin : sums; e < end && e < sums + s->k; e++)
            s->count[e - sums] += copy[e];
        for (int64_t e = begin > sums + s->k ? begin : sums + s->k; e < end; e++)
            s->weight[e - sums - s->k] += copy[e];
    }
}

/* Split: which of `rows` rows from job->first on change their cluster? */
static void list_changed(struct update_job *job, int64_t rows) {
    const struct hf_update_args *args = job->args;
    job->n_changed = 0;
    for (int64_t i = 0; i < rows; i++) {
        job->changed[job->n_changed] = (int32_t)i;
        job->n_changed += old_label(args, job->first + i) != args->labels[job->first + i];
    }
}

/* Split: r_i of changed rows [begin, end), CHAIN_ROWS at a time. */
static void factor_range(void *job_, int worker, int64_t begin, int64_t end) {
    (void)worker;
    struct update_job *job = job_;
    for (int64_t i = begin; i < end; i += CHAIN_ROWS) {
        const int count = (int)(end - i < CHAIN_ROWS ? end - i : CHAIN_ROWS);
        int64_t row[CHAIN_ROWS];
        for (int r = 0; r < count; r++)
            row[r] = job->first + job->changed[i + r];
        row_factors(job->factor + i, job, row, count);
    }
}

/* Split: features [begin, end) of a changed row into the L2 cache, and its sums where these are so
 * few that the CPU would not see them coming: they lie in the L3 cache at best. */
static void fetch_features(const struct update_job *job, int64_t i, int64_t begin, int64_t end) {
    const struct hf_update_args *args = job->args;
    const struct hf_sums *s = args->sums;
    const int64_t row = job->first + job->changed[i];
    fetch_row(job, row, begin, end);
    if (end - begin > UPDATE_FETCH)
        return;
    const int32_t from = old_label(args, row);
    const int32_t to = args->labels[row];
    for (int64_t j = begin; j < end; j += HF_ALIGN / 8) {
        if (from >= 0)
            __builtin_prefetch(s->sum + from * s->d + j, 1, 2);
        if (to >= 0)
            __builtin_prefetch(s->sum + to * s->d + j, 1, 2);
    }
}

/* Split: features [begin, end) of every row that changed. */
static void feature_range(void *job_, int worker, int64_t begin, int64_t end) {
    (void)worker;
    struct update_job *job = job_;
    const struct hf_update_args *args = job->args;
    const int64_t bytes = (end - begin) * (int64_t)hf_dtype_bytes(args->x.dtype);
    const int64_t room = 1 + AHEAD_BYTES / bytes;
    const int64_t ahead = room < AHEAD_MOST ? room : AHEAD_MOST;
    for (int64_t i = 0; i < ahead && i < job->n_changed; i++)
        fetch_features(job, i, begin, end);
    for (int64_t i = 0; i < job->n_changed; i++) {
        const int64_t row = job->first + job->changed[i];
        const double weight = row_weight(args, row);
        const struct update_row m = {.row = row_at(job, row),
                                     .dtype = args->x.dtype,
                                     .factor = job->factor ? job->factor[i] : weight,
                                     .weight = weight,
                                     .from = old_label(args, row),
                                     .to = args->labels[row]};
        if (i + ahead < job->n_changed)
            fetch_features(job, i + ahead, begin, end);
        update_move_features(args->sums, &m, begin, end);
        if (begin == 0)
            update_move_count(args->sums, weight, m.from, m.to);
    }
}

/* Split: clusters [begin, end), from every row that changed. */
static void cluster_range(void *job_, int worker, int64_t begin, int64_t end) {
    (void)worker;
    struct update_job *job = job_;
    const struct hf_update_args *args = job->args;
    for (int64_t i = 0; i < job->n_changed; i++) {
        const int64_t row = job->first + job->changed[i];
        const double weight = row_weight(args, row);
        const int32_t from = old_label(args, row);
        const int32_t to = args->labels[row];
        const struct update_row m = {.row = row_at(job, row),
                                     .dtype = args->x.dtype,
                                     .factor = job->factor ? job->factor[i] : weight,
                                     .weight = weight,
                                     .from = from >= begin && from < end ? from : -1,
                                     .to = to >= begin && to < end ? to : -1};
        update_move_row(args->sums, &m);
    }
}

static void run_copies(hf_pool *pool, struct update_job *job, char *ws) {
    const int workers = job->workers;
    const struct hf_sums *s = job->args->sums;
    job->copy_size = (int64_t)hf_align_up((size_t)copy_size(s) * 8) / 8;
    job->used = (uint8_t *)ws;
    job->copies = (int64_t *)(void *)(ws + hf_align_up((size_t)workers));
    memset(job->used, 0, (size_t)workers);
    hf_parallel_for(pool, job->args->x.rows, COPIES_GRAIN, add_range, job);
    hf_parallel_for(pool, copy_size(s), 8192, merge_range, job);
}

static void run_split(hf_pool *pool, struct update_job *job, void *ws) {
    const int workers = job->workers;
    const struct hf_sums *s = job->args->sums;
    const int64_t n = job->args->x.rows;
    const bool by_feature = s->d >= (int64_t)SPLIT_MIN_FEATURES * workers;
    const int64_t items = by_feature ? s->d : s->k;
    const int64_t line = by_feature ? HF_ALIGN / 8 : 1;
    const int64_t share = (items + workers - 1) / workers;
    (void)carve_split(job, ws);
    for (; job->first < n; job->first += SPLIT_ROWS) {
        list_changed(job, n - job->first < SPLIT_ROWS ? n - job->first : SPLIT_ROWS);
        if (job->factor)
            hf_parallel_for(pool, job->n_changed, CHAIN_ROWS * 8, factor_range, job);
        hf_parallel_for(pool, items, (share + line - 1) / line * line,
                        by_feature ? feature_range : cluster_range, job);
    }
}

static hf_status update_run(const struct hf_call *call) {
    const struct hf_update_args *args = call->args;
    struct update_job job = {.args = args,
                             .row_bytes = hf_row_bytes(&args->x),
                             .workers = hf_pool_workers(call->stream)};
    if (job.workers == 1)
        add_range(&job, 0, 0, args->x.rows);
    else if (takes_copies(args->sums, job.workers))
        run_copies(call->stream, &job, call->ws);
    else
        run_split(call->stream, &job, call->ws);
    return HF_OK;
}

static double update_estimate(const struct hf_call *call) {
    const struct hf_update_args *args = call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_estimate_ns(10 * args->sums->limbs * values, VDW,
                          values * (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel kernels[] = {{.name = "update_rows_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = update_workspace,
                                            .run = update_run,
                                            .estimate = update_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_update_kernels) = {kernels, 1};

#endif
