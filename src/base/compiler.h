/* SPDX-License-Identifier: Apache-2.0
 * Compiler attributes. UNROLL(n) goes before a loop whose trip count is a constant: without it
 * gcc keeps tile accumulators in memory; clang 14 unrolls such loops by itself. */
#ifndef HF_COMPILER_H
#define HF_COMPILER_H

#define HF_PRAGMA(x) _Pragma(#x)
#if defined(__clang__)
#define UNROLL(n) HF_PRAGMA(clang loop unroll(full))
#else
#define UNROLL(n) HF_PRAGMA(GCC unroll n)
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))
#ifdef __CUDACC__ /* a function of the host and of GPUs */
#define HF_ANYWHERE static inline __host__ __device__
#else
#define HF_ANYWHERE static inline
#endif
#define HF_ALIGN 64 /* bytes: a cache line, and the widest vector */

#endif
