/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/skip.h"
#include "algo/kmeans/fit.h"
#include "core/array.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define LONGEST_REST 8
#define PROBE_SHARE 64 /* rows for each of the probe's */
#define HALF_ROWS 16   /* distances between centroids are worth it for k * HALF_ROWS <= n */

void hf_skip_carve(struct hf_skip *skip, hf_carve *carve, int64_t k) {
    const size_t count = (size_t)k;
    skip->drift = hf_carve_take(carve, count * sizeof(float));
    skip->half = hf_carve_take(carve, count * sizeof(float));
    skip->upper = hf_carve_take(carve, count * sizeof(float));
    skip->lower = hf_carve_take(carve, count * sizeof(float));
    skip->moved = hf_carve_take(carve, count * sizeof(int32_t));
    skip->labels = hf_carve_take(carve, count * sizeof(int32_t));
    skip->probe.upper = hf_carve_take(carve, HF_PROBE_ROWS * sizeof(float));
    skip->probe.lower = hf_carve_take(carve, HF_PROBE_ROWS * sizeof(float));
    skip->probe_labels = hf_carve_take(carve, HF_PROBE_ROWS * sizeof(int32_t));
}

void hf_skip_reset(struct hf_skip *skip) {
    skip->begin = true;
    skip->have = skip->trusted = false;
    skip->probe.valid = false;
    skip->rest = 0;
    skip->penalty = 1;
}

/* The least float32 that is at least v >= 0. */
static float round_up(double v) {
    const float f = (float)v;
    return (double)f < v ? nextafterf(f, INFINITY) : f;
}

/* At least |a - b|; 0 only if they are equal. The sum of d squares is off by at most d + 2
 * roundings; below the range where squares keep their precision the largest difference times
 * sqrt(d) is taken. */
static float distance_above(const hf_array *a, const hf_array *b, int64_t row) {
    const int64_t d = a->cols;
    double sum = 0;
    double largest = 0;
    for (int64_t f = 0; f < d; f++) {
        const int64_t at = row * d + f;
        const double diff =
            fabs(hf_center_at(a->data, a->dtype, at) - hf_center_at(b->data, b->dtype, at));
        sum += diff * diff;
        largest = diff > largest ? diff : largest;
    }
    const double grow = 1 + (double)(d + 8) * 0x1p-52;
    if (largest == 0)
        return 0;
    if (sum < 0x1p-900)
        return round_up(largest * sqrt((double)d) * grow);
    return round_up(sqrt(sum) * grow);
}

static void measure_drift(struct hf_fit *fit, struct hf_assign_bounds *b) {
    struct hf_skip *s = &fit->skip;
    const hf_array now = hf_centers(fit, fit->current);
    const hf_array before = hf_centers(fit, fit->previous);
    b->drift_max_index = 0;
    b->drift_max = b->drift_second = 0;
    b->n_moved = 0;
    for (int64_t j = 0; j < fit->k; j++) {
        const float drift = distance_above(&now, &before, j);
        s->drift[j] = drift;
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
}

/* Half the distance of each centroid to the nearest other one, from below: the lower bounds that
 * the assignment of the centroids to themselves leaves behind. Copies of a centroid give 0. */
static hf_status measure_half(struct hf_fit *fit) {
    struct hf_skip *s = &fit->skip;
    const hf_array c = hf_centers(fit, fit->current);
    double largest = 0;
    for (int64_t j = 0; j < fit->k; j++) {
        s->labels[j] = -1;
        for (int64_t f = 0; f < fit->d; f++) {
            const double v = hf_center_at(c.data, c.dtype, j * fit->d + f) - fit->col.shift[f];
            largest = fabs(v) > largest ? fabs(v) : largest;
        }
    }
    struct hf_assign_bounds bounds = {.upper = s->upper, .lower = s->lower};
    struct hf_assign_stats stats = {0};
    struct hf_assign_args args = {
        .x = c,
        .c = c,
        .metric = HF_EUCLIDEAN,
        .exact = true,
        .filter = {.shift = fit->filter.shift, .scale = hf_filter_scale(largest)},
        .labels = s->labels,
        .bounds = &bounds,
        .stats = &stats};
    HF_TRY(hf_assign(fit->ctx, &args));
    for (int64_t j = 0; j < fit->k; j++)
        s->half[j] = s->lower[j] > FLT_MIN * 2 ? s->lower[j] * 0.5f : 0;
    return HF_OK;
}

/* What bounds that were used settled, in rows. */
static double settled(const struct hf_fit *fit, const struct hf_assign_bounds *used,
                      const struct hf_assign_stats *stats) {
    const double partly = 1 - (double)used->n_moved / (double)fit->k;
    return (double)stats->skipped + (double)stats->partial * partly;
}

static bool probe_wanted(const struct hf_fit *fit) {
    return fit->kept && fit->opts.skipping == HF_SKIP_AUTO && fit->n / HF_PROBE_ROWS >= PROBE_SHARE;
}

/* Do bounds settle enough of a few rows for all rows to have them? */
static hf_status probe(struct hf_fit *fit, bool *pay) {
    struct hf_skip *s = &fit->skip;
    struct hf_assign_stats stats = {0};
    hf_array x = *fit->x;
    x.row_stride = hf_array_stride(&x) * (fit->n / HF_PROBE_ROWS);
    x.rows = HF_PROBE_ROWS;
    if (s->probe.valid)
        measure_drift(fit, &s->probe);
    else
        memset(s->probe_labels, 0xff, HF_PROBE_ROWS * sizeof(int32_t));
    struct hf_assign_args args = {.x = x,
                                  .c = hf_centers(fit, fit->current),
                                  .metric = fit->opts.metric,
                                  .exact = fit->opts.precision == HF_EXACT,
                                  .filter = fit->filter,
                                  .labels = s->probe_labels,
                                  .bounds = &s->probe,
                                  .stats = &stats};
    HF_TRY(hf_assign(fit->ctx, &args));
    *pay = s->probe.valid &&
           settled(fit, &s->probe, &stats) >= hf_assign_kept_share(fit->k, fit->d) * HF_PROBE_ROWS;
    s->probe.valid = true;
    return HF_OK;
}

hf_status hf_skip_arm(struct hf_fit *fit, struct hf_assign_bounds **bounds) {
    struct hf_skip *s = &fit->skip;
    struct hf_assign_bounds *b = &s->bounds;
    *bounds = NULL;
    if (!s->kept || fit->opts.skipping == HF_SKIP_OFF)
        return HF_OK;
    if (s->rest > 0)
        s->rest--;
    /* The first bounds are learnt while the probe's are: they cost little and are used at once. */
    const bool begin = s->begin;
    s->begin = false;
    if (s->rest > 0 || s->trusted || !probe_wanted(fit)) {
        s->trusted = s->rest == 0;
        s->probe.valid = false;
    } else {
        HF_TRY(probe(fit, &s->trusted));
    }
    if (!s->trusted && !begin) {
        s->have = false;
        return HF_OK;
    }
    *bounds = b;
    b->valid = s->have;
    b->half = NULL;
    if (!b->valid)
        return HF_OK;
    measure_drift(fit, b);
    if (fit->k > 1 && fit->k <= fit->n / HALF_ROWS) {
        HF_TRY(measure_half(fit));
        b->half = s->half;
    }
    return HF_OK;
}

/* Bounds pay when they settle at least 1 / worth() of the rows: keeping and testing them costs
 * about as much as (1000 + 20 d) / (d + 8) centroids do (measured with AVX-512). */
static double worth(const struct hf_fit *fit) {
    const double d = (double)fit->d;
    return (double)fit->k * (d + 8) / (1000 + 20 * d);
}

void hf_skip_learn(struct hf_fit *fit, const struct hf_assign_bounds *used,
                   const struct hf_assign_stats *stats) {
    struct hf_skip *s = &fit->skip;
    s->have = used != NULL;
    if (!used || !used->valid || fit->opts.skipping == HF_SKIP_ON)
        return;
    const double share = fit->kept ? hf_assign_kept_share(fit->k, fit->d) : 1 / worth(fit);
    if (settled(fit, used, stats) >= share * (double)fit->n) {
        s->penalty = 1;
        return;
    }
    s->have = s->trusted = false;
    if (share >= 1) /* only a fit that hardly moves any more will pay */
        s->penalty = LONGEST_REST;
    s->rest = s->penalty;
    s->penalty = s->penalty * 2 > LONGEST_REST ? LONGEST_REST : s->penalty * 2;
}

void hf_skip_forget_row(struct hf_skip *skip, int64_t row) {
    if (!skip->have)
        return;
    skip->bounds.upper[row] = INFINITY;
    skip->bounds.lower[row] = 0;
}
