/* SPDX-License-Identifier: Apache-2.0
 * From the sums of the clusters to centroids, how far they moved, and the inertia. All loops run in
 * a fixed order on one thread: n * k * d work surrounds this k * d. */
#include "algo/kmeans/fit.h"
#include "base/dtype.h"
#include <math.h>
#include <string.h>

hf_array hf_centers(const struct hf_fit *fit, void *centers) {
    return hf_array_view(centers, fit->center_type, fit->k, fit->d);
}

/* Sum of column f of cluster j. With one limb it is a multiple of a power of two. */
static inline double sum_at(const struct hf_fit *fit, int64_t j, int64_t f) {
    const struct hf_sums *s = &fit->sums;
    const double unit = fit->col.unit[f];
    if (unit > 0)
        return (double)s->sum[j * s->d + f] * unit;
    const int64_t limb[HF_MAX_LIMBS] = {s->sum[j * s->d + f],
                                        s->limbs > 1 ? s->sum[(s->k + j) * s->d + f] : 0};
    return hf_fixed_value(limb, s->limbs, s->bits, s->mult[f]);
}

double hf_cluster_weight(const struct hf_fit *fit, int64_t cluster) {
    const struct hf_sums *s = &fit->sums;
    if (!s->weight)
        return (double)s->count[cluster];
    const int64_t limb[HF_MAX_LIMBS] = {s->weight[cluster],
                                        s->limbs > 1 ? s->weight[s->k + cluster] : 0};
    return hf_fixed_value(limb, s->limbs, s->bits, s->weight_mult);
}

static double stored(const struct hf_fit *fit, double v) {
    if (fit->opts.store == HF_CENTROIDS_SAME)
        return hf_round_to(v, fit->dtype);
    return fit->center_type == HF_F64 ? v : (double)(float)v;
}

void hf_center_put(const struct hf_fit *fit, void *dst, int64_t i, double v) {
    if (fit->center_type == HF_F64)
        ((double *)dst)[i] = stored(fit, v);
    else
        ((float *)dst)[i] = (float)stored(fit, v);
}

void hf_centers_store(const struct hf_fit *fit, void *dst, const double *src, int64_t count) {
    double piece[64]; /* copied out first: dst may lie over src */
    for (int64_t at = 0; at < count; at += 64) {
        const int64_t some = hf_min64(64, count - at);
        memcpy(piece, src + at, (size_t)some * sizeof(double));
        for (int64_t i = 0; i < some; i++)
            hf_center_put(fit, dst, at + i, piece[i]);
    }
}

static void keep_center(const struct hf_fit *fit, void *next, int64_t j) {
    const size_t bytes = (size_t)fit->d * hf_dtype_bytes(fit->center_type);
    memcpy((char *)next + (size_t)j * bytes, (const char *)fit->current + (size_t)j * bytes, bytes);
}

/* The direction of the sum, of length 1; a sum of 0 has none. */
static bool direction(const struct hf_fit *fit, void *next, int64_t j) {
    double square = 0;
    for (int64_t f = 0; f < fit->d; f++) {
        const double v = sum_at(fit, j, f);
        square += v * v;
    }
    const double length = sqrt(square);
    if (length == 0)
        return false;
    for (int64_t f = 0; f < fit->d; f++)
        hf_center_put(fit, next, j * fit->d + f, sum_at(fit, j, f) / length);
    return true;
}

static bool mean(const struct hf_fit *fit, void *next, int64_t j, double weight) {
    for (int64_t f = 0; f < fit->d; f++)
        hf_center_put(fit, next, j * fit->d + f, sum_at(fit, j, f) / weight);
    return true;
}

void hf_centers_update(struct hf_fit *fit) {
    void *next = fit->previous;
    for (int64_t j = 0; j < fit->k; j++) {
        const double weight = hf_cluster_weight(fit, j);
        const bool done =
            weight > 0 &&
            (fit->opts.metric == HF_COSINE ? direction(fit, next, j) : mean(fit, next, j, weight));
        if (!done)
            keep_center(fit, next, j);
    }
    fit->previous = fit->current;
    fit->current = next;
}

double hf_centers_shift(const struct hf_fit *fit) {
    double shift = 0;
    for (int64_t i = 0; i < fit->k * fit->d; i++) {
        const double moved = hf_center_at(fit->current, fit->center_type, i) -
                             hf_center_at(fit->previous, fit->center_type, i);
        shift += moved * moved;
    }
    return shift;
}

/* Sum of w |x - c|^2 over a cluster, less its part of total_square: with s the shift of the filter,
 * sum w |x - s|^2 - 2 (S - W s).(c - s) + W |c - s|^2. */
static double euclidean_part(const struct hf_fit *fit, int64_t j, double weight) {
    double part = 0;
    for (int64_t f = 0; f < fit->d; f++) {
        const double shift = fit->col.shift[f];
        const double c = hf_center_at(fit->current, fit->center_type, j * fit->d + f) - shift;
        part += c * (weight * c - 2 * (sum_at(fit, j, f) - weight * shift));
    }
    return part;
}

/* Sum of the distances of a cluster: W - S.c / |c| for cosine (S sums directions), -S.c for dot. */
static double product_part(const struct hf_fit *fit, int64_t j, double weight) {
    double dot = 0;
    double square = 0;
    for (int64_t f = 0; f < fit->d; f++) {
        const double c = hf_center_at(fit->current, fit->center_type, j * fit->d + f);
        dot += sum_at(fit, j, f) * c;
        square += c * c;
    }
    if (fit->opts.metric == HF_DOT)
        return -dot;
    return square > 0 ? weight - dot / sqrt(square) : weight;
}

double hf_centers_inertia(const struct hf_fit *fit) {
    const bool euclidean = fit->opts.metric == HF_EUCLIDEAN;
    double inertia = euclidean ? fit->total_square : 0;
    for (int64_t j = 0; j < fit->k; j++) {
        const double weight = hf_cluster_weight(fit, j);
        if (weight > 0)
            inertia += euclidean ? euclidean_part(fit, j, weight) : product_part(fit, j, weight);
    }
    return euclidean && inertia < 0 ? 0 : inertia;
}
