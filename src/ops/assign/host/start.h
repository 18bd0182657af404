/* SPDX-License-Identifier: Apache-2.0
 * Choices that depend on the data, made at the start of a call from a sample of its rows. The
 * sample does not depend on the workers, so the choice depends on nothing but the call. */
#ifndef HF_ASSIGN_START_H
#define HF_ASSIGN_START_H

#include "ops/assign/host/dense.h"
#include "ops/assign/host/guard/guard_words.h"
#include "ops/assign/host/packed_rows.h"
#include "ops/assign/host/project.h"
#include "ops/assign/host/settle.h"
#include "ops/assign/host/strike.h"
#include <float.h>

#define START_ROWS 4096 /* calls with fewer always begin with the filter; */
#define START_SAMPLE VW /* in others so many rows show whether that pays */
#define HALF_SAMPLE 256 /* one row of so many shows whether half rows pay */
#define HALF_REST 6     /* calls on packed rows until a variant that did not pay is tried again */

/* Pack the rows of the block for the tiles. Empty lanes up to the end of a tile become zeros. */
static void load_block(const struct job *job, struct worker *w) {
    for (int slot = 0; slot < w->block.rows || slot % tile_rows_least(job); slot += VW) {
        float *rows = w->rows + (job->project ? slot * job->d_pad : 0);
        gather_panel(job, w, slot, rows);
        tile_pack_panel(job, w, slot, rows);
        guard_note_words(job, &w->block, slot);
    }
    STRIKE_BLOCK(job, w);
}

static void best_clear(struct block *b) {
    for (int slot = 0; slot < b->rows; slot += VW) {
        vf_store(b->best + slot, vf_set1(-FLT_MAX));
        vf_store(b->next + slot, vf_set1(-FLT_MAX));
        vi_store(b->arg + slot, vi_set1(0));
    }
}

/* Do directions pay? One tile of rows from all over the data shows it. */
static int project_pays(const struct job *job) {
    struct worker *w = &job->workers[0];
    struct block *b = &w->block;
    b->rows = job->n < TILE_ROWS ? (int)job->n : TILE_ROWS;
    for (int i = 0; i < b->rows; i++)
        b->row[i] = i * job->n / b->rows;
    tile_begin();
    load_block(job, w);
    project_argmax(job, w);
    tile_end();
    const int64_t most = (job->k / COMPARE_WORTH + 8) * b->rows;
    b->rows = 0;
    return w->compared <= most;
}

/* The best two centroids of some rows from all over the data. */
static struct block *sample_scores(struct job *job, int64_t rows) {
    struct worker *w = &job->workers[0];
    struct block *b = &w->block;
    b->rows = (int)(rows < b->capacity ? rows : b->capacity);
    b->rows = b->rows < job->n ? b->rows : (int)job->n;
    for (int i = 0; i < b->rows; i++)
        b->row[i] = i * job->n / b->rows;
    load_block(job, w);
    best_clear(b);
    w->guard.replay = 1; /* nothing depends on these scores but time */
    tile_argmax(job, w, &job->all);
    w->guard.replay = 0;
    for (int slot = 0; slot < b->rows; slot++) /* they address something */
        b->arg[slot] = (uint32_t)b->arg[slot] < (uint64_t)job->k ? b->arg[slot] : 0;
    return b;
}

/* A function of its own, so that the loops of samples do not inline decide() again. */
static NOINLINE void sample_decide(const struct job *job, const struct block *b, int slot,
                                   struct verdict *v) {
    decide(job, &job->all, b, slot, v);
}

/* Put the threshold of each open row of the block into best, INFINITY for decided ones. Returns how
 * many are open. */
static int sample_open(const struct job *job, struct block *b) {
    int open = 0;
    for (int slot = 0; slot < b->rows; slot += VW) {
        struct verdict v;
        sample_decide(job, b, slot, &v);
        for (int i = 0; i < VW && slot + i < b->rows; i++) {
            const int known = (int)(v.in_range >> i & 1);
            const int decided = known && b->next[slot + i] < v.threshold[i];
            b->best[slot + i] = decided ? INFINITY : known ? v.threshold[i] : -FLT_MAX;
            open += !decided;
        }
    }
    return open;
}

/* Does the filter save more than it costs? If not, all rows are compared with all centroids at
 * once. */
static int filter_pays(struct job *job) {
    if (!job->exact || job->project || job->difference == DIFFERENCE_NONE || !job->usable ||
        job->n < START_ROWS)
        return 1;
    struct worker *w = &job->workers[0];
    const double tile = tile_call_ns(job), all = dense_call_ns(job), pair = dense_pair_ns(job);
    tile_begin();
    struct block *b = sample_scores(job, START_SAMPLE);
    double cost = tile * b->rows;
    const int open = sample_open(job, b);
    memset(w->listed, 0, sizeof *w->listed * (size_t)b->rows);
    w->guard.replay = 1;
    if (open > 0 && !job->dense_first)
        tile_collect(job, w, &job->all);
    w->guard.replay = 0;
    for (int s = 0; open > 0 && s < b->rows; s++) {
        const int listed = w->listed[s];
        if (b->best[s] < INFINITY)
            cost += job->dense_first || listed > CANDIDATES_MAX ? all : tile + pair * listed;
    }
    tile_end();
    const double instead = all * b->rows;
    b->rows = 0;
    return cost <= instead;
}

#if TILE_HAS_HALF
/* Do half rows, or bytes, leave few open? */
static int half_pays(struct job *job) {
    const int64_t share = job->n / HALF_SAMPLE;
    tile_begin();
    struct block *b = sample_scores(job, share < 2 * TILE_ROWS ? 2 * TILE_ROWS : share);
    const int open = sample_open(job, b);
    tile_end();
    const double row = job->i8 == 2 ? i8x2_row(job->a)
                       : job->i8    ? i8_row(job->a)
                                    : half_row(job->a);
    const double other = job->i8 == 1 ? half_row(job->a) : plain_row(job->a);
    const double saved = (other - row) * b->rows;
    b->rows = 0;
    return open * open_row(job->a, row) <= saved;
}

/* The variant of this call: the one asked for or, if that did not pay a few calls ago, its
 * fallback. From one call to the next the share of open rows hardly changes. */
static enum variant half_variant(const struct hf_assign_args *a, enum variant variant) {
    if (a->packed && a->packed->rest > 0 && a->packed_first == 0)
        a->packed->rest--;
    return a->packed && a->packed->rest > 0 ? (enum variant)a->packed->fallback : variant;
}

/* The variant to use if this one leaves too many rows open. */
static enum variant half_fallback(const struct job *job) {
    const enum variant variant = job->i8 == 1 ? VARIANT_HALF : VARIANT_PLAIN;
    if (job->a->packed) {
        job->a->packed->rest = HALF_REST;
        job->a->packed->fallback = variant;
    }
    return variant;
}
/* Must half_pays() be asked? Not if rows are packed in two bytes already: then it paid. */
static int half_in_doubt(const struct job *job) {
    const struct hf_assign_packed *k = job->a->packed;
    const int known = job->i8 == 2 && k && k->form == packed_form(job) && k->filled > 0;
    return job->half && job->usable && !known;
}
#endif

#endif
