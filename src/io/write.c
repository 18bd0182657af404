/* SPDX-License-Identifier: Apache-2.0
 * Files that holdfast writes. */
#include <holdfast/io.h>

#include "base/file.h"
#include "base/mem.h"
#include "core/context.h"

#include <stdio.h>
#include <string.h>

#define HEADER_BYTES 128

static const char *type_code(hf_dtype dtype) {
    switch (dtype) {
    case HF_F32:
        return "f4";
    case HF_F64:
        return "f8";
    case HF_F16:
        return "f2";
    case HF_BF16:
        return "V2";
    case HF_U8:
        return "u1";
    case HF_I32:
        return "i4";
    case HF_DTYPE_NONE:
        break;
    }
    return NULL;
}

/* The header is a multiple of 64 bytes, so that the data of a mapped file are aligned. The longest
 * one (two sizes of 19 digits) has 109 bytes. */
static void make_header(char header[HEADER_BYTES], const hf_array *a, bool vector) {
    const uint16_t one = 1;
    unsigned char low;
    memcpy(&low, &one, 1);
    const char order = a->dtype == HF_U8 ? '|' : low == 1 ? '<' : '>';
    char text[HEADER_BYTES];
    char second[24] = "";
    if (!vector)
        (void)snprintf(second, sizeof second, " %lld", (long long)a->cols);
    const int used = snprintf(text, sizeof text,
                              "{'descr': '%c%s', 'fortran_order': False, 'shape': (%lld,%s), }",
                              order, type_code(a->dtype), (long long)a->rows, second);
    memset(header, ' ', HEADER_BYTES);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = HEADER_BYTES - 10;
    header[9] = 0;
    memcpy(header + 10, text, (size_t)used);
    header[HEADER_BYTES - 1] = '\n';
}

static hf_status write_rows(hf_file *file, const hf_array *a, size_t row_bytes, hf_error *err) {
    if (a->rows == 0 || a->cols == 0)
        return HF_OK;
    if (a->row_stride == 0 || a->row_stride == a->cols)
        return hf_file_write(file, a->data, (size_t)a->rows * row_bytes, err);
    const size_t stride = (size_t)a->row_stride * hf_dtype_bytes(a->dtype);
    for (int64_t i = 0; i < a->rows; i++)
        HF_TRY(hf_file_write(file, (const char *)a->data + (size_t)i * stride, row_bytes, err));
    return HF_OK;
}

static hf_status check_array(const hf_array *a, size_t *row_bytes, hf_error *err) {
    size_t all;
    if (type_code(a->dtype) == NULL)
        return hf_fail(err, HF_E_ARG, "hf_write_npy: an array with an element type is needed");
    const int64_t element = (int64_t)hf_dtype_bytes(a->dtype);
    const int64_t stride = a->row_stride == 0 ? a->cols : a->row_stride;
    if (a->rows < 0 || a->cols < 0 || stride < a->cols ||
        !hf_mul3_size(a->rows, stride, element, &all) || all > SIZE_MAX / 2)
        return hf_fail(err, HF_E_ARG,
                       "hf_write_npy: rows = %lld, cols = %lld, row_stride = %lld is no "
                       "array",
                       (long long)a->rows, (long long)a->cols, (long long)a->row_stride);
    if (a->data == NULL && all > 0)
        return hf_fail(err, HF_E_ARG, "hf_write_npy: data is NULL");
    return hf_mul_size(a->cols, element, row_bytes) ? HF_OK : HF_E_INTERNAL;
}

static hf_status write_npy(hf_context *ctx, const char *path, const hf_array *a, bool vector) {
    if (ctx == NULL)
        return HF_E_ARG;
    hf_error *err = &ctx->error;
    size_t row_bytes = 0;
    if (path == NULL || path[0] == '\0' || a == NULL)
        return hf_fail(err, HF_E_ARG, "hf_write_npy: a file name and an array are needed");
    HF_TRY(check_array(a, &row_bytes, err));
    char header[HEADER_BYTES];
    make_header(header, a, vector);
    hf_file *file = NULL;
    HF_TRY(hf_file_create(&file, path, err));
    hf_status status = hf_file_write(file, header, sizeof header, err);
    if (status == HF_OK)
        status = write_rows(file, a, row_bytes, err);
    if (status == HF_OK)
        return hf_file_commit(file, err);
    hf_file_abort(file);
    return status;
}

hf_status hf_write_npy(hf_context *ctx, const char *path, const hf_array *a) {
    return write_npy(ctx, path, a, a != NULL && a->cols == 1);
}

hf_status hf_write_npy_matrix(hf_context *ctx, const char *path, const hf_array *a) {
    return write_npy(ctx, path, a, false);
}

hf_status hf_write_file(hf_context *ctx, const char *path, const void *data, size_t bytes) {
    if (ctx == NULL)
        return HF_E_ARG;
    if (path == NULL || path[0] == '\0' || (data == NULL && bytes > 0))
        return hf_ctx_fail(ctx, HF_E_ARG, "hf_write_file: a file name and data are needed");
    hf_file *file = NULL;
    HF_TRY(hf_file_create(&file, path, &ctx->error));
    hf_status status = HF_OK;
    if (bytes > 0)
        status = hf_file_write(file, data, bytes, &ctx->error);
    if (status == HF_OK)
        return hf_file_commit(file, &ctx->error);
    hf_file_abort(file);
    return status;
}
