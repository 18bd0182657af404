/* SPDX-License-Identifier: Apache-2.0
 * How far the rows are from the origin of the filter, in all, and what rounding may do to that: the
 * inertia of an iteration is checked by it. */
#include "algo/kmeans/prepare.h"
#include "algo/kmeans/scan.h"
#include "ops/inertia/inertia.h"
#include <float.h>
#include <math.h>
#include <string.h>

hf_status hf_scan_squares(struct hf_scan *s, const hf_array *chunk, const double *weights,
                          double *squares, hf_wide *sum) {
    const struct hf_fit *fit = s->fit;
    const struct hf_inertia_args args = {
        .x = *chunk,
        .c = hf_array_view(fit->columns.shift, HF_F64, 1, fit->problem.d),
        .metric = HF_EUCLIDEAN,
        .weights = weights,
        .labels = s->zeros,
        .distances = squares,
        .sum = sum};
    return hf_inertia(fit->problem.ctx, &args);
}

static hf_status square_chunk(void *job, const hf_array *chunk, int64_t first) {
    struct hf_scan *s = job;
    return hf_scan_squares(s, chunk, s->fit->weights.scaled + first, NULL, &s->square);
}

/* Sum of |x - shift|^2, from the moments. */
static double square_without_weights(const struct hf_fit_problem *problem,
                                     const struct hf_columns *columns) {
    double total = 0;
    for (int64_t f = 0; f < problem->d; f++) {
        const double off = columns->mean[f] - columns->shift[f];
        total += columns->variance[f] + off * off;
    }
    return total * (double)problem->n;
}

/* Sum of w |x - shift|^2. */
hf_status hf_scan_measure_square(struct hf_scan *s) {
    struct hf_fit *fit = s->fit;
    fit->frame.total_square = square_without_weights(&fit->problem, &fit->columns);
    if (!fit->weights.scaled)
        return HF_OK;
    HF_TRY(hf_panels_each(&fit->data.rows, fit->data.scan_rows, square_chunk, s));
    fit->frame.total_square = hf_wide_value(&s->square);
    return HF_OK;
}

void hf_center_rounding(const struct hf_fit_problem *problem, double *relative, double *absolute) {
    const bool same = problem->opts.store == HF_CENTROIDS_SAME;
    *relative = problem->center_type == HF_F64 ? 0x1p-53 : 0x1p-24;
    *absolute = problem->center_type == HF_F64 ? 0 : 0x1p-149;
    if (same && problem->dtype == HF_F16) {
        *relative = 0x1p-11;
        *absolute = 0x1p-24;
    } else if (same) {
        *relative = 0x1p-8;
    }
}

/* The inertia falls with exact arithmetic. It may rise by what centroids lose when they are rounded
 * (W |c - mean|^2) and by the error of computing it from fixed-point sums and weights. */
void hf_scan_choose_slack(struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    const struct hf_columns *col = &fit->columns;
    double relative;
    double absolute;
    hf_center_rounding(problem, &relative, &absolute);
    const double unit = ldexp(1, -fit->centers.sums.bits * fit->centers.sums.limbs);
    double slack = 0;
    for (int64_t f = 0; f < problem->d; f++) {
        const double largest = fmax(fabs(col->min[f]), fabs(col->max[f]));
        const double reach = fmax(col->max[f] - col->shift[f], col->shift[f] - col->min[f]);
        const double rounding = fmax(largest * relative, absolute) * 2;
        const double heavy = (double)problem->n * fit->weights.max;
        slack += fit->weights.sum * rounding * rounding;
        slack += heavy * 16 * unit * (largest + reach) * reach;
        slack += fit->weights.sum * 64 * DBL_EPSILON * (largest + reach) * reach;
    }
    const double terms =
        (double)(problem->k + problem->d) * DBL_EPSILON; /* of adding the clusters up */
    fit->frame.slack = slack + fit->frame.total_square * (1e-12 + terms);
}

void hf_prepare_filter(struct hf_fit *fit, const double *shift, double scale, double length) {
    memcpy(fit->columns.shift, shift, (size_t)fit->problem.d * sizeof(double));
    fit->frame.filter.scale = scale;
    fit->frame.filter.length = length * scale;
    fit->frame.filter.least = fit->frame.filter.most = NULL;
    if (fit->work.packed)
        fit->work.packed->form = 0;
    fit->frame.total_square = square_without_weights(&fit->problem, &fit->columns);
    hf_scan_choose_slack(fit);
}
