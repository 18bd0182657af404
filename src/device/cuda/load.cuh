/* SPDX-License-Identifier: Apache-2.0
 * Elements of any data type on the device; every conversion to float64 is exact. The type is a
 * template argument: kernels are instantiated for each, and hosts choose with hf_for_dtype(). */
#ifndef HF_LOAD_CUH
#define HF_LOAD_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <holdfast/base.h>

/* Element i of a packed vector of type T. */
template <hf_dtype T>
__device__ __forceinline__ double hf_device_load(const void *__restrict__ p, int64_t i) {
    if constexpr (T == HF_F64)
        return static_cast<const double *>(p)[i];
    else if constexpr (T == HF_F32)
        return static_cast<double>(static_cast<const float *>(p)[i]);
    else if constexpr (T == HF_F16)
        return static_cast<double>(__half2float(static_cast<const __half *>(p)[i]));
    else if constexpr (T == HF_BF16)
        return static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16 *>(p)[i]));
    else
        return static_cast<double>(static_cast<const unsigned char *>(p)[i]);
}

/* The same as float32: exact but for HF_F64. */
template <hf_dtype T>
__device__ __forceinline__ float hf_device_load_f32(const void *__restrict__ p, int64_t i) {
    if constexpr (T == HF_F64)
        return static_cast<float>(static_cast<const double *>(p)[i]);
    else if constexpr (T == HF_F32)
        return static_cast<const float *>(p)[i];
    else if constexpr (T == HF_F16)
        return __half2float(static_cast<const __half *>(p)[i]);
    else if constexpr (T == HF_BF16)
        return __bfloat162float(static_cast<const __nv_bfloat16 *>(p)[i]);
    else
        return static_cast<float>(static_cast<const unsigned char *>(p)[i]);
}

/* Bytes of one element of type T. */
template <hf_dtype T>
inline constexpr int hf_device_bytes = T == HF_F64                   ? 8
                                       : T == HF_F32                 ? 4
                                       : T == HF_F16 || T == HF_BF16 ? 2
                                                                     : 1;

/* Element i where the type is known at run time only. */
__device__ __forceinline__ double hf_device_load_any(const void *__restrict__ p, hf_dtype dtype,
                                                     int64_t i) {
    switch (dtype) {
    case HF_F64:
        return hf_device_load<HF_F64>(p, i);
    case HF_F32:
        return hf_device_load<HF_F32>(p, i);
    case HF_F16:
        return hf_device_load<HF_F16>(p, i);
    case HF_BF16:
        return hf_device_load<HF_BF16>(p, i);
    default:
        return hf_device_load<HF_U8>(p, i);
    }
}

/* The value of a compile-time constant that a generic lambda gets: hf_for_dtype(t, [&](auto c) {
 * constexpr hf_dtype T = decltype(c)::value; ... }); */
template <hf_dtype T> struct hf_dtype_constant { static constexpr hf_dtype value = T; };

template <typename F> void hf_for_dtype(hf_dtype dtype, F &&f) {
    switch (dtype) {
    case HF_F64:
        return f(hf_dtype_constant<HF_F64>());
    case HF_F32:
        return f(hf_dtype_constant<HF_F32>());
    case HF_F16:
        return f(hf_dtype_constant<HF_F16>());
    case HF_BF16:
        return f(hf_dtype_constant<HF_BF16>());
    default:
        return f(hf_dtype_constant<HF_U8>());
    }
}

#endif
