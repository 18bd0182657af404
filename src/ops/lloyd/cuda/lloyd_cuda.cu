/* SPDX-License-Identifier: Apache-2.0
 * lloyd on CUDA: the launches of all iterations are queued ahead, and those that are not needed
 * any more return at once. The host looks at the state of the run from time to time. */
#include "core/array.h"
#include "core/kernel.h"
#include "device/cuda/reduce.cuh"
#include "device/cuda/stage.h"
#include "ops/lloyd/cuda/book.h"
#include "ops/lloyd/cuda/lloyd_cuda.h"
#include "ops/lloyd/cuda/lloyd_plan.cuh"
#include "ops/lloyd/cuda/twice.h"
#include "ops/lloyd/sm90/small.h"

#define AHEAD 8        /* steps queued between two looks; even */
#define GRAPH_STEPS 12 /* from so many on, recording them pays */

/* After so many iterations of at least so many the host looks, where open rows could cost much,
 * whether one in so many was open. The others are made for that then, by differences in float32
 * and neighbours of labels, whose launches cost tame data up to a fifth of an iteration; and no
 * more by the kernel for narrow rows (1,000,000 x 20, k = 100 on an H200, nested scales: .32 ms an
 * iteration and .87). */
#define TRIAL 2
#define TRIAL_STEPS 8
#define OPEN_PART 5

/* How the host keeps the device busy without waiting for it. */
struct ahead {
    cudaGraphExec_t pair; /* two steps */
    cudaStream_t side;    /* on which the host looks */
    cudaEvent_t mark;     /* what it looks at */
};

/* The kernels. */
enum variant { ANY, SMALL, NARROW };

/* Everything that a run holds. */
struct run {
    const struct hf_call *call;
    const struct hf_lloyd_args *args; /* of the call */
    struct hf_cuda *cuda;
    struct hf_stage stage;
    struct hf_lloyd_job job;
    struct hf_assign_problem problem;
    struct hf_assign_rows rows;
    struct hf_lloyd_control control; /* as last seen */
    double *factor;
    void *spare;                   /* [batch, k, d] centroids, for a swap */
    int32_t *moved;                /* [batch * n] */
    void *rows_memory;             /* of assign */
    void *step_memory;             /* likewise */
    void *bounds;                  /* likewise; NULL: none are kept */
    struct hf_assign_guide *guide; /* with bounds */
    enum variant variant;          /* other than ANY: one launch is to make all iterations */
    void *small_memory;            /* of that */
    struct hf_lloyd_checks checks; /* with args->book */
    struct hf_lloyd_beside beside; /* likewise */
    struct hf_lloyd_twin twin;     /* with args->sums_twice */
};

struct carve {
    char *base;
    size_t used;
};

static void *take(struct carve *c, size_t bytes) {
    char *p = c->base != NULL ? c->base + c->used : NULL;
    c->used += (bytes + 255) / 256 * 256;
    return p;
}

static size_t center_bytes(const struct hf_lloyd_args *a) {
    return (size_t)(a->batch * a->sums->k * a->sums->d) * hf_dtype_bytes(a->rule.type);
}

/* Could rows that stay open cost much? */
static bool may_be_hard(const struct hf_lloyd_args *a) {
    const double work = (double)a->x.rows * (double)a->sums->k * (double)a->sums->d;
    return a->batch == 1 && work >= HF_ASSIGN_HARD && a->rule.metric == HF_EUCLIDEAN && a->exact;
}

static struct hf_assign_problem make_problem(const struct hf_call *call) {
    const struct hf_lloyd_args *a = (const struct hf_lloyd_args *)call->args;
    struct hf_assign_problem problem;
    memset(&problem, 0, sizeof problem);
    problem.device = call->device;
    problem.x = a->x;
    problem.batch = a->batch;
    problem.k = a->sums->k;
    problem.c_type = a->rule.type;
    problem.metric = a->rule.metric;
    problem.exact = a->exact;
    problem.shift = a->filter.shift;
    problem.scale = a->filter.scale;
    problem.length = a->rule.metric == HF_EUCLIDEAN ? a->filter.length : 0;
    problem.hard = may_be_hard(a);
    problem.check.slot = a->checks_tiles ? call->slot : NULL;
    problem.check.kernel = call->kernel;
    problem.checks_tiles = a->checks_tiles;
    return problem;
}

/* What the steps do: as the kernel of op assign that was planned. Only the filter keeps bounds.
 * Kernels that make all iterations by themselves told no step, and want rows for the filter. */
static enum hf_assign_kind kind_of_steps(const struct hf_call *call,
                                         const struct hf_assign_problem *problem) {
    const struct hf_lloyd_args *a = (const struct hf_lloyd_args *)call->args;
    if (a->checks_tiles)
        return HF_ASSIGN_MMA;
    if (a->skipping == HF_SKIP_ON && hf_assign_bounds_bytes(problem) > 0)
        return HF_ASSIGN_TENSOR;
    return hf_assign_kind_of(call->step[0]);
}

static bool wants_bounds(const struct hf_lloyd_args *a, const struct hf_assign_problem *problem) {
    if (a->skipping == HF_SKIP_OFF || a->checks_tiles || hf_assign_bounds_bytes(problem) == 0)
        return false;
    return a->skipping == HF_SKIP_ON || hf_assign_bounds_pay(problem);
}

/* The labels of an iteration are one call of op assign on all rows. */
static void any_steps(const struct hf_call *call, hf_step_fn *report, void *user) {
    const struct hf_lloyd_args *a = (const struct hf_lloyd_args *)call->args;
    const struct hf_assign_problem problem = make_problem(call);
    struct hf_assign_bounds bounds = {};
    struct hf_assign_args args = {};
    args.x = a->x;
    args.c.data = a->current;
    args.c.dtype = a->rule.type;
    args.c.rows = a->sums->k;
    args.c.cols = a->sums->d;
    args.metric = a->rule.metric;
    args.exact = a->exact;
    args.filter = a->filter;
    args.labels = a->labels;
    args.bounds = wants_bounds(a, &problem) ? &bounds : NULL;
    report(user, HF_OP_ASSIGN, &args);
}

/* Of kernels that make all iterations by themselves, unless the caller wants to hear of each. */
static void small_steps(const struct hf_call *call, hf_step_fn *report, void *user) {
    if (((const struct hf_lloyd_args *)call->args)->progress != NULL)
        any_steps(call, report, user);
}

/* Workspace: measured with base == NULL, then taken. */
static size_t carve_run(struct run *run, void *base) {
    const struct hf_lloyd_args *a = run->args;
    struct hf_lloyd_job *job = &run->job;
    struct carve c = {(char *)base, 0};
    const size_t rows = (size_t)a->x.rows;
    const size_t clusters = (size_t)(a->batch * a->sums->k);
    const size_t label_bytes = rows * sizeof(int32_t);
    run->problem = make_problem(run->call);
    run->problem.kind = kind_of_steps(run->call, &run->problem);
    job->control = (struct hf_lloyd_control *)take(&c, sizeof *job->control);
    job->counts = (struct hf_assign_counts *)take(&c, (size_t)a->batch * sizeof *job->counts);
    job->state = (struct hf_lloyd_state *)take(&c, (size_t)a->batch * sizeof *job->state);
    job->history =
        (hf_kmeans_iteration *)take(&c, (size_t)(a->batch * a->count) * sizeof *job->history);
    job->tally = (struct hf_lloyd_tally *)take(&c, (size_t)a->batch * sizeof *job->tally);
    job->inertia = (double *)take(&c, clusters * sizeof(double));
    job->shift = (double *)take(&c, clusters * sizeof(double));
    job->labels[1] = (int32_t *)take(&c, label_bytes);
    run->moved = (int32_t *)take(&c, label_bytes);
    run->spare = take(&c, center_bytes(a));
    const bool cosine = a->rule.metric == HF_COSINE;
    run->factor = cosine ? (double *)take(&c, rows * sizeof(double)) : NULL;
    run->rows_memory = take(&c, hf_assign_rows_bytes(&run->problem));
    run->step_memory = take(&c, hf_assign_step_bytes(&run->problem));
    run->bounds = NULL;
    run->guide = NULL;
    job->drift = NULL;
    if (wants_bounds(a, &run->problem)) {
        run->bounds = take(&c, hf_assign_bounds_bytes(&run->problem));
        run->guide = (struct hf_assign_guide *)take(&c, sizeof *run->guide);
        job->drift = (float *)take(&c, clusters * sizeof(float));
    }
    run->small_memory = run->variant != ANY ? take(&c, hf_lloyd_small_bytes(a->batch)) : NULL;
    if (a->book != NULL)
        (void)hf_lloyd_checks_carve(a, take(&c, hf_lloyd_checks_carve(a, NULL, &run->checks)),
                                    &run->checks);
    if (a->sums_twice)
        (void)hf_lloyd_twin_carve(a, take(&c, hf_lloyd_twin_carve(a, NULL, &run->twin)),
                                  &run->twin);
    void *scratch = take(&c, 0);
    return c.used +
           hf_update_scratch_carve(a->x.rows, (int64_t)clusters, scratch, &job->update.scratch);
}

static size_t workspace(const struct hf_call *call, enum variant variant) {
    struct run run;
    run.variant = variant;
    run.call = call;
    run.args = (const struct hf_lloyd_args *)call->args;
    run.cuda = NULL;
    return carve_run(&run, NULL);
}

static size_t any_workspace(const struct hf_call *call) { return workspace(call, ANY); }

static size_t small_workspace(const struct hf_call *call) { return workspace(call, SMALL); }

static const double *stage_doubles(struct run *run, const double *v, int64_t count) {
    return (const double *)hf_stage_in(&run->stage, v,
                                       v != NULL ? (size_t)count * sizeof(double) : 0);
}

static void stage_update(struct run *run) {
    const struct hf_lloyd_args *a = run->args;
    const struct hf_sums *s = a->sums;
    struct hf_update_job *u = &run->job.update;
    const hf_array x = hf_stage_array(&run->stage, &a->x);
    const size_t sums = (size_t)(a->batch * s->limbs * s->k) * sizeof(int64_t);
    run->problem.x = x;
    u->x = (const char *)x.data;
    u->row_bytes = hf_array_stride(&x) * (int64_t)hf_dtype_bytes(x.dtype);
    u->dtype = x.dtype;
    u->batch = a->batch;
    u->n = x.rows / a->batch;
    u->k = s->k;
    u->d = s->d;
    u->limbs = s->limbs;
    u->bits = s->bits;
    u->mult_stride = s->d;
    u->weights = stage_doubles(run, a->weights, x.rows);
    u->factor = run->factor != NULL ? run->factor : u->weights;
    u->mult = stage_doubles(run, s->mult, a->batch * s->d);
    u->weight_mult = stage_doubles(run, a->weight_mult, a->batch);
    u->sum = (int64_t *)hf_stage_inout(&run->stage, s->sum, sums * (size_t)s->d);
    u->count = (int64_t *)hf_stage_inout(&run->stage, s->count,
                                         (size_t)(a->batch * s->k) * sizeof(int64_t));
    u->weight = (int64_t *)hf_stage_inout(&run->stage, s->weight, s->weight ? sums : 0);
}

static void stage_all(struct run *run) {
    const struct hf_lloyd_args *a = run->args;
    struct hf_lloyd_job *job = &run->job;
    stage_update(run);
    job->rule = a->rule;
    job->rule.shift = stage_doubles(run, a->rule.shift, a->sums->d);
    job->rule.unit = stage_doubles(run, a->rule.unit, a->batch * a->sums->d);
    job->exact = a->exact;
    job->settle = a->settle;
    job->empty = a->empty;
    job->first = a->first;
    job->count = a->count;
    job->tol = stage_doubles(run, a->tol, a->batch);
    job->total_square = stage_doubles(run, a->total_square, a->batch);
    job->slack = stage_doubles(run, a->slack, a->batch);
    job->labels[0] =
        (int32_t *)hf_stage_inout(&run->stage, a->labels, (size_t)a->x.rows * sizeof(int32_t));
    job->centers[0] = hf_stage_inout(&run->stage, a->current, center_bytes(a));
    job->centers[1] = a->book != NULL ? hf_stage_inout(&run->stage, a->previous, center_bytes(a))
                                      : hf_stage_out(&run->stage, a->previous, center_bytes(a));
    job->unit = (int32_t *)hf_stage_inout(&run->stage, a->unit, (size_t)a->batch * sizeof *a->unit);
    job->moved = run->moved;
    job->slot = run->call->slot;
    if (a->book != NULL)
        hf_lloyd_checks_stage(&run->stage, run->call, &job->update, &run->checks);
}

static hf_status copy(struct run *run, void *dst, const void *src, size_t bytes) {
    return hf_cuda_check(
        run->cuda, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, run->cuda->stream), "lloyd");
}

static hf_status clear(struct run *run, void *dst, size_t bytes) {
    return hf_cuda_check(run->cuda, cudaMemsetAsync(dst, 0, bytes, run->cuda->stream), "lloyd");
}

/* State, prepared rows, and all counters at 0. */
static hf_status begin(struct run *run) {
    const struct hf_lloyd_args *a = run->args;
    struct hf_lloyd_job *job = &run->job;
    memset(&run->control, 0, sizeof run->control);
    run->control.running = (int32_t)a->batch;
    for (int64_t p = 0; p < a->batch; p++) {
        a->state[p].iterations = 0;
        a->state[p].stop = HF_STOP_NONE;
        a->state[p].settled = 0;
        a->state[p].calls++;
    }
    HF_TRY(copy(run, job->control, &run->control, sizeof run->control));
    HF_TRY(copy(run, job->state, a->state, (size_t)a->batch * sizeof *a->state));
    HF_TRY(clear(run, job->history, (size_t)(a->batch * a->count) * sizeof *job->history));
    HF_TRY(clear(run, job->tally, (size_t)a->batch * sizeof *job->tally));
    HF_TRY(hf_update_scratch_clear(run->cuda, &job->update.scratch, a->batch * a->sums->k));
    if (run->factor != NULL)
        HF_TRY(hf_update_factors(run->cuda, &job->update, run->factor));
    if (a->book != NULL) {
        HF_TRY(hf_lloyd_beside_open(run->cuda, &run->beside));
        HF_TRY(hf_lloyd_checks_begin(run->cuda, a, job, &run->checks));
    }
    if (a->sums_twice) {
        run->twin.slot = run->call->slot;
        run->twin.kernel = run->call->kernel;
        HF_TRY(hf_lloyd_twin_begin(run->cuda, job, &run->twin));
    }
    if (run->bounds != NULL)
        HF_TRY(
            hf_assign_guide_begin(run->cuda, &run->problem, a->skipping == HF_SKIP_ON, run->guide));
    return hf_assign_rows_prepare(run->cuda, &run->problem, run->rows_memory, &run->rows);
}

static hf_status queue_step(struct run *run, int number) {
    const int side = number % 2;
    struct hf_lloyd_job *job = &run->job;
    struct hf_assign_step step;
    memset(&step, 0, sizeof step);
    step.c = job->centers[side];
    step.old_labels = job->labels[side];
    step.labels = job->labels[1 - side];
    step.counts = job->counts;
    step.moved = run->moved;
    step.moved_count = &job->control->moved;
    step.stop = &job->control->halt;
    step.bounds = run->bounds;
    step.drift = job->drift;
    step.guide = run->guide;
    const struct hf_lloyd_checks *checks = run->args->book != NULL ? &run->checks : NULL;
    if (checks != NULL) /* of the step before */
        HF_TRY(hf_lloyd_check_beside(run->cuda, job, checks, &run->beside));
    HF_TRY(hf_assign_step(run->cuda, &run->rows, &step, run->step_memory));
    if (checks != NULL)
        HF_TRY(hf_lloyd_check_join(run->cuda, &run->beside));
    HF_TRY(hf_lloyd_check_moves(run->cuda, job, checks, side));
    if (run->args->sums_twice)
        HF_TRY(hf_lloyd_follow_twice(run->cuda, job, &run->twin, side));
    return hf_lloyd_conclude(run->cuda, job, side);
}

/* The first one. With a book, labels that follow no others are found once more before. */
static hf_status queue_first(struct run *run) {
    const struct hf_lloyd_job *job = &run->job;
    if (run->args->book == NULL || run->checks.first == NULL)
        return queue_step(run, 0);
    struct hf_assign_step step;
    memset(&step, 0, sizeof step);
    step.c = job->centers[0];
    step.old_labels = job->labels[0];
    step.labels = run->checks.first;
    step.counts = job->counts;
    step.stop = &job->control->halt;
    HF_TRY(hf_assign_step(run->cuda, &run->rows, &step, run->step_memory));
    HF_TRY(queue_step(run, 0));
    return hf_lloyd_check_first(run->cuda, job, &run->checks);
}

/* What the device has done so far. */
static hf_status look(struct run *run) {
    if (run->args->book != NULL)
        HF_TRY(hf_lloyd_check(run->cuda, &run->job, &run->checks, run->cuda->stream));
    HF_TRY(copy(run, &run->control, run->job.control, sizeof run->control));
    return hf_cuda_check(run->cuda, cudaStreamSynchronize(run->cuda->stream), "lloyd");
}

/* Tell the caller of the iteration that has just ended; *stop: it asks to end. */
static hf_status report(struct run *run, int number, bool *stop) {
    const struct hf_lloyd_args *a = run->args;
    HF_TRY(look(run));
    *a->state = run->control.state;
    a->history[number] = run->control.last;
    if (a->state->stop >= HF_LLOYD_EMPTY)
        return HF_OK;
    *stop = a->progress(a->progress_user, a->first + number + 1, &a->history[number]) != 0;
    (void)hf_cuda_enter(run->cuda); /* the caller may have turned to another device */
    return HF_OK;
}

/* Is it worth while to look after an iteration whether they do? */
static bool is_tried(const struct run *run) {
    return may_be_hard(run->args) && run->args->count >= TRIAL_STEPS &&
           run->rows.kind == HF_ASSIGN_TENSOR;
}

/* Launches for as many open rows as the iteration `last` had; true: those so far were for fewer.
 * With `over` those for more stay as they are. */
static bool note_open(struct run *run, const hf_kmeans_iteration *last, bool over) {
    struct hf_assign_problem *problem = &run->rows.problem;
    const bool hard = last->rows_rechecked * OPEN_PART >= problem->x.rows;
    const bool few = last->rows_rechecked * problem->x.cols < HF_ASSIGN_FEW;
    const bool more = (hard && !problem->hard) || (!few && problem->few);
    problem->hard = more || !over ? hard : problem->hard;
    problem->few = more || !over ? few : problem->few;
    return more;
}

/* One by one, and the caller is told of each. */
static hf_status iterate_slowly(struct run *run, bool *cancelled) {
    for (int number = 0; number < run->args->count && !run->control.halt && !*cancelled; number++) {
        HF_TRY(number == 0 ? queue_first(run) : queue_step(run, number));
        HF_TRY(report(run, number, cancelled));
        if (is_tried(run))
            (void)note_open(run, &run->control.last, false);
    }
    return HF_OK;
}

/* Two steps as a graph: the next two are the same launches. NULL where the stream cannot record
 * them; the launches are then made one by one. */
static void record_pair(struct run *run, struct ahead *ahead) {
    cudaGraph_t graph = NULL;
    cudaStream_t stream = run->cuda->stream;
    if (ahead->pair != NULL)
        (void)cudaGraphExecDestroy(ahead->pair);
    ahead->pair = NULL;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess) {
        const bool queued = queue_step(run, 0) == HF_OK && queue_step(run, 1) == HF_OK;
        if (cudaStreamEndCapture(stream, &graph) != cudaSuccess || !queued ||
            cudaGraphInstantiate(&ahead->pair, graph, 0) != cudaSuccess)
            ahead->pair = NULL;
    }
    if (graph != NULL)
        (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
}

static hf_status queue_pair(struct run *run, const struct ahead *ahead) {
    if (ahead->pair != NULL)
        return hf_cuda_check(run->cuda, cudaGraphLaunch(ahead->pair, run->cuda->stream), "lloyd");
    HF_TRY(queue_step(run, 0));
    return queue_step(run, 1);
}

/* The state after what was marked, while the device goes on with what was queued since. */
static hf_status look_back(struct run *run, const struct ahead *ahead) {
    cudaError_t error = cudaStreamWaitEvent(ahead->side, ahead->mark, 0);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(&run->control, run->job.control, sizeof run->control,
                                cudaMemcpyDefault, ahead->side);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(ahead->side);
    return hf_cuda_check(run->cuda, error, "lloyd");
}

/* All that is left after the first two steps. The host looks at the state, unless they are few, but
 * never so soon that the device runs out of work. */
static hf_status iterate_ahead(struct run *run, struct ahead *ahead) {
    const int count = run->args->count;
    if (count >= GRAPH_STEPS)
        record_pair(run, ahead);
    for (int number = 2; number < count; number += 2) {
        HF_TRY(queue_pair(run, ahead));
        if (ahead->side == NULL || number % AHEAD != 0)
            continue;
        if (number > AHEAD)
            HF_TRY(look_back(run, ahead));
        if (run->control.halt)
            return HF_OK;
        if (is_tried(run) && note_open(run, &run->control.last, true))
            record_pair(run, ahead);
        HF_TRY(hf_cuda_check(run->cuda, cudaEventRecord(ahead->mark, run->cuda->stream), "lloyd"));
    }
    return HF_OK;
}

static hf_status open_ahead(struct run *run, struct ahead *ahead) {
    HF_TRY(hf_cuda_check(run->cuda, cudaStreamCreateWithFlags(&ahead->side, cudaStreamNonBlocking),
                         "lloyd"));
    return hf_cuda_check(run->cuda, cudaEventCreateWithFlags(&ahead->mark, cudaEventDisableTiming),
                         "lloyd");
}

static void close_ahead(struct ahead *ahead) {
    if (ahead->pair != NULL)
        (void)cudaGraphExecDestroy(ahead->pair);
    if (ahead->mark != NULL)
        (void)cudaEventDestroy(ahead->mark);
    if (ahead->side != NULL)
        (void)cudaStreamDestroy(ahead->side);
}

/* tried: whether rows stay open is to be found out. */
static hf_status iterate_fast(struct run *run, bool tried) {
    const int count = run->args->count;
    struct ahead ahead = {NULL, NULL, NULL};
    HF_TRY(queue_first(run));
    if (count > 1)
        HF_TRY(queue_step(run, 1));
    if (tried) {
        HF_TRY(look(run));
        (void)note_open(run, &run->control.last, false);
    }
    hf_status status = count > 3 * AHEAD ? open_ahead(run, &ahead) : HF_OK;
    if (status == HF_OK)
        status = iterate_ahead(run, &ahead);
    const hf_status looked = look(run);
    close_ahead(&ahead);
    return status != HF_OK ? status : looked;
}

/* The last labels and centroids to where the caller has them. */
static hf_status put_back(struct run *run) {
    const struct hf_lloyd_args *a = run->args;
    const struct hf_lloyd_job *job = &run->job;
    if (run->control.steps % 2 == 1)
        HF_TRY(copy(run, job->labels[0], job->labels[1], (size_t)a->x.rows * sizeof(int32_t)));
    const struct hf_lloyd_packed packed = {&run->problem, &run->rows, run->rows_memory};
    if (a->book != NULL)
        return hf_lloyd_checks_end(&run->stage, a, job, run->control.moves, &run->checks, &packed);
    if (run->control.moves % 2 == 0)
        return HF_OK;
    HF_TRY(copy(run, run->spare, job->centers[0], center_bytes(a)));
    HF_TRY(copy(run, job->centers[0], job->centers[1], center_bytes(a)));
    return copy(run, job->centers[1], run->spare, center_bytes(a));
}

static hf_status end(struct run *run) {
    const struct hf_lloyd_args *a = run->args;
    HF_TRY(put_back(run));
    hf_stage_fetch(&run->stage, a->state, run->job.state, (size_t)a->batch * sizeof *a->state);
    hf_stage_fetch(&run->stage, a->history, run->job.history,
                   (size_t)(a->batch * a->count) * sizeof *a->history);
    return HF_OK;
}

/* All iterations by the kernel for narrow rows or, if the first ones leave many rows open, no more
 * than these. */
static hf_status iterate_narrow(struct run *run) {
    if (is_tried(run)) {
        struct hf_lloyd_job job = run->job;
        struct hf_lloyd_state state;
        hf_kmeans_iteration last;
        job.count = TRIAL;
        job.settle = false;
        HF_TRY(hf_lloyd_narrow_run(run->cuda, &job, &run->rows, run->small_memory));
        HF_TRY(copy(run, &state, job.state, sizeof state));
        HF_TRY(copy(run, &last, job.history + TRIAL - 1, sizeof last));
        HF_TRY(hf_cuda_check(run->cuda, cudaStreamSynchronize(run->cuda->stream), "lloyd"));
        if (state.stop != HF_STOP_NONE)
            return HF_OK;
        (void)note_open(run, &last, false);
        if (run->rows.problem.hard)
            return iterate_fast(run, false);
    }
    return hf_lloyd_narrow_run(run->cuda, &run->job, &run->rows, run->small_memory);
}

static hf_status run_all(struct run *run, bool *cancelled) {
    HF_TRY(begin(run));
    const bool once = run->variant != ANY && run->args->progress == NULL &&
                      hf_lloyd_small_takes(run->cuda, &run->rows);
    if (once && run->variant == SMALL)
        HF_TRY(hf_lloyd_small_run(run->cuda, &run->job, &run->rows, run->small_memory));
    else if (once)
        HF_TRY(iterate_narrow(run));
    else if (run->args->progress != NULL)
        HF_TRY(iterate_slowly(run, cancelled));
    else
        HF_TRY(iterate_fast(run, is_tried(run)));
    return end(run);
}

static hf_status lloyd_run(const struct hf_call *call, enum variant variant) {
    struct run run;
    run.variant = variant;
    run.call = call;
    run.args = (const struct hf_lloyd_args *)call->args;
    run.cuda = (struct hf_cuda *)call->stream;
    run.beside = {};
    bool cancelled = false;
    hf_stage_begin(&run.stage, call->stream);
    carve_run(&run, call->ws);
    stage_all(&run);
    const hf_status ran = hf_stage_ready(&run.stage) ? run_all(&run, &cancelled) : HF_OK;
    hf_lloyd_beside_close(&run.beside);
    const hf_status status = hf_stage_end(&run.stage, ran);
    if (status == HF_OK && cancelled && run.args->state->stop == HF_STOP_NONE)
        run.args->state->stop = HF_STOP_CANCELLED;
    return status;
}

static hf_status any_run(const struct hf_call *call) { return lloyd_run(call, ANY); }

static hf_status small_run(const struct hf_call *call) { return lloyd_run(call, SMALL); }

static hf_status narrow_run(const struct hf_call *call) { return lloyd_run(call, NARROW); }

#define WEIGHTED (HF_CHECK_BIT(HF_FAULT_TILE) | HF_CHECK_BIT(HF_FAULT_TWICE))

static const struct hf_kernel kernels[] = {
    {"lloyd_any_cuda", HF_DEV_CUDA, HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER, WEIGHTED, HF_NO_TILE,
     any_supports, any_workspace, any_run, any_estimate, any_steps},
    HF_CUDA_KERNEL("lloyd_f16_64x128_sm90_small", HF_DT_DATA, 90, HF_TRAIT_FIXED_ORDER,
                   HF_TILE(64, HF_LLOYD_SMALL_K, 0), small_supports, small_workspace, small_run,
                   small_estimate, small_steps),
    HF_CUDA_KERNEL("lloyd_f16_16x128_sm90_narrow", HF_DT_DATA, 90, HF_TRAIT_FIXED_ORDER,
                   HF_TILE(16, HF_LLOYD_SMALL_K, 0), narrow_supports, small_workspace, narrow_run,
                   narrow_estimate, small_steps),
};

extern "C" {
extern const struct hf_kernel_table hf_lloyd_kernels_cuda;
const struct hf_kernel_table hf_lloyd_kernels_cuda = {kernels, 3};
}
