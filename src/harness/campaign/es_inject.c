/* SPDX-License-Identifier: Apache-2.0
 * Faults while a product is computed. The product is computed here, step by step as gemm_es.h says,
 * with one fault in it; without one it gives the kernel's bits, which is checked each time. */
#include "base/mem.h"
#include "base/rng.h"
#include "harness/campaign/es.h"

#include <string.h>

enum es_fault {
#define ES_FAULT(NAME, name, text) FAULT_##NAME,
#include "harness/campaign/es_fault.def"
#undef ES_FAULT
    FAULT_COUNT
};

static const struct {
    const char *name, *text;
} classes[FAULT_COUNT] = {
#define ES_FAULT(NAME, name, text) {#name, text},
#include "harness/campaign/es_fault.def"
#undef ES_FAULT
};

int hf_dev_es_fault_at(int i, const char **name, const char **text) {
    if (i < 0 || i >= FAULT_COUNT)
        return 0;
    *name = classes[i].name;
    *text = classes[i].text;
    return 1;
}

struct fault {
    int class; /* enum es_fault, -1: none */
    bool of_a; /* REGISTER */
    int64_t i, q, j;
    int bit;
};

struct run {
    const struct hf_gemm_es_args *p;
    const struct fault *fault;
    const struct hf_checksum_info *info, *outer;
    struct hf_checksum state[HF_ES_ENTRIES], sum[HF_ES_ENTRIES];
    float *c;
};

static uint32_t word_of(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

static float real_of(uint32_t word) {
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static float flipped(float value, int bit) { return real_of(word_of(value) ^ 1u << bit); }

static bool hits(const struct run *r, int class, int64_t i, int64_t q, int64_t j) {
    const struct fault *f = r->fault;
    return f->class == class && f->i == i && f->q == q && f->j == j;
}

/* b[q][j] as it arrives in its register for (i, q, j). */
static float load_b(const struct run *r, int64_t i, int64_t q, int64_t j) {
    const struct hf_gemm_es_args *p = r->p;
    int64_t at = q * p->n + j;
    if (hits(r, FAULT_ADDRESS, i, q, j)) {
        const int64_t other = at ^ ((int64_t)1 << r->fault->bit);
        at = other < p->k * p->n ? other : at;
    }
    const float b = p->b[at];
    if (r->fault->class == FAULT_STUCK && j % HF_ES_LANES == r->fault->j % HF_ES_LANES)
        return real_of(word_of(b) | 1u << r->fault->bit);
    if (hits(r, FAULT_REGISTER, i, q, j) && !r->fault->of_a)
        return flipped(b, r->fault->bit);
    return b;
}

static void take(struct run *r, int entry, float value) {
    r->info->step(&r->state[entry], word_of(value));
}

static bool dropped(const struct run *r, int64_t i, int64_t j) {
    return r->fault->class == FAULT_DROPPED && r->fault->i == i &&
           r->fault->j / HF_ES_LANES == j / HF_ES_LANES;
}

static void internal(struct run *r, int64_t i, int64_t q, float a, float *left) {
    const struct hf_gemm_es_args *p = r->p;
    const bool signs = p->level == HF_ES_I || p->level == HF_ES_PAIR;
    const int64_t whole = p->form == HF_ES_AVX ? p->n / HF_ES_LANES * HF_ES_LANES : 0;
    const int rest = p->form == HF_ES_AVX ? HF_ES_LANES : 0;
    if (signs)
        take(r, rest, a);
    for (int64_t j = 0; j < p->n; j++) {
        if (dropped(r, i, j))
            continue;
        const float b = load_b(r, i, q, j);
        const bool own = hits(r, FAULT_REGISTER, i, q, j) && r->fault->of_a;
        float product = (own ? flipped(a, r->fault->bit) : a) * b;
        if (hits(r, FAULT_PRODUCT, i, q, j))
            product = flipped(product, r->fault->bit);
        float *c = &r->c[i * p->n + j];
        *c += product;
        if (hits(r, FAULT_ACCUMULATOR, i, q, j))
            *c = flipped(*c, r->fault->bit);
        if (hits(r, FAULT_CARRY, i, q, j))
            *c = real_of(word_of(*c) + (1u << r->fault->bit));
        if (signs)
            take(r, j < whole ? (int)(j % HF_ES_LANES) : rest, b);
        left[j] = b;
    }
}

/* What is left in registers; left[j] is what was last loaded of column j. */
static void after(struct run *r, int64_t i, int64_t q, float a, const float *left, bool external) {
    const struct hf_gemm_es_args *p = r->p;
    struct hf_gemm_es_args one = *p;
    one.level = external ? HF_ES_E : HF_ES_M;
    struct es_place place;
    if (p->level != one.level)
        return;
    take(r, p->form == HF_ES_AVX ? HF_ES_LANES : 0, a);
    for (int64_t j = 0; j < p->n; j++)
        if (hf_es_place_b(&one, i, q, j, &place))
            take(r, place.entry, left[j]);
}

static void pair_words(struct run *r) {
    for (int e = 0; e < HF_ES_ENTRIES; e++) {
        const uint64_t value = r->info->value(&r->state[e]);
        r->outer->step(&r->sum[e], (uint32_t)value);
        if (r->info->bits == 64)
            r->outer->step(&r->sum[e], (uint32_t)(value >> 32));
        r->info->begin(&r->state[e]);
    }
}

static void compute(struct run *r, float *left, uint64_t signature[HF_ES_ENTRIES]) {
    const struct hf_gemm_es_args *p = r->p;
    for (int e = 0; e < HF_ES_ENTRIES; e++) {
        r->info->begin(&r->state[e]);
        r->outer->begin(&r->sum[e]);
    }
    memset(r->c, 0, (size_t)(p->m * p->n) * sizeof *r->c);
    memset(left, 0, (size_t)p->n * sizeof *left);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t q = 0; q < p->k; q++) {
            const float a = p->a[i * p->k + q];
            internal(r, i, q, a, left);
            after(r, i, q, a, left, false);
            if (q == p->k - 1)
                after(r, i, q, a, left, true);
            if (p->level == HF_ES_PAIR)
                pair_words(r);
        }
    memset(signature, 0, HF_ES_ENTRIES * sizeof *signature);
    for (int e = 0; e < (p->form == HF_ES_AVX ? HF_ES_ENTRIES : 1); e++)
        signature[e] =
            p->level == HF_ES_PAIR ? r->outer->value(&r->sum[e]) : r->info->value(&r->state[e]);
}

/* Bits of an address of B. */
static int address_bits(const struct hf_gemm_es_args *p) {
    int bits = 1;
    while (((int64_t)1 << bits) < p->k * p->n)
        bits++;
    return bits;
}

static struct fault random_fault(const struct hf_gemm_es_args *p, int class, uint64_t seed,
                                 int64_t trial) {
    const uint64_t bits = class == FAULT_ADDRESS ? (uint64_t)address_bits(p) : 32;
    const uint64_t below[] = {(uint64_t)p->m, (uint64_t)p->k, (uint64_t)p->n, bits, 2};
    uint64_t drawn[5];
    for (uint64_t d = 0; d < 5; d++)
        drawn[d] = hf_rng_below(seed, (uint64_t)trial, d, below[d]);
    return (struct fault){.class = class,
                          .i = (int64_t)drawn[0],
                          .q = (int64_t)drawn[1],
                          .j = (int64_t)drawn[2],
                          .bit = (int)drawn[3],
                          .of_a = drawn[4] != 0};
}

/* So many faults of a class. */
struct trials {
    int class;
    uint64_t seed;
    int64_t count;
};

static hf_status inject_all(hf_context *ctx, struct run *r, float *left,
                            const struct trials *trials, hf_dev_es_faults *faults) {
    const struct hf_gemm_es_args *p = r->p;
    const size_t bytes = (size_t)(p->m * p->n) * sizeof *p->c;
    const struct fault none = {.class = -1};
    uint64_t signature[HF_ES_ENTRIES];
    HF_TRY(hf_gemm_es(ctx, p));
    r->fault = &none;
    compute(r, left, signature);
    if (memcmp(r->c, p->c, bytes) != 0 || memcmp(signature, p->signature, sizeof signature) != 0)
        return hf_ctx_fail(ctx, HF_E_INTERNAL,
                           "the campaign computes another product or signature than the kernel");
    for (int64_t trial = 0; trial < trials->count; trial++) {
        const struct fault fault = random_fault(p, trials->class, trials->seed, trial);
        r->fault = &fault;
        compute(r, left, signature);
        const bool changed = memcmp(r->c, p->c, bytes) != 0;
        const bool seen = memcmp(signature, p->signature, sizeof signature) != 0;
        faults->faults++;
        faults->changed += changed;
        faults->detected += changed && seen;
        faults->latent += !changed && seen;
    }
    return HF_OK;
}

hf_status hf_dev_es_inject(hf_context *ctx, const hf_dev_es *es, hf_dev_dims dims, int fault,
                           uint64_t seed, int64_t trials, hf_dev_es_faults *faults) {
    struct es_problem p;
    *faults = (hf_dev_es_faults){0};
    if (fault < 0 || fault >= FAULT_COUNT)
        return hf_ctx_fail(ctx, HF_E_ARG, "there is no fault class %d", fault);
    HF_TRY(hf_es_problem(ctx, es, dims, seed, &p));
    struct run *r = hf_alloc_zero(sizeof *r);
    float *c = hf_alloc((size_t)(dims.m * dims.n) * sizeof *c);
    float *left = hf_alloc((size_t)dims.n * sizeof *left);
    hf_status status = HF_E_NOMEM;
    if (r && c && left) {
        r->p = &p.args;
        r->info = hf_checksum_at(es->checksum);
        r->outer = hf_checksum_at(es->outer);
        r->c = c;
        const struct trials all = {fault, seed, trials};
        status = inject_all(ctx, r, left, &all, faults);
    }
    hf_free(r);
    hf_free(c);
    hf_free(left);
    hf_es_problem_clear(&p);
    return status;
}
