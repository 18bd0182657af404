/* SPDX-License-Identifier: Apache-2.0 */
#include "io/csv/csv_lines.h"

#include "base/mem.h"

#include <string.h>

#define FIRST_ROOM ((size_t)64 << 10)

void hf_lines_begin(struct hf_lines *l, struct hf_input *in, uint64_t limit) {
    *l = (struct hf_lines){.in = in, .limit = limit};
}

void hf_lines_end(struct hf_lines *l) {
    hf_free(l->buffer);
    l->buffer = NULL;
}

/* Room for more bytes after those that wait: move them to the front, or double the buffer. */
static hf_status make_room(struct hf_lines *l, hf_error *err) {
    const size_t waiting = l->end - l->begin;
    if (l->begin > 0) {
        memmove(l->buffer, l->buffer + l->begin, waiting);
        l->begin = 0;
        l->end = waiting;
    }
    if (l->end < l->room)
        return HF_OK;
    const size_t room = l->room == 0 ? FIRST_ROOM : l->room * 2;
    const bool allowed = l->room == 0 || room <= l->limit;
    char *buffer = allowed ? hf_alloc(room + 1) : NULL;
    if (buffer == NULL)
        return hf_fail(
            err, HF_E_NOMEM,
            "%s: line %lld is longer than %zu bytes and no more memory is allowed for it; is "
            "this a text file, and is no quote open before it? Save the data as .npy, or raise "
            "memory_bytes",
            l->in->name, (long long)l->number + 1, l->room);
    if (waiting > 0)
        memcpy(buffer, l->buffer, waiting);
    hf_free(l->buffer);
    l->buffer = buffer;
    l->room = room;
    return HF_OK;
}

static hf_status read_more(struct hf_lines *l, hf_error *err) {
    HF_TRY(make_room(l, err));
    size_t got = 0;
    HF_TRY(hf_input_read(l->in, l->offset, l->buffer + l->end, l->room - l->end, &got, err));
    l->file_end = got < l->room - l->end;
    l->end += got;
    l->offset += (int64_t)got;
    return HF_OK;
}

static bool has_mark(const char *p, const char *end) {
    return end - p >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0;
}

/* Where the first line end in [p, end) begins, or end. */
static char *find_end(char *p, const char *end) {
    while (p < end && *p != '\n' && *p != '\r')
        p++;
    return p;
}

/* Bytes of the line end at l->buffer + at; 0 when what is read so far does not tell, because a CR
 * comes last and LF may follow. */
static size_t end_bytes(const struct hf_lines *l, size_t at) {
    if (l->buffer[at] == '\n')
        return 1;
    if (at + 1 == l->end)
        return l->file_end ? 1 : 0;
    return l->buffer[at + 1] == '\n' ? 2 : 1;
}

/* The line at l->buffer + l->begin, of which `seen` bytes are known not to end it. */
static hf_status take_line(struct hf_lines *l, size_t seen, char **line, char **end,
                           hf_error *err) {
    const size_t known = seen;
    size_t ending = 0;
    *line = NULL;
    *end = NULL;
    for (;;) {
        if (l->end > l->begin)
            seen = (size_t)(find_end(l->buffer + l->begin + seen, l->buffer + l->end) -
                            (l->buffer + l->begin));
        if (l->begin + seen < l->end)
            ending = end_bytes(l, l->begin + seen);
        if (ending > 0 || l->file_end)
            break;
        HF_TRY(read_more(l, err));
    }
    if (l->begin + known == l->end)
        return HF_OK;
    char *from = l->buffer + l->begin;
    char *to = from + seen;
    l->begin += seen + ending;
    if (l->number == 0 && has_mark(from, to))
        from += 3;
    l->record = (size_t)(from - l->buffer);
    l->number++;
    *line = from;
    *end = to;
    return HF_OK;
}

hf_status hf_lines_next(struct hf_lines *l, char **line, char **end, hf_error *err) {
    return take_line(l, 0, line, end, err);
}

hf_status hf_lines_more(struct hf_lines *l, char **line, char **end, hf_error *err) {
    const size_t seen = l->begin - l->record;
    l->begin = l->record;
    return take_line(l, seen, line, end, err);
}
