/* SPDX-License-Identifier: Apache-2.0
 * What this CPU and operating system let us use. */
#ifndef HF_CPUID_H
#define HF_CPUID_H

#include <stdbool.h>
#include <stdint.h>

/* Can code for these sets run: does the CPU have them, and does the system save their registers?
 * AMX asks Linux for permission on the first call, which must come before threads are started.
 * Results are cached. device/host/isa.h combines them into the sets that kernels are compiled for.
 * */
bool hf_cpu_has_avx2(void);        /* AVX2, FMA, F16C */
bool hf_cpu_has_avx512(void);      /* and AVX-512 F, DQ, BW, VL */
bool hf_cpu_has_avx512_vnni(void); /* beside what hf_cpu_has_avx512() asks for */
bool hf_cpu_has_amx(void);         /* and AVX512_BF16, AMX-TILE, AMX-BF16, AMX-INT8 */

/* "Intel(R) Xeon(R) Processor"; "unknown" if the CPU does not say. */
const char *hf_cpu_name(void);
/* Bytes of L1 data, L2 (per core) and last-level cache; sane guesses if the CPU does not say. */
void hf_cpu_caches(int64_t *l1, int64_t *l2, int64_t *l3);

#endif
