/* SPDX-License-Identifier: Apache-2.0
 * Kernels that are made of calls of other ops: their steps are planned. */
#include "unit.h"

#include "core/plan.h"
#include "ops/lloyd/lloyd.h"
#include "ops/moments/moments.h"
#include "ops/range/range.h"

#include <string.h>

#define ROWS 200
#define COLS 9

static const float values[ROWS * COLS];
static const hf_array x = {(void *)(uintptr_t)values, HF_F32, ROWS, COLS, 0};

static const struct hf_kernel *row_named(int op, const char *name) {
    const struct hf_kernel *row = NULL;
    for (int i = 0; (row = hf_kernel_at(op, i)) != NULL; i++)
        if (strcmp(row->name, name) == 0)
            break;
    return row;
}

/* A kernel made of two others: of op range, and of op moments. */
static void two_steps(const struct hf_call *call, hf_step_fn *tell, void *user) {
    struct hf_range_args first = *(const struct hf_range_args *)call->args;
    struct hf_moments_args second = {.x = first.x};
    first.x.rows = 5;
    tell(user, HF_OP_RANGE, &first);
    tell(user, HF_OP_MOMENTS, &second);
}

static size_t sum_of_steps(const struct hf_call *call) {
    size_t bytes = 1;
    for (int i = 0; i < 2; i++)
        bytes += call->step[i] == row_named(HF_OP_RANGE, "range_ref") ? 1000 : 0;
    return bytes;
}

static const struct hf_kernel made_of_two = {.name = "made_of_two",
                                             .device = HF_DEV_HOST,
                                             .dtypes = HF_DT_DATA,
                                             .workspace = sum_of_steps,
                                             .steps = two_steps};

/* The plan, and what forces it, reach the steps of a kernel; one that cannot be planned is said
 * before anything runs. */
static void steps_are_planned(void **state) {
    (void)state;
    const hf_context_opts opts = {.device = "cpu"};
    hf_context *ctx = NULL;
    struct hf_call call;
    const struct hf_range_args args = {.x = x};
    struct hf_range_args first = args;
    const struct hf_moments_args second = {.x = x};
    const struct hf_kernel *want[2] = {NULL, NULL};
    first.x.rows = 5;
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
    assert_int_equal(hf_plan(ctx, HF_OP_RANGE, &first, &want[0], NULL), HF_OK);
    assert_int_equal(hf_plan(ctx, HF_OP_MOMENTS, &second, &want[1], NULL), HF_OK);
    assert_int_equal(hf_call_of(ctx, &made_of_two, &args, &call), HF_OK);
    assert_ptr_equal(call.step[0], want[0]);
    assert_ptr_equal(call.step[1], want[1]);
    assert_int_equal(setenv("HF_KERNEL_RANGE", "range_ref", 1), 0);
    assert_int_equal(hf_call_of(ctx, &made_of_two, &args, &call), HF_OK);
    assert_string_equal(call.step[0]->name, "range_ref");
    assert_int_equal(hf_kernel_workspace(ctx, &made_of_two, &args), 1001);
    const struct hf_call part = hf_call_part(&call, &second);
    assert_null(part.step[0]);
    assert_int_equal(setenv("HF_KERNEL_RANGE", "range_abacus", 1), 0);
    assert_int_equal(hf_call_of(ctx, &made_of_two, &args, &call), HF_E_ARG);
    assert_non_null(strstr(hf_last_error(ctx), "range_abacus"));
    assert_int_equal(hf_run_kernel(ctx, HF_OP_RANGE, &made_of_two, &args), HF_E_ARG);
    assert_int_equal(unsetenv("HF_KERNEL_RANGE"), 0);
    hf_context_destroy(ctx);
}

/* Each CUDA row of op assign, forced, is the step of op lloyd there. */
static void steps_of_lloyd(void **state) {
    (void)state;
    const hf_context_opts opts = {.device = "cuda"};
    hf_context *gpu = NULL;
    if (hf_context_create(&gpu, &opts) != HF_OK) {
        printf("skipped: %s\n", hf_last_error(NULL));
        skip();
        return;
    }
    const double zero = 0, none[COLS] = {0};
    float centers[3 * COLS] = {0};
    struct hf_sums sums = {.k = 3, .d = COLS, .limbs = 1, .bits = 30};
    struct hf_lloyd_args lloyd = {.x = x,
                                  .batch = 1,
                                  .exact = true,
                                  .rule = {HF_EUCLIDEAN, HF_F32, HF_F32, none, none},
                                  .count = 1,
                                  .tol = &zero,
                                  .slack = &zero,
                                  .sums = &sums,
                                  .current = centers};
    const struct hf_kernel *any = row_named(HF_OP_LLOYD, "lloyd_any_cuda"), *row = NULL;
    int forced = 0;
    for (int i = 0; (row = hf_kernel_at(HF_OP_ASSIGN, i)) != NULL; i++) {
        if (row->device != HF_DEV_CUDA || !(row->dtypes & HF_DT(HF_F32)) ||
            !hf_kernel_runs_here(row, NULL, 0))
            continue;
        struct hf_call call;
        assert_int_equal(setenv("HF_KERNEL_ASSIGN", row->name, 1), 0);
        assert_int_equal(hf_call_of(gpu, any, &lloyd, &call), HF_OK);
        assert_ptr_equal(call.step[0], row);
        forced++;
    }
    assert_int_equal(unsetenv("HF_KERNEL_ASSIGN"), 0);
    assert_true(forced >= 2);
    hf_context_destroy(gpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_planned),
        cmocka_unit_test(steps_of_lloyd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
