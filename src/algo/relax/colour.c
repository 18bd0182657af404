/* SPDX-License-Identifier: Apache-2.0
 * Blocks in colours: of one colour no two share an element of the matrix. Each block takes the
 * first colour that none of its neighbours has. */
#include "algo/relax/setup.h"

#include "base/mem.h"
#include <string.h>

/* Neighbours of blocks, both ways: pairs in lists, with repetitions. */
struct pairs {
    int64_t *start; /* [blocks + 1] */
    int32_t *block;
};

static void note_pair(struct pairs *p, bool count, int64_t from, int32_t to) {
    if (count)
        p->start[from + 1]++;
    else
        p->block[p->start[from]++] = to;
}

/* Count the pairs, or list them. Of a row an element next to another of the same block is skipped.
 * */
static void find_pairs(const hf_relax *relax, const int32_t *block_of, struct pairs *p,
                       bool count) {
    const struct hf_relax_matrix *m = &relax->m;
    for (int64_t i = 0; i < m->n; i++) {
        int32_t last = block_of[i];
        for (int64_t e = m->row_start[i]; e < m->row_start[i + 1]; e++) {
            const int32_t other = block_of[m->column[e]];
            if (other == block_of[i] || other == last)
                continue;
            last = other;
            note_pair(p, count, block_of[i], other);
            note_pair(p, count, other, block_of[i]);
        }
    }
}

static bool list_pairs(const hf_relax *relax, struct pairs *p) {
    const int64_t n = relax->m.n, blocks = relax->blocks.count;
    int32_t *block_of = hf_alloc((size_t)n * sizeof *block_of);
    p->start = hf_alloc_zero((size_t)(blocks + 2) * sizeof *p->start);
    for (int64_t b = 0; block_of != NULL && b < blocks; b++)
        for (int64_t i = relax->blocks.start[b]; i < relax->blocks.start[b + 1]; i++)
            block_of[i] = (int32_t)b;
    if (block_of != NULL && p->start != NULL) {
        find_pairs(relax, block_of, p, true);
        for (int64_t b = 0; b < blocks; b++)
            p->start[b + 1] += p->start[b];
        p->block = hf_alloc((size_t)p->start[blocks] * sizeof *p->block);
    }
    if (p->block != NULL) {
        find_pairs(relax, block_of, p, false);
        memmove(p->start + 1, p->start, (size_t)blocks * sizeof *p->start);
        p->start[0] = 0;
    }
    hf_free(block_of);
    return p->block != NULL;
}

/* colour [blocks] from 0; taken [blocks + 1] scratch: the last block that saw the colour taken, +
 * 1. Returns the number of colours. */
static int64_t choose_colours(const struct pairs *p, int64_t blocks, int32_t *colour,
                              int32_t *taken) {
    int64_t colours = 0;
    memset(taken, 0, (size_t)(blocks + 1) * sizeof *taken);
    for (int64_t b = 0; b < blocks; b++) {
        for (int64_t e = p->start[b]; e < p->start[b + 1]; e++)
            if (p->block[e] < b)
                taken[colour[p->block[e]]] = (int32_t)b + 1;
        int32_t first = 0;
        while (taken[first] == (int32_t)b + 1)
            first++;
        colour[b] = first;
        colours = first + 1 > colours ? first + 1 : colours;
    }
    return colours;
}

hf_status hf_relax_make_colours(hf_relax *relax) {
    const int64_t blocks = relax->blocks.count;
    struct hf_relax_colours *c = &relax->colours;
    struct pairs p = {NULL, NULL};
    int32_t *colour = hf_alloc((size_t)blocks * sizeof *colour);
    int32_t *taken = hf_alloc((size_t)(blocks + 1) * sizeof *taken);
    bool there = colour != NULL && taken != NULL && list_pairs(relax, &p);
    if (there) {
        c->count = choose_colours(&p, blocks, colour, taken);
        c->start = hf_relax_take(relax, c->count + 2, sizeof *c->start);
        c->block = hf_relax_take(relax, blocks, sizeof *c->block);
        there = c->start != NULL && c->block != NULL;
    }
    if (there) { /* start[k + 1] is where colour k goes on, in the end where it ends */
        memset(c->start, 0, (size_t)(c->count + 2) * sizeof *c->start);
        for (int64_t b = 0; b < blocks; b++)
            c->start[colour[b] + 2]++;
        for (int64_t k = 0; k < c->count; k++)
            c->start[k + 2] += c->start[k + 1];
        for (int64_t b = 0; b < blocks; b++)
            c->block[c->start[colour[b] + 1]++] = (int32_t)b;
    }
    hf_free(p.start);
    hf_free(p.block);
    hf_free(colour);
    hf_free(taken);
    return there ? HF_OK : hf_relax_no_memory(relax, "the colours of the blocks");
}
