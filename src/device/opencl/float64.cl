/* SPDX-License-Identifier: Apache-2.0
 * float64 where the device has it: f64, vectors of eight as f64x8, and operations that round to
 * nearest, each by itself. float64_soft.cl has the same names for devices without float64, so
 * sources use these and nothing else: neither `double` nor an operator on an f64. Products and sums
 * stay apart by prelude.cl. */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

typedef double f64;
typedef double8 f64x8;

#define f64_of(v) ((double)(v)) /* of a float, exactly */
#define f64_of_long(v) ((double)(v))
#define f64_of_ulong(v) ((double)(v))
#define f64_to_float(v) ((float)(v))
#define f64_to_float_rtz(v) convert_float_rtz(v)
#define f64_to_long(v) ((long)(v)) /* towards zero; |v| < 2^63 */
#define f64_bits(v) as_long(v)

#define f64_add(a, b) ((a) + (b))
#define f64_sub(a, b) ((a) - (b))
#define f64_mul(a, b) ((a) * (b))
#define f64_div(a, b) ((a) / (b))
#define f64_sqrt(v) sqrt(v)
#define f64_neg(v) (-(v))
#define f64_abs(v) fabs(v)
#define f64_less(a, b) ((a) < (b))
#define f64_equal(a, b) ((a) == (b))
#define f64_max(a, b) fmax(a, b) /* of a NaN and a number: the number */
#define f64_min(a, b) fmin(a, b)
#define f64_rint(v) rint(v)
#define f64_finite(v) isfinite(v)
#define f64_ldexp(v, n) ldexp(v, n)
#define f64_ilogb(v) ilogb(v) /* v: finite, not 0 */

#define f64x8_all(v) ((double8)(v)) /* eight times v */
#define f64x8_of(v) convert_double8(v)
#define f64x8_load(p) vload8(0, p) /* of __global memory */
#define f64x8_store(v, p) vstore8(v, 0, p) /* to private memory */
#define f64x8_bits(v) as_long8(v)
#define f64x8_add(a, b) ((a) + (b))
#define f64x8_sub(a, b) ((a) - (b))
#define f64x8_mul(a, b) ((a) * (b))
#define f64x8_div(a, b) ((a) / (b))
#define f64x8_sqrt(v) sqrt(v)
#define f64x8_neg(v) (-(v))
/* The places of v where `where` is 0 (or less than 0) become `then`. */
#define f64x8_if_zero(where, then, v) select(v, (double8)(then), (where) == 0)
#define f64x8_if_negative(where, then, v) select(v, (double8)(then), (where) < 0)
