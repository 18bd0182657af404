/* SPDX-License-Identifier: Apache-2.0
 * The maps of op march: of each block the rows it works on, what it reads, and its elements in the
 * order in which threads hold them. */
#include "base/mem.h"
#include "ops/march/march.h"

#include <string.h>

#define MOST_THREADS 736  /* of a block; another warp watches */
#define MOST_WIDE 480     /* where rows are wide: then a thread needs more registers */
#define MOST_EXTENT 12000 /* doubles of x_ext, twice in shared memory */
#define MOST_BLOCKS 1024
#define FEW_ROWS 128 /* of a block: then more threads share a row */

static const int widths[] = {3, 6, 9, 16};

/* Rows, sources, and where each place stands in x_ext of the block at work. */
struct draft {
    const struct hf_march_plan *plan;
    struct hf_march_map *map;
    int32_t *where;       /* [n] -1: nowhere */
    int32_t *list;        /* places of x_ext of the block at work; [n] */
    int64_t listed, rows; /* of it */
    int32_t *source;      /* of all blocks so far */
    int64_t room;
    uint8_t *reads; /* [blocks, blocks] */
    int64_t longest;
};

/* The block of a place. */
static int64_t block_of(const struct hf_march_plan *plan, int64_t place) {
    int64_t low = 0, high = plan->blocks;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        *(plan->block_start[middle] <= place ? &low : &high) = middle;
    }
    return low;
}

static void list_place(struct draft *d, int64_t place) {
    if (d->where[place] >= 0)
        return;
    d->where[place] = (int32_t)d->listed;
    d->list[d->listed++] = (int32_t)place;
}

/* All columns of rows [first, last) of the list. */
static void list_columns(struct draft *d, int64_t first, int64_t last) {
    const struct hf_sparse *a = &d->plan->a;
    for (int64_t r = first; r < last; r++) {
        const int64_t i = d->list[r];
        const int64_t count = a->row_start[i + 1] - a->row_start[i];
        d->longest = count > d->longest ? count : d->longest;
        for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++)
            list_place(d, a->column[e]);
    }
}

static void list_block(struct draft *d, int64_t block) {
    const int64_t *start = d->plan->block_start + block;
    d->listed = 0;
    for (int64_t i = start[0]; i < start[1]; i++)
        list_place(d, i);
    int64_t done = 0;
    for (int layer = 0; layer < d->plan->layers; layer++) {
        const int64_t before = d->listed;
        list_columns(d, done, before);
        done = before;
    }
    d->rows = d->listed;
    list_columns(d, done, d->rows);
}

static void forget_block(struct draft *d) {
    for (int64_t i = 0; i < d->listed; i++)
        d->where[d->list[i]] = -1;
}

static bool add_sources(struct draft *d, int64_t at, const int32_t *places, int64_t count) {
    if (at + count > d->room) {
        const int64_t room = 2 * d->room + count + 1024;
        int32_t *grown = hf_alloc((size_t)room * sizeof *grown);
        if (grown == NULL)
            return false;
        if (at > 0 && d->source != NULL)
            memcpy(grown, d->source, (size_t)at * sizeof *grown);
        hf_free(d->source);
        d->source = grown;
        d->room = room;
    }
    if (count > 0 && d->source != NULL)
        memcpy(d->source + at, places, (size_t)count * sizeof *places);
    return true;
}

static int32_t larger(int64_t a, int64_t b) { return (int32_t)(a > b ? a : b); }

/* What each block reads; blocks that are read from read back at least one place, so that none can
 * run two epochs ahead of one that reads from it. */
static hf_status find_sources(struct draft *d, int32_t *row_count, int64_t *source_start) {
    const struct hf_march_plan *plan = d->plan;
    struct hf_march_map *map = d->map;
    for (int64_t block = 0; block < plan->blocks; block++) {
        const int64_t own = plan->block_start[block + 1] - plan->block_start[block];
        list_block(d, block);
        forget_block(d);
        row_count[block] = (int32_t)d->rows;
        map->own = larger(own, map->own);
        map->rows = larger(d->rows, map->rows);
        map->extent = larger(d->listed, map->extent);
        if (map->rows > MOST_THREADS || map->extent > MOST_EXTENT)
            return HF_E_UNSUPPORTED;
        for (int64_t i = own; i < d->listed; i++)
            d->reads[block * plan->blocks + block_of(plan, d->list[i])] = 1;
    }
    for (int64_t block = 0; block < plan->blocks; block++) {
        list_block(d, block);
        for (int64_t other = 0; other < plan->blocks; other++)
            if (d->reads[other * plan->blocks + block] && !d->reads[block * plan->blocks + other])
                list_place(d, plan->block_start[other]);
        const int64_t own = plan->block_start[block + 1] - plan->block_start[block];
        const int64_t count = d->listed - own;
        map->extent = larger(d->listed, map->extent);
        const bool there = add_sources(d, source_start[block], d->list + own, count);
        source_start[block + 1] = source_start[block] + count;
        forget_block(d);
        if (!there)
            return HF_E_NOMEM;
    }
    map->sources = source_start[plan->blocks];
    return map->extent > MOST_EXTENT ? HF_E_UNSUPPORTED : HF_OK;
}

/* Fewer lanes to a row cost fewer exchanges between threads, more lanes are fewer steps of each. */
static hf_status choose_lanes(struct hf_march_map *map, int64_t longest) {
    for (int rank = 0; rank < 2; rank++)
        for (int lanes = 1; lanes <= 4; lanes *= 2) {
            const int64_t width = (longest + lanes - 1) / lanes;
            const int64_t threads = (int64_t)map->rows * lanes;
            const int64_t wanted = map->rows > FEW_ROWS || rank > 0 ? HF_MARCH_MOST_WIDTH : 6;
            const int64_t most = width > 6 ? MOST_WIDE : MOST_THREADS;
            if (width > wanted || threads > most)
                continue;
            map->lanes = lanes;
            map->threads = (int32_t)((threads + 31) / 32 * 32);
            for (int w = 3; w >= 0; w--)
                if (width <= widths[w])
                    map->width = widths[w];
            return HF_OK;
        }
    return HF_E_UNSUPPORTED;
}

static void fill_block(struct draft *d, int64_t block, double *value, uint16_t *column) {
    const struct hf_march_plan *plan = d->plan;
    const struct hf_march_map *map = d->map;
    const struct hf_sparse *a = &plan->a;
    const int64_t base = block * map->width * map->threads;
    list_block(d, block);
    for (int64_t r = 0; r < d->rows; r++) {
        const int64_t i = d->list[r], first = a->row_start[i];
        for (int64_t e = first; e < a->row_start[i + 1]; e++) {
            const int64_t lane = (e - first) % map->lanes, w = (e - first) / map->lanes;
            const int64_t at = base + w * map->threads + r * map->lanes + lane;
            value[at] = -sparse_value(a->value, a->dtype, e) * plan->inverse[i];
            column[at] = (uint16_t)d->where[a->column[e]];
        }
    }
    forget_block(d);
}

static hf_status make(struct draft *d) {
    const struct hf_march_plan *plan = d->plan;
    struct hf_march_map *map = d->map;
    const size_t blocks = (size_t)plan->blocks;
    int32_t *row_count = hf_alloc_zero(blocks * sizeof *row_count);
    int64_t *start = hf_alloc_zero((blocks + 1) * sizeof *start);
    int64_t *source_start = hf_alloc_zero((blocks + 1) * sizeof *source_start);
    map->row_count = row_count;
    map->block_start = start;
    map->source_start = source_start;
    if (row_count == NULL || start == NULL || source_start == NULL)
        return HF_E_NOMEM;
    memcpy(start, plan->block_start, (blocks + 1) * sizeof *start);
    HF_TRY(find_sources(d, row_count, source_start));
    map->source = d->source;
    d->source = NULL;
    HF_TRY(choose_lanes(map, d->longest));
    const size_t places = blocks * (size_t)map->width * (size_t)map->threads;
    double *value = hf_alloc_zero(places * sizeof *value);
    uint16_t *column = hf_alloc_zero(places * sizeof *column);
    map->value = value;
    map->column = column;
    if (value == NULL || column == NULL)
        return HF_E_NOMEM;
    for (int64_t block = 0; block < plan->blocks; block++)
        fill_block(d, block, value, column);
    return HF_OK;
}

hf_status hf_march_map_make(const struct hf_march_plan *plan, struct hf_march_map *map) {
    const size_t n = (size_t)plan->a.rows, blocks = (size_t)plan->blocks;
    if (plan->blocks > MOST_BLOCKS)
        return HF_E_UNSUPPORTED;
    struct draft d = {.plan = plan,
                      .map = map,
                      .where = hf_alloc(n * sizeof *d.where),
                      .list = hf_alloc(n * sizeof *d.list),
                      .reads = hf_alloc_zero(blocks * blocks)};
    *map = (struct hf_march_map){.blocks = plan->blocks};
    hf_status status = HF_E_NOMEM;
    if (d.where != NULL && d.list != NULL && d.reads != NULL) {
        memset(d.where, -1, n * sizeof *d.where);
        status = make(&d);
    }
    hf_free(d.where);
    hf_free(d.list);
    hf_free(d.reads);
    hf_free(d.source);
    if (status != HF_OK)
        hf_march_map_clear(map);
    return status;
}

void hf_march_map_clear(struct hf_march_map *map) {
    const void *const arrays[] = {
        map->block_start, map->row_count, map->source_start,  map->source,    map->value,
        map->column,      map->rhs_start, map->rhs_map_start, map->rhs_place, map->rhs_map};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        hf_free((void *)(uintptr_t)arrays[i]);
    *map = (struct hf_march_map){0};
}
