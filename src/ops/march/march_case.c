/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "ops/cases/sparse_case.h"
#include "ops/march/march.h"

#include <math.h>
#include <string.h>

#define MOST_BLOCKS 100 /* that fit on a device */
#define STEPS 12        /* with a bound on the error of each */
#define MOST_ROWS 600   /* the bound looks at all elements for each x */

/* An array of a map, as a buffer of the case. */
static const void *keep(struct hf_case *c, const void *array, size_t bytes) {
    void *kept = hf_case_alloc(c, bytes, false);
    if (kept != NULL && bytes > 0)
        memcpy(kept, array, bytes);
    return kept;
}

static void keep_map(struct hf_case *c, struct hf_march_map *map) {
    const struct hf_march_map made = *map;
    const size_t blocks = (size_t)made.blocks;
    const size_t places = blocks * (size_t)made.width * (size_t)made.threads;
    map->block_start = keep(c, made.block_start, (blocks + 1) * sizeof *made.block_start);
    map->row_count = keep(c, made.row_count, blocks * sizeof *made.row_count);
    map->source_start = keep(c, made.source_start, (blocks + 1) * sizeof *made.source_start);
    map->source = keep(c, made.source, (size_t)made.sources * sizeof *made.source);
    map->value = keep(c, made.value, places * sizeof *made.value);
    map->column = keep(c, made.column, places * sizeof *made.column);
    struct hf_march_map spent = made;
    hf_march_map_clear(&spent);
}

/* Each block's c by a map from its own b: the same numbers as without. */
static void make_rhs(struct hf_case *c, struct hf_march_args *args) {
    struct hf_march_map *map = &args->map;
    const int64_t n = args->a.rows, blocks = map->blocks;
    int64_t elements = 0;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t own = map->block_start[b + 1] - map->block_start[b];
        elements += own * own;
        map->rhs = own > map->rhs ? (int32_t)own : map->rhs;
    }
    int32_t *place = hf_case_alloc(c, (size_t)n * sizeof *place, false);
    int64_t *start = hf_case_alloc(c, (size_t)(blocks + 1) * sizeof *start, false);
    double *values = hf_case_alloc(c, (size_t)elements * sizeof *values, false);
    for (int64_t b = 0; !c->failed && b < blocks; b++) {
        const int64_t begin = map->block_start[b], own = map->block_start[b + 1] - begin;
        start[b + 1] = start[b] + own * own;
        for (int64_t r = 0; r < own; r++) {
            place[begin + r] = (int32_t)(begin + r);
            values[start[b] + r * own + r] = args->inverse[begin + r];
        }
    }
    map->rhs_start = map->block_start;
    map->rhs_place = place;
    map->rhs_map_start = start;
    map->rhs_map = values;
    map->rhs_places = n;
    map->rhs_elements = elements;
}

/* sweeps steps of Chebyshev's method for a spectrum about 1, or of Jacobi's. */
static void make_factors(struct hf_case *c, struct hf_march_args *args, bool accelerated) {
    args->factors = accelerated ? 8 : 1;
    double *factor = hf_case_alloc(c, 2 * (size_t)args->factors * sizeof *factor, false);
    for (int i = 0; factor != NULL && i < args->factors; i++) {
        factor[2 * i] = accelerated ? 0.9 + 0.01 * i : 0.95;
        factor[2 * i + 1] = accelerated && i > 0 ? 0.05 : 0;
    }
    args->factor = factor;
}

/* Some blocks lose their workers, at one of the moments there are; some come back late. */
static void lose_some(struct hf_rng *rng, struct hf_case *c, int64_t id) {
    struct hf_march_args *args = c->args;
    const int64_t blocks = args->map.blocks;
    uint8_t *lost = hf_case_alloc(c, (size_t)blocks, false);
    if (c->failed)
        return;
    args->spares = 4;
    for (int i = 0; i < 1 + (int)(id % 3); i++)
        lost[hf_rng_next(rng) % (uint64_t)blocks] = 1;
    const bool checks = args->goal >= 0 && id / 6 % 2 == 1;
    args->loss.blocks = lost;
    args->loss.moment = (enum hf_march_moment)(checks            ? 2 + id / 12 % 3
                                               : args->goal >= 0 ? id / 12 % 2
                                                                 : 0);
    args->loss.at = checks ? 1 : 1 + id % 4;
    args->loss.pause_s = id / 24 % 3 == 0 ? 1e-4 : 0;
}

struct kind {
    int layers, sweeps;
    bool accelerated, free, tested, rhs;
};

static bool fill(struct hf_rng *rng, struct hf_case *c, const struct hf_sparse_shape *shape,
                 const struct kind *kind) {
    struct hf_march_args *args = c->args;
    struct hf_sparse_system system;
    if (!hf_sparse_system(rng, c, shape, shape->n / MOST_BLOCKS * 2 + 3, &system))
        return false;
    args->a = system.a;
    args->inverse = system.inverse;
    args->b = system.b;
    args->x = hf_case_alloc_output(c, HF_F64, shape->n, 0);
    args->report = hf_case_alloc_state(c, sizeof *args->report);
    args->state = hf_case_alloc_state(c, hf_march_state_bytes(shape->n, system.blocks.count));
    make_factors(c, args, kind->accelerated);
    if (c->failed)
        return false;
    const struct hf_march_plan plan = {args->a, args->inverse, system.blocks.start,
                                       system.blocks.count, kind->layers};
    if (hf_march_map_make(&plan, &args->map) != HF_OK)
        return false;
    keep_map(c, &args->map);
    if (!c->failed && kind->rhs)
        make_rhs(c, args);
    for (int64_t i = 0; !c->failed && i < shape->n; i++)
        args->x[i] = hf_rng_next_normal(rng);
    return !c->failed;
}

static double square_of(const struct hf_march_args *args) {
    double sum = 0;
    for (int64_t i = 0; i < args->a.rows; i++)
        sum += args->b[i] * args->b[i];
    return sum;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int sweeps[] = {1, 2, 5};
    struct hf_march_args *args = c->args;
    struct hf_sparse_shape shape;
    if (!hf_sparse_case(id, &shape) || shape.kind == HF_SPARSE_LONG)
        return false;
    shape.n = shape.n < MOST_ROWS ? shape.n : MOST_ROWS;
    /* a full row fits no thread, and residuals of 1e30 beside 1e-30 are no goal */
    if (shape.kind == HF_SPARSE_HUB)
        shape.kind = HF_SPARSE_RANDOM;
    struct kind kind = {.sweeps = sweeps[id % 3], .accelerated = id % 4 == 1};
    kind.tested = shape.kind != HF_SPARSE_EXPONENTS && id % 2 == 1;
    kind.free = kind.tested && id % 8 == 3;
    kind.layers = kind.accelerated ? kind.sweeps - 1 : 0;
    if (kind.layers > 1 && shape.kind == HF_SPARSE_RANDOM)
        kind.layers = kind.sweeps = 1; /* of a random graph two layers are everything */
    kind.rhs = kind.layers == 0 && id % 5 == 0;
    args->sweeps = kind.sweeps;
    args->momentum = kind.accelerated && kind.layers > 0;
    args->free = kind.free;
    args->most = kind.tested ? 400 : 1 + STEPS / kind.sweeps;
    args->every = 1 + (int)(id % 2);
    args->lead = args->every * (1 + (int)(id / 2 % 2));
    args->limit_s = 5;
    args->goal = -1;
    if (!fill(rng, c, &shape, &kind))
        c->failed = true;
    if (!c->failed && kind.tested) {
        args->goal = 1e-20 * square_of(args);
        args->target = 0.9 * args->goal;
    }
    if (!c->failed && id % 6 >= 3)
        lose_some(rng, c, id);
    hf_sparse_name(c, &shape, " blocks=%d k=%d%s%s%s%s%s%s", (int)args->map.blocks, args->sweeps,
                   kind.layers ? " layers" : "", kind.accelerated ? " accelerated" : "",
                   kind.free ? " free" : "", kind.tested ? " goal" : "", kind.rhs ? " rhs" : "",
                   args->loss.blocks != NULL ? " loss" : "");
    return true;
}

const struct hf_op_cases hf_march_cases = {.make_case = make_case};
