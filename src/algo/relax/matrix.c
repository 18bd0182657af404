/* SPDX-License-Identifier: Apache-2.0
 * The copy of the matrix that methods work on: rows in the order of the blocks, columns ascending,
 * repeated ones added up. */
#include "algo/relax/setup.h"

#include "base/mem.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* A row while it is sorted. */
struct row {
    int32_t *column;
    double *value;
    int64_t count;
};

struct copy {
    const hf_csr *a;
    const int32_t *perm;  /* NULL: rows keep their places */
    const int32_t *place; /* [n] of each row, NULL likewise */
    struct row row;       /* room for the longest */
};

void hf_relax_matrix_clear(struct hf_relax_matrix *m) {
    if (!m->borrowed) {
        hf_free(m->row_start);
        hf_free(m->column);
        hf_free(m->value);
    }
    hf_free(m->inverse);
    hf_free(m->inner);
    hf_free(m->before);
    *m = (struct hf_relax_matrix){0};
}

struct hf_sparse hf_relax_sparse(const struct hf_relax_matrix *m) {
    return (struct hf_sparse){.rows = m->n,
                              .cols = m->n,
                              .elements = m->row_start[m->n],
                              .row_start = m->row_start,
                              .column = m->column,
                              .dtype = m->dtype,
                              .value = m->value};
}

struct hf_sparse hf_relax_csr(const hf_csr *a) {
    return (struct hf_sparse){.rows = a->rows,
                              .cols = a->cols,
                              .elements = a->row_start[a->rows],
                              .row_start = a->row_start,
                              .column = a->column,
                              .dtype = a->dtype,
                              .value = a->value};
}

/* Shell sort: in place, and fast where little is out of order. Equal columns come next to each
 * other in an order that depends on the row alone. */
static void sort_row(struct row *row) {
    static const int64_t gaps[] = {29524, 9841, 3280, 1093, 364, 121, 40, 13, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (int64_t i = gaps[g]; i < row->count; i++) {
            const int32_t column = row->column[i];
            const double value = row->value[i];
            int64_t at = i;
            for (; at >= gaps[g] && row->column[at - gaps[g]] > column; at -= gaps[g]) {
                row->column[at] = row->column[at - gaps[g]];
                row->value[at] = row->value[at - gaps[g]];
            }
            row->column[at] = column;
            row->value[at] = value;
        }
}

/* Row of the copy: in c->row, ascending, without repetitions. */
static void gather_row(struct copy *c, int64_t place) {
    const hf_csr *a = c->a;
    const int64_t i = c->perm != NULL ? c->perm[place] : place;
    struct row *row = &c->row;
    bool ascending = true;
    row->count = 0;
    for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++) {
        const int32_t column = c->place != NULL ? c->place[a->column[e]] : a->column[e];
        ascending = ascending && (row->count == 0 || row->column[row->count - 1] < column);
        row->column[row->count] = column;
        row->value[row->count++] = sparse_value(a->value, a->dtype, e);
    }
    if (ascending)
        return;
    sort_row(row);
    int64_t kept = 0;
    for (int64_t e = 0; e < row->count; e++) {
        if (kept > 0 && row->column[kept - 1] == row->column[e]) {
            row->value[kept - 1] += row->value[e];
            continue;
        }
        row->column[kept] = row->column[e];
        row->value[kept++] = row->value[e];
    }
    row->count = kept;
}

/* Can the matrix have what is in c->row? A diagonal that float32 rounds to 0 or to few bits cannot
 * be divided by; other values so small change nothing. */
static bool row_fits(const struct copy *c, hf_dtype dtype, int64_t place) {
    for (int64_t t = 0; dtype == HF_F32 && t < c->row.count; t++) {
        const double size = fabs(c->row.value[t]);
        if (size > (double)FLT_MAX || (c->row.column[t] == place && size < (double)FLT_MIN))
            return false;
    }
    return true;
}

static void store_row(const struct copy *c, struct hf_relax_matrix *m, int64_t place) {
    const int64_t first = m->row_start[place];
    for (int64_t t = 0; t < c->row.count; t++) {
        m->column[first + t] = c->row.column[t];
        if (m->dtype == HF_F32)
            ((float *)m->value)[first + t] = (float)c->row.value[t];
        else
            ((double *)m->value)[first + t] = c->row.value[t];
        if (c->row.column[t] == place)
            m->inverse[place] = 1 / c->row.value[t];
    }
}

/* The largest row of |I - D^-1 A|, and the sign of the diagonal. */
static void note_row(hf_relax *relax, const struct copy *c, int64_t place, double inverse) {
    double sum = 0;
    for (int64_t t = 0; t < c->row.count; t++)
        sum += c->row.column[t] == place ? 0 : fabs(c->row.value[t]);
    relax->dominance = fmax(relax->dominance, sum * fabs(inverse));
    relax->positive = relax->positive && inverse > 0;
}

static bool open_copy(struct copy *c, const hf_csr *a, const int32_t *perm) {
    int64_t longest = 0;
    *c = (struct copy){.a = a, .perm = perm};
    for (int64_t i = 0; i < a->rows; i++)
        longest = a->row_start[i + 1] - a->row_start[i] > longest
                      ? a->row_start[i + 1] - a->row_start[i]
                      : longest;
    c->row.column = hf_alloc((size_t)longest * sizeof *c->row.column);
    c->row.value = hf_alloc((size_t)longest * sizeof *c->row.value);
    int32_t *place = perm != NULL ? hf_alloc((size_t)a->rows * sizeof *place) : NULL;
    for (int64_t p = 0; place != NULL && p < a->rows; p++)
        place[perm[p]] = (int32_t)p;
    c->place = place;
    return c->row.column != NULL && c->row.value != NULL && (perm == NULL || place != NULL);
}

static void close_copy(struct copy *c) {
    hf_free(c->row.column);
    hf_free(c->row.value);
    hf_free((void *)c->place);
}

bool hf_relax_take_arrays(hf_relax *relax, hf_dtype dtype, struct hf_relax_matrix *m) {
    const int64_t n = relax->a.rows, elements = relax->a.row_start[n];
    if (m->row_start != NULL)
        return true;
    m->n = n;
    m->dtype = dtype;
    m->row_start = hf_relax_take(relax, n + 1, sizeof *m->row_start);
    m->column = hf_relax_take(relax, elements, sizeof *m->column);
    m->value = hf_relax_take(relax, elements, hf_dtype_bytes(dtype));
    m->inverse = hf_relax_take(relax, n, sizeof *m->inverse);
    return m->row_start != NULL && m->column != NULL && m->value != NULL && m->inverse != NULL;
}

hf_status hf_relax_copy_matrix(hf_relax *relax, const int32_t *perm, hf_dtype dtype,
                               struct hf_relax_matrix *into) {
    struct copy c;
    const bool there = open_copy(&c, &relax->a, perm) && hf_relax_take_arrays(relax, dtype, into);
    relax->dominance = 0;
    relax->positive = true;
    if (there)
        into->row_start[0] = 0;
    int64_t odd = -1; /* a row that does not fit */
    for (int64_t p = 0; there && odd < 0 && p < into->n; p++) {
        gather_row(&c, p);
        if (!row_fits(&c, dtype, p))
            odd = perm != NULL ? perm[p] : p;
        store_row(&c, into, p);
        into->row_start[p + 1] = into->row_start[p] + c.row.count;
        note_row(relax, &c, p, into->inverse[p]);
    }
    close_copy(&c);
    if (odd >= 0)
        return hf_ctx_fail(relax->ctx, HF_E_DATA,
                           "row %lld has a value beyond float32, as which the matrix is wanted "
                           "inside: scale A, or take inside f64",
                           (long long)odd);
    return there ? HF_OK : hf_relax_no_memory(relax, "a copy of the matrix");
}

hf_status hf_relax_own_matrix(hf_relax *relax) {
    relax->bytes -= hf_relax_matrix_bytes(&relax->m);
    hf_relax_matrix_clear(&relax->m);
    return hf_relax_copy_matrix(relax, relax->perm, relax->opts.inside, &relax->m);
}

hf_status hf_relax_take_matrix(hf_relax *relax, struct hf_relax_scan *scan) {
    const hf_csr *a = &relax->a;
    struct hf_relax_matrix *m = &relax->m;
    double *const inverse = scan->inverse;
    const bool fits = scan->ascending && a->dtype == relax->opts.inside && relax->perm == NULL &&
                      !hf_relax_on_device(relax) && !relax->shared;
    scan->inverse = NULL;
    if (!fits || (m->row_start != NULL && !m->borrowed)) {
        hf_free(inverse);
        return m->borrowed ? hf_relax_own_matrix(relax)
                           : hf_relax_copy_matrix(relax, relax->perm, relax->opts.inside, m);
    }
    if (m->borrowed)
        relax->bytes -= hf_relax_matrix_bytes(m);
    hf_relax_matrix_clear(m);
    *m = (struct hf_relax_matrix){.n = a->rows,
                                  .borrowed = true,
                                  .row_start = (int64_t *)(uintptr_t)a->row_start,
                                  .column = (int32_t *)(uintptr_t)a->column,
                                  .value = (void *)(uintptr_t)a->value,
                                  .dtype = a->dtype,
                                  .inverse = inverse};
    relax->bytes += hf_relax_matrix_bytes(m);
    relax->dominance = scan->dominance;
    relax->positive = scan->positive;
    return HF_OK;
}

/* Elements left of the block's columns, and inside, of each of its rows. */
static void count_inner(struct hf_relax_matrix *m, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        int32_t left = 0, inside = 0;
        for (int64_t e = m->row_start[i]; e < m->row_start[i + 1]; e++) {
            left += m->column[e] < begin;
            inside += m->column[e] >= begin && m->column[e] < end;
        }
        m->inner[2 * i] = left;
        m->inner[2 * i + 1] = inside;
    }
}

hf_status hf_relax_make_inner(hf_relax *relax) {
    struct hf_relax_matrix *m = &relax->m;
    if (m->inner == NULL)
        m->inner = hf_relax_take(relax, 2 * m->n, sizeof *m->inner);
    if (m->inner == NULL)
        return hf_relax_no_memory(relax, "the blocks of rows");
    for (int64_t block = 0; block < relax->blocks.count; block++)
        count_inner(m, relax->blocks.start[block], relax->blocks.start[block + 1]);
    return HF_OK;
}

void hf_relax_count_before(struct hf_relax_matrix *m, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = m->row_start[i];
        int64_t e = first;
        while (m->column[e] < i)
            e++;
        m->before[i] = (int32_t)(e - first);
    }
}

/* Of the caller's own arrays nothing but the diagonal is kept. */
static void reload_inverse(hf_relax *relax, int64_t block) {
    const struct hf_relax_matrix *m = &relax->m;
    for (int64_t p = relax->blocks.start[block]; p < relax->blocks.start[block + 1]; p++)
        for (int64_t e = m->row_start[p]; e < m->row_start[p + 1]; e++)
            if (m->column[e] == p)
                m->inverse[p] = 1 / sparse_value(m->value, m->dtype, e);
}

static hf_status reload_rows(hf_relax *relax, int64_t block) {
    struct copy c;
    if (!open_copy(&c, &relax->a, relax->perm)) {
        close_copy(&c);
        return hf_relax_no_memory(relax, "a block of the matrix that is built again");
    }
    int64_t at = relax->m.row_start[relax->blocks.start[block]];
    for (int64_t p = relax->blocks.start[block]; p < relax->blocks.start[block + 1]; p++) {
        gather_row(&c, p);
        relax->m.row_start[p] = at;
        store_row(&c, &relax->m, p);
        at += c.row.count;
    }
    if (relax->m.inner != NULL)
        count_inner(&relax->m, relax->blocks.start[block], relax->blocks.start[block + 1]);
    close_copy(&c);
    return HF_OK;
}

hf_status hf_relax_reload_block(hf_relax *relax, int64_t block) {
    if (relax->m.borrowed)
        reload_inverse(relax, block);
    else
        HF_TRY(reload_rows(relax, block));
    if (relax->m.before != NULL)
        hf_relax_count_before(&relax->m, relax->blocks.start[block],
                              relax->blocks.start[block + 1]);
    return HF_OK;
}
