/* SPDX-License-Identifier: Apache-2.0
 * Reference of spread: the description, one row after the other. */
#include "base/rng.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/seed/seed.h"
#include "ops/spread/spread.h"

__extension__ typedef unsigned __int128 u128;

static uint64_t quantum(const struct hf_spread_args *a, int64_t i) {
    return hf_seed_quantum(a->nearest[i], a->weights ? a->weights[i] : 1, *a->unit, a->limit);
}

static uint64_t total_of(const struct hf_spread_args *a) {
    uint64_t total = 0;
    for (int64_t i = 0; i < a->x.rows; i++)
        total += quantum(a, i);
    return total;
}

static void take(const struct hf_spread_args *a) {
    for (int64_t i = 0; i < a->x.rows; i++) {
        if (!(a->far[i] < a->nearest[i]))
            continue;
        a->nearest[i] = a->far[i];
        a->label[i] = a->first_label + a->nearest_candidate[i];
    }
}

static bool drawn(const struct hf_spread_args *a, int64_t i) {
    const u128 wanted = (u128)quantum(a, i) * (u128)(uint64_t)a->wanted;
    if (wanted == 0 || wanted >= *a->total)
        return wanted != 0;
    return (u128)hf_rng_bits(a->seed, a->stream, (uint64_t)i) * *a->total < wanted << 64;
}

static hf_status spread_run(const struct hf_call *call) {
    const struct hf_spread_args *a = call->args;
    if (a->far)
        take(a);
    if (*a->unit == 0 || (a->far && (double)total_of(a) < a->limit * HF_SPREAD_FINER))
        *a->unit = hf_seed_scale_of(a->nearest, a->weights, a->x.rows);
    *a->total = total_of(a);
    *a->count = 0;
    for (int64_t i = 0; i < a->x.rows && a->wanted > 0; i++)
        if (drawn(a, i))
            a->index[(*a->count)++] = i;
    return HF_OK;
}

static double spread_estimate(const struct hf_call *call) {
    const struct hf_spread_args *a = call->args;
    return hf_estimate_ns(60 * (double)a->x.rows, 1, 36 * (double)a->x.rows);
}

static const struct hf_kernel kernels[] = {{.name = "spread_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .run = spread_run,
                                            .estimate = spread_estimate}};

const struct hf_kernel_table hf_spread_kernels_scalar = {kernels, 1};
