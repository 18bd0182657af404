/* SPDX-License-Identifier: Apache-2.0
 * holdfast score: how well centroids fit data. */
#include "kmeans/apply.h"
#include "kmeans/cluster_spread.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED = 20 }; /* clusters whose sizes are listed one by one */

struct job {
    struct apply apply;
    int32_t *labels;
    int64_t *sizes;
    double inertia, weight;
    int64_t dropped;
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct job *job = state->input;
    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = state->child_inputs[1] = &job->apply;
        return 0;
    case ARGP_KEY_END:
        if (job->apply.quiet && !job->apply.json)
            argp_error(state, "-q leaves nothing to print: leave it out, or give --json");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Mean of the distances as the metric has them; NaN where no row has weight. */
static double mean_distance(const struct job *job) {
    return job->weight > 0 ? job->inertia / job->weight : NAN;
}

static int print_json(const struct job *job) {
    const struct apply *a = &job->apply;
    const double mean = mean_distance(job);
    json_t *more = json_pack(
        "{s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:{s:o, s:o}}", "inertia",
        tool_json_real(job->inertia), "mean_distance", tool_json_real(mean), "rms_distance",
        a->metric == HF_EUCLIDEAN ? tool_json_real(sqrt(mean)) : json_null(), "rows",
        (json_int_t)(a->rows - job->dropped), "rows_dropped", (json_int_t)job->dropped, "weight",
        tool_json_real(job->weight), "sizes", tool_json_counts(job->sizes, a->k), "seconds", "load",
        tool_json_real(a->loaded - a->begun), "score", tool_json_real(a->computed - a->loaded));
    return apply_print_json(a, "score", more);
}

static void print_sizes(const struct job *job, FILE *out) {
    struct spread s;
    if (!spread_of(job->sizes, job->apply.k, &s))
        return;
    fputs("  sizes     ", out);
    spread_print(&s, out);
    for (int64_t j = 0; job->apply.k <= LISTED && j < job->apply.k; j++)
        fprintf(out, "%s%s%s", j == 0 ? "            " : ", ", tool_count_text(job->sizes[j]),
                j + 1 == job->apply.k ? "\n" : "");
}

static void print_summary(const struct job *job, FILE *out) {
    const struct apply *a = &job->apply;
    const double mean = mean_distance(job);
    apply_summary(a, job->dropped, out);
    fprintf(out, "  rows      %s", tool_count_text(a->rows - job->dropped));
    if (a->weights_file)
        fprintf(out, ", of weight %.12g", job->weight);
    fprintf(out, "\n  inertia   %.12g\n", job->inertia);
    if (a->metric == HF_EUCLIDEAN)
        fprintf(out, "  distance  %.12g squared on average, root mean square %.12g\n", mean,
                sqrt(mean));
    else
        fprintf(out, "  distance  %.12g on average\n", mean);
    print_sizes(job, out);
    fprintf(out, "  time      load %s, score %s\n", tool_seconds_text(a->loaded - a->begun),
            tool_seconds_text(a->computed - a->loaded));
}

static int run(struct job *job) {
    struct apply *a = &job->apply;
    int code = apply_open(a, NULL, 0, "score");
    if (code != EXIT_DONE)
        return code;
    job->labels = calloc((size_t)a->rows, sizeof *job->labels);
    job->sizes = calloc((size_t)a->k, sizeof *job->sizes);
    if (!job->labels || !job->sizes) {
        tool_error("no memory for the labels of %s rows", tool_count_text(a->rows));
        return EXIT_RESOURCES;
    }
    const hf_prediction out = {.labels = job->labels,
                               .inertia = &job->inertia,
                               .weight = &job->weight,
                               .sizes = job->sizes,
                               .rows_dropped = &job->dropped};
    code = apply_predict(a, &out);
    if (code == EXIT_DONE && a->json)
        code = print_json(job);
    if (code == EXIT_DONE && !a->quiet)
        print_summary(job, a->json ? stderr : stdout);
    return code;
}

int cmd_score(int argc, char **argv) {
    static const struct argp_child children[] = {
        {&apply_argp, 0, NULL, 0}, {&apply_labels_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        NULL,
        parse,
        "DATA",
        "Say how well centroids fit the rows of DATA: inertia, mean distance of a row to its "
        "nearest centroid, sizes of the clusters."
        "\vExit codes: 0 done, 1 failed, 2 usage, 3 bad input, 4 out of resources, 5 corrupted, "
        "130 interrupted.",
        children,
        NULL,
        NULL};
    struct job job;
    memset(&job, 0, sizeof job);
    tool_parse(&argp, argc, argv, &job);
    const int code = run(&job);
    free(job.labels);
    free(job.sizes);
    apply_close(&job.apply);
    return code;
}
