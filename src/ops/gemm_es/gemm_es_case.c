/* SPDX-License-Identifier: Apache-2.0 */
#include "core/case.h"
#include "ops/gemm_es/gemm_es.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool make_arrays(struct hf_rng *rng, struct hf_case *c, struct hf_gemm_es_args *p,
                        bool extreme) {
    const int64_t ka = p->m * p->k, kb = p->k * p->n;
    float *a = hf_case_alloc(c, (size_t)ka * sizeof *a, false);
    float *b = hf_case_alloc(c, (size_t)kb * sizeof *b, false);
    p->c = hf_case_alloc(c, (size_t)(p->m * p->n) * sizeof *p->c, true);
    p->signature = hf_case_alloc(c, HF_ES_ENTRIES * sizeof *p->signature, true);
    if (p->flips > 0)
        p->seen = hf_case_alloc(c, (size_t)p->flips, true);
    if (c->failed)
        return false;
    for (int64_t i = 0; i < ka + kb; i++) {
        const double scale = extreme ? ldexp(1, (int)(hf_rng_next(rng) % 240) - 120) : 1;
        *(i < ka ? a + i : b + i - ka) = (float)(hf_rng_next_normal(rng) * scale);
    }
    p->a = a;
    p->b = b;
    return true;
}

#define FLIPS 40 /* of a case */

/* Every level and every pair of checksums in both forms, on dimensions around eight lanes. */
static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int64_t dims[][3] = {{1, 1, 1},  {3, 7, 2},   {4, 8, 5},  {5, 9, 3},
                                      {2, 16, 4}, {15, 45, 6}, {6, 29, 17}};
    static const int64_t shapes = sizeof dims / sizeof *dims;
    enum { SINGLE = 4 * HF_CHECKSUM_COUNT, ALL = SINGLE + HF_CHECKSUM_COUNT * HF_CHECKSUM_COUNT };
    struct hf_gemm_es_args *p = c->args;
    const int64_t scheme = id / 2 % ALL;
    if (id >= 4 * ALL)
        return false;
    p->form = id % 2 ? HF_ES_AVX : HF_ES_SEQ;
    p->level = scheme < SINGLE ? (enum hf_es_level)(scheme / HF_CHECKSUM_COUNT) : HF_ES_PAIR;
    p->checksum = (int)(scheme % HF_CHECKSUM_COUNT);
    p->outer = scheme < SINGLE ? 0 : (int)((scheme - SINGLE) / HF_CHECKSUM_COUNT);
    const int64_t *dim = dims[(id + id / ALL + scheme) % shapes];
    p->m = dim[0];
    p->n = dim[1];
    p->k = dim[2];
    if (id >= 2 * ALL) { /* and faults */
        const int64_t bits = 32 * p->k * (p->m + p->n);
        p->flips = bits < FLIPS ? bits : FLIPS;
        p->first_flip = (int64_t)(hf_rng_next(rng) % (uint64_t)(bits - p->flips + 1));
    }
    snprintf(c->name, sizeof c->name, "m=%d n=%d k=%d flips=%d form=%d level=%d %s %s", (int)p->m,
             (int)p->n, (int)p->k, (int)p->flips, (int)p->form, (int)p->level,
             hf_checksum_at(p->checksum)->name, hf_checksum_at(p->outer)->name);
    make_arrays(rng, c, p, id % 5 == 0);
    return true;
}

enum { DATA_NONE, DATA_FLETCHER, DATA_CRC };

static bool make_bench(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c) {
    struct hf_gemm_es_args *p = c->args;
    p->m = bench->plan_only ? 1 : bench->key.dim[0];
    p->n = bench->plan_only ? 1 : bench->key.dim[1];
    p->k = bench->plan_only ? 1 : bench->key.dim[2];
    p->form = bench->key.flags & 1 ? HF_ES_AVX : HF_ES_SEQ;
    p->level = bench->data == DATA_NONE ? HF_ES_NONE : HF_ES_I;
    p->checksum = bench->data == DATA_CRC ? HF_CHECKSUM_CRC32 : HF_CHECKSUM_FLETCHER;
    if (bench->key.dtype[0] != HF_F32 || !make_arrays(rng, c, p, false))
        return false;
    p->m = bench->key.dim[0];
    p->n = bench->key.dim[1];
    p->k = bench->key.dim[2];
    return true;
}

const struct hf_op_cases hf_gemm_es_cases = {
    .make_case = make_case,
    .make_bench = make_bench,
    .data = {"plain", "fletcher_i", "crc32_i"},
    .example = {{HF_F32}, {80, 80, 80}, 0},
};
