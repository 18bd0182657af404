/* SPDX-License-Identifier: Apache-2.0
 * The data of benchmark problems: blobs, or normal numbers in their place. */
#include "base/dtype.h"
#include "base/mem.h"
#include "core/array.h"
#include "ops/cases/data_case.h"
#include <math.h>

#define PLAN_ROWS 1024
#define NORMAL_TABLE 65536 /* normal numbers drawn once, then picked at random */

struct column {
    double min, max, sum, square;
    bool whole;
};

static int64_t element(const hf_array *x, int64_t i, int64_t j) {
    return i * hf_array_stride(x) + j;
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
static bool make_normal(struct hf_rng *rng, const hf_array *x) {
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

int64_t hf_bench_rows(const struct hf_bench *bench) {
    const int64_t n = bench->key.dim[0];
    return bench->plan_only && n > PLAN_ROWS ? PLAN_ROWS : n;
}

struct hf_data_shape hf_data_bench(const struct hf_bench *bench, bool centroids) {
    const struct hf_key *key = &bench->key;
    return (struct hf_data_shape){.kind = HF_DATA_BLOBS,
                                  .dtype = key->dtype[0],
                                  .n = hf_bench_rows(bench),
                                  .k = centroids ? key->dim[1] : 1,
                                  .d = key->dim[centroids ? 2 : 1]};
}

bool hf_bench_finish(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c,
                     hf_array *x) {
    if (c->failed)
        return false;
    if (bench->plan_only)
        x->rows = bench->key.dim[0];
    else if (bench->data == HF_BENCH_NORMAL)
        c->failed = !make_normal(rng, x);
    return !c->failed;
}
