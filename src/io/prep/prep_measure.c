/* SPDX-License-Identifier: Apache-2.0
 * The parameters of a scaling, by passes over the rows in order: chunks do not change a bit. */
#include "io/prep/prep_rows.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

#define LARGEST 1e150 /* what a fit takes */
#define COUNTING_MOST ((uint64_t)64 << 20)

/* Sums of each column, with what rounding lost (Kahan 1965); without it the mean of many rows would
 * be off by as many roundings. */
struct measure {
    struct hf_prep *p;
    hf_error *err;
    int64_t cols, n;
    double *memory; /* all below, [cols] each */
    double *first, *low, *high;
    double *sum, *lost; /* of x - first */
    double *mean;       /* of x - first, in ranges */
    double *squares, *squares_lost, *rest;
};

static void add(double *sum, double *lost, double v) {
    const double y = v - *lost;
    const double t = *sum + y;
    *lost = (t - *sum) - y;
    *sum = t;
}

static hf_status fail_large(const struct measure *m, const double *row) {
    int64_t j = 0;
    while (j + 1 < m->cols && fabs(row[j]) <= LARGEST)
        j++;
    return hf_fail(m->err, HF_E_DATA,
                   "%s: column %lld holds %g: values beyond 1e150 cannot be scaled; leave the "
                   "column or the row out",
                   m->p->name, (long long)m->p->columns[j] + 1, row[j]);
}

/* Extremes and sums. */
static hf_status extremes(void *job, int64_t first, const double *rows, int64_t count) {
    struct measure *m = job;
    (void)first;
    for (int64_t i = 0; i < count; i++) {
        const double *row = rows + i * m->cols;
        bool large = false;
        if (m->n++ == 0)
            for (int64_t j = 0; j < m->cols; j++)
                m->first[j] = m->low[j] = m->high[j] = row[j];
        for (int64_t j = 0; j < m->cols; j++) {
            const double v = row[j];
            m->low[j] = v < m->low[j] ? v : m->low[j];
            m->high[j] = v > m->high[j] ? v : m->high[j];
            large |= fabs(v) > LARGEST;
            add(&m->sum[j], &m->lost[j], v - m->first[j]);
        }
        if (large)
            return fail_large(m, row);
    }
    return HF_OK;
}

/* Squares of the distances from the mean, in ranges: they neither overflow nor vanish. */
static hf_status spread(void *job, int64_t first, const double *rows, int64_t count) {
    struct measure *m = job;
    (void)first;
    for (int64_t i = 0; i < count; i++) {
        const double *row = rows + i * m->cols;
        for (int64_t j = 0; j < m->cols; j++) {
            const double range = m->high[j] - m->low[j];
            const double e = (row[j] - m->first[j]) / (range > 0 ? range : 1) - m->mean[j];
            m->rest[j] += e;
            add(&m->squares[j], &m->squares_lost[j], e * e);
        }
    }
    return HF_OK;
}

static hf_status standard(struct measure *m, double *shift, double *unit) {
    const double n = (double)m->n;
    for (int64_t j = 0; j < m->cols; j++) {
        const double range = m->high[j] - m->low[j];
        shift[j] = m->first[j] + m->sum[j] / n;
        m->mean[j] = m->sum[j] / n / (range > 0 ? range : 1);
    }
    HF_TRY(hf_prep_each(m->p, spread, m, m->err));
    for (int64_t j = 0; j < m->cols; j++) {
        const double rest = m->rest[j] / n; /* what the mean was off */
        const double variance = m->squares[j] / n - rest * rest;
        unit[j] = (m->high[j] - m->low[j]) * sqrt(variance > 0 ? variance : 0);
    }
    return HF_OK;
}

static hf_status robust(struct measure *m, uint64_t memory, double *shift, double *unit) {
    uint64_t budget = memory / 8 < COUNTING_MOST ? memory / 8 : COUNTING_MOST;
    budget = budget > HF_QUARTILE_BYTES ? budget / HF_QUARTILE_BYTES : 1;
    const int64_t together = (uint64_t)m->cols < budget ? m->cols : (int64_t)budget;
    double *quartiles = hf_alloc((size_t)together * 3 * sizeof *quartiles);
    if (quartiles == NULL)
        return hf_fail(m->err, HF_E_NOMEM, "%s: no memory for quartiles", m->p->name);
    hf_status status = HF_OK;
    for (int64_t from = 0; from < m->cols && status == HF_OK; from += together) {
        const int64_t count = m->cols - from < together ? m->cols - from : together;
        const struct hf_quartiles q = {m->p, m->n, from, count, quartiles};
        status = hf_quartiles_find(&q, m->err);
        for (int64_t j = 0; status == HF_OK && j < count; j++) {
            shift[from + j] = quartiles[3 * j + 1];
            unit[from + j] = quartiles[3 * j + 2] - quartiles[3 * j];
        }
    }
    hf_free(quartiles);
    return status;
}

static hf_status find(struct measure *m, hf_scale method, uint64_t memory) {
    struct hf_prep *p = m->p;
    double *shift = p->parameters;
    double *unit = p->parameters + p->source.cols;
    HF_TRY(hf_prep_each(p, extremes, m, m->err));
    if (m->n == 0)
        return hf_fail(m->err, HF_E_DATA,
                       "%s: every row has a missing value, NaN or Inf, so there is nothing to "
                       "scale; leave out the columns that have most of them",
                       p->name);
    if (method == HF_SCALE_STANDARD)
        HF_TRY(standard(m, shift, unit));
    else if (method == HF_SCALE_ROBUST)
        HF_TRY(robust(m, memory, shift, unit));
    for (int64_t j = 0; j < m->cols; j++) {
        const bool constant = m->low[j] == m->high[j];
        if (constant || method == HF_SCALE_MINMAX) {
            shift[j] = m->low[j];
            unit[j] = m->high[j] - m->low[j];
        }
        if (!constant && !(unit[j] > 0) && p->flat++ == 0)
            p->first_flat = j;
        unit[j] = unit[j] > 0 ? unit[j] : 1;
    }
    return HF_OK;
}

hf_status hf_prep_measure(struct hf_prep *p, hf_scale method, uint64_t memory, hf_error *err) {
    enum { LISTS = 9 };
    struct measure m = {.p = p, .err = err, .cols = p->source.cols};
    m.memory = hf_alloc_zero((size_t)m.cols * LISTS * sizeof *m.memory);
    if (m.memory == NULL)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory to measure its columns", p->name);
    double **const lists[LISTS] = {&m.first, &m.low,     &m.high,         &m.sum, &m.lost,
                                   &m.mean,  &m.squares, &m.squares_lost, &m.rest};
    for (int i = 0; i < LISTS; i++)
        *lists[i] = m.memory + (int64_t)i * m.cols;
    const hf_status status = find(&m, method, memory);
    hf_free(m.memory);
    return status;
}
