/* SPDX-License-Identifier: Apache-2.0
 * hf_gemm() on a GPU: the bits of the CPU, and an element has the same bits alone and among others,
 * by tensor cores too; signatures see every part. Skipped, with the reason, where there is no
 * GPU. */
#include "base/dtype.h"
#include "base/rng.h"
#include "core/context.h"
#include "core/kernel.h"
#include "core/op.h"
#include "emulate.h"
#include "unit.h"
#include <float.h>
#include <holdfast/holdfast.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST (4 << 20) /* bytes of a matrix here */

struct types {
    hf_dtype in, out;
    int portable;
};
static const struct types all_types[] = {
    {HF_F32, HF_F32, 1}, {HF_F64, HF_F64, 1}, {HF_F16, HF_F16, 1},   {HF_BF16, HF_F32, 1},
    {HF_I8, HF_I32, 1},  {HF_F16, HF_F32, 0}, {HF_BF16, HF_BF16, 0}, {HF_F16, HF_F16, 0}};
#define TYPES (sizeof all_types / sizeof all_types[0])

static hf_context *gpu, *cpu;
static char *a_mem, *b_mem, *c_mem, *whole, *part;

static void fill(void *data, hf_dtype dtype, int64_t count, uint64_t stream) {
    struct hf_rng rng = {1, stream, 0};
    assert_true(count * (int64_t)hf_dtype_bytes(dtype) <= MOST);
    for (int64_t i = 0; i < count; i++) {
        const double v = hf_rng_next_normal(&rng);
        hf_store_f64(data, dtype, i, dtype == HF_I8 || dtype == HF_I32 ? floor(40 * v) : v);
    }
}

struct shape {
    int64_t m, n, k;
};

/* A product with gaps between rows (gap 8: rows begin at multiples of 16 bytes), and its matrices
 * filled. */
static hf_gemm_args make(struct types t, struct shape s, int trans, int gap) {
    hf_gemm_args args = {.trans_a = trans & 1,
                         .trans_b = trans >> 1,
                         .m = s.m,
                         .n = s.n,
                         .k = s.k,
                         .dtype = t.in,
                         .dtype_c = t.out,
                         .portable = t.portable,
                         .alpha = t.in == HF_I8 ? 3 : 1.25,
                         .beta = t.in == HF_I8 ? -2 : -0.3,
                         .a = a_mem,
                         .b = b_mem,
                         .c = c_mem};
    const int64_t wide = 16;
    args.lda = (args.trans_a ? s.m : s.k) + gap;
    args.ldb = (args.trans_b ? s.k : s.n) + gap;
    args.ldc = s.n + gap;
    if (gap == 8) {
        args.lda = (args.lda + wide - 1) / wide * wide;
        args.ldb = (args.ldb + wide - 1) / wide * wide;
        args.ldc = (args.ldc + wide - 1) / wide * wide;
    }
    fill(a_mem, t.in, (args.trans_a ? s.k : s.m) * args.lda, 1);
    fill(b_mem, t.in, (args.trans_b ? s.n : s.k) * args.ldb, 2);
    fill(c_mem, t.out, s.m * args.ldc, 3);
    return args;
}

static void compute(hf_context *ctx, const hf_gemm_args *args, const char *what) {
    if (hf_gemm(ctx, args, NULL) != HF_OK)
        fail_msg("%s: %s", what, hf_last_error(ctx));
}

/* Names the first element that differs. */
static void expect_same(const hf_gemm_args *args, const void *got, const void *want,
                        const char *what) {
    const size_t bytes = hf_dtype_bytes(args->dtype_c);
    const int64_t all = args->m * args->ldc;
    int64_t wrong = 0, first = -1;
    for (int64_t i = 0; i < all; i++)
        if (memcmp((const char *)got + (size_t)i * bytes, (const char *)want + (size_t)i * bytes,
                   bytes) != 0 &&
            wrong++ == 0)
            first = i;
    if (wrong > 0)
        fail_msg("%s: %s->%s m=%d n=%d k=%d ta=%d tb=%d ldc=%d portable=%d: %d of %d differ, the "
                 "first in row %d, column %d: %.9g, not %.9g",
                 what, hf_dtype_name(args->dtype), hf_dtype_name(args->dtype_c), (int)args->m,
                 (int)args->n, (int)args->k, args->trans_a, args->trans_b, (int)args->ldc,
                 args->portable, (int)wrong, (int)all, (int)(first / args->ldc),
                 (int)(first % args->ldc), hf_load_f64(got, args->dtype_c, first),
                 hf_load_f64(want, args->dtype_c, first));
}

/* C of args in `whole`, whose gaps stay as they are. */
static void compute_whole(hf_context *ctx, const hf_gemm_args *args, const char *what) {
    hf_gemm_args mine = *args;
    memcpy(whole, c_mem, MOST);
    mine.c = whole;
    compute(ctx, &mine, what);
}

static void the_bits_of_the_cpu(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {130, 257, 300}, {64, 200, 1000}, {5, 3, 256}, {200, 1, 77}};
    for (size_t t = 0; t < TYPES; t++)
        for (int i = 0; i < 16; i++) {
            if (!all_types[t].portable)
                continue;
            hf_gemm_args args = make(all_types[t], shapes[i / 4], i % 4, i % 3 == 0 ? 8 : 3);
            compute_whole(cpu, &args, "cpu");
            args.c = part;
            memcpy(part, c_mem, MOST);
            compute(gpu, &args, "gpu");
            expect_same(&args, part, whole, "cpu and gpu");
        }
}

static const char *at(const void *data, hf_dtype dtype, int64_t i) {
    return (const char *)data + i * (int64_t)hf_dtype_bytes(dtype);
}

/* Rows [r, r + rows) and columns [c, c + cols) by themselves have the bits of `whole`. */
static void check_part(const hf_gemm_args *args, const int64_t rows[2], const int64_t cols[2]) {
    hf_gemm_args p = *args, own;
    const size_t bytes = hf_dtype_bytes(args->dtype_c);
    char *want = part + MOST / 2;
    p.m = rows[1];
    p.n = cols[1];
    p.a = at(args->a, args->dtype, args->trans_a ? rows[0] : rows[0] * args->lda);
    p.b = at(args->b, args->dtype, args->trans_b ? cols[0] * args->ldb : cols[0]);
    p.ldc = p.n;
    p.c = part + bytes; /* another alignment */
    for (int64_t i = 0; i < p.m; i++) {
        const int64_t from = (rows[0] + i) * args->ldc + cols[0];
        memcpy((char *)p.c + (size_t)(i * p.n) * bytes, at(args->c, args->dtype_c, from),
               (size_t)p.n * bytes);
        memcpy(want + (size_t)(i * p.n) * bytes, at(whole, args->dtype_c, from),
               (size_t)p.n * bytes);
    }
    compute(gpu, &p, "part");
    own = p;
    expect_same(&own, p.c, want, "part and whole");
}

/* Each row as a product of a batch. */
static void check_rows_as_batch(const hf_gemm_args *args) {
    hf_gemm_args p = *args;
    p.m = 1;
    p.batch = args->m;
    p.stride_a = args->trans_a ? 1 : args->lda;
    p.stride_c = args->ldc;
    p.c = part;
    memcpy(part, c_mem, MOST);
    compute(gpu, &p, "rows as a batch");
    expect_same(args, part, whole, "rows as a batch");
}

static void parts_have_the_bits_of_the_whole(void **state) {
    (void)state;
    static const int64_t depths[] = {5, 256, 611};
    for (size_t t = 0; t < TYPES; t++)
        for (int i = 0; i < 12; i++) {
            const struct shape s = {150, 290, depths[i / 4]};
            const hf_gemm_args args = make(all_types[t], s, i % 4, i % 3 == 0 ? 8 : 1);
            compute_whole(gpu, &args, "whole");
            for (int64_t r = 0; r < s.m; r += 23)
                check_part(&args, (const int64_t[2]){r, 1}, (const int64_t[2]){0, s.n});
            for (int64_t c = 1; c < s.n; c += 41)
                check_part(&args, (const int64_t[2]){0, s.m}, (const int64_t[2]){c, 1});
            check_part(&args, (const int64_t[2]){149, 1}, (const int64_t[2]){289, 1});
            check_part(&args, (const int64_t[2]){3, 140}, (const int64_t[2]){31, 133});
            check_part(&args, (const int64_t[2]){16, 128}, (const int64_t[2]){8, 128});
            check_rows_as_batch(&args);
        }
}

/* Every kernel of the GPU that sums a type alike gives the same bits. */
static void kernels_make_no_difference(void **state) {
    (void)state;
    const int op = hf_op_find("gemm");
    int compared = 0;
    for (size_t t = 0; t < 3 * TYPES; t++) {
        const struct shape s = {300, 270, 5 + 303 * ((int64_t)t % 3)};
        const struct types types = all_types[t % TYPES];
        const hf_gemm_args args = make(types, s, (int)t % 4, t % 5 == 0 ? 8 : 1);
        const struct hf_kernel *kernel = NULL;
        compute_whole(types.portable ? cpu : gpu, &args, "planned");
        for (int i = 0; (kernel = hf_kernel_at(op, i)) != NULL; i++) {
            const bool tensors = (kernel->dtypes & HF_DT(HF_F32)) == 0 && types.in != HF_F64;
            hf_gemm_args p = args;
            if ((kernel->dtypes & HF_DT(types.in)) == 0 || kernel->device != HF_DEV_CUDA ||
                (tensors && types.in != HF_I8) == (types.portable != 0) ||
                !hf_kernel_runs_here(kernel, NULL, 0))
                continue;
            p.c = part;
            memcpy(part, c_mem, MOST);
            assert_int_equal(setenv("HF_KERNEL_GEMM", kernel->name, 1), 0);
            const hf_status status = hf_gemm(gpu, &p, NULL);
            assert_int_equal(unsetenv("HF_KERNEL_GEMM"), 0);
            if (status != HF_OK)
                fail_msg("%s: %s", kernel->name, hf_last_error(gpu));
            expect_same(&args, part, whole, kernel->name);
            compared++;
        }
    }
    assert_true(compared >= (int)(3 * TYPES));
}

static void tensor_cores_as_they_are_described(void **state) {
    (void)state;
    static const int64_t depths[] = {1, 16, 77, 530};
    if (gpu->props.sm != 90) {
        print_message("skipped: not of compute capability 9.0\n");
        skip();
    }
    for (int i = 0; i < 16; i++) {
        const struct types t = {i % 2 ? HF_F16 : HF_BF16, HF_F32, 0};
        hf_gemm_args args = make(t, (struct shape){40, 50, depths[i / 4]}, 0, 8);
        struct hf_rng rng = {2, (uint64_t)i, 0};
        for (int64_t j = 0; i / 2 % 2 && j < 40 * args.lda; j++) { /* of many sizes */
            const double v = hf_load_f64(a_mem, t.in, j);
            const int scale = (int)(hf_rng_next(&rng) % 24) - 16;
            hf_store_f64(a_mem, t.in, j, hf_rng_next(&rng) % 7 ? ldexp(v, scale) : 0);
        }
        args.alpha = 1;
        args.beta = 0;
        compute_whole(gpu, &args, "tensor cores");
        for (int64_t e = 0; e < 40 * 50; e++) {
            const float want = tensor_sum(&args, e / 50, e % 50);
            const float got = ((const float *)(const void *)whole)[e / 50 * args.ldc + e % 50];
            if (memcmp(&got, &want, sizeof got) != 0 && (got != 0 || want != 0))
                fail_msg("%s k=%d: element %d is %.9g, not %.9g", hf_dtype_name(t.in), (int)args.k,
                         (int)e, (double)got, (double)want);
        }
    }
}

/* What lies on the device: the same bits, and nothing beside C is written. */
static void device_memory(void **state) {
    (void)state;
    const struct hf_device *device = gpu->device;
    char *mem = device->alloc(gpu->stream, 3 * (size_t)MOST);
    assert_non_null(mem);
    for (size_t t = 0; t < TYPES; t++) {
        const struct shape s = {129, 300, 515};
        const hf_gemm_args args = make(all_types[t], s, (int)t % 4, t % 2 ? 8 : 5);
        hf_gemm_args there = args;
        compute_whole(gpu, &args, "host memory");
        assert_int_equal(device->copy(gpu->stream, mem, a_mem, 3 * (size_t)MOST), HF_OK);
        there.a = mem;
        there.b = mem + MOST;
        there.c = mem + 2 * (size_t)MOST;
        compute(gpu, &there, "device memory");
        assert_int_equal(device->copy(gpu->stream, part, there.c, MOST), HF_OK);
        expect_same(&args, part, whole, "device and host memory");
        assert_memory_equal(part + s.m * args.ldc * 8, c_mem + s.m * args.ldc * 8, 1000);
        there.b = b_mem;
        assert_int_equal(hf_gemm(gpu, &there, NULL), HF_E_ARG);
        assert_non_null(strstr(hf_last_error(gpu), "all of them in one place"));
    }
    device->release(gpu->stream, mem);
}

#define ANY 2 /* the same or another */

static void expect_signatures(const hf_gemm_signatures *s, const hf_gemm_signatures *first,
                              const int same[3], const char *what) {
    const bool is[3] = {s->a == first->a, s->b == first->b, s->c == first->c};
    for (int i = 0; i < 3; i++)
        if (same[i] != ANY && is[i] != (same[i] != 0))
            fail_msg("%s: signature %c is %s", what, "abc"[i], is[i] ? "the same" : "another");
}

/* Of one type and checksum: see test_gemm.c. */
static void check_signatures(struct types t, const char *checksum) {
    enum { M = 150, N = 290, K = 300 };
    const int all[3] = {1, 1, 1}, not_b[3] = {1, 0, ANY}, not_c[3] = {1, 1, 0};
    const int not_a[3] = {0, 1, ANY};
    hf_gemm_signatures sign = {.checksum = checksum}, first;
    hf_gemm_args args = make(t, (struct shape){M, N, K}, 0, 0);
    args.beta = 0;
    compute_whole(gpu, &args, "without signatures");
    args.c = part;
    args.signatures = &sign;
    memcpy(part, c_mem, MOST);
    compute(gpu, &args, "signed");
    expect_same(&args, part, whole, "with signatures and without");
    assert_true(sign.tiles > 0 && sign.panels > 0);
    first = sign;
    compute(gpu, &args, "again");
    expect_signatures(&sign, &first, all, "the same product");
    sign.release = 1;
    compute(gpu, &args, "release");
    expect_signatures(&sign, &first, all, "with release");
    expect_same(&args, part, whole, "with release");
    b_mem[5 * N] ^= 1;
    compute(gpu, &args, "a bit of B");
    expect_signatures(&sign, &first, not_b, "a bit of B");
    b_mem[5 * N] ^= 1;
    a_mem[7 * K] ^= 64;
    compute(gpu, &args, "a bit of A");
    expect_signatures(&sign, &first, not_a, "a bit of A");
    a_mem[7 * K] ^= 64;
    sign.plant = HF_GEMM_PLANT_SUM;
    sign.plant_at = 32 * (M * N - 1);
    compute(gpu, &args, "a bit of a sum");
    expect_signatures(&sign, &first, not_c, "a bit of a sum");
    sign.plant = HF_GEMM_PLANT_A;
    sign.plant_at = 32 * (M * K - 1) + 3;
    assert_int_equal(hf_gemm(gpu, &args, NULL), HF_E_CORRUPT);
    sign.plant = HF_GEMM_PLANT_NONE;
    compute(gpu, &args, "after a fault");
    expect_signatures(&sign, &first, all, "after a fault");
}

static void signatures_see_every_part(void **state) {
    (void)state;
    static const char *const checksums[] = {"crc32c", "fletcher", "ones_sum", "xor",
                                            "twos",   "ones",     "crc32"};
    for (size_t t = 0; t < TYPES; t++)
        for (size_t c = 0; c < sizeof checksums / sizeof *checksums; c++)
            check_signatures(all_types[t], checksums[c]);
}

/* The host may have all signatures while the kernel is still coming to its end: C is complete then,
 * for another stream too. */
static void signed_products_are_complete(void **state) {
    (void)state;
    const struct hf_device *device = gpu->device;
    const hf_context_opts opts = {.device = "cuda"};
    const struct shape s = {320, 320, 320};
    hf_context *other = NULL;
    char *mem = device->alloc(gpu->stream, 3 * (size_t)MOST);
    assert_non_null(mem);
    assert_int_equal(hf_context_create(&other, &opts), HF_OK);
    for (size_t t = 0; t < TYPES; t++) {
        hf_gemm_signatures sign = {.checksum = "fletcher"};
        hf_gemm_args args = make(all_types[t], s, 0, 0);
        const size_t bytes = (size_t)(s.m * args.ldc) * hf_dtype_bytes(args.dtype_c);
        args.beta = 0;
        compute_whole(gpu, &args, "without signatures");
        assert_int_equal(device->copy(gpu->stream, mem, a_mem, 2 * (size_t)MOST), HF_OK);
        hf_gemm_args there = args;
        there.a = mem;
        there.b = mem + MOST;
        there.c = mem + 2 * (size_t)MOST;
        there.signatures = &sign;
        for (int i = 0; i < 50; i++) {
            assert_int_equal(device->fill(gpu->stream, there.c, 0xff, bytes), HF_OK);
            compute(gpu, &there, "signed");
            assert_int_equal(device->copy(other->stream, part, there.c, bytes), HF_OK);
            expect_same(&args, part, whole, "seen by another stream");
        }
    }
    hf_context_destroy(other);
    device->release(gpu->stream, mem);
}

/* A guarded product of matrices on the device; c: where its elements come to lie here. */
static hf_gemm_faults guarded(const hf_gemm_args *args, char *mem, void *c, const char *what) {
    hf_gemm_faults faults = {.lines = -1};
    hf_gemm_args there = *args;
    there.a = mem;
    there.b = mem + MOST;
    there.c = mem + 2 * (size_t)MOST;
    assert_int_equal(gpu->device->copy(gpu->stream, mem, a_mem, 3 * (size_t)MOST), HF_OK);
    if (hf_gemm_guarded(gpu, &there, HF_GUARD_CORRECT, &faults, NULL) != HF_OK)
        fail_msg("%s: %s", what, hf_last_error(gpu));
    assert_int_equal(gpu->device->copy(gpu->stream, c, there.c, MOST), HF_OK);
    return faults;
}

/* Rows and columns are checked on the device: nothing is suspected without a fault, and one is
 * repaired. */
static void checks_on_the_device(void **state) {
    (void)state;
    char *mem = gpu->device->alloc(gpu->stream, 3 * (size_t)MOST);
    assert_non_null(mem);
    for (size_t t = 0; t < 2 * TYPES; t++) {
        const struct types types = all_types[t % TYPES];
        const struct shape s = {129 + 100 * (int64_t)(t / TYPES), 300, t % 3 ? 515 : 40};
        hf_gemm_args args = make(types, s, (int)t % 4, t % 2 ? 8 : 5);
        hf_gemm_signatures sign = {.plant = HF_GEMM_PLANT_SUM, .checksum = "fletcher"};
        compute_whole(gpu, &args, "without checks");
        hf_gemm_faults faults = guarded(&args, mem, part, "no fault");
        expect_same(&args, part, whole, "with checks and without");
        assert_int_equal(faults.lines, s.m + s.n);
        assert_int_equal(faults.suspected, 0);
        int64_t col = 0; /* of the largest of row 77, whose sum the bit changes by a lot */
        for (int64_t j = 0; j < s.n; j++)
            if (fabs(hf_load_f64(whole, types.out, 77 * args.ldc + j)) >
                fabs(hf_load_f64(whole, types.out, 77 * args.ldc + col)))
                col = j;
        sign.plant_at = 32 * (77 * s.n + col) + (types.in == HF_F64 ? 31 : 29);
        args.signatures = &sign;
        faults = guarded(&args, mem, part, "a fault");
        expect_same(&args, part, whole, "repaired");
        assert_int_equal(faults.confirmed, 1);
    }
    gpu->device->release(gpu->stream, mem);
}

static int open_all(void **state) {
    (void)state;
    const hf_context_opts host = {.device = "cpu", .threads = 2};
    a_mem = malloc(5 * (size_t)MOST);
    if (a_mem == NULL || hf_context_create(&cpu, &host) != HF_OK)
        return 1;
    b_mem = a_mem + MOST;
    c_mem = b_mem + MOST;
    whole = c_mem + MOST;
    part = whole + MOST;
    memset(a_mem, 0, 5 * (size_t)MOST);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    hf_context_destroy(cpu);
    free(a_mem);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_of_the_cpu),
        cmocka_unit_test(parts_have_the_bits_of_the_whole),
        cmocka_unit_test(kernels_make_no_difference),
        cmocka_unit_test(tensor_cores_as_they_are_described),
        cmocka_unit_test(device_memory),
        cmocka_unit_test(signatures_see_every_part),
        cmocka_unit_test(signed_products_are_complete),
        cmocka_unit_test(checks_on_the_device),
    };
    const hf_context_opts opts = {.device = "cuda"};
    if (hf_context_create(&gpu, &opts) != HF_OK) {
        printf("skipped: %s\n", hf_last_error(NULL));
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, open_all, close_all);
    hf_context_destroy(gpu);
    return failed;
}
