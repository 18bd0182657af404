/* SPDX-License-Identifier: Apache-2.0
 * What an iteration makes of its sums in one pass has the bits of the passes one by one. */
#include "unit.h"

#include "base/rng.h"
#include "ops/means.h"

#include <string.h>

#define MOST_K 37
#define MOST_D 130

static int64_t sum[2 * MOST_K * MOST_D], count[MOST_K], weight[2 * MOST_K];
static double mult[MOST_D], unit[MOST_D], shift[MOST_D];
static double now[MOST_K * MOST_D], one[MOST_K * MOST_D], parts[MOST_K * MOST_D];
static double score[MOST_K], moved[MOST_K], want[MOST_K];

static const hf_dtype types[][2] = {{HF_F32, HF_F32}, {HF_F64, HF_F64}, {HF_F32, HF_F16}};
static const int64_t widths[] = {1, 5, 16, 31, 32, 33, 64, 100, 128, MOST_D};

/* Sums of about ten rows each; one cluster may be empty. */
static void make(struct hf_rng *rng, struct hf_sums *s, struct hf_center_rule *rule, bool empty) {
    for (int64_t f = 0; f < s->d; f++) {
        mult[f] = f % 2 ? 0x1p20 : 0x1p23;
        unit[f] = s->limbs == 1 ? 1 / mult[f] : 0;
        shift[f] = rule->metric == HF_EUCLIDEAN ? hf_rng_next_unit(rng) * 8 - 4 : 0;
    }
    for (int64_t i = 0; i < s->limbs * s->k * s->d; i++)
        sum[i] = (int64_t)(hf_rng_next_unit(rng) * 0x1p40) - ((int64_t)1 << 39);
    for (int64_t j = 0; j < s->k; j++)
        count[j] = 1 + (int64_t)(hf_rng_next_unit(rng) * 20);
    for (int64_t i = 0; i < s->limbs * s->k; i++)
        weight[i] = 1 + (int64_t)(hf_rng_next_unit(rng) * 0x1p40);
    if (empty)
        count[s->k / 2] = weight[s->k / 2] = weight[(s->limbs - 1) * s->k + s->k / 2] = 0;
    for (int64_t i = 0; i < s->k * s->d; i++)
        hf_center_store(rule, now, i, hf_rng_next_unit(rng) * 200 - 100);
}

static void check(struct hf_sums *s, struct hf_center_rule *rule) {
    const size_t bytes = (size_t)(s->k * s->d) * (rule->type == HF_F64 ? 8 : 4);
    const struct hf_step low = {now, one, 0, score, moved};
    const struct hf_step high = {now, one, 3, score + 3, moved + 3}; /* as a second range does */
    memset(one, 0xff, sizeof one);
    memset(score, 0xff, sizeof score);
    memset(moved, 0xff, sizeof moved);
    hf_centers_step_some(rule, s, &low, 0, 3);
    hf_centers_step_some(rule, s, &high, 3, s->k);
    hf_centers_next(rule, s, now, parts);
    assert_memory_equal(one, parts, bytes);
    hf_centers_score_some(rule, s, now, 0, s->k, want);
    assert_memory_equal(score, want, (size_t)s->k * sizeof(double));
    for (int64_t j = 0; j < s->k; j++)
        want[j] = hf_center_moved(rule->type, now, parts, j, s->d);
    assert_memory_equal(moved, want, (size_t)s->k * sizeof(double));
}

static void step_is_its_parts(void **state) {
    (void)state;
    struct hf_rng rng = {.seed = 7};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (int kind = 0; kind < 24; kind++) {
                struct hf_sums s = {.k = kind % 2 ? MOST_K : 4,
                                    .d = widths[w],
                                    .limbs = 1 + kind / 2 % 2,
                                    .bits = 30,
                                    .sum = sum,
                                    .count = count,
                                    .weight = kind < 12 ? NULL : weight,
                                    .weight_mult = 0x1p33,
                                    .mult = mult};
                struct hf_center_rule rule = {.metric = (hf_metric)(kind % 12 / 4),
                                              .type = types[t][0],
                                              .store = types[t][1],
                                              .shift = shift,
                                              .unit = unit};
                make(&rng, &s, &rule, false);
                check(&s, &rule);
                make(&rng, &s, &rule, true);
                check(&s, &rule);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(step_is_its_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
