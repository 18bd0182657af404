/* SPDX-License-Identifier: Apache-2.0
 * The inside of the screen. */
#ifndef HF_SCREEN_H
#define HF_SCREEN_H

#include "base/clock.h"
#include "harness/harness.h"
#include <holdfast/dev_screen.h>
#include <pthread.h>

#define SCREEN_CORES 4096

/* A call whose answer is known. */
struct screen_problem {
    const struct hf_subject *subject;
    int op;
    int64_t id;          /* of the case; -1: the benchmark problem */
    struct hf_case home; /* as first made, to know the shapes of `ref` */
    void **ref;          /* outputs of the reference */
    int core;            /* on which it computed them */
};

/* A kernel of the CPU. */
struct screen_kernel {
    const struct hf_subject *subject;
    int op;
    const struct hf_kernel *kernel;
    bool here;
    int64_t *visits, *wrong; /* [cores] */
};

struct screen {
    const hf_dev_screen_opts *opts;
    struct hf_subject subject[HF_OP_COUNT];
    struct screen_problem *problem;
    struct screen_kernel *kernel;
    int problems, kernels, cores;
    int core[SCREEN_CORES];
    bool entered[SCREEN_CORES];
    double start_s, end_s;
    const char *phase;
    pthread_mutex_t lock; /* of findings */
    hf_dev_screen_result *result;
};

/* Problems of all ops with their answers, kernels; hf_screen_clear() frees. */
hf_status hf_screen_prepare(struct screen *s);
void hf_screen_clear(struct screen *s);

/* The problem made anew in memory of the caller's; hf_case_clear() frees. */
bool hf_screen_make(const struct screen *s, const struct screen_problem *problem,
                    struct hf_case *c);

/* Does the kernel take the problem? */
bool hf_screen_takes(const struct screen_kernel *kernel, const struct screen_problem *problem);

/* Run on the calling thread, which is on core number `at` of the list; right? Says why not. */
struct screen_question {
    const struct screen_kernel *kernel;
    const struct screen_problem *problem;
    struct hf_case *c; /* hf_screen_make() of the problem */
    int at;
};
bool hf_screen_run(const struct screen *s, hf_context *ctx, const struct screen_question *q,
                   char *why, size_t why_bytes);

/* Repeat a wrong answer, ask other cores, tell the finding. The calling thread is on core number
 * `at` and comes back there. */
void hf_screen_triage(struct screen *s, hf_context *ctx, int at, struct screen_kernel *kernel,
                      const struct screen_problem *problem, const char *why);

/* Seconds by the system's clock or the caller's. */
static inline double hf_screen_now(const struct screen *s) {
    return s->opts->clock ? s->opts->clock(s->opts->user) : hf_now_s();
}

/* Time is up, or the caller said stop. */
bool hf_screen_over(const struct screen *s);

#endif
