/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"
#include "ops/audit/audit.h"
#include "ops/cases/data_case.h"

enum { METRIC = 40, PARTS, MOVES, OUTSIDE, WRONG, LIMBS, WEIGHTS, NEAR }; /* hf_data_pick() */

/* Labels of the book, and new ones of which some differ: all, some, few or none. */
static void make_labels(struct hf_rng *rng, struct hf_case *c, int64_t id,
                        struct hf_audit_args *a) {
    static const int64_t each[] = {1, 3, 50, INT64_MAX};
    const int64_t part = each[hf_data_pick(id, MOVES, 4)];
    int32_t *labels = hf_data_labels(rng, c, a->n, a->k, false);
    int32_t *booked = hf_case_alloc(c, (size_t)a->n * sizeof *booked, true);
    if (c->failed)
        return;
    for (int64_t i = 0; i < a->n; i++) {
        booked[i] = labels[i];
        if (part == 1 || hf_rng_next(rng) % (uint64_t)part == 0)
            booked[i] = (int32_t)(hf_rng_next(rng) % ((uint64_t)a->k + 1)) - 1;
    }
    for (int64_t i = 0; hf_data_pick(id, OUTSIDE, 4) == 0 && i < a->n; i += 37)
        labels[i] = i % 2 ? (int32_t)a->k : -1 - (int32_t)i;
    a->labels = labels;
    a->booked = booked;
}

static uint64_t *make_words(struct hf_rng *rng, struct hf_case *c, int64_t count, uint64_t least,
                            bool out) {
    uint64_t *word = hf_case_alloc(c, (size_t)count * sizeof *word, out);
    for (int64_t i = 0; word && i < count; i++)
        word[i] = hf_rng_next(rng) | least;
    return word;
}

/* Sums that agree with the book but, in some cases, for one cluster. Nothing may move then. */
static void make_sums(struct hf_rng *rng, struct hf_case *c, int64_t id, struct hf_audit_args *a,
                      int64_t d) {
    const int limbs = 1 + (int)hf_data_pick(id, LIMBS, 2);
    struct hf_sums *s = hf_case_alloc(c, sizeof *s, false);
    int64_t *sum = (int64_t *)make_words(rng, c, limbs * a->k * d, 0, false);
    int64_t *count = hf_case_alloc(c, (size_t)a->k * sizeof *count, false);
    int64_t *weight =
        hf_data_pick(id, WEIGHTS, 2) ? (int64_t *)make_words(rng, c, limbs * a->k, 0, false) : NULL;
    a->factor = make_words(rng, c, limbs * (d + 1), 1, false);
    if (c->failed || !s || !sum || !count || !a->factor)
        return;
    *s =
        (struct hf_sums){.k = a->k, .d = d, .limbs = limbs, .bits = 40, .sum = sum, .count = count};
    s->weight = weight;
    a->sums = s;
    for (int64_t j = 0; j < a->k; j++) {
        count[j] = a->rows[j];
        a->word[j] = hf_audit_word(a, j);
    }
    const int64_t wrong = (int64_t)(hf_rng_next(rng) % (uint64_t)a->k);
    if (hf_data_pick(id, WRONG, 3) == 1)
        sum[(limbs * a->k - 1 - wrong) * d] ^= INT64_C(1) << 40;
    else if (hf_data_pick(id, WRONG, 3) == 2)
        count[wrong] ^= 8;
}

/* The words and sizes that the book begins with; labels that are compared with sums stay. */
static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    struct hf_audit_args *a = c->args;
    struct hf_data_shape shape;
    if (!hf_data_case(id, &shape))
        return false;
    const int64_t parts = hf_data_pick(id, PARTS, 4); /* book, with moves, sums, words */
    a->n = shape.n;
    a->k = shape.k;
    a->metric = (hf_metric)hf_data_pick(id, METRIC, 3);
    a->found = hf_case_alloc(c, sizeof *a->found, true);
    if (parts < 2) {
        make_labels(rng, c, id, a);
        a->hash = make_words(rng, c, a->n, 0, false);
    }
    if (parts < 3) {
        a->word = make_words(rng, c, a->k, 0, true);
        a->rows = (int64_t *)make_words(rng, c, a->k, 0, true);
    }
    if (parts == 1) {
        a->x = hf_data_rows(rng, c, &shape);
        if (!c->failed)
            a->c =
                hf_data_centroids(rng, c, &shape, &a->x, shape.dtype == HF_F64 ? HF_F64 : HF_F32);
    }
    if (parts == 2 && !c->failed)
        make_sums(rng, c, id, a, shape.d);
    if (parts == 3) {
        a->words = (const uint32_t *)make_words(rng, c, a->n, 0, false);
        a->n_words = 2 * a->n - 1;
    }
    hf_data_name(c, &shape, " metric=%d %s", (int)a->metric,
                 parts == 0   ? "book"
                 : parts == 1 ? "moves"
                 : parts == 2 ? "sums"
                              : "words");
    return true;
}

const struct hf_op_cases hf_audit_cases = {.make_case = make_case};
