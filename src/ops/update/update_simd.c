/* SPDX-License-Identifier: Apache-2.0
 * update in SIMD. The sums are integers, so it does not matter who adds what in which order. Two
 * ways to keep workers apart, chosen by size: copies  small sums: worker 0 adds to the caller's,
 * every other worker to its own copy, merged at the end split   large sums: every worker walks all
 * rows and adds only its features, or only its clusters */
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
const struct hf_kernel_table HF_ISA_NAME(hf_update_rows) = {NULL, 0};
#else

#define COPIES_MAX_BYTES (INT64_C(4) << 20)
#define COPIES_GRAIN 512      /* rows */
#define SPLIT_BLOCK 4096      /* rows whose factors are computed at once */
#define SPLIT_MIN_FEATURES 16 /* for each worker */

struct update_job {
    const struct hf_update_args *args;
    size_t row_bytes; /* from one row of x to the next */
    int64_t *copies;  /* [workers - 1][copy_size] */
    uint8_t *used;    /* [workers] whether a worker's copy was begun */
    int workers;
    int64_t copy_size; /* int64s from one copy to the next: sum, count, weight */
    double *factor;    /* [SPLIT_BLOCK] of the rows from first_row on */
    int64_t first_row;
    int64_t end_row;
};

static int64_t copy_size(const struct hf_sums *s) {
    return s->limbs * s->k * s->d + s->k + (s->weight ? s->limbs * s->k : 0);
}

static bool takes_copies(const struct hf_sums *s, int workers) {
    return (double)copy_size(s) * 8 * (workers - 1) <= (double)COPIES_MAX_BYTES;
}

static size_t update_workspace(const void *p, int workers) {
    const struct hf_update_args *args = p;
    if (workers == 1)
        return 0;
    if (!takes_copies(args->sums, workers))
        return SPLIT_BLOCK * sizeof(double);
    return hf_align_up((size_t)workers) +
           (size_t)(workers - 1) * hf_align_up((size_t)copy_size(args->sums) * 8);
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

static void move_rows(const struct update_job *job, const struct hf_sums *s, const int64_t *row,
                      int count) {
    const struct hf_update_args *args = job->args;
    double factor[CHAIN_ROWS];
    row_factors(factor, job, row, count);
    for (int r = 0; r < count; r++)
        update_move_row(s, row_at(job, row[r]), args->x.dtype, factor[r], row_weight(args, row[r]),
                        old_label(args, row[r]), args->labels[row[r]]);
}

/* Copies: rows [begin, end), those that changed gathered in blocks. */
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

/* Split: factors of rows [begin, end) of the block, CHAIN_ROWS at a time. */
static void factor_range(void *job_, int worker, int64_t begin, int64_t end) {
    (void)worker;
    struct update_job *job = job_;
    for (int64_t i = begin; i < end; i += CHAIN_ROWS) {
        const int count = (int)(end - i < CHAIN_ROWS ? end - i : CHAIN_ROWS);
        int64_t row[CHAIN_ROWS];
        for (int r = 0; r < count; r++)
            row[r] = job->first_row + i + r;
        row_factors(job->factor + i, job, row, count);
    }
}

/* Split: what row i needs of features [begin, end), into the L2 cache. Sums that are split are
 * larger than it. */
static void fetch_features(const struct update_job *job, int64_t i, int64_t begin, int64_t end) {
    const struct hf_update_args *args = job->args;
    const struct hf_sums *s = args->sums;
    const int32_t from = old_label(args, i);
    const int32_t to = args->labels[i];
    const int64_t size = (int64_t)hf_dtype_bytes(args->x.dtype);
    const char *x = row_at(job, i);
    for (int64_t at = begin * size; at < end * size; at += HF_ALIGN)
        __builtin_prefetch(x + at, 0, 2);
    for (int64_t j = begin; j < end; j += HF_ALIGN / 8) {
        if (from >= 0)
            __builtin_prefetch(s->sum + from * s->d + j, 1, 2);
        if (to >= 0)
            __builtin_prefetch(s->sum + to * s->d + j, 1, 2);
    }
}

/* The next row of the block from i on that changed, or its end. */
static int64_t next_change(const struct update_job *job, int64_t i) {
    while (i < job->end_row && old_label(job->args, i) == job->args->labels[i])
        i++;
    return i;
}

/* Split: features [begin, end) of every row of the block. */
static void feature_range(void *job_, int worker, int64_t begin, int64_t end) {
    (void)worker;
    struct update_job *job = job_;
    const struct hf_update_args *args = job->args;
    int64_t next;
    for (int64_t i = next_change(job, job->first_row); i < job->end_row; i = next) {
        const int32_t from = old_label(args, i);
        const int32_t to = args->labels[i];
        next = next_change(job, i + 1);
        if (next < job->end_row)
            fetch_features(job, next, begin, end);
        update_move_features(args->sums, row_at(job, i), args->x.dtype,
                             job->factor[i - job->first_row], from, to, begin, end);
        if (begin == 0)
            update_move_count(args->sums, row_weight(args, i), from, to);
    }
}

/* Split: clusters [begin, end), from every row of the block. */
static void cluster_range(void *job_, int worker, int64_t begin, int64_t end) {
    (void)worker;
    struct update_job *job = job_;
    const struct hf_update_args *args = job->args;
    for (int64_t i = job->first_row; i < job->end_row; i++) {
        const int32_t from = old_label(args, i);
        const int32_t to = args->labels[i];
        if (from == to)
            continue;
        const int32_t mine_from = from >= begin && from < end ? from : -1;
        const int32_t mine_to = to >= begin && to < end ? to : -1;
        update_move_row(args->sums, row_at(job, i), args->x.dtype, job->factor[i - job->first_row],
                        row_weight(args, i), mine_from, mine_to);
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

static void run_split(hf_pool *pool, struct update_job *job, char *ws) {
    const int workers = job->workers;
    const struct hf_sums *s = job->args->sums;
    const int64_t n = job->args->x.rows;
    const bool by_feature = s->d >= (int64_t)SPLIT_MIN_FEATURES * workers;
    const int64_t items = by_feature ? s->d : s->k;
    const int64_t line = by_feature ? HF_ALIGN / 8 : 1;
    const int64_t share = (items + workers - 1) / workers;
    job->factor = (double *)(void *)ws;
    for (int64_t first = 0; first < n; first += SPLIT_BLOCK) {
        job->first_row = first;
        job->end_row = n - first < SPLIT_BLOCK ? n : first + SPLIT_BLOCK;
        hf_parallel_for(pool, job->end_row - first, CHAIN_ROWS * 8, factor_range, job);
        hf_parallel_for(pool, items, (share + line - 1) / line * line,
                        by_feature ? feature_range : cluster_range, job);
    }
}

static hf_status update_run(void *stream, const void *p, void *ws) {
    const struct hf_update_args *args = p;
    struct update_job job = {
        .args = args, .row_bytes = hf_row_bytes(&args->x), .workers = hf_pool_workers(stream)};
    if (job.workers == 1)
        add_range(&job, 0, 0, args->x.rows);
    else if (takes_copies(args->sums, job.workers))
        run_copies(stream, &job, ws);
    else
        run_split(stream, &job, ws);
    return HF_OK;
}

static double update_estimate(const void *p) {
    const struct hf_update_args *args = p;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_estimate_ns(10 * args->sums->limbs * values, VDW,
                          values * (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel rows[] = {{.name = "update_rows_" HF_ISA_TEXT,
                                         .device = HF_DEV_HOST,
                                         .dtypes = HF_DT_DATA,
                                         .isa = HF_ISA_ID,
                                         .traits = HF_TRAIT_FIXED_ORDER,
                                         .workspace = update_workspace,
                                         .run = update_run,
                                         .estimate = update_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_update_rows) = {rows, 1};

#endif
