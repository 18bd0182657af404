/* SPDX-License-Identifier: Apache-2.0
 * What scipy.sparse.save_npz() writes: an archive of the arrays format, shape, data and, for csr
 * and csc, indices and indptr, for coo, row and col. */
#include "base/dtype.h"
#include "base/mem.h"
#include "core/context.h"
#include "io/sparse/sparse.h"
#include <holdfast/io.h>

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CHUNK 65536 /* elements that are read at once */

struct archive {
    hf_context *ctx;
    const char *path;
    struct hf_sparse_job *job;
    struct hf_triplets t;
    double *chunk; /* [CHUNK] */
    void *raw;     /* [CHUNK] of any type */
};

/* Elements [first, first + count) of a member as numbers. */
typedef hf_status take_fn(struct archive *a, const double *v, int64_t first, int64_t count,
                          void *out);

static hf_status malformed(const struct archive *a, const char *what) {
    return hf_fail(
        a->job->err, HF_E_DATA,
        "%s: is no archive of scipy.sparse.save_npz, or a damaged one: %s; write it again",
        a->job->name, what);
}

/* Which layout? The member holds a text of three bytes behind its header. */
static hf_status read_layout(const struct archive *a, char layout[4]) {
    char member[PATH_MAX];
    struct hf_input in;
    if (snprintf(member, sizeof member, "%s:format", a->path) >= (int)sizeof member)
        return hf_fail(a->job->err, HF_E_IO, "%s: the name is too long", a->job->name);
    const hf_status status = hf_input_open(&in, member, a->job->limit, a->job->err);
    if (status == HF_E_DATA) {
        const hf_error why = *a->job->err;
        return hf_fail(a->job->err, HF_E_DATA, "%s; a sparse matrix is saved by save_npz",
                       why.text);
    }
    HF_TRY(status);
    const size_t header = in.head_bytes > 10 ? 10u + in.head[8] + 256u * in.head[9] : 0;
    bool fine = header > 10 && header + 3 <= in.head_bytes && header + 12 >= in.head_bytes &&
                memcmp(in.head, "\x93NUMPY", 6) == 0;
    for (int i = 0, step = (int)(in.head_bytes - header) / 3; fine && i < 3; i++)
        layout[i] = (char)in.head[header + (size_t)(i * step)]; /* text of 4 bytes a letter too */
    layout[3] = '\0';
    hf_input_close(&in);
    return fine ? HF_OK : malformed(a, "its 'format' is no text of three letters");
}

static hf_status take_chunks(struct archive *a, const hf_source *s, take_fn *take, void *out) {
    for (int64_t first = 0; first < s->rows; first += CHUNK) {
        const int64_t count = hf_min64(CHUNK, s->rows - first);
        HF_TRY(s->read(s->user, first, count, a->raw, a->job->err->text, sizeof a->job->err->text));
        hf_to_f64(a->chunk, a->raw, s->dtype, count);
        HF_TRY(take(a, a->chunk, first, count, out));
    }
    return HF_OK;
}

static hf_status take_array(struct archive *a, const hf_array *x, take_fn *take, void *out) {
    for (int64_t first = 0; first < x->rows; first += CHUNK) {
        const int64_t count = hf_min64(CHUNK, x->rows - first);
        const char *from = (const char *)x->data + (size_t)first * hf_dtype_bytes(x->dtype);
        hf_to_f64(a->chunk, from, x->dtype, count);
        HF_TRY(take(a, a->chunk, first, count, out));
    }
    return HF_OK;
}

/* Pass all elements of a member, `wanted` of them (-1: any number), to `take`. */
static hf_status read_member(struct archive *a, const char *name, int64_t wanted, take_fn *take,
                             void *out) {
    char member[PATH_MAX];
    hf_dataset *data = NULL;
    if (snprintf(member, sizeof member, "%s:%s", a->path, name) >= (int)sizeof member)
        return hf_fail(a->job->err, HF_E_IO, "%s: the name is too long", a->job->name);
    const hf_open_opts opts = {.stream = 1, .memory_bytes = a->job->limit};
    HF_TRY(hf_dataset_open(a->ctx, member, &opts, &data));
    const hf_array *x = hf_dataset_array(data);
    const hf_source *s = hf_dataset_source(data);
    const int64_t rows = x != NULL ? x->rows : s->rows;
    const int64_t cols = x != NULL ? x->cols : s->cols;
    char words[120];
    (void)snprintf(words, sizeof words, "'%s' is %lld x %lld where %lld elements are needed", name,
                   (long long)rows, (long long)cols, (long long)wanted);
    hf_status status = cols == 1 && (wanted < 0 || rows == wanted) ? HF_OK : malformed(a, words);
    if (status == HF_OK)
        status = x != NULL ? take_array(a, x, take, out) : take_chunks(a, s, take, out);
    hf_dataset_close(data);
    return status;
}

static hf_status take_shape(struct archive *a, const double *v, int64_t first, int64_t count,
                            void *out) {
    (void)out;
    (void)first;
    assert(v != NULL); /* there is a chunk */
    if (count != 2 || !(v[0] >= 1) || !(v[1] >= 1))
        return malformed(a, "its 'shape' is not that of a matrix");
    if (v[0] > HF_SPARSE_MAX_SIZE || v[1] > HF_SPARSE_MAX_SIZE)
        return hf_fail(a->job->err, HF_E_DATA,
                       "%s: the matrix is %.0f x %.0f; at most 2147483646 rows and columns can be "
                       "read",
                       a->job->name, v[0], v[1]);
    a->t.rows = (int64_t)v[0];
    a->t.cols = (int64_t)v[1];
    return HF_OK;
}

static hf_status bad_index(const struct archive *a, const char *what, int64_t at, double v,
                           int64_t size) {
    return hf_fail(a->job->err, HF_E_DATA,
                   "%s: the %s of element %lld (from 0) is %.17g, outside 0 .. %lld; the file is "
                   "damaged: write it again",
                   a->job->name, what, (long long)at, v, (long long)size - 1);
}

static hf_status take_rows(struct archive *a, const double *v, int64_t first, int64_t count,
                           void *out) {
    int32_t *to = out;
    for (int64_t i = 0; i < count; i++) {
        if (!(v[i] >= 0) || !(v[i] < (double)a->t.rows) || v[i] != floor(v[i]))
            return bad_index(a, "row", first + i, v[i], a->t.rows);
        to[first + i] = (int32_t)v[i];
    }
    return HF_OK;
}

static hf_status take_cols(struct archive *a, const double *v, int64_t first, int64_t count,
                           void *out) {
    int32_t *to = out;
    for (int64_t i = 0; i < count; i++) {
        if (!(v[i] >= 0) || !(v[i] < (double)a->t.cols) || v[i] != floor(v[i]))
            return bad_index(a, "column", first + i, v[i], a->t.cols);
        to[first + i] = (int32_t)v[i];
    }
    return HF_OK;
}

static hf_status take_values(struct archive *a, const double *v, int64_t first, int64_t count,
                             void *out) {
    double *to = out;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(v[i]))
            return hf_fail(a->job->err, HF_E_DATA,
                           "%s: the value of element %lld (from 0) is NaN or infinite, and no "
                           "system with it has a solution; correct it",
                           a->job->name, (long long)(first + i));
        to[first + i] = v[i];
    }
    return HF_OK;
}

/* The starts of csr's rows, or csc's columns, written out as an index of each element. */
struct starts {
    int32_t *index; /* NULL: only count */
    int64_t last;   /* the start before */
    int64_t total;
};

static hf_status take_starts(struct archive *a, const double *v, int64_t first, int64_t count,
                             void *out) {
    struct starts *s = out;
    for (int64_t i = 0; i < count; i++) {
        const bool begins = first + i == 0;
        if (v[i] != floor(v[i]) || !(v[i] < 0x1p53) || !(v[i] >= (double)s->last) ||
            (begins && v[i] != 0) || (s->index != NULL && v[i] > (double)s->total))
            return malformed(a, "its 'indptr' does not begin with 0 or does not ascend");
        const int64_t next = (int64_t)v[i];
        for (int64_t e = s->last; s->index != NULL && e < next; e++)
            s->index[e] = (int32_t)(first + i - 1);
        s->last = next;
    }
    return HF_OK;
}

static hf_status count_values(struct archive *a, const double *v, int64_t first, int64_t count,
                              void *out) {
    (void)a;
    (void)v;
    *(int64_t *)out = first + count;
    return HF_OK;
}

static hf_status read_compressed(struct archive *a, bool rows) {
    struct starts s = {NULL, 0, 0};
    const int64_t majors = rows ? a->t.rows : a->t.cols;
    HF_TRY(read_member(a, "indptr", majors + 1, take_starts, &s));
    HF_TRY(hf_triplets_alloc(&a->t, s.last, a->job));
    a->t.count = s.last;
    if (s.last == 0)
        return HF_OK; /* its arrays are empty, which is no data to a reader */
    s = (struct starts){rows ? a->t.row : a->t.col, 0, s.last};
    HF_TRY(read_member(a, "indptr", majors + 1, take_starts, &s));
    HF_TRY(read_member(a, "indices", a->t.count, rows ? take_cols : take_rows,
                       rows ? a->t.col : a->t.row));
    return read_member(a, "data", a->t.count, take_values, a->t.value);
}

static hf_status read_coordinates(struct archive *a) {
    int64_t count = 0;
    HF_TRY(read_member(a, "data", -1, count_values, &count));
    HF_TRY(hf_triplets_alloc(&a->t, count, a->job));
    a->t.count = count;
    HF_TRY(read_member(a, "row", count, take_rows, a->t.row));
    HF_TRY(read_member(a, "col", count, take_cols, a->t.col));
    return read_member(a, "data", count, take_values, a->t.value);
}

static hf_status read_arrays(struct archive *a, struct hf_sparse *out) {
    char layout[4];
    HF_TRY(read_layout(a, layout));
    HF_TRY(read_member(a, "shape", 2, take_shape, NULL));
    if (strcmp(layout, "csr") == 0) {
        HF_TRY(read_compressed(a, true));
        out->info.layout = "csr";
    } else if (strcmp(layout, "csc") == 0) {
        HF_TRY(read_compressed(a, false));
        out->info.layout = "csc";
    } else if (strcmp(layout, "coo") == 0) {
        HF_TRY(read_coordinates(a));
        out->info.layout = "coo";
    } else {
        return hf_fail(a->job->err, HF_E_DATA,
                       "%s: the layout of the matrix is '%.3s'; csr, csc and coo are read: save "
                       "matrix.tocsr()",
                       a->job->name, layout);
    }
    return hf_triplets_to_csr(&a->t, a->job, out);
}

hf_status hf_npz_sparse_read(hf_context *ctx, const char *path, struct hf_sparse_job *job,
                             struct hf_sparse *out) {
    struct archive a = {.ctx = ctx, .path = path, .job = job};
    a.chunk = hf_alloc(CHUNK * sizeof *a.chunk);
    a.raw = hf_alloc(CHUNK * sizeof(double));
    job->held = (uint64_t)CHUNK * (sizeof *a.chunk + sizeof(double));
    hf_status status = a.chunk != NULL && a.raw != NULL
                           ? HF_OK
                           : hf_fail(job->err, HF_E_NOMEM, "%s: no memory to read it", job->name);
    if (status == HF_OK)
        status = read_arrays(&a, out);
    hf_free(a.chunk);
    hf_free(a.raw);
    hf_triplets_free(&a.t);
    if (status != HF_OK)
        return status;
    out->info.format = "npz";
    out->info.field = "real";
    out->info.symmetry = "general";
    return HF_OK;
}
