/* SPDX-License-Identifier: Apache-2.0
 * A campaign: child processes make the fits, because faults may kill them or keep them busy for
 * ever; each makes as many as it survives. What a child says goes through a pipe in records of one
 * write, so that it is known which faults were its last. Of fits side by side each that was under
 * way when the child died is made once more alone, and so is each that stayed silent: another one
 * may have written into its memory. */
#include "base/clock.h"
#include "base/mem.h"
#include "harness/inject/campaign.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPEN_S 600.0 /* that a child may take before its first fault */
#define LOOK_MS 100  /* between two looks whether to stop */
#define ALONE_MOST 256

/* What a lane of the child is at. */
struct at_work {
    hf_dev_injection one; /* number -1: nothing */
    bool half;            /* its outcome without protection is known */
};

struct campaign {
    const hf_dev_campaign *asked;
    double limit_s;
    pid_t child;
    int pipe;
    struct hf_child task;
    struct at_work lane[HF_LANES_MOST];
    int64_t alone[ALONE_MOST];         /* faults to be made without others beside them, */
    hf_dev_injection seen[ALONE_MOST]; /* and what became of them; number -1: not known */
    int alone_count;
    bool over;           /* all others are made */
    unsigned char *done; /* those as well */
    hf_dev_campaign_size size;
    char *why;
    size_t why_bytes;
};

static int64_t step_of(const hf_dev_campaign *asked) {
    return asked->shards > 1 ? asked->shards : 1;
}

/* What the next child is to do. */
static void set_task(struct campaign *c) {
    const int lanes = c->asked->at_once > 1 && !c->asked->line ? c->asked->at_once : 1;
    const bool alone = c->over || c->alone_count > ALONE_MOST - HF_LANES_MOST;
    while (c->task.next < c->asked->faults && hf_fault_is_done(c->done, c->task.next))
        c->task.next += step_of(c->asked);
    c->task.lanes = alone ? 1 : lanes < HF_LANES_MOST ? lanes : HF_LANES_MOST;
    c->task.only = c->alone;
    c->task.only_count = alone ? c->alone_count : 0;
}

static hf_status begin_child(struct campaign *c) {
    int ends[2];
    if (pipe(ends) != 0) {
        (void)snprintf(c->why, c->why_bytes, "no pipe: %s", strerror(errno));
        return HF_E_NOMEM;
    }
    set_task(c);
    c->child = fork();
    if (c->child < 0) {
        (void)snprintf(c->why, c->why_bytes, "no child process: %s", strerror(errno));
        (void)close(ends[0]);
        (void)close(ends[1]);
        return HF_E_NOMEM;
    }
    if (c->child == 0) {
        (void)close(ends[0]);
        c->task.pipe = ends[1];
        hf_child_run(&c->task);
    }
    (void)close(ends[1]);
    c->pipe = ends[0];
    for (int i = 0; i < HF_LANES_MOST; i++)
        c->lane[i] = (struct at_work){.one.number = -1};
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
static enum heard hear(const struct campaign *c, double seconds, struct hf_record *r) {
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

static void mark_done(struct campaign *c, int64_t number) {
    c->done[number / 8] |= (unsigned char)(1 << number % 8);
}

/* A fault is done; true: stop. */
static bool take(struct campaign *c, int lane, const hf_dev_injection *one) {
    const int64_t number = one->number;
    const bool stop = c->asked->each(c->asked->user, one) != 0;
    int left = 0;
    mark_done(c, number);
    c->lane[lane].one.number = -1;
    for (int i = 0; i < c->alone_count; i++) {
        if (c->alone[i] == number)
            continue;
        c->alone[left] = c->alone[i];
        c->seen[left++] = c->seen[i];
    }
    c->alone_count = left;
    return stop;
}

/* A fault is to be made alone; seen: what became of it beside others, or NULL. */
static void put_aside(struct campaign *c, int lane, const hf_dev_injection *seen) {
    const int64_t number = c->lane[lane].one.number;
    c->alone[c->alone_count] = number;
    c->seen[c->alone_count].number = -1;
    if (seen)
        c->seen[c->alone_count] = *seen;
    c->alone_count++;
    mark_done(c, number);
    c->lane[lane].one.number = -1;
}

static int count_at_work(const struct campaign *c) {
    int count = 0;
    for (int i = 0; i < HF_LANES_MOST; i++)
        count += c->lane[i].one.number >= 0;
    return count;
}

/* The one fault that a child was at when it died or hung: the outcome of the fit that it was at. If
 * that was the one without protection, the protected one is still to be made. */
static void lose_one(struct campaign *c, hf_dev_outcome outcome, bool *stop) {
    struct at_work *at = &c->lane[0];
    const bool guarded = c->asked->fit->guard != HF_GUARD_OFF;
    if (!at->half && guarded) {
        c->task.died = at->one.number;
        c->task.how = outcome;
        return;
    }
    if (guarded)
        at->one.guarded = outcome;
    else if (!at->half)
        at->one.off = outcome;
    at->one.proof = (hf_dev_fault_proof){1, 1, 1};
    at->one.unit = at->one.lane = -1;
    *stop = take(c, 0, &at->one);
}

/* The child died or hangs; before its first fault that is a failure. */
static hf_status lose(struct campaign *c, hf_dev_outcome outcome, bool *stop) {
    if (count_at_work(c) == 0) {
        (void)snprintf(c->why, c->why_bytes, "the fit without faults %s",
                       outcome == HF_DEV_HANG ? "does not end" : "killed its process");
        return HF_E_CORRUPT;
    }
    if (c->task.lanes == 1) {
        lose_one(c, outcome, stop);
        return HF_OK;
    }
    for (int i = 0; i < HF_LANES_MOST; i++)
        if (c->lane[i].one.number >= 0)
            put_aside(c, i, NULL);
    return HF_OK;
}

static void set_limit(struct campaign *c) {
    const double usual = 50 * c->size.seconds > 2 ? 50 * c->size.seconds : 2;
    c->limit_s = c->asked->limit_s > 0 ? c->asked->limit_s : usual;
}

/* A record of a fault. *ended: the child is of no use any more. */
static void hear_of_fault(struct campaign *c, const struct hf_record *r, bool *ended, bool *stop) {
    if (r->said == HF_SAID_BEGINS || r->said == HF_SAID_HALF) {
        c->lane[r->lane] = (struct at_work){r->one, r->said == HF_SAID_HALF};
        return;
    }
    *ended = r->said == HF_SAID_UNSOUND;
    if (c->task.lanes > 1 && r->one.guarded == HF_DEV_SILENT &&
        c->alone_count < ALONE_MOST - HF_LANES_MOST)
        put_aside(c, r->lane, &r->one);
    else
        *stop = take(c, r->lane, &r->one);
}

/* What one child has to say. *all: it did all that there was for it. */
static hf_status listen(struct campaign *c, bool *all, bool *stop) {
    static struct hf_record r;
    bool opened = false, ended = false;
    c->limit_s = OPEN_S;
    while (!*stop && !ended) {
        switch (hear(c, 3 * c->limit_s, &r)) {
        case HEARD_STOP:
            *stop = true;
            return HF_OK;
        case HEARD_NOTHING:
            return lose(c, HF_DEV_HANG, stop);
        case HEARD_END:
            *all = opened && count_at_work(c) == 0;
            return *all ? HF_OK : lose(c, HF_DEV_CRASH, stop);
        case HEARD_RECORD:
            break;
        }
        if (r.said == HF_SAID_FAILED) {
            (void)snprintf(c->why, c->why_bytes, "%s", r.text);
            return r.status;
        }
        if (r.said == HF_SAID_OPENED) {
            if (c->asked->begun && c->size.strata == 0)
                c->asked->begun(c->asked->user, &r.size);
            c->size = r.size;
            opened = true;
            set_limit(c);
        } else {
            hear_of_fault(c, &r, &ended, stop);
        }
    }
    return HF_OK;
}

/* Who stops early counts what was seen. */
static void take_seen(struct campaign *c) {
    for (int i = c->alone_count - 1; i >= 0; i--)
        if (c->seen[i].number >= 0)
            (void)c->asked->each(c->asked->user, &c->seen[i]);
}

static hf_status run_children(struct campaign *c) {
    bool ended = false;
    bool stop = false;
    hf_status status = HF_OK;
    while (status == HF_OK && !ended && !stop) {
        bool all = false;
        status = begin_child(c);
        if (status != HF_OK)
            break;
        status = listen(c, &all, &stop);
        end_child(c);
        c->over |= all && c->task.only_count == 0;
        ended = c->over && c->alone_count == 0;
    }
    if (stop)
        take_seen(c);
    return status;
}

hf_status hf_dev_campaign_run(const hf_dev_campaign *campaign, hf_dev_campaign_size *size,
                              char *why, size_t why_bytes) {
    struct campaign *c = hf_alloc_zero(sizeof *c);
    unsigned char *done = hf_alloc_zero((size_t)campaign->faults / 8 + 1);
    hf_status status = HF_E_NOMEM;
    (void)snprintf(why, why_bytes, "no memory for a list of the faults that are done");
    if (c && done) {
        why[0] = '\0';
        c->asked = campaign;
        c->done = done;
        c->task = (struct hf_child){.asked = campaign,
                                    .next = campaign->shards > 1 ? campaign->shard : 0,
                                    .done = done,
                                    .died = -1};
        c->why = why;
        c->why_bytes = why_bytes;
        status = run_children(c);
        if (size)
            *size = c->size;
    }
    hf_free(done);
    hf_free(c);
    return status;
}
