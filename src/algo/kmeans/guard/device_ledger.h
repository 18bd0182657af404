/* SPDX-License-Identifier: Apache-2.0
 * The part of the ledger that lies in the memory of a GPU, where the rows and their labels are: op
 * audit keeps it. ledger.h calls these where fit->ledger.device is there. */
#ifndef HF_DEVICE_LEDGER_H
#define HF_DEVICE_LEDGER_H

#include "algo/kmeans/fit.h"

/* Take its memory, with these factors [limbs, d + 1]. Where the device has no room
 * fit->ledger.device stays NULL. */
hf_status hf_device_ledger_open(struct hf_fit *fit, const uint64_t *factor);
void hf_device_ledger_close(hf_context *ctx, struct hf_ledger *ledger);

/* As hf_ledger_clear(), _book(), _compare() and _check_labels(), the last of labels that came out
 * twice, too. nearest: whether rows moved to
 * nearer centroids, fit->centers.current, is looked at, too. */
hf_status hf_device_ledger_clear(struct hf_fit *fit);
hf_status hf_device_ledger_book(struct hf_fit *fit, int64_t changed, bool nearest);
hf_status hf_device_ledger_compare(struct hf_fit *fit);
hf_status hf_device_ledger_check_labels(struct hf_fit *fit);

/* What a start that failed with `status` means: HF_E_CORRUPT if rows on a device are no more those
 * that were first read, as the values that it complains of may not be the caller's. */
hf_status hf_device_ledger_blame(struct hf_fit *fit, hf_status status);

/* hf_guard_sign() of an array of the device. */
hf_status hf_device_ledger_sign(struct hf_fit *fit, const void *data, size_t bytes, uint64_t *sign);

/* Bounds of the rows, where kernels keep no account of them (guard/bounds.h): they are signed after
 * an iteration, and before the next one either what they were or forgotten; with detect
 * HF_E_CORRUPT. */
void hf_device_ledger_keep_bounds(struct hf_fit *fit);
hf_status hf_device_ledger_check_bounds(struct hf_fit *fit);

#endif
