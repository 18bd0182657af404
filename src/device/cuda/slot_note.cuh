/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HF_SLOT_NOTE_CUH
#define HF_SLOT_NOTE_CUH

#include "device/cuda/slot.cuh"

/* Tell a finding that was repaired, from any thread. Counters are the caller's. */
static __device__ inline void hf_slot_note(struct hf_slot *slot, const struct hf_event &event) {
    const uint32_t at = atomicAdd(&slot->events, 1u);
    if (at < HF_SLOT_EVENTS)
        slot->event[at] = event;
    __threadfence_system();
    if (hf_slot_fault(slot) == HF_FAULT_NONE)
        *(volatile uint32_t *)slot->told = HF_TOLD_EVENTS;
}

#endif
