/* SPDX-License-Identifier: Apache-2.0
 * The instruction sets of isa.def, and for a source compiled once per set (-DHF_ISA=name) its
 * verbs. */
#ifndef HF_ISA_H
#define HF_ISA_H

enum hf_isa_id {
#define ISA(name, flags, test) HF_ISA_ID_##name,
#include "device/host/isa.def"
#undef ISA
    HF_ISA_COUNT
};

#include <stdint.h>

/* Bits (1 << hf_isa_id) of the sets this machine can run. */
uint32_t hf_cpu_isas_found(void);
/* Those of them to use: HF_ISA_MAX=name in the environment hides the ones listed after name. Read
 * once. */
uint32_t hf_cpu_isas(void);
/* "avx2"; NULL for an id out of range. Its id from a name, or -1. */
const char *hf_isa_name(int id);
int hf_isa_find(const char *name);

#if defined(HF_ISA)
#define HF_PASTE_(a, b) a##_##b
#define HF_PASTE(a, b) HF_PASTE_(a, b)
/* name_<isa>: external names of per-ISA objects; of those with planted faults name_<isa>_inject */
#ifdef HF_INJECT
#define HF_ISA_NAME(name) HF_PASTE(HF_PASTE(name, HF_ISA), inject)
#else
#define HF_ISA_NAME(name) HF_PASTE(name, HF_ISA)
#endif
#define HF_ISA_ID HF_PASTE(HF_ISA_ID, HF_ISA)
#define HF_STR_(x) #x
#define HF_STR(x) HF_STR_(x)
/* "avx2": for kernel names */
#define HF_ISA_TEXT HF_STR(HF_ISA)

#if defined(HF_ISA_HEADER)
#include HF_ISA_HEADER /* "device/host/isa_<isa>.h", set by the build for every set but scalar */
#endif
#endif

#endif
