/* SPDX-License-Identifier: Apache-2.0
 * holdfast info: what this build and this machine can do, and what is missing and why. */
#include "kernels/shapes.h"
#include <holdfast/dev.h>
#include <stdlib.h>
#include <string.h>

/* Environment variables that change what is computed or shown. */
static const struct variable {
    const char *name, *meaning;
} variables[] = {
    {"HF_ISA_MAX", "hides the instruction sets after the one named"},
#define VARIABLE(op, text) {"HF_KERNEL_" op, text},
    VARIABLE("ASSIGN", "forces a kernel of assign; any op's name works")
        VARIABLE("UPDATE", "forces a kernel of update")
#undef VARIABLE
            {"HF_TUNE_FILE", "tuning file to read instead of the user's own"},
    {"HF_OPENCL_CACHE", "folder of compiled OpenCL kernels; empty: they are not kept"},
    {"HF_OPENCL_COMPILER", "command that compiles OpenCL kernels where a process died over it"},
    {"HF_OPENCL_LIBRARY", "OpenCL loader, or library of a driver, to be opened"},
    {"HF_OPENCL_MATRIX", "0: without the matrix unit of an OpenCL device; 1: as if it had one"},
    {"HF_OPENCL_WITHOUT", "what OpenCL devices shall seem not to have"},
    {"NO_COLOR", "no colours in the progress bar"},
};

enum { VARIABLES = sizeof(variables) / sizeof(variables[0]) };

/* What holdfast is to have and has not yet. */
static const struct part {
    const char *name, *why_not;
} missing_parts[] = {
    {"mpi", "running on several machines is not part of this version"},
};

enum { PARTS = sizeof(missing_parts) / sizeof(missing_parts[0]) };

static const char *isa_reason(const hf_dev_isa *isa) {
    const char *hidden = getenv("HF_ISA_MAX");
    if (!isa->runnable)
        return hidden && *hidden ? "hidden by HF_ISA_MAX, or missing in the CPU or operating system"
                                 : "missing in the CPU, or not enabled by the operating system";
    return isa->compiled ? "" : "no kernel of this build uses it, or the compiler cannot make it";
}

/* For the op's example; NULLs where nothing is planned for it. */
static hf_dev_choice planned(hf_context *ctx, const hf_dev_op *op) {
    hf_dev_choice choice = {NULL, NULL};
    if (ctx)
        (void)hf_dev_plan(ctx, op->name, &op->example, &choice, NULL, NULL);
    return choice;
}

/* ---- text */

static void print_machine(const hf_dev_host *host) {
    printf("holdfast %s\n", hf_version());
    printf("  build     %s, %s%s%s\n", host->compiler,
           HF_BUILD_TYPE[0] ? HF_BUILD_TYPE : "no build type",
           HF_BUILD_SANITIZE[0] ? ", sanitizers " : "", HF_BUILD_SANITIZE);
    printf("  CPU       %s\n", host->cpu);
    printf("  caches    L1 %s, L2 %s, last level %s\n", tool_bytes_text((uint64_t)host->l1),
           tool_bytes_text((uint64_t)host->l2), tool_bytes_text((uint64_t)host->l3));
    printf("  cores     %d usable\n", host->cores);
    printf("  memory    %s available\n", tool_bytes_text(host->memory_available));
}

static void print_lists(void) {
    hf_dev_isa isa;
    hf_dev_device device;
    puts("\ninstruction sets");
    for (int i = 0; hf_dev_isa_at(i, &isa); i++)
        printf("  %-8s  %-12s  %-14s  %s\n", isa.name, isa.compiled ? "compiled" : "not compiled",
               isa.runnable ? "runs here" : "not here", isa_reason(&isa));
    puts("\ndevices");
    for (int i = 0; hf_dev_device_at(i, &device); i++)
        printf("  %-8s  %-12s  %s\n", device.name, device.available ? "available" : "missing",
               device.text);
    for (int i = 0; i < PARTS; i++)
        printf("  %-8s  %-12s  %s\n", missing_parts[i].name, "missing", missing_parts[i].why_not);
}

static void print_kernels(hf_context *ctx) {
    hf_dev_kernel kernel;
    hf_dev_op op;
    for (int i = 0; hf_dev_op_at(i, &op); i++) {
        const hf_dev_choice chosen = planned(ctx, &op);
        printf("\nkernels of %s", op.name);
        if (chosen.kernel)
            printf(" (%s, %s: %s, %s)", shapes_types_text(&op, &op.example),
                   shapes_text(&op, &op.example), chosen.kernel, chosen.source);
        puts("");
        for (int j = 0; hf_dev_kernel_at(op.name, j, &kernel); j++)
            printf("  %-32s %-8s %-20s %s%s\n", kernel.name, kernel.isa, kernel.dtypes,
                   kernel.runs_here ? "runs here" : kernel.why_not,
                   kernel.reference ? ", reference" : "");
    }
}

static void print_variables(void) {
    puts("\nenvironment");
    for (int i = 0; i < VARIABLES; i++) {
        const char *value = getenv(variables[i].name);
        printf("  %-18s %s%s%s\n", variables[i].name, variables[i].meaning, value ? "; now " : "",
               value ? value : "");
    }
}

/* ---- JSON */

static json_t *json_isas(void) {
    json_t *list = json_array();
    hf_dev_isa isa;
    for (int i = 0; hf_dev_isa_at(i, &isa); i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:b, s:b, s:s}", "name", isa.name, "flags",
                                        isa.flags, "compiled", isa.compiled, "runs_here",
                                        isa.runnable, "why_not", isa_reason(&isa)));
    return list;
}

static json_t *json_devices(void) {
    json_t *list = json_array();
    hf_dev_device device;
    for (int i = 0; hf_dev_device_at(i, &device); i++)
        json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "name", device.name, "available",
                                              device.available, "text", device.text));
    for (int i = 0; i < PARTS; i++)
        json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "name", missing_parts[i].name,
                                              "available", 0, "text", missing_parts[i].why_not));
    return list;
}

static json_t *json_rows(const char *op) {
    json_t *list = json_array();
    hf_dev_kernel kernel;
    for (int i = 0; hf_dev_kernel_at(op, i, &kernel); i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:[i, i, i], s:b, s:b, s:b, s:s}", "name",
                            kernel.name, "device", kernel.device, "isa", kernel.isa, "dtypes",
                            kernel.dtypes, "tile", kernel.tile[0], kernel.tile[1], kernel.tile[2],
                            "reference", kernel.reference, "fixed_order", kernel.fixed_order,
                            "runs_here", kernel.runs_here, "why_not", kernel.why_not));
    return list;
}

/* What is planned for the op's example; null where nothing is. */
static json_t *json_planned(const hf_dev_op *op, const hf_dev_choice *chosen) {
    if (!chosen->kernel)
        return json_null();
    return json_pack("{s:s, s:s, s:s, s:o}", "kernel", chosen->kernel, "source", chosen->source,
                     "dtype", shapes_types_text(op, &op->example), "dimensions",
                     shapes_json(op, &op->example));
}

static json_t *json_ops(hf_context *ctx) {
    json_t *list = json_array();
    hf_dev_op op;
    for (int i = 0; hf_dev_op_at(i, &op); i++) {
        const hf_dev_choice chosen = planned(ctx, &op);
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:o}", "op", op.name, "planned",
                                        json_planned(&op, &chosen), "kernels", json_rows(op.name)));
    }
    return list;
}

static json_t *json_variables(void) {
    json_t *object = json_object();
    for (int i = 0; i < VARIABLES; i++)
        json_object_set_new(object, variables[i].name, tool_json_name(getenv(variables[i].name)));
    return object;
}

static int print_json(hf_context *ctx, const hf_dev_host *host) {
    return tool_json_print(
        json_pack("{s:s, s:{s:s, s:s, s:s}, s:{s:s, s:i, s:I, s:I, s:I, s:I}, s:o, s:o, s:o, s:o}",
                  "holdfast", hf_version(), "build", "compiler", host->compiler, "type",
                  HF_BUILD_TYPE, "sanitizers", HF_BUILD_SANITIZE, "host", "cpu", host->cpu, "cores",
                  host->cores, "l1_bytes", (json_int_t)host->l1, "l2_bytes", (json_int_t)host->l2,
                  "l3_bytes", (json_int_t)host->l3, "memory_available_bytes",
                  (json_int_t)host->memory_available, "instruction_sets", json_isas(), "devices",
                  json_devices(), "ops", json_ops(ctx), "environment", json_variables()));
}

/* ---- */

enum option_key { KEY_JSON = 256 };

static const struct argp_option table[] = {
    {"json", KEY_JSON, NULL, 0, "Print JSON", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    if (key == ARGP_KEY_ARG)
        argp_error(state, "no argument is expected, but there is '%s'", arg);
    if (key != KEY_JSON)
        return ARGP_ERR_UNKNOWN;
    *(bool *)state->input = true;
    return 0;
}

int cmd_info(int argc, char **argv) {
    static const struct argp argp = {
        table,
        parse,
        NULL,
        "Say what this build and this machine can do, what is missing, "
        "and why.",
        NULL,
        NULL,
        NULL};
    bool json = false;
    hf_context *ctx = NULL;
    hf_dev_host host;
    tool_parse(&argp, argc, argv, &json);
    hf_dev_host_info(&host);
    if (hf_context_create(&ctx, NULL) != HF_OK) /* the lists do not need one */
        tool_error("plans are left out: %s", hf_last_error(NULL));
    int code = EXIT_DONE;
    if (json) {
        code = print_json(ctx, &host);
    } else {
        print_machine(&host);
        print_lists();
        print_kernels(ctx);
        print_variables();
    }
    hf_context_destroy(ctx);
    return code;
}
