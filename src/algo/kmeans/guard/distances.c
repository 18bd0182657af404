/* SPDX-License-Identifier: Apache-2.0
 * With weights w_j, S = sum w_j (c_j - m), V = sum w_j |c_j - m|^2 and W = sum w_j, for any m
 *   sum w_j |x - c_j|^2 = W |x - m|^2 - 2 (x - m).S + V.
 * Each part is computed with an error of at most about (d + k) roundings of its size, and so is the
 * left, whose terms are positive; 2 |(x - m).S| is at most the sum of the other two sizes. Inner
 * products and cosines are linear in the centroid, with errors relative to the sum of absolute
 * values. */
#include "algo/kmeans/guard/distances.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "core/array.h"
#include "guard/guard.h"
#include "ops/reference.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define WEIGHT_SEED UINT64_C(0x64697374616e6365)
#define GRAIN 64
#define ROUNDING 0x1p-53

static double center_at(const hf_array *c, int64_t j, int64_t f) {
    return hf_load_f64(hf_array_row(c, j), c->dtype, f);
}

static double center_length(const hf_array *c, int64_t j) {
    double square = 0;
    for (int64_t f = 0; f < c->cols; f++)
        square += center_at(c, j, f) * center_at(c, j, f);
    return sqrt(square);
}

static void sum_centers(const hf_array *c, hf_metric metric, struct hf_distance_book *b) {
    for (int64_t j = 0; j < c->rows; j++) {
        b->weight[j] = 1 + hf_rng_unit(WEIGHT_SEED, 0, (uint64_t)j);
        b->all += b->weight[j];
    }
    for (int64_t j = 0; metric == HF_EUCLIDEAN && j < c->rows; j++)
        for (int64_t f = 0; f < c->cols; f++)
            b->origin[f] += center_at(c, j, f) / (double)c->rows;
    for (int64_t j = 0; j < c->rows; j++) {
        const double length = metric == HF_COSINE ? center_length(c, j) : 1;
        for (int64_t f = 0; f < c->cols && length > 0; f++) {
            const double v = center_at(c, j, f) / length - b->origin[f];
            b->sum[f] += b->weight[j] * v;
            b->size[f] += b->weight[j] * fabs(v);
            b->spread += b->weight[j] * v * v;
        }
    }
}

hf_status hf_distance_book_open(hf_context *ctx, const hf_array *centroids, hf_metric metric,
                                struct hf_distance_book *book) {
    *book = (struct hf_distance_book){.block = NULL};
    if (!hf_guard_checks_on_host(ctx, HF_FAULT_DISTANCES))
        return HF_OK;
    const size_t k = (size_t)centroids->rows;
    const size_t d = (size_t)centroids->cols;
    book->block = hf_alloc_zero((k + 5 * d) * sizeof(double));
    if (!book->block)
        return hf_ctx_fail(ctx, HF_E_NOMEM,
                           "no memory for the checks of distances to %lld centroids",
                           (long long)centroids->rows);
    book->weight = book->block;
    book->origin = book->weight + k;
    book->sum = book->origin + d;
    book->size = book->sum + d;
    book->vectors = book->size + d;
    sum_centers(centroids, metric, book);
    return HF_OK;
}

void hf_distance_book_close(struct hf_distance_book *book) {
    hf_free(book->block);
    book->block = NULL;
}

struct looking {
    hf_context *ctx;
    const struct hf_distance_book *book;
    const struct hf_distance_check *check;
    bool repair;
    _Atomic int64_t suspected;
    int64_t wrong, last; /* rows; one of them */
};

/* What the weighted sum of row i is and should be; true: they differ by more than rounding can. */
static bool differs(const struct looking *l, int64_t i) {
    const struct hf_distance_book *b = l->book;
    const struct hf_distance_check *c = l->check;
    const int64_t k = c->c->rows;
    const double *out = c->out + i * k;
    const void *row = hf_array_row(c->x, i);
    double have = 0;
    double linear = 0;
    double square = 0;
    double size = 0;
    for (int64_t f = 0; f < c->x->cols; f++) {
        const double v = hf_load_f64(row, c->x->dtype, f) - b->origin[f];
        linear += v * b->sum[f];
        square += v * v;
        size += fabs(v) * b->size[f];
    }
    double want = -linear;
    if (c->metric == HF_EUCLIDEAN) {
        for (int64_t j = 0; j < k; j++)
            have += b->weight[j] * (out[j] * out[j]);
        want = b->all * square - 2 * linear + b->spread;
        size = have + b->all * square + b->spread;
    } else if (c->metric == HF_COSINE) {
        for (int64_t j = 0; j < k; j++)
            have += b->weight[j] * (out[j] - 1);
        want = square > 0 ? -linear / sqrt(square) : 0;
        size = b->all;
    } else {
        for (int64_t j = 0; j < k; j++)
            have += b->weight[j] * out[j];
    }
    const double bound = 8 * (double)(c->x->cols + k + 16) * ROUNDING * size;
    return !(fabs(have - want) <= bound && isfinite(bound));
}

/* The row once more, element by element; how many were wrong. */
static int64_t look_again(const struct looking *l, int64_t i) {
    const struct hf_distance_check *c = l->check;
    const int64_t d = c->x->cols;
    double *vectors = l->book->vectors;
    int64_t wrong = 0;
    hf_to_f64(vectors, hf_array_row(c->x, i), c->x->dtype, d);
    for (int64_t j = 0; j < c->c->rows; j++) {
        double *out = c->out + i * c->c->rows + j;
        hf_to_f64(vectors + d, hf_array_row(c->c, j), c->c->dtype, d);
        double v = hf_reference_distance(c->metric, vectors, vectors + d, d);
        v = c->metric == HF_EUCLIDEAN ? sqrt(v) : v;
        if (hf_guard_sign(&v, sizeof v) == hf_guard_sign(out, sizeof v)) /* the same bits */
            continue;
        wrong++;
        if (l->repair)
            *out = v;
    }
    return wrong;
}

static bool counts(const struct hf_distance_check *c, int64_t i) { return !c->bad || !c->bad[i]; }

static void look_range(void *user, int worker, int64_t begin, int64_t end) {
    struct looking *l = user;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        l->suspected += counts(l->check, i) && differs(l, i);
}

/* By the caller's thread alone: suspects are few. */
static void look_at_suspects(struct looking *l) {
    for (int64_t i = 0; i < l->check->x->rows; i++) {
        if (!counts(l->check, i) || !differs(l, i) || look_again(l, i) == 0)
            continue;
        l->wrong++;
        l->last = i;
    }
}

hf_status hf_distance_book_check(hf_context *ctx, const struct hf_distance_book *book,
                                 const struct hf_distance_check *check) {
    struct looking l = {.ctx = ctx,
                        .book = book,
                        .check = check,
                        .repair = hf_guard_retries(ctx, HF_E_CORRUPT),
                        .last = -1};
    if (!book->block)
        return HF_OK;
    hf_guard_checked(ctx, HF_FAULT_DISTANCES, check->x->rows);
    hf_parallel_for(hf_ctx_pool(ctx), check->x->rows, GRAIN, look_range, &l);
    if (l.suspected > 0)
        look_at_suspects(&l);
    ctx->guard.counts.suspected += l.suspected;
    ctx->guard.counts.beyond += l.suspected - l.wrong;
    if (l.wrong == 0)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_DISTANCES, check->first + l.last, -1);
    ctx->guard.counts.suspected--; /* it was counted with the others */
    const hf_status status =
        hf_ctx_fail(ctx, HF_E_CORRUPT,
                    "distances of row %lld, and of %lld in all, are not those of the rows: the "
                    "machine or a kernel computes wrongly",
                    (long long)(check->first + l.last), (long long)l.wrong);
    if (!l.repair)
        return status;
    hf_guard_repaired(ctx, HF_FAULT_KIND_UNKNOWN, 0);
    ctx->guard.counts.confirmed += l.wrong - 1;
    ctx->guard.counts.repaired += l.wrong - 1;
    return HF_OK;
}
