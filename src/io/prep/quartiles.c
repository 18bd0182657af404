/* SPDX-License-Identifier: Apache-2.0
 * Exact quartiles of columns that are only read in passes: values become integers of the same
 * order, whose digits are found from the highest on by counting, as radix selection does. */
#include "io/prep/prep_rows.h"

#include "base/mem.h"

#include <string.h>

#define BINS 2048 /* of a digit of 11 bits */
#define TARGETS 6 /* each quartile lies between two neighbours */

/* The numbers looked for in one column. */
struct column {
    int64_t rank[TARGETS];    /* among the values that begin with `prefix` */
    uint64_t prefix[TARGETS]; /* digits found so far */
    int group[TARGETS];       /* which counts are those of its prefix */
    int groups;
    uint64_t known[TARGETS]; /* [groups] the prefixes, each once */
};

struct search {
    const struct hf_quartiles *q;
    bool narrow;                      /* float32 holds all values: 32 bits */
    int width, shift;                 /* bits of the digit, bits below it */
    struct column *column;            /* [q->count] */
    int64_t (*counts)[TARGETS][BINS]; /* [q->count] */
};

/* Integers in the order of the values; -0 counts as 0. */
static uint64_t key_of(double v, bool narrow) {
    v += 0.0;
    if (narrow) {
        const float f = (float)v;
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        return u >> 31 ? (uint32_t)~u : u | (uint32_t)1 << 31;
    }
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u >> 63 ? ~u : u | (uint64_t)1 << 63;
}

static double value_of(uint64_t key, bool narrow) {
    if (narrow) {
        const uint32_t u = key >> 31 ? (uint32_t)key ^ (uint32_t)1 << 31 : ~(uint32_t)key;
        float f;
        memcpy(&f, &u, sizeof f);
        return f;
    }
    const uint64_t u = key >> 63 ? key ^ (uint64_t)1 << 63 : ~key;
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static hf_status count_digits(void *job, int64_t first, const double *rows, int64_t count) {
    struct search *s = job;
    (void)first;
    const int64_t cols = s->q->p->source.cols;
    for (int64_t j = 0; j < s->q->count; j++) {
        const struct column *c = &s->column[j];
        const double *at = rows + s->q->column + j;
        for (int64_t i = 0; i < count; i++, at += cols) {
            const uint64_t digits = key_of(*at, s->narrow) >> s->shift;
            const uint64_t prefix = digits >> s->width;
            for (int g = 0; g < c->groups; g++)
                if (prefix == c->known[g])
                    s->counts[j][g][digits & (((uint64_t)1 << s->width) - 1)]++;
        }
    }
    return HF_OK;
}

/* The next digit of each number looked for. */
static void take_digit(const struct search *s, int64_t j) {
    struct column *c = &s->column[j];
    for (int t = 0; t < TARGETS; t++) {
        const int64_t *counts = s->counts[j][c->group[t]];
        uint64_t digit = 0;
        while (c->rank[t] >= counts[digit])
            c->rank[t] -= counts[digit++];
        c->prefix[t] = c->prefix[t] << s->width | digit;
    }
    c->groups = 0;
    for (int t = 0; t < TARGETS; t++) {
        int g = 0;
        while (g < c->groups && c->known[g] != c->prefix[t])
            g++;
        c->known[g] = c->prefix[t];
        c->group[t] = g;
        c->groups += g == c->groups;
    }
}

static hf_status search_digits(struct search *s, hf_error *err) {
    static const int wide[] = {11, 11, 11, 11, 10, 10};
    static const int narrow[] = {11, 11, 10};
    const bool few = s->narrow;
    const int *widths = few ? narrow : wide;
    s->shift = few ? 32 : 64;
    for (int pass = 0; pass < (few ? 3 : 6); pass++) {
        s->width = widths[pass];
        s->shift -= s->width;
        memset(s->counts, 0, (size_t)s->q->count * sizeof *s->counts);
        HF_TRY(hf_prep_each(s->q->p, count_digits, s, err));
        for (int64_t j = 0; j < s->q->count; j++)
            take_digit(s, j);
    }
    return HF_OK;
}

/* Quartile number i, 1 to 3, is at (n - 1) i / 4; between two rows the line that joins them. */
static double between(const struct search *s, const struct column *c, int i) {
    const double low = value_of(c->prefix[2 * i - 2], s->narrow);
    const double high = value_of(c->prefix[2 * i - 1], s->narrow);
    const double part = (double)((s->q->n - 1) % 4 * i % 4) / 4;
    return part < 0.5 ? low + (high - low) * part : high - (high - low) * (1 - part);
}

/* Where the quartiles are among the sorted values: each between two ranks. */
static void begin(struct column *c, int64_t n) {
    c->groups = 1;
    for (int t = 0; t < TARGETS; t++) {
        const int quartile = t / 2 + 1;
        const int64_t below = (n - 1) / 4 * quartile + (n - 1) % 4 * quartile / 4;
        c->rank[t] = below + (t % 2 == 1 && below + 1 < n);
    }
}

static hf_status find(struct search *s, hf_error *err) {
    const struct hf_quartiles *q = s->q;
    if (s->column == NULL || s->counts == NULL)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory to count its values", q->p->name);
    for (int64_t j = 0; j < q->count; j++)
        begin(&s->column[j], q->n);
    HF_TRY(search_digits(s, err));
    for (int64_t j = 0; j < q->count; j++)
        for (int i = 1; i <= 3; i++)
            q->quartiles[3 * j + i - 1] = between(s, &s->column[j], i);
    return HF_OK;
}

hf_status hf_quartiles_find(const struct hf_quartiles *q, hf_error *err) {
    struct search s = {.q = q, .narrow = q->p->source.dtype != HF_F64};
    s.column = hf_alloc_zero((size_t)q->count * sizeof *s.column);
    s.counts = hf_alloc((size_t)q->count * sizeof *s.counts);
    const hf_status status = find(&s, err);
    hf_free(s.counts);
    hf_free(s.column);
    return status;
}
