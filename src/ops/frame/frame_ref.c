/* SPDX-License-Identifier: Apache-2.0
 * Reference of frame: each column sorted. */
#include "base/dtype.h"
#include "core/array.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/frame/frame.h"
#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double lower_median(double *v, int64_t m) {
    qsort(v, (size_t)m, sizeof *v, compare);
    return v[hf_frame_rank(m)] + 0.0;
}

/* Rows [first, first + n) of the data are a problem. */
struct problem {
    const struct hf_frame_args *args;
    int64_t first, n, m;
};

static const void *sampled(const struct problem *p, int64_t i) {
    return hf_array_row(&p->args->x, p->first + i * p->n / p->m);
}

static double median_length(const struct problem *p, const double *origin) {
    const hf_array *x = &p->args->x;
    double length[HF_FRAME_ROWS];
    for (int64_t i = 0; i < p->m; i++) {
        double sum = 0;
        for (int64_t j = 0; j < x->cols; j++) {
            const double off = hf_load_f64(sampled(p, i), x->dtype, j) - origin[j];
            sum += off * off;
        }
        length[i] = sqrt(sum);
    }
    return lower_median(length, p->m);
}

static hf_status frame_run(const struct hf_call *call) {
    const struct hf_frame_args *a = call->args;
    const int64_t batch = hf_frame_batch(a), n = a->x.rows / batch, d = a->x.cols;
    for (int64_t b = 0; b < batch; b++) {
        const struct problem p = {a, b * n, n, hf_frame_rows(n, d)};
        double *median = a->median + b * d;
        for (int64_t j = 0; j < d; j++) {
            double column[HF_FRAME_ROWS];
            for (int64_t i = 0; i < p.m; i++)
                column[i] = hf_load_f64(sampled(&p, i), a->x.dtype, j);
            median[j] = lower_median(column, p.m);
        }
        a->length_mean[b] = median_length(&p, a->mean + b * d);
        a->length_median[b] = median_length(&p, median);
    }
    return HF_OK;
}

static double frame_estimate(const struct hf_call *call) {
    const struct hf_frame_args *a = call->args;
    const int64_t batch = hf_frame_batch(a);
    return 100.0 * (double)(batch * hf_frame_rows(a->x.rows / batch, a->x.cols) * a->x.cols);
}

static const struct hf_kernel kernels[] = {{.name = "frame_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .run = frame_run,
                                            .estimate = frame_estimate}};

const struct hf_kernel_table hf_frame_kernels_scalar = {kernels, 1};
