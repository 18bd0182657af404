/* SPDX-License-Identifier: Apache-2.0
 * Many candidates at once on a GPU: op assign finds the nearest of them with the matrix units, op
 * inertia its reference distance. What comes out is what op seed would commit: the least reference
 * distance, the first candidate that has it. (Not for the cosine, where seeding takes all distances
 * below 0 for equal.) */
#include "algo/kmeans/init/init_state.h"
#include "base/mem.h"
#include "ops/inertia/inertia.h"
#include <inttypes.h>
#include <string.h>

struct many {
    const struct hf_init_state *s;
    hf_array candidates;
    int32_t first_label;
    int32_t *label;    /* [room] which candidate is nearest */
    double *distance;  /* [room] and how far it is */
    void *device;      /* both in the memory of the device, distances first */
    int64_t room;      /* rows of a chunk */
    int64_t first, at; /* the chunk at work: its first row, and rows */
};

bool hf_init_is_many(const struct hf_init_state *s, int64_t count) {
    return s->on_device && s->args->metric != HF_COSINE && count >= HF_INIT_MANY;
}

static void drop_room(struct many *m) {
    hf_free(m->label);
    hf_free(m->distance);
    hf_ctx_release(m->s->rows->ctx, m->device);
}

static hf_status make_room(struct many *m, int64_t rows) {
    const size_t count = (size_t)rows;
    if (rows <= m->room)
        return HF_OK;
    drop_room(m);
    m->room = rows;
    m->label = hf_alloc(count * sizeof *m->label);
    m->distance = hf_alloc(count * sizeof *m->distance);
    m->device = hf_ctx_alloc(m->s->rows->ctx, count * (sizeof *m->label + sizeof *m->distance));
    if (m->label && m->distance && m->device)
        return HF_OK;
    return hf_ctx_fail(m->s->rows->ctx, HF_E_NOMEM,
                       "no memory for the distances of %" PRId64 " rows", rows);
}

/* Rows [begin, end) of the data, as far as they are in the chunk. */
static void merge_range(void *job, int worker, int64_t begin, int64_t end) {
    const struct many *m = job;
    const struct hf_init_state *s = m->s;
    (void)worker;
    begin = begin < m->first ? m->first : begin;
    end = end < m->first + m->at ? end : m->first + m->at;
    for (int64_t i = begin; i < end; i++) {
        const int64_t at = i - m->first;
        if (m->distance[at] < s->nearest[i]) {
            s->nearest[i] = m->distance[at];
            s->label[i] = m->first_label + m->label[at];
        }
        s->block[i / HF_SEED_BLOCK] += hf_init_potential(s, i);
    }
}

static hf_status many_chunk(void *job, const hf_array *chunk, int64_t first) {
    struct many *m = job;
    const struct hf_init_state *s = m->s;
    hf_context *ctx = s->rows->ctx;
    hf_wide unused = {.special = 0};
    struct hf_assign_stats stats = {0};
    const size_t rows = (size_t)chunk->rows;
    HF_TRY(make_room(m, chunk->rows));
    double *distance = m->device;
    int32_t *label = (int32_t *)(distance + m->room);
    const struct hf_assign_args nearest = {.x = *chunk,
                                           .c = m->candidates,
                                           .metric = HF_EUCLIDEAN,
                                           .exact = true,
                                           .filter = s->args->filter,
                                           .labels = label,
                                           .stats = &stats};
    const struct hf_inertia_args far = {.x = *chunk,
                                        .c = m->candidates,
                                        .metric = HF_EUCLIDEAN,
                                        .labels = label,
                                        .distances = distance,
                                        .sum = &unused};
    HF_TRY(hf_ctx_fill(ctx, label, 0xff, rows * sizeof *label)); /* -1 */
    HF_TRY(hf_assign(ctx, &nearest));
    HF_TRY(hf_inertia(ctx, &far));
    HF_TRY(hf_ctx_copy(ctx, m->label, label, rows * sizeof *label));
    HF_TRY(hf_ctx_copy(ctx, m->distance, distance, rows * sizeof *distance));
    m->first = first;
    m->at = chunk->rows;
    hf_parallel_for(s->pool, first + chunk->rows, HF_SEED_BLOCK, merge_range, m);
    return HF_OK;
}

hf_status hf_init_commit_many(struct hf_init_state *s, double *candidates, int64_t count,
                              int32_t first_label) {
    struct many m = {.s = s,
                     .candidates = hf_array_view(candidates, HF_F64, count, s->d),
                     .first_label = first_label};
    const hf_status status = hf_rows_each(s->rows, many_chunk, &m);
    drop_room(&m);
    return status;
}
