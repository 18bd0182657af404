/* SPDX-License-Identifier: Apache-2.0
 * Scalar conversions between element types. Exact towards float64; round to nearest even back. */
#ifndef HF_DTYPE_H
#define HF_DTYPE_H

#include <holdfast/base.h>

float hf_f16_to_f32(uint16_t h);
uint16_t hf_f32_to_f16(float f);
float hf_bf16_to_f32(uint16_t b);
uint16_t hf_f32_to_bf16(float f);

/* Element i of a packed vector of any type as float64. */
double hf_load_f64(const void *data, hf_dtype dtype, int64_t i);

/* Its twin: v as element i, converted as C does where the type is an integer. */
void hf_store_f64(void *data, hf_dtype dtype, int64_t i, double v);

/* count elements of any type to float64, exactly. */
void hf_to_f64(double *dst, const void *src, hf_dtype dtype, int64_t count);

/* Number of the first element that is NaN or Inf; count where none is. */
int64_t hf_first_not_finite(const void *data, hf_dtype dtype, int64_t count);

/* v rounded to a type and back (F32, F16, BF16; others return v). */
double hf_round_to(double v, hf_dtype dtype);

#endif
