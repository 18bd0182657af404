/* SPDX-License-Identifier: Apache-2.0
 * Protected passes of AMX tiles (host/guard/guard_amx.h). If a row fails its test, the pass is made
 * once more: other bits are a fault that went away, the same bits are rounding unless no rounding
 * can be so large. Rows that fail again lose what was found and end as open rows. */
#ifndef HF_ASSIGN_GUARD_AMX_PASS_H
#define HF_ASSIGN_GUARD_AMX_PASS_H

#include "ops/assign/host/guard/guard_amx.h"
#include "ops/assign/host/guard/guard_untested.h"

static void guard_pack_again(struct job *job, struct worker *w, const struct pack *p);

/* The sums of a pass begin. */
static void guard_amx_begin(struct worker *w, const struct pack *p) {
    for (int slot = 0; slot < w->block.rows; slot += VW) {
        vf_store(guard_z(w, 0, slot), vf_set1(p->check.begin[0]));
        vi_store(w->guard.place + slot, vi_set1(-1));
        vf_store(w->guard.most + slot, vf_set1(-FLT_MAX));
    }
    w->guard.sums = 1;
}

/* They end: what is left of them is rounding. */
static void guard_amx_end(const struct job *job, struct worker *w, const struct pack *p) {
    w->guard.sums = 0;
    for (int slot = 0; slot < w->block.rows; slot += VW) {
        float *z = guard_z(w, 0, slot);
        vf_store(z, vf_sub(vf_load(z), guard_amx_product(job, p, &w->block, slot)));
    }
}

/* Bits of the rows from `slot` on whose rest, in z, is beyond the threshold. */
static uint32_t guard_amx_beyond(const struct job *job, const struct block *b, const float *z,
                                 int slot) {
    const int left = b->rows - slot;
    const uint32_t rows = left < VW ? (1u << left) - 1 : (uint32_t)((1u << VW) - 1);
    const vf t = guard_threshold(job, b, slot, job->guard.kappa);
    return ~guard_within(vf_load(z + slot), t) & rows &
           vm_bits(vf_lt(vf_load(b->norm2 + slot), vf_set1(FAR_ROW)));
}

/* Is the rest of a row more than rounding can be? */
static int guard_amx_impossible(const struct job *job, const struct worker *w, const struct pack *p,
                                int slot) {
    float t[VW];
    const double columns = (double)(p->groups * TILE_K);
    const float kappa = guard_kappa_impossible(columns, tile_dot_error(job, 1));
    vf_store(t, guard_threshold(job, &w->block, slot - slot % VW, kappa));
    return !(fabsf(*guard_z(w, 0, slot)) <= t[slot % VW]);
}

/* Nothing of a row is believed, and no other check looks at it. */
static void guard_amx_forget(struct worker *w, int slot) {
    w->block.best[slot] = NAN;
    w->block.arg[slot] = 0;
    w->guard.most[slot] = EXCLUDED;
}

/* A row that failed in the first pass, whose rest was `before`; again: in the second one, too. */
static void guard_amx_verdict(const struct job *job, struct worker *w, const struct pack *p,
                              int slot, int again) {
    const float before = w->guard.most[w->block.capacity + slot];
    const float now = *guard_z(w, 0, slot);
    const int same = memcmp(&before, &now, sizeof now) == 0;
    const int64_t row = block_row(&w->block, slot);
    w->guard.suspected++;
    if (again && same && !guard_amx_impossible(job, w, p, slot))
        w->guard.beyond++;
    else
        guard_tell_suspect(
            job, w,
            &(struct guard_suspect){
                .row = row, .fault = HF_FAULT_ROWS, .lane = slot, .arg = w->block.arg[slot]},
            !again ? HF_BEHAVIOUR_TRANSIENT
            : same ? HF_BEHAVIOUR_PERMANENT
                   : HF_BEHAVIOUR_INTERMITTENT);
    if (again)
        guard_amx_forget(w, slot);
}

/* Bits of the rows whose best is no centroid of the pack, or not the one that was kept apart. */
static uint32_t guard_amx_wrong_index(const struct worker *w, const struct pack *p, int slot) {
    const vi arg = vi_load(w->block.arg + slot);
    const vi other = vi_sub(vi_set1(-1), vi_load(w->guard.place + slot));
    return vi_beyond(arg, (int32_t)p->count) | vi_differ(arg, other);
}

/* Bits of the rows whose best is not the largest score, kept apart. */
static uint32_t guard_amx_wrong_best(const struct worker *w, int slot) {
    const vf best = vf_load(w->block.best + slot);
    const vf most = vf_load(w->guard.most + slot);
    return ~(vm_bits(vf_le(best, most)) & vm_bits(vf_le(most, best))) & (uint32_t)((1u << VW) - 1);
}

/* Rows with these bits are suspect: noted for a verdict. */
static NOINLINE void guard_amx_note(const struct job *job, struct worker *w, const struct pack *p,
                                    int slot, uint32_t bits, enum hf_fault fault) {
    for (; bits; bits &= bits - 1) {
        const int at = slot + __builtin_ctz(bits);
        if (at >= w->block.rows)
            return;
        (void)guard_suspect_row(job, w, at, at % TILE_ROWS, p != &job->all, fault);
        guard_amx_forget(w, at);
    }
}

/* Rows whose packed words, or whose index, are not what they were. */
static void guard_amx_words(const struct job *job, struct worker *w, const struct pack *p) {
    for (int slot = 0; slot < w->block.rows; slot += VW) {
        /* rows that met excluded centroids alone, or that a test gave up, have no best */
        const uint32_t known = vm_bits(vf_lt(vf_set1(EXCLUDED), vf_load(w->guard.most + slot)));
        const uint32_t words = job->guard.words ? guard_wrong_words(job, &w->block, slot) : 0;
        const uint32_t rest = known & ~words;
        const uint32_t index = guard_checks(&job->guard, HF_FAULT_INDEX)
                                   ? guard_amx_wrong_index(w, p, slot) & rest
                                   : 0;
        const uint32_t wrong = guard_checks(&job->guard, HF_FAULT_BEST)
                                   ? guard_amx_wrong_best(w, slot) & rest & ~index
                                   : 0;
        if (__builtin_expect((words | index | wrong) != 0, 0)) {
            guard_amx_note(job, w, p, slot, words, HF_FAULT_OPERAND);
            guard_amx_note(job, w, p, slot, index, HF_FAULT_INDEX);
            guard_amx_note(job, w, p, slot, wrong, HF_FAULT_BEST);
        }
    }
}

/* What a second computation of a suspect says. */
static enum hf_behaviour guard_behaviour(const struct guard_sweep *s,
                                         const struct guard_suspect *from, int *rounding) {
    const struct block *b = &s->w->block;
    const int first = from->lane - from->lane % VW;
    const uint32_t bit = 1u << (from->lane % VW);
    const int operand = from->fault == HF_FAULT_OPERAND;
    const uint32_t wrong =
        operand ? guard_wrong_words(s->job, b, first)
                : guard_amx_wrong_index(s->w, s->p, first) | guard_amx_wrong_best(s->w, first);
    const int32_t now = operand ? guard_words_of(s->job, b, from->lane) : b->arg[from->lane];
    *rounding = 0;
    if (!(wrong & bit))
        return HF_BEHAVIOUR_TRANSIENT;
    return now == (operand ? from->words : from->arg) ? HF_BEHAVIOUR_PERMANENT
                                                      : HF_BEHAVIOUR_INTERMITTENT;
}

/* `bad` rows failed: once more. If they are many, the centroids are packed again before. */
static NOINLINE void guard_amx_again(const struct job *job, struct worker *w, const struct pack *p,
                                     int bad) {
    struct block *b = &w->block;
    const int packs = bad > GUARD_MANY && bad > b->rows / 4;
    float *before = w->guard.most + b->capacity;
    memcpy(before, w->guard.z, sizeof(float) * (size_t)b->capacity);
    if (packs)
        guard_pack_again((struct job *)(uintptr_t)job, w, p);
    for (int slot = 0; slot < b->rows; slot += VW) {
        vf_store(b->best + slot, vf_set1(-FLT_MAX));
        vf_store(b->next + slot, vf_set1(-FLT_MAX));
        vi_store(b->arg + slot, vi_set1(0));
    }
    guard_amx_begin(w, p);
    tile_argmax_bare(job, w, p);
    guard_amx_end(job, w, p);
    for (int slot = 0; slot < b->rows; slot += VW) {
        const uint32_t now = guard_amx_beyond(job, b, w->guard.z, slot);
        uint32_t any = now | (packs ? 0 : guard_amx_beyond(job, b, before, slot));
        for (; any; any &= any - 1) {
            const int i = __builtin_ctz(any);
            guard_amx_verdict(job, w, p, slot + i, (int)(now >> i & 1));
        }
    }
}

static NOINLINE void tile_argmax_guarded(const struct job *job, struct worker *w,
                                         const struct pack *p) {
    int bad = 0;
    guard_amx_begin(w, p);
    tile_argmax_bare(job, w, p);
    guard_amx_end(job, w, p);
    if (w->guard.replay)
        return;
    w->guard.checked += (uint64_t)w->block.rows;
    for (int slot = 0; slot < w->block.rows; slot += VW)
        bad += __builtin_popcount(guard_amx_beyond(job, &w->block, w->guard.z, slot));
    if (__builtin_expect(bad > 0, 0))
        guard_amx_again(job, w, p, bad);
    guard_amx_words(job, w, p);
}

/* Lists of candidates: a row that fails is compared with all centroids. */
static NOINLINE void tile_collect_guarded(const struct job *job, struct worker *w,
                                          const struct pack *p) {
    struct block *b = &w->block;
    guard_amx_begin(w, p);
    tile_collect_bare(job, w, p);
    guard_amx_end(job, w, p);
    for (int slot = 0; slot < b->rows && !w->guard.replay; slot += VW) {
        uint32_t bad = guard_amx_beyond(job, b, w->guard.z, slot) |
                       (job->guard.words ? guard_wrong_words(job, b, slot) : 0);
        for (; bad; bad &= bad - 1) {
            const int at = slot + __builtin_ctz(bad);
            if (at >= b->rows || !(b->best[at] < INFINITY))
                continue;
            w->guard.suspected++;
            w->listed[at] = GUARD_LISTED;
            if (guard_amx_impossible(job, w, p, at))
                guard_tell(job, w, HF_FAULT_ROWS, block_row(b, at), -1, HF_BEHAVIOUR_UNKNOWN);
            else
                w->guard.beyond++;
        }
    }
}

static void tile_argmax(const struct job *job, struct worker *w, const struct pack *p) {
    if (job->guard.scores && guard_tests(job, w)) {
        tile_argmax_guarded(job, w, p);
        return;
    }
    tile_argmax_bare(job, w, p);
    if (job->guard.share > 1)
        guard_untested(job, w, p);
}

static void tile_collect(const struct job *job, struct worker *w, const struct pack *p) {
    if (job->guard.scores)
        tile_collect_guarded(job, w, p);
    else
        tile_collect_bare(job, w, p);
}

#endif
