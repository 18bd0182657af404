/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm_es/gemm_es.h"

static void es_key(const void *p, struct hf_key *key) {
    const struct hf_gemm_es_args *args = p;
    *key = (struct hf_key){
        .dtype = {HF_F32}, .dim = {args->m, args->n, args->k}, .flags = args->form == HF_ES_AVX};
}

static void es_cost(const void *p, double *flops, double *bytes) {
    const struct hf_gemm_es_args *args = p;
    const double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    *flops = 2 * m * n * k;
    *bytes = 4 * (m * k + k * n + m * n);
}

const struct hf_op hf_gemm_es_op = {
    .name = "gemm_es",
    .args_size = sizeof(struct hf_gemm_es_args),
    .type = {"a"},
    .dim = {"m", "n", "k"},
    .flag = {"avx"},
    .key = es_key,
    .cost = es_cost,
};
