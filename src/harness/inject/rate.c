/* SPDX-License-Identifier: Apache-2.0
 * Faults at a rate: while a fit runs, a fault becomes due every so often. It strikes the op at work
 * then: words of its arrays around its next call, registers at some moment of that call. */
#include "base/clock.h"
#include "base/rng.h"
#include "harness/inject/campaign.h"
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MOST_STEPS 4096
#define LEAST_WAIT_S 100e-6 /* a thread takes about as long to be there */

static struct {
    const hf_dev_campaign *campaign;
    struct hf_strata strata;
    int64_t number; /* of the next fault */
    double due, interval;
    bool dry; /* nothing is struck, all else is done */
    int64_t struck, altered;
    int64_t pending[HF_OP_COUNT]; /* faults that became due while the op was at work */
    int op;                       /* that was called last, */
    double called;                /* and when */
    double lasted[HF_OP_COUNT];   /* seconds from its last call to the next one of any op */
    double looked, each;          /* when iterations were last asked for; seconds of one, about */
    int steps;                    /* that were asked for */
} stream;

/* Registers are struck when this thread says so: hooks that nothing is wanted from cost little. */
static struct {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool sleeps;        /* the thread does, until then */
    uint32_t wanted;    /* registers, */
    struct timespec at; /* from then on */
} moment = {.mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

/* The next fault of this op. The campaign's strata come in a random order. */
static bool next_fault(int op, struct hf_fault_site *site) {
    const int64_t count = stream.strata.count;
    for (int64_t tries = 0; tries < 4 * count; tries++) {
        hf_dev_injection one;
        const int64_t number = stream.number++;
        const int64_t at = (int64_t)hf_rng_permute(stream.campaign->seed, 0, (uint64_t)count,
                                                   (uint64_t)(number % count));
        if (hf_strata_fault(&stream.strata, stream.campaign, number - number % count + at, site,
                            &one) &&
            site->op == op && !site->always)
            return true;
    }
    return false;
}

/* A call is about to run, or goes on: plant what is due. False: nothing is. */
static bool rate_plant(int op, int64_t call) {
    struct hf_fault_site site;
    const double now = hf_now_s();
    while (now >= stream.due) {
        stream.pending[stream.op]++;
        stream.due += stream.interval;
    }
    stream.lasted[stream.op] = now - stream.called;
    stream.op = op;
    stream.called = now;
    if (stream.pending[op] == 0)
        return false;
    stream.pending[op]--;
    if (stream.dry || !next_fault(op, &site))
        return false;
    site.iteration = call;
    if (site.kind == HF_PLACE_REGISTER)
        site.hit = 1 + site.hit % 64;
    hf_inject_choose(&site);
    return true;
}

/* A fault whose place was not reached is followed by another one in the next call. */
static void rate_done(void) {
    stream.pending[hf_injector()->site.op] += hf_injector()->struck == 0;
    stream.struck += hf_injector()->struck;
    stream.altered += hf_injector()->altered;
}

static void *want(void *unused) {
    (void)pthread_mutex_lock(&moment.mutex);
    while (moment.sleeps &&
           pthread_cond_timedwait(&moment.wake, &moment.mutex, &moment.at) != ETIMEDOUT)
        ;
    if (moment.sleeps)
        hf_strike_wanted = moment.wanted;
    (void)pthread_mutex_unlock(&moment.mutex);
    return unused;
}

/* A call whose registers are to be struck: at some moment of the time that the last one took. */
static void rate_enter(int op, uint32_t registers) {
    const double share = hf_rng_unit(stream.campaign->seed, 1, (uint64_t)stream.number);
    const double wait_s = share * stream.lasted[op];
    (void)clock_gettime(CLOCK_REALTIME, &moment.at);
    const double ns = (double)moment.at.tv_nsec + 1e9 * wait_s;
    moment.at.tv_sec += (time_t)(ns / 1e9);
    moment.at.tv_nsec = (long)fmod(ns, 1e9);
    moment.wanted = registers;
    moment.sleeps = wait_s > LEAST_WAIT_S;
    if (!moment.sleeps) {
        hf_strike_wanted = registers;
        return;
    }
    if (pthread_create(&moment.thread, NULL, want, NULL) != 0) {
        moment.sleeps = false;
        hf_strike_wanted = registers;
    }
}

static void rate_leave(void) {
    (void)pthread_mutex_lock(&moment.mutex);
    const bool joins = moment.sleeps;
    moment.sleeps = false;
    (void)pthread_cond_signal(&moment.wake);
    (void)pthread_mutex_unlock(&moment.mutex);
    if (joins)
        (void)pthread_join(moment.thread, NULL);
    hf_strike_wanted = 0;
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

/* The fit with what is due. Returns its seconds. */
static double run_fit(struct hf_trial *trial, bool dry, double each, hf_dev_rate *rate) {
    const double begin = hf_now_s();
    stream.number = 0;
    stream.interval = rate->interval_s;
    stream.due = begin + rate->interval_s;
    stream.struck = stream.altered = 0;
    stream.called = begin;
    memset(stream.pending, 0, sizeof stream.pending);
    stream.each = each;
    stream.steps = 0;
    stream.dry = dry;
    hf_inject_stream(
        &(struct hf_fault_stream){rate_plant, rate_enter, rate_leave, rate_done, rate_ahead});
    rate->outcome = hf_trial_fit(trial, trial->campaign->fit->guard, &rate->counts);
    hf_inject_remove();
    return hf_now_s() - begin;
}

hf_status hf_dev_campaign_rate(const hf_dev_campaign *campaign, hf_dev_rate *rate, char *why,
                               size_t why_bytes) {
    struct hf_trial trial;
    HF_TRY(hf_trial_open(&trial, campaign, why, why_bytes));
    hf_status status = hf_trial_count(&trial, &stream.strata.visits);
    if (status == HF_OK && !hf_strata_make(campaign, &stream.strata, why, why_bytes))
        status = HF_E_ARG;
    if (status == HF_OK) {
        const int iterations = trial.clean.iterations > 0 ? trial.clean.iterations : 1;
        const double begin = hf_now_s();
        stream.campaign = campaign;
        (void)hf_trial_fit(&trial, campaign->fit->guard, NULL);
        const double each = (hf_now_s() - begin) / iterations;
        rate->clean_s = run_fit(&trial, true, each, rate);
        rate->struck_s = run_fit(&trial, false, each, rate);
        rate->struck = stream.struck;
        rate->altered = stream.altered;
    }
    hf_trial_close(&trial);
    return status;
}
