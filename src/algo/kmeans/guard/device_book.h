/* SPDX-License-Identifier: Apache-2.0
 * The ledger of a GPU as the book of op lloyd, which checks its iterations by it. */
#ifndef HF_DEVICE_BOOK_H
#define HF_DEVICE_BOOK_H

#include "algo/kmeans/fit.h"
#include "ops/lloyd/lloyd.h"

/* The book for a call of op lloyd, after which centroids of the host are checked and kept. False:
 * there is none. */
bool hf_device_ledger_lend(struct hf_fit *fit, struct hf_lloyd_book *book);
/* The hashes of rows that lie in memory, if they are not there yet. */
hf_status hf_device_ledger_hash(struct hf_fit *fit);
/* After the call, whose centroids are in fit->centers: they are what the checks saw, and the rows
 * were packed rightly. Counts what was checked in `iterations` of them. HF_E_CORRUPT */
hf_status hf_device_ledger_returned(struct hf_fit *fit, int iterations);

#endif
