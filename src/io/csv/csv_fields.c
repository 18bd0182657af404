/* SPDX-License-Identifier: Apache-2.0 */
#include "io/csv/csv_fields.h"

#include "io/csv/number.h"

#include <math.h>
#include <string.h>

/* Behind the quoted text that begins at q: past its last quote, or end. A doubled quote is text. */
static char *skip_quoted(char *q, const char *end) {
    for (q++; q < end; q++) {
        if (*q != '"')
            continue;
        if (q + 1 == end || q[1] != '"')
            return q + 1;
        q++;
    }
    return q;
}

bool hf_field_next(char delimiter, char **p, const char *end, struct hf_field *f) {
    char *q = *p;
    while (q < end && (*q == ' ' || (*q == '\t' && delimiter != '\t')))
        q++;
    const bool quoted = q < end && *q == '"';
    char *const from = q;
    if (quoted)
        q = skip_quoted(q, end);
    if (delimiter == ' ')
        while (q < end && *q != ' ' && *q != '\t')
            q++;
    else
        while (q < end && *q != delimiter)
            q++;
    *f = (struct hf_field){from, q};
    while (f->end > from && (f->end[-1] == ' ' || f->end[-1] == '\t'))
        f->end--;
    if (quoted && f->end - from >= 2 && f->end[-1] == '"') {
        f->begin++;
        f->end--;
    }
    while (delimiter == ' ' && q < end && (*q == ' ' || *q == '\t'))
        q++;
    const bool more = q < end;
    *p = more && delimiter != ' ' ? q + 1 : q;
    return more;
}

char hf_delimiter_find(const char *p, const char *end) {
    bool quoted = false;
    bool tab = false, semicolon = false, comma = false;
    for (; p < end; p++) {
        if (*p == '"')
            quoted = !quoted;
        tab = tab || (!quoted && *p == '\t');
        semicolon = semicolon || (!quoted && *p == ';');
        comma = comma || (!quoted && *p == ',');
    }
    return (char)(tab ? '\t' : semicolon ? ';' : comma ? ',' : ' ');
}

static bool ends_field(char c, char delimiter) {
    if (delimiter == ' ')
        return c == ' ' || c == '\t';
    return delimiter != 0 ? c == delimiter : c == ',' || c == ';' || c == '\t' || c == ' ';
}

bool hf_quotes_open(struct hf_quotes *q, const char *p, const char *end) {
    for (; p < end; p++) {
        const char c = *p;
        if (q->state == HF_FIELD_QUOTED)
            q->state = c == '"' ? HF_FIELD_QUOTE : HF_FIELD_QUOTED;
        else if (q->state == HF_FIELD_QUOTE && c == '"')
            q->state = HF_FIELD_QUOTED;
        else if (ends_field(c, q->delimiter))
            q->state = HF_FIELD_BEGIN;
        else if (q->state == HF_FIELD_BEGIN && c == '"')
            q->state = HF_FIELD_QUOTED;
        else if (q->state != HF_FIELD_BEGIN || (c != ' ' && c != '\t'))
            q->state = HF_FIELD_PLAIN;
    }
    return q->state == HF_FIELD_QUOTED;
}

/* What pandas.read_csv() takes for missing, but for what is a number's name here anyway. */
static bool is_missing(const struct hf_field *f) {
    static const char *const names[] = {"",     "NA",     "N/A",     "n/a",     "null",
                                        "NULL", "None",   "<NA>",    "#N/A",    "#N/A N/A",
                                        "#NA",  "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"};
    const size_t bytes = (size_t)(f->end - f->begin);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == bytes && memcmp(names[i], f->begin, bytes) == 0)
            return true;
    return false;
}

/* Is the field this text? Quotes in it are doubled. */
static bool is_text(const struct hf_field *f, const char *text) {
    for (const char *p = f->begin; p < f->end; p++, text++) {
        if (*p != *text || *text == '\0')
            return false;
        p += *p == '"' && p + 1 < f->end && p[1] == '"';
    }
    return *text == '\0';
}

enum hf_field_kind hf_field_read(const struct hf_field *f, const struct hf_missing *missing,
                                 int64_t count, double *value) {
    bool named = false;
    const bool number = hf_parse_number(f->begin, f->end, value, &named);
    bool lost = !number && is_missing(f);
    for (int64_t i = 0; i < count && !lost; i++)
        lost = missing[i].is_number ? number && !named && *value == missing[i].value
                                    : is_text(f, missing[i].text);
    if (lost)
        *value = (double)NAN;
    if (lost)
        return HF_FIELD_MISSING;
    return !number ? HF_FIELD_TEXT : named ? HF_FIELD_NAMED : HF_FIELD_NUMBER;
}

bool hf_field_is_whole(const struct hf_field *f) {
    const char *p = f->begin;
    while (p < f->end && *p >= '0' && *p <= '9')
        p++;
    return p == f->end && f->begin < f->end;
}

void hf_field_text(const struct hf_field *f, char text[48]) {
    const size_t bytes = (size_t)(f->end - f->begin);
    const size_t kept = bytes < 40 ? bytes : 40;
    for (size_t i = 0; i < kept; i++) {
        const unsigned char ch = (unsigned char)f->begin[i];
        text[i] = (char)(ch < 32 || ch == 127 ? '?' : ch);
    }
    memcpy(text + kept, bytes > kept ? "..." : "", bytes > kept ? 4 : 1);
}
