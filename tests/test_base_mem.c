/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/cpuid.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "device/host/isa.h"

#include <string.h>

static void blocks_are_aligned(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, (size_t)9 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *a = hf_alloc(sizes[i]);
        unsigned char *z = hf_alloc_zero(sizes[i]);
        assert_non_null(a);
        assert_non_null(z);
        assert_int_equal((uintptr_t)a % HF_ALIGN, 0);
        assert_int_equal((uintptr_t)z % HF_ALIGN, 0);
        memset(a, 1, sizes[i]);
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(z[j], 0);
        hf_free(a);
        hf_free(z);
    }
    hf_free(NULL);
}

static void too_much_is_refused(void **state) {
    (void)state;
    assert_null(hf_alloc(SIZE_MAX));
    assert_null(hf_alloc(SIZE_MAX / 2 + 1));
    assert_null(hf_alloc_zero(SIZE_MAX - 64));
}

static void products(void **state) {
    (void)state;
    size_t p = 77;
    assert_true(hf_mul_size(0, INT64_MAX, &p));
    assert_int_equal(p, 0);
    assert_true(hf_mul_size(INT64_MAX, 2, &p));
    assert_int_equal(p, (size_t)INT64_MAX * 2);
    p = 77;
    assert_false(hf_mul_size(INT64_MAX, 3, &p));
    assert_false(hf_mul_size(-1, 1, &p));
    assert_false(hf_mul_size(1, -1, &p));
    assert_false(hf_mul_size(-1, -1, &p));
    assert_false(hf_mul3_size((int64_t)1 << 31, (int64_t)1 << 31, 4, &p));
    assert_false(hf_mul3_size(2, 3, -1, &p));
    assert_int_equal(p, 77);
    assert_true(hf_mul3_size((int64_t)1 << 31, (int64_t)1 << 31, 2, &p));
    assert_int_equal(p, (size_t)1 << 63);
}

static void carving(void **state) {
    (void)state;
    hf_carve measure = {NULL, 0};
    assert_null(hf_carve_take(&measure, 1));
    assert_null(hf_carve_take(&measure, 130));
    assert_null(hf_carve_take(&measure, 0));
    assert_int_equal(measure.used, 64 + 192);
    char *block = hf_alloc(measure.used);
    hf_carve carve = {block, 0};
    assert_ptr_equal(hf_carve_take(&carve, 1), block);
    assert_ptr_equal(hf_carve_take(&carve, 130), block + 64);
    assert_ptr_equal(hf_carve_take(&carve, 0), block + 256);
    assert_int_equal(carve.used, measure.used);
    hf_free(block);
}

static void copies(void **state) {
    (void)state;
    char *copy = hf_strdup("three words here");
    assert_string_equal(copy, "three words here");
    hf_free(copy);
}

static void machine(void **state) {
    (void)state;
    const uint64_t total = hf_text_number("/proc", "meminfo", "MemTotal:");
    assert_true(total != UINT64_MAX);
    assert_true(hf_mem_available() > 0 && hf_mem_available() <= total * 1024);
    assert_int_equal(hf_text_number("/proc", "meminfo", "NoSuchLine:"), UINT64_MAX);
    assert_int_equal(hf_text_number("/proc", "no-such-file", ""), UINT64_MAX);
    assert_true(hf_usable_cores() >= 1);
    int64_t l1 = 0, l2 = 0, l3 = 0;
    hf_cpu_caches(&l1, &l2, &l3);
    assert_true(l1 >= 4096 && l2 >= l1 && l3 > 0);
    assert_true(strlen(hf_cpu_name()) > 0);
    const double start = hf_now_s();
    assert_true(hf_now_s() >= start);
}

static void peak_follows_use(void **state) {
    (void)state;
    const uint64_t before = hf_mem_peak();
    const size_t bytes = (size_t)64 << 20;
    char *block = hf_alloc(bytes);
    assert_non_null(block);
    memset(block, 1, bytes);
    /* what was resident before may have been less than its peak */
    assert_true(hf_mem_peak() >= bytes);
    assert_true(hf_mem_peak() >= before);
    hf_free(block);
}

static void instruction_sets(void **state) {
    (void)state;
    const uint32_t isas = hf_cpu_isas();
    assert_true(isas & 1u << HF_ISA_ID_scalar);
    assert_int_equal(isas >> HF_ISA_COUNT, 0);
    for (int id = 0; id < HF_ISA_COUNT; id++)
        assert_int_equal(hf_isa_find(hf_isa_name(id)), id);
    assert_null(hf_isa_name(-1));
    assert_null(hf_isa_name(HF_ISA_COUNT));
    assert_int_equal(hf_isa_find("sse9"), -1);
    assert_true(!hf_cpu_has_avx512() || hf_cpu_has_avx2());
    assert_true(!hf_cpu_has_amx() || hf_cpu_has_avx512());
#if defined(__x86_64__)
    /* the compiler's own idea of this CPU, operating system included */
    assert_int_equal(hf_cpu_has_avx2(),
                     __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    assert_int_equal(hf_cpu_has_avx512(),
                     __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"));
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(products),
        cmocka_unit_test(carving),
        cmocka_unit_test(copies),
        cmocka_unit_test(machine),
        cmocka_unit_test(peak_follows_use),
        cmocka_unit_test(instruction_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
