/* SPDX-License-Identifier: Apache-2.0
 * Problems of the campaigns, and where their operands are signed: the comment of gemm_es.h as
 * arithmetic. The campaign compares it with computed products. */
#include "base/dtype.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness/campaign/es.h"

#include <stdio.h>
#include <string.h>

const char *hf_dev_checksum(int id) {
    const struct hf_checksum_info *info = hf_checksum_at(id);
    return info && info->change ? info->name : NULL;
}

const char *hf_dev_checksum_text(int id) {
    const struct hf_checksum_info *info = hf_checksum_at(id);
    return info ? info->text : NULL;
}

/* The ids of the paper's checksums; returns how many. */
static int paper_ids(int ids[HF_CHECKSUM_COUNT]) {
    int count = 0;
    for (int id = 0; id < HF_CHECKSUM_COUNT; id++)
        if (hf_checksum_at(id)->traits & HF_CHECKSUM_PAPER)
            ids[count++] = id;
    return count;
}

int hf_dev_es_at(int i, hf_dev_es *es, char name[32]) {
    static const char *const levels[] = {"e", "m", "i"};
    int ids[HF_CHECKSUM_COUNT];
    const int count = paper_ids(ids);
    *es = (hf_dev_es){.level = HF_DEV_ES_NONE};
    if (i < 0 || i >= 3 * count + count * (count - 1))
        return 0;
    if (i < 3 * count) {
        es->level = (hf_dev_es_level)(HF_DEV_ES_E + i % 3);
        es->checksum = ids[i / 3];
        snprintf(name, 32, "%s_%s", hf_checksum_at(es->checksum)->name, levels[i % 3]);
        return 1;
    }
    i -= 3 * count;
    es->level = HF_DEV_ES_PAIR;
    es->checksum = ids[i / (count - 1)];
    const int other = i % (count - 1);
    es->outer = ids[other + (other >= i / (count - 1))];
    snprintf(name, 32, "%s+%s", hf_checksum_at(es->checksum)->name,
             hf_checksum_at(es->outer)->name);
    return 1;
}

hf_status hf_es_problem(hf_context *ctx, const hf_dev_es *es, hf_dev_dims dims, uint64_t seed,
                        struct es_problem *p) {
    memset(p, 0, sizeof *p);
    if (dims.m < 1 || dims.n < 1 || dims.k < 1 || !hf_dev_checksum(es->checksum) ||
        !hf_dev_checksum(es->outer))
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "a product needs dimensions of at least 1 and a checksum "
                           "that tells its change");
    size_t a, b, c;
    if (hf_mul3_size(dims.m, dims.k, sizeof(float), &a) &&
        hf_mul3_size(dims.k, dims.n, sizeof(float), &b) &&
        hf_mul3_size(dims.m, dims.n, sizeof(float), &c)) {
        p->a = hf_alloc(a);
        p->b = hf_alloc(b);
        p->c = hf_alloc(c);
    }
    if (!p->a || !p->b || !p->c) {
        hf_es_problem_clear(p);
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for the matrices of a campaign");
    }
    for (int64_t i = 0; i < dims.m * dims.k; i++)
        p->a[i] = (float)(2 * hf_rng_unit(seed, 1, (uint64_t)i) - 1);
    for (int64_t i = 0; i < dims.k * dims.n; i++)
        p->b[i] = (float)(2 * hf_rng_unit(seed, 2, (uint64_t)i) - 1);
    p->args = (struct hf_gemm_es_args){.m = dims.m,
                                       .n = dims.n,
                                       .k = dims.k,
                                       .a = p->a,
                                       .b = p->b,
                                       .c = p->c,
                                       .form = es->avx ? HF_ES_AVX : HF_ES_SEQ,
                                       .level = (enum hf_es_level)es->level,
                                       .checksum = es->checksum,
                                       .outer = es->outer,
                                       .signature = p->signature};
    return HF_OK;
}

void hf_es_problem_clear(struct es_problem *p) {
    hf_free(p->a);
    hf_free(p->b);
    hf_free(p->c);
    memset(p, 0, sizeof *p);
}

/* Floats become elements of another type, which is not wider, where they lie. */
static void narrow(float *x, int64_t elements, hf_dtype dtype) {
    for (int64_t i = 0; i < elements; i++) {
        const float value = x[i];
        hf_store_f64(x, dtype, i, (double)value);
    }
}

hf_status hf_es_product(hf_context *ctx, hf_dev_dims dims, hf_dtype dtype, struct es_product *x) {
    const hf_dev_es none = {.level = HF_DEV_ES_NONE};
    *x = (struct es_product){.plain = NULL};
    HF_TRY(hf_es_problem(ctx, &none, dims, 1, &x->p));
    narrow(x->p.a, dims.m * dims.k, dtype);
    narrow(x->p.b, dims.k * dims.n, dtype);
    x->bytes = (size_t)(dims.m * dims.n) * hf_dtype_bytes(dtype);
    x->plain = hf_alloc(x->bytes);
    if (!x->plain)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for the matrices of a campaign");
    x->args = (hf_gemm_args){.m = dims.m,
                             .n = dims.n,
                             .k = dims.k,
                             .dtype = dtype,
                             .alpha = 1,
                             .a = x->p.a,
                             .b = x->p.b,
                             .c = x->plain};
    HF_TRY(hf_gemm(ctx, &x->args, &x->report));
    x->args.c = x->p.c;
    return HF_OK;
}

void hf_es_product_clear(struct es_product *x) {
    hf_free(x->plain);
    hf_es_problem_clear(&x->p);
}

/* Place number `at` of `per` in round `round` of `rounds`. */
static bool place_of(struct es_place *place, int entry, int64_t rounds, int64_t per, int64_t round,
                     int64_t at) {
    place->entry = entry;
    place->after = (uint64_t)(rounds * per - 1 - (round * per + at));
    return true;
}

/* Rounds of a level, the number of the one of (i, q); words of the rest in one. */
struct rounds {
    int64_t count, at, rest;
    int64_t whole; /* columns in whole vectors */
    int entry;     /* of the rest */
};

static struct rounds rounds_of(const struct hf_gemm_es_args *p, int64_t i, int64_t q) {
    const bool avx = p->form == HF_ES_AVX;
    struct rounds r = {p->m * p->k, i * p->k + q, 0, avx ? p->n / HF_ES_LANES * HF_ES_LANES : 0,
                       avx ? HF_ES_LANES : 0};
    r.rest = 1 + p->n - r.whole;
    if (!avx && p->level <= HF_ES_M)
        r.rest = 2;
    if (p->level == HF_ES_E) {
        r.count = p->m;
        r.at = i;
        r.rest = r.whole > 0 ? 1 : 2;
    } else if (p->level == HF_ES_PAIR) {
        r.count = 1;
        r.at = 0;
    }
    return r;
}

bool hf_es_place_a(const struct hf_gemm_es_args *p, int64_t i, int64_t q, struct es_place *place) {
    const struct rounds r = rounds_of(p, i, q);
    if (p->level == HF_ES_NONE || (p->level == HF_ES_E && q != p->k - 1))
        return false;
    return place_of(place, r.entry, r.count, r.rest, r.at, 0);
}

bool hf_es_place_b(const struct hf_gemm_es_args *p, int64_t i, int64_t q, int64_t j,
                   struct es_place *place) {
    const struct rounds r = rounds_of(p, i, q);
    const bool internal = p->level == HF_ES_I || p->level == HF_ES_PAIR;
    if (p->level == HF_ES_NONE || (p->level == HF_ES_E && q != p->k - 1))
        return false;
    if (j < r.whole && internal)
        return place_of(place, (int)(j % HF_ES_LANES), r.count, r.whole / HF_ES_LANES, r.at,
                        j / HF_ES_LANES);
    if (j < r.whole)
        return j >= r.whole - HF_ES_LANES &&
               place_of(place, (int)(j % HF_ES_LANES), r.count, 1, r.at, 0);
    if (internal || (p->form == HF_ES_AVX && p->level == HF_ES_M))
        return place_of(place, r.entry, r.count, r.rest, r.at, 1 + j - r.whole);
    return j == p->n - 1 && r.rest == 2 && place_of(place, r.entry, r.count, 2, r.at, 1);
}
