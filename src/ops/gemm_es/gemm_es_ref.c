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
    struct hf_checksum state[HF_ES_ENTRIES], sum[HF_ES_ENTRIES];
};

static void take(struct signer *s, int entry, float value) {
    s->inner->step(&s->state[entry], es_word(value));
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
             p->b[q * p->n + j]);
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
    take(s, p->form == HF_ES_AVX ? HF_ES_LANES : 0, p->a[i * p->k + q]);
    struct hf_gemm_es_args cut = *p; /* E leaves out what follows the whole vectors */
    if (p->form == HF_ES_SEQ || p->level == HF_ES_M || whole == 0) {
        take_row(s, &cut, q, left_from(p));
        return;
    }
    for (int64_t j = left_from(p); j < whole; j++)
        take(s, (int)(j % HF_ES_LANES), p->b[q * p->n + j]);
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

static void sign(const struct hf_gemm_es_args *p) {
    struct signer s = {hf_checksum_at(p->checksum), hf_checksum_at(p->outer), {{0}}, {{0}}};
    begin_states(&s);
    for (int e = 0; e < HF_ES_ENTRIES; e++)
        s.outer->begin(&s.sum[e]);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t q = 0; q < p->k; q++) {
            if (p->level == HF_ES_I || p->level == HF_ES_PAIR) {
                take(&s, p->form == HF_ES_AVX ? HF_ES_LANES : 0, p->a[i * p->k + q]);
                take_row(&s, p, q, 0);
            }
            if (p->level == HF_ES_PAIR)
                take_pair(&s, p);
            if (p->level == HF_ES_M || (p->level == HF_ES_E && q == p->k - 1))
                take_after(&s, p, i, q);
        }
    for (int e = 0; e < (p->form == HF_ES_AVX ? HF_ES_ENTRIES : 1); e++)
        p->signature[e] =
            p->level == HF_ES_PAIR ? s.outer->value(&s.sum[e]) : s.inner->value(&s.state[e]);
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
    memset(p->signature, 0, HF_ES_ENTRIES * sizeof *p->signature);
    sign(p);
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
