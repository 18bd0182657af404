/* SPDX-License-Identifier: Apache-2.0
 * Cases of seed: the state of a k-means++ run half way, on friendly and on nasty data. */
#include "base/dtype.h"
#include "base/fixed.h"
#include "core/case.h"
#include "ops/cases/data_case.h"
#include "ops/reference.h"
#include "ops/seed/seed.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum seed_data { BLOBS, TIES, OFFSET, BAD_SCALE, TINY, HUGE_VALUES, ZERO_ROWS, DATA_COUNT };

static const char *const data_names[DATA_COUNT] = {"blobs", "ties",        "offset", "bad scale",
                                                   "tiny",  "huge values", "zeros"};

struct plan {
    hf_dtype dtype;
    enum seed_data data;
    int64_t n, d, l, centres;
    bool commit;
};

static int64_t below(struct hf_rng *rng, int64_t n) {
    return (int64_t)(hf_rng_next(rng) % (uint64_t)n);
}

/* Bytes hold no negative numbers, and small ones are all alike. */
static void store(void *data, hf_dtype dtype, int64_t i, double v) {
    hf_store_f64(data, dtype, i, dtype == HF_U8 ? fmin(fabs(v) * 40, 255) : v);
}

static double value(struct hf_rng *rng, const struct plan *p, int64_t i, int64_t j) {
    const double blob = (double)(i % 5) * (double)(1 + (i + j) % 3);
    const double noise = hf_rng_next_normal(rng);
    const bool wide = p->dtype == HF_F64;
    switch (p->data) {
    case TIES:
        return (double)below(rng, 3);
    case OFFSET:
        return (p->dtype == HF_F16 ? 1e3 : 1e4) + noise;
    case BAD_SCALE:
        return p->dtype == HF_F16 ? noise * pow(2, (double)(j % 20) - 12)
                                  : noise * pow(10, (double)(j * 7 % 41) - 20);
    case TINY:
        return noise * (p->dtype == HF_F16 ? 1e-7 : wide && i % 2 ? 1e-170 : 1e-39);
    case HUGE_VALUES:
        return noise * (p->dtype == HF_F16 ? 1e4 : wide ? 1e200 : 3e37);
    case ZERO_ROWS:
        return i % 3 ? noise : 0;
    default:
        return blob * 3 + noise * 0.3;
    }
}

static void make_data(struct hf_rng *rng, const struct plan *p, struct hf_case *c, hf_array *x) {
    const int64_t stride = p->d + (below(rng, 2) ? below(rng, 5) : 0);
    const int64_t offset = below(rng, 2);
    const size_t size = hf_dtype_bytes(p->dtype);
    char *data = hf_case_alloc(c, (size_t)((p->n - 1) * stride + p->d + offset) * size, false);
    if (!data)
        return;
    data += (size_t)offset * size;
    *x = hf_array_view(data, p->dtype, p->n, p->d);
    x->row_stride = stride;
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t j = 0; j < p->d; j++)
            store(data + (size_t)(i * stride) * size, p->dtype, j, value(rng, p, i, j));
}

/* The filter as k-means sets it up; now and then without a shift. */
static void make_filter(struct hf_rng *rng, struct hf_case *c, struct hf_seed_args *a) {
    const int64_t d = a->x.cols;
    double *shift = hf_case_alloc(c, (size_t)d * sizeof *shift, false);
    double *row = hf_case_alloc(c, (size_t)d * sizeof *row, false);
    if (!shift || !row)
        return;
    double most = 0;
    const bool shifted = a->metric == HF_EUCLIDEAN && below(rng, 4);
    for (int64_t i = 0; i < a->x.rows && shifted; i++) {
        hf_to_f64(row, hf_array_row(&a->x, i), a->x.dtype, d);
        for (int64_t j = 0; j < d; j++)
            shift[j] += row[j] / (double)a->x.rows;
    }
    for (int64_t i = 0; i < a->x.rows; i++) {
        hf_to_f64(row, hf_array_row(&a->x, i), a->x.dtype, d);
        for (int64_t j = 0; j < d; j++)
            most = fmax(most, fabs(row[j] - shift[j]));
    }
    a->filter.shift = shifted ? shift : NULL;
    a->filter.scale = most > 0 ? ldexp(1, -hf_fixed_exponent(most)) : 1;
}

static double distance(const struct hf_seed_args *a, const double *x, const double *c) {
    const hf_metric metric = a->metric == HF_COSINE ? HF_COSINE : HF_EUCLIDEAN;
    const double v = hf_reference_distance(metric, x, c, a->x.cols);
    return metric == HF_COSINE && v < 0 ? 0 : v;
}

/* Rows picked at random as float64 [count, d]. */
static double *pick_rows(struct hf_rng *rng, struct hf_case *c, const hf_array *x, int64_t count) {
    double *rows = hf_case_alloc(c, (size_t)(count * x->cols) * sizeof *rows, false);
    for (int64_t i = 0; i < count && rows; i++)
        hf_to_f64(rows + i * x->cols, hf_array_row(x, below(rng, x->rows)), x->dtype, x->cols);
    return rows;
}

/* nearest and label as they are after `centres` commits. */
static void make_state(struct hf_case *c, struct hf_seed_args *a, const double *centres,
                       int64_t count) {
    const int64_t d = a->x.cols;
    double *x = hf_case_alloc(c, (size_t)d * sizeof *x, false);
    for (int64_t i = 0; i < a->x.rows && x; i++) {
        hf_to_f64(x, hf_array_row(&a->x, i), a->x.dtype, d);
        a->nearest[i] = INFINITY;
        a->label[i] = -1;
        for (int64_t t = 0; t < count; t++) {
            const double v = distance(a, x, centres + t * d);
            if (v < a->nearest[i]) {
                a->nearest[i] = v;
                a->label[i] = (int32_t)t;
            }
        }
    }
}

static void make_reach(struct hf_case *c, struct hf_seed_args *a, const double *centres,
                       int64_t count) {
    const int64_t d = a->x.cols;
    const double *candidates = a->candidates.data;
    double *reach = hf_case_alloc(c, (size_t)count * sizeof *reach, false);
    for (int64_t t = 0; t < count && reach; t++) {
        reach[t] = INFINITY;
        for (int64_t l = 0; l < a->candidates.rows; l++) {
            const double v = distance(a, centres + t * d, candidates + l * d);
            reach[t] = fmin(reach[t], hf_seed_reach(v, d));
        }
    }
    a->reach = reach;
}

static void make_outputs(struct hf_rng *rng, struct hf_case *c, struct hf_seed_args *a) {
    const int64_t n = a->x.rows;
    a->first = below(rng, 2) ? below(rng, 3 * HF_SEED_BLOCK) : 0;
    a->first_label = 100;
    if (a->commit) {
        const int64_t blocks = (a->first + n - 1) / HF_SEED_BLOCK + 1;
        a->block = hf_case_alloc(c, (size_t)blocks * sizeof *a->block, true);
        return;
    }
    a->gain = hf_case_alloc(c, (size_t)a->candidates.rows * sizeof *a->gain, true);
    a->pairs_count = hf_case_alloc(c, sizeof *a->pairs_count, true);
    a->pairs_room = n * a->candidates.rows / (below(rng, 3) ? 1 : 3) + 1;
    a->pairs = hf_case_alloc(c, (size_t)a->pairs_room * sizeof *a->pairs, true);
}

static void make_weights(struct hf_rng *rng, struct hf_case *c, struct hf_seed_args *a) {
    double *weights = hf_case_alloc(c, (size_t)a->x.rows * sizeof *weights, false);
    for (int64_t i = 0; i < a->x.rows && weights; i++)
        weights[i] = i % 4 ? hf_rng_next_unit(rng) : 0;
    a->weights = weights;
}

static void fill(struct hf_rng *rng, const struct plan *p, struct hf_case *c) {
    struct hf_seed_args *a = c->args;
    make_data(rng, p, c, &a->x);
    a->commit = p->commit;
    a->nearest = hf_case_alloc(c, (size_t)p->n * sizeof *a->nearest, a->commit);
    a->label = hf_case_alloc(c, (size_t)p->n * sizeof *a->label, a->commit);
    if (c->failed)
        return;
    make_filter(rng, c, a);
    const double *centres = pick_rows(rng, c, &a->x, p->centres);
    double *candidates = pick_rows(rng, c, &a->x, p->l);
    if (c->failed)
        return;
    a->candidates = hf_array_view(candidates, HF_F64, p->l, p->d);
    make_state(c, a, centres, p->centres);
    if (a->metric != HF_COSINE && p->centres && below(rng, 2))
        make_reach(c, a, centres, p->centres);
    if (below(rng, 3) == 0)
        make_weights(rng, c, a);
    double farthest = 0;
    for (int64_t i = 0; i < p->n; i++)
        if (a->nearest[i] < INFINITY)
            farthest = fmax(farthest, a->nearest[i]);
    const int bits = hf_fixed_bits(p->n);
    a->unit = hf_fixed_mult(bits, hf_fixed_exponent(farthest > 0 ? farthest : 1));
    a->limit = ldexp(1, bits);
    make_outputs(rng, c, a);
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int64_t ns[] = {1, 2, 5, 37, 130, 600, 1100};
    static const int64_t ds[] = {1, 2, 3, 7, 8, 9, 16, 17, 33, 64, 100, 131};
    static const int64_t ls[] = {1, 2, 3, 4, 5, 8, 9, 17, 40};
    static const hf_dtype types[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8};
    if (id >= 315)
        return false;
    struct hf_seed_args *a = c->args;
    struct plan p = {types[id % 5], (enum seed_data)(id / 5 % DATA_COUNT), 0, 0, 0, 0, false};
    a->metric = (hf_metric)(id / (5 * DATA_COUNT) % 3);
    p.n = ns[below(rng, 7)];
    p.d = ds[below(rng, 12)];
    p.l = ls[below(rng, 9)];
    p.centres = below(rng, 5);
    p.commit = below(rng, 2);
    fill(rng, &p, c);
    static const char *const metrics[] = {"euclidean", "cosine", "dot"};
    snprintf(c->name, sizeof c->name, "%s %s %s n=%lld d=%lld l=%lld %s%s%s", data_names[p.data],
             metrics[a->metric], hf_dtype_name(p.dtype), (long long)p.n, (long long)p.d,
             (long long)p.l, a->commit ? "commit" : "evaluate", a->reach ? " reach" : "",
             a->weights ? " weights" : "");
    return true;
}

static int order_pairs(const void *a, const void *b) {
    const struct hf_seed_pair *p = a;
    const struct hf_seed_pair *q = b;
    if (p->row != q->row)
        return p->row < q->row ? -1 : 1;
    return (p->candidate > q->candidate) - (p->candidate < q->candidate);
}

/* Both lists in one order, then pair by pair. */
static bool compare_pairs(struct hf_seed_pair *ref, struct hf_seed_pair *got, int64_t count,
                          char *why, size_t why_bytes) {
    qsort(ref, (size_t)count, sizeof *ref, order_pairs);
    qsort(got, (size_t)count, sizeof *got, order_pairs);
    for (int64_t i = 0; i < count; i++) {
        if (order_pairs(ref + i, got + i) == 0 && ref[i].d == got[i].d)
            continue;
        snprintf(why, why_bytes,
                 "pair %lld is row %lld, candidate %d, d %.17g; not %lld, %d, %.17g", (long long)i,
                 (long long)got[i].row, (int)got[i].candidate, got[i].d, (long long)ref[i].row,
                 (int)ref[i].candidate, ref[i].d);
        return false;
    }
    return true;
}

/* An array of the outputs. */
struct output {
    const char *name;
    int64_t count;
    size_t size; /* of an element */
};

static bool compare_bytes(const struct output *o, const void *ref, const void *got, char *why,
                          size_t why_bytes) {
    for (int64_t i = 0; i < o->count; i++) {
        const size_t at = (size_t)i * o->size;
        if (memcmp((const char *)ref + at, (const char *)got + at, o->size) == 0)
            continue;
        snprintf(why, why_bytes, "%s[%lld] differs", o->name, (long long)i);
        return false;
    }
    return true;
}

static bool compare(const void *args, void *const *ref, void *const *got, char *why,
                    size_t why_bytes) {
    const struct hf_seed_args *a = args;
    const int64_t n = a->x.rows;
    if (a->commit) {
        const int64_t blocks = (a->first + n - 1) / HF_SEED_BLOCK + 1;
        return compare_bytes(&(struct output){"nearest", n, 8}, ref[0], got[0], why, why_bytes) &&
               compare_bytes(&(struct output){"label", n, 4}, ref[1], got[1], why, why_bytes) &&
               compare_bytes(&(struct output){"block", blocks, 8}, ref[2], got[2], why, why_bytes);
    }
    if (!compare_bytes(&(struct output){"gain", a->candidates.rows, 8}, ref[0], got[0], why,
                       why_bytes) ||
        !compare_bytes(&(struct output){"pairs_count", 1, 8}, ref[1], got[1], why, why_bytes))
        return false;
    const int64_t count = *(const int64_t *)ref[1];
    return count > a->pairs_room || compare_pairs(ref[2], got[2], count, why, why_bytes);
}

/* As k-means++ goes on when half of the centroids are there. */
static bool make_bench(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c) {
    struct hf_seed_args *a = c->args;
    const struct hf_key *key = &bench->key;
    const struct plan p = {key->dtype[0], BLOBS, hf_bench_rows(bench), key->dim[2],
                           key->dim[1],   64,    (key->flags & 1) != 0};
    fill(rng, &p, c);
    snprintf(c->name, sizeof c->name, "n=%lld d=%lld l=%lld %s", (long long)p.n, (long long)p.d,
             (long long)p.l, hf_dtype_name(p.dtype));
    return hf_bench_finish(rng, bench, c, &a->x);
}

const struct hf_op_cases hf_seed_cases = {
    .make_case = make_case,
    .compare = compare,
    .make_bench = make_bench,
    .data = {"blobs", "normal"},
    .example = {{HF_F32}, {100000, 8, 64}, 0},
};
