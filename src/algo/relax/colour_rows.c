/* SPDX-License-Identifier: Apache-2.0
 * Gauss-Seidel by rows: places in the order of colours, so that the rows of a colour, which share
 * no element, are slices of consecutive places. Greedy colours of a stencil or band repeat with a
 * period, so neighbours in the matrix stay neighbours in a slice. A single solution begins with its
 * rows one after another, read where the caller has them: colours cost as much as twenty or more
 * sweeps gain, so the first few tell whether they shall be made. */
#include "algo/relax/setup.h"

#include "base/mem.h"
#include "base/parallel.h"
#include <stdio.h>
#include <string.h>

#define MOST_COLOURS 64
#define LEAST_ROWS 64 /* of a colour on the average: fewer fill no slices */
#define GRAIN 512     /* rows of a range of the loop */
/* Sweeps from which on colours pay: later where the matrix stays in the second cache, and hardly
 * ever where rows are so short that a row does not wait for the one above it. */
#define FEW_SWEEPS 24
#define FEW_SMALL 40
#define FEW_SHORT 256
#define SMALL_ELEMENTS 100000
#define SHORT_ROW 4 /* elements on the average */

struct copy_job {
    const struct hf_relax_matrix *from;
    struct hf_relax_matrix *to;
    const int32_t *perm, *place; /* [n] row of a place, place of a row */
    const uint8_t *colour;       /* [n] of a row */
    int64_t colours;
};

/* Each row takes the first colour that no row before it has that it reads. False: there are not
 * enough colours. */
static bool choose(const struct hf_relax_matrix *m, uint8_t *colour, int64_t *colours) {
    *colours = 0;
    for (int64_t i = 0; i < m->n; i++) {
        uint64_t taken = 0;
        for (int64_t e = m->row_start[i]; e < m->row_start[i + 1] && m->column[e] < i; e++)
            taken |= (uint64_t)1 << colour[m->column[e]];
        if (taken == UINT64_MAX)
            return false;
        colour[i] = (uint8_t)__builtin_ctzll(~taken);
        *colours = colour[i] >= *colours ? colour[i] + 1 : *colours;
    }
    return true;
}

/* No row reads another one of its colour: sure only where the pattern is symmetric. */
static bool is_proper(const struct hf_relax_matrix *m, const uint8_t *colour) {
    for (int64_t i = 0; i < m->n; i++) {
        int64_t same = 0;
        for (int64_t e = m->row_start[i]; e < m->row_start[i + 1]; e++)
            same += colour[m->column[e]] == colour[i];
        if (same > 1)
            return false;
    }
    return true;
}

static bool take_order(hf_relax *relax, int64_t colours) {
    struct hf_relax_colours *c = &relax->colours;
    const int64_t n = relax->m.n;
    c->count = colours;
    c->start = hf_relax_take(relax, colours + 2, sizeof *c->start);
    c->block = hf_relax_take(relax, n, sizeof *c->block);
    c->row = hf_relax_take(relax, n + 1, sizeof *c->row);
    relax->perm = hf_relax_take(relax, n, sizeof *relax->perm);
    return c->start != NULL && c->block != NULL && c->row != NULL && relax->perm != NULL;
}

/* perm and the starts of the colours; start[k + 1] is where colour k goes on, in the end where it
 * ends. */
static void sort_places(hf_relax *relax, const uint8_t *colour, int32_t *place) {
    struct hf_relax_colours *c = &relax->colours;
    const int64_t n = relax->m.n;
    memset(c->start, 0, (size_t)(c->count + 2) * sizeof *c->start);
    for (int64_t i = 0; i < n; i++)
        c->start[colour[i] + 2]++;
    for (int64_t k = 0; k < c->count; k++)
        c->start[k + 2] += c->start[k + 1];
    for (int64_t i = 0; i < n; i++) {
        place[i] = (int32_t)c->start[colour[i] + 1]++;
        relax->perm[place[i]] = (int32_t)i;
    }
    for (int64_t p = 0; p <= n; p++)
        c->row[p] = p;
    for (int64_t p = 0; p < n; p++)
        c->block[p] = (int32_t)p;
}

/* The elements of a row in the order of their places: those of each colour stay in order. */
ALWAYS_INLINE void copy_row(const struct copy_job *job, hf_dtype dtype, int64_t p) {
    const struct hf_relax_matrix *m = job->from;
    const int64_t i = job->perm[p], first = m->row_start[i], last = m->row_start[i + 1];
    int64_t next[MOST_COLOURS + 1];
    for (int64_t k = 0; k <= job->colours; k++)
        next[k] = 0;
    for (int64_t e = first; e < last; e++)
        next[job->colour[m->column[e]] + 1]++;
    next[0] = job->to->row_start[p];
    for (int64_t k = 0; k < job->colours; k++)
        next[k + 1] += next[k];
    for (int64_t e = first; e < last; e++) {
        const int64_t at = next[job->colour[m->column[e]]]++;
        job->to->column[at] = job->place[m->column[e]];
        if (dtype == HF_F32)
            ((float *)job->to->value)[at] = ((const float *)m->value)[e];
        else
            ((double *)job->to->value)[at] = ((const double *)m->value)[e];
    }
    job->to->inverse[p] = m->inverse[i];
}

static void copy_rows(void *user, int worker, int64_t begin, int64_t end) {
    const struct copy_job *job = user;
    (void)worker;
    for (int64_t p = begin; p < end; p++) {
        if (job->from->dtype == HF_F32)
            copy_row(job, HF_F32, p);
        else
            copy_row(job, HF_F64, p);
    }
}

/* m in the order of the colours. */
static hf_status reorder(hf_relax *relax, const uint8_t *colour, const int32_t *place) {
    struct hf_relax_matrix *m = &relax->m, to = {0};
    const struct copy_job job = {.from = m,
                                 .to = &to,
                                 .perm = relax->perm,
                                 .place = place,
                                 .colour = colour,
                                 .colours = relax->colours.count};
    if (!hf_relax_take_arrays(relax, m->dtype, &to)) {
        hf_relax_matrix_clear(&to);
        return hf_relax_no_memory(relax, "a copy of the matrix");
    }
    to.row_start[0] = 0;
    for (int64_t p = 0; p < m->n; p++)
        to.row_start[p + 1] =
            to.row_start[p] + m->row_start[relax->perm[p] + 1] - m->row_start[relax->perm[p]];
    hf_parallel_for(hf_ctx_pool(relax->ctx), m->n, GRAIN, copy_rows, (void *)(uintptr_t)&job);
    relax->bytes -= hf_relax_matrix_bytes(m);
    hf_relax_matrix_clear(m);
    *m = to;
    return HF_OK;
}

hf_status hf_relax_colour_rows(hf_relax *relax) {
    const int64_t n = relax->m.n;
    uint8_t *colour = hf_alloc((size_t)n);
    int32_t *place = hf_alloc((size_t)n * sizeof *place);
    int64_t colours = 0;
    const bool there = colour != NULL && place != NULL;
    const bool fit = there && choose(&relax->m, colour, &colours) && colours * LEAST_ROWS <= n &&
                     is_proper(&relax->m, colour);
    hf_status status = there ? HF_OK : hf_relax_no_memory(relax, "the colours of the rows");
    if (fit && !take_order(relax, colours))
        status = hf_relax_no_memory(relax, "the colours of the rows");
    if (fit && status == HF_OK) {
        sort_places(relax, colour, place);
        status = reorder(relax, colour, place);
        relax->by_rows = status == HF_OK;
    }
    hf_free(colour);
    hf_free(place);
    return status;
}

static bool are_short(const hf_relax *relax) {
    return relax->a.row_start[relax->a.rows] < SHORT_ROW * relax->a.rows;
}

bool hf_relax_wants_colours(const hf_relax *relax, double sweeps) {
    const int64_t elements = relax->a.row_start[relax->a.rows];
    return sweeps > (are_short(relax)            ? FEW_SHORT
                     : elements < SMALL_ELEMENTS ? FEW_SMALL
                                                 : FEW_SWEEPS);
}

hf_status hf_relax_keep_order(hf_relax *relax) {
    struct hf_relax_colours *c = &relax->colours;
    struct hf_relax_matrix *m = &relax->m;
    const bool many =
        relax->opts.tol < 0 && hf_relax_wants_colours(relax, (double)relax->opts.max_iter);
    if (!relax->once || relax->opts.symmetric || many)
        return HF_OK;
    HF_TRY(hf_relax_make_strips(relax, m->n));
    if (!are_short(relax))
        m->before = hf_relax_take(relax, m->n, sizeof *m->before);
    c->start = hf_relax_take(relax, 2, sizeof *c->start);
    c->block = hf_relax_take(relax, 1, sizeof *c->block);
    if ((m->before == NULL && !are_short(relax)) || c->start == NULL || c->block == NULL)
        return hf_relax_no_memory(relax, "the order of the rows");
    if (m->before != NULL)
        hf_relax_count_before(m, 0, m->n);
    c->count = 1;
    c->start[0] = 0;
    c->start[1] = 1;
    c->block[0] = 0;
    relax->in_order = true;
    return HF_OK;
}
