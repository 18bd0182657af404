/* SPDX-License-Identifier: Apache-2.0
 * A campaign: child processes make the fits, because faults may kill them or keep them busy for
 * ever; each makes as many as it survives. What a child says goes through a pipe in records of one
 * write, so that it is known which fault was its last. */
#include "base/clock.h"
#include "harness/inject/campaign.h"
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPEN_S 600.0 /* that a child may take before its first fault */
#define LOOK_MS 100  /* between two looks whether to stop */

enum said {
    SAID_OPENED, /* size is set */
    SAID_FAILED, /* status and text are */
    SAID_BEGINS, /* one.number and one.line are */
    SAID_HALF,   /* one.off is: the protected fit follows */
    SAID_ENDED,  /* one is */
    SAID_UNSOUND /* one is, and the child is of no use any more */
};

struct record {
    enum said said;
    hf_status status;
    char text[300];
    hf_dev_campaign_size size;
    hf_dev_injection one;
};

_Static_assert(sizeof(struct record) <= 4096, "a write of it to a pipe must not be cut");

struct campaign {
    const hf_dev_campaign *asked;
    int64_t next; /* number of the next fault */
    double limit_s;
    pid_t child;
    int pipe;
    hf_dev_injection now; /* that the child is at; number -1: none */
    bool half;            /* its outcome without protection is known */
    int64_t died;       /* number of the fault that killed a child without protection, -1: none; */
    hf_dev_outcome how; /* that is its outcome, and the protected fit is made in another child */
    hf_dev_campaign_size size;
    char *why;
    size_t why_bytes;
};

/* ---- the child */

static void say(int pipe, const struct record *r) {
    ssize_t done;
    do
        done = write(pipe, r, sizeof *r);
    while (done < 0 && errno == EINTR);
    if (done != (ssize_t)sizeof *r)
        _exit(1); /* nobody listens any more */
}

/* The fit without protection, unless it is known to die of the fault. */
static void run_plain(const struct campaign *c, struct hf_trial *trial,
                      const struct hf_fault_site *site, struct record *r) {
    hf_dev_injection *one = &r->one;
    if (c->died == one->number) {
        one->off = c->how;
        one->proof = (hf_dev_fault_proof){1, 1, 1};
    } else {
        one->off = hf_trial_fault(trial, site, HF_GUARD_OFF, &one->proof, NULL);
    }
    r->said = SAID_HALF;
    say(c->pipe, r);
}

static void run_fault(const struct campaign *c, struct hf_trial *trial,
                      const struct hf_fault_site *site, struct record *r) {
    const hf_guard guard = trial->campaign->fit->guard;
    hf_dev_injection *one = &r->one;
    hf_dev_fault_proof proof;
    one->unit = one->lane = -1;
    const double begin = hf_now_s();
    run_plain(c, trial, site, r);
    bool clean = !hf_dev_outcome_matters((int)one->off);
    if (guard != HF_GUARD_OFF) {
        one->guarded = hf_trial_fault(trial, site, guard, &proof, &one->counts);
        one->kind = (hf_fault_kind)trial->kind;
        one->unit = trial->unit;
        one->lane = trial->lane;
        clean = clean &&
                (!hf_dev_outcome_matters((int)one->guarded) || one->guarded == HF_DEV_CORRECTED);
    }
    one->seconds = hf_now_s() - begin;
    r->said = clean || hf_trial_sound(trial) ? SAID_ENDED : SAID_UNSOUND;
}

/* The one fault of a line of text. */
static void run_line(const struct campaign *c, struct hf_trial *trial, struct record *r) {
    const int pipe = c->pipe;
    struct hf_fault_site site;
    struct hf_place place;
    if (!hf_fault_parse(trial->campaign->line, &site, r->text, sizeof r->text)) {
        r->said = SAID_FAILED;
        r->status = HF_E_ARG;
        say(pipe, r);
        return;
    }
    r->said = SAID_OPENED;
    r->size = (hf_dev_campaign_size){1, 1, trial->clean.iterations, trial->clean_s};
    say(pipe, r);
    hf_inject_choose(&site);
    place = hf_injector.place;
    r->one = (hf_dev_injection){.op = hf_op_at(site.op)->name,
                                .place = place.name,
                                .model = "line",
                                .bit = -1,
                                .guarded = HF_DEV_OUTCOMES};
    hf_fault_text(&site, r->one.line);
    r->said = SAID_BEGINS;
    say(pipe, r);
    run_fault(c, trial, &site, r);
    r->said = SAID_ENDED;
    say(pipe, r);
}

/* The visits are taken in every child: they are the same, and a fit is short. */
static void run_child(const struct campaign *c) {
    const int pipe = c->pipe;
    static struct hf_trial trial;
    static struct hf_strata strata;
    static struct record r;
    const hf_dev_campaign *asked = c->asked;
    const int64_t step = asked->shards > 1 ? asked->shards : 1;
    r.said = SAID_FAILED;
    r.status = hf_trial_open(&trial, asked, r.text, sizeof r.text);
    if (r.status == HF_OK && asked->line) {
        run_line(c, &trial, &r);
        return;
    }
    if (r.status == HF_OK)
        r.status = hf_trial_count(&trial, &strata.visits);
    if (r.status == HF_OK && !hf_strata_make(asked, &strata, r.text, sizeof r.text))
        r.status = HF_E_ARG;
    if (r.status == HF_OK) {
        r.said = SAID_OPENED;
        r.size = (hf_dev_campaign_size){strata.count, strata.sites, trial.clean.iterations,
                                        trial.clean_s};
    }
    say(pipe, &r);
    if (r.status != HF_OK)
        return;
    for (int64_t number = c->next; number < asked->faults; number += step) {
        struct hf_fault_site site;
        if ((asked->known && asked->known(asked->user, number)) ||
            !hf_strata_fault(&strata, asked, number, &site, &r.one))
            continue;
        r.said = SAID_BEGINS;
        say(pipe, &r);
        run_fault(c, &trial, &site, &r);
        say(pipe, &r);
        if (r.said == SAID_UNSOUND)
            return;
    }
}

/* Messages of sanitizers and of the C library about wild writes are no news. */
static void be_child(const struct campaign *c) {
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
    run_child(c);
    _exit(0);
}

/* ---- the parent */

static hf_status begin_child(struct campaign *c) {
    int ends[2];
    if (pipe(ends) != 0) {
        (void)snprintf(c->why, c->why_bytes, "no pipe: %s", strerror(errno));
        return HF_E_NOMEM;
    }
    c->child = fork();
    if (c->child < 0) {
        (void)snprintf(c->why, c->why_bytes, "no child process: %s", strerror(errno));
        (void)close(ends[0]);
        (void)close(ends[1]);
        return HF_E_NOMEM;
    }
    if (c->child == 0) {
        (void)close(ends[0]);
        c->pipe = ends[1];
        be_child(c);
    }
    (void)close(ends[1]);
    c->pipe = ends[0];
    c->now.number = -1;
    c->half = false;
    return HF_OK;
}

static void end_child(struct campaign *c) {
    (void)kill(c->child, SIGKILL);
    (void)close(c->pipe);
    while (waitpid(c->child, NULL, 0) < 0 && errno == EINTR) {
    }
    c->child = 0;
}

enum heard { HEARD_RECORD, HEARD_END, HEARD_NOTHING, HEARD_STOP };

/* The next record; nothing after so many seconds. */
static enum heard hear(const struct campaign *c, double seconds, struct record *r) {
    const double begin = hf_now_s();
    size_t used = 0;
    for (;;) {
        struct pollfd look = {.fd = c->pipe, .events = POLLIN};
        const int ready = poll(&look, 1, LOOK_MS);
        if (c->asked->stop && c->asked->stop(c->asked->user))
            return HEARD_STOP;
        if (ready > 0) {
            const ssize_t got = read(c->pipe, (char *)r + used, sizeof *r - used);
            if (got == 0)
                return HEARD_END;
            used += got > 0 ? (size_t)got : 0;
            if (used == sizeof *r)
                return HEARD_RECORD;
        } else if (hf_now_s() - begin > seconds) {
            return HEARD_NOTHING;
        }
    }
}

/* A fault is done; true: stop. */
static bool take(struct campaign *c, const hf_dev_injection *one) {
    const int64_t step = c->asked->shards > 1 ? c->asked->shards : 1;
    const bool stop = c->asked->each(c->asked->user, one) != 0;
    c->next = one->number + step;
    c->now.number = -1;
    return stop;
}

/* The child died or hangs. Before its first fault that is a failure; else the outcome of the fit
 * that it was at: if that was the one without protection, the protected one is still to be made. */
static hf_status lose(struct campaign *c, hf_dev_outcome outcome, bool *stop) {
    if (c->now.number < 0) {
        (void)snprintf(c->why, c->why_bytes, "the fit without faults %s",
                       outcome == HF_DEV_HANG ? "does not end" : "killed its process");
        return HF_E_CORRUPT;
    }
    const bool guarded = c->asked->fit->guard != HF_GUARD_OFF;
    if (!c->half && guarded) {
        c->died = c->now.number;
        c->how = outcome;
        return HF_OK;
    }
    if (guarded)
        c->now.guarded = outcome;
    else if (!c->half)
        c->now.off = outcome;
    c->now.proof = (hf_dev_fault_proof){1, 1, 1};
    c->now.unit = c->now.lane = -1;
    *stop = take(c, &c->now);
    return HF_OK;
}

static void set_limit(struct campaign *c) {
    const double usual = 50 * c->size.seconds > 2 ? 50 * c->size.seconds : 2;
    c->limit_s = c->asked->limit_s > 0 ? c->asked->limit_s : usual;
}

/* What one child has to say. *ended: it did all that there was. */
static hf_status listen(struct campaign *c, bool *ended, bool *stop) {
    static struct record r;
    c->limit_s = OPEN_S;
    while (!*stop) {
        switch (hear(c, 3 * c->limit_s, &r)) {
        case HEARD_STOP:
            *stop = true;
            return HF_OK;
        case HEARD_NOTHING:
            return lose(c, HF_DEV_HANG, stop);
        case HEARD_END:
            *ended = c->now.number < 0 && c->size.strata > 0;
            return *ended ? HF_OK : lose(c, HF_DEV_CRASH, stop);
        case HEARD_RECORD:
            break;
        }
        if (r.said == SAID_FAILED) {
            (void)snprintf(c->why, c->why_bytes, "%s", r.text);
            return r.status;
        }
        if (r.said == SAID_OPENED) {
            if (c->asked->begun && c->size.strata == 0)
                c->asked->begun(c->asked->user, &r.size);
            c->size = r.size;
            set_limit(c);
        } else if (r.said == SAID_BEGINS || r.said == SAID_HALF) {
            c->now = r.one;
            c->half = r.said == SAID_HALF;
        } else {
            *stop = take(c, &r.one);
            if (r.said == SAID_UNSOUND)
                return HF_OK;
        }
    }
    return HF_OK;
}

hf_status hf_dev_campaign_run(const hf_dev_campaign *campaign, hf_dev_campaign_size *size,
                              char *why, size_t why_bytes) {
    struct campaign c = {.asked = campaign,
                         .next = campaign->shards > 1 ? campaign->shard : 0,
                         .died = -1,
                         .why = why,
                         .why_bytes = why_bytes};
    bool ended = false;
    bool stop = false;
    hf_status status = HF_OK;
    while (status == HF_OK && !ended && !stop) {
        status = begin_child(&c);
        if (status != HF_OK)
            break;
        status = listen(&c, &ended, &stop);
        end_child(&c);
        if (size)
            *size = c.size;
    }
    return status;
}
