/* SPDX-License-Identifier: Apache-2.0
 * The loops of gemm_es, written once for all checksums and levels: functions that are always
 * inlined take the steps of a checksum as constant arguments, NULL where nothing is signed. */
#ifndef HF_GEMM_ES_LOOPS_H
#define HF_GEMM_ES_LOOPS_H

#include "base/checksum/step.h"
#include "ops/gemm_es/gemm_es.h"

#define ES_INLINE static inline __attribute__((always_inline))

typedef void es_step(struct hf_checksum *state, uint32_t word);

/* The sums of all entries, in a form that a compiler makes vectors of. */
struct es_state {
    uint32_t a[HF_ES_ENTRIES], b[HF_ES_ENTRIES];
};

ES_INLINE uint32_t es_word(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

ES_INLINE void es_sign(struct es_state *s, es_step *step, int entry, float value) {
    struct hf_checksum one;
    one.a = s->a[entry];
    one.b = s->b[entry];
    step(&one, es_word(value));
    s->a[entry] = (uint32_t)one.a;
    s->b[entry] = (uint32_t)one.b;
}

ES_INLINE void es_sign_lanes(struct es_state *s, es_step *step, const float *values) {
    for (int l = 0; l < HF_ES_LANES; l++)
        es_sign(s, step, l, values[l]);
}

static inline void es_begin(struct es_state *s, const struct hf_checksum_info *info) {
    struct hf_checksum one = {.b = 0};
    info->begin(&one);
    for (int e = 0; e < HF_ES_ENTRIES; e++) {
        s->a[e] = (uint32_t)one.a;
        s->b[e] = (uint32_t)one.b;
    }
}

static inline uint64_t es_value(const struct es_state *s, const struct hf_checksum_info *info,
                                int entry) {
    struct hf_checksum one;
    one.a = s->a[entry];
    one.b = s->b[entry];
    return info->value(&one);
}

/* The internal loop. avx is constant. */
ES_INLINE void es_internal(const struct hf_gemm_es_args *p, int64_t i, int64_t q, bool avx,
                           struct es_state *s, es_step *step) {
    const int rest = avx ? HF_ES_LANES : 0;
    const float a = p->a[i * p->k + q];
    const float *b = p->b + q * p->n;
    float *c = p->c + i * p->n;
    int64_t j = 0;
    if (step)
        es_sign(s, step, rest, a);
    for (; avx && j + HF_ES_LANES <= p->n; j += HF_ES_LANES) {
        for (int l = 0; l < HF_ES_LANES; l++)
            c[j + l] += a * b[j + l];
        if (step)
            es_sign_lanes(s, step, b + j);
    }
    for (; j < p->n; j++) {
        c[j] += a * b[j];
        if (step)
            es_sign(s, step, rest, b[j]);
    }
}

/* After the internal loop of (i, q), or (external) after the intermediate one. */
struct es_at {
    int64_t i, q;
    bool external;
};

ES_INLINE void es_after(const struct hf_gemm_es_args *p, struct es_at at, bool avx,
                        struct es_state *s, es_step *step) {
    const bool external = at.external;
    const int64_t whole = p->n / HF_ES_LANES * HF_ES_LANES;
    const float *b = p->b + at.q * p->n;
    if (!step)
        return;
    es_sign(s, step, avx ? HF_ES_LANES : 0, p->a[at.i * p->k + at.q]);
    if (avx && whole > 0)
        es_sign_lanes(s, step, b + whole - HF_ES_LANES);
    if (!avx || (external && whole == 0))
        es_sign(s, step, avx ? HF_ES_LANES : 0, b[p->n - 1]);
    for (int64_t j = whole; avx && !external && j < p->n; j++)
        es_sign(s, step, HF_ES_LANES, b[j]);
}

ES_INLINE void es_single(const struct hf_gemm_es_args *p, bool avx, es_step *internal,
                         es_step *intermediate, es_step *external) {
    const struct hf_checksum_info *info = hf_checksum_at(p->checksum);
    struct es_state s;
    es_begin(&s, info);
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t q = 0; q < p->k; q++) {
            es_internal(p, i, q, avx, &s, internal);
            es_after(p, (struct es_at){i, q, false}, avx, &s, intermediate);
        }
        es_after(p, (struct es_at){i, p->k - 1, true}, avx, &s, external);
    }
    for (int e = 0; e < (avx ? HF_ES_ENTRIES : 1); e++)
        p->signature[e] = es_value(&s, info, e);
}

ES_INLINE void es_pair(const struct hf_gemm_es_args *p, bool avx, es_step *internal) {
    const struct hf_checksum_info *inner = hf_checksum_at(p->checksum);
    const struct hf_checksum_info *outer = hf_checksum_at(p->outer);
    const int entries = avx ? HF_ES_ENTRIES : 1;
    struct hf_checksum sum[HF_ES_ENTRIES];
    for (int e = 0; e < entries; e++)
        outer->begin(&sum[e]);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t q = 0; q < p->k; q++) {
            struct es_state s;
            es_begin(&s, inner);
            es_internal(p, i, q, avx, &s, internal);
            for (int e = 0; e < entries; e++) {
                const uint64_t value = es_value(&s, inner, e);
                outer->step(&sum[e], (uint32_t)value);
                if (inner->bits == 64)
                    outer->step(&sum[e], (uint32_t)(value >> 32));
            }
        }
    for (int e = 0; e < entries; e++)
        p->signature[e] = outer->value(&sum[e]);
}

/* A function for each checksum and level, and a table of them. */
typedef void es_loops(const struct hf_gemm_es_args *p);

#define ES_LOOPS(avx)                                                                              \
    static void es_none(const struct hf_gemm_es_args *p) { es_single(p, avx, NULL, NULL, NULL); }
#define ES_OF_CHECKSUM(name, avx)                                                                  \
    static void es_e_##name(const struct hf_gemm_es_args *p) {                                     \
        es_single(p, avx, NULL, NULL, hf_step_##name);                                             \
    }                                                                                              \
    static void es_m_##name(const struct hf_gemm_es_args *p) {                                     \
        es_single(p, avx, NULL, hf_step_##name, NULL);                                             \
    }                                                                                              \
    static void es_i_##name(const struct hf_gemm_es_args *p) {                                     \
        es_single(p, avx, hf_step_##name, NULL, NULL);                                             \
    }                                                                                              \
    static void es_p_##name(const struct hf_gemm_es_args *p) { es_pair(p, avx, hf_step_##name); }

ES_LOOPS(ES_AVX)
#define CHECKSUM(NAME, name, bits, traits, text) ES_OF_CHECKSUM(name, ES_AVX)
#define CHECKSUM_WIDE(NAME, name, bits, traits, text)
#include "base/checksum/checksum.def"
#undef CHECKSUM

static es_loops *const es_table[HF_CHECKSUM_COUNT][HF_ES_LEVELS] = {
#define CHECKSUM(NAME, name, bits, traits, text)                                                   \
    [HF_CHECKSUM_##NAME] = {es_none, es_e_##name, es_m_##name, es_i_##name, es_p_##name},
#define CHECKSUM_WIDE(NAME, name, bits, traits, text)
#include "base/checksum/checksum.def"
#undef CHECKSUM
};

static hf_status es_run(const struct hf_call *call) {
    const struct hf_gemm_es_args *args = call->args;
    memset(args->c, 0, (size_t)(args->m * args->n) * sizeof *args->c);
    memset(args->signature, 0, HF_ES_ENTRIES * sizeof *args->signature);
    es_table[args->checksum][args->level](args);
    return HF_OK;
}

/* Those whose state is two sums, and no faults. */
static bool es_supports(const struct hf_call *call) {
    const struct hf_gemm_es_args *args = call->args;
    return args->flips == 0 && (args->form == HF_ES_AVX) == ES_AVX &&
           hf_checksum_at(args->checksum)->change != NULL;
}

#endif
