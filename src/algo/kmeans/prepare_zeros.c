/* SPDX-License-Identifier: Apache-2.0
 * Rows of zeros with HF_COSINE. They have no direction and are at distance 1 from every centroid:
 * as a start, or moved into an empty cluster, such a row gives a centroid that no row is near, and
 * for being far it would be taken before all others. */
#include "algo/kmeans/scan.h"
#include "base/mem.h"

#define LEAST_SQUARED 0x1p-500 /* whose square is not 0 by far */

/* Without such a row nothing is taken. */
static hf_status take_pull(const struct hf_fit_problem *problem, struct hf_weights *weights) {
    if (weights->directed)
        return HF_OK;
    weights->directed = hf_alloc((size_t)problem->n * sizeof(double));
    if (!weights->directed)
        return hf_ctx_fail(problem->ctx, HF_E_NOMEM, "no memory for %lld weights",
                           (long long)problem->n);
    for (int64_t i = 0; i < problem->n; i++)
        weights->directed[i] = weights->scaled ? weights->scaled[i] : 1;
    return HF_OK;
}

/* A row has no direction where its squares add up to 0 in float64, as reference.h has it. */
static hf_status zeros_chunk(void *job, const hf_array *chunk, int64_t first) {
    struct hf_scan *s = job;
    struct hf_fit *fit = s->fit;
    hf_wide ignored = {.special = 0};
    HF_TRY(hf_scan_squares(s, chunk, NULL, s->squares, &ignored));
    for (int64_t i = 0; i < chunk->rows; i++) {
        if (s->squares[i] > 0)
            continue;
        HF_TRY(take_pull(&fit->problem, &fit->weights));
        fit->weights.directed[first + i] = 0;
    }
    return HF_OK;
}

hf_status hf_scan_zero_rows(struct hf_scan *s) {
    struct hf_fit *fit = s->fit;
    const struct hf_fit_problem *problem = &fit->problem;
    const struct hf_columns *col = &fit->columns;
    if (problem->opts.init == HF_INIT_GIVEN && problem->opts.empty != HF_EMPTY_RELOCATE &&
        problem->opts.empty != HF_EMPTY_SPLIT)
        return HF_OK;
    for (int64_t f = 0; f < problem->d; f++)
        if (col->min[f] > LEAST_SQUARED || col->max[f] < -LEAST_SQUARED)
            return HF_OK;
    HF_TRY(hf_panels_each(&fit->data.rows, fit->data.scan_rows, zeros_chunk, s));
    for (int64_t i = 0; fit->weights.directed && i < problem->n; i++)
        fit->weights.any_directed |= fit->weights.directed[i] > 0;
    return HF_OK;
}
