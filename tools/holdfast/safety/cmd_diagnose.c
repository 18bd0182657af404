/* SPDX-License-Identifier: Apache-2.0
 * holdfast diagnose: the periodic test, in the foreground, and a product by replicas. */
#include "cores.h"
#include "safety/diagnose_tool.h"
#include "interrupt.h"
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum key {
    KEY_INTERVAL = 256,
    KEY_TESTS,
    KEY_CORES,
    KEY_GO_ON,
    KEY_SAFE,
    KEY_JSON,
    KEY_PLANT,
    KEY_REPLICAS,
    KEY_SAME_CORE
};

static const struct argp_option options[] = {
    {"device", 'd', "DEVICE", 0,
     "cpu (default), or a GPU: cuda, cuda:1; cores are its multiprocessors then, and nobody else "
     "may "
     "use it meanwhile. Of two matrices also one for each replica: cpu,cuda:0,cuda:1",
     0},
    {0, 0, 0, 0, "Periodic test, with fixed data:", 1},
    {"interval", KEY_INTERVAL, "SECONDS", 0,
     "Diagnostic time interval: begin a test so often, until interrupted (default: one test)", 1},
    {"tests", KEY_TESTS, "N", 0, "End after N tests", 1},
    {"cores", KEY_CORES, "LIST", 0, "Cores to test, such as 0,2-5 (default: all usable ones)", 1},
    {"safe-state", KEY_SAFE, "COMMAND", 0,
     "Run this by the shell at once for a test that is not passed, with HOLDFAST_VERDICT, "
     "HOLDFAST_CORE and HOLDFAST_TEXT in its environment",
     1},
    {"keep-going", KEY_GO_ON, NULL, 0, "Do not end after a test that is not passed", 1},
    {"plant", KEY_PLANT, "CORE", 0,
     "Flip a bit of a result on this core (of two matrices: of this replica, from 0), to prove "
     "that "
     "the system reacts",
     1},
    {"json", KEY_JSON, NULL, 0, "A JSON object for each test, one a line", 1},
    {0, 0, 0, 0,
     "Redundancy, with your data: give two .npy files of float32, "
     "float64, float16, bfloat16 or int8",
     2},
    {"replicas", KEY_REPLICAS, "N", 0, "2 or 3 (default: 3)", 2},
    {"same-core", KEY_SAME_CORE, NULL, 0, "One after the other: redundancy in time, not in space",
     2},
    {"output", 'o', "FILE", 0, "Write what the majority computed", 2},
    {0},
};

static void check(const struct diagnose *d, struct argp_state *state) {
    const bool files = d->file[0] != NULL;
    if (files && !d->file[1])
        argp_error(state, "two matrices are needed, A and B");
    if (!files && (d->replicas || d->same_core || d->out))
        argp_error(state, "--replicas, --same-core and -o are for two matrices of your own");
    if (!files && d->device && strchr(d->device, ','))
        argp_error(state, "--device %s: the periodic test takes one device", d->device);
    if (files && (d->opts.interval_s > 0 || d->opts.tests > 0 || d->cores > 0 || d->safe_state))
        argp_error(state,
                   "--interval, --tests, --cores and --safe-state are for the periodic test");
    const int replicas = d->replicas ? d->replicas : HF_MAX_REPLICAS;
    if (files && d->opts.plant > replicas)
        argp_error(state, "--plant %d: there are replicas 0 to %d", d->opts.plant - 1,
                   replicas - 1);
}

static error_t parse_redundant(int key, char *arg, struct argp_state *state) {
    struct diagnose *d = state->input;
    switch (key) {
    case KEY_REPLICAS:
        d->replicas = (int)tool_int(state, "--replicas", arg, 2, HF_MAX_REPLICAS);
        return 0;
    case KEY_SAME_CORE:
        d->same_core = true;
        return 0;
    case 'o':
        d->out = tool_npy_out_path(state, "--output", arg);
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            argp_error(state, "two matrices at a time, not also '%s'", arg);
        else
            d->file[state->arg_num] = tool_path(state, "the matrix", arg);
        return 0;
    case ARGP_KEY_END:
        check(d, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct diagnose *d = state->input;
    switch (key) {
    case 'd':
        d->device = d->opts.device = arg;
        return 0;
    case KEY_INTERVAL:
        d->opts.interval_s = tool_real(state, "--interval", arg, 1e-6, 1e9);
        return 0;
    case KEY_TESTS:
        d->opts.tests = tool_int(state, "--tests", arg, 1, INT64_MAX);
        return 0;
    case KEY_CORES:
        d->cores = tool_cores(state, arg, d->core, DIAGNOSE_CORES);
        return 0;
    case KEY_SAFE:
        d->safe_state = arg;
        return 0;
    case KEY_GO_ON:
        d->opts.go_on = 1;
        return 0;
    case KEY_PLANT:
        d->opts.plant = 1 + (int)tool_int(state, "--plant", arg, 0, DIAGNOSE_CORES - 1);
        return 0;
    case KEY_JSON:
        d->json = true;
        return 0;
    default:
        return parse_redundant(key, arg, state);
    }
}

static const struct argp argp = {
    options,
    parse,
    "[A.npy B.npy]",
    "Test the arithmetic of this machine while it is in service: fixed products, whose signatures "
    "are known, by every kernel on every core; or the product of two matrices by several replicas "
    "and a vote.\v"
    "Exit codes: 0 all passed, or a majority agrees; 5 wrong arithmetic; 6 a test did not run, not "
    "wholly or not in time. docs/safety.md says what is covered.",
    NULL,
    NULL,
    NULL};

static void print_test(const hf_diagnosis *t, bool json) {
    if (json) {
        json_t *root = json_pack(
            "{s:s, s:I, s:f, s:f, s:i, s:i, s:i, s:i, s:i, s:s, s:s}", "verdict",
            hf_verdict_text(t->verdict), "test", (json_int_t)t->number, "begin_s", t->begin_s,
            "seconds", t->seconds, "cores", t->cores, "parts", t->parts, "passed", t->passed,
            "failed", t->failed, "core", t->core, "kernel", t->kernel, "text", t->text);
        json_dumpf(root, stdout, JSON_COMPACT);
        json_decref(root);
        putchar('\n');
    } else {
        printf("%s test %lld: %d of %d products on %d cores in %s%s%s\n",
               t->verdict == HF_VERDICT_PASS   ? "PASS"
               : t->verdict == HF_VERDICT_FAIL ? "FAIL"
                                               : "NOT RUN",
               (long long)t->number, t->passed, t->parts, t->cores, tool_seconds_text(t->seconds),
               *t->text ? ": " : "", t->text);
    }
    fflush(stdout);
}

static int on_report(void *user, const hf_diagnosis *test) {
    const struct diagnose *d = user;
    print_test(test, d->json);
    return interrupt_seen();
}

static int on_wait(void *user) {
    (void)user;
    return interrupt_seen();
}

/* The command that brings the system into its safe state. */
static int on_unsafe(void *user, const hf_diagnosis *test) {
    const struct diagnose *d = user;
    char core[24];
    snprintf(core, sizeof core, "%d", test->core);
    setenv("HOLDFAST_VERDICT", hf_verdict_text(test->verdict), 1);
    setenv("HOLDFAST_CORE", core, 1);
    setenv("HOLDFAST_TEXT", test->text, 1);
    if (d->safe_state) {
        const int rc = system(d->safe_state); /* NOLINT(cert-env33-c): it is what the user asks */
        if (rc != 0)
            tool_error("the command for the safe state %s %d: %s",
                       WIFEXITED(rc) ? "ended with exit code" : "was killed by signal",
                       WIFEXITED(rc) ? WEXITSTATUS(rc) : WTERMSIG(rc), d->safe_state);
    }
    return 0;
}

static int run_periodic(struct diagnose *d) {
    hf_diagnosis last;
    interrupt_watch();
    d->opts.cores = d->cores > 0 ? d->core : NULL;
    d->opts.core_count = d->cores;
    d->opts.report = on_report;
    d->opts.safe_state = on_unsafe;
    d->opts.waiting = on_wait;
    d->opts.user = d;
    const hf_status status = hf_diagnose(&d->opts, &last);
    if (status == HF_OK)
        return interrupt_seen() ? EXIT_INTERRUPTED : EXIT_DONE;
    if (last.number == 0)
        tool_error("%s", last.text);
    return status == HF_E_CORRUPT ? EXIT_CORRUPT : status == HF_E_ARG ? EXIT_USAGE : EXIT_NOT_RUN;
}

int cmd_diagnose(int argc, char **argv) {
    static struct diagnose d;
    tool_parse(&argp, argc, argv, &d);
    return d.file[0] ? diagnose_replicas(&d) : run_periodic(&d);
}
