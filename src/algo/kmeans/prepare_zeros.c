/* SPDX-License-Identifier: Apache-2.0
 * Rows of zeros with HF_COSINE. They have no direction and are at distance 1 from every centroid:
 * as a start, or moved into an empty cluster, such a row gives a centroid that no row is near, and
 * for being far it would be taken before all others. */
#include "algo/kmeans/scan.h"
#include "base/mem.h"
#include "guard/guard.h"

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

/* Squared lengths of some rows, which have the same bits each time. */
struct squares {
    struct hf_scan *s;
    const hf_array *chunk;
};

static hf_status run_squares(void *user, int turn) {
    const struct squares *q = user;
    hf_wide ignored = {.special = 0};
    (void)turn;
    return hf_scan_squares(q->s, q->chunk, NULL, q->s->squares, &ignored);
}

static uint64_t sign_squares(const void *user) {
    const struct squares *q = user;
    return hf_guard_sign(q->s->squares, (size_t)q->chunk->rows * sizeof(double));
}

/* A row has no direction where its squares add up to 0 in float64, as reference.h has it. */
static hf_status zeros_chunk(void *job, const hf_array *chunk, int64_t first) {
    struct hf_scan *s = job;
    struct hf_fit *fit = s->fit;
    static const struct hf_repeated work = {.fault = HF_FAULT_STATE,
                                            .run = run_squares,
                                            .sign = sign_squares,
                                            .what = "the lengths of the rows",
                                            .host_only = true};
    struct squares squares = {s, chunk};
    HF_TRY(hf_guard_repeat(fit->problem.ctx, &work, &squares));
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
