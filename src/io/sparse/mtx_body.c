/* SPDX-License-Identifier: Apache-2.0
 * The elements of a Matrix Market file: a block of text is read, cut at line ends into pieces that
 * threads parse, and taken over in the order of the file. */
#include "base/mem.h"
#include "io/csv/csv_lines.h"
#include "io/csv/number.h"
#include "io/gunzip.h"
#include "io/sparse/mtx_piece.h"
#include "io/sparse/sparse.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_MOST ((uint64_t)4 << 20)
#define BLOCK_LEAST ((uint64_t)64 << 10)
#define PIECES_MOST 16
#define LINE_LEAST 2 /* bytes of the shortest line with an element, and its end */

struct body {
    const struct hf_mtx_head *head;
    struct hf_input *in;
    struct hf_sparse_job *job;
    struct hf_triplets t;
    struct hf_mtx_piece piece[PIECES_MOST];
    int pieces;
    locale_t plain;
    char *block; /* [room + 1] */
    size_t room, filled;
    int64_t offset;             /* of the next byte to read */
    int64_t lines;              /* before the block */
    int64_t next_row, next_col; /* of an array */
    int64_t lower;              /* elements below the diagonal so far */
    int64_t first_upper;        /* line of the first above it; 0: none */
    bool file_end;
};

/* The block takes `least` bytes. */
static hf_status make_pieces(struct body *b, size_t least) {
    const uint64_t share = b->job->limit / 16;
    const int64_t threads = b->job->pool != NULL ? hf_pool_workers(b->job->pool) : 1;
    b->room = share > BLOCK_MOST ? BLOCK_MOST : share < BLOCK_LEAST ? BLOCK_LEAST : (size_t)share;
    b->room = b->room < least ? least : b->room;
    b->pieces = (int)hf_min64(threads > 1 ? 2 * threads : 1, PIECES_MOST);
    /* A cut adds the rest of a line, so one element; the last piece has a few bytes more. */
    const size_t most = b->room / (size_t)b->pieces / LINE_LEAST + PIECES_MOST;
    const size_t each = most * (2 * sizeof(int32_t) + sizeof(double));
    b->job->held = b->room + each * (size_t)b->pieces;
    b->block = hf_alloc(b->room + 1);
    bool there = b->block != NULL;
    for (int i = 0; i < b->pieces; i++) {
        struct hf_mtx_piece *p = &b->piece[i];
        p->head = b->head;
        p->most = (int64_t)most;
        p->row = hf_alloc(most * sizeof *p->row);
        p->col = hf_alloc(most * sizeof *p->col);
        p->value = hf_alloc(most * sizeof *p->value);
        there = there && p->row != NULL && p->col != NULL && p->value != NULL;
    }
    return there ? HF_OK
                 : hf_fail(b->job->err, HF_E_NOMEM, "%s: no memory to read it", b->in->name);
}

static void free_pieces(struct body *b) {
    hf_free(b->block);
    for (int i = 0; i < b->pieces; i++) {
        hf_free(b->piece[i].row);
        hf_free(b->piece[i].col);
        hf_free(b->piece[i].value);
    }
}

/* More than any file of this size can hold is not worth asking for memory. */
static hf_status check_promise(const struct body *b) {
    const int64_t ratio = b->in->gz != NULL ? HF_GUNZIP_MAX_RATIO : 1;
    if (b->head->elements / LINE_LEAST / ratio <= b->in->size)
        return HF_OK;
    return hf_fail(b->job->err, HF_E_DATA,
                   "%s: the line of sizes promises %lld elements, more than %lld bytes can hold; "
                   "the file is cut off or damaged: write or copy it again",
                   b->in->name, (long long)b->head->elements, (long long)b->in->size);
}

/* Fill the block up. */
static hf_status fill(struct body *b) {
    while (b->filled < b->room && !b->file_end) {
        size_t got = 0;
        const size_t ask = b->room - b->filled;
        HF_TRY(hf_input_read(b->in, b->offset, b->block + b->filled, ask, &got, b->job->err));
        b->file_end = got < ask;
        b->filled += got;
        b->offset += (int64_t)got;
    }
    return HF_OK;
}

/* How much of the block ends with a line end; all of it at the end of the file. */
static hf_status whole_lines(const struct body *b, size_t *bytes) {
    *bytes = b->filled;
    if (b->file_end)
        return HF_OK;
    while (*bytes > 0 && b->block[*bytes - 1] != '\n')
        (*bytes)--;
    if (*bytes > 0)
        return HF_OK;
    return hf_fail(b->job->err, HF_E_DATA,
                   "%s: line %lld is longer than %zu bytes; is this a text file?", b->in->name,
                   (long long)b->lines + 1, b->room);
}

/* Cut [0, bytes) of the block into pieces; behind a cut the line goes to the piece before. */
static void cut(struct body *b, size_t bytes) {
    size_t begin = 0;
    for (int i = 0; i < b->pieces; i++) {
        size_t end = bytes / (size_t)b->pieces * (size_t)(i + 1);
        end = i == b->pieces - 1 || end < begin ? (i == b->pieces - 1 ? bytes : begin) : end;
        while (end > begin && end < bytes && b->block[end - 1] != '\n')
            end++;
        b->piece[i].begin = b->block + begin;
        b->piece[i].end = b->block + end;
        begin = end;
    }
}

static void parse_pieces(void *user, int worker, int64_t begin, int64_t end) {
    (void)worker;
    struct body *b = user;
    const locale_t before = uselocale(b->plain);
    for (int64_t i = begin; i < end; i++)
        hf_mtx_parse(&b->piece[i]);
    (void)uselocale(before);
}

static hf_status too_many(const struct body *b, int64_t line) {
    return hf_fail(b->job->err, HF_E_DATA,
                   "%s: line %lld: this element is one more than the %lld that the line of sizes "
                   "promises; correct that number, or write the file again",
                   b->in->name, (long long)line, (long long)b->head->elements);
}

/* Both triangles in a file that says that one stands for both? */
static hf_status check_triangle(struct body *b, const struct hf_mtx_piece *p) {
    b->lower += p->lower;
    if (b->first_upper == 0 && p->first_upper >= 0)
        b->first_upper = b->lines + hf_mtx_line_of(p, p->first_upper);
    if (b->head->mirror == HF_MIRROR_NONE || b->lower == 0 || b->first_upper == 0)
        return HF_OK;
    return hf_fail(b->job->err, HF_E_DATA,
                   "%s: line %lld: an element above the diagonal, while others are below it: a %s "
                   "file stores one triangle. If it stores all elements, its banner must say "
                   "general",
                   b->in->name, (long long)b->first_upper, b->head->symmetry);
}

/* Values of an array are those of the columns, from the top, of a triangle from the diagonal, or
 * below it. */
static void step(struct body *b) {
    b->next_row++;
    if (b->next_row < b->head->rows)
        return;
    b->next_col++;
    b->next_row = b->head->mirror == HF_MIRROR_NONE   ? 0
                  : b->head->mirror == HF_MIRROR_SAME ? b->next_col
                                                      : b->next_col + 1;
}

static void take_array(struct body *b, const struct hf_mtx_piece *p) {
    for (int64_t i = 0; i < p->count; i++, step(b)) {
        if (p->value[i] == 0)
            continue;
        b->t.row[b->t.count] = (int32_t)b->next_row;
        b->t.col[b->t.count] = (int32_t)b->next_col;
        b->t.value[b->t.count++] = p->value[i];
    }
}

static void take_coordinates(struct body *b, const struct hf_mtx_piece *p) {
    const size_t n = (size_t)p->count;
    memcpy(b->t.row + b->t.count, p->row, n * sizeof *p->row);
    memcpy(b->t.col + b->t.count, p->col, n * sizeof *p->col);
    memcpy(b->t.value + b->t.count, p->value, n * sizeof *p->value);
    b->t.count += p->count;
}

/* `seen` elements were taken before this piece. */
static hf_status take(struct body *b, const struct hf_mtx_piece *p, int64_t *seen) {
    const int64_t left = b->head->elements - *seen;
    if (p->count > left)
        return too_many(b, b->lines + hf_mtx_line_of(p, left));
    if (p->error != HF_MTX_FINE)
        return hf_mtx_explain(p, b->lines, b->in->name, b->job->err);
    HF_TRY(check_triangle(b, p));
    if (b->head->coordinate)
        take_coordinates(b, p);
    else
        take_array(b, p);
    *seen += p->count;
    b->lines += p->lines;
    return HF_OK;
}

static hf_status read_blocks(struct body *b, int64_t *seen) {
    while (b->filled > 0 || !b->file_end) {
        size_t bytes = 0;
        HF_TRY(fill(b));
        HF_TRY(whole_lines(b, &bytes));
        cut(b, bytes);
        hf_parallel_for(b->job->pool, b->pieces, 1, parse_pieces, b);
        for (int i = 0; i < b->pieces; i++)
            HF_TRY(take(b, &b->piece[i], seen));
        b->filled -= bytes;
        memmove(b->block, b->block + bytes, b->filled);
    }
    if (*seen == b->head->elements)
        return HF_OK;
    return hf_fail(
        b->job->err, HF_E_DATA,
        "%s: ends at line %lld after %lld elements, but its line of sizes promises %lld; "
        "the file is cut off: write or copy it again",
        b->in->name, (long long)b->lines, (long long)*seen, (long long)b->head->elements);
}

/* What was read beyond the head belongs to the body. */
static hf_status begin_body(struct body *b, const struct hf_lines *lines) {
    const size_t rest = lines->end - lines->begin;
    HF_TRY(make_pieces(b, rest));
    if (rest > 0)
        memcpy(b->block, lines->buffer + lines->begin, rest);
    b->filled = rest;
    b->offset = lines->offset;
    b->lines = lines->number;
    b->file_end = lines->file_end;
    return HF_OK;
}

static hf_status read_body(struct body *b, const struct hf_lines *lines, struct hf_sparse *out) {
    int64_t seen = 0;
    HF_TRY(check_promise(b));
    HF_TRY(begin_body(b, lines));
    b->t.rows = b->head->rows;
    b->t.cols = b->head->cols;
    b->t.mirror = b->head->mirror;
    b->next_row = !b->head->coordinate && b->head->mirror == HF_MIRROR_NEGATED ? 1 : 0;
    HF_TRY(hf_triplets_alloc(&b->t, b->head->elements, b->job));
    HF_TRY(read_blocks(b, &seen));
    HF_TRY(hf_input_unchanged(b->in, b->job->err));
    free_pieces(b);
    b->pieces = 0;
    b->block = NULL;
    HF_TRY(hf_triplets_to_csr(&b->t, b->job, out));
    out->info.file_elements = seen;
    return HF_OK;
}

static hf_status read_plainly(struct body *b, struct hf_mtx_head *head, struct hf_sparse *out) {
    struct hf_lines lines;
    hf_lines_begin(&lines, b->in, b->job->limit);
    hf_status status = hf_mtx_read_head(&lines, head, b->job->err);
    if (status == HF_OK)
        status = read_body(b, &lines, out);
    hf_lines_end(&lines);
    free_pieces(b);
    hf_triplets_free(&b->t);
    return status;
}

hf_status hf_mtx_read(struct hf_input *in, struct hf_sparse_job *job, struct hf_sparse *out) {
    struct hf_mtx_head head;
    struct body b = {.head = &head, .in = in, .job = job};
    b.plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (b.plain == (locale_t)0)
        return hf_fail(job->err, HF_E_NOMEM, "%s: no memory to read it", in->name);
    const locale_t before = uselocale(b.plain);
    const hf_status status = read_plainly(&b, &head, out);
    (void)uselocale(before);
    freelocale(b.plain);
    if (status != HF_OK)
        return status;
    out->info.format = "mtx";
    out->info.layout = head.coordinate ? "coordinate" : "array";
    out->info.field = head.pattern ? "pattern" : head.integer ? "integer" : "real";
    out->info.symmetry = head.symmetry;
    return HF_OK;
}
