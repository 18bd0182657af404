/* SPDX-License-Identifier: Apache-2.0
 * Does A = A^T hold? Rows in order meet the elements below the diagonal of any row in order, too,
 * so each of those is looked at once. Threads share the columns. */
#include "algo/relax/setup.h"

#include "base/mem.h"
#include "base/parallel.h"
#include <math.h>

#define PARTS 16             /* of the columns at most: one for a thread */
#define LEAST_ELEMENTS 20000 /* for which threads pay */

struct meeting {
    const struct hf_relax_matrix *m;
    int64_t parts;
    int64_t *at; /* [n] the next element of each row that is to be met */
    struct {
        int64_t row, column; /* of the first element without its like; row n: there is none */
    } odd[PARTS];
};

/* Is the element of place (i, j), or the difference of two, nothing but rounding? */
static bool is_rounding(const struct hf_relax_matrix *m, double value, int64_t i, int64_t j) {
    return value == 0 || fabs(value) <= 1e-12 / sqrt(fabs(m->inverse[i] * m->inverse[j]));
}

/* The first element of row i in column `least` or after. */
static int64_t find_column(const struct hf_relax_matrix *m, int64_t i, int64_t least) {
    int64_t low = m->row_start[i], high = m->row_start[i + 1];
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (m->column[middle] < least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Elements of row j in columns before i that no row has met. */
static bool skip_unmet(const struct meeting *meet, int64_t j, int64_t i) {
    const struct hf_relax_matrix *m = meet->m;
    int64_t *at = &meet->at[j];
    for (; *at < m->row_start[j + 1] && m->column[*at] < i; ++*at)
        if (!is_rounding(m, sparse_value(m->value, m->dtype, *at), j, m->column[*at]))
            return false;
    return true;
}

/* Elements of row i in columns [begin, end), above the diagonal, meet theirs. -1: all do; else the
 * column of the one that does not. */
static int64_t meet_row(const struct meeting *meet, int64_t i, int64_t begin, int64_t end) {
    const struct hf_relax_matrix *m = meet->m;
    const int64_t last = m->row_start[i + 1];
    int64_t e = i >= begin ? meet->at[i] : find_column(m, i, begin);
    while (e < last && m->column[e] <= i)
        e++;
    for (; e < last && m->column[e] < end; e++) {
        const int64_t j = m->column[e];
        int64_t *at = &meet->at[j];
        if (*at < m->row_start[j + 1] && m->column[*at] < i && !skip_unmet(meet, j, i))
            return j;
        const double value = sparse_value(m->value, m->dtype, e);
        const bool there = *at < m->row_start[j + 1] && m->column[*at] == i;
        const double other = there ? sparse_value(m->value, m->dtype, (*at)++) : 0;
        if (value != other && !is_rounding(m, value - other, i, j))
            return j;
    }
    return -1;
}

static void meet_part(struct meeting *meet, int64_t part) {
    const struct hf_relax_matrix *m = meet->m;
    const int64_t begin = part * m->n / meet->parts, end = (part + 1) * m->n / meet->parts;
    int64_t column = -1, row = m->n;
    for (int64_t j = begin; j < end; j++)
        meet->at[j] = m->row_start[j];
    for (int64_t i = 0; i < end && column < 0; i++) {
        column = meet_row(meet, i, begin, end);
        row = column >= 0 ? i : row;
    }
    for (int64_t j = begin; j < end && column < 0; j++)
        if (!skip_unmet(meet, j, j)) {
            row = j;
            column = m->column[meet->at[j]];
        }
    meet->odd[part].row = row;
    meet->odd[part].column = column;
}

static void meet_parts(void *user, int worker, int64_t begin, int64_t end) {
    (void)worker;
    for (int64_t part = begin; part < end; part++)
        meet_part(user, part);
}

hf_status hf_relax_test_symmetry(hf_relax *relax, bool mirrored) {
    const struct hf_relax_matrix *m = &relax->m;
    relax->symmetry_known = true;
    relax->symmetric = true;
    if (mirrored)
        return HF_OK;
    struct meeting meet = {.m = m, .at = hf_alloc((size_t)m->n * sizeof *meet.at)};
    if (meet.at == NULL)
        return hf_relax_no_memory(relax, "the test for symmetry");
    hf_pool *const pool = hf_ctx_pool(relax->ctx);
    meet.parts = m->row_start[m->n] < LEAST_ELEMENTS ? 1 : hf_min64(hf_pool_workers(pool), PARTS);
    hf_parallel_for(pool, meet.parts, 1, meet_parts, &meet);
    relax->odd_row = m->n;
    for (int64_t part = 0; part < meet.parts; part++)
        if (meet.odd[part].row < relax->odd_row) {
            relax->symmetric = false;
            relax->odd_row = meet.odd[part].row;
            relax->odd_column = meet.odd[part].column;
        }
    hf_free(meet.at);
    return HF_OK;
}
