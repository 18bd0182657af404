/* SPDX-License-Identifier: Apache-2.0
 * Files that holdfast writes. */
#include <holdfast/io.h>

#include "base/file.h"
#include "base/mem.h"
#include "core/context.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define HEADER_BYTES 128
#define SET_MAX 16

/* A file of a set, whole in its temporary file. */
struct staged {
    hf_file *file;
    int64_t bytes;
    uint32_t crc32;
};

struct hf_file_set {
    hf_context *ctx;
    int count;
    bool begun;       /* the one behind the last grows piece by piece */
    int64_t promised; /* bytes of that one; -1: any */
    struct staged staged[SET_MAX];
};

static hf_status put(struct staged *s, const void *data, size_t bytes, hf_error *err) {
    HF_TRY(hf_file_write(s->file, data, bytes, err));
    s->crc32 = (uint32_t)crc32_z(s->crc32, data, bytes);
    s->bytes += (int64_t)bytes;
    return HF_OK;
}

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
    case HF_I8:
        return "i1";
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
    const char order = hf_dtype_bytes(a->dtype) == 1 ? '|' : low == 1 ? '<' : '>';
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

static hf_status put_rows(struct staged *s, const hf_array *a, size_t row_bytes, hf_error *err) {
    if (a->rows == 0 || a->cols == 0)
        return HF_OK;
    if (a->row_stride == 0 || a->row_stride == a->cols)
        return put(s, a->data, (size_t)a->rows * row_bytes, err);
    const size_t stride = (size_t)a->row_stride * hf_dtype_bytes(a->dtype);
    for (int64_t i = 0; i < a->rows; i++)
        HF_TRY(put(s, (const char *)a->data + (size_t)i * stride, row_bytes, err));
    return HF_OK;
}

static hf_status check_sizes(const hf_array *a, size_t *row_bytes, size_t *all, hf_error *err) {
    if (type_code(a->dtype) == NULL)
        return hf_fail(err, HF_E_ARG, "hf_write_npy: an array with an element type is needed");
    const int64_t element = (int64_t)hf_dtype_bytes(a->dtype);
    const int64_t stride = a->row_stride == 0 ? a->cols : a->row_stride;
    if (a->rows < 0 || a->cols < 0 || stride < a->cols ||
        !hf_mul3_size(a->rows, stride, element, all) || *all > SIZE_MAX / 2)
        return hf_fail(err, HF_E_ARG,
                       "hf_write_npy: rows = %lld, cols = %lld, row_stride = %lld is no "
                       "array",
                       (long long)a->rows, (long long)a->cols, (long long)a->row_stride);
    return hf_mul_size(a->cols, element, row_bytes) ? HF_OK : HF_E_INTERNAL;
}

static hf_status check_array(const hf_array *a, size_t *row_bytes, hf_error *err) {
    size_t all = 0;
    HF_TRY(check_sizes(a, row_bytes, &all, err));
    return a->data == NULL && all > 0 ? hf_fail(err, HF_E_ARG, "hf_write_npy: data is NULL")
                                      : HF_OK;
}

/* The file begun, in the place behind the last one of the set. */
static hf_status begin(hf_file_set *set, const char *path) {
    hf_error *err = &set->ctx->error;
    if (set->begun)
        return hf_fail(err, HF_E_ARG, "a file of the set was begun and is not ended");
    if (set->count == SET_MAX)
        return hf_fail(err, HF_E_ARG, "a file set holds at most %d files", SET_MAX);
    struct staged *s = &set->staged[set->count];
    *s = (struct staged){NULL, 0, 0};
    return hf_file_create(&s->file, path, err);
}

/* The file begun joins the set if it came whole onto the disk. */
static hf_status end(hf_file_set *set, hf_status status) {
    hf_file *file = set->staged[set->count].file;
    if (status == HF_OK)
        status = hf_file_stage(file, &set->ctx->error);
    if (status == HF_OK)
        set->count++;
    else
        hf_file_abort(file);
    return status;
}

static hf_status add_npy(hf_file_set *set, const char *path, const hf_array *a, bool vector) {
    hf_error *err = &set->ctx->error;
    size_t row_bytes = 0;
    if (path == NULL || path[0] == '\0' || a == NULL)
        return hf_fail(err, HF_E_ARG, "hf_write_npy: a file name and an array are needed");
    HF_TRY(check_array(a, &row_bytes, err));
    char header[HEADER_BYTES];
    make_header(header, a, vector);
    HF_TRY(begin(set, path));
    struct staged *s = &set->staged[set->count];
    hf_status status = put(s, header, sizeof header, err);
    if (status == HF_OK)
        status = put_rows(s, a, row_bytes, err);
    return end(set, status);
}

static hf_status add_data(hf_file_set *set, const char *path, const void *data, size_t bytes) {
    if (path == NULL || path[0] == '\0' || (data == NULL && bytes > 0))
        return hf_ctx_fail(set->ctx, HF_E_ARG, "hf_write_file: a file name and data are needed");
    HF_TRY(begin(set, path));
    return end(set,
               bytes > 0 ? put(&set->staged[set->count], data, bytes, &set->ctx->error) : HF_OK);
}

/* ---- sets */

hf_status hf_file_set_create(hf_context *ctx, hf_file_set **set) {
    if (set != NULL)
        *set = NULL;
    if (ctx == NULL)
        return HF_E_ARG;
    if (set == NULL)
        return hf_ctx_fail(ctx, HF_E_ARG, "hf_file_set_create: no place for the set");
    *set = hf_alloc_zero(sizeof **set);
    if (*set == NULL)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for a file set");
    (*set)->ctx = ctx;
    return HF_OK;
}

void hf_file_set_destroy(hf_file_set *set) {
    for (int i = 0; set != NULL && i < set->count + set->begun; i++)
        hf_file_abort(set->staged[i].file);
    hf_free(set);
}

hf_status hf_file_set_npy(hf_file_set *set, const char *path, const hf_array *a) {
    return set == NULL ? HF_E_ARG : add_npy(set, path, a, a != NULL && a->cols == 1);
}

hf_status hf_file_set_npy_matrix(hf_file_set *set, const char *path, const hf_array *a) {
    return set == NULL ? HF_E_ARG : add_npy(set, path, a, false);
}

hf_status hf_file_set_file(hf_file_set *set, const char *path, const void *data, size_t bytes) {
    return set == NULL ? HF_E_ARG : add_data(set, path, data, bytes);
}

static hf_status begin_rows(hf_file_set *set, const char *path, const hf_array *a) {
    hf_error *err = &set->ctx->error;
    size_t row_bytes = 0;
    size_t all = 0;
    char header[HEADER_BYTES];
    const bool bare = a->dtype == HF_DTYPE_NONE;
    if (path == NULL || path[0] == '\0')
        return hf_fail(err, HF_E_ARG, "hf_file_set_begin: a file name is needed");
    if (bare && (a->rows != 0 || a->cols != 0))
        return hf_fail(err, HF_E_ARG, "hf_file_set_begin: an array needs an element type");
    if (!bare)
        HF_TRY(check_sizes(a, &row_bytes, &all, err));
    HF_TRY(begin(set, path));
    struct staged *s = &set->staged[set->count];
    if (!bare)
        make_header(header, a, false);
    const hf_status status = bare ? HF_OK : put(s, header, sizeof header, err);
    if (status != HF_OK) {
        hf_file_abort(s->file);
        return status;
    }
    set->begun = true;
    set->promised = bare ? -1 : (int64_t)(all + sizeof header);
    return HF_OK;
}

hf_status hf_file_set_begin(hf_file_set *set, const char *path, hf_dtype dtype, int64_t rows,
                            int64_t cols) {
    const hf_array a = hf_array_view(NULL, dtype, rows, cols);
    return set == NULL ? HF_E_ARG : begin_rows(set, path, &a);
}

/* Give up the file that was begun. */
static hf_status drop_begun(hf_file_set *set, hf_status status) {
    hf_file_abort(set->staged[set->count].file);
    set->begun = false;
    return status;
}

hf_status hf_file_set_append(hf_file_set *set, const void *data, size_t bytes) {
    if (set == NULL)
        return HF_E_ARG;
    if (!set->begun || (data == NULL && bytes > 0))
        return hf_ctx_fail(set->ctx, HF_E_ARG,
                           "hf_file_set_append: data, and a file that was begun, are needed");
    const hf_status status =
        bytes > 0 ? put(&set->staged[set->count], data, bytes, &set->ctx->error) : HF_OK;
    return status == HF_OK ? HF_OK : drop_begun(set, status);
}

hf_status hf_file_set_end(hf_file_set *set) {
    if (set == NULL)
        return HF_E_ARG;
    if (!set->begun)
        return hf_ctx_fail(set->ctx, HF_E_ARG, "hf_file_set_end: no file was begun");
    const struct staged *s = &set->staged[set->count];
    if (set->promised >= 0 && s->bytes != set->promised)
        return drop_begun(set, hf_ctx_fail(set->ctx, HF_E_ARG,
                                           "hf_file_set_end: the file has %lld bytes, but its "
                                           "header promises %lld",
                                           (long long)s->bytes, (long long)set->promised));
    set->begun = false;
    return end(set, HF_OK);
}

int hf_file_set_at(const hf_file_set *set, int i, int64_t *bytes, uint32_t *crc32) {
    if (set == NULL || i < 0 || i >= set->count)
        return 0;
    *bytes = set->staged[i].bytes;
    *crc32 = set->staged[i].crc32;
    return 1;
}

hf_status hf_file_set_commit(hf_file_set *set, int *appeared) {
    hf_file *files[SET_MAX] = {NULL};
    int moved = 0;
    if (set == NULL)
        return HF_E_ARG;
    if (set->begun)
        return hf_ctx_fail(set->ctx, HF_E_ARG,
                           "hf_file_set_commit: a file of the set was begun and is not ended");
    for (int i = 0; i < set->count; i++)
        files[i] = set->staged[i].file;
    const hf_status status = hf_file_commit_all(files, set->count, &moved, &set->ctx->error);
    set->count = 0;
    if (appeared != NULL)
        *appeared = moved;
    return status;
}

/* ---- single files: sets of one */

static hf_status commit_one(hf_file_set *set, hf_status status) {
    return status == HF_OK ? hf_file_set_commit(set, NULL) : status;
}

hf_status hf_write_npy(hf_context *ctx, const char *path, const hf_array *a) {
    hf_file_set set = {.ctx = ctx};
    return ctx == NULL ? HF_E_ARG : commit_one(&set, hf_file_set_npy(&set, path, a));
}

hf_status hf_write_npy_matrix(hf_context *ctx, const char *path, const hf_array *a) {
    hf_file_set set = {.ctx = ctx};
    return ctx == NULL ? HF_E_ARG : commit_one(&set, hf_file_set_npy_matrix(&set, path, a));
}

hf_status hf_write_file(hf_context *ctx, const char *path, const void *data, size_t bytes) {
    hf_file_set set = {.ctx = ctx};
    return ctx == NULL ? HF_E_ARG : commit_one(&set, hf_file_set_file(&set, path, data, bytes));
}

hf_status hf_write_check(hf_context *ctx, const char *path) {
    hf_file *file = NULL;
    if (ctx == NULL)
        return HF_E_ARG;
    if (path == NULL || path[0] == '\0')
        return hf_ctx_fail(ctx, HF_E_ARG, "hf_write_check: a file name is needed");
    HF_TRY(hf_file_create(&file, path, &ctx->error));
    hf_file_abort(file);
    return HF_OK;
}
