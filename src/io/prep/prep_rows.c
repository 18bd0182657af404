/* SPDX-License-Identifier: Apache-2.0 */
#include "io/prep/prep_rows.h"

#include "base/dtype.h"
#include "base/mem.h"
#include "core/array.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)256 << 10) /* of float64 rows that are measured at once */

/* Rows [first, first + *count) as they come; *count becomes less where less is read at once. */
static hf_status fetch(const struct hf_prep *p, int64_t first, int64_t *count, hf_array *rows,
                       hf_error *err) {
    if (p->x.data != NULL) {
        *rows = hf_array_slice(&p->x, first, *count);
        return HF_OK;
    }
    if (*count > p->raw_rows)
        *count = p->raw_rows;
    char message[512] = "";
    const hf_status status =
        p->inner.read(p->inner.user, first, *count, p->raw, message, sizeof message);
    message[sizeof message - 1] = '\0';
    *rows = hf_array_view(p->raw, p->inner.dtype, *count, p->inner.cols);
    if (status == HF_OK)
        return HF_OK;
    return hf_fail(err, status, "%s", message[0] != '\0' ? message : hf_status_text(status));
}

/* The chosen columns of a row as float64, missing values as NaN. */
static void widen(const struct hf_prep *p, const void *from, hf_dtype dtype, double *row) {
    const int64_t cols = p->source.cols;
    double *wide = p->all ? row : p->wide;
    hf_to_f64(wide, from, dtype, hf_prep_cols_in(p));
    for (int64_t j = 0; j < cols && !p->all; j++)
        row[j] = wide[p->columns[j]];
    for (int64_t m = 0; m < p->missing_count; m++)
        for (int64_t j = 0; j < cols; j++)
            row[j] = row[j] == p->missing[m] ? (double)NAN : row[j];
}

static hf_status fail_large(const struct hf_prep *p, int64_t i, double *row, hf_error *err) {
    int64_t j = 0;
    while (j + 1 < p->source.cols && !(isfinite(row[j]) && isinf((float)row[j])))
        j++;
    return hf_fail(err, HF_E_DATA,
                   "%s: row %lld, column %lld (both counted from 0): a value that is %g scaled is "
                   "too large for float32; scale with standard or minmax, or save the data as "
                   "float64",
                   p->name, (long long)i, (long long)p->columns[j], row[j]);
}

/* Scale p->row, row number i, and store it. */
static hf_status store(const struct hf_prep *p, int64_t i, void *dst, hf_error *err) {
    const int64_t cols = p->source.cols;
    double *row = p->row;
    for (int64_t j = 0; p->parameters != NULL && j < cols; j++)
        row[j] = (row[j] - p->scaling.shift[j]) / p->scaling.unit[j];
    if (p->source.dtype == HF_F64) {
        memcpy(dst, row, (size_t)cols * sizeof *row);
    } else if (p->source.dtype == HF_F32) {
        float *narrow = dst;
        bool large = false;
        for (int64_t j = 0; j < cols; j++) {
            narrow[j] = (float)row[j];
            large |= fabs(row[j]) >= 0x1.ffffffp127 && isfinite(row[j]);
        }
        if (large)
            return fail_large(p, i, row, err);
    } else {
        for (int64_t j = 0; j < cols; j++)
            hf_store_f64(dst, p->source.dtype, j, row[j]);
    }
    return HF_OK;
}

/* Nothing but columns are chosen: elements keep their bits. */
static void pick(const struct hf_prep *p, const void *from, void *dst) {
    const size_t bytes = hf_dtype_bytes(p->source.dtype);
    for (int64_t j = 0; j < p->source.cols; j++)
        memcpy((char *)p->row + (size_t)j * bytes,
               (const char *)from + (size_t)p->columns[j] * bytes, bytes);
    memcpy(dst, p->row, (size_t)p->source.cols * bytes);
}

static hf_status read_rows(const struct hf_prep *p, int64_t first, int64_t count, char *dst,
                           hf_error *err) {
    const size_t row_bytes = (size_t)p->source.cols * hf_dtype_bytes(p->source.dtype);
    const bool same = p->parameters == NULL && p->missing_count == 0;
    for (int64_t done = 0; done < count;) {
        int64_t now = count - done;
        hf_array rows;
        HF_TRY(fetch(p, first + done, &now, &rows, err));
        for (int64_t i = 0; i < now; i++, dst += row_bytes) {
            const void *from = hf_array_row(&rows, i);
            if (same) {
                pick(p, from, dst);
                continue;
            }
            widen(p, from, rows.dtype, p->row);
            HF_TRY(store(p, first + done + i, dst, err));
        }
        done += now;
    }
    return HF_OK;
}

hf_status hf_prep_read(void *user, int64_t first, int64_t count, void *dst, char *message,
                       size_t message_bytes) {
    const struct hf_prep *p = user;
    hf_error err = {""};
    hf_status status = HF_OK;
    if (first < 0 || count < 0 || first > p->source.rows - count)
        status = hf_fail(&err, HF_E_ARG, "%s: %lld rows from row %lld were asked for, it has %lld",
                         p->name, (long long)count, (long long)first, (long long)p->source.rows);
    if (status == HF_OK)
        status = read_rows(p, first, count, dst, &err);
    if (status != HF_OK && message != NULL && message_bytes > 0)
        (void)snprintf(message, message_bytes, "%s", err.text);
    return status;
}

static bool is_complete(const double *row, int64_t cols) {
    bool complete = true;
    for (int64_t j = 0; j < cols; j++)
        complete &= fabs(row[j]) < HUGE_VAL; /* false for NaN too */
    return complete;
}

hf_status hf_prep_each(struct hf_prep *p, hf_prep_fn *fn, void *job, hf_error *err) {
    const int64_t cols = p->source.cols;
    const size_t row_bytes = (size_t)cols * sizeof(double);
    const int64_t room = row_bytes < BLOCK_BYTES ? (int64_t)(BLOCK_BYTES / row_bytes) : 1;
    double *block = hf_alloc((size_t)room * row_bytes);
    if (block == NULL)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory to measure its columns", p->name);
    hf_status status = HF_OK;
    for (int64_t first = 0; first < p->source.rows && status == HF_OK;) {
        int64_t now = p->source.rows - first < room ? p->source.rows - first : room;
        hf_array rows;
        int64_t kept = 0;
        status = fetch(p, first, &now, &rows, err);
        for (int64_t i = 0; status == HF_OK && i < now; i++) {
            double *row = block + kept * cols;
            widen(p, hf_array_row(&rows, i), rows.dtype, row);
            kept += is_complete(row, cols);
        }
        if (status == HF_OK && kept > 0)
            status = fn(job, first, block, kept);
        first += now;
    }
    hf_free(block);
    return status;
}
