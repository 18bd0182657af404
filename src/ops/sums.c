/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sums.h"

#include <string.h>

void hf_sums_clear(const struct hf_sums *s) {
    memset(s->sum, 0, (size_t)(s->limbs * s->k * s->d) * sizeof(int64_t));
    memset(s->count, 0, (size_t)s->k * sizeof(int64_t));
    if (s->weight)
        memset(s->weight, 0, (size_t)(s->limbs * s->k) * sizeof(int64_t));
}

void hf_sums_begin(const hf_comm *comm, const struct hf_sums *s) {
    if (comm->rank(comm) > 0)
        hf_sums_clear(s);
}

hf_status hf_sums_reduce(const hf_comm *comm, void *stream, const struct hf_sums *s,
                         int64_t *changed) {
    const int64_t cells = s->limbs * s->k;
    HF_TRY(comm->allreduce(comm, stream, s->sum, cells * s->d, HF_COMM_SUM_I64));
    HF_TRY(comm->allreduce(comm, stream, s->count, s->k, HF_COMM_SUM_I64));
    if (s->weight)
        HF_TRY(comm->allreduce(comm, stream, s->weight, cells, HF_COMM_SUM_I64));
    return comm->allreduce(comm, stream, changed, 1, HF_COMM_SUM_I64);
}
