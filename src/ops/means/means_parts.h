/* SPDX-License-Identifier: Apache-2.0
 * The parts of op means on the host: clusters one after the other, what can be vectors a block of
 * columns at a time. The reference and the kernels of each instruction set include it. */
#ifndef HF_MEANS_PARTS_H
#define HF_MEANS_PARTS_H

#include "base/compiler.h"
#include "base/dtype.h"
#include "base/scaled.h"
#include "base/tree.h"
#include "ops/means/means.h"
#include <math.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* Columns are taken HF_TREE_COLUMNS at a time, which is what the compiler makes vectors of. */
#define BLOCK HF_TREE_COLUMNS

/* hf_tree_fold() of the sums over d columns, without the lanes that have no term: they are +0. */
static double fold_columns(double lane[BLOCK], int64_t d) {
    int lanes = BLOCK;
    while (lanes > 1 && lanes / 2 >= d)
        lanes /= 2;
    return hf_tree_fold(lane, lanes);
}

/* Are all sums multiples of a power of two? */
static bool sums_are_plain(const struct hf_center_rule *rule, const struct hf_sums *s) {
    bool plain = true;
    for (int64_t f = 0; f < s->d; f++)
        plain &= rule->unit[f] > 0;
    return plain;
}

/* Sum of column f of cluster j. With one limb it is a multiple of a power of two. */
static double sum_at(const struct hf_center_rule *rule, const struct hf_sums *s, int64_t j,
                     int64_t f) {
    const double unit = rule->unit[f];
    if (unit > 0)
        return (double)s->sum[j * s->d + f] * unit;
    const int64_t limb[HF_MAX_LIMBS] = {s->sum[j * s->d + f],
                                        s->limbs > 1 ? s->sum[(s->k + j) * s->d + f] : 0};
    if (s->limbs > 1) {
        const double fine = 1 / s->mult[f] / (double)(INT64_C(1) << s->bits);
        const double v = hf_scaled_two(limb[0], limb[1], s->bits, fine);
        if (fabs(v) >= HF_LEAST_SCALED || (limb[0] | limb[1]) == 0)
            return v;
    }
    return hf_fixed_value(limb, s->limbs, s->bits, s->mult[f]);
}

/* Cluster j of the sums. plain: sums_are_plain(). */
struct means_cluster {
    const struct hf_center_rule *rule;
    const struct hf_sums *s;
    bool plain;
    int64_t j;
};

/* out[i] = sum[i], rounded to nearest. AVX2 has no such conversion: the lower 48 bits stand behind
 * 2^52 and the upper 16 behind 3 2^67 in float64 of their own, and one addition rounds. */
ALWAYS_INLINE void wide_of(const int64_t *sum, int count, double out[BLOCK]) {
    int i = 0;
#if defined(__AVX2__) && !defined(__AVX512DQ__)
    for (; i + 4 <= count; i += 4) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(sum + i));
        const __m256i low =
            _mm256_blend_epi16(v, _mm256_castpd_si256(_mm256_set1_pd(0x1p52)), 0x88);
        const __m256i top =
            _mm256_blend_epi16(_mm256_srai_epi32(v, 16), _mm256_setzero_si256(), 0x33);
        const __m256i placed = _mm256_add_epi64(top, _mm256_castpd_si256(_mm256_set1_pd(0x1.8p68)));
        const __m256d high =
            _mm256_sub_pd(_mm256_castsi256_pd(placed), _mm256_set1_pd(0x1.8p68 + 0x1p52));
        _mm256_storeu_pd(out + i, _mm256_add_pd(high, _mm256_castsi256_pd(low)));
    }
#endif
    for (; i < count; i++)
        out[i] = (double)sum[i];
}

/* Its sums of columns [f, f + count) in two limbs: all of them without branches, and once more
 * where that does not hold. */
ALWAYS_INLINE void two_limbs_at(const struct means_cluster *c, int64_t f, int count,
                                double out[BLOCK]) {
    const struct hf_sums *s = c->s;
    const int64_t *high = s->sum + c->j * s->d + f;
    const int64_t *low = high + s->k * s->d;
    const double *mult = s->mult + f;
    const double fine = 1 / (double)(INT64_C(1) << s->bits);
    int tiny = 0;
    for (int i = 0; i < count; i++)
        out[i] = hf_scaled_two(high[i], low[i], s->bits, 1 / mult[i] * fine);
    for (int i = 0; i < count; i++)
        tiny |= fabs(out[i]) < HF_LEAST_SCALED;
    for (int i = 0; tiny && i < count; i++)
        out[i] = sum_at(c->rule, s, c->j, f + i);
}

/* Its sums of columns [f, f + count). */
ALWAYS_INLINE void sums_at(const struct means_cluster *c, int64_t f, int count, double out[BLOCK]) {
    const int64_t *sum = c->s->sum + c->j * c->s->d + f;
    const double *unit = c->rule->unit + f;
    if (!c->plain && c->s->limbs == 2) {
        two_limbs_at(c, f, count, out);
        return;
    }
    for (int i = 0; !c->plain && i < count; i++)
        out[i] = sum_at(c->rule, c->s, c->j, f + i);
    if (!c->plain)
        return;
    wide_of(sum, count, out);
    for (int i = 0; i < count; i++)
        out[i] *= unit[i];
}

/* Elements [at, at + count) of centroids. */
ALWAYS_INLINE void centers_at(const void *centers, hf_dtype type, int64_t at, int count,
                              double out[BLOCK]) {
    const float *single = (const float *)centers + at;
    if (type == HF_F64) {
        memcpy(out, (const double *)centers + at, sizeof(double) * (size_t)count);
        return;
    }
    for (int i = 0; i < count; i++)
        out[i] = (double)single[i];
}

/* The length of the sum of a cluster. */
static double sum_length(const struct hf_center_rule *rule, const struct hf_sums *s, int64_t j) {
    double lane[HF_TREE_COLUMNS] = {0};
    for (int64_t f = 0; f < s->d; f++) {
        const double v = sum_at(rule, s, j, f);
        lane[f % HF_TREE_COLUMNS] += v * v;
    }
    return sqrt(hf_tree_fold(lane, HF_TREE_COLUMNS));
}

/* Columns [f, f + count) of the mean of a cluster. */
ALWAYS_INLINE void next_block(const struct means_cluster *c, void *next, int64_t f, int count,
                              double divisor) {
    double v[BLOCK];
    const struct hf_center_rule *rule = c->rule;
    const int64_t at = c->j * c->s->d + f;
    float *single = (float *)next + at;
    sums_at(c, f, count, v);
    for (int i = 0; i < count; i++)
        v[i] /= divisor;
    if (rule->type == HF_F32 && rule->store == HF_F32) {
        for (int i = 0; i < count; i++)
            single[i] = (float)v[i];
        return;
    }
    for (int i = 0; i < count; i++)
        hf_center_store(rule, next, at + i, v[i]);
}

/* Centroids [begin, end) of next [k, d]; those of empty clusters, and of directions of length 0,
 * are those of now. */
static inline void next_some(const struct hf_center_rule *rule, const struct hf_sums *s,
                             const void *now, void *next, int64_t begin, int64_t end) {
    const size_t bytes = (size_t)s->d * hf_dtype_bytes(rule->type);
    const bool plain = sums_are_plain(rule, s);
    for (int64_t j = begin; j < end; j++) {
        double divisor = hf_sums_weight(s, j);
        if (divisor > 0 && rule->metric == HF_COSINE)
            divisor = sum_length(rule, s, j); /* the direction of the sum; 0 has none */
        if (!(divisor > 0)) {
            if (next != now)
                memcpy((char *)next + (size_t)j * bytes, (const char *)now + (size_t)j * bytes,
                       bytes);
            continue;
        }
        const struct means_cluster cluster = {rule, s, plain, j};
        int64_t f = 0;
        for (; f + BLOCK <= s->d; f += BLOCK)
            next_block(&cluster, next, f, BLOCK, divisor);
        next_block(&cluster, next, f, (int)(s->d - f), divisor);
    }
}

ALWAYS_INLINE void moved_block(hf_dtype type, const void *a, const void *b, int64_t at, int count,
                               double lane[BLOCK]) {
    double from[BLOCK];
    double to[BLOCK];
    centers_at(a, type, at, count, from);
    centers_at(b, type, at, count, to);
    for (int i = 0; i < count; i++) {
        const double moved = to[i] - from[i];
        lane[i] += moved * moved;
    }
}

/* The squared distance between centroid j of a and that of b. */
static inline double center_moved(hf_dtype type, const void *a, const void *b, int64_t j,
                                  int64_t d) {
    double lane[BLOCK] = {0};
    int64_t f = 0;
    for (; f + BLOCK <= d; f += BLOCK)
        moved_block(type, a, b, j * d + f, BLOCK, lane);
    moved_block(type, a, b, j * d + f, (int)(d - f), lane);
    return fold_columns(lane, d);
}

ALWAYS_INLINE void euclidean_block(const struct means_cluster *cluster, const void *centers,
                                   int64_t f, int count, double weight, double lane[BLOCK]) {
    double sum[BLOCK];
    double center[BLOCK];
    const double *shift = cluster->rule->shift + f;
    sums_at(cluster, f, count, sum);
    centers_at(centers, cluster->rule->type, cluster->j * cluster->s->d + f, count, center);
    for (int i = 0; i < count; i++) {
        const double c = center[i] - shift[i];
        lane[i] += c * (weight * c - 2 * (sum[i] - weight * shift[i]));
    }
}

/* Sum of w |x - c|^2 over a cluster, less its part of total_square: with s the shift of the filter,
 * sum w |x - s|^2 - 2 (S - W s).(c - s) + W |c - s|^2. */
static double euclidean_part(const struct means_cluster *cluster, const void *centers,
                             double weight) {
    double lane[BLOCK] = {0};
    const int64_t d = cluster->s->d;
    int64_t f = 0;
    for (; f + BLOCK <= d; f += BLOCK)
        euclidean_block(cluster, centers, f, BLOCK, weight, lane);
    euclidean_block(cluster, centers, f, (int)(d - f), weight, lane);
    return fold_columns(lane, d);
}

/* Sum of the distances of a cluster: W - S.c / |c| for cosine (S sums directions), -S.c for dot. */
static double product_part(const struct hf_center_rule *rule, const struct hf_sums *s,
                           const void *centers, int64_t j, double weight) {
    double dots[HF_TREE_COLUMNS] = {0};
    double squares[HF_TREE_COLUMNS] = {0};
    for (int64_t f = 0; f < s->d; f++) {
        const double c = hf_center_at(centers, rule->type, j * s->d + f);
        dots[f % HF_TREE_COLUMNS] += sum_at(rule, s, j, f) * c;
        squares[f % HF_TREE_COLUMNS] += c * c;
    }
    const double dot = hf_tree_fold(dots, HF_TREE_COLUMNS);
    const double square = hf_tree_fold(squares, HF_TREE_COLUMNS);
    if (rule->metric == HF_DOT)
        return -dot;
    return square > 0 ? weight - dot / sqrt(square) : weight;
}

/* What cluster j adds to the inertia of the labels in the sums against the centroids c. */
static inline double score_of(const struct hf_center_rule *rule, const struct hf_sums *s,
                              bool plain, const void *c, int64_t j) {
    const double weight = hf_sums_weight(s, j);
    if (!(weight > 0))
        return 0;
    const struct means_cluster cluster = {rule, s, plain, j};
    return rule->metric == HF_EUCLIDEAN ? euclidean_part(&cluster, c, weight)
                                        : product_part(rule, s, c, j, weight);
}

/* The lanes of a cluster's part of the inertia and of its squared move. */
struct means_lanes {
    double score[BLOCK], moved[BLOCK];
};

/* A cluster, which is not empty, of a call. */
struct means_step {
    const struct hf_means_args *a;
    struct means_cluster cluster;
    double weight;
};

/* Columns [f, f + count) of all that an iteration makes of the sums of a cluster, Euclidean:
 * euclidean_block(), next_block() and moved_block() at once. */
ALWAYS_INLINE void step_block(const struct means_step *step, hf_dtype type, int64_t f, int count,
                              struct means_lanes *lanes) {
    const struct means_cluster *cluster = &step->cluster;
    const struct hf_means_args *a = step->a;
    const double weight = step->weight;
    double sum[BLOCK];
    double from[BLOCK];
    const double *shift = cluster->rule->shift + f;
    const int64_t at = cluster->j * cluster->s->d + f;
    float *restrict single = (float *)a->next + at;
    double *restrict wide = (double *)a->next + at;
    sums_at(cluster, f, count, sum);
    centers_at(a->now, type, at, count, from);
    for (int i = 0; i < count; i++) {
        const double old = from[i];
        const double c = old - shift[i];
        const double mean = sum[i] / weight;
        const double next = type == HF_F64 ? mean : (double)(float)mean;
        const double move = next - old;
        lanes->score[i] += c * (weight * c - 2 * (sum[i] - weight * shift[i]));
        lanes->moved[i] += move * move;
        if (type == HF_F64)
            wide[i] = next;
        else
            single[i] = (float)next;
    }
}

ALWAYS_INLINE void step_as(const struct means_step *step, hf_dtype type,
                           struct means_lanes *lanes) {
    const int64_t d = step->a->sums->d;
    int64_t f = 0;
    for (; f + BLOCK <= d; f += BLOCK)
        step_block(step, type, f, BLOCK, lanes);
    step_block(step, type, f, (int)(d - f), lanes);
}

/* Cluster j, which is not empty. */
static inline void step_center(const struct hf_means_args *a, bool plain, int64_t j, double *score,
                               double *moved) {
    const struct means_step step = {a, {&a->rule, a->sums, plain, j}, hf_sums_weight(a->sums, j)};
    struct means_lanes lanes = {{0}, {0}};
    if (a->rule.type == HF_F64)
        step_as(&step, HF_F64, &lanes);
    else
        step_as(&step, HF_F32, &lanes);
    *score = fold_columns(lanes.score, a->sums->d);
    *moved = fold_columns(lanes.moved, a->sums->d);
}

/* Can step_center() make these clusters? */
static inline bool step_is_whole(const struct hf_means_args *a, int64_t begin, int64_t end) {
    bool whole =
        a->rule.metric == HF_EUCLIDEAN && a->rule.type == a->rule.store && a->next && !a->given;
    for (int64_t j = begin; whole && j < end; j++)
        whole = hf_sums_weight(a->sums, j) > 0;
    return whole;
}

/* What is wanted of clusters [begin, end), one quantity after the other; score and moved: of
 * cluster `begin` and those behind it. */
static inline void means_apart(const struct hf_means_args *a, int64_t begin, int64_t end,
                               double *score, double *moved) {
    const struct hf_center_rule *rule = &a->rule;
    const bool plain = a->inertia && sums_are_plain(rule, a->sums);
    for (int64_t j = begin; a->inertia && j < end; j++)
        score[j - begin] = score_of(rule, a->sums, plain, a->now, j);
    if (a->next && !a->given)
        next_some(rule, a->sums, a->now, a->next, begin, end);
    const bool moves = a->next && (a->moved || a->shift);
    for (int64_t j = begin; moves && j < end; j++)
        moved[j - begin] = center_moved(rule->type, a->now, a->next, j, a->sums->d);
}

/* A call of op means, HF_TREE_CLUSTERS clusters at a time: the lanes of the sums over them. */
struct means_job {
    const struct hf_means_args *a;
    int64_t first; /* of those clusters */
    double score[HF_TREE_CLUSTERS], moved[HF_TREE_CLUSTERS];
};

/* Lanes of sums over the clusters: those without a term are +0 and change nothing. */
static inline int lanes_of(int64_t k) {
    int lanes = HF_TREE_CLUSTERS;
    while (lanes > 1 && lanes / 2 >= k)
        lanes /= 2;
    return lanes;
}

/* The whole call; `some` makes a range of the clusters of a job, from job->first on. */
static inline void means_all(hf_pool *pool, const struct hf_means_args *a, int64_t grain,
                             hf_range_fn *some) {
    struct means_job job = {.a = a};
    const int lanes = lanes_of(a->sums->k);
    double score[HF_TREE_CLUSTERS], moved[HF_TREE_CLUSTERS];
    memset(score, 0, (size_t)lanes * sizeof(double));
    memset(moved, 0, (size_t)lanes * sizeof(double));
    for (job.first = 0; job.first < a->sums->k; job.first += HF_TREE_CLUSTERS) {
        const int64_t left = a->sums->k - job.first;
        const int64_t count = left < HF_TREE_CLUSTERS ? left : HF_TREE_CLUSTERS;
        hf_parallel_for(pool, count, grain, some, &job);
        for (int64_t i = 0; a->inertia && i < count; i++)
            score[i] += job.score[i];
        for (int64_t i = 0; a->shift && i < count; i++)
            moved[i] += job.moved[i];
        if (a->moved)
            memcpy(a->moved + job.first, job.moved, (size_t)count * sizeof(double));
    }
    if (a->inertia)
        *a->inertia = hf_means_inertia(a, hf_tree_fold(score, lanes));
    if (a->shift)
        *a->shift = hf_tree_fold(moved, lanes);
}

#endif
