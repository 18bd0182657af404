/* SPDX-License-Identifier: Apache-2.0
 * Packed rows between the code that packs them and the tiles: the sum of the words of a row, and of
 * the numbers that stand beside it, modulo 2^32. One wrong word is always seen. */
#ifndef HF_ASSIGN_GUARD_WORDS_H
#define HF_ASSIGN_GUARD_WORDS_H

#include "ops/assign/host/guard/guard_tell.h"
#include "ops/assign/host/job.h"

static size_t tile_packed_bytes(const struct job *job);

/* Sums of the words of VW packed rows from `slot` on, one lane a row. */
static NOINLINE vi guard_sum_words(const struct job *job, const struct block *b, int slot) {
    const int64_t words = (int64_t)(tile_packed_bytes(job) / sizeof(int32_t));
    const int32_t *at = (const int32_t *)b->x + slot * words;
    vi sum[2] = {vi_load((const int32_t *)(const void *)(b->norm2 + slot)), vi_set1(0)};
    int64_t j = 0;
    for (; j + 2 <= words; j += 2) {
        sum[0] = vi_add(sum[0], vi_load(at + j * VW));
        sum[1] = vi_add(sum[1], vi_load(at + (j + 1) * VW));
    }
    if (j < words)
        sum[0] = vi_add(sum[0], vi_load(at + j * VW));
    if (b->loss)
        sum[1] = vi_add(sum[1], vi_load((const int32_t *)(const void *)(b->loss + slot)));
    if (b->unit)
        sum[1] = vi_add(sum[1], vi_load((const int32_t *)(const void *)(b->unit + slot)));
    return vi_add(sum[0], sum[1]);
}

/* VW rows from `slot` on are packed. */
static inline void guard_note_words(const struct job *job, struct block *b, int slot) {
    if (job->guard.words)
        vi_store(b->word + slot, guard_sum_words(job, b, slot));
}

/* The sum of one row's words as it is now; 0 where none is taken. */
static inline int32_t guard_words_of(const struct job *job, const struct block *b, int slot) {
    int32_t sum[VW];
    if (!job->guard.words)
        return 0;
    vi_store(sum, guard_sum_words(job, b, slot - slot % VW));
    return sum[slot % VW];
}

/* Are the block's scores tested? */
static inline int guard_tests(const struct job *job, const struct worker *w) {
    return guard_tested(&job->guard, &w->guard, block_row(&w->block, 0));
}

/* Row `at` of the block is suspect: it is counted. Its record for a verdict, NULL: there is none.
 * lane: its place in its tile; moved: it was found in the pack of moved centroids. */
static inline struct guard_suspect *guard_suspect_row(const struct job *job, struct worker *w,
                                                      int at, int lane, int moved,
                                                      enum hf_fault fault) {
    const struct block *b = &w->block;
    w->guard.suspected++;
    if (fault == HF_FAULT_OPERAND && b->first >= 0)
        atomic_store_explicit(&((struct job *)(uintptr_t)job)->guard.stale, 1,
                              memory_order_relaxed);
    if (fault == HF_FAULT_OPERAND && b->first >= 0 && job->packed_use == PACKED_READ) {
        guard_tell_lost(job, w, fault, block_row(b, at)); /* who knows since when */
        return NULL;
    }
    if (w->guard.suspects == GUARD_SUSPECTS) {
        w->guard.more++;
        return NULL;
    }
    struct guard_suspect *suspect = &w->guard.suspect[w->guard.suspects++];
    *suspect = (struct guard_suspect){.row = block_row(b, at),
                                      .fault = fault,
                                      .lane = lane,
                                      .moved = moved,
                                      .words = guard_words_of(job, b, at),
                                      .arg = b->arg[at]};
    return suspect;
}

/* Bits of the rows whose words are not those that were packed. */
static inline uint32_t guard_wrong_words(const struct job *job, const struct block *b, int slot) {
    return vi_differ(guard_sum_words(job, b, slot), vi_load(b->word + slot));
}

#endif
