/* SPDX-License-Identifier: Apache-2.0
 * holdfast plan: which kernel would serve a call, and why. */
#include "kernels/shapes.h"
#include <errno.h>
#include <string.h>

enum key { KEY_DTYPE = 256, KEY_FLAGS, KEY_EXPLAIN, KEY_JSON, KEY_DEVICE };

struct plan {
    struct shapes shapes;
    const char *word[1 + HF_DEV_DIMS]; /* OP and its dimensions */
    hf_context_opts context;
    bool explain, json;
    json_t *candidates;
};

static const struct argp_option options[] = {
    {"dtype", KEY_DTYPE, "TYPE", 0, SHAPES_DTYPE_HELP, 0},
    {"flags", KEY_FLAGS, "NAMES", 0, SHAPES_FLAGS_HELP, 0},
    {"threads", 't', "T", 0, "Worker threads; default: one for each usable core", 0},
    {"device", KEY_DEVICE, "NAME", 0, TOOL_DEVICE_HELP, 0},
    {"explain", KEY_EXPLAIN, NULL, 0, "List every row and why it was chosen or lost", 0},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object, rows included", 0},
    {0},
};

static void take_words(struct plan *p, struct argp_state *state) {
    char text[256] = "";
    for (unsigned i = 1; i < state->arg_num; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i > 1 ? "," : "",
                 p->word[i]);
    shapes_add(&p->shapes, state, p->word[0], text);
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct plan *p = state->input;
    switch (key) {
    case KEY_DTYPE:
        p->shapes.dtype = arg;
        break;
    case KEY_FLAGS:
        p->shapes.flags = arg;
        break;
    case 't':
        p->context.threads = (int)tool_int(state, "--threads", arg, 1, 1024);
        break;
    case KEY_DEVICE:
        p->context.device = arg;
        break;
    case KEY_EXPLAIN:
        p->explain = true;
        break;
    case KEY_JSON:
        p->json = true;
        break;
    case ARGP_KEY_ARG:
        if (state->arg_num > HF_DEV_DIMS)
            argp_error(state, "%s: too many arguments", arg);
        p->word[state->arg_num] = arg;
        break;
    case ARGP_KEY_END:
        if (state->arg_num < 1)
            argp_error(state, "OP and its dimensions are needed, as in: assign 1000 8 4");
        take_words(p, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp argp = {
    options,
    parse,
    "OP DIMENSION...",
    "Say which kernel would serve OP on a problem of these dimensions: numbers in the op's "
    "order, as in 'assign 1000 8 4', or by name, as in 'assign n=1000 k=8 d=4'.\v"
    "The choice: HF_KERNEL_<OP>=name in the environment, else the tuning file, else the least "
    "estimate.",
    NULL,
    NULL,
    NULL};

static void print_candidate(const hf_dev_candidate *c) {
    char estimate[32] = "-";
    if (c->estimate_s >= 0)
        snprintf(estimate, sizeof estimate, "%s", tool_seconds_text(c->estimate_s));
    printf("%c %-34s %10s %10s  %s\n",
           c->chosen   ? '*'
           : c->usable ? ' '
                       : '-',
           c->kernel, estimate, c->usable ? tool_bytes_text(c->workspace_bytes) : "-", c->why);
}

static void take_candidate(void *user, const hf_dev_candidate *c) {
    struct plan *p = user;
    if (!p->json) {
        print_candidate(c);
        return;
    }
    json_array_append_new(
        p->candidates, json_pack("{s:s, s:b, s:b, s:o, s:I, s:s}", "kernel", c->kernel, "usable",
                                 c->usable, "chosen", c->chosen, "estimate_s",
                                 c->estimate_s < 0 ? json_null() : json_real(c->estimate_s),
                                 "workspace_bytes", (json_int_t)c->workspace_bytes, "why", c->why));
}

static int run(struct plan *p, hf_context *ctx) {
    const struct shaped_call *call = &p->shapes.call[0];
    hf_dev_choice choice = {NULL, NULL};
    p->candidates = json_array();
    if (p->explain && !p->json)
        printf("  %-34s %10s %10s  %s\n", "kernel", "1 thread", "workspace", "why");
    errno = 0;
    const hf_status status = hf_dev_plan(ctx, call->op.name, &call->shape, &choice,
                                         p->explain || p->json ? take_candidate : NULL, p);
    if (status != HF_OK)
        return tool_fail(ctx, status, STAGE_COMPUTE);
    if (p->json)
        return tool_json_print(json_pack("{s:s, s:s, s:s, s:O}", "op", call->op.name, "kernel",
                                         choice.kernel, "source", choice.source, "rows",
                                         p->candidates));
    printf("%s (%s)\n", choice.kernel, choice.source);
    return EXIT_DONE;
}

int cmd_plan(int argc, char **argv) {
    static struct plan p;
    hf_context *ctx = NULL;
    tool_parse(&argp, argc, argv, &p);
    errno = 0;
    const hf_status status = hf_context_create(&ctx, &p.context);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    tool_check_tuning(ctx);
    const int code = run(&p, ctx);
    json_decref(p.candidates);
    hf_context_destroy(ctx);
    return code;
}
