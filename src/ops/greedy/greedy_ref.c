/* SPDX-License-Identifier: Apache-2.0
 * Reference of greedy: the description, step by step, one row after the other. */
#include "base/dtype.h"
#include "base/rng.h"
#include "core/array.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/greedy/greedy.h"
#include "ops/reference.h"
#include "ops/seed/seed.h"
#include <string.h>

struct greedy_job {
    const struct hf_greedy_args *args;
    double *x, *c;     /* [d] a row and a candidate */
    double *best, *at; /* [n] distances to the best candidate so far, and to this one */
};

static double weight_of(const struct hf_greedy_args *a, int64_t i) {
    return a->weights ? a->weights[i] : 1;
}

static double distance(hf_metric metric, const double *x, const double *c, int64_t d) {
    const double v = hf_reference_distance(metric == HF_COSINE ? HF_COSINE : HF_EUCLIDEAN, x, c, d);
    return v < 0 ? 0 : v;
}

static uint64_t quantum(const struct hf_greedy_args *a, int64_t i, double v) {
    return hf_seed_quantum(v, weight_of(a, i), *a->unit, a->limit);
}

static uint64_t total_of(const struct hf_greedy_args *a) {
    uint64_t total = 0;
    for (int64_t i = 0; i < a->x.rows; i++)
        total += quantum(a, i, a->nearest[i]);
    return total;
}

static int64_t locate(const struct hf_greedy_args *a, uint64_t target) {
    int64_t i = 0;
    for (uint64_t q; target >= (q = quantum(a, i, a->nearest[i])); i++)
        target -= q;
    return i;
}

/* job->at from candidate `row`; what it gains. */
static uint64_t evaluate(const struct greedy_job *job, int64_t row) {
    const struct hf_greedy_args *a = job->args;
    const int64_t d = a->x.cols;
    uint64_t gain = 0;
    hf_to_f64(job->c, hf_array_row(&a->x, row), a->x.dtype, d);
    for (int64_t i = 0; i < a->x.rows; i++) {
        hf_to_f64(job->x, hf_array_row(&a->x, i), a->x.dtype, d);
        job->at[i] = distance(a->metric, job->x, job->c, d);
        if (job->at[i] < a->nearest[i])
            gain += quantum(a, i, a->nearest[i]) - quantum(a, i, job->at[i]);
    }
    return gain;
}

static void step(const struct greedy_job *job, uint64_t total) {
    const struct hf_greedy_args *a = job->args;
    int64_t winner = -1;
    uint64_t most = 0;
    for (int l = 0; l < a->trials; l++) {
        const uint64_t counter = (uint64_t)*a->count * (uint64_t)a->trials + (uint64_t)l;
        const int64_t row = locate(a, hf_rng_below(a->seed, a->stream, counter, total));
        const uint64_t gain = evaluate(job, row);
        if (winner >= 0 && gain <= most)
            continue;
        winner = row;
        most = gain;
        memcpy(job->best, job->at, (size_t)a->x.rows * sizeof *job->best);
    }
    for (int64_t i = 0; i < a->x.rows; i++)
        a->nearest[i] = job->best[i] < a->nearest[i] ? job->best[i] : a->nearest[i];
    a->nearest[winner] = 0;
    if (a->centroids)
        hf_to_f64(a->centroids + *a->count * a->x.cols, hf_array_row(&a->x, winner), a->x.dtype,
                  a->x.cols);
    a->chosen[(*a->count)++] = winner;
    if ((double)total_of(a) < a->limit * HF_GREEDY_FINER)
        *a->unit = hf_seed_scale_of(a->nearest, a->weights, a->x.rows);
}

static size_t greedy_workspace(const struct hf_call *call) {
    const struct hf_greedy_args *a = call->args;
    return 2 * (size_t)(a->x.rows + a->x.cols) * sizeof(double);
}

static hf_status greedy_run(const struct hf_call *call) {
    const struct hf_greedy_args *a = call->args;
    struct greedy_job job = {.args = a, .x = call->ws};
    job.c = job.x + a->x.cols;
    job.best = job.c + a->x.cols;
    job.at = job.best + a->x.rows;
    if (*a->unit == 0)
        *a->unit = hf_seed_scale_of(a->nearest, a->weights, a->x.rows);
    for (uint64_t total; *a->count < a->upto && (total = total_of(a)) > 0;)
        step(&job, total);
    return HF_OK;
}

static const struct hf_kernel kernels[] = {{.name = "greedy_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .workspace = greedy_workspace,
                                            .run = greedy_run}};

const struct hf_kernel_table hf_greedy_kernels_scalar = {kernels, 1};
