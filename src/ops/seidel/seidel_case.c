/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cases/sparse_case.h"
#include "base/dtype.h"
#include "ops/seidel/seidel.h"
#include <string.h>

/* The block of a row. */
static int64_t block_of(const struct hf_sparse_blocks *blocks, int64_t row) {
    int64_t low = 0, high = blocks->count;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        *(blocks->start[middle] <= row ? &low : &high) = middle;
    }
    return low;
}

/* One colour after another gets the blocks that none of its blocks is connected with. taken: the
 * colour of each block, 0: none yet. */
static void colour_blocks(struct hf_seidel_args *args, const struct hf_sparse_blocks *blocks,
                          int64_t *start, int32_t *order, int64_t *taken) {
    int64_t placed = 0;
    for (int64_t colour = 1; placed < blocks->count; colour++) {
        for (int64_t block = 0; block < blocks->count; block++) {
            bool is_free = taken[block] == 0;
            for (int64_t e = args->a.row_start[blocks->start[block]];
                 is_free && e < args->a.row_start[blocks->start[block + 1]]; e++)
                is_free = taken[block_of(blocks, args->a.column[e])] != colour;
            for (int64_t other = start[colour - 1]; is_free && other < placed; other++)
                for (int64_t e = args->a.row_start[blocks->start[order[other]]];
                     is_free && e < args->a.row_start[blocks->start[order[other] + 1]]; e++)
                    is_free = block_of(blocks, args->a.column[e]) != block;
            if (!is_free)
                continue;
            taken[block] = colour;
            order[placed++] = (int32_t)block;
        }
        start[colour] = placed;
        args->colours = colour;
    }
}

/* Rows in the order of their colours: then colours are ranges of slices. */
static void sort_rows(struct hf_case *c, struct hf_seidel_args *args, int64_t *place) {
    const struct hf_sparse *a = &args->a;
    const int64_t n = a->rows;
    const size_t size = hf_dtype_bytes(a->dtype);
    int64_t *start = hf_case_alloc(c, (size_t)(n + 1) * sizeof *start, false);
    int32_t *column = hf_case_alloc(c, (size_t)a->elements * sizeof *column, false);
    char *value = hf_case_alloc(c, (size_t)a->elements * size, false);
    int32_t *order = hf_case_alloc(c, (size_t)n * sizeof *order, false);
    for (int64_t p = 0; !c->failed && p < n; p++)
        place[args->colour_block[p]] = p;
    for (int64_t p = 0; !c->failed && p < n; p++) {
        const int64_t i = args->colour_block[p];
        order[p] = (int32_t)p;
        start[p + 1] = start[p];
        for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++) {
            const int32_t at = (int32_t)place[a->column[e]];
            int64_t to = start[p + 1]++;
            for (; to > start[p] && column[to - 1] > at; to--) {
                column[to] = column[to - 1];
                memcpy(value + (size_t)to * size, value + (size_t)(to - 1) * size, size);
            }
            column[to] = at;
            memcpy(value + (size_t)to * size, (const char *)a->value + (size_t)e * size, size);
        }
    }
    if (c->failed)
        return;
    args->a.row_start = start;
    args->a.column = column;
    args->a.value = value;
    args->colour_block = order;
    args->inverse = hf_sparse_inverse(c, a);
    hf_sparse_slice(c, &args->a, args->colour_start, args->colours);
}

/* The elements of each row left of its diagonal. */
static const int32_t *count_before(struct hf_case *c, const struct hf_sparse *a) {
    int32_t *before = hf_case_alloc(c, (size_t)a->rows * sizeof *before, false);
    for (int64_t i = 0; !c->failed && i < a->rows; i++) {
        before[i] = 0;
        for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++)
            before[i] += a->column[e] < i;
    }
    return before;
}

static void fill(struct hf_rng *rng, struct hf_case *c, const struct hf_sparse_shape *shape,
                 int64_t most, bool turned) {
    struct hf_seidel_args *args = c->args;
    if (!hf_sparse_make(rng, c, shape, &args->a))
        return;
    const struct hf_sparse_blocks blocks = hf_sparse_blocks(rng, c, shape->n, most);
    const size_t count = (size_t)blocks.count;
    int64_t *start = hf_case_alloc(c, (count + 1) * sizeof *start, false);
    int32_t *order = hf_case_alloc(c, count * sizeof *order, false);
    int64_t *taken = hf_case_alloc(c, count * sizeof *taken, false);
    args->inverse = hf_sparse_inverse(c, &args->a);
    args->b = hf_sparse_vector(rng, c, shape->n, false);
    args->x = hf_sparse_vector(rng, c, shape->n, true);
    args->square = hf_case_alloc(c, sizeof(double), true);
    if (c->failed)
        return;
    colour_blocks(args, &blocks, start, order, taken);
    args->block_start = blocks.start;
    args->blocks = blocks.count;
    args->colour_start = start;
    args->colour_block = order;
    if (most == 1)
        sort_rows(c, args, taken);
    else if (turned)
        args->before = count_before(c, &args->a);
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int64_t most[] = {9, 128, 5000, 1};
    struct hf_seidel_args *args = c->args;
    struct hf_sparse_shape shape;
    if (!hf_sparse_case(id, &shape) || shape.kind == HF_SPARSE_LONG)
        return false;
    args->damping = id % 4 == 1 ? 1.3 : 1;
    args->backward = id % 3 == 1;
    const int64_t rows = most[id / 3 % 4] > 1 && shape.n > 1000 ? 1000 : most[id / 3 % 4];
    fill(rng, c, &shape, rows, id % 5 == 2);
    hf_sparse_name(c, &shape, " blocks=%d colours=%d damping=%g%s%s%s", (int)args->blocks,
                   (int)args->colours, args->damping, args->backward ? " backward" : "",
                   args->a.slices != NULL ? " sliced" : "", args->before != NULL ? " turned" : "");
    return true;
}

const struct hf_op_cases hf_seidel_cases = {.make_case = make_case};
