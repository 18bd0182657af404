/* SPDX-License-Identifier: Apache-2.0
 * Where planted faults strike in op assign (core/inject_hooks.h); nothing without HF_INJECT. */
#ifndef HF_ASSIGN_STRIKE_H
#define HF_ASSIGN_STRIKE_H

#include "core/inject_hooks.h"
#include "ops/assign/host/job.h"

#ifdef HF_INJECT

#include <string.h>

/* Where this thread is. */
struct strike_place {
    int worker;
    const struct worker *w; /* NULL: in no tile whose rows are known */
    const struct pack *p;
    int slot;
    int64_t k, step;
    char before[2][12 * HF_ALIGN]; /* the sums of the tile before the step */
};

static _Thread_local struct strike_place strike_at;

/* Rows from `slot` on, as many as are there. */
static inline void strike_rows(const struct worker *w, int slot, struct hf_strike *s) {
    const struct block *b = &w->block;
    const int left = b->rows - slot;
    s->worker = strike_at.worker;
    s->lanes = left < VW ? (left > 0 ? left : 0) : VW;
    s->stride = VW;
    s->first_row = b->first >= 0 ? b->first + slot : -1;
    s->row = b->first >= 0 ? NULL : b->row + slot;
}

/* Values of these rows and centroids k .. k + count - 1 of the pack. */
static inline struct hf_strike strike_pairs(int where, const struct worker *w, const struct pack *p,
                                            int slot, int64_t k, int count) {
    struct hf_strike s = {.where = where, .step = -1, .first_column = k};
    const int64_t left = p->count - k;
    strike_rows(w, slot, &s);
    s.columns = left < count ? (int)(left > 0 ? left : 0) : count;
    s.column = p->index ? p->index + k : NULL;
    return s;
}

/* A value of one row. */
static inline void strike_one(int where, int64_t row, int64_t column, void *value,
                              const void *before) {
    const struct hf_strike s = {.where = where,
                                .worker = strike_at.worker,
                                .lanes = 1,
                                .columns = 1,
                                .stride = 1,
                                .first_row = row,
                                .first_column = column,
                                .step = -1,
                                .value = value,
                                .before = before};
    if (hf_strikes(where))
        hf_strike(&s);
}

/* A value of each of the rows from `slot` on, which lies in memory. */
static inline void strike_slots(int where, const struct worker *w, int slot, int64_t step,
                                void *value) {
    struct hf_strike s = {.where = where, .columns = 1, .step = step, .value = value};
    if (!hf_strikes(where) || !value)
        return;
    strike_rows(w, slot, &s);
    hf_strike(&s);
}

/* Scores in memory, [count][VW]; NULL: there are none. */
static inline void strike_scores(const struct worker *w, const struct pack *p, int slot, int64_t k,
                                 const void *score, int count) {
    if (!hf_strikes(HF_REGISTER_SCORE) || !score)
        return;
    struct hf_strike s = strike_pairs(HF_REGISTER_SCORE, w, p, slot, k, count);
    s.value = (void *)(uintptr_t)score;
    hf_strike(&s);
}

/* The best two of rows from `slot` on, after a group of centroids. */
static inline void strike_best(struct worker *w, int slot, int64_t group) {
    struct block *b = &w->block;
    strike_slots(HF_REGISTER_BEST, w, slot, group, b->best + slot);
    strike_slots(HF_REGISTER_SECOND, w, slot, group, b->next + slot);
    strike_slots(HF_REGISTER_INDEX, w, slot, group, b->arg + slot);
}

static inline void strike_block_best(struct worker *w) {
    for (int slot = 0; slot < w->block.rows; slot += VW)
        strike_best(w, slot, 0);
}

static inline void strike_keys(const struct worker *w, int slot, const int32_t *list, int count,
                               double *key) {
    for (int i = 0; i < count; i++)
        strike_one(HF_REGISTER_KEY, block_row(&w->block, slot), list[i], &key[i], NULL);
}

/* Keys of rows and centroids, [columns][stride]; slot: of the rows. */
static inline void strike_dense(struct hf_strike s, const struct worker *w, const int *slot) {
    int64_t row[2 * VW];
    if (!hf_strikes(s.where))
        return;
    s.worker = strike_at.worker;
    s.lanes = s.lanes < s.stride ? s.lanes : s.stride;
    for (int i = 0; i < s.lanes; i++)
        row[i] = block_row(&w->block, slot[i]);
    s.row = row;
    hf_strike(&s);
}

/* What a block holds once its rows are packed. */
static inline void strike_block(const struct worker *w, size_t row_bytes) {
    const struct block *b = &w->block;
    for (int slot = 0; slot < b->rows; slot += VW) {
        strike_slots(HF_REGISTER_NORM, w, slot, -1, b->norm2 + slot);
        strike_slots(HF_REGISTER_LOSS, w, slot, -1, b->loss ? b->loss + slot : NULL);
    }
    const struct hf_strike words = {.where = HF_REGISTER_OPERAND,
                                    .worker = strike_at.worker,
                                    .lanes = (int)((size_t)b->rows * row_bytes / 4),
                                    .columns = 1,
                                    .first_row = -1,
                                    .step = -1,
                                    .value = b->x};
    if (hf_strikes(HF_REGISTER_OPERAND))
        hf_strike(&words);
}

/* The centroids as the tiles read them. */
static inline void strike_words(int where, const void *words, size_t bytes) {
    const struct hf_strike s = {.where = where,
                                .worker = -1,
                                .lanes = (int)(bytes / 4),
                                .columns = 1,
                                .first_row = -1,
                                .step = -1,
                                .value = (void *)(uintptr_t)words};
    if (hf_strikes(where) && words)
        hf_strike(&s);
}

static inline void strike_pack(const struct pack *p, size_t group_bytes) {
    strike_words(HF_REGISTER_TILE, p->tiles, (size_t)p->groups * group_bytes);
    strike_words(HF_REGISTER_LENGTH, p->length, (size_t)p->count * 4);
}

/* A tile of rows from `slot` on and centroids from k on begins; its sums, in one vector a
 * centroid, before and after a step. */
static inline void strike_tile(const struct worker *w, const struct pack *p, int slot, int64_t k) {
    strike_at.w = w;
    strike_at.p = p;
    strike_at.slot = slot;
    strike_at.k = k;
    strike_at.step = 0;
}

static inline void strike_step_begin(const void *s0, const void *s1, int count) {
    if (!hf_strikes(HF_REGISTER_STEP) || !strike_at.w)
        return;
    memcpy(strike_at.before[0], s0, (size_t)count * VW * 4);
    if (s1)
        memcpy(strike_at.before[1], s1, (size_t)count * VW * 4);
}

static inline void strike_step_end(void *s0, void *s1, int count, int whole) {
    if (!hf_strikes(HF_REGISTER_STEP) || !strike_at.w)
        return;
    for (int i = 0; i < 2; i++) {
        struct hf_strike s = strike_pairs(HF_REGISTER_STEP, strike_at.w, strike_at.p,
                                          strike_at.slot + i * VW, strike_at.k, count);
        s.value = i == 0 ? s0 : s1;
        s.before = strike_at.before[i];
        s.step = strike_at.step;
        s.whole = whole;
        if (s.value)
            hf_strike(&s);
    }
    strike_at.step++;
}

#define STRIKE_BEGIN(id) (strike_at = (struct strike_place){.worker = (int)(id)})
#define STRIKE_BLOCK(job, w) strike_block(w, tile_row_bytes(job))
#define STRIKE_PACK(job, p) strike_pack(p, tile_group_bytes(job))
#define STRIKE_TILE(w, p, slot, k) strike_tile(w, p, slot, k)
#define STRIKE_TILE_END() ((void)(strike_at.w = NULL))
#define STRIKE_STEP_BEGIN(s0, s1, count) strike_step_begin(s0, s1, count)
#define STRIKE_STEP_END(s0, s1, count, whole) strike_step_end(s0, s1, count, whole)
#define STRIKE_SCORES(w, p, slot, k, score, count) strike_scores(w, p, slot, k, score, count)
#define STRIKE_BEST(w, slot, group) strike_best(w, slot, group)
#define STRIKE_BLOCK_BEST(w) strike_block_best(w)
#define STRIKE_KEYS(w, slot, list, count, key) strike_keys(w, slot, list, count, key)
#define STRIKE_DENSE(name, w, q, first, most, centroid, count, key)                                \
    strike_dense((struct hf_strike){.where = HF_REGISTER_##name,                                   \
                                    .lanes = (q)->count - (first),                                 \
                                    .columns = count,                                              \
                                    .stride = most,                                                \
                                    .column = centroid,                                            \
                                    .step = -1,                                                    \
                                    .value = key},                                                 \
                 w, (q)->slot + (first))
#define STRIKE_ONE(where, row, column, value, before)                                              \
    strike_one(HF_REGISTER_##where, row, column, value, before)

#else

#define STRIKE_BEGIN(id) ((void)0)
#define STRIKE_BLOCK(job, w) ((void)0)
#define STRIKE_PACK(job, p) ((void)0)
#define STRIKE_TILE(w, p, slot, k) ((void)0)
#define STRIKE_TILE_END() ((void)0)
#define STRIKE_STEP_BEGIN(s0, s1, count) ((void)0)
#define STRIKE_STEP_END(s0, s1, count, whole) ((void)0)
#define STRIKE_SCORES(w, p, slot, k, score, count) ((void)0)
#define STRIKE_BEST(w, slot, group) ((void)0)
#define STRIKE_BLOCK_BEST(w) ((void)0)
#define STRIKE_KEYS(w, slot, list, count, key) ((void)0)
#define STRIKE_DENSE(name, w, q, first, most, centroid, count, key) ((void)0)
#define STRIKE_ONE(where, row, column, value, before) ((void)0)

#endif

#endif
