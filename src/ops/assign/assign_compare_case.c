/* SPDX-License-Identifier: Apache-2.0
 * Judges what kernels of assign make of the cases of assign_case.c. */
#include "ops/assign/assign_case.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "core/array.h"
#include "ops/assign/assign.h"
#include "ops/reference.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static double get(const hf_array *a, int64_t i, int64_t j) {
    return hf_load_f64(a->data, a->dtype, i * a->row_stride + j);
}

double *hf_case_widen(const hf_array *m) {
    double *v = hf_alloc(sizeof *v * (size_t)(m->rows * m->cols));
    for (int64_t i = 0; v && i < m->rows; i++)
        hf_to_f64(v + i * m->cols, hf_array_row(m, i), m->dtype, m->cols);
    return v;
}

static double distance_of(const struct hf_assign_args *a, const hf_array *c, int64_t i, int64_t k) {
    double sum = 0;
    double dot = 0;
    double xx = 0;
    double cc = 0;
    for (int64_t j = 0; j < a->x.cols; j++) {
        const double x = get(&a->x, i, j);
        const double y = get(c, k, j);
        sum += (x - y) * (x - y);
        dot += x * y;
        xx += x * x;
        cc += y * y;
    }
    if (a->metric == HF_EUCLIDEAN)
        return sum;
    return a->metric == HF_DOT ? -dot : hf_cosine_distance(dot, sqrt(xx), sqrt(cc));
}

static bool label_right(const struct hf_assign_args *a, int64_t i, int32_t want, int32_t got) {
    if (want == got)
        return true;
    if (a->exact || got < 0 || got >= a->c.rows)
        return false;
    double scale = a->metric == HF_COSINE ? 9 : 0; /* fast: within the widest error of a filter */
    for (int64_t j = 0; a->metric != HF_COSINE && j < a->x.cols; j++) {
        const double t = fabs(get(&a->x, i, j)) + fabs(get(&a->c, got, j)) +
                         fabs(get(&a->c, want, j)) + fabs(a->filter.shift[j]);
        scale += t * t;
    }
    return fabs(distance_of(a, &a->c, i, got) - distance_of(a, &a->c, i, want)) <= 0x1p-12 * scale;
}

/* The first row whose bounds are wrong: x [n, d], c [k, d]; -1: none is. */
static int64_t wrong_bounds(const struct hf_assign_args *a, const double *x, const double *c,
                            const int32_t *labels, const float *upper, const float *lower) {
    const int64_t d = a->x.cols;
    for (int64_t i = 0; i < a->x.rows; i++, x += d) {
        double others = INFINITY;
        for (int64_t k = 0; k < a->c.rows; k++)
            if (k != labels[i])
                others = fmin(others, hf_reference_distance(a->metric, x, c + k * d, d));
        const double own = hf_reference_distance(a->metric, x, c + labels[i] * d, d);
        if (!((double)upper[i] >= sqrt(own) && (double)lower[i] <= sqrt(others)))
            return i;
    }
    return -1;
}

static bool bounds_right(const struct hf_assign_args *a, const int32_t *labels, const float *upper,
                         const float *lower, char *why, size_t bytes) {
    double *x = hf_case_widen(&a->x);
    double *c = hf_case_widen(&a->c);
    int64_t i = 0;
    snprintf(why, bytes, "no memory to look at bounds");
    if (x && c && (i = wrong_bounds(a, x, c, labels, upper, lower)) >= 0)
        snprintf(why, bytes, "row %d: bounds %g, %g", (int)i, (double)upper[i], (double)lower[i]);
    hf_free(x);
    hf_free(c);
    return i < 0;
}

/* How many labels changed is what ends a fit; the rest depends on the kernel. */
static bool stats_right(const struct hf_assign_args *a, const struct hf_assign_stats *want,
                        const struct hf_assign_stats *got, char *why, size_t bytes) {
    const bool changed = a->exact ? got->changed == want->changed : got->changed <= a->x.rows;
    if (changed && got->skipped >= 0 && got->partial >= 0 &&
        got->skipped + got->partial <= a->x.rows)
        return true;
    snprintf(why, bytes, "%d labels changed, not %d; %d rows skipped, %d partly", (int)got->changed,
             (int)want->changed, (int)got->skipped, (int)got->partial);
    return false;
}

/* Out buffers in order: stats, labels, [sum, count, weight], [upper, lower], [old labels]. */
bool hf_assign_compare(const void *args, void *const *ref, void *const *got, char *why,
                       size_t bytes) {
    const struct hf_assign_args *a = args;
    const int32_t *want = ref[1];
    const int32_t *labels = got[1];
    int at = 2;
    if (!stats_right(a, ref[0], got[0], why, bytes))
        return false;
    for (int64_t i = 0; i < a->x.rows; i++) {
        if (!label_right(a, i, want[i], labels[i])) {
            snprintf(why, bytes, "row %d: label %d, reference %d", (int)i, labels[i], want[i]);
            return false;
        }
    }
    if (a->sums) {
        const size_t cells = (size_t)(a->sums->k * a->sums->limbs);
        const size_t sizes[3] = {8 * cells * (size_t)a->sums->d, 8 * (size_t)a->sums->k, 8 * cells};
        for (int i = 0; i < 3; i++, at++) {
            if (a->exact && memcmp(ref[at], got[at], sizes[i])) {
                snprintf(why, bytes, "the %s differ",
                         i == 0   ? "sums"
                         : i == 1 ? "counts"
                                  : "weights");
                return false;
            }
        }
    }
    if (a->bounds) {
        const float *upper = got[at++];
        const float *lower = got[at++];
        if (a->exact && !bounds_right(a, labels, upper, lower, why, bytes))
            return false;
    }
    if (a->old_labels && memcmp(ref[at], got[at], sizeof(int32_t) * (size_t)a->x.rows)) {
        snprintf(why, bytes, "the old labels differ");
        return false;
    }
    return true;
}
