/* SPDX-License-Identifier: Apache-2.0
 * step_center() on AVX-512, which knows quotients without dividing. */
#ifndef HF_MEANS_AVX512_H
#define HF_MEANS_AVX512_H

#include "base/compiler.h"
#include "base/tree.h"
#include "ops/means/means.h"
#include <immintrin.h>
#include <stdbool.h>

#define PART 8                         /* columns of a vector, */
#define PARTS (HF_TREE_COLUMNS / PART) /* and vectors of the lanes of a sum */
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
    __m512d score[PARTS], moved[PARTS];
};

/* a / b rounded to nearest, without a division: inverse is 1 / b rounded to nearest. `near` is one
 * of the two neighbours of a / b, what it leaves of a is exact, and so is the last step (Markstein,
 * Computation of elementary functions on the IBM RISC System/6000 processor, 1990). */
ALWAYS_INLINE __m512d quotient(__m512d a, __m512d b, __m512d inverse) {
    const __m512d rough = _mm512_mul_pd(a, inverse);
    const __m512d near = _mm512_fmadd_pd(_mm512_fnmadd_pd(b, rough, a), inverse, rough);
    return _mm512_fmadd_pd(_mm512_fnmadd_pd(b, near, a), inverse, near);
}

/* step_block() for the columns f + i with bit i of `some`; lane `at` of the sums. */
ALWAYS_INLINE void step_part(const struct step_row *r, int64_t f, __mmask8 some,
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
ALWAYS_INLINE double fold_parts(const __m512d v[PARTS]) {
    double lane[PART];
    _mm512_storeu_pd(lane, _mm512_add_pd(_mm512_add_pd(v[0], v[2]), _mm512_add_pd(v[1], v[3])));
    return hf_tree_fold(lane, PART);
}

ALWAYS_INLINE void step_row(const struct step_row *r, int64_t d, double *score, double *moved) {
    struct step_lanes lanes;
    int64_t f = 0;
    UNROLL(4)
    for (int i = 0; i < PARTS; i++)
        lanes.score[i] = lanes.moved[i] = _mm512_setzero_pd();
    for (; f + HF_TREE_COLUMNS <= d; f += HF_TREE_COLUMNS) {
        UNROLL(4)
        for (int i = 0; i < PARTS; i++)
            step_part(r, f + i * PART, 0xff, &lanes, i);
    }
    UNROLL(4)
    for (int i = 0; i < PARTS; i++) {
        const int64_t left = d - f - i * PART;
        if (left > 0)
            step_part(r, f + i * PART, (__mmask8)(left < PART ? (1 << left) - 1 : 0xff), &lanes, i);
    }
    *score = fold_parts(lanes.score);
    *moved = fold_parts(lanes.moved);
}

/* Can step_vectors() make these clusters? Then no float64 there underflows or overflows. */
static bool step_is_safe(const struct hf_means_args *a, int64_t begin, int64_t end) {
    bool safe = a->rule.type == HF_F32;
    for (int64_t f = 0; f < a->sums->d; f++)
        safe &= a->rule.unit[f] > 1 / SAFE && a->rule.unit[f] < SAFE;
    for (int64_t j = begin; safe && j < end; j++) {
        const double weight = hf_sums_weight(a->sums, j);
        safe = weight > 1 / SAFE && weight < SAFE;
    }
    return safe;
}

static void step_vectors(const struct hf_means_args *a, int64_t j, double *score, double *moved) {
    const struct hf_sums *s = a->sums;
    const double weight = hf_sums_weight(s, j);
    const struct step_row r = {.sum = s->sum + j * s->d,
                               .unit = a->rule.unit,
                               .shift = a->rule.shift,
                               .from = (const float *)a->now + j * s->d,
                               .to = (float *)a->next + j * s->d,
                               .weight = _mm512_set1_pd(weight),
                               .inverse = _mm512_set1_pd(1 / weight)};
    step_row(&r, s->d, score, moved);
}

#endif
