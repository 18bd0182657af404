/* SPDX-License-Identifier: Apache-2.0
 * holdfast predict: nearest centroid of each row. */
#include "kmeans_options.h"
#include "place.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum option_key {
    KEY_CENTROIDS = 256,
    KEY_DISTANCES,
    KEY_METRIC,
    KEY_PRECISION,
    KEY_MEMORY,
    KEY_DEVICE,
    KEY_JSON
};

static const struct argp_option table[] = {
    {"centroids", KEY_CENTROIDS, "FILE.npy", 0, "The centroids, [K, D]", 1},
    {"output", 'o', "FILE.npy", 0, "Write the labels there: int32 [N]", 1},
    {"distances", KEY_DISTANCES, "FILE.npy", 0,
     "Write the distance of each row to its centroid there: float64 [N]; squared if euclidean", 1},
    {"json", KEY_JSON, NULL, 0, "Print a summary as JSON on standard output", 1},
    {"quiet", 'q', NULL, 0, "No summary", 1},
    {NULL, 0, NULL, 0, "How to compute:", 2},
    {"metric", KEY_METRIC, "NAME", 0, "euclidean (default), cosine or dot", 2},
    {"precision", KEY_PRECISION, "NAME", 0, "exact (default) or fast", 2},
    {"threads", 't', "T", 0, "Threads (default: one for each usable core)", 2},
    {"memory", KEY_MEMORY, "BYTES", 0, TOOL_MEMORY_HELP, 2},
    {"device", KEY_DEVICE, "NAME", 0, TOOL_DEVICE_HELP, 2},
    {0}};

struct job {
    const char *data_file, *centroids_file, *labels_file, *distances_file;
    hf_metric metric;
    hf_precision precision;
    bool quiet, json;
    hf_context_opts context;
    hf_context *ctx;
    hf_dataset *data, *centroids;
    int64_t rows, cols;
    hf_dtype dtype;
    int32_t *labels;
    double *distances; /* NULL when not wanted */
    double inertia;
    double seconds_load, seconds_predict, seconds_write;
};

static void check(const struct job *job, struct argp_state *state) {
    if (!job->data_file)
        argp_error(state, "which data file?");
    if (!job->centroids_file)
        argp_error(state, "which centroids? give --centroids FILE.npy");
    if (!job->labels_file && !job->distances_file && !job->json)
        argp_error(state, "where to? give -o FILE.npy, --distances FILE.npy or --json");
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct job *job = state->input;
    switch (key) {
    case 'o':
        job->labels_file = tool_path(state, "-o", arg);
        return 0;
    case 'q':
        job->quiet = true;
        return 0;
    case KEY_CENTROIDS:
        job->centroids_file = tool_path(state, "--centroids", arg);
        return 0;
    case KEY_DISTANCES:
        job->distances_file = tool_path(state, "--distances", arg);
        return 0;
    case KEY_JSON:
        job->json = true;
        return 0;
    case KEY_METRIC:
        job->metric = (hf_metric)tool_choice(state, "--metric", arg, kmeans_metric_names);
        return 0;
    case KEY_PRECISION:
        job->precision =
            (hf_precision)tool_choice(state, "--precision", arg, kmeans_precision_names);
        return 0;
    case 't':
        job->context.threads = (int)tool_int(state, "--threads", arg, 1, 1024);
        return 0;
    case KEY_MEMORY:
        job->context.memory_bytes = tool_bytes(state, "--memory", arg);
        return 0;
    case KEY_DEVICE:
        job->context.device = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (job->data_file)
            argp_error(state, "one data file at a time, not also '%s'", arg);
        job->data_file = tool_path(state, "DATA", arg);
        return 0;
    case ARGP_KEY_END:
        check(job, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Two names of one file would leave only one of the outputs. */
static int check_outputs(const struct job *job) {
    if (!place_same(job->labels_file, job->distances_file))
        return EXIT_DONE;
    tool_error("-o %s and --distances %s are the same file: name another", job->labels_file,
               job->distances_file);
    return EXIT_USAGE;
}

static int load(struct job *job) {
    errno = 0;
    hf_status status = hf_context_create(&job->ctx, &job->context);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    const char *const inputs[] = {job->data_file, job->centroids_file};
    int code = tool_spare(job->labels_file, inputs, 2);
    if (code == EXIT_DONE)
        code = tool_spare(job->distances_file, inputs, 2);
    if (code == EXIT_DONE)
        code = check_outputs(job);
    if (code == EXIT_DONE)
        code = tool_writable(job->ctx, job->labels_file);
    if (code == EXIT_DONE)
        code = tool_writable(job->ctx, job->distances_file);
    if (code == EXIT_DONE)
        code = tool_open(job->ctx, job->context.memory_bytes, job->data_file, NULL, &job->data);
    if (code == EXIT_DONE)
        code = tool_open(job->ctx, job->context.memory_bytes, job->centroids_file, "--centroids",
                         &job->centroids);
    if (code != EXIT_DONE)
        return code;
    const hf_array *x = hf_dataset_array(job->data);
    const hf_source *source = hf_dataset_source(job->data);
    job->rows = x ? x->rows : source->rows;
    job->cols = x ? x->cols : source->cols;
    job->dtype = x ? x->dtype : source->dtype;
    const hf_array *c = hf_dataset_array(job->centroids);
    if (c->cols != job->cols) {
        tool_error("%s has centroids of %lld columns, but the rows of %s have %lld",
                   job->centroids_file, (long long)c->cols, job->data_file, (long long)job->cols);
        return EXIT_INPUT;
    }
    job->labels = calloc((size_t)job->rows, sizeof *job->labels);
    job->distances = job->distances_file ? calloc((size_t)job->rows, sizeof *job->distances) : NULL;
    if (job->labels && (job->distances || !job->distances_file))
        return EXIT_DONE;
    tool_error("no memory for the labels of %s rows", tool_count_text(job->rows));
    return EXIT_RESOURCES;
}

/* Both files or none. */
static int write_files(const struct job *job) {
    const hf_array labels = hf_array_view(job->labels, HF_I32, job->rows, 1);
    const hf_array distances = hf_array_view(job->distances, HF_F64, job->rows, 1);
    hf_file_set *set = NULL;
    int appeared = 0;
    errno = 0;
    hf_status status = hf_file_set_create(job->ctx, &set);
    if (status == HF_OK && job->distances_file)
        status = hf_file_set_npy(set, job->distances_file, &distances);
    if (status == HF_OK && job->labels_file)
        status = hf_file_set_npy(set, job->labels_file, &labels);
    if (status == HF_OK)
        status = hf_file_set_commit(set, &appeared);
    const int code = status == HF_OK ? EXIT_DONE : tool_fail(job->ctx, status, STAGE_WRITE);
    if (code != EXIT_DONE && appeared == 1 && job->labels_file)
        tool_error("%s is new, %s is not", job->distances_file, job->labels_file);
    hf_file_set_destroy(set);
    return code;
}

static int print_json(const struct job *job) {
    const hf_array *c = hf_dataset_array(job->centroids);
    return tool_json_print(json_pack(
        "{s:s, s:s, s:{s:o, s:s, s:s, s:I, s:I, s:b}, s:{s:o, s:I, s:s}, s:s, s:s, s:i, s:o, "
        "s:{s:o, "
        "s:o, s:o}, s:{s:I, s:I}, s:o, s:o}",
        "holdfast", hf_version(), "command", "predict", "data", "path",
        tool_json_name(job->data_file), "format", hf_dataset_format(job->data), "dtype",
        hf_dtype_name(job->dtype), "rows", (json_int_t)job->rows, "columns", (json_int_t)job->cols,
        "streamed", hf_dataset_array(job->data) == NULL, "centroids", "path",
        tool_json_name(job->centroids_file), "k", (json_int_t)c->rows, "dtype",
        hf_dtype_name(c->dtype), "metric", kmeans_metric_names[job->metric], "precision",
        kmeans_precision_names[job->precision], "threads", hf_context_threads(job->ctx), "inertia",
        tool_json_real(job->inertia), "seconds", "load", tool_json_real(job->seconds_load),
        "predict", tool_json_real(job->seconds_predict), "write",
        tool_json_real(job->seconds_write), "memory", "peak_bytes", (json_int_t)tool_peak_memory(),
        "limit_bytes", (json_int_t)hf_context_memory(job->ctx), "labels",
        tool_json_name(job->labels_file), "distances", tool_json_name(job->distances_file)));
}

static void print_summary(const struct job *job, FILE *out) {
    fprintf(out, "%s: %s rows x %s columns, %s, %s%s\n", tool_name_text(job->data_file),
            tool_count_text(job->rows), tool_count_text(job->cols), hf_dtype_name(job->dtype),
            hf_dataset_format(job->data), hf_dataset_array(job->data) ? "" : ", read in chunks");
    fprintf(out, "  nearest of %s centroids, %s distance; inertia %.12g\n",
            tool_count_text(hf_dataset_array(job->centroids)->rows),
            kmeans_metric_names[job->metric], job->inertia);
    fprintf(out, "  time      load %s, predict %s, write %s\n",
            tool_seconds_text(job->seconds_load), tool_seconds_text(job->seconds_predict),
            tool_seconds_text(job->seconds_write));
    if (job->labels_file)
        fprintf(out, "  written   %s\n", tool_name_text(job->labels_file));
    if (job->distances_file)
        fprintf(out, "  written   %s\n", tool_name_text(job->distances_file));
}

/* Name the file that a message is about. Nothing is written in there, so that a failure of input or
 * output is one of reading. */
static int predict_failed(const struct job *job, hf_status status) {
    char data[4200];
    char centroids[4200];
    snprintf(data, sizeof data, "of %s", job->data_file);
    snprintf(centroids, sizeof centroids, "--centroids %s", job->centroids_file);
    const struct tool_word words[] = {
        {"of the data", data}, {"given centroids", centroids}, {NULL, NULL}};
    return tool_fail_with(job->ctx, status, STAGE_READ, words);
}

static int run(struct job *job) {
    const double begin = tool_now();
    int code = load(job);
    if (code != EXIT_DONE)
        return code;
    const double loaded = tool_now();
    errno = 0;
    const hf_status status =
        hf_kmeans_predict(job->ctx, hf_dataset_array(job->data), hf_dataset_source(job->data),
                          hf_dataset_array(job->centroids), job->metric, job->precision, NULL,
                          job->labels, job->distances, &job->inertia);
    if (status != HF_OK)
        return predict_failed(job, status);
    const double predicted = tool_now();
    code = write_files(job);
    job->seconds_load = loaded - begin;
    job->seconds_predict = predicted - loaded;
    job->seconds_write = tool_now() - predicted;
    if (code == EXIT_DONE && job->json)
        code = print_json(job);
    if (code == EXIT_DONE && !job->quiet)
        print_summary(job, job->json ? stderr : stdout);
    return code;
}

int cmd_predict(int argc, char **argv) {
    static const struct argp argp = {
        table,
        parse,
        "DATA",
        "Label each row of DATA with its nearest centroid."
        "\vExit codes: 0 done, 1 failed, 2 usage, 3 bad input, 4 out of resources, 5 corrupted.",
        NULL,
        NULL,
        NULL};
    struct job job;
    memset(&job, 0, sizeof job);
    tool_parse(&argp, argc, argv, &job);
    const int code = run(&job);
    free(job.labels);
    free(job.distances);
    hf_dataset_close(job.centroids);
    hf_dataset_close(job.data);
    hf_context_destroy(job.ctx);
    return code;
}
