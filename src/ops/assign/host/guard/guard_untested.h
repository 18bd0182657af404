/* SPDX-License-Identifier: Apache-2.0
 * Passes of a protected call whose scores are not tested, because moves are looked at. */
#ifndef HF_ASSIGN_GUARD_UNTESTED_H
#define HF_ASSIGN_GUARD_UNTESTED_H

#include "ops/assign/host/guard/guard_words.h"
#include <math.h>

/* Rows with these bits are suspect, and nothing of them is believed. */
static NOINLINE void guard_give_up(const struct job *job, struct worker *w, const struct pack *p,
                                   int slot, uint32_t bits, enum hf_fault fault) {
    for (; bits; bits &= bits - 1) {
        const int at = slot + __builtin_ctz(bits);
        if (at >= w->block.rows)
            return;
        (void)guard_suspect_row(job, w, at, at % TILE_ROWS, p->index != NULL, fault);
        w->block.best[at] = NAN;
        w->block.arg[at] = 0;
    }
}

/* After a pass that was not tested: indices address something, and rows that were packed just now
 * are what was packed. */
static void guard_untested(const struct job *job, struct worker *w, const struct pack *p) {
    const int words = job->guard.words && job->packed_use != PACKED_READ;
    for (int slot = 0; slot < w->block.rows; slot += VW) {
        const uint32_t where = vi_beyond(vi_load(w->block.arg + slot), (int32_t)p->count);
        const uint32_t wrong = words ? guard_wrong_words(job, &w->block, slot) : 0;
        if (__builtin_expect((where | wrong) != 0, 0)) {
            guard_give_up(job, w, p, slot, where & ~wrong, HF_FAULT_INDEX);
            guard_give_up(job, w, p, slot, wrong, HF_FAULT_OPERAND);
        }
    }
}

#endif
