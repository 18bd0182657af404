/* SPDX-License-Identifier: Apache-2.0
 * Faults at a rate: while a fit runs, the next fault of a campaign becomes due every so often, and
 * strikes the next call of its op. */
#include "base/clock.h"
#include "harness/inject/campaign.h"
#include <stdio.h>

#define MOST_STEPS 4096

static struct {
    const hf_dev_campaign *campaign;
    struct hf_strata strata;
    int64_t number; /* of the next fault */
    double due, interval;
    int64_t struck, altered;
    double looked, each; /* when iterations were last asked for; seconds of one, about */
    int steps;           /* that were asked for */
} stream;

/* The next fault that is of this op, of the next ones. */
static bool next_fault(int op, struct hf_fault_site *site) {
    for (int tries = 0; tries < 4 * stream.strata.count; tries++) {
        hf_dev_injection one;
        if (hf_strata_fault(&stream.strata, stream.campaign, stream.number++, site, &one) &&
            site->op == op && !site->always)
            return true;
    }
    return false;
}

/* A call is about to run: plant what is due. False: nothing is. */
static bool rate_plant(int op, int64_t call) {
    struct hf_fault_site site;
    if (hf_now_s() < stream.due || !next_fault(op, &site))
        return false;
    stream.due += stream.interval;
    site.iteration = call;
    hf_inject_choose(&site);
    return true;
}

static void rate_done(void) {
    stream.struck += hf_injector()->struck;
    stream.altered += hf_injector()->altered;
}

/* As many as pass until the next fault is due, so that a fit is cut as seldom as it is struck. */
static int rate_ahead(void) {
    const double now = hf_now_s();
    const double each = stream.steps > 0 ? (now - stream.looked) / stream.steps : stream.each;
    stream.each = each < stream.each ? each : stream.each; /* repairs are in it, too */
    const double steps = (stream.due - now) / stream.each;
    stream.steps = steps < 1 ? 1 : steps > MOST_STEPS ? MOST_STEPS : (int)steps;
    stream.looked = now;
    return stream.steps;
}

hf_status hf_dev_campaign_rate(const hf_dev_campaign *campaign, hf_dev_rate *rate, char *why,
                               size_t why_bytes) {
    struct hf_trial trial;
    HF_TRY(hf_trial_open(&trial, campaign, why, why_bytes));
    hf_status status = hf_trial_count(&trial, &stream.strata.visits);
    if (status == HF_OK && !hf_strata_make(campaign, &stream.strata, why, why_bytes))
        status = HF_E_ARG;
    if (status == HF_OK) {
        double begin = hf_now_s();
        (void)hf_trial_fit(&trial, campaign->fit->guard, NULL);
        rate->clean_s = hf_now_s() - begin;
        begin = hf_now_s();
        stream.campaign = campaign;
        stream.number = 0;
        stream.interval = rate->interval_s;
        stream.due = begin + rate->interval_s;
        stream.struck = stream.altered = 0;
        stream.each = rate->clean_s / (trial.clean.iterations > 0 ? trial.clean.iterations : 1);
        stream.steps = 0;
        hf_inject_stream(&(struct hf_fault_stream){rate_plant, rate_done, rate_ahead});
        rate->outcome = hf_trial_fit(&trial, campaign->fit->guard, &rate->counts);
        hf_inject_remove();
        rate->struck_s = hf_now_s() - begin;
        rate->struck = stream.struck;
        rate->altered = stream.altered;
    }
    hf_trial_close(&trial);
    return status;
}
