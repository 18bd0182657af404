/* SPDX-License-Identifier: Apache-2.0
 * Faults at a rate: while a fit runs, the next fault of a campaign becomes due every so often, and
 * strikes the next call of its op. */
#include "base/clock.h"
#include "harness/inject/campaign.h"
#include <stdio.h>

static struct {
    const hf_dev_campaign *campaign;
    struct hf_strata strata;
    int64_t number; /* of the next fault */
    double due, interval;
    int64_t struck, altered;
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
        hf_inject_stream(&(struct hf_fault_stream){rate_plant, rate_done});
        rate->outcome = hf_trial_fit(&trial, campaign->fit->guard, &rate->counts);
        hf_inject_remove();
        rate->struck_s = hf_now_s() - begin;
        rate->struck = stream.struck;
        rate->altered = stream.altered;
    }
    hf_trial_close(&trial);
    return status;
}
