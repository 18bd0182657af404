/* SPDX-License-Identifier: Apache-2.0 */
#include "core/resident.h"

#include "base/mem.h"
#include "core/array.h"
#include "core/rows.h"

#include <inttypes.h>
#include <string.h>

#define READ_BYTES ((size_t)32 << 20) /* of a source, at once */

/* Where a source's rows go. */
struct upload {
    hf_context *ctx;
    void *to;
};

static bool owns(const hf_context *ctx, const void *p) { return ctx->device->owns(ctx->stream, p); }

static hf_status upload_chunk(void *job, const hf_array *chunk, int64_t first) {
    const struct upload *u = job;
    const size_t row = (size_t)chunk->cols * hf_dtype_bytes(chunk->dtype);
    return hf_ctx_copy_rows(u->ctx, (char *)u->to + (size_t)first * row, chunk);
}

static hf_status upload_source(hf_context *ctx, const hf_source *s, void *to) {
    const size_t row = (size_t)s->cols * hf_dtype_bytes(s->dtype);
    const int64_t most = row < READ_BYTES ? (int64_t)(READ_BYTES / row) : 1;
    struct upload u = {ctx, to};
    struct hf_rows rows = {.ctx = ctx,
                           .source = s,
                           .n = s->rows,
                           .d = s->cols,
                           .dtype = s->dtype,
                           .chunk_rows = most < s->rows ? most : s->rows};
    rows.buffer = hf_alloc((size_t)rows.chunk_rows * row);
    if (rows.buffer == NULL)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory to read rows of %zu bytes", row);
    const hf_status status = hf_rows_each(&rows, upload_chunk, &u);
    hf_free(rows.buffer);
    return status;
}

hf_status hf_resident_take(hf_context *ctx, const hf_array **x, const hf_source **source,
                           struct hf_resident *r) {
    memset(r, 0, sizeof *r);
    if (hf_ctx_is_host(ctx))
        return HF_OK;
    const int64_t rows = *x != NULL ? (*x)->rows : (*source)->rows;
    const int64_t cols = *x != NULL ? (*x)->cols : (*source)->cols;
    const hf_dtype dtype = *x != NULL ? (*x)->dtype : (*source)->dtype;
    if (*x != NULL && owns(ctx, (*x)->data)) {
        r->array = **x;
        *x = &r->array;
        return HF_OK;
    }
    size_t bytes = 0; /* kernels may need as much again for their own form of the rows */
    if (!hf_mul3_size(rows, cols, (int64_t)hf_dtype_bytes(dtype), &bytes) ||
        bytes > ctx->memory_bytes / 2)
        return HF_OK;
    r->owned = hf_ctx_alloc(ctx, bytes);
    if (r->owned == NULL)
        return HF_OK;
    r->array = hf_array_view(r->owned, dtype, rows, cols);
    HF_TRY(*x != NULL ? hf_ctx_copy_rows(ctx, r->owned, *x)
                      : upload_source(ctx, *source, r->owned));
    *x = &r->array;
    *source = NULL;
    return HF_OK;
}

/* Runs of rows between dropped ones move in one copy each. */
static hf_status copy_kept(hf_context *ctx, const hf_array *from, char *to, const int64_t *dropped,
                           int64_t count) {
    const size_t row = (size_t)from->cols * hf_dtype_bytes(from->dtype);
    int64_t first = 0;
    for (int64_t i = 0; i <= count; i++) {
        const int64_t end = i < count ? dropped[i] : from->rows;
        const hf_array kept = hf_array_slice(from, first, end - first);
        HF_TRY(hf_ctx_copy_rows(ctx, to, &kept));
        to += (size_t)(end - first) * row;
        first = end + 1;
    }
    return HF_OK;
}

hf_status hf_resident_drop(hf_context *ctx, struct hf_resident *r, const int64_t *dropped,
                           int64_t count) {
    const int64_t rows = r->array.rows - count;
    const size_t row = (size_t)r->array.cols * hf_dtype_bytes(r->array.dtype);
    char *kept = hf_ctx_alloc(ctx, (size_t)rows * row);
    if (kept == NULL)
        return hf_ctx_fail(ctx, HF_E_NOMEM,
                           "%s has no memory for a copy of the %" PRId64 " rows without NaN and "
                           "Inf: leave such rows out of the data",
                           ctx->name, rows);
    const hf_status status = copy_kept(ctx, &r->array, kept, dropped, count);
    if (status != HF_OK) {
        hf_ctx_release(ctx, kept);
        return status;
    }
    hf_ctx_release(ctx, r->owned);
    r->owned = kept;
    r->array = hf_array_view(kept, r->array.dtype, rows, r->array.cols);
    return HF_OK;
}

void hf_resident_clear(hf_context *ctx, struct hf_resident *r) {
    if (r->owned != NULL)
        hf_ctx_release(ctx, r->owned);
    r->owned = NULL;
}

hf_status hf_host_view(hf_context *ctx, const hf_array **a, const char *what, hf_array *copy,
                       void **owned) {
    *owned = NULL;
    if (*a == NULL || !owns(ctx, (*a)->data))
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
