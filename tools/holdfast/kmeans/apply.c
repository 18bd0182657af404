/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans/apply.h"
#include "guard_report.h"
#include "interrupt.h"
#include "kmeans/kmeans_options.h"
#include "place.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum option_key {
    KEY_CENTROIDS = 256,
    KEY_FROM,
    KEY_METRIC,
    KEY_NAN,
    KEY_JSON,
    KEY_MEMORY,
    KEY_DEVICE,
    KEY_GUARD,
    KEY_WEIGHTS,
    KEY_PRECISION
};

static const struct argp_option table[] = {
    {"centroids", KEY_CENTROIDS, "FILE.npy", 0, "The centroids, [K, D]", 1},
    {"from", KEY_FROM, "DIR", 0,
     "The folder that a fit wrote: centroids, metric, columns, scaling and what becomes of NaN are "
     "those of its report.json",
     1},
    {"metric", KEY_METRIC, "NAME", 0,
     "euclidean, cosine or dot (default: that of the report.json beside the centroids, else "
     "euclidean)",
     1},
    {"nan", KEY_NAN, "NAME", 0, "Rows with NaN or Inf: error (default), or drop: leave them out",
     1},
    {"json", KEY_JSON, NULL, 0, "Print a summary as JSON on standard output", 1},
    {"quiet", 'q', NULL, 0, "No progress and no summary", 1},
    {NULL, 0, NULL, 0, "How to compute:", 4},
    {"guard", KEY_GUARD, "NAME", 0, KMEANS_GUARD_HELP, 4},
    {"threads", 't', "T", 0, "Threads (default: one for each usable core)", 4},
    {"memory", KEY_MEMORY, "BYTES", 0, TOOL_MEMORY_HELP, 4},
    {"device", KEY_DEVICE, "NAME", 0, TOOL_DEVICE_HELP, 4},
    {0}};

static const struct argp_option labels_table[] = {
    {"weights", KEY_WEIGHTS, "FILE.npy", 0, "One weight of 0 or more for each row", 1},
    {"precision", KEY_PRECISION, "NAME", 0, "exact (default) or fast", 4},
    {0}};

static void check(const struct apply *a, struct argp_state *state) {
    if (!a->data_file)
        argp_error(state, "which data file?");
    if (!a->centroids_file && !a->from)
        argp_error(state, "which centroids? give --from DIR or --centroids FILE.npy");
    if (a->centroids_file && a->from)
        argp_error(state,
                   "--from %s has centroids, so --centroids %s contradicts it: leave one out",
                   a->from, a->centroids_file);
}

static bool set_choice(struct apply *a, struct argp_state *state, int key, const char *arg) {
    switch (key) {
    case KEY_METRIC:
        a->metric = (hf_metric)tool_choice(state, "--metric", arg, kmeans_metric_names);
        a->metric_given = true;
        return true;
    case KEY_NAN:
        a->nan = (hf_nan)tool_choice(state, "--nan", arg, kmeans_nan_names);
        a->nan_given = true;
        return true;
    case KEY_GUARD:
        a->guard = kmeans_guard(state, arg);
        return true;
    case 't':
        a->context.threads = (int)tool_int(state, "--threads", arg, 1, 1024);
        return true;
    case KEY_MEMORY:
        a->context.memory_bytes = tool_bytes(state, "--memory", arg);
        return true;
    case KEY_DEVICE:
        a->context.device = arg;
        return true;
    default:
        return false;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct apply *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->preparation;
        return 0;
    case KEY_CENTROIDS:
        a->centroids_file = tool_path(state, "--centroids", arg);
        return 0;
    case KEY_FROM:
        a->from = tool_path(state, "--from", arg);
        return 0;
    case 'q':
        a->quiet = true;
        return 0;
    case KEY_JSON:
        a->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->data_file)
            argp_error(state, "one data file at a time, not also '%s'", arg);
        a->data_file = tool_path(state, "DATA", arg);
        return 0;
    case ARGP_KEY_END:
        check(a, state);
        return 0;
    default:
        return set_choice(a, state, key, arg) ? 0 : ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_labels(int key, char *arg, struct argp_state *state) {
    struct apply *a = state->input;
    switch (key) {
    case KEY_WEIGHTS:
        a->weights_file = tool_path(state, "--weights", arg);
        return 0;
    case KEY_PRECISION:
        a->precision = (hf_precision)tool_choice(state, "--precision", arg, kmeans_precision_names);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&preparation_argp, 0, NULL, 0}, {0}};
const struct argp apply_argp = {table, parse, NULL, NULL, children, NULL, NULL};
const struct argp apply_labels_argp = {labels_table, parse_labels, NULL, NULL, NULL, NULL, NULL};

/* ---- the centroids and what is known of them */

/* Centroids with a report beside them: the metric is that of the report, or the user hears of it.
 */
static void heed_report(struct apply *a) {
    const struct model *m = &a->model;
    const int metric = model_choice(m, "metric", kmeans_metric_names);
    if (metric >= 0 && a->metric_given && metric != (int)a->metric)
        tool_error("warning: %s says that these centroids are of the metric %s, not %s", m->report,
                   kmeans_metric_names[metric], kmeans_metric_names[a->metric]);
    if (metric >= 0 && !a->metric_given && metric != (int)a->metric) {
        a->metric = (hf_metric)metric;
        if (!a->quiet)
            tool_error("the metric is %s, as %s says", kmeans_metric_names[metric], m->report);
    }
    if (model_is_scaled(m))
        tool_error("warning: %s says that the fit scaled its columns, and here they are not, so "
                   "labels may differ from its own; --from %s does as the fit did",
                   m->report, m->folder);
}

static int read_folder(struct apply *a) {
    struct model *m = &a->model;
    int code = model_read(m, a->from);
    if (code != EXIT_DONE)
        return code;
    const int metric = model_choice(m, "metric", kmeans_metric_names);
    const int nan = model_choice(m, "nan", kmeans_nan_names);
    if (metric < 0 || nan < 0) {
        tool_error("%s does not say which metric and --nan the fit had: it was changed, or is of "
                   "another version; run the fit again",
                   m->report);
        return EXIT_INPUT;
    }
    if (a->metric_given && metric != (int)a->metric) {
        tool_error("--metric %s: %s says %s: leave --metric out, or name the centroids with "
                   "--centroids",
                   kmeans_metric_names[a->metric], m->report, kmeans_metric_names[metric]);
        return EXIT_USAGE;
    }
    a->metric = (hf_metric)metric;
    a->nan = a->nan_given ? a->nan : (hf_nan)nan;
    code = preparation_read(&a->preparation, m->root, m->report);
    return code == EXIT_DONE ? model_take(m, preparation_centroids(&a->preparation)) : code;
}

static int find_model(struct apply *a) {
    if (a->from)
        return read_folder(a);
    const int code = model_find(&a->model, a->centroids_file);
    if (code == EXIT_DONE && a->model.root)
        heed_report(a);
    return code;
}

/* ---- opening */

static int check_outputs(const struct apply *a, const struct apply_output *outputs, int count) {
    const char *const inputs[] = {a->data_file, a->model.centroids, a->weights_file,
                                  a->from ? a->model.report : NULL};
    int code = EXIT_DONE;
    for (int i = 0; code == EXIT_DONE && i < count; i++)
        code = tool_spare(outputs[i].path, inputs, 4);
    for (int i = 0; code == EXIT_DONE && i < count; i++)
        for (int j = 0; code == EXIT_DONE && j < i; j++)
            if (place_same(outputs[i].path, outputs[j].path)) {
                tool_error("%s %s and %s %s are the same file: name another", outputs[j].option,
                           outputs[j].path, outputs[i].option, outputs[i].path);
                code = EXIT_USAGE;
            }
    for (int i = 0; code == EXIT_DONE && i < count; i++)
        code = tool_writable(a->ctx, outputs[i].path);
    return code;
}

static int check_columns(const struct apply *a) {
    const hf_array *c = hf_dataset_array(a->centroids);
    const json_t *preparation = json_object_get(a->model.root, "preparation");
    if (c->cols == a->cols)
        return EXIT_DONE;
    const bool chosen = json_is_array(json_object_get(preparation, "columns_used")) && !a->from;
    tool_error("%s has centroids of %s, but the rows of %s have %lld%s%s", a->model.centroids,
               tool_things_text(c->cols, "column"), a->data_file, (long long)a->cols,
               chosen ? "; the fit had chosen some of them: use --from " : "",
               chosen ? a->model.folder : "");
    return EXIT_INPUT;
}

static int open_files(struct apply *a) {
    const uint64_t memory = a->context.memory_bytes;
    int code = preparation_open(&a->preparation, a->ctx, memory, a->data_file, &a->data);
    if (code == EXIT_DONE)
        code = tool_open(a->ctx, memory, a->model.centroids, a->from ? "--from" : "--centroids",
                         &a->centroids);
    if (code == EXIT_DONE && a->weights_file)
        code = tool_open(a->ctx, memory, a->weights_file, "--weights", &a->weights);
    if (code != EXIT_DONE)
        return code;
    const hf_array *x = hf_dataset_array(a->data);
    const hf_source *source = hf_dataset_source(a->data);
    a->rows = x ? x->rows : source->rows;
    a->cols = x ? x->cols : source->cols;
    a->dtype = x ? x->dtype : source->dtype;
    a->k = hf_dataset_array(a->centroids)->rows;
    return check_columns(a);
}

int apply_open(struct apply *a, const struct apply_output *outputs, int count, const char *what) {
    static const char *const names[] = {"DATA", "--centroids", "--weights"};
    const char *const inputs[] = {a->data_file, a->centroids_file, a->weights_file};
    a->begun = tool_now();
    int code = tool_one_standard_input(names, inputs, 3);
    if (code == EXIT_DONE)
        code = find_model(a);
    if (code != EXIT_DONE)
        return code;
    errno = 0;
    const hf_status status = hf_context_create(&a->ctx, &a->context);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    if (!a->quiet)
        tool_check_tuning(a->ctx);
    code = check_outputs(a, outputs, count);
    if (code == EXIT_DONE)
        code = open_files(a);
    a->loaded = tool_now();
    a->progress = (struct progress){.quiet = a->quiet, .rows = a->rows, .what = what};
    progress_open(&a->progress);
    interrupt_watch();
    return code;
}

/* ---- the work */

static int step(void *user, int64_t done, int64_t total) {
    struct apply *a = user;
    return progress_rows(&a->progress, done, total);
}

hf_predict_opts apply_options(struct apply *a) {
    return (hf_predict_opts){.metric = a->metric,
                             .precision = a->precision,
                             .nan = a->nan,
                             .weights = a->weights ? hf_dataset_array(a->weights) : NULL,
                             .progress = step,
                             .user = a,
                             .guard = a->guard,
                             .on_fault = progress_fault,
                             .on_fault_user = &a->progress,
                             .faults = &a->faults,
                             .scheme = a->scheme,
                             .checks = &a->checks};
}

int apply_predict(struct apply *a, double *distances) {
    const hf_predict_opts opts = apply_options(a);
    a->labels = calloc((size_t)a->rows, sizeof *a->labels);
    a->sizes = calloc((size_t)a->k, sizeof *a->sizes);
    if (!a->labels || !a->sizes) {
        tool_error("no memory for the labels of %s rows", tool_count_text(a->rows));
        return EXIT_RESOURCES;
    }
    const hf_prediction out = {.labels = a->labels,
                               .distances = distances,
                               .inertia = &a->inertia,
                               .weight = &a->weight,
                               .sizes = a->sizes,
                               .rows_dropped = &a->dropped};
    errno = 0;
    const hf_status status =
        hf_kmeans_predict_with(a->ctx, hf_dataset_array(a->data), hf_dataset_source(a->data),
                               hf_dataset_array(a->centroids), &opts, &out);
    const int os_error = errno;
    progress_close(&a->progress);
    a->computed = tool_now();
    errno = os_error;
    return status == HF_OK ? EXIT_DONE : apply_failed(a, status);
}

/* Name the file that a message is about. Nothing is written in such calls, so that a failure of
 * input or output is one of reading. */
int apply_failed(const struct apply *a, hf_status status) {
    char data[4200];
    char centroids[4200];
    char weights[4200] = "";
    if (status == HF_E_CANCELLED) {
        tool_error("interrupted: nothing was written");
        return EXIT_INTERRUPTED;
    }
    snprintf(data, sizeof data, "of %s", a->data_file);
    snprintf(centroids, sizeof centroids, "%s %s", a->from ? "--from" : "--centroids",
             a->model.centroids);
    if (a->weights_file)
        snprintf(weights, sizeof weights, "--weights %s", a->weights_file);
    const struct tool_word words[] = {{"of the data", data},
                                      {"given centroids", centroids},
                                      {"given weights", weights},
                                      {NULL, NULL}};
    return tool_fail_with(a->ctx, status, STAGE_READ, words);
}

/* ---- what is reported */

/* An object with the members that all verbs have; NULL: out of memory. */
static json_t *report(const struct apply *a, const char *command) {
    const hf_array *c = hf_dataset_array(a->centroids);
    return json_pack(
        "{s:s, s:s, s:{s:o, s:s, s:s, s:I, s:I, s:b}, s:{s:o, s:I, s:s}, s:o, s:o, s:s, s:s, s:o, "
        "s:s, s:i, s:s, s:o, s:{s:I, s:I}}",
        "holdfast", hf_version(), "command", command, "data", "path", tool_json_name(a->data_file),
        "format", hf_dataset_format(a->data), "dtype", hf_dtype_name(a->dtype), "rows",
        (json_int_t)a->rows, "columns", (json_int_t)a->cols, "streamed",
        hf_dataset_array(a->data) == NULL, "centroids", "path", tool_json_name(a->model.centroids),
        "k", (json_int_t)c->rows, "dtype", hf_dtype_name(c->dtype), "report",
        tool_json_name(a->model.report), "preparation", preparation_json(&a->preparation, a->data),
        "metric", kmeans_metric_names[a->metric], "nan", kmeans_nan_names[a->nan], "weights",
        tool_json_name(a->weights_file), "precision", kmeans_precision_names[a->precision],
        "threads", hf_context_threads(a->ctx), "device", hf_context_device(a->ctx), "guard",
        guard_json(a->scheme, a->checks, &a->faults), "memory", "peak_bytes",
        (json_int_t)tool_peak_memory(), "limit_bytes", (json_int_t)hf_context_memory(a->ctx));
}

int apply_print_json(const struct apply *a, const char *command, json_t *more) {
    json_t *root = report(a, command);
    if (!root || !more || json_object_update(root, more) != 0) {
        json_decref(root);
        root = NULL;
    }
    json_decref(more);
    return tool_json_print(root);
}

void apply_summary(const struct apply *a, int64_t dropped, FILE *out) {
    fprintf(out, "%s: %s x %s, %s, %s%s\n", tool_name_text(a->data_file),
            tool_things_text(a->rows, "row"), tool_things_text(a->cols, "column"),
            hf_dtype_name(a->dtype), hf_dataset_format(a->data),
            hf_dataset_array(a->data) ? "" : ", read in chunks");
    if (dropped)
        fprintf(out, "  dropped   %s with NaN or Inf\n", tool_things_text(dropped, "row"));
    fprintf(out, "  centroids %s, %s distance, %s\n", tool_count_text(a->k),
            kmeans_metric_names[a->metric], tool_name_text(a->model.centroids));
    guard_summary(a->scheme, &a->faults, out);
}

void apply_close(struct apply *a) {
    free(a->labels);
    free(a->sizes);
    hf_dataset_close(a->weights);
    hf_dataset_close(a->centroids);
    hf_dataset_close(a->data);
    hf_context_destroy(a->ctx);
    preparation_clear(&a->preparation);
    model_clear(&a->model);
}
