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

/* " in row 7, column 3, on multiprocessor 12", as far as it is known. */
static void describe_place(const hf_context *ctx, const struct hf_finding *f, char *text,
                           size_t bytes) {
    const struct {
        const char *word;
        int64_t value;
    } parts[] = {{" in row", f->row},
                 {f->row < 0 ? " in column" : ", column", f->column},
                 {hf_ctx_is_host(ctx) ? " on worker" : " on multiprocessor", f->unit}};
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
        char place[120];
        hf_error text;
        describe_place(ctx, f, place, sizeof place);
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
                                    .repaired = 1};
        guard->on_fault(guard->on_fault_user, &note);
    }
}

/* Findings that were repaired are told and forgotten; the counters stay. */
static hf_status take_events(hf_context *ctx, struct hf_slot *slot) {
    tell_events(ctx, slot);
    slot->events = 0;
    *ctx->guard.told = HF_FAULT_NONE;
    return hf_ctx_copy(ctx, ctx->guard.slot, slot, sizeof *slot);
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
    describe_place(ctx, f, place, sizeof place);
    const char *what = f->fault < HF_FAULT_COUNT ? fault_text[f->fault] : "status word is damaged";
    ctx->guard.found = *f;
    const char *who = kernel_name(guard, f->kernel);
    ctx->guard.found_by = who;
    HF_TRY(hf_ctx_check(ctx, hf_guard_clear(ctx)));
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "kernel %s: %s%s: the machine computes wrongly; run it again, and if "
                       "that fails too, on another machine",
                       who, what, place);
}
