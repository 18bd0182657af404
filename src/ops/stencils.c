/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/stencils.h"

#include "base/mem.h"
#include "ops/sparse.h"
#include <string.h>

#define SLOTS 1024     /* of the hash table, four times as many as stencils */
#define LEAST_ALIKE 16 /* elements of the matrix to one of a stencil */

struct maker {
    const struct hf_sparse *a;
    const double *inverse;
    bool apart; /* the diagonal is left out */
    uint8_t *of_row;
    int32_t *start, *offset;
    double *value, *scale;
    int count, elements;
    int16_t slot[SLOTS]; /* 1 + number; 0: empty */
};

/* Numbers compare by their bits. */
static uint64_t bits_of(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static double value_of(const struct maker *m, int64_t i, int64_t e) {
    return m->apart && m->a->column[e] == i ? 0 : sparse_value(m->a->value, m->a->dtype, e);
}

static bool is_like(const struct maker *m, int64_t i, int s) {
    const int64_t first = m->a->row_start[i], length = m->a->row_start[i + 1] - first;
    if (m->start[s + 1] - m->start[s] != length)
        return false;
    const int32_t *offset = m->offset + m->start[s];
    const double *value = m->value + m->start[s];
    for (int64_t t = 0; t < length; t++)
        if (m->a->column[first + t] - i != offset[t] ||
            bits_of(value_of(m, i, first + t)) != bits_of(value[t]))
            return false;
    return m->apart || bits_of(m->inverse[i]) == bits_of(m->scale[s]);
}

static uint64_t hash_row(const struct maker *m, int64_t i) {
    uint64_t h = m->apart ? 0 : bits_of(m->inverse[i]);
    for (int64_t e = m->a->row_start[i]; e < m->a->row_start[i + 1]; e++) {
        h = (h ^ (uint64_t)(m->a->column[e] - i)) * 0x9e3779b97f4a7c15U;
        h = (h ^ bits_of(value_of(m, i, e)) ^ h >> 29) * 0xbf58476d1ce4e5b9U;
    }
    return h ^ h >> 32;
}

/* A new stencil like row i; false: there is no room. */
static bool add_stencil(struct maker *m, int64_t i) {
    const int64_t first = m->a->row_start[i], length = m->a->row_start[i + 1] - first;
    if (m->count == HF_STENCILS_MOST || m->elements + length > HF_STENCILS_MOST_ELEMENTS)
        return false;
    for (int64_t t = 0; t < length; t++) {
        m->offset[m->elements] = (int32_t)(m->a->column[first + t] - i);
        m->value[m->elements++] = value_of(m, i, first + t);
    }
    m->scale[m->count++] = m->inverse[i];
    m->start[m->count] = m->elements;
    return true;
}

/* The stencil of row i; -1: there are too many. before: that of another row, which it may share. */
static int find_stencil(struct maker *m, int64_t i, int before) {
    if (before >= 0 && is_like(m, i, before))
        return before;
    for (uint64_t at = hash_row(m, i) % SLOTS;; at = (at + 1) % SLOTS) {
        if (m->slot[at] != 0 && is_like(m, i, m->slot[at] - 1))
            return m->slot[at] - 1;
        if (m->slot[at] != 0)
            continue;
        if (!add_stencil(m, i))
            return -1;
        m->slot[at] = (int16_t)m->count;
        return m->count - 1;
    }
}

static bool find_all(struct maker *m, bool apart, int64_t first, int64_t last) {
    int s = -1;
    m->apart = apart;
    m->count = m->elements = 0;
    m->start[0] = 0;
    memset(m->slot, 0, sizeof m->slot);
    for (int64_t i = first; i < last; i++) {
        s = find_stencil(m, i, s);
        if (s < 0)
            return false;
        m->of_row[i] = (uint8_t)s;
    }
    return m->elements > 0 &&
           m->a->row_start[last] - m->a->row_start[first] >= (int64_t)LEAST_ALIKE * m->elements;
}

/* [rows] the values on the diagonal; NULL when there is no memory */
static double *diagonal_of(const struct hf_sparse *a, int64_t first, int64_t last) {
    double *diagonal = hf_alloc_zero((size_t)a->rows * sizeof *diagonal);
    for (int64_t i = first; diagonal != NULL && i < last; i++)
        for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++)
            if (a->column[e] == i)
                diagonal[i] = sparse_value(a->value, a->dtype, e);
    return diagonal;
}

static bool take(struct maker *m) {
    m->of_row = hf_alloc_zero((size_t)m->a->rows);
    m->start = hf_alloc((HF_STENCILS_MOST + 1) * sizeof *m->start);
    m->offset = hf_alloc(HF_STENCILS_MOST_ELEMENTS * sizeof *m->offset);
    m->value = hf_alloc(HF_STENCILS_MOST_ELEMENTS * sizeof *m->value);
    m->scale = hf_alloc(HF_STENCILS_MOST * sizeof *m->scale);
    return m->of_row != NULL && m->start != NULL && m->offset != NULL && m->value != NULL &&
           m->scale != NULL;
}

hf_status hf_stencils_make(const struct hf_sparse *a, const double *inverse, int64_t first,
                           int64_t last, struct hf_stencils *out) {
    struct maker m = {.a = a, .inverse = inverse};
    const bool there = take(&m);
    bool found = there && find_all(&m, false, first, last);
    double *diagonal = NULL;
    hf_status status = there ? HF_OK : HF_E_NOMEM;
    if (there && !found && find_all(&m, true, first, last)) {
        diagonal = diagonal_of(a, first, last);
        found = diagonal != NULL;
        status = found ? HF_OK : HF_E_NOMEM;
    }
    struct hf_stencils made = {.count = m.count,
                               .elements = m.elements,
                               .of_row = m.of_row,
                               .start = m.start,
                               .offset = m.offset,
                               .value = m.value,
                               .inverse = m.scale,
                               .diagonal = diagonal};
    if (!found)
        hf_stencils_clear(&made);
    if (diagonal != NULL) {
        hf_free(m.scale);
        made.inverse = NULL;
    }
    *out = made;
    return status;
}

void hf_stencils_clear(struct hf_stencils *s) {
    hf_free((void *)s->of_row);
    hf_free((void *)s->start);
    hf_free((void *)s->offset);
    hf_free((void *)s->value);
    hf_free((void *)s->inverse);
    hf_free((void *)s->diagonal);
    *s = (struct hf_stencils){0};
}
