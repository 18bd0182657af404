/* SPDX-License-Identifier: Apache-2.0
 * Sizes that the study tried, on a plain port and on the library's own kernels. */
#include "portability/portability.h"
#include <errno.h>

#define SWEEP_K 256
#define SWEEP_COLUMNS 100
#define SWEEP_STEPS_GPU 3
#define SWEEP_STEPS_CPU 1 /* of seconds */

static void add_point(struct study *s, const struct study_point *point) {
    if (s->points == STUDY_POINTS)
        return;
    s->point[s->points++] = *point;
    printf("%-22s %-26s %-28s assign %10s\n", point->sweep, study_backend_text(s, point->backend),
           point->what, tool_seconds_text(point->assign_s));
    fflush(stdout);
}

static int sweep_port(struct study *s, int at, const struct problem *p, const char *sweep,
                      hf_dev_port_form form, int value) {
    struct study_point point = {.sweep = sweep, .backend = at, .value = value};
    hf_dev_port *port = NULL;
    const bool cpu = s->backend[at].platform == PLATFORM_CPU;
    snprintf(point.what, sizeof point.what, "%d", value);
    errno = 0;
    hf_status status = hf_dev_port_open(s->backend[at].ctx, &p->x, &form, &port);
    if (status == HF_OK)
        status = hf_dev_port_run(port, &p->centroids, cpu ? SWEEP_STEPS_CPU : SWEEP_STEPS_GPU,
                                 &point.assign_s, &point.update_s, NULL);
    hf_dev_port_close(port);
    if (status != HF_OK)
        return tool_fail(s->backend[at].ctx, status, STAGE_COMPUTE);
    add_point(s, &point);
    return EXIT_DONE;
}

/* Points of a work-item, work-items of a group. */
static int sweep_sizes(struct study *s, int at, const struct problem *p) {
    static const int packages[] = {1, 2, 4, 8, 16, 32, 64, 128};
    static const int groups[] = {1, 8, 16, 32, 64, 128, 256};
    int code = EXIT_DONE;
    for (size_t i = 0; code == EXIT_DONE && i < sizeof packages / sizeof *packages; i++) {
        hf_dev_port_form form = study_port_form(&s->backend[at]);
        form.package = packages[i];
        code = sweep_port(s, at, p, "points of a work-item", form, packages[i]);
    }
    for (size_t i = 0; code == EXIT_DONE && i < sizeof groups / sizeof *groups; i++) {
        hf_dev_port_form form = study_port_form(&s->backend[at]);
        form.group = groups[i];
        code = sweep_port(s, at, p, "work-items of a group", form, groups[i]);
    }
    return code;
}

static int sweep_widths(struct study *s, int at, const struct problem *p, const char *sweep) {
    int code = EXIT_DONE;
    for (int width = 1; code == EXIT_DONE && width <= 16; width *= 2) {
        hf_dev_port_form form = study_port_form(&s->backend[at]);
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

/* The sizes that the study tried, on its uniform rows. */
static int sweep_device(struct study *s, int at) {
    static const struct {
        int64_t columns;
        const char *name;
    } widths[] = {{10, "width, 10 columns"},
                  {50, "width, 50 columns"},
                  {200, "width, 200 columns"},
                  {500, "width, 500 columns"}};
    const int64_t all = study_scaled(s, 1000000), n = all < 1000 ? 1000 : all;
    int code = EXIT_DONE;
    for (size_t i = 0; code == EXIT_DONE && i <= sizeof widths / sizeof *widths; i++) {
        const bool sizes = i == 0;
        struct problem p = {.set = 0};
        code = study_problem(0, n, sizes ? SWEEP_COLUMNS : widths[i - 1].columns, SWEEP_K, &p);
        if (code == EXIT_DONE)
            study_choose_centroids(&p, SWEEP_K);
        if (code == EXIT_DONE && sizes)
            code = sweep_kernels(s, at, &p);
        if (code == EXIT_DONE && sizes)
            code = sweep_sizes(s, at, &p);
        if (code == EXIT_DONE && !sizes)
            code = sweep_widths(s, at, &p, widths[i - 1].name);
        study_end_problem(&p);
    }
    return code;
}

int study_sweep(struct study *s) {
    int code = EXIT_DONE;
    for (int at = 0; code == EXIT_DONE && at < s->backends; at++)
        if (s->backend[at].code == CODE_UNTUNED && s->backend[at].ctx)
            code = sweep_device(s, at);
    return code;
}
