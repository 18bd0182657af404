/* SPDX-License-Identifier: Apache-2.0
 * The phases: each core woken from idle, each in bursts, all together until they are hot. */
#include "base/affinity.h"
#include "base/clock.h"
#include "base/mem.h"
#include "harness/screen/screen.h"

#include <math.h>
#include <string.h>

#define IDLE_S 0.02    /* a core sleeps before it is asked */
#define BURST_S 0.03   /* it works, then sleeps as long */
#define TURN_SHARE 0.2 /* most of the time that the phase of single cores from idle may take, */
#define TURN_SHARE_LONG 0.1 /* of a screen of more than SCREEN_LONG_S, */
#define TURN_SHARE_ALL 0.4  /* and where no products follow; bursts half as much, at most */
#define PRODUCT_S 0.3       /* of a type before the next one, */
#define PROBLEM_S 0.05      /* and of other problems, */
#define PRODUCT_TIMES 6     /* but so many times as long as those took */
#define GPU_EACH_SHARE 0.6  /* likewise of a GPU; it ends when all is visited */
#define GPU_EACH_LONG 0.3   /* of a screen of more than SCREEN_LONG_S */
#define GPU_BURST_SHARE 0.05

struct worker {
    struct screen *s;
    hf_context *ctx;
    int at; /* number of its core */
    int findings;
    double until_s; /* of a phase in turn */
    double worked_s, wall_s;
    pthread_t thread;
    bool started;
};

/* All kernels that take a problem. unvisited: only those that this core has not run. */
static void ask_problem(struct worker *w, const struct screen_problem *problem, bool unvisited) {
    struct screen *s = w->s;
    struct hf_case c;
    char why[256];
    bool made = false;
    for (int k = 0; k < s->kernels; k++) {
        struct screen_kernel *kernel = &s->kernel[k];
        if (!hf_screen_takes(s, kernel, problem) || (unvisited && kernel->visits[w->at] > 0))
            continue;
        if (!made && !hf_screen_make(s, problem, &c))
            return;
        made = true;
        const struct screen_question q = {kernel, problem, &c, w->at};
        const bool right = hf_screen_run(s, w->ctx, &q, why, sizeof why);
        __atomic_fetch_add(&kernel->visits[w->at], 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&s->result->runs, 1, __ATOMIC_RELAXED);
        if (!right && w->findings++ < SCREEN_MOST_FINDINGS)
            hf_screen_triage(s, w->ctx, w->at, kernel, problem, why);
    }
    if (made)
        hf_case_clear(&c);
}

static bool turn_is_over(const struct worker *w) {
    return hf_screen_now(w->s) >= w->until_s || hf_screen_over(w->s);
}

static void idle_core(struct worker *w) {
    hf_screen_nap(w->s, IDLE_S);
    for (int p = 0; p < w->s->problems && !turn_is_over(w); p++)
        ask_problem(w, &w->s->problem[p], true);
}

static void burst_core(struct worker *w) {
    const struct screen *s = w->s;
    for (int p = 0; p < s->problems && !turn_is_over(w); hf_screen_nap(s, BURST_S)) {
        const double until = hf_screen_now(s) + BURST_S;
        do
            ask_problem(w, &s->problem[p++], false);
        while (p < s->problems && hf_screen_now(s) < until);
    }
}

/* Each core after the other, as long as the turn may take. */
static void in_turn(struct screen *s, hf_context *ctx, const char *phase, double share,
                    void (*work)(struct worker *w)) {
    const double until = s->start_s + share * (s->end_s - s->start_s);
    hf_screen_begin_phase(s, phase);
    for (int c = 0; c < s->cores; c++) {
        struct hf_affinity before;
        struct worker w = {.s = s, .ctx = ctx, .at = c, .until_s = until};
        if (turn_is_over(&w))
            return;
        if (!hf_affinity_enter(s->core[c], &before))
            continue;
        s->entered[c] = true;
        work(&w);
        hf_affinity_leave(&before);
    }
}

/* Products of one type, then some of the other problems, and so on; first what the core has not
 * run. Workers begin at different ones, so that units that cores share meet different work. */
static void hot_work(struct worker *w) {
    struct screen *const s = w->s;
    int64_t p = w->at;
    for (int i = 0; i < s->problems && !hf_screen_over(s); i++)
        ask_problem(w, &s->problem[i], true);
    double spent = 0; /* on the problems of a turn: large ones take long */
    for (int turn = w->at; !hf_screen_over(s); turn++) {
        if (s->products != NULL)
            hf_screen_products_work(s, w->ctx, w->at, turn,
                                    hf_screen_now(s) + fmax(PRODUCT_S, PRODUCT_TIMES * spent));
        const double begin = hf_screen_now(s);
        for (int n = 0; n < s->problems && !hf_screen_over(s) &&
                        (s->products == NULL || hf_screen_now(s) < begin + PROBLEM_S);
             n++)
            ask_problem(w, &s->problem[p++ % s->problems], false);
        spent = hf_screen_now(s) - begin;
        if (s->problems == 0 && s->products == NULL)
            return;
    }
}

static void *hot_core(void *worker) {
    struct worker *w = worker;
    struct screen *s = w->s;
    struct hf_affinity before;
    const double begin = hf_now_s(), begin_thread = hf_thread_s();
    if (!hf_affinity_enter(s->core[w->at], &before))
        return NULL;
    s->entered[w->at] = true;
    hot_work(w);
    w->wall_s = hf_now_s() - begin;
    w->worked_s = hf_thread_s() - begin_thread;
    return NULL;
}

static hf_status together(struct screen *s) {
    const hf_context_opts one = {.device = "cpu", .threads = 1};
    struct worker *w = hf_alloc_zero((size_t)s->cores * sizeof *w);
    double worked = 0, wall = 0;
    if (!w)
        return HF_E_NOMEM;
    hf_screen_begin_phase(s, "hot");
    const hf_status status = hf_screen_products_open(s);
    for (int c = 0; status == HF_OK && c < s->cores; c++) {
        w[c] = (struct worker){.s = s, .at = c};
        w[c].started = hf_context_create(&w[c].ctx, &one) == HF_OK &&
                       pthread_create(&w[c].thread, NULL, hot_core, &w[c]) == 0;
    }
    for (int c = 0; c < s->cores; c++) {
        if (w[c].started)
            (void)pthread_join(w[c].thread, NULL);
        hf_context_destroy(w[c].ctx);
        worked += w[c].worked_s;
        wall += w[c].wall_s;
    }
    s->result->share = wall > 0 ? worked / wall : 0;
    hf_free(w);
    return status;
}

static void tell_part(struct screen *s, const struct screen_kernel *k, int core, int at) {
    hf_dev_screen_part part = {
        .op = k->subject->op->name, .kernel = k->kernel->name, .core = core, .text = ""};
    char why[160] = "";
    if (!k->here) {
        part.verdict = HF_DEV_NOT_HERE;
        if (s->gpu != NULL)
            (void)hf_kernel_runs_on(k->kernel, &s->props, why, sizeof why);
        else
            (void)hf_kernel_runs_here(k->kernel, why, sizeof why);
        part.text = why;
        s->result->not_here++;
    } else {
        part.visits = k->visits[at];
        part.wrong = k->wrong[at];
        part.verdict = part.wrong > 0    ? HF_DEV_WRONG
                       : part.visits > 0 ? HF_DEV_RIGHT
                                         : HF_DEV_NOT_RUN;
        if (part.verdict == HF_DEV_NOT_RUN)
            part.text = s->entered[at]   ? "the time was up before its turn, or no problem takes it"
                        : s->gpu != NULL ? "the other multiprocessors could not be held"
                                         : "this process could not be moved to the core";
        s->result->right += part.verdict == HF_DEV_RIGHT;
        s->result->wrong += part.verdict == HF_DEV_WRONG;
        s->result->not_run += part.verdict == HF_DEV_NOT_RUN;
    }
    if (s->opts->part)
        s->opts->part(s->opts->user, &part);
}

static void tell_parts(struct screen *s) {
    for (int c = 0; c < s->cores; c++) {
        s->result->cores += s->entered[c];
        for (int k = 0; k < s->kernels; k++)
            if (s->kernel[k].here)
                tell_part(s, &s->kernel[k], s->core[c], c);
    }
    for (int k = 0; k < s->kernels; k++)
        if (!s->kernel[k].here)
            tell_part(s, &s->kernel[k], -1, 0);
}

static hf_status screen_cpu(struct screen *s) {
    const hf_context_opts one = {.device = "cpu", .threads = 1};
    hf_context *ctx = NULL;
    const double turn = !hf_screen_has_products(s)              ? TURN_SHARE_ALL
                        : s->end_s - s->start_s > SCREEN_LONG_S ? TURN_SHARE_LONG
                                                                : TURN_SHARE;
    HF_TRY(hf_context_create(&ctx, &one));
    in_turn(s, ctx, "idle", turn, idle_core);
    in_turn(s, ctx, "burst", turn + fmin(0.1, turn / 2), burst_core);
    hf_context_destroy(ctx);
    return together(s);
}

/* Its kernels need a fraction of the time in turn; most of it belongs to the hot phase. */
static hf_status screen_gpu(struct screen *s) {
    const double all = s->end_s - s->start_s;
    hf_screen_gpu_each(s,
                       s->start_s + (all > SCREEN_LONG_S ? GPU_EACH_LONG : GPU_EACH_SHARE) * all);
    hf_screen_gpu_burst(s, hf_screen_now(s) + GPU_BURST_SHARE * all);
    return hf_screen_gpu_hot(s);
}

static hf_status screen_all(struct screen *s) {
    hf_screen_begin_phase(s, "answers");
    HF_TRY(hf_screen_prepare(s));
    if (s->opts->plant_lane > hf_screen_lanes(s))
        return HF_E_ARG;
    HF_TRY(s->gpu != NULL ? screen_gpu(s) : screen_cpu(s));
    s->result->seconds = hf_screen_now(s) - s->start_s;
    if (s->products != NULL)
        hf_screen_products_tell(s, s->result->seconds);
    tell_parts(s);
    return HF_OK;
}

static hf_status choose_cores(struct screen *s) {
    s->props = (struct hf_device_props){.workers = 1};
    int index = 0;
    hf_comm_self(&s->comm, hf_device_find("cpu", &index));
    if (s->opts->device && strcmp(s->opts->device, "cpu") != 0)
        return hf_screen_gpu_open(s);
    if (s->opts->cores) {
        s->cores = s->opts->core_count;
        if (s->cores < 1 || s->cores > SCREEN_CORES)
            return HF_E_ARG;
        memcpy(s->core, s->opts->cores, (size_t)s->cores * sizeof *s->core);
        return HF_OK;
    }
    s->cores = hf_affinity_cores(s->core, SCREEN_CORES);
    s->cores = s->cores < SCREEN_CORES ? s->cores : SCREEN_CORES;
    return s->cores > 0 ? HF_OK : HF_E_ARG;
}

static bool can_plant(const struct screen *s) {
    bool found = s->opts->plant == 0;
    for (int c = 0; c < s->cores; c++)
        found = found || s->core[c] == s->opts->plant - 1;
    return found;
}

hf_status hf_dev_screen(const hf_dev_screen_opts *opts, hf_dev_screen_result *result) {
    hf_dev_screen_opts full = opts ? *opts : (hf_dev_screen_opts){0};
    full.seconds = full.seconds > 0 ? full.seconds : 10;
    *result = (hf_dev_screen_result){0};
    if (full.op && hf_op_find(full.op) < 0)
        return HF_E_ARG;
    struct screen *s = hf_alloc_zero(sizeof *s);
    if (!s)
        return HF_E_NOMEM;
    s->opts = &full;
    s->result = result;
    s->start_s = hf_screen_now(s);
    s->end_s = s->start_s + full.seconds;
    (void)pthread_mutex_init(&s->lock, NULL);
    hf_status status = choose_cores(s);
    if (status == HF_OK)
        status = can_plant(s) ? screen_all(s) : HF_E_ARG;
    hf_screen_products_close(s);
    hf_screen_clear(s);
    hf_screen_gpu_close(s);
    (void)pthread_mutex_destroy(&s->lock);
    hf_free(s);
    return status;
}
