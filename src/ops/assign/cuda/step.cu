/* SPDX-License-Identifier: Apache-2.0
 * A step of the loop on NVIDIA GPUs (assign_cuda.h): centroids are packed, the kind's kernels score
 * the rows, float64 settles what they leave open, labels are compared. */
#include "base/mem.h"
#include "ops/assign/cuda/assign_cuda.h"
#include "ops/assign/cuda/open/settle.h"
#include "ops/assign/cuda/skip.h"
#include "ops/assign/cuda/filter.h"
#include "ops/assign/cuda/i8.h"

struct step_memory {
    struct hf_settle settle;
    struct hf_skip_cuda skip;
    struct hf_i8_memory i8;
    void *packed; /* the filter's centroids, */
    float *sums;  /* and the sums of their tiles, where these are checked */
};

/* The next bytes at a multiple of 256. */
static void *take(hf_carve *carve, size_t bytes) {
    carve->used = (carve->used + 255) / 256 * 256;
    return hf_carve_take(carve, bytes);
}

static size_t step_carve(const struct hf_assign_problem *problem, void *ws, struct step_memory *m) {
    hf_carve carve = {(char *)ws, 0};
    const int k = (int)problem->k, d = (int)problem->x.cols, batch = (int)problem->batch;
    m->packed = take(&carve, hf_filter_pack_bytes(problem->device, k, d, batch));
    m->sums = NULL;
    if (problem->checks_tiles)
        m->sums = (float *)take(&carve, hf_tile_check_bytes(k, d));
    void *settle = take(&carve, hf_settle_carve(problem, NULL, &m->settle));
    m->skip = {};
    void *skip = take(&carve, hf_skip_carve(problem, NULL, &m->skip));
    if (hf_i8_wanted(problem)) {
        void *i8 = take(&carve, hf_i8_carve(problem, NULL, &m->i8));
        (void)hf_i8_carve(problem, i8, &m->i8);
    }
    if (ws != NULL) {
        (void)hf_skip_carve(problem, skip, &m->skip);
        (void)hf_settle_carve(problem, settle, &m->settle);
    }
    return carve.used;
}

size_t hf_assign_step_bytes(const struct hf_assign_problem *problem) {
    struct step_memory m;
    return step_carve(problem, NULL, &m);
}

static hf_status clear_counters(struct hf_cuda *cuda, const struct hf_settle *s) {
    return hf_cuda_check(
        cuda,
        cudaMemsetAsync(s->counters, 0, sizeof(int32_t) * (size_t)s->n_counters, cuda->stream),
        "assign: clear counters");
}

static struct hf_filter_rows filter_rows(const struct hf_assign_rows *rows,
                                         const struct hf_assign_step *step) {
    struct hf_filter_rows f = {};
    f.x16 = rows->x16;
    f.norm = rows->norm;
    f.loss = rows->loss;
    f.n = rows->n;
    f.ld = rows->ld;
    f.d = (int)rows->problem.x.cols;
    f.batch = (int)rows->problem.batch;
    f.bf16 = rows->bf16;
    f.mma = rows->mma;
    f.stop = step->stop;
    return f;
}

static struct hf_filter_centroids filter_centroids(const struct hf_assign_rows *rows,
                                                   const struct hf_assign_step *step,
                                                   const struct hf_settle *s) {
    const struct hf_assign_problem *p = &rows->problem;
    struct hf_filter_centroids f = {};
    f.c = step->c;
    f.shift = rows->shift;
    f.scale = rows->scale;
    f.length = rows->length;
    f.zero = s->counters;
    f.zeros = s->n_counters;
    f.k = (int)p->k;
    f.d = (int)p->x.cols;
    f.batch = (int)p->batch;
    f.metric = p->metric;
    f.f64 = p->c_type == HF_F64;
    f.mma = rows->mma;
    f.raw = rows->raw;
    f.stop = step->stop;
    return f;
}

/* Float64 for the rows of a list, then the end of a step. */
static hf_status settle_listed(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                               const struct hf_assign_step *step, const struct hf_settle *s,
                               const int32_t *list, const int32_t *count) {
    HF_TRY(hf_settle_dense(cuda, rows, step, s, list, count));
    return hf_settle_compare(cuda, rows, step, s, count);
}

/* Scores of the rows that bounds do not decide: all of them or those of a list, as the device finds
 * best. */
static hf_status score_undecided(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                                 const struct hf_assign_step *step, const struct step_memory *m,
                                 const struct hf_filter_call *filter,
                                 const struct hf_filter_out *out) {
    struct hf_filter_out scores = *out;
    scores.best = m->skip.best;
    scores.second = m->skip.second;
    scores.error = m->skip.error;
    HF_TRY(hf_skip_scan(cuda, rows, step, &m->skip));
    struct hf_filter_call all = *filter;
    all.rows.stop = m->skip.stop_all;
    HF_TRY(hf_filter_top2(cuda, &all, &scores));
    struct hf_filter_call some = *filter;
    some.rows.stop = m->skip.stop_list;
    some.rows.list = m->skip.list;
    some.rows.count = m->skip.count;
    HF_TRY(hf_filter_top2(cuda, &some, &scores));
    return hf_skip_learn(cuda, rows, step, &m->skip);
}

/* Scores of the rows that 8 bits do not decide, or of all where they decide too few. */
static hf_status score_u8(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                          const struct hf_assign_step *step, const struct step_memory *m,
                          const struct hf_filter_call *filter, const struct hf_filter_out *out) {
    struct hf_i8_rows i8;
    (void)hf_i8_rows_carve(&rows->problem, rows->i8, &i8);
    HF_TRY(hf_i8_top2(cuda, rows, step, &i8, &m->i8));
    struct hf_filter_call all = *filter;
    all.rows.stop = &i8.state->stop_all;
    HF_TRY(hf_assign_rows_convert(cuda, rows, NULL, NULL, all.rows.stop));
    HF_TRY(hf_filter_top2(cuda, &all, out));
    struct hf_filter_call some = *filter;
    some.rows.stop = &i8.state->stop_list;
    some.rows.list = m->i8.list;
    some.rows.count = &i8.state->count;
    HF_TRY(hf_assign_rows_convert(cuda, rows, some.rows.list, some.rows.count, some.rows.stop));
    return hf_filter_top2(cuda, &some, out);
}

/* Labels by the filter alone; float64 for rows of which it knows nothing: those with an infinite
 * norm and, where a centroid is too far out for 16 bits, all. */
static hf_status step_fast(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                           const struct hf_assign_step *step, const struct hf_settle *s,
                           const struct hf_filter_call *filter, const struct hf_filter_out *out) {
    HF_TRY(hf_filter_best(cuda, filter, out));
    if (rows->out_of_range != NULL)
        HF_TRY(hf_settle_dense(cuda, rows, step, s, rows->out_of_range, rows->out_of_range_count));
    return settle_listed(cuda, rows, step, s, s->open.row, s->open.count);
}

static hf_status step_tensor(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                             const struct hf_assign_step *step, const struct step_memory *m) {
    struct hf_settle settle = m->settle;
    const struct hf_settle *s = &settle;
    const bool bounded = step->bounds != NULL && rows->kind == HF_ASSIGN_TENSOR;
    const struct hf_filter_call filter = {filter_rows(rows, step), filter_centroids(rows, step, s),
                                          m->packed};
    struct hf_filter_out out = {};
    out.label = step->labels;
    out.open = s->open;
    HF_TRY(hf_filter_pack(cuda, &filter.centroids, m->packed));
    if (!rows->problem.exact) {
        return step_fast(cuda, rows, step, s, &filter, &out);
    }
    if (bounded) {
        settle.scored = m->skip.count;
        settle.scored_all = m->skip.stop_all;
        settle.bounds = hf_skip_bounds(rows, step, &m->skip);
        HF_TRY(score_undecided(cuda, rows, step, m, &filter, &out));
    } else if (rows->i8 != NULL) {
        HF_TRY(score_u8(cuda, rows, step, m, &filter, &out));
    } else if (rows->problem.checks_tiles) {
        struct hf_tile_check check = rows->problem.check;
        check.sums = m->sums;
        HF_TRY(hf_tile_check_sums(cuda, &filter.centroids, m->packed, &check));
        HF_TRY(hf_tile_check_top2(cuda, &filter, &out, &check));
    } else {
        HF_TRY(hf_filter_top2(cuda, &filter, &out));
    }
    HF_TRY(hf_settle_open(cuda, rows, step, s, &filter));
    const int32_t *count = NULL;
    HF_TRY(hf_settle_rest(cuda, rows, step, s, &count));
    return hf_settle_compare(cuda, rows, step, s, count);
}

hf_status hf_assign_step(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, void *ws) {
    struct step_memory m;
    (void)step_carve(&rows->problem, ws, &m);
    HF_TRY(hf_settle_norms(cuda, rows, step, &m.settle));
    if (rows->kind == HF_ASSIGN_TENSOR)
        return step_tensor(cuda, rows, step, &m);
    HF_TRY(clear_counters(cuda, &m.settle));
    return settle_listed(cuda, rows, step, &m.settle, NULL, NULL);
}
