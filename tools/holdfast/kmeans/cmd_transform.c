/* SPDX-License-Identifier: Apache-2.0
 * holdfast transform: distances of each row to all centroids, written as they are computed. */
#include "kmeans/apply.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct argp_option table[] = {
    {"output", 'o', "FILE.npy", 0,
     "Write the distances there: float64 [N, K]; NaN for rows left out", 1},
    {0}};

struct job {
    struct apply apply;
    const char *file;
    hf_context *writer; /* of the file, while the other context is at work */
    hf_file_set *set;
    hf_status written; /* of the last rows that came */
    int os_error;
    int64_t dropped;
    double seconds_write; /* of all writes together */
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct job *job = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &job->apply;
        return 0;
    case 'o':
        job->file = tool_npy_out_path(state, "-o", arg);
        return 0;
    case ARGP_KEY_END:
        if (!job->file)
            argp_error(state, "where to? give -o FILE.npy");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* user is the struct apply, with which the job begins. */
static int take(void *user, int64_t first, int64_t count, const double *distances) {
    struct job *job = user;
    const int64_t k = job->apply.k;
    const double begin = tool_now();
    (void)first;
    for (int64_t i = 0; job->apply.nan == HF_NAN_DROP && i < count; i++)
        job->dropped += distances[i * k] != distances[i * k];
    errno = 0;
    job->written = hf_file_set_append(job->set, distances, (size_t)(count * k) * sizeof *distances);
    job->os_error = errno;
    job->seconds_write += tool_now() - begin;
    return job->written != HF_OK;
}

static int open_file(struct job *job) {
    const struct apply *a = &job->apply;
    const hf_context_opts opts = {.device = "cpu", .threads = 1};
    errno = 0;
    hf_status status = hf_context_create(&job->writer, &opts);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    status = hf_file_set_create(job->writer, &job->set);
    if (status == HF_OK)
        status = hf_file_set_begin(job->set, job->file, HF_F64, a->rows, a->k);
    return status == HF_OK ? EXIT_DONE : tool_fail(job->writer, status, STAGE_WRITE);
}

static int compute(struct job *job) {
    struct apply *a = &job->apply;
    const hf_predict_opts opts = apply_options(a);
    errno = 0;
    const hf_status status =
        hf_kmeans_transform_with(a->ctx, hf_dataset_array(a->data), hf_dataset_source(a->data),
                                 hf_dataset_array(a->centroids), &opts, take);
    const int os_error = errno;
    progress_close(&a->progress);
    a->computed = tool_now();
    errno = job->written == HF_OK ? os_error : job->os_error;
    if (job->written != HF_OK)
        return tool_fail(job->writer, job->written, STAGE_WRITE);
    return status == HF_OK ? EXIT_DONE : apply_failed(a, status);
}

/* The file comes to its name. */
static int finish_file(struct job *job) {
    const double begin = tool_now();
    errno = 0;
    hf_status status = hf_file_set_end(job->set);
    if (status == HF_OK)
        status = hf_file_set_commit(job->set, NULL);
    job->seconds_write += tool_now() - begin;
    return status == HF_OK ? EXIT_DONE : tool_fail(job->writer, status, STAGE_WRITE);
}

static double seconds_transform(const struct job *job) {
    return tool_now() - job->apply.loaded - job->seconds_write;
}

static int print_json(const struct job *job, double seconds) {
    const struct apply *a = &job->apply;
    json_t *more = json_pack("{s:I, s:o, s:{s:o, s:o, s:o}}", "rows_dropped",
                             (json_int_t)job->dropped, "distances", tool_json_name(job->file),
                             "seconds", "load", tool_json_real(a->loaded - a->begun), "transform",
                             tool_json_real(seconds), "write", tool_json_real(job->seconds_write));
    return apply_print_json(a, "transform", more);
}

static void print_summary(const struct job *job, double seconds, FILE *out) {
    const struct apply *a = &job->apply;
    apply_summary(a, job->dropped, out);
    fprintf(out, "  time      load %s, transform %s, write %s\n",
            tool_seconds_text(a->loaded - a->begun), tool_seconds_text(seconds),
            tool_seconds_text(job->seconds_write));
    fprintf(out, "  written   %s\n", tool_name_text(job->file));
}

static int run(struct job *job) {
    struct apply *a = &job->apply;
    const struct apply_output output = {"-o", job->file};
    int code = apply_open(a, &output, 1, "transform");
    if (code == EXIT_DONE)
        code = open_file(job);
    if (code == EXIT_DONE)
        code = compute(job);
    if (code == EXIT_DONE)
        code = finish_file(job);
    const double seconds = seconds_transform(job);
    if (code == EXIT_DONE && a->json)
        code = print_json(job, seconds);
    if (code == EXIT_DONE && !a->quiet)
        print_summary(job, seconds, a->json ? stderr : stdout);
    return code;
}

int cmd_transform(int argc, char **argv) {
    static const struct argp_child children[] = {{&apply_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        table,
        parse,
        "DATA",
        "Write the distance of each row of DATA to every centroid: euclidean (not squared), 1 less "
        "the cosine, or minus the inner product."
        "\vExit codes: 0 done, 1 failed, 2 usage, 3 bad input, 4 out of resources, 5 corrupted, "
        "130 interrupted (nothing was written).",
        children,
        NULL,
        NULL};
    struct job job;
    memset(&job, 0, sizeof job);
    tool_parse(&argp, argc, argv, &job);
    const int code = run(&job);
    hf_file_set_destroy(job.set);
    hf_context_destroy(job.writer);
    apply_close(&job.apply);
    return code;
}
