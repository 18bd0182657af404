/* SPDX-License-Identifier: Apache-2.0
 * The fields of a line of text, and what they hold. */
#ifndef HF_CSV_FIELDS_H
#define HF_CSV_FIELDS_H

#include "io/csv/columns.h"

#include <stdint.h>

/* A field of a line, without the blanks and quotes around it. */
struct hf_field {
    char *begin, *end;
};

/* The delimiter of a first line; ' ' stands for runs of spaces and tabs. */
char hf_delimiter_find(const char *p, const char *end);

/* The next field from *p on; *p moves past its delimiter. Returns whether another field follows. */
bool hf_field_next(char delimiter, char **p, const char *end, struct hf_field *f);

/* Whether a line ends inside quotes, so that the next one belongs to it. Zero before the first
 * line; delimiter 0: not known yet. */
struct hf_quotes {
    char delimiter;
    enum { HF_FIELD_BEGIN, HF_FIELD_PLAIN, HF_FIELD_QUOTED, HF_FIELD_QUOTE } state;
};

/* Go on with [p, end). */
bool hf_quotes_open(struct hf_quotes *q, const char *p, const char *end);

enum hf_field_kind {
    HF_FIELD_NUMBER,
    HF_FIELD_NAMED,   /* nan or inf, written out */
    HF_FIELD_MISSING, /* empty, NA and the like, or one of the values given; *value is NaN */
    HF_FIELD_TEXT
};
enum hf_field_kind hf_field_read(const struct hf_field *f, const struct hf_missing *missing,
                                 int64_t count, double *value);

/* Digits alone. */
bool hf_field_is_whole(const struct hf_field *f);

/* For a message: printable, not too long. */
void hf_field_text(const struct hf_field *f, char text[48]);

#endif
