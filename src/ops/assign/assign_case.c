/* SPDX-License-Identifier: Apache-2.0
 * Test cases of assign: kinds of data that hurt a filter, every dtype and metric, bounds, fused
 * sums. */
#include "ops/assign/assign_case.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "core/array.h"
#include "core/case.h"
#include "ops/assign/assign.h"
#include "ops/cases/data_case.h"
#include "ops/reference.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    NORMAL,
    BLOBS,
    LATTICE,
    DUPLICATES,
    OFFSET,
    COLUMNS,
    HUGE_SPREAD,
    MIXED,
    EQUAL,
    WILD_CENTROIDS,
    ZERO_ROWS,
    STAMPS,
    EXTREME,
    BEYOND,
    BYTES,
    ALMOST,
    KINDS,
    MESSY = KINDS, /* a kind of data_case.h */
    DECADES
};

static const char *const kind_names[KINDS] = {
    "normal",      "blobs",  "lattice", "duplicates",     "offset",    "columns",
    "huge-spread", "mixed",  "equal",   "wild-centroids", "zero-rows", "stamps",
    "extreme",     "beyond", "bytes",   "almost"};
static const hf_dtype dtypes[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8};
static const int64_t depths[] = {1, 2, 3, 7, 8, 16, 17, 20, 31, 33, 64, 90, 100, 129, 200, 300};
static const int64_t wide_depths[] = {520, 700, 1032};
static const int64_t counts[] = {1, 2, 5, 12, 13, 32, 33, 64, 100};
static const int64_t heights[] = {1, 3, 15, 16, 33, 100, 257, 700};

#define CASES 640
#define MESSY_KINDS (HF_DATA_KINDS - HF_DATA_MESSY)
#define MESSY_CASES (16 * MESSY_KINDS) /* types and metrics; once more with many rows */
#define DECADES_CASES 24

struct shape {
    int64_t n, k, d, stride;
    enum kind kind;
    enum hf_data_kind messy; /* of MESSY */
    double far;              /* length of one centroid; 0: it is like the others */
    hf_dtype dtype;
};

static int64_t draw(struct hf_rng *rng, int64_t count) {
    return (int64_t)(hf_rng_next(rng) % (uint64_t)count);
}

static double value(struct hf_rng *rng, const struct shape *s, int64_t i, int64_t j) {
    const struct hf_data_shape messy = {.kind = s->messy, .n = s->n, .k = s->k, .d = s->d};
    if (s->kind == MESSY)
        return hf_data_value(rng, &messy, i, j);
    const double z = hf_rng_next_normal(rng);
    switch (s->kind) {
    case BLOBS:
        return z + 8 * (double)((i * 7 + j) % 5);
    case LATTICE:
    case DUPLICATES:
        return (double)draw(rng, 4);
    case OFFSET:
        return 1e4 + z;
    case COLUMNS:
        return z * pow(10, s->d > 1 ? -20 + 40 * (double)j / (double)(s->d - 1) : 0);
    case HUGE_SPREAD:
        return z * pow(2, (double)draw(rng, 60) - 30);
    case MIXED: /* long rows beside short ones */
        return z * pow(2, -6.0 * (double)(i % 7));
    case EQUAL:
        return 3;
    case BEYOND: /* the scale is out of the filter's range, and float32 would overflow */
        return z * (s->n % 2 ? 1e39 : 1e100);
    case STAMPS: /* whole numbers near each other and far from 0: milliseconds */
        return 1.6e12 + (double)draw(rng, 251);
    case BYTES: /* 256 values a column, the ends among them; now and then 257 in one */
        return 1000.0 * (double)(j % 3 - 1) +
               (double)(i % 4 ? draw(rng, 256) : draw(rng, 2) * (s->k == 5 && j == 0 ? 256 : 255));
    case ALMOST:
        return (double)draw(rng, 9) / 4;
    case ZERO_ROWS:
        return i % 3 == 0 ? 0 : z;
    case DECADES: /* each row of its own length, or each value, from 1e-24 to 1e24 */
        return (i % 3 ? 1 : -1) * (1 + z / 16) *
               pow(10, 48 * (s->k % 3 ? (double)(i * 607 % s->n) / (double)s->n
                                      : hf_rng_next_unit(rng)) -
                           24);
    default:
        return z;
    }
}

/* Within the range of the type. */
static void put(hf_array *a, int64_t i, int64_t j, double v) {
    if (a->dtype == HF_F16)
        v = fmax(-6e4, fmin(6e4, v));
    else if (a->dtype == HF_U8)
        v = fmin(255, fabs(v) * 10);
    hf_store_f64(a->data, a->dtype, i * a->row_stride + j, v);
}

static double get(const hf_array *a, int64_t i, int64_t j) {
    return hf_load_f64(a->data, a->dtype, i * a->row_stride + j);
}

/* rows x d of `dtype`; the base is off by one element so that nothing is aligned. */
static bool make_matrix(struct hf_case *c, hf_array *a, hf_dtype dtype, int64_t rows, int64_t cols,
                        int64_t stride) {
    const size_t size = hf_dtype_bytes(dtype);
    char *p = hf_case_alloc(c, size * (size_t)(rows * stride + 1), false);
    if (!p)
        return false;
    *a = hf_array_view(p + size, dtype, rows, cols);
    a->row_stride = stride;
    return true;
}

/* The first centroid, every other, or all go out of float32's sight, so far that rows do, or beyond
 * float16 only. The nearest of all is not the first. */
static void send_away(struct hf_rng *rng, struct hf_assign_args *a) {
    static const double lengths[] = {1e30, 1e17, 1e6};
    const int64_t step = (int64_t[]){INT32_MAX, 2, 1}[draw(rng, 3)];
    const double length = lengths[draw(rng, 3)];
    for (int64_t k = 0; k < a->c.rows; k += step)
        for (int64_t j = 0; j < a->c.cols; j++)
            put(&a->c, k, j, (j % 2 ? -length : length) * (1 + (double)((k * 7 + 3) % 5) / 8));
}

/* Every other centroid is the mirror image of the one before, as seen from a row, or differs from
 * it in the last bit of a column. */
static void make_almost_equal(struct hf_rng *rng, struct hf_assign_args *a) {
    for (int64_t k = 1; k < a->c.rows; k += 2) {
        const int64_t row = draw(rng, a->x.rows);
        const int64_t column = draw(rng, a->c.cols);
        const bool mirror = draw(rng, 2);
        for (int64_t j = 0; j < a->c.cols; j++) {
            const double v = get(&a->c, k - 1, j);
            const double next =
                a->c.dtype == HF_F64 ? nextafter(v, 10) : (double)nextafterf((float)v, 10);
            put(&a->c, k, j, mirror ? 2 * get(&a->x, row, j) - v : j == column ? next : v);
        }
    }
}

static void fill(struct hf_rng *rng, const struct shape *s, struct hf_assign_args *a) {
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t j = 0; j < s->d; j++)
            put(&a->x, i, j,
                s->kind == DUPLICATES && i > 4 ? get(&a->x, i % 5, j) : value(rng, s, i, j));
    for (int64_t k = 0; k < s->k; k++) { /* centroids near rows, some on them, some equal */
        const int64_t row = draw(rng, s->n);
        const double nudge = s->kind == ALMOST ? 0.25 : draw(rng, 3) ? 0.1 : 0;
        const bool absolute = s->kind == OFFSET || s->kind == BYTES;
        for (int64_t j = 0; j < s->d; j++) {
            const double x = get(&a->x, row, j);
            const double z = hf_rng_next_normal(rng);
            put(&a->c, k, j,
                s->kind == ALMOST ? x + nudge * rint(2 * z)
                                  : x + nudge * z * (absolute ? 1 : fabs(x)));
        }
    }
    const double beyond = rint(sqrt(0x1p33 / (double)s->d)); /* half its square passes 2^32 */
    for (int64_t j = 0; s->kind == EQUAL && s->n % 2 && j < s->d; j++)
        put(&a->c, 0, j, get(&a->x, 0, j) + beyond);
    for (int64_t k = 0; s->kind == EXTREME && k < s->k; k++) /* the reference over- or underflows */
        for (int64_t j = 0; j < s->d; j++)
            put(&a->c, k, j, get(&a->c, k, j) * (s->n % 2 ? 1e300 : k % 2 ? 1e-160 : 1e-310));
    if (s->kind == WILD_CENTROIDS)
        send_away(rng, a);
    for (int64_t j = 0; s->far > 0 && j < s->d; j++)
        put(&a->c, s->k / 2, j, hf_data_far(s->far, j));
    if (s->kind == ALMOST)
        make_almost_equal(rng, a);
}

/* What prepare.c of k-means would hand over: the mean as origin, or 0 where that is where most rows
 * are, and a power of two as scale, for which some rows may be far beyond 1. */
static bool make_filter(struct hf_case *c, struct hf_assign_args *a, bool zero, int beyond) {
    double *shift = hf_case_alloc(c, sizeof(double) * (size_t)a->x.cols, false);
    if (!shift)
        return false;
    double *least = hf_case_alloc(c, sizeof(double) * (size_t)a->x.cols, false);
    double *greatest = hf_case_alloc(c, sizeof(double) * (size_t)a->x.cols, false);
    if (!least || !greatest)
        return false;
    double most = 0;
    bool whole = true;
    bool bytes = true;
    for (int64_t j = 0; j < a->x.cols; j++) {
        least[j] = INFINITY;
        greatest[j] = -INFINITY;
        for (int64_t i = 0; i < a->x.rows; i++)
            shift[j] += get(&a->x, i, j) / (double)a->x.rows;
        shift[j] = rint(shift[j]);
        if (a->metric != HF_EUCLIDEAN || zero)
            shift[j] = 0;
        for (int64_t i = 0; i < a->x.rows; i++) {
            const double t = fabs(get(&a->x, i, j) - shift[j]);
            most = fmax(most, t);
            whole = whole && t == rint(t) && t <= 256;
            bytes = bytes && t == rint(t);
            least[j] = fmin(least[j], get(&a->x, i, j));
            greatest[j] = fmax(greatest[j], get(&a->x, i, j));
        }
        bytes = bytes && greatest[j] - least[j] <= 255;
    }
    int e = 0;
    if (most > 0)
        frexp(most, &e);
    a->filter.shift = shift;
    a->filter.scale = ldexp(1, -e + beyond);
    a->filter.whole = whole;
    if (bytes) {
        a->filter.least = least;
        a->filter.most = greatest;
    }
    return true;
}

static bool make_sums(struct hf_rng *rng, struct hf_case *c, struct hf_assign_args *a) {
    const int64_t k = a->c.rows;
    const int64_t d = a->x.cols;
    struct hf_sums *s = hf_case_alloc(c, sizeof *s, false);
    double *mult = hf_case_alloc(c, sizeof(double) * (size_t)d, false);
    double *weights = hf_case_alloc(c, sizeof(double) * (size_t)a->x.rows, false);
    const int limbs = 1 + (int)draw(rng, 2);
    int64_t *sum = hf_case_alloc(c, sizeof(int64_t) * (size_t)(k * d * limbs), true);
    int64_t *count = hf_case_alloc(c, sizeof(int64_t) * (size_t)k, true);
    int64_t *weight = hf_case_alloc(c, sizeof(int64_t) * (size_t)(k * limbs), true);
    if (!s || !mult || !weights || !sum || !count || !weight)
        return false;
    *s = (struct hf_sums){.k = k,
                          .d = d,
                          .limbs = limbs,
                          .bits = hf_fixed_bits(a->x.rows),
                          .mult = mult,
                          .sum = sum,
                          .count = count};
    for (int64_t j = 0; j < d; j++) {
        double most = 0;
        for (int64_t i = 0; i < a->x.rows; i++)
            most = fmax(most, fabs(get(&a->x, i, j)));
        most = a->metric == HF_COSINE ? 1 : most;
        mult[j] = hf_fixed_mult(s->bits, hf_fixed_exponent(2 * most));
    }
    if (draw(rng, 2)) {
        for (int64_t i = 0; i < a->x.rows; i++)
            weights[i] = hf_rng_next_unit(rng) * 2;
        a->weights = weights;
        s->weight = weight;
        s->weight_mult = hf_fixed_mult(s->bits, hf_fixed_exponent(2));
    }
    a->sums = s;
    return true;
}

/* Exact bounds and labels against `last`, where the centroids were before a move. */
static bool bound_rows(struct hf_assign_args *a, const hf_array *last) {
    const int64_t cols = a->x.cols;
    double *x = hf_case_widen(&a->x);
    double *c = hf_case_widen(last);
    for (int64_t i = 0; x && c && i < a->x.rows; i++) {
        double least = INFINITY;
        double second = INFINITY;
        for (int64_t k = 0; k < last->rows; k++) {
            const double d = hf_reference_distance(a->metric, x + i * cols, c + k * cols, cols);
            second = fmin(second, fmax(d, least));
            if (d < least) {
                least = d;
                a->labels[i] = (int32_t)k;
            }
        }
        a->bounds->upper[i] = (float)sqrt(least) * (1 + 0x1p-20f) + 0x1p-126f;
        a->bounds->lower[i] = (float)fmin(sqrt(second), FLT_MAX) * (1 - 0x1p-20f);
    }
    const bool given = x && c;
    hf_free(x);
    hf_free(c);
    return given;
}

/* Bounds as they stand after some centroids moved a little. */
static bool make_bounds(struct hf_rng *rng, struct hf_case *c, struct hf_assign_args *a,
                        bool valid) {
    const int64_t k = a->c.rows;
    struct hf_assign_bounds *b = hf_case_alloc(c, sizeof *b, false);
    float *drift = hf_case_alloc(c, sizeof(float) * (size_t)k, false);
    int32_t *moved = hf_case_alloc(c, sizeof(int32_t) * (size_t)k, false);
    float *upper = hf_case_alloc(c, sizeof(float) * (size_t)a->x.rows, true);
    float *lower = hf_case_alloc(c, sizeof(float) * (size_t)a->x.rows, true);
    hf_array last;
    if (!b || !drift || !moved || !upper || !lower ||
        !make_matrix(c, &last, a->c.dtype, k, a->c.cols, a->c.row_stride))
        return false;
    *b = (struct hf_assign_bounds){
        .upper = upper, .lower = lower, .drift = drift, .moved = moved, .valid = valid};
    a->bounds = b;
    if (!valid)
        return true;
    b->sweep = draw(rng, 2);
    const int64_t share = 1 + draw(rng, 5);
    for (int64_t j = 0; j < k; j++) {
        const bool move = draw(rng, share) == 0;
        double far = 0;
        for (int64_t t = 0; t < a->c.cols; t++) {
            const double now = get(&a->c, j, t);
            put(&last, j, t, move ? now * (1 + 0.02 * hf_rng_next_normal(rng)) : now);
            far += (get(&last, j, t) - now) * (get(&last, j, t) - now);
        }
        drift[j] = far > 0 ? (float)sqrt(far) * (1 + 0x1p-20f) + 0x1p-126f : 0;
        if (drift[j] > 0)
            moved[b->n_moved++] = (int32_t)j;
        if (drift[j] > b->drift_max) {
            b->drift_second = b->drift_max;
            b->drift_max = drift[j];
            b->drift_max_index = (int32_t)j;
        } else if (drift[j] > b->drift_second) {
            b->drift_second = drift[j];
        }
    }
    return bound_rows(a, &last);
}

/* Room for packed rows, of these alone or of a longer problem that they are part of. */
static bool make_packed(struct hf_rng *rng, struct hf_case *c, struct hf_assign_args *a) {
    const int64_t more = draw(rng, 3) * 32;
    const size_t bytes = hf_assign_packed_bytes(a->x.rows + more, a->x.cols);
    if (bytes == 0)
        return true;
    struct hf_assign_packed *packed = hf_case_alloc_state(c, sizeof *packed);
    void *data = hf_case_alloc_state(c, bytes);
    if (!packed || !data)
        return false;
    memset(data, 0xFF, bytes);
    *packed = (struct hf_assign_packed){.data = data, .rows = a->x.rows + more};
    a->packed = packed;
    a->packed_first = draw(rng, 4) ? 0 : more; /* the rows before are missing: none stay packed */
    return true;
}

/* Shape, metric and precision of a case. */
static struct shape plain_shape(struct hf_rng *rng, int64_t id, struct hf_assign_args *a) {
    struct shape s = {.n = heights[draw(rng, 8)],
                      .k = counts[draw(rng, 9)],
                      .d = depths[draw(rng, 16)],
                      .kind = (enum kind)(id % KINDS),
                      .dtype = dtypes[id / KINDS % 5]};
    a->metric = (hf_metric)(id / 50 % 7 < 5 ? 0 : id / 50 % 7 - 4);
    a->exact = id % 41 != 40 || s.kind == MIXED; /* where one scale is too coarse for short rows */
    if (id % 11 == 1) {                          /* queues of rows that fill and drain many times */
        s.n = 6000;
        s.d = 2;
    } else if (id % 37 == 5) { /* rows too long for the registers of a GPU */
        s.n = heights[id / 37 % 7];
        s.d = wide_depths[id / 37 % 3];
    } else if (id % 37 == 6) { /* many tiles of centroids */
        s.n = heights[id / 37 % 7];
        s.k = 600;
        s.d = id / 37 % 2 ? 500 : 64;
    }
    s.stride = s.d + (draw(rng, 2) ? draw(rng, 9) : 0);
    if (s.kind == STAMPS || s.kind == EXTREME || s.kind == BEYOND)
        s.dtype = HF_F64;
    const bool float_range = s.kind == COLUMNS || s.kind == WILD_CENTROIDS || s.kind == HUGE_SPREAD;
    if (float_range && (s.dtype == HF_F16 || s.dtype == HF_U8))
        s.dtype = HF_F32;
    return s;
}

/* The same of data that tables hold: each kind in every type and metric, often with one centroid
 * beyond float16's reach, or float32's when squared; then Euclidean with many rows. */
static struct shape messy_shape(struct hf_rng *rng, int64_t id, struct hf_assign_args *a) {
    static const double lengths[] = {1e5, 1e8, 1e30};
    const int64_t round = id / MESSY_KINDS;
    const bool many = round == 15;
    struct shape s = {.n = many ? 5000 : heights[5 + draw(rng, 3)],
                      .k = many ? 100 : counts[2 + draw(rng, 7)],
                      .d = many ? 20 : depths[1 + draw(rng, 15)],
                      .kind = MESSY,
                      .messy = (enum hf_data_kind)(HF_DATA_MESSY + id % MESSY_KINDS),
                      .dtype = dtypes[round % 5]};
    if (s.messy == HF_DATA_FAR || draw(rng, 4) == 0)
        s.far = lengths[id % 3];
    s.stride = s.d + (draw(rng, 2) ? draw(rng, 9) : 0);
    a->metric = (hf_metric)(round / 5 % 3);
    a->exact = true;
    return s;
}

/* Few columns and many centroids, where scores of long rows overflow and those of short ones are
 * lost: no filter decides the one, no list may hold the other. */
static struct shape decades_shape(struct hf_rng *rng, int64_t id, struct hf_assign_args *a) {
    static const int64_t many[] = {500, 64, 700, 600};
    struct shape s = {.n = id % 5 ? 700 : 1400,
                      .k = many[id % 4],
                      .d = 1 + id % 3,
                      .kind = DECADES,
                      .dtype = id % 8 < 6 ? HF_F64 : HF_F32};
    s.stride = s.d + draw(rng, 2);
    a->metric = (hf_metric)(id < 18 ? HF_EUCLIDEAN : 1 + id % 2);
    a->exact = true;
    return s;
}

static struct shape choose_shape(struct hf_rng *rng, int64_t id, struct hf_assign_args *a) {
    if (id < CASES)
        return plain_shape(rng, id, a);
    if (id < CASES + MESSY_CASES)
        return messy_shape(rng, id - CASES, a);
    return decades_shape(rng, id - CASES - MESSY_CASES, a);
}

/* By how many powers of two rows may be beyond the filter's range. */
static int choose_beyond(struct hf_rng *rng, int64_t id, const struct shape *s) {
    if (s->kind == DECADES)
        return 40 + (int)draw(rng, 80);
    return s->kind == MESSY || id % 7 == 3 ? (int)draw(rng, 25) : 0;
}

static bool assign_make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    if (id >= CASES + MESSY_CASES + DECADES_CASES)
        return false;
    struct hf_assign_args *a = c->args;
    const struct shape s = choose_shape(rng, id, a);
    struct hf_assign_stats *stats = hf_case_alloc(c, sizeof *stats, true);
    a->labels = hf_case_alloc(c, sizeof(int32_t) * (size_t)s.n, true);
    if (!stats || !a->labels || !make_matrix(c, &a->x, s.dtype, s.n, s.d, s.stride) ||
        !make_matrix(c, &a->c, s.dtype == HF_F64 ? HF_F64 : HF_F32, s.k, s.d, s.d))
        return false;
    a->stats = stats;
    fill(rng, &s, a);
    for (int64_t i = 0; i < s.n; i++)
        a->labels[i] = (int32_t)draw(rng, s.k + 1) - 1;
    const int64_t extra = draw(rng, 4);
    if (!make_filter(c, a, s.kind == DECADES, choose_beyond(rng, id, &s)) ||
        (extra & 1 && !make_sums(rng, c, a)))
        return false;
    if (extra & 2 && a->metric == HF_EUCLIDEAN && !make_bounds(rng, c, a, draw(rng, 4) > 0))
        return false;
    if (draw(rng, 2))
        a->old_labels = hf_case_alloc(c, sizeof(int32_t) * (size_t)s.n, true);
    if (draw(rng, 3) && !make_packed(rng, c, a))
        return false;
    snprintf(c->name, sizeof c->name, "%s n=%d k=%d d=%d %s metric=%d%s%s%s%s%s",
             s.kind == DECADES ? "decades"
             : s.kind == MESSY ? hf_data_kind_name(s.messy)
                               : kind_names[s.kind],
             (int)s.n, (int)s.k, (int)s.d, hf_dtype_name(s.dtype), (int)a->metric,
             s.far > 0 ? " far" : "", a->sums ? " sums" : "",
             !a->bounds          ? ""
             : !a->bounds->valid ? " fresh-bounds"
             : a->bounds->sweep  ? " sweep"
                                 : " bounds",
             a->packed ? " packed" : "", a->exact ? "" : " fast");
    return true;
}

static bool assign_make_bench(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c) {
    struct hf_assign_args *a = c->args;
    const struct hf_data_shape s = hf_data_bench(bench, true);
    a->exact = true;
    a->stats = hf_case_alloc(c, sizeof *a->stats, true);
    a->labels = hf_case_alloc(c, sizeof(int32_t) * (size_t)s.n, true);
    const size_t size = hf_dtype_bytes(s.dtype);
    char *x = hf_case_alloc(c, size * (size_t)(s.n * s.d), false);
    const hf_dtype wide = s.dtype == HF_F64 ? HF_F64 : HF_F32;
    char *centroids = hf_case_alloc(c, hf_dtype_bytes(wide) * (size_t)(s.k * s.d), false);
    double *shift = hf_case_alloc(c, sizeof(double) * (size_t)s.d, false);
    if (!a->labels || !a->stats || !x || !centroids || !shift)
        return false;
    for (int64_t j = 0; j < s.d; j++)
        shift[j] = s.dtype == HF_U8 ? 100 : 10;
    a->filter.shift = shift;
    a->filter.whole = s.dtype == HF_U8;
    a->x = hf_array_view(x, s.dtype, s.n, s.d);
    a->c = hf_array_view(centroids, wide, s.k, s.d);
    /* Blobs: rows scatter around k centres drawn from [0, 20). */
    for (int64_t k = 0; k < s.k; k++)
        for (int64_t j = 0; j < s.d; j++)
            put(&a->c, k, j, 20 * hf_rng_next_unit(rng));
    for (int64_t i = 0; i < s.n; i++) {
        const int64_t k = draw(rng, s.k);
        for (int64_t j = 0; j < s.d; j++) {
            const double noise =
                hf_rng_next_unit(rng) + hf_rng_next_unit(rng) + hf_rng_next_unit(rng) - 1.5;
            put(&a->x, i, j, get(&a->c, k, j) + 4 * noise);
        }
        a->labels[i] = -1;
    }
    a->filter.scale = s.dtype == HF_U8 ? 0x1p-8 : 0x1p-5;
    return hf_bench_finish(rng, bench, c, &a->x);
}

const struct hf_op_cases hf_assign_cases = {
    .make_case = assign_make_case,
    .compare = hf_assign_compare,
    .make_bench = assign_make_bench,
    .data = {"blobs", "normal"},
    .example = {{HF_F32}, {100000, 256, 64}, 0},
};
