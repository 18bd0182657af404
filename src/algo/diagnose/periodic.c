/* SPDX-License-Identifier: Apache-2.0
 * The periodic test: every kernel that computes products here, on each pattern and core. */
#include "algo/diagnose/pattern.h"
#include "base/affinity.h"
#include "base/clock.h"
#include "core/part.h"
#include <holdfast/diagnose.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MOST_CORES 4096
#define LIMIT_S 1 /* most that other multiprocessors are held for one */

struct diagnosis {
    const hf_diagnose_opts *opts;
    hf_context *ctx;
    struct hf_pin *pin; /* of a GPU; NULL: the CPU is tested */
    const char *unit;   /* "core" */
    int core[MOST_CORES];
    int cores;
    double start_s;
};

const char *hf_verdict_text(hf_verdict verdict) {
    return verdict == HF_VERDICT_PASS ? "pass" : verdict == HF_VERDICT_FAIL ? "fail" : "not run";
}

/* A part that is not passed. Only the first is described, but a failure rather than what did not
 * run. */
static void note(hf_diagnosis *test, hf_verdict verdict, int core, const char *kernel,
                 const char *text) {
    const bool worse = verdict == HF_VERDICT_FAIL && test->failed == 0;
    test->failed += verdict == HF_VERDICT_FAIL;
    if (test->text[0] != '\0' && !worse)
        return;
    test->core = core;
    (void)snprintf(test->kernel, sizeof test->kernel, "%s", kernel);
    (void)snprintf(test->text, sizeof test->text, "%s", text);
}

static void run_part(struct diagnosis *d, hf_diagnosis *test, const struct hf_kernel *kernel,
                     int probe, int pattern, int core) {
    struct hf_probe_value got = {0, 0};
    char text[200];
    const struct hf_probe_value want = hf_probe_golden(probe, pattern);
    const bool plant = d->opts->plant - 1 == core && probe == 0 && pattern == 0;
    test->parts++;
    if (hf_probe_run(d->ctx, probe, pattern, kernel, plant, &got) != HF_OK) {
        (void)snprintf(text, sizeof text, "kernel %s did not run on %s %d: %.100s", kernel->name,
                       d->unit, core, hf_last_error(d->ctx));
        note(test, HF_VERDICT_NOT_RUN, core, kernel->name, text);
    } else if (got.c != want.c || got.signature != want.signature) {
        (void)snprintf(text, sizeof text,
                       "%s %d computes wrongly: kernel %s, pattern %d: signature %08x of %s, %08x "
                       "was to come; take it out of service",
                       d->unit, core, kernel->name, pattern,
                       got.c != want.c ? got.c : got.signature,
                       got.c != want.c ? "the product" : "its operands",
                       got.c != want.c ? want.c : want.signature);
        note(test, HF_VERDICT_FAIL, core, kernel->name, text);
    } else {
        test->passed++;
    }
}

/* All kernels of the machine on all patterns. */
static void run_core(struct diagnosis *d, hf_diagnosis *test, int core) {
    for (int probe = 0; probe < HF_PROBES; probe++) {
        const struct hf_kernel *kernel;
        for (int i = 0; (kernel = hf_kernel_at((int)hf_probe_op(probe), i)) != NULL; i++) {
            if (kernel->device != d->ctx->device->id ||
                !hf_kernel_runs_on(kernel, &d->ctx->props, NULL, 0) ||
                !hf_probe_takes(probe, kernel, &d->ctx->props))
                continue;
            for (int pattern = 0; pattern < HF_PATTERNS; pattern++)
                run_part(d, test, kernel, probe, pattern, core);
        }
    }
}

/* What a core, or a multiprocessor while all others are held, is. */
static bool enter(struct diagnosis *d, int core, struct hf_affinity *before) {
    return d->pin != NULL ? hf_part_begin(d->ctx, d->pin, core, 1, LIMIT_S) == HF_OK
                          : hf_affinity_enter(core, before);
}

static bool leave(struct diagnosis *d, const struct hf_affinity *before) {
    bool kept = true;
    if (d->pin == NULL)
        hf_affinity_leave(before);
    else if (hf_part_end(d->ctx, d->pin, &kept) != HF_OK)
        return false;
    return kept;
}

static void test_core(struct diagnosis *d, hf_diagnosis *test, int core) {
    struct hf_affinity before;
    char text[100];
    const bool entered = enter(d, core, &before);
    if (entered) {
        run_core(d, test, core);
        test->cores++;
    }
    if (entered && leave(d, &before))
        return;
    (void)snprintf(text, sizeof text, "%s %d was not tested: %s", d->unit, core,
                   d->pin != NULL ? "the others could not be held"
                                  : "this process cannot be moved to it");
    test->parts++;
    note(test, HF_VERDICT_NOT_RUN, core, "", text);
}

static void run_test(struct diagnosis *d, hf_diagnosis *test) {
    const double begin = hf_now_s();
    test->begin_s = begin - d->start_s;
    test->core = -1;
    test->verdict = HF_VERDICT_NOT_RUN;
    for (int c = 0; c < d->cores; c++)
        test_core(d, test, d->core[c]);
    test->seconds = hf_now_s() - begin;
    if (test->failed > 0)
        test->verdict = HF_VERDICT_FAIL;
    else if (test->parts > 0 && test->passed == test->parts)
        test->verdict = HF_VERDICT_PASS;
}

/* A test that is not done when the next is due proves nothing for this interval. */
static void judge_time(const hf_diagnose_opts *opts, hf_diagnosis *test, double due_s) {
    const double end = test->begin_s + test->seconds - due_s;
    if (opts->interval_s <= 0 || end <= opts->interval_s || test->verdict != HF_VERDICT_PASS)
        return;
    test->verdict = HF_VERDICT_NOT_RUN;
    (void)snprintf(test->text, sizeof test->text,
                   "the test ended %.3g s after it was due, which is later than the interval of "
                   "%.3g s: test less often, or give the test more time",
                   end, opts->interval_s);
}

/* False if told to end. */
static bool wait_until(const hf_diagnose_opts *opts, double when_s) {
    double left;
    while ((left = when_s - hf_now_s()) > 0) {
        const double nap = left < 0.1 ? left : 0.1;
        const struct timespec t = {0, (long)(nap * 1e9)};
        (void)nanosleep(&t, NULL);
        if (opts->waiting != NULL && opts->waiting(opts->user) != 0)
            return false;
    }
    return true;
}

static hf_status status_of(const hf_diagnosis *last) {
    return last->verdict == HF_VERDICT_PASS   ? HF_OK
           : last->verdict == HF_VERDICT_FAIL ? HF_E_CORRUPT
                                              : HF_E_CANCELLED;
}

static hf_status test_all(struct diagnosis *d, hf_diagnosis *last) {
    const hf_diagnose_opts *opts = d->opts;
    const int64_t tests = opts->tests > 0 || opts->interval_s > 0 ? opts->tests : 1;
    hf_diagnosis bad = {.verdict = HF_VERDICT_PASS};
    bool end = false;
    d->start_s = hf_now_s();
    for (int64_t number = 1; !end && (tests == 0 || number <= tests); number++) {
        const double due = (double)(number - 1) * opts->interval_s;
        if (!wait_until(opts, d->start_s + due))
            break;
        *last = (hf_diagnosis){.number = number};
        run_test(d, last);
        judge_time(opts, last, due);
        if (last->verdict != HF_VERDICT_PASS) {
            bad = *last;
            end = opts->safe_state != NULL && opts->safe_state(opts->user, last) != 0;
            end = end || !opts->go_on;
        }
        if (opts->report != NULL && opts->report(opts->user, last) != 0)
            end = true;
    }
    if (bad.verdict != HF_VERDICT_PASS)
        *last = bad;
    return status_of(last);
}

static hf_status choose_cores(struct diagnosis *d, hf_diagnosis *last) {
    const hf_diagnose_opts *opts = d->opts;
    if (opts->cores != NULL) {
        d->cores = opts->core_count;
        if (d->cores < 1 || d->cores > MOST_CORES) {
            (void)snprintf(last->text, sizeof last->text,
                           "nothing was tested: a list of 1 to %d cores is needed", MOST_CORES);
            return HF_E_ARG;
        }
        memcpy(d->core, opts->cores, (size_t)d->cores * sizeof *d->core);
        return HF_OK;
    }
    d->cores = d->pin != NULL ? d->ctx->props.sms : hf_affinity_cores(d->core, MOST_CORES);
    d->cores = d->cores < MOST_CORES ? d->cores : MOST_CORES;
    for (int c = 0; d->pin != NULL && c < d->cores; c++)
        d->core[c] = c;
    if (d->cores < 1) {
        (void)snprintf(last->text, sizeof last->text,
                       "nothing was tested: the system does not say which cores there are");
        return HF_E_UNSUPPORTED;
    }
    return HF_OK;
}

/* A fault that nobody meets would prove nothing. */
static hf_status check_plant(const struct diagnosis *d, hf_diagnosis *last) {
    for (int c = 0; c < d->cores; c++)
        if (d->opts->plant == 0 || d->core[c] == d->opts->plant - 1)
            return HF_OK;
    (void)snprintf(last->text, sizeof last->text,
                   "nothing was tested: %s %d, where a fault is to be planted, is none of those "
                   "to be tested",
                   d->unit, d->opts->plant - 1);
    return HF_E_ARG;
}

/* On a GPU everything runs once on the whole device: kernels must be loaded before others are held.
 */
static hf_status open_device(struct diagnosis *d, hf_diagnosis *last) {
    const char *device = d->opts->device;
    const bool gpu = device != NULL && strcmp(device, "cpu") != 0;
    const hf_context_opts opts = {.device = gpu ? device : "cpu", .threads = 1};
    hf_status status = hf_context_create(&d->ctx, &opts);
    d->unit = gpu ? "multiprocessor" : "core";
    if (status == HF_OK && gpu)
        status = hf_part_open(d->ctx, &d->pin);
    if (status != HF_OK)
        (void)snprintf(last->text, sizeof last->text, "nothing was tested: %.150s",
                       hf_last_error(d->ctx));
    hf_diagnosis first = {.verdict = HF_VERDICT_NOT_RUN};
    if (status == HF_OK && gpu)
        run_core(d, &first, -1);
    return status;
}

hf_status hf_diagnose(const hf_diagnose_opts *opts, hf_diagnosis *last) {
    static const hf_diagnose_opts defaults = {.tests = 1};
    struct diagnosis d = {.opts = opts != NULL ? opts : &defaults};
    *last = (hf_diagnosis){.verdict = HF_VERDICT_NOT_RUN, .core = -1};
    if (!(d.opts->interval_s >= 0) || d.opts->interval_s > 1e9 || d.opts->tests < 0) {
        (void)snprintf(last->text, sizeof last->text,
                       "nothing was tested: interval and number of tests must not be negative");
        return HF_E_ARG;
    }
    hf_status status = open_device(&d, last);
    if (status == HF_OK)
        status = choose_cores(&d, last);
    if (status == HF_OK)
        status = check_plant(&d, last);
    if (status == HF_OK)
        status = test_all(&d, last);
    hf_part_close(d.pin);
    hf_context_destroy(d.ctx);
    return status;
}
