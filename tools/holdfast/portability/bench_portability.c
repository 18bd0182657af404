/* SPDX-License-Identifier: Apache-2.0 */
#include "portability/portability.h"
#include "plain_file.h"
#include <stdlib.h>
#include <string.h>

enum key {
    KEY_SCALE = 256,
    KEY_SETS,
    KEY_ROUNDS,
    KEY_STEPS,
    KEY_SLICE,
    KEY_PEAK,
    KEY_SWEEPS,
    KEY_PORT,
    KEY_PLATFORMS,
    KEY_LIMIT,
    KEY_WITH
};

static const struct argp_option options[] = {
    {"clusters", 'k', "LIST", 0, "Numbers of clusters (default 2,4,8,16,32,64,128,256)", 0},
    {"limit", KEY_LIMIT, "SECONDS", 0,
     "Time of an iteration of the plain port; where it would take longer, it gets fewer rows, and "
     "its time is multiplied (2)",
     0},
    {"no-port", KEY_PORT, NULL, 0, "Leave out the plain port to OpenCL, which is slow", 0},
    {"no-sweeps", KEY_SWEEPS, NULL, 0, "Leave out the sweeps over sizes", 0},
    {"output", 'o', "NAME", 0,
     "Write NAME.tsv, NAME.json, NAME.md and plots, NAME-*.svg (default: portability)", 0},
    {"peak", KEY_PEAK, "GFLOPS", 0, "Rate of float32 of the GPU (default: measured by OpenCL)", 0},
    {"platforms", KEY_PLATFORMS, "LIST", 0, "Devices that are measured: cpu,gpu (default: both)",
     0},
    {"rounds", KEY_ROUNDS, "R", 0, "Rounds in which backends take turns; medians count (3)", 0},
    {"scale", KEY_SCALE, "SHARE", 0, "Share of the study's rows (1)", 0},
    {"sets", KEY_SETS, "LIST", 0, "Data: uniform,census (default: both)", 0},
    {"slice", KEY_SLICE, "N", 0, "Rows that a CPU by OpenCL is tuned on; a GPU, on all (20000)", 0},
    {"steps", KEY_STEPS, "S", 0, "Iterations of a sample (5)", 0},
    {"threads", 't', "T", 0, "Threads of the CPU; default: one for each usable core", 0},
    {"with", KEY_WITH, "NAME.tsv", 0,
     "Add what a run on another machine wrote, of the platform that this one does not measure", 0},
    {0},
};

/* Call `take` with each word of a list with commas. */
static void each_word(struct argp_state *state, const char *list,
                      void (*take)(struct argp_state *state, const char *word)) {
    char word[64];
    if (*list == '\0')
        argp_error(state, "an empty list names nothing");
    for (const char *at = list; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        if (length >= sizeof word)
            argp_error(state, "'%s' is no list of short words with commas between", list);
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        take(state, word);
        at += length + (at[length] == ',');
    }
}

static void take_k(struct argp_state *state, const char *word) {
    struct study_options *o = &((struct study *)state->input)->options;
    if (o->ks == STUDY_KS)
        argp_error(state, "-k: at most %d numbers", STUDY_KS);
    o->k[o->ks++] = tool_int(state, "-k", word, 1, 1000000);
}

static void take_set(struct argp_state *state, const char *word) {
    struct study_options *o = &((struct study *)state->input)->options;
    o->set[tool_choice(state, "--sets", word, study_sets)] = true;
}

static void take_platform(struct argp_state *state, const char *word) {
    static const char *const names[PLATFORMS + 1] = {"cpu", "gpu", NULL};
    struct study_options *o = &((struct study *)state->input)->options;
    o->platform[tool_choice(state, "--platforms", word, names)] = true;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct study_options *o = &((struct study *)state->input)->options;
    switch (key) {
    case 'k':
        o->ks = 0;
        each_word(state, arg, take_k);
        return 0;
    case 't':
        o->threads = (int)tool_int(state, "-t", arg, 1, 4096);
        return 0;
    case 'o':
        o->output = tool_path(state, "-o", arg);
        return 0;
    case KEY_SETS:
        each_word(state, arg, take_set);
        return 0;
    case KEY_SCALE:
        o->scale = tool_real(state, "--scale", arg, 1e-4, 1);
        return 0;
    case KEY_PLATFORMS:
        each_word(state, arg, take_platform);
        return 0;
    case KEY_LIMIT:
        o->limit = tool_real(state, "--limit", arg, 0.001, 1e6);
        return 0;
    case KEY_WITH:
        o->with = tool_path(state, "--with", arg);
        return 0;
    case KEY_ROUNDS:
        o->rounds = (int)tool_int(state, "--rounds", arg, 1, 31);
        return 0;
    case KEY_STEPS:
        o->steps = (int)tool_int(state, "--steps", arg, 1, 60);
        return 0;
    case KEY_SLICE:
        o->slice = tool_int(state, "--slice", arg, 1000, 10000000);
        return 0;
    case KEY_PEAK:
        o->peak = tool_real(state, "--peak", arg, 1, 1e9) * 1e9;
        return 0;
    case KEY_SWEEPS:
        o->sweeps = false;
        return 0;
    case KEY_PORT:
        o->port = false;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Measure what portability costs, as the SYCL study of k-means did: its data, 1,000,000 x 500 "
    "uniform and 2,458,285 x 68 like a census, on every backend of this machine: C, CUDA, OpenCL "
    "tuned and untuned, and a plain port to OpenCL; sizes of packages, groups and vectors.\v"
    "Efficiencies: architectural, 2 N K D operations a second over the rate of float32 "
    "multiply-add measured there; application, the best time on that platform over the own one. "
    "Phi is their harmonic mean over platforms, 0 where one is not served. Rows are in the "
    "device's memory. One CPU and one GPU take part.",
    NULL,
    NULL,
    NULL};

static void remember_command(struct study *s, int argc, char **argv) {
    static char words[1000];
    size_t used = (size_t)snprintf(words, sizeof words, "holdfast bench portability");
    for (int i = 1; i < argc && used < sizeof words; i++)
        used += (size_t)snprintf(words + used, sizeof words - used, " %s", argv[i]);
    s->command = words;
}

static void print_merits(const struct study *s) {
    const unsigned all = study_platform_mask(s);
    printf("Phi of %s, application efficiency:\n", all == 3   ? "{CPU, GPU}"
                                                   : all == 1 ? "{CPU}"
                                                              : "{GPU}");
    for (int code = CODE_CUDA; code < CODES; code++)
        printf("  %-16s %.3f\n", code == CODE_CUDA ? "c+cuda" : study_codes[code],
               study_phi(s, (enum code)code, all, -1, false));
    printf("written: %s.tsv, .json, .md and plots\n", tool_name_text(s->options.output));
}

static int run(struct study *s) {
    int code = study_open(s);
    if (code == EXIT_DONE)
        code = study_measure(s);
    if (code == EXIT_DONE && s->options.sweeps)
        code = study_sweep(s);
    if (code == EXIT_DONE)
        code = study_join(s);
    study_judge(s);
    if (code == EXIT_DONE)
        code = study_write(s);
    if (code == EXIT_DONE)
        code = study_plot(s);
    if (code == EXIT_DONE)
        print_merits(s);
    study_close(s);
    return code;
}

int bench_portability(int argc, char **argv) {
    static struct study s = {.options = {.scale = 1,
                                         .rounds = 3,
                                         .steps = 5,
                                         .slice = 20000,
                                         .limit = 2,
                                         .sweeps = true,
                                         .port = true,
                                         .output = "portability"}};
    struct study_options *o = &s.options;
    remember_command(&s, argc, argv);
    tool_parse(&argp, argc, argv, &s);
    const bool given = o->ks > 0;
    for (int64_t k = 2; k <= 256 && !given; k *= 2)
        o->k[o->ks++] = k;
    if (!o->set[0] && !o->set[1])
        o->set[0] = o->set[1] = true;
    if (!o->platform[PLATFORM_CPU] && !o->platform[PLATFORM_GPU])
        o->platform[PLATFORM_CPU] = o->platform[PLATFORM_GPU] = true;
    const int code = plain_file_check(o->output, ".tsv"); /* before hours are spent */
    if (code != EXIT_DONE)
        return code;
    return study_can_join(&s) ? run(&s) : EXIT_INPUT;
}
