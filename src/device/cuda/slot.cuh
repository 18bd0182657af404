/* SPDX-License-Identifier: Apache-2.0
 * The guard slot (device/slot.h) as kernels of a GPU see it. */
#ifndef HF_SLOT_CUH
#define HF_SLOT_CUH

#include "device/slot.h"

/* Tell a finding, from any thread; only the first one is kept. */
static __device__ inline void hf_slot_tell(struct hf_slot *slot, const struct hf_finding &finding) {
    if (atomicCAS(&slot->first.fault, (uint32_t)HF_FAULT_NONE, finding.fault) != HF_FAULT_NONE)
        return;
    slot->first.kernel = finding.kernel;
    slot->first.unit = finding.unit;
    slot->first.column = finding.column;
    slot->first.row = finding.row;
    __threadfence_system();
    *(volatile uint32_t *)slot->told = finding.fault;
}

/* What others have told so far. Blocks that go on together must learn it from one of them: two that
 * look may see different answers. */
static __device__ __forceinline__ uint32_t hf_slot_fault(const struct hf_slot *slot) {
    return __ldcg(&slot->first.fault);
}

/* The multiprocessor that this thread runs on. */
static __device__ __forceinline__ int32_t hf_slot_unit(void) {
    uint32_t unit;
    asm("mov.u32 %0, %%smid;" : "=r"(unit));
    return (int32_t)unit;
}

#endif
