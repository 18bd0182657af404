/* SPDX-License-Identifier: Apache-2.0
 * A first look at the data: which rows take part, ranges, means and variances, and from them all
 * that depends on the data but not on the iteration: filter, tolerance, scales of the sums. Every
 * number here comes from order-free sums, so it has the same bits for any chunk size. */
#include "algo/kmeans/prepare.h"
#include "algo/kmeans/check.h"
#include "algo/kmeans/loop/light.h"
#include "algo/kmeans/prepare_frame.h"
#include "algo/kmeans/scan.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "ops/moments/moments.h"
#include "ops/range/range.h"
#include "ops/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TOL 1e-4
#define LARGEST 1e150                   /* squares of larger values overflow */
#define SCAN_BYTES ((uint64_t)32 << 20) /* most memory for reading ahead while scanning */
#define PLAIN_WEIGHT 64   /* binary exponents of a largest weight that is left as it is */
#define WHOLE_MOST 0x1p51 /* of sums of squares that float64 is sure to have exactly */
#define LIMB_SPREAD 10    /* log2 of largest value over root mean square that one limb bears */

static hf_status drop_row(struct hf_scan *s, int64_t row) {
    struct hf_fit *fit = s->fit;
    if (s->dropped == s->room) {
        const int64_t room = s->room ? s->room * 2 : 64;
        int64_t *more = hf_alloc((size_t)room * sizeof(int64_t));
        if (!more)
            return hf_ctx_fail(fit->problem.ctx, HF_E_NOMEM,
                               "no memory for a list of %lld dropped rows", (long long)room);
        if (s->room > 0)
            memcpy(more, fit->data.dropped, (size_t)s->room * sizeof(int64_t));
        hf_free(fit->data.dropped);
        fit->data.dropped = more;
        s->room = room;
    }
    fit->data.dropped[s->dropped++] = row;
    return HF_OK;
}

/* s->bad of `rows` rows where the host can read it. */
static hf_status fetch_bad(struct hf_scan *s, int64_t rows) {
    struct hf_fit *fit = s->fit;
    if (!s->bad_copy)
        s->bad_copy = hf_alloc((size_t)fit->data.rows.chunk_rows);
    if (!s->bad_copy)
        return hf_ctx_fail(fit->problem.ctx, HF_E_NOMEM,
                           "no memory for a byte for each of %lld rows",
                           (long long)fit->data.rows.chunk_rows);
    return hf_ctx_copy(fit->problem.ctx, s->bad_copy, s->bad, (size_t)rows);
}

static hf_status range_chunk(void *job, const hf_array *chunk, int64_t first) {
    struct hf_scan *s = job;
    const int64_t before = s->bad_rows;
    HF_TRY(hf_scan_ranges(s, chunk, first));
    if (s->bad_rows == before)
        return HF_OK;
    HF_TRY(fetch_bad(s, chunk->rows));
    for (int64_t i = 0; i < chunk->rows; i++) {
        if (!s->bad_copy[i])
            continue;
        if (s->fit->problem.opts.nan == HF_NAN_ERROR)
            return hf_bad_row(s->fit->problem.ctx, chunk, i, first,
                              "repair it, or leave such rows out (HF_NAN_DROP)");
        HF_TRY(drop_row(s, first + i));
    }
    return HF_OK;
}

/* No values but those whose squares are finite. */
static hf_status check_range(const struct hf_fit_problem *problem,
                             const struct hf_columns *columns) {
    for (int64_t f = 0; f < problem->d; f++)
        if (fmax(fabs(columns->min[f]), fabs(columns->max[f])) > LARGEST)
            return hf_ctx_fail(
                problem->ctx, HF_E_DATA,
                "column %lld (counted from 0) of the data holds values beyond 1e150, "
                "whose squares overflow: scale the data",
                (long long)f);
    return HF_OK;
}

/* Minima and maxima, and the rows that are left out. */
static hf_status scan_range(struct hf_scan *s) {
    struct hf_fit *fit = s->fit;
    struct hf_fit_problem *problem = &fit->problem;
    struct hf_columns *col = &fit->columns;
    hf_scan_no_range(col->min, col->max, problem->d);
    col->whole = true;
    s->range = (struct hf_range_args){.min = col->min,
                                      .max = col->max,
                                      .whole = &col->whole,
                                      .row_bad = s->bad,
                                      .bad_rows = &s->bad_rows,
                                      .sums = s->whole_sums};
    if (s->whole_sums)
        memset(s->whole_sums, 0, (size_t)problem->d * 2 * sizeof(double));
    s->dropped = s->bad_rows = 0;
    hf_scan_begin_ranges(s);
    HF_TRY(hf_panels_each(&fit->data.rows, fit->data.panel_rows, range_chunk, s));
    HF_TRY(hf_scan_compare_ranges(s));
    problem->n = problem->n_all - s->dropped;
    if (problem->n < 1)
        return hf_ctx_fail(problem->ctx, HF_E_DATA,
                           "all %lld rows of the data hold NaN or Inf: nothing to cluster; "
                           "repair them",
                           (long long)problem->n_all);
    if (problem->k > problem->n)
        return hf_ctx_fail(
            problem->ctx, HF_E_ARG,
            "%lld clusters were asked for but only %lld of %lld rows are free of NaN "
            "and Inf: ask for fewer clusters",
            (long long)problem->k, (long long)problem->n, (long long)problem->n_all);
    return HF_OK;
}

/* At least any distance of two rows, in all of the columns; 4 for directions. */
static double largest_distance(const struct hf_fit_problem *problem,
                               const struct hf_columns *columns) {
    double total = problem->opts.metric == HF_COSINE ? 4 : 0;
    for (int64_t f = 0; f < problem->d; f++) {
        const double largest = fmax(fabs(columns->min[f]), fabs(columns->max[f]));
        total += 4 * largest * largest;
    }
    return total;
}

double hf_inertia_given(const struct hf_weights *weights, double inertia) {
    return weights->shift == 0 ? inertia : ldexp(inertia, -weights->shift);
}

static hf_status no_weights(const struct hf_fit_problem *problem) {
    return hf_ctx_fail(problem->ctx, HF_E_NOMEM, "no memory for %lld weights",
                       (long long)problem->n);
}

/* Weights far from 1 come near it: their products with the data would leave float64's range, and
 * their sums might overflow. A power of two changes nothing but that. */
static hf_status scale_weights(const struct hf_fit_problem *problem, struct hf_weights *weights,
                               struct hf_columns *columns) {
    const int e = hf_fixed_exponent(weights->max);
    if (abs(e) <= PLAIN_WEIGHT ||
        !isfinite(largest_distance(problem, columns) * (double)problem->n * 4))
        return HF_OK;
    double *scaled = hf_alloc((size_t)problem->n * sizeof(double));
    if (!scaled)
        return no_weights(problem);
    weights->scaled = scaled;
    weights->shift = -e;
    weights->max = ldexp(weights->max, -e);
    weights->sum = 0;
    for (int64_t i = 0; i < problem->n; i++) {
        weights->scaled[i] = ldexp(weights->given[i], -e);
        weights->sum += weights->scaled[i];
    }
    return HF_OK;
}

/* The weights of the rows that take part, as float64; they were checked one by one before. */
static hf_status take_weights(struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    const hf_array *w = problem->opts.weights;
    fit->weights.max = 1;
    fit->weights.sum = (double)problem->n;
    if (!w)
        return HF_OK;
    fit->weights.given = fit->weights.scaled = hf_alloc((size_t)problem->n * sizeof(double));
    if (!fit->weights.given)
        return no_weights(problem);
    const int64_t *skip = fit->data.dropped;
    const int64_t *const end = skip + (skip ? problem->n_all - problem->n : 0);
    int64_t at = 0;
    fit->weights.max = fit->weights.sum = 0;
    for (int64_t i = 0; i < problem->n_all; i++) {
        if (skip != end && *skip == i) {
            skip++;
            continue;
        }
        const double v = hf_load_f64(hf_array_row(w, i), w->dtype, 0);
        fit->weights.given[at++] = v;
        fit->weights.sum += v;
        fit->weights.max = fmax(fit->weights.max, v);
    }
    if (fit->weights.max == 0)
        return hf_ctx_fail(problem->ctx, HF_E_DATA, "all rows without NaN or Inf have weight 0");
    return scale_weights(problem, &fit->weights, &fit->columns);
}

/* No sum of weighted squares may overflow. */
static hf_status check_magnitude(const struct hf_fit_problem *problem,
                                 const struct hf_columns *columns,
                                 const struct hf_weights *weights) {
    const double most = largest_distance(problem, columns) * weights->max * (double)problem->n * 4;
    if (isfinite(hf_inertia_given(weights, most)))
        return HF_OK;
    return hf_ctx_fail(problem->ctx, HF_E_DATA,
                       "the inertia of these data would overflow: scale the data%s",
                       weights->scaled ? " or the weights" : "");
}

hf_status hf_scan_check(struct hf_fit *fit) {
    HF_TRY(check_range(&fit->problem, &fit->columns));
    HF_TRY(take_weights(fit));
    return check_magnitude(&fit->problem, &fit->columns, &fit->weights);
}

static hf_status moments_chunk(void *job, const hf_array *chunk, int64_t first) {
    (void)first;
    struct hf_scan *s = job;
    const struct hf_moments_args args = {.x = *chunk,
                                         .shift = s->middle,
                                         .bits = hf_fixed_bits(s->fit->problem.n),
                                         .mult = s->mult,
                                         .mult_square = s->mult_square,
                                         .sum = s->sum,
                                         .sum_square = s->sum_square};
    return hf_scan_moments(s, &args);
}

void hf_scan_plan_moments(struct hf_scan *s) {
    const struct hf_fit *fit = s->fit;
    const struct hf_columns *col = &fit->columns;
    const int64_t d = fit->problem.d;
    const int bits = hf_fixed_bits(fit->problem.n);
    for (int64_t f = 0; f < d; f++) {
        const double middle = col->min[f] + (col->max[f] - col->min[f]) / 2;
        s->middle[f] = col->whole ? rint(middle) : middle;
        const double reach = fmax(col->max[f] - s->middle[f], s->middle[f] - col->min[f]);
        s->mult[f] = hf_fixed_mult(bits, hf_fixed_exponent(reach));
        s->mult_square[f] = hf_fixed_mult(bits, hf_fixed_exponent(reach * reach));
    }
    memset(s->sum, 0, (size_t)d * 2 * sizeof(int64_t));
    memset(s->sum_square, 0, (size_t)d * 2 * sizeof(int64_t));
}

void hf_scan_take_moments(const struct hf_scan *s) {
    struct hf_fit *fit = s->fit;
    const struct hf_fit_problem *problem = &fit->problem;
    struct hf_columns *col = &fit->columns;
    const int64_t d = problem->d;
    const int bits = hf_fixed_bits(problem->n);
    for (int64_t f = 0; f < d; f++) {
        const int64_t sum[HF_MAX_LIMBS] = {s->sum[f], s->sum[d + f]};
        const int64_t square[HF_MAX_LIMBS] = {s->sum_square[f], s->sum_square[d + f]};
        const double t = hf_fixed_value(sum, 2, bits, s->mult[f]) / (double)problem->n;
        const double t2 = hf_fixed_value(square, 2, bits, s->mult_square[f]) / (double)problem->n;
        col->mean[f] = fmin(fmax(s->middle[f] + t, col->min[f]), col->max[f]);
        col->variance[f] = fmax(t2 - t * t, 0);
    }
}

/* Are the sums of whole numbers exact, and the moments whole in their units? With room for the
 * range's middle, which may lie a half off. */
static bool whole_sums_serve(const struct hf_scan *s) {
    const struct hf_columns *col = &s->fit->columns;
    if (!s->whole_sums || !col->whole)
        return false;
    for (int64_t f = 0; f < s->fit->problem.d; f++) {
        const double largest = fmax(fabs(col->min[f]), fabs(col->max[f])) + 1;
        if (largest * largest * (double)s->fit->problem.n_all > WHOLE_MOST || s->mult[f] < 1 ||
            s->mult_square[f] < 1)
            return false;
    }
    return true;
}

/* v times mult, a power of two: what op moments adds up, whose bounds leave it below 2^62. */
static int64_t scaled(int64_t v, double mult) { return v == 0 ? 0 : v * (int64_t)mult; }

/* What op moments would find: sums of t = x - middle and of t * t. */
static void convert_whole_sums(const struct hf_scan *s) {
    const int64_t n = s->fit->problem.n;
    const int64_t d = s->fit->problem.d;
    for (int64_t f = 0; f < d; f++) {
        const int64_t middle = (int64_t)s->middle[f];
        const int64_t sum = (int64_t)s->whole_sums[f];
        const int64_t square = (int64_t)s->whole_sums[d + f];
        s->sum[f] = scaled(sum - n * middle, s->mult[f]);
        s->sum_square[f] =
            scaled(square - 2 * middle * sum + n * middle * middle, s->mult_square[f]);
    }
}

static hf_status scan_moments(struct hf_scan *s) {
    struct hf_fit *fit = s->fit;
    hf_scan_plan_moments(s);
    if (whole_sums_serve(s))
        convert_whole_sums(s);
    else
        HF_TRY(hf_panels_each(&fit->data.rows, fit->data.panel_rows, moments_chunk, s));
    hf_scan_take_moments(s);
    return HF_OK;
}

void hf_scan_center(const struct hf_scan *s) {
    struct hf_columns *col = &s->fit->columns;
    const bool euclidean = s->fit->problem.opts.metric == HF_EUCLIDEAN;
    for (int64_t f = 0; f < s->fit->problem.d; f++) {
        const double mean = col->whole ? rint(col->mean[f]) : col->mean[f];
        col->shift[f] = euclidean ? mean : 0;
    }
}

/* An origin near the rows makes the filter's norms, and so its error, small. Whole numbers stay
 * whole. */
static void choose_filter(const struct hf_scan *s) {
    struct hf_fit *fit = s->fit;
    const struct hf_fit_problem *problem = &fit->problem;
    struct hf_columns *col = &fit->columns;
    const bool euclidean = problem->opts.metric == HF_EUCLIDEAN;
    hf_frame_origin(&s->bulk, euclidean, problem->d, col->shift);
    const double largest = hf_filter_reach(problem->d, col->min, col->max, col->shift);
    fit->frame.filter.shift = euclidean ? col->shift : NULL;
    const double length = hf_bulk_length(&s->bulk, euclidean);
    fit->frame.filter.scale = hf_frame_scale(length, largest);
    fit->frame.filter.length = length * fit->frame.filter.scale;
    fit->frame.filter.whole = col->whole && largest <= 256;
    const bool bytes = col->whole && hf_filter_bytes(problem->d, col->min, col->max);
    fit->frame.filter.least = bytes ? col->min : NULL;
    fit->frame.filter.most = bytes ? col->max : NULL;
}

/* scikit-learn's rule: relative to the mean of the column variances. Cosine clusters directions,
 * whose columns have a mean square of 1 / d. */
static void choose_tolerance(const struct hf_fit_problem *problem, const struct hf_columns *columns,
                             struct hf_frame *frame) {
    const double tol = problem->opts.tol;
    double variance = 0;
    for (int64_t f = 0; f < problem->d; f++)
        variance += columns->variance[f];
    if (problem->opts.metric == HF_COSINE)
        variance = 1;
    frame->tol = tol < 0 ? -1 : (tol > 0 ? tol : DEFAULT_TOL) * variance / (double)problem->d;
}

/* One limb keeps a column's sums to float32's precision unless its largest value dwarfs the others.
 */
static int choose_limbs(const struct hf_fit_problem *problem, const struct hf_columns *columns,
                        const struct hf_weights *weights) {
    if (problem->dtype == HF_F64)
        return 2;
    const double spread =
        log2(ldexp(weights->max, -weights->shift) / hf_least_weight(problem, weights));
    for (int64_t f = 0; f < problem->d; f++) {
        const double largest = fmax(fabs(columns->min[f]), fabs(columns->max[f]));
        const double rms = sqrt(columns->variance[f] + columns->mean[f] * columns->mean[f]);
        const bool exact = columns->whole && !weights->scaled && largest <= 256;
        if (largest > 0 && !exact && log2(largest / rms) + spread > LIMB_SPREAD)
            return 2;
    }
    return 1;
}

/* Scales of the sums. Directions (cosine) have components of at most 1, and a bit for rounding. */
static void choose_sums(struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    const struct hf_columns *col = &fit->columns;
    struct hf_sums *s = &fit->centers.sums;
    s->k = problem->k;
    s->d = problem->d;
    s->bits = hf_fixed_bits(problem->n);
    s->limbs = choose_limbs(problem, &fit->columns, &fit->weights);
    fit->weights.uneven = hf_light_possible(problem, &fit->weights, &fit->centers);
    s->mult = col->mult;
    s->weight_mult = hf_fixed_mult(s->bits, hf_fixed_exponent(fit->weights.max));
    for (int64_t f = 0; f < problem->d; f++) {
        const double largest = fmax(fabs(col->min[f]), fabs(col->max[f]));
        const int e = problem->opts.metric == HF_COSINE
                          ? hf_fixed_exponent(fit->weights.max) + 1
                          : hf_fixed_exponent(largest * fit->weights.max);
        col->mult[f] = hf_fixed_mult(s->bits, e);
        const bool plain = s->limbs == 1 && col->mult[f] < 0x1p900 && col->mult[f] > 0x1p-900;
        col->unit[f] = plain ? 1 / col->mult[f] : 0;
    }
}

static hf_status scan_workspace(struct hf_scan *s, void **block) {
    struct hf_fit *fit = s->fit;
    const struct hf_fit_problem *problem = &fit->problem;
    const size_t row = (size_t)problem->d * hf_dtype_bytes(problem->dtype);
    int64_t chunk = hf_min64(problem->n_all, fit->data.panel_rows);
    const bool buffered = problem->source != NULL || (problem->opts.nan == HF_NAN_DROP &&
                                                      problem->x != &fit->data.resident.array);
    if (buffered) {
        const uint64_t allowed = problem->ctx->memory_bytes / 4;
        const uint64_t bytes = allowed < SCAN_BYTES ? allowed : SCAN_BYTES;
        chunk = hf_min64(chunk, (int64_t)(bytes / row));
        chunk = chunk < 1 ? 1 : chunk;
    }
    fit->data.rows.chunk_rows = chunk;
    const bool sums = hf_range_sums(problem->ctx);
    const bool cosine = problem->opts.metric == HF_COSINE;
    const size_t some = (size_t)hf_min64(problem->n_all, fit->data.scan_rows);
    const size_t zeros = problem->opts.weights || cosine ? some * sizeof(int32_t) : 0;
    hf_carve carve = {0};
    for (int pass = 0; pass < 2; pass++) {
        carve.used = 0;
        fit->data.rows.buffer =
            buffered && !fit->data.rows.reader ? hf_carve_take(&carve, (size_t)chunk * row) : NULL;
        s->zeros = hf_carve_take(&carve, zeros);
        s->squares = hf_carve_take(&carve, cosine ? some * sizeof(double) : 0);
        s->sum = hf_carve_take(&carve, (size_t)problem->d * 4 * sizeof(int64_t));
        s->sum_square = s->sum ? s->sum + 2 * problem->d : NULL;
        s->whole_sums =
            !sums ? NULL : hf_carve_take(&carve, (size_t)problem->d * 2 * sizeof(double));
        hf_scan_carve_again(s, &carve, chunk);
        s->middle = hf_carve_take(&carve, (size_t)problem->d * sizeof(double));
        s->mult = hf_carve_take(&carve, (size_t)problem->d * sizeof(double));
        s->mult_square = hf_carve_take(&carve, (size_t)problem->d * sizeof(double));
        s->sample = hf_carve_take(&carve, buffered || fit->data.rows.reader
                                              ? hf_frame_sample_bytes(problem->n_all, problem->d)
                                              : 0);
        if (pass == 0 && !(carve.base = hf_alloc(carve.used)))
            return hf_ctx_fail(problem->ctx, HF_E_NOMEM,
                               "no memory for %llu bytes to scan the data",
                               (unsigned long long)carve.used);
    }
    *block = carve.base;
    (void)hf_ctx_hold(problem->ctx, carve.used + 2 * (uint64_t)chunk +
                                        (uint64_t)problem->d * HF_COLUMN_ARRAYS * sizeof(double));
    memset(s->zeros, 0, zeros);
    s->bad = hf_ctx_alloc(problem->ctx, (size_t)chunk);
    if (!s->bad)
        return hf_ctx_fail(problem->ctx, HF_E_NOMEM,
                           "%s has no memory for a byte for each of %lld rows", problem->ctx->name,
                           (long long)chunk);
    return HF_OK;
}

static hf_status take_columns(const struct hf_fit_problem *problem, struct hf_columns *columns) {
    columns->block = hf_alloc_zero((size_t)problem->d * HF_COLUMN_ARRAYS * sizeof(double));
    if (!columns->block)
        return hf_ctx_fail(problem->ctx, HF_E_NOMEM, "no memory for what is known of %lld columns",
                           (long long)problem->d);
    double **const arrays[HF_COLUMN_ARRAYS] = {&columns->min,      &columns->max,   &columns->mean,
                                               &columns->variance, &columns->shift, &columns->mult,
                                               &columns->unit};
    for (int i = 0; i < HF_COLUMN_ARRAYS; i++)
        *arrays[i] = columns->block + i * problem->d;
    return HF_OK;
}

/* Rows on the device are copied without the dropped ones, others are skipped when read. */
static hf_status leave_out(struct hf_fit *fit, int64_t dropped) {
    const struct hf_fit_problem *problem = &fit->problem;
    fit->data.rows.n = problem->n;
    if (dropped > 0 && problem->x == &fit->data.resident.array)
        return hf_resident_drop(problem->ctx, &fit->data.resident, fit->data.dropped, dropped);
    fit->data.rows.dropped = fit->data.dropped;
    fit->data.rows.dropped_count = dropped;
    return HF_OK;
}

hf_status hf_scan_conclude(struct hf_scan *s) {
    struct hf_fit *fit = s->fit;
    choose_filter(s);
    choose_tolerance(&fit->problem, &fit->columns, &fit->frame);
    choose_sums(fit);
    if (fit->problem.opts.metric == HF_EUCLIDEAN)
        HF_TRY(hf_scan_measure_square(s));
    if (fit->problem.opts.metric == HF_COSINE)
        HF_TRY(hf_scan_zero_rows(s));
    hf_scan_choose_slack(fit);
    return HF_OK;
}

static hf_status scan(struct hf_scan *s) {
    struct hf_fit *fit = s->fit;
    HF_TRY(hf_scan_attempts(s, scan_range));
    HF_TRY(leave_out(fit, s->dropped));
    HF_TRY(hf_scan_check(fit));
    HF_TRY(scan_moments(s));
    hf_scan_center(s);
    s->bulk.median = s->middle;
    HF_TRY(hf_frame_measure(&fit->data.rows, s->sample, fit->columns.shift, &s->bulk));
    return hf_scan_conclude(s);
}

hf_status hf_scan_open(const struct hf_fit_problem *problem, struct hf_data *data,
                       struct hf_columns *columns) {
    data->rows = (struct hf_rows){.ctx = problem->ctx,
                                  .array = problem->x,
                                  .source = problem->source,
                                  .n = problem->n_all,
                                  .d = problem->d,
                                  .dtype = problem->dtype,
                                  .reader = data->resident.reader};
    return take_columns(problem, columns);
}

hf_status hf_prepare(struct hf_fit *fit) {
    struct hf_scan s = {.fit = fit};
    void *block = NULL;
    HF_TRY(hf_scan_open(&fit->problem, &fit->data, &fit->columns));
    hf_status status = scan_workspace(&s, &block);
    if (status == HF_OK)
        status = scan(&s);
    fit->data.rows.buffer = NULL;
    hf_ctx_release(fit->problem.ctx, s.bad);
    hf_free(s.bad_copy);
    hf_free(block);
    fit->problem.ctx->held_bytes = 0;
    return status;
}
