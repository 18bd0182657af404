/* SPDX-License-Identifier: Apache-2.0
 * The inside of the screen. */
#ifndef HF_SCREEN_H
#define HF_SCREEN_H

#include "base/affinity.h"
#include "base/clock.h"
#include "harness/harness.h"
#include <holdfast/dev_screen.h>
#include <pthread.h>

#define SCREEN_CORES 4096
#define SCREEN_LONG_S 60        /* longer screens spend a smaller share before the hot phase */
#define SCREEN_MOST_FINDINGS 20 /* of a core: it is known to be bad then */

/* A call whose answer is known. */
struct screen_problem {
    const struct hf_subject *subject;
    int op;
    int64_t id;          /* of the case; -1: the benchmark problem */
    struct hf_case home; /* as first made, to know the shapes of `ref` */
    void **ref;          /* outputs of the reference */
    int core;            /* on which it computed them; -1: none of those that are screened */
};

/* A kernel of the device. */
struct screen_kernel {
    const struct hf_subject *subject;
    int op;
    const struct hf_kernel *kernel;
    bool here;
    int width;               /* cores that it needs at least: more than 1 on a GPU only */
    int64_t *visits, *wrong; /* [cores] */
};

struct screen {
    const hf_dev_screen_opts *opts;
    struct hf_subject subject[HF_OP_COUNT];
    struct screen_problem *problem;
    struct screen_kernel *kernel;
    int problems, kernels, cores;
    hf_context *gpu;    /* NULL: the CPU is screened */
    struct hf_pin *pin; /* of the GPU */
    struct hf_device_props props;
    hf_comm comm;                     /* who works on a problem: nobody else */
    struct screen_products *products; /* NULL: none */
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

/* The kernel of that name among those that are screened; NULL: it is not. */
struct screen_kernel *hf_screen_listed(struct screen *s, const char *name);

/* Does the kernel take the problem? */
bool hf_screen_takes(const struct screen *s, const struct screen_kernel *kernel,
                     const struct screen_problem *problem);

/* Run on the calling thread, which is on core number `at` of the list; right? Says why not. */
struct screen_question {
    const struct screen_kernel *kernel;
    const struct screen_problem *problem;
    struct hf_case *c; /* hf_screen_make() of the problem */
    int at;            /* -1: on all of them */
};
bool hf_screen_run(const struct screen *s, hf_context *ctx, const struct screen_question *q,
                   char *why, size_t why_bytes);

/* The reference kernel that takes these arguments, or NULL. */
const struct hf_kernel *hf_screen_reference(const struct screen *s,
                                            const struct hf_subject *subject, const void *args);

/* The caller's planted fault, if the kernel that wrote these words on core number `at` has it;
 * chains: it is one of op lanes, which no fault of a lane spares. */
void hf_screen_spoil(const struct screen *s, const char *kernel, bool chains, int at, void *words,
                     size_t bytes);

/* How many lanes a vector of the screened cores has, or the four parts of a multiprocessor. */
int hf_screen_lanes(const struct screen *s);

/* The only lane of core number `at` whose chains of op lanes end wrongly: -1: none, or several;
 * lanes: that it has. The calling thread may be anywhere. */
int hf_screen_lane(const struct screen *s, hf_context *ctx, int at, int *lanes);

/* The calling thread moves to core number `at`, or what the GPU does to `width` multiprocessors
 * from there on; at -1: to all of them. False if it cannot. leave: was it there all the time? */
struct screen_place {
    int at;
    struct hf_affinity before;
};
bool hf_screen_enter(const struct screen *s, int at, int width, struct screen_place *place);
bool hf_screen_leave(const struct screen *s, const struct screen_place *place);

/* Products of the hot phase of a CPU (screen_products.c). open: the data, and what they must come
 * to. work: those of kind `turn`, on core number `at`, where the calling thread is, with a context
 * of one thread. tell: what each unit did, in a screen of so many seconds. */
struct screen_products;
bool hf_screen_has_products(const struct screen *s);
hf_status hf_screen_products_open(struct screen *s);
void hf_screen_products_close(struct screen *s);
void hf_screen_products_work(struct screen *s, hf_context *ctx, int at, int turn, double until_s);
void hf_screen_products_tell(struct screen *s, double seconds);

/* The phases of a GPU. (screen_gpu.c, screen_hot.c) */
hf_status hf_screen_gpu_open(struct screen *s);
void hf_screen_gpu_close(struct screen *s);
void hf_screen_gpu_each(struct screen *s, double until_s);
void hf_screen_gpu_burst(struct screen *s, double until_s);
hf_status hf_screen_gpu_hot(struct screen *s);
void hf_screen_begin_phase(struct screen *s, const char *phase);
void hf_screen_nap(const struct screen *s, double seconds);

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
