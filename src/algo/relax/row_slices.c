/* SPDX-License-Identifier: Apache-2.0
 * Which methods read the matrix by slices (ops/slices.h), and those slices. */
#include "algo/relax/setup.h"

bool hf_relax_has_vectors(const hf_relax *relax) {
    return !hf_relax_on_device(relax) && !relax->shared && hf_slices_serve();
}

/* Rows that run in any order; blocks with sweeps of their own have theirs. */
bool hf_relax_may_slice(const hf_relax *relax) {
    const hf_relax_method method = relax->opts.method;
    return hf_relax_has_vectors(relax) && method != HF_RELAX_ASYNC &&
           (method != HF_RELAX_GAUSS_SEIDEL || relax->by_rows);
}

/* On a device a row has a thread; fewer rows to a multiprocessor than that keep it waiting for
 * memory, and groups of rows are faster (docs/relaxation.md). */
#define ROWS_EACH 384

hf_status hf_relax_slice_for_device(hf_relax *relax, struct hf_slices *slices) {
    const struct hf_sparse a = hf_relax_sparse(&relax->m);
    const int64_t whole[] = {0, a.rows};
    *slices = (struct hf_slices){0};
    if (a.rows < (int64_t)ROWS_EACH * relax->ctx->props.sms)
        return HF_OK;
    const hf_status status = hf_slices_make(&a, whole, 1, (uint64_t)hf_sparse_bytes(&a),
                                            hf_ctx_pool(relax->ctx), slices);
    return status == HF_E_NOMEM ? hf_relax_no_memory(relax, "the slices of the matrix") : HF_OK;
}

hf_status hf_relax_make_slices(hf_relax *relax) {
    const struct hf_sparse a = hf_relax_sparse(&relax->m);
    const int64_t whole[] = {0, a.rows};
    const int64_t *ranges = relax->by_rows ? relax->colours.start : whole;
    const uint64_t limit = hf_ctx_host_limit(relax->ctx);
    relax->bytes -= hf_slices_bytes(&relax->slices, a.dtype);
    hf_slices_clear(&relax->slices);
    const hf_status status =
        hf_relax_may_slice(relax)
            ? hf_slices_make(&a, ranges, relax->by_rows ? relax->colours.count : 1,
                             limit > relax->bytes ? limit - relax->bytes : 0,
                             hf_ctx_pool(relax->ctx), &relax->slices)
            : HF_E_UNSUPPORTED;
    if (status == HF_E_NOMEM)
        return hf_relax_no_memory(relax, "the slices of the matrix");
    relax->bytes += hf_slices_bytes(&relax->slices, a.dtype);
    /* Without slices iterations read the rows, which then must be a copy that is watched. */
    return relax->slices.count == 0 && relax->m.borrowed ? hf_relax_own_matrix(relax) : HF_OK;
}
