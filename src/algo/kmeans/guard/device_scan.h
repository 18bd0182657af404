/* SPDX-License-Identifier: Apache-2.0
 * Protection of the first passes over rows that a GPU reads: as prepare_twice.c, in whole passes
 * and by the kernels that were planned. */
#ifndef HF_KMEANS_GUARD_DEVICE_SCAN_H
#define HF_KMEANS_GUARD_DEVICE_SCAN_H

#include "algo/kmeans/scan.h"

/* Ranges of a panel into s->range and s->again; before, all rows are signed if they lie together,
 * else fit->ledger.rows_signed is cleared. */
hf_status hf_device_scan_ranges(struct hf_scan *s, const hf_array *panel);

/* Moments of a panel, added to the sums: twice, until both agree. */
hf_status hf_device_scan_moments(struct hf_scan *s, const struct hf_moments_args *args);

/* The signature of rows that lie together. */
hf_status hf_device_scan_sign(struct hf_fit *fit, const hf_array *rows, uint64_t *sign);

#endif
