/* SPDX-License-Identifier: Apache-2.0 */
#include "rows/host_view.h"

#include "base/mem.h"
#include "core/array.h"
#include "device/pipe.h"

static bool owns(const hf_context *ctx, const void *p) { return ctx->device->owns(ctx->stream, p); }

/* The rows must be of this device or of the host. */
hf_status hf_check_place(hf_context *ctx, const hf_array *a, const char *what) {
    if (hf_pipe_of(ctx->device->id)->place(ctx->stream, a->data) != HF_PLACE_OTHER_DEVICE)
        return HF_OK;
    return hf_ctx_fail(ctx, HF_E_ARG,
                       "the %s lie in the memory of another GPU than %s: copy them there, or open "
                       "a context on theirs",
                       what, ctx->name);
}

hf_status hf_host_view(hf_context *ctx, const hf_array **a, const char *what, hf_array *copy,
                       void **owned) {
    *owned = NULL;
    if (*a == NULL || hf_ctx_is_host(ctx))
        return HF_OK;
    HF_TRY(hf_check_place(ctx, *a, what));
    if (!owns(ctx, (*a)->data))
        return HF_OK;
    HF_TRY(hf_array_check(*a, what, &ctx->error));
    *owned = hf_alloc((size_t)((*a)->rows * (*a)->cols) * hf_dtype_bytes((*a)->dtype));
    if (*owned == NULL)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for a copy of the %s", what);
    *copy = hf_array_view(*owned, (*a)->dtype, (*a)->rows, (*a)->cols);
    HF_TRY(hf_ctx_copy_rows(ctx, *owned, *a));
    *a = copy;
    return HF_OK;
}

hf_status hf_host_row(hf_context *ctx, const hf_array *a, int64_t i, void *scratch,
                      const void **row) {
    *row = hf_array_row(a, i);
    if (hf_ctx_is_host(ctx) || !owns(ctx, a->data))
        return HF_OK;
    HF_TRY(hf_ctx_copy(ctx, scratch, *row, (size_t)a->cols * hf_dtype_bytes(a->dtype)));
    *row = scratch;
    return HF_OK;
}
