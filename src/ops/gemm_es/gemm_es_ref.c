/* SPDX-License-Identifier: Apache-2.0
 * Reference of gemm_es, which says word by word what is signed; and the sequential loops. */
#include "base/mem.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"

#define ES_AVX false
#include "ops/gemm_es/gemm_es_loops.h"

struct signer {
    const struct hf_checksum_info *inner, *outer;
    const float *flipped; /* the operand of which a bit is flipped; NULL: none is */
    uint32_t mask;
    struct hf_checksum state[HF_ES_ENTRIES], sum[HF_ES_ENTRIES];
};

static void take(struct signer *s, int entry, const float *operand) {
    s->inner->step(&s->state[entry], es_word(*operand) ^ (operand == s->flipped ? s->mask : 0));
}

static void begin_states(struct signer *s) {
    for (int e = 0; e < HF_ES_ENTRIES; e++)
        s->inner->begin(&s->state[e]);
}

/* The internal loop's words of (i, q), but for a, from column `first` on. */
static void take_row(struct signer *s, const struct hf_gemm_es_args *p, int64_t q, int64_t first) {
    const int64_t whole = p->n / HF_ES_LANES * HF_ES_LANES;
    for (int64_t j = first; j < p->n; j++)
        take(s,
             p->form == HF_ES_SEQ ? 0
             : j < whole          ? (int)(j % HF_ES_LANES)
                                  : HF_ES_LANES,
             p->b + q * p->n + j);
}

/* Where what is left in registers begins: after the internal or the external loop. */
static int64_t left_from(const struct hf_gemm_es_args *p) {
    const int64_t whole = p->n / HF_ES_LANES * HF_ES_LANES;
    return p->form == HF_ES_AVX && whole > 0             ? whole - HF_ES_LANES
           : p->form == HF_ES_AVX && p->level == HF_ES_M ? 0
                                                         : p->n - 1;
}

static void take_after(struct signer *s, const struct hf_gemm_es_args *p, int64_t i, int64_t q) {
    const int64_t whole = p->n / HF_ES_LANES * HF_ES_LANES;
    take(s, p->form == HF_ES_AVX ? HF_ES_LANES : 0, p->a + i * p->k + q);
    struct hf_gemm_es_args cut = *p; /* E leaves out what follows the whole vectors */
    if (p->form == HF_ES_SEQ || p->level == HF_ES_M || whole == 0) {
        take_row(s, &cut, q, left_from(p));
        return;
    }
    for (int64_t j = left_from(p); j < whole; j++)
        take(s, (int)(j % HF_ES_LANES), p->b + q * p->n + j);
}

static void take_pair(struct signer *s, const struct hf_gemm_es_args *p) {
    for (int e = 0; e < HF_ES_ENTRIES; e++) {
        const uint64_t value = s->inner->value(&s->state[e]);
        s->outer->step(&s->sum[e], (uint32_t)value);
        if (s->inner->bits == 64)
            s->outer->step(&s->sum[e], (uint32_t)(value >> 32));
    }
    (void)p;
    begin_states(s);
}

/* fault: number of the bit that is flipped; -1: none. */
static void sign(const struct hf_gemm_es_args *p, int64_t fault, uint64_t out[HF_ES_ENTRIES]) {
    struct signer s = {.inner = hf_checksum_at(p->checksum), .outer = hf_checksum_at(p->outer)};
    const int64_t at = fault / 32, of_a = p->m * p->k;
    if (fault >= 0)
        s.flipped = at < of_a ? p->a + at : p->b + (at - of_a);
    s.mask = 1u << (fault & 31);
    begin_states(&s);
    for (int e = 0; e < HF_ES_ENTRIES; e++)
        s.outer->begin(&s.sum[e]);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t q = 0; q < p->k; q++) {
            if (p->level == HF_ES_I || p->level == HF_ES_PAIR) {
                take(&s, p->form == HF_ES_AVX ? HF_ES_LANES : 0, p->a + i * p->k + q);
                take_row(&s, p, q, 0);
            }
            if (p->level == HF_ES_PAIR)
                take_pair(&s, p);
            if (p->level == HF_ES_M || (p->level == HF_ES_E && q == p->k - 1))
                take_after(&s, p, i, q);
        }
    memset(out, 0, HF_ES_ENTRIES * sizeof *out);
    for (int e = 0; e < (p->form == HF_ES_AVX ? HF_ES_ENTRIES : 1); e++)
        out[e] = p->level == HF_ES_PAIR ? s.outer->value(&s.sum[e]) : s.inner->value(&s.state[e]);
}

static hf_status ref_run(const struct hf_call *call) {
    const struct hf_gemm_es_args *p = call->args;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float sum = 0;
            for (int64_t q = 0; q < p->k; q++)
                sum += p->a[i * p->k + q] * p->b[q * p->n + j];
            p->c[i * p->n + j] = sum;
        }
    sign(p, -1, p->signature);
    for (int64_t f = 0; f < p->flips; f++) {
        uint64_t other[HF_ES_ENTRIES];
        sign(p, p->first_flip + f, other);
        p->seen[f] = memcmp(other, p->signature, sizeof other) != 0;
    }
    return HF_OK;
}

static double seq_estimate(const struct hf_call *call) {
    const struct hf_gemm_es_args *p = call->args;
    const double products = (double)p->m * (double)p->n * (double)p->k;
    return hf_estimate_ns((p->level == HF_ES_I ? 8 : 2) * products, 1, 0);
}

static const struct hf_kernel kernels[] = {
    {.name = "gemm_es_ref",
     .device = HF_DEV_HOST,
     .dtypes = HF_DT(HF_F32),
     .isa = HF_ISA_ID_scalar,
     .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
     .run = ref_run},
    {.name = "gemm_es_seq_scalar",
     .device = HF_DEV_HOST,
     .dtypes = HF_DT(HF_F32),
     .isa = HF_ISA_ID_scalar,
     .traits = HF_TRAIT_FIXED_ORDER,
     .supports = es_supports,
     .run = es_run,
     .estimate = seq_estimate},
};

const struct hf_kernel_table hf_gemm_es_kernels_scalar = {kernels, 2};
