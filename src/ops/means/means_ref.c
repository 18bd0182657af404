/* SPDX-License-Identifier: Apache-2.0
 * Reference of means: one cluster after the other, one quantity after the other. */
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/means/means_parts.h"

static void means_range(void *user, int worker, int64_t begin, int64_t end) {
    struct means_job *job = user;
    (void)worker;
    means_apart(job->a, job->first + begin, job->first + end, job->score + begin,
                job->moved + begin);
}

static hf_status means_run(const struct hf_call *call) {
    means_all(NULL, call->args, HF_TREE_CLUSTERS, means_range);
    return HF_OK;
}

static double means_estimate(const struct hf_call *call) {
    const struct hf_means_args *a = call->args;
    const double values = (double)a->sums->k * (double)a->sums->d;
    return hf_estimate_ns(20 * values, 1, 16 * values);
}

static const struct hf_kernel kernels[] = {{.name = "means_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64),
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .run = means_run,
                                            .estimate = means_estimate}};

const struct hf_kernel_table hf_means_kernels_scalar = {kernels, 1};
