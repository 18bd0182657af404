/* SPDX-License-Identifier: Apache-2.0
 * Times: backends take turns on the same rows, from the same centroids. */
#include "portability/portability.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ROUNDS 32
#define SWEEP_K 256
#define SWEEP_COLUMNS 100
#define SWEEP_STEPS 3

struct problem {
    int set;
    hf_array x, centroids;
    int32_t *labels; /* [n] of the first backend */
};

struct halves {
    double assign, update;
};

struct sample {
    double iteration;
    struct halves half; /* of the plain port alone */
    int64_t differ;
    char kernel[64];
};

static const char *text_of(const struct study *s, int backend) {
    static char text[64];
    snprintf(text, sizeof text, "%s on the %s", study_codes[s->backend[backend].code],
             study_platforms[s->backend[backend].platform]);
    return text;
}

static int fit(const struct study *s, int at, struct problem *p, struct sample *sample) {
    const struct backend *b = &s->backend[at];
    const hf_kmeans_opts opts = {.k = p->centroids.rows,
                                 .init = HF_INIT_GIVEN,
                                 .centroids = &p->centroids,
                                 .max_iter = s->options.steps,
                                 .tol = -1,
                                 .empty = HF_EMPTY_KEEP,
                                 .skipping = HF_SKIP_OFF,
                                 .guard = HF_GUARD_OFF};
    hf_kmeans_result r = {0};
    errno = 0;
    const hf_status status = hf_kmeans_fit(b->ctx, &p->x, &opts, &r);
    if (status != HF_OK)
        return tool_fail(b->ctx, status, STAGE_COMPUTE);
    sample->iteration = r.seconds_iterate / r.iterations;
    sample->differ = 0;
    for (int64_t i = 0; i < r.n; i++)
        sample->differ += at > 0 && r.labels[i] != p->labels[i];
    if (at == 0)
        memcpy(p->labels, r.labels, (size_t)r.n * sizeof *r.labels);
    memcpy(sample->kernel, r.kernel_assign, sizeof sample->kernel);
    hf_kmeans_result_clear(&r);
    return EXIT_DONE;
}

/* The study's own choice: columns apart on a GPU, 128 work-items; on a CPU 8. */
static hf_dev_port_form port_form(const struct backend *b) {
    const bool cpu = b->platform == PLATFORM_CPU;
    return (hf_dev_port_form){.width = 1, .package = 1, .group = cpu ? 8 : 128, .by_columns = !cpu};
}

static int run_port(const struct study *s, int at, const struct problem *p,
                    const hf_dev_port_form *form, int steps, struct halves *out) {
    const struct backend *b = &s->backend[at];
    hf_dev_port *port = NULL;
    errno = 0;
    hf_status status = hf_dev_port_open(b->ctx, &p->x, form, &port);
    if (status == HF_OK)
        status = hf_dev_port_run(port, &p->centroids, steps, &out->assign, &out->update, NULL);
    hf_dev_port_close(port);
    return status == HF_OK ? EXIT_DONE : tool_fail(b->ctx, status, STAGE_COMPUTE);
}

static int measure_once(const struct study *s, int at, struct problem *p, struct sample *sample) {
    if (s->backend[at].code != CODE_PORT)
        return fit(s, at, p, sample);
    const hf_dev_port_form form = port_form(&s->backend[at]);
    const int code = run_port(s, at, p, &form, s->options.steps, &sample->half);
    sample->iteration = sample->half.assign + sample->half.update;
    sample->differ = -1;
    snprintf(sample->kernel, sizeof sample->kernel, "assign");
    return code;
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
    char kernel[64] = "";
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
                              .differ = last->differ};
    memcpy(row->kernel, last->kernel, sizeof row->kernel);
    if (b->code != CODE_PORT) {
        errno = 0;
        const hf_status status =
            hf_dev_study_assign(b->ctx, &p->x, &p->centroids, 3, &row->assign_s, kernel);
        if (status != HF_OK)
            return tool_fail(b->ctx, status, STAGE_COMPUTE);
        row->update_s = row->iteration_s > row->assign_s ? row->iteration_s - row->assign_s : 0;
    }
    printf("%-8s k=%-4lld %-24s %10s an iteration, assign %10s%s\n", study_sets[p->set],
           (long long)row->k, text_of(s, at), tool_seconds_text(row->iteration_s),
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
            if (round < 0 && s->backend[at].code == CODE_PORT)
                continue;
            code = measure_once(s, at, p, &last[at]);
            if (round >= 0)
                samples[at][round] = last[at].iteration;
        }
    for (int at = 0; code == EXIT_DONE && at < s->backends; at++)
        code = end_row(s, at, p, samples[at], &last[at]);
    return code;
}

/* Rows far apart in the set are the first centroids. */
static void choose_centroids(struct problem *p, float *room, int64_t k) {
    const int64_t d = p->x.cols;
    for (int64_t c = 0; c < k; c++)
        memcpy(room + c * d, (const float *)p->x.data + c * (p->x.rows / k) * d,
               (size_t)d * sizeof *room);
    p->centroids = (hf_array){.data = room, .dtype = HF_F32, .rows = k, .cols = d, .row_stride = d};
}

static int make_problem(const char *set, int64_t rows, int64_t columns, int64_t most_k,
                        struct problem *p, float **room) {
    const hf_status status = hf_dev_study_rows(set, rows, columns, &p->x);
    if (status == HF_OK && most_k > 0 && p->x.cols > 0) {
        *room = calloc((size_t)(most_k * p->x.cols), sizeof **room);
        p->labels = calloc((size_t)p->x.rows, sizeof *p->labels);
    }
    if (*room && p->labels)
        return EXIT_DONE;
    tool_error("no memory for %lld rows of the study; use a smaller --scale", (long long)rows);
    return EXIT_RESOURCES;
}

static void end_problem(struct problem *p, float *room) {
    free(p->labels);
    free(room);
    hf_dev_study_free(&p->x);
}

static int64_t scaled(const struct study *s, int64_t rows) {
    const int64_t n = (int64_t)((double)rows * s->options.scale);
    return n < 1000 ? 1000 : n;
}

int study_measure(struct study *s) {
    static const int64_t rows[STUDY_SETS] = {1000000, 2458285};
    const struct study_options *o = &s->options;
    int64_t most = 0;
    int code = EXIT_DONE;
    for (int i = 0; i < o->ks; i++)
        most = o->k[i] > most ? o->k[i] : most;
    for (int set = 0; set < STUDY_SETS; set++) {
        struct problem p = {.set = set};
        float *room = NULL;
        if (!o->set[set] || code != EXIT_DONE)
            continue;
        code = make_problem(study_sets[set], scaled(s, rows[set]), 0, most, &p, &room);
        if (code == EXIT_DONE && most > p.x.rows) {
            tool_error("-k %lld: the set has %lld rows at this scale", (long long)most,
                       (long long)p.x.rows);
            code = EXIT_USAGE;
        }
        for (int i = 0; code == EXIT_DONE && i < o->ks; i++) {
            choose_centroids(&p, room, o->k[i]);
            code = measure_case(s, &p);
        }
        end_problem(&p, room);
    }
    return code;
}

/* ---- sweeps */

static void add_point(struct study *s, const struct study_point *point) {
    if (s->points == STUDY_POINTS)
        return;
    s->point[s->points++] = *point;
    printf("%-22s %-26s %-28s assign %10s\n", point->sweep, text_of(s, point->backend), point->what,
           tool_seconds_text(point->assign_s));
    fflush(stdout);
}

static int sweep_port(struct study *s, int at, const struct problem *p, const char *sweep,
                      hf_dev_port_form form, int value) {
    struct study_point point = {.sweep = sweep, .backend = at, .value = value};
    struct halves half = {0, 0};
    snprintf(point.what, sizeof point.what, "%d", value);
    const int code = run_port(s, at, p, &form, SWEEP_STEPS, &half);
    point.assign_s = half.assign;
    point.update_s = half.update;
    if (code == EXIT_DONE)
        add_point(s, &point);
    return code;
}

/* Points of a work-item, work-items of a group. */
static int sweep_sizes(struct study *s, int at, const struct problem *p) {
    static const int packages[] = {1, 2, 4, 8, 16, 32, 64, 128};
    static const int groups[] = {1, 8, 16, 32, 64, 128, 256};
    int code = EXIT_DONE;
    for (size_t i = 0; code == EXIT_DONE && i < sizeof packages / sizeof *packages; i++) {
        hf_dev_port_form form = port_form(&s->backend[at]);
        form.package = packages[i];
        code = sweep_port(s, at, p, "points of a work-item", form, packages[i]);
    }
    for (size_t i = 0; code == EXIT_DONE && i < sizeof groups / sizeof *groups; i++) {
        hf_dev_port_form form = port_form(&s->backend[at]);
        form.group = groups[i];
        code = sweep_port(s, at, p, "work-items of a group", form, groups[i]);
    }
    return code;
}

static int sweep_widths(struct study *s, int at, const struct problem *p, const char *sweep) {
    int code = EXIT_DONE;
    for (int width = 1; code == EXIT_DONE && width <= 16; width *= 2) {
        hf_dev_port_form form = port_form(&s->backend[at]);
        form.width = width;
        form.by_columns = 0;
        code = sweep_port(s, at, p, sweep, form, width);
    }
    return code;
}

struct naming {
    struct study *s;
    int at, place;
};

static void take_kernel(void *user, const hf_dev_timing *t) {
    struct naming *n = user;
    struct study_point point = {.sweep = "kernels",
                                .backend = n->at,
                                .value = ++n->place,
                                .assign_s = t->median_s,
                                .update_s = -1};
    snprintf(point.what, sizeof point.what, "%s", t->kernel);
    add_point(n->s, &point);
}

/* The library's own kernels: vector widths, points and centroids of a work-item. */
static int sweep_kernels(struct study *s, int at, const struct problem *p) {
    const hf_dev_shape shape = {.dtype = {HF_F32}, .dim = {p->x.rows, SWEEP_K, p->x.cols}};
    const hf_dev_time_opts time = {.kernel = "all", .rounds = 3, .budget_s = 1};
    struct naming naming = {s, at, 0};
    errno = 0;
    const hf_status status =
        hf_dev_time(s->backend[at].ctx, "assign", &shape, &time, take_kernel, &naming);
    return status == HF_OK ? EXIT_DONE : tool_fail(s->backend[at].ctx, status, STAGE_COMPUTE);
}

/* The sizes that the study tried, on its uniform rows; a plain port on a CPU gets a tenth of the
 * rows of a GPU. */
static int sweep_device(struct study *s, int at) {
    static const struct {
        int64_t columns;
        const char *name;
    } widths[] = {{10, "width, 10 columns"},
                  {50, "width, 50 columns"},
                  {200, "width, 200 columns"},
                  {500, "width, 500 columns"}};
    const int64_t share = s->backend[at].platform == PLATFORM_CPU ? 10 : 1;
    const int64_t n = scaled(s, 1000000) / share < 1000 ? 1000 : scaled(s, 1000000) / share;
    int code = EXIT_DONE;
    for (size_t i = 0; code == EXIT_DONE && i <= sizeof widths / sizeof *widths; i++) {
        const bool sizes = i == sizeof widths / sizeof *widths;
        struct problem p = {.set = 0};
        float *room = NULL;
        code = make_problem("uniform", n, sizes ? SWEEP_COLUMNS : widths[i].columns, SWEEP_K, &p,
                            &room);
        if (code == EXIT_DONE)
            choose_centroids(&p, room, SWEEP_K);
        if (code == EXIT_DONE && !sizes)
            code = sweep_widths(s, at, &p, widths[i].name);
        if (code == EXIT_DONE && sizes)
            code = sweep_sizes(s, at, &p);
        if (code == EXIT_DONE && sizes)
            code = sweep_kernels(s, at, &p);
        end_problem(&p, room);
    }
    return code;
}

int study_sweep(struct study *s) {
    int code = EXIT_DONE;
    for (int at = 0; code == EXIT_DONE && at < s->backends; at++)
        if (s->backend[at].code == CODE_UNTUNED)
            code = sweep_device(s, at);
    return code;
}
