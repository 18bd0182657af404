/* SPDX-License-Identifier: Apache-2.0
 * Which calls the kernels of op lloyd take, and what they cost. */
#ifndef HF_LLOYD_CUDA_PLAN_CUH
#define HF_LLOYD_CUDA_PLAN_CUH

#include "core/kernel.h"
#include "device/cuda/reduce.cuh"
#include "ops/assign/cuda/mma.h"
#include "ops/assign/cuda/tile_check.h"
#include "ops/lloyd/sm90/small.h"

/* For all kernels. */
static bool shape_supported(const struct hf_lloyd_args *a) {
    return a->x.rows < INT32_MAX && a->batch * a->sums->k < INT32_MAX &&
           a->sums->d < INT32_MAX / 256;
}

/* Nothing here asks other ranks what they found. */
static bool is_alone(const struct hf_call *call) { return call->comm->size(call->comm) == 1; }

/* The scheme of FT K-Means is there to compare with, and compiled for 9.0 alone. Tiles with
 * checksums are those of mma.sync for few columns. */
static bool scheme_supported(const struct hf_call *call, const struct hf_lloyd_args *a) {
    if ((a->checks_tiles || a->sums_twice) && call->device->sm != 90)
        return false;
    return !a->checks_tiles ||
           (a->batch == 1 && a->exact && a->sums->d <= HF_TILE_CHECK_D &&
            hf_mma_supports(call->device, a->x.rows, (int)a->sums->k, (int)a->sums->d, 1));
}

static bool any_supports(const struct hf_call *call) {
    const struct hf_lloyd_args *a = (const struct hf_lloyd_args *)call->args;
    return is_alone(call) && shape_supported(a) && !a->settle &&
           (a->book == NULL || a->batch == 1) && scheme_supported(call, a);
}

/* Where one launch makes all iterations; hf_lloyd_small_takes() does not want scales beyond. */
static bool may_settle(const struct hf_lloyd_args *a) {
    const double scale = a->filter.scale;
    return !a->settle || (a->progress == NULL && scale >= 0x1p-90 && scale <= 0x1p90);
}

static bool small_supports(const struct hf_call *call) {
    const struct hf_lloyd_args *a = (const struct hf_lloyd_args *)call->args;
    return is_alone(call) && shape_supported(a) && may_settle(a) && a->book == NULL &&
           !a->checks_tiles && !a->sums_twice && hf_lloyd_small_supports(a);
}

static bool narrow_supports(const struct hf_call *call) {
    const struct hf_lloyd_args *a = (const struct hf_lloyd_args *)call->args;
    return is_alone(call) && shape_supported(a) && may_settle(a) && a->book == NULL &&
           !a->checks_tiles && !a->sums_twice && hf_lloyd_narrow_supports(a);
}

/* 16-bit scores at 600 TFLOP/s, two passes over the rows, and the launches. */
static double any_estimate(const struct hf_call *call) {
    const struct hf_lloyd_args *a = (const struct hf_lloyd_args *)call->args;
    const double values = (double)a->x.rows * (double)a->x.cols;
    const double step = 2 * values * (double)a->sums->k / 6e5 +
                        2 * hf_cuda_pass_ns(values * (double)hf_dtype_bytes(a->x.dtype));
    return step * a->count;
}

/* Beside the launches of all others this kernel costs next to nothing: where it can, it shall. */
static double small_estimate(const struct hf_call *call) { return any_estimate(call) / 2; }

/* For few rows the small kernel is faster, as it keeps them in shared memory; but not where each
 * cluster gets many, which it adds up in device memory. */
static double narrow_estimate(const struct hf_call *call) {
    const struct hf_lloyd_args *a = (const struct hf_lloyd_args *)call->args;
    const bool few = a->x.rows <= HF_LLOYD_NARROW_ROWS &&
                     a->x.rows <= a->batch * a->sums->k * HF_LLOYD_NARROW_SHARE;
    return any_estimate(call) / (few ? 1.5 : 4);
}

#endif
