/* SPDX-License-Identifier: Apache-2.0
 * Rows of the study of portability, and what it measures of ops. */
#include "base/dtype.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "core/context.h"
#include <holdfast/dev.h>
#include <holdfast/dev_study.h>
#include <holdfast/kmeans.h>
#include <stdlib.h>
#include <string.h>

#define STREAM (UINT64_C(1) << 51)
#define TYPES 40    /* of people in the census */
#define VALUES 18   /* of a question, at most */
#define CHANCE 3    /* of 10 answers are not those of the type */
#define COLUMNS 128 /* with values of their own */

#define GRAIN 4096 /* rows that a thread makes at once */

struct set {
    const char *name;
    int64_t rows, columns;
    void (*fill)(float *x, int64_t first, int64_t count, int64_t d);
};

/* Numbers of a row are those of counters of its own, so threads may make rows in any order. */
static void fill_uniform(float *x, int64_t first, int64_t count, int64_t d) {
    for (int64_t i = 0; i < count; i++) {
        struct hf_rng rng = {1, STREAM, (uint64_t)((first + i) * d)};
        float *row = x + i * d;
        for (int64_t j = 0; j < d; j += 2) {
            const uint64_t bits = hf_rng_next(&rng);
            row[j] = (float)(uint32_t)(bits >> 40) * 0x1p-24F;
            if (j + 1 < d)
                row[j + 1] = (float)(uint32_t)(bits & 0xFFFFFF) * 0x1p-24F;
        }
    }
}

/* Small answers are the most likely. */
static float answer(uint64_t bits, int values) {
    const double u = (double)(bits >> 40) * 0x1p-24;
    return (float)(int)(u * u * values);
}

/* A row is of a type; some of its answers are its own. */
static void fill_census(float *x, int64_t first, int64_t count, int64_t d) {
    struct hf_rng rng = {1, STREAM, 0};
    int values[COLUMNS];
    float type[TYPES][COLUMNS];
    for (int64_t j = 0; j < COLUMNS; j++) {
        values[j] = 2 + (int)(hf_rng_next(&rng) % (VALUES - 2));
        for (int t = 0; t < TYPES; t++)
            type[t][j] = answer(hf_rng_next(&rng), values[j]);
    }
    rng.counter += (uint64_t)(first * (d + 1));
    for (int64_t i = 0; i < count; i++) {
        const uint64_t who = hf_rng_next(&rng) % TYPES;
        for (int64_t j = 0; j < d; j++) {
            const uint64_t bits = hf_rng_next(&rng);
            const int64_t c = j % COLUMNS;
            x[i * d + j] = bits % 10 < CHANCE ? answer(bits, values[c]) : type[who][c];
        }
    }
}

static const struct set sets[] = {{"uniform", 1000000, 500, fill_uniform},
                                  {"census", 2458285, 68, fill_census}};

struct fill {
    const struct set *set;
    float *x;
    int64_t d;
};

static void fill_range(void *job, int worker, int64_t begin, int64_t end) {
    const struct fill *f = job;
    (void)worker;
    f->set->fill(f->x + begin * f->d, begin, end - begin, f->d);
}

hf_status hf_dev_study_rows(const char *name, int64_t rows, int64_t columns, hf_array *x) {
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        const struct set *s = &sets[i];
        if (strcmp(s->name, name) != 0)
            continue;
        const int64_t n = rows > 0 ? rows : s->rows;
        const int64_t d = columns > 0 ? columns : s->columns;
        size_t bytes = 0;
        if (!hf_mul3_size(n, d, sizeof(float), &bytes))
            return HF_E_ARG;
        float *data = hf_alloc(bytes);
        if (!data)
            return HF_E_NOMEM;
        struct fill job = {s, data, d};
        hf_pool *pool = hf_pool_create(hf_usable_cores());
        hf_parallel_for(pool, n, GRAIN, fill_range, &job);
        hf_pool_destroy(pool);
        *x = hf_array_view(data, HF_F32, n, d);
        return HF_OK;
    }
    return HF_E_ARG;
}

void hf_dev_study_free(hf_array *x) {
    hf_free(x->data);
    x->data = NULL;
}

static int compare(const void *a, const void *b) {
    const double p = *(const double *)a;
    const double q = *(const double *)b;
    return (p > q) - (p < q);
}

hf_status hf_dev_study_place(hf_context *ctx, const hf_array *x, hf_array *there) {
    const size_t bytes = (size_t)(x->rows * x->cols) * hf_dtype_bytes(x->dtype);
    *there = *x;
    if (hf_dev_study_is_cpu(ctx)) /* which reads them where they lie */
        return HF_OK;
    void *rows = hf_ctx_alloc(ctx, bytes);
    if (!rows)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "the device has no room for %lld x %lld rows",
                           (long long)x->rows, (long long)x->cols);
    const hf_status status = hf_ctx_copy(ctx, rows, x->data, bytes);
    if (status == HF_OK)
        there->data = rows;
    else
        hf_ctx_release(ctx, rows);
    return status;
}

void hf_dev_study_remove(hf_context *ctx, hf_array *there) {
    if (ctx && !hf_dev_study_is_cpu(ctx))
        hf_ctx_release(ctx, there->data);
    there->data = NULL;
}

hf_status hf_dev_study_assign(hf_context *ctx, const hf_array *x, const hf_array *centroids,
                              int rounds, double *seconds, char *kernel) {
    hf_dev_rounds timed = {.rounds = rounds, .calls = 1};
    int32_t *labels = hf_ctx_alloc(ctx, (size_t)x->rows * sizeof *labels);
    timed.seconds = hf_alloc_zero((size_t)rounds * sizeof *timed.seconds);
    hf_status status = HF_E_NOMEM;
    if (labels && timed.seconds)
        status = hf_dev_time_assign(ctx, x, centroids, HF_EUCLIDEAN, 1, labels, &timed);
    if (status == HF_OK) {
        qsort(timed.seconds, (size_t)rounds, sizeof *timed.seconds, compare);
        *seconds = timed.seconds[rounds / 2];
        memcpy(kernel, timed.kernel, sizeof timed.kernel);
    }
    hf_free(timed.seconds);
    hf_ctx_release(ctx, labels);
    return status;
}
