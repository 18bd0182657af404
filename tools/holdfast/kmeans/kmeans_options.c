/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans/kmeans_options.h"
#include <limits.h>
#include <string.h>
#include <unistd.h>

const char *const kmeans_metric_names[] = {"euclidean", "cosine", "dot", NULL};
const char *const kmeans_init_names[] = {"kmeans++", "kmeans-parallel", "random", NULL};
const char *const kmeans_empty_names[] = {"relocate", "split", "keep", "error", NULL};
const char *const kmeans_precision_names[] = {"exact", "fast", NULL};
const char *const kmeans_centroids_names[] = {"f32", "same", NULL};
const char *const kmeans_skipping_names[] = {"auto", "off", "on", NULL};
const char *const kmeans_nan_names[] = {"error", "drop", NULL};
static const char *const chain_names[] = {"auto", "off", "on", NULL};
const char *const kmeans_guard_names[] = {"off", "detect", "correct", "sampled", "weighted", NULL};

enum option_key {
    KEY_INIT = 256,
    KEY_N_INIT,
    KEY_SEED,
    KEY_MAX_ITER,
    KEY_TOL,
    KEY_METRIC,
    KEY_WEIGHTS,
    KEY_EMPTY,
    KEY_PRECISION,
    KEY_CENTROIDS,
    KEY_SKIPPING,
    KEY_NAN,
    KEY_GUARD,
    KEY_MEMORY,
    KEY_DEVICE,
    KEY_CHECKPOINT,
    KEY_EVERY,
    KEY_RESUME,
    KEY_PICTURE,
    KEY_SCALE,
    KEY_LABELS_FORMAT,
    KEY_CHAIN,
    KEY_JSON
};

static const struct argp_option table[] = {
    {NULL, 0, NULL, 0, "What to find:", 1},
    {"clusters", 'k', "K", 0, "Number of clusters, 1 to the number of rows", 1},
    {"init", KEY_INIT, "HOW", 0,
     "kmeans++ (default), kmeans-parallel, random, or a .npy file of K centroids", 1},
    {"n-init", KEY_N_INIT, "R", 0, "Runs, of which the best is kept (default 1)", 1},
    {"seed", KEY_SEED, "S", 0, "Seed of all random choices (default 0)", 1},
    {"metric", KEY_METRIC, "NAME", 0, "euclidean (default), cosine or dot", 1},
    {"weights", KEY_WEIGHTS, "FILE.npy", 0, "One weight of 0 or more for each row", 1},
    {"empty", KEY_EMPTY, "NAME", 0,
     "A cluster that lost all rows: relocate (default), split, keep or error", 1},
    {"nan", KEY_NAN, "NAME", 0, "Rows with NaN or Inf: error (default), or drop: they get label -1",
     1},
    {NULL, 0, NULL, 0, "When to stop:", 2},
    {"max-iter", KEY_MAX_ITER, "N", 0, "Iterations at most (default 300)", 2},
    {"tol", KEY_TOL, "T", 0,
     "Stop when the squared movement of all centroids falls below T times the mean variance of the "
     "columns (default 1e-4); with 0 only when no label changes",
     2},
    {NULL, 0, NULL, 0, "Files written:", 3},
    {"output", 'o', "DIR", 0,
     "Folder for centroids.npy, the labels and report.json; made if missing. Without it the "
     "summary is all that is left",
     3},
    {"picture", KEY_PICTURE, "HxW", 0, "Also centroids.png: each centroid as H x W grey dots", 3},
    {"labels-format", KEY_LABELS_FORMAT, "NAME", 0,
     "Labels in labels.npy or labels.csv: " LABELS_FORMAT_HELP, 3},
    {"json", KEY_JSON, NULL, 0, "Print the report on standard output", 3},
    {"chain", KEY_CHAIN, "WHEN", 0,
     "Checksums of each iteration in the report, by which replay finds the first wrong one: auto "
     "(default: on the CPU), off or on",
     3},
    {"checkpoint", KEY_CHECKPOINT, "FILE", 0,
     "Save the state of the fit there as it goes on (default on Ctrl-C: DIR/checkpoint.hfc)", 3},
    {"every", KEY_EVERY, "N", 0, "Iterations between two checkpoints (default 10)", 3},
    {"resume", KEY_RESUME, "FILE", 0,
     "Go on from a checkpoint of the same data and options; the result is the same as without the "
     "interruption",
     3},
    {"quiet", 'q', NULL, 0, "No progress and no summary; only with another output", 3},
    {NULL, 0, NULL, 0, "How to compute:", 4},
    {"precision", KEY_PRECISION, "NAME", 0,
     "exact (default): labels equal those of float64 arithmetic; fast: a few may not", 4},
    {"centroids", KEY_CENTROIDS, "NAME", 0,
     "f32 (default; f64 for f64 data), or same: rounded to the data's own 16-bit type", 4},
    {"skipping", KEY_SKIPPING, "NAME", 0,
     "Leave out work that cannot change the result: auto (default), off or on", 4},
    {"guard", KEY_GUARD, "NAME", 0, KMEANS_GUARD_HELP, 4},
    {"threads", 't', "T", 0, "Threads (default: one for each usable core)", 4},
    {"memory", KEY_MEMORY, "BYTES", 0, TOOL_MEMORY_HELP, 4},
    {"device", KEY_DEVICE, "NAME", 0, TOOL_DEVICE_HELP, 4},
    {"scale", KEY_SCALE, "NAME", 0,
     "Cluster scaled columns: standard (mean, standard deviation), robust (median, quartiles), "
     "minmax, or none (default); centroids.npy is in the data's own units",
     5},
    {0}};

hf_guard kmeans_guard(struct argp_state *state, const char *text) {
    return (hf_guard)(HF_GUARD_OFF + tool_choice(state, "--guard", text, kmeans_guard_names));
}

/* A name that means a file even where there is none, so that it is told as missing. */
static bool names_file(const char *text) {
    const size_t length = strlen(text);
    const char *end = length < 4 ? "" : text + length - 4;
    return strcmp(text, "-") == 0 || strcmp(end, ".npy") == 0 || strstr(text, ".npz") ||
           access(text, F_OK) == 0;
}

static void set_init(struct kmeans_options *o, struct argp_state *state, const char *text) {
    o->init_file = NULL;
    for (int i = 0; kmeans_init_names[i]; i++)
        if (strcmp(text, kmeans_init_names[i]) == 0) {
            o->fit.init = (hf_init)i;
            return;
        }
    if (!names_file(text))
        argp_error(
            state,
            "--init %s: must be kmeans++, kmeans-parallel, random or the name of a .npy file",
            text);
    o->fit.init = HF_INIT_GIVEN;
    o->init_file = text;
}

static void set_picture(struct kmeans_options *o, struct argp_state *state, const char *text) {
    int height = 0;
    int width = 0;
    int end = 0;
    if (sscanf(text, "%5dx%5d%n", &height, &width, &end) != 2 || text[end] != '\0' || height < 1 ||
        width < 1)
        argp_error(state, "--picture %s: write height x width in dots, such as 28x28", text);
    o->picture_height = height;
    o->picture_width = width;
}

static void set_tol(struct kmeans_options *o, struct argp_state *state, const char *text) {
    const double tol = tool_real(state, "--tol", text, 0, 1e300);
    o->fit.tol = tol == 0 ? -1 : tol; /* 0 asks the library for its default */
}

/* Options with a name for a value. */
static bool set_choice(struct kmeans_options *o, struct argp_state *state, int key,
                       const char *arg) {
    switch (key) {
    case KEY_METRIC:
        o->fit.metric = (hf_metric)tool_choice(state, "--metric", arg, kmeans_metric_names);
        return true;
    case KEY_EMPTY:
        o->fit.empty = (hf_empty)tool_choice(state, "--empty", arg, kmeans_empty_names);
        return true;
    case KEY_PRECISION:
        o->fit.precision =
            (hf_precision)tool_choice(state, "--precision", arg, kmeans_precision_names);
        return true;
    case KEY_CENTROIDS:
        o->fit.store = (hf_centroids)tool_choice(state, "--centroids", arg, kmeans_centroids_names);
        return true;
    case KEY_SKIPPING:
        o->fit.skipping = (hf_skipping)tool_choice(state, "--skipping", arg, kmeans_skipping_names);
        return true;
    case KEY_SCALE:
        o->preparation.opts.scale =
            (hf_scale)tool_choice(state, "--scale", arg, preparation_scale_names);
        return true;
    case KEY_LABELS_FORMAT:
        o->labels_format =
            (enum labels_format)tool_choice(state, "--labels-format", arg, labels_format_names);
        o->format_given = true;
        return true;
    case KEY_NAN:
        o->fit.nan = (hf_nan)tool_choice(state, "--nan", arg, kmeans_nan_names);
        return true;
    case KEY_GUARD:
        o->fit.guard = kmeans_guard(state, arg);
        return true;
    case KEY_CHAIN:
        o->chain = (enum kmeans_chain)tool_choice(state, "--chain", arg, chain_names);
        return true;
    default:
        return false;
    }
}

static bool set_number(struct kmeans_options *o, struct argp_state *state, int key,
                       const char *arg) {
    switch (key) {
    case 'k':
        o->fit.k = tool_int(state, "-k", arg, 1, INT32_MAX);
        return true;
    case KEY_N_INIT:
        o->fit.n_init = (int)tool_int(state, "--n-init", arg, 1, INT_MAX);
        return true;
    case KEY_SEED:
        o->fit.seed = tool_u64(state, "--seed", arg);
        return true;
    case KEY_MAX_ITER:
        o->fit.max_iter = (int)tool_int(state, "--max-iter", arg, 1, INT_MAX);
        return true;
    case KEY_TOL:
        set_tol(o, state, arg);
        return true;
    case 't':
        o->context.threads = (int)tool_int(state, "--threads", arg, 1, 1024);
        return true;
    case KEY_MEMORY:
        o->context.memory_bytes = tool_bytes(state, "--memory", arg);
        return true;
    case KEY_EVERY:
        o->fit.checkpoint_every = (int)tool_int(state, "--every", arg, 1, INT_MAX);
        return true;
    case KEY_PICTURE:
        set_picture(o, state, arg);
        return true;
    default:
        return false;
    }
}

static bool set_file(struct kmeans_options *o, struct argp_state *state, int key, char *arg) {
    switch (key) {
    case 'o':
        o->out_dir = tool_path(state, "-o", arg);
        return true;
    case 'q':
        o->quiet = true;
        return true;
    case KEY_INIT:
        set_init(o, state, arg);
        return true;
    case KEY_WEIGHTS:
        o->weights_file = tool_path(state, "--weights", arg);
        return true;
    case KEY_DEVICE:
        o->context.device = arg;
        return true;
    case KEY_CHECKPOINT:
        o->checkpoint = tool_path(state, "--checkpoint", arg);
        return true;
    case KEY_RESUME:
        o->fit.resume = tool_path(state, "--resume", arg);
        return true;
    case KEY_JSON:
        o->json = true;
        return true;
    default:
        return false;
    }
}

static void check(const struct kmeans_options *o, struct argp_state *state) {
    if (!o->data)
        argp_error(state, "which data file?");
    if (o->fit.k == 0 && !o->init_file)
        argp_error(state, "how many clusters? give -k K");
    if (o->picture_height && !o->out_dir)
        argp_error(state, "--picture needs -o DIR to write centroids.png into");
    if (o->format_given && !o->out_dir)
        argp_error(state, "--labels-format needs -o DIR to write the labels into");
    if (o->quiet && !o->json && !o->out_dir && !o->checkpoint)
        argp_error(state,
                   "-q without -o DIR, --json or --checkpoint FILE: nothing would be left of "
                   "the fit");
    if (o->fit.checkpoint_every && !o->checkpoint && !o->out_dir)
        argp_error(state, "--every needs --checkpoint FILE or -o DIR");
    if (o->init_file && o->fit.n_init > 1)
        argp_error(state, "--n-init %d: given centroids lead to the same result every time",
                   o->fit.n_init);
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct kmeans_options *o = state->input;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = &o->preparation;
    if (key == ARGP_KEY_ARG && !o->data) {
        o->data = tool_path(state, "DATA", arg);
        return 0;
    }
    if (key == ARGP_KEY_ARG)
        argp_error(state, "one data file at a time, not also '%s'", arg);
    if (key == ARGP_KEY_END)
        check(o, state);
    if (arg == NULL && key != 'q' && key != KEY_JSON)
        return ARGP_ERR_UNKNOWN;
    return set_choice(o, state, key, arg) || set_number(o, state, key, arg) ||
                   set_file(o, state, key, arg)
               ? 0
               : ARGP_ERR_UNKNOWN;
}

void kmeans_options_parse(struct kmeans_options *o, int argc, char **argv) {
    static const struct argp_child children[] = {{&preparation_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        table,
        parse,
        "DATA",
        "Cluster the rows of DATA: .fvecs, .bvecs, or .npy, IDX, CSV and TSV, which may be .gz "
        "too; "
        "an array of FILE.npz (FILE.npz:NAME); or - for standard input."
        "\vExit codes: 0 done, 1 failed, 2 usage, 3 bad input, 4 out of resources, 5 corrupted, "
        "130 interrupted (results so far, if any, were written). Long options may be shortened.",
        children,
        NULL,
        NULL};
    memset(o, 0, sizeof *o);
    o->fit.n_init = 1;
    o->fit.max_iter = 300;
    o->fit.tol = 1e-4;
    tool_parse(&argp, argc, argv, o);
}
