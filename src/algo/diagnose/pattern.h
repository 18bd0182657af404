/* SPDX-License-Identifier: Apache-2.0
 * The fixed products of the periodic test. */
#ifndef HF_PATTERN_H
#define HF_PATTERN_H

#include "core/kernel.h"
#include "core/run.h"
#include <holdfast/gemm.h>

#define HF_PATTERNS 4   /* kinds of data */
#define HF_PATTERN_M 24 /* rows of A; */
#define HF_PATTERN_N 45 /* columns of B: whole vectors and a rest, */
#define HF_PATTERN_K 70 /* columns of A */

/* What is computed, in the order of golden.def. */
enum hf_probe_id {
#define GOLDEN(NAME, op, dtype, form, ...) HF_PROBE_##NAME,
#include "algo/diagnose/golden.def"
#undef GOLDEN
    HF_PROBES
};

/* Forms of gemm_es; arithmetics of gemm: as on all CPUs, by tensor cores of compute capability 9.0,
 * by AMX. */
enum hf_probe_form { HF_PROBE_PLAIN, HF_PROBE_AVX, HF_PROBE_TENSOR, HF_PROBE_AMX };

/* What a probe gave: two CRC-32C, of C and of its array of signatures (0: it has none). */
struct hf_probe_value {
    uint32_t c, signature;
};

/* The op of a probe, its form, and whether a kernel serves it on a device. */
enum hf_op_id hf_probe_op(int probe);
enum hf_probe_form hf_probe_form(int probe);
bool hf_probe_takes(int probe, const struct hf_kernel *kernel,
                    const struct hf_device_props *device);

/* Compute it on the calling thread. flip: invert a bit of C before it is signed. */
hf_status hf_probe_run(hf_context *ctx, int probe, int pattern, const struct hf_kernel *kernel,
                       bool flip, struct hf_probe_value *value);

/* The same of op gemm by the caller's function, for tests. */
struct hf_probe_value hf_probe_computed(int probe, int pattern,
                                        void (*compute)(const hf_gemm_args *args));

/* What it must give. */
struct hf_probe_value hf_probe_golden(int probe, int pattern);

#endif
