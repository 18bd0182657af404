/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cases/sparse_case.h"

#include "ops/slices.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const int64_t sizes[] = {1, 2, 9, 130, 1025, 4100};
#define SIZES ((int64_t)(sizeof sizes / sizeof sizes[0]))

bool hf_sparse_case(int64_t id, struct hf_sparse_shape *shape) {
    if (id >= 2 * SIZES * HF_SPARSE_KINDS)
        return false;
    shape->dtype = id % 2 == 0 ? HF_F64 : HF_F32;
    shape->n = sizes[id / 2 % SIZES];
    shape->kind = (enum hf_sparse_kind)(id / 2 / SIZES);
    return true;
}

void hf_sparse_name(struct hf_case *c, const struct hf_sparse_shape *shape, const char *fmt, ...) {
    static const char *const names[] = {"random",    "band",    "grid",  "diagonal", "hub",
                                        "exponents", "stencil", "apart", "long"};
    const int used = snprintf(c->name, sizeof c->name, "%s n=%d %s", names[shape->kind],
                              (int)shape->n, hf_dtype_name(shape->dtype));
    va_list list;
    va_start(list, fmt);
    (void)vsnprintf(c->name + used, sizeof c->name - (size_t)used, fmt, list);
    va_end(list);
}

#define DRAWN 5 /* elements of a random row beside the diagonal */

/* Put j among the count columns in ascending order. */
static int64_t insert_column(int32_t *column, int64_t count, int64_t j) {
    int64_t at = count;
    while (at > 0 && column[at - 1] > j)
        at--;
    if (at > 0 && column[at - 1] == j)
        return count;
    for (int64_t e = count; e > at; e--)
        column[e] = column[e - 1];
    column[at] = (int32_t)j;
    return count + 1;
}

static bool is_stencil(const struct hf_sparse_shape *shape) {
    return shape->kind == HF_SPARSE_STENCIL || shape->kind == HF_SPARSE_APART;
}

#define LONG_REACH 20     /* columns to each side in a row of the kind LONG, */
#define LONGEST_REACH 200 /* and in every LONG_EVERY-th */
#define LONG_EVERY 7

/* Columns of row i, at most n. Returns their number. */
static int64_t row_columns(const struct hf_sparse_shape *shape, uint64_t seed, int64_t i,
                           int32_t *column) {
    const int64_t n = shape->n, side = 1 + (int64_t)sqrt((double)n);
    int64_t count = insert_column(column, 0, i);
    if (shape->kind == HF_SPARSE_HUB)
        for (int64_t j = 0; j < n && (i == 0 || j == 0); j++)
            count = insert_column(column, count, j);
    const int64_t longest = i % LONG_EVERY == 0 ? LONGEST_REACH : LONG_REACH;
    const int64_t reach = shape->kind == HF_SPARSE_LONG ? longest : 3;
    const bool is_band = shape->kind == HF_SPARSE_BAND || shape->kind == HF_SPARSE_LONG;
    for (int64_t gap = -reach; is_band && gap <= reach; gap++)
        if (i + gap >= 0 && i + gap < n)
            count = insert_column(column, count, i + gap);
    const int64_t cross[] = {-side, -1, 1, side};
    const bool is_grid = shape->kind == HF_SPARSE_GRID || is_stencil(shape);
    for (int k = 0; is_grid && k < 4; k++)
        if (i + cross[k] >= 0 && i + cross[k] < n)
            count = insert_column(column, count, i + cross[k]);
    const bool drawn = shape->kind == HF_SPARSE_RANDOM || shape->kind == HF_SPARSE_EXPONENTS;
    for (uint64_t k = 0; drawn && k < DRAWN; k++)
        count =
            insert_column(column, count, (int64_t)hf_rng_below(seed, (uint64_t)i, k, (uint64_t)n));
    return count;
}

static double place_value(const struct hf_sparse *a, double *value, int64_t e, double number) {
    if (a->dtype == HF_F32)
        ((float *)(void *)value)[e] = (float)number;
    else
        value[e] = number;
    return sparse_value(value, a->dtype, e);
}

/* The same numbers in each row, but for the diagonal if that is to differ. */
static void fill_stencil(const struct hf_sparse_shape *shape, const struct hf_sparse *a,
                         double *value, int64_t i) {
    for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++) {
        const int64_t offset = a->column[e] - i;
        const double diagonal = shape->kind == HF_SPARSE_APART ? 2 + 0.001 * (double)(i % 777) : 3;
        (void)place_value(a, value, e, offset == 0 ? diagonal : offset < 0 ? -0.3 : -0.1);
    }
}

static void fill_row(struct hf_rng *rng, const struct hf_sparse_shape *shape,
                     const struct hf_sparse *a, double *value, int64_t i) {
    const double unit =
        shape->kind == HF_SPARSE_EXPONENTS ? pow(10, 60 * hf_rng_next_unit(rng) - 30) : 1;
    double sum = 0;
    int64_t diagonal = 0;
    if (is_stencil(shape)) {
        fill_stencil(shape, a, value, i);
        return;
    }
    for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++) {
        if (a->column[e] == i)
            diagonal = e;
        else
            sum += fabs(place_value(a, value, e, unit * hf_rng_next_normal(rng)));
    }
    const double sign = hf_rng_next(rng) % 8 == 0 ? -1 : 1;
    (void)place_value(a, value, diagonal, sign * (2.5 * sum + unit));
}

bool hf_sparse_make(struct hf_rng *rng, struct hf_case *c, const struct hf_sparse_shape *shape,
                    struct hf_sparse *a) {
    const int64_t n = shape->n;
    const uint64_t seed = hf_rng_next(rng);
    int64_t *start = hf_case_alloc(c, (size_t)(n + 1) * sizeof *start, false);
    int32_t *row = hf_case_alloc(c, (size_t)(n + 8) * sizeof *row, false);
    for (int64_t i = 0; !c->failed && i < n; i++)
        start[i + 1] = start[i] + row_columns(shape, seed, i, row);
    const size_t elements = start != NULL ? (size_t)start[n] : 0;
    int32_t *column = hf_case_alloc(c, elements * sizeof *column, false);
    double *value = hf_case_alloc(c, elements * hf_dtype_bytes(shape->dtype), false);
    if (c->failed || start == NULL || row == NULL || column == NULL || value == NULL)
        return false;
    for (int64_t i = 0; i < n; i++) {
        (void)row_columns(shape, seed, i, row);
        for (int64_t e = start[i]; e < start[i + 1]; e++)
            column[e] = row[e - start[i]];
    }
    *a = (struct hf_sparse){.rows = n,
                            .cols = n,
                            .elements = start[n],
                            .row_start = start,
                            .column = column,
                            .dtype = shape->dtype,
                            .value = value};
    for (int64_t i = 0; i < n; i++)
        fill_row(rng, shape, a, value, i);
    return true;
}

double *hf_sparse_vector(struct hf_rng *rng, struct hf_case *c, int64_t n, bool out) {
    double *x = hf_case_alloc(c, (size_t)n * sizeof *x, out);
    for (int64_t i = 0; x != NULL && i < n; i++)
        x[i] = hf_rng_next_normal(rng);
    return x;
}

/* A copy of an array in memory of the case; NULL when there is none. */
static void *keep(struct hf_case *c, const void *p, size_t bytes) {
    void *kept = hf_case_alloc(c, bytes, false);
    if (kept != NULL && bytes > 0)
        memcpy(kept, p, bytes);
    return kept;
}

void hf_sparse_slice(struct hf_case *c, struct hf_sparse *a, const int64_t *range_row,
                     int64_t ranges) {
    struct hf_slices made;
    if (hf_slices_make(a, range_row, ranges, UINT64_MAX, NULL, &made) != HF_OK)
        return;
    const size_t starts = ((size_t)ranges + 1) * sizeof(int64_t), count = (size_t)made.count;
    const size_t slots = (size_t)made.slots, lists = (size_t)made.lists;
    struct hf_slices *s = hf_case_alloc(c, sizeof *s, false);
    struct hf_slices kept = {
        .ranges = ranges,
        .range_row = keep(c, made.range_row, starts),
        .range_slice = keep(c, made.range_slice, starts),
        .count = made.count,
        .slots = made.slots,
        .lists = made.lists,
        .slot = keep(c, made.slot, (count + 1) * sizeof *made.slot),
        .list = keep(c, made.list, count * sizeof *made.list),
        .base = keep(c, made.base, slots * sizeof *made.base),
        .column = keep(c, made.column, lists * SLICE_ROWS * sizeof *made.column),
        .value = keep(c, made.value, slots * SLICE_ROWS * hf_dtype_bytes(a->dtype))};
    hf_slices_clear(&made);
    if (s != NULL && !c->failed)
        *s = kept;
    a->slices = c->failed ? NULL : s;
}

double *hf_sparse_inverse(struct hf_case *c, const struct hf_sparse *a) {
    double *inverse = hf_case_alloc(c, (size_t)a->rows * sizeof *inverse, false);
    for (int64_t i = 0; inverse != NULL && i < a->rows; i++)
        for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++)
            if (a->column[e] == i)
                inverse[i] = 1 / sparse_value(a->value, a->dtype, e);
    return inverse;
}

struct hf_sparse_blocks hf_sparse_blocks(struct hf_rng *rng, struct hf_case *c, int64_t n,
                                         int64_t most) {
    struct hf_sparse_blocks blocks = {
        .start = hf_case_alloc(c, (size_t)(n + 1) * sizeof *blocks.start, false)};
    for (int64_t at = 0; blocks.start != NULL && at < n;) {
        const int64_t drawn = 1 + (int64_t)(hf_rng_next(rng) % (uint64_t)most);
        const int64_t rows = drawn < n - at ? drawn : n - at;
        at += rows;
        blocks.start[++blocks.count] = at;
        blocks.largest = rows > blocks.largest ? rows : blocks.largest;
    }
    return blocks;
}

/* A copy that is the case's; NULL for NULL. */
static const void *adopt(struct hf_case *c, const void *p, size_t bytes) {
    void *own = p != NULL ? hf_case_alloc(c, bytes, false) : NULL;
    if (own != NULL)
        memcpy(own, p, bytes);
    return own;
}

void hf_sparse_stencils(struct hf_case *c, const struct hf_sparse_shape *shape, struct hf_sparse *a,
                        const double *inverse) {
    struct hf_stencils s;
    if (c->failed || !is_stencil(shape))
        return;
    if (hf_stencils_make(a, inverse, 0, a->rows, &s) != HF_OK) {
        c->failed = true;
        return;
    }
    const size_t rows = (size_t)a->rows, count = (size_t)s.count, elements = (size_t)s.elements;
    a->stencils = s;
    a->stencils.of_row = adopt(c, s.of_row, rows);
    a->stencils.start = adopt(c, s.start, (count + 1) * sizeof *s.start);
    a->stencils.offset = adopt(c, s.offset, elements * sizeof *s.offset);
    a->stencils.value = adopt(c, s.value, elements * sizeof *s.value);
    a->stencils.inverse = adopt(c, s.inverse, count * sizeof *s.inverse);
    a->stencils.diagonal = adopt(c, s.diagonal, rows * sizeof *s.diagonal);
    hf_stencils_clear(&s);
}

int32_t *hf_sparse_inner(struct hf_case *c, const struct hf_sparse *a,
                         const struct hf_sparse_blocks *blocks) {
    int32_t *inner = hf_case_alloc(c, 2 * (size_t)a->rows * sizeof *inner, false);
    for (int64_t block = 0; inner != NULL && block < blocks->count; block++)
        for (int64_t i = blocks->start[block]; i < blocks->start[block + 1]; i++)
            for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++) {
                inner[2 * i] += a->column[e] < blocks->start[block];
                inner[2 * i + 1] +=
                    a->column[e] >= blocks->start[block] && a->column[e] < blocks->start[block + 1];
            }
    return inner;
}

bool hf_sparse_system(struct hf_rng *rng, struct hf_case *c, const struct hf_sparse_shape *shape,
                      int64_t most, struct hf_sparse_system *system) {
    if (!hf_sparse_make(rng, c, shape, &system->a))
        return false;
    system->blocks = hf_sparse_blocks(rng, c, shape->n, most);
    system->inverse = hf_sparse_inverse(c, &system->a);
    system->b = hf_sparse_vector(rng, c, shape->n, false);
    return !c->failed;
}
