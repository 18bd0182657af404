/* SPDX-License-Identifier: Apache-2.0
 * Reference of sample: the scale, the total, and one walk along the running sum. */
#include "base/fixed.h"
#include "base/rng.h"
#include "core/array.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/sample/sample.h"
#include "ops/seed/seed.h"
#include <float.h>
#include <math.h>
#include <string.h>

__extension__ typedef unsigned __int128 u128;

/* A half: 0 by weight, 1 by weight * distance. */
struct half {
    const struct hf_sample_args *args;
    int number;
    bool flat; /* all v are too small for a unit */
    double unit, limit;
    uint64_t total;
};

static uint64_t quantum(const struct half *h, int64_t i) {
    const struct hf_sample_args *a = h->args;
    const double weight = a->weights ? a->weights[i] : 1;
    if (h->flat)
        return 1;
    return hf_seed_quantum(h->number ? a->distance[i] : 1, weight, h->unit, h->limit);
}

static void measure(struct half *h) {
    const struct hf_sample_args *a = h->args;
    double most = 0;
    for (int64_t i = 0; i < a->x.rows; i++) {
        const double weight = a->weights ? a->weights[i] : 1;
        if (weight > 0)
            most = fmax(most, h->number ? weight * a->distance[i] : weight);
    }
    const int bits = hf_fixed_bits(a->x.rows);
    h->limit = ldexp(1, bits);
    h->unit = hf_fixed_mult(bits, hf_fixed_exponent(fmin(most, DBL_MAX)));
    h->flat = hf_seed_quantum(most, 1, h->unit, h->limit) == 0;
    if (h->flat)
        h->unit = 1;
    for (int64_t i = 0; i < a->x.rows; i++)
        h->total += quantum(h, i);
    a->sums[h->number] = h->flat && h->number ? 0 : (double)h->total / h->unit;
}

static uint64_t target_of(const struct half *h, int64_t j) {
    const struct hf_sample_args *a = h->args;
    const uint64_t bits = hf_rng_bits(a->seed, a->stream + (uint64_t)h->number, (uint64_t)j);
    const u128 start = (u128)(uint64_t)j * h->total;
    return (uint64_t)((start + (uint64_t)((u128)bits * h->total >> 64)) / (uint64_t)a->count);
}

static void draw(const struct half *h) {
    const struct hf_sample_args *a = h->args;
    const size_t row_bytes = (size_t)a->x.cols * hf_dtype_bytes(a->x.dtype);
    int64_t i = 0;
    uint64_t sum = quantum(h, 0);
    for (int64_t j = 0; j < a->count; j++) {
        const uint64_t target = target_of(h, j);
        while (target >= sum)
            sum += quantum(h, ++i);
        const int64_t at = h->number * a->count + j;
        a->index[at] = i;
        if (a->near)
            a->near[at] = a->distance[i];
        if (a->weight)
            a->weight[at] = a->distance[i]; /* until both sums are known */
        if (a->rows)
            memcpy((char *)a->rows + (size_t)at * row_bytes, hf_array_row(&a->x, i), row_bytes);
    }
}

static hf_status sample_run(void *stream, const void *p, void *ws) {
    (void)stream;
    (void)ws;
    for (int number = 0; number < 2; number++) {
        struct half h = {.args = p, .number = number};
        measure(&h);
        draw(&h);
    }
    const struct hf_sample_args *a = p;
    for (int64_t j = 0; a->weight && j < 2 * a->count; j++)
        a->weight[j] = hf_sample_weight(a->sums, a->weight[j], 2 * (double)a->count);
    return HF_OK;
}

static double sample_estimate(const void *p) {
    const struct hf_sample_args *a = p;
    return hf_estimate_ns(24 * (double)a->x.rows, 1, 48 * (double)a->x.rows);
}

static const struct hf_kernel rows[] = {{.name = "sample_ref",
                                         .device = HF_DEV_HOST,
                                         .dtypes = HF_DT_DATA,
                                         .isa = HF_ISA_ID_scalar,
                                         .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                         .run = sample_run,
                                         .estimate = sample_estimate}};

const struct hf_kernel_table hf_sample_rows_scalar = {rows, 1};
