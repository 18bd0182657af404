/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/mem.h"
#include "base/parallel.h"
#include "comm/comm.h"
#include "core/array.h"
#include "core/context.h"
#include "device/device.h"
#include "guard/guard.h"

#include <holdfast/kmeans.h>

#include <pthread.h>
#include <string.h>

static void assert_says(const char *text, const char *a, const char *b) {
    if (strstr(text, a) == NULL || strstr(text, b) == NULL)
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", text, a, b);
}

/* Is it a device that "auto" may stand for here? A GPU where there is one. */
static bool is_auto(const char *name) {
    int index = -1;
    return hf_device_find(name, &index) == hf_device_find("auto", &index);
}

static void defaults(void **state) {
    (void)state;
    hf_context *ctx = NULL;
    assert_int_equal(hf_context_create(&ctx, NULL), HF_OK);
    assert_string_equal(hf_last_error(NULL), "");
    assert_string_equal(hf_last_error(ctx), "");
    assert_true(is_auto(hf_context_device(ctx)));
    assert_int_equal(hf_context_threads(ctx), hf_usable_cores());
    assert_true(hf_context_memory(ctx) >= 1 << 20);
    hf_context_destroy(ctx);
    hf_context_destroy(NULL);
}

static void options(void **state) {
    (void)state;
    static const char *const names[] = {"cpu", "auto"};
    for (int i = 0; i < 2; i++) {
        const hf_context_opts opts = {names[i], 3, (uint64_t)5 << 20, NULL};
        hf_context *ctx = NULL;
        assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
        assert_true(i == 1 ? is_auto(hf_context_device(ctx))
                           : strcmp(hf_context_device(ctx), "cpu") == 0);
        assert_int_equal(hf_context_threads(ctx), 3);
        if (ctx->device->id == HF_DEV_HOST)
            assert_int_equal(ctx->props.workers, 3);
        assert_int_equal(hf_context_memory(ctx), (uint64_t)5 << 20);
        hf_context_destroy(ctx);
    }
}

static void bad_options(void **state) {
    (void)state;
    static const struct {
        hf_context_opts opts;
        const char *a, *b;
    } bad[] = {
        {{"cpu", -1, 0, NULL}, "threads is -1", "1 to 1024"},
        {{"cpu", 1025, 0, NULL}, "threads is 1025", "1 to 1024"},
        {{"abacus", 0, 0, NULL}, "'abacus'", "holdfast info"},
        {{"", 0, 0, NULL}, "''", "holdfast info"},
        {{"cpu", 0, 1000, NULL}, "memory_bytes is 1000", "at least 1048576"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        hf_context *ctx = (hf_context *)&ctx;
        assert_int_equal(hf_context_create(&ctx, &bad[i].opts), HF_E_ARG);
        assert_null(ctx);
        assert_says(hf_last_error(NULL), bad[i].a, bad[i].b);
    }
    assert_int_equal(hf_context_create(NULL, NULL), HF_E_ARG);
    assert_says(hf_last_error(NULL), "ctx", "NULL");
    assert_int_equal(setenv("HF_ISA_MAX", "avx9", 1), 0);
    hf_context *ctx = NULL;
    assert_int_equal(hf_context_create(&ctx, NULL), HF_E_ARG);
    assert_says(hf_last_error(NULL), "HF_ISA_MAX=avx9", "holdfast info");
    assert_int_equal(setenv("HF_ISA_MAX", "", 1), 0); /* as if it were not set */
    assert_int_equal(hf_context_create(&ctx, NULL), HF_OK);
    hf_context_destroy(ctx);
    assert_int_equal(unsetenv("HF_ISA_MAX"), 0);
}

static void *fail_elsewhere(void *arg) {
    const hf_context_opts opts = {.device = "abacus"};
    hf_context *ctx = NULL;
    (void)hf_context_create(&ctx, &opts);
    *(int *)arg = strstr(hf_last_error(NULL), "abacus") != NULL;
    return NULL;
}

/* What another thread did wrong does not show here. */
static void errors_belong_to_threads(void **state) {
    (void)state;
    hf_context *ctx = NULL;
    int told = 0;
    pthread_t thread;
    assert_int_equal(hf_context_create(&ctx, NULL), HF_OK);
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &told), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(told, 1);
    assert_string_equal(hf_last_error(NULL), "");
    hf_context_destroy(ctx);
}

static void workspace(void **state) {
    (void)state;
    const hf_context_opts opts = {"cpu", 1, (uint64_t)2 << 20, NULL};
    hf_context *ctx = NULL;
    void *a = NULL, *b = NULL;
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
    assert_int_equal(hf_workspace(ctx, 1000, &a), HF_OK);
    assert_int_equal((uintptr_t)a % HF_ALIGN, 0);
    memset(a, 1, 1000);
    assert_int_equal(hf_workspace(ctx, 500, &b), HF_OK);
    assert_ptr_equal(a, b);
    assert_int_equal(hf_workspace(ctx, (size_t)2 << 20, &b), HF_OK);
    memset(b, 1, (size_t)2 << 20);
    assert_int_equal(ctx->workspace_peak, (size_t)2 << 20);
    a = b;
    assert_int_equal(hf_workspace(ctx, ((size_t)2 << 20) + 1, &b), HF_E_NOMEM);
    assert_says(hf_last_error(ctx), "2097153 bytes", "2097152");
    assert_int_equal(hf_workspace(ctx, 10, &b), HF_OK);
    assert_ptr_equal(a, b);
    hf_workspace_trim(ctx, (size_t)2 << 20);
    assert_int_equal(ctx->workspace_bytes, (size_t)2 << 20);
    hf_workspace_trim(ctx, 1000);
    assert_int_equal(ctx->workspace_peak, 0);
    ctx->held_bytes = ((uint64_t)2 << 20) - 1000; /* what a call holds is not there for kernels */
    assert_int_equal(hf_workspace(ctx, 1001, &b), HF_E_NOMEM);
    assert_says(hf_last_error(ctx), "1001 bytes of workspace beside 2096152", "2097152");
    assert_int_equal(hf_workspace(ctx, 1000, &b), HF_OK);
    hf_context_destroy(ctx);
}

static void arrays(void **state) {
    (void)state;
    float x[12] = {0};
    hf_error err = {""};
    hf_array a = hf_array_view(x, HF_F32, 3, 4);
    assert_int_equal(hf_array_check(&a, "x", &err), HF_OK);
    assert_ptr_equal(hf_array_row(&a, 2), x + 8);
    a.row_stride = 0;
    assert_int_equal(hf_array_check(&a, "x", &err), HF_OK);
    assert_int_equal(hf_array_stride(&a), 4);
    const hf_array slice = hf_array_slice(&a, 1, 2);
    assert_ptr_equal(slice.data, x + 4);
    assert_int_equal(slice.rows, 2);
    assert_int_equal(slice.cols, 4);
    const struct {
        hf_array a;
        const char *says;
    } bad[] = {
        {{NULL, HF_F32, 3, 4, 4}, "NULL"},
        {{&err, HF_DTYPE_NONE, 3, 4, 4}, "dtype 0"},
        {{&err, (hf_dtype)8, 3, 4, 4}, "dtype 8"},
        {{&err, HF_F32, 0, 4, 4}, "0 x 4"},
        {{&err, HF_F32, 3, -1, 4}, "3 x -1"},
        {{&err, HF_F32, 3, 4, 3}, "row_stride of 3"},
        {{&err, HF_F32, 3, 4, -4}, "row_stride of -4"},
        {{&err, HF_F32, INT64_MAX, 4, 4}, "more bytes"},
        {{&err, HF_F64, (int64_t)1 << 30, 4, (int64_t)1 << 30}, "more bytes"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(hf_array_check(&bad[i].a, "weights", &err), HF_E_ARG);
        assert_says(err.text, "weights", bad[i].says);
    }
    assert_int_equal(hf_array_check(NULL, "weights", &err), HF_E_ARG);
}

static void devices(void **state) {
    (void)state;
    int count = 0;
    int index = -1;
    for (const struct hf_device *d = hf_device_at(0); d != NULL; d = hf_device_at(++count)) {
        char text[200] = "";
        assert_ptr_equal(hf_device_find(d->name, &index), d);
        assert_int_equal(index, 0);
        assert_ptr_equal(hf_device_of(d->id), d);
        (void)d->probe(0, text, sizeof text);
        assert_true(strlen(text) > 0);
        assert_int_equal(d->probe(d->count(), text, sizeof text), HF_E_UNSUPPORTED);
    }
    assert_true(count >= 1);
    assert_null(hf_device_at(-1));
    const struct hf_device *cpu = hf_device_find("cpu", &index);
    assert_ptr_equal(hf_device_find("cpu:3", &index), cpu);
    assert_int_equal(index, 3);
    assert_null(hf_device_find("cpu:", &index));
    assert_null(hf_device_find("cpu:1x", &index));
    assert_null(hf_device_find("gpu", &index));
}

/* A single byte among many is found, wherever it is. */
static void find_bytes(const struct hf_device *d, void *stream) {
    const size_t bytes = (size_t)3 << 20;
    const size_t at[] = {0, 7, 4096, bytes - 1};
    bool zero = false;
    char *p = d->alloc(stream, bytes);
    assert_non_null(p);
    assert_int_equal(d->fill(stream, p, 0, bytes), HF_OK);
    assert_int_equal(d->is_zero(stream, p, bytes, &zero), HF_OK);
    assert_true(zero);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(d->fill(stream, p + at[i], 1 << i, 1), HF_OK);
        assert_int_equal(d->is_zero(stream, p, bytes, &zero), HF_OK);
        assert_false(zero);
        assert_int_equal(d->fill(stream, p + at[i], 0, 1), HF_OK);
    }
    assert_int_equal(d->is_zero(stream, p, 0, &zero), HF_OK);
    assert_true(zero);
    d->release(stream, p);
}

/* So is a number out of range, too large or below 0. */
static void find_numbers(const struct hf_device *d, void *stream) {
    const size_t count = (size_t)700 << 10;
    const size_t at[] = {0, 999, count - 1};
    int32_t here = 0;
    int32_t *p = d->alloc(stream, count * sizeof *p);
    assert_non_null(p);
    assert_int_equal(d->fill(stream, p, 1, count * sizeof *p), HF_OK);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(d->start_below(stream, p, count, 0x01010102), HF_OK);
        assert_int_equal(d->sync(stream), HF_OK);
        assert_true(d->end_below(stream));
        assert_int_equal(d->fill(stream, p + at[i % 3], i < 3 ? 2 : 0xff, sizeof *p), HF_OK);
        assert_int_equal(d->start_below(stream, p, count, 0x01010102), HF_OK);
        assert_int_equal(d->sync(stream), HF_OK);
        assert_false(d->end_below(stream));
        assert_int_equal(d->start_fetch(stream, &here, p + at[i % 3], sizeof here), HF_OK);
        assert_int_equal(d->end_fetch(stream), HF_OK);
        assert_int_equal(here, i < 3 ? 0x02020202 : -1);
        assert_int_equal(d->fill(stream, p + at[i % 3], 1, sizeof *p), HF_OK);
    }
    d->release(stream, p);
}

/* Rows have been read when copy_rows() returns: what the host writes there then goes nowhere. */
static void overwrite_rows(const struct hf_device *d, void *stream) {
    const size_t row = 1024, bytes = (size_t)12 << 20;
    char *from = malloc(bytes), *p = d->alloc(stream, bytes);
    assert_true(from != NULL && p != NULL);
    for (int turn = 1; turn < 4; turn++) {
        memset(from, turn, bytes);
        const struct hf_row_copy rows = {p, from, row, row, row, (int64_t)(bytes / row)};
        assert_int_equal(d->copy_rows(stream, &rows), HF_OK);
        memset(from, 9, bytes);
        assert_int_equal(d->copy(stream, from, p, bytes), HF_OK);
        for (size_t i = 0; i < bytes; i++)
            assert_true(from[i] == turn);
    }
    d->release(stream, p);
    free(from);
}

/* Pieces of any size and place go there and back, and nothing beside them changes. */
static void copy_pieces(const struct hf_device *d, void *stream) {
    static const size_t sizes[] = {1, 7, 12, 16, 4096, 65537, 262144, 262145, 300000};
    const size_t room = 300200;
    char *here = malloc(room), *back = malloc(room), *p = d->alloc(stream, room);
    assert_true(here != NULL && back != NULL && p != NULL);
    for (size_t i = 0; i < room; i++)
        here[i] = (char)(i * 131 >> 3);
    for (size_t at = 0; at < 36; at++) {
        const size_t bytes = sizes[at % 9], from = at % 4 == 0 ? 16 : at;
        assert_int_equal(d->fill(stream, p, 77, room), HF_OK);
        memset(back, 55, room);
        assert_int_equal(d->copy(stream, p + from, here + 3 * at, bytes), HF_OK);
        assert_int_equal(d->copy(stream, back + at, p + from - 1, bytes + 2), HF_OK);
        assert_true(back[at] == 77 && back[at + bytes + 1] == 77 && back[at + bytes + 2] == 55);
        assert_memory_equal(back + at + 1, here + 3 * at, bytes);
    }
    d->release(stream, p);
    free(here);
    free(back);
}

/* Each backend that is there holds, copies and fills memory alike. */
static void memory_of_devices(void **state) {
    (void)state;
    const struct hf_device_opts opts = {.threads = 2};
    const struct hf_device *d = NULL;
    for (int i = 0; (d = hf_device_at(i)) != NULL; i++) {
        char text[200] = "";
        char back[17] = "";
        hf_error err = {""};
        void *stream = NULL;
        if (d->count() == 0 || d->probe(0, text, sizeof text) != HF_OK) {
            printf("skipped: %s: %s\n", d->name, text);
            continue;
        }
        assert_int_equal(d->open(&opts, &stream, &err), HF_OK);
        char *p = d->alloc(stream, 100);
        assert_int_equal(d->copy(stream, p, "text", 5), HF_OK);
        assert_int_equal(d->fill(stream, p, 7, 3), HF_OK);
        const struct hf_row_copy rows = {p + 10, p, 2, 1, 1, 4};
        assert_int_equal(d->copy_rows(stream, &rows), HF_OK);
        assert_int_equal(d->sync(stream), HF_OK);
        assert_int_equal(d->copy(stream, back, p, sizeof back), HF_OK);
        assert_true(back[0] == 7 && back[2] == 7 && back[3] == 't' && back[4] == 0);
        assert_true(back[10] == 7 && back[16] == 't');
        assert_int_equal(d->owns(stream, p), d->id != HF_DEV_HOST);
        d->release(stream, p);
        find_bytes(d, stream);
        find_numbers(d, stream);
        copy_pieces(d, stream);
        overwrite_rows(d, stream);
        d->close(stream);
    }
}

/* A scan and a gather, on memory of the host and of the device. */
static void sum_and_gather(const hf_comm *comm, void *stream) {
    const struct hf_device *d = comm->device;
    int64_t rows[2] = {7, 8}, all[2] = {0, 0};
    int64_t *there = d->alloc(stream, sizeof rows), *gathered = d->alloc(stream, sizeof rows);
    assert_true(there != NULL && gathered != NULL);
    assert_int_equal(d->copy(stream, there, rows, sizeof rows), HF_OK);
    assert_int_equal(comm->gather(comm, stream, there, sizeof rows, gathered, 0), HF_OK);
    assert_int_equal(comm->scan(comm, stream, there, 2), HF_OK);
    assert_int_equal(comm->gather(comm, stream, gathered, sizeof rows, all, 0), HF_OK);
    assert_true(all[0] == 7 && all[1] == 8);
    assert_int_equal(comm->gather(comm, stream, there, sizeof rows, all, 0), HF_OK);
    assert_true(all[0] == 0 && all[1] == 0);
    assert_int_equal(comm->scan(comm, stream, rows, 1), HF_OK);
    assert_true(rows[0] == 0 && rows[1] == 8);
    assert_int_equal(comm->gather(comm, stream, rows, sizeof rows, all, 1), HF_E_ARG);
    d->release(stream, there);
    d->release(stream, gathered);
}

/* A context has a communicator of its device; of one rank all answers are its own. */
static void alone(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu", "cuda"};
    for (int i = 0; i < 2; i++) {
        const hf_context_opts opts = {.device = devices[i], .threads = 2};
        hf_context *ctx = NULL;
        if (hf_context_create(&ctx, &opts) != HF_OK) {
            print_message("%s: %s\n", devices[i], hf_last_error(NULL));
            continue;
        }
        const hf_comm *comm = &ctx->comm;
        int64_t sums[2] = {3, -4};
        double most = 2.5;
        int32_t stop = 1;
        assert_ptr_equal(comm->device, ctx->device);
        assert_int_equal(comm->rank(comm), 0);
        assert_int_equal(comm->size(comm), 1);
        assert_int_equal(comm->allreduce(comm, ctx->stream, sums, 2, HF_COMM_SUM_I64), HF_OK);
        assert_int_equal(comm->allreduce(comm, ctx->stream, &most, 1, HF_COMM_MAX_F64), HF_OK);
        assert_true(sums[0] == 3 && sums[1] == -4 && most == 2.5);
        assert_int_equal(comm->bcast(comm, ctx->stream, sums, sizeof sums, 0), HF_OK);
        assert_int_equal(comm->bcast(comm, ctx->stream, sums, sizeof sums, 1), HF_E_ARG);
        assert_int_equal(comm->agree(comm, &stop), HF_OK);
        assert_int_equal(stop, 1);
        sum_and_gather(comm, ctx->stream);
        hf_context_destroy(ctx);
    }
    assert_string_equal(hf_scheme_name(HF_SCHEME_OFF), "off");
    assert_null(hf_scheme_name(HF_SCHEME_COUNT));
    assert_null(hf_scheme_name(-1));
}

static int reductions, questions;

static hf_status counted(const hf_comm *comm, void *stream, void *data, int64_t count,
                         enum hf_comm_reduction reduction) {
    (void)comm;
    (void)stream;
    assert_true(data != NULL && count > 0 && reduction == HF_COMM_SUM_I64);
    reductions++;
    return HF_OK;
}

/* Another rank wants to stop after its second iteration. */
static hf_status stopped(const hf_comm *comm, int32_t *decision) {
    (void)comm;
    assert_int_equal(*decision, 0);
    *decision = ++questions == 2;
    return HF_OK;
}

static hf_status broken(const hf_comm *comm, int32_t *decision) {
    (void)comm;
    (void)decision;
    return HF_E_IO;
}

/* A fit reduces its sums, and asks whether to go on, with the communicator of its context. */
static void fit_asks_its_communicator(void **state) {
    (void)state;
    float x[300];
    for (int i = 0; i < 300; i++)
        x[i] = (float)((i * 7919) % 1009);
    const hf_array rows = hf_array_view(x, HF_F32, 150, 2);
    const hf_kmeans_opts opts = {.k = 12, .seed = 1, .tol = -1};
    const hf_context_opts on_cpu = {.device = "cpu", .threads = 1};
    hf_kmeans_result fit;
    hf_context *ctx = NULL;
    assert_int_equal(hf_context_create(&ctx, &on_cpu), HF_OK);
    ctx->comm.allreduce = counted;
    ctx->comm.agree = stopped;
    assert_int_equal(hf_kmeans_fit(ctx, &rows, &opts, &fit), HF_OK);
    assert_int_equal(fit.stop, HF_STOP_CANCELLED);
    assert_int_equal(fit.iterations, 2);
    assert_true(reductions >= 3 * 2); /* sums, counts and changed labels */
    hf_kmeans_result_clear(&fit);
    ctx->comm.agree = broken;
    assert_int_equal(hf_kmeans_fit(ctx, &rows, &opts, &fit), HF_E_IO);
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),    cmocka_unit_test(options),
        cmocka_unit_test(bad_options), cmocka_unit_test(errors_belong_to_threads),
        cmocka_unit_test(workspace),   cmocka_unit_test(arrays),
        cmocka_unit_test(devices),     cmocka_unit_test(memory_of_devices),
        cmocka_unit_test(alone),       cmocka_unit_test(fit_asks_its_communicator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
