/* SPDX-License-Identifier: Apache-2.0 */
#include "core/case.h"
#include "ops/means/means.h"
#include <stdio.h>

static const int64_t counts[] = {1, 4, 37, 1030};
static const int64_t widths[] = {1, 5, 16, 31, 32, 33, 100, 130};
static const hf_dtype types[][2] = {
    {HF_F32, HF_F32}, {HF_F64, HF_F64}, {HF_F32, HF_F16}, {HF_F32, HF_BF16}};

/* What is wanted in a case. */
enum wanted { ALL, NEXT, INERTIA, MOVED, WANTED };

/* What varies beside k and d. */
struct kind {
    hf_metric metric;
    const hf_dtype *type;
    int limbs;
    bool weights, empty, mixed, huge; /* mixed: the units of some columns are not known */
    enum wanted wanted;
};

static int64_t *integers(struct hf_rng *rng, struct hf_case *c, int64_t count, double least,
                         double most) {
    int64_t *v = hf_case_alloc(c, (size_t)count * sizeof *v, false);
    for (int64_t i = 0; v && i < count; i++)
        v[i] = (int64_t)(least + hf_rng_next_unit(rng) * (most - least));
    return v;
}

static double *doubles(struct hf_rng *rng, struct hf_case *c, int64_t count, double span) {
    double *v = hf_case_alloc(c, (size_t)count * sizeof *v, false);
    for (int64_t i = 0; v && i < count; i++)
        v[i] = (hf_rng_next_unit(rng) * 2 - 1) * span;
    return v;
}

/* Sums of about ten rows each. */
static void make_sums(struct hf_rng *rng, struct hf_case *c, const struct kind *kind, int64_t k,
                      int64_t d) {
    struct hf_means_args *a = c->args;
    struct hf_sums *s = hf_case_alloc(c, sizeof *s, false);
    double *mult = hf_case_alloc(c, (size_t)d * sizeof *mult, false);
    double *unit = hf_case_alloc(c, (size_t)d * sizeof *unit, false);
    int64_t *count = integers(rng, c, k, 1, 20), *weight = NULL;
    const int64_t cells = (int64_t)kind->limbs * k;
    int64_t *sum = integers(rng, c, cells * d, -0x1p39, 0x1p39);
    if (kind->weights)
        weight = integers(rng, c, cells, 1, 0x1p40);
    if (c->failed)
        return;
    for (int64_t f = 0; f < d; f++) {
        mult[f] = kind->huge ? (f % 2 ? 0x1p-420 : 0x1p420) : (f % 2 ? 0x1p20 : 0x1p23);
        unit[f] = kind->limbs == 1 && !(kind->mixed && f % 3 == 0) ? 1 / mult[f] : 0;
    }
    if (kind->empty) {
        count[k / 2] = 0;
        for (int l = 0; weight && l < kind->limbs; l++)
            weight[l * k + k / 2] = 0;
        for (int64_t i = 0; i < d && k > 4; i++) /* a direction of length 0 */
            for (int l = 0; l < kind->limbs; l++)
                sum[(l * k + 1) * d + i] = 0;
    }
    *s = (struct hf_sums){.k = k,
                          .d = d,
                          .limbs = kind->limbs,
                          .bits = 30,
                          .mult = mult,
                          .weight_mult = 0x1p33,
                          .sum = sum,
                          .count = count,
                          .weight = weight};
    a->sums = s;
    a->rule.unit = unit;
}

static void *make_centers(struct hf_rng *rng, struct hf_case *c, int64_t values, bool out) {
    const struct hf_center_rule *rule = &((struct hf_means_args *)c->args)->rule;
    void *v = hf_case_alloc(c, (size_t)values * (rule->type == HF_F64 ? 8 : 4), out);
    for (int64_t i = 0; v && i < values; i++)
        hf_center_store(rule, v, i, hf_rng_next_unit(rng) * 200 - 100);
    return v;
}

static void make_args(struct hf_rng *rng, struct hf_case *c, const struct kind *kind, int64_t k,
                      int64_t d) {
    struct hf_means_args *a = c->args;
    const enum wanted w = kind->wanted;
    a->rule = (struct hf_center_rule){
        .metric = kind->metric, .type = kind->type[0], .store = kind->type[1]};
    a->rule.shift = doubles(rng, c, d, kind->metric == HF_EUCLIDEAN ? 4 : 0);
    a->now = make_centers(rng, c, k * d, false);
    make_sums(rng, c, kind, k, d);
    a->total_square = kind->empty ? 0x1p60 : 1;
    a->given = w == MOVED;
    a->next = w == INERTIA ? NULL : make_centers(rng, c, k * d, !a->given);
    if (w == ALL || w == MOVED) {
        a->moved = hf_case_alloc(c, (size_t)k * sizeof(double), true);
        a->shift = hf_case_alloc(c, sizeof(double), true);
    }
    if (w == ALL || w == INERTIA)
        a->inertia = hf_case_alloc(c, sizeof(double), true);
}

#define COUNT(list) ((int64_t)(sizeof(list) / sizeof *(list)))

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    if (id >= COUNT(widths) * 24)
        return false;
    const int64_t d = widths[id % COUNT(widths)], at = id / COUNT(widths);
    const int64_t k = counts[(id + at) % COUNT(counts)];
    const struct kind kind = {.metric = (hf_metric)(at % 3),
                              .type = types[(id / 2 + at / 3) % COUNT(types)],
                              .limbs = 1 + (int)(at / 6 % 2),
                              .weights = at / 3 % 2 == 1,
                              .empty = (id + at / 12) % 2 == 1,
                              .mixed = at % 5 == 4,
                              .huge = at % 7 == 6,
                              .wanted = at % 4 < 2 ? ALL : (enum wanted)(id % WANTED)};
    make_args(rng, c, &kind, k, d);
    (void)snprintf(c->name, sizeof c->name, "k=%d d=%d metric=%d %s limbs=%d%s%s%s wanted=%d",
                   (int)k, (int)d, (int)kind.metric, hf_dtype_name(kind.type[1]), kind.limbs,
                   kind.weights ? " weights" : "", kind.empty ? " empty" : "",
                   kind.mixed ? " mixed" : "", (int)kind.wanted);
    return !c->failed;
}

/* The end of an iteration of a fit. */
static bool make_bench(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c) {
    const hf_dtype type = bench->key.dtype[0];
    const hf_dtype both[2] = {type, type};
    const struct kind kind = {.type = both, .limbs = 1};
    if (type != HF_F32 && type != HF_F64)
        return false;
    make_args(rng, c, &kind, bench->key.dim[0], bench->key.dim[1]);
    return !c->failed;
}

const struct hf_op_cases hf_means_cases = {
    .make_case = make_case,
    .make_bench = make_bench,
    .data = {"normal"},
    .example = {{HF_F32}, {256, 64}, 0},
};
