/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cases/sparse_case.h"
#include "ops/patches/patches.h"

#include <stdio.h>

struct shape {
    int64_t n, most; /* unknowns, and of a patch without overlap */
    int64_t overlap;
    hf_dtype dtype;
};

/* Patches of neighbouring rows, their order reversed in every other one. */
static bool place_rows(struct hf_case *c, const struct hf_sparse_blocks *blocks,
                       const struct shape *shape) {
    struct hf_patches_args *args = c->args;
    const int64_t room = shape->n + 2 * shape->overlap * blocks->count;
    int64_t *start = hf_case_alloc(c, (size_t)(blocks->count + 1) * sizeof *start, false);
    int32_t *row = hf_case_alloc(c, (size_t)room * sizeof *row, false);
    if (c->failed)
        return false;
    for (int64_t p = 0; p < blocks->count; p++) {
        int64_t first = blocks->start[p] - shape->overlap;
        int64_t last = blocks->start[p + 1] + shape->overlap;
        first = first < 0 ? 0 : first;
        last = last > shape->n ? shape->n : last;
        start[p + 1] = start[p] + last - first;
        args->largest = last - first > args->largest ? last - first : args->largest;
        for (int64_t i = first; i < last; i++)
            row[start[p] + i - first] = (int32_t)(p % 2 ? first + last - 1 - i : i);
    }
    args->places = start[blocks->count];
    args->patch_start = start;
    args->patch_row = row;
    args->patches = blocks->count;
    return true;
}

/* Every third patch an inverse, the others triangles with envelopes of random widths. The numbers
 * are such that the solutions neither vanish nor overflow. */
static bool make_factors(struct hf_rng *rng, struct hf_case *c, const struct shape *shape) {
    struct hf_patches_args *args = c->args;
    const int64_t places = args->places;
    int64_t *envelope = hf_case_alloc(c, (size_t)(places + 1) * sizeof *envelope, false);
    uint8_t *inverse = hf_case_alloc(c, (size_t)args->patches, false);
    for (int64_t p = 0; !c->failed && p < args->patches; p++) {
        const int64_t rows = args->patch_start[p + 1] - args->patch_start[p];
        inverse[p] = p % 3 == 2;
        for (int64_t i = 0; i < rows; i++) {
            const int64_t width =
                inverse[p] ? rows : 1 + (int64_t)(hf_rng_next(rng) % (uint64_t)(i + 1));
            envelope[args->patch_start[p] + i + 1] = envelope[args->patch_start[p] + i] + width;
        }
    }
    const int64_t elements = c->failed ? 0 : envelope[places];
    void *factor = hf_case_alloc(c, (size_t)elements * hf_dtype_bytes(shape->dtype), false);
    for (int64_t e = 0; factor != NULL && e < elements; e++) {
        const double number = hf_rng_next_normal(rng) / (double)args->largest;
        if (shape->dtype == HF_F32)
            ((float *)factor)[e] = (float)number;
        else
            ((double *)factor)[e] = number;
    }
    args->elements = elements;
    args->envelope = envelope;
    args->inverse = inverse;
    args->factor = factor;
    args->dtype = shape->dtype;
    return !c->failed;
}

/* All places of an unknown are added up, or the first alone. */
static bool make_own(struct hf_case *c, int64_t n, bool all) {
    struct hf_patches_args *args = c->args;
    const int64_t places = args->places;
    int64_t *start = hf_case_alloc(c, (size_t)(n + 1) * sizeof *start, false);
    int64_t *own = hf_case_alloc(c, (size_t)places * sizeof *own, false);
    for (int64_t i = 0; !c->failed && i < n; i++) {
        start[i + 1] = start[i];
        for (int64_t place = 0; place < places; place++)
            if (args->patch_row[place] == i && (all || start[i + 1] == start[i]))
                own[start[i + 1]++] = place;
    }
    args->own_start = start;
    args->own = own;
    return !c->failed;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int64_t sizes[] = {1, 2, 9, 130, 2050}, most[] = {1, 9, 300};
    struct hf_patches_args *args = c->args;
    if (id >= 60)
        return false;
    const int64_t n = sizes[id % 5], rows = n > 1000 ? 300 : most[id / 5 % 3];
    const struct shape shape = {n, rows, id % 4, id / 15 % 2 == 0 ? HF_F64 : HF_F32};
    const struct hf_sparse_blocks blocks = hf_sparse_blocks(rng, c, n, rows);
    args->n = n;
    args->add = id >= 30;
    args->scale = id % 3 == 0 ? 0.8 : 1;
    if (blocks.start != NULL && place_rows(c, &blocks, &shape) && make_factors(rng, c, &shape) &&
        make_own(c, n, id % 2 == 0)) {
        args->z = hf_sparse_vector(rng, c, n, true);
        args->r = hf_sparse_vector(rng, c, n, false);
    }
    (void)snprintf(c->name, sizeof c->name, "n=%d patches=%d overlap=%d %s%s", (int)n,
                   (int)args->patches, (int)shape.overlap, hf_dtype_name(shape.dtype),
                   args->add ? " add" : "");
    return true;
}

const struct hf_op_cases hf_patches_cases = {.make_case = make_case};
