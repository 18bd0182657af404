/* SPDX-License-Identifier: Apache-2.0
 * holdfast screen: is this machine's arithmetic right? */
#include "find_kernel.h"
#include "interrupt.h"
#include "tool.h"

#include <holdfast/dev.h>
#include <holdfast/dev_screen.h>
#include <holdfast/diagnose.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_SHARE 0.5 /* of a core's time: with less it was not kept hot */

enum key {
    KEY_LEVEL = 256,
    KEY_SECONDS,
    KEY_OP,
    KEY_SEED,
    KEY_PLANT,
    KEY_LANE,
    KEY_FORMAT,
    KEY_BUSY
};
enum format { FORMAT_TEXT, FORMAT_TAP, FORMAT_JSON };

struct screening {
    hf_dev_screen_opts opts;
    int format;
    bool busy_ok, quiet;
    int64_t tap; /* lines so far */
    json_t *parts, *findings, *phases, *units;
    char plant[96];
};

static const char *const levels[] = {"short", "medium", "long", NULL};
static const double level_seconds[] = {10, 120, 1800};
static const char *const formats[] = {"text", "tap", "json", NULL};

static const struct argp_option options[] = {
    {"level", KEY_LEVEL, "NAME", 0, "short (10 s, the default), medium (2 min) or long (30 min)",
     0},
    {"device", 'd', "DEVICE", 0,
     "cpu (default), or a GPU: cuda, cuda:1; nobody else may use it meanwhile", 0},
    {"seconds", KEY_SECONDS, "S", 0, "End after so long instead", 0},
    {"op", KEY_OP, "OP", 0, "Kernels of this op only", 0},
    {"format", KEY_FORMAT, "FORMAT", 0, "text (default), tap or json", 0},
    {"busy-ok", KEY_BUSY, NULL, 0,
     "Other programs may use the cores: do not end with exit code 7 if they do", 0},
    {"seed", KEY_SEED, "S", 0, "Of the problems (default: 1)", 0},
    {"quiet", 'q', NULL, 0, "No progress on standard error", 0},
    {"plant", KEY_PLANT, "CORE[:KERNEL]", 0,
     "Spoil the answers of this core, or multiprocessor of a GPU, to prove that the screen finds "
     "it",
     0},
    {"plant-lane", KEY_LANE, "LANE", 0,
     "With --plant: only what this lane of its vectors makes (bit 20 of each word is stuck at 1)",
     0},
    {0},
};

static void parse_plant(struct screening *s, struct argp_state *state, const char *arg) {
    hf_dev_kernel kernel;
    char *colon;
    snprintf(s->plant, sizeof s->plant, "%s", arg);
    colon = strchr(s->plant, ':');
    if (colon)
        *colon = '\0';
    s->opts.plant = 1 + (int)tool_int(state, "--plant", s->plant, 0, 32767);
    s->opts.plant_kernel = colon ? colon + 1 : NULL;
    if (colon && !find_kernel(colon + 1, &kernel))
        argp_error(state, "--plant %s: there is no such kernel; 'holdfast info' lists them", arg);
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct screening *s = state->input;
    hf_dev_op op;
    switch (key) {
    case KEY_LEVEL:
        s->opts.seconds = level_seconds[tool_choice(state, "--level", arg, levels)];
        break;
    case KEY_SECONDS:
        s->opts.seconds = tool_real(state, "--seconds", arg, 0.1, 1e7);
        break;
    case 'd':
        s->opts.device = arg;
        break;
    case KEY_OP:
        if (!hf_dev_op_find(arg, &op))
            argp_error(state, "--op %s: there is no such op; 'holdfast info' lists them", arg);
        s->opts.op = arg;
        break;
    case KEY_FORMAT:
        s->format = tool_choice(state, "--format", arg, formats);
        break;
    case KEY_BUSY:
        s->busy_ok = true;
        break;
    case KEY_SEED:
        s->opts.seed = tool_u64(state, "--seed", arg);
        break;
    case 'q':
        s->quiet = true;
        break;
    case KEY_PLANT:
        parse_plant(s, state, arg);
        break;
    case KEY_LANE:
        s->opts.plant_lane = 1 + (int)tool_int(state, "--plant-lane", arg, 0, 127);
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "%s: too many arguments", arg);
        break;
    case ARGP_KEY_END:
        if (s->opts.plant_lane > 0 && s->opts.plant == 0)
            argp_error(state, "--plant-lane %d: of which core? say so by --plant",
                       s->opts.plant_lane - 1);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Is this machine's arithmetic right? Every kernel on every core, woken from idle, in bursts "
    "and "
    "all together, against answers that a plain reference and a table of known signatures give. A "
    "wrong answer is repeated, asked of other cores and so traced to a core. On a GPU every kernel "
    "runs on every multiprocessor alone, then large products on all of them, whose tiles are "
    "signed.\v"
    "Exit codes: 0 all right; 5 wrong answers; 6 a kernel did not run on some core, which is "
    "neither "
    "right nor wrong; 7 all right, but not hot: other programs took more than half of the cores' "
    "time, or the GPU was not at half of its peak rate for half of the time.",
    NULL,
    NULL,
    NULL};

static bool is_gpu(const struct screening *s) {
    return s->opts.device && strcmp(s->opts.device, "cpu") != 0;
}

static const char *unit_text(const struct screening *s) {
    return is_gpu(s) ? "multiprocessor" : "core";
}

static const char *blame_text(const hf_dev_screen_finding *f) {
    if (f->blame == HF_DEV_BLAME_KERNEL)
        return "all do the same: a fault of the kernel, not of one of them";
    if (f->blame == HF_DEV_BLAME_UNKNOWN)
        return "no other to compare with";
    return f->repeats_wrong == 0           ? "a transient fault"
           : f->repeats_wrong < f->repeats ? "an intermittent fault"
                                           : "a permanent fault";
}

static void print_place(const struct screening *s, const hf_dev_screen_finding *f, char *text,
                        size_t bytes) {
    if (f->core < 0)
        (void)snprintf(text, bytes, "all %ss together", unit_text(s));
    else if (f->with > 1)
        (void)snprintf(text, bytes, "%ss %d to %d", unit_text(s), f->core, f->core + f->with - 1);
    else
        (void)snprintf(text, bytes, "%s %d", unit_text(s), f->core);
}

/* "" where no single lane is to blame. */
static const char *lane_text(const struct screening *s, const hf_dev_screen_finding *f, char *text,
                             size_t bytes) {
    text[0] = '\0';
    if (f->lane >= 0 && is_gpu(s))
        (void)snprintf(text, bytes, ", in lane %d of part %d of it", f->lane % 32, f->lane / 32);
    else if (f->lane >= 0)
        (void)snprintf(text, bytes, ", in lane %d of %d of its vectors", f->lane, f->lanes);
    return text;
}

static void on_finding(void *user, const hf_dev_screen_finding *f) {
    struct screening *s = user;
    char place[64], lane[64];
    print_place(s, f, place, sizeof place);
    fprintf(stderr,
            "holdfast: %s, kernel %s, phase %s: wrong answer to %s: %s; wrong again %d of %d "
            "times, on others %d of %d: %s%s\n",
            place, f->kernel, f->phase, f->problem, f->text, f->repeats_wrong, f->repeats,
            f->others_wrong, f->others, blame_text(f), lane_text(s, f, lane, sizeof lane));
    json_array_append_new(
        s->findings,
        json_pack("{s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:i, s:i}", "core",
                  f->core, "with", f->with, "op", f->op, "kernel", f->kernel, "phase", f->phase,
                  "problem", f->problem, "text", f->text, "repeats", f->repeats, "repeats_wrong",
                  f->repeats_wrong, "others", f->others, "others_wrong", f->others_wrong, "blame",
                  blame_text(f), "lane", f->lane, "lanes", f->lanes));
}

static void on_phase(void *user, const char *phase, double seconds) {
    struct screening *s = user;
    if (!s->quiet)
        fprintf(stderr, "%6.1f s  %s\n", seconds, phase);
    json_array_append_new(s->phases, json_pack("{s:s, s:f}", "phase", phase, "begin_s", seconds));
}

static int on_stop(void *user) {
    (void)user;
    return interrupt_seen();
}

static const char *const verdicts[] = {"not run", "right", "wrong", "not here"};

/* SKIP would count as passed: only what this CPU does not have is skipped. */
static void print_tap(struct screening *s, const hf_dev_screen_part *p) {
    s->tap++;
    if (p->verdict == HF_DEV_NOT_HERE) {
        printf("ok %lld - %s # SKIP %s\n", (long long)s->tap, p->kernel, p->text);
        return;
    }
    printf("%s %lld - %s on %s %d\n", p->verdict == HF_DEV_RIGHT ? "ok" : "not ok",
           (long long)s->tap, p->kernel, unit_text(s), p->core);
    if (p->verdict != HF_DEV_RIGHT)
        printf("  ---\n  verdict: %s\n  visits: %lld\n  wrong: %lld\n  text: \"%s\"\n  ...\n",
               verdicts[p->verdict], (long long)p->visits, (long long)p->wrong, p->text);
}

static void on_part(void *user, const hf_dev_screen_part *p) {
    struct screening *s = user;
    if (s->format == FORMAT_TAP)
        print_tap(s, p);
    else if (s->format == FORMAT_TEXT &&
             (p->verdict == HF_DEV_WRONG || p->verdict == HF_DEV_NOT_RUN))
        printf("%-8s %s on %s %d: %lld of %lld answers wrong%s%s\n", verdicts[p->verdict],
               p->kernel, unit_text(s), p->core, (long long)p->wrong, (long long)p->visits,
               *p->text ? ": " : "", p->text);
    if (s->format == FORMAT_JSON)
        json_array_append_new(s->parts,
                              json_pack("{s:s, s:s, s:i, s:s, s:I, s:I, s:s}", "op", p->op,
                                        "kernel", p->kernel, "core", p->core, "verdict",
                                        verdicts[p->verdict], "visits", (json_int_t)p->visits,
                                        "wrong", (json_int_t)p->wrong, "text", p->text));
}

static void on_unit(void *user, const hf_dev_screen_unit *u) {
    struct screening *s = user;
    const double share = u->peak > 0 ? u->rate / u->peak : 0;
    if (s->format != FORMAT_JSON)
        printf("%s%-5s %lld products by %s in %s: %.4g of %.4g Gflop/s, %.0f %% of the peak; %.0f "
               "%% of their time at half of it or more\n",
               s->format == FORMAT_TAP ? "# " : "", u->name, (long long)u->products, u->kernel,
               tool_seconds_text(u->seconds), 1e-9 * u->rate, 1e-9 * u->peak, 100 * share,
               u->seconds > 0 ? 100 * u->hot_seconds / u->seconds : 0);
    else
        json_array_append_new(s->units,
                              json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f}", "unit", u->name,
                                        "kernel", u->kernel, "products", (json_int_t)u->products,
                                        "seconds", u->seconds, "hot_seconds", u->hot_seconds,
                                        "rate", u->rate, "peak", u->peak));
}

static int exit_code(const struct screening *s, const hf_dev_screen_result *r,
                     const hf_diagnosis *golden) {
    if (r->wrong > 0 || r->findings > 0 || golden->verdict == HF_VERDICT_FAIL)
        return EXIT_CORRUPT;
    if (interrupt_seen())
        return EXIT_INTERRUPTED;
    if (r->not_run > 0 || golden->verdict != HF_VERDICT_PASS)
        return EXIT_NOT_RUN;
    return r->share < LEAST_SHARE && !s->busy_ok ? EXIT_BUSY : EXIT_DONE;
}

static int conclude(struct screening *s, const hf_dev_screen_result *r,
                    const hf_diagnosis *golden) {
    static const char *const text[] = {[EXIT_DONE] = "right",
                                       [EXIT_CORRUPT] = "wrong",
                                       [EXIT_NOT_RUN] = "not all run",
                                       [EXIT_BUSY] = "busy"};
    const int code = exit_code(s, r, golden);
    const char *verdict = code == EXIT_INTERRUPTED ? "interrupted" : text[code];
    if (s->format == FORMAT_TAP)
        printf("1..%lld\n", (long long)s->tap);
    if (s->format != FORMAT_JSON) {
        printf("%s%s: %lld kernels on %ss right, %lld wrong, %lld not run; %lld answers on %d "
               "of them in %s; at work for %.0f %% of the hot phase, for %.0f %% of all the time "
               "at half "
               "of the peak of a unit or more; known signatures: %s%s%s\n",
               s->format == FORMAT_TAP ? "# " : "", verdict, (long long)r->right, unit_text(s),
               (long long)r->wrong, (long long)r->not_run, (long long)r->runs, r->cores,
               tool_seconds_text(r->seconds), 100 * r->share, 100 * r->hot_share,
               hf_verdict_text(golden->verdict), *golden->text ? ": " : "", golden->text);
        return code;
    }
    (void)tool_json_print(json_pack(
        "{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:i, s:f, s:f, s:f, s:s, s:s, s:O, s:O, s:O, s:O}",
        "verdict", verdict, "exit_code", code, "right", (json_int_t)r->right, "wrong",
        (json_int_t)r->wrong, "not_run", (json_int_t)r->not_run, "not_here",
        (json_int_t)r->not_here, "answers", (json_int_t)r->runs, "cores", r->cores, "seconds",
        r->seconds, "share", r->share, "hot_share", r->hot_share, "known_signatures",
        hf_verdict_text(golden->verdict), "known_signatures_text", golden->text, "phases",
        s->phases, "findings", s->findings, "parts", s->parts, "units", s->units));
    return code;
}

static int run(struct screening *s) {
    hf_dev_screen_result result;
    hf_diagnosis golden;
    if (s->format == FORMAT_TAP)
        puts("TAP version 13");
    const hf_diagnose_opts once = {.tests = 1, .device = s->opts.device};
    (void)hf_diagnose(&once, &golden);
    const hf_status status = hf_dev_screen(&s->opts, &result);
    if (status != HF_OK) {
        const char *why = is_gpu(s) ? hf_last_error(NULL) : "";
        if (status == HF_E_ARG && !why[0])
            why = "--plant: no core that is screened has that number, or none that lane";
        tool_error("the screen could not be made: %s", why[0] ? why : hf_status_text(status));
        return status == HF_E_NOMEM ? EXIT_RESOURCES
               : status == HF_E_ARG ? EXIT_USAGE
                                    : EXIT_NOT_RUN;
    }
    return conclude(s, &result, &golden);
}

int cmd_screen(int argc, char **argv) {
    static struct screening s;
    s.opts.seed = 1;
    tool_parse(&argp, argc, argv, &s);
    interrupt_watch();
    s.parts = json_array();
    s.findings = json_array();
    s.phases = json_array();
    s.units = json_array();
    s.opts.finding = on_finding;
    s.opts.phase = on_phase;
    s.opts.stop = on_stop;
    s.opts.part = on_part;
    s.opts.unit = on_unit;
    s.opts.user = &s;
    const int code = run(&s);
    json_decref(s.parts);
    json_decref(s.findings);
    json_decref(s.phases);
    json_decref(s.units);
    return code;
}
