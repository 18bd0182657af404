/* SPDX-License-Identifier: Apache-2.0
 * holdfast tune: measure the rows that are right and write down the fastest. */
#include "shapes.h"
#include <errno.h>
#include <string.h>

enum key { KEY_OP = 256, KEY_SHAPE, KEY_SUITE, KEY_DTYPE, KEY_ROUNDS, KEY_BUDGET };

struct tune {
    struct shapes shapes;
    const char *shape_text[SHAPES_MAX]; /* parsed when --op and --dtype are known */
    int shape_texts;
    const char *suite;
    const char *output;
    hf_context_opts context;
    hf_dev_time_opts time;
    hf_dev_timing winner[SHAPES_MAX];
    int winners;
    bool first; /* the next timing is the fastest of its shape */
};

static const struct argp_option options[] = {
    {"op", KEY_OP, "OP", 0, "Op to tune (assign); with --suite only its lines of this op", 0},
    {"shape", KEY_SHAPE, "N,K,D", 0, "Rows, centroids and columns; may be given more than once", 0},
    {"suite", KEY_SUITE, "FILE", 0, "Shapes from a file with lines 'op dtype N K D'", 0},
    {"dtype", KEY_DTYPE, "TYPE", 0, "f32 (default), f64, f16, bf16 or u8", 0},
    {"threads", 't', "T", 0, "Worker threads; default: one for each usable core", 0},
    {"rounds", KEY_ROUNDS, "R", 0, "Rounds in which rows take turns (7, more for short calls)", 0},
    {"budget", KEY_BUDGET, "SECONDS", 0, "Time for one shape, after 3 rounds (10)", 0},
    {"output", 'o', "FILE", 0, "Tuning file to write; default: where plans look for it", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct tune *t = state->input;
    const char *op = t->shapes.op ? t->shapes.op : "assign";
    switch (key) {
    case KEY_OP:
        t->shapes.op = arg;
        break;
    case KEY_SHAPE:
        if (t->shape_texts == SHAPES_MAX)
            argp_error(state, "more than %d shapes", SHAPES_MAX);
        t->shape_text[t->shape_texts++] = arg;
        break;
    case KEY_SUITE:
        t->suite = arg;
        break;
    case KEY_DTYPE:
        t->shapes.dtype = shapes_dtype(state, arg);
        break;
    case 't':
        t->context.threads = (int)tool_int(state, "--threads", arg, 1, 1024);
        break;
    case KEY_ROUNDS:
        t->time.rounds = (int)tool_int(state, "--rounds", arg, 1, 501);
        break;
    case KEY_BUDGET:
        t->time.budget_s = tool_real(state, "--budget", arg, 0.001, 1e6);
        break;
    case 'o':
        t->output = arg;
        break;
    case ARGP_KEY_END:
        shapes_check_op(state, op);
        for (int i = 0; i < t->shape_texts; i++)
            shapes_add(&t->shapes, state, op, t->shape_text[i]);
        if (t->shape_texts == 0 && !t->suite)
            shapes_default(&t->shapes, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Measure kernel rows and write the fastest of each shape into a tuning file that later plans "
    "follow. "
    "Only rows whose results agree with the reference on data of that shape are measured.\v"
    "A plan follows entries of similar shape on the same kind of machine. Plans look at "
    "HF_TUNE_FILE, "
    "then at holdfast/cpu.tune in XDG_CONFIG_HOME or ~/.config.",
    NULL,
    NULL,
    NULL};

static void take_timing(void *user, const hf_dev_timing *timing) {
    struct tune *t = user;
    if (t->first)
        t->winner[t->winners++] = *timing;
    printf("  %c %-34s %10s  %8.1f GF/s%s\n", t->first ? '*' : ' ', timing->kernel,
           tool_seconds_text(timing->median_s), timing->flops / timing->median_s * 1e-9,
           timing->planned ? "  (planned so far)" : "");
    t->first = false;
}

static int run(struct tune *t, hf_context *ctx) {
    t->time.kernel = "all";
    t->time.checked_only = 1;
    for (int i = 0; i < t->shapes.count; i++) {
        const struct shaped_call *call = &t->shapes.call[i];
        printf("%s %s, %lld x %lld, K=%lld\n", call->op, hf_dtype_name(call->shape.dtype),
               (long long)call->shape.n, (long long)call->shape.d, (long long)call->shape.k);
        fflush(stdout);
        t->first = true;
        errno = 0;
        const hf_status status =
            hf_dev_time(ctx, call->op, &call->shape, &t->time, NULL, take_timing, t);
        if (status != HF_OK)
            return tool_fail(ctx, status, STAGE_COMPUTE);
    }
    errno = 0;
    const hf_status status = hf_dev_tune_write(ctx, t->output, t->winner, t->winners);
    if (status != HF_OK)
        return tool_fail(ctx, status, STAGE_WRITE);
    char path[4096];
    if (t->output)
        printf("wrote %s; plans follow it with HF_TUNE_FILE=%s\n", t->output, t->output);
    else if (hf_dev_tune_path(path, sizeof path))
        printf("wrote %s\n", path);
    return EXIT_DONE;
}

int cmd_tune(int argc, char **argv) {
    static struct tune t;
    hf_context *ctx = NULL;
    t.shapes.dtype = HF_F32;
    tool_parse(&argp, argc, argv, &t);
    int code = t.suite ? shapes_read(&t.shapes, t.suite) : EXIT_DONE;
    if (code != EXIT_DONE)
        return code;
    errno = 0;
    const hf_status status = hf_context_create(&ctx, &t.context);
    code = status == HF_OK ? run(&t, ctx) : tool_fail(NULL, status, STAGE_OPEN);
    hf_context_destroy(ctx);
    return code;
}
