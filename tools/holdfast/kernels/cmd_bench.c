/* SPDX-License-Identifier: Apache-2.0
 * holdfast bench: time kernels and say how far they are from what this machine can do. */
#include "find_kernel.h"
#include "kernels/shapes.h"
#include <errno.h>
#include <string.h>

enum key { KEY_KERNEL = 256, KEY_DATA, KEY_JSON };

struct bench {
    struct shapes shapes;
    bool json;
    hf_context *ctx;
    hf_dev_ceiling ceiling;
    json_t *rows;
    const hf_dev_op *op; /* that is timed now */
};

static const struct argp_option options[] = {
    {"kernel", KEY_KERNEL, "NAME", 0, "Row to time, or 'all'; default: the one that would be used",
     0},
    {"data", KEY_DATA, "KIND", 0, "Data of the op: blobs (default) or normal: without structure",
     0},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object", 0},
    {0},
};

/* One of the kinds of data that some op has. */
static const char *data_kind(struct argp_state *state, const char *text) {
    const char *kinds[32] = {NULL};
    hf_dev_op op;
    int count = 0;
    for (int i = 0; hf_dev_op_at(i, &op); i++)
        for (int j = 0; j < HF_DEV_DATA && op.data[j]; j++) {
            int at = 0;
            while (at < count && strcmp(kinds[at], op.data[j]) != 0)
                at++;
            if (at == count && count < 31)
                kinds[count++] = op.data[j];
        }
    return kinds[tool_choice(state, "--data", text, kinds)];
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct bench *b = state->input;
    hf_dev_kernel kernel;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &b->shapes;
        return 0;
    case KEY_KERNEL:
        if (strcmp(arg, "all") != 0 && !find_kernel(arg, &kernel))
            argp_error(state, "--kernel %s: there is no such kernel; 'holdfast info' lists them",
                       arg);
        b->shapes.time.kernel = arg;
        return 0;
    case KEY_DATA:
        b->shapes.time.data = data_kind(state, arg);
        return 0;
    case KEY_JSON:
        b->json = true;
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
    "Time kernels on generated data. Rates count the work that the op needs at least; "
    "'ceiling' is "
    "the share of what multiply-add (in the row's instruction set) or memory allow, measured in "
    "the same "
    "run. More than 100 % of multiply-add is possible with matrix tiles.\v"
    "A * marks the row that would be used. --kernel all leaves out the reference. 'holdfast bench "
    "portability' compares all backends of the machine, 'holdfast bench relax' makes the tables of "
    "a "
    "paper on relaxation.",
    children,
    NULL,
    NULL};

static void print_timing(const hf_dev_op *op, const hf_dev_timing *t) {
    char ceiling[32] = "      - ";
    if (t->ceiling_s > 0)
        snprintf(ceiling, sizeof ceiling, "%6.1f %%", 100 * t->ceiling_s / t->median_s);
    printf("%-9s %-4s %-28s %c %-32s %10.3f %8.1f %7.2f %s %s\n", t->op,
           shapes_types_text(op, &t->shape), shapes_text(op, &t->shape), t->planned ? '*' : ' ',
           t->kernel, t->median_s * 1e3, t->flops / t->median_s * 1e-9,
           t->bytes / t->median_s * 1e-9, ceiling, t->ceiling_by);
}

static json_t *flags_json(const hf_dev_op *op, const hf_dev_shape *shape) {
    json_t *flags = json_array();
    for (int i = 0; i < HF_DEV_FLAGS && op->flag[i]; i++)
        if (shape->flags >> i & 1)
            json_array_append_new(flags, json_string(op->flag[i]));
    return flags;
}

static json_t *timing_json(const hf_dev_op *op, const hf_dev_timing *t) {
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:b}",
                     "op", t->op, "dtype", shapes_types_text(op, &t->shape), "kernel", t->kernel,
                     "dimensions", shapes_json(op, &t->shape), "flags", flags_json(op, &t->shape),
                     "threads", t->threads, "rounds", t->rounds, "median_s", t->median_s, "min_s",
                     t->min_s, "max_s", t->max_s, "flops", t->flops, "bytes", t->bytes, "ceiling_s",
                     t->ceiling_s, "ceiling_by", t->ceiling_by, "planned", t->planned);
}

static void take_timing(void *user, const hf_dev_timing *timing) {
    struct bench *b = user;
    if (b->json)
        json_array_append_new(b->rows, timing_json(b->op, timing));
    else
        print_timing(b->op, timing);
}

static void print_ceilings(const struct bench *b) {
    hf_dev_isa isa;
    printf("ceilings:");
    for (int i = 0; hf_dev_isa_at(i, &isa) && i < HF_DEV_MAX_ISAS; i++)
        if (b->ceiling.fma_f32[i] > 0)
            printf(" %s %.0f GF/s,", isa.name, b->ceiling.fma_f32[i] * 1e-9);
    if (b->ceiling.amx_bf16 > 0)
        printf(" AMX bf16 %.0f GF/s,", b->ceiling.amx_bf16 * 1e-9);
    printf(" read %.1f GB/s\n", b->ceiling.read_bytes * 1e-9);
}

static void print_head(const struct bench *b) {
    hf_dev_host host;
    hf_dev_host_info(&host);
    printf("%s, %s, %d thread%s\n", hf_context_device(b->ctx), host.cpu, hf_context_threads(b->ctx),
           hf_context_threads(b->ctx) == 1 ? "" : "s");
    if (b->ceiling.read_bytes > 0)
        print_ceilings(b);
    else
        printf("ceilings: measured for CPUs only\n");
    printf("%-9s %-4s %-28s   %-32s %10s %8s %7s %8s\n", "op", "type", "shape", "kernel", "ms",
           "GF/s", "GB/s", "ceiling");
}

static json_t *ceiling_json(const hf_dev_ceiling *ceiling) {
    json_t *fma = json_object();
    hf_dev_isa isa;
    for (int i = 0; hf_dev_isa_at(i, &isa) && i < HF_DEV_MAX_ISAS; i++)
        json_object_set_new(fma, isa.name, tool_json_real(ceiling->fma_f32[i]));
    return json_pack("{s:o, s:f, s:f}", "fma_f32", fma, "amx_bf16", ceiling->amx_bf16, "read_bytes",
                     ceiling->read_bytes);
}

static int run(struct bench *b) {
    errno = 0;
    hf_status status = hf_context_create(&b->ctx, &b->shapes.context);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    tool_check_tuning(b->ctx);
    status = hf_dev_measure_ceiling(b->ctx, &b->ceiling);
    if (status != HF_OK)
        return tool_fail(b->ctx, status, STAGE_COMPUTE);
    b->shapes.time.ceiling = &b->ceiling;
    b->rows = json_array();
    if (!b->json)
        print_head(b);
    for (int i = 0; i < b->shapes.count; i++) {
        const struct shaped_call *call = &b->shapes.call[i];
        errno = 0;
        b->op = &call->op;
        status = hf_dev_time(b->ctx, call->op.name, &call->shape, &b->shapes.time, take_timing, b);
        if (status != HF_OK)
            return tool_fail(b->ctx, status, STAGE_COMPUTE);
        fflush(stdout);
    }
    if (!b->json)
        return EXIT_DONE;
    hf_dev_host host;
    hf_dev_host_info(&host);
    return tool_json_print(json_pack("{s:s, s:s, s:i, s:s?, s:o, s:O}", "version", hf_version(),
                                     "cpu", host.cpu, "threads", hf_context_threads(b->ctx), "data",
                                     b->shapes.time.data, "ceiling", ceiling_json(&b->ceiling),
                                     "rows", b->rows));
}

int cmd_bench(int argc, char **argv) {
    static struct bench b;
    if (argc > 1 && strcmp(argv[1], "portability") == 0) {
        static char name[] = "holdfast bench portability";
        argv[1] = name;
        return bench_portability(argc - 1, argv + 1);
    }
    if (argc > 1 && strcmp(argv[1], "relax") == 0) {
        static char name[] = "holdfast bench relax";
        argv[1] = name;
        return bench_relax(argc - 1, argv + 1);
    }
    tool_parse(&argp, argc, argv, &b);
    int code = shapes_read(&b.shapes);
    if (code == EXIT_DONE)
        code = run(&b);
    json_decref(b.rows);
    hf_context_destroy(b.ctx);
    return code;
}
