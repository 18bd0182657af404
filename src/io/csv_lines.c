/* SPDX-License-Identifier: Apache-2.0 */
#include "io/csv_lines.h"

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
            "this a text file? Save the data as .npy, or allow more memory",
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

hf_status hf_lines_next(struct hf_lines *l, char **line, char **end, hf_error *err) {
    *line = NULL;
    *end = NULL;
    size_t seen = 0;
    char *stop = NULL;
    for (;;) {
        const size_t waiting = l->end - l->begin;
        if (waiting > seen)
            stop = memchr(l->buffer + l->begin + seen, '\n', waiting - seen);
        if (stop != NULL || l->file_end)
            break;
        seen = waiting;
        HF_TRY(read_more(l, err));
    }
    if (stop == NULL && l->begin == l->end)
        return HF_OK;
    char *from = l->buffer + l->begin;
    char *to = stop != NULL ? stop : l->buffer + l->end;
    l->begin = (size_t)(to - l->buffer) + (stop != NULL ? 1 : 0);
    if (to > from && to[-1] == '\r')
        to--;
    if (l->number == 0 && has_mark(from, to))
        from += 3;
    l->number++;
    *line = from;
    *end = to;
    return HF_OK;
}
