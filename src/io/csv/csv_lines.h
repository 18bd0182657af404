/* SPDX-License-Identifier: Apache-2.0
 * The lines of a text file, one at a time. */
#ifndef HF_CSV_LINES_H
#define HF_CSV_LINES_H

#include "io/input.h"

struct hf_lines {
    struct hf_input *in;
    uint64_t limit;          /* bytes that a line may take */
    int64_t offset;          /* of the next byte to read */
    int64_t number;          /* of the last line handed out, from 1 */
    char *buffer;            /* [room + 1] */
    size_t room, begin, end; /* bytes [begin, end) have been read and not handed out */
    size_t record;           /* where what was handed out last begins */
    bool file_end;
};

void hf_lines_begin(struct hf_lines *l, struct hf_input *in, uint64_t limit);
void hf_lines_end(struct hf_lines *l);

/* The next line without its end (LF, CR LF or CR) as [*line, *end), valid until the next call;
 * *end may be written to. *line is NULL past the last. A byte order mark before the first line is
 * dropped. */
hf_status hf_lines_next(struct hf_lines *l, char **line, char **end, hf_error *err);

/* The last line again with its end and the next line behind it, which may move it. *line is NULL
 * where no line follows. */
hf_status hf_lines_more(struct hf_lines *l, char **line, char **end, hf_error *err);

#endif
