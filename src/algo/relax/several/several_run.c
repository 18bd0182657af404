/* SPDX-License-Identifier: Apache-2.0
 * Iterations on all parts at once, a thread for each. Tagged: all make an iteration, meet, and go
 * on when the devices have what the others sent, so the numbers are those of one device. Free:
 * nobody waits for anybody. At some iterations a thread waits for its device and tells the squared
 * residual of its rows; from the sum of what all told last follows whether the leg is over. */
#include "algo/relax/several/several.h"
#include "algo/relax/solve.h"

#include "base/clock.h"
#include "ops/sweep/sweep.h"
#include <math.h>
#include <time.h>

#define SILENT_S 5.0     /* without a sign of life, and */
#define SILENT_TIMES 20  /* as many times as long as a look ever took: a device is lost */
#define WATCH_NS 5000000 /* from look to look of the thread that looks on */
#define AHEAD 256        /* iterations of one in free timing, before the slowest */
#define DIVERGED 1e16    /* times the squared residual at the start */
#define STALL_WINDOW 1000
#define STALL_FACTOR 0.98 /* of squares: 1 % */

static bool is_tagged(const struct hf_relax_several *s) {
    return s->relax->opts.timing == HF_TIMING_TAGGED;
}

/* ---- one iteration */

static hf_status sweep(struct hf_relax_part *part, int side) {
    const hf_relax *relax = part->several->relax;
    const bool jacobi = relax->opts.method == HF_RELAX_JACOBI;
    const struct hf_relax_probe *probe = relax->probe;
    const struct hf_sweep_args args = {.a = part->a,
                                       .inverse = part->inverse,
                                       .block_start = part->block_start,
                                       .blocks = part->blocks,
                                       .largest = relax->blocks.largest,
                                       .inner = part->inner,
                                       .k = jacobi ? 1 : relax->opts.local_sweeps,
                                       .damping = relax->damping,
                                       .b = part->b,
                                       .x = part->x[side],
                                       .x_new = part->x[1 - side],
                                       .square = part->square};
    const int times =
        probe != NULL && probe->slow > 0 && probe->slow_part == part->device ? probe->slow : 1;
    for (int i = 0; i < times; i++)
        HF_TRY(hf_queue(part->ctx, HF_OP_SWEEP, &args, &part->sweep));
    return HF_OK;
}

/* ---- the team */

static void judge(struct hf_relax_team *team, double estimate, int64_t iteration) {
    team->estimate = estimate;
    team->leave = team->leave || team->asked;
    hf_relax_note(team->column, team->before + iteration, sqrt(estimate) / team->scale);
    if (!team->tested)
        return;
    if (!(estimate <= DIVERGED * team->begin)) {
        team->stop = HF_RELAX_STOP_DIVERGED;
        team->leave = true;
    } else if (estimate <= team->target) {
        team->leave = true;
    }
    team->least = fmin(team->least, estimate);
    if (iteration - team->window_start < STALL_WINDOW)
        return;
    if (team->least > STALL_FACTOR * team->window && !team->leave) {
        team->stop = HF_RELAX_STOP_STALL;
        team->leave = true;
    }
    team->window = team->least;
    team->window_start = iteration;
}

/* The sum of what all have told last; < 0: somebody has not told anything yet. */
static double sum_seen(const struct hf_relax_several *s) {
    double sum = 0;
    for (int g = 0; g < s->count; g++) {
        if (s->part[g]->looks == 0)
            return -1;
        sum += s->part[g]->seen;
    }
    return sum;
}

/* Iterations that all have made: what one does alone gets nobody anywhere. */
static int64_t least_made(const struct hf_relax_several *s) {
    int64_t made = s->part[0]->made;
    for (int g = 1; g < s->count; g++)
        made = s->part[g]->made < made ? s->part[g]->made : made;
    return made;
}

static void live(struct hf_relax_part *part) {
    const double now = hf_now_s();
    part->longest = fmax(part->longest, now - part->life);
    part->life = now;
}

/* Tagged: wait until all are here. The last one, at a look, decides for all. */
static void meet(struct hf_relax_part *part, bool look) {
    struct hf_relax_several *s = part->several;
    struct hf_relax_team *team = &s->team;
    const int64_t meeting = team->meeting;
    if (++team->arrived == s->count) {
        team->arrived = 0;
        team->meeting++;
        if (look)
            judge(team, sum_seen(s), least_made(s));
        (void)pthread_cond_broadcast(&team->all);
        return;
    }
    part->waits = true;
    while (team->meeting == meeting && !team->broken)
        (void)pthread_cond_wait(&team->all, &team->mutex);
    part->waits = false;
    part->life = hf_now_s();
}

/* Free: the last ones told are judged. Values of any age do, so it is bounded. */
static void look_free(struct hf_relax_part *part) {
    struct hf_relax_several *s = part->several;
    struct hf_relax_team *team = &s->team;
    if (sum_seen(s) >= 0)
        judge(team, sum_seen(s), least_made(s));
    (void)pthread_cond_broadcast(&team->all);
    part->waits = true;
    while (part->made > least_made(s) + AHEAD && !team->leave && !team->broken)
        (void)pthread_cond_wait(&team->all, &team->mutex);
    part->waits = false;
    part->life = hf_now_s();
}

/* After an iteration: is there another one? square: of this look. */
static bool confer(struct hf_relax_part *part, bool look, double square) {
    struct hf_relax_several *s = part->several;
    struct hf_relax_team *team = &s->team;
    const bool tagged = is_tagged(s);
    (void)pthread_mutex_lock(&team->mutex);
    part->made++;
    if (look) {
        part->seen = square;
        part->looks++;
        live(part);
    }
    if (tagged)
        meet(part, look);
    else if (look)
        look_free(part);
    if (look)
        (void)pthread_cond_signal(&team->news);
    const bool on = !team->broken && !(look && team->leave) && part->made < team->most;
    (void)pthread_mutex_unlock(&team->mutex);
    return on;
}

/* What all have sent in this iteration is there when the device goes on. */
static hf_status follow_all(struct hf_relax_part *part) {
    const struct hf_relax_several *s = part->several;
    const struct hf_device *device = part->ctx->device;
    for (int h = 0; h < s->count && device->follow != NULL; h++)
        if (h != part->number)
            HF_TRY(device->follow(part->ctx->stream, s->part[h]->ctx->stream,
                                  2 + (int)(part->made % 2)));
    return HF_OK;
}

static hf_status mark(struct hf_relax_part *part) {
    const struct hf_device *device = part->ctx->device;
    return device->follow != NULL
               ? hf_ctx_check(part->ctx,
                              device->mark(part->ctx->stream, 2 + (int)((part->made + 1) % 2)))
               : HF_OK;
}

/* *on: there is another iteration. */
static hf_status iterate(struct hf_relax_part *part, bool *on) {
    const struct hf_relax_several *s = part->several;
    const int side = (int)(part->made % 2);
    const bool tagged = is_tagged(s), look = (part->made + 1) % HF_RELAX_LOOK == 0;
    double square = 0;
    HF_TRY(sweep(part, side));
    HF_TRY(hf_relax_send(part, 1 - side));
    if (tagged)
        HF_TRY(mark(part));
    if (look)
        HF_TRY(hf_ctx_copy(part->ctx, &square, part->square, sizeof square));
    *on = confer(part, look, square);
    if (tagged)
        HF_TRY(follow_all(part));
    return hf_relax_receive(part, 1 - side);
}

/* For experiments: a device that falls silent. */
static bool is_silent(const struct hf_relax_part *part) {
    const struct hf_relax_probe *probe = part->several->relax->probe;
    return probe != NULL && probe->silent && probe->silent_part == part->device &&
           part->made >= probe->silent_from;
}

static void await_end(struct hf_relax_part *part) {
    struct hf_relax_team *team = &part->several->team;
    (void)pthread_mutex_lock(&team->mutex);
    while (!team->broken && !team->leave)
        (void)pthread_cond_wait(&team->all, &team->mutex);
    (void)pthread_mutex_unlock(&team->mutex);
}

/* A call may also have failed for the device that it was to write to. */
static bool is_dead(const struct hf_relax_part *part) {
    return part->status == HF_E_DEVICE && part->ctx->device->sync(part->ctx->stream) == HF_E_DEVICE;
}

static void *work(void *user) {
    struct hf_relax_part *part = user;
    struct hf_relax_team *team = &part->several->team;
    bool on = true;
    while (on && part->status == HF_OK) {
        if (is_silent(part)) {
            await_end(part);
            break;
        }
        part->status = iterate(part, &on);
    }
    (void)pthread_mutex_lock(&team->mutex);
    part->ended = true;
    part->lost = part->lost || is_dead(part);
    if (part->status != HF_OK) {
        team->broken = true;
        (void)pthread_cond_broadcast(&team->all);
    }
    (void)pthread_cond_signal(&team->news);
    (void)pthread_mutex_unlock(&team->mutex);
    return NULL;
}

/* ---- the thread that looks on */

static void break_up(struct hf_relax_team *team) {
    team->broken = true;
    (void)pthread_cond_broadcast(&team->all);
}

/* Has a device fallen silent? One that has told something before: the first look may take long. */
static void listen(struct hf_relax_several *s) {
    const double now = hf_now_s();
    const hf_relax *relax = s->relax;
    const double least = relax->probe != NULL && relax->probe->silent ? SILENT_S / 10 : SILENT_S;
    for (int g = 0; g < s->count; g++) {
        struct hf_relax_part *part = s->part[g];
        const double patience = fmax(least, SILENT_TIMES * part->longest);
        if (part->ended || part->waits || part->looks == 0 || now - part->life < patience)
            continue;
        part->lost = true;
        break_up(&s->team);
        return;
    }
}

static void look_around(struct hf_relax_several *s, const struct hf_relax_request *request) {
    const hf_relax_opts *o = &s->relax->opts;
    struct hf_relax_team *team = &s->team;
    const double estimate = team->estimate;
    int64_t made = 0;
    for (int g = 0; g < s->count; g++)
        made = s->part[g]->made > made ? s->part[g]->made : made;
    if (team->leave || team->asked)
        return;
    if (request->deadline > 0 && hf_now_s() >= request->deadline) {
        team->stop = HF_RELAX_STOP_TIME;
        team->asked = true;
    }
    if (!hf_relax_due(o, &team->told))
        return;
    (void)pthread_mutex_unlock(&team->mutex); /* the caller may take its time */
    const int cancel = o->progress(o->progress_user, request->number, team->before + made,
                                   sqrt(estimate) / team->scale);
    (void)pthread_mutex_lock(&team->mutex);
    if (cancel != 0 && !team->leave) {
        team->stop = HF_RELAX_STOP_CANCELLED;
        team->asked = true;
    }
}

static bool all_ended(const struct hf_relax_several *s) {
    for (int g = 0; g < s->count; g++)
        if (!s->part[g]->ended)
            return false;
    return true;
}

static void look_on(struct hf_relax_several *s, const struct hf_relax_request *request) {
    struct hf_relax_team *team = &s->team;
    (void)pthread_mutex_lock(&team->mutex);
    while (!all_ended(s)) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += WATCH_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&team->news, &team->mutex, &until);
        look_around(s, request);
        if (!team->broken)
            listen(s);
    }
    (void)pthread_mutex_unlock(&team->mutex);
}

hf_status hf_relax_run_parts(struct hf_relax_several *s, const struct hf_relax_request *request) {
    struct hf_relax_team *team = &s->team;
    hf_status status = HF_OK;
    int started = 0;
    team->arrived = 0;
    team->leave = team->asked = team->broken = false;
    for (int g = 0; g < s->count; g++) {
        struct hf_relax_part *part = s->part[g];
        part->status = HF_OK;
        part->made = part->looks = 0;
        part->life = hf_now_s();
        part->longest = 0;
        part->ended = part->lost = part->waits = false;
    }
    for (; started < s->count; started++)
        if (pthread_create(&s->part[started]->thread, NULL, work, s->part[started]) != 0)
            break;
    if (started < s->count) {
        (void)pthread_mutex_lock(&team->mutex);
        break_up(team);
        (void)pthread_mutex_unlock(&team->mutex);
        status =
            hf_ctx_fail(s->relax->ctx, HF_E_NOMEM, "no thread for each of %d devices", s->count);
    } else {
        look_on(s, request);
    }
    for (int g = 0; g < started; g++)
        (void)pthread_join(s->part[g]->thread, NULL);
    for (int g = 0; g < s->count && status == HF_OK; g++)
        if (s->part[g]->status != HF_OK && !s->part[g]->lost)
            status =
                hf_ctx_fail(s->relax->ctx, s->part[g]->status, "%s: %s",
                            hf_context_device(s->part[g]->ctx), hf_last_error(s->part[g]->ctx));
    return status;
}
