/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/shapes.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 12 /* of a line of a suite, and more than any op needs */
#define MANY "256 shapes"

_Static_assert(SHAPES_MAX == 256, "MANY says how many");

static const char *const type_names[] = {"f32", "f64", "f16", "bf16", "u8", NULL};
static const hf_dtype type_values[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8};

/* "n, k, d"; NULL ends the names before `most`. */
static const char *list(const char *const *names, int most) {
    static char text[128];
    text[0] = '\0';
    for (int i = 0; i < most && names[i]; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? ", " : "", names[i]);
    return text;
}

static int find(const char *const *names, int most, const char *name, size_t length) {
    for (int i = 0; i < most && names[i]; i++)
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
            return i;
    return -1;
}

/* The words of text that letters of `between` separate, empty ones too; at most WORDS + 1. */
static int split(char *text, const char *between, char *words[WORDS + 1]) {
    int count = 0;
    for (char *word = strsep(&text, between); word && count <= WORDS; word = strsep(&text, between))
        words[count++] = word;
    return count;
}

/* Word number i of the dimensions: its value, or "name=value". */
static bool take_dim(const hf_dev_op *op, int i, const char *word, hf_dev_shape *shape) {
    const char *equals = strchr(word, '=');
    const char *digits = equals ? equals + 1 : word;
    char *end = NULL;
    if (equals)
        i = find(op->dim, HF_DEV_DIMS, word, (size_t)(equals - word));
    if (i < 0 || i >= HF_DEV_DIMS || !op->dim[i] || shape->dim[i] != 0)
        return false;
    errno = 0;
    shape->dim[i] = *digits >= '0' && *digits <= '9' ? strtoll(digits, &end, 10) : 0;
    return shape->dim[i] > 0 && errno == 0 && *end == '\0';
}

static bool take_dims(const hf_dev_op *op, char *const words[], int count, hf_dev_shape *shape) {
    int named = 0;
    while (named < HF_DEV_DIMS && op->dim[named])
        named++;
    for (int i = 0; i < count; i++)
        if (!take_dim(op, i, words[i], shape))
            return false;
    return count == named;
}

/* The word that names no type, or is one too many; NULL: all are fine. */
static const char *take_types(const hf_dev_op *op, char *text, hf_dev_shape *shape) {
    char *words[WORDS + 1];
    const int count = split(text, ",", words);
    for (int i = 0; i < count; i++) {
        const int type = find(type_names, (int)(sizeof type_values / sizeof type_values[0]),
                              words[i], strlen(words[i]));
        if (type < 0 || i >= HF_DEV_TYPES || !op->type[i])
            return words[i];
        shape->dtype[i] = type_values[type];
    }
    return NULL;
}

/* The word that is none of the op's flags; NULL: all are. */
static const char *take_flags(const hf_dev_op *op, char *text, hf_dev_shape *shape) {
    char *words[WORDS + 1];
    const int count = split(text, ",", words);
    for (int i = 0; i < count; i++) {
        const int flag = find(op->flag, HF_DEV_FLAGS, words[i], strlen(words[i]));
        if (flag < 0)
            return words[i];
        shape->flags |= 1u << flag;
    }
    return NULL;
}

static bool add(struct shapes *shapes, const hf_dev_op *op, const hf_dev_shape *shape) {
    if (shapes->count == SHAPES_MAX)
        return false;
    shapes->call[shapes->count++] = (struct shaped_call){*op, *shape};
    return true;
}

static void find_op(struct argp_state *state, const char *name, hf_dev_op *op) {
    char known[256] = "";
    if (hf_dev_op_find(name, op))
        return;
    for (int i = 0; hf_dev_op_at(i, op); i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                 op->name);
    argp_error(state, "there is no op '%s'; there are %s", name, known);
}

/* Types and flags of the options. */
static hf_dev_shape common_shape(const struct shapes *shapes, struct argp_state *state,
                                 const hf_dev_op *op) {
    hf_dev_shape shape = {0};
    char text[128];
    memcpy(shape.dtype, op->example.dtype, sizeof shape.dtype);
    for (int i = 0; i < HF_DEV_TYPES && op->type[i]; i++) /* of an op that is not timed by itself */
        shape.dtype[i] = shape.dtype[i] ? shape.dtype[i] : HF_F32;
    snprintf(text, sizeof text, "%s", shapes->dtype ? shapes->dtype : "");
    const char *wrong = shapes->dtype ? take_types(op, text, &shape) : NULL;
    if (wrong) {
        (void)tool_choice(state, "--dtype", wrong, type_names);
        argp_error(state, "--dtype %s: the types of %s are %s, and no more", shapes->dtype,
                   op->name, list(op->type, HF_DEV_TYPES));
    }
    snprintf(text, sizeof text, "%s", shapes->flags ? shapes->flags : "");
    wrong = shapes->flags ? take_flags(op, text, &shape) : NULL;
    if (wrong && !op->flag[0])
        argp_error(state, "--flags %s: %s has no flags", wrong, op->name);
    if (wrong)
        argp_error(state, "--flags %s: the flags of %s are %s", wrong, op->name,
                   list(op->flag, HF_DEV_FLAGS));
    return shape;
}

void shapes_add(struct shapes *shapes, struct argp_state *state, const char *op, const char *text) {
    hf_dev_op info;
    char copy[256];
    char *words[WORDS + 1];
    find_op(state, op, &info);
    hf_dev_shape shape = common_shape(shapes, state, &info);
    snprintf(copy, sizeof copy, "%s", text);
    if (!take_dims(&info, words, split(copy, ",", words), &shape))
        argp_error(state, "%s%s%s takes %s, each a whole number of 1 or more", text,
                   text[0] ? ": " : "", op, list(info.dim, HF_DEV_DIMS));
    if (!add(shapes, &info, &shape))
        argp_error(state, "more than " MANY);
}

/* When all options are known. Without any, the shapes that the kernels are judged by, or the op's
 * example. */
static void add_shapes(struct shapes *shapes, struct argp_state *state) {
    static const char *const judged[] = {"200000,256,64", "1000000,64,16", "60000,1024,784",
                                         "100000,1024,128"};
    const char *op = shapes->op ? shapes->op : "assign";
    hf_dev_op info;
    find_op(state, op, &info);
    hf_dev_shape shape = common_shape(shapes, state, &info);
    for (int i = 0; i < shapes->text_count; i++)
        shapes_add(shapes, state, op, shapes->texts[i]);
    if (shapes->text_count > 0 || shapes->suite)
        return;
    for (size_t i = 0; strcmp(op, "assign") == 0 && i < sizeof judged / sizeof judged[0]; i++)
        shapes_add(shapes, state, op, judged[i]);
    memcpy(shape.dim, info.example.dim, sizeof shape.dim);
    if (shapes->count == 0)
        (void)add(shapes, &info, &shape);
}

enum option_key {
    KEY_OP = 0x1000, /* no key of a parent */
    KEY_SHAPE,
    KEY_SUITE,
    KEY_DTYPE,
    KEY_FLAGS,
    KEY_ROUNDS,
    KEY_BUDGET,
    KEY_DEVICE
};

static const struct argp_option options[] = {
    {"op", KEY_OP, "OP", 0, "Op to measure (assign); with --suite only its lines of this op", 0},
    {"shape", KEY_SHAPE, "DIMENSIONS", 0,
     "Dimensions in the op's order, as 1000,8,4, or by name, as n=1000,k=8,d=4; may be given more "
     "than once",
     0},
    {"suite", KEY_SUITE, "FILE", 0,
     "Calls from a file with lines 'op types dimensions... [flags]', as 'assign f32 1000 8 4'", 0},
    {"dtype", KEY_DTYPE, "TYPE", 0, SHAPES_DTYPE_HELP, 0},
    {"flags", KEY_FLAGS, "NAMES", 0, SHAPES_FLAGS_HELP, 0},
    {"threads", 't', "T", 0, "Worker threads; default: one for each usable core", 0},
    {"rounds", KEY_ROUNDS, "R", 0, "Rounds in which rows take turns (7, more for short calls)", 0},
    {"budget", KEY_BUDGET, "SECONDS", 0, "Time for one shape, after 3 rounds (10)", 0},
    {"device", KEY_DEVICE, "NAME", 0, TOOL_DEVICE_HELP, 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct shapes *s = state->input;
    switch (key) {
    case KEY_OP:
        s->op = arg;
        return 0;
    case KEY_SHAPE:
        if (s->text_count == SHAPES_MAX)
            argp_error(state, "more than " MANY);
        s->texts[s->text_count++] = arg;
        return 0;
    case KEY_SUITE:
        s->suite = tool_path(state, "--suite", arg);
        return 0;
    case KEY_DTYPE:
        s->dtype = arg;
        return 0;
    case KEY_FLAGS:
        s->flags = arg;
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

/* The words of a line: NULL when they are fine, else what is wrong. */
static const char *read_words(struct shapes *shapes, char *words[], int count) {
    static char text[200];
    hf_dev_op op;
    hf_dev_shape shape = {0};
    int dims = 0;
    if (!hf_dev_op_find(words[0], &op))
        return "begins with no name of an op; `holdfast info` lists them";
    while (dims < HF_DEV_DIMS && op.dim[dims])
        dims++;
    memcpy(shape.dtype, op.example.dtype, sizeof shape.dtype);
    const bool flags = count == dims + 3;
    const bool fine = (flags || count == dims + 2) && !take_types(&op, words[1], &shape) &&
                      take_dims(&op, words + 2, dims, &shape) &&
                      !(flags && take_flags(&op, words[count - 1], &shape));
    if (!fine) {
        snprintf(text, sizeof text, "must be: %s TYPES %s%s", op.name, list(op.dim, HF_DEV_DIMS),
                 op.flag[0] ? " [FLAGS]" : "");
        return text;
    }
    if (shapes->op && strcmp(shapes->op, op.name) != 0)
        return NULL;
    return add(shapes, &op, &shape) ? NULL : "is one shape too many";
}

/* A line without its comment. */
static const char *read_line(struct shapes *shapes, char *line) {
    char *words[WORDS], *rest = NULL;
    int count = 0;
    for (char *word = strtok_r(line, " \t\r", &rest); word; word = strtok_r(NULL, " \t\r", &rest)) {
        if (count == WORDS)
            return "has too many words";
        words[count++] = word;
    }
    return count > 0 ? read_words(shapes, words, count) : NULL;
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
    const bool failed = ferror(file) != 0;
    if (wrong)
        tool_error("--suite %s: line %d %s", path, number, wrong);
    else if (failed)
        tool_error("--suite %s: %s", path, strerror(errno));
    else if (shapes->count == 0)
        tool_error("--suite %s: holds no call%s%s", path, shapes->op ? " of op " : "",
                   shapes->op ? shapes->op : "");
    fclose(file);
    return wrong || failed || shapes->count == 0 ? EXIT_INPUT : EXIT_DONE;
}

const char *shapes_types_text(const hf_dev_op *op, const hf_dev_shape *shape) {
    const char *names[HF_DEV_TYPES] = {NULL};
    for (int i = 0; i < HF_DEV_TYPES && op->type[i]; i++)
        names[i] = hf_dtype_name(shape->dtype[i]);
    return list(names, HF_DEV_TYPES);
}

const char *shapes_text(const hf_dev_op *op, const hf_dev_shape *shape) {
    static char text[200];
    text[0] = '\0';
    for (int i = 0; i < HF_DEV_DIMS && op->dim[i]; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s=%lld", i ? " " : "",
                 op->dim[i], (long long)shape->dim[i]);
    for (int i = 0; i < HF_DEV_FLAGS && op->flag[i]; i++)
        if (shape->flags >> i & 1)
            snprintf(text + strlen(text), sizeof text - strlen(text), " %s", op->flag[i]);
    return text;
}

json_t *shapes_json(const hf_dev_op *op, const hf_dev_shape *shape) {
    json_t *dims = json_object();
    for (int i = 0; i < HF_DEV_DIMS && op->dim[i]; i++)
        json_object_set_new(dims, op->dim[i], json_integer((json_int_t)shape->dim[i]));
    return dims;
}
