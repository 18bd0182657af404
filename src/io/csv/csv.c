/* SPDX-License-Identifier: Apache-2.0
 * Reading tables of numbers in text: CSV, TSV, and columns set apart by spaces. */
#include "io/dataset.h"

#include "base/mem.h"
#include "io/csv/csv_head.h"
#include "io/csv/csv_lines.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_FIRST ((size_t)64 << 10)
#define BLOCK_MAX ((size_t)4 << 20)

/* Values in the order of the file. Blocks instead of one array that grows: the array is made once,
 * when its size is known, and the blocks are freed as they are copied, so little memory is held
 * twice. */
struct block {
    struct block *next;
    size_t used, room; /* bytes */
    char data[];
};

struct csv {
    struct hf_lines lines;
    const char *name;
    hf_error *err;
    bool float64;
    bool too_narrow; /* float32 would not do: the file is to be read again as float64 */
    uint64_t limit;
    const struct hf_csv_wish *wish;
    struct hf_csv_head head; /* fields is 0 until the first line was seen */
    int64_t line;            /* number of the one that is being read, where it begins */
    int64_t rows;
    double *row;           /* [head.cols] */
    unsigned char *filled; /* [head.cols] not all are missing */
    struct block *first, *last;
    uint64_t bytes; /* of values so far */
};

enum hf_probe hf_csv_probe(const struct hf_input *in) {
    for (size_t i = 0; i < in->head_bytes; i++) {
        const unsigned char c = in->head[i];
        if ((c < 32 && c != '\t' && c != '\n' && c != '\r') || c == 127 || c == 255)
            return HF_PROBE_NO;
    }
    return HF_PROBE_LIKELY;
}

static hf_status fail_zero(const struct csv *c) {
    return hf_fail(c->err, HF_E_DATA,
                   "%s: line %lld: the file has zero bytes: it is binary, or text to be converted "
                   "with iconv -t UTF-8",
                   c->name, (long long)c->line);
}

/* " (age)", or nothing without a header. */
static const char *name_of(const struct csv *c, int64_t col, char text[48]) {
    if (c->head.names == NULL)
        return "";
    struct hf_field f = {c->head.names[col], c->head.names[col]};
    f.end += strlen(f.begin) < 30 ? strlen(f.begin) : 30;
    char name[48];
    hf_field_text(&f, name);
    (void)snprintf(text, 48, " (%.40s)", name);
    return text;
}

/* A comma where a decimal point should be. */
static bool is_decimal_comma(const struct hf_field *f) {
    const size_t bytes = (size_t)(f->end - f->begin);
    for (size_t i = 0; i < bytes; i++)
        if (strchr("+-0123456789.,", f->begin[i]) == NULL)
            return false;
    return memchr(f->begin, ',', bytes) != NULL;
}

/* The columns of text in the first row, to be shown ("1 (name), 3") and to be left out ("1,3"). */
struct texts {
    int64_t count;
    char shown[300], list[200];
    char example[48];
};

static struct texts list_texts(const struct csv *c, char *p, const char *end) {
    struct texts t = {0};
    bool more = true;
    for (int64_t col = 0; more && col < c->head.fields; col++) {
        struct hf_field f;
        double v;
        char name[48];
        more = hf_field_next(c->head.delimiter, &p, end, &f);
        if (c->head.slot[col] < 0 ||
            hf_field_read(&f, c->wish->missing, c->wish->missing_count, &v) != HF_FIELD_TEXT)
            continue;
        const size_t shown = strlen(t.shown);
        const size_t listed = strlen(t.list);
        if (t.count++ == 0)
            hf_field_text(&f, t.example);
        if (sizeof t.shown - shown < 80 || sizeof t.list - listed < 30)
            continue;
        (void)snprintf(t.shown + shown, sizeof t.shown - shown, "%s%lld%s", shown > 0 ? ", " : "",
                       (long long)col + 1, name_of(c, col, name));
        (void)snprintf(t.list + listed, sizeof t.list - listed, "%s%lld", listed > 0 ? "," : "",
                       (long long)col + 1);
    }
    return t;
}

/* The first row has text: these are columns that no clustering can use, or the line is a header. */
static hf_status fail_texts(const struct csv *c, char *line, const char *end) {
    const struct texts t = list_texts(c, line, end);
    const bool many = t.count > 1;
    const bool first = c->head.names == NULL && c->wish->header == HF_HEADER_AUTO;
    return hf_fail(c->err, HF_E_DATA,
                   "%s: line %lld: column%s %s hold%s text (the first '%s'); leave %s out with "
                   "opts.skip_columns %s%s",
                   c->name, (long long)c->line, many ? "s" : "", t.shown, many ? "" : "s",
                   t.example, many ? "them" : "it", t.list,
                   first ? ", or if the line is a header, say HF_HEADER_YES" : "");
}

static hf_status fail_field(const struct csv *c, const struct hf_field *f, int64_t col) {
    char text[48];
    char name[48];
    hf_field_text(f, text);
    if (is_decimal_comma(f))
        return hf_fail(c->err, HF_E_DATA,
                       "%s: line %lld, column %lld%s: '%s' is not a number; decimals need a point, "
                       "not a comma",
                       c->name, (long long)c->line, (long long)col + 1, name_of(c, col, name),
                       text);
    return hf_fail(
        c->err, HF_E_DATA,
        "%s: line %lld, column %lld%s: '%s' is not a number; write one, nan or inf there, "
        "say opts.missing '%s' if it stands for a missing value, or leave the column out "
        "with opts.skip_columns %lld",
        c->name, (long long)c->line, (long long)col + 1, name_of(c, col, name), text, text,
        (long long)col + 1);
}

static hf_status fail_memory(const struct csv *c) {
    return hf_fail(
        c->err, HF_E_NOMEM,
        "%s: line %lld: the numbers so far take %llu bytes and %llu are allowed, and text "
        "is not read in chunks; save the data as .npy, or raise memory_bytes",
        c->name, (long long)c->line, (unsigned long long)c->bytes, (unsigned long long)c->limit);
}

/* The block that the next value goes to; NULL when there is no memory for a new one. */
static struct block *block_with_room(struct csv *c, size_t value_bytes) {
    if (c->last != NULL && c->last->used < c->last->room)
        return c->last;
    const uint64_t left = c->limit > c->bytes ? c->limit - c->bytes : 0;
    size_t room = c->last == NULL ? BLOCK_FIRST : c->last->room * 2;
    if (room > BLOCK_MAX)
        room = BLOCK_MAX;
    if (room > left)
        room = (size_t)left / value_bytes * value_bytes;
    struct block *b = room > 0 ? hf_alloc(sizeof *b + room) : NULL;
    if (b == NULL)
        return NULL;
    *b = (struct block){.next = NULL, .used = 0, .room = room};
    if (c->last != NULL)
        c->last->next = b;
    else
        c->first = b;
    c->last = b;
    return b;
}

static hf_status add_value(struct csv *c, double v) {
    const float narrow = (float)v;
    const size_t bytes = c->float64 ? sizeof v : sizeof narrow;
    struct block *b = block_with_room(c, bytes);
    if (b == NULL)
        return fail_memory(c);
    memcpy(b->data + b->used, c->float64 ? (const void *)&v : (const void *)&narrow, bytes);
    b->used += bytes;
    c->bytes += bytes;
    return HF_OK;
}

/* Beyond 2^24 steps of float32 are larger than 1: numbers that count something, identifiers and
 * times in seconds would become equal. Below, decimal fractions are rounded, which is what most
 * tables of measurements can bear at half the memory and time. */
static bool needs_float64(double v) {
    const double size = fabs(v);
    return size > 0x1p24 && (size >= 0x1.ffffffp127 || (double)(float)v != v);
}

/* A finite number must not become Inf in silence. */
static hf_status check_range(const struct csv *c, const struct hf_field *f, double v, int64_t col) {
    if (isfinite(v))
        return HF_OK;
    char text[48];
    hf_field_text(f, text);
    return hf_fail(c->err, HF_E_DATA,
                   "%s: line %lld, column %lld: %s is too large for float64; scale the column",
                   c->name, (long long)c->line, (long long)col + 1, text);
}

/* The fields that are read into c->row. */
static hf_status take_fields(struct csv *c, char *line, char *end) {
    const struct hf_csv_head *h = &c->head;
    struct hf_field f;
    char *p = line;
    int64_t col = 0;
    for (bool more = true; more; col++) {
        more = hf_field_next(h->delimiter, &p, end, &f);
        if (col >= h->fields || h->slot[col] < 0)
            continue;
        double *v = &c->row[h->slot[col]];
        const enum hf_field_kind kind =
            hf_field_read(&f, c->wish->missing, c->wish->missing_count, v);
        if (kind == HF_FIELD_TEXT && memchr(f.begin, 0, (size_t)(f.end - f.begin)) != NULL)
            return fail_zero(c);
        if (kind == HF_FIELD_TEXT)
            return c->rows == 0 && !is_decimal_comma(&f) ? fail_texts(c, line, end)
                                                         : fail_field(c, &f, col);
        c->filled[h->slot[col]] |= kind != HF_FIELD_MISSING;
        if (kind == HF_FIELD_NUMBER)
            HF_TRY(check_range(c, &f, *v, col));
        c->too_narrow |= !c->float64 && kind == HF_FIELD_NUMBER && needs_float64(*v);
    }
    if (col == h->fields)
        return HF_OK;
    return hf_fail(
        c->err, HF_E_DATA,
        "%s: line %lld has %lld fields, the lines before have %lld; all lines need as many",
        c->name, (long long)c->line, (long long)col, (long long)h->fields);
}

static hf_status take_row(struct csv *c, char *line, char *end) {
    HF_TRY(take_fields(c, line, end));
    if (c->too_narrow)
        return HF_OK;
    for (int64_t j = 0; j < c->head.cols; j++)
        HF_TRY(add_value(c, c->row[j]));
    c->rows++;
    return HF_OK;
}

static hf_status take_first(struct csv *c, char *line, char *end) {
    HF_TRY(hf_csv_head_take(&c->head, c->wish, c->name, line, end, c->err));
    c->row = hf_alloc((size_t)c->head.cols * sizeof *c->row);
    c->filled = hf_alloc_zero((size_t)c->head.cols);
    if (c->row == NULL || c->filled == NULL)
        return fail_memory(c);
    return c->head.is_header ? HF_OK : take_row(c, line, end);
}

/* The next line that is neither empty nor a comment, with those that quotes join to it, less the
 * blanks before it. */
static hf_status next_record(struct csv *c, char **line, char **end) {
    const bool first = c->head.fields == 0;
    size_t blanks;
    do {
        HF_TRY(hf_lines_next(&c->lines, line, end, c->err));
        if (*line == NULL)
            return HF_OK;
        char *p = *line;
        while (p < *end && (*p == ' ' || (*p == '\t' && (first || c->head.delimiter == ' '))))
            p++;
        blanks = (size_t)(p - *line);
        *line = p;
    } while (*line == *end || **line == '#');
    c->line = c->lines.number;
    if (memchr(*line, '"', (size_t)(*end - *line)) == NULL)
        return HF_OK;
    struct hf_quotes quotes = {.delimiter = c->head.delimiter};
    bool open = hf_quotes_open(&quotes, *line, *end);
    while (open) {
        const size_t seen = (size_t)(*end - *line);
        HF_TRY(hf_lines_more(&c->lines, line, end, c->err));
        if (*line == NULL)
            return hf_fail(c->err, HF_E_DATA,
                           "%s: line %lld: a quote opens a field there and nothing closes it; "
                           "close it, or take it out",
                           c->name, (long long)c->line);
        *line += blanks;
        open = hf_quotes_open(&quotes, *line + seen, *end);
    }
    return HF_OK;
}

/* A column of missing values alone: no row would be complete. */
static hf_status check_filled(const struct csv *c) {
    char name[48];
    for (int64_t j = 0; j < c->head.cols; j++) {
        const int64_t col = c->head.columns[j];
        if (!c->filled[j])
            return hf_fail(
                c->err, HF_E_DATA,
                "%s: column %lld%s has no value in any row%s; leave it out with "
                "opts.skip_columns %lld",
                c->name, (long long)col + 1, name_of(c, col, name),
                col + 1 == c->head.fields && col > 0 ? " (do the lines end with a delimiter?)" : "",
                (long long)col + 1);
    }
    return HF_OK;
}

static hf_status take_lines(struct csv *c) {
    char *line = NULL;
    char *end = NULL;
    for (;;) {
        HF_TRY(next_record(c, &line, &end));
        if (line == NULL)
            break;
        HF_TRY(c->head.fields == 0 ? take_first(c, line, end) : take_row(c, line, end));
        if (c->too_narrow)
            return HF_OK;
    }
    if (c->rows == 0)
        return hf_fail(c->err, HF_E_DATA, "%s: holds no rows of numbers%s; write at least one",
                       c->name, c->head.fields == 0 ? "" : ", only a header");
    return check_filled(c);
}

static void clear(struct csv *c) {
    while (c->first != NULL) {
        struct block *next = c->first->next;
        hf_free(c->first);
        c->first = next;
    }
    hf_free(c->row);
    hf_free(c->filled);
    hf_csv_head_clear(&c->head);
}

static hf_status join_blocks(struct csv *c, hf_array *array) {
    char *data = hf_alloc((size_t)c->bytes);
    if (data == NULL)
        return hf_fail(c->err, HF_E_NOMEM,
                       "%s: the system has no %llu bytes for its rows; close other "
                       "programs",
                       c->name, (unsigned long long)c->bytes);
    *array = hf_array_view(data, c->float64 ? HF_F64 : HF_F32, c->rows, c->head.cols);
    while (c->first != NULL) {
        struct block *b = c->first;
        memcpy(data, b->data, b->used);
        data += b->used;
        c->first = b->next;
        hf_free(b);
    }
    c->last = NULL;
    return HF_OK;
}

static hf_status read_lines(struct csv *c, struct hf_input *in) {
    hf_lines_begin(&c->lines, in, c->limit);
    const hf_status status = take_lines(c);
    hf_lines_end(&c->lines);
    return status;
}

/* Once more from the front: values that were rounded to float32 are lost. */
static hf_status read_wide(struct csv *c, struct hf_input *in) {
    clear(c);
    *c = (struct csv){
        .name = c->name, .err = c->err, .float64 = true, .limit = c->limit, .wish = c->wish};
    HF_TRY(hf_input_rewind(in, c->err));
    return read_lines(c, in);
}

hf_status hf_csv_open(struct hf_input *in, const struct hf_format_limits *limits,
                      struct hf_opened *opened, hf_error *err) {
    struct csv c = {.name = in->name,
                    .err = err,
                    .float64 = limits->float64,
                    .limit = limits->memory_bytes,
                    .wish = &limits->text};
    hf_status status = read_lines(&c, in);
    if (status == HF_OK && c.too_narrow)
        status = read_wide(&c, in);
    if (status == HF_OK)
        status = join_blocks(&c, &opened->array);
    if (status == HF_OK) {
        opened->odd_head = hf_csv_head_odd(&c.head, &opened->array);
        opened->columns = c.head.columns;
        opened->names = c.head.names;
        c.head.columns = NULL;
        c.head.names = NULL;
    }
    clear(&c);
    return status;
}
