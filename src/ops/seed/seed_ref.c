/* SPDX-License-Identifier: Apache-2.0
 * The reference of seed: every distance in float64. */
#include "base/dtype.h"
#include "base/mem.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/reference.h"
#include "ops/seed/seed_tally.h"

struct seed_job {
    const struct hf_seed_args *args;
    double *x;      /* [workers, d] a row as float64 */
    uint64_t *gain; /* [workers, l] */
};

static void seed_range(void *job_, int worker, int64_t begin, int64_t end) {
    const struct seed_job *job = job_;
    const struct hf_seed_args *a = job->args;
    const int64_t d = a->x.cols;
    const int64_t l_count = a->candidates.rows;
    const hf_metric metric = a->metric == HF_COSINE ? HF_COSINE : HF_EUCLIDEAN;
    double *x = job->x + worker * d;
    uint64_t *gain = job->gain + worker * l_count;
    memset(gain, 0, (size_t)l_count * sizeof *gain);
    for (int64_t i = begin; i < end; i++) {
        hf_to_f64(x, hf_array_row(&a->x, i), a->x.dtype, d);
        for (int64_t l = 0; l < l_count; l++) {
            const double *c = hf_array_row(&a->candidates, l);
            seed_offer(a, i, l, hf_reference_distance(metric, x, c, d), gain);
        }
    }
    if (a->commit)
        seed_settle(a, begin, end);
    else
        for (int64_t l = 0; l < l_count; l++)
            seed_add(a->gain + l, gain[l]);
}

static size_t seed_workspace(const struct hf_call *call) {
    const struct hf_seed_args *a = call->args;
    return (size_t)call->device->workers * (size_t)(a->x.cols + a->candidates.rows) * 8;
}

static hf_status seed_run(const struct hf_call *call) {
    const struct hf_seed_args *a = call->args;
    struct seed_job job = {a, call->ws, NULL};
    job.gain = (uint64_t *)(job.x + (int64_t)hf_pool_workers(call->stream) * a->x.cols);
    hf_parallel_for(call->stream, a->x.rows, HF_SEED_GRAIN, seed_range, &job);
    return HF_OK;
}

static const struct hf_kernel kernels[] = {
    {.name = "seed_any_scalar",
     .device = HF_DEV_HOST,
     .dtypes = HF_DT_DATA,
     .isa = HF_ISA_ID_scalar,
     .traits = HF_TRAIT_REFERENCE, /* the order of the pairs is free */
     .tile = {1, 1, 1},
     .workspace = seed_workspace,
     .run = seed_run},
};

const struct hf_kernel_table hf_seed_kernels_scalar = {kernels, 1};
