/* SPDX-License-Identifier: Apache-2.0
 * Making prepared rows: what the options ask for, checked, and the memory it takes. */
#include "io/prep/prep_rows.h"

#include "base/dtype.h"
#include "base/mem.h"
#include "core/array.h"
#include "core/context.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define RAW_BYTES ((size_t)256 << 10) /* of rows that are read at once */

static hf_status check_source(const hf_array *x, const hf_source *source, hf_error *err) {
    if ((x == NULL) == (source == NULL))
        return hf_fail(err, HF_E_ARG, "hf_prep_create: either x or source is needed, not both");
    const hf_dtype dtype = x != NULL ? x->dtype : source->dtype;
    if (x != NULL)
        HF_TRY(hf_array_check(x, "x", err));
    else if (source->rows < 1 || source->cols < 1 || source->read == NULL)
        return hf_fail(err, HF_E_ARG, "hf_prep_create: source needs rows, columns and read");
    if (dtype == HF_I32 || dtype == HF_I8 || hf_dtype_bytes(dtype) == 0)
        return hf_fail(err, HF_E_ARG, "hf_prep_create: rows of type %s cannot be clustered",
                       hf_dtype_name(dtype));
    return HF_OK;
}

/* p->columns [count] and p->all; taken [total] is 0. */
static hf_status list_columns(struct hf_prep *p, const int64_t *columns, int64_t count,
                              unsigned char *taken, hf_error *err) {
    const int64_t total = hf_prep_cols_in(p);
    if (p->columns == NULL || taken == NULL)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory for its columns", p->name);
    p->all = count == total;
    for (int64_t j = 0; j < count; j++) {
        const int64_t c = columns != NULL ? columns[j] : j;
        if (c < 0 || c >= total)
            return hf_fail(err, HF_E_ARG, "%s: column %lld (counted from 0) is not there", p->name,
                           (long long)c);
        if (taken[c]++)
            return hf_fail(err, HF_E_ARG, "%s: column %lld (counted from 0) is chosen twice",
                           p->name, (long long)c);
        p->columns[j] = c;
        p->all = p->all && c == j;
    }
    return HF_OK;
}

static hf_status take_columns(struct hf_prep *p, const hf_prep_opts *opts, hf_error *err) {
    const int64_t total = hf_prep_cols_in(p);
    const int64_t count = opts->columns != NULL ? opts->columns_count : total;
    if (count < 1 || count > total)
        return hf_fail(err, HF_E_ARG, "%s: %lld columns cannot be chosen from %lld", p->name,
                       (long long)count, (long long)total);
    p->source.cols = count;
    p->columns = hf_alloc((size_t)count * sizeof *p->columns);
    unsigned char *taken = hf_alloc_zero((size_t)total);
    const hf_status status = list_columns(p, opts->columns, count, taken, err);
    hf_free(taken);
    return status;
}

static hf_status take_missing(struct hf_prep *p, const hf_prep_opts *opts, hf_error *err) {
    if (opts->missing_count < 0 || (opts->missing_count > 0 && opts->missing == NULL))
        return hf_fail(err, HF_E_ARG, "%s: missing_count %lld without values", p->name,
                       (long long)opts->missing_count);
    if (opts->missing_count == 0)
        return HF_OK;
    p->missing = hf_alloc((size_t)opts->missing_count * sizeof *p->missing);
    if (p->missing == NULL)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory for missing values", p->name);
    p->missing_count = opts->missing_count;
    for (int64_t m = 0; m < p->missing_count; m++)
        p->missing[m] = hf_round_to(opts->missing[m], hf_prep_dtype_in(p));
    return HF_OK;
}

/* Scratch rows, and a chunk of what is read. */
static hf_status take_memory(struct hf_prep *p, hf_error *err) {
    const size_t row_bytes = (size_t)hf_prep_cols_in(p) * hf_dtype_bytes(hf_prep_dtype_in(p));
    p->wide = hf_alloc((size_t)hf_prep_cols_in(p) * sizeof *p->wide);
    p->row = hf_alloc((size_t)p->source.cols * sizeof *p->row);
    if (p->x.data == NULL) {
        p->raw_rows = row_bytes < RAW_BYTES ? (int64_t)(RAW_BYTES / row_bytes) : 1;
        p->raw = hf_alloc((size_t)p->raw_rows * row_bytes);
    }
    if (p->wide != NULL && p->row != NULL && (p->raw != NULL || p->x.data != NULL))
        return HF_OK;
    return hf_fail(err, HF_E_NOMEM, "%s: no memory for a few of its rows", p->name);
}

static hf_status take_scaling(struct hf_prep *p, const hf_prep_opts *opts, uint64_t memory,
                              hf_error *err) {
    const int64_t cols = p->source.cols;
    const hf_scaling *given = opts->scaling;
    if (given == NULL && opts->scale == HF_SCALE_NONE)
        return HF_OK;
    if (given != NULL && (given->cols != cols || given->shift == NULL || given->unit == NULL))
        return hf_fail(err, HF_E_ARG, "%s: a scaling of %lld columns does not fit its %lld",
                       p->name, (long long)given->cols, (long long)cols);
    if (given == NULL && (unsigned)opts->scale > HF_SCALE_MINMAX)
        return hf_fail(err, HF_E_ARG, "%s: there is no scaling %d", p->name, (int)opts->scale);
    double *parameters = hf_alloc((size_t)cols * 2 * sizeof *parameters);
    if (parameters == NULL)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory for a scaling", p->name);
    p->parameters = parameters;
    p->scaling = (hf_scaling){.method = given != NULL ? given->method : opts->scale,
                              .cols = cols,
                              .shift = parameters,
                              .unit = parameters + cols};
    p->source.dtype = p->source.dtype == HF_F64 ? HF_F64 : HF_F32;
    if (given == NULL)
        return hf_prep_measure(p, opts->scale, memory, err);
    memcpy(parameters, given->shift, (size_t)cols * sizeof *parameters);
    memcpy(parameters + cols, given->unit, (size_t)cols * sizeof *parameters);
    for (int64_t j = 0; j < cols; j++)
        if (!isfinite(given->shift[j]) || !isfinite(given->unit[j]) || given->unit[j] == 0)
            return hf_fail(err, HF_E_ARG, "%s: the given scaling has shift %g and unit %g at %lld",
                           p->name, given->shift[j], given->unit[j], (long long)j);
    return HF_OK;
}

static hf_status fill(struct hf_prep *p, const hf_prep_opts *opts, uint64_t memory, hf_error *err) {
    HF_TRY(take_columns(p, opts, err));
    HF_TRY(take_missing(p, opts, err));
    HF_TRY(take_memory(p, err));
    const bool bytes = hf_prep_dtype_in(p) == HF_U8 && p->missing_count > 0;
    p->source.rows = p->x.data != NULL ? p->x.rows : p->inner.rows;
    p->source.dtype = bytes ? HF_F32 : hf_prep_dtype_in(p);
    p->source.read = hf_prep_read;
    p->source.user = p;
    return take_scaling(p, opts, memory, err);
}

hf_status hf_prep_make(const struct hf_prep_input *input, const hf_prep_opts *opts,
                       struct hf_prep **prep, hf_error *err) {
    static const hf_prep_opts none;
    HF_TRY(check_source(input->x, input->source, err));
    struct hf_prep *p = hf_alloc_zero(sizeof *p);
    if (p == NULL)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory to prepare it", input->name);
    (void)snprintf(p->name, sizeof p->name, "%s", input->name);
    if (input->x != NULL)
        p->x = *input->x;
    else
        p->inner = *input->source;
    const hf_status status = fill(p, opts != NULL ? opts : &none, input->memory, err);
    if (status != HF_OK) {
        hf_prep_destroy(p);
        return status;
    }
    *prep = p;
    return HF_OK;
}

hf_status hf_prep_create(hf_context *ctx, const hf_array *x, const hf_source *source,
                         const hf_prep_opts *opts, hf_prep **prep) {
    if (prep != NULL)
        *prep = NULL;
    if (ctx == NULL)
        return HF_E_ARG;
    if (prep == NULL)
        return hf_ctx_fail(ctx, HF_E_ARG, "hf_prep_create: no place for the prepared rows");
    const struct hf_prep_input input = {
        .name = "the rows", .memory = ctx->memory_bytes, .x = x, .source = source};
    return hf_prep_make(&input, opts, prep, &ctx->error);
}

void hf_prep_destroy(hf_prep *prep) {
    if (prep == NULL)
        return;
    hf_free(prep->columns);
    hf_free(prep->missing);
    hf_free(prep->parameters);
    hf_free(prep->raw);
    hf_free(prep->wide);
    hf_free(prep->row);
    hf_free(prep);
}

const hf_source *hf_prep_source(const hf_prep *prep) { return prep == NULL ? NULL : &prep->source; }

const hf_scaling *hf_prep_scaling(const hf_prep *prep) {
    return prep == NULL || prep->parameters == NULL ? NULL : &prep->scaling;
}
