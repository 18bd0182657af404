/* SPDX-License-Identifier: Apache-2.0
 * What the campaigns against products with execution signatures share. */
#ifndef HF_ES_H
#define HF_ES_H

#include "core/context.h"
#include "ops/gemm_es/gemm_es.h"

#include <holdfast/dev_campaign.h>
#include <holdfast/gemm.h>

/* A product with its arrays, which are random; es_problem_clear() frees. */
struct es_problem {
    struct hf_gemm_es_args args;
    uint64_t signature[HF_ES_ENTRIES];
    float *a, *b, *c;
};
hf_status hf_es_problem(hf_context *ctx, const hf_dev_es *es, hf_dev_dims dims, uint64_t seed,
                        struct es_problem *p);
void hf_es_problem_clear(struct es_problem *p);

/* The same for campaigns against op gemm: args write p.c, plain is the right product. p.a, p.b and
 * p.c hold elements of the type of args, whatever they are called. */
struct es_product {
    struct es_problem p;
    hf_gemm_args args;
    void *plain;
    size_t bytes;          /* of C */
    hf_gemm_report report; /* of the right product */
};
hf_status hf_es_product(hf_context *ctx, hf_dev_dims dims, hf_dtype dtype, struct es_product *x);
void hf_es_product_clear(struct es_product *x);

/* Bit `bit` of an array, from the lowest of its first byte. */
static inline void hf_es_flip(void *array, int64_t bit) {
    unsigned char *const byte = (unsigned char *)array + bit / 8;
    *byte = (unsigned char)(*byte ^ 1U << bit % 8);
}

/* The campaign against signed products on a device, where a batch has another fault in each. */
hf_status hf_es_signed_batches(hf_context *ctx, const struct es_product *product,
                               const hf_gemm_signatures *sign, int64_t every,
                               hf_dev_signed_count *count);

/* The entry of the array of signatures that takes an operand in row i of C, and how many words it
 * takes after it; false if it does not. In a pair, those of the inner checksum within (i, q), q
 * being the operand's index along k. */
struct es_place {
    int entry;
    uint64_t after;
};
bool hf_es_place_a(const struct hf_gemm_es_args *p, int64_t i, int64_t q, struct es_place *place);
bool hf_es_place_b(const struct hf_gemm_es_args *p, int64_t i, int64_t q, int64_t j,
                   struct es_place *place);

/* Time a call with and without protection, in turns: time of the calling thread, or on a device
 * that of its stream. */
typedef hf_status hf_es_call(void *user, bool protected);
hf_status hf_es_turns(hf_context *ctx, hf_es_call *call, void *user, double budget_s,
                      hf_dev_es_timing *timing);

#endif
