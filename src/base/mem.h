/* SPDX-License-Identifier: Apache-2.0
 * The only place that allocates. Everything is aligned to HF_ALIGN; free(NULL) is allowed. */
#ifndef HF_MEM_H
#define HF_MEM_H

#include "base/status.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Uninitialised / zeroed memory; NULL when there is none or `bytes` is over SIZE_MAX / 2. bytes = 0
 * gives a pointer that must be freed all the same. */
void *hf_alloc(size_t bytes);
void *hf_alloc_zero(size_t bytes);
void hf_free(void *p);
/* Have the system give every page of fresh memory now, not when it is first written: what is in it
 * is lost. */
void hf_touch(void *p, size_t bytes);
char *hf_strdup(const char *s);

/* *product = a * b (and * c); false when that overflows or a factor is negative. */
bool hf_mul_size(int64_t a, int64_t b, size_t *product);
bool hf_mul3_size(int64_t a, int64_t b, int64_t c, size_t *product);

static inline int64_t hf_min64(int64_t a, int64_t b) { return a < b ? a : b; }

/* Round up to a multiple of HF_ALIGN. */
static inline size_t hf_align_up(size_t bytes) {
    return (bytes + HF_ALIGN - 1) / HF_ALIGN * HF_ALIGN;
}

/* A bump allocator over one block: measure with base == NULL, then carve. */
typedef struct hf_carve {
    char *base;
    size_t used;
} hf_carve;

/* The next `bytes` bytes, aligned; NULL while measuring (base == NULL). */
void *hf_carve_take(hf_carve *carve, size_t bytes);

/* Bytes of memory free for use now (MemAvailable, or the control group's limit if less). */
uint64_t hf_mem_available(void);
/* Largest resident set of the process so far, in bytes. */
uint64_t hf_mem_peak(void);

#ifdef __cplusplus
}
#endif
#endif
