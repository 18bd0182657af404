/* SPDX-License-Identifier: Apache-2.0
 * Open rows to labels, all at once or, where memory is short, in two rounds. */
#include "core/array.h"
#include "ops/assign/assign_cuda_settle.h"
#include "ops/assign/assign_mma.h"

/* No more rows than one in so many are copied while the filter's answer is not complete: in the
 * first iteration all have another label. */
#define EARLY_PART 32

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
                                  int32_t *doubt_count, const int32_t *stop) {
    if (stop && *stop)
        return;
    *late = *count > first ? *count - first : 0;
    *doubt_count = 0;
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
                                          s->doubt_count, step->stop);
    return hf_cuda_launched(cuda, "assign: count open rows");
}

static int64_t step_bytes(const hf_array *x) {
    return hf_array_stride(x) * (int64_t)hf_dtype_bytes(x->dtype);
}

/* Rows that the filter itself gave another label are copied while candidates are looked for. */
static hf_status fetch_early(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                             const struct hf_assign_step *step, const struct hf_settle *s) {
    const hf_array *x = &rows->problem.x;
    if (s->marks.word == NULL)
        return HF_OK;
    return hf_row_cache_early(cuda, &rows->cache, x->data, step_bytes(x), s->marks.word,
                              rows->n / EARLY_PART, step->stop);
}

/* Those of one round. */
static hf_status settle_round(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                              const struct hf_assign_step *step, const struct hf_settle *s,
                              const struct hf_filter_rows *x, const struct hf_filter_centroids *c,
                              void *packed) {
    const hf_array *all = &rows->problem.x;
    struct hf_settle left = *s;
    HF_TRY(hf_filter_emit(cuda, x, c, packed, &s->open, s->slots));
    HF_TRY(hf_settle_lent(cuda, rows, step, &left));
    HF_TRY(hf_row_cache_join(cuda, &rows->cache));
    const struct hf_row_list list = {s->open.row, left.doubt, s->open.emitted,
                                     left.doubt ? left.doubt_count : s->open.count, s->open.cap};
    HF_TRY(hf_row_cache_fetch(cuda, &rows->cache, all->data, step_bytes(all), &list, step->stop));
    return hf_settle_pairs(cuda, rows, step, &left);
}

hf_status hf_settle_open(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, const struct hf_settle *s,
                         const struct hf_filter_rows *x, const struct hf_filter_centroids *c,
                         void *packed) {
    struct hf_settle part = *s;
    part.open.cap = s->slot_rows;
    HF_TRY(fetch_early(cuda, rows, step, s));
    HF_TRY(settle_round(cuda, rows, step, &part, x, c, packed));
    if (s->slot_rows == s->open.cap)
        return HF_OK;
    HF_TRY(begin_late(cuda, step, s, &part));
    return settle_round(cuda, rows, step, &part, x, c, packed);
}
