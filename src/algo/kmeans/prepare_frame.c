/* SPDX-License-Identifier: Apache-2.0
 * How the filter sees the data: origin and scale by the bulk of the rows. Extremes would let one
 * far value take the bits of all others. */
#include "algo/kmeans/prepare_frame.h"
#include "base/fixed.h"
#include "ops/frame/frame.h"
#include <math.h>

#define MEDIAN_PAYS                                                                                \
    0.5                    /* the medians are the origin where lengths are below this part of those
                             about the mean: in tame and in skewed data the mean is as good */
#define BULK_LENGTH 0x1p-3 /* rows at the median length get at most this long, */
#define MOST_COLUMNS (HF_FRAME_VALUES / HF_FRAME_LEAST) /* longer rows go by their extremes */
#define MOST_SCALE 0x1p100                              /* by no more than the filter can bear */

double hf_filter_scale(double largest) {
    const int e = hf_fixed_exponent(largest);
    return largest > 0 ? ldexp(1, e < -1000 ? 1000 : -e) : 1;
}

double hf_filter_reach(int64_t d, const double *min, const double *max, const double *shift) {
    double largest = 0;
    for (int64_t f = 0; f < d; f++)
        largest = fmax(largest, fmax(max[f] - shift[f], shift[f] - min[f]));
    return largest;
}

bool hf_filter_bytes(int64_t d, const double *min, const double *max) {
    for (int64_t f = 0; f < d; f++)
        if (!(max[f] - min[f] <= 255))
            return false;
    return true;
}

size_t hf_frame_sample_bytes(int64_t n, int64_t d) {
    return d > MOST_COLUMNS ? 0 : (size_t)(hf_frame_rows(n, d) * d) * sizeof(double);
}

/* Rows that lie in the context's memory are looked at in place, of others the sample is brought. */
static hf_status sample_rows(const struct hf_rows *rows, double *sample, hf_array *x) {
    if (rows->array && !rows->reader && rows->dropped_count == 0) {
        *x = *rows->array;
        return HF_OK;
    }
    int64_t index[HF_FRAME_ROWS];
    const int64_t m = hf_frame_rows(rows->n, rows->d);
    for (int64_t i = 0; i < m; i++)
        index[i] = i * rows->n / m;
    *x = hf_array_view(sample, HF_F64, m, rows->d);
    return hf_rows_gather(rows, index, m, sample);
}

hf_status hf_frame_measure(const struct hf_rows *rows, double *sample, const double *mean,
                           struct hf_bulk *bulk) {
    struct hf_frame_args args = {.mean = mean,
                                 .median = bulk->median,
                                 .length_mean = &bulk->length_mean,
                                 .length_median = &bulk->length_median};
    bulk->length_mean = bulk->length_median = 0;
    if (rows->d > MOST_COLUMNS)
        return HF_OK;
    HF_TRY(sample_rows(rows, sample, &args.x));
    return hf_frame(rows->ctx, &args);
}

void hf_frame_origin(const struct hf_bulk *bulk, bool euclidean, int64_t d, double *shift) {
    const bool pays = bulk->length_median < MEDIAN_PAYS * bulk->length_mean;
    for (int64_t f = 0; euclidean && pays && f < d; f++)
        shift[f] = bulk->median[f];
}

double hf_bulk_length(const struct hf_bulk *bulk, bool euclidean) {
    const bool pays = bulk->length_median < MEDIAN_PAYS * bulk->length_mean;
    const double length = euclidean && pays ? bulk->length_median : bulk->length_mean;
    return length > 0 && length < INFINITY ? length : 0;
}

double hf_frame_scale(double length, double largest) {
    const double all = hf_filter_scale(largest);
    if (length == 0)
        return all;
    return fmax(all, fmin(hf_filter_scale(length) * BULK_LENGTH, MOST_SCALE));
}
