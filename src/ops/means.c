/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/means.h"
#include "base/compiler.h"
#include "base/dtype.h"
#include "base/tree.h"
#include "device/host/isa.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>
#if HF_HAVE_ISA_avx512
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

#if HF_HAVE_ISA_avx512
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512vl")))
#define PART 8       /* columns of a vector */
#define SAFE 0x1p400 /* of sums and weights whose quotients lose nothing on the way */

/* What step_part() needs to know of a cluster. */
struct step_row {
    const int64_t *sum;
    const double *unit, *shift;
    const float *from;
    float *to;
    __m512d weight, inverse;
};

struct step_lanes {
    __m512d score[BLOCK / PART], moved[BLOCK / PART];
};

/* a / b rounded to nearest, without a division: inverse is 1 / b rounded to nearest. `near` is one
 * of the two neighbours of a / b, what it leaves of a is exact, and so is the last step (Markstein,
 * Computation of elementary functions on the IBM RISC System/6000 processor, 1990). */
AVX512 ALWAYS_INLINE __m512d quotient(__m512d a, __m512d b, __m512d inverse) {
    const __m512d rough = _mm512_mul_pd(a, inverse);
    const __m512d near = _mm512_fmadd_pd(_mm512_fnmadd_pd(b, rough, a), inverse, rough);
    return _mm512_fmadd_pd(_mm512_fnmadd_pd(b, near, a), inverse, near);
}

/* step_block() for the columns f + i with bit i of `some`; lane `at` of the sums. */
AVX512 ALWAYS_INLINE void step_part(const struct step_row *r, int64_t f, __mmask8 some,
                                    struct step_lanes *lanes, int at) {
    const __m512d w = r->weight;
    const __m512d shift = _mm512_maskz_loadu_pd(some, r->shift + f);
    const __m512d old = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(some, r->from + f));
    const __m512d sum =
        _mm512_mul_pd(_mm512_cvtepi64_pd(_mm512_maskz_loadu_epi64(some, r->sum + f)),
                      _mm512_maskz_loadu_pd(some, r->unit + f));
    const __m256 mean = _mm512_cvtpd_ps(quotient(sum, w, r->inverse));
    const __m512d c = _mm512_sub_pd(old, shift);
    const __m512d off = _mm512_sub_pd(sum, _mm512_mul_pd(w, shift));
    const __m512d move = _mm512_sub_pd(_mm512_cvtps_pd(mean), old);
    const __m512d twice = _mm512_sub_pd(_mm512_mul_pd(w, c), _mm512_add_pd(off, off));
    lanes->score[at] = _mm512_add_pd(lanes->score[at], _mm512_mul_pd(c, twice));
    lanes->moved[at] = _mm512_add_pd(lanes->moved[at], _mm512_mul_pd(move, move));
    _mm256_mask_storeu_ps(r->to + f, some, mean);
}

/* hf_tree_fold() of all lanes. */
AVX512 ALWAYS_INLINE double fold_parts(const __m512d v[BLOCK / PART]) {
    double lane[PART];
    _mm512_storeu_pd(lane, _mm512_add_pd(_mm512_add_pd(v[0], v[2]), _mm512_add_pd(v[1], v[3])));
    return hf_tree_fold(lane, PART);
}

AVX512 ALWAYS_INLINE void step_row(const struct step_row *r, int64_t d, double *score,
                                   double *moved) {
    struct step_lanes lanes;
    int64_t f = 0;
    UNROLL(4)
    for (int i = 0; i < BLOCK / PART; i++)
        lanes.score[i] = lanes.moved[i] = _mm512_setzero_pd();
    for (; f + BLOCK <= d; f += BLOCK) {
        UNROLL(4)
        for (int i = 0; i < BLOCK / PART; i++)
            step_part(r, f + i * PART, 0xff, &lanes, i);
    }
    UNROLL(4)
    for (int i = 0; i < BLOCK / PART; i++) {
        const int64_t left = d - f - i * PART;
        if (left > 0)
            step_part(r, f + i * PART, (__mmask8)(left < PART ? (1 << left) - 1 : 0xff), &lanes, i);
    }
    *score = fold_parts(lanes.score);
    *moved = fold_parts(lanes.moved);
}

/* Can step_avx512() do these clusters? Then no float64 there underflows or overflows. */
static bool step_is_safe(const struct hf_center_rule *rule, const struct hf_sums *s, int64_t begin,
                         int64_t end) {
    bool safe = true;
    if (!(hf_cpu_isas() >> HF_ISA_ID_avx512 & 1))
        return false;
    for (int64_t f = 0; f < s->d; f++)
        safe &= rule->unit[f] > 1 / SAFE && rule->unit[f] < SAFE;
    for (int64_t j = begin; safe && j < end; j++) {
        const double weight = hf_sums_weight(s, j);
        safe = weight > 1 / SAFE && weight < SAFE;
    }
    return safe;
}

AVX512 static void step_avx512(const struct hf_center_rule *rule, const struct hf_sums *s,
                               const struct hf_step *step, int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j++) {
        const double weight = hf_sums_weight(s, j);
        const struct step_row r = {.sum = s->sum + j * s->d,
                                   .unit = rule->unit,
                                   .shift = rule->shift,
                                   .from = (const float *)step->now + j * s->d,
                                   .to = (float *)step->next + j * s->d,
                                   .weight = _mm512_set1_pd(weight),
                                   .inverse = _mm512_set1_pd(1 / weight)};
        step_row(&r, s->d, step->score + (j - step->first), step->moved + (j - step->first));
    }
}
#endif

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
