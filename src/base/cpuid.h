/* SPDX-License-Identifier: Apache-2.0
 * What this CPU and operating system let us use. */
#ifndef HF_CPUID_H
#define HF_CPUID_H

#include <stdbool.h>
#include <stdint.h>

/* Instruction sets are bits in the order of device/host/isa.def; hf_cpu_isas() returns those that
 * this machine can run. HF_ISA_MAX=name in the environment hides the ones listed after name. */
uint32_t hf_cpu_isas(void);
/* "Intel(R) Xeon(R) Processor"; "unknown" where it cannot be told. */
const char *hf_cpu_name(void);
/* Bytes of L1 data, L2 (per core) and last-level cache; sane guesses where they cannot be told. */
void hf_cpu_caches(int64_t *l1, int64_t *l2, int64_t *l3);

#endif
