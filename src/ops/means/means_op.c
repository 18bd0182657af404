/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"
#include "ops/means/means.h"

static void means_key(const void *p, struct hf_key *key) {
    const struct hf_means_args *args = p;
    *key = (struct hf_key){.dtype = {args->rule.type}, .dim = {args->sums->k, args->sums->d}};
}

static void means_cost(const void *p, double *flops, double *bytes) {
    const struct hf_means_args *args = p;
    const double values = (double)args->sums->k * (double)args->sums->d;
    *flops = 10 * values;
    *bytes = values * (8.0 * args->sums->limbs + 2.0 * (double)hf_dtype_bytes(args->rule.type));
}

const struct hf_op hf_means_op = {
    .name = "means",
    .args_size = sizeof(struct hf_means_args),
    .type = {"c"},
    .dim = {"k", "d"},
    .key = means_key,
    .cost = means_cost,
};

double hf_sums_weight(const struct hf_sums *s, int64_t cluster) {
    if (!s->weight)
        return (double)s->count[cluster];
    const int64_t limb[HF_MAX_LIMBS] = {s->weight[cluster],
                                        s->limbs > 1 ? s->weight[s->k + cluster] : 0};
    return hf_fixed_value(limb, s->limbs, s->bits, s->weight_mult);
}

void hf_center_store(const struct hf_center_rule *rule, void *dst, int64_t i, double v) {
    const double rounded = hf_round_to(v, rule->store);
    if (rule->type == HF_F64)
        ((double *)dst)[i] = rounded;
    else
        ((float *)dst)[i] = (float)rounded;
}
