/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/cpuid.h"

#include "base/cgroup.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#define HF_X86 1
#else
#define HF_X86 0
#endif

static struct {
    bool avx2, avx512, avx512_vnni, amx;
    char name[64];
    int64_t cache[3]; /* L1 data, L2, last level */
} cpu;

static pthread_once_t once = PTHREAD_ONCE_INIT;

#if HF_X86

static bool all_of(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

#define BIT(n) (1u << (n))

/* Register sets that the operating system saves, XCR0. */
static uint64_t saved_state(void) {
    uint32_t low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Linux gives a process tile registers on request only; its threads inherit the permission. */
static bool request_tiles(void) {
#if defined(__linux__) && defined(SYS_arch_prctl)
    const int arch_req_xcomp_perm = 0x1023, xtiledata = 18;
    return syscall(SYS_arch_prctl, arch_req_xcomp_perm, xtiledata) == 0;
#else
    return false;
#endif
}

/* All zero where the CPU has no such leaf. */
static void read_leaf(uint32_t leaf, uint32_t sub, uint32_t r[4]) {
    (void)__get_cpuid_count(leaf, sub, &r[0], &r[1], &r[2], &r[3]);
}

static void look_features(void) {
    uint32_t leaf1[4] = {0}, leaf7[4] = {0}, leaf7_1[4] = {0}; /* eax, ebx, ecx, edx */
    read_leaf(1, 0, leaf1);
    read_leaf(7, 0, leaf7);
    if (leaf7[0] >= 1)
        read_leaf(7, 1, leaf7_1);
    if (!all_of(leaf1[2], BIT(27) | BIT(28)))
        return; /* no OSXSAVE or no AVX */
    const uint64_t saved = saved_state();
    const uint64_t ymm = 0x6, zmm = 0xe6, tiles = 0x60000;
    cpu.avx2 = (saved & ymm) == ymm && all_of(leaf1[2], BIT(12) | BIT(29)) /* FMA, F16C */
               && all_of(leaf7[1], BIT(5));
    cpu.avx512 = cpu.avx2 && (saved & zmm) == zmm /* F, DQ, BW, VL */
                 && all_of(leaf7[1], BIT(16) | BIT(17) | BIT(30) | BIT(31));
    cpu.avx512_vnni = cpu.avx512 && all_of(leaf7[2], BIT(11));
    cpu.amx = cpu.avx512 && (saved & tiles) == tiles && all_of(leaf7_1[0], BIT(5)) /* AVX512_BF16 */
              && all_of(leaf7[3], BIT(22) | BIT(24) | BIT(25)) /* AMX-BF16, -TILE, -INT8 */
              && request_tiles();
}

static void look_name(void) {
    uint32_t words[12] = {0};
    if ((uint32_t)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u)
        return;
    for (size_t i = 0; i < 3; i++)
        (void)__get_cpuid(0x80000002u + (uint32_t)i, &words[4 * i], &words[4 * i + 1],
                          &words[4 * i + 2], &words[4 * i + 3]);
    char brand[sizeof words + 1] = {0};
    memcpy(brand, words, sizeof words);
    const char *first = brand + strspn(brand, " ");
    size_t len = strlen(first);
    while (len > 0 && first[len - 1] == ' ')
        len--;
    if (len > 0)
        (void)snprintf(cpu.name, sizeof cpu.name, "%.*s", (int)len, first);
}

#else

static void look_features(void) {}
static void look_name(void) {}

#endif

/* Caches of core 0; levels beyond the third count as the last. */
static void look_caches(void) {
    for (int i = 0; i < 8; i++) {
        char dir[64], type[16] = "";
        (void)snprintf(dir, sizeof dir, "/sys/devices/system/cpu/cpu0/cache/index%d", i);
        const uint64_t level = hf_text_number(dir, "level", "");
        const uint64_t kib = hf_text_number(dir, "size", "");
        if (level == UINT64_MAX || level == 0 || kib == UINT64_MAX)
            continue;
        char path[96];
        (void)snprintf(path, sizeof path, "%s/type", dir);
        FILE *f = fopen(path, "re");
        const bool known = f != NULL && fgets(type, sizeof type, f) != NULL;
        if (f != NULL)
            (void)fclose(f);
        if (known && strncmp(type, "Instruction", 11) != 0)
            cpu.cache[level < 3 ? level - 1 : 2] = (int64_t)kib * 1024;
    }
}

static void look(void) {
    (void)snprintf(cpu.name, sizeof cpu.name, "unknown");
    cpu.cache[0] = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    cpu.cache[1] = sysconf(_SC_LEVEL2_CACHE_SIZE);
    cpu.cache[2] = sysconf(_SC_LEVEL3_CACHE_SIZE);
    look_caches();
    static const int64_t guess[3] = {32 << 10, 1 << 20, 16 << 20};
    for (int i = 0; i < 3; i++)
        if (cpu.cache[i] <= 0)
            cpu.cache[i] = guess[i];
    look_features();
    look_name();
}

bool hf_cpu_has_avx2(void) {
    (void)pthread_once(&once, look);
    return cpu.avx2;
}

bool hf_cpu_has_avx512(void) {
    (void)pthread_once(&once, look);
    return cpu.avx512;
}

bool hf_cpu_has_avx512_vnni(void) {
    (void)pthread_once(&once, look);
    return cpu.avx512_vnni;
}

bool hf_cpu_has_amx(void) {
    (void)pthread_once(&once, look);
    return cpu.amx;
}

const char *hf_cpu_name(void) {
    (void)pthread_once(&once, look);
    return cpu.name;
}

void hf_cpu_caches(int64_t *l1, int64_t *l2, int64_t *l3) {
    (void)pthread_once(&once, look);
    *l1 = cpu.cache[0];
    *l2 = cpu.cache[1];
    *l3 = cpu.cache[2];
}
