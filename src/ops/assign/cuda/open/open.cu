/* SPDX-License-Identifier: Apache-2.0
 * Open rows to labels, all at once or, as there is not room for so many candidates of each, in
 * rounds. */
#include "ops/assign/cuda/open/settle.h"

static __global__ void count_late(const struct hf_settle s, int64_t batch, int32_t first,
                                  const int32_t *stop) {
    if (stop && *stop)
        return;
    for (int64_t b = threadIdx.x; b < batch; b += blockDim.x) {
        s.late[b] = s.open.count[b] > first ? s.open.count[b] - first : 0;
        s.unsure_count[b] = 0;
    }
}

/* Entries from `first` on of the lists of s. */
static hf_status begin_late(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                            const struct hf_assign_step *step, const struct hf_settle *s,
                            int64_t first, struct hf_settle *late) {
    late->open.row = s->open.row + first;
    late->open.threshold = s->open.threshold + first;
    late->open.emitted = s->open.emitted + first;
    late->open.count = s->late;
    if (s->open.cap - first < s->open.part)
        late->open.part = s->open.cap - first;
    count_late<<<1, 256, 0, cuda->stream>>>(*s, rows->problem.batch, (int32_t)first, step->stop);
    return hf_cuda_launched(cuda, "assign: count open rows");
}

/* Those of one round. */
static hf_status settle_round(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                              const struct hf_assign_step *step, const struct hf_settle *s,
                              const struct hf_filter_call *filter) {
    struct hf_settle left = *s;
    HF_TRY(hf_filter_emit(cuda, filter, &s->open, step->labels, s->slots));
    HF_TRY(hf_settle_differences(cuda, rows, step, &left));
    return hf_settle_pairs(cuda, rows, step, &left);
}

hf_status hf_settle_open(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, const struct hf_settle *s,
                         const struct hf_filter_call *filter) {
    struct hf_settle left = *s;
    HF_TRY(hf_settle_by_neighbors(cuda, rows, step, &left));
    HF_TRY(settle_round(cuda, rows, step, &left, filter));
    for (int64_t first = s->open.part; first < s->open.cap; first += s->open.part) {
        struct hf_settle late = left;
        HF_TRY(begin_late(cuda, rows, step, &left, first, &late));
        HF_TRY(settle_round(cuda, rows, step, &late, filter));
    }
    return HF_OK;
}
