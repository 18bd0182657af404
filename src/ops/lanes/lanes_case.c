/* SPDX-License-Identifier: Apache-2.0 */
#include "core/case.h"
#include "ops/lanes/lanes.h"

#include <stdio.h>

static void fill(struct hf_rng *rng, struct hf_case *c) {
    struct hf_lanes_args *const args = c->args;
    const size_t n = (size_t)args->n;
    float *const single = hf_case_alloc(c, n * sizeof *single, false);
    double *const wide = hf_case_alloc(c, n * sizeof *wide, false);
    uint32_t *const word = hf_case_alloc(c, n * sizeof *word, false);
    args->single_end = hf_case_alloc(c, n * sizeof *args->single_end, true);
    args->wide_end = hf_case_alloc(c, n * sizeof *args->wide_end, true);
    args->word_end = hf_case_alloc(c, n * sizeof *args->word_end, true);
    for (size_t i = 0; !c->failed && i < n; i++) {
        single[i] = (float)(2 * hf_rng_next_unit(rng) - 1);
        wide[i] = 2 * hf_rng_next_unit(rng) - 1;
        word[i] = (uint32_t)hf_rng_next(rng);
    }
    args->single = single;
    args->wide = wide;
    args->word = word;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int64_t sizes[] = {512, 1, 7, 31, 64, 65, 1000, 4096}, steps[] = {200, 1, 0, 33};
    struct hf_lanes_args *const args = c->args;
    if (id >= 32)
        return false;
    args->n = sizes[id % 8];
    args->steps = steps[(id + id / 8) % 4];
    fill(rng, c);
    (void)snprintf(c->name, sizeof c->name, "n=%d steps=%d", (int)args->n, (int)args->steps);
    return true;
}

static bool make_bench(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c) {
    struct hf_lanes_args *const args = c->args;
    args->n = bench->plan_only ? 1 : bench->key.dim[0];
    args->steps = bench->key.dim[1];
    fill(rng, c);
    args->n = bench->key.dim[0];
    return true;
}

const struct hf_op_cases hf_lanes_cases = {
    .make_case = make_case,
    .make_bench = make_bench,
    .data = {"uniform"},
    .example = {{HF_F32}, {4096, 1000}, 0},
};
