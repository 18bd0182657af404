/* SPDX-License-Identifier: Apache-2.0
 * holdfast solve: read a matrix, solve, write. */
#include "interrupt.h"
#include "place.h"
#include "solve/solve_picture.h"
#include "solve/solve_progress.h"
#include "solve/solve_report.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct job {
    struct solve_options options;
    hf_context *ctx;
    hf_sparse *matrix;
    hf_array b, x; /* HF_F64, from malloc() */
    struct solve_progress progress;
    hf_relax_result result;
    struct solve_report report;
    hf_file_set *files;
};

static int no_memory(const char *what) {
    tool_error("no memory for %s", what);
    return EXIT_RESOURCES;
}

/* A dense matrix of float64, zeros. */
static int make_dense(hf_array *a, int64_t rows, int64_t cols, const char *what) {
    size_t elements = 0;
    if (__builtin_mul_overflow((size_t)rows, (size_t)cols, &elements))
        return no_memory(what);
    *a = hf_array_view(calloc(elements, sizeof(double)), HF_F64, rows, cols);
    return a->data ? EXIT_DONE : no_memory(what);
}

static bool names_matrix(const char *path) {
    const size_t length = strlen(path);
    return (length > 4 && strcmp(path + length - 4, ".mtx") == 0) ||
           (length > 7 && strcmp(path + length - 7, ".mtx.gz") == 0);
}

static int load_matrix_market(struct job *job, const char *path, hf_array *out) {
    hf_sparse *matrix = NULL;
    errno = 0;
    hf_status status = hf_sparse_open(job->ctx, path, job->options.context.memory_bytes, &matrix);
    if (status != HF_OK)
        return tool_fail(job->ctx, status, STAGE_READ);
    const hf_csr *a = hf_sparse_csr(matrix);
    const int code = make_dense(out, a->rows, a->cols, path);
    if (code == EXIT_DONE)
        (void)hf_sparse_dense(matrix, out);
    hf_sparse_close(matrix);
    return code;
}

/* Element i of the rows of a file; false where the type is one of few bits. */
static bool element(const hf_array *a, int64_t i, double *value) {
    switch (a->dtype) {
    case HF_F64:
        *value = ((const double *)a->data)[i];
        return true;
    case HF_F32:
        *value = (double)((const float *)a->data)[i];
        return true;
    case HF_U8:
        *value = ((const uint8_t *)a->data)[i];
        return true;
    default:
        return false;
    }
}

static int load_rows(struct job *job, const char *path, const char *option, hf_array *out) {
    const hf_open_opts opts = {.memory_bytes = job->options.context.memory_bytes, .float64 = 1};
    hf_dataset *data = NULL;
    errno = 0;
    const hf_status status = hf_dataset_open(job->ctx, path, &opts, &data);
    if (status != HF_OK)
        return tool_fail(job->ctx, status, STAGE_READ);
    const hf_array *a = hf_dataset_array(data);
    int code = a ? make_dense(out, a->rows, a->cols, path) : EXIT_RESOURCES;
    if (!a)
        tool_error("%s %s: does not fit in memory; raise --memory", option, path);
    for (int64_t i = 0; code == EXIT_DONE && i < a->rows * a->cols; i++)
        if (!element(a, i, (double *)out->data + i)) {
            tool_error("%s %s: holds %s; save it with .astype('float64')", option, path,
                       hf_dtype_name(a->dtype));
            code = EXIT_INPUT;
        }
    hf_dataset_close(data);
    return code;
}

/* The file of an option, of n rows and, unless that is 0, `cols` columns. */
static int load_dense(struct job *job, const char *path, const char *option, int64_t cols,
                      hf_array *out) {
    const int64_t n = hf_sparse_csr(job->matrix)->rows;
    const int code =
        names_matrix(path) ? load_matrix_market(job, path, out) : load_rows(job, path, option, out);
    if (code != EXIT_DONE)
        return code;
    if (out->rows == n && (cols == 0 || out->cols == cols))
        return EXIT_DONE;
    char columns[64] = "";
    if (cols > 0)
        snprintf(columns, sizeof columns, " and %s columns, those of b", tool_count_text(cols));
    tool_error("%s %s: is %s x %s, but must have %s rows, those of the matrix%s", option, path,
               tool_count_text(out->rows), tool_count_text(out->cols), tool_count_text(n), columns);
    return EXIT_INPUT;
}

static int load(struct job *job) {
    const struct solve_options *o = &job->options;
    errno = 0;
    const hf_status status =
        hf_sparse_open(job->ctx, o->matrix, o->context.memory_bytes, &job->matrix);
    if (status != HF_OK)
        return tool_fail(job->ctx, status, STAGE_READ);
    const hf_csr *a = hf_sparse_csr(job->matrix);
    if (a->rows != a->cols) {
        tool_error("%s: is %s x %s; only a square matrix can be solved with", o->matrix,
                   tool_count_text(a->rows), tool_count_text(a->cols));
        return EXIT_INPUT;
    }
    int code = o->b_file ? load_dense(job, o->b_file, "-b", 0, &job->b)
                         : make_dense(&job->b, a->rows, 1, "the right-hand side");
    for (int64_t i = 0; code == EXIT_DONE && !o->b_file && i < a->rows; i++)
        ((double *)job->b.data)[i] = 1;
    if (code == EXIT_DONE)
        code = o->x0_file ? load_dense(job, o->x0_file, "--x0", job->b.cols, &job->x)
                          : make_dense(&job->x, a->rows, job->b.cols, "the solution");
    return code;
}

/* No output may replace an input, or another output. Going on from x.npy into x.npy is fine. */
static int spare_inputs(const struct solve_options *o) {
    const char *const inputs[] = {o->matrix, o->b_file};
    const char *const outputs[] = {o->x_file, o->report_file, o->picture_file};
    for (int i = 0; i < 3; i++) {
        const int code = tool_spare(outputs[i], inputs, 2);
        if (code != EXIT_DONE)
            return code;
        for (int j = 0; j < i && outputs[i]; j++)
            if (place_same(outputs[i], outputs[j])) {
                tool_error("%s: two outputs cannot be one file; name another", outputs[i]);
                return EXIT_USAGE;
            }
    }
    return EXIT_DONE;
}

static int prepare(struct job *job) {
    const struct solve_options *o = &job->options;
    static const char *const roles[] = {"MATRIX", "-b", "--x0"};
    const char *const inputs[] = {o->matrix, o->b_file, o->x0_file};
    int code = tool_one_standard_input(roles, inputs, 3);
    if (code == EXIT_DONE)
        code = spare_inputs(o);
    if (code != EXIT_DONE)
        return code;
    errno = 0;
    const hf_status status = hf_context_create(&job->ctx, &o->context);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    const double begin = tool_now();
    code = load(job);
    job->report.seconds_load = tool_now() - begin;
    const char *const outputs[] = {o->x_file, o->report_file, o->picture_file};
    for (int i = 0; i < 3 && code == EXIT_DONE; i++)
        code = tool_writable(job->ctx, outputs[i]);
    if (code == EXIT_DONE && !o->quiet && !o->x_file)
        tool_error("note: without -o FILE.npy the solution is not kept");
    return code;
}

/* The library names b and x, and no files. */
static int solve_failed(const struct job *job, hf_status status, int os_error) {
    const struct solve_options *o = &job->options;
    char rhs[4200];
    char start[4200];
    snprintf(rhs, sizeof rhs, "-b %s", o->b_file ? o->b_file : "ones");
    snprintf(start, sizeof start, "--x0 %s", o->x0_file ? o->x0_file : "zeros");
    const struct tool_word words[] = {{"b", rhs}, {"x", start}, {NULL, NULL}};
    const char *text = tool_translate(hf_last_error(job->ctx), words);
    tool_error("%s: %s%s", o->matrix, text,
               strstr(text, "row ") ? " (rows and columns are counted from 0 here)" : "");
    return tool_exit_code(status, os_error, STAGE_COMPUTE);
}

static int solve(struct job *job) {
    struct solve_options *o = &job->options;
    job->progress = (struct solve_progress){.bar = {.quiet = o->quiet},
                                            .tol = o->relax.tol > 0 ? o->relax.tol : 1e-10,
                                            .rhs = job->b.cols};
    solve_progress_open(&job->progress);
    o->relax.progress = solve_progress_step;
    o->relax.progress_user = &job->progress;
    interrupt_watch();
    errno = 0;
    const hf_status status = hf_relax_solve(job->ctx, hf_sparse_csr(job->matrix), &job->b, &job->x,
                                            &o->relax, &job->result);
    const int os_error = errno;
    progress_close(&job->progress.bar);
    errno = os_error;
    if (status == HF_OK)
        return EXIT_DONE;
    return solve_failed(job, status, os_error);
}

static int added(struct job *job, hf_status status) {
    return status == HF_OK ? EXIT_DONE : tool_fail(job->ctx, status, STAGE_WRITE);
}

static int add_picture(struct job *job) {
    struct picture picture;
    int code = solve_picture_draw(&picture, &job->result, job->progress.tol);
    if (code != EXIT_DONE)
        return code;
    errno = 0;
    code = added(
        job, hf_file_set_file(job->files, job->options.picture_file, picture.png, picture.bytes));
    free(picture.png);
    return code;
}

/* Sizes and checksums of the files added so far. */
static json_t *describe_files(const struct job *job) {
    const struct solve_options *o = &job->options;
    const char *const names[] = {o->x_file, o->picture_file};
    json_t *files = json_object();
    int64_t bytes = 0;
    uint32_t crc32 = 0;
    for (int i = 0, at = 0; i < 2; i++) {
        if (!names[i] || !hf_file_set_at(job->files, at++, &bytes, &crc32))
            continue;
        char digits[9];
        snprintf(digits, sizeof digits, "%08x", (unsigned)crc32);
        json_object_set_new(files, i == 0 ? "x" : "picture",
                            json_pack("{s:o, s:I, s:s}", "path", tool_json_name(names[i]), "bytes",
                                      (json_int_t)bytes, "crc32", digits));
    }
    return files;
}

static int add_report(struct job *job, const json_t *root) {
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    if (!text)
        return no_memory("the report");
    const size_t length = strlen(text);
    text[length] = '\n'; /* in place of the end, which a file does not need */
    errno = 0;
    const int code =
        added(job, hf_file_set_file(job->files, job->options.report_file, text, length + 1));
    free(text);
    return code;
}

/* All files or none; the report comes last. */
static int write_files(struct job *job, json_t **root) {
    const struct solve_options *o = &job->options;
    const double begin = tool_now();
    errno = 0;
    int code = added(job, hf_file_set_create(job->ctx, &job->files));
    if (code == EXIT_DONE && o->x_file)
        code = added(job, hf_file_set_npy(job->files, o->x_file, &job->x));
    if (code == EXIT_DONE && o->picture_file)
        code = add_picture(job);
    if (code != EXIT_DONE)
        return code;
    job->report.seconds_write = tool_now() - begin;
    job->report.files = describe_files(job);
    *root = solve_report_json(&job->report);
    if (o->report_file)
        code = add_report(job, *root);
    errno = 0;
    return code == EXIT_DONE ? added(job, hf_file_set_commit(job->files, NULL)) : code;
}

/* Files, report, summary; the exit code of a call that went well. */
static int finish(struct job *job) {
    const struct solve_options *o = &job->options;
    json_t *root = NULL;
    int code = write_files(job, &root);
    if (code != EXIT_DONE) {
        json_decref(root);
        return code;
    }
    if (o->json)
        code = tool_json_print(root);
    else
        json_decref(root);
    if (!o->quiet)
        solve_report_summary(&job->report, o->json ? stderr : stdout);
    if (code != EXIT_DONE || job->result.converged)
        return code;
    const bool cut = job->result.stop == HF_RELAX_STOP_CANCELLED || interrupt_seen();
    tool_error("%s: the residual is %.3g, and %.3g was asked for; %s",
               cut ? "interrupted" : "not converged", job->result.residual, job->progress.tol,
               o->x_file ? "the best x so far was written, and --x0 goes on from it"
                         : "-o FILE.npy would keep the best x so far");
    return cut ? EXIT_INTERRUPTED : EXIT_NOT_CONVERGED;
}

static int run(struct job *job) {
    int code = prepare(job);
    if (code == EXIT_DONE)
        code = solve(job);
    if (code != EXIT_DONE)
        return code;
    job->report.options = &job->options;
    job->report.ctx = job->ctx;
    job->report.matrix = hf_sparse_csr(job->matrix);
    job->report.about = hf_sparse_about(job->matrix);
    job->report.result = &job->result;
    return finish(job);
}

int cmd_solve(int argc, char **argv) {
    struct job job;
    memset(&job, 0, sizeof job);
    job.report.started = tool_now();
    solve_options_parse(&job.options, argc, argv);
    const int code = run(&job);
    hf_file_set_destroy(job.files);
    hf_relax_result_clear(&job.result);
    free(job.b.data);
    free(job.x.data);
    hf_sparse_close(job.matrix);
    hf_context_destroy(job.ctx);
    return code;
}
