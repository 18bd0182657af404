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
static double mean_distance(const struct apply *a) {
    return a->weight > 0 ? a->inertia / a->weight : NAN;
}

static int print_json(const struct job *job) {
    const struct apply *a = &job->apply;
    const double mean = mean_distance(a);
    json_t *more = json_pack(
        "{s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:{s:o, s:o}}", "inertia", tool_json_real(a->inertia),
        "mean_distance", tool_json_real(mean), "rms_distance",
        a->metric == HF_EUCLIDEAN ? tool_json_real(sqrt(mean)) : json_null(), "rows",
        (json_int_t)(a->rows - a->dropped), "rows_dropped", (json_int_t)a->dropped, "weight",
        tool_json_real(a->weight), "sizes", tool_json_counts(a->sizes, a->k), "seconds", "load",
        tool_json_real(a->loaded - a->begun), "score", tool_json_real(a->computed - a->loaded));
    return apply_print_json(a, "score", more);
}

static void print_sizes(const struct apply *a, FILE *out) {
    struct spread s;
    if (!spread_of(a->sizes, a->k, &s))
        return;
    fputs("  sizes     ", out);
    spread_print(&s, out);
    for (int64_t j = 0; a->k <= LISTED && j < a->k; j++)
        fprintf(out, "%s%s%s", j == 0 ? "            " : ", ", tool_count_text(a->sizes[j]),
                j + 1 == a->k ? "\n" : "");
}

static void print_summary(const struct job *job, FILE *out) {
    const struct apply *a = &job->apply;
    const double mean = mean_distance(a);
    apply_summary(a, a->dropped, out);
    fprintf(out, "  rows      %s", tool_count_text(a->rows - a->dropped));
    if (a->weights_file)
        fprintf(out, ", of weight %.12g", a->weight);
    fprintf(out, "\n  inertia   %.12g\n", a->inertia);
    if (a->metric == HF_EUCLIDEAN)
        fprintf(out, "  distance  %.12g squared on average, root mean square %.12g\n", mean,
                sqrt(mean));
    else
        fprintf(out, "  distance  %.12g on average\n", mean);
    print_sizes(a, out);
    fprintf(out, "  time      load %s, score %s\n", tool_seconds_text(a->loaded - a->begun),
            tool_seconds_text(a->computed - a->loaded));
}

static int run(struct job *job) {
    struct apply *a = &job->apply;
    int code = apply_open(a, NULL, 0, "score");
    if (code == EXIT_DONE)
        code = apply_predict(a, NULL);
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
    apply_close(&job.apply);
    return code;
}
