/* SPDX-License-Identifier: Apache-2.0
 * Calls of base, core and guard with their n-th request for memory refused: a clean failure, then
 * success once nothing is refused. Leaks are for AddressSanitizer to find. */
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "core/plan.h"
#include "rows/rows.h"
#include "core/tune.h"
#include "ops/range/range.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const hf_context_opts on_cpu = {.device = "cpu"};
static int requests, refuse_at = -1;

/* hf_alloc() gets its memory here. */
int posix_memalign(void **p, size_t align, size_t bytes) {
    if (requests++ == refuse_at)
        return ENOMEM;
    *p = aligned_alloc(align, (bytes + align - 1) / align * align);
    return *p != NULL ? 0 : ENOMEM;
}

/* Call until no request is refused; every failure must be HF_E_NOMEM. */
static void refuse_each(hf_status (*call)(void)) {
    for (int at = 0;; at++) {
        requests = 0;
        refuse_at = at;
        const hf_status status = call();
        refuse_at = -1;
        if (requests <= at) {
            assert_int_equal(status, HF_OK);
            assert_true(at > 0);
            return;
        }
        assert_int_equal(status, HF_E_NOMEM);
    }
}

static hf_status make_context(void) {
    const hf_context_opts opts = {.device = "cpu", .threads = 3};
    hf_context *ctx = NULL;
    const hf_status status = hf_context_create(&ctx, &opts);
    assert_true((status == HF_OK) == (ctx != NULL));
    assert_true((status == HF_OK) == (hf_last_error(NULL)[0] == '\0'));
    hf_context_destroy(ctx);
    return status;
}

static hf_status write_file(void) {
    hf_file *file = NULL;
    HF_TRY(hf_file_create(&file, "test_nomem_base.tmp", NULL));
    assert_int_equal(hf_file_write(file, "text", 4, NULL), HF_OK);
    return hf_file_commit(file, NULL);
}

static hf_status read_file(void) {
    void *data = NULL;
    size_t bytes = 0;
    const hf_status status = hf_file_read_all("/proc/self/status", 1 << 20, &data, &bytes, NULL);
    assert_true((status == HF_OK) == (data != NULL));
    hf_free(data);
    return status;
}

static hf_status load_tuning(void) {
    struct hf_tune tune;
    const hf_status status = hf_tune_load("test_nomem_base.tmp", &tune, NULL);
    hf_tune_clear(&tune);
    return status;
}

static hf_context *ctx;
static float x[60];

static hf_status read_rows(void *user, int64_t first, int64_t count, void *dst, char *message,
                           size_t message_bytes) {
    (void)user;
    (void)message;
    (void)message_bytes;
    memcpy(dst, x + 3 * first, (size_t)count * 3 * sizeof *x);
    return HF_OK;
}

static hf_status gather(void) {
    const hf_source source = {20, 3, HF_F32, read_rows, NULL};
    const struct hf_rows rows = {ctx, NULL, &source, 20, 3, HF_F32, 20, NULL, NULL, 0, NULL};
    double row[3];
    return hf_rows_gather(&rows, &(int64_t){4}, 1, row);
}

static hf_status workspace(void) {
    static size_t bytes = 1000;
    void *ws = NULL;
    bytes += 1000; /* more than is held, so that it must be asked for */
    return hf_workspace(ctx, bytes, &ws);
}

/* A tuning file for which there is no memory is left aside: the call itself may still succeed. */
static void run(void **state) {
    (void)state;
    double least[3], most[3];
    uint8_t row_bad[20];
    bool whole = true;
    int64_t bad_rows = 0;
    const struct hf_range_args args = {
        hf_array_view(x, HF_F32, 20, 3), 1, least, most, &whole, row_bad, &bad_rows, NULL};
    for (int at = 0; at < 10; at++) {
        hf_context *c = NULL;
        assert_int_equal(hf_context_create(&c, &on_cpu), HF_OK);
        for (int j = 0; j < 3; j++) {
            least[j] = 1e9;
            most[j] = -1e9;
        }
        requests = 0;
        refuse_at = at;
        const hf_status status = hf_range(c, &args);
        refuse_at = -1;
        assert_true(status == HF_OK || status == HF_E_NOMEM);
        assert_true(status == HF_OK || strlen(hf_last_error(c)) > 0);
        assert_int_equal(hf_range(c, &args), HF_OK);
        assert_true(least[0] == 0.0 && most[2] == 59.0);
        hf_context_destroy(c);
    }
}

static void calls(void **state) {
    (void)state;
    refuse_each(make_context);
    refuse_each(write_file);
    refuse_each(read_file);
    refuse_each(load_tuning);
    refuse_each(gather);
    refuse_each(workspace);
}

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < 60; i++)
        x[i] = (float)i;
    if (write_file() != HF_OK || setenv("HF_TUNE_FILE", "test_nomem_base.tmp", 1) != 0)
        return -1;
    return hf_context_create(&ctx, &on_cpu) == HF_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    hf_context_destroy(ctx);
    return unlink("test_nomem_base.tmp");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls),
        cmocka_unit_test(run),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
