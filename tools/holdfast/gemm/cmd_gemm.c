/* SPDX-License-Identifier: Apache-2.0
 * holdfast gemm: the product of the matrices of two files. */
#include "gemm/matrices.h"
#include "gemm/row_blocks.h"
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum option_key {
    KEY_TRANS_A = 256,
    KEY_TRANS_B,
    KEY_ALPHA,
    KEY_BETA,
    KEY_ADD,
    KEY_TYPE,
    KEY_OUT_TYPE,
    KEY_JSON,
    KEY_MEMORY,
    KEY_GUARD,
    KEY_SIGN,
    KEY_DEVICE,
    KEY_PORTABLE
};

static const struct argp_option table[] = {
    {"output", 'o', "FILE.npy", 0, "Write the product there", 1},
    {"transa", KEY_TRANS_A, NULL, 0, "Take the transpose of A", 1},
    {"transb", KEY_TRANS_B, NULL, 0, "Take the transpose of B", 1},
    {"alpha", KEY_ALPHA, "X", 0, "Multiply the product by X (1)", 1},
    {"add", KEY_ADD, "FILE", 0, "Add the matrix of this file, of the shape of the product", 1},
    {"beta", KEY_BETA, "X", 0, "Multiply that matrix by X (1)", 1},
    {"type", KEY_TYPE, "NAME", 0,
     "Multiply as f32, f64 or i8 (default: auto, the type of the files; where they differ, f32, or "
     "f64 if one of them is). f32 rounds; i8 (auto for two files of int8) takes whole numbers from "
     "-128 to 127 alone",
     1},
    {"out-type", KEY_OUT_TYPE, "NAME", 0,
     "Type of the product: auto (default), that of the matrices, i32 for i8; or f32 for f16 and "
     "bf16, too",
     1},
    {"json", KEY_JSON, NULL, 0, "Print a report as JSON on standard output", 1},
    {"quiet", 'q', NULL, 0, "No summary", 1},
    {NULL, 0, NULL, 0, "Protection:", 3},
    {"guard", KEY_GUARD, "SCHEME", 0,
     "off (default), detect or correct: compare sums of rows and columns with the operands, and "
     "end "
     "with exit code 5 or repair if they contradict",
     3},
    {"sign", KEY_SIGN, "LEVEL[:CHECKSUM]", 0,
     "Report execution signatures: t+o signs what is staged and the sums, l+o also what was "
     "staged, "
     "when it was used; by crc32c (default), fletcher, ...",
     3},
    {NULL, 0, NULL, 0, "How to compute:", 4},
    {"device", KEY_DEVICE, "NAME", 0, "cpu (default) or cuda, cuda:1, ...", 4},
    {"portable", KEY_PORTABLE, NULL, 0,
     "On a GPU sum f16 and bf16 as CPUs do, not by tensor cores, which round otherwise", 4},
    {"threads", 't', "T", 0, "Threads (default: one for each usable core)", 4},
    {"memory", KEY_MEMORY, "BYTES", 0,
     "Most that each matrix may take, and workspace beside them, such as 512M or 2GiB (default: "
     "half "
     "of what is free)",
     4},
    {0}};

/* The types of --type and --out-type, "auto" first. */
static const char *const type_names[] = {"auto", "f32", "f64", "i8", NULL};
static const hf_dtype types[] = {HF_DTYPE_NONE, HF_F32, HF_F64, HF_I8};
static const char *const out_type_names[] = {"auto", "f32", NULL};
static const char *const guard_names[] = {"off", "detect", "correct", NULL};
static const hf_guard guards[] = {HF_GUARD_OFF, HF_GUARD_DETECT, HF_GUARD_CORRECT};
static const hf_dtype out_types[] = {HF_DTYPE_NONE, HF_F32};

struct job {
    hf_context_opts context;
    hf_context *ctx;
    const char *out;
    bool json, quiet, beta_given;
    hf_dtype type;
    struct matrix a, b, add; /* add.path is NULL without --add */
    hf_gemm_args args;
    hf_gemm_report report;
    hf_guard guard;
    hf_gemm_faults faults;
    hf_gemm_signatures sign;
    void *product;  /* owned [m, n] */
    double at_most; /* no element is off by more; INFINITY: nothing is known */
    double seconds_load, seconds_write;
    int64_t bytes;
    uint32_t crc32;
};

static void check(const struct job *job, struct argp_state *state) {
    if (!job->a.path || !job->b.path)
        argp_error(state, "which matrices? give A.npy and B.npy");
    if (!job->out && !job->json)
        argp_error(state, "where to? give -o FILE.npy or --json");
    if (job->beta_given && !job->add.path)
        argp_error(state, "--beta needs --add FILE to multiply it with");
}

/* "t+o", "l+o:fletcher" */
static void parse_sign(struct job *job, struct argp_state *state, const char *arg) {
    const char *colon = strchr(arg, ':');
    const size_t length = colon ? (size_t)(colon - arg) : strlen(arg);
    char names[200] = "";
    job->sign.release = strncmp(arg, "l+o", length) == 0;
    if (length != 3 || (!job->sign.release && strncmp(arg, "t+o", 3) != 0))
        argp_error(state, "--sign %s: give t+o or l+o, and :CHECKSUM", arg);
    job->args.signatures = &job->sign;
    job->sign.checksum = colon ? colon + 1 : NULL;
    for (int i = 0; hf_gemm_checksum(i); i++) {
        if (!colon || strcmp(colon + 1, hf_gemm_checksum(i)) == 0)
            return;
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
                 hf_gemm_checksum(i));
    }
    argp_error(state, "--sign %s: the checksum must be one of %s", arg, names);
}

static bool parse_number(struct job *job, struct argp_state *state, int key, const char *arg) {
    switch (key) {
    case KEY_ALPHA:
        job->args.alpha = tool_real(state, "--alpha", arg, -DBL_MAX, DBL_MAX);
        return true;
    case KEY_BETA:
        job->args.beta = tool_real(state, "--beta", arg, -DBL_MAX, DBL_MAX);
        job->beta_given = true;
        return true;
    case KEY_TYPE:
        job->type = types[tool_choice(state, "--type", arg, type_names)];
        return true;
    case KEY_OUT_TYPE:
        job->args.dtype_c = out_types[tool_choice(state, "--out-type", arg, out_type_names)];
        return true;
    case 't':
        job->context.threads = (int)tool_int(state, "--threads", arg, 1, 1024);
        return true;
    case KEY_DEVICE:
        job->context.device = arg;
        return true;
    case KEY_PORTABLE:
        job->args.portable = 1;
        return true;
    case KEY_MEMORY:
        job->context.memory_bytes = tool_bytes(state, "--memory", arg);
        return true;
    default:
        return false;
    }
}

static void parse_file(struct job *job, struct argp_state *state, const char *arg) {
    if (job->b.path)
        argp_error(state, "two matrices at a time, not also '%s'", arg);
    else if (job->a.path)
        job->b.path = tool_path(state, "B", arg);
    else
        job->a.path = tool_path(state, "A", arg);
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct job *job = state->input;
    switch (key) {
    case 'o':
        job->out = tool_npy_out_path(state, "-o", arg);
        return 0;
    case KEY_ADD:
        job->add.path = tool_path(state, "--add", arg);
        return 0;
    case KEY_TRANS_A:
        job->args.trans_a = 1;
        return 0;
    case KEY_TRANS_B:
        job->args.trans_b = 1;
        return 0;
    case KEY_GUARD:
        job->guard = guards[tool_choice(state, "--guard", arg, guard_names)];
        return 0;
    case KEY_SIGN:
        parse_sign(job, state, arg);
        return 0;
    case KEY_JSON:
        job->json = true;
        return 0;
    case 'q':
        job->quiet = true;
        return 0;
    case ARGP_KEY_ARG:
        parse_file(job, state, arg);
        return 0;
    case ARGP_KEY_END:
        check(job, state);
        return 0;
    default:
        return parse_number(job, state, key, arg) ? 0 : ARGP_ERR_UNKNOWN;
    }
}

/* ---- the work */

static int open_files(struct job *job) {
    static const char *const names[] = {"A", "B", "--add"};
    const char *const inputs[] = {job->a.path, job->b.path, job->add.path};
    int code = tool_one_standard_input(names, inputs, 3);
    if (code != EXIT_DONE)
        return code;
    errno = 0;
    const hf_status status = hf_context_create(&job->ctx, &job->context);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    code = tool_spare(job->out, inputs, 3);
    if (code == EXIT_DONE)
        code = tool_writable(job->ctx, job->out);
    if (code == EXIT_DONE)
        code = matrix_open(&job->a, job->ctx, job->context.memory_bytes, "A");
    if (code == EXIT_DONE)
        code = matrix_open(&job->b, job->ctx, job->context.memory_bytes, "B");
    if (code == EXIT_DONE && job->add.path)
        code = matrix_open(&job->add, job->ctx, job->context.memory_bytes, "--add");
    return code;
}

static const char *shape_text(const struct matrix *m, int trans, char text[64]) {
    snprintf(text, 64, "%lld x %lld%s", (long long)m->view.rows, (long long)m->view.cols,
             trans ? " transposed" : "");
    return text;
}

static int check_shapes(struct job *job) {
    hf_gemm_args *args = &job->args;
    const hf_array *a = &job->a.view, *b = &job->b.view, *add = &job->add.view;
    const int64_t inner = args->trans_b ? b->cols : b->rows;
    char of_a[64];
    char of_b[64];
    args->m = args->trans_a ? a->cols : a->rows;
    args->k = args->trans_a ? a->rows : a->cols;
    args->n = args->trans_b ? b->rows : b->cols;
    if (args->k != inner) {
        tool_error("%s is %s and %s is %s: the first has %lld columns, the second %lld rows, which "
                   "must be equal; --transa and --transb take transposes",
                   job->a.path, shape_text(&job->a, args->trans_a, of_a), job->b.path,
                   shape_text(&job->b, args->trans_b, of_b), (long long)args->k, (long long)inner);
        return EXIT_INPUT;
    }
    if (job->add.path && (add->rows != args->m || add->cols != args->n)) {
        tool_error("--add %s is %s, but the product of %s and %s is %lld x %lld: it must have the "
                   "same shape",
                   job->add.path, shape_text(&job->add, 0, of_a), job->a.path, job->b.path,
                   (long long)args->m, (long long)args->n);
        return EXIT_INPUT;
    }
    return EXIT_DONE;
}

/* What both matrices are multiplied as. */
static hf_dtype common_type(const struct job *job) {
    const hf_dtype a = job->a.view.dtype, b = job->b.view.dtype;
    if (job->type != HF_DTYPE_NONE)
        return job->type;
    if (strcmp(hf_dataset_type(job->a.data), "int8") == 0 &&
        strcmp(hf_dataset_type(job->b.data), "int8") == 0)
        return HF_I8;
    if (a == b && a != HF_U8)
        return a;
    return a == HF_F64 || b == HF_F64 ? HF_F64 : HF_F32;
}

/* An option that does not go with the type. */
static int check_options(const struct job *job) {
    const hf_gemm_args *args = &job->args;
    const hf_dtype in = args->dtype, out = args->dtype_c;
    const bool half = in == HF_F16 || in == HF_BF16;
    const double factor[] = {args->alpha, args->beta};
    if (out == HF_F32 && in != HF_F32 && !half) {
        tool_error("--out-type f32: a product of %s is %s: leave the option out%s",
                   hf_dtype_name(in), in == HF_I8 ? "i32" : hf_dtype_name(in),
                   in == HF_I8 ? ", or multiply by --type f32" : "");
        return EXIT_INPUT;
    }
    for (int i = 0; in == HF_I8 && i < 2; i++)
        if (!(factor[i] >= INT32_MIN && factor[i] <= INT32_MAX && factor[i] == rint(factor[i]))) {
            tool_error("%s %g: for i8 it must be a whole number from -2147483648 to 2147483647; "
                       "--type f32 takes any number",
                       i == 0 ? "--alpha" : "--beta", factor[i]);
            return EXIT_INPUT;
        }
    return EXIT_DONE;
}

/* The matrices in one type, and room for the product, with what is to be added in it. */
static int prepare(struct job *job) {
    hf_gemm_args *args = &job->args;
    int code = check_shapes(job);
    args->dtype = common_type(job);
    if (code == EXIT_DONE)
        code = check_options(job);
    if (args->dtype_c == HF_DTYPE_NONE)
        args->dtype_c = args->dtype == HF_I8 ? HF_I32 : args->dtype;
    if (code == EXIT_DONE)
        code = matrix_convert(&job->a, job->ctx, args->dtype);
    if (code == EXIT_DONE)
        code = matrix_convert(&job->b, job->ctx, args->dtype);
    if (code == EXIT_DONE && job->add.path)
        code = matrix_convert(&job->add, job->ctx, args->dtype_c);
    if (code != EXIT_DONE)
        return code;
    const size_t count = (size_t)args->m * (size_t)args->n;
    job->product = calloc(count, hf_dtype_bytes(args->dtype_c));
    if (!job->product) {
        tool_error("no memory for a product of %lld x %lld", (long long)args->m,
                   (long long)args->n);
        return EXIT_RESOURCES;
    }
    args->a = job->a.view.data;
    args->b = job->b.view.data;
    args->c = job->product;
    args->lda = job->a.view.row_stride;
    args->ldb = job->b.view.row_stride;
    if (job->add.path)
        matrix_copy(job->product, &job->add.view);
    else
        args->beta = 0;
    return EXIT_DONE;
}

/* By the inequality of Cauchy and Schwarz. */
static double find_bound(const struct job *job) {
    const hf_gemm_args *args = &job->args;
    if (args->dtype == HF_I8)
        return 0;
    const double a = matrix_longest(&job->a, job->ctx, args->trans_a != 0);
    const double b = matrix_longest(&job->b, job->ctx, args->trans_b == 0);
    const double old = job->add.path ? fabs(args->beta) * matrix_largest(&job->add, job->ctx) : 0;
    const double size = args->alpha == 0 ? old : fabs(args->alpha) * a * b + old;
    return job->report.error * size * (1 + 0x1p-20) + job->report.tiny;
}

static int write_file(struct job *job) {
    const hf_array c = hf_array_view(job->product, job->args.dtype_c, job->args.m, job->args.n);
    const double begin = tool_now();
    hf_file_set *set = NULL;
    errno = 0;
    hf_status status = hf_file_set_create(job->ctx, &set);
    if (status == HF_OK)
        status = hf_file_set_npy_matrix(set, job->out, &c);
    if (status == HF_OK)
        (void)hf_file_set_at(set, 0, &job->bytes, &job->crc32);
    if (status == HF_OK)
        status = hf_file_set_commit(set, NULL);
    const int code = status == HF_OK ? EXIT_DONE : tool_fail(job->ctx, status, STAGE_WRITE);
    hf_file_set_destroy(set);
    job->seconds_write = tool_now() - begin;
    return code;
}

/* ---- what is reported */

static double gflops(const struct job *job) {
    const hf_gemm_args *args = &job->args;
    const double flops = 2 * (double)args->m * (double)args->n * (double)args->k;
    return job->report.seconds > 0 ? flops / job->report.seconds * 1e-9 : 0;
}

static json_t *json_matrix(const struct matrix *m) {
    if (!m->path)
        return json_null();
    return json_pack("{s:o, s:s, s:s, s:I, s:I, s:o}", "path", tool_json_name(m->path), "format",
                     hf_dataset_format(m->data), "dtype", hf_dtype_name(m->dtype), "rows",
                     (json_int_t)m->view.rows, "columns", (json_int_t)m->view.cols, "crc32c",
                     tool_json_crc(&m->view));
}

static json_t *json_file(const struct job *job) {
    char crc[16];
    if (!job->out)
        return json_null();
    snprintf(crc, sizeof crc, "%08x", job->crc32);
    return json_pack("{s:o, s:I, s:s}", "path", tool_json_name(job->out), "bytes",
                     (json_int_t)job->bytes, "crc32", crc);
}

static json_t *json_protection(const struct job *job) {
    const hf_gemm_signatures *s = &job->sign;
    const hf_gemm_faults *f = &job->faults;
    char word[3][20];
    const uint64_t value[] = {s->a, s->b, s->c};
    for (int i = 0; i < 3; i++)
        snprintf(word[i], sizeof word[i], "%016llx", (unsigned long long)value[i]);
    json_t *signatures = json_null();
    if (job->args.signatures)
        signatures = json_pack(
            "{s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "level", s->release ? "l+o" : "t+o", "checksum",
            s->checksum ? s->checksum : "crc32c", "a", word[0], "b", word[1], "sums", word[2],
            "panels", (json_int_t)s->panels, "tiles", (json_int_t)s->tiles);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:o}", "guard", hf_guard_name(job->guard), "lines",
                     (json_int_t)f->lines, "suspected", (json_int_t)f->suspected, "confirmed",
                     (json_int_t)f->confirmed, "repaired", (json_int_t)f->repaired, "signatures",
                     signatures);
}

static int print_json(const struct job *job) {
    const hf_gemm_args *args = &job->args;
    const hf_gemm_report *r = &job->report;
    return tool_json_print(json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:b, s:b, s:o, s:o, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:o, "
        "s:{s:o, s:o, s:o}, s:{s:o, s:o, s:o}, s:i, s:{s:I, s:I}, s:o, s:o, "
        "s:o}",
        "holdfast", hf_version(), "command", "gemm", "a", json_matrix(&job->a), "b",
        json_matrix(&job->b), "add", json_matrix(&job->add), "transa", args->trans_a, "transb",
        args->trans_b, "alpha", tool_json_real(args->alpha), "beta", tool_json_real(args->beta),
        "m", (json_int_t)args->m, "n", (json_int_t)args->n, "k", (json_int_t)args->k, "dtype",
        hf_dtype_name(args->dtype), "out_dtype", hf_dtype_name(args->dtype_c), "arithmetic",
        r->arithmetic, "kernel", r->kernel, "gflops", tool_json_real(gflops(job)), "error",
        "relative", tool_json_real(r->error), "tiny", tool_json_real(r->tiny), "at_most",
        tool_json_real(job->at_most), "seconds", "load", tool_json_real(job->seconds_load),
        "multiply", tool_json_real(r->seconds), "write", tool_json_real(job->seconds_write),
        "threads", hf_context_threads(job->ctx), "memory", "workspace_bytes",
        (json_int_t)r->workspace_bytes, "peak_bytes", (json_int_t)tool_peak_memory(), "file",
        json_file(job), "protection", json_protection(job), "blocks",
        row_blocks_json(job->product, args->m, (size_t)args->n * hf_dtype_bytes(args->dtype_c))));
}

static void print_summary(const struct job *job, FILE *out) {
    const hf_gemm_args *args = &job->args;
    const hf_gemm_report *r = &job->report;
    char of_a[64];
    char of_b[64];
    fprintf(out, "%s (%s)", tool_name_text(job->a.path), shape_text(&job->a, args->trans_a, of_a));
    fprintf(out, " times %s (%s): %lld x %lld, %s\n", tool_name_text(job->b.path),
            shape_text(&job->b, args->trans_b, of_b), (long long)args->m, (long long)args->n,
            hf_dtype_name(args->dtype_c));
    fprintf(out, "  arithmetic %s\n", r->arithmetic);
    fprintf(out, "  kernel     %s, %d thread%s\n", r->kernel, hf_context_threads(job->ctx),
            hf_context_threads(job->ctx) == 1 ? "" : "s");
    if (args->dtype == HF_I8)
        fprintf(out, "  error      none%s\n",
                args->k > 131071 ? ", but sums beyond int32 wrap around" : "");
    else if (isfinite(job->at_most))
        fprintf(out, "  error      at most %.3g in any element\n", job->at_most);
    fprintf(out, "  time       load %s, multiply %s (%.3g GFLOP/s), write %s\n",
            tool_seconds_text(job->seconds_load), tool_seconds_text(r->seconds), gflops(job),
            tool_seconds_text(job->seconds_write));
    if (job->guard != HF_GUARD_OFF)
        fprintf(out, "  guard      %s: %lld rows and columns, %lld wrong, %lld elements repaired\n",
                hf_guard_name(job->guard), (long long)job->faults.lines,
                (long long)job->faults.confirmed, (long long)job->faults.repaired);
    if (args->signatures)
        fprintf(out, "  signatures A %016llx, B %016llx, sums %016llx\n",
                (unsigned long long)job->sign.a, (unsigned long long)job->sign.b,
                (unsigned long long)job->sign.c);
    if (job->out)
        fprintf(out, "  written    %s\n", tool_name_text(job->out));
}

static int run(struct job *job) {
    const double begin = tool_now();
    int code = open_files(job);
    if (code == EXIT_DONE && !job->quiet)
        tool_check_tuning(job->ctx);
    if (code == EXIT_DONE)
        code = prepare(job);
    job->seconds_load = tool_now() - begin;
    if (code != EXIT_DONE)
        return code;
    errno = 0;
    const hf_status status =
        hf_gemm_guarded(job->ctx, &job->args, job->guard, &job->faults, &job->report);
    if (status != HF_OK)
        return tool_fail(job->ctx, status, STAGE_COMPUTE);
    job->at_most = find_bound(job);
    if (job->out)
        code = write_file(job);
    if (code == EXIT_DONE && job->json)
        code = print_json(job);
    if (code == EXIT_DONE && !job->quiet)
        print_summary(job, job->json ? stderr : stdout);
    return code;
}

int cmd_gemm(int argc, char **argv) {
    static const struct argp argp = {
        table,
        parse,
        "A B",
        "Multiply the matrices of two files: alpha A B + beta C. An element of the product has the "
        "same bits whatever else is computed beside it, with any number of threads."
        "\vExit codes: 0 done, 1 failed, 2 usage, 3 bad input, 4 out of resources, 5 corrupted.",
        NULL,
        NULL,
        NULL};
    struct job job;
    memset(&job, 0, sizeof job);
    job.context.device = "cpu";
    job.args.alpha = job.args.beta = 1;
    job.guard = HF_GUARD_OFF;
    tool_parse(&argp, argc, argv, &job);
    const int code = run(&job);
    free(job.product);
    matrix_close(&job.a);
    matrix_close(&job.b);
    matrix_close(&job.add);
    hf_context_destroy(job.ctx);
    return code;
}
