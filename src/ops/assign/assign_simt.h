/* SPDX-License-Identifier: Apache-2.0
 * The float32 filter for devices that the tensor kernel does not run on. */
#ifndef HF_ASSIGN_SIMT_H
#define HF_ASSIGN_SIMT_H

#include "ops/assign/assign_cuda.h"
#include "ops/assign/assign_filter.h"

/* Centroids as it wants them. */
struct hf_simt {
    int64_t k_pad; /* k up to a whole tile */
    float *c;      /* [batch, k_pad, d] c' */
    float *bias;   /* [batch, k_pad] -|c'|^2 / 2 */
    float *cmax;   /* [batch] at least |c'| of all */
};

/* Lay it out from ws; returns the bytes. ws NULL measures. */
size_t hf_simt_carve(const struct hf_assign_problem *problem, void *ws, struct hf_simt *s);

/* Pack the centroids; labels, open rows (counters are 0 before), candidates of open rows. */
hf_status hf_simt_run(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                      const struct hf_assign_step *step, const struct hf_simt *s,
                      const struct hf_filter_open *open, int32_t *slots);

#endif
