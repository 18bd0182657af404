/* SPDX-License-Identifier: Apache-2.0 */
#include "io/sparse/mtx_piece.h"

#include "io/csv/number.h"

#include <math.h>
#include <string.h>

#define EXACT 0x1p53 /* whole numbers below it are exact in float64 */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static char *skip_space(char *p, const char *end) {
    while (p < end && is_space(*p))
        p++;
    return p;
}

static char *word_end(char *p, const char *end) {
    while (p < end && !is_space(*p))
        p++;
    return p;
}

/* An index at *p, counted from 1, made one from 0. */
static enum hf_mtx_error take_index(char **p, const char *end, int64_t size, int32_t *index,
                                    enum hf_mtx_error beyond) {
    char *at = skip_space(*p, end);
    int64_t n = 0;
    const char *first = at;
    if (at == end)
        return HF_MTX_FEW;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        n = n <= size ? n * 10 + (*at - '0') : n;
    if (at == first || (at < end && !is_space(*at)))
        return HF_MTX_INDEX;
    if (n == 0)
        return HF_MTX_ZERO;
    if (n > size)
        return beyond;
    *index = (int32_t)(n - 1);
    *p = at;
    return HF_MTX_FINE;
}

static enum hf_mtx_error take_value(char **p, const char *end, bool integer, double *value) {
    char *at = skip_space(*p, end);
    bool named = false;
    if (at == end)
        return HF_MTX_FEW;
    char *stop = word_end(at, end);
    if (!hf_parse_number(at, stop, value, &named))
        return HF_MTX_VALUE;
    if (!isfinite(*value))
        return HF_MTX_INFINITE;
    if (integer && (*value != floor(*value) || fabs(*value) >= EXACT))
        return HF_MTX_WHOLE;
    *p = stop;
    return HF_MTX_FINE;
}

/* An element of the line [at, end), which is not blank. */
static enum hf_mtx_error take_element(struct hf_mtx_piece *p, char *at, const char *end) {
    const struct hf_mtx_head *head = p->head;
    const int64_t i = p->count;
    enum hf_mtx_error error = HF_MTX_FINE;
    p->value[i] = 1;
    if (head->coordinate)
        error = take_index(&at, end, head->rows, &p->row[i], HF_MTX_ROW);
    if (head->coordinate && error == HF_MTX_FINE)
        error = take_index(&at, end, head->cols, &p->col[i], HF_MTX_COLUMN);
    if (!head->pattern && error == HF_MTX_FINE)
        error = take_value(&at, end, head->integer, &p->value[i]);
    if (error == HF_MTX_FINE && skip_space(at, end) < end)
        error = HF_MTX_MANY;
    if (error != HF_MTX_FINE || !head->coordinate)
        return error;
    if (head->mirror == HF_MIRROR_NEGATED && p->row[i] == p->col[i] && p->value[i] != 0)
        return HF_MTX_DIAGONAL;
    p->lower += p->row[i] > p->col[i];
    if (p->row[i] < p->col[i] && p->first_upper < 0)
        p->first_upper = i;
    return HF_MTX_FINE;
}

static void note_line(struct hf_mtx_piece *p, const char *at, const char *end) {
    size_t bytes = (size_t)(end - at);
    if (bytes > sizeof p->bad - 1)
        bytes = sizeof p->bad - 1;
    memcpy(p->bad, at, bytes);
    p->bad[bytes] = '\0';
    for (char *c = p->bad; *c != '\0'; c++)
        if ((unsigned char)*c < 32 || (unsigned char)*c > 126)
            *c = *c == '\t' ? ' ' : '?';
}

/* The next line, [at, *end), and where the one behind it begins. */
static char *next_line(const struct hf_mtx_piece *p, char *at, char **end) {
    char *stop = memchr(at, '\n', (size_t)(p->end - at));
    *end = stop != NULL ? stop : p->end;
    return stop != NULL ? stop + 1 : p->end;
}

void hf_mtx_parse(struct hf_mtx_piece *p) {
    p->count = 0;
    p->lines = 0;
    p->lower = 0;
    p->first_upper = -1;
    p->error = HF_MTX_FINE;
    for (char *line = p->begin, *end; line < p->end && p->error == HF_MTX_FINE;) {
        char *next = next_line(p, line, &end);
        char *at = skip_space(line, end);
        p->lines++;
        if (at < end && *at != '%') {
            p->error = take_element(p, at, end);
            p->count += p->error == HF_MTX_FINE;
        }
        if (p->error != HF_MTX_FINE) {
            p->bad_line = p->lines;
            note_line(p, at, end);
        }
        line = next;
    }
}

int64_t hf_mtx_line_of(const struct hf_mtx_piece *p, int64_t element) {
    int64_t lines = 0;
    int64_t seen = -1;
    for (char *line = p->begin, *end; line < p->end && seen < element;) {
        char *next = next_line(p, line, &end);
        const char *at = skip_space(line, end);
        lines++;
        seen += at < end && *at != '%';
        line = next;
    }
    return lines;
}

static const char *wanted_line(const struct hf_mtx_head *head) {
    if (!head->coordinate)
        return "one value";
    return head->pattern ? "ROW COLUMN" : "ROW COLUMN VALUE";
}

hf_status hf_mtx_explain(const struct hf_mtx_piece *p, int64_t before, const char *name,
                         hf_error *err) {
    const struct hf_mtx_head *head = p->head;
    const long long line = (long long)(before + p->bad_line);
    const char *what = "";
    switch (p->error) {
    case HF_MTX_FINE:
        return HF_OK;
    case HF_MTX_FEW:
    case HF_MTX_MANY:
        return hf_fail(err, HF_E_DATA,
                       "%s: line %lld: '%s' has %s numbers than an element has; each line must be "
                       "%s: correct it, or write the file again",
                       name, line, p->bad, p->error == HF_MTX_FEW ? "less" : "more",
                       wanted_line(head));
    case HF_MTX_ROW:
    case HF_MTX_COLUMN:
        return hf_fail(err, HF_E_DATA,
                       "%s: line %lld: '%s': the %s is beyond the last, %lld; correct the index or "
                       "the line of sizes",
                       name, line, p->bad, p->error == HF_MTX_ROW ? "row" : "column",
                       (long long)(p->error == HF_MTX_ROW ? head->rows : head->cols));
    case HF_MTX_ZERO:
        what = "indices begin with 1; if those of this file begin with 0, add 1 to them";
        break;
    case HF_MTX_INDEX:
        what = "row and column must be whole numbers without a sign or a point; write them so";
        break;
    case HF_MTX_VALUE:
        what = "the value is not a number; correct it, or write the file again";
        break;
    case HF_MTX_INFINITE:
        what = "the value is NaN or infinite, and no system with it has a solution; correct it";
        break;
    case HF_MTX_WHOLE:
        what = "the banner says integer, but the value is not whole, or 2^53 or more, which "
               "float64 does not hold exactly; write real where rounding is acceptable";
        break;
    case HF_MTX_DIAGONAL:
        what = "the diagonal of a skew-symmetric matrix is zero; leave its elements out, or write "
               "the matrix as general";
        break;
    }
    return hf_fail(err, HF_E_DATA, "%s: line %lld: '%s': %s", name, line, p->bad, what);
}
