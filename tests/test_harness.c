/* SPDX-License-Identifier: Apache-2.0
 * Does the check catch what it is there for? An op of our own, a right row, and rows that are wrong
 * in one way each. */
#include "base/mem.h"
#include "device/host/isa.h"
#include "harness/harness.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const hf_context_opts on_cpu = {.device = "cpu"};

/* double: out[i] = 2 * x[i], and how many were done */
struct double_args {
    hf_array x; /* [n, 1] F32 */
    float *out; /* [n] */
    int64_t *done;
    int64_t *runs; /* state */
};

static void double_key(const void *args_, struct hf_key *key) {
    const struct double_args *args = args_;
    *key = (struct hf_key){.dtype = {args->x.dtype}, .dim = {args->x.rows}};
}

static void double_cost(const void *args_, double *flops, double *bytes) {
    const struct double_args *args = args_;
    *flops = (double)args->x.rows;
    *bytes = 8.0 * (double)args->x.rows;
}

static const struct hf_op double_op = {
    .name = "double",
    .args_size = sizeof(struct double_args),
    .type = {"x"},
    .dim = {"n"},
    .key = double_key,
    .cost = double_cost,
};

static const int64_t sizes[] = {1, 3, 64, 1000};

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    struct double_args *args = c->args;
    if (id >= (int64_t)(sizeof sizes / sizeof sizes[0]))
        return false;
    const int64_t n = sizes[id];
    float *x = hf_case_alloc(c, (size_t)n * sizeof *x, false);
    args->out = hf_case_alloc(c, (size_t)n * sizeof *x, true);
    args->done = hf_case_alloc(c, sizeof *args->done, true);
    args->runs = hf_case_alloc_state(c, sizeof *args->runs);
    if (c->failed)
        return false;
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)hf_rng_next_normal(rng);
    args->x = hf_array_view(x, HF_F32, n, 1);
    snprintf(c->name, sizeof c->name, "n=%d", (int)n);
    return true;
}

static const struct hf_op_cases double_cases = {.make_case = make_case};

enum fault {
    RIGHT,
    WRONG_LAST,      /* last value off by one unit in the last place */
    PAST_END,        /* writes one byte too many */
    BEFORE_START,    /* writes one byte too early */
    WRITES_INPUT,    /* changes its input */
    PAST_WORKSPACE,  /* writes one byte past what it asked for */
    READS_WORKSPACE, /* result depends on what was in the workspace */
    BY_WORKERS,      /* claims a fixed order, but counts workers */
    FORGETS_RESET,   /* adds to an output instead of starting from what it was */
    SPOILS_STATE,    /* right unless it meets what its last run left */
    REFUSES          /* returns a failure */
};

static int64_t calls;

static hf_status run(const struct hf_call *call, enum fault fault) {
    const struct double_args *args = call->args;
    char *ws = call->ws;
    const float *x = args->x.data;
    const int64_t n = args->x.rows;
    for (int64_t i = 0; i < n; i++)
        args->out[i] = 2 * x[i];
    *args->done += n;
    switch (fault) {
    case RIGHT:
        break;
    case WRONG_LAST:
        if (n > 100)
            ((char *)&args->out[n - 1])[0] ^= 1;
        break;
    case PAST_END:
        ((char *)(args->out + n))[0] ^= 1;
        break;
    case BEFORE_START:
        ((char *)args->out)[-1] ^= 1;
        break;
    case WRITES_INPUT:
        ((float *)args->x.data)[0] += 1;
        break;
    case PAST_WORKSPACE:
        ws[8] ^= 1;
        break;
    case READS_WORKSPACE:
        args->out[0] += (float)ws[0];
        break;
    case BY_WORKERS:
        *args->done += hf_pool_workers(call->stream) - 1;
        break;
    case FORGETS_RESET:
        calls += n;
        *args->done = calls;
        break;
    case SPOILS_STATE:
        args->out[0] += (float)*args->runs;
        (*args->runs)++;
        break;
    case REFUSES:
        return HF_E_UNSUPPORTED;
    }
    return HF_OK;
}

static size_t eight_bytes(const struct hf_call *call) {
    (void)call;
    return 8;
}

#define RUNNER(name, fault)                                                                        \
    static hf_status run_##name(const struct hf_call *call) { return run(call, fault); }
RUNNER(right, RIGHT)
RUNNER(wrong_last, WRONG_LAST)
RUNNER(past_end, PAST_END)
RUNNER(before_start, BEFORE_START)
RUNNER(writes_input, WRITES_INPUT)
RUNNER(past_workspace, PAST_WORKSPACE)
RUNNER(reads_workspace, READS_WORKSPACE)
RUNNER(by_workers, BY_WORKERS)
RUNNER(forgets_reset, FORGETS_RESET)
RUNNER(spoils_state, SPOILS_STATE)
RUNNER(refuses, REFUSES)
#undef RUNNER

static bool never(const struct hf_call *call) {
    (void)call;
    return false;
}

static const struct hf_kernel reference = {.name = "double_ref",
                                           .device = HF_DEV_HOST,
                                           .dtypes = HF_DT(HF_F32),
                                           .isa = HF_ISA_ID_scalar,
                                           .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                           .run = run_right};

struct seen {
    int case_failures;
    hf_dev_verdict verdict;
    char text[256]; /* of the first failure, else of the verdict */
};

static void note(void *user, const hf_dev_check_event *event) {
    struct seen *seen = user;
    if (strcmp(event->kernel, "double_test") != 0)
        return;
    if (event->case_name)
        seen->case_failures++;
    else
        seen->verdict = event->verdict;
    if (!seen->text[0])
        snprintf(seen->text, sizeof seen->text, "%s", event->text);
}

static struct seen check(struct hf_kernel row, hf_dev_tally *tally) {
    struct seen seen = {0, HF_DEV_SKIPPED, ""};
    row.name = "double_test";
    row.dtypes = HF_DT(HF_F32);
    const struct hf_kernel *rows[] = {&reference, &row};
    const struct hf_subject subject = {&double_op, &double_cases, rows, 2};
    const hf_dev_check_opts opts = {.seed = 1};
    *tally = (hf_dev_tally){0};
    assert_int_equal(hf_check_subject(&subject, &opts, note, &seen, tally), HF_OK);
    return seen;
}

static void expect_caught(struct hf_kernel row, int failing_cases, const char *words) {
    hf_dev_tally tally;
    const struct seen seen = check(row, &tally);
    if (!strstr(seen.text, words))
        fail_msg("expected \"%s\", got \"%s\"", words, seen.text);
    assert_int_equal(seen.verdict, HF_DEV_FAILED);
    assert_int_equal(seen.case_failures, failing_cases);
    assert_int_equal(tally.failed, 1);
    assert_int_equal(tally.passed, 1);
}

struct part {
    int64_t cases;
    int skipped;
};

static void add_cases(void *user, const hf_dev_check_event *event) {
    struct part *part = user;
    if (strcmp(event->kernel, "double_test") != 0)
        return;
    part->cases += event->cases;
    part->skipped += event->verdict == HF_DEV_SKIPPED;
}

static void right_row_passes(void **state) {
    (void)state;
    hf_dev_tally tally;
    const struct hf_kernel row = {
        .traits = HF_TRAIT_FIXED_ORDER, .workspace = eight_bytes, .run = run_right};
    const struct seen seen = check(row, &tally);
    assert_int_equal(seen.verdict, HF_DEV_PASSED);
    assert_int_equal(tally.passed, 2);
    assert_int_equal(tally.failed, 0);
}

/* Shares of the cases add up to all of them; a part without a case of a row does not fail it. */
static void shares_add_up(void **state) {
    (void)state;
    const struct hf_kernel row = {
        .name = "double_test", .dtypes = HF_DT(HF_F32), .workspace = eight_bytes, .run = run_right};
    const struct hf_kernel *rows[] = {&reference, &row};
    const struct hf_subject subject = {&double_op, &double_cases, rows, 2};
    struct part all = {0}, parts = {0};
    hf_dev_tally tally = {0};
    hf_dev_check_opts opts = {.seed = 1, .once = 1};
    assert_int_equal(hf_check_subject(&subject, &opts, add_cases, &all, &tally), HF_OK);
    for (int share = 0; share < 50; share++) {
        opts.share = share;
        opts.shares = 50;
        opts.leave_workspace = share % 2;
        assert_int_equal(hf_check_subject(&subject, &opts, add_cases, &parts, &tally), HF_OK);
    }
    assert_true(all.cases > 0 && all.skipped == 0 && parts.skipped > 0);
    assert_int_equal(parts.cases, all.cases);
    assert_int_equal(tally.failed, 0);
}

static void wrong_bit_is_caught(void **state) {
    (void)state;
    expect_caught((struct hf_kernel){.run = run_wrong_last}, 1, "differs at byte 3996 of 4000");
}

/* With AddressSanitizer the write itself ends the program, so there is nothing to be counted. */
#if !defined(__SANITIZE_ADDRESS__)
static void writes_out_of_bounds_are_caught(void **state) {
    (void)state;
    expect_caught((struct hf_kernel){.run = run_past_end}, 4, "0 bytes past its end");
    expect_caught((struct hf_kernel){.run = run_before_start}, 4, "1 bytes before it");
    expect_caught((struct hf_kernel){.run = run_past_workspace, .workspace = eight_bytes}, 4,
                  "past the end of its workspace");
}
#endif

static void changed_input_is_caught(void **state) {
    (void)state;
    expect_caught((struct hf_kernel){.run = run_writes_input}, 4, "wrote to an input");
}

static void stale_workspace_is_caught(void **state) {
    (void)state;
    expect_caught((struct hf_kernel){.run = run_reads_workspace, .workspace = eight_bytes}, 4,
                  "output 0 differs");
}

static void dependence_on_workers_is_caught(void **state) {
    (void)state;
    expect_caught((struct hf_kernel){.run = run_by_workers, .traits = HF_TRAIT_FIXED_ORDER}, 4,
                  "2 workers");
}

static void forgotten_reset_is_caught(void **state) {
    (void)state;
    calls = 0;
    expect_caught((struct hf_kernel){.run = run_forgets_reset}, 4, "output 1 differs");
}

static void spoilt_state_is_caught(void **state) {
    (void)state;
    expect_caught((struct hf_kernel){.run = run_spoils_state}, 4, "output 0 differs");
}

static void failing_row_is_caught(void **state) {
    (void)state;
    expect_caught((struct hf_kernel){.run = run_refuses}, 4, "returned");
}

static void untested_row_is_a_failure(void **state) {
    (void)state;
    expect_caught((struct hf_kernel){.run = run_right, .supports = never}, 0, "not tested");
}

static void row_of_a_missing_set_is_skipped(void **state) {
    (void)state;
    char why[160];
    hf_dev_tally tally;
    struct hf_kernel row = {.run = run_refuses, .isa = HF_ISA_COUNT - 1, .dtypes = HF_DT(HF_F32)};
    if (hf_kernel_runs_here(&row, why, sizeof why))
        skip();
    const struct seen seen = check(row, &tally);
    assert_int_equal(seen.verdict, HF_DEV_SKIPPED);
    assert_true(seen.text[0] != '\0');
    assert_int_equal(tally.skipped, 1);
}

static void unknown_names_are_refused(void **state) {
    (void)state;
    hf_dev_tally tally;
    const hf_dev_check_opts no_op = {.op = "nonsense"};
    const hf_dev_check_opts no_row = {.kernel = "nonsense"};
    assert_int_equal(hf_dev_check(&no_op, NULL, NULL, &tally), HF_E_ARG);
    assert_int_equal(hf_dev_check(&no_row, NULL, NULL, &tally), HF_E_ARG);
}

static void count_candidates(void *user, const hf_dev_candidate *candidate) {
    int *counts = user;
    counts[0]++;
    counts[1] += candidate->chosen;
    assert_true(candidate->why[0] != '\0');
}

static void plans_are_explained(void **state) {
    (void)state;
    hf_context *ctx;
    const hf_dev_shape shape = {
        {HF_F32}, {(int64_t)1 << 40, 64, 16}, 0}; /* nothing of that size is made */
    hf_dev_choice choice = {NULL, NULL};
    int counts[2] = {0, 0};
    assert_int_equal(hf_context_create(&ctx, &on_cpu), HF_OK);
    assert_int_equal(hf_dev_plan(ctx, "assign", &shape, &choice, count_candidates, counts), HF_OK);
    assert_non_null(choice.kernel);
    assert_non_null(choice.source);
    assert_true(counts[0] >= 2);
    assert_int_equal(counts[1], 1);
    assert_int_equal(hf_dev_plan(ctx, "nonsense", &shape, NULL, NULL, NULL), HF_E_ARG);
    assert_true(strstr(hf_last_error(ctx), "nonsense") != NULL);
    hf_context_destroy(ctx);
}

struct timings {
    hf_dev_timing first;
    int count;
};

static void keep_timing(void *user, const hf_dev_timing *timing) {
    struct timings *timings = user;
    assert_true(timing->median_s > 0 && timing->min_s <= timing->median_s);
    assert_true(timing->median_s <= timing->max_s && timing->flops > 0);
    if (timings->count++ == 0)
        timings->first = *timing;
}

/* Rows are timed, the fastest goes into a tuning file, and a fresh context plans by it. */
static void tuned_rows_are_planned(void **state) {
    (void)state;
    const char *path = HF_TEST_BUILD "/test_harness.tune";
    const hf_dev_shape shape = {{HF_F32}, {3000, 20, 10}, 0};
    const hf_dev_time_opts opts = {.kernel = "all", .rounds = 3, .checked_only = 1};
    struct timings timings = {.count = 0};
    hf_dev_choice choice = {NULL, NULL};
    hf_context *ctx;
    remove(path);
    setenv("HF_TUNE_FILE", path, 1);
    assert_int_equal(hf_context_create(&ctx, &on_cpu), HF_OK);
    const hf_status timed = hf_dev_time(ctx, "assign", &shape, &opts, keep_timing, &timings);
    if (timed == HF_E_UNSUPPORTED) { /* no row but the reference runs here */
        hf_context_destroy(ctx);
        skip();
    }
    assert_int_equal(timed, HF_OK);
    assert_true(timings.count >= 1);
    assert_memory_equal(&timings.first.shape, &shape, sizeof shape);
    assert_int_equal(hf_dev_tune_write(ctx, path, &timings.first, 1), HF_OK);
    assert_int_equal(hf_dev_tune_write(ctx, path, &timings.first, 1), HF_OK); /* replaces */
    hf_context_destroy(ctx);
    assert_int_equal(hf_context_create(&ctx, &on_cpu), HF_OK);
    assert_int_equal(hf_dev_plan(ctx, "assign", &shape, &choice, NULL, NULL), HF_OK);
    assert_string_equal(choice.kernel, timings.first.kernel);
    assert_string_equal(choice.source, "tuned");
    hf_context_destroy(ctx);
    unsetenv("HF_TUNE_FILE");
    remove(path);
}

static void ceilings_are_measured(void **state) {
    (void)state;
    hf_context *ctx;
    hf_dev_ceiling ceiling;
    hf_dev_isa isa;
    assert_int_equal(hf_context_create(&ctx, &on_cpu), HF_OK);
    assert_int_equal(hf_dev_measure_ceiling(ctx, &ceiling), HF_OK);
    for (int i = 0; hf_dev_isa_at(i, &isa) && i < HF_DEV_MAX_ISAS; i++)
        assert_true(isa.runnable ? ceiling.fma_f32[i] > 1e6 : ceiling.fma_f32[i] == 0);
    assert_true(ceiling.read_bytes > 1e6);
    hf_context_destroy(ctx);
}

static void ceilings_are_of_cpus(void **state) {
    (void)state;
    hf_context *ctx;
    hf_dev_ceiling ceiling;
    const hf_context_opts opts = {.device = "cuda"};
    if (hf_context_create(&ctx, &opts) != HF_OK) {
        print_message("skipped: %s\n", hf_last_error(NULL));
        skip();
    }
    assert_int_equal(hf_dev_measure_ceiling(ctx, &ceiling), HF_OK);
    for (int i = 0; i < HF_DEV_MAX_ISAS; i++)
        assert_true(ceiling.fma_f32[i] == 0);
    assert_true(ceiling.amx_bf16 == 0 && ceiling.read_bytes == 0);
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_row_passes),
        cmocka_unit_test(shares_add_up),
        cmocka_unit_test(wrong_bit_is_caught),
#if !defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(writes_out_of_bounds_are_caught),
#endif
        cmocka_unit_test(changed_input_is_caught),
        cmocka_unit_test(stale_workspace_is_caught),
        cmocka_unit_test(dependence_on_workers_is_caught),
        cmocka_unit_test(forgotten_reset_is_caught),
        cmocka_unit_test(spoilt_state_is_caught),
        cmocka_unit_test(failing_row_is_caught),
        cmocka_unit_test(untested_row_is_a_failure),
        cmocka_unit_test(row_of_a_missing_set_is_skipped),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(plans_are_explained),
        cmocka_unit_test(tuned_rows_are_planned),
        cmocka_unit_test(ceilings_are_measured),
        cmocka_unit_test(ceilings_are_of_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
