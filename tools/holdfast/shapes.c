/* SPDX-License-Identifier: Apache-2.0 */
#include "shapes.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

hf_dtype shapes_dtype(struct argp_state *state, const char *text) {
    static const char *const names[] = {"f32", "f64", "f16", "bf16", "u8", NULL};
    static const hf_dtype dtypes[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8};
    return dtypes[tool_choice(state, "--dtype", text, names)];
}

void shapes_check_op(struct argp_state *state, const char *name) {
    char known[256] = "";
    const char *op;
    for (int i = 0; (op = hf_dev_op_name(i)) != NULL; i++) {
        if (strcmp(op, name) == 0)
            return;
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", op);
    }
    argp_error(state, "there is no op '%s'; there are %s", name, known);
}

static bool add(struct shapes *shapes, const char *op, const hf_dev_shape *shape) {
    if (shapes->count == SHAPES_MAX)
        return false;
    struct shaped_call *call = &shapes->call[shapes->count++];
    snprintf(call->op, sizeof call->op, "%s", op);
    call->shape = *shape;
    return true;
}

void shapes_add(struct shapes *shapes, struct argp_state *state, const char *op, const char *text) {
    hf_dev_shape shape = {.dtype = shapes->dtype};
    int used = 0;
    if (sscanf(text, "%" SCNd64 ",%" SCNd64 ",%" SCNd64 "%n", &shape.n, &shape.k, &shape.d,
               &used) != 3 ||
        text[used] != '\0' || shape.n < 1 || shape.k < 1 || shape.d < 1)
        argp_error(state, "%s: N,K,D must be three whole numbers of 1 or more", text);
    if (!add(shapes, op, &shape))
        argp_error(state, "more than %d shapes", SHAPES_MAX);
}

/* When all options are known. Without any, the shapes that the kernels are judged by. */
static void add_shapes(struct shapes *shapes, struct argp_state *state) {
    static const char *const texts[] = {"200000,256,64", "1000000,64,16", "60000,1024,784",
                                        "100000,1024,128"};
    const char *op = shapes->op ? shapes->op : "assign";
    shapes_check_op(state, op);
    for (int i = 0; i < shapes->text_count; i++)
        shapes_add(shapes, state, op, shapes->texts[i]);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (shapes->text_count == 0 && !shapes->suite)
            shapes_add(shapes, state, op, texts[i]);
}

enum option_key {
    KEY_OP = 0x1000, /* no key of a parent */
    KEY_SHAPE,
    KEY_SUITE,
    KEY_DTYPE,
    KEY_ROUNDS,
    KEY_BUDGET,
    KEY_DEVICE
};

static const struct argp_option options[] = {
    {"op", KEY_OP, "OP", 0, "Op to measure (assign); with --suite only its lines of this op", 0},
    {"shape", KEY_SHAPE, "N,K,D", 0, "Rows, centroids and columns; may be given more than once", 0},
    {"suite", KEY_SUITE, "FILE", 0, "Shapes from a file with lines 'op dtype N K D'", 0},
    {"dtype", KEY_DTYPE, "TYPE", 0, "f32 (default), f64, f16, bf16 or u8", 0},
    {"threads", 't', "T", 0, "Worker threads; default: one for each usable core", 0},
    {"rounds", KEY_ROUNDS, "R", 0, "Rounds in which rows take turns (7, more for short calls)", 0},
    {"budget", KEY_BUDGET, "SECONDS", 0, "Time for one shape, after 3 rounds (10)", 0},
    {"device", KEY_DEVICE, "NAME", 0, TOOL_DEVICE_HELP, 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct shapes *s = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        s->dtype = HF_F32;
        return 0;
    case KEY_OP:
        s->op = arg;
        return 0;
    case KEY_SHAPE:
        if (s->text_count == SHAPES_MAX)
            argp_error(state, "more than %d shapes", SHAPES_MAX);
        s->texts[s->text_count++] = arg;
        return 0;
    case KEY_SUITE:
        s->suite = tool_path(state, "--suite", arg);
        return 0;
    case KEY_DTYPE:
        s->dtype = shapes_dtype(state, arg);
        return 0;
    case 't':
        s->context.threads = (int)tool_int(state, "--threads", arg, 1, 1024);
        return 0;
    case KEY_ROUNDS:
        s->time.rounds = (int)tool_int(state, "--rounds", arg, 1, 501);
        return 0;
    case KEY_BUDGET:
        s->time.budget_s = tool_real(state, "--budget", arg, 0.001, 1e6);
        return 0;
    case KEY_DEVICE:
        s->context.device = arg;
        return 0;
    case ARGP_KEY_END:
        add_shapes(s, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp shapes_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

static hf_dtype find_dtype(const char *name) {
    for (int t = HF_F32; t <= HF_U8; t++)
        if (strcmp(hf_dtype_name((hf_dtype)t), name) == 0)
            return (hf_dtype)t;
    return HF_DTYPE_NONE;
}

/* A line without its comment: NULL when it is fine, else what is wrong. */
static const char *read_line(struct shapes *shapes, const char *line) {
    char op[32];
    char dtype[8];
    char rest[2];
    hf_dev_shape shape;
    const int fields = sscanf(line, "%31s %7s %" SCNd64 " %" SCNd64 " %" SCNd64 " %1s", op, dtype,
                              &shape.n, &shape.k, &shape.d, rest);
    if (fields <= 0)
        return NULL;
    shape.dtype = fields > 1 ? find_dtype(dtype) : HF_DTYPE_NONE;
    if (fields != 5 || shape.dtype == HF_DTYPE_NONE || shape.n < 1 || shape.k < 1 || shape.d < 1)
        return "must be: op dtype N K D";
    if (shapes->op && strcmp(shapes->op, op) != 0)
        return NULL;
    return add(shapes, op, &shape) ? NULL : "is one shape too many";
}

int shapes_read(struct shapes *shapes) {
    const char *path = shapes->suite;
    char line[256];
    int number = 0;
    const char *wrong = NULL;
    if (!path)
        return EXIT_DONE;
    FILE *file = fopen(path, "r");
    if (!file) {
        tool_error("--suite %s: %s", path, strerror(errno));
        return EXIT_INPUT;
    }
    while (!wrong && fgets(line, sizeof line, file)) {
        const bool whole = strchr(line, '\n') || feof(file);
        number++;
        line[strcspn(line, "#\n")] = '\0';
        wrong = whole ? read_line(shapes, line) : "is too long";
    }
    if (!wrong && ferror(file))
        wrong = "cannot be read";
    fclose(file);
    if (wrong)
        tool_error("--suite %s: line %d %s", path, number, wrong);
    return wrong ? EXIT_INPUT : EXIT_DONE;
}
