/* SPDX-License-Identifier: Apache-2.0
 * Restricted additive Schwarz as maps of op march: for the rows R of a patch with inverse P, and B
 * what they read outside,  x_R = P (b_R - A_RB x_B);  a block keeps those rows of it that are its
 * own, and g = P b_R - P A_RB x_B - x. */
#include "algo/relax/setup.h"

#include "base/mem.h"
#include <string.h>

#define MOST_OUTSIDE 60 /* rows that a block reads: elements of each of its rows */
#define LANES 4
#define MOST_THREADS 448

struct exact {
    const hf_relax *relax;
    struct hf_march_map *map;
    int32_t *inside;  /* [n] place in the patch at work + 1, 0: outside */
    int32_t *outside; /* [n] number of what the patch reads + 1, 0: it does not */
    int32_t *list;    /* [MOST_OUTSIDE] */
    int64_t listed;
};

/* Number what the rows of a patch read outside it. False: too much. */
static bool list_outside(struct exact *e, int64_t patch) {
    const struct hf_relax_patches *p = &e->relax->patches;
    const struct hf_relax_matrix *m = &e->relax->m;
    e->listed = 0;
    for (int64_t at = p->start[patch]; at < p->start[patch + 1]; at++)
        e->inside[p->row[at]] = (int32_t)(at - p->start[patch]) + 1;
    for (int64_t at = p->start[patch]; at < p->start[patch + 1]; at++)
        for (int64_t t = m->row_start[p->row[at]]; t < m->row_start[p->row[at] + 1]; t++) {
            const int32_t j = m->column[t];
            if (e->inside[j] != 0 || e->outside[j] != 0)
                continue;
            if (e->listed == MOST_OUTSIDE)
                return false;
            e->list[e->listed++] = j;
            e->outside[j] = (int32_t)e->listed;
        }
    return true;
}

static void forget(struct exact *e, int64_t patch) {
    const struct hf_relax_patches *p = &e->relax->patches;
    for (int64_t at = p->start[patch]; at < p->start[patch + 1]; at++)
        e->inside[p->row[at]] = 0;
    for (int64_t i = 0; i < e->listed; i++)
        e->outside[e->list[i]] = 0;
}

/* Row `own` of the block: h[0 .. listed) = -P A_RB */
static void fill_row(const struct exact *e, int64_t patch, const double *inverse, double *h) {
    const struct hf_relax_patches *p = &e->relax->patches;
    const struct hf_relax_matrix *m = &e->relax->m;
    memset(h, 0, (size_t)e->listed * sizeof *h);
    for (int64_t q = 0; q < p->start[patch + 1] - p->start[patch]; q++) {
        const int32_t v = p->row[p->start[patch] + q];
        for (int64_t t = m->row_start[v]; t < m->row_start[v + 1]; t++)
            if (e->outside[m->column[t]] != 0)
                h[e->outside[m->column[t]] - 1] -= inverse[q] * sparse_value(m->value, m->dtype, t);
    }
}

static void fill_block(const struct exact *e, int64_t block, double *value, uint16_t *column,
                       double *rhs_map) {
    const struct hf_march_map *map = e->map;
    const struct hf_relax_patches *p = &e->relax->patches;
    const int64_t begin = map->block_start[block], own = map->block_start[block + 1] - begin;
    const int64_t rows = p->start[block + 1] - p->start[block];
    const int64_t base = block * map->width * map->threads;
    double h[1 + MOST_OUTSIDE];
    for (int64_t r = 0; r < own; r++) {
        const int64_t at = p->start[block] + e->inside[begin + r] - 1;
        double *inverse = rhs_map + map->rhs_map_start[block] + r * rows;
        for (int64_t q = 0; q < rows; q++)
            inverse[q] = sparse_value(p->factor, e->relax->opts.inside, p->envelope[at] + q);
        h[0] = -1;
        fill_row(e, block, inverse, h + 1);
        for (int64_t i = 0; i <= e->listed; i++) {
            const int64_t place = base + i / LANES * map->threads + r * LANES + i % LANES;
            value[place] = h[i];
            column[place] = (uint16_t)(i == 0 ? r : own + i - 1);
        }
    }
}

struct arrays {
    int64_t *block_start, *source_start, *rhs_start, *rhs_map_start;
    int32_t *row_count, *source, *rhs_place;
    double *value, *rhs_map;
    uint16_t *column;
};

static void set_map(struct hf_march_map *map, const struct arrays *a) {
    map->block_start = a->block_start;
    map->row_count = a->row_count;
    map->source_start = a->source_start;
    map->source = a->source;
    map->value = a->value;
    map->column = a->column;
    map->rhs_start = a->rhs_start;
    map->rhs_place = a->rhs_place;
    map->rhs_map_start = a->rhs_map_start;
    map->rhs_map = a->rhs_map;
}

/* Sizes of all blocks. */
static hf_status measure(struct exact *e, struct arrays *a) {
    const hf_relax *relax = e->relax;
    const struct hf_relax_patches *p = &relax->patches;
    struct hf_march_map *map = e->map;
    const size_t blocks = (size_t)relax->blocks.count;
    a->block_start = hf_alloc_zero((blocks + 1) * sizeof(int64_t));
    a->source_start = hf_alloc_zero((blocks + 1) * sizeof(int64_t));
    a->rhs_start = hf_alloc_zero((blocks + 1) * sizeof(int64_t));
    a->rhs_map_start = hf_alloc_zero((blocks + 1) * sizeof(int64_t));
    a->row_count = hf_alloc_zero(blocks * sizeof(int32_t));
    a->source = hf_alloc_zero(blocks * MOST_OUTSIDE * sizeof(int32_t));
    set_map(map, a);
    if (!a->block_start || !a->source_start || !a->rhs_start || !a->rhs_map_start ||
        !a->row_count || !a->source)
        return HF_E_NOMEM;
    int64_t most = 0;
    memcpy(a->block_start, relax->blocks.start, (blocks + 1) * sizeof(int64_t));
    for (int64_t b = 0; b < relax->blocks.count; b++) {
        const int64_t own = a->block_start[b + 1] - a->block_start[b];
        const int64_t rows = p->start[b + 1] - p->start[b];
        const bool fits = list_outside(e, b);
        memcpy(a->source + a->source_start[b], e->list, (size_t)e->listed * sizeof(int32_t));
        forget(e, b);
        if (!fits || own * LANES > MOST_THREADS)
            return HF_E_UNSUPPORTED;
        a->row_count[b] = (int32_t)own;
        a->source_start[b + 1] = a->source_start[b] + e->listed;
        a->rhs_start[b + 1] = a->rhs_start[b] + rows;
        a->rhs_map_start[b + 1] = a->rhs_map_start[b] + own * rows;
        most = e->listed > most ? e->listed : most;
        map->own = own > map->own ? (int32_t)own : map->own;
        map->extent = own + e->listed > map->extent ? (int32_t)(own + e->listed) : map->extent;
        map->rhs = rows > map->rhs ? (int32_t)rows : map->rhs;
    }
    map->rows = map->own;
    map->lanes = LANES;
    map->width = most + 1 <= (int64_t)3 * LANES   ? 3
                 : most + 1 <= (int64_t)6 * LANES ? 6
                 : most + 1 <= (int64_t)9 * LANES ? 9
                                                  : 16;
    map->threads = (map->own * LANES + 31) / 32 * 32;
    map->sources = a->source_start[blocks];
    map->rhs_places = a->rhs_start[blocks];
    map->rhs_elements = a->rhs_map_start[blocks];
    return HF_OK;
}

/* A block that is read from must read back, or it could run ahead of its reader: where it does not,
 * it reads a row that nothing is multiplied by. reads [blocks, blocks]: who reads from whom. */
static bool read_back(struct hf_march_map *map, struct arrays *a, uint8_t *reads) {
    const int64_t blocks = map->blocks;
    int64_t more = 0, at = 0;
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t other = 0; other < blocks; other++)
            more += reads[other * blocks + b] && !reads[b * blocks + other];
    int32_t *source = hf_alloc((size_t)(map->sources + more) * sizeof *source + 1);
    if (source == NULL)
        return false;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t first = a->source_start[b], count = a->source_start[b + 1] - first;
        const int64_t begin = at, own = a->block_start[b + 1] - a->block_start[b];
        memcpy(source + at, a->source + first, (size_t)count * sizeof *source);
        at += count;
        for (int64_t other = 0; other < blocks; other++)
            if (reads[other * blocks + b] && !reads[b * blocks + other])
                source[at++] = (int32_t)a->block_start[other];
        a->source_start[b] = begin;
        map->extent = own + at - begin > map->extent ? (int32_t)(own + at - begin) : map->extent;
    }
    a->source_start[blocks] = at;
    map->sources = at;
    hf_free(a->source);
    a->source = source;
    set_map(map, a);
    return true;
}

static hf_status add_readers(struct hf_march_map *map, struct arrays *a) {
    const int64_t blocks = map->blocks, n = map->block_start[blocks];
    uint8_t *reads = hf_alloc_zero((size_t)(blocks * blocks));
    int32_t *block_of = hf_alloc((size_t)n * sizeof *block_of);
    bool there = reads != NULL && block_of != NULL;
    for (int64_t b = 0; there && b < blocks; b++)
        for (int64_t i = map->block_start[b]; i < map->block_start[b + 1]; i++)
            block_of[i] = (int32_t)b;
    for (int64_t b = 0; there && b < blocks; b++)
        for (int64_t i = map->source_start[b]; i < map->source_start[b + 1]; i++)
            reads[b * blocks + block_of[map->source[i]]] = 1;
    there = there && read_back(map, a, reads);
    hf_free(reads);
    hf_free(block_of);
    return there ? HF_OK : HF_E_NOMEM;
}

static hf_status fill(struct exact *e, struct arrays *a) {
    const struct hf_relax_patches *p = &e->relax->patches;
    struct hf_march_map *map = e->map;
    HF_TRY(measure(e, a));
    HF_TRY(add_readers(map, a));
    const size_t places = (size_t)map->blocks * (size_t)map->width * (size_t)map->threads;
    a->value = hf_alloc_zero(places * sizeof *a->value);
    a->column = hf_alloc_zero(places * sizeof *a->column);
    a->rhs_place = hf_alloc((size_t)map->rhs_places * sizeof *a->rhs_place);
    a->rhs_map = hf_alloc((size_t)map->rhs_elements * sizeof *a->rhs_map);
    set_map(map, a);
    if (!a->value || !a->column || !a->rhs_place || !a->rhs_map)
        return HF_E_NOMEM;
    memcpy(a->rhs_place, p->row, (size_t)map->rhs_places * sizeof *a->rhs_place);
    for (int64_t b = 0; b < map->blocks; b++) {
        (void)list_outside(e, b);
        fill_block(e, b, a->value, a->column, a->rhs_map);
        forget(e, b);
    }
    return HF_OK;
}

hf_status hf_relax_exact_map(const hf_relax *relax, struct hf_march_map *map) {
    const size_t n = (size_t)relax->m.n;
    struct arrays arrays = {0};
    struct exact e = {.relax = relax, .map = map};
    *map = (struct hf_march_map){.blocks = relax->blocks.count};
    for (int64_t b = 0; b < relax->patches.count; b++)
        if (!relax->patches.inverse[b])
            return HF_E_UNSUPPORTED;
    e.inside = hf_alloc_zero(n * sizeof *e.inside);
    e.outside = hf_alloc_zero(n * sizeof *e.outside);
    e.list = hf_alloc_zero(MOST_OUTSIDE * sizeof *e.list);
    hf_status status = HF_E_NOMEM;
    if (e.inside != NULL && e.outside != NULL && e.list != NULL)
        status = fill(&e, &arrays);
    hf_free(e.inside);
    hf_free(e.outside);
    hf_free(e.list);
    if (status != HF_OK)
        hf_march_map_clear(map);
    return status;
}
