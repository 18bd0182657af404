/* SPDX-License-Identifier: Apache-2.0
 * Small fits on a GPU, all of whose iterations one launch makes: checks between iterations would
 * cost more than they do, so the launch is made twice, and again until two agree. */
#ifndef HF_DEVICE_TWICE_H
#define HF_DEVICE_TWICE_H

#include "algo/kmeans/fit.h"
#include "ops/lloyd/lloyd.h"

/* Is a call of op lloyd with these arguments, without a book, one launch, and so small that this is
 * the better protection? The fit has a ledger on the device. */
bool hf_device_twice_serves(const struct hf_fit *fit, const struct hf_lloyd_args *args);

/* Make it; labels, sums and centroids come in as the ledger has them, and the ledger follows.
 * HF_E_CORRUPT: no two agree, or the scheme is detect. */
hf_status hf_device_twice(struct hf_fit *fit, const struct hf_lloyd_args *args);

#endif
