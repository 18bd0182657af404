/* SPDX-License-Identifier: Apache-2.0
 * drift on all threads, none of which waits for another's next value. x is read and written element
 * by element with relaxed atomic operations, which are plain moves. */
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/drift/drift.h"
#include "ops/estimate.h"
#include <sched.h>
#include <stdatomic.h>

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_drift_kernels) = {NULL, 0};
#else

struct state {
    _Atomic int64_t epoch; /* times that the block was relaxed */
    _Atomic double square;
    _Atomic int held; /* somebody is at it */
};

struct drift_job {
    const struct hf_drift_args *args;
    int workers;
    struct state *state; /* [blocks] */
    double *scratch;     /* [workers, 3, largest] */
    _Atomic int64_t relaxations, takeovers;
    _Atomic int stop;
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

ALWAYS_INLINE double relax_block(const struct hf_drift_args *args, hf_dtype dtype, int64_t block,
                                 double *scratch) {
    const int64_t begin = args->block_start[block], end = args->block_start[block + 1];
    double *outside = scratch, *x = outside + args->largest, *next = x + args->largest;
    for (int64_t i = begin; i < end; i++) {
        const int64_t inside = args->a.row_start[i] + args->inner[2 * i];
        outside[i - begin] =
            args->b[i] -
            (dot_of_others(args, dtype, args->a.row_start[i], inside) +
             dot_of_others(args, dtype, inside + args->inner[2 * i + 1], args->a.row_start[i + 1]));
        x[i - begin] = load(&args->x[i]);
    }
    double square = 0;
    for (int k = 0; k < args->k; k++) {
        const double before = local_sweep(args, dtype, block, outside, x, next);
        double *const other = x;
        square = k == 0 ? before : square;
        x = next;
        next = other;
    }
    for (int64_t i = begin; i < end; i++)
        __atomic_store(&args->x[i], &x[i - begin], __ATOMIC_RELAXED);
    return square;
}

/* False: another worker is at it. */
static bool relax(struct drift_job *job, int worker, int64_t block) {
    const struct hf_drift_args *args = job->args;
    struct state *state = &job->state[block];
    double *scratch = job->scratch + 3 * (int64_t)worker * args->largest;
    if (atomic_exchange(&state->held, 1) != 0)
        return false;
    const double square = args->a.dtype == HF_F32 ? relax_block(args, HF_F32, block, scratch)
                                                  : relax_block(args, HF_F64, block, scratch);
    atomic_store_explicit(&state->square, square, memory_order_relaxed);
    atomic_fetch_add(&state->epoch, 1);
    atomic_store(&state->held, 0);
    atomic_fetch_add_explicit(&job->relaxations, 1, memory_order_relaxed);
    return true;
}

static bool is_silent(const struct hf_drift_args *args, int64_t block, int64_t epoch) {
    return args->lost != NULL && args->lost[block] && epoch >= args->lost_from;
}

static int64_t slowest_epoch(struct drift_job *job) {
    int64_t slowest = INT64_MAX;
    for (int64_t block = 0; block < job->args->blocks; block++) {
        const int64_t epoch = atomic_load(&job->state[block].epoch);
        slowest = epoch < slowest ? epoch : slowest;
    }
    return slowest;
}

/* Blocks [begin, end) once each; the highest epoch that one of them has now, -1: nothing to do. */
static int64_t relax_own(struct drift_job *job, int worker, int64_t begin, int64_t end) {
    const struct hf_drift_args *args = job->args;
    const int64_t ahead = slowest_epoch(job) + 2 * args->lag;
    int64_t lead = -1;
    for (int64_t block = begin; block < end; block++) {
        const int64_t epoch = atomic_load(&job->state[block].epoch);
        const bool may = epoch < args->epochs && (args->lag == 0 || epoch < ahead);
        if (may && !is_silent(args, block, epoch) && relax(job, worker, block))
            lead = epoch + 1 > lead ? epoch + 1 : lead;
    }
    return lead;
}

/* Blocks that lag behind `lead`, once each: a false alarm costs no more than a relaxation. */
static void relax_laggards(struct drift_job *job, int worker, int64_t lead) {
    const struct hf_drift_args *args = job->args;
    for (int64_t block = 0; args->lag > 0 && block < args->blocks; block++) {
        const int64_t epoch = atomic_load(&job->state[block].epoch);
        if (epoch < args->epochs && epoch + args->lag <= lead && relax(job, worker, block))
            atomic_fetch_add_explicit(&job->takeovers, 1, memory_order_relaxed);
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

static void work(void *user, int worker, int64_t begin, int64_t end) {
    struct drift_job *job = user;
    const int64_t blocks = job->args->blocks;
    for (int64_t share = begin; share < end; share++) {
        const int64_t first = share * blocks / job->workers;
        const int64_t last = (share + 1) * blocks / job->workers;
        while (!is_over(job)) {
            const int64_t lead = relax_own(job, worker, first, last);
            relax_laggards(job, worker, lead < 0 ? slowest_epoch(job) + job->args->lag : lead);
            if (lead < 0)
                (void)sched_yield();
        }
    }
}

static hf_status drift_run(const struct hf_call *call) {
    const struct hf_drift_args *args = call->args;
    struct drift_job job = {.args = args};
    (void)carve_job(&job, hf_pool_workers(call->stream), call->ws);
    for (int64_t block = 0; block < args->blocks; block++) {
        atomic_init(&job.state[block].epoch, 0);
        atomic_init(&job.state[block].square, 0);
        atomic_init(&job.state[block].held, 0);
    }
    hf_parallel_for(call->stream, job.workers, 1, work, &job);
    struct hf_drift_report report = {.slowest = args->epochs};
    for (int64_t block = 0; block < args->blocks; block++) {
        const int64_t epoch = atomic_load(&job.state[block].epoch);
        report.square += atomic_load(&job.state[block].square);
        report.slowest = epoch < report.slowest ? epoch : report.slowest;
    }
    report.relaxations = atomic_load(&job.relaxations);
    report.takeovers = atomic_load(&job.takeovers);
    *args->report = report;
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
