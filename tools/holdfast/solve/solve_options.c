/* SPDX-License-Identifier: Apache-2.0 */
#include "solve/solve_options.h"
#include <string.h>

const char *const solve_method_names[] = {"auto",    "jacobi", "gauss-seidel", "async",
                                          "schwarz", "cg",     "chebyshev",    NULL};
const char *const solve_precond_names[] = {"auto", "jacobi", "blocks", NULL};
const char *const solve_partition_names[] = {"auto", "strips", "graph", NULL};
const char *const solve_timing_names[] = {"tagged", "free", NULL};
const char *const solve_coarse_names[] = {"auto", "on", "off", NULL};
const char *const solve_exchange_names[] = {"push", "amc", "dc", "dk", NULL};
static const char *const inside_names[] = {"f64", "f32", NULL};

enum option_key {
    KEY_X0 = 256,
    KEY_METHOD,
    KEY_PRECOND,
    KEY_PARTITION,
    KEY_TIMING,
    KEY_BLOCK,
    KEY_SWEEPS,
    KEY_OVERLAP,
    KEY_DAMPING,
    KEY_COARSE,
    KEY_ONE_LAUNCH,
    KEY_INSIDE,
    KEY_TOL,
    KEY_MAX_ITER,
    KEY_TIME_LIMIT,
    KEY_REPORT,
    KEY_PICTURE,
    KEY_JSON,
    KEY_MEMORY,
    KEY_DEVICE,
    KEY_DEVICES,
    KEY_EXCHANGE,
    KEY_SPARES
};

static const struct argp_option table[] = {
    {NULL, 0, NULL, 0, "What to solve:", 1},
    {"rhs", 'b', "FILE", 0,
     "The right-hand side, one or more columns: .mtx, .npy, CSV and the like, or ones (default)",
     1},
    {"x0", KEY_X0, "FILE", 0, "Where to start, of the shape of b (default: zeros)", 1},
    {NULL, 0, NULL, 0, "When to stop:", 2},
    {"tol", KEY_TOL, "T", 0, "|b - A x| <= T |b|, computed anew from A at the end (default 1e-10)",
     2},
    {"max-iter", KEY_MAX_ITER, "N", 0, "Iterations at most (default 100000)", 2},
    {"time-limit", KEY_TIME_LIMIT, "SECONDS", 0, "Time at most (default: none)", 2},
    {NULL, 0, NULL, 0, "Files written, all or none:", 3},
    {"output", 'o', "FILE.npy", 0, "The solution, float64", 3},
    {"report", KEY_REPORT, "FILE.json", 0, "Options, result and history of the residual", 3},
    {"picture", KEY_PICTURE, "FILE.png", 0, "The residual over the iterations", 3},
    {"json", KEY_JSON, NULL, 0, "Print the report on standard output", 3},
    {"quiet", 'q', NULL, 0, "No progress and no summary; only with another output", 3},
    {NULL, 0, NULL, 0, "How to solve:", 4},
    {"method", KEY_METHOD, "NAME", 0,
     "auto (default), jacobi, gauss-seidel, async, schwarz, cg or chebyshev", 4},
    {"precond", KEY_PRECOND, "NAME", 0, "Of cg and chebyshev: auto (default), jacobi or blocks", 4},
    {"block", KEY_BLOCK, "ROWS", 0, "Rows of a block (default: the method's own; async: 128)", 4},
    {"partition", KEY_PARTITION, "NAME", 0,
     "Blocks are strips of rows, or cut from the graph of A: auto (default), strips or graph", 4},
    {"sweeps", KEY_SWEEPS, "K", 0, "Sweeps inside a block for each iteration of async (default 5)",
     4},
    {"overlap", KEY_OVERLAP, "L", 0, "Layers of neighbours that a block of schwarz takes in", 4},
    {"coarse", KEY_COARSE, "NAME", 0, "A coarse unknown per block of schwarz: auto, on or off", 4},
    {"one-launch", KEY_ONE_LAUNCH, "NAME", 0,
     "On a GPU: all iterations in one launch: auto (default: where the blocks fit), on or off", 4},
    {"damping", KEY_DAMPING, "W", 0, "Factor of each correction (default: the method's own)", 4},
    {"timing", KEY_TIMING, "NAME", 0,
     "Blocks of async see values of the iteration before: tagged (default, repeatable); or "
     "whatever is there: free",
     4},
    {"inside", KEY_INSIDE, "TYPE", 0,
     "The matrix inside sweeps: f64 (default), or f32: x and residuals stay float64", 4},
    {"threads", 't', "T", 0, "Threads (default: one for each usable core)", 5},
    {"memory", KEY_MEMORY, "BYTES", 0,
     "Most that the matrix may take, and the solver beside it, such as 512M or 2GiB (default: half "
     "of what is free)",
     5},
    {"device", KEY_DEVICE, "NAME", 0, "cpu (default), or cuda: an NVIDIA GPU", 5},
    {"devices", KEY_DEVICES, "NAMES", 0,
     "Share the rows among several, such as cuda:0,cuda:1 or, groups of threads, cpu,cpu: for "
     "jacobi and async",
     5},
    {"exchange", KEY_EXCHANGE, "NAME", 0,
     "How these tell each other what they computed: push (default), amc, dc or dk", 5},
    {"spares", KEY_SPARES, "N", 0,
     "Workers beyond the need, which take over the blocks of one that falls silent: on a GPU in "
     "one launch, on the CPU threads of free timing (default: 0)",
     5},
    {0}};

static void set_overlap(struct solve_options *o, struct argp_state *state, const char *text) {
    const int layers = (int)tool_int(state, "--overlap", text, 0, 64);
    o->relax.overlap = layers == 0 ? -1 : layers; /* 0 asks the library for its own */
}

static void set_damping(struct solve_options *o, struct argp_state *state, const char *text) {
    o->relax.damping = tool_real(state, "--damping", text, 0, 2);
    if (!(o->relax.damping > 0 && o->relax.damping < 2))
        argp_error(state, "--damping %s: must be more than 0 and less than 2", text);
}

static void set_tol(struct solve_options *o, struct argp_state *state, const char *text) {
    o->relax.tol = tool_real(state, "--tol", text, 0, 1);
    if (!(o->relax.tol > 0))
        argp_error(state, "--tol %s: must be more than 0; --max-iter and --time-limit stop too",
                   text);
}

static void set_time(struct solve_options *o, struct argp_state *state, const char *text) {
    o->relax.max_seconds = tool_real(state, "--time-limit", text, 0, 1e9);
    if (!(o->relax.max_seconds > 0))
        argp_error(state, "--time-limit %s: must be more than 0", text);
}

static bool set_choice(struct solve_options *o, struct argp_state *state, int key,
                       const char *arg) {
    hf_relax_opts *r = &o->relax;
    switch (key) {
    case KEY_METHOD:
        r->method = (hf_relax_method)tool_choice(state, "--method", arg, solve_method_names);
        return true;
    case KEY_PRECOND:
        r->precond = (hf_relax_precond)tool_choice(state, "--precond", arg, solve_precond_names);
        return true;
    case KEY_PARTITION:
        r->partition =
            (hf_relax_partition)tool_choice(state, "--partition", arg, solve_partition_names);
        return true;
    case KEY_TIMING:
        r->timing = (hf_relax_timing)tool_choice(state, "--timing", arg, solve_timing_names);
        return true;
    case KEY_COARSE:
        r->coarse = (hf_relax_switch)tool_choice(state, "--coarse", arg, solve_coarse_names);
        return true;
    case KEY_ONE_LAUNCH:
        r->one_launch =
            (hf_relax_switch)tool_choice(state, "--one-launch", arg, solve_coarse_names);
        return true;
    case KEY_EXCHANGE:
        r->exchange =
            (hf_relax_exchange)tool_choice(state, "--exchange", arg, solve_exchange_names);
        return true;
    case KEY_INSIDE:
        r->inside = tool_choice(state, "--inside", arg, inside_names) == 1 ? HF_F32 : HF_F64;
        return true;
    default:
        return false;
    }
}

static bool set_number(struct solve_options *o, struct argp_state *state, int key,
                       const char *arg) {
    switch (key) {
    case KEY_BLOCK:
        o->relax.block_rows = tool_int(state, "--block", arg, 1, INT32_MAX);
        return true;
    case KEY_SWEEPS:
        o->relax.local_sweeps = (int)tool_int(state, "--sweeps", arg, 1, 1000);
        return true;
    case KEY_OVERLAP:
        set_overlap(o, state, arg);
        return true;
    case KEY_DAMPING:
        set_damping(o, state, arg);
        return true;
    case KEY_TOL:
        set_tol(o, state, arg);
        return true;
    case KEY_MAX_ITER:
        o->relax.max_iter = tool_int(state, "--max-iter", arg, 1, INT64_MAX);
        return true;
    case KEY_TIME_LIMIT:
        set_time(o, state, arg);
        return true;
    case KEY_SPARES:
        o->relax.spares = (int)tool_int(state, "--spares", arg, 0, 64);
        return true;
    case 't':
        o->context.threads = (int)tool_int(state, "--threads", arg, 1, 1024);
        return true;
    case KEY_MEMORY:
        o->context.memory_bytes = tool_bytes(state, "--memory", arg);
        o->relax.memory_bytes = o->context.memory_bytes;
        return true;
    default:
        return false;
    }
}

/* One kind of device, with numbers or without: whether they are there, the library says. */
static const char *device_names(const struct argp_state *state, const char *names) {
    const size_t kind = strncmp(names, "cuda", 4) == 0 ? 4 : 3;
    for (const char *at = names;; at++) {
        const bool same = strncmp(at, kind == 4 ? "cuda" : "cpu", kind) == 0;
        const size_t length = strcspn(at, ",");
        const size_t digits = same && at[kind] == ':' ? strspn(at + kind + 1, "0123456789") : 0;
        if (!same || length != kind + (digits > 0 ? 1 + digits : 0))
            argp_error(state,
                       "--devices %s: give cuda:0,cuda:1 and the like, or the cpu several times",
                       names);
        at += length;
        if (*at == '\0')
            return names;
    }
}

static bool set_file(struct solve_options *o, struct argp_state *state, int key, char *arg) {
    switch (key) {
    case 'b':
        o->b_file = strcmp(tool_path(state, "-b", arg), "ones") == 0 ? NULL : arg;
        return true;
    case KEY_X0:
        o->x0_file = tool_path(state, "--x0", arg);
        return true;
    case 'o':
        o->x_file = tool_npy_out_path(state, "-o", arg);
        return true;
    case KEY_REPORT:
        o->report_file = tool_out_path(state, "--report", arg);
        return true;
    case KEY_PICTURE:
        o->picture_file = tool_out_path(state, "--picture", arg);
        return true;
    case KEY_DEVICE:
        o->context.device = arg;
        return true;
    case KEY_DEVICES:
        o->relax.devices = device_names(state, arg);
        return true;
    case KEY_JSON:
        o->json = true;
        return true;
    case 'q':
        o->quiet = true;
        return true;
    default:
        return false;
    }
}

static bool is_cpu(const struct solve_options *o) {
    return !o->context.device || strcmp(o->context.device, "cpu") == 0;
}

static void check(const struct solve_options *o, struct argp_state *state) {
    const hf_relax_method method = o->relax.method;
    if (!o->matrix)
        argp_error(state, "which matrix?");
    if (o->quiet && !o->json && !o->x_file && !o->report_file && !o->picture_file)
        argp_error(state,
                   "-q without -o FILE, --report, --picture or --json: nothing would be left "
                   "of the solution");
    if (o->relax.precond && method != HF_RELAX_CG && method != HF_RELAX_CHEBYSHEV)
        argp_error(state, "--precond goes with --method cg or chebyshev");
    if (o->relax.timing && method != HF_RELAX_ASYNC)
        argp_error(state, "--timing goes with --method async");
    if (o->relax.exchange && o->relax.devices == NULL)
        argp_error(state, "--exchange goes with --devices");
    if (o->relax.local_sweeps && method != HF_RELAX_ASYNC)
        argp_error(state, "--sweeps goes with --method async");
    if ((o->relax.overlap || o->relax.coarse) && method && method != HF_RELAX_SCHWARZ)
        argp_error(state, "--overlap and --coarse go with --method schwarz");
    if (o->relax.spares && o->relax.timing != HF_TIMING_FREE && is_cpu(o))
        argp_error(state, "--spares goes with --timing free on a CPU");
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct solve_options *o = state->input;
    if (key == ARGP_KEY_ARG && !o->matrix) {
        o->matrix = tool_path(state, "MATRIX", arg);
        return 0;
    }
    if (key == ARGP_KEY_ARG)
        argp_error(state, "one matrix at a time, not also '%s'", arg);
    if (key == ARGP_KEY_END)
        check(o, state);
    if (arg == NULL && key != 'q' && key != KEY_JSON)
        return ARGP_ERR_UNKNOWN;
    return set_choice(o, state, key, arg) || set_number(o, state, key, arg) ||
                   set_file(o, state, key, arg)
               ? 0
               : ARGP_ERR_UNKNOWN;
}

void solve_options_parse(struct solve_options *o, int argc, char **argv) {
    static const struct argp argp = {
        table,
        parse,
        "MATRIX",
        "Solve A x = b for a sparse square matrix A: Matrix Market (.mtx, .mtx.gz, or - for "
        "standard input) or .npz of scipy.sparse.save_npz."
        "\vExit codes: 0 solved to the tolerance, 1 failed, 2 usage, 3 bad input, 4 out of "
        "resources, 5 corrupted, 8 not converged and 130 interrupted (the best x so far was "
        "written). Long options may be shortened.",
        NULL,
        NULL,
        NULL};
    memset(o, 0, sizeof *o);
    o->context.device = "cpu";
    tool_parse(&argp, argc, argv, o);
}
