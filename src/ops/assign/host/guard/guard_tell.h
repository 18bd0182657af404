/* SPDX-License-Identifier: Apache-2.0
 * Confirmed faults: counted, and told to the guard slot. */
#ifndef HF_ASSIGN_GUARD_TELL_H
#define HF_ASSIGN_GUARD_TELL_H

#include "ops/assign/host/job.h"

/* A fault that is confirmed, and whose row has the right label now (or will have it at the end of
 * the call). column: a centroid, or -1. */
static NOINLINE void guard_tell(const struct job *job, struct worker *w, enum hf_fault fault,
                                int64_t row, int32_t column, enum hf_behaviour behaviour) {
    const struct guard *g = &job->guard;
    const struct hf_finding finding = {.fault = fault,
                                       .kernel = g->kernel,
                                       .unit = (int32_t)(w - job->workers),
                                       .column = column,
                                       .row = row < 0 ? -1 : job->a->packed_first + row};
    w->guard.confirmed++;
    if (!g->correct) {
        hf_slot_tell(g->slot, &finding);
        return;
    }
    w->guard.repaired++;
    hf_slot_note(g->slot, &(struct hf_event){.finding = finding, .behaviour = behaviour});
}

/* A fault that cannot be repaired here. */
static NOINLINE void guard_tell_lost(const struct job *job, struct worker *w, enum hf_fault fault,
                                     int64_t row) {
    w->guard.confirmed++;
    hf_slot_tell(job->guard.slot, &(struct hf_finding){.fault = fault,
                                                       .kernel = job->guard.kernel,
                                                       .unit = -1,
                                                       .column = -1,
                                                       .row = job->a->packed_first + row});
}

#endif
