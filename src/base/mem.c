/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/mem.h"

#include "base/cgroup.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Blocks from this size on are aligned to a huge page and may be backed by some: kernels that
 * stream through them otherwise spend a few per cent of their time on address translation. */
#define HUGE_PAGE ((size_t)2 << 20)
#define HUGE_FROM (4 * HUGE_PAGE)
#define PAGE ((size_t)4096) /* the smallest of any system */

void *hf_alloc(size_t bytes) {
    if (bytes > SIZE_MAX / 2)
        return NULL;
    void *p = NULL;
    const bool huge = bytes >= HUGE_FROM;
    if (posix_memalign(&p, huge ? HUGE_PAGE : HF_ALIGN, bytes > 0 ? bytes : 1) != 0)
        return NULL;
#if defined(MADV_HUGEPAGE)
    if (huge)
        (void)madvise(p, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
    return p;
}

void *hf_alloc_zero(size_t bytes) {
    void *p = hf_alloc(bytes);
    if (p != NULL)
        memset(p, 0, bytes);
    return p;
}

void hf_free(void *p) { free(p); }

void hf_touch(void *p, size_t bytes) {
    volatile char *page = p;
    for (size_t i = 0; i < bytes; i += PAGE)
        page[i] = 0;
}

char *hf_strdup(const char *s) {
    const size_t bytes = strlen(s) + 1;
    char *copy = hf_alloc(bytes);
    if (copy != NULL)
        memcpy(copy, s, bytes);
    return copy;
}

bool hf_mul_size(int64_t a, int64_t b, size_t *product) {
    size_t p = 0;
    if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &p))
        return false;
    *product = p;
    return true;
}

bool hf_mul3_size(int64_t a, int64_t b, int64_t c, size_t *product) {
    size_t p = 0;
    if (!hf_mul_size(a, b, &p) || c < 0 || __builtin_mul_overflow(p, c, &p))
        return false;
    *product = p;
    return true;
}

void *hf_carve_take(hf_carve *carve, size_t bytes) {
    char *p = carve->base != NULL ? carve->base + carve->used : NULL;
    carve->used += hf_align_up(bytes);
    return p;
}

uint64_t hf_mem_available(void) {
    const uint64_t kib = hf_text_number("/proc", "meminfo", "MemAvailable:");
    const uint64_t host = kib < UINT64_MAX / 1024 ? kib * 1024 : (uint64_t)1 << 30;
    const uint64_t group = hf_cgroup_memory_left();
    return group < host ? group : host;
}

uint64_t hf_mem_peak(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return (uint64_t)usage.ru_maxrss * 1024;
}
