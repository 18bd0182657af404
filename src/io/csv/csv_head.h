/* SPDX-License-Identifier: Apache-2.0
 * What the first line of a text file settles: delimiter, header or row, columns that are read. */
#ifndef HF_CSV_HEAD_H
#define HF_CSV_HEAD_H

#include "io/csv/csv_fields.h"

#include <holdfast/io.h>

/* What the caller asks for. */
struct hf_csv_wish {
    hf_header header;
    const char *columns, *skip_columns; /* NULL: all, none */
    const struct hf_missing *missing;
    int64_t missing_count;
};

struct hf_csv_head {
    char delimiter;
    bool is_header;   /* the line holds no row */
    bool maybe;       /* it was taken for a row by itself, but is a run of whole numbers */
    int64_t fields;   /* of every line */
    int64_t cols;     /* of them that are read */
    int64_t *columns; /* [cols] their numbers */
    int64_t *slot;    /* [fields] where a field goes, -1 nowhere */
    char **names;     /* [fields] of a header, else NULL */
};

/* line may be written to where it is a header. Clear head on failure too. */
hf_status hf_csv_head_take(struct hf_csv_head *head, const struct hf_csv_wish *wish,
                           const char *file, char *line, char *end, hf_error *err);
void hf_csv_head_clear(struct hf_csv_head *head);

/* Is a first row so unlike the others that the run in it looks like a header? */
bool hf_csv_head_odd(const struct hf_csv_head *head, const hf_array *rows);

#endif
