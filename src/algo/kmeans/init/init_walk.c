/* SPDX-License-Identifier: Apache-2.0
 * The rows of a core without the distances of all rows: what op sample does, with those of a few at
 * a time. Each of three walks along the rows computes them anew, and the last one meets the rows
 * that it draws. */
#include "algo/kmeans/init/init_state.h"
#include "base/mem.h"
#include "core/array.h"
#include "ops/sample_walk.h"
#include <string.h>

struct walk {
    const struct hf_init_state *s;
    struct hf_sample_walk half[2];
    double *piece; /* [HF_WALK_ROWS] distances */
    int64_t *index;
    double *weights;
    void *x;
    void (*look)(struct walk *walk, const struct hf_sample_piece *p, const hf_array *rows,
                 int64_t first);
};

static hf_status walk_chunk(void *job, const hf_array *chunk, int64_t first) {
    struct walk *walk = job;
    const double *weights = walk->s->args->weights;
    for (int64_t at = 0; at < chunk->rows; at += HF_WALK_ROWS) {
        const int64_t left = chunk->rows - at;
        const hf_array rows = hf_array_slice(chunk, at, left < HF_WALK_ROWS ? left : HF_WALK_ROWS);
        memset(walk->piece, HF_FAR_BYTE, (size_t)rows.rows * sizeof *walk->piece);
        HF_TRY(hf_init_distances(walk->s, &rows, first + at, walk->piece));
        const struct hf_sample_piece piece = {weights ? weights + first + at : NULL, walk->piece,
                                              rows.rows};
        walk->look(walk, &piece, &rows, first + at);
    }
    return HF_OK;
}

static void look(struct walk *walk, const struct hf_sample_piece *p, const hf_array *rows,
                 int64_t first) {
    (void)rows, (void)first;
    for (int h = 0; h < 2; h++)
        hf_sample_look(&walk->half[h], p);
}

static void count(struct walk *walk, const struct hf_sample_piece *p, const hf_array *rows,
                  int64_t first) {
    (void)rows, (void)first;
    for (int h = 0; h < 2; h++)
        hf_sample_count(&walk->half[h], p);
}

static void take(struct walk *walk, const struct hf_sample_piece *p, const hf_array *rows,
                 int64_t first) {
    const size_t row_bytes = (size_t)rows->cols * hf_dtype_bytes(rows->dtype);
    for (int h = 0; h < 2; h++) {
        struct hf_sample_walk *half = &walk->half[h];
        for (int64_t i = 0; i < p->rows && half->drawn < half->draws; i++)
            for (int64_t times = hf_sample_step(half, p, i); times > 0; times--) {
                const int64_t at = h * half->draws + half->drawn - times;
                walk->index[at] = first + i;
                walk->weights[at] = p->distance[i]; /* until both sums are known */
                memcpy((char *)walk->x + (size_t)at * row_bytes, hf_array_row(rows, i), row_bytes);
            }
    }
}

static hf_status walk_thrice(struct walk *walk) {
    const struct hf_rows *rows = walk->s->rows;
    const int64_t drawn = 2 * walk->half[0].draws;
    double sums[2];
    walk->look = look;
    HF_TRY(hf_rows_each(rows, walk_chunk, walk));
    for (int h = 0; h < 2; h++)
        hf_sample_scale(&walk->half[h], rows->n);
    walk->look = count;
    HF_TRY(hf_rows_each(rows, walk_chunk, walk));
    for (int h = 0; h < 2; h++) {
        sums[h] = hf_sample_sum(&walk->half[h]);
        hf_sample_begin(&walk->half[h]);
    }
    walk->look = take;
    HF_TRY(hf_rows_each(rows, walk_chunk, walk));
    if (walk->half[0].drawn + walk->half[1].drawn < drawn)
        return hf_ctx_fail(rows->ctx, HF_E_IO,
                           "the rows changed while they were read: every pass must be the same");
    for (int64_t at = 0; at < drawn; at++)
        walk->weights[at] = hf_sample_weight(sums, walk->weights[at], (double)drawn);
    return HF_OK;
}

hf_status hf_init_walk(const struct hf_init_state *s, int64_t rows, int64_t *index, double *weights,
                       void *x) {
    struct walk walk = {.s = s, .index = index, .weights = weights, .x = x};
    for (int h = 0; h < 2; h++)
        walk.half[h] = (struct hf_sample_walk){.half = h,
                                               .draws = rows / 2,
                                               .seed = s->args->seed,
                                               .stream = hf_init_stream(s, HF_DRAW_CORE)};
    walk.piece = hf_alloc(HF_WALK_ROWS * sizeof *walk.piece);
    if (!walk.piece)
        return hf_ctx_fail(s->rows->ctx, HF_E_NOMEM, "no memory for the distances of %d rows",
                           HF_WALK_ROWS);
    const hf_status status = walk_thrice(&walk);
    hf_free(walk.piece);
    return status;
}
