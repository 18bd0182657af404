/* SPDX-License-Identifier: Apache-2.0
 * What centroids that are not far from a row's own did (as in Exponion, Newling and Fleuret 2016).
 * A centroid at distance r or more from the row's own is at least r - upper from the row, however
 * far it moved. So the lower bound falls by the drifts of those nearer than r alone, and to that.
 * r is one of a few values, two to an octave. */
#ifndef HF_ASSIGN_CUDA_DRIFTS_CUH
#define HF_ASSIGN_CUDA_DRIFTS_CUH

#include "ops/assign/cuda/skip.h"

#define HF_DRIFT_HALF_OCTAVE                                                                       \
    22 /* bits of a float32 below its exponent and the first bit of its fraction */

/* The half octave that a distance lies in: all in bin t > 0 are at least hf_drift_edge(t). */
__device__ __forceinline__ int hf_drift_bin(const struct hf_drifts &drifts, float distance) {
    const int bin = (__float_as_int(distance) >> HF_DRIFT_HALF_OCTAVE) - drifts.key;
    return bin < 0 ? 0 : bin < HF_DRIFT_BINS ? bin : HF_DRIFT_BINS - 1;
}

__device__ __forceinline__ float hf_drift_edge(const struct hf_drifts &drifts, int bin) {
    return __int_as_float((drifts.key + bin) << HF_DRIFT_HALF_OCTAVE);
}

/* A lower bound on the distances to all but centroid g (counted through all problems), from the one
 * before they drifted and an upper one on the distance to g. 0: none. */
__device__ __forceinline__ float hf_drift_lower(const struct hf_drifts &drifts, int64_t g,
                                                float upper, float lower) {
    const float wanted = 2.1f * upper;
    const int bin = max(0, (__float_as_int(wanted) >> HF_DRIFT_HALF_OCTAVE) - drifts.key) + 1;
    if (!(wanted < INFINITY) || bin >= HF_DRIFT_BINS)
        return 0;
    const float most = __int_as_float(drifts.most[g * HF_DRIFT_BINS + bin - 1]);
    const float far = (hf_drift_edge(drifts, bin) - upper) * (1 - 0x1p-20f);
    return fminf(most > 0 ? (lower - most) * (1 - 0x1p-20f) : lower, far);
}

#endif
