/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/means.h"
#include "base/dtype.h"
#include "base/tree.h"
#include <math.h>
#include <string.h>

/* Sum of column f of cluster j. With one limb it is a multiple of a power of two. */
static inline double sum_at(const struct hf_center_rule *rule, const struct hf_sums *s, int64_t j,
                            int64_t f) {
    const double unit = rule->unit[f];
    if (unit > 0)
        return (double)s->sum[j * s->d + f] * unit;
    const int64_t limb[HF_MAX_LIMBS] = {s->sum[j * s->d + f],
                                        s->limbs > 1 ? s->sum[(s->k + j) * s->d + f] : 0};
    return hf_fixed_value(limb, s->limbs, s->bits, s->mult[f]);
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

void hf_centers_next_some(const struct hf_center_rule *rule, const struct hf_sums *s,
                          const void *now, void *next, int64_t begin, int64_t end) {
    const size_t bytes = (size_t)s->d * hf_dtype_bytes(rule->type);
    for (int64_t j = begin; j < end; j++) {
        double divisor = hf_sums_weight(s, j);
        if (divisor > 0 && rule->metric == HF_COSINE)
            divisor = sum_length(rule, s, j); /* the direction of the sum; 0 has none */
        if (!(divisor > 0)) {
            memcpy((char *)next + (size_t)j * bytes, (const char *)now + (size_t)j * bytes, bytes);
            continue;
        }
        for (int64_t f = 0; f < s->d; f++)
            hf_center_store(rule, next, j * s->d + f, sum_at(rule, s, j, f) / divisor);
    }
}

void hf_centers_next(const struct hf_center_rule *rule, const struct hf_sums *s, const void *now,
                     void *next) {
    hf_centers_next_some(rule, s, now, next, 0, s->k);
}

double hf_center_moved(hf_dtype type, const void *a, const void *b, int64_t j, int64_t d) {
    double lane[HF_TREE_COLUMNS] = {0};
    for (int64_t f = 0; f < d; f++) {
        const double moved = hf_center_at(b, type, j * d + f) - hf_center_at(a, type, j * d + f);
        lane[f % HF_TREE_COLUMNS] += moved * moved;
    }
    return hf_tree_fold(lane, HF_TREE_COLUMNS);
}

double hf_centers_moved(hf_dtype type, const void *a, const void *b, int64_t k, int64_t d) {
    double total[HF_TREE_CLUSTERS] = {0};
    for (int64_t j = 0; j < k; j++)
        total[j % HF_TREE_CLUSTERS] += hf_center_moved(type, a, b, j, d);
    return hf_tree_fold(total, HF_TREE_CLUSTERS);
}

/* Sum of w |x - c|^2 over a cluster, less its part of total_square: with s the shift of the filter,
 * sum w |x - s|^2 - 2 (S - W s).(c - s) + W |c - s|^2. */
static double euclidean_part(const struct hf_center_rule *rule, const struct hf_sums *s,
                             const void *centers, int64_t j, double weight) {
    double lane[HF_TREE_COLUMNS] = {0};
    for (int64_t f = 0; f < s->d; f++) {
        const double shift = rule->shift[f];
        const double c = hf_center_at(centers, rule->type, j * s->d + f) - shift;
        lane[f % HF_TREE_COLUMNS] +=
            c * (weight * c - 2 * (sum_at(rule, s, j, f) - weight * shift));
    }
    return hf_tree_fold(lane, HF_TREE_COLUMNS);
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

double hf_center_score(const struct hf_center_rule *rule, const struct hf_sums *s, const void *c,
                       int64_t j) {
    const double weight = hf_sums_weight(s, j);
    if (!(weight > 0))
        return 0;
    return rule->metric == HF_EUCLIDEAN ? euclidean_part(rule, s, c, j, weight)
                                        : product_part(rule, s, c, j, weight);
}

double hf_score_total(hf_metric metric, double sum, double total_square) {
    if (metric != HF_EUCLIDEAN)
        return sum;
    return total_square + sum > 0 ? total_square + sum : 0;
}

double hf_centers_score(const struct hf_center_rule *rule, const struct hf_sums *s, const void *c,
                        double total_square) {
    double total[HF_TREE_CLUSTERS] = {0};
    for (int64_t j = 0; j < s->k; j++)
        total[j % HF_TREE_CLUSTERS] += hf_center_score(rule, s, c, j);
    return hf_score_total(rule->metric, hf_tree_fold(total, HF_TREE_CLUSTERS), total_square);
}
