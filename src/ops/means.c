/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/means.h"
#include "base/compiler.h"
#include "base/dtype.h"
#include "base/tree.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>
#if HF_HAVE_ISA_avx512
#include "ops/means_avx512.h"
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
    return hf_fixed_value(limb, s->limbs, s->bits, s->mult[f]);
}

/* Those of columns [f, f + count). */
ALWAYS_INLINE void sums_at(const struct hf_center_rule *rule, const struct hf_sums *s, bool plain,
                           int64_t j, int64_t f, int count, double out[BLOCK]) {
    const int64_t *sum = s->sum + j * s->d + f;
    const double *unit = rule->unit + f;
    for (int i = 0; !plain && i < count; i++)
        out[i] = sum_at(rule, s, j, f + i);
    if (!plain)
        return;
    for (int i = 0; i < count; i++)
        out[i] = (double)sum[i];
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

double hf_sums_weight(const struct hf_sums *s, int64_t cluster) {
    if (!s->weight)
        return (double)s->count[cluster];
    const int64_t limb[HF_MAX_LIMBS] = {s->weight[cluster],
                                        s->limbs > 1 ? s->weight[s->k + cluster] : 0};
    return hf_fixed_value(limb, s->limbs, s->bits, s->weight_mult);
}

void hf_center_store(const struct hf_center_rule *rule, void *dst, int64_t i, double v) {
    const double rounded = hf_round_to(v, rule->store);
    if (rule->type == HF_F64)
        ((double *)dst)[i] = rounded;
    else
        ((float *)dst)[i] = (float)rounded;
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

/* Columns [f, f + count) of the mean of cluster j. */
ALWAYS_INLINE void next_block(const struct hf_center_rule *rule, const struct hf_sums *s,
                              bool plain, void *next, int64_t j, int64_t f, int count,
                              double divisor) {
    double v[BLOCK];
    const int64_t at = j * s->d + f;
    float *single = (float *)next + at;
    sums_at(rule, s, plain, j, f, count, v);
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

void hf_centers_next_some(const struct hf_center_rule *rule, const struct hf_sums *s,
                          const void *now, void *next, int64_t begin, int64_t end) {
    const size_t bytes = (size_t)s->d * hf_dtype_bytes(rule->type);
    const bool plain = sums_are_plain(rule, s);
    for (int64_t j = begin; j < end; j++) {
        double divisor = hf_sums_weight(s, j);
        if (divisor > 0 && rule->metric == HF_COSINE)
            divisor = sum_length(rule, s, j); /* the direction of the sum; 0 has none */
        if (!(divisor > 0)) {
            memcpy((char *)next + (size_t)j * bytes, (const char *)now + (size_t)j * bytes, bytes);
            continue;
        }
        int64_t f = 0;
        for (; f + BLOCK <= s->d; f += BLOCK)
            next_block(rule, s, plain, next, j, f, BLOCK, divisor);
        next_block(rule, s, plain, next, j, f, (int)(s->d - f), divisor);
    }
}

void hf_centers_next(const struct hf_center_rule *rule, const struct hf_sums *s, const void *now,
                     void *next) {
    hf_centers_next_some(rule, s, now, next, 0, s->k);
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

double hf_center_moved(hf_dtype type, const void *a, const void *b, int64_t j, int64_t d) {
    double lane[BLOCK] = {0};
    int64_t f = 0;
    for (; f + BLOCK <= d; f += BLOCK)
        moved_block(type, a, b, j * d + f, BLOCK, lane);
    moved_block(type, a, b, j * d + f, (int)(d - f), lane);
    return fold_columns(lane, d);
}

double hf_centers_moved(hf_dtype type, const void *a, const void *b, int64_t k, int64_t d) {
    double total[HF_TREE_CLUSTERS] = {0};
    for (int64_t j = 0; j < k; j++)
        total[j % HF_TREE_CLUSTERS] += hf_center_moved(type, a, b, j, d);
    return hf_tree_fold(total, HF_TREE_CLUSTERS);
}

ALWAYS_INLINE void euclidean_block(const struct hf_center_rule *rule, const struct hf_sums *s,
                                   bool plain, const void *centers, int64_t j, int64_t f, int count,
                                   double weight, double lane[BLOCK]) {
    double sum[BLOCK];
    double center[BLOCK];
    const double *shift = rule->shift + f;
    sums_at(rule, s, plain, j, f, count, sum);
    centers_at(centers, rule->type, j * s->d + f, count, center);
    for (int i = 0; i < count; i++) {
        const double c = center[i] - shift[i];
        lane[i] += c * (weight * c - 2 * (sum[i] - weight * shift[i]));
    }
}

/* Sum of w |x - c|^2 over a cluster, less its part of total_square: with s the shift of the filter,
 * sum w |x - s|^2 - 2 (S - W s).(c - s) + W |c - s|^2. */
static double euclidean_part(const struct hf_center_rule *rule, const struct hf_sums *s, bool plain,
                             const void *centers, int64_t j, double weight) {
    double lane[BLOCK] = {0};
    int64_t f = 0;
    for (; f + BLOCK <= s->d; f += BLOCK)
        euclidean_block(rule, s, plain, centers, j, f, BLOCK, weight, lane);
    euclidean_block(rule, s, plain, centers, j, f, (int)(s->d - f), weight, lane);
    return fold_columns(lane, s->d);
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

void hf_centers_score_some(const struct hf_center_rule *rule, const struct hf_sums *s,
                           const void *c, int64_t begin, int64_t end, double *term) {
    const bool plain = sums_are_plain(rule, s);
    for (int64_t j = begin; j < end; j++) {
        const double weight = hf_sums_weight(s, j);
        term[j - begin] = 0;
        if (weight > 0)
            term[j - begin] = rule->metric == HF_EUCLIDEAN
                                  ? euclidean_part(rule, s, plain, c, j, weight)
                                  : product_part(rule, s, c, j, weight);
    }
}

/* Columns [f, f + count) of all that an iteration makes of the sums of cluster j, Euclidean:
 * euclidean_block(), next_block() and moved_block() at once. */
ALWAYS_INLINE void step_block(const struct hf_center_rule *rule, const struct hf_sums *s,
                              bool plain, const float *now, float *restrict next, int64_t j,
                              int64_t f, int count, double weight, double score[BLOCK],
                              double moved[BLOCK]) {
    double sum[BLOCK];
    const double *shift = rule->shift + f;
    const float *from = now + j * s->d + f;
    float *restrict to = next + j * s->d + f;
    sums_at(rule, s, plain, j, f, count, sum);
    for (int i = 0; i < count; i++) {
        const double old = (double)from[i];
        const double c = old - shift[i];
        const float mean = (float)(sum[i] / weight);
        const double move = (double)mean - old;
        score[i] += c * (weight * c - 2 * (sum[i] - weight * shift[i]));
        moved[i] += move * move;
        to[i] = mean;
    }
}

/* Clusters [begin, end), none empty; all centroids float32. */
ALWAYS_INLINE void step_some(const struct hf_center_rule *rule, const struct hf_sums *s,
                             const struct hf_step *step, int64_t begin, int64_t end) {
    const bool plain = sums_are_plain(rule, s);
    for (int64_t j = begin; j < end; j++) {
        const double weight = hf_sums_weight(s, j);
        double score[BLOCK] = {0};
        double moved[BLOCK] = {0};
        int64_t f = 0;
        for (; f + BLOCK <= s->d; f += BLOCK)
            step_block(rule, s, plain, step->now, step->next, j, f, BLOCK, weight, score, moved);
        step_block(rule, s, plain, step->now, step->next, j, f, (int)(s->d - f), weight, score,
                   moved);
        step->score[j - step->first] = fold_columns(score, s->d);
        step->moved[j - step->first] = fold_columns(moved, s->d);
    }
}

/* As above, one quantity after the other. */
static void step_apart(const struct hf_center_rule *rule, const struct hf_sums *s,
                       const struct hf_step *step, int64_t begin, int64_t end) {
    hf_centers_score_some(rule, s, step->now, begin, end, step->score + (begin - step->first));
    hf_centers_next_some(rule, s, step->now, step->next, begin, end);
    for (int64_t j = begin; j < end; j++)
        step->moved[j - step->first] = hf_center_moved(rule->type, step->now, step->next, j, s->d);
}

void hf_centers_step_some(const struct hf_center_rule *rule, const struct hf_sums *s,
                          const struct hf_step *step, int64_t begin, int64_t end) {
    bool full = rule->metric == HF_EUCLIDEAN && rule->type == HF_F32 && rule->store == HF_F32;
    for (int64_t j = begin; full && j < end; j++)
        full = hf_sums_weight(s, j) > 0;
    if (!full)
        step_apart(rule, s, step, begin, end);
#if HF_HAVE_ISA_avx512
    else if (step_is_safe(rule, s, begin, end))
        step_avx512(rule, s, step, begin, end);
#endif
    else
        step_some(rule, s, step, begin, end);
}

double hf_score_total(hf_metric metric, double sum, double total_square) {
    if (metric != HF_EUCLIDEAN)
        return sum;
    return total_square + sum > 0 ? total_square + sum : 0;
}

double hf_centers_score(const struct hf_center_rule *rule, const struct hf_sums *s, const void *c,
                        double total_square) {
    double total[HF_TREE_CLUSTERS] = {0};
    double term[HF_TREE_CLUSTERS];
    for (int64_t j = 0; j < s->k; j += HF_TREE_CLUSTERS) {
        const int64_t left = s->k - j;
        const int64_t count = left < HF_TREE_CLUSTERS ? left : HF_TREE_CLUSTERS;
        hf_centers_score_some(rule, s, c, j, j + count, term);
        for (int64_t i = 0; i < count; i++)
            total[i] += term[i];
    }
    return hf_score_total(rule->metric, hf_tree_fold(total, HF_TREE_CLUSTERS), total_square);
}
