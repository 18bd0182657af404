/* SPDX-License-Identifier: Apache-2.0
 * The screen of a GPU: a kernel is asked on one multiprocessor after the other while all others are
 * held, so that whose answer it is needs no guess. */
#include "harness/screen/screen.h"

#include <stdio.h>
#include <string.h>

#define NAP_S 0.02 /* between bursts */

/* A kernel on a problem, and the time that it may take. */
struct turn {
    struct screen *s;
    struct screen_kernel *kernel;
    const struct screen_problem *problem;
    struct hf_case *c;
    double until_s;
    int findings;
};

static void visited(const struct turn *t, int at, int width) {
    for (int c = at; c < at + width && c < t->s->cores; c++)
        t->kernel->visits[c]++;
    t->s->result->runs++;
}

static bool run_on_all(struct turn *t, char *why, size_t why_bytes) {
    const struct screen_question q = {t->kernel, t->problem, t->c, -1};
    t->s->result->runs++;
    return hf_screen_run(t->s, t->s->gpu, &q, why, why_bytes);
}

/* A wrong answer that all multiprocessors gave together. */
static void tell_all(struct turn *t, const char *why) {
    struct screen *s = t->s;
    const hf_dev_screen_finding f = {.op = t->problem->subject->op->name,
                                     .kernel = t->kernel->kernel->name,
                                     .problem = t->problem->home.name,
                                     .phase = s->phase,
                                     .core = -1,
                                     .with = s->cores,
                                     .lane = -1,
                                     .blame = HF_DEV_BLAME_UNKNOWN,
                                     .text = why};
    s->result->findings++;
    if (s->opts->finding)
        s->opts->finding(s->opts->user, &f);
}

/* On `kernel->width` multiprocessors from number `at` on. False: others took part, or it could not
 * be launched there, as it needs more. */
static bool ask_some(struct turn *t, int at) {
    char why[256];
    struct screen *s = t->s;
    struct screen_place place;
    const struct screen_question q = {t->kernel, t->problem, t->c, at};
    if (!hf_screen_enter(s, at, t->kernel->width, &place))
        return false;
    const bool right = hf_screen_run(s, s->gpu, &q, why, sizeof why);
    if (!hf_screen_leave(s, &place) ||
        (!right && t->c->ran != HF_OK && t->kernel->width < s->cores))
        return false;
    visited(t, at, t->kernel->width);
    if (!right && t->findings++ < SCREEN_MOST_FINDINGS)
        hf_screen_triage(s, s->gpu, at, t->kernel, t->problem, why);
    return true;
}

static bool is_over(const struct turn *t) {
    return hf_screen_now(t->s) >= t->until_s || hf_screen_over(t->s);
}

/* Blocks that belong together, in a cluster or in one launch, may need two multiprocessors or all
 * of them. */
static void find_width(struct turn *t) {
    while (t->kernel->width < t->s->cores && !ask_some(t, 0))
        t->kernel->width = t->kernel->width < 2 ? 2 : t->s->cores;
}

/* First on all of them: a kernel must have run once before others are held. */
static void ask_each(struct turn *t) {
    struct screen *s = t->s;
    char why[256];
    const bool right = run_on_all(t, why, sizeof why);
    find_width(t);
    if (t->kernel->width >= s->cores)
        visited(t, 0, s->cores);
    for (int at = 0; t->kernel->width < s->cores && at < s->cores && !is_over(t);
         at += t->kernel->width)
        (void)ask_some(t, at);
    if (!right && t->findings == 0)
        tell_all(t, why);
}

static bool is_visited(const struct screen *s, const struct screen_kernel *kernel) {
    for (int c = 0; c < s->cores; c++)
        if (kernel->visits[c] == 0)
            return false;
    return true;
}

/* All kernels that take the problem; first: only those that are not everywhere yet, on problems
 * that one multiprocessor does quickly. */
static void each_problem(struct screen *s, struct screen_problem *problem, bool first,
                         double until_s) {
    struct hf_case c;
    bool made = false;
    for (int k = 0; k < s->kernels; k++) {
        struct turn t = {s, &s->kernel[k], problem, &c, until_s, 0};
        if (!hf_screen_takes(s, t.kernel, problem) || is_over(&t) ||
            (first && (problem->id < 0 || is_visited(s, t.kernel))))
            continue;
        if (!made && !hf_screen_make(s, problem, &c))
            return;
        made = true;
        ask_each(&t);
    }
    if (made)
        hf_case_clear(&c);
}

void hf_screen_gpu_each(struct screen *s, double until_s) {
    hf_screen_begin_phase(s, "each");
    for (int c = 0; c < s->cores; c++)
        s->entered[c] = true;
    for (int pass = 0; pass < 2; pass++)
        for (int p = 0; p < s->problems; p++)
            each_problem(s, &s->problem[p], pass == 0, until_s);
}

/* All multiprocessors work, then sleep. */
void hf_screen_gpu_burst(struct screen *s, double until_s) {
    hf_screen_begin_phase(s, "burst");
    for (int p = 0; p < s->problems; p++) {
        struct hf_case c;
        struct turn t = {s, NULL, &s->problem[p], &c, until_s, 0};
        if (is_over(&t))
            return;
        if (!hf_screen_make(s, t.problem, &c))
            continue;
        for (int k = 0; k < s->kernels && !is_over(&t); k++) {
            char why[256];
            t.kernel = &s->kernel[k];
            if (hf_screen_takes(s, t.kernel, t.problem) && !run_on_all(&t, why, sizeof why))
                tell_all(&t, why);
        }
        hf_case_clear(&c);
        hf_screen_nap(s, NAP_S);
    }
}
