/* SPDX-License-Identifier: Apache-2.0
 * The protection scheme of a call: names, switches, counters. */
#include "core/run.h"
#include "guard/guard.h"

#include <stdlib.h>
#include <string.h>

static const char *const scheme_names[HF_SCHEME_COUNT] = {
#define SCHEME(NAME, name) #name,
#include "guard/scheme.def"
#undef SCHEME
};

static const char *const check_names[HF_FAULT_COUNT] = {
    "nothing",
#define FAULT(NAME, name, text) #name,
#include "device/fault.def"
#undef FAULT
};

const char *hf_scheme_name(int id) {
    return id >= 0 && id < HF_SCHEME_COUNT ? scheme_names[id] : NULL;
}

const char *hf_check_name(int fault) {
    return fault >= 0 && fault < HF_FAULT_COUNT ? check_names[fault] : NULL;
}

const char *hf_guard_check_name(int i) { return i > 0 ? hf_check_name(i) : NULL; }

/* HF_SCHEME_COUNT: there is none. */
static enum hf_scheme scheme_of(hf_guard guard) {
    switch (guard) {
    case HF_GUARD_OFF:
        return HF_SCHEME_OFF;
    case HF_GUARD_DETECT:
        return HF_SCHEME_DETECT;
    case HF_GUARD_DEFAULT:
    case HF_GUARD_CORRECT:
        return HF_SCHEME_CORRECT;
    case HF_GUARD_SAMPLED:
        return HF_SCHEME_SAMPLED;
    case HF_GUARD_WEIGHTED:
        return HF_SCHEME_WEIGHTED;
    }
    return HF_SCHEME_COUNT;
}

/* The checks of a scheme among those of a set. */
static uint32_t checks_of(enum hf_scheme scheme, uint32_t checks) {
    static const uint32_t weighted = HF_CHECK_BIT(HF_FAULT_TILE) | HF_CHECK_BIT(HF_FAULT_TWICE);
    return scheme == HF_SCHEME_OFF        ? 0
           : scheme == HF_SCHEME_WEIGHTED ? checks & weighted
                                          : checks & ~weighted;
}

const char *hf_guard_name(hf_guard guard) {
    const char *name = hf_scheme_name((int)scheme_of(guard));
    return name != NULL ? name : "unknown";
}

const char *hf_fault_kind_text(hf_fault_kind kind) {
    switch (kind) {
    case HF_FAULT_KIND_UNKNOWN:
        break;
    case HF_FAULT_TRANSIENT:
        return "transient";
    case HF_FAULT_INTERMITTENT:
        return "intermittent";
    case HF_FAULT_PERMANENT:
        return "permanent";
    }
    return "unknown";
}

/* Take the checks that a list such as "sums,labels" names out of a set. */
static hf_status leave_out(hf_context *ctx, const char *list, uint32_t *checks) {
    for (const char *at = list; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        int fault = 1;
        while (fault < HF_FAULT_COUNT &&
               (strncmp(at, check_names[fault], length) != 0 || check_names[fault][length] != '\0'))
            fault++;
        if (fault == HF_FAULT_COUNT)
            return hf_ctx_fail(ctx, HF_E_ARG,
                               "HF_GUARD_WITHOUT=%s: there is no check called '%.*s'; "
                               "docs/fault-model.md lists them",
                               list, (int)length, at);
        *checks &= ~HF_CHECK_BIT(fault);
        at += length + (at[length] == ',');
    }
    return HF_OK;
}

void hf_guard_set(hf_context *ctx, enum hf_scheme scheme, uint32_t checks) {
    struct hf_guard_state *guard = &ctx->guard;
    guard->scheme = scheme;
    guard->checks = checks_of(scheme, checks);
    guard->covered = 0;
    guard->counts = (hf_guard_counts){0};
    guard->on_fault = NULL;
    guard->elsewhere = false;
    guard->iteration = 0;
    guard->found = (struct hf_finding){.unit = -1, .column = -1, .row = -1};
    guard->found_by = NULL;
    if (!hf_ctx_is_host(ctx))
        return;
    guard->slot->checked = guard->slot->suspected = guard->slot->repaired = 0;
    guard->slot->confirmed = guard->slot->beyond = 0;
}

hf_status hf_guard_begin(hf_context *ctx, hf_guard asked, hf_on_fault on_fault, void *user) {
    const enum hf_scheme scheme = scheme_of(asked);
    const char *without = getenv("HF_GUARD_WITHOUT");
    uint32_t checks = HF_CHECKS_ALL;
    if (scheme == HF_SCHEME_COUNT)
        return hf_ctx_fail(ctx, HF_E_ARG, "unknown guard %u: the header lists 0 to %u",
                           (unsigned)asked, (unsigned)HF_GUARD_WEIGHTED);
    if (without != NULL)
        HF_TRY(leave_out(ctx, without, &checks));
    hf_guard_set(ctx, scheme, checks);
    ctx->guard.erred = ctx->guard.lane = -1;
    ctx->guard.leaves_out = ctx->guard.judged = false;
    ctx->guard.on_fault = on_fault;
    ctx->guard.on_fault_user = user;
    return HF_OK;
}

/* What no kernel of the call counted need not be copied from a device. */
hf_status hf_guard_read(hf_context *ctx, hf_guard_counts *counts) {
    const struct hf_guard_state *guard = &ctx->guard;
    struct hf_slot slot = {.checked = 0};
    if (hf_ctx_is_host(ctx) || guard->covered != 0)
        HF_TRY(hf_ctx_copy(ctx, &slot, guard->slot, sizeof slot));
    *counts = guard->counts;
    counts->checked += (int64_t)slot.checked;
    counts->suspected += (int64_t)slot.suspected;
    counts->confirmed += (int64_t)slot.confirmed;
    counts->repaired += (int64_t)slot.repaired;
    counts->beyond += (int64_t)slot.beyond;
    return HF_OK;
}

const char *hf_guard_in_force(const hf_context *ctx) {
    const bool any = hf_ctx_is_host(ctx) || ctx->guard.covered != 0;
    return hf_scheme_name(any ? (int)ctx->guard.scheme : HF_SCHEME_OFF);
}
