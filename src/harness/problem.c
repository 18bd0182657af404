/* SPDX-License-Identifier: Apache-2.0
 * Benchmark problems: the op's own blobs, or normal numbers in their place. */
#include "base/dtype.h"
#include "base/mem.h"
#include "harness/harness.h"
#include <math.h>
#include <string.h>

#define PLAN_ROWS 1024
#define NORMAL_TABLE 65536 /* normal numbers drawn once, then picked at random */

struct column {
    double min, max, sum, square;
    bool whole;
};

static int64_t element(const hf_array *x, int64_t i, int64_t j) {
    return i * (x->row_stride ? x->row_stride : x->cols) + j;
}

static void measure_columns(const hf_array *x, struct column *columns) {
    for (int64_t j = 0; j < x->cols; j++)
        columns[j] = (struct column){INFINITY, -INFINITY, 0, 0, true};
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++) {
            const double v = hf_load_f64(x->data, x->dtype, element(x, i, j));
            struct column *c = &columns[j];
            c->min = v < c->min ? v : c->min;
            c->max = v > c->max ? v : c->max;
            c->sum += v;
            c->square += v * v;
            c->whole = c->whole && v == nearbyint(v);
        }
}

/* Same mean, spread, range and wholeness of every column, so that the filter and the fixed-point
 * scales that came with the problem still hold; no structure. */
static bool make_normal(const hf_array *x, struct hf_rng *rng) {
    struct column *columns = hf_alloc((size_t)x->cols * sizeof *columns);
    double *table = hf_alloc(NORMAL_TABLE * sizeof *table);
    const bool ok = columns && table;
    if (ok) {
        measure_columns(x, columns);
        for (int t = 0; t < NORMAL_TABLE; t++)
            table[t] = hf_rng_next_normal(rng);
    }
    for (int64_t i = 0; ok && i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++) {
            const struct column *c = &columns[j];
            const double mean = c->sum / (double)x->rows;
            const double var = c->square / (double)x->rows - mean * mean;
            double v = mean + sqrt(var > 0 ? var : 0) * table[hf_rng_next(rng) % NORMAL_TABLE];
            v = c->whole ? nearbyint(v) : v;
            v = v < c->min ? c->min : v > c->max ? c->max : v;
            hf_store_f64(x->data, x->dtype, element(x, i, j), v);
        }
    hf_free(columns);
    hf_free(table);
    return ok;
}

static hf_status fill(const struct hf_subject *subject, const hf_dev_shape *shape, uint64_t seed,
                      bool normal, bool plan_only, struct hf_case *c, hf_error *err) {
    const char *op = subject->op->name;
    struct hf_rng rng = {seed, (uint64_t)0xBE << 48, 0};
    struct hf_key key = {shape->dtype, shape->n, shape->k, shape->d};
    if (plan_only && key.n > PLAN_ROWS)
        key.n = PLAN_ROWS;
    const bool made = subject->cases->make_bench(&rng, &key, c);
    if (c->failed)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory for a problem of %lld x %lld, k = %lld", op,
                       (long long)shape->n, (long long)shape->d, (long long)shape->k);
    if (!made)
        return hf_fail(err, HF_E_UNSUPPORTED, "%s: no problem of %s data can be made for it", op,
                       hf_dtype_name(shape->dtype));
    hf_array *x = c->args; /* every argument struct begins with the data */
    if (plan_only)
        x->rows = shape->n;
    else if (normal && !make_normal(x, &rng))
        return hf_fail(err, HF_E_NOMEM, "%s: no memory for the problem", op);
    if (!hf_case_seal(c, false))
        return hf_fail(err, HF_E_NOMEM, "%s: no memory for the problem", op);
    return HF_OK;
}

hf_status hf_problem_make(const struct hf_subject *subject, const hf_dev_shape *shape,
                          uint64_t seed, bool normal, bool plan_only, struct hf_case *c,
                          hf_error *err) {
    const char *op = subject->op->name;
    size_t bytes;
    memset(c, 0, sizeof *c);
    if (!subject->cases->make_bench)
        return hf_fail(err, HF_E_UNSUPPORTED,
                       "%s is not timed by itself: it has no benchmark problem", op);
    if (shape->n < 1 || shape->k < 1 || shape->d < 1 ||
        !hf_mul3_size(shape->n, shape->d, 8, &bytes) ||
        !hf_mul3_size(shape->k, shape->d, 8, &bytes))
        return hf_fail(err, HF_E_ARG,
                       "%s: shape %lld x %lld with k = %lld: each must be at least 1 "
                       "and the data must be addressable",
                       op, (long long)shape->n, (long long)shape->d, (long long)shape->k);
    if (!hf_case_init(c, subject->op))
        return hf_fail(err, HF_E_NOMEM, "%s: no memory for the problem", op);
    const hf_status status = fill(subject, shape, seed, normal, plan_only, c, err);
    if (status != HF_OK)
        hf_case_clear(c);
    return status;
}
