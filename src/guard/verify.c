/* SPDX-License-Identifier: Apache-2.0
 * The host's side of the guard slot. */
#include "core/kernel.h"
#include "core/run.h"
#include "guard/guard.h"

#include <stdio.h>

static const char *const fault_text[HF_FAULT_COUNT] = {
    "nothing",
#define FAULT(NAME, name, text) text,
#include "device/fault.def"
#undef FAULT
};

uint32_t hf_guard_number(hf_context *ctx, const struct hf_kernel *kernel) {
    struct hf_guard_state *guard = &ctx->guard;
    for (uint32_t i = 0; i < guard->kernels; i++)
        if (guard->kernel[i] == kernel)
            return i;
    if (guard->kernels == HF_GUARD_KERNELS)
        return HF_GUARD_KERNELS; /* nobody's */
    guard->kernel[guard->kernels] = kernel;
    return guard->kernels++;
}

/* " in row 7, column 3 on worker 12, lane 5", as far as it is known; lane: -1 if it is not. */
static void describe_place(const hf_context *ctx, const struct hf_finding *f, int lane, char *text,
                           size_t bytes) {
    const struct {
        const char *word;
        int64_t value;
    } parts[] = {{" in row", f->row},
                 {f->row < 0 ? " in column" : ", column", f->column},
                 {hf_ctx_is_host(ctx) ? " on worker" : " on multiprocessor", f->unit},
                 {", lane", lane}};
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].value >= 0 && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s %lld", parts[i].word,
                                     (long long)parts[i].value);
}

static const char *kernel_name(const struct hf_guard_state *guard, uint32_t kernel) {
    return kernel < guard->kernels ? guard->kernel[kernel]->name : "(unknown)";
}

/* Tell the caller's function of findings that kernels repaired. */
static void tell_events(hf_context *ctx, const struct hf_slot *slot) {
    const struct hf_guard_state *guard = &ctx->guard;
    const uint32_t count = slot->events < HF_SLOT_EVENTS ? slot->events : HF_SLOT_EVENTS;
    for (uint32_t i = 0; guard->on_fault != NULL && i < count; i++) {
        const struct hf_finding *f = &slot->event[i].finding;
        const int lane = (int)slot->event[i].lane - 1;
        char place[120];
        hf_error text;
        describe_place(ctx, f, lane, place, sizeof place);
        (void)hf_fail(&text, HF_OK, "kernel %s: %s%s: repaired", kernel_name(guard, f->kernel),
                      f->fault < HF_FAULT_COUNT ? fault_text[f->fault] : fault_text[0], place);
        const hf_fault_note note = {.check = f->fault < HF_FAULT_COUNT
                                                 ? hf_check_name((int)f->fault)
                                                 : hf_check_name(HF_FAULT_CHECK),
                                    .kernel = kernel_name(guard, f->kernel),
                                    .text = text.text,
                                    .row = f->row,
                                    .column = f->column,
                                    .iteration = guard->iteration,
                                    .unit = f->unit,
                                    .kind = (hf_fault_kind)slot->event[i].behaviour,
                                    .repaired = 1,
                                    .lane = lane};
        guard->on_fault(guard->on_fault_user, &note);
    }
}

/* Iterations within which the same worker errs twice in the same way only if it always does. */
#define AGAIN_WITHIN 8

/* A finding of a worker that errs again and again: the same bits twice in the same place, or the
 * same fault in another iteration. What it did wrong may be more than was seen. The first of a call
 * whose behaviour is not known counts as one, too: once, making it again costs little, and tells.
 * NULL: no worker does, or it cannot be left out. */
static const struct hf_event *event_to_blame(struct hf_guard_state *guard,
                                             const struct hf_slot *slot) {
    const uint32_t count = slot->events < HF_SLOT_EVENTS ? slot->events : HF_SLOT_EVENTS;
    for (uint32_t i = 0; guard->leaves_out && i < count; i++) {
        const struct hf_event *e = &slot->event[i];
        const bool before = e->finding.unit == guard->erred &&
                            e->finding.fault == guard->erred_as &&
                            guard->iteration - guard->erred_in <= AGAIN_WITHIN;
        const bool first = e->behaviour == HF_BEHAVIOUR_UNKNOWN && !guard->judged;
        if (e->finding.unit < 0 || !(e->behaviour == HF_BEHAVIOUR_PERMANENT || before || first))
            continue;
        guard->judged = guard->judged || first;
        return e;
    }
    return NULL;
}

/* The lane in which all findings of a worker are that know theirs; -1: there are several. */
static int common_lane(const struct hf_slot *slot, int32_t unit) {
    const uint32_t count = slot->events < HF_SLOT_EVENTS ? slot->events : HF_SLOT_EVENTS;
    int lane = -1;
    for (uint32_t i = 0; i < count; i++) {
        const struct hf_event *e = &slot->event[i];
        if (e->finding.unit != unit || e->lane == 0)
            continue;
        if (lane >= 0 && lane != (int)e->lane - 1)
            return -1;
        lane = (int)e->lane - 1;
    }
    return lane;
}

/* Who erred last, and when. */
static void note_worker(struct hf_guard_state *guard, const struct hf_slot *slot) {
    const uint32_t count = slot->events < HF_SLOT_EVENTS ? slot->events : HF_SLOT_EVENTS;
    for (uint32_t i = 0; i < count; i++)
        if (slot->event[i].finding.unit >= 0) {
            guard->erred = slot->event[i].finding.unit;
            guard->erred_as = slot->event[i].finding.fault;
            guard->erred_in = guard->iteration;
        }
}

/* Findings that were repaired are told and forgotten; the counters stay. */
static hf_status take_events(hf_context *ctx, struct hf_slot *slot) {
    struct hf_guard_state *guard = &ctx->guard;
    const struct hf_event *blamed = event_to_blame(guard, slot);
    tell_events(ctx, slot);
    if (blamed != NULL) {
        guard->found = blamed->finding;
        guard->found_by = kernel_name(guard, blamed->finding.kernel);
        guard->lane = common_lane(slot, blamed->finding.unit);
    }
    note_worker(guard, slot);
    slot->events = 0;
    *guard->told = HF_FAULT_NONE;
    HF_TRY(hf_ctx_copy(ctx, guard->slot, slot, sizeof *slot));
    if (blamed == NULL)
        return HF_OK;
    char place[120];
    describe_place(ctx, &guard->found, guard->lane, place, sizeof place);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "kernel %s: %s%s, again and again: the machine computes wrongly; run it "
                       "again, and if that fails too, on another machine",
                       guard->found_by, fault_text[guard->found.fault % HF_FAULT_COUNT], place);
}

hf_status hf_verify_told(hf_context *ctx) {
    const struct hf_guard_state *guard = &ctx->guard;
    struct hf_slot slot;
    HF_TRY(hf_ctx_copy(ctx, &slot, guard->slot, sizeof slot));
    const struct hf_finding *f = &slot.first;
    if (f->fault == HF_FAULT_NONE && *guard->told == HF_TOLD_EVENTS)
        return take_events(ctx, &slot);
    tell_events(ctx, &slot);
    char place[120];
    describe_place(ctx, f, -1, place, sizeof place);
    const char *what = f->fault < HF_FAULT_COUNT ? fault_text[f->fault] : "status word is damaged";
    ctx->guard.found = *f;
    ctx->guard.lane = -1;
    const char *who = kernel_name(guard, f->kernel);
    ctx->guard.found_by = who;
    HF_TRY(hf_ctx_check(ctx, hf_guard_clear(ctx)));
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "kernel %s: %s%s: the machine computes wrongly; run it again, and if "
                       "that fails too, on another machine",
                       who, what, place);
}
