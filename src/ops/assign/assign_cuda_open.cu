/* SPDX-License-Identifier: Apache-2.0
 * Open rows to labels, all at once or, where memory is short, in two rounds. */
#include "core/array.h"
#include "ops/assign/assign_cuda_settle.h"
#include "ops/assign/assign_mma.h"

/* Only where a filter of tensor cores lists candidates: wherever it can be chosen, it is. */
int64_t hf_settle_slot_rows(const struct hf_assign_problem *p) {
    struct hf_cuda a100 = {};
    a100.sm = 80;
    const int64_t n = p->x.rows / p->batch;
    const bool halved = p->lean && p->batch == 1 && p->kind != HF_ASSIGN_SIMT &&
                        hf_mma_supports(&a100, n, (int)p->k, (int)p->x.cols, 1);
    return halved ? (n + 1) / 2 : n;
}

static __global__ void count_late(const int32_t *count, int32_t first, int32_t *late,
                                  const int32_t *stop) {
    if (!stop || !*stop)
        *late = *count > first ? *count - first : 0;
}

/* s as the second round sees it. */
static hf_status begin_late(struct hf_cuda *cuda, const struct hf_assign_step *step,
                            const struct hf_settle *s, struct hf_settle *part) {
    part->open.cap = s->open.cap - s->slot_rows;
    part->open.row = s->open.row + s->slot_rows;
    part->open.threshold = s->open.threshold + s->slot_rows;
    part->open.emitted = s->open.emitted + s->slot_rows;
    part->open.count = s->late;
    count_late<<<1, 1, 0, cuda->stream>>>(s->open.count, (int32_t)s->slot_rows, s->late,
                                          step->stop);
    return hf_cuda_launched(cuda, "assign: count open rows");
}

/* Those of one round. */
static hf_status settle_round(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                              const struct hf_assign_step *step, const struct hf_settle *s,
                              const struct hf_filter_rows *x, const struct hf_filter_centroids *c,
                              void *packed) {
    const hf_array *all = &rows->problem.x;
    HF_TRY(hf_filter_emit(cuda, x, c, packed, &s->open, s->slots));
    HF_TRY(hf_row_cache_join(cuda, &rows->cache));
    HF_TRY(hf_settle_lent(cuda, rows, step, s));
    HF_TRY(hf_row_cache_fetch(
        cuda, &rows->cache, all->data, hf_array_stride(all) * (int64_t)hf_dtype_bytes(all->dtype),
        s->open.row, s->open.emitted, s->open.count, s->open.cap, step->stop));
    return hf_settle_pairs(cuda, rows, step, s);
}

hf_status hf_settle_open(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, const struct hf_settle *s,
                         const struct hf_filter_rows *x, const struct hf_filter_centroids *c,
                         void *packed) {
    struct hf_settle part = *s;
    part.open.cap = s->slot_rows;
    HF_TRY(settle_round(cuda, rows, step, &part, x, c, packed));
    if (s->slot_rows == s->open.cap)
        return HF_OK;
    HF_TRY(begin_late(cuda, step, s, &part));
    return settle_round(cuda, rows, step, &part, x, c, packed);
}
