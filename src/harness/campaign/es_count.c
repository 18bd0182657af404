/* SPDX-License-Identifier: Apache-2.0
 * The exhaustive campaign of single bits. A product for each of the 409,600 bits of two 80 x 80
 * matrices takes an hour; but a signature is a sum of contributions of its words in some group
 * (base/checksum/checksum.h), so that its change follows from where a word was signed. */
#include "base/mem.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "harness/campaign/es.h"

#include <string.h>

struct counting {
    const struct hf_gemm_es_args *args;
    const struct hf_checksum_info *inner, *outer;
    /* A pair: the inner values and the weights of their words in the outer signature, for each (i,
     * q) and entry [m k, entries], weights [.., 2]. */
    uint64_t *value, *weight;
    int64_t detected;
};

static uint32_t word_of(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

/* The operand number `at`: those of A, then those of B. */
static float *operand(const struct hf_gemm_es_args *p, int64_t at) {
    const float *found = at < p->m * p->k ? p->a + at : p->b + (at - p->m * p->k);
    return (float *)(uintptr_t)found;
}

/* Where the operand is signed in row i of C. */
static bool place_in_row(const struct hf_gemm_es_args *p, int64_t at, int64_t i, int64_t *q,
                         struct es_place *place) {
    if (at < p->m * p->k) {
        *q = at % p->k;
        return at / p->k == i && hf_es_place_a(p, i, *q, place);
    }
    at -= p->m * p->k;
    *q = at / p->n;
    return hf_es_place_b(p, i, *q, at % p->n, place);
}

/* The weight of an operand in the one signature that takes it; false: none does. */
static bool single_weight(const struct counting *job, int64_t at, uint64_t *weight) {
    bool any = false;
    for (int64_t i = 0; i < job->args->m; i++) {
        struct es_place place;
        int64_t q;
        if (!place_in_row(job->args, at, i, &q, &place))
            continue;
        const uint64_t one = job->inner->weight(place.after);
        *weight = any ? job->inner->join(*weight, one) : one;
        any = true;
    }
    return any;
}

static bool single_changes(const struct counting *job, int64_t at, uint32_t old, uint32_t now) {
    uint64_t weight = 0;
    return single_weight(job, at, &weight) && job->inner->change(weight, old, now) != 0;
}

static int single_bits(const struct counting *job, int64_t at) {
    const uint32_t old = word_of(*operand(job->args, at));
    uint64_t weight = 0;
    int found = 0;
    const bool any = single_weight(job, at, &weight);
    for (int bit = 0; any && bit < 32; bit++)
        found += job->inner->change(weight, old, old ^ 1u << bit) != 0;
    return found;
}

/* What the outer signature of a pair becomes in row i. */
static uint64_t outer_change(const struct counting *job, int64_t cell, uint64_t change) {
    const uint64_t old = job->value[cell], now = job->inner->join(old, change);
    uint64_t sum = job->outer->change(job->weight[2 * cell], (uint32_t)old, (uint32_t)now);
    if (job->inner->bits == 64)
        sum =
            job->outer->join(sum, job->outer->change(job->weight[2 * cell + 1],
                                                     (uint32_t)(old >> 32), (uint32_t)(now >> 32)));
    return sum;
}

static bool pair_changes(const struct counting *job, int64_t at, uint32_t old, uint32_t now) {
    const struct hf_gemm_es_args *p = job->args;
    uint64_t sum = 0;
    for (int64_t i = 0; i < p->m; i++) {
        struct es_place place;
        int64_t q;
        if (!place_in_row(p, at, i, &q, &place))
            continue;
        const uint64_t change = job->inner->change(job->inner->weight(place.after), old, now);
        const int64_t cell = (i * p->k + q) * HF_ES_ENTRIES + place.entry;
        sum = job->outer->join(sum, outer_change(job, cell, change));
    }
    return sum != 0;
}

static int pair_bits(const struct counting *job, int64_t at) {
    const uint32_t old = word_of(*operand(job->args, at));
    int found = 0;
    for (int bit = 0; bit < 32; bit++)
        found += pair_changes(job, at, old, old ^ 1u << bit);
    return found;
}

static void count_operands(void *job_, int worker, int64_t begin, int64_t end) {
    struct counting *job = job_;
    (void)worker;
    int64_t found = 0;
    for (int64_t at = begin; at < end; at++)
        found += job->args->level == HF_ES_PAIR ? pair_bits(job, at) : single_bits(job, at);
    __atomic_fetch_add(&job->detected, found, __ATOMIC_RELAXED);
}

/* The inner values of row i of C and their weights. */
static void pair_row(void *job_, int worker, int64_t begin, int64_t end) {
    struct counting *job = job_;
    const struct hf_gemm_es_args *p = job->args;
    const int words = job->inner->bits == 64 ? 2 : 1;
    (void)worker;
    for (int64_t cell = begin; cell < end; cell++) {
        struct hf_checksum state[HF_ES_ENTRIES];
        const int64_t i = cell / p->k, q = cell % p->k;
        for (int e = 0; e < HF_ES_ENTRIES; e++)
            job->inner->begin(&state[e]);
        struct es_place place;
        (void)hf_es_place_a(p, i, q, &place);
        job->inner->step(&state[place.entry], word_of(p->a[i * p->k + q]));
        for (int64_t j = 0; j < p->n; j++) {
            (void)hf_es_place_b(p, i, q, j, &place);
            job->inner->step(&state[place.entry], word_of(p->b[q * p->n + j]));
        }
        for (int e = 0; e < HF_ES_ENTRIES; e++) {
            const int64_t at = cell * HF_ES_ENTRIES + e;
            const uint64_t after = (uint64_t)(words * (p->m * p->k - cell) - 1);
            job->value[at] = job->inner->value(&state[e]);
            job->weight[2 * at] = job->outer->weight(after);
            job->weight[2 * at + 1] = words == 2 ? job->outer->weight(after - 1) : 0;
        }
    }
}

/* Compute the product for `sample` of the faults. */
static hf_status compute_some(hf_context *ctx, struct es_problem *p, const struct counting *job,
                              uint64_t seed, hf_dev_es_count *count) {
    uint64_t good[HF_ES_ENTRIES];
    const struct hf_gemm_es_args *args = &p->args;
    const int64_t sample = count->computed;
    count->computed = 0;
    HF_TRY(hf_gemm_es(ctx, args));
    memcpy(good, p->signature, sizeof good);
    for (int64_t s = 0; s < sample; s++) {
        const int64_t fault = (int64_t)hf_rng_below(seed, 3, (uint64_t)s, (uint64_t)count->faults);
        float *at = operand(args, fault / 32);
        const float was = *at;
        const uint32_t old = word_of(was), now = old ^ 1u << fault % 32;
        const bool foretold = args->level == HF_ES_PAIR ? pair_changes(job, fault / 32, old, now)
                                                        : single_changes(job, fault / 32, old, now);
        memcpy(at, &now, sizeof now);
        const hf_status status = hf_gemm_es(ctx, args);
        *at = was;
        HF_TRY(status);
        count->computed++;
        count->differed += foretold != (memcmp(good, p->signature, sizeof good) != 0);
    }
    return HF_OK;
}

/* On a device a product for each fault takes less than a second. */
static hf_status compute_all(hf_context *ctx, struct es_problem *p, hf_dev_es_count *count) {
    struct hf_gemm_es_args args = p->args;
    args.flips = 32 * args.k * (args.m + args.n);
    args.seen = hf_alloc((size_t)args.flips);
    if (args.seen == NULL)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for the faults of a campaign");
    const hf_status status = hf_gemm_es(ctx, &args);
    *count = (hf_dev_es_count){.faults = args.flips, .computed = args.flips};
    for (int64_t f = 0; status == HF_OK && f < args.flips; f++)
        count->detected += args.seen[f];
    hf_free(args.seen);
    return status;
}

static hf_status count_all(hf_context *ctx, struct es_problem *p, uint64_t seed,
                           hf_dev_es_count *count) {
    const struct hf_gemm_es_args *args = &p->args;
    const int64_t cells = args->m * args->k, operands = cells + args->k * args->n;
    struct counting job = {.args = args,
                           .inner = hf_checksum_at(args->checksum),
                           .outer = hf_checksum_at(args->outer)};
    const bool pair = args->level == HF_ES_PAIR;
    const size_t bytes = pair ? (size_t)cells * HF_ES_ENTRIES * sizeof(uint64_t) : 0;
    job.value = hf_alloc_zero(bytes);
    job.weight = hf_alloc_zero(2 * bytes);
    hf_status status = HF_E_NOMEM;
    if (job.value && job.weight) {
        if (pair)
            hf_parallel_for(hf_ctx_pool(ctx), cells, 16, pair_row, &job);
        hf_parallel_for(hf_ctx_pool(ctx), operands, 32, count_operands, &job);
        count->faults = 32 * operands;
        count->detected = job.detected;
        status = compute_some(ctx, p, &job, seed, count);
    }
    hf_free(job.value);
    hf_free(job.weight);
    return status;
}

hf_status hf_dev_es_count_bits(hf_context *ctx, const hf_dev_es *es, hf_dev_dims dims,
                               uint64_t seed, int64_t sample, hf_dev_es_count *count) {
    struct es_problem p;
    *count = (hf_dev_es_count){.computed = sample};
    HF_TRY(hf_es_problem(ctx, es, dims, seed, &p));
    const hf_status status =
        hf_ctx_is_host(ctx) ? count_all(ctx, &p, seed, count) : compute_all(ctx, &p, count);
    hf_es_problem_clear(&p);
    return status;
}
