/* SPDX-License-Identifier: Apache-2.0 */
#include "rows/resident.h"

#include "base/mem.h"
#include "core/array.h"
#include "rows/host_view.h"
#include "rows/reader.h"
#include "rows/rows.h"
#include "device/pipe.h"

#include <inttypes.h>
#include <string.h>

#define READ_BYTES ((size_t)32 << 20) /* of a source, at once */
#define KERNEL_ROW_BYTES 240          /* that kernels need for a row, beside its 16-bit form */

/* Where a source's rows go. */
struct upload {
    hf_context *ctx;
    void *to;
};

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

/* float16 rows are their own 16-bit form, as a rule. */
uint64_t hf_resident_row_bytes(hf_dtype dtype, int64_t d) {
    return KERNEL_ROW_BYTES + (dtype == HF_F16 ? 0 : 2 * (uint64_t)d);
}

static bool fits_whole(const hf_context *ctx, int64_t rows, int64_t cols, hf_dtype dtype,
                       size_t *bytes) {
    const int64_t row = (int64_t)hf_resident_row_bytes(dtype, cols);
    size_t beside;
    if (!hf_mul3_size(rows, cols, (int64_t)hf_dtype_bytes(dtype), bytes) ||
        !hf_mul_size(rows, row, &beside) || *bytes > ctx->memory_bytes)
        return false;
    return beside <= ctx->memory_bytes - *bytes;
}

hf_status hf_resident_take(hf_context *ctx, const hf_array **x, const hf_source **source,
                           struct hf_resident *r) {
    memset(r, 0, sizeof *r);
    if (hf_ctx_is_host(ctx))
        return HF_OK;
    const int64_t rows = *x != NULL ? (*x)->rows : (*source)->rows;
    const int64_t cols = *x != NULL ? (*x)->cols : (*source)->cols;
    const hf_dtype dtype = *x != NULL ? (*x)->dtype : (*source)->dtype;
    if (*x != NULL)
        HF_TRY(hf_check_place(ctx, *x, "data"));
    if (*x != NULL && ctx->device->owns(ctx->stream, (*x)->data)) {
        r->array = **x;
        *x = &r->array;
        return HF_OK;
    }
    size_t bytes = 0;
    if (fits_whole(ctx, rows, cols, dtype, &bytes))
        r->owned = hf_ctx_alloc(ctx, bytes);
    if (r->owned == NULL)
        return hf_reader_open(ctx, *x, *source, &r->reader);
    r->array = hf_array_view(r->owned, dtype, rows, cols);
    r->origin = *x;
    HF_TRY(*x != NULL ? hf_ctx_copy_rows(ctx, r->owned, *x)
                      : upload_source(ctx, *source, r->owned));
    *x = &r->array;
    *source = NULL;
    return HF_OK;
}

/* Rows of the caller's own array may lie with gaps: then into another copy first. */
static hf_status compact(hf_context *ctx, const hf_array *from, char *to, const int64_t *dropped,
                         int64_t count) {
    const size_t row = (size_t)from->cols * hf_dtype_bytes(from->dtype);
    const void *packed = from->data;
    char *copy = NULL;
    if (hf_array_stride(from) != from->cols) {
        packed = copy = hf_ctx_alloc(ctx, (size_t)from->rows * row);
        if (copy == NULL)
            return hf_ctx_fail(ctx, HF_E_NOMEM, "%s has no memory for a copy of the rows",
                               ctx->name);
    }
    const struct hf_pipe_table *pipe = hf_pipe_of(ctx->device->id);
    const struct hf_compaction job = {.dst = to,
                                      .src = packed,
                                      .row_bytes = row,
                                      .rows = from->rows - count,
                                      .dropped = dropped,
                                      .count = count};
    hf_status status = copy != NULL ? hf_ctx_copy_rows(ctx, copy, from) : HF_OK;
    if (status == HF_OK)
        status = hf_ctx_check(ctx, pipe->compact(ctx->stream, &job));
    hf_ctx_release(ctx, copy);
    return status;
}

hf_status hf_resident_refresh(hf_context *ctx, const struct hf_resident *r) {
    return r->owned != NULL && r->origin != NULL ? hf_ctx_copy_rows(ctx, r->owned, r->origin)
                                                 : HF_OK;
}

hf_status hf_resident_drop(hf_context *ctx, struct hf_resident *r, const int64_t *dropped,
                           int64_t count) {
    const int64_t rows = r->array.rows - count;
    const size_t row = (size_t)r->array.cols * hf_dtype_bytes(r->array.dtype);
    char *rest = hf_ctx_alloc(ctx, (size_t)rows * row);
    if (rest == NULL)
        return hf_ctx_fail(ctx, HF_E_NOMEM,
                           "%s has no memory for a copy of the %" PRId64 " rows without NaN and "
                           "Inf: leave such rows out of the data",
                           ctx->name, rows);
    const hf_status status = compact(ctx, &r->array, rest, dropped, count);
    if (status != HF_OK) {
        hf_ctx_release(ctx, rest);
        return status;
    }
    hf_ctx_release(ctx, r->owned);
    r->owned = rest;
    r->origin = NULL;
    r->array = hf_array_view(rest, r->array.dtype, rows, r->array.cols);
    return HF_OK;
}

void hf_resident_clear(hf_context *ctx, struct hf_resident *r) {
    hf_reader_close(r->reader);
    hf_ctx_release(ctx, r->owned);
    r->reader = NULL;
    r->owned = NULL;
}
