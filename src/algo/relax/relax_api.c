/* SPDX-License-Identifier: Apache-2.0
 * The public functions of relax.h but for batches. */
#include "algo/relax/setup.h"

#include "base/mem.h"
#include <string.h>

void hf_relax_result_clear(hf_relax_result *result) {
    if (result == NULL)
        return;
    for (int64_t j = 0; result->columns != NULL && j < result->rhs; j++)
        hf_free(result->columns[j].history);
    hf_free(result->columns);
    memset(result, 0, sizeof *result);
}

/* Matrix first, since the vectors must fit it. */
hf_status hf_relax_solve_inside(hf_context *ctx, const struct hf_relax_system *system,
                                const hf_relax_opts *opts, hf_relax_result *result) {
    hf_relax *relax = NULL;
    const bool once = system->x != NULL && system->x->cols == 1;
    HF_TRY(hf_relax_open(ctx, system->a, opts, once ? HF_RELAX_ONCE : HF_RELAX_COLUMNS, &relax));
    hf_status status = hf_relax_check_vectors(ctx, relax->m.n, system->b, system->x, true);
    if (status == HF_OK)
        status = hf_relax_told(relax, hf_relax_solve_columns(relax, system->b, system->x, result));
    hf_relax_destroy(relax);
    return status;
}

hf_status hf_relax_solve(hf_context *ctx, const hf_csr *a, const hf_array *b, const hf_array *x,
                         const hf_relax_opts *opts, hf_relax_result *result) {
    if (ctx == NULL)
        return HF_E_ARG;
    if (!hf_ctx_enter(ctx))
        return HF_E_BUSY;
    const struct hf_relax_system system = {a, b, x};
    return hf_ctx_leave(ctx, hf_relax_solve_inside(ctx, &system, opts, result));
}

hf_status hf_relax_setup(hf_context *ctx, const hf_csr *a, const hf_relax_opts *opts,
                         hf_relax **out) {
    if (ctx == NULL)
        return HF_E_ARG;
    if (!hf_ctx_enter(ctx))
        return HF_E_BUSY;
    if (out == NULL)
        return hf_ctx_leave(ctx,
                            hf_ctx_fail(ctx, HF_E_ARG, "out is NULL; give a place for the set-up"));
    *out = NULL;
    return hf_ctx_leave(ctx, hf_relax_open(ctx, a, opts, HF_RELAX_KEPT, out));
}

hf_status hf_relax_update_values(hf_relax *relax, const hf_csr *a) {
    if (relax == NULL)
        return HF_E_ARG;
    if (!hf_ctx_enter(relax->owner))
        return HF_E_BUSY;
    return hf_ctx_leave(relax->owner, hf_relax_told(relax, hf_relax_renew(relax, a)));
}

hf_status hf_relax_solve_with(hf_relax *relax, const hf_array *b, const hf_array *x,
                              hf_relax_result *result) {
    if (relax == NULL)
        return HF_E_ARG;
    if (!hf_ctx_enter(relax->owner))
        return HF_E_BUSY;
    hf_status status = hf_relax_check_vectors(relax->ctx, relax->m.n, b, x, true);
    if (status == HF_OK)
        status = hf_relax_solve_columns(relax, b, x, result);
    return hf_ctx_leave(relax->owner, hf_relax_told(relax, status));
}

static hf_status apply(hf_relax *relax, const hf_array *b, const hf_array *x, int sweeps,
                       int guess_zero) {
    const struct hf_relax_sweeps asked = {sweeps, guess_zero != 0};
    if (sweeps < 1)
        return hf_ctx_fail(relax->ctx, HF_E_ARG, "sweeps is %d; make at least 1", sweeps);
    if (relax->shared)
        return hf_ctx_fail(relax->ctx, HF_E_UNSUPPORTED,
                           "there is no smoothing on several devices: set up without devices");
    if (relax->opts.method == HF_RELAX_CG)
        return hf_ctx_fail(relax->ctx, HF_E_ARG,
                           "method cg is no linear function of b and cannot smooth: set up "
                           "chebyshev, async, gauss-seidel, jacobi or schwarz");
    HF_TRY(hf_relax_check_vectors(relax->ctx, relax->m.n, b, x, false));
    return hf_relax_smooth(relax, b, x, &asked);
}

hf_status hf_relax_apply(hf_relax *relax, const hf_array *b, const hf_array *x, int sweeps,
                         int guess_zero) {
    if (relax == NULL)
        return HF_E_ARG;
    if (!hf_ctx_enter(relax->owner))
        return HF_E_BUSY;
    return hf_ctx_leave(relax->owner, hf_relax_told(relax, apply(relax, b, x, sweeps, guess_zero)));
}
