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
#define FAULT(NAME, name, text) HF_FAULT_##NAME,
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

/* How a fault behaved when its work was done again. */
enum hf_behaviour {
    HF_BEHAVIOUR_UNKNOWN,
    HF_BEHAVIOUR_TRANSIENT,    /* right elsewhere, and right in the same place the second time */
    HF_BEHAVIOUR_INTERMITTENT, /* right elsewhere; wrong again in the same place, but otherwise */
    HF_BEHAVIOUR_PERMANENT     /* right elsewhere; in the same place the same wrong bits again */
};

/* A finding that was repaired. */
struct hf_event {
    struct hf_finding finding;
    uint32_t behaviour; /* enum hf_behaviour */
    uint32_t lane;      /* of the unit's vectors, counted from 1; 0: not known */
};

#define HF_SLOT_EVENTS 32
#define HF_TOLD_EVENTS UINT32_C(0x10000) /* the host's word where there are only such findings */

/* Counters are of rows, or of what else a check looks at, and are added to atomically. */
struct hf_slot {
    struct hf_finding first;     /* of all findings that were not repaired; fault is 0 before */
    uint64_t checked, suspected; /* looked at; a check did not agree */
    uint64_t repaired;           /* confirmed to be wrong and done again */
    uint64_t confirmed;          /* of the suspected: wrong, whether repaired or not */
    uint64_t beyond;             /* of the suspected: right, rounding went beyond the threshold */
    uint32_t *told;          /* the host's word, which the device can write: becomes first.fault */
    uint32_t events, unused; /* repaired findings, those that had no room too */
    struct hf_event event[HF_SLOT_EVENTS]; /* the first of them */
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

/* Tell a finding that was repaired, from any thread of the host. Counters are the caller's. */
static inline void hf_slot_note(struct hf_slot *slot, const struct hf_event *event) {
    uint32_t none = HF_FAULT_NONE;
    const uint32_t at = __atomic_fetch_add(&slot->events, 1, __ATOMIC_RELAXED);
    if (at < HF_SLOT_EVENTS)
        slot->event[at] = *event;
    (void)__atomic_compare_exchange_n(slot->told, &none, HF_TOLD_EVENTS, 0, __ATOMIC_ACQ_REL,
                                      __ATOMIC_RELAXED);
}

static inline void hf_slot_add(uint64_t *counter, uint64_t count) {
    __atomic_add_fetch(counter, count, __ATOMIC_RELAXED);
}

static inline uint32_t hf_slot_fault(const struct hf_slot *slot) {
    return __atomic_load_n(&slot->first.fault, __ATOMIC_ACQUIRE);
}
#endif

#endif
