/* SPDX-License-Identifier: Apache-2.0
 * Figures 6, 7, 9 and 11, and Table 6, whose histories are Figure 10. */
#include "relaxation/relax_study.h"
#include <errno.h>
#include <holdfast/dev_relax.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAPER_DEVICES 4
#define CHOICES 20 /* of frozen blocks */

struct kind {
    const char *name;
    hf_relax_opts opts;
};

/* The estimates of a solution; step: of an iteration, on the axis. */
static int note_history(struct relax_study *s, struct relax_number curve, double step,
                        const hf_relax_column *c) {
    const int64_t count = c != NULL ? c->history_count : 0, each = count / RELAX_POINTS + 1;
    int code = EXIT_DONE;
    for (int64_t i = 0; i < count && code == EXIT_DONE; i++) {
        if (i % each != 0 && i + 1 < count)
            continue;
        curve.at = (double)(i * c->history_step) * step;
        curve.ours = c->history[i];
        code = relax_note(s, &curve);
    }
    return code;
}

/* Curves of one figure and matrix, those that diverge by themselves included. */
static int follow(struct relax_study *s, const char *figure, const struct relax_system *system,
                  const struct kind *kinds, size_t count) {
    const bool time = strcmp(figure, "Figure 9") == 0;
    int code = EXIT_DONE;
    for (size_t k = 0; k < count && code == EXIT_DONE; k++) {
        hf_relax_result r = {0};
        struct relax_number curve = {.table = figure, .matrix = system->name, .paper = NAN};
        snprintf(curve.series, sizeof curve.series, "%s", kinds[k].name);
        code = relax_solve(s, system, &kinds[k].opts, &r);
        if (code == EXIT_DONE)
            code = note_history(
                s, curve, time ? r.seconds_solve / fmax((double)r.iterations, 1) : 1, r.columns);
        if (code == EXIT_DONE)
            printf("%s\t%s\t%s\t%lld iterations to %.3g, %.4g s\n", figure, system->name,
                   kinds[k].name, (long long)r.iterations, r.residual, r.seconds_solve);
        hf_relax_result_clear(&r);
    }
    return code;
}

static int make_convergence(struct relax_study *s, const char *figure, const struct kind *kinds,
                            size_t count) {
    int code = EXIT_DONE;
    for (int i = 0; i < s->systems && code == EXIT_DONE; i++)
        if (strcmp(s->system[i].name, "Trefethen_20000") != 0)
            code = follow(s, figure, &s->system[i], kinds, count);
    return code;
}

static int make_figure6(struct relax_study *s) {
    const struct kind kinds[] = {
        {"Jacobi", {.method = HF_RELAX_JACOBI, .damping = 1}},
        {"Gauss-Seidel", {.method = HF_RELAX_GAUSS_SEIDEL, .block_rows = INT32_MAX, .damping = 1}},
        {"async-(1)", relax_paper_opts(1, 448)}};
    return make_convergence(s, "Figure 6", kinds, 3);
}

static int make_figure7(struct relax_study *s) {
    const struct kind kinds[] = {
        {"Gauss-Seidel", {.method = HF_RELAX_GAUSS_SEIDEL, .block_rows = INT32_MAX, .damping = 1}},
        {"async-(5)", relax_paper_opts(5, 448)}};
    return make_convergence(s, "Figure 7", kinds, 2);
}

static int make_figure9(struct relax_study *s) {
    static const char *const names[] = {"Chem97ZtZ (rebuilt)", "fv1", "fv3", "Trefethen_2000"};
    struct kind kinds[] = {
        {"Jacobi", {.method = HF_RELAX_JACOBI, .damping = 1}},
        {"Gauss-Seidel", {.method = HF_RELAX_GAUSS_SEIDEL, .block_rows = INT32_MAX, .damping = 1}},
        {"async-(5)", relax_paper_opts(5, 448)},
        {"CG", {.method = HF_RELAX_CG}},
        {"auto", {.method = HF_RELAX_AUTO}}};
    int code = EXIT_DONE;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && code == EXIT_DONE; i++)
        if (relax_find(s, names[i]))
            code = follow(s, "Figure 9", relax_find(s, names[i]), kinds,
                          sizeof kinds / sizeof kinds[0]);
    return code;
}

/* A quarter of the blocks is frozen from iteration 10 on, for `outage` iterations (below 0: for
 * good; 0: not at all); choice: which, and the first one is drawn. *count: iterations to 1e-12, 0:
 * not within `most`. */
static int freeze(struct relax_study *s, const struct relax_system *system, int outage, int choice,
                  int64_t most, int64_t *count) {
    hf_relax_opts opts = relax_paper_opts(5, 128);
    const int64_t n = system->a.rows;
    double *x = calloc((size_t)n, sizeof *x);
    const hf_array b = hf_array_view(system->b, HF_F64, n, 1), to = hf_array_view(x, HF_F64, n, 1);
    const hf_dev_relax_fault fault = {.kind = HF_DEV_RELAX_FREEZE,
                                      .iteration = 10,
                                      .share = 0.25,
                                      .outage = outage,
                                      .seed = (uint64_t)choice + 1};
    struct relax_number curve = {.table = "Figure 10", .matrix = system->name, .paper = NAN};
    hf_relax_result r = {0};
    hf_relax *relax = NULL;
    opts.tol = 1e-12;
    opts.max_iter = most;
    snprintf(curve.series, sizeof curve.series,
             outage < 0    ? "no recovery"
             : outage == 0 ? "nothing frozen"
                           : "recover-(%d)",
             outage);
    hf_status status = x ? hf_relax_setup(s->ctx, &system->a, &opts, &relax) : HF_E_NOMEM;
    if (status == HF_OK)
        status = outage == 0 ? hf_relax_solve_with(relax, &b, &to, &r)
                             : hf_dev_relax_solve(relax, &b, &to, &fault, &r);
    int code = status == HF_OK ? EXIT_DONE : tool_fail(s->ctx, status, STAGE_COMPUTE);
    *count = code == EXIT_DONE && r.converged ? r.iterations : 0;
    if (code == EXIT_DONE && choice == 0)
        code = note_history(s, curve, 1, r.columns);
    hf_relax_result_clear(&r);
    hf_relax_destroy(relax);
    free(x);
    return code;
}

static int make_table6(struct relax_study *s) {
    static const struct {
        const char *matrix;
        int64_t most;
        double paper[3];
    } rows[] = {{"fv1", 260, {8.16, 19.50, 31.66}}, {"Trefethen_2000", 100, {8.16, 11.45, 16.61}}};
    static const int outages[] = {0, 10, 20, 30, -1};
    int code = EXIT_DONE;
    for (size_t i = 0; i < 2; i++) {
        int64_t healthy = 0;
        for (int j = 0; j < 5 && code == EXIT_DONE; j++) {
            struct relax_number extra = {"Table 6",
                                         rows[i].matrix,
                                         "extra iterations, percent: mean of 20 choices",
                                         outages[j],
                                         0,
                                         j > 0 && j < 4 ? rows[i].paper[j - 1] : NAN};
            for (int choice = 0; choice < CHOICES && code == EXIT_DONE; choice++) {
                int64_t count = 0;
                code = freeze(s, relax_find(s, rows[i].matrix), outages[j], choice, rows[i].most,
                              &count);
                healthy = j == 0 ? count : healthy;
                const double more = 100.0 * (double)count / (double)healthy - 100;
                extra.ours += count > 0 ? more / CHOICES : INFINITY;
            }
            if (code == EXIT_DONE && j > 0)
                code = relax_note(s, &extra);
        }
    }
    return code;
}

/* The GPUs that there are, or groups of a CPU's threads, as many as the paper has at most. */
static void find_devices(const struct relax_study *s, char *list, size_t bytes) {
    const bool cpu = strcmp(s->device, "cpu") == 0;
    list[0] = '\0';
    for (int i = 0; i < PAPER_DEVICES; i++) {
        char name[16];
        hf_context *ctx = NULL;
        snprintf(name, sizeof name, cpu ? "cpu" : "cuda:%d", i);
        const hf_context_opts one = {.device = name, .threads = 1};
        if ((cpu && i >= s->cores) || hf_context_create(&ctx, &one) != HF_OK)
            return;
        hf_context_destroy(ctx);
        snprintf(list + strlen(list), bytes - strlen(list), "%s%s", i > 0 ? "," : "", name);
    }
}

/* A point of each way of exchange between `count` devices. */
static int share(struct relax_study *s, const char *devices, int count) {
    const struct relax_system *system = relax_find(s, "Trefethen_20000");
    struct relax_number point = {
        .table = "Figure 11", .matrix = system->name, .at = count, .paper = NAN};
    int code = EXIT_DONE;
    for (int e = HF_EXCHANGE_PUSH; e <= HF_EXCHANGE_DK && code == EXIT_DONE; e++) {
        hf_relax_opts opts = relax_paper_opts(5, 448);
        hf_relax_result r = {0};
        opts.timing = HF_TIMING_FREE;
        opts.devices = devices;
        opts.exchange = (hf_relax_exchange)e;
        code = relax_solve(s, system, &opts, &r);
        point.ours = r.seconds_solve;
        snprintf(point.series, sizeof point.series, "%s", hf_relax_exchange_name(opts.exchange));
        if (code == EXIT_DONE)
            printf("Figure 11\t%s\t%s, %s\t%.4g s\n", system->name, tool_name_text(devices),
                   point.series, point.ours);
        if (code == EXIT_DONE)
            code = relax_note(s, &point);
        hf_relax_result_clear(&r);
    }
    return code;
}

static int make_figure11(struct relax_study *s) {
    char list[PAPER_DEVICES * 16], some[256];
    int code = EXIT_DONE, count = 0;
    find_devices(s, list, sizeof list);
    const char *const all = s->devices ? s->devices : list;
    for (size_t end = 0; code == EXIT_DONE && all[end] != '\0'; count++) {
        end += (all[end] == ',') + strcspn(all + end + (all[end] == ','), ",");
        snprintf(some, sizeof some, "%.*s", (int)end, all);
        code = share(s, some, count + 1);
    }
    return code;
}

int relax_figures(struct relax_study *s) {
    static int (*const makers[])(struct relax_study *) = {make_table6, make_figure6, make_figure7,
                                                          make_figure9, make_figure11};
    static const char *const names[] = {"table6", "figure6", "figure7", "figure9", "figure11"};
    int code = EXIT_DONE;
    for (int i = 0; i < 5 && code == EXIT_DONE; i++)
        if (relax_wanted(s, names[i]) || (i == 0 && relax_wanted(s, "figure10")))
            code = makers[i](s);
    return code;
}
