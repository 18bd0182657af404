/* SPDX-License-Identifier: Apache-2.0
 * The OpenCL backend beside its kernels: the interface as declared, addresses for memory objects,
 * kernels with other options, a queue that the caller lends. Skipped without a platform. */
#include "base/mem.h"
#include "base/rng.h"
#include "core/context.h"
#include "core/plan.h"
#include "device/opencl/cl_cache.h"
#include "device/opencl/cl_note.h"
#include "device/opencl/opencl.h"

#include <holdfast/kmeans.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define CL_TARGET_OPENCL_VERSION 120
#if __has_include(<CL/cl_icd.h>)
#include <CL/cl_icd.h>
/* Where a driver's table has what is taken from it. */
#define FUNCTION(place, result, name, arguments)                                                   \
    _Static_assert(offsetof(struct _cl_icd_dispatch, cl##name) == (place) * sizeof(void *), #name);
#include "device/opencl/cl_functions.def"
#undef FUNCTION
#endif
#if __has_include(<CL/cl.h>)
#include <CL/cl.h>
#define SAME(name) _Static_assert((long long)HF_##name == (long long)name, #name)
SAME(CL_SUCCESS);
SAME(CL_DEVICE_NOT_FOUND);
SAME(CL_DEVICE_NOT_AVAILABLE);
SAME(CL_COMPILER_NOT_AVAILABLE);
SAME(CL_MEM_OBJECT_ALLOCATION_FAILURE);
SAME(CL_OUT_OF_RESOURCES);
SAME(CL_OUT_OF_HOST_MEMORY);
SAME(CL_BUILD_PROGRAM_FAILURE);
SAME(CL_INVALID_BUFFER_SIZE);
SAME(CL_PLATFORM_NAME);
SAME(CL_DEVICE_TYPE);
SAME(CL_DEVICE_MAX_COMPUTE_UNITS);
SAME(CL_DEVICE_MAX_WORK_GROUP_SIZE);
SAME(CL_DEVICE_MAX_MEM_ALLOC_SIZE);
SAME(CL_DEVICE_SINGLE_FP_CONFIG);
SAME(CL_DEVICE_GLOBAL_MEM_SIZE);
SAME(CL_DEVICE_LOCAL_MEM_SIZE);
SAME(CL_DEVICE_AVAILABLE);
SAME(CL_DEVICE_COMPILER_AVAILABLE);
SAME(CL_DEVICE_NAME);
SAME(CL_DRIVER_VERSION);
SAME(CL_DEVICE_PROFILE);
SAME(CL_DEVICE_VERSION);
SAME(CL_DEVICE_EXTENSIONS);
SAME(CL_DEVICE_DOUBLE_FP_CONFIG);
SAME(CL_DEVICE_HOST_UNIFIED_MEMORY);
SAME(CL_QUEUE_CONTEXT);
SAME(CL_QUEUE_DEVICE);
SAME(CL_QUEUE_PROPERTIES);
SAME(CL_PROGRAM_BINARY_SIZES);
SAME(CL_PROGRAM_BINARIES);
SAME(CL_PROGRAM_BUILD_LOG);
SAME(CL_CONTEXT_PLATFORM);
SAME(CL_DEVICE_TYPE_CPU);
SAME(CL_DEVICE_TYPE_GPU);
SAME(CL_DEVICE_TYPE_ALL);
SAME(CL_FP_DENORM);
SAME(CL_FP_INF_NAN);
SAME(CL_FP_ROUND_TO_NEAREST);
SAME(CL_FP_FMA);
SAME(CL_MEM_READ_WRITE);
SAME(CL_MEM_USE_HOST_PTR);
SAME(CL_MAP_READ);
SAME(CL_MAP_WRITE);
_Static_assert(HF_CL_QUEUE_OUT_OF_ORDER == CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, "queue");
/* Arguments are passed as in theirs: a pointer, or a number of the same size. */
_Static_assert(sizeof(hf_cl_int) == sizeof(cl_int) && sizeof(hf_cl_uint) == sizeof(cl_bool) &&
                   sizeof(hf_cl_ulong) == sizeof(cl_mem_flags) &&
                   sizeof(intptr_t) == sizeof(cl_context_properties),
               "sizes of numbers");
#endif

static hf_context *ctx;
static struct hf_opencl *cl;

static int open_device(void **state) {
    const hf_context_opts opts = {.device = "opencl"};
    (void)state;
    if (hf_context_create(&ctx, &opts) != HF_OK) {
        printf("skipped: %s\n", hf_last_error(NULL));
        return -1;
    }
    cl = ctx->stream;
    return 0;
}

static int close_device(void **state) {
    (void)state;
    hf_context_destroy(ctx);
    ctx = NULL;
    return 0;
}

/* Each piece of memory has addresses of its own; pointers into it are found, others are not. */
static void addresses(void **state) {
    (void)state;
    enum { COUNT = 200 };
    char *p[COUNT];
    size_t offset = 0;
    int here = 0;
    for (int i = 0; i < COUNT; i++) {
        p[i] = hf_opencl_alloc(cl, (size_t)(i % 7) * 1000 + 1);
        assert_non_null(p[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        const size_t last = (size_t)(i % 7) * 1000;
        hf_cl_mem mem = hf_opencl_mem(cl, p[i], &offset);
        assert_non_null(mem);
        assert_int_equal(offset, 0);
        assert_ptr_equal(hf_opencl_mem(cl, p[i] + last, &offset), mem);
        assert_int_equal(offset, last);
    }
    assert_null(hf_opencl_mem(cl, &here, &offset));
    assert_null(hf_opencl_mem(cl, NULL, &offset));
    for (int i = 0; i < COUNT; i += 2)
        hf_opencl_release(cl, p[i]);
    for (int i = 0; i < COUNT; i++)
        assert_true((hf_opencl_mem(cl, p[i], &offset) != NULL) == (i % 2 == 1));
    for (int i = 1; i < COUNT; i += 2)
        hf_opencl_release(cl, p[i]);
    assert_int_equal(cl->held, 0);
}

static void too_much_memory(void **state) {
    (void)state;
    assert_null(hf_opencl_alloc(cl, (size_t)cl->info->alloc_most + 1));
    assert_non_null(strstr(cl->error, "no memory"));
}

/* A call with pointers of the host is refused, not run. */
static void not_on_the_device(void **state) {
    (void)state;
    double here = 0;
    const struct hf_cl_job job = {.source = "panels", .kernel = "panels_pack", .global = 1};
    assert_int_equal(hf_opencl_run(cl, &job, "pniiipp", &here, (int32_t)2, (int64_t)1, (int64_t)1,
                                   (int64_t)1, &here, &here),
                     HF_E_DEVICE);
    assert_non_null(strstr(cl->error, "not in memory of the device"));
}

static void bad_source(void **state) {
    (void)state;
    hf_cl_kernel kernel;
    const struct hf_cl_job missing = {.source = "panels", .kernel = "no_such_kernel"};
    const struct hf_cl_job broken = {
        .source = "panels", .kernel = "panels_pack", .options = "-D__kernel=+"};
    assert_int_equal(hf_opencl_kernel(cl, &missing, &kernel), HF_E_DEVICE);
    assert_non_null(strstr(cl->error, "no_such_kernel"));
    assert_int_equal(hf_opencl_kernel(cl, &broken, &kernel), HF_E_DEVICE);
    assert_non_null(strstr(cl->error, "compiling panels.cl"));
}

enum { N = 3000, D = 3, K = 5 };

/* Sums of rows by update.cl, whose work-items all add to the same. */
static void add_rows(const char *options, int64_t sum[K * D]) {
    struct hf_cl_stage stage;
    float x[N * D];
    int32_t labels[N];
    int64_t count[K] = {0};
    double mult[D];
    struct hf_rng rng = {5, 0, 0};
    for (int i = 0; i < N * D; i++)
        x[i] = (float)hf_rng_next_normal(&rng);
    for (int i = 0; i < N; i++)
        labels[i] = (int32_t)(hf_rng_next(&rng) % K);
    for (int j = 0; j < D; j++)
        mult[j] = 0x1p45;
    memset(sum, 0, K * D * sizeof *sum);
    const struct hf_cl_job job = {.source = "update",
                                  .options = options,
                                  .kernel = "update_rows",
                                  .global = 640,
                                  .group = 64};
    hf_cl_stage_begin(&stage, cl);
    const void *rows = hf_cl_in(&stage, x, sizeof x), *scales = hf_cl_in(&stage, mult, sizeof mult);
    const void *to = hf_cl_in(&stage, labels, sizeof labels);
    void *sums = hf_cl_inout(&stage, sum, K * D * sizeof *sum);
    void *counts = hf_cl_inout(&stage, count, sizeof count);
    const hf_status status = hf_opencl_run(
        cl, &job, "pniiinpppppppdinnni", rows, (int32_t)HF_F32, (int64_t)D, (int64_t)N, (int64_t)D,
        (int32_t)HF_EUCLIDEAN, NULL, NULL, to, sums, counts, NULL, scales, 1.0, (int64_t)K,
        (int32_t)1, (int32_t)45, (int32_t)0, (int64_t)0);
    if (hf_cl_stage_end(&stage, status) != HF_OK)
        fail_msg("%s", cl->error);
}

/* 64-bit sums from 32-bit atomics, and neighbours that take neighbouring rows, as on a GPU. */
static void other_options(void **state) {
    (void)state;
    int64_t want[K * D], got[K * D];
    static const char *const options[] = {"-DHF_ATOMIC64=0", "-DHF_WIDE=0"};
    add_rows(NULL, want);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        add_rows(options[i], got);
        assert_memory_equal(got, want, sizeof want);
    }
}

/* The work-items that stand in for a matrix unit multiply as matrix.cl wants it; a source that does
 * not compile is no unit. On NVIDIA GPUs the unit itself was tried when the device was opened. */
static void matrix_unit(void **state) {
    (void)state;
    assert_true(hf_cl_unit_works(cl, HF_CL_UNIT_NONE "+unit_trial", false));
    assert_true(hf_cl_unit_works(cl, HF_CL_UNIT_DPAS_ALONE "+unit_trial", false));
    assert_true(cl->unit || !cl->info->ptx);
    if (!cl->info->ptx)
        assert_false(hf_cl_unit_works(cl, HF_CL_UNIT_PTX "+unit_trial", false));
}

/* What a file keeps comes back for its own key alone. */
static void kept(void **state) {
    (void)state;
    const char *path = HF_TEST_BUILD "/test_opencl.bin", *text = "a binary";
    size_t bytes = 0;
    hf_cl_cache_store(path, "key", text, strlen(text));
    unsigned char *back = hf_cl_cache_load(path, "key", &bytes);
    assert_non_null(back);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(back, text, bytes);
    hf_free(back);
    assert_null(hf_cl_cache_load(path, "kez", &bytes));
    assert_null(hf_cl_cache_load(path, "ke", &bytes));
    assert_int_equal(remove(path), 0);
    assert_null(hf_cl_cache_load(path, "key", &bytes));
}

/* Two that compile the same at once, in threads of a process as here or not, do not count as
 * deaths; who ends without a word does. */
static void notes(void **state) {
    (void)state;
    const char *path = HF_TEST_BUILD "/test_opencl.bin",
               *file = HF_TEST_BUILD "/test_opencl.bin.note";
    struct hf_cl_note first, second;
    (void)remove(file);
    assert_true(hf_cl_note_compiling(path, &first));
    for (int i = 0; i < 3; i++) {
        assert_false(hf_cl_note_suspects(path));
        assert_true(hf_cl_note_compiling(path, &second));
        hf_cl_note_compiled(&second);
    }
    for (int deaths = 1; deaths <= 2; deaths++) {
        assert_int_equal(close(first.file), 0);
        assert_int_equal(hf_cl_note_suspects(path), deaths == 1);
        assert_int_equal(hf_cl_note_compiling(path, &first), deaths == 1);
    }
    assert_int_equal(remove(file), 0);
    assert_true(hf_cl_note_compiling(path, &first));
    hf_cl_note_compiled(&first);
    assert_int_not_equal(remove(file), 0);
}

/* Returns how many rows float64 decided in the first iteration. */
static double fit_on(const hf_context_opts *opts, int64_t k, int32_t labels[N]) {
    static float x[N * D];
    struct hf_rng rng = {9, 0, 0};
    hf_context *own = NULL;
    hf_kmeans_result r = {0};
    for (int i = 0; i < N * D; i++)
        x[i] = (float)hf_rng_next_normal(&rng);
    const hf_array a = hf_array_view(x, HF_F32, N, D);
    const hf_kmeans_opts o = {.k = k, .seed = 2, .max_iter = 5};
    assert_int_equal(hf_context_create(&own, opts), HF_OK);
    assert_int_equal(hf_kmeans_fit(own, &a, &o, &r), HF_OK);
    memcpy(labels, r.labels, N * sizeof *labels);
    const double rows = (double)r.history[0].rows_float64;
    hf_kmeans_result_clear(&r);
    hf_context_destroy(own);
    return rows;
}

/* The caller's context and queue serve, and are still the caller's afterwards. */
static void lent_queue(void **state) {
    (void)state;
    int32_t want[N], got[N];
    hf_cl_int error = HF_CL_SUCCESS;
    hf_cl_context context = cl->api->CreateContext(NULL, 1, &cl->info->device, NULL, NULL, &error);
    assert_int_equal(error, HF_CL_SUCCESS);
    hf_cl_queue queue = cl->api->CreateCommandQueue(context, cl->info->device, 0, &error);
    assert_int_equal(error, HF_CL_SUCCESS);
    fit_on(&(hf_context_opts){.device = "cpu"}, K, want);
    fit_on(&(hf_context_opts){.device = "opencl", .stream = queue}, K, got);
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(cl->api->Finish(queue), HF_CL_SUCCESS);
    assert_int_equal(cl->api->ReleaseCommandQueue(queue), HF_CL_SUCCESS);
    hf_cl_queue wild =
        cl->api->CreateCommandQueue(context, cl->info->device, HF_CL_QUEUE_OUT_OF_ORDER, &error);
    hf_context *none = NULL;
    if (error == HF_CL_SUCCESS) { /* not all devices have one */
        const hf_context_opts opts = {.device = "opencl", .stream = wild};
        assert_int_equal(hf_context_create(&none, &opts), HF_E_ARG);
        assert_non_null(strstr(hf_last_error(NULL), "out of order"));
        assert_int_equal(cl->api->ReleaseCommandQueue(wild), HF_CL_SUCCESS);
    }
    assert_int_equal(cl->api->ReleaseContext(context), HF_CL_SUCCESS);
}

/* The filter in 16 bits gives the CPU's labels, and by itself: few rows are left to float64. With
 * the plain unit and that of Intel's GPUs; that of NVIDIA's is tested on them. */
static void matrix_filter(void **state) {
    (void)state;
    static const int64_t ks[] = {K, 600}; /* in local memory all the time; too many for that */
    int32_t want[N], got[N];
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        (void)fit_on(&(hf_context_opts){.device = "cpu"}, ks[i], want);
        assert_int_equal(setenv("HF_OPENCL_MATRIX", i == 0 ? "dpas" : "1", 1), 0);
        assert_int_equal(setenv("HF_KERNEL_ASSIGN", "assign_f16_256x64_opencl", 1), 0);
        const double rows = fit_on(&(hf_context_opts){.device = "opencl"}, ks[i], got);
        assert_int_equal(unsetenv("HF_KERNEL_ASSIGN"), 0);
        assert_int_equal(unsetenv("HF_OPENCL_MATRIX"), 0);
        assert_memory_equal(got, want, sizeof want);
        assert_true(rows < 0.1 * N);
    }
}

/* Measurements that come with the library count for all drivers, and for all CPUs of a set. */
static void family(void **state) {
    (void)state;
    char here[HF_TUNE_NAME_BYTES];
    hf_plan_family(ctx, here);
    if (strcmp(cl->info->platform_name, "Portable Computing Language") == 0)
        assert_int_equal(strncmp(here, "PoCL-", 5), 0);
    else
        assert_int_equal(strncmp(here, "OpenCL-", 7), 0);
    assert_null(strstr(here, cl->info->driver));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(family),
        cmocka_unit_test(addresses),
        cmocka_unit_test(too_much_memory),
        cmocka_unit_test(not_on_the_device),
        cmocka_unit_test(bad_source),
        cmocka_unit_test(other_options),
        cmocka_unit_test(kept),
        cmocka_unit_test(notes),
        cmocka_unit_test(lent_queue),
        cmocka_unit_test(matrix_unit),
        cmocka_unit_test(matrix_filter),
    };
    if (hf_cl_count(NULL, 0) == 0) {
        char why[200];
        (void)hf_cl_count(why, sizeof why);
        printf("skipped: %s\n", why);
        return 77;
    }
    return cmocka_run_group_tests(tests, open_device, close_device);
}
