/* SPDX-License-Identifier: Apache-2.0
 * patches on all threads: a patch at a time, its rows in vectors of SPARSE_LANES lanes. */
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/patches/patches.h"

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_patches_kernels) = {NULL, 0};
#else

#define GRAIN_PLACES 256 /* of a range of the loop over patches, about */
#define GRAIN_ROWS 2048  /* of one over unknowns */

struct patches_job {
    const struct hf_patches_args *args;
    double *solved; /* [places] */
    double *r;      /* [workers, largest] right-hand side of a patch */
};

static size_t carve_job(struct patches_job *job, int workers, void *ws) {
    const struct hf_patches_args *args = job->args;
    hf_carve carve = {ws, 0};
    job->solved = hf_carve_take(&carve, (size_t)args->places * sizeof(double));
    job->r = hf_carve_take(&carve, (size_t)workers * (size_t)args->largest * sizeof(double));
    return carve.used;
}

static size_t patches_workspace(const struct hf_call *call) {
    struct patches_job job = {.args = call->args};
    return carve_job(&job, call->device->workers, NULL);
}

ALWAYS_INLINE double row_dot(const void *factor, hf_dtype dtype, int64_t first, int64_t count,
                             const double *y) {
    struct sparse_sum sum = {{0}};
    int64_t t = 0;
    for (; t + SPARSE_LANES <= count; t += SPARSE_LANES)
        for (int lane = 0; lane < SPARSE_LANES; lane++)
            sum.lane[lane] += sparse_value(factor, dtype, first + t + lane) * y[t + lane];
    for (; t < count; t++)
        sparse_sum_add(&sum, t, sparse_value(factor, dtype, first + t) * y[t]);
    return sparse_sum_end(&sum);
}

ALWAYS_INLINE void solve_triangles(const struct hf_patches_args *args, hf_dtype dtype,
                                   int64_t start, int64_t rows, double *z) {
    const int64_t *envelope = args->envelope + start;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t first = envelope[i], count = envelope[i + 1] - first - 1;
        const double sum = row_dot(args->factor, dtype, first, count, z + i - count);
        z[i] = (args->r[args->patch_row[start + i]] - sum) *
               sparse_value(args->factor, dtype, first + count);
    }
    for (int64_t i = rows - 1; i >= 0; i--) {
        const int64_t first = envelope[i], count = envelope[i + 1] - first - 1;
        const double own = z[i] * sparse_value(args->factor, dtype, first + count);
        double *before = z + i - count;
        z[i] = own;
        for (int64_t t = 0; t < count; t++)
            before[t] -= sparse_value(args->factor, dtype, first + t) * own;
    }
}

ALWAYS_INLINE void solve_patch(const struct patches_job *job, hf_dtype dtype, int worker,
                               int64_t patch) {
    const struct hf_patches_args *args = job->args;
    const int64_t start = args->patch_start[patch], rows = args->patch_start[patch + 1] - start;
    double *z = job->solved + start, *r = job->r + worker * args->largest;
    if (!args->inverse[patch]) {
        solve_triangles(args, dtype, start, rows, z);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        r[i] = args->r[args->patch_row[start + i]];
    for (int64_t i = 0; i < rows; i++)
        z[i] = row_dot(args->factor, dtype, args->envelope[start + i], rows, r);
}

static void solve_patches(void *user, int worker, int64_t begin, int64_t end) {
    const struct patches_job *job = user;
    for (int64_t patch = begin; patch < end; patch++) {
        if (job->args->dtype == HF_F32)
            solve_patch(job, HF_F32, worker, patch);
        else
            solve_patch(job, HF_F64, worker, patch);
    }
}

static void add_up(void *user, int worker, int64_t begin, int64_t end) {
    const struct patches_job *job = user;
    const struct hf_patches_args *args = job->args;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        double sum = 0;
        for (int64_t e = args->own_start[i]; e < args->own_start[i + 1]; e++)
            sum += job->solved[args->own[e]];
        args->z[i] = args->add ? args->z[i] + args->scale * sum : args->scale * sum;
    }
}

static hf_status patches_run(const struct hf_call *call) {
    const struct hf_patches_args *args = call->args;
    struct patches_job job = {.args = args};
    (void)carve_job(&job, hf_pool_workers(call->stream), call->ws);
    const int64_t places = args->places;
    const int64_t grain = 1 + GRAIN_PLACES * args->patches / (places + 1);
    hf_parallel_for(call->stream, args->patches, grain, solve_patches, &job);
    hf_parallel_for(call->stream, args->n, GRAIN_ROWS, add_up, &job);
    return HF_OK;
}

static double patches_estimate(const struct hf_call *call) {
    const struct hf_patches_args *args = call->args;
    const double elements = (double)args->elements;
    return hf_estimate_ns(8.0 * elements, VDW, 16.0 * elements);
}

static const struct hf_kernel kernels[] = {{.name = "patches_rows_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64),
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = patches_workspace,
                                            .run = patches_run,
                                            .estimate = patches_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_patches_kernels) = {kernels, 1};

#endif
