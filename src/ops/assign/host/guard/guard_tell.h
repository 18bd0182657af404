/* SPDX-License-Identifier: Apache-2.0
 * Confirmed faults: counted, and told to the guard slot. */
#ifndef HF_ASSIGN_GUARD_TELL_H
#define HF_ASSIGN_GUARD_TELL_H

#include "ops/assign/host/job.h"

/* Count a confirmed fault for `w`, and tell it: its kernel is that of the call, and its row one of
 * the call. */
static NOINLINE void guard_tell_event(const struct job *job, struct worker *w,
                                      struct hf_event event) {
    const struct guard *g = &job->guard;
    event.finding.kernel = g->kernel;
    if (event.finding.row >= 0)
        event.finding.row += job->a->packed_first;
    w->guard.confirmed++;
    w->stats.lasting += event.behaviour > HF_BEHAVIOUR_TRANSIENT;
    if (!g->correct) {
        hf_slot_tell(g->slot, &event.finding);
        return;
    }
    w->guard.repaired++;
    hf_slot_note(g->slot, &event);
}

/* A fault of worker `w` that is confirmed, and whose row has the right label now (or will have it
 * at the end of the call). column: a centroid, or -1. */
static NOINLINE void guard_tell(const struct job *job, struct worker *w, enum hf_fault fault,
                                int64_t row, int32_t column, enum hf_behaviour behaviour) {
    guard_tell_event(job, w,
                     (struct hf_event){.finding = {.fault = fault,
                                                   .unit = (int32_t)(w - job->workers),
                                                   .column = column,
                                                   .row = row},
                                       .behaviour = behaviour});
}

/* The same of a suspect, with the lane of its row. */
static NOINLINE void guard_tell_suspect(const struct job *job, struct worker *w,
                                        const struct guard_suspect *s,
                                        enum hf_behaviour behaviour) {
    guard_tell_event(job, w,
                     (struct hf_event){.finding = {.fault = s->fault,
                                                   .unit = (int32_t)(w - job->workers),
                                                   .column = s->arg,
                                                   .row = s->row},
                                       .behaviour = behaviour,
                                       .lane = (uint32_t)(s->lane % VW) + 1});
}

/* A fault that cannot be repaired here. */
static NOINLINE void guard_tell_lost(const struct job *job, struct worker *w, enum hf_fault fault,
                                     int64_t row) {
    w->guard.confirmed++;
    hf_slot_tell(job->guard.slot,
                 &(struct hf_finding){.fault = fault,
                                      .kernel = job->guard.kernel,
                                      .unit = -1,
                                      .column = -1,
                                      .row = row < 0 ? -1 : job->a->packed_first + row});
}

#endif
