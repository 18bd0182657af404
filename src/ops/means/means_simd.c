/* SPDX-License-Identifier: Apache-2.0
 * means on vectors, compiled once per instruction set: where all is wanted of clusters that have
 * rows, in one pass over their sums. */
#include "core/inject_hooks.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/means/means_parts.h"

#if HF_ISA_TILES

const struct hf_kernel_table HF_ISA_NAME(hf_means_kernels) = {NULL, 0};

#else

/* Values of a range of a loop over clusters, and what a cluster costs beside its own. */
#define GRAIN_VALUES 4608
#define GRAIN_BESIDE 16

#if VDW == 8
#include "ops/means/means_avx512.h"
#endif

#ifdef HF_INJECT
/* A planted fault in what the clusters [begin, end) add to the inertia and to the shift
 * (core/inject_hooks.h): rows are clusters. */
static inline void strike_parts(struct means_job *job, int worker, int64_t begin, int64_t end) {
    struct hf_strike s = {.where = HF_REGISTER_PART,
                          .worker = worker,
                          .lanes = (int)(end - begin),
                          .columns = 1,
                          .first_row = job->first + begin,
                          .step = -1,
                          .value = job->score + begin};
    if (hf_strikes(HF_REGISTER_PART) && job->a->inertia)
        hf_strike(&s);
    s.where = HF_REGISTER_MOVED;
    s.value = job->moved + begin;
    if (hf_strikes(HF_REGISTER_MOVED) && (job->a->moved || job->a->shift))
        hf_strike(&s);
}
#define STRIKE_PARTS(job, worker, begin, end) strike_parts(job, worker, begin, end)
#else
#define STRIKE_PARTS(job, worker, begin, end) ((void)0)
#endif

static void means_range(void *user, int worker, int64_t begin, int64_t end) {
    struct means_job *job = user;
    const struct hf_means_args *a = job->a;
    const int64_t first = job->first;
    (void)worker;
    if (!step_is_whole(a, first + begin, first + end)) {
        means_apart(a, first + begin, first + end, job->score + begin, job->moved + begin);
        STRIKE_PARTS(job, worker, begin, end);
        return;
    }
#if VDW == 8
    if (step_is_safe(a, first + begin, first + end)) {
        for (int64_t i = begin; i < end; i++)
            step_vectors(a, first + i, job->score + i, job->moved + i);
        STRIKE_PARTS(job, worker, begin, end);
        return;
    }
#endif
    const bool plain = sums_are_plain(&a->rule, a->sums);
    for (int64_t i = begin; i < end; i++)
        step_center(a, plain, first + i, job->score + i, job->moved + i);
    STRIKE_PARTS(job, worker, begin, end);
}

static hf_status means_run(const struct hf_call *call) {
    const struct hf_means_args *a = call->args;
    means_all(call->stream, a, 1 + GRAIN_VALUES / (a->sums->d + GRAIN_BESIDE), means_range);
    return HF_OK;
}

static double means_estimate(const struct hf_call *call) {
    const struct hf_means_args *a = call->args;
    const double values = (double)a->sums->k * (double)a->sums->d;
    return hf_estimate_ns(20 * values, VDW, 16 * values);
}

static const struct hf_kernel kernels[] = {{.name = "means_rows_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64),
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .run = means_run,
                                            .estimate = means_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_means_kernels) = {kernels, 1};

#endif
