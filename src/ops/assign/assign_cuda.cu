/* SPDX-License-Identifier: Apache-2.0
 * assign on NVIDIA GPUs: a step of the loop (assign_cuda.h), and the row of the op, which prepares
 * the data, makes one step, and moves changed rows between the sums with the row of update. */
#include "base/mem.h"
#include "core/array.h"
#include "core/kernel.h"
#include "device/cuda/stage.h"
#include "ops/assign/assign.h"
#include "ops/assign/assign_cuda.h"
#include "ops/assign/assign_cuda_settle.h"
#include "ops/assign/assign_cuda_skip.h"
#include "ops/assign/assign_i8.h"
#include "ops/assign/assign_mma.h"
#include "ops/assign/assign_simt.h"

#define MOST_SMS 256 /* no device has more multiprocessors */

extern "C" const struct hf_kernel_table hf_update_rows_cuda;

struct step_memory {
    struct hf_settle settle;
    struct hf_simt simt;
    struct hf_skip_cuda skip;
    struct hf_i8_memory i8;
    void *packed; /* the filter's centroids */
};

/* The next bytes at a multiple of 256. */
static void *take(hf_carve *carve, size_t bytes) {
    carve->used = (carve->used + 255) / 256 * 256;
    return hf_carve_take(carve, bytes);
}

static size_t step_carve(const struct hf_assign_problem *problem, void *ws, struct step_memory *m) {
    struct hf_cuda large = {}; /* what the filter keeps grows with the device */
    large.sms = MOST_SMS;
    hf_carve carve = {(char *)ws, 0};
    const int k = (int)problem->k, d = (int)problem->x.cols, batch = (int)problem->batch;
    m->packed = take(&carve, hf_filter_pack_bytes(&large, k, d, batch));
    void *simt = take(&carve, hf_simt_carve(problem, NULL, &m->simt));
    void *settle = take(&carve, hf_settle_carve(problem, NULL, &m->settle));
    m->skip = {};
    void *skip = problem->lean ? NULL : take(&carve, hf_skip_carve(problem, NULL, &m->skip));
    if (hf_i8_wanted(problem)) {
        void *i8 = take(&carve, hf_i8_carve(problem, NULL, &m->i8));
        (void)hf_i8_carve(problem, i8, &m->i8);
    }
    if (ws != NULL) {
        if (skip != NULL)
            (void)hf_skip_carve(problem, skip, &m->skip);
        (void)hf_simt_carve(problem, simt, &m->simt);
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
                                 const struct hf_filter_rows *x,
                                 const struct hf_filter_centroids *c,
                                 const struct hf_filter_out *out) {
    struct hf_filter_out scores = *out;
    scores.best = m->skip.best;
    scores.second = m->skip.second;
    scores.error = m->skip.error;
    HF_TRY(hf_skip_scan(cuda, rows, step, &m->skip));
    struct hf_filter_rows all = *x;
    all.stop = m->skip.stop_all;
    HF_TRY(hf_filter_top2(cuda, &all, c, m->packed, &scores));
    struct hf_filter_rows some = *x;
    some.stop = m->skip.stop_list;
    some.list = m->skip.list;
    some.count = m->skip.count;
    HF_TRY(hf_filter_top2(cuda, &some, c, m->packed, &scores));
    return hf_skip_learn(cuda, rows, step, &m->skip);
}

/* Scores of the rows that 8 bits do not decide, or of all where they decide too few. */
static hf_status score_u8(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                          const struct hf_assign_step *step, const struct step_memory *m,
                          const struct hf_filter_rows *x, const struct hf_filter_centroids *c,
                          const struct hf_filter_out *out) {
    struct hf_i8_rows i8;
    (void)hf_i8_rows_carve(&rows->problem, rows->i8, &i8);
    HF_TRY(hf_i8_top2(cuda, rows, step, &i8, &m->i8));
    struct hf_filter_rows all = *x;
    all.stop = &i8.state->stop_all;
    HF_TRY(hf_assign_rows_convert(cuda, rows, NULL, NULL, all.stop));
    HF_TRY(hf_filter_top2(cuda, &all, c, m->packed, out));
    struct hf_filter_rows some = *x;
    some.stop = &i8.state->stop_list;
    some.list = m->i8.list;
    some.count = &i8.state->count;
    HF_TRY(hf_assign_rows_convert(cuda, rows, some.list, some.count, some.stop));
    return hf_filter_top2(cuda, &some, c, m->packed, out);
}

/* Labels by the filter alone; float64 for the rows of which it knows nothing: wild ones and, where
 * a centroid is too far out for 16 bits, all. */
static hf_status step_fast(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                           const struct hf_assign_step *step, const struct step_memory *m,
                           const struct hf_filter_rows *x, const struct hf_filter_centroids *c,
                           const struct hf_filter_out *out) {
    const struct hf_settle *s = &m->settle;
    if (rows->mma)
        HF_TRY(hf_settle_lost(cuda, rows, step, s));
    HF_TRY(hf_filter_best(cuda, x, c, m->packed, out));
    if (rows->wild != NULL)
        HF_TRY(hf_settle_dense(cuda, rows, step, s, rows->wild, rows->wild_count));
    if (!rows->mma)
        return settle_listed(cuda, rows, step, s, s->open.row, s->open.count);
    HF_TRY(hf_settle_dense(cuda, rows, step, s, s->open.row, s->open.count));
    return settle_listed(cuda, rows, step, s, NULL, s->lost);
}

static hf_status step_tensor(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                             const struct hf_assign_step *step, const struct step_memory *m) {
    struct hf_settle settle = m->settle;
    const struct hf_settle *s = &settle;
    const bool bounded = step->bounds != NULL && rows->kind == HF_ASSIGN_TENSOR;
    const struct hf_filter_rows x = filter_rows(rows, step);
    const struct hf_filter_centroids c = filter_centroids(rows, step, s);
    struct hf_filter_out out = {};
    out.label = step->labels;
    out.open = s->open;
    HF_TRY(hf_filter_pack(cuda, &c, m->packed));
    if (!rows->problem.exact) {
        return step_fast(cuda, rows, step, m, &x, &c, &out);
    }
    if (bounded) {
        settle.scored = m->skip.count;
        settle.scored_all = m->skip.stop_all;
        settle.bounds = hf_skip_bounds(rows, step, &m->skip);
        HF_TRY(score_undecided(cuda, rows, step, m, &x, &c, &out));
    } else if (rows->i8 != NULL) {
        HF_TRY(score_u8(cuda, rows, step, m, &x, &c, &out));
    } else {
        if (hf_settle_marks(rows, step, &settle))
            out.marks = settle.marks;
        HF_TRY(hf_filter_top2(cuda, &x, &c, m->packed, &out));
    }
    if (rows->kind == HF_ASSIGN_SHORT) {
        HF_TRY(hf_settle_direct(cuda, rows, step, s));
        return hf_settle_compare(cuda, rows, step, s, s->open.count);
    }
    HF_TRY(hf_settle_open(cuda, rows, step, s, &x, &c, m->packed));
    return settle_listed(cuda, rows, step, s, s->rest, s->rest_count);
}

static hf_status step_simt(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                           const struct hf_assign_step *step, const struct step_memory *m) {
    const struct hf_settle *s = &m->settle;
    HF_TRY(clear_counters(cuda, s));
    HF_TRY(hf_simt_run(cuda, rows, step, &m->simt, &s->open, s->slots));
    HF_TRY(hf_settle_pairs(cuda, rows, step, s));
    return settle_listed(cuda, rows, step, s, s->rest, s->rest_count);
}

static hf_status step_kind(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                           const struct hf_assign_step *step, void *ws) {
    struct step_memory m;
    (void)step_carve(&rows->problem, ws, &m);
    HF_TRY(hf_settle_norms(cuda, rows, step, &m.settle));
    if (rows->kind == HF_ASSIGN_TENSOR || rows->kind == HF_ASSIGN_SHORT)
        return step_tensor(cuda, rows, step, &m);
    if (rows->kind == HF_ASSIGN_SIMT)
        return step_simt(cuda, rows, step, &m);
    HF_TRY(clear_counters(cuda, &m.settle));
    return settle_listed(cuda, rows, step, &m.settle, NULL, NULL);
}

/* On the multiprocessors that copies of rows leave. */
hf_status hf_assign_step(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, void *ws) {
    cuda->sms -= rows->cache.sms;
    const hf_status status = step_kind(cuda, rows, step, ws);
    cuda->sms += rows->cache.sms;
    return status;
}

/* No bounds are kept: these hold for any data. */
static __global__ void open_bounds(float *upper, float *lower, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        upper[i] = __int_as_float(0x7f800000);
        lower[i] = 0;
    }
}

struct row_memory {
    void *rows, *step;
    void *c;         /* [k, d] without gaps */
    int32_t *labels; /* [n] that the step finds */
    int32_t *old;    /* [n] that came in, if the row of update needs them */
    struct hf_assign_counts *counts;
    float *bounds; /* [2, n] upper and lower */
    void *update;  /* workspace of the row of update */
};

/* Rows whose label changed, to the row of update. */
static struct hf_update_args update_of(const struct hf_assign_args *a) {
    struct hf_update_args u = {};
    u.x = a->x;
    u.metric = a->metric;
    u.weights = a->weights;
    u.old_labels = a->labels; /* stands for what the row puts there */
    u.labels = a->labels;
    u.sums = a->sums;
    return u;
}

static struct hf_assign_problem problem_of(const struct hf_assign_args *a,
                                           enum hf_assign_kind kind) {
    struct hf_assign_problem p = {};
    p.x = a->x;
    p.batch = 1;
    p.k = a->c.rows;
    p.c_type = a->c.dtype;
    p.metric = a->metric;
    p.exact = a->exact;
    p.shift = a->metric == HF_EUCLIDEAN ? a->filter.shift : NULL;
    p.scale = a->filter.scale;
    p.once = a->bounds == NULL;
    p.kind = kind;
    return p;
}

static size_t row_carve(const struct hf_assign_args *a, enum hf_assign_kind kind, void *ws,
                        struct row_memory *m) {
    hf_carve carve = {(char *)ws, 0};
    const struct hf_assign_problem p = problem_of(a, kind);
    m->rows = hf_carve_take(&carve, hf_assign_rows_bytes(&p));
    carve.used = (carve.used + 255) / 256 * 256;
    m->step = hf_carve_take(&carve, hf_assign_step_bytes(&p));
    m->c = hf_carve_take(&carve, hf_dtype_bytes(a->c.dtype) * (size_t)(a->c.rows * a->c.cols));
    carve.used = (carve.used + 255) / 256 * 256;
    m->labels = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * (size_t)a->x.rows);
    m->old = NULL;
    if (a->sums != NULL && a->old_labels == NULL)
        m->old = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * (size_t)a->x.rows);
    m->counts = (struct hf_assign_counts *)hf_carve_take(&carve, sizeof *m->counts);
    m->bounds = NULL;
    if (a->bounds != NULL)
        m->bounds = (float *)hf_carve_take(&carve, 2 * sizeof(float) * (size_t)a->x.rows);
    if (a->sums != NULL) {
        const struct hf_update_args u = update_of(a);
        carve.used = (carve.used + 255) / 256 * 256;
        m->update = hf_carve_take(&carve, hf_update_rows_cuda.rows[0].workspace(&u, 1));
    }
    return carve.used + 256;
}

static size_t row_workspace(const void *args, int workers) {
    struct row_memory m;
    (void)workers;
    return row_carve((const struct hf_assign_args *)args, HF_ASSIGN_TENSOR, NULL, &m);
}

static size_t i8_workspace(const void *args, int workers) {
    struct row_memory m;
    (void)workers;
    return row_carve((const struct hf_assign_args *)args, HF_ASSIGN_I8, NULL, &m);
}

/* The arguments, seen by the device. */
struct row_views {
    hf_array x, c;
    int32_t *labels, *old_labels;
    struct hf_assign_stats *stats;
    float *upper, *lower;
    const float *drift; /* NULL: bounds do not hold yet */
};

static void row_stage(struct hf_stage *stage, const struct hf_assign_args *a, struct row_views *v) {
    const size_t n = (size_t)a->x.rows;
    v->x = hf_stage_array(stage, &a->x);
    v->c = hf_stage_array(stage, &a->c);
    v->labels = (int32_t *)hf_stage_inout(stage, a->labels, sizeof(int32_t) * n);
    v->old_labels = (int32_t *)hf_stage_out(stage, a->old_labels, sizeof(int32_t) * n);
    v->stats = (struct hf_assign_stats *)hf_stage_inout(stage, a->stats, sizeof *a->stats);
    v->upper = v->lower = NULL;
    v->drift = NULL;
    if (a->bounds != NULL) {
        v->upper = (float *)hf_stage_inout(stage, a->bounds->upper, sizeof(float) * n);
        v->lower = (float *)hf_stage_inout(stage, a->bounds->lower, sizeof(float) * n);
        if (a->bounds->valid)
            v->drift = (const float *)hf_stage_in(stage, a->bounds->drift,
                                                  sizeof(float) * (size_t)a->c.rows);
    }
}

/* Can a step look at the centroids where they are? */
static bool centroids_serve(const struct row_views *v) {
    return hf_array_stride(&v->c) == v->c.cols && (uintptr_t)v->c.data % 16 == 0 &&
           hf_cuda_owns(v->c.data);
}

static hf_status copy_centroids(struct hf_cuda *cuda, const struct row_views *v, void *to) {
    const size_t row = hf_dtype_bytes(v->c.dtype) * (size_t)v->c.cols;
    const size_t pitch = hf_dtype_bytes(v->c.dtype) * (size_t)hf_array_stride(&v->c);
    return hf_cuda_check(cuda,
                         cudaMemcpy2DAsync(to, row, v->c.data, pitch, row, (size_t)v->c.rows,
                                           cudaMemcpyDefault, cuda->stream),
                         "assign: copy centroids");
}

static hf_status copy_bounds(struct hf_cuda *cuda, float *to, const float *from, int64_t n) {
    return hf_cuda_check(
        cuda, cudaMemcpyAsync(to, from, sizeof(float) * (size_t)n, cudaMemcpyDefault, cuda->stream),
        "assign: copy bounds");
}

static hf_status row_launch(struct hf_cuda *cuda, const struct hf_assign_args *a,
                            const struct row_views *v, enum hf_assign_kind kind, void *ws) {
    struct row_memory m;
    (void)row_carve(a, kind, (void *)(((uintptr_t)ws + 255) / 256 * 256), &m);
    const bool serve = centroids_serve(v);
    if (!serve)
        HF_TRY(copy_centroids(cuda, v, m.c));
    struct hf_assign_problem problem = problem_of(a, kind);
    problem.x = v->x;
    struct hf_assign_rows rows;
    HF_TRY(hf_assign_rows_prepare(cuda, &problem, m.rows, &rows));
    struct hf_assign_step step = {};
    step.c = serve ? v->c.data : m.c;
    step.old_labels = step.replaced = v->labels;
    step.labels = m.labels;
    step.before = v->old_labels != NULL ? v->old_labels : m.old;
    step.counts = m.counts;
    step.stats = v->stats;
    const bool bounded =
        v->upper != NULL && a->exact && rows.kind == HF_ASSIGN_TENSOR && rows.i8 == NULL;
    if (bounded) {
        step.bounds = m.bounds;
        step.drift = v->drift;
        HF_TRY(copy_bounds(cuda, m.bounds, v->upper, v->x.rows));
        HF_TRY(copy_bounds(cuda, m.bounds + v->x.rows, v->lower, v->x.rows));
    }
    HF_TRY(hf_assign_step(cuda, &rows, &step, m.step));
    if (bounded) {
        HF_TRY(copy_bounds(cuda, v->upper, m.bounds, v->x.rows));
        HF_TRY(copy_bounds(cuda, v->lower, m.bounds + v->x.rows, v->x.rows));
    }
    if (v->upper != NULL && !bounded) {
        open_bounds<<<(unsigned)((v->x.rows + 255) / 256), 256, 0, cuda->stream>>>(
            v->upper, v->lower, v->x.rows);
        HF_TRY(hf_cuda_launched(cuda, "assign: bounds"));
    }
    if (a->sums == NULL)
        return HF_OK;
    struct hf_update_args u = update_of(a);
    u.x = v->x;
    u.old_labels = step.before;
    u.labels = v->labels;
    return hf_update_rows_cuda.rows[0].run(cuda, &u, m.update);
}

static hf_status row_run(void *stream, const void *args, enum hf_assign_kind kind, void *ws) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)args;
    struct hf_stage stage;
    struct row_views views;
    hf_stage_begin(&stage, stream);
    row_stage(&stage, a, &views);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    return hf_stage_end(&stage, row_launch((struct hf_cuda *)stream, a, &views, kind, ws));
}

static hf_status dense_run(void *stream, const void *args, void *ws) {
    return row_run(stream, args, HF_ASSIGN_DENSE, ws);
}

static hf_status simt_run(void *stream, const void *args, void *ws) {
    return row_run(stream, args, HF_ASSIGN_SIMT, ws);
}

static hf_status tensor_run(void *stream, const void *args, void *ws) {
    return row_run(stream, args, HF_ASSIGN_TENSOR, ws);
}

static hf_status mma_run(void *stream, const void *args, void *ws) {
    return row_run(stream, args, HF_ASSIGN_MMA, ws);
}

static hf_status i8_run(void *stream, const void *args, void *ws) {
    return row_run(stream, args, HF_ASSIGN_I8, ws);
}

static hf_status short_run(void *stream, const void *args, void *ws) {
    return row_run(stream, args, HF_ASSIGN_SHORT, ws);
}

static bool row_supports(const void *args) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)args;
    if (a->sums != NULL) {
        const struct hf_update_args u = update_of(a);
        const struct hf_kernel *update = hf_update_rows_cuda.rows;
        if (update->supports != NULL && !update->supports(&u))
            return false;
    }
    return a->x.rows < INT32_MAX && a->c.rows < INT32_MAX && a->x.cols < INT32_MAX;
}

static bool tensor_supports(const void *args) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)args;
    struct hf_cuda h200 = {};
    h200.sm = 90;
    return row_supports(args) &&
           hf_filter_supports(&h200, a->x.rows, (int)a->c.rows, (int)a->x.cols, 1);
}

static bool i8_supports(const void *args) {
    const struct hf_assign_problem p =
        problem_of((const struct hf_assign_args *)args, HF_ASSIGN_I8);
    return tensor_supports(args) && hf_i8_supports(&p);
}

static bool mma_supports(const void *args) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)args;
    struct hf_cuda a100 = {};
    a100.sm = 80;
    return row_supports(args) &&
           hf_mma_supports(&a100, a->x.rows, (int)a->c.rows, (int)a->x.cols, 1);
}

/* Launches, and passes over the rows that are made before the kernels. */
static double row_overhead(const struct hf_assign_args *a) {
    const double values = (double)a->x.rows * (double)a->x.cols;
    return 40000 + values * (double)(hf_dtype_bytes(a->x.dtype) + 2) / 2000;
}

static double dense_estimate(const void *args) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)args;
    const double pairs = (double)a->x.rows * (double)a->c.rows;
    return row_overhead(a) + pairs * (double)a->x.cols / 3000;
}

/* However small: a pass over the rows and one over the open ones, of about 20 us each. */
static double simt_estimate(const void *args) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)args;
    const double pairs = (double)a->x.rows * (double)a->c.rows;
    return row_overhead(a) + 30000 + pairs * ((double)a->x.cols + 8) / 12000;
}

static double tensor_estimate(const void *args) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)args;
    struct hf_cuda h200 = {};
    h200.sms = 132;
    return row_overhead(a) +
           1.1 * hf_filter_estimate_ns(&h200, a->x.rows, (int)a->c.rows, (int)a->x.cols, 1);
}

static double i8_estimate(const void *args) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)args;
    const struct hf_assign_problem p = problem_of(a, HF_ASSIGN_AUTO);
    return tensor_estimate(args) * (hf_i8_wanted(&p) && a->bounds == NULL ? 0.8 : 1.5);
}

static double mma_estimate(const void *args) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)args;
    struct hf_cuda a100 = {};
    a100.sms = 108;
    return row_overhead(a) +
           1.1 * hf_mma_estimate_ns(&a100, a->x.rows, (int)a->c.rows, (int)a->x.cols, 1);
}

static double short_estimate(const void *args) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)args;
    const double work = (double)a->x.rows * (double)a->c.rows * (double)a->x.cols;
    return tensor_estimate(args) + (work / HF_ASSIGN_SHORT_WORK - 1) * 5000;
}

static const struct hf_kernel rows[] = {{"assign_f64_32x64_cuda",
                                         HF_DEV_CUDA,
                                         HF_DT_DATA,
                                         80,
                                         HF_TRAIT_FIXED_ORDER,
                                         0,
                                         {HF_SETTLE_TILE, 64, 0},
                                         row_supports,
                                         row_workspace,
                                         dense_run,
                                         dense_estimate},
                                        {"assign_f32_128x64_cuda",
                                         HF_DEV_CUDA,
                                         HF_DT_DATA,
                                         80,
                                         HF_TRAIT_FIXED_ORDER,
                                         0,
                                         {128, 64, 0},
                                         row_supports,
                                         row_workspace,
                                         simt_run,
                                         simt_estimate},
                                        {"assign_f16_256x128_cuda",
                                         HF_DEV_CUDA,
                                         HF_DT_DATA,
                                         80,
                                         HF_TRAIT_FIXED_ORDER,
                                         0,
                                         {256, 128, 0},
                                         mma_supports,
                                         row_workspace,
                                         mma_run,
                                         mma_estimate},
                                        {"assign_f16_64x128_sm90",
                                         HF_DEV_CUDA,
                                         HF_DT_DATA,
                                         90,
                                         HF_TRAIT_FIXED_ORDER,
                                         0,
                                         {64, 128, 0},
                                         tensor_supports,
                                         row_workspace,
                                         tensor_run,
                                         tensor_estimate},
                                        {"assign_i8_64x256_sm90",
                                         HF_DEV_CUDA,
                                         HF_DT(HF_U8),
                                         90,
                                         HF_TRAIT_FIXED_ORDER,
                                         0,
                                         {64, 256, 0},
                                         i8_supports,
                                         i8_workspace,
                                         i8_run,
                                         i8_estimate},
                                        {"assign_f16_64x128_sm90_short",
                                         HF_DEV_CUDA,
                                         HF_DT_DATA,
                                         90,
                                         HF_TRAIT_FIXED_ORDER,
                                         0,
                                         {64, 128, 0},
                                         tensor_supports,
                                         row_workspace,
                                         short_run,
                                         short_estimate}};

extern "C" {
extern const struct hf_kernel_table hf_assign_rows_cuda;
const struct hf_kernel_table hf_assign_rows_cuda = {rows, 6};
}
