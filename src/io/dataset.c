/* SPDX-License-Identifier: Apache-2.0 */
#include "io/dataset.h"

#include "base/mem.h"
#include "core/context.h"
#include "io/gunzip.h"

#include <stdio.h>
#include <string.h>

struct hf_dataset {
    const char *format;
    struct hf_input in; /* open while rows are read in chunks */
    struct hf_table table;
    hf_array array;
    hf_source source;
    bool streamed;
    unsigned char *scratch; /* [HF_TABLE_SCRATCH], with table only */
};

static hf_status read_source(void *user, int64_t first, int64_t count, void *dst, char *message,
                             size_t message_bytes) {
    hf_dataset *d = user;
    hf_error err = {""};
    hf_status status = HF_OK;
    if (first < 0 || count < 0 || first > d->table.rows - count)
        status = hf_fail(&err, HF_E_ARG, "%s: %lld rows from row %lld were asked for, it has %lld",
                         d->in.name, (long long)count, (long long)first, (long long)d->table.rows);
    if (status == HF_OK && count > 0)
        status = hf_table_read(&d->table, &d->in, d->scratch, first, count, dst, &err);
    if (status == HF_OK)
        status = hf_input_unchanged(&d->in, &err);
    if (status != HF_OK && message != NULL && message_bytes > 0)
        (void)snprintf(message, message_bytes, "%s", err.text);
    return status;
}

static void set_streamed(hf_dataset *d) {
    d->streamed = true;
    d->source = (hf_source){.rows = d->table.rows,
                            .cols = d->table.cols,
                            .dtype = hf_wire_dtype(d->table.wire),
                            .read = read_source,
                            .user = d};
}

static hf_status load(hf_dataset *d, int64_t file_bytes, int64_t memory, hf_error *err) {
    const struct hf_table *t = &d->table;
    d->array = hf_array_view(hf_alloc((size_t)memory), hf_wire_dtype(t->wire), t->rows, t->cols);
    if (d->array.data == NULL)
        return hf_fail(err, HF_E_NOMEM,
                       "%s: the system has no %lld bytes for its rows; close other "
                       "programs, or set a memory limit so that it is read in chunks",
                       d->in.name, (long long)memory);
    HF_TRY(hf_table_read(t, &d->in, d->scratch, 0, t->rows, d->array.data, err));
    if (d->in.gz == NULL)
        return hf_input_unchanged(&d->in, err);
    return hf_input_expect_size(&d->in, file_bytes, "its header", err);
}

/* A compressed file can be asked for its rows only once, and only from the front. */
static hf_status check_packed(const hf_dataset *d, int64_t file_bytes, int64_t memory,
                              uint64_t limit, hf_error *err) {
    if (d->table.fortran)
        return hf_fail(err, HF_E_DATA,
                       "%s: a compressed array in Fortran order is not read; unpack it "
                       "with gunzip first",
                       d->in.name);
    if (file_bytes / HF_GUNZIP_MAX_RATIO > d->in.size)
        return hf_fail(
            err, HF_E_DATA,
            "%s: its header promises %lld bytes, more than can be in %lld compressed ones: "
            "the file is cut off or damaged; write or copy it again",
            d->in.name, (long long)file_bytes, (long long)d->in.size);
    if ((uint64_t)memory > limit)
        return hf_fail(
            err, HF_E_NOMEM,
            "%s: its rows take %lld bytes and %llu are allowed, and a compressed file is not "
            "read in chunks; unpack it with gunzip, or raise memory_bytes",
            d->in.name, (long long)memory, (unsigned long long)limit);
    return HF_OK;
}

static hf_status open_table(hf_dataset *d, uint64_t limit, bool stream, hf_error *err) {
    int64_t file_bytes, memory;
    if (!hf_table_size(&d->table, &file_bytes, &memory))
        return hf_fail(err, HF_E_DATA, "%s: its rows take more than 2^63 bytes", d->in.name);
    const bool packed = d->in.gz != NULL;
    if (packed)
        HF_TRY(check_packed(d, file_bytes, memory, limit, err));
    else
        HF_TRY(hf_input_expect_size(&d->in, file_bytes, "its header", err));
    d->scratch = hf_alloc(HF_TABLE_SCRATCH);
    if (d->scratch == NULL)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory to read it", d->in.name);
    if (packed || (!stream && (uint64_t)memory <= limit))
        return load(d, file_bytes, memory, err);
    set_streamed(d);
    return HF_OK;
}

/* d->in is open. */
static hf_status open_content(hf_dataset *d, const char *path, uint64_t limit,
                              const hf_open_opts *opts, hf_error *err) {
    const struct hf_format *format = NULL;
    const struct hf_format_limits limits = {.memory_bytes = limit,
                                            .float64 = opts != NULL && opts->float64 != 0};
    struct hf_opened opened;
    memset(&opened, 0, sizeof opened);
    HF_TRY(hf_format_detect(&d->in, path, &format, err));
    d->format = format->name;
    HF_TRY(format->open(&d->in, &limits, &opened, err));
    d->table = opened.table;
    d->array = opened.array;
    if (!opened.is_table)
        return hf_input_unchanged(&d->in, err);
    return open_table(d, limit, opts != NULL && opts->stream != 0, err);
}

/* Rows are loaded into the host's memory, of which the limit of another device knows nothing. */
static uint64_t default_limit(const hf_context *ctx) {
    const uint64_t half = hf_ctx_is_host(ctx) ? UINT64_MAX : hf_mem_available() / 2;
    return ctx->memory_bytes < half ? ctx->memory_bytes : half;
}

hf_status hf_dataset_open(hf_context *ctx, const char *path, const hf_open_opts *opts,
                          hf_dataset **data) {
    if (data != NULL)
        *data = NULL;
    if (ctx == NULL)
        return HF_E_ARG;
    if (data == NULL || path == NULL || path[0] == '\0')
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "hf_dataset_open: a file name and a place for the data set "
                           "are needed");
    hf_dataset *d = hf_alloc_zero(sizeof *d);
    if (d == NULL)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory to open %.200s", path);
    d->in.fd = -1;
    const uint64_t limit =
        opts != NULL && opts->memory_bytes > 0 ? opts->memory_bytes : default_limit(ctx);
    hf_status status = hf_input_open(&d->in, path, &ctx->error);
    if (status == HF_OK)
        status = open_content(d, path, limit, opts, &ctx->error);
    if (status != HF_OK) {
        hf_dataset_close(d);
        return status;
    }
    if (!d->streamed) {
        hf_input_close(&d->in);
        hf_free(d->scratch);
        d->scratch = NULL;
    }
    *data = d;
    return HF_OK;
}

void hf_dataset_close(hf_dataset *data) {
    if (data == NULL)
        return;
    hf_input_close(&data->in);
    hf_free(data->scratch);
    hf_free(data->array.data);
    hf_free(data);
}

const hf_array *hf_dataset_array(const hf_dataset *data) {
    return data == NULL || data->streamed ? NULL : &data->array;
}

const hf_source *hf_dataset_source(const hf_dataset *data) {
    return data != NULL && data->streamed ? &data->source : NULL;
}

const char *hf_dataset_format(const hf_dataset *data) { return data == NULL ? "" : data->format; }

int64_t hf_dataset_column(const hf_dataset *data, int64_t j, const char **name) {
    const int64_t cols = data == NULL ? 0 : data->streamed ? data->source.cols : data->array.cols;
    if (name != NULL)
        *name = NULL;
    return j < 0 || j >= cols ? 0 : j + 1;
}

const hf_scaling *hf_dataset_scaling(const hf_dataset *data) {
    (void)data;
    return NULL;
}

const char *hf_dataset_warning(const hf_dataset *data) {
    (void)data;
    return "";
}
