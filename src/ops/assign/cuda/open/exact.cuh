/* SPDX-License-Identifier: Apache-2.0
 * The reference distance on the device: the operations of ops/reference.c in their order, one
 * rounding each, never fused. */
#ifndef HF_ASSIGN_CUDA_EXACT_CUH
#define HF_ASSIGN_CUDA_EXACT_CUH

#include "device/cuda/load.cuh"
#include <holdfast/kmeans.h>

/* Element i of centroids: float32 or float64. */
template <bool F64> __device__ __forceinline__ double hf_exact_center(const void *c, int64_t i) {
    if constexpr (F64)
        return static_cast<const double *>(c)[i];
    else
        return static_cast<double>(static_cast<const float *>(c)[i]);
}

struct hf_winner {
    double least;
    int32_t arg; /* INT32_MAX: none yet */
};

__device__ __forceinline__ struct hf_winner hf_winner_none() {
    return {__longlong_as_double(0x7ff0000000000000ll), INT32_MAX};
}

/* The least distance wins, then the lowest index. NaN never does. */
__device__ __forceinline__ void hf_winner_offer(struct hf_winner *w, double distance, int32_t arg) {
    if (distance < w->least || (distance == w->least && arg < w->arg)) {
        w->least = distance;
        w->arg = arg;
    }
}

/* The best of `lanes` neighbouring lanes, in all of them. */
__device__ __forceinline__ struct hf_winner hf_winner_lanes(struct hf_winner w, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) {
        const double least = __shfl_xor_sync(~0u, w.least, step);
        const int32_t arg = __shfl_xor_sync(~0u, w.arg, step);
        hf_winner_offer(&w, least, arg);
    }
    return w;
}

/* As the reference: the first centroid when every distance is NaN or Inf. */
__device__ __forceinline__ int32_t hf_winner_label(const struct hf_winner &w) {
    return w.arg == INT32_MAX ? 0 : w.arg;
}

/* What feature j adds: (x - c)^2, or x * c for metrics made of products. */
template <bool PRODUCT> __device__ __forceinline__ double hf_exact_term(double x, double c) {
    if constexpr (PRODUCT)
        return __dmul_rn(x, c);
    const double diff = __dsub_rn(x, c);
    return __dmul_rn(diff, diff);
}

/* From the ordered sum to the distance. */
__device__ __forceinline__ double hf_exact_finish(hf_metric metric, double sum, double norm_x,
                                                  double norm_c) {
    if (metric == HF_EUCLIDEAN)
        return sum;
    if (metric == HF_DOT)
        return -sum;
    if (norm_x == 0 || norm_c == 0)
        return 1;
    return __dsub_rn(1, __ddiv_rn(sum, __dmul_rn(norm_x, norm_c)));
}

/* |x| of d elements. */
template <hf_dtype T> __device__ double hf_exact_norm(const void *x, int64_t d) {
    double sum = 0;
    for (int64_t j = 0; j < d; j++) {
        const double v = hf_device_load<T>(x, j);
        sum = __dadd_rn(sum, __dmul_rn(v, v));
    }
    return __dsqrt_rn(sum);
}

#endif
