/* SPDX-License-Identifier: Apache-2.0 */
#include "device/host/isa.h"

#include "base/cpuid.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[HF_ISA_COUNT] = {
#define ISA(name, flags, test) #name,
#include "device/host/isa.def"
#undef ISA
};

const char *hf_isa_name(int id) { return id >= 0 && id < HF_ISA_COUNT ? names[id] : NULL; }

int hf_isa_find(const char *name) {
    for (int id = 0; id < HF_ISA_COUNT; id++)
        if (strcmp(names[id], name) == 0)
            return id;
    return -1;
}

uint32_t hf_cpu_isas_found(void) {
    uint32_t isas = 0;
#define ISA(name, flags, test) isas |= (uint32_t)((test) ? 1 : 0) << HF_ISA_ID_##name;
#include "device/host/isa.def"
#undef ISA
    return isas;
}

/* Threads that race here find the same answer. 0 means not asked yet: scalar is always there. */
uint32_t hf_cpu_isas(void) {
    static _Atomic uint32_t kept;
    uint32_t isas = atomic_load(&kept);
    if (isas == 0) {
        const char *max = getenv("HF_ISA_MAX");
        const int id = max != NULL ? hf_isa_find(max) : -1;
        isas = hf_cpu_isas_found() & (id >= 0 ? (2u << id) - 1 : UINT32_MAX);
        atomic_store(&kept, isas);
    }
    return isas;
}
