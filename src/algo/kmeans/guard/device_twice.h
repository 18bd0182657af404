/* SPDX-License-Identifier: Apache-2.0
 * Small fits on a GPU, all of whose iterations one launch makes: checks between iterations would
 * cost more than they do, so the launch has the problem twice, from two copies of the rows, on two
 * halves of the multiprocessors, and is made again until both agree. There is no book then. */
#ifndef HF_DEVICE_TWICE_H
#define HF_DEVICE_TWICE_H

#include "algo/kmeans/fit.h"
#include "ops/lloyd/lloyd.h"

/* Is a call of op lloyd with these arguments, twice in one, one launch, and so small that this is
 * the better protection? Takes the memory of the copies, which the ledger owns. */
bool hf_device_twice_serves(struct hf_fit *fit, const struct hf_lloyd_args *args);

/* Make it. Where the host is to end an iteration, as a cluster is empty in it, only those before it
 * are made, if any, and fit->ledger.twice is cleared. HF_E_CORRUPT: the two never agree, or the
 * scheme is detect. */
hf_status hf_device_twice(struct hf_fit *fit, const struct hf_lloyd_args *args);

/* Before an iteration: where such calls have ended the book begins, with labels and sums as they
 * are. HF_E_CORRUPT */
hf_status hf_device_twice_end(struct hf_fit *fit, const struct hf_restart *run);

/* Copies of the rows that may be wrong are given up. */
void hf_device_twice_forget(struct hf_fit *fit);

#endif
