/* SPDX-License-Identifier: Apache-2.0
 * Reference of sample: the scale, the total, and one walk along the running sum. */
#include "core/array.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/sample/sample_walk.h"
#include <string.h>

/* Row i is draw `at` of the two halves. */
static void put(const struct hf_sample_args *a, int64_t at, int64_t i) {
    const size_t row_bytes = (size_t)a->x.cols * hf_dtype_bytes(a->x.dtype);
    a->index[at] = i;
    if (a->drawn_distance)
        a->drawn_distance[at] = a->distance[i];
    if (a->weight)
        a->weight[at] = a->distance[i]; /* until both sums are known */
    if (a->rows)
        memcpy((char *)a->rows + (size_t)at * row_bytes, hf_array_row(&a->x, i), row_bytes);
}

static void draw_half(const struct hf_sample_args *a, int half) {
    const struct hf_sample_piece all = {a->weights, a->distance, a->x.rows};
    struct hf_sample_walk w = {
        .half = half, .draws = a->count, .seed = a->seed, .stream = a->stream};
    hf_sample_look(&w, &all);
    hf_sample_scale(&w, all.rows);
    hf_sample_count(&w, &all);
    a->sums[half] = hf_sample_sum(&w);
    hf_sample_begin(&w);
    for (int64_t i = 0; w.drawn < w.draws; i++)
        for (int64_t times = hf_sample_step(&w, &all, i); times > 0; times--)
            put(a, half * a->count + w.drawn - times, i);
}

static hf_status sample_run(const struct hf_call *call) {
    const struct hf_sample_args *a = call->args;
    draw_half(a, 0);
    draw_half(a, 1);
    for (int64_t j = 0; a->weight && j < 2 * a->count; j++)
        a->weight[j] = hf_sample_weight(a->sums, a->weight[j], 2 * (double)a->count);
    return HF_OK;
}

static double sample_estimate(const struct hf_call *call) {
    const struct hf_sample_args *a = call->args;
    return hf_estimate_ns(24 * (double)a->x.rows, 1, 48 * (double)a->x.rows);
}

static const struct hf_kernel kernels[] = {{.name = "sample_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .run = sample_run,
                                            .estimate = sample_estimate}};

const struct hf_kernel_table hf_sample_kernels_scalar = {kernels, 1};
