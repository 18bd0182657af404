/* SPDX-License-Identifier: Apache-2.0
 * How a fit divides the memory that its context allows. */
#ifndef HF_MEMORY_PLAN_H
#define HF_MEMORY_PLAN_H

#include "algo/kmeans/fit.h"

struct hf_memory_plan {
    uint64_t kernels; /* bytes of workspace */
    uint64_t nearest; /* bytes of two float32 or one float64 a row; 0: there are none */
    uint64_t chunk;   /* bytes of rows that are read at once; 0: rows are used where they lie */
    bool keep_bounds;
    uint64_t ledger; /* bytes of the second book of the checks; 0: there is none */
    uint64_t packed; /* bytes of packed rows; 0: rows are packed anew */
};

/* Divide the limit: what must be, `carved` bytes of it the fit's own arrays, then bounds and packed
 * rows if they are affordable, then the chunk. All of this is the host's memory, which the limit of
 * another device does not speak of; what that will lack in any case is refused too. Leaves what the
 * fit holds in the context, which plans kernels within the rest. HF_E_NOMEM */
hf_status hf_memory_plan(struct hf_fit *fit, size_t carved, struct hf_memory_plan *plan);

/* HF_E_NOMEM, in words. */
hf_status hf_memory_too_little(const struct hf_fit_problem *problem, uint64_t needed);

/* Bytes that preparing leaves: statistics of columns, weights, a list of the rows left out. */
uint64_t hf_prepared_bytes(const struct hf_fit_problem *problem, const struct hf_weights *weights,
                           const struct hf_data *data);

#endif
