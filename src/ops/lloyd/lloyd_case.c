/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"
#include "ops/cases/data_case.h"
#include "ops/lloyd/lloyd.h"
#include "ops/reference.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    METRIC = 30,
    WEIGHTS,
    LIMBS,
    BATCH,
    EMPTY,
    STORE,
    TOL,
    ROSE,
    COUNT,
    SETTLE,
    BOOK,
    TILES
}; /* hf_data_pick() */

#define MOST_WORK 20000000 /* n k d, so that the reference ends soon */

static double value_at(const hf_array *x, int64_t i, int64_t j) {
    return hf_load_f64(hf_array_row(x, i), x->dtype, j);
}

/* What prepare.c of k-means finds out about the data; one shift for all problems. */
static bool describe(struct hf_case *c, struct hf_lloyd_args *a, double max_weight) {
    const int64_t d = a->x.cols;
    const int64_t n = a->x.rows / a->batch;
    assert(n > 0);
    const bool euclidean = a->rule.metric == HF_EUCLIDEAN;
    double *shift = hf_case_alloc(c, (size_t)d * sizeof *shift, false);
    double *square = hf_case_alloc(c, (size_t)a->batch * sizeof *square, false);
    if (!shift || !square)
        return false;
    double most = 0;
    for (int64_t j = 0; j < d; j++) {
        for (int64_t i = 0; euclidean && i < a->x.rows; i++)
            shift[j] += value_at(&a->x, i, j) / (double)a->x.rows;
        for (int64_t i = 0; i < a->x.rows; i++) {
            const double off = value_at(&a->x, i, j) - shift[j];
            most = fmax(most, fabs(off));
            square[i / n] += off * off * max_weight;
        }
    }
    a->filter.shift = euclidean ? shift : NULL;
    a->filter.scale = most > 0 ? ldexp(1, -ilogb(most) - 1) : 1;
    a->rule.shift = shift;
    a->total_square = square;
    return true;
}

static void make_scales(struct hf_case *c, struct hf_lloyd_args *a, double max_weight) {
    const int64_t d = a->x.cols;
    struct hf_sums *s = a->sums;
    double *mult = hf_case_alloc(c, (size_t)(a->batch * d) * sizeof *mult, false);
    double *unit = hf_case_alloc(c, (size_t)(a->batch * d) * sizeof *unit, false);
    double *weight_mult = hf_case_alloc(c, (size_t)a->batch * sizeof *weight_mult, false);
    if (!mult || !unit || !weight_mult)
        return;
    for (int64_t j = 0; j < a->batch * d; j++) {
        const double bound = a->rule.metric == HF_COSINE ? 2 : hf_data_max_abs(&a->x, j % d);
        mult[j] = hf_fixed_mult(s->bits, hf_fixed_exponent(bound * max_weight) + (int)(j / d));
        const bool plain = s->limbs == 1 && mult[j] < 0x1p900 && mult[j] > 0x1p-900;
        unit[j] = plain ? 1 / mult[j] : 0;
    }
    for (int64_t p = 0; p < a->batch; p++)
        weight_mult[p] = hf_fixed_mult(s->bits, hf_fixed_exponent(max_weight));
    s->mult = mult;
    s->weight_mult = weight_mult[0];
    a->rule.unit = unit;
    a->weight_mult = weight_mult;
}

/* Everything that starts at 0: sums, and the outputs. The last two are compared as a whole only in
 * part, so they come first. */
static void make_outputs(struct hf_case *c, struct hf_lloyd_args *a, int64_t k) {
    struct hf_sums *s = a->sums;
    const size_t values = (size_t)(a->batch * k * a->x.cols);
    const size_t center = hf_dtype_bytes(a->rule.type);
    a->history = hf_case_alloc(c, (size_t)(a->batch * a->count) * sizeof *a->history, true);
    a->previous = hf_case_alloc(c, values * center, true);
    a->state = hf_case_alloc(c, (size_t)a->batch * sizeof *a->state, true);
    a->labels = hf_case_alloc(c, (size_t)a->x.rows * sizeof *a->labels, true);
    s->sum = hf_case_alloc(c, values * (size_t)s->limbs * sizeof *s->sum, true);
    s->count = hf_case_alloc(c, (size_t)(a->batch * k) * sizeof *s->count, true);
    if (a->weights)
        s->weight = hf_case_alloc(c, (size_t)(a->batch * s->limbs * k) * sizeof *s->weight, true);
    for (int64_t i = 0; a->labels && i < a->x.rows; i++)
        a->labels[i] = -1;
    void *current = hf_case_alloc(c, values * center, true);
    if (current)
        memcpy(current, a->current, values * center);
    a->current = current;
}

static double factor_of(const struct hf_lloyd_args *a, int64_t i) {
    const double weight = a->weights ? a->weights[i] : 1;
    double sum = 0;
    for (int64_t j = 0; a->rule.metric == HF_COSINE && j < a->x.cols; j++)
        sum += value_at(&a->x, i, j) * value_at(&a->x, i, j);
    return a->rule.metric != HF_COSINE ? weight : sum > 0 ? weight / sqrt(sum) : 0;
}

/* The word of a row, as op rowhash makes it. */
static uint64_t word_of(const struct hf_lloyd_args *a, const uint64_t *factor, int64_t i) {
    const struct hf_sums *s = a->sums;
    const double times = factor_of(a, i);
    uint64_t word = 0;
    for (int64_t j = 0; j <= s->d; j++) {
        int64_t limb[HF_MAX_LIMBS];
        if (j == s->d && !s->weight)
            break;
        if (j < s->d)
            hf_fixed_limbs(value_at(&a->x, i, j) * times, s->mult[j], s->bits, limb);
        else
            hf_fixed_limbs(a->weights[i], a->weight_mult[0], s->bits, limb);
        for (int l = 0; l < s->limbs; l++)
            word += factor[l * (s->d + 1) + j] * (uint64_t)limb[l];
    }
    return word;
}

static uint64_t sign_of(const void *data, size_t bytes) {
    const uint32_t *words = data;
    uint64_t sign = 0;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        sign += (uint64_t)words[i] * (((uint32_t)i * UINT32_C(2654435769)) | 1);
    return sign;
}

/* A book in which no row is in a cluster yet, as in the sums. */
static void make_book(struct hf_rng *rng, struct hf_case *c, struct hf_lloyd_args *a) {
    const size_t n = (size_t)a->x.rows;
    const size_t k = (size_t)a->sums->k;
    const int64_t factors = a->sums->limbs * (a->sums->d + 1);
    struct hf_lloyd_book *b = hf_case_alloc(c, sizeof *b, false);
    uint64_t *factor = hf_case_alloc(c, (size_t)factors * sizeof *factor, false);
    uint64_t *hash = hf_case_alloc(c, n * sizeof *hash, false);
    int32_t *labels = hf_case_alloc(c, n * sizeof *labels, true);
    uint64_t *word = hf_case_alloc(c, k * sizeof *word, true);
    int64_t *count = hf_case_alloc(c, k * sizeof *count, true);
    uint64_t *sign = hf_case_alloc(c, 2 * sizeof *sign, true);
    uint64_t *packed = hf_case_alloc(c, sizeof *packed, true);
    if (c->failed)
        return;
    for (int64_t i = 0; i < factors; i++)
        factor[i] = hf_rng_next(rng) | 1;
    for (int64_t i = 0; i < a->x.rows; i++) {
        hash[i] = word_of(a, factor, i);
        labels[i] = -1;
    }
    *b = (struct hf_lloyd_book){
        .hash = hash, .factor = factor, .labels = labels, .word = word, .count = count};
    b->sign = sign;
    b->packed = packed;
    sign[0] = sign_of(a->current, k * (size_t)a->sums->d * hf_dtype_bytes(a->rule.type));
    a->book = b;
}

static void make_limits(struct hf_case *c, struct hf_lloyd_args *a, int64_t id) {
    double *tol = hf_case_alloc(c, (size_t)a->batch * sizeof *tol, false);
    double *slack = hf_case_alloc(c, (size_t)a->batch * sizeof *slack, false);
    for (int64_t p = 0; tol && slack && p < a->batch; p++) {
        const double mean = a->total_square[p] / (double)(a->x.rows / a->batch);
        tol[p] = hf_data_pick(id, TOL, 3) ? mean * pow(10, -1 - (double)p) : -1;
        slack[p] = hf_data_pick(id, ROSE, 8) ? a->total_square[p] * 1e-3 + 1e-300
                                             : -a->total_square[p] * 0.75;
    }
    a->tol = tol;
    a->slack = slack;
}

/* Shapes of the streaming ops, cut to several problems where the rows allow it. */
static bool take_shape(int64_t id, struct hf_data_shape *shape, int64_t *batch) {
    if (!hf_data_case(id, shape))
        return false;
    while (shape->n * shape->k * shape->d > MOST_WORK && shape->k > 1)
        shape->k /= 2;
    *batch = 1 + hf_data_pick(id, BATCH, 4);
    while (shape->n % *batch != 0)
        --*batch;
    return true;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const hf_empty policies[] = {HF_EMPTY_KEEP, HF_EMPTY_KEEP, HF_EMPTY_RELOCATE,
                                        HF_EMPTY_SPLIT};
    struct hf_lloyd_args *a = c->args;
    struct hf_data_shape shape;
    if (!take_shape(id, &shape, &a->batch))
        return false;
    const int64_t k = shape.k;
    a->rule.metric = (hf_metric)hf_data_pick(id, METRIC, 3);
    a->rule.type = shape.dtype == HF_F64 ? HF_F64 : HF_F32;
    a->rule.store = hf_data_pick(id, STORE, 2) ? shape.dtype : a->rule.type;
    a->exact = true;
    a->empty = policies[hf_data_pick(id, EMPTY, 4)];
    a->count = 1 + (int)hf_data_pick(id, COUNT, 9);
    a->settle = hf_data_pick(id, SETTLE, 3) == 0;
    a->x = hf_data_rows(rng, c, &shape);
    const bool weighted = hf_data_pick(id, WEIGHTS, 3) == 1;
    a->weights = weighted ? hf_data_weights(rng, c, shape.n) : NULL;
    shape.k = k * a->batch;
    a->current = hf_data_centroids(rng, c, &shape, &a->x, a->rule.type).data;
    struct hf_sums *s = hf_case_alloc(c, sizeof *s, false);
    if (c->failed)
        return true;
    double max_weight = 1;
    for (int64_t i = 0; a->weights && i < shape.n; i++)
        max_weight = fmax(max_weight, a->weights[i]);
    *s = (struct hf_sums){.k = k,
                          .d = shape.d,
                          .limbs = 1 + (int)hf_data_pick(id, LIMBS, 2),
                          .bits = hf_fixed_bits(shape.n) - (int)a->batch};
    a->sums = s;
    make_scales(c, a, max_weight);
    if (describe(c, a, max_weight))
        make_limits(c, a, id);
    if (!c->failed)
        make_outputs(c, a, k);
    const bool book = a->batch == 1 && hf_data_pick(id, BOOK, 2) == 1;
    const bool tiles = a->batch == 1 && !book && hf_data_pick(id, TILES, 2) == 1;
    a->checks_tiles = a->sums_twice = tiles;
    a->settle = a->settle && !book && !tiles;
    if (book && !c->failed)
        make_book(rng, c, a);
    shape.k = k;
    hf_data_name(c, &shape, " batch=%d metric=%d empty=%d it=%d limbs=%d%s%s%s%s", (int)a->batch,
                 (int)a->rule.metric, (int)a->empty, a->count, s->limbs, weighted ? " weights" : "",
                 a->settle ? " settle" : "", book ? " book" : "", tiles ? " tiles" : "");
    return true;
}

/* What decided the rows depends on the kernel; entries beyond the last are not written. */
struct history {
    const hf_kmeans_iteration *ref, *got; /* of problem `problem` */
    int64_t problem;
    const struct hf_lloyd_state *state;
};

static bool same_history(const struct history *h, char *why, size_t why_bytes) {
    const int made = h->state->iterations + (h->state->stop >= HF_LLOYD_EMPTY);
    for (int i = 0; i < made; i++) {
        const hf_kmeans_iteration *r = &h->ref[i];
        const hf_kmeans_iteration *g = &h->got[i];
        const bool same = r->inertia == g->inertia && r->shift == g->shift &&
                          r->changed == g->changed && r->empty == g->empty;
        if (same)
            continue;
        (void)snprintf(why, why_bytes,
                       "problem %d, iteration %d: inertia %.17g shift %.17g changed %lld empty "
                       "%lld, not %.17g %.17g %lld %lld",
                       (int)h->problem, i + 1, g->inertia, g->shift, (long long)g->changed,
                       (long long)g->empty, r->inertia, r->shift, (long long)r->changed,
                       (long long)r->empty);
        return false;
    }
    return true;
}

static bool same_bytes(const char *what, const void *ref, const void *got, size_t bytes, char *why,
                       size_t why_bytes) {
    if (memcmp(ref, got, bytes) == 0)
        return true;
    size_t at = 0;
    while (((const char *)ref)[at] == ((const char *)got)[at])
        at++;
    (void)snprintf(why, why_bytes, "%s differ at byte %zu of %zu", what, at, bytes);
    return false;
}

/* The out buffers of make_book(). */
static bool same_book(const struct hf_lloyd_args *a, void *const *ref, void *const *got, char *why,
                      size_t why_bytes) {
    const size_t words = (size_t)a->sums->k * sizeof(uint64_t);
    return same_bytes("booked labels", ref[0], got[0], (size_t)a->x.rows * 4, why, why_bytes) &&
           same_bytes("booked words", ref[1], got[1], words, why, why_bytes) &&
           same_bytes("booked counts", ref[2], got[2], words, why, why_bytes) &&
           same_bytes("signatures", ref[3], got[3], 2 * sizeof(uint64_t), why, why_bytes);
}

static bool compare(const void *args, void *const *ref, void *const *got, char *why,
                    size_t why_bytes) {
    const struct hf_lloyd_args *a = args;
    const struct hf_sums *s = a->sums;
    const size_t centers = (size_t)(a->batch * s->k * s->d) * hf_dtype_bytes(a->rule.type);
    const struct hf_lloyd_state *state = ref[2];
    const struct hf_lloyd_state *states = got[2];
    for (int64_t p = 0; p < a->batch; p++) {
        if (state[p].stop != states[p].stop || state[p].iterations != states[p].iterations) {
            (void)snprintf(why, why_bytes, "problem %d: %d iterations, stop %d, not %d, %d", (int)p,
                           states[p].iterations, states[p].stop, state[p].iterations,
                           state[p].stop);
            return false;
        }
        const struct history h = {(const hf_kmeans_iteration *)ref[0] + p * a->count,
                                  (const hf_kmeans_iteration *)got[0] + p * a->count, p, &state[p]};
        if (!same_history(&h, why, why_bytes))
            return false;
    }
    const bool moved = a->book || state->stop == HF_STOP_NONE || state->stop == HF_STOP_TOL;
    const int last = s->weight ? 7 : 6;
    const size_t sums = (size_t)(a->batch * s->limbs * s->k) * sizeof(int64_t);
    return same_bytes("states", ref[2], got[2], (size_t)a->batch * sizeof *state, why, why_bytes) &&
           same_bytes("labels", ref[3], got[3], (size_t)a->x.rows * 4, why, why_bytes) &&
           same_bytes("sums", ref[4], got[4], sums * (size_t)s->d, why, why_bytes) &&
           same_bytes("counts", ref[5], got[5], (size_t)(a->batch * s->k) * 8, why, why_bytes) &&
           (!s->weight || same_bytes("weights", ref[6], got[6], sums, why, why_bytes)) &&
           same_bytes("centroids", ref[last], got[last], centers, why, why_bytes) &&
           (!a->book || same_book(a, ref + last + 1, got + last + 1, why, why_bytes)) &&
           (a->batch > 1 || !moved ||
            same_bytes("previous centroids", ref[1], got[1], centers, why, why_bytes));
}

const struct hf_op_cases hf_lloyd_cases = {
    .make_case = make_case,
    .compare = compare,
};
