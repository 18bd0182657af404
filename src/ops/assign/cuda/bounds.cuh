/* SPDX-License-Identifier: Apache-2.0
 * Bounds of a row from what a step found out about it. t is the score of the true x' and c',
 * |t - score| <= error and |x' - c'|^2 = |x'|^2 - 2 t. */
#ifndef HF_ASSIGN_CUDA_BOUNDS_CUH
#define HF_ASSIGN_CUDA_BOUNDS_CUH

#include "ops/assign/cuda/skip.h"

#include <math.h>

__device__ __forceinline__ bool hf_bounds_wanted(const struct hf_bounds &b) {
    return b.upper != nullptr && (b.guide == nullptr || b.guide->learn);
}

__device__ __forceinline__ float hf_bounds_up(double distance) {
    return distance < INFINITY ? __double2float_ru(distance * (1 + 0x1p-20)) + 0x1p-126f : INFINITY;
}

/* Not a number bounds nothing. */
__device__ __forceinline__ float hf_bounds_down(double distance) {
    return distance > 0 ? fminf(__double2float_rd(distance * (1 - 0x1p-20)), 3e38f) : 0;
}

/* Centroids whose score is at most this are at least so far away. norm exceeds |x16| by a share. */
__device__ __forceinline__ double hf_bounds_beyond(const struct hf_bounds &b, int64_t row,
                                                   double score) {
    const double norm = static_cast<double>(b.norm[row]);
    const double loss = b.loss ? static_cast<double>(b.loss[row]) : 0;
    const double share = 0x1p-18 + static_cast<double>(b.d) * 0x1p-28;
    const double low = fmax(0.0, norm * (1 - share) - loss - 0x1p-59);
    const double square = low * low - 2 * score;
    return norm < INFINITY && square > 0 ? sqrt(square) * b.unit : 0;
}

/* From the scores. A row that float64 decided may have any of those that score nearly best: then
 * the best score bounds the distance to all, or the second where the filter knew nothing of the row
 * but that. */
__device__ __forceinline__ void hf_bounds_scored(const struct hf_bounds &b, int64_t row) {
    const double best = static_cast<double>(b.best[row]);
    const double second = static_cast<double>(b.second[row]);
    const double error = static_cast<double>(b.error[row]);
    const double high =
        static_cast<double>(b.norm[row]) + (b.loss ? static_cast<double>(b.loss[row]) : 0);
    const bool decided = best - second > 2.5 * error;
    const double reach = high * high - 2 * (best - error);
    const double others = (decided ? second : fmax(best, second)) + error;
    b.upper[row] = reach == reach ? hf_bounds_up(sqrt(fmax(reach, 0.0)) * b.unit) : INFINITY;
    b.lower[row] = hf_bounds_down(hf_bounds_beyond(b, row, others));
}

/* From the two least squared distances of the candidates of a row: all others score less than the
 * best. */
__device__ __forceinline__ void hf_bounds_settled(const struct hf_bounds &b, int64_t row,
                                                  double least, double second) {
    const double others = hf_bounds_beyond(b, row, static_cast<double>(b.best[row]));
    const double next = sqrt(second);
    b.upper[row] = hf_bounds_up(sqrt(least));
    b.lower[row] = hf_bounds_down(next < others ? next : others);
}

#endif
