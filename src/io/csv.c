/* SPDX-License-Identifier: Apache-2.0
 * Reading tables of numbers in text: CSV, TSV, and columns set apart by spaces. */
#include "io/dataset.h"

#include "base/mem.h"
#include "io/csv_lines.h"
#include "io/number.h"

#include <locale.h>
#include <math.h>
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
    char delimiter; /* ' ' stands for runs of spaces and tabs */
    int64_t rows, cols;
    struct block *first, *last;
    uint64_t bytes; /* of values so far */
};

/* A field of a line, without the blanks and quotes around it. */
struct field {
    char *begin, *end;
};

enum hf_probe hf_csv_probe(const struct hf_input *in) {
    for (size_t i = 0; i < in->head_bytes; i++) {
        const unsigned char c = in->head[i];
        if ((c < 32 && c != '\t' && c != '\n' && c != '\r') || c == 127 || c == 255)
            return HF_PROBE_NO;
    }
    return HF_PROBE_LIKELY;
}

/* The next field from *p on; *p moves past its delimiter. Returns whether another field follows. */
static bool next_field(const struct csv *c, char **p, const char *end, struct field *f) {
    char *q = *p;
    while (q < end && (*q == ' ' || (*q == '\t' && c->delimiter != '\t')))
        q++;
    const bool quoted = q < end && *q == '"';
    char *const from = q;
    if (quoted)
        for (q++; q < end && *q != '"'; q++)
            ;
    if (c->delimiter == ' ')
        while (q < end && *q != ' ' && *q != '\t')
            q++;
    else
        while (q < end && *q != c->delimiter)
            q++;
    *f = (struct field){from, q};
    while (f->end > from && (f->end[-1] == ' ' || f->end[-1] == '\t'))
        f->end--;
    if (quoted && f->end - from >= 2 && f->end[-1] == '"') {
        f->begin++;
        f->end--;
    }
    while (c->delimiter == ' ' && q < end && (*q == ' ' || *q == '\t'))
        q++;
    const bool more = q < end;
    *p = more && c->delimiter != ' ' ? q + 1 : q;
    return more;
}

static void find_delimiter(struct csv *c, const char *p, const char *end) {
    bool quoted = false;
    bool tab = false, semicolon = false, comma = false;
    for (; p < end; p++) {
        if (*p == '"')
            quoted = !quoted;
        tab = tab || (!quoted && *p == '\t');
        semicolon = semicolon || (!quoted && *p == ';');
        comma = comma || (!quoted && *p == ',');
    }
    c->delimiter = tab ? '\t' : semicolon ? ';' : comma ? ',' : ' ';
}

/* A field for a message: printable, not too long. */
static void field_text(const struct field *f, char text[48]) {
    const size_t bytes = (size_t)(f->end - f->begin);
    const size_t kept = bytes < 40 ? bytes : 40;
    for (size_t i = 0; i < kept; i++) {
        const unsigned char ch = (unsigned char)f->begin[i];
        text[i] = (char)(ch < 32 || ch == 127 ? '?' : ch);
    }
    memcpy(text + kept, bytes > kept ? "..." : "", bytes > kept ? 4 : 1);
}

static hf_status fail_field(const struct csv *c, const struct field *f, int64_t col) {
    char text[48];
    field_text(f, text);
    const size_t bytes = (size_t)(f->end - f->begin);
    const char *remedy = "write a number, nan or inf there";
    if (memchr(f->begin, 0, bytes) != NULL)
        remedy =
            "the file has zero bytes: it is binary, or text to be converted with iconv -t UTF-8";
    else if (c->rows == 0 && c->cols == 0)
        remedy = "if the line is a header, put # before it, else write a number there";
    else if (memchr(f->begin, ',', bytes) != NULL)
        remedy = "decimals need a point, not a comma";
    if (f->begin == f->end)
        return hf_fail(c->err, HF_E_DATA, "%s: line %lld, column %lld: the field is empty; %s",
                       c->name, (long long)c->lines.number, (long long)col + 1, remedy);
    return hf_fail(c->err, HF_E_DATA, "%s: line %lld, column %lld: '%s' is not a number; %s",
                   c->name, (long long)c->lines.number, (long long)col + 1, text, remedy);
}

static hf_status fail_memory(const struct csv *c) {
    return hf_fail(
        c->err, HF_E_NOMEM,
        "%s: line %lld: the numbers so far take %llu bytes and %llu are allowed, and text "
        "is not read in chunks; save the data as .npy, or raise memory_bytes",
        c->name, (long long)c->lines.number, (unsigned long long)c->bytes,
        (unsigned long long)c->limit);
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
static hf_status check_range(const struct csv *c, const struct field *f, double v, int64_t col) {
    if (isfinite(v))
        return HF_OK;
    char text[48];
    field_text(f, text);
    return hf_fail(c->err, HF_E_DATA,
                   "%s: line %lld, column %lld: %s is too large for float64; scale the column",
                   c->name, (long long)c->lines.number, (long long)col + 1, text);
}

static hf_status take_row(struct csv *c, char *line, char *end) {
    struct field f;
    char *p = line;
    int64_t col = 0;
    bool more = true;
    for (; more; col++) {
        double v;
        bool named;
        more = next_field(c, &p, end, &f);
        if (!hf_parse_number(f.begin, f.end, &v, &named))
            return fail_field(c, &f, col);
        if (!named)
            HF_TRY(check_range(c, &f, v, col));
        c->too_narrow = !c->float64 && !named && needs_float64(v);
        if (c->too_narrow)
            return HF_OK;
        HF_TRY(add_value(c, v));
    }
    if (c->cols == 0)
        c->cols = col;
    if (col != c->cols)
        return hf_fail(
            c->err, HF_E_DATA,
            "%s: line %lld has %lld fields, the lines before have %lld; all lines need as many",
            c->name, (long long)c->lines.number, (long long)col, (long long)c->cols);
    c->rows++;
    return HF_OK;
}

/* The first line sets the delimiter. It is a header when none of its fields is a number; when only
 * some are, a name that was meant and a number that was mistyped cannot be told apart. */
static hf_status take_first(struct csv *c, char *line, char *end) {
    struct field f;
    char *p = line;
    int64_t cols = 0, numbers = 0;
    bool more = true;
    find_delimiter(c, line, end);
    for (; more; cols++) {
        double v;
        bool named;
        more = next_field(c, &p, end, &f);
        numbers += hf_parse_number(f.begin, f.end, &v, &named) ? 1 : 0;
    }
    if (numbers > 0)
        return take_row(c, line, end);
    c->cols = cols;
    return HF_OK;
}

static hf_status take_lines(struct csv *c) {
    char *line = NULL;
    char *end = NULL;
    bool first = true;
    for (;;) {
        HF_TRY(hf_lines_next(&c->lines, &line, &end, c->err));
        if (line == NULL)
            break;
        while (line < end && (*line == ' ' || (*line == '\t' && (first || c->delimiter == ' '))))
            line++;
        if (line == end || *line == '#')
            continue;
        HF_TRY(first ? take_first(c, line, end) : take_row(c, line, end));
        if (c->too_narrow)
            return HF_OK;
        first = false;
    }
    if (c->rows == 0)
        return hf_fail(c->err, HF_E_DATA, "%s: holds no rows of numbers%s; write at least one",
                       c->name, first ? "" : ", only a header");
    return HF_OK;
}

static void free_blocks(struct csv *c) {
    while (c->first != NULL) {
        struct block *next = c->first->next;
        hf_free(c->first);
        c->first = next;
    }
    c->last = NULL;
}

static hf_status join_blocks(struct csv *c, hf_array *array) {
    char *data = hf_alloc((size_t)c->bytes);
    if (data == NULL)
        return hf_fail(c->err, HF_E_NOMEM,
                       "%s: the system has no %llu bytes for its rows; close other "
                       "programs",
                       c->name, (unsigned long long)c->bytes);
    *array = hf_array_view(data, c->float64 ? HF_F64 : HF_F32, c->rows, c->cols);
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
    free_blocks(c);
    *c = (struct csv){
        .name = c->name, .err = c->err, .float64 = true, .limit = c->limit, .delimiter = ' '};
    HF_TRY(hf_input_rewind(in, c->err));
    return read_lines(c, in);
}

hf_status hf_csv_open(struct hf_input *in, const struct hf_format_limits *limits,
                      struct hf_opened *opened, hf_error *err) {
    struct csv c = {.name = in->name,
                    .err = err,
                    .float64 = limits->float64,
                    .limit = limits->memory_bytes,
                    .delimiter = ' '};
    /* strtod must see points as decimal points, whatever the program has set. */
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory to read it", in->name);
    const locale_t before = uselocale(plain);
    hf_status status = read_lines(&c, in);
    if (status == HF_OK && c.too_narrow)
        status = read_wide(&c, in);
    if (status == HF_OK)
        status = join_blocks(&c, &opened->array);
    free_blocks(&c);
    (void)uselocale(before);
    freelocale(plain);
    return status;
}
