/* SPDX-License-Identifier: Apache-2.0
 * seed with a float32 filter: rows that the triangle inequality cannot skip are converted a strip
 * at a time, multiplied with the candidates in register tiles, and only pairs that the bound leaves
 * open are evaluated in float64. Compiled once for each instruction set. */
#include "core/kernel.h"
#include "device/host/isa.h"

#if !HF_ISA_TILES

#include "ops/estimate.h"
#include "ops/seed/seed_exact.h"
#include "ops/seed/seed_filter.h"
#include <assert.h>

#define STRIP_BYTES_FEW 16384   /* few candidates: a strip stays in the first cache ... */
#define STRIP_BYTES_MANY 131072 /* ... many: it meets them from the second */
#define MANY 16

static void seed_carve_worker(const struct seed_job *job, hf_carve *carve, struct seed_worker **w) {
    const size_t rows = (size_t)job->strip;
    struct seed_worker *p = hf_carve_take(carve, sizeof *p);
    float *x = hf_carve_take(carve, rows * (size_t)job->dp * sizeof *x);
    float *x_limit = hf_carve_take(carve, (rows * GROUP + VW) * sizeof *x_limit);
    float *dots = hf_carve_take(carve, (rows * GROUP + VW) * sizeof *dots);
    uint64_t *gain = hf_carve_take(carve, (size_t)job->l * sizeof *gain);
    if (p) {
        p->x = x;
        p->x_limit = x_limit;
        p->dots = dots;
        p->gain = gain;
        *w = p;
    }
}

/* Sizes and addresses; with base NULL only bytes are counted. */
static size_t seed_layout(struct seed_job *job, const struct hf_seed_args *a, void *base,
                          int workers) {
    *job = (struct seed_job){.args = a, .d = a->x.cols, .l = a->candidates.rows};
    job->x = a->x.data;
    job->row_bytes =
        (a->x.row_stride ? a->x.row_stride : job->d) * (int64_t)hf_dtype_bytes(a->x.dtype);
    job->dp = (job->d + VW - 1) / VW * VW;
    job->lp = (job->l + GROUP - 1) / GROUP * GROUP;
    const int64_t bytes = job->l > MANY ? STRIP_BYTES_MANY : STRIP_BYTES_FEW;
    const int64_t rows = bytes / (job->dp * 4) / TILE * TILE;
    const int64_t most = HF_SEED_GRAIN / TILE * TILE;
    job->strip = rows < TILE ? TILE : rows < most ? rows : most;
    hf_carve carve = {base, 0};
    job->shift = hf_carve_take(&carve, (size_t)job->dp * sizeof *job->shift);
    job->shift64 = hf_carve_take(&carve, (size_t)job->dp * sizeof *job->shift64);
    job->c = hf_carve_take(&carve, (size_t)(job->lp * job->dp) * sizeof *job->c);
    job->c_limit = hf_carve_take(&carve, (size_t)(job->lp / GROUP * VW) * sizeof *job->c_limit);
    job->c_norm = hf_carve_take(&carve, (size_t)job->l * sizeof *job->c_norm);
    hf_carve one = {NULL, 0};
    struct seed_worker *unused;
    seed_carve_worker(job, &one, &unused);
    job->worker_bytes = hf_align_up(one.used);
    job->workers = hf_carve_take(&carve, job->worker_bytes * (size_t)workers);
    return carve.used;
}

static size_t seed_workspace(const struct hf_call *call) {
    struct seed_job job;
    return seed_layout(&job, call->args, NULL, call->device->workers);
}

/* Rows of [begin, end) that a candidate may bring nearer; returns how many. */
static int seed_pick(const struct seed_job *job, struct seed_worker *w, int64_t begin,
                     int64_t end) {
    const struct hf_seed_args *a = job->args;
    int count = 0;
    for (int64_t i = begin; i < end; i++) {
        const double reach = a->reach && a->label[i] >= 0 ? a->reach[a->label[i]] : 0;
        w->picked[count] = (int32_t)(i - begin);
        count += a->nearest[i] > reach;
    }
    return count;
}

static void seed_convert(const struct seed_job *job, struct seed_worker *w, int64_t begin,
                         const int32_t *picked, int rows) {
    const struct hf_seed_args *a = job->args;
    for (int r = 0; r < rows; r++) {
        const int64_t i = begin + picked[r];
        const float nx = seed_store_any(job, seed_row(job, i), w->x + r * job->dp);
        const float limit = seed_row_limit(job, a->nearest[i], nx);
        for (int l = 0; l < GROUP; l++)
            w->x_limit[r * GROUP + l] = limit;
    }
}

/* Pairs of the strip and candidate group g whose dot product is over the limit, or not comparable.
 */
static void seed_compare(const struct seed_job *job, struct seed_worker *w, int64_t begin,
                         const int32_t *picked, int rows, int64_t g) {
    const vf c_limit = vf_load(job->c_limit + g * VW);
    const int count = rows * GROUP;
    for (int t = 0; t < count; t += VW) {
        const vf limit = vf_add(vf_load(w->x_limit + t), c_limit);
        uint32_t open = ~vm_bits(vf_le(vf_load(w->dots + t), limit)) & (uint32_t)((1ull << VW) - 1);
        for (; open; open &= open - 1) {
            const int at = t + __builtin_ctz(open);
            const int64_t l = g * GROUP + at % GROUP;
            if (at < count && l < job->l)
                seed_push(job, w, begin + picked[at / GROUP], l);
        }
    }
}

/* The first group of candidates, while the rows of the next strip (`ahead_rows` of them) are
 * fetched. */
static void seed_first_group(const struct seed_job *job, struct seed_worker *w, int64_t begin,
                             const int32_t *picked, int rows, int ahead_rows) {
    const int64_t step = (int64_t)hf_dtype_bytes(job->args->x.dtype) * VW;
    for (int r = 0; r < rows; r += TILE) {
        const char *next[TILE];
        for (int i = 0; i < TILE; i++) {
            const int ahead = r + i < ahead_rows ? rows + r + i : 0;
            next[i] = seed_row(job, begin + picked[ahead]);
        }
        seed_tile(w->x + r * job->dp, job->c, job->dp, next, step, w->dots + r * GROUP);
    }
}

static void seed_strip(const struct seed_job *job, struct seed_worker *w, int64_t begin,
                       const int32_t *picked, int rows, int ahead_rows) {
    seed_convert(job, w, begin, picked, rows);
    seed_first_group(job, w, begin, picked, rows, ahead_rows);
    seed_compare(job, w, begin, picked, rows, 0);
    for (int64_t g = 1; g < job->lp / GROUP; g++) {
        const float *c = job->c + g * GROUP * job->dp;
        for (int r = 0; r < rows; r += TILE)
            seed_tile(w->x + r * job->dp, c, job->dp, NULL, 0, w->dots + r * GROUP);
        seed_compare(job, w, begin, picked, rows, g);
    }
}

static void seed_range(void *job_, int worker, int64_t begin, int64_t end) {
    const struct seed_job *job = job_;
    const struct hf_seed_args *a = job->args;
    hf_carve carve = {job->workers + (size_t)worker * job->worker_bytes, 0};
    struct seed_worker *w = NULL;
    seed_carve_worker(job, &carve, &w);
    assert(w);
    w->pairs = 0;
    memset(w->gain, 0, (size_t)job->l * sizeof *w->gain);
    const int count = seed_pick(job, w, begin, end);
    for (int at = 0; at < count; at += (int)job->strip) {
        const int left = count - at;
        const int rows = left < job->strip ? left : (int)job->strip;
        seed_strip(job, w, begin, w->picked + at, rows, left - rows);
    }
    seed_flush(job, w);
    if (a->commit)
        seed_settle(a, begin, end);
    else
        for (int64_t l = 0; l < job->l; l++)
            seed_add(a->gain + l, w->gain[l]);
}

static hf_status seed_run(const struct hf_call *call) {
    struct seed_job job;
    const int workers = hf_pool_workers(call->stream);
    seed_layout(&job, call->args, call->ws, workers);
    /* rows of a strip that are not filled are multiplied too: they must hold finite numbers */
    memset(job.workers, 0, job.worker_bytes * (size_t)workers);
    seed_filter_terms(&job);
    seed_filter_shift(&job);
    seed_filter_candidates(&job);
    hf_parallel_for(call->stream, job.args->x.rows, HF_SEED_GRAIN, seed_range, &job);
    return HF_OK;
}

static double seed_estimate(const struct hf_call *call) {
    const struct hf_seed_args *a = call->args;
    const double terms = (double)a->x.rows * (double)a->x.cols;
    return hf_estimate_ns(terms * (double)(a->candidates.rows + 3), VW,
                          terms * (double)hf_dtype_bytes(a->x.dtype));
}

static const struct hf_kernel kernels[] = {
    {.name = "seed_any_" HF_STR(TILE) "x" HF_STR(GROUP) "_" HF_ISA_TEXT,
     .device = HF_DEV_HOST,
     .dtypes = HF_DT_DATA,
     .isa = HF_ISA_ID,
     .tile = {TILE, GROUP, VW},
     .workspace = seed_workspace,
     .run = seed_run,
     .estimate = seed_estimate},
};

const struct hf_kernel_table HF_ISA_NAME(hf_seed_kernels) = {kernels, 1};

#else

const struct hf_kernel_table HF_ISA_NAME(hf_seed_kernels) = {NULL, 0};

#endif
