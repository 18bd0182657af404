/* SPDX-License-Identifier: Apache-2.0
 * Reference of patches: one after the other. */
#include "base/mem.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/patches/patches.h"

/* Workspace: the solutions [places], and the right-hand side of a patch [largest]. */
static size_t patches_workspace(const struct hf_call *call) {
    const struct hf_patches_args *args = call->args;
    return (size_t)(args->places + args->largest) * sizeof(double);
}

static double row_dot(const struct hf_patches_args *args, int64_t first, int64_t count,
                      const double *y) {
    struct sparse_sum sum = {{0}};
    for (int64_t t = 0; t < count; t++)
        sparse_sum_add(&sum, t, sparse_value(args->factor, args->dtype, first + t) * y[t]);
    return sparse_sum_end(&sum);
}

static void solve_triangles(const struct hf_patches_args *args, int64_t start, int64_t rows,
                            double *z) {
    for (int64_t i = 0; i < rows; i++) {
        const int64_t first = args->envelope[start + i];
        const int64_t count = args->envelope[start + i + 1] - first - 1;
        const double sum = row_dot(args, first, count, z + i - count);
        z[i] = (args->r[args->patch_row[start + i]] - sum) *
               sparse_value(args->factor, args->dtype, first + count);
    }
    for (int64_t i = rows - 1; i >= 0; i--) {
        const int64_t first = args->envelope[start + i];
        const int64_t count = args->envelope[start + i + 1] - first - 1;
        z[i] *= sparse_value(args->factor, args->dtype, first + count);
        for (int64_t t = 0; t < count; t++)
            z[i - count + t] -= sparse_value(args->factor, args->dtype, first + t) * z[i];
    }
}

static void solve_patch(const struct hf_patches_args *args, int64_t patch, double *r, double *z) {
    const int64_t start = args->patch_start[patch], rows = args->patch_start[patch + 1] - start;
    if (!args->inverse[patch]) {
        solve_triangles(args, start, rows, z + start);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        r[i] = args->r[args->patch_row[start + i]];
    for (int64_t i = 0; i < rows; i++)
        z[start + i] = row_dot(args, args->envelope[start + i], rows, r);
}

static hf_status patches_run(const struct hf_call *call) {
    const struct hf_patches_args *args = call->args;
    double *solved = call->ws;
    for (int64_t patch = 0; patch < args->patches; patch++)
        solve_patch(args, patch, solved + args->places, solved);
    for (int64_t i = 0; i < args->n; i++) {
        double sum = 0;
        for (int64_t e = args->own_start[i]; e < args->own_start[i + 1]; e++)
            sum += solved[args->own[e]];
        args->z[i] = args->add ? args->z[i] + args->scale * sum : args->scale * sum;
    }
    return HF_OK;
}

static double patches_estimate(const struct hf_call *call) {
    const struct hf_patches_args *args = call->args;
    return hf_estimate_ns(16.0 * (double)args->elements, 1, 0);
}

static const struct hf_kernel kernels[] = {{.name = "patches_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64),
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .workspace = patches_workspace,
                                            .run = patches_run,
                                            .estimate = patches_estimate}};

const struct hf_kernel_table hf_patches_kernels_scalar = {kernels, 1};
