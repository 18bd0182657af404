/* SPDX-License-Identifier: Apache-2.0
 * holdfast kmeans: load, fit, write. */
#include "interrupt.h"
#include "kmeans/outputs.h"
#include "picture.h"
#include "place.h"
#include "progress.h"
#include "kmeans/report.h"
#include "kmeans/resume.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct job {
    struct kmeans_options options;
    struct checkpoint checkpoint;
    hf_context *ctx;
    hf_dataset *data, *weights, *centroids; /* the last two may be NULL */
    struct outputs outputs;
    struct progress progress;
    struct digests digests;
    hf_kmeans_result fit;
    hf_array start;  /* given centroids as they are for scaled rows; data NULL: not needed */
    hf_array result; /* centroids in the units of the data; data NULL: those of the fit are */
    struct report report;
    hf_source source; /* of the data, with a note of who failed */
    bool read_failed;
};

static hf_status read_rows(void *user, int64_t first, int64_t count, void *dst, char *message,
                           size_t message_bytes) {
    struct job *job = user;
    const hf_source *inner = hf_dataset_source(job->data);
    const hf_status status = inner->read(inner->user, first, count, dst, message, message_bytes);
    job->read_failed |= status != HF_OK;
    return status;
}

/* Options that only the data can prove wrong and that are not the library's business. */
static int check_data(const struct job *job) {
    const struct kmeans_options *o = &job->options;
    const int64_t cols = job->source.cols;
    if (o->picture_height && o->picture_height * o->picture_width != cols) {
        tool_error("--picture %lldx%lld: that is %lld values, but a row of %s has %lld",
                   (long long)o->picture_height, (long long)o->picture_width,
                   (long long)(o->picture_height * o->picture_width), o->data, (long long)cols);
        return EXIT_INPUT;
    }
    if (o->picture_height)
        return picture_check(o->fit.k, o->picture_height, o->picture_width);
    return EXIT_DONE;
}

static int no_memory(const char *what) {
    tool_error("no memory for %s", what);
    return EXIT_RESOURCES;
}

/* Given centroids are in the units of the data. Those of another width are left to the library,
 * which refuses them. */
static int scale_start(struct job *job) {
    const hf_scaling *scaling = hf_dataset_scaling(job->data);
    const hf_array *given = job->options.fit.centroids;
    if (!scaling || !given || given->cols != scaling->cols)
        return EXIT_DONE;
    job->start = hf_array_view(calloc((size_t)given->rows, (size_t)given->cols * sizeof(double)),
                               HF_F64, given->rows, given->cols);
    if (!job->start.data)
        return no_memory("the centroids of --init");
    job->options.fit.centroids = &job->start;
    const hf_status status = hf_scaling_apply(job->ctx, scaling, given, &job->start);
    return status == HF_OK ? EXIT_DONE : tool_fail(job->ctx, status, STAGE_COMPUTE);
}

static int load(struct job *job) {
    struct kmeans_options *o = &job->options;
    const uint64_t memory = o->context.memory_bytes;
    int code = preparation_open(&o->preparation, job->ctx, memory, o->data, &job->data);
    if (code == EXIT_DONE && o->weights_file)
        code = tool_open(job->ctx, memory, o->weights_file, "--weights", &job->weights);
    if (code == EXIT_DONE && o->init_file)
        code = tool_open(job->ctx, memory, o->init_file, "--init", &job->centroids);
    if (code != EXIT_DONE)
        return code;
    o->fit.weights = job->weights ? hf_dataset_array(job->weights) : NULL;
    o->fit.centroids = job->centroids ? hf_dataset_array(job->centroids) : NULL;
    if (o->fit.k == 0 && o->fit.centroids)
        o->fit.k = o->fit.centroids->rows;
    code = scale_start(job);
    if (code != EXIT_DONE)
        return code;
    const hf_array *x = hf_dataset_array(job->data);
    if (x) {
        job->source = (hf_source){.rows = x->rows, .cols = x->cols, .dtype = x->dtype};
    } else {
        job->source = *hf_dataset_source(job->data);
        job->source.read = read_rows;
        job->source.user = job;
    }
    return check_data(job);
}

/* The files of a run into `names`, NULL-ended. */
enum { FILES_MAX = 6 };
static void list_files(const struct kmeans_options *o, const char *names[FILES_MAX]) {
    int count = 0;
    names[count++] = "centroids.npy";
    names[count++] = labels_file_name(o->labels_format);
    if (o->picture_height)
        names[count++] = "centroids.png";
    if (o->preparation.opts.scale)
        names[count++] = PREPARATION_CENTROIDS;
    names[count++] = "report.json";
    names[count] = NULL;
}

/* No output may replace an input. --init is no such input for -o: going on from
 * DIR/centroids.npy into the same DIR is what one may want. */
static int spare_inputs(const struct kmeans_options *o) {
    const char *const inputs[] = {o->data, o->weights_file, o->init_file};
    const char *names[FILES_MAX];
    int code = tool_spare(o->checkpoint, inputs, 3);
    list_files(o, names);
    for (int i = 0; names[i] && code == EXIT_DONE && o->out_dir; i++) {
        char *path = outputs_path(o->out_dir, names[i]);
        code = tool_spare(path, inputs, 2);
        if (code == EXIT_DONE && place_same(path, o->checkpoint)) {
            tool_error("--checkpoint %s: the result is written there: name another file",
                       o->checkpoint);
            code = EXIT_USAGE;
        }
        free(path);
    }
    return code;
}

/* What the files take at least. A fit may take days: that there is no room for its result is said
 * before. */
static int check_room(const struct job *job, const char *const *names) {
    const struct kmeans_options *o = &job->options;
    const size_t label = o->labels_format == LABELS_CSV ? 2 : sizeof(int32_t);
    const size_t value = job->source.dtype == HF_F64         ? sizeof(double)
                         : o->fit.store == HF_CENTROIDS_SAME ? hf_dtype_bytes(job->source.dtype)
                                                             : sizeof(float);
    const double bytes = (double)o->fit.k * (double)job->source.cols * (double)value *
                             (o->preparation.opts.scale ? 2 : 1) +
                         (double)job->source.rows * (double)label;
    return bytes < 0x1p63 ? outputs_check_room(&job->outputs, names, (uint64_t)bytes) : EXIT_DONE;
}

static int prepare(struct job *job) {
    const struct kmeans_options *o = &job->options;
    const int checked = o->fit.resume ? resume_check(o->fit.resume) : EXIT_DONE;
    if (checked != EXIT_DONE)
        return checked;
    static const char *const roles[] = {"DATA", "--weights", "--init"};
    const char *const inputs[] = {o->data, o->weights_file, o->init_file};
    const int once = tool_one_standard_input(roles, inputs, 3);
    const int spared = once == EXIT_DONE ? spare_inputs(o) : once;
    if (spared != EXIT_DONE)
        return spared;
    errno = 0;
    const hf_status status = hf_context_create(&job->ctx, &o->context);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    if (!o->quiet)
        tool_check_tuning(job->ctx);
    const double begin = tool_now();
    int code = load(job);
    job->report.seconds_load = tool_now() - begin;
    const char *files[FILES_MAX];
    list_files(o, files);
    if (code == EXIT_DONE && o->out_dir)
        code = outputs_open(&job->outputs, job->ctx, o->out_dir, files);
    if (code == EXIT_DONE && o->out_dir)
        code = spare_inputs(o); /* links may lead to the folder that is there now */
    if (code == EXIT_DONE && o->out_dir)
        code = check_room(job, files);
    if (code == EXIT_DONE)
        code = checkpoint_choose(&job->checkpoint, &job->options, job->ctx);
    if (code == EXIT_DONE && !o->quiet && !o->out_dir)
        tool_error("note: without -o DIR centroids and labels are not kept, only the %s is printed",
                   o->json ? "report" : "summary");
    return code;
}

/* Name the file that a message is about. */
static int fit_failed(const struct job *job, hf_status status) {
    const struct kmeans_options *o = &job->options;
    char weights[4200] = "";
    char centroids[4200] = "";
    char first[4300] = "";
    char data[4200];
    char source[4200];
    const bool chosen = o->preparation.opts.columns || o->preparation.opts.skip_columns;
    snprintf(data, sizeof data, "of %s%s", chosen ? "the columns chosen from " : "", o->data);
    snprintf(source, sizeof source, "%s gave", o->data);
    if (o->weights_file)
        snprintf(weights, sizeof weights, "--weights %s", o->weights_file);
    if (o->init_file) {
        snprintf(centroids, sizeof centroids, "--init %s", o->init_file);
        snprintf(first, sizeof first, "--init %s: centroid", o->init_file);
    }
    const struct tool_word words[] = {
        {"of the data", data},
        {"the source gave", source},
        {"given weights", weights},
        {"given centroids", centroids},
        {o->init_file ? "initial centroid" : NULL, first},
        {NULL, NULL},
    };
    return tool_fail_with(job->ctx, status, job->read_failed ? STAGE_READ : STAGE_COMPUTE, words);
}

static int cancelled(const struct job *job, int argc, char **argv) {
    const struct kmeans_options *o = &job->options;
    if (checkpoint_written(&job->checkpoint, o))
        resume_print(o->fit.checkpoint,
                     "interrupted while choosing the first centroids: there is no result yet, but "
                     "those chosen so far are saved",
                     argc, argv);
    else
        tool_error("interrupted while choosing the first centroids: there is no result yet, and "
                   "nothing was written");
    return EXIT_INTERRUPTED;
}

/* On a GPU they cost a call for each iteration. */
static bool wants_digests(const struct job *job) {
    const struct kmeans_options *o = &job->options;
    if (o->chain == CHAIN_AUTO)
        return (o->out_dir || o->json) && strcmp(hf_context_device(job->ctx), "cpu") == 0;
    return o->chain == CHAIN_ON;
}

static int fit(struct job *job, int argc, char **argv) {
    struct kmeans_options *o = &job->options;
    struct progress *progress = &job->progress;
    *progress =
        (struct progress){.quiet = o->quiet,
                          .max_iter = o->fit.max_iter,
                          .n_init = o->fit.n_init,
                          .tol = o->fit.tol,
                          .rows = job->source.rows,
                          .cols = job->source.cols,
                          .variance_known = o->fit.metric == HF_EUCLIDEAN && !o->weights_file};
    progress_open(progress);
    o->fit.progress = progress_step;
    o->fit.progress_user = progress;
    o->fit.warn = progress_warn;
    o->fit.warn_user = progress;
    o->fit.on_fault = progress_fault;
    o->fit.on_fault_user = progress;
    if (wants_digests(job)) {
        o->fit.digest = digests_add;
        o->fit.digest_user = &job->digests;
    }
    interrupt_watch();
    const hf_array *x = hf_dataset_array(job->data);
    errno = 0;
    const hf_status status = x ? hf_kmeans_fit(job->ctx, x, &o->fit, &job->fit)
                               : hf_kmeans_fit_source(job->ctx, &job->source, &o->fit, &job->fit);
    const int os_error = errno;
    progress_close(progress);
    errno = os_error;
    if (status == HF_E_CANCELLED)
        return cancelled(job, argc, argv);
    return status == HF_OK ? EXIT_DONE : fit_failed(job, status);
}

/* In the units of the data. */
static const hf_array *centroids_of(const struct job *job) {
    return job->result.data ? &job->result : &job->fit.centroids;
}

static int write_centroids(struct job *job) {
    const hf_scaling *scaling = hf_dataset_scaling(job->data);
    const hf_array *c = &job->fit.centroids;
    if (!scaling)
        return outputs_matrix(&job->outputs, "centroids.npy", c);
    free(job->result.data);
    job->result.data = NULL;
    void *data = calloc((size_t)c->rows, (size_t)c->cols * hf_dtype_bytes(c->dtype));
    if (!data)
        return no_memory("the centroids in the units of the data");
    job->result = hf_array_view(data, c->dtype, c->rows, c->cols);
    const hf_status status = hf_scaling_undo(job->ctx, scaling, c, &job->result);
    if (status != HF_OK)
        return tool_fail(job->ctx, status, STAGE_COMPUTE);
    const int code = outputs_matrix(&job->outputs, "centroids.npy", &job->result);
    return code == EXIT_DONE ? outputs_matrix(&job->outputs, PREPARATION_CENTROIDS, c) : code;
}

static int write_picture(struct job *job) {
    const struct kmeans_options *o = &job->options;
    struct picture picture;
    int code = picture_draw(&picture, centroids_of(job), o->picture_height, o->picture_width);
    if (code != EXIT_DONE)
        return code;
    code = outputs_file(&job->outputs, "centroids.png", picture.png, picture.bytes);
    free(picture.png);
    return code;
}

static int write_report(struct job *job, json_t *root) {
    char *text = json_dumps(root, JSON_INDENT(2));
    if (!text) {
        tool_error("out of memory while writing the report");
        return EXIT_RESOURCES;
    }
    const size_t length = strlen(text);
    text[length] = '\n'; /* in place of the end, which a file does not need */
    const int code = outputs_file(&job->outputs, "report.json", text, length + 1);
    free(text);
    return code;
}

/* All files or none: they move into place together at the end, the report last. */
static int write_files(struct job *job, json_t **root) {
    const double begin = tool_now();
    int code = write_centroids(job);
    if (code == EXIT_DONE)
        code =
            outputs_labels(&job->outputs, job->fit.labels, job->fit.n, job->options.labels_format);
    if (code == EXIT_DONE && job->options.picture_height)
        code = write_picture(job);
    if (code != EXIT_DONE)
        return code;
    job->report.seconds_write = tool_now() - begin;
    job->report.files = outputs_json(&job->outputs);
    *root = report_json(&job->report);
    code = write_report(job, *root);
    return code == EXIT_DONE ? outputs_publish(&job->outputs) : code;
}

/* A fit that went well is not lost because its folder is full or gone. */
static void write_elsewhere(struct job *job) {
    json_t *root = NULL;
    if (outputs_elsewhere(&job->outputs) == EXIT_DONE && write_files(job, &root) == EXIT_DONE)
        tool_error("the result is in %s instead: move it away from there, where files do not last",
                   job->outputs.dir);
    else
        tool_error("the result is lost: make room, and run again with --checkpoint FILE on another "
                   "disk, from which --resume writes it without computing it again");
    json_decref(root);
}

/* Files, report, summary; the exit code of a fit that went well. */
static int finish(struct job *job, int argc, char **argv) {
    const struct kmeans_options *o = &job->options;
    const bool cut = job->fit.stop == HF_STOP_CANCELLED;
    const bool saved = checkpoint_written(&job->checkpoint, o);
    json_t *root = NULL;
    job->report.checkpointed = cut && saved;
    int code = o->out_dir ? write_files(job, &root) : EXIT_DONE;
    if (code != EXIT_DONE) {
        outputs_explain(&job->outputs);
        if (saved)
            resume_print(o->fit.checkpoint, "the fit itself is not lost", argc, argv);
        else if (job->outputs.appeared == 0 || job->outputs.appeared < job->outputs.count)
            write_elsewhere(job);
        json_decref(root);
        return code;
    }
    if (!cut)
        checkpoint_drop(&job->checkpoint, o);
    if (o->json)
        code = tool_json_print(root ? root : report_json(&job->report));
    else
        json_decref(root);
    if (!o->quiet)
        report_summary(&job->report, o->json ? stderr : stdout);
    if (cut && saved)
        resume_print(o->fit.checkpoint, "interrupted", argc, argv);
    else if (cut && o->fit.checkpoint)
        tool_error("interrupted, and there is nothing to go on from: %s", job->progress.warning);
    else if (cut)
        tool_error("interrupted");
    else if (job->fit.checkpoints_failed > 0)
        tool_error("warning: %s (%d times); the result is not touched by that",
                   job->progress.warning, job->fit.checkpoints_failed);
    return code == EXIT_DONE && cut ? EXIT_INTERRUPTED : code;
}

static int run(struct job *job, int argc, char **argv) {
    int code = prepare(job);
    if (code == EXIT_DONE)
        code = fit(job, argc, argv);
    if (code != EXIT_DONE)
        return code;
    const hf_dtype dtype = job->source.dtype;
    job->report.options = &job->options;
    job->report.ctx = job->ctx;
    job->report.data = job->data;
    job->report.dtype = dtype;
    job->report.streamed = hf_dataset_array(job->data) == NULL;
    job->report.fit = &job->fit;
    job->report.digests = &job->digests;
    return finish(job, argc, argv);
}

int cmd_kmeans(int argc, char **argv) {
    struct job job;
    memset(&job, 0, sizeof job);
    job.report.started = tool_now();
    kmeans_options_parse(&job.options, argc, argv);
    const int code = run(&job, argc, argv);
    outputs_close(&job.outputs);
    hf_kmeans_result_clear(&job.fit);
    hf_dataset_close(job.centroids);
    hf_dataset_close(job.weights);
    hf_dataset_close(job.data);
    preparation_clear(&job.options.preparation);
    free(job.start.data);
    free(job.result.data);
    digests_clear(&job.digests);
    hf_context_destroy(job.ctx);
    free(job.checkpoint.own);
    return code;
}
