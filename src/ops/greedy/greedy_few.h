/* SPDX-License-Identifier: Apache-2.0
 * greedy on Hopper where the rows are few, as the candidates of k-means|| are: the distances of all
 * rows to each other, then the steps in one cluster of blocks. */
#ifndef HF_GREEDY_FEW_H
#define HF_GREEDY_FEW_H

#include "ops/greedy/greedy_state.cuh"

#define HF_GREEDY_FEW_ROWS 4096

/* Bytes of the distances of n rows. */
size_t hf_greedy_few_bytes(int64_t n);

/* Make the steps: not for the cosine. memory: hf_greedy_few_bytes(job.n). Queued on the stream. */
hf_status hf_greedy_few_run(struct hf_cuda *cuda, struct greedy_job job, void *memory);

#endif
