/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/loop/skip.h"
#include "algo/kmeans/fit.h"
#include "algo/kmeans/guard/bounds.h"
#include "algo/kmeans/loop/centers.h"
#include "algo/kmeans/loop/clusters.h"
#include "base/dtype.h"
#include "core/array.h"
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define LONGEST_REST 8
#define PROBE_SHARE 64  /* rows for each of the probe's */
#define PROBE_REST 3    /* iterations until a probe is begun again */
#define FEW_MOVED 8     /* centroids for each that moved */
#define SAMPLES 16      /* places that are looked at before bounds are used, */
#define SAMPLE_ROWS 16  /* so many rows each, */
#define MOST 0.5        /* where bounds must settle more than this share of the rows, */
#define NEARLY_ALL 0.95 /* and no greater share is asked for than this one */
#define SWEEP_SHARE 0.9 /* a sweep is not tried where it must settle more of the rows */
#define HALF_ROWS 16    /* distances between centroids are worth it for k * HALF_ROWS <= n */

void hf_skip_carve(struct hf_skip *skip, hf_carve *carve, int64_t k) {
    const size_t count = (size_t)k;
    skip->square = hf_carve_take(carve, count * sizeof(double));
    skip->drift = hf_carve_take(carve, count * sizeof(float));
    skip->half = hf_carve_take(carve, count * sizeof(float));
    skip->upper = hf_carve_take(carve, count * sizeof(float));
    skip->lower = hf_carve_take(carve, count * sizeof(float));
    skip->moved = hf_carve_take(carve, count * sizeof(int32_t));
    skip->labels = hf_carve_take(carve, count * sizeof(int32_t));
    skip->probe_upper = hf_carve_take(carve, HF_PROBE_ROWS * sizeof(float));
    skip->probe_lower = hf_carve_take(carve, HF_PROBE_ROWS * sizeof(float));
    skip->probe_labels = hf_carve_take(carve, HF_PROBE_ROWS * sizeof(int32_t));
}

void hf_skip_reset(struct hf_skip *skip) {
    skip->begin = true;
    skip->have = skip->trusted = skip->paid = skip->probed = skip->square_known = false;
    skip->rest = skip->sweep_rest = 0;
    skip->penalty = skip->sweep_penalty = 1;
    skip->bounds.n_moved = 0;
}

/* The least float32 that is at least v >= 0. */
static float round_up(double v) {
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof f);
    bits += (double)f < v; /* the next one, without the branch that would be wrong half the time */
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* At least |a - b|; 0 only if they are equal. `sum` of the d squares is off by at most d + 2
 * roundings; below the range where squares keep their precision the largest difference times
 * sqrt(d) is taken. */
static float distance_above(const hf_array *a, const hf_array *b, int64_t row, double sum) {
    const int64_t d = a->cols;
    const double grow = 1 + (double)(d + 8) * 0x1p-52;
    if (sum >= 0x1p-900)
        return round_up(sqrt(sum) * grow);
    const size_t bytes = (size_t)d * hf_dtype_bytes(a->dtype);
    if (memcmp((const char *)a->data + (size_t)row * bytes,
               (const char *)b->data + (size_t)row * bytes, bytes) == 0)
        return 0; /* most often so, late in a fit */
    double largest = 0;
    for (int64_t at = row * d; at < (row + 1) * d; at++)
        largest = fmax(largest, fabs(hf_center_at(a->data, a->dtype, at) -
                                     hf_center_at(b->data, b->dtype, at)));
    return largest > 0 ? round_up(largest * sqrt((double)d) * grow) : 0;
}

static void drift_range(void *job, int worker, int64_t begin, int64_t end) {
    struct hf_fit *fit = job;
    const hf_array now = hf_centers(&fit->problem, fit->centers.current);
    const hf_array before = hf_centers(&fit->problem, fit->centers.previous);
    (void)worker;
    for (int64_t j = begin; j < end; j++)
        fit->skip.drift[j] = distance_above(&now, &before, j, fit->skip.square[j]);
}

/* Once more: is each what it was? */
static void drift_again(void *job, int worker, int64_t begin, int64_t end) {
    struct hf_fit *fit = job;
    const hf_array now = hf_centers(&fit->problem, fit->centers.current);
    const hf_array before = hf_centers(&fit->problem, fit->centers.previous);
    (void)worker;
    for (int64_t j = begin; j < end; j++)
        if (hf_bound_word(fit->skip.drift[j]) !=
            hf_bound_word(distance_above(&now, &before, j, fit->skip.square[j])))
            atomic_store_explicit(&fit->skip.differs, true, memory_order_relaxed);
}

/* How far each centroid moved since the last assignment. */
static hf_status measure_drift(struct hf_fit *fit) {
    struct hf_skip *s = &fit->skip;
    struct hf_assign_bounds *b = &s->bounds;
    if (!s->square_known)
        HF_TRY(hf_centers_moves(fit, s->square, NULL));
    s->square_known = false;
    s->differs = false;
    hf_for_clusters(&fit->problem, fit->problem.k, drift_range, fit);
    if (hf_bounds_accounts(fit))
        hf_for_clusters(&fit->problem, fit->problem.k, drift_again, fit);
    if (s->differs)
        return hf_bounds_moves_wrong(fit);
    b->drift_max_index = 0;
    b->drift_max = b->drift_second = 0;
    b->n_moved = 0;
    for (int64_t j = 0; j < fit->problem.k; j++) {
        const float drift = s->drift[j];
        if (drift > 0)
            s->moved[b->n_moved++] = (int32_t)j;
        if (drift > b->drift_max) {
            b->drift_second = b->drift_max;
            b->drift_max = drift;
            b->drift_max_index = (int32_t)j;
        } else if (drift > b->drift_second) {
            b->drift_second = drift;
        }
    }
    b->drift = s->drift;
    b->moved = s->moved;
    return HF_OK;
}

static float half_of(float distance) { return distance > FLT_MIN * 2 ? distance * 0.5f : 0; }

/* Are half distances those of bounds that are what was written? */
static hf_status check_half(struct hf_fit *fit, uint32_t sum) {
    const struct hf_skip *s = &fit->skip;
    bool same = true;
    for (int64_t j = 0; j < fit->problem.k; j++) {
        sum -= hf_bound_word(s->upper[j]) + hf_bound_word(s->lower[j]);
        same &= hf_bound_word(s->half[j]) == hf_bound_word(half_of(s->lower[j]));
    }
    return same && sum == 0 ? HF_OK : hf_bounds_moves_wrong(fit);
}

/* Half the distance of each centroid to the nearest other one, from below: the lower bounds that
 * the assignment of the centroids to themselves leaves behind. Copies of a centroid give 0. The
 * scale is that of the data, among which centroids mostly lie; where they do not it costs time. */
static hf_status measure_half(struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    struct hf_skip *s = &fit->skip;
    const hf_array c = hf_centers(problem, fit->centers.current);
    for (int64_t j = 0; j < problem->k; j++)
        s->labels[j] = -1;
    uint32_t sum = 0; /* of what they write and the zeros before */
    struct hf_assign_bounds bounds = {.upper = s->upper, .lower = s->lower, .sum = &sum};
    struct hf_assign_stats stats = {0};
    memset(s->upper, 0, (size_t)problem->k * sizeof *s->upper);
    memset(s->lower, 0, (size_t)problem->k * sizeof *s->lower);
    struct hf_assign_args args = {
        .x = c,
        .c = c,
        .metric = HF_EUCLIDEAN,
        .exact = true,
        .filter = {.shift = fit->frame.filter.shift, .scale = fit->frame.filter.scale},
        .labels = s->labels,
        .bounds = &bounds,
        .stats = &stats};
    HF_TRY(hf_assign(problem->ctx, &args));
    for (int64_t j = 0; j < problem->k; j++)
        s->half[j] = half_of(s->lower[j]);
    return hf_bounds_accounts(fit) ? check_half(fit, sum) : HF_OK;
}

/* What bounds that were used settled, in rows; `partial` is the share that they save of a row that
 * would look at no centroid. */
static double settled(const struct hf_fit_problem *problem, const struct hf_skip *skip,
                      const struct hf_assign_stats *stats, double partial) {
    const double partly = 1 - (double)skip->bounds.n_moved / (double)problem->k;
    return (double)stats->skipped + (double)stats->partial * partly * partial;
}

/* Packed rows, as far as the policy may know of them: whether there is memory for them must not
 * decide which rows are skipped where that may decide a label. */
static const struct hf_assign_packed *packed(const struct hf_fit_problem *problem,
                                             const struct hf_work *work) {
    return problem->opts.precision == HF_EXACT ? work->packed : NULL;
}

static bool probe_wanted(const struct hf_fit_problem *problem, const struct hf_work *work) {
    return packed(problem, work) && problem->opts.skipping == HF_SKIP_AUTO &&
           problem->n / HF_PROBE_ROWS >= PROBE_SHARE;
}

/* Could all rows, packed as they are kept, be compared with the moved centroids alone? */
static bool may_sweep(const struct hf_fit_problem *problem, const struct hf_skip *skip,
                      const struct hf_work *work) {
    return packed(problem, work) && problem->opts.skipping == HF_SKIP_AUTO &&
           skip->sweep_rest == 0 && packed(problem, work)->form != 0 &&
           packed(problem, work)->filled >= problem->n && skip->bounds.n_moved > 0 &&
           hf_assign_sweep_share(problem->k, problem->d, skip->bounds.n_moved) < SWEEP_SHARE;
}

/* The share that bounds must settle of rows that are kept. */
static double kept_share(const struct hf_fit_problem *problem, const struct hf_skip *skip,
                         bool sweeps) {
    return hf_assign_packed_share(problem->k, problem->d,
                                  sweeps ? skip->bounds.n_moved : problem->k);
}

/* Do bounds settle enough of a few rows for all rows to have them? */
static hf_status probe(struct hf_fit *fit, bool sweeps, bool *pay) {
    const struct hf_fit_problem *problem = &fit->problem;
    struct hf_skip *s = &fit->skip;
    struct hf_assign_stats stats = {0};
    struct hf_assign_bounds bounds = s->bounds;
    hf_array x = *problem->x;
    x.row_stride = hf_array_stride(&x) * (problem->n / HF_PROBE_ROWS);
    x.rows = HF_PROBE_ROWS;
    bounds.upper = s->probe_upper;
    bounds.lower = s->probe_lower;
    bounds.valid = s->probed;
    bounds.sweep = false;
    bounds.half = NULL;
    bounds.sum = NULL;
    if (!s->probed)
        memset(s->probe_labels, 0xff, HF_PROBE_ROWS * sizeof(int32_t));
    struct hf_assign_args args = {.x = x,
                                  .c = hf_centers(problem, fit->centers.current),
                                  .metric = problem->opts.metric,
                                  .exact = problem->opts.precision == HF_EXACT,
                                  .filter = fit->frame.filter,
                                  .labels = s->probe_labels,
                                  .bounds = &bounds,
                                  .stats = &stats};
    HF_TRY(hf_assign(problem->ctx, &args));
    const double share = kept_share(problem, &fit->skip, sweeps) * HF_PROBE_ROWS;
    const double done =
        settled(problem, &fit->skip, &stats, hf_assign_packed_partial(problem->k, problem->d));
    *pay = s->probed && done >= share;
    if (s->probed && done < share / 2) /* not soon */
        s->rest = sweeps ? LONGEST_REST : PROBE_REST;
    s->probed = true;
    return HF_OK;
}

/* Would bounds have to settle more than all rows? Where few centroids move they cost less than
 * kept_share() says. */
static bool hopeless(const struct hf_fit *fit, bool begin, bool sweeps) {
    return packed(&fit->problem, &fit->work) && fit->problem.opts.skipping == HF_SKIP_AUTO &&
           kept_share(&fit->problem, &fit->skip, sweeps) >= 1 &&
           (begin || fit->skip.bounds.n_moved * FEW_MOVED > fit->problem.k);
}

/* A failure: iterations to rest, more each time. */
static int rest_longer(int *penalty) {
    const int rest = *penalty;
    *penalty = rest * 2 > LONGEST_REST ? LONGEST_REST : rest * 2;
    return rest;
}

/* What bounds would settle of a row in the mean, as rows from all over the data tell: a guess, with
 * distances to their own centroids as they were, and nothing of those between centroids. */
static double foreseen(const struct hf_fit_problem *problem, const struct hf_skip *skip,
                       const struct hf_labels *labels) {
    const struct hf_assign_bounds *b = &skip->bounds;
    const int64_t stride = problem->n / SAMPLES;
    const int64_t rows = stride < SAMPLE_ROWS ? stride : SAMPLE_ROWS;
    struct hf_assign_stats stats = {0};
    for (int64_t i = 0; i < SAMPLES * rows; i++) {
        const int64_t row = i / rows * stride + i % rows;
        const int32_t label = labels->host[row];
        const float others = label == b->drift_max_index ? b->drift_second : b->drift_max;
        const bool skipped = b->upper[row] < b->lower[row] - others;
        stats.skipped += skipped;
        stats.partial += !skipped && label >= 0 && !(b->drift[label] > 0);
    }
    const double partial = hf_assign_packed_partial(problem->k, problem->d);
    return rows > 0 ? settled(problem, skip, &stats, partial) / (double)(SAMPLES * rows) : 1;
}

/* Bounds that did not pay last time, and must settle most rows to do: will they not? */
static bool in_vain(const struct hf_fit *fit, bool sweeps) {
    const struct hf_skip *s = &fit->skip;
    if (!packed(&fit->problem, &fit->work) || fit->problem.opts.skipping != HF_SKIP_AUTO ||
        !s->have || s->paid)
        return false;
    const double share = kept_share(&fit->problem, &fit->skip, sweeps);
    return share > MOST &&
           foreseen(&fit->problem, &fit->skip, &fit->labels) < fmin(share, NEARLY_ALL);
}

/* Shall rows be skipped in the assignment that follows? */
static hf_status trust(struct hf_fit *fit, bool begin, bool sweeps) {
    struct hf_skip *s = &fit->skip;
    const bool none = hopeless(fit, begin, sweeps);
    if (s->rest > 0)
        s->rest--;
    if (s->rest == 0 && !s->trusted && !none && probe_wanted(&fit->problem, &fit->work))
        return probe(fit, sweeps, &s->trusted);
    s->probed = false;
    s->trusted = s->rest == 0 && !none;
    if (s->trusted && in_vain(fit, sweeps)) {
        s->trusted = false;
        s->rest = 1 + rest_longer(&s->penalty);
    }
    return HF_OK;
}

hf_status hf_skip_arm(struct hf_fit *fit, struct hf_assign_bounds **bounds) {
    const struct hf_fit_problem *problem = &fit->problem;
    struct hf_skip *s = &fit->skip;
    struct hf_assign_bounds *b = &s->bounds;
    const bool begin = s->begin;
    *bounds = NULL;
    if (!s->allocated || problem->opts.skipping == HF_SKIP_OFF)
        return HF_OK;
    if (!begin && (packed(problem, &fit->work) || s->have))
        HF_TRY(measure_drift(fit));
    s->begin = false;
    s->sweep_rest -= s->sweep_rest > 0;
    const bool sweeps = !begin && may_sweep(problem, &fit->skip, &fit->work);
    HF_TRY(trust(fit, begin, sweeps));
    /* The first bounds are learnt while the probe's are: they cost little and are used at once. */
    if (!s->trusted && !sweeps && !(begin && s->probed)) {
        s->have = false;
        return HF_OK;
    }
    *bounds = b;
    b->valid = s->have;
    b->half = NULL;
    b->sweep = sweeps && !s->trusted;
    if (b->valid && !b->sweep && problem->k > 1 && problem->k <= problem->n / HALF_ROWS) {
        HF_TRY(measure_half(fit));
        b->half = s->half;
    }
    return HF_OK;
}

/* Bounds pay when they settle at least 1 / worth() of the rows: keeping and testing them costs
 * about as much as (1000 + 20 d) / (d + 8) centroids do (measured with AVX-512). */
static double worth(const struct hf_fit_problem *problem) {
    const double d = (double)problem->d;
    return (double)problem->k * (d + 8) / (1000 + 20 * d);
}

static void learn_sweep(const struct hf_fit_problem *problem, struct hf_skip *skip,
                        const struct hf_assign_stats *stats) {
    const double share = hf_assign_sweep_share(problem->k, problem->d, skip->bounds.n_moved);
    if ((double)(stats->partial + stats->skipped) >= share * (double)problem->n)
        skip->sweep_penalty = 1;
    else
        skip->sweep_rest = 1 + rest_longer(&skip->sweep_penalty);
}

void hf_skip_learn(struct hf_fit *fit, const struct hf_assign_bounds *used,
                   const struct hf_assign_stats *stats) {
    const struct hf_fit_problem *problem = &fit->problem;
    struct hf_skip *s = &fit->skip;
    s->have = used != NULL;
    if (!used || !used->valid || problem->opts.skipping == HF_SKIP_ON)
        return;
    if (used->sweep) {
        learn_sweep(problem, &fit->skip, stats);
        return;
    }
    const double share =
        packed(problem, &fit->work)
            ? kept_share(problem, &fit->skip, may_sweep(problem, &fit->skip, &fit->work))
            : 1 / worth(problem);
    const double partial =
        packed(problem, &fit->work) ? hf_assign_packed_partial(problem->k, problem->d) : 1;
    s->paid = settled(problem, &fit->skip, stats, partial) >= share * (double)problem->n;
    if (s->paid) {
        s->penalty = 1;
        return;
    }
    s->trusted = false;
    s->have = packed(problem, &fit->work) != NULL; /* for a sweep */
    if (share >= 1) /* only a fit that hardly moves any more will pay */
        s->penalty = LONGEST_REST;
    s->rest = rest_longer(&s->penalty);
}

void hf_skip_forget_row(struct hf_skip *skip, int64_t row) {
    if (!skip->have)
        return;
    skip->sum += hf_bounds_put(&skip->bounds, row, INFINITY, 0);
}
