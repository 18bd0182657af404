/* SPDX-License-Identifier: Apache-2.0 */
#include "rows/rows.h"

#include "base/dtype.h"
#include "base/mem.h"
#include "core/array.h"
#include "rows/host_view.h"
#include "rows/reader.h"
#include "rows/source.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Rows of the file or array, numbered with the dropped ones. */
static hf_status read_raw(const struct hf_rows *rows, int64_t first, int64_t count, void *dst) {
    const size_t row_bytes = (size_t)rows->d * hf_dtype_bytes(rows->dtype);
    if (rows->array != NULL) {
        for (int64_t i = 0; i < count; i++)
            memcpy((char *)dst + (size_t)i * row_bytes, hf_array_row(rows->array, first + i),
                   row_bytes);
        return HF_OK;
    }
    assert(rows->source != NULL); /* one of the two is there */
    char message[512] = "";
    const hf_status status =
        hf_source_read(rows->source, first, count, dst, message, sizeof message);
    if (status == HF_OK)
        return HF_OK;
    const char *what = message[0] != '\0' ? message : hf_status_text(status);
    if (count == 1)
        return hf_ctx_fail(rows->ctx, status, "reading row %" PRId64 ": %s", first, what);
    return hf_ctx_fail(rows->ctx, status, "reading rows %" PRId64 " to %" PRId64 ": %s", first,
                       first + count - 1, what);
}

/* Squeeze the dropped rows out of [raw, raw + count) at dst; returns how many stay. */
static int64_t compact(const struct hf_rows *rows, int64_t raw, int64_t count, char *dst) {
    const size_t row_bytes = (size_t)rows->d * hf_dtype_bytes(rows->dtype);
    int64_t next = hf_rows_dropped_before(rows, raw), kept = 0;
    for (int64_t i = 0; i < count; i++) {
        if (next < rows->dropped_count && rows->dropped[next] == raw + i) {
            next++;
            continue;
        }
        if (kept != i)
            memcpy(dst + (size_t)kept * row_bytes, dst + (size_t)i * row_bytes, row_bytes);
        kept++;
    }
    return kept;
}

/* Fill the buffer with `count` rows that take part, from row *raw on; *raw moves behind them. */
static hf_status fill(const struct hf_rows *rows, int64_t *raw, int64_t count) {
    const size_t row_bytes = (size_t)rows->d * hf_dtype_bytes(rows->dtype);
    const int64_t total = rows->n + rows->dropped_count;
    for (int64_t have = 0; have < count;) {
        assert(*raw < total);
        const int64_t left = total - *raw;
        const int64_t ask = count - have < left ? count - have : left;
        char *dst = (char *)rows->buffer + (size_t)have * row_bytes;
        HF_TRY(read_raw(rows, *raw, ask, dst));
        have += compact(rows, *raw, ask, dst);
        *raw += ask;
    }
    return HF_OK;
}

struct hf_rows hf_rows_on_host(const struct hf_rows *rows) {
    struct hf_rows host = *rows;
    if (rows->reader != NULL)
        hf_reader_pause(rows->reader);
    host.reader = NULL;
    return host;
}

hf_status hf_rows_each(const struct hf_rows *rows, hf_rows_fn *fn, void *job) {
    if (rows->reader != NULL)
        return hf_reader_each(rows->reader, rows, fn, job);
    const bool in_place = rows->array != NULL && rows->dropped_count == 0;
    assert(rows->chunk_rows > 0 && (in_place || rows->buffer != NULL));
    int64_t raw = 0;
    for (int64_t first = 0; first < rows->n; first += rows->chunk_rows) {
        const int64_t left = rows->n - first;
        const int64_t count = left < rows->chunk_rows ? left : rows->chunk_rows;
        hf_array chunk;
        if (in_place) {
            chunk = hf_array_slice(rows->array, first, count);
        } else {
            HF_TRY(fill(rows, &raw, count));
            chunk = hf_array_view(rows->buffer, rows->dtype, count, rows->d);
        }
        HF_TRY(fn(job, &chunk, first));
        if (left <= rows->chunk_rows)
            break;
    }
    return HF_OK;
}

hf_status hf_rows_gather(const struct hf_rows *rows, const int64_t *index, int64_t count,
                         double *dst) {
    void *row = NULL;
    if (rows->array == NULL || !hf_ctx_is_host(rows->ctx)) {
        row = hf_alloc((size_t)rows->d * hf_dtype_bytes(rows->dtype));
        if (row == NULL)
            return hf_ctx_fail(rows->ctx, HF_E_NOMEM, "no memory for a row of %" PRId64 " columns",
                               rows->d);
    }
    hf_status status = HF_OK;
    if (rows->reader != NULL && rows->source != NULL)
        hf_reader_pause(rows->reader); /* a source is read from one thread at a time */
    for (int64_t i = 0; status == HF_OK && i < count; i++) {
        const int64_t raw = hf_rows_number(rows, index[i]);
        const void *from = row;
        if (rows->array != NULL)
            status = hf_host_row(rows->ctx, rows->array, raw, row, &from);
        else
            status = read_raw(rows, raw, 1, row);
        if (status == HF_OK)
            hf_to_f64(dst + i * rows->d, from, rows->dtype, rows->d);
    }
    hf_free(row);
    return status;
}
