/* SPDX-License-Identifier: Apache-2.0
 * holdfast predict: nearest centroid of each row. */
#include "kmeans/apply.h"
#include "kmeans/labels_format.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum option_key { KEY_DISTANCES = 256, KEY_FORMAT };

static const struct argp_option table[] = {
    {"output", 'o', "FILE", 0, "Write the labels there: int32 [N]; -1 for rows left out", 1},
    {"labels-format", KEY_FORMAT, "NAME", 0,
     LABELS_FORMAT_HELP "; by default the ending .csv of -o means csv", 1},
    {"distances", KEY_DISTANCES, "FILE.npy", 0,
     "Write the distance of each row to its centroid there: float64 [N]; squared if euclidean", 1},
    {0}};

struct job {
    struct apply apply;
    const char *labels_file, *distances_file;
    bool format_given;
    enum labels_format format;
    double *distances; /* NULL when not wanted */
    double seconds_write;
};

static void check(struct job *job, struct argp_state *state) {
    const size_t length = job->labels_file ? strlen(job->labels_file) : 0;
    if (!job->labels_file && !job->distances_file && !job->apply.json)
        argp_error(state, "where to? give -o FILE.npy, --distances FILE.npy or --json");
    if (job->format_given && !job->labels_file)
        argp_error(state, "--labels-format needs -o FILE to write the labels into");
    if (!job->format_given && length > 4 && strcmp(job->labels_file + length - 4, ".csv") == 0)
        job->format = LABELS_CSV;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct job *job = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = state->child_inputs[1] = &job->apply;
        return 0;
    case 'o':
        job->labels_file = tool_out_path(state, "-o", arg);
        return 0;
    case KEY_DISTANCES:
        job->distances_file = tool_npy_out_path(state, "--distances", arg);
        return 0;
    case KEY_FORMAT:
        job->format =
            (enum labels_format)tool_choice(state, "--labels-format", arg, labels_format_names);
        job->format_given = true;
        return 0;
    case ARGP_KEY_END:
        check(job, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int take_distances(struct job *job) {
    if (!job->distances_file)
        return EXIT_DONE;
    job->distances = calloc((size_t)job->apply.rows, sizeof *job->distances);
    if (job->distances)
        return EXIT_DONE;
    tool_error("no memory for the distances of %s rows", tool_count_text(job->apply.rows));
    return EXIT_RESOURCES;
}

/* Both files or none. */
static int write_files(const struct job *job) {
    const struct apply *a = &job->apply;
    const hf_array distances = hf_array_view(job->distances, HF_F64, a->rows, 1);
    hf_file_set *set = NULL;
    int appeared = 0;
    errno = 0;
    hf_status status = hf_file_set_create(a->ctx, &set);
    if (status == HF_OK && job->distances_file)
        status = hf_file_set_npy(set, job->distances_file, &distances);
    if (status == HF_OK && job->labels_file)
        status = labels_add(set, job->labels_file, a->labels, a->rows, job->format);
    if (status == HF_OK)
        status = hf_file_set_commit(set, &appeared);
    const int code = status == HF_OK ? EXIT_DONE : tool_fail(a->ctx, status, STAGE_WRITE);
    if (code != EXIT_DONE && appeared == 1 && job->labels_file)
        tool_error("%s is new, %s is not", job->distances_file, job->labels_file);
    hf_file_set_destroy(set);
    return code;
}

static int print_json(const struct job *job) {
    const struct apply *a = &job->apply;
    json_t *more = json_pack(
        "{s:o, s:I, s:o, s:o, s:s, s:o, s:{s:o, s:o, s:o}}", "inertia", tool_json_real(a->inertia),
        "rows_dropped", (json_int_t)a->dropped, "sizes", tool_json_counts(a->sizes, a->k), "labels",
        tool_json_name(job->labels_file), "labels_format", labels_format_names[job->format],
        "distances", tool_json_name(job->distances_file), "seconds", "load",
        tool_json_real(a->loaded - a->begun), "predict", tool_json_real(a->computed - a->loaded),
        "write", tool_json_real(job->seconds_write));
    return apply_print_json(a, "predict", more);
}

static void print_summary(const struct job *job, FILE *out) {
    const struct apply *a = &job->apply;
    apply_summary(a, a->dropped, out);
    fprintf(out, "  inertia   %.12g\n", a->inertia);
    fprintf(out, "  time      load %s, predict %s, write %s\n",
            tool_seconds_text(a->loaded - a->begun), tool_seconds_text(a->computed - a->loaded),
            tool_seconds_text(job->seconds_write));
    if (job->labels_file)
        fprintf(out, "  written   %s\n", tool_name_text(job->labels_file));
    if (job->distances_file)
        fprintf(out, "  written   %s\n", tool_name_text(job->distances_file));
}

static int run(struct job *job) {
    struct apply *a = &job->apply;
    const struct apply_output outputs[] = {{"-o", job->labels_file},
                                           {"--distances", job->distances_file}};
    int code = apply_open(a, outputs, 2, "predict");
    if (code == EXIT_DONE)
        code = take_distances(job);
    if (code == EXIT_DONE)
        code = apply_predict(a, job->distances);
    if (code == EXIT_DONE)
        code = write_files(job);
    job->seconds_write = tool_now() - a->computed;
    if (code == EXIT_DONE && a->json)
        code = print_json(job);
    if (code == EXIT_DONE && !a->quiet)
        print_summary(job, a->json ? stderr : stdout);
    return code;
}

int cmd_predict(int argc, char **argv) {
    static const struct argp_child children[] = {
        {&apply_argp, 0, NULL, 0}, {&apply_labels_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        table,
        parse,
        "DATA",
        "Label each row of DATA with its nearest centroid."
        "\vExit codes: 0 done, 1 failed, 2 usage, 3 bad input, 4 out of resources, 5 corrupted, "
        "130 interrupted (nothing was written).",
        children,
        NULL,
        NULL};
    struct job job;
    memset(&job, 0, sizeof job);
    tool_parse(&argp, argc, argv, &job);
    const int code = run(&job);
    free(job.distances);
    apply_close(&job.apply);
    return code;
}
