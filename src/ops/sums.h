/* SPDX-License-Identifier: Apache-2.0
 * The sums of the clusters over all ranks, in host memory. They are integers: rank 0 keeps the
 * total and the others go on from 0, so that each iteration adds only what changed. */
#ifndef HF_SUMS_H
#define HF_SUMS_H

#include "comm/comm.h"
#include "ops/update/update.h"

void hf_sums_clear(const struct hf_sums *s);

/* Before an iteration adds to the sums. */
void hf_sums_begin(const hf_comm *comm, const struct hf_sums *s);

/* After it: the sums, and how many labels it changed, of all ranks. */
hf_status hf_sums_reduce(const hf_comm *comm, void *stream, const struct hf_sums *s,
                         int64_t *changed);

#endif
