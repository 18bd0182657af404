/* SPDX-License-Identifier: Apache-2.0
 * Several elements at once: what an element type is in CUDA, and packs for wide loads. */
#ifndef HF_CUDA_PACK_CUH
#define HF_CUDA_PACK_CUH

#include "device/cuda/load.cuh"

/* The C type of an element, and the narrowest one with arithmetic that holds each value exactly. */
template <hf_dtype T> struct hf_element;
template <> struct hf_element<HF_F32> {
    typedef float type;
    typedef float wide;
};
template <> struct hf_element<HF_F64> {
    typedef double type;
    typedef double wide;
};
template <> struct hf_element<HF_F16> {
    typedef __half type;
    typedef float wide;
};
template <> struct hf_element<HF_BF16> {
    typedef __nv_bfloat16 type;
    typedef float wide;
};
template <> struct hf_element<HF_U8> {
    typedef uint8_t type;
    typedef float wide;
};

template <hf_dtype T>
__device__ __forceinline__ typename hf_element<T>::wide hf_widen(typename hf_element<T>::type v) {
    if constexpr (T == HF_F16)
        return __half2float(v);
    else if constexpr (T == HF_BF16)
        return __bfloat162float(v);
    else
        return (typename hf_element<T>::wide)v;
}

/* N neighbouring elements, loaded and stored at once where N * size is a power of two up to 16. */
template <hf_dtype T, int N> struct __align__(N *hf_device_bytes<T>) hf_pack {
    typename hf_element<T>::type e[N];
};

/* What arithmetic on one element, or on two 16-bit ones at once, works on. */
template <hf_dtype T, bool PAIRED> struct hf_slot_type {
    typedef typename hf_element<T>::wide type;
};
template <> struct hf_slot_type<HF_F16, true> { typedef __half2 type; };
template <> struct hf_slot_type<HF_BF16, true> { typedef __nv_bfloat162 type; };

template <hf_dtype T>
__device__ __forceinline__ typename hf_slot_type<T, true>::type hf_pair_of(float v) {
    if constexpr (T == HF_F16)
        return __float2half2_rn(v);
    else
        return __float2bfloat162_rn(v);
}

#endif
