/* SPDX-License-Identifier: Apache-2.0
 * lloyd on GPUs by OpenCL: the host queues an iteration, then asks once what came of it. */
#include "core/array.h"
#include "ops/lloyd/lloyd.h"
#include "ops/assign/opencl/filters.h"
#include "ops/opencl.h"

#include <string.h>

#define CLUSTER_GROUP 32 /* lanes of a sum over columns */
#define TOTAL_GROUP 256
#define KEEP_ITERATIONS 3   /* fewer do not pay for packed rows */
#define CHEAP_ON_CPU 0x1p15 /* k d */
#define CHEAP_ON_GPU 0x1p18

/* What the host asks after an iteration, as lloyd_total() writes it. */
struct told {
    double inertia, shift; /* sums over the clusters */
    int64_t rows, empty, negative;
    struct hf_assign_stats stats;
};

struct run {
    const struct hf_call *call;
    struct hf_lloyd_args a;         /* arrays on the device */
    struct hf_sums sums;            /* likewise */
    void *now, *next;               /* [k, d] centroids */
    void *spare;                    /* likewise, for a swap */
    struct told *told[2];           /* of this iteration and of the next one, in turns */
    double *score, *moves;          /* [k] */
    struct hf_assign_packed packed; /* data NULL: none */
    void *step_ws;
};

static size_t center_bytes(const struct hf_lloyd_args *a) {
    return (size_t)(a->sums->k * a->sums->d) * hf_dtype_bytes(a->rule.type);
}

/* Labels and sums for these centroids. */
static struct hf_assign_args assign_args(const struct hf_lloyd_args *a, void *centers,
                                         struct hf_sums *sums, struct hf_assign_stats *stats) {
    return (struct hf_assign_args){.x = a->x,
                                   .c = hf_array_view(centers, a->rule.type, sums->k, sums->d),
                                   .metric = a->rule.metric,
                                   .exact = a->exact,
                                   .filter = a->filter,
                                   .labels = a->labels,
                                   .sums = sums,
                                   .weights = a->weights,
                                   .stats = stats};
}

static void lloyd_steps(const struct hf_call *call, hf_step_fn *tell, void *user) {
    const struct hf_lloyd_args *a = call->args;
    struct hf_sums sums = hf_lloyd_sums(a, 0);
    struct hf_assign_stats stats;
    const struct hf_assign_args args = assign_args(a, a->current, &sums, &stats);
    tell(user, HF_OP_ASSIGN, &args);
}

static size_t carve_run(struct run *run, const struct hf_call *call) {
    const struct hf_lloyd_args *a = call->args;
    const struct hf_kernel *step = call->step[0];
    hf_carve carve = {call->ws, 0};
    struct hf_sums sums = hf_lloyd_sums(a, 0);
    struct hf_assign_stats stats;
    const struct hf_assign_args args = assign_args(a, a->current, &sums, &stats);
    const struct hf_call part = hf_call_part(call, &args);
    const size_t terms = (size_t)sums.k * sizeof(double);
    run->told[0] = hf_carve_take(&carve, sizeof(struct told));
    run->told[1] = hf_carve_take(&carve, sizeof(struct told));
    run->score = hf_carve_take(&carve, terms);
    run->moves = hf_carve_take(&carve, terms);
    run->spare = hf_carve_take(&carve, center_bytes(a));
    const size_t packed = a->count >= KEEP_ITERATIONS ? hf_cl_packed_bytes(step, &args) : 0;
    run->packed = (struct hf_assign_packed){.rows = a->x.rows};
    if (packed > 0)
        run->packed.data = hf_carve_take(&carve, packed);
    run->step_ws = hf_carve_take(&carve, step->workspace ? step->workspace(&part) : 0);
    return carve.used;
}

static size_t lloyd_workspace(const struct hf_call *call) {
    struct run run;
    struct hf_call empty = *call;
    empty.ws = NULL;
    return carve_run(&run, &empty);
}

/* The new centroids into previous, and what the host asks. */
static hf_status move(const struct run *run, const struct hf_sums *s, struct told *told) {
    struct told *now = run->told[run->a.state->iterations & 1];
    struct told *next = run->told[~run->a.state->iterations & 1];
    const struct hf_lloyd_args *a = &run->a;
    struct hf_opencl *cl = run->call->stream;
    const size_t group = run->call->device->wide ? 1 : CLUSTER_GROUP;
    const size_t all = run->call->device->wide ? 1 : TOTAL_GROUP;
    const struct hf_cl_job clusters = {.source = "lloyd",
                                       .kernel = "lloyd_clusters",
                                       .global = group * (size_t)s->k,
                                       .group = group};
    const struct hf_cl_job total = {
        .source = "lloyd", .kernel = "lloyd_total", .global = all, .group = all};
    HF_TRY(hf_opencl_run(cl, &clusters, "pppppdiinnnnnppppp", s->sum, s->count, s->weight, s->mult,
                         a->rule.unit, s->weight_mult, s->k, s->d, (int32_t)s->limbs,
                         (int32_t)s->bits, (int32_t)a->rule.metric, (int32_t)a->rule.type,
                         (int32_t)a->rule.store, a->rule.shift, run->now, run->next, run->score,
                         run->moves));
    HF_TRY(hf_opencl_run(cl, &total, "ppdinnppppn", s->count, s->weight, s->weight_mult, s->k,
                         (int32_t)s->limbs, (int32_t)s->bits, run->score, run->moves, now, next,
                         (int32_t)(sizeof *next / sizeof(int64_t))));
    return hf_opencl_copy(cl, told, now, sizeof *told);
}

/* Whether another iteration follows, or why not. */
static int decide(const struct run *run, const struct told *told, hf_kmeans_iteration *it) {
    const struct hf_lloyd_args *a = &run->a;
    const struct hf_lloyd_state *state = a->state;
    const struct hf_lloyd_laws laws = hf_lloyd_laws(a, 0);
    const struct hf_lloyd_before before = {a->first + state->iterations, state->inertia,
                                           state->empty};
    const struct hf_lloyd_facts facts = {.n = a->x.rows,
                                         .tally = {told->rows, told->empty, told->negative},
                                         .inertia = it->inertia,
                                         .changed = it->changed};
    const int stop = hf_lloyd_decide(&laws, &before, &facts);
    return stop == HF_STOP_NONE && it->shift <= a->tol[0] ? HF_STOP_TOL : stop;
}

static hf_status iterate(struct run *run) {
    const struct hf_lloyd_args *a = &run->a;
    struct hf_lloyd_state *state = a->state;
    struct hf_sums sums = hf_lloyd_sums(a, 0);
    struct hf_assign_args args =
        assign_args(a, run->now, &sums, &run->told[state->iterations & 1]->stats);
    struct told told;
    if (run->packed.data)
        args.packed = &run->packed;
    HF_TRY(hf_run_part(run->call, run->call->step[0], &args, run->step_ws));
    HF_TRY(move(run, &sums, &told));
    const struct hf_means_args rule = {.rule = a->rule, .total_square = a->total_square[0]};
    hf_kmeans_iteration it = {.inertia = hf_means_inertia(&rule, told.inertia),
                              .shift = told.shift,
                              .changed = told.stats.changed,
                              .rows_rechecked = told.stats.rechecked,
                              .rows_float64 = told.stats.float64,
                              .empty = told.empty};
    state->stop = decide(run, &told, &it);
    if (state->stop == HF_STOP_NONE || state->stop == HF_STOP_TOL) {
        void *before = run->now;
        run->now = run->next;
        run->next = before;
    } else {
        it.shift = 0;
    }
    a->history[state->iterations] = it;
    if (state->stop >= HF_LLOYD_EMPTY)
        return HF_OK;
    state->inertia = it.inertia;
    state->empty = it.empty;
    state->iterations++;
    if (a->progress && a->progress(a->progress_user, a->first + state->iterations, &it) &&
        state->stop == HF_STOP_NONE)
        state->stop = HF_STOP_CANCELLED;
    return HF_OK;
}

/* All iterations; the last centroids end in current. */
static hf_status solve(struct run *run) {
    const struct hf_lloyd_args *a = &run->a;
    struct hf_opencl *cl = run->call->stream;
    struct hf_lloyd_state *state = a->state;
    const size_t bytes = center_bytes(a);
    void *current = run->now = a->current;
    void *previous = run->next = a->previous;
    state->iterations = 0;
    state->stop = HF_STOP_NONE;
    state->settled = 0;
    state->calls++;
    HF_TRY(hf_opencl_fill(cl, run->told[0], 0, sizeof *run->told[0]));
    while (state->stop == HF_STOP_NONE && state->iterations < a->count)
        HF_TRY(iterate(run));
    if (run->now == current)
        return HF_OK;
    HF_TRY(hf_opencl_copy(cl, run->spare, current, bytes));
    HF_TRY(hf_opencl_copy(cl, current, previous, bytes));
    return hf_opencl_copy(cl, previous, run->spare, bytes);
}

/* The arrays of a call as the device sees them; what the host reads stays, or is made visible. */
static void stage_all(struct hf_cl_stage *stage, struct run *run) {
    struct hf_lloyd_args *a = &run->a;
    struct hf_sums *s = &run->sums;
    const size_t d = (size_t)s->d * sizeof(double), rows = (size_t)a->x.rows;
    const size_t cells = (size_t)s->limbs * (size_t)s->k * sizeof(int64_t);
    const size_t centers = center_bytes(a);
    a->x = hf_cl_array(stage, &a->x);
    a->weights = hf_cl_in(stage, a->weights, rows * sizeof *a->weights);
    a->labels = hf_cl_inout(stage, a->labels, rows * sizeof *a->labels);
    a->current = hf_cl_inout(stage, a->current, centers);
    a->previous = hf_cl_inout(stage, a->previous, centers);
    if (a->x.dtype != HF_F16 && a->x.dtype != HF_BF16) /* of which op assign looks at it */
        a->filter.shift = hf_cl_in(stage, a->filter.shift, d);
    a->rule.shift = hf_cl_in(stage, a->rule.shift, d);
    a->rule.unit = hf_cl_in(stage, a->rule.unit, d);
    s->mult = hf_cl_in(stage, s->mult, d);
    s->sum = hf_cl_inout(stage, s->sum, cells * (size_t)s->d);
    s->count = hf_cl_inout(stage, s->count, (size_t)s->k * sizeof *s->count);
    s->weight = hf_cl_inout(stage, s->weight, cells);
    a->sums = s;
    a->tol = hf_cl_host(stage, a->tol, sizeof *a->tol, false);
    a->slack = hf_cl_host(stage, a->slack, sizeof *a->slack, false);
    a->total_square = hf_cl_host(stage, a->total_square, sizeof *a->total_square, false);
    a->weight_mult = hf_cl_host(stage, a->weight_mult, sizeof *a->weight_mult, false);
}

static hf_status lloyd_run(const struct hf_call *call) {
    const struct hf_lloyd_args *a = call->args;
    struct run run = {.call = call, .a = *a, .sums = *a->sums};
    struct hf_cl_stage stage;
    (void)carve_run(&run, call);
    hf_cl_stage_begin(&stage, call->stream);
    stage_all(&stage, &run);
    return hf_cl_stage_end(&stage, stage.status == HF_OK ? solve(&run) : stage.status);
}

/* Where rows take longer, bounds may save work: the loop of algo/kmeans/loop/lloyd_loop.c keeps
 * them. */
static bool rows_are_cheap(const struct hf_call *call) {
    const struct hf_lloyd_args *a = call->args;
    const double row = (double)a->sums->k * (double)a->sums->d;
    return row <= (call->device->wide ? CHEAP_ON_CPU : CHEAP_ON_GPU);
}

static bool lloyd_supports(const struct hf_call *call) {
    const struct hf_lloyd_args *a = call->args;
    return call->comm->size(call->comm) == 1 && a->batch == 1 && !a->settle && !a->book &&
           (a->skipping == HF_SKIP_OFF || (a->skipping == HF_SKIP_AUTO && rows_are_cheap(call))) &&
           a->x.rows < INT32_MAX && a->sums->k < INT32_MAX;
}

static double lloyd_estimate(const struct hf_call *call) {
    (void)call;
    return 1;
}

static const struct hf_kernel kernels[] = {{.name = "lloyd_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .supports = lloyd_supports,
                                            .workspace = lloyd_workspace,
                                            .run = lloyd_run,
                                            .estimate = lloyd_estimate,
                                            .steps = lloyd_steps}};

const struct hf_kernel_table hf_lloyd_kernels_opencl = {kernels, 1};
