/* SPDX-License-Identifier: Apache-2.0
 * holdfast inject relax: faults in the middle of solutions of a linear system. */
#include "inject/inject.h"
#include "interrupt.h"
#include "tool.h"

#include <errno.h>
#include <holdfast/dev_relax.h>
#include <string.h>

#define KINDS 9

enum key { KEY_FAULTS = 256, KEY_SEED, KEY_TOL, KEY_INSIDE, KEY_DEVICE, KEY_QUIET };

struct inject {
    const char *matrix, *output;
    hf_context_opts context;
    hf_relax_opts relax;
    hf_dev_relax_plan plan;
    bool quiet;
    hf_file_set *file; /* a line for each fault; NULL: none */
    hf_status written;
    int os_error; /* where that failed */
    int64_t tally[KINDS][HF_DEV_OUTCOMES], done;
    double most_extra[KINDS]; /* iterations, of those without the fault */
};

static const char *const inside_names[] = {"f64", "f32", NULL};

static const struct argp_option options[] = {
    {"output", 'o', "FILE.tsv", 0, "Write a line for each fault there", 0},
    {"faults", KEY_FAULTS, "N", 0, "Faults (default: 2640)", 0},
    {"seed", KEY_SEED, "S", 0, "Of the faults (default: 1)", 0},
    {"tol", KEY_TOL, "T", 0, "Tolerance of the solutions (default: 1e-10)", 0},
    {"inside", KEY_INSIDE, "TYPE", 0, "The matrix inside: f64 (default) or f32", 0},
    {"device", KEY_DEVICE, "NAME", 0,
     "cpu (default) or cuda, cuda:1, ...: numbers there are struck", 0},
    {"threads", 't', "T", 0, "Worker threads; default: one for each usable core", 0},
    {"quiet", KEY_QUIET, NULL, 0, "No progress on standard error", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct inject *in = state->input;
    switch (key) {
    case 'o':
        in->output = tool_out_path(state, "--output", arg);
        break;
    case KEY_FAULTS:
        in->plan.faults = tool_int(state, "--faults", arg, 1, 100000000);
        break;
    case KEY_SEED:
        in->plan.seed = tool_u64(state, "--seed", arg);
        break;
    case KEY_TOL:
        in->relax.tol = tool_real(state, "--tol", arg, 1e-15, 0.5);
        break;
    case KEY_INSIDE:
        in->relax.inside = tool_choice(state, "--inside", arg, inside_names) == 1 ? HF_F32 : HF_F64;
        break;
    case KEY_DEVICE:
        in->context.device = arg;
        break;
    case 't':
        in->context.threads = (int)tool_int(state, "--threads", arg, 1, 4096);
        break;
    case KEY_QUIET:
        in->quiet = true;
        break;
    case ARGP_KEY_ARG:
        if (in->matrix != NULL)
            argp_error(state, "give one matrix; %s is a second one", tool_name_text(arg));
        in->matrix = arg;
        break;
    case ARGP_KEY_END:
        if (in->matrix == NULL)
            argp_error(state, "give a matrix: Matrix Market, or .npz of SciPy");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp argp = {
    options,
    parse,
    "MATRIX",
    "Strike solutions of A x = 1 with one fault each, in all methods that solve the matrix, and "
    "count what becomes of them.\v"
    "masked: the same x to the bit; benign: another x within the tolerance; corrected: the same, "
    "and faults were reported; detected: not converged, as the result says; silent: said to be "
    "converged and wrong.",
    NULL,
    NULL,
    NULL};

static void write_line(struct inject *in, const hf_dev_relax_trial *t) {
    char line[512];
    const int length = snprintf(
        line, sizeof line,
        "%lld\t%s\t%s\t%s\t%lld\t%d\t%llu\t%s\t%lld\t%lld\t%.3e\t%lld\t%lld\t%lld\t%lld\n",
        (long long)t->number, hf_relax_method_name(t->method),
        t->precond == HF_PRECOND_BLOCKS ? "blocks" : "-",
        hf_dev_relax_fault_name((int)t->fault.kind), (long long)t->fault.iteration, t->fault.bit,
        (unsigned long long)t->fault.seed, hf_dev_outcome_name((int)t->outcome),
        (long long)t->healthy, (long long)t->iterations, t->residual,
        (long long)t->told.missed_forecasts, (long long)t->told.rollbacks,
        (long long)t->told.reloads, (long long)t->told.takeovers);
    errno = 0;
    in->written = hf_file_set_append(in->file, line, (size_t)length);
    in->os_error = errno;
}

static int note(void *user, const hf_dev_relax_trial *t) {
    struct inject *in = user;
    const double extra = (double)(t->iterations - t->healthy) / (double)t->healthy;
    in->tally[t->fault.kind][t->outcome]++;
    in->done++;
    if (t->outcome != HF_DEV_DETECTED && extra > in->most_extra[t->fault.kind])
        in->most_extra[t->fault.kind] = extra;
    if (in->file != NULL)
        write_line(in, t);
    if (!in->quiet && in->done % 50 == 0)
        fprintf(stderr, "\r%lld of %lld ", (long long)in->done, (long long)in->plan.faults);
    return in->written != HF_OK || interrupt_seen();
}

static void print_tally(const struct inject *in) {
    printf("%-28s %8s", "fault", "runs");
    for (int o = HF_DEV_MASKED; o <= HF_DEV_ERROR; o++)
        if (o != HF_DEV_MISPLACED)
            printf(" %9s", hf_dev_outcome_name(o));
    printf("  most extra iterations\n");
    for (int kind = 0; kind < KINDS; kind++) {
        int64_t runs = 0;
        for (int o = 0; o < HF_DEV_OUTCOMES; o++)
            runs += in->tally[kind][o];
        if (runs == 0)
            continue;
        printf("%-28s %8lld", hf_dev_relax_fault_name(kind), (long long)runs);
        for (int o = HF_DEV_MASKED; o <= HF_DEV_ERROR; o++)
            if (o != HF_DEV_MISPLACED)
                printf(" %9lld", (long long)in->tally[kind][o]);
        printf("  %.0f %%\n", 100 * in->most_extra[kind]);
    }
}

static hf_status open_output(struct inject *in, hf_context *ctx) {
    static const char head[] =
        "number\tmethod\tprecond\tfault\titeration\tbit\tseed\toutcome\thealthy\titerations\t"
        "residual\tmissed_forecasts\trollbacks\treloads\ttakeovers\n";
    hf_status status = hf_file_set_create(ctx, &in->file);
    if (status == HF_OK)
        status = hf_file_set_begin(in->file, in->output, HF_DTYPE_NONE, 0, 0);
    if (status == HF_OK)
        status = hf_file_set_append(in->file, head, strlen(head));
    return status;
}

static hf_status close_output(struct inject *in) {
    if (in->written == HF_OK)
        in->written = hf_file_set_end(in->file);
    return in->written == HF_OK ? hf_file_set_commit(in->file, NULL) : in->written;
}

static int run(struct inject *in, hf_context *ctx, hf_sparse *matrix) {
    errno = 0;
    hf_status status = in->output ? open_output(in, ctx) : HF_OK;
    if (status != HF_OK)
        return tool_fail(ctx, status, STAGE_WRITE);
    in->plan.a = hf_sparse_csr(matrix);
    in->plan.opts = &in->relax;
    interrupt_watch();
    status = hf_dev_relax_campaign(ctx, &in->plan, note, in);
    if (!in->quiet && in->done >= 50)
        fputs("\r                              \r", stderr);
    if (status != HF_OK)
        return tool_fail(ctx, status, STAGE_COMPUTE);
    errno = in->os_error;
    status = in->file ? close_output(in) : HF_OK;
    if (status != HF_OK)
        return tool_fail(ctx, status, STAGE_WRITE);
    print_tally(in);
    return interrupt_seen() ? EXIT_INTERRUPTED : EXIT_DONE;
}

int inject_relax(int argc, char **argv) {
    struct inject in = {.plan = {.seed = 1, .faults = 2640}, .context.device = "cpu"};
    hf_context *ctx = NULL;
    hf_sparse *matrix = NULL;
    tool_parse(&argp, argc, argv, &in);
    if (tool_spare(in.output, &in.matrix, 1) != EXIT_DONE)
        return EXIT_USAGE;
    errno = 0;
    hf_status status = hf_context_create(&ctx, &in.context);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    status = hf_sparse_open(ctx, in.matrix, in.context.memory_bytes, &matrix);
    const int code = status == HF_OK ? run(&in, ctx, matrix) : tool_fail(ctx, status, STAGE_READ);
    hf_file_set_destroy(in.file);
    hf_sparse_close(matrix);
    hf_context_destroy(ctx);
    return code;
}
