/* SPDX-License-Identifier: Apache-2.0
 * Times: backends take turns on the same rows, from the same centroids. */
#include "portability/portability.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ROUNDS 32
#define FIRST_ROWS 100000 /* of the plain port, of whose speed nothing is known yet */
#define LEAST_ROWS INT64_C(10000)
#define LABELS_BASIS UINT64_C(0xCBF29CE484222325) /* FNV-1a */
#define LABELS_PRIME UINT64_C(0x100000001B3)

struct halves {
    double assign, update;
};

struct sample {
    double iteration;
    struct halves half; /* of the plain port alone */
    int64_t differ;
    uint64_t labels;
    char kernel[64];
};

hf_status study_fit(const struct backend *b, const hf_array *x, const hf_array *centroids,
                    int steps, hf_kmeans_result *r) {
    const hf_kmeans_opts opts = {.k = centroids->rows,
                                 .init = HF_INIT_GIVEN,
                                 .centroids = centroids,
                                 .max_iter = steps,
                                 .tol = -1,
                                 .empty = HF_EMPTY_KEEP,
                                 .skipping = HF_SKIP_OFF,
                                 .guard = HF_GUARD_OFF};
    errno = 0;
    return hf_kmeans_fit(b->ctx, x, &opts, r);
}

/* To warm up a CPU, where a kernel may have to be compiled, few rows will do. */
static int fit(const struct study *s, int at, bool warm, struct problem *p, struct sample *sample) {
    const struct backend *b = &s->backend[at];
    hf_kmeans_result r = {0};
    hf_array x = b->rows;
    if (warm && b->platform == PLATFORM_CPU && x.rows > s->options.slice)
        x.rows = s->options.slice;
    const hf_status status = study_fit(b, &x, &p->centroids, s->options.steps, &r);
    if (status != HF_OK)
        return tool_fail(b->ctx, status, STAGE_COMPUTE);
    sample->iteration = r.seconds_iterate / r.iterations;
    sample->differ = 0;
    sample->labels = LABELS_BASIS;
    for (int64_t i = 0; i < r.n; i++) {
        sample->differ += at > 0 && r.labels[i] != p->labels[i];
        sample->labels = (sample->labels ^ (uint32_t)r.labels[i]) * LABELS_PRIME;
    }
    if (at == 0)
        memcpy(p->labels, r.labels, (size_t)r.n * sizeof *r.labels);
    memcpy(sample->kernel, r.kernel_assign, sizeof sample->kernel);
    hf_kmeans_result_clear(&r);
    return EXIT_DONE;
}

hf_dev_port_form study_port_form(const struct backend *b) {
    const bool cpu = b->platform == PLATFORM_CPU;
    return (hf_dev_port_form){.width = 1, .package = 1, .group = cpu ? 8 : 128, .by_columns = !cpu};
}

/* The port on so many of the rows. */
static int open_port(struct backend *b, const struct problem *p, int64_t rows) {
    const hf_dev_port_form form = study_port_form(b);
    hf_array x = p->x;
    x.rows = rows;
    if (b->port && b->port_rows == rows)
        return EXIT_DONE;
    hf_dev_port_close(b->port);
    b->port = NULL;
    b->port_rows = rows;
    errno = 0;
    const hf_status status = hf_dev_port_open(b->ctx, &x, &form, &b->port);
    return status == HF_OK ? EXIT_DONE : tool_fail(b->ctx, status, STAGE_COMPUTE);
}

/* As many iterations, and then rows, as the limit allows by what the last sample took. */
static void plan_port(const struct study *s, const struct backend *b, const struct problem *p,
                      int64_t *rows, int *steps) {
    const double each = b->port_s * (double)p->centroids.rows, limit = s->options.limit;
    const double most = b->port_s > 0 ? limit / each : FIRST_ROWS; /* rows */
    *rows = p->x.rows;
    while ((double)*rows > most && *rows >= 2 * LEAST_ROWS)
        *rows /= 2;
    const double fit = b->port_s > 0 ? most / (double)*rows : 1;
    *steps = fit < 1 ? 1 : fit < s->options.steps ? (int)fit : s->options.steps;
}

static int run_port(struct study *s, int at, const struct problem *p, struct sample *sample) {
    struct backend *b = &s->backend[at];
    int64_t rows;
    int steps;
    plan_port(s, b, p, &rows, &steps);
    const int code = open_port(b, p, rows);
    if (code != EXIT_DONE)
        return code;
    errno = 0;
    const hf_status status = hf_dev_port_run(b->port, &p->centroids, steps, &sample->half.assign,
                                             &sample->half.update, NULL);
    if (status != HF_OK)
        return tool_fail(b->ctx, status, STAGE_COMPUTE);
    const double times = (double)p->x.rows / (double)rows;
    b->port_s =
        (sample->half.assign + sample->half.update) / ((double)rows * (double)p->centroids.rows);
    sample->half.assign *= times;
    sample->half.update *= times;
    sample->iteration = sample->half.assign + sample->half.update;
    sample->differ = -1;
    snprintf(sample->kernel, sizeof sample->kernel, "assign of %lld rows", (long long)rows);
    return EXIT_DONE;
}

static int measure_once(struct study *s, int at, bool warm, struct problem *p,
                        struct sample *sample) {
    return s->backend[at].code == CODE_PORT ? run_port(s, at, p, sample)
                                            : fit(s, at, warm, p, sample);
}

static int compare(const void *a, const void *b) {
    const double p = *(const double *)a;
    const double q = *(const double *)b;
    return (p > q) - (p < q);
}

/* The median of the rounds, and what op assign takes of it. */
static int end_row(struct study *s, int at, const struct problem *p, double *samples,
                   const struct sample *last) {
    const struct backend *b = &s->backend[at];
    const int rounds = s->options.rounds;
    struct study_row *row = &s->row[s->rows++];
    qsort(samples, (size_t)rounds, sizeof *samples, compare);
    *row = (struct study_row){.set = p->set,
                              .backend = at,
                              .n = p->x.rows,
                              .d = p->x.cols,
                              .k = p->centroids.rows,
                              .iteration_s = samples[rounds / 2],
                              .assign_s = last->half.assign,
                              .update_s = last->half.update,
                              .least_s = samples[0],
                              .most_s = samples[rounds - 1],
                              .differ = last->differ,
                              .labels = last->labels,
                              .steps = s->options.steps};
    memcpy(row->kernel, last->kernel, sizeof row->kernel);
    if (b->code != CODE_PORT) {
        errno = 0;
        const hf_status status =
            hf_dev_study_assign(b->ctx, &b->rows, &p->centroids, 3, &row->assign_s, row->kernel);
        if (status != HF_OK)
            return tool_fail(b->ctx, status, STAGE_COMPUTE);
        row->update_s = row->iteration_s > row->assign_s ? row->iteration_s - row->assign_s : 0;
    }
    printf("%-8s k=%-4lld %-24s %10s an iteration, assign %10s%s\n", study_sets[p->set],
           (long long)row->k, study_backend_text(s, at), tool_seconds_text(row->iteration_s),
           tool_seconds_text(row->assign_s), row->differ > 0 ? "  LABELS DIFFER" : "");
    fflush(stdout);
    return EXIT_DONE;
}

static int measure_case(struct study *s, struct problem *p) {
    static double samples[STUDY_BACKENDS][MOST_ROUNDS];
    struct sample last[STUDY_BACKENDS] = {{0}};
    int code = EXIT_DONE;
    for (int round = -1; round < s->options.rounds; round++) /* the first one compiles */
        for (int at = 0; code == EXIT_DONE && at < s->backends; at++) {
            code = measure_once(s, at, round < 0, p, &last[at]);
            if (round >= 0)
                samples[at][round] = last[at].iteration;
        }
    for (int at = 0; code == EXIT_DONE && at < s->backends; at++)
        code = end_row(s, at, p, samples[at], &last[at]);
    study_judge(s);
    return code == EXIT_DONE ? study_write_table(s)
                             : code; /* what is known if the rest is cut off */
}

static int measure_set(struct study *s, struct problem *p) {
    int code = study_place(s, p);
    if (code == EXIT_DONE)
        code = study_tune(s, p);
    for (int i = 0; code == EXIT_DONE && i < s->options.ks; i++) {
        study_choose_centroids(p, s->options.k[i]);
        code = measure_case(s, p);
    }
    study_remove(s);
    return code;
}

int study_measure(struct study *s) {
    static const int64_t rows[STUDY_SETS] = {1000000, 2458285};
    const struct study_options *o = &s->options;
    int64_t most = 0;
    int code = EXIT_DONE;
    for (int i = 0; i < o->ks; i++)
        most = o->k[i] > most ? o->k[i] : most;
    for (int set = 0; set < STUDY_SETS; set++) {
        struct problem p;
        if (!o->set[set] || code != EXIT_DONE)
            continue;
        code = study_problem(set, study_scaled(s, rows[set]), 0, most, &p);
        if (code == EXIT_DONE)
            code = measure_set(s, &p);
        study_end_problem(&p);
    }
    return code;
}
