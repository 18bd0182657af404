/* SPDX-License-Identifier: Apache-2.0
 * Initialisation as its description has it, and nothing else: no filter, no lists, no blocks, no
 * bounds. For test_init.c. */
#ifndef HF_TEST_NAIVE_INIT_H
#define HF_TEST_NAIVE_INIT_H

#include "unit.h"

#include "algo/kmeans/init/init.h"
#include "algo/kmeans/init/init_state.h"
#include "base/fixed.h"
#include "base/rng.h"
#include "ops/reference.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* A problem: data of some type, and the same as float64. */
struct problem {
    int64_t n, d;
    hf_dtype dtype;
    void *data;      /* [n, d] */
    double *x;       /* [n, d] */
    double *weights; /* [n] or NULL */
    double *shift;   /* [d] */
    struct hf_filter filter;
};

static void *need(size_t bytes) {
    void *p = calloc(1, bytes + 1);
    assert_non_null(p);
    return p;
}

struct naive {
    const struct problem *p;
    const double *x, *weights;
    int64_t n, d, k, count;
    hf_metric metric;
    uint64_t seed, restart;
    int nested;
    double *nearest;
    int64_t *label;
    int64_t *chosen;
    double unit, limit;
};

static struct naive naive_new(const double *x, const double *weights, int64_t n, int64_t d,
                              const struct hf_init_args *a, int nested) {
    struct naive s = {.x = x, .weights = weights, .n = n, .d = d, .k = a->k};
    s.metric = a->metric;
    s.seed = a->seed;
    s.restart = (uint64_t)a->restart;
    s.nested = nested;
    s.nearest = need((size_t)n * sizeof(double));
    s.label = need((size_t)n * sizeof(int64_t));
    s.chosen = need((size_t)a->k * sizeof(int64_t));
    return s;
}

static void naive_free(struct naive *s) {
    free(s->nearest);
    free(s->label);
    free(s->chosen);
}

static double naive_weight(const struct naive *s, int64_t i) {
    return s->weights ? s->weights[i] : 1;
}

static uint64_t naive_stream(const struct naive *s, int use) {
    return ((uint64_t)0x494e4954 << 32) + s->restart * 32 + (uint64_t)(use + s->nested);
}

static double naive_distance(const struct naive *s, int64_t i, int64_t j) {
    const hf_metric metric = s->metric == HF_COSINE ? HF_COSINE : HF_EUCLIDEAN;
    const double v = hf_reference_distance(metric, s->x + i * s->d, s->x + j * s->d, s->d);
    return v < 0 ? 0 : v;
}

static uint64_t naive_q(const struct naive *s, int64_t i, double v) {
    const double w = naive_weight(s, i);
    return w == 0 ? 0 : (uint64_t)fmin(rint(w * v * s->unit), s->limit);
}

static uint64_t naive_total(const struct naive *s) {
    uint64_t total = 0;
    for (int64_t i = 0; i < s->n; i++)
        total += naive_q(s, i, s->nearest[i]);
    return total;
}

static void naive_scale(struct naive *s, bool always) {
    if (!always && (double)naive_total(s) >= s->limit / 256)
        return;
    double most = 0;
    for (int64_t i = 0; i < s->n; i++)
        if (naive_weight(s, i) > 0)
            most = fmax(most, naive_weight(s, i) * s->nearest[i]);
    s->unit = hf_fixed_mult(hf_fixed_bits(s->n), hf_fixed_exponent(fmin(most, DBL_MAX)));
    s->limit = ldexp(1, hf_fixed_bits(s->n));
}

static void naive_commit(struct naive *s, int64_t row, int64_t label) {
    for (int64_t i = 0; i < s->n; i++) {
        const double v = naive_distance(s, i, row);
        if (v < s->nearest[i]) {
            s->nearest[i] = v;
            s->label[i] = label;
        }
    }
}

/* First row whose running sum of q passes target. */
static int64_t naive_locate(const struct naive *s, uint64_t target) {
    for (int64_t i = 0; i < s->n; i++) {
        const uint64_t q = naive_q(s, i, s->nearest[i]);
        if (target < q)
            return i;
        target -= q;
    }
    fail();
    return 0;
}

static void naive_first(struct naive *s) {
    const uint64_t stream = naive_stream(s, HF_DRAW_FIRST);
    if (s->weights) {
        double most = 0;
        for (int64_t i = 0; i < s->n; i++) {
            s->nearest[i] = 1;
            most = fmax(most, s->weights[i]);
        }
        s->unit = hf_fixed_mult(hf_fixed_bits(s->n), hf_fixed_exponent(most));
        s->limit = ldexp(1, hf_fixed_bits(s->n));
        s->chosen[0] = naive_locate(s, hf_rng_below(s->seed, stream, 0, naive_total(s)));
    } else {
        s->chosen[0] = (int64_t)hf_rng_below(s->seed, stream, 0, (uint64_t)s->n);
    }
    for (int64_t i = 0; i < s->n; i++)
        s->nearest[i] = INFINITY;
    naive_commit(s, s->chosen[0], 0);
    s->nearest[s->chosen[0]] = 0;
    s->count = 1;
    naive_scale(s, true);
}

static uint64_t naive_gain(const struct naive *s, int64_t row) {
    uint64_t gain = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const double v = naive_distance(s, i, row);
        if (v < s->nearest[i])
            gain += naive_q(s, i, s->nearest[i]) - naive_q(s, i, v);
    }
    return gain;
}

static void naive_greedy(struct naive *s) {
    const int trials = 2 + (int)floor(log((double)s->k));
    for (uint64_t total; s->count < s->k && (total = naive_total(s)) > 0; s->count++) {
        int64_t best = -1;
        uint64_t best_gain = 0;
        for (int l = 0; l < trials; l++) {
            const uint64_t counter = (uint64_t)(s->count * trials + l);
            const uint64_t stream = naive_stream(s, HF_DRAW_TRIAL);
            const int64_t row = naive_locate(s, hf_rng_below(s->seed, stream, counter, total));
            const uint64_t gain = naive_gain(s, row);
            if (best < 0 || gain > best_gain) {
                best = row;
                best_gain = gain;
            }
        }
        naive_commit(s, best, s->count);
        s->nearest[best] = 0;
        naive_scale(s, false);
        s->chosen[s->count] = best;
    }
}

static void naive_rest(struct naive *s) {
    for (int zero = 0; zero < 2; zero++) {
        for (int64_t i = 0; i < s->n && s->count < s->k; i++) {
            const uint64_t stream = naive_stream(s, HF_DRAW_REST);
            const int64_t row =
                (int64_t)hf_rng_permute(s->seed, stream, (uint64_t)s->n, (uint64_t)i);
            bool taken = (naive_weight(s, row) == 0) != zero;
            for (int64_t t = 0; t < s->count; t++)
                taken = taken || s->chosen[t] == row;
            if (!taken)
                s->chosen[s->count++] = row;
        }
    }
}

__extension__ typedef unsigned __int128 wide;

/* One round of k-means||: rows[*count..] get the new candidates. */
static void naive_round(struct naive *s, int round, int64_t *rows, int64_t *count) {
    const uint64_t total = naive_total(s);
    const int64_t before = *count;
    for (int64_t i = 0; i < s->n; i++) {
        const wide chance = (wide)naive_q(s, i, s->nearest[i]) * (wide)(s->k - s->k / 4);
        const uint64_t bits =
            hf_rng_bits(s->seed, naive_stream(s, HF_DRAW_ACCEPT + round), (uint64_t)i);
        if (chance >= total ? chance > 0 : (wide)bits * total < chance << 64)
            rows[(*count)++] = i;
    }
    for (int64_t l = before; l < *count; l++)
        naive_commit(s, rows[l], l);
    for (int64_t l = before; l < *count; l++)
        s->nearest[rows[l]] = 0;
    naive_scale(s, false);
}

static void naive_parallel(struct naive *s, const struct hf_init_args *a) {
    int64_t *rows = need((size_t)(s->n * 6) * sizeof *rows);
    int64_t count = 1;
    rows[0] = s->chosen[0];
    for (int round = 0; round < 5 && naive_total(s) > 0; round++)
        naive_round(s, round, rows, &count);
    if (count < s->k) {
        memcpy(s->chosen, rows, (size_t)count * sizeof *rows);
        s->count = count;
        free(rows);
        return;
    }
    double *x = need((size_t)(count * s->d) * sizeof *x);
    double *w = need((size_t)count * sizeof *w);
    for (int64_t l = 0; l < count; l++)
        memcpy(x + l * s->d, s->x + rows[l] * s->d, (size_t)s->d * sizeof *x);
    for (int64_t i = 0; i < s->n; i++)
        w[s->label[i]] += naive_weight(s, i);
    struct naive in = naive_new(x, w, count, s->d, a, HF_DRAW_NESTED);
    naive_first(&in);
    naive_greedy(&in);
    s->count = in.count;
    for (int64_t t = 0; t < in.count; t++)
        s->chosen[t] = rows[in.chosen[t]];
    naive_free(&in);
    free(x);
    free(w);
    free(rows);
}

/* k-means++ or k-means|| on the rows as they are. */
static void naive_seeds(struct naive *s, const struct hf_init_args *a) {
    naive_first(s);
    if (a->init == HF_INIT_KMEANS_PARALLEL)
        naive_parallel(s, a);
    naive_greedy(s);
}

/* Draw `count` rows with chances in proportion to v [n]; returns the sum of v on its scale. */
static double naive_draws(const struct naive *s, const double *v, int half, int64_t count,
                          int64_t *rows) {
    double most = 0;
    for (int64_t i = 0; i < s->n; i++)
        most = fmax(most, v[i]);
    const double unit = hf_fixed_mult(hf_fixed_bits(s->n), hf_fixed_exponent(most));
    uint64_t total = 0;
    for (int64_t i = 0; i < s->n; i++)
        total += (uint64_t)rint(v[i] * unit);
    for (int64_t j = 0; j < count; j++) {
        const uint64_t stream = naive_stream(s, HF_DRAW_CORE) + (uint64_t)half;
        const wide u = (wide)hf_rng_bits(s->seed, stream, (uint64_t)j) * total >> 64;
        uint64_t target = (uint64_t)(((wide)j * total + u) / (wide)count);
        int64_t i = 0;
        for (uint64_t q; target >= (q = (uint64_t)rint(v[i] * unit)); i++)
            target -= q;
        rows[j] = i;
    }
    return (double)total / unit;
}

/* The same from a core of `size` weighted rows. */
static void naive_core(struct naive *s, const struct hf_init_args *a, int64_t size) {
    int64_t *rows = need((size_t)size * sizeof *rows);
    double *x = need((size_t)(size * s->d) * sizeof *x);
    double *w = need((size_t)size * sizeof *w);
    double *v = need((size_t)s->n * sizeof *v);
    naive_first(s);
    for (int64_t i = 0; i < s->n; i++) {
        s->nearest[i] = naive_distance(s, i, s->chosen[0]);
        v[i] = naive_weight(s, i);
    }
    const double weight = naive_draws(s, v, 0, size / 2, rows);
    for (int64_t i = 0; i < s->n; i++)
        v[i] = naive_weight(s, i) * s->nearest[i];
    const double spread = naive_draws(s, v, 1, size / 2, rows + size / 2);
    for (int64_t l = 0; l < size; l++) {
        memcpy(x + l * s->d, s->x + rows[l] * s->d, (size_t)s->d * sizeof *x);
        w[l] = 2 / ((double)size * (1 / weight + s->nearest[rows[l]] / spread));
    }
    struct naive in = naive_new(x, w, size, s->d, a, 0);
    naive_seeds(&in, a);
    s->count = in.count;
    for (int64_t t = 0; t < in.count; t++)
        s->chosen[t] = rows[in.chosen[t]];
    naive_free(&in);
    free(rows);
    free(x);
    free(w);
    free(v);
    if (s->count == s->k)
        return;
    for (int64_t i = 0; i < s->n; i++)
        s->nearest[i] = INFINITY;
    for (int64_t t = 0; t < s->count; t++)
        naive_commit(s, s->chosen[t], t);
    for (int64_t t = 0; t < s->count; t++)
        s->nearest[s->chosen[t]] = 0;
    naive_scale(s, true);
    naive_greedy(s);
}

/* centroids [k, d] */
static double *naive_init(const struct problem *p, const struct hf_init_args *a) {
    struct naive s = naive_new(p->x, p->weights, p->n, p->d, a, 0);
    const int64_t core = hf_init_core_rows(p->n, p->d, a->k, p->dtype);
    if (a->init != HF_INIT_RANDOM && core > 0)
        naive_core(&s, a, core);
    else if (a->init != HF_INIT_RANDOM)
        naive_seeds(&s, a);
    naive_rest(&s);
    double *c = need((size_t)(a->k * p->d) * sizeof *c);
    for (int64_t t = 0; t < a->k; t++)
        memcpy(c + t * p->d, p->x + s.chosen[t] * p->d, (size_t)p->d * sizeof *c);
    naive_free(&s);
    return c;
}

#endif
