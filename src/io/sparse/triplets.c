/* SPDX-License-Identifier: Apache-2.0
 * Elements in any order to compressed rows: counted per row, put into place, then each row is
 * sorted where it is not. Files are usually sorted by columns, and then no row needs it. */
#include "io/sparse/sparse.h"

#include "base/mem.h"

#include <stdatomic.h>
#include <string.h>

#define SHORT_ROW 32   /* elements: insertion beats a heap below */
#define SORT_GRAIN 256 /* rows that a thread takes at once */

enum { TRIPLET_BYTES = 2 * sizeof(int32_t) + sizeof(double) };
enum { ELEMENT_BYTES = sizeof(int32_t) + sizeof(double) };

/* Of the triplets and of the rows made of them; they exist side by side for a while. */
static bool total_bytes(const struct hf_triplets *t, int64_t elements, uint64_t *bytes) {
    const uint64_t sides = t->mirror == HF_MIRROR_NONE ? 1 : 2;
    const uint64_t each = TRIPLET_BYTES + sides * ELEMENT_BYTES;
    const uint64_t starts = ((uint64_t)t->rows + 2) * sizeof(int64_t);
    return !__builtin_mul_overflow((uint64_t)elements, each, bytes) &&
           !__builtin_add_overflow(*bytes, starts, bytes) && *bytes < (uint64_t)INT64_MAX / 2;
}

hf_status hf_triplets_alloc(struct hf_triplets *t, int64_t room, const struct hf_sparse_job *job) {
    uint64_t bytes = UINT64_MAX;
    if (!total_bytes(t, room, &bytes) || job->limit < job->held || bytes > job->limit - job->held)
        return hf_fail(job->err, HF_E_NOMEM,
                       "%s: reading %lld elements takes %llu MiB, and %llu are allowed; raise "
                       "memory_bytes",
                       job->name, (long long)room, (unsigned long long)((bytes >> 20) + 1),
                       (unsigned long long)(job->limit >> 20));
    t->room = room;
    t->row = hf_alloc((size_t)room * sizeof *t->row);
    t->col = hf_alloc((size_t)room * sizeof *t->col);
    t->value = hf_alloc((size_t)room * sizeof *t->value);
    if (t->row != NULL && t->col != NULL && t->value != NULL)
        return HF_OK;
    return hf_fail(job->err, HF_E_NOMEM,
                   "%s: the system has no memory for %lld elements; close other programs",
                   job->name, (long long)room);
}

void hf_triplets_free(struct hf_triplets *t) {
    hf_free(t->row);
    hf_free(t->col);
    hf_free(t->value);
    t->row = NULL;
    t->col = NULL;
    t->value = NULL;
}

/* Compressed rows that may be written. */
struct rows {
    int64_t count;  /* of rows */
    int64_t *start; /* [count + 1] */
    int32_t *column;
    double *value;
    _Atomic int64_t duplicates;
};

static bool mirrored(const struct hf_triplets *t, int64_t i) {
    return t->mirror != HF_MIRROR_NONE && t->row[i] != t->col[i];
}

/* start[r] = where row r begins; start has two places more than there are rows. */
static void count_rows(const struct hf_triplets *t, int64_t *start) {
    for (int64_t i = 0; i < t->count; i++) {
        start[t->row[i] + 2]++;
        if (mirrored(t, i))
            start[t->col[i] + 2]++;
    }
    for (int64_t r = 2; r <= t->rows + 1; r++)
        start[r] += start[r - 1];
}

/* Uses start[r + 1] as the place of the next element of row r, so that it is the end of the row
 * afterwards, which is the start of the next one. */
static void put_elements(const struct hf_triplets *t, struct rows *out) {
    const double sign = t->mirror == HF_MIRROR_NEGATED ? -1 : 1;
    for (int64_t i = 0; i < t->count; i++) {
        int64_t at = out->start[t->row[i] + 1]++;
        out->column[at] = t->col[i];
        out->value[at] = t->value[i];
        if (!mirrored(t, i))
            continue;
        at = out->start[t->col[i] + 1]++;
        out->column[at] = t->row[i];
        out->value[at] = sign * t->value[i];
    }
}

static void insertion_sort(int32_t *column, double *value, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        const int32_t c = column[i];
        const double v = value[i];
        int64_t j = i;
        for (; j > 0 && column[j - 1] > c; j--) {
            column[j] = column[j - 1];
            value[j] = value[j - 1];
        }
        column[j] = c;
        value[j] = v;
    }
}

static void swap(int32_t *column, double *value, int64_t a, int64_t b) {
    const int32_t c = column[a];
    const double v = value[a];
    column[a] = column[b];
    value[a] = value[b];
    column[b] = c;
    value[b] = v;
}

static void sift(int32_t *column, double *value, int64_t root, int64_t n) {
    for (int64_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
        if (child + 1 < n && column[child + 1] > column[child])
            child++;
        if (column[root] >= column[child])
            return;
        swap(column, value, root, child);
        root = child;
    }
}

static void heap_sort(int32_t *column, double *value, int64_t n) {
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sift(column, value, i, n);
    for (int64_t i = n - 1; i > 0; i--) {
        swap(column, value, 0, i);
        sift(column, value, 0, i);
    }
}

static bool ascending(const int32_t *column, int64_t n) {
    for (int64_t i = 1; i < n; i++)
        if (column[i] < column[i - 1])
            return false;
    return true;
}

static void sort_rows(void *user, int worker, int64_t begin, int64_t end) {
    (void)worker;
    struct rows *rows = user;
    int64_t duplicates = 0;
    for (int64_t r = begin; r < end; r++) {
        int32_t *column = rows->column + rows->start[r];
        double *value = rows->value + rows->start[r];
        const int64_t n = rows->start[r + 1] - rows->start[r];
        if (!ascending(column, n)) {
            if (n <= SHORT_ROW)
                insertion_sort(column, value, n);
            else
                heap_sort(column, value, n);
        }
        for (int64_t i = 1; i < n; i++)
            duplicates += column[i] == column[i - 1];
    }
    (void)atomic_fetch_add_explicit(&rows->duplicates, duplicates, memory_order_relaxed);
}

/* Rows are sorted: add neighbours of one column, and close the gaps. */
static void add_duplicates(struct rows *rows) {
    int64_t to = 0;
    int64_t from = 0;
    for (int64_t r = 0; r < rows->count; r++) {
        const int64_t first = to;
        const int64_t end = rows->start[r + 1];
        for (; from < end; from++) {
            if (to > first && rows->column[to - 1] == rows->column[from]) {
                rows->value[to - 1] += rows->value[from];
                continue;
            }
            rows->column[to] = rows->column[from];
            rows->value[to] = rows->value[from];
            to++;
        }
        rows->start[r + 1] = to;
    }
}

static void keep(struct hf_sparse *out, const struct hf_triplets *t, const struct rows *rows) {
    const int64_t elements = rows->start[t->rows];
    out->csr = (hf_csr){.rows = t->rows,
                        .cols = t->cols,
                        .dtype = HF_F64,
                        .row_start = rows->start,
                        .column = rows->column,
                        .value = rows->value};
    out->info.file_elements = t->count;
    out->info.elements = elements;
    out->info.duplicates = rows->duplicates;
}

hf_status hf_triplets_to_csr(struct hf_triplets *t, const struct hf_sparse_job *job,
                             struct hf_sparse *out) {
    struct rows rows = {.count = t->rows};
    rows.start = hf_alloc_zero(((size_t)t->rows + 2) * sizeof *rows.start);
    if (rows.start != NULL) {
        count_rows(t, rows.start);
        const size_t elements = (size_t)rows.start[t->rows + 1];
        rows.column = hf_alloc(elements * sizeof *rows.column);
        rows.value = hf_alloc(elements * sizeof *rows.value);
    }
    if (rows.start == NULL || rows.column == NULL || rows.value == NULL) {
        hf_free(rows.start);
        hf_free(rows.column);
        hf_free(rows.value);
        return hf_fail(job->err, HF_E_NOMEM,
                       "%s: the system has no memory for its rows; close other programs",
                       job->name);
    }
    put_elements(t, &rows);
    hf_triplets_free(t);
    hf_parallel_for(job->pool, t->rows, SORT_GRAIN, sort_rows, &rows);
    if (rows.duplicates > 0)
        add_duplicates(&rows);
    keep(out, t, &rows);
    return HF_OK;
}
