/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_options.h"
#include "find_kernel.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum option_key {
    KEY_SYNTHETIC = 256,
    KEY_ROWS,
    KEY_COLUMNS,
    KEY_DTYPE,
    KEY_INIT,
    KEY_SEED,
    KEY_MAX_ITER,
    KEY_N_INIT,
    KEY_METRIC,
    KEY_SKIPPING,
    KEY_KERNEL,
    KEY_DEVICE,
    KEY_AT_ONCE,
    KEY_FAULTS,
    KEY_GUARD,
    KEY_WHERE,
    KEY_WORDS,
    KEY_MODELS,
    KEY_SHARD,
    KEY_LIMIT,
    KEY_RESUME,
    KEY_RATE,
    KEY_REPEAT,
    KEY_FAULT,
    KEY_LIST,
    KEY_JSON
};

static const char *const metrics[] = {"euclidean", "cosine", "dot", NULL};
static const char *const inits[] = {"kmeans++", "kmeans-parallel", "random", NULL};
static const char *const skippings[] = {"auto", "off", "on", NULL};
static const char *const guards[] = {"off", "detect", "correct", "sampled", "weighted", NULL};
static const char *const dtypes[] = {"f32", "f64", "f16", "bf16", "u8", NULL};

static const struct argp_option table[] = {
    {NULL, 0, NULL, 0, "The fit:", 1},
    {"synthetic", KEY_SYNTHETIC, "KIND", 0,
     "Generated rows in place of DATA: blobs, normal, lognormal, cauchy, sentinels, column, ...",
     1},
    {"rows", KEY_ROWS, "N", 0, "of them (default 1000)", 1},
    {"columns", KEY_COLUMNS, "D", 0, "of them (default 16)", 1},
    {"dtype", KEY_DTYPE, "TYPE", 0, "of them: f32 (default), f64, f16, bf16 or u8", 1},
    {"clusters", 'k', "K", 0, "Number of clusters (default 8)", 1},
    {"init", KEY_INIT, "HOW", 0, "random (default), kmeans++ or kmeans-parallel", 1},
    {"max-iter", KEY_MAX_ITER, "N", 0, "Iterations at most (default 20)", 1},
    {"n-init", KEY_N_INIT, "N", 0, "Restarts of the fit (default 1): one with many lasts long", 1},
    {"metric", KEY_METRIC, "NAME", 0, "euclidean (default), cosine or dot", 1},
    {"skipping", KEY_SKIPPING, "NAME", 0, "Bounds that skip work: auto (default), off or on", 1},
    {"kernel", KEY_KERNEL, "NAME", 0, "Kernel of the fit, in place of the planned one of its op",
     1},
    {"device", KEY_DEVICE, "NAME", 0,
     "cpu (default); on cuda, cuda:N, opencl or opencl:N words of memory are struck alone", 1},
    {"threads", 't', "T", 0,
     "Threads of a fit (default 1, with which a line strikes the same value each time)", 1},
    {"at-once", KEY_AT_ONCE, "N", 0,
     "Fits of a campaign side by side, 1 (default) to 64; not on a CPU: see --shard", 1},
    {"guard", KEY_GUARD, "SCHEME", 0,
     "Protection to measure: correct (default), detect, sampled, weighted or off", 1},
    {NULL, 0, NULL, 0, "The faults:", 2},
    {"faults", KEY_FAULTS, "N", 0, "Faults of the campaign (default 10000)", 2},
    {"where", KEY_WHERE, "LIST", 0, "Places, such as assign.*,means.next (default: all)", 2},
    {"words", KEY_WORDS, "N", 0, "The first N words of an array alone (default: all)", 2},
    {"models", KEY_MODELS, "LIST", 0, "What faults do, such as flip,carry (default: all)", 2},
    {"seed", KEY_SEED, "S", 0, "Seed of the faults, the rows and the fit (default 0)", 2},
    {"shard", KEY_SHARD, "I/N", 0, "Only the faults I, I + N, I + 2N, ...; I from 0 to N - 1", 2},
    {"limit", KEY_LIMIT, "SECONDS", 0,
     "A fit that takes longer hangs (default: 50 times one without faults, at least 2)", 2},
    {"fault", KEY_FAULT, "LINE", 0, "This one fault, in place of a campaign", 2},
    {"rate", KEY_RATE, "F", 0, "In place of a campaign one fit in which F faults a second strike",
     2},
    {"repeat", KEY_REPEAT, "R", 0,
     "In place of a campaign R fits without faults: does protection see some?", 2},
    {NULL, 0, NULL, 0, "What is written:", 3},
    {"output", 'o', "DIR", 0,
     "Folder for faults.tsv, coverage.tsv, report.json and report.md; made if missing", 3},
    {"resume", KEY_RESUME, NULL, 0, "Go on with the campaign whose faults.tsv is in DIR", 3},
    {"json", KEY_JSON, NULL, 0, "Print the report as JSON", 3},
    {"quiet", 'q', NULL, 0, "No progress", 3},
    {"list", KEY_LIST, NULL, 0, "List places, acts and models, and do nothing else", 3},
    {0}};

/* As HF_KERNEL_<OP> of the environment does. */
static void set_kernel(struct inject_options *o, struct argp_state *state, const char *text) {
    hf_dev_kernel kernel;
    char name[64];
    if (!find_kernel(text, &kernel)) {
        argp_error(state, "--kernel %s: there is no such kernel; 'holdfast info' lists them", text);
        return;
    }
    if (!kernel.runs_here)
        argp_error(state, "--kernel %s: %s", text, kernel.why_not);
    snprintf(name, sizeof name, "HF_KERNEL_%s", kernel.op);
    for (char *c = name; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    (void)setenv(name, text, 1);
    o->kernel = text;
}

static void set_shard(struct inject_options *o, struct argp_state *state, const char *text) {
    long long shard = 0;
    long long shards = 0;
    int end = 0;
    if (sscanf(text, "%9lld/%9lld%n", &shard, &shards, &end) != 2 || text[end] != '\0' ||
        shard < 0 || shards < 1 || shard >= shards)
        argp_error(state, "--shard %s: must be I/N with I from 0 to N - 1, such as 0/4", text);
    o->campaign.shard = shard;
    o->campaign.shards = shards;
}

/* Options of the fit; 0: it is none of them. */
static int parse_fit(struct inject_options *o, int key, const char *arg, struct argp_state *state) {
    switch (key) {
    case KEY_SYNTHETIC:
        o->synthetic = arg;
        return 1;
    case KEY_ROWS:
        o->rows = tool_int(state, "--rows", arg, 1, INT64_C(1) << 40);
        return 1;
    case KEY_COLUMNS:
        o->columns = tool_int(state, "--columns", arg, 1, INT64_C(1) << 24);
        return 1;
    case KEY_DTYPE:
        o->dtype = (hf_dtype)(tool_choice(state, "--dtype", arg, dtypes) + HF_F32);
        return 1;
    case 'k':
        o->fit.k = tool_int(state, "-k", arg, 1, INT32_MAX);
        return 1;
    case KEY_INIT:
        o->fit.init = (hf_init)tool_choice(state, "--init", arg, inits);
        return 1;
    case KEY_MAX_ITER:
        o->fit.max_iter = (int)tool_int(state, "--max-iter", arg, 1, INT32_MAX);
        return 1;
    case KEY_N_INIT:
        o->fit.n_init = (int)tool_int(state, "--n-init", arg, 1, 1000000);
        return 1;
    case KEY_METRIC:
        o->fit.metric = (hf_metric)tool_choice(state, "--metric", arg, metrics);
        return 1;
    case KEY_SKIPPING:
        o->fit.skipping = (hf_skipping)tool_choice(state, "--skipping", arg, skippings);
        return 1;
    case KEY_KERNEL:
        set_kernel(o, state, arg);
        return 1;
    case KEY_DEVICE:
        o->campaign.device = arg;
        return 1;
    case 't':
        o->campaign.threads = (int)tool_int(state, "--threads", arg, 1, 4096);
        return 1;
    case KEY_AT_ONCE:
        o->campaign.at_once = (int)tool_int(state, "--at-once", arg, 1, 64);
        return 1;
    case KEY_GUARD:
        o->fit.guard = (hf_guard)(tool_choice(state, "--guard", arg, guards) + HF_GUARD_OFF);
        return 1;
    default:
        return 0;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct inject_options *o = state->input;
    if (parse_fit(o, key, arg, state))
        return 0;
    switch (key) {
    case KEY_FAULTS:
        o->campaign.faults = tool_int(state, "--faults", arg, 0, INT64_C(1) << 40);
        return 0;
    case KEY_WHERE:
        o->campaign.places = arg;
        return 0;
    case KEY_WORDS:
        o->campaign.words = tool_int(state, "--words", arg, 1, INT64_MAX);
        return 0;
    case KEY_MODELS:
        o->campaign.models = arg;
        return 0;
    case KEY_SEED:
        o->campaign.seed = tool_u64(state, "--seed", arg);
        return 0;
    case KEY_SHARD:
        set_shard(o, state, arg);
        return 0;
    case KEY_LIMIT:
        o->campaign.limit_s = tool_real(state, "--limit", arg, 1e-3, 1e6);
        return 0;
    case KEY_FAULT:
        o->line = arg;
        return 0;
    case KEY_RATE:
        o->rate = tool_real(state, "--rate", arg, 1e-6, 1e6);
        return 0;
    case KEY_REPEAT:
        o->repeat = tool_int(state, "--repeat", arg, 1, INT64_C(1) << 40);
        return 0;
    case 'o':
        o->out_dir = tool_path(state, "-o", arg);
        return 0;
    case KEY_RESUME:
        o->resume = true;
        return 0;
    case KEY_JSON:
        o->json = true;
        return 0;
    case 'q':
        o->quiet = true;
        return 0;
    case KEY_LIST:
        o->list = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            argp_error(state, "%s: one data file is all that is taken", arg);
        o->data = tool_path(state, "DATA", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    table,
    parse,
    "DATA\n--synthetic KIND\n--list",
    "Plant faults in fits, one in each, and say what becomes of them with and without protection. "
    "Each line of faults.tsv ends with the words that plant its fault again.\v"
    "Exit codes are those of every verb; silent corruptions are a result, not a failure.",
    NULL,
    NULL,
    NULL};

/* Options that contradict each other. */
static void check(const struct inject_options *o) {
    const int modes = (o->line != NULL) + (o->rate > 0) + (o->repeat > 0);
    if (o->list)
        return;
    if (!o->data == !o->synthetic) {
        tool_error("inject kmeans: name a data file, or a kind of rows with --synthetic%s",
                   o->data ? ", not both" : "; see 'holdfast inject kmeans --help'");
        exit(EXIT_USAGE);
    }
    if (modes > 1) {
        tool_error("inject kmeans: --fault, --rate and --repeat exclude each other");
        exit(EXIT_USAGE);
    }
    if (o->campaign.at_once > 1 &&
        (!o->campaign.device || strcmp(o->campaign.device, "cpu") == 0)) {
        tool_error("--at-once: fits on a CPU are made one after the other; use --shard and as many "
                   "processes");
        exit(EXIT_USAGE);
    }
    if (o->resume && (!o->out_dir || modes > 0)) {
        tool_error("--resume: a campaign needs -o DIR to go on with what is there");
        exit(EXIT_USAGE);
    }
    if (modes > 0 && o->out_dir) {
        tool_error("-o: --fault, --rate and --repeat write no files; use --json");
        exit(EXIT_USAGE);
    }
}

void inject_options_parse(struct inject_options *o, int argc, char **argv) {
    *o = (struct inject_options){.dtype = HF_F32,
                                 .rows = 1000,
                                 .columns = 16,
                                 .campaign = {.threads = 1, .faults = 10000},
                                 .fit = {.k = 8,
                                         .init = HF_INIT_RANDOM,
                                         .n_init = 1,
                                         .max_iter = 20,
                                         .guard = HF_GUARD_CORRECT}};
    tool_parse(&argp, argc, argv, o);
    check(o);
    o->fit.seed = o->campaign.seed;
}

const char *inject_options_text(const struct inject_options *o) {
    static char text[1200];
    const hf_kmeans_opts *f = &o->fit;
    char rows[500];
    char words[40];
    const int some = snprintf(words, sizeof words, " words=%lld", (long long)o->campaign.words);
    if (o->data)
        snprintf(rows, sizeof rows, "data=%s", tool_name_text(o->data));
    else
        snprintf(rows, sizeof rows, "synthetic=%s rows=%lld columns=%lld dtype=%s", o->synthetic,
                 (long long)o->rows, (long long)o->columns, hf_dtype_name(o->dtype));
    snprintf(text, sizeof text,
             "%s%s%s clusters=%lld init=%s n-init=%d max-iter=%d metric=%s skipping=%s threads=%d "
             "guard=%s "
             "seed=%llu where=%s models=%s kernel=%s%.*s",
             rows, o->campaign.device ? " device=" : "",
             o->campaign.device ? o->campaign.device : "", (long long)f->k, inits[f->init],
             f->n_init, f->max_iter, metrics[f->metric], skippings[f->skipping],
             o->campaign.threads, hf_guard_name(f->guard), (unsigned long long)o->campaign.seed,
             o->campaign.places ? o->campaign.places : "*",
             o->campaign.models ? o->campaign.models : "*", o->kernel ? o->kernel : "planned",
             o->campaign.words > 0 ? some : 0, words);
    return text;
}
