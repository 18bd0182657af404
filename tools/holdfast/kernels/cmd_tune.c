/* SPDX-License-Identifier: Apache-2.0
 * holdfast tune: measure the rows that are right and write down the fastest. */
#include "kernels/shapes.h"
#include <errno.h>
#include <string.h>

struct tune {
    struct shapes shapes;
    const char *output;
    hf_dev_timing winner[SHAPES_MAX];
    int winners;
    bool first; /* the next timing is the fastest of its shape */
};

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "Tuning file to write; default: where plans look for it", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct tune *t = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &t->shapes;
        return 0;
    case 'o':
        t->output = tool_out_path(state, "-o", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&shapes_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Measure kernels and write the fastest of each shape into a tuning file that later plans "
    "follow. "
    "Only rows whose results agree with the reference on data of that shape are measured.\v"
    "A plan follows entries of similar shape on the same kind of machine. Plans look at "
    "HF_TUNE_FILE alone if it is set, else at holdfast/cpu.tune in XDG_CONFIG_HOME or ~/.config "
    "and, "
    "if that has nothing about the machine, at the files that came with the library. Files of "
    "another version of holdfast, or of an older format of such files, are passed over.",
    children,
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
    t->shapes.time.kernel = "all";
    t->shapes.time.checked_only = 1;
    for (int i = 0; i < t->shapes.count; i++) {
        const struct shaped_call *call = &t->shapes.call[i];
        printf("%s %s, %s\n", call->op.name, shapes_types_text(&call->op, &call->shape),
               shapes_text(&call->op, &call->shape));
        fflush(stdout);
        t->first = true;
        errno = 0;
        const hf_status status =
            hf_dev_time(ctx, call->op.name, &call->shape, &t->shapes.time, take_timing, t);
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
    tool_parse(&argp, argc, argv, &t);
    int code = shapes_read(&t.shapes);
    if (code != EXIT_DONE)
        return code;
    errno = 0;
    const hf_status status = hf_context_create(&ctx, &t.shapes.context);
    code = status == HF_OK ? tool_writable(ctx, t.output) : tool_fail(NULL, status, STAGE_OPEN);
    if (code == EXIT_DONE) {
        const hf_status place = hf_dev_tune_write(ctx, t.output, NULL, 0);
        code = place == HF_OK ? run(&t, ctx) : tool_fail(ctx, place, STAGE_WRITE);
    }
    hf_context_destroy(ctx);
    return code;
}
