/* SPDX-License-Identifier: Apache-2.0
 * Scaling a matrix with given parameters, and the way back. */
#include <holdfast/prep.h>

#include "base/dtype.h"
#include "core/array.h"
#include "core/context.h"

static hf_status check(hf_context *ctx, const hf_scaling *s, const hf_array *x, const hf_array *y) {
    if (s == NULL || s->shift == NULL || s->unit == NULL)
        return hf_ctx_fail(ctx, HF_E_ARG, "a scaling with its shifts and units is needed");
    HF_TRY(hf_array_check(x, "x", &ctx->error));
    HF_TRY(hf_array_check(y, "y", &ctx->error));
    if (y->dtype != HF_F32 && y->dtype != HF_F64)
        return hf_ctx_fail(ctx, HF_E_ARG, "scaled values are F32 or F64, not %s",
                           hf_dtype_name(y->dtype));
    if (x->cols != s->cols || y->cols != s->cols || x->rows != y->rows)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "a scaling of %lld columns does not fit [%lld, %lld] and [%lld, %lld]",
                           (long long)s->cols, (long long)x->rows, (long long)x->cols,
                           (long long)y->rows, (long long)y->cols);
    return HF_OK;
}

static hf_status map(hf_context *ctx, const hf_scaling *s, const hf_array *x, const hf_array *y,
                     bool undo) {
    if (ctx == NULL)
        return HF_E_ARG;
    HF_TRY(check(ctx, s, x, y));
    for (int64_t i = 0; i < x->rows; i++) {
        const void *from = hf_array_row(x, i);
        void *to = (void *)hf_array_row(y, i);
        for (int64_t j = 0; j < s->cols; j++) {
            const double v = hf_load_f64(from, x->dtype, j);
            hf_store_f64(to, y->dtype, j,
                         undo ? v * s->unit[j] + s->shift[j] : (v - s->shift[j]) / s->unit[j]);
        }
    }
    return HF_OK;
}

hf_status hf_scaling_apply(hf_context *ctx, const hf_scaling *scaling, const hf_array *x,
                           const hf_array *y) {
    return map(ctx, scaling, x, y, false);
}

hf_status hf_scaling_undo(hf_context *ctx, const hf_scaling *scaling, const hf_array *x,
                          const hf_array *y) {
    return map(ctx, scaling, x, y, true);
}

const char *hf_scale_name(hf_scale scale) {
    static const char *const names[] = {"none", "standard", "robust", "minmax"};
    return (unsigned)scale < sizeof names / sizeof *names ? names[scale] : "none";
}
