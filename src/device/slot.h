/* SPDX-License-Identifier: Apache-2.0
 * The guard slot of a context: where kernels tell that arithmetic went wrong. It lies in memory of
 * the device, so that counting costs a kernel no trip to the host; the host knows of a fault from
 * one word of its own memory that kernels write only then, so that looking costs the host neither
 * a copy nor a wait. hf_verify() (core/run.h) looks. */
#ifndef HF_SLOT_H
#define HF_SLOT_H

#include <stdint.h>

/* What went wrong, in the order of fault.def: HF_FAULT_CHECK, ... */
enum hf_fault {
    HF_FAULT_NONE,
#define FAULT(NAME, text) HF_FAULT_##NAME,
#include "device/fault.def"
#undef FAULT
    HF_FAULT_COUNT
};

struct hf_finding {
    uint32_t fault;  /* enum hf_fault */
    uint32_t kernel; /* who found it: hf_call.kernel */
    int32_t unit;    /* where it was computed: multiprocessor, worker of the host; -1: not known */
    int32_t column;  /* of the data, centroid, ...; -1: not known */
    int64_t row;     /* -1: not known */
};

struct hf_slot {
    struct hf_finding first;               /* of all findings the first; fault is 0 before */
    uint64_t checked, suspected, repaired; /* values: added to atomically */
    uint32_t *told; /* the host's word, which the device can write: becomes first.fault */
};

#ifndef __CUDACC__
/* Tell a finding, from any thread of the host; only the first one is kept. On a GPU:
 * device/cuda/slot.cuh. */
static inline void hf_slot_tell(struct hf_slot *slot, const struct hf_finding *finding) {
    uint32_t none = HF_FAULT_NONE;
    if (!__atomic_compare_exchange_n(&slot->first.fault, &none, finding->fault, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    slot->first.kernel = finding->kernel;
    slot->first.unit = finding->unit;
    slot->first.column = finding->column;
    slot->first.row = finding->row;
    __atomic_store_n(slot->told, finding->fault, __ATOMIC_RELEASE);
}

static inline uint32_t hf_slot_fault(const struct hf_slot *slot) {
    return __atomic_load_n(&slot->first.fault, __ATOMIC_ACQUIRE);
}
#endif

#endif
