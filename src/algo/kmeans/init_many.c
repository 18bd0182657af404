/* SPDX-License-Identifier: Apache-2.0
 * Many candidates at once on a GPU: op assign finds the nearest of them with the matrix units, op
 * inertia its reference distance. What comes out is what op seed would commit: the least reference
 * distance, the first candidate that has it. (Not for the cosine, where seeding takes all distances
 * below 0 for equal.) */
#include "algo/kmeans/init_state.h"
#include "base/mem.h"
#include "ops/inertia/inertia.h"
#include <inttypes.h>
#include <string.h>

#define MANY 64 /* fewer: op seed is as fast */

struct many {
    const struct hf_init_state *s;
    hf_array candidates;
    int32_t first_label;
    int32_t *label;   /* [chunk] which candidate is nearest */
    double *distance; /* [chunk] and how far it is */
    int64_t room;     /* rows of both */
};

bool hf_init_is_many(const struct hf_init_state *s, int64_t count) {
    return !hf_ctx_is_host(s->rows->ctx) && s->args->metric != HF_COSINE && count >= MANY;
}

static hf_status make_room(struct many *m, int64_t rows) {
    if (rows <= m->room)
        return HF_OK;
    hf_free(m->label);
    hf_free(m->distance);
    m->label = hf_alloc((size_t)rows * sizeof *m->label);
    m->distance = hf_alloc((size_t)rows * sizeof *m->distance);
    m->room = rows;
    if (m->label && m->distance)
        return HF_OK;
    return hf_ctx_fail(m->s->rows->ctx, HF_E_NOMEM,
                       "no memory for the distances of %" PRId64 " rows", rows);
}

static hf_status many_chunk(void *job, const hf_array *chunk, int64_t first) {
    struct many *m = job;
    const struct hf_init_state *s = m->s;
    hf_wide unused = {.special = 0};
    struct hf_assign_stats stats = {0};
    HF_TRY(make_room(m, chunk->rows));
    memset(m->label, 0xff, (size_t)chunk->rows * sizeof *m->label); /* -1 */
    const struct hf_assign_args nearest = {.x = *chunk,
                                           .c = m->candidates,
                                           .metric = HF_EUCLIDEAN,
                                           .exact = true,
                                           .filter = s->args->filter,
                                           .labels = m->label,
                                           .stats = &stats};
    const struct hf_inertia_args far = {.x = *chunk,
                                        .c = m->candidates,
                                        .metric = HF_EUCLIDEAN,
                                        .labels = m->label,
                                        .distances = m->distance,
                                        .sum = &unused};
    HF_TRY(hf_assign(s->rows->ctx, &nearest));
    HF_TRY(hf_inertia(s->rows->ctx, &far));
    for (int64_t i = 0; i < chunk->rows; i++)
        if (m->distance[i] < s->nearest[first + i]) {
            s->nearest[first + i] = m->distance[i];
            s->label[first + i] = m->first_label + m->label[i];
        }
    return HF_OK;
}

hf_status hf_init_commit_many(struct hf_init_state *s, double *candidates, int64_t count,
                              int32_t first_label) {
    struct many m = {.s = s,
                     .candidates = hf_array_view(candidates, HF_F64, count, s->d),
                     .first_label = first_label};
    const hf_status status = hf_rows_each(s->rows, many_chunk, &m);
    hf_free(m.label);
    hf_free(m.distance);
    for (int64_t i = 0; i < s->n && status == HF_OK; i++)
        s->block[i / HF_SEED_BLOCK] += hf_init_potential(s, i);
    return status;
}
