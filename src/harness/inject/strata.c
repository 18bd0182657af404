/* SPDX-License-Identifier: Apache-2.0
 * From the number of a fault to the fault. Faults take the strata in turns; within one they take
 * the bits in turns and, for each, the visits of the place in a random order without repetition, so
 * that a campaign that is long enough is exhaustive. */
#include "base/rng.h"
#include "harness/inject/campaign.h"
#include <stdio.h>
#include <string.h>

#define LANES 16 /* that permanent faults are planted in */

static const char *const model_text[HF_MODEL_COUNT][2] = {
#define MODEL(NAME, name, text) {#name, text},
#include "harness/inject/models.def"
#undef MODEL
};

const char *hf_dev_model_at(int i, const char **text) {
    if (i < 0 || i >= HF_MODEL_COUNT)
        return NULL;
    if (text)
        *text = model_text[i][1];
    return model_text[i][0];
}

/* Is `name` one of a list such as "assign.*,means.next"? NULL: all are. */
static bool is_listed(const char *list, const char *name) {
    for (const char *at = list; at && *at;) {
        const size_t length = strcspn(at, ",");
        const bool begins = length > 0 && at[length - 1] == '*';
        const size_t same = begins ? length - 1 : length;
        if (strncmp(at, name, same) == 0 && (begins || name[same] == '\0'))
            return true;
        at += length + (at[length] == ',');
    }
    return list == NULL;
}

static bool place_is_listed(const char *list, int op, const char *place) {
    char name[64];
    (void)snprintf(name, sizeof name, "%s.%s", hf_op_at(op)->name, place);
    return is_listed(list, name);
}

/* The first act of a model. */
static enum hf_fault_act act_of(enum hf_model model) {
    switch (model) {
    case HF_MODEL_STUCK:
    case HF_MODEL_PERMANENT:
        return HF_ACT_STUCK0;
    case HF_MODEL_CARRY:
        return HF_ACT_CARRY;
    case HF_MODEL_REPLACE:
        return HF_ACT_REPLACE;
    case HF_MODEL_NAN:
        return HF_ACT_NAN;
    case HF_MODEL_SKIP:
        return HF_ACT_SKIP;
    case HF_MODEL_DUPLICATE:
        return HF_ACT_DUPLICATE;
    case HF_MODEL_STALE:
        return HF_ACT_STALE;
    default:
        return HF_ACT_FLIP;
    }
}

static int variants_of(enum hf_model model, int bits) {
    if (model == HF_MODEL_FLIP || model == HF_MODEL_CARRY)
        return bits;
    return model == HF_MODEL_STUCK || model == HF_MODEL_PERMANENT ? 2 * bits : 1;
}

static int64_t counted_calls(const struct hf_visits *v, int op) {
    return v->calls[op] < HF_COUNTED_CALLS - 1 ? v->calls[op] : HF_COUNTED_CALLS - 1;
}

static int64_t elements_of(const struct hf_visits *v, const struct hf_stratum *s) {
    const int64_t calls = counted_calls(v, s->op);
    if (s->place.kind == HF_PLACE_CALL)
        return calls;
    if (s->place.kind == HF_PLACE_ARRAY && s->model == HF_MODEL_STALE)
        return v->of_array[s->op][s->place.place] > 0 ? calls : 0;
    if (s->place.kind == HF_PLACE_ARRAY)
        return calls * v->of_array[s->op][s->place.place];
    int64_t all = 0;
    for (int64_t call = 0; call < calls; call++)
        all += v->of_register[s->place.place][call];
    return all > 0 && s->model == HF_MODEL_PERMANENT ? LANES : all;
}

static bool is_possible(const struct hf_stratum *s) {
    const bool in_register = s->place.kind == HF_PLACE_REGISTER;
    if (s->model == HF_MODEL_PERMANENT && !in_register)
        return false;
    if (s->model == HF_MODEL_NAN && s->place.type == HF_DTYPE_NONE)
        return false;
    return hf_place_takes(&s->place, act_of(s->model));
}

/* The registers of updates are visited from both ops; visits are counted by the number of the call
 * of whichever is at work. Fits side by side have no registers that can be struck. */
static bool op_is_at_work(const hf_dev_campaign *campaign, const struct hf_visits *v,
                          const struct hf_place *place, int op) {
    if (v->calls[op] == 0 || (place->kind == HF_PLACE_REGISTER && campaign->at_once > 1))
        return false;
    return place->kind != HF_PLACE_REGISTER || place->place != HF_REGISTER_TERM ||
           op == HF_OP_UPDATE || v->calls[HF_OP_UPDATE] == 0;
}

static void add_strata(const hf_dev_campaign *campaign, struct hf_strata *strata, int op,
                       const struct hf_place *place) {
    const struct hf_visits *v = &strata->visits;
    const bool array = place->kind == HF_PLACE_ARRAY;
    const int bytes = array ? v->word[op][place->place] : place->bytes;
    for (int model = 0; model < HF_MODEL_COUNT; model++) {
        if (!is_listed(campaign->models, model_text[model][0]))
            continue;
        struct hf_stratum s = {
            .op = op, .place = *place, .model = (enum hf_model)model, .bits = 8 * bytes};
        if (array)
            s.place.type = v->floats[op][place->place] ? HF_F64 : HF_DTYPE_NONE;
        s.variants = variants_of(s.model, s.bits);
        s.elements = elements_of(v, &s);
        const bool both = array && s.model != HF_MODEL_SKIP && s.model != HF_MODEL_STALE;
        for (int after = 0; after <= both && s.elements > 0 && is_possible(&s); after++) {
            s.after = after != 0;
            if (strata->count < HF_STRATA_MOST)
                strata->stratum[strata->count++] = s;
            strata->sites += s.elements * s.variants;
        }
    }
}

bool hf_strata_make(const hf_dev_campaign *campaign, struct hf_strata *strata, char *why,
                    size_t why_bytes) {
    strata->count = 0;
    strata->sites = 0;
    for (int i = 0; campaign->words > 0 && i < HF_OP_COUNT * HF_PLACE_ARRAYS; i++) {
        int64_t *const words = &strata->visits.of_array[i / HF_PLACE_ARRAYS][i % HF_PLACE_ARRAYS];
        *words = *words < campaign->words ? *words : campaign->words;
    }
    for (int op = 0; op < HF_OP_COUNT; op++) {
        struct hf_place place;
        if (!hf_op_places_at(op)->arrays)
            continue;
        for (int i = 0; hf_place_at(op, i, &place); i++)
            if (place_is_listed(campaign->places, op, place.name) &&
                op_is_at_work(campaign, &strata->visits, &place, op))
                add_strata(campaign, strata, op, &place);
    }
    if (strata->count == 0)
        (void)snprintf(why, why_bytes,
                       "the fit passes no place of '%s' that faults like '%s' can strike: see "
                       "'holdfast inject kmeans --list'",
                       campaign->places ? campaign->places : "*",
                       campaign->models ? campaign->models : "*");
    return strata->count > 0;
}

/* From an element of a stratum to a call and a visit or a word of it. */
static void choose_visit(const struct hf_strata *strata, const struct hf_stratum *s,
                         int64_t element, struct hf_fault_site *site) {
    const struct hf_visits *v = &strata->visits;
    if (s->model == HF_MODEL_PERMANENT) {
        site->worker = 0;
        site->lane = element;
        site->always = true;
        return;
    }
    if (s->place.kind != HF_PLACE_REGISTER) {
        const bool whole = s->place.kind == HF_PLACE_CALL || s->model == HF_MODEL_STALE;
        const int64_t words = whole ? 1 : v->of_array[s->op][s->place.place];
        site->iteration = element / words + 1;
        site->word = element % words;
        return;
    }
    int64_t call = 0;
    while (element >= v->of_register[s->place.place][call])
        element -= v->of_register[s->place.place][call++];
    site->iteration = call + 1;
    site->hit = element + 1;
}

static uint64_t some_bits(const struct hf_rng *rng, int bits) {
    uint64_t mask = 0;
    const int count = 2 + (int)hf_rng_below(rng->seed, rng->stream, 1, 7);
    for (int i = 0; i < count; i++)
        mask |=
            UINT64_C(1) << hf_rng_below(rng->seed, rng->stream, (uint64_t)i + 2, (uint64_t)bits);
    return mask;
}

/* What the fault does to the value. Returns the lowest bit, or -1. */
static int choose_act(const struct hf_stratum *s, int variant, const struct hf_rng *rng,
                      struct hf_fault_site *site) {
    const bool stuck = s->model == HF_MODEL_STUCK || s->model == HF_MODEL_PERMANENT;
    const uint64_t all = s->bits >= 64 ? UINT64_MAX : (UINT64_C(1) << s->bits) - 1;
    site->act = act_of(s->model);
    if (stuck && variant % 2 != 0)
        site->act = HF_ACT_STUCK1;
    const int bit = stuck ? variant / 2 : variant;
    if (s->variants > 1) {
        site->mask = UINT64_C(1) << bit;
        return bit;
    }
    if (s->model == HF_MODEL_BITS)
        site->mask = some_bits(rng, s->bits);
    if (s->model == HF_MODEL_REPLACE && hf_rng_below(rng->seed, rng->stream, 20, 4) > 0)
        site->value = hf_rng_bits(rng->seed, rng->stream, 21) & all;
    return -1;
}

bool hf_strata_fault(const struct hf_strata *strata, const hf_dev_campaign *campaign,
                     int64_t number, struct hf_fault_site *site, hf_dev_injection *one) {
    const int at = (int)(number % strata->count);
    const struct hf_stratum *s = &strata->stratum[at];
    const int64_t turn = number / strata->count;
    const int variant = (int)(turn % s->variants);
    const int64_t index = turn / s->variants;
    const struct hf_rng rng = {campaign->seed, (UINT64_C(1) << 40) + (uint64_t)number, 0};
    const uint64_t order = ((uint64_t)at << 8) + (uint64_t)variant;
    if (index >= s->elements)
        return false;
    *site = (struct hf_fault_site){.op = s->op,
                                   .kind = s->place.kind,
                                   .place = s->place.place,
                                   .after = s->after,
                                   .row = -1,
                                   .column = -1,
                                   .step = -1,
                                   .worker = -1,
                                   .lane = -1,
                                   .hit = 1};
    choose_visit(
        strata, s,
        (int64_t)hf_rng_permute(campaign->seed, order, (uint64_t)s->elements, (uint64_t)index),
        site);
    *one = (hf_dev_injection){.number = number,
                              .op = hf_op_at(s->op)->name,
                              .place = s->place.name,
                              .model = model_text[s->model][0],
                              .guarded = HF_DEV_OUTCOMES};
    one->bit = choose_act(s, variant, &rng, site);
    hf_fault_text(site, one->line);
    return true;
}
