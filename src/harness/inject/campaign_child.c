/* SPDX-License-Identifier: Apache-2.0
 * The process that makes the fits of a campaign, several side by side where a device makes them:
 * each lane is a thread with a context, an injector and a copy of the rows of its own. */
#include "base/dtype.h"
#include "base/clock.h"
#include "base/mem.h"
#include "harness/inject/campaign.h"
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

struct lane {
    const struct hf_child *child;
    const struct hf_strata *strata;
    _Atomic int64_t *turn; /* of the next fault, shared */
    hf_dev_campaign asked; /* with rows of its own */
    hf_array x;
    struct hf_trial trial;
    struct hf_injector injector;
    struct hf_record record;
    pthread_t thread;
};

static void say(const struct lane *l) {
    ssize_t done;
    do
        done = write(l->child->pipe, &l->record, sizeof l->record);
    while (done < 0 && errno == EINTR);
    if (done != (ssize_t)sizeof l->record)
        _exit(1); /* nobody listens any more */
}

/* A device that is lost to the process is so to all lanes: which fault it was is seen when each is
 * made alone. */
static void leave_if_lost(const struct lane *l) {
    if (l->child->lanes > 1 && l->trial.status == HF_E_DEVICE)
        _exit(1);
}

/* The fit without protection, unless it is known to die of the fault. */
static void run_plain(struct lane *l, const struct hf_fault_site *site) {
    hf_dev_injection *one = &l->record.one;
    if (l->child->died == one->number) {
        one->off = l->child->how;
        one->proof = (hf_dev_fault_proof){1, 1, 1};
    } else {
        one->off = hf_trial_fault(&l->trial, site, HF_GUARD_OFF, &one->proof, NULL);
        leave_if_lost(l);
    }
    l->record.said = HF_SAID_HALF;
    say(l);
}

static void run_fault(struct lane *l, const struct hf_fault_site *site) {
    struct hf_trial *trial = &l->trial;
    const hf_guard guard = l->asked.fit->guard;
    hf_dev_injection *one = &l->record.one;
    hf_dev_fault_proof proof;
    one->unit = one->lane = -1;
    const double begin = hf_now_s();
    run_plain(l, site);
    bool clean = !hf_dev_outcome_matters((int)one->off);
    if (guard != HF_GUARD_OFF) {
        one->guarded = hf_trial_fault(trial, site, guard, &proof, &one->counts);
        leave_if_lost(l);
        one->kind = (hf_fault_kind)trial->kind;
        one->unit = trial->unit;
        one->lane = trial->lane;
        clean = clean &&
                (!hf_dev_outcome_matters((int)one->guarded) || one->guarded == HF_DEV_CORRECTED);
    }
    one->seconds = hf_now_s() - begin;
    l->record.said = clean || hf_trial_sound(trial) ? HF_SAID_ENDED : HF_SAID_UNSOUND;
}

/* The one fault of a line of text. */
static void run_line(struct lane *l) {
    struct hf_record *r = &l->record;
    struct hf_fault_site site;
    if (!hf_fault_parse(l->asked.line, &site, r->text, sizeof r->text)) {
        r->said = HF_SAID_FAILED;
        r->status = HF_E_ARG;
        say(l);
        return;
    }
    r->said = HF_SAID_OPENED;
    r->size = (hf_dev_campaign_size){1, 1, l->trial.clean.iterations, l->trial.clean_s};
    say(l);
    hf_inject_choose(&site);
    r->one = (hf_dev_injection){.op = hf_op_at(site.op)->name,
                                .place = hf_injector()->place.name,
                                .model = "line",
                                .bit = -1,
                                .guarded = HF_DEV_OUTCOMES};
    hf_fault_text(&site, r->one.line);
    r->said = HF_SAID_BEGINS;
    say(l);
    run_fault(l, &site);
    r->said = HF_SAID_ENDED;
    say(l);
}

/* The next fault that is not done; -1: there is none. */
static int64_t next_number(const struct lane *l) {
    const struct hf_child *c = l->child;
    const int64_t step = l->asked.shards > 1 ? l->asked.shards : 1;
    for (;;) {
        const int64_t turn = atomic_fetch_add(l->turn, 1);
        if (c->only_count > 0)
            return turn < c->only_count ? c->only[turn] : -1;
        const int64_t number = c->next + turn * step;
        if (number >= l->asked.faults)
            return -1;
        if (!hf_fault_is_done(c->done, number) &&
            !(l->asked.known && l->asked.known(l->asked.user, number)))
            return number;
    }
}

static void run_faults(struct lane *l) {
    int64_t number;
    while ((number = next_number(l)) >= 0) {
        struct hf_fault_site site;
        if (!hf_strata_fault(l->strata, &l->asked, number, &site, &l->record.one))
            continue;
        l->record.said = HF_SAID_BEGINS;
        say(l);
        run_fault(l, &site);
        say(l);
        if (l->record.said == HF_SAID_UNSOUND)
            return;
    }
}

/* Rows that are struck must be nobody else's. */
static bool take_rows(struct lane *l) {
    const hf_array *x = l->child->asked->x;
    const int64_t stride = x->row_stride ? x->row_stride : x->cols;
    const size_t bytes = (size_t)((x->rows - 1) * stride + x->cols) * hf_dtype_bytes(x->dtype);
    l->x = *x;
    l->x.data = hf_alloc(bytes);
    if (l->x.data)
        memcpy(l->x.data, x->data, bytes);
    l->asked.x = &l->x;
    return l->x.data != NULL;
}

static hf_status open_lane(struct lane *l) {
    struct hf_record *r = &l->record;
    hf_inject_own(&l->injector);
    if (take_rows(l))
        return hf_trial_open(&l->trial, &l->asked, r->text, sizeof r->text);
    (void)snprintf(r->text, sizeof r->text, "no memory for the rows of a fit beside others");
    return HF_E_NOMEM;
}

static void *run_lane(void *user) {
    struct lane *l = user;
    l->record.status = open_lane(l);
    if (l->record.status == HF_OK) {
        run_faults(l);
        return NULL;
    }
    leave_if_lost(l);
    l->record.said = HF_SAID_FAILED;
    say(l);
    return NULL;
}

/* The others, beside the first. */
static void run_beside(struct lane *first) {
    const int count = first->child->lanes - 1;
    struct lane *lane = hf_alloc_zero((size_t)count * sizeof *lane);
    int begun = 0;
    for (int i = 0; lane && i < count; i++) {
        lane[i].child = first->child;
        lane[i].strata = first->strata;
        lane[i].turn = first->turn;
        lane[i].asked = *first->child->asked;
        lane[i].record.lane = i + 1;
        if (pthread_create(&lane[i].thread, NULL, run_lane, &lane[i]) != 0)
            break;
        begun++;
    }
    run_faults(first);
    for (int i = 0; i < begun; i++)
        (void)pthread_join(lane[i].thread, NULL);
}

/* The visits are taken in every child: they are the same, and a fit is short. */
static void run_all(const struct hf_child *child) {
    static struct lane first;
    static struct hf_strata strata;
    static _Atomic int64_t turn;
    struct hf_record *r = &first.record;
    first.child = child;
    first.strata = &strata;
    first.turn = &turn;
    first.asked = *child->asked;
    if (child->lanes > 1)
        r->status = open_lane(&first);
    else
        r->status = hf_trial_open(&first.trial, &first.asked, r->text, sizeof r->text);
    if (r->status == HF_OK && child->asked->line) {
        run_line(&first);
        return;
    }
    if (r->status == HF_OK)
        r->status = hf_trial_count(&first.trial, &strata.visits);
    if (r->status == HF_OK && !hf_strata_make(child->asked, &strata, r->text, sizeof r->text))
        r->status = HF_E_ARG;
    r->said = r->status == HF_OK ? HF_SAID_OPENED : HF_SAID_FAILED;
    r->size = (hf_dev_campaign_size){strata.count, strata.sites, first.trial.clean.iterations,
                                     first.trial.clean_s};
    say(&first);
    if (r->status != HF_OK)
        return;
    if (child->lanes > 1)
        run_beside(&first);
    else
        run_faults(&first);
}

/* Messages of sanitizers and of the C library about wild writes are no news. */
void hf_child_run(const struct hf_child *child) {
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}; /* nobody else's */
    const struct rlimit none = {0, 0};
    const int null = open("/dev/null", O_WRONLY);
#ifdef M_PERTURB
    (void)mallopt(M_PERTURB, 0x5a); /* what nobody wrote is the same in every child */
#endif
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_DFL);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        (void)signal(deadly[i], SIG_DFL);
    if (null >= 0)
        (void)dup2(null, STDERR_FILENO);
    run_all(child);
    _exit(0);
}
