/* SPDX-License-Identifier: Apache-2.0
 * drift on all threads, none of which waits for another's next value. x is read and written element
 * by element with relaxed atomic operations, which are plain moves. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/drift/drift.h"
#include "ops/estimate.h"
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define HELD_S 2e-3 /* by one worker, while others wait: then it is lost, or nearly so */

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_drift_kernels) = {NULL, 0};
#else

struct state {
    _Atomic int64_t epoch; /* times that the block was relaxed */
    _Atomic double square;
    _Atomic uint64_t held;    /* ticket of the worker that is at it; 0: none */
    _Atomic uint64_t suspect; /* a ticket that was in others' way, */
    _Atomic double since;     /* and since when */
    _Atomic int taken;        /* a takeover was told */
};

struct drift_job {
    const struct hf_drift_args *args;
    int workers;
    struct state *state; /* [blocks] */
    double *scratch;     /* [workers, 3, largest] */
    int owners;          /* workers that have blocks */
    double begin;
    _Atomic int64_t relaxations, takeovers, told;
    _Atomic int stop;
};

/* A worker of a call. */
struct worker {
    struct drift_job *job;
    int number;
    int64_t first, last; /* its blocks */
    uint64_t tickets;    /* that it has used */
    bool lost;           /* in an experiment: it ends */
    bool spare;          /* it has none, and */
    bool needed;         /* helps wherever it can, since nobody did anything for a while: */
    int64_t seen;        /* relaxations of all, */
    double since;        /* and since when they are so many */
};

static size_t carve_job(struct drift_job *job, int workers, void *ws) {
    const struct hf_drift_args *args = job->args;
    hf_carve carve = {ws, 0};
    job->workers = workers;
    job->state = hf_carve_take(&carve, (size_t)args->blocks * sizeof(struct state));
    job->scratch =
        hf_carve_take(&carve, (size_t)workers * 3 * (size_t)args->largest * sizeof(double));
    return carve.used;
}

static size_t drift_workspace(const struct hf_call *call) {
    struct drift_job job = {.args = call->args};
    return carve_job(&job, call->device->workers, NULL);
}

ALWAYS_INLINE double load(const double *x) {
    double value;
    __atomic_load(x, &value, __ATOMIC_RELAXED);
    return value;
}

ALWAYS_INLINE double dot_of_others(const struct hf_drift_args *args, hf_dtype dtype, int64_t first,
                                   int64_t last) {
    double sum = 0;
    for (int64_t e = first; e < last; e++)
        sum += sparse_value(args->a.value, dtype, e) * load(&args->x[args->a.column[e]]);
    return sum;
}

/* x of a block in `x`, b - what lies outside it in `outside`; one local sweep to `next`. */
ALWAYS_INLINE double local_sweep(const struct hf_drift_args *args, hf_dtype dtype, int64_t block,
                                 const double *outside, const double *x, double *next) {
    const int64_t begin = args->block_start[block], end = args->block_start[block + 1];
    double square = 0;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = args->a.row_start[i] + args->inner[2 * i];
        const int64_t last = first + args->inner[2 * i + 1];
        double in = 0;
        for (int64_t e = first; e < last; e++)
            in += sparse_value(args->a.value, dtype, e) * x[args->a.column[e] - begin];
        const double r = outside[i - begin] - in;
        next[i - begin] = x[i - begin] + args->damping * (args->inverse[i] * r);
        square += r * r;
    }
    return square;
}

/* *x: the new values of the block, in scratch. */
ALWAYS_INLINE double relax_block(const struct hf_drift_args *args, hf_dtype dtype, int64_t block,
                                 double *scratch, double **x) {
    const int64_t begin = args->block_start[block], end = args->block_start[block + 1];
    double *outside = scratch, *now = outside + args->largest, *next = now + args->largest;
    for (int64_t i = begin; i < end; i++) {
        const int64_t inside = args->a.row_start[i] + args->inner[2 * i];
        outside[i - begin] =
            args->b[i] -
            (dot_of_others(args, dtype, args->a.row_start[i], inside) +
             dot_of_others(args, dtype, inside + args->inner[2 * i + 1], args->a.row_start[i + 1]));
        now[i - begin] = load(&args->x[i]);
    }
    double square = 0;
    for (int k = 0; k < args->k; k++) {
        const double before = local_sweep(args, dtype, block, outside, now, next);
        double *const other = now;
        square = k == 0 ? before : square;
        now = next;
        next = other;
    }
    *x = now;
    return square;
}

/* For experiments: the worker ends in the middle of its block, or sleeps. */
static void fall_silent(struct worker *w, int64_t block, int64_t epoch) {
    const struct hf_drift_args *args = w->job->args;
    const bool owns = block >= w->first && block < w->last;
    if (!args->ends || !owns || args->lost == NULL || !args->lost[block] ||
        epoch < args->lost_from || (args->pause_s > 0 && epoch > args->lost_from))
        return;
    const struct timespec pause = {.tv_sec = (time_t)args->pause_s,
                                   .tv_nsec = (int32_t)(args->pause_s * 1e9) % 1000000000};
    w->lost = args->pause_s <= 0;
    if (!w->lost)
        (void)nanosleep(&pause, NULL);
}

/* The block is this worker's by now, by a ticket. False: it was lost to another one meanwhile. */
static bool relax_held(struct worker *w, int64_t block, uint64_t ticket) {
    struct drift_job *job = w->job;
    const struct hf_drift_args *args = job->args;
    struct state *state = &job->state[block];
    const int64_t begin = args->block_start[block], rows = args->block_start[block + 1] - begin;
    double *scratch = job->scratch + 3 * (int64_t)w->number * args->largest, *x = NULL;
    const double square = args->a.dtype == HF_F32 ? relax_block(args, HF_F32, block, scratch, &x)
                                                  : relax_block(args, HF_F64, block, scratch, &x);
    fall_silent(w, block, atomic_load(&state->epoch));
    if (w->lost || atomic_load(&state->held) != ticket)
        return false;
    for (int64_t i = 0; i < rows; i++)
        __atomic_store(&args->x[begin + i], &x[i], __ATOMIC_RELAXED);
    atomic_store_explicit(&state->square, square, memory_order_relaxed);
    atomic_fetch_add(&state->epoch, 1);
    (void)atomic_compare_exchange_strong(&state->held, &ticket, 0);
    atomic_fetch_add_explicit(&job->relaxations, 1, memory_order_relaxed);
    return true;
}

static uint64_t next_ticket(struct worker *w) {
    return ((uint64_t)w->number + 1) << 48 | ++w->tickets;
}

/* False: another worker is at it. */
static bool relax(struct worker *w, int64_t block) {
    struct state *state = &w->job->state[block];
    const uint64_t ticket = next_ticket(w);
    uint64_t nobody = 0;
    return atomic_compare_exchange_strong(&state->held, &nobody, ticket) &&
           relax_held(w, block, ticket);
}

/* Another worker is at a block that has fallen behind: after a while it is taken from it. */
static bool take_from(struct worker *w, int64_t block) {
    struct state *state = &w->job->state[block];
    uint64_t held = atomic_load(&state->held);
    if (held == 0)
        return relax(w, block);
    const double now = hf_now_s();
    if (atomic_load(&state->suspect) != held) {
        atomic_store(&state->since, now);
        atomic_store(&state->suspect, held);
        return false;
    }
    const uint64_t ticket = next_ticket(w);
    return now - atomic_load(&state->since) > HELD_S &&
           atomic_compare_exchange_strong(&state->held, &held, ticket) &&
           relax_held(w, block, ticket);
}

static bool is_silent(const struct hf_drift_args *args, int64_t block, int64_t epoch) {
    return args->lost != NULL && args->lost[block] && epoch >= args->lost_from;
}

static int64_t fastest_epoch(struct drift_job *job) {
    int64_t fastest = 0;
    for (int64_t block = 0; block < job->args->blocks; block++) {
        const int64_t epoch = atomic_load(&job->state[block].epoch);
        fastest = epoch > fastest ? epoch : fastest;
    }
    return fastest;
}

static int64_t slowest_epoch(struct drift_job *job) {
    int64_t slowest = INT64_MAX;
    for (int64_t block = 0; block < job->args->blocks; block++) {
        const int64_t epoch = atomic_load(&job->state[block].epoch);
        slowest = epoch < slowest ? epoch : slowest;
    }
    return slowest;
}

/* Its own blocks once each; the highest epoch that one of them has now, -1: nothing to do. */
static int64_t relax_own(struct worker *w) {
    struct drift_job *job = w->job;
    const struct hf_drift_args *args = job->args;
    const int64_t ahead = slowest_epoch(job) + 2 * args->lag;
    int64_t lead = -1;
    for (int64_t block = w->first; block < w->last && !w->lost; block++) {
        const int64_t epoch = atomic_load(&job->state[block].epoch);
        const bool may = epoch < args->epochs && (args->lag == 0 || epoch < ahead);
        const bool silent = is_silent(args, block, epoch) && !args->ends;
        if (may && !silent && relax(w, block))
            lead = epoch + 1 > lead ? epoch + 1 : lead;
    }
    return lead;
}

static void tell_takeover(struct worker *w, int64_t block, int64_t epoch) {
    struct drift_job *job = w->job;
    atomic_fetch_add_explicit(&job->takeovers, 1, memory_order_relaxed);
    if (atomic_exchange(&job->state[block].taken, 1) != 0)
        return;
    const int64_t place = atomic_fetch_add(&job->told, 1);
    if (place < HF_DRIFT_TAKEN)
        job->args->report->taken[place] =
            (struct hf_drift_taken){block, epoch, w->number, hf_now_s() - job->begin};
}

/* Blocks that lag behind `lead`, once each: a false alarm costs no more than a relaxation. */
static void relax_laggards(struct worker *w, int64_t lead) {
    struct drift_job *job = w->job;
    const struct hf_drift_args *args = job->args;
    for (int64_t block = 0; args->lag > 0 && block < args->blocks; block++) {
        const int64_t epoch = atomic_load(&job->state[block].epoch);
        if (epoch < args->epochs && epoch + args->lag <= lead && take_from(w, block))
            tell_takeover(w, block, epoch);
    }
}

/* Sums up what blocks published, without waiting for any. */
static bool is_over(struct drift_job *job) {
    const struct hf_drift_args *args = job->args;
    double square = 0;
    bool whole = true, left = false;
    for (int64_t block = 0; block < args->blocks; block++) {
        const int64_t epoch = atomic_load(&job->state[block].epoch);
        square += atomic_load_explicit(&job->state[block].square, memory_order_relaxed);
        whole = whole && epoch > 0;
        left = left || (epoch < args->epochs && !(args->lag == 0 && is_silent(args, block, epoch)));
    }
    if (whole && args->target > 0 && square <= args->target)
        atomic_store(&job->stop, 1);
    return !left || atomic_load(&job->stop) != 0;
}

/* The epoch behind which a worker looks for blocks that lag. */
static int64_t lead_of(struct worker *w, int64_t own) {
    struct drift_job *job = w->job;
    const int64_t relaxations = atomic_load_explicit(&job->relaxations, memory_order_relaxed);
    if (!w->spare || w->needed)
        return own < 0 ? slowest_epoch(job) + job->args->lag : own;
    const double now = hf_now_s();
    if (relaxations != w->seen)
        w->since = now;
    w->seen = relaxations;
    w->needed = now - w->since > HELD_S;
    return fastest_epoch(job);
}

static void work(void *user, int number, int64_t begin, int64_t end) {
    struct drift_job *job = user;
    const int64_t blocks = job->args->blocks;
    for (int64_t share = begin; share < end; share++) {
        struct worker w = {.job = job, .number = number, .spare = share >= job->owners};
        w.first = w.spare ? 0 : share * blocks / job->owners;
        w.last = w.spare ? 0 : (share + 1) * blocks / job->owners;
        w.since = hf_now_s();
        while (!w.lost && !is_over(job)) {
            const int64_t lead = relax_own(&w);
            if (w.lost)
                break;
            relax_laggards(&w, lead_of(&w, lead));
            if (lead < 0)
                (void)sched_yield();
        }
    }
}

static hf_status drift_run(const struct hf_call *call) {
    const struct hf_drift_args *args = call->args;
    struct drift_job job = {.args = args, .begin = hf_now_s()};
    (void)carve_job(&job, hf_pool_workers(call->stream), call->ws);
    job.owners = job.workers > args->spares ? job.workers - args->spares : 1;
    memset(job.state, 0, (size_t)args->blocks * sizeof *job.state);
    hf_parallel_for(call->stream, job.workers, 1, work, &job);
    struct hf_drift_report *report = args->report;
    report->slowest = args->epochs;
    report->square = 0;
    for (int64_t block = 0; block < args->blocks; block++) {
        const int64_t epoch = atomic_load(&job.state[block].epoch);
        report->square += atomic_load(&job.state[block].square);
        report->slowest = epoch < report->slowest ? epoch : report->slowest;
    }
    report->relaxations = atomic_load(&job.relaxations);
    report->takeovers = atomic_load(&job.takeovers);
    report->taken_count = hf_min64(atomic_load(&job.told), HF_DRIFT_TAKEN);
    return HF_OK;
}

static double drift_estimate(const struct hf_call *call) {
    const struct hf_drift_args *args = call->args;
    const double elements = (double)args->a.elements;
    return hf_estimate_ns(4.0 * (double)args->epochs * args->k * elements, 1,
                          hf_sparse_bytes(&args->a));
}

static const struct hf_kernel kernels[] = {{.name = "drift_blocks_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64),
                                            .isa = HF_ISA_ID,
                                            .workspace = drift_workspace,
                                            .run = drift_run,
                                            .estimate = drift_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_drift_kernels) = {kernels, 1};

#endif
