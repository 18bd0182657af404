/* SPDX-License-Identifier: Apache-2.0
 * Check `bounds`: the bounds of the rows, and what they are moved by, in a protected fit. */
#ifndef HF_GUARD_BOUNDS_H
#define HF_GUARD_BOUNDS_H

#include "algo/kmeans/fit.h"

/* Around an assignment with these bounds, NULL: without any. Between both calls kernels of the
 * host keep account of what they write. HF_E_CORRUPT: memory contradicts that account, or what the
 * bounds were moved by is not what it was. */
void hf_bounds_begin(struct hf_fit *fit, struct hf_assign_bounds *bounds);
hf_status hf_bounds_check(struct hf_fit *fit, const struct hf_assign_bounds *bounds);

/* Are they checked so? */
bool hf_bounds_accounts(const struct hf_fit *fit);

/* What bounds of the rows are moved by came out wrong: HF_E_CORRUPT. */
hf_status hf_bounds_moves_wrong(struct hf_fit *fit);

#endif
