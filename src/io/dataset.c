/* SPDX-License-Identifier: Apache-2.0 */
#include "io/dataset.h"

#include "base/mem.h"
#include "core/context.h"
#include "io/gunzip.h"
#include "io/prep/prep_rows.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

struct hf_dataset {
    const char *format;
    struct hf_input in; /* open while rows are read in chunks */
    struct hf_table table;
    hf_array array; /* the rows in memory, or what prep reads from there */
    hf_source source;
    bool streamed;
    unsigned char *scratch; /* [HF_TABLE_SCRATCH], with table only */
    struct hf_prep *prep;   /* NULL: the rows are as the format gave them */
    int64_t *columns;       /* their numbers in the file; NULL: all */
    char **names;           /* of all columns of the file; NULL: there is no header */
    struct hf_missing *missing;
    int64_t missing_count;
    char warning[1200];
};

/* What is done with a file. */
struct plan {
    uint64_t limit;
    const hf_open_opts *opts;
    hf_prep_opts prep;
    double *missing; /* of prep */
};

static hf_status read_table(hf_dataset *d, int64_t first, int64_t count, void *dst, hf_error *err) {
    const struct hf_table_reader reader = {&d->table, &d->in, d->scratch};
    return hf_table_read(&reader, first, count, dst, err);
}

static hf_status read_source(void *user, int64_t first, int64_t count, void *dst, char *message,
                             size_t message_bytes) {
    hf_dataset *d = user;
    hf_error err = {""};
    hf_status status = HF_OK;
    if (first < 0 || count < 0 || first > d->table.rows - count)
        status = hf_fail(&err, HF_E_ARG, "%s: %lld rows from row %lld were asked for, it has %lld",
                         d->in.name, (long long)count, (long long)first, (long long)d->table.rows);
    if (status == HF_OK && count > 0)
        status = read_table(d, first, count, dst, &err);
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
    HF_TRY(read_table(d, 0, t->rows, d->array.data, err));
    if (d->in.gz == NULL)
        return hf_input_unchanged(&d->in, err);
    return hf_input_expect_size(&d->in, file_bytes, "its header", err);
}

/* A compressed file can be asked for its rows only once, and only from the front. */
static hf_status check_packed(const hf_dataset *d, int64_t file_bytes, int64_t memory,
                              uint64_t limit, hf_error *err) {
    const char *remedy = d->in.is_member ? "save it with numpy.save" : "unpack it with gunzip";
    if (d->table.fortran)
        return hf_fail(err, HF_E_DATA,
                       "%s: a compressed array in Fortran order is not read; %s first", d->in.name,
                       remedy);
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
            "read in chunks; %s, or raise memory_bytes",
            d->in.name, (long long)memory, (unsigned long long)limit, remedy);
    return HF_OK;
}

static bool prepares(const hf_prep_opts *o) {
    return o->columns != NULL || o->missing_count > 0 || o->scale != HF_SCALE_NONE ||
           o->scaling != NULL;
}

/* Do the rows keep their type when they are prepared? Else they are not prepared where they lie. */
static bool keeps_type(const hf_prep_opts *o, hf_dtype dtype) {
    if (dtype == HF_F32 || dtype == HF_F64 || !prepares(o))
        return true;
    return o->scale == HF_SCALE_NONE && o->scaling == NULL &&
           (o->missing_count == 0 || dtype != HF_U8);
}

/* Has the file what its header promises? *bytes of the file, *memory of its rows. */
static hf_status check_table(hf_dataset *d, uint64_t limit, int64_t *bytes, int64_t *memory,
                             hf_error *err) {
    if (!hf_table_size(&d->table, bytes, memory))
        return hf_fail(err, HF_E_DATA, "%s: its rows take more than 2^63 bytes", d->in.name);
    if (d->in.gz != NULL)
        return check_packed(d, *bytes, *memory, limit, err);
    return hf_input_expect_size(&d->in, *bytes, "its header", err);
}

/* Numbers of columns and values of a table: it has no names, and no text. */
static hf_status plan_table(hf_dataset *d, struct plan *plan, hf_error *err) {
    const hf_open_opts *o = plan->opts;
    const struct hf_columns from = {o->columns, o->skip_columns, d->in.name, NULL, d->table.cols};
    if (o->columns != NULL || o->skip_columns != NULL) {
        int64_t count = 0;
        HF_TRY(hf_columns_choose(&from, &d->columns, &count, err));
        plan->prep.columns = d->columns;
        plan->prep.columns_count = count;
    }
    if (d->missing_count == 0)
        return HF_OK;
    plan->missing = hf_alloc((size_t)d->missing_count * sizeof *plan->missing);
    if (plan->missing == NULL)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory for missing values", d->in.name);
    for (int64_t i = 0; i < d->missing_count; i++) {
        if (!d->missing[i].is_number)
            return hf_fail(err, HF_E_DATA,
                           "%s: opts.missing '%.60s': the file is no text and holds numbers alone; "
                           "name a number (NaN means a missing value anyway)",
                           d->in.name, d->missing[i].text);
        plan->missing[i] = d->missing[i].value;
    }
    plan->prep.missing = plan->missing;
    plan->prep.missing_count = d->missing_count;
    return HF_OK;
}

/* Read all prepared rows into memory: where the others lie if they have room there. */
static hf_status load_prepared(hf_dataset *d, size_t bytes, bool in_place, hf_error *err) {
    const hf_source *s = hf_prep_source(d->prep);
    void *rows = in_place ? d->array.data : hf_alloc(bytes);
    if (rows == NULL)
        return hf_fail(err, HF_E_NOMEM,
                       "%s: the system has no %zu bytes for its rows; close other "
                       "programs, or set a memory limit so that it is read in chunks",
                       d->in.name, bytes);
    const hf_status status = s->read(s->user, 0, s->rows, rows, err != NULL ? err->text : NULL,
                                     err != NULL ? sizeof err->text : 0);
    if (!in_place)
        hf_free(status == HF_OK ? d->array.data : rows);
    if (status == HF_OK) {
        d->array = hf_array_view(rows, s->dtype, s->rows, s->cols);
        d->streamed = false;
    }
    return status;
}

static hf_status open_table(hf_dataset *d, struct plan *plan, hf_error *err) {
    int64_t file_bytes, memory;
    HF_TRY(check_table(d, plan->limit, &file_bytes, &memory, err));
    HF_TRY(plan_table(d, plan, err));
    d->scratch = hf_alloc(HF_TABLE_SCRATCH);
    if (d->scratch == NULL)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory to read it", d->in.name);
    const bool loads = plan->opts->stream == 0 && (uint64_t)memory <= plan->limit &&
                       keeps_type(&plan->prep, hf_wire_dtype(d->table.wire));
    if (d->in.gz != NULL || loads)
        return load(d, file_bytes, memory, err);
    set_streamed(d);
    return HF_OK;
}

/* Such a column weighs as much as before, which is what scaling was to prevent. */
static void warn_flat(hf_dataset *d) {
    const size_t used = strlen(d->warning);
    const char *name = NULL;
    const int64_t number = hf_dataset_column(d, d->prep->first_flat, &name);
    char more[40] = "";
    if (d->prep->flat > 1)
        (void)snprintf(more, sizeof more, " and %lld others", (long long)d->prep->flat - 1);
    (void)snprintf(d->warning + used, sizeof d->warning - used,
                   "%s%s: column %lld%s%.40s%s%s: half of the values or more are equal, so "
                   "HF_SCALE_ROBUST has no unit and leaves it as large as it is; "
                   "HF_SCALE_STANDARD has one",
                   used > 0 ? "; " : "", d->in.name, (long long)number, name != NULL ? " (" : "",
                   name != NULL ? name : "", name != NULL ? ")" : "", more);
}

static hf_status prepare(hf_dataset *d, const struct plan *plan, hf_error *err) {
    if (!prepares(&plan->prep))
        return HF_OK;
    const int64_t cols = plan->prep.columns != NULL ? plan->prep.columns_count
                         : d->streamed              ? d->source.cols
                                                    : d->array.cols;
    if (plan->prep.scaling != NULL && plan->prep.scaling->cols != cols)
        return hf_fail(err, HF_E_DATA,
                       "%s: the scaling is one of %lld columns, but its rows have %lld; choose the "
                       "same columns with opts.columns",
                       d->in.name, (long long)plan->prep.scaling->cols, (long long)cols);
    const struct hf_prep_input input = {.name = d->in.name,
                                        .memory = plan->limit,
                                        .x = d->streamed ? NULL : &d->array,
                                        .source = d->streamed ? &d->source : NULL};
    HF_TRY(hf_prep_make(&input, &plan->prep, &d->prep, err));
    if (d->prep->flat > 0)
        warn_flat(d);
    const hf_source *s = hf_prep_source(d->prep);
    const bool in_place = !d->streamed && s->dtype == d->array.dtype;
    const size_t held =
        d->streamed ? 0 : (size_t)(d->array.rows * d->array.cols) * hf_dtype_bytes(d->array.dtype);
    size_t bytes;
    const bool fits = hf_mul3_size(s->rows, s->cols, (int64_t)hf_dtype_bytes(s->dtype), &bytes) &&
                      bytes <= plan->limit && held <= plan->limit - bytes;
    if (in_place || (fits && plan->opts->stream == 0))
        return load_prepared(d, bytes, in_place, err);
    d->source = *s;
    d->streamed = true;
    return HF_OK;
}

static void warn(hf_dataset *d, bool odd_head) {
    if (odd_head)
        (void)snprintf(d->warning, sizeof d->warning,
                       "%s: its first line was taken for a row, but looks like a header: whole "
                       "numbers in sequence, unlike those below; HF_HEADER_YES makes it one, "
                       "HF_HEADER_NO says that it is none",
                       d->in.name);
}

/* d->in is open. */
static hf_status open_content(hf_dataset *d, const char *path, struct plan *plan, hf_error *err) {
    const hf_open_opts *o = plan->opts;
    const struct hf_format *format = NULL;
    struct hf_opened opened;
    memset(&opened, 0, sizeof opened);
    const char *name = d->in.is_member ? d->in.member.name : path;
    HF_TRY(hf_missing_list(o->missing, &d->missing, &d->missing_count, err));
    const struct hf_format_limits limits = {
        .memory_bytes = plan->limit,
        .float64 = o->float64 != 0,
        .text = {o->header, o->columns, o->skip_columns, d->missing, d->missing_count}};
    HF_TRY(hf_format_detect(&d->in, name, &format, err));
    d->format = format->name;
    HF_TRY(format->open(&d->in, &limits, &opened, err));
    d->table = opened.table;
    d->array = opened.array;
    d->columns = opened.columns;
    d->names = opened.names;
    plan->prep.scale = o->scale;
    plan->prep.scaling = o->scaling;
    warn(d, opened.odd_head);
    HF_TRY(opened.is_table ? open_table(d, plan, err) : hf_input_unchanged(&d->in, err));
    return prepare(d, plan, err);
}

/* Numbers in text have points, whatever the program has set. */
static hf_status open_plainly(hf_dataset *d, const char *path, struct plan *plan, hf_error *err) {
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory to read it", d->in.name);
    const locale_t before = uselocale(plain);
    const hf_status status = open_content(d, path, plan, err);
    (void)uselocale(before);
    freelocale(plain);
    hf_free(plan->missing);
    return status;
}

/* The limit of another device knows nothing of the host's memory. */
uint64_t hf_io_limit(const hf_context *ctx) {
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
    static const hf_open_opts none;
    opts = opts != NULL ? opts : &none;
    HF_TRY(hf_columns_check(opts->columns, opts->skip_columns, opts->missing, &ctx->error));
    hf_dataset *d = hf_alloc_zero(sizeof *d);
    if (d == NULL)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory to open %.200s", path);
    d->in.fd = -1;
    struct plan plan = {.limit = opts->memory_bytes > 0 ? opts->memory_bytes : hf_io_limit(ctx),
                        .opts = opts};
    hf_status status = hf_input_open(&d->in, path, plan.limit, &ctx->error);
    if (status == HF_OK)
        status = open_plainly(d, path, &plan, &ctx->error);
    if (status != HF_OK) {
        hf_dataset_close(d);
        return status;
    }
    const bool reads_file = d->streamed && (d->prep == NULL || d->array.data == NULL);
    if (!reads_file) {
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
    hf_prep_destroy(data->prep);
    hf_free(data->columns);
    hf_free(data->names);
    hf_free(data->missing);
    hf_free(data);
}

const hf_array *hf_dataset_array(const hf_dataset *data) {
    return data == NULL || data->streamed ? NULL : &data->array;
}

const hf_source *hf_dataset_source(const hf_dataset *data) {
    return data != NULL && data->streamed ? &data->source : NULL;
}

const char *hf_dataset_format(const hf_dataset *data) { return data == NULL ? "" : data->format; }

const char *hf_dataset_type(const hf_dataset *data) {
    if (data == NULL)
        return "";
    return data->table.rows > 0 ? hf_wire_name(data->table.wire) : "text";
}

int64_t hf_dataset_column(const hf_dataset *data, int64_t j, const char **name) {
    const int64_t cols = data == NULL ? 0 : data->streamed ? data->source.cols : data->array.cols;
    if (name != NULL)
        *name = NULL;
    if (j < 0 || j >= cols)
        return 0;
    const int64_t number = data->columns != NULL ? data->columns[j] : j;
    if (name != NULL && data->names != NULL)
        *name = data->names[number];
    return number + 1;
}

const hf_scaling *hf_dataset_scaling(const hf_dataset *data) {
    return data == NULL ? NULL : hf_prep_scaling(data->prep);
}

const char *hf_dataset_warning(const hf_dataset *data) { return data == NULL ? "" : data->warning; }
