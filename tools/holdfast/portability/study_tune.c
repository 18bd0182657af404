/* SPDX-License-Identifier: Apache-2.0
 * Which kernel is the fastest on the rows themselves: on a GPU on all of them, on a CPU on the
 * first some. Whether it is right shows later, by its labels. */
#include "portability/portability.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FORCE "HF_KERNEL_ASSIGN"
#define STEPS 5    /* iterations of a fit, */
#define FITS 3     /* of which the fastest counts */
#define HOPELESS 4 /* times the best: one call tells it */

struct winner {
    const char *kernel;
    double assign_s, iteration_s; /* of the fastest so far */
};

/* Whole iterations count: what a fit does once for all of them is not the op's own time. */
static void try_kernel(const struct backend *b, const hf_array *x, const hf_array *c,
                       const char *name, struct winner *best) {
    char ran[64];
    double assign = 0;
    if (hf_dev_study_assign(b->ctx, x, c, 1, &assign, ran) != HF_OK ||
        assign > HOPELESS * best->assign_s)
        return; /* it does not serve these rows, or far too slowly */
    for (int i = 0; i < FITS; i++) {
        hf_kmeans_result r = {0};
        if (study_fit(b, x, c, STEPS, &r) != HF_OK)
            return;
        const double seconds = r.seconds_iterate / r.iterations;
        hf_kmeans_result_clear(&r);
        if (seconds < best->iteration_s)
            *best = (struct winner){name, assign, seconds};
    }
}

/* The fastest kernel on these rows and centroids. */
static hf_dev_timing fastest(const struct backend *b, const hf_array *x, const hf_array *c) {
    struct winner best = {NULL, 1e30, 1e30};
    hf_dev_kernel kernel;
    for (int i = 0; hf_dev_kernel_at("assign", i, &kernel); i++) {
        if (kernel.reference || strcmp(kernel.device, "opencl") != 0)
            continue;
        setenv(FORCE, kernel.name, 1);
        try_kernel(b, x, c, kernel.name, &best);
        unsetenv(FORCE);
    }
    return (hf_dev_timing){.kernel = best.kernel, .median_s = best.assign_s};
}

static int tune_backend(struct study *s, struct problem *p, struct backend *b) {
    hf_dev_timing winner[STUDY_KS];
    int winners = 0;
    hf_array x = b->rows;
    if (b->platform == PLATFORM_CPU && x.rows > s->options.slice)
        x.rows = s->options.slice;
    for (int i = 0; i < s->options.ks; i++) {
        study_choose_centroids(p, s->options.k[i]);
        winner[winners] = fastest(b, &x, &p->centroids);
        if (!winner[winners].kernel)
            continue;
        winner[winners].op = "assign";
        winner[winners++].shape =
            (hf_dev_shape){.dtype = {HF_F32}, .dim = {p->x.rows, p->centroids.rows, p->x.cols}};
    }
    errno = 0;
    const hf_status status = hf_dev_tune_write(b->ctx, b->tuning, winner, winners);
    return status == HF_OK ? EXIT_DONE : tool_fail(b->ctx, status, STAGE_WRITE);
}

/* A context reads its file once, so another one takes its place. */
static int follow(struct study *s, struct problem *p, struct backend *b) {
    hf_dev_study_remove(b->ctx, &b->rows);
    hf_context_destroy(b->ctx);
    b->ctx = NULL;
    const int code = study_open_context(s, b->device, b->tuning, &b->ctx);
    if (code != EXIT_DONE)
        return code;
    errno = 0;
    const hf_status status = hf_dev_study_place(b->ctx, &p->x, &b->rows);
    return status == HF_OK ? EXIT_DONE : tool_fail(b->ctx, status, STAGE_COMPUTE);
}

int study_tune(struct study *s, struct problem *p) {
    int code = EXIT_DONE;
    for (int i = 0; code == EXIT_DONE && i < s->backends; i++) {
        struct backend *b = &s->backend[i];
        if (b->code != CODE_TUNED || !b->ctx)
            continue;
        printf("tuning %s\n", b->device);
        fflush(stdout);
        code = tune_backend(s, p, b);
        if (code == EXIT_DONE)
            code = follow(s, p, b);
    }
    return code;
}
