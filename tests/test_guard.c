/* SPDX-License-Identifier: Apache-2.0
 * The guard slot: what a kernel tells there fails hf_verify() with its name and the place, once,
 * and ends fits. Kernels of our own, on the CPU and, where there is one, on a GPU. */
#include "base/mem.h"
#include "core/kernel.h"
#include "core/run.h"
#include "device/host/isa.h"
#include "ops/gather/gather.h"
#include "slot_toy.h"
#include <holdfast/holdfast.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define GRAIN 8

static hf_context *open_on(const char *device) {
    const hf_context_opts opts = {.device = device, .threads = 3};
    hf_context *ctx = NULL;
    return hf_context_create(&ctx, &opts) == HF_OK ? ctx : NULL;
}

/* ---- a kernel of the host */

static void look(void *user, int worker, int64_t begin, int64_t end) {
    const struct hf_call *call = user;
    const struct toy_args *toy = call->args;
    struct hf_slot *slot = call->slot;
    __atomic_add_fetch(&slot->checked, (uint64_t)(end - begin), __ATOMIC_RELAXED);
    for (int64_t i = begin; i < end; i++)
        if (i == toy->wrong || toy->all_wrong) {
            const struct hf_finding finding = {HF_FAULT_CHECK, call->kernel, worker, toy->column,
                                               i};
            hf_slot_tell(slot, &finding);
            __atomic_add_fetch(&slot->suspected, 1, __ATOMIC_RELAXED);
        }
}

static hf_status toy_run(const struct hf_call *call) {
    const struct toy_args *toy = call->args;
    hf_parallel_for(call->stream, toy->n, GRAIN, look, (void *)(uintptr_t)call);
    return HF_OK;
}

static const struct hf_kernel toy_host = {
    .name = "toy_host", .device = HF_DEV_HOST, .dtypes = HF_DT_DATA, .run = toy_run};

/* The same from within a call: its findings are those of the kernel that asked. */
static hf_status outer_run(const struct hf_call *call) {
    return hf_run_part(call, &toy_host, call->args, NULL);
}

static const struct hf_kernel toy_outer = {
    .name = "toy_outer", .device = HF_DEV_HOST, .dtypes = HF_DT_DATA, .run = outer_run};

/* ---- */

static void run_toy(hf_context *ctx, const struct hf_kernel *kernel, const struct toy_args *toy) {
    assert_int_equal(hf_run_kernel(ctx, HF_OP_GATHER, kernel, toy), HF_OK);
}

static void expect_told(hf_context *ctx, const char *kernel, const char *place) {
    assert_int_equal(hf_verify(ctx), HF_E_CORRUPT);
    const char *said = hf_last_error(ctx);
    if (!strstr(said, kernel) || !strstr(said, place) || !strstr(said, "own arithmetic"))
        fail_msg("expected \"%s\" and \"%s\" in \"%s\"", kernel, place, said);
}

static struct hf_slot slot_of(hf_context *ctx) {
    struct hf_slot slot;
    assert_int_equal(hf_ctx_copy(ctx, &slot, ctx->guard.slot, sizeof slot), HF_OK);
    return slot;
}

/* Nothing is told, one row is, all are; a finding is told once, and then the slot is empty. */
static void kernel_tells(hf_context *ctx, const struct hf_kernel *kernel, const char *unit) {
    const struct toy_args right = {.n = 1000, .wrong = -1, .column = 3};
    const struct toy_args wrong = {.n = 1000, .wrong = 777, .column = 3};
    const struct toy_args unplaced = {.n = 1000, .wrong = 5, .column = -1};
    run_toy(ctx, kernel, &right);
    assert_int_equal(hf_verify(ctx), HF_OK);
    assert_int_equal(slot_of(ctx).checked, 1000);
    run_toy(ctx, kernel, &wrong);
    assert_int_equal(slot_of(ctx).checked, 2000);
    assert_int_equal(slot_of(ctx).suspected, 1);
    char place[80];
    snprintf(place, sizeof place, "in row 777, column 3 on %s ", unit);
    expect_told(ctx, kernel->name, place);
    assert_int_equal(hf_verify(ctx), HF_OK);
    assert_int_equal(slot_of(ctx).checked, 0);
    run_toy(ctx, kernel, &unplaced);
    snprintf(place, sizeof place, "in row 5 on %s ", unit);
    expect_told(ctx, kernel->name, place);
    const struct toy_args all = {.n = 100000, .all_wrong = true, .wrong = -1, .column = 0};
    run_toy(ctx, kernel, &all);
    run_toy(ctx, kernel, &right);
    assert_int_equal(slot_of(ctx).suspected, all.n);
    expect_told(ctx, kernel->name, "in row ");
}

static void host_kernel_tells(void **state) {
    (void)state;
    hf_context *ctx = open_on("cpu");
    assert_non_null(ctx);
    kernel_tells(ctx, &toy_host, "worker");
    hf_context_destroy(ctx);
}

static void gpu_kernel_tells(void **state) {
    (void)state;
    hf_context *ctx = hf_toy_cuda ? open_on("cuda") : NULL;
    if (!ctx) {
        printf("skipped: %s\n", hf_toy_cuda ? hf_last_error(NULL) : "CUDA was left out");
        skip();
        return;
    }
    kernel_tells(ctx, hf_toy_cuda, "multiprocessor");
    hf_context_destroy(ctx);
}

/* Who told, among several kernels; a part of a call tells for the whole. */
static void names(void **state) {
    (void)state;
    hf_context *ctx = open_on("cpu");
    const struct toy_args right = {.n = 10, .wrong = -1}, wrong = {.n = 10, .wrong = 9};
    assert_non_null(ctx);
    run_toy(ctx, &toy_host, &right);
    run_toy(ctx, &toy_outer, &wrong);
    run_toy(ctx, &toy_host, &wrong);
    expect_told(ctx, "kernel toy_outer:", "in row 9");
    struct hf_kernel many[HF_GUARD_KERNELS + 1]; /* more than it can know */
    for (int i = 0; i <= HF_GUARD_KERNELS; i++) {
        many[i] = toy_host;
        run_toy(ctx, &many[i], &right);
    }
    run_toy(ctx, &many[HF_GUARD_KERNELS], &wrong);
    expect_told(ctx, "kernel (unknown)", "in row 9");
    hf_context_destroy(ctx);
}

/* A fit on a context where a kernel has told something fails at its first look, and the next one is
 * as if nothing had been. */
static void fit_fails(void **state) {
    (void)state;
    hf_context *ctx = open_on("auto");
    const struct hf_kernel *toy = ctx && hf_ctx_is_host(ctx) ? &toy_host : hf_toy_cuda;
    assert_non_null(ctx);
    assert_non_null(toy);
    float rows[600];
    for (int i = 0; i < 600; i++)
        rows[i] = (float)(i % 7) + (float)(i % 11) / 16;
    const hf_array x = hf_array_view(rows, HF_F32, 300, 2);
    const hf_kmeans_opts opts = {.k = 5, .seed = 1};
    hf_kmeans_result fit[2] = {{0}, {0}};
    const struct toy_args wrong = {.n = 10, .wrong = 4};
    assert_int_equal(hf_kmeans_fit(ctx, &x, &opts, &fit[0]), HF_OK);
    run_toy(ctx, toy, &wrong);
    const hf_kmeans_opts detect = {.k = 5, .seed = 1, .guard = HF_GUARD_DETECT};
    assert_int_equal(hf_kmeans_fit(ctx, &x, &detect, &fit[1]), HF_E_CORRUPT);
    assert_non_null(strstr(hf_last_error(ctx), toy->name));
    assert_int_equal(hf_kmeans_fit(ctx, &x, &opts, &fit[1]), HF_OK);
    assert_memory_equal(fit[0].labels, fit[1].labels, 300 * sizeof(int32_t));
    hf_kmeans_result_clear(&fit[0]);
    hf_kmeans_result_clear(&fit[1]);
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_kernel_tells),
        cmocka_unit_test(gpu_kernel_tells),
        cmocka_unit_test(names),
        cmocka_unit_test(fit_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
