/* SPDX-License-Identifier: Apache-2.0
 * Blocks with overlap and their factors: Cholesky factors in envelopes (reverse Cuthill-McKee
 * order) where the matrix is symmetric with a positive diagonal, else inverses. */
#include "algo/relax/dense.h"
#include "algo/relax/graph.h"

#include "base/dtype.h"
#include "base/mem.h"
#include "base/parallel.h"
#include <string.h>

#define MOST_GROWTH 3

struct growing {
    struct hf_graph graph; /* of the copy: vertices are places */
    int32_t *mark; /* [n] patch that took the vertex last + 1, negative once it has its place */
    int32_t *level, *list, *local; /* [n] */
    int32_t *row;                  /* [room] */
    int64_t room, used;
};

static bool reserve_rows(struct growing *g, int64_t more) {
    if (g->used + more <= g->room)
        return true;
    const int64_t room = 2 * (g->used + more);
    int32_t *row = hf_alloc((size_t)room * sizeof *row);
    if (row == NULL)
        return false;
    if (g->used > 0)
        memcpy(row, g->row, (size_t)g->used * sizeof *row);
    hf_free(g->row);
    g->row = row;
    g->room = room;
    return true;
}

/* The block and `layers` layers of neighbours to g->list; returns how many they are. Where the
 * number of layers was not asked for, one that makes the block more than `most` rows is left out:
 * in a matrix with elements far from the diagonal two layers may be everything. */
static int64_t grow_block(const hf_relax *relax, struct growing *g, int64_t block, int layers) {
    const int32_t mark = (int32_t)block + 1;
    const int64_t rows = relax->blocks.start[block + 1] - relax->blocks.start[block];
    const int64_t most = relax->overlap_asked ? INT64_MAX : MOST_GROWTH * rows;
    int64_t count = 0, begin = 0;
    for (int64_t v = relax->blocks.start[block]; v < relax->blocks.start[block + 1]; v++) {
        g->mark[v] = mark;
        g->list[count++] = (int32_t)v;
    }
    for (int layer = 0; layer < layers; layer++) {
        const int64_t end = count;
        for (int64_t at = begin; at < end; at++)
            for (int64_t e = g->graph.start[g->list[at]]; e < g->graph.start[g->list[at] + 1]; e++)
                if (g->mark[g->graph.beside[e]] != mark) {
                    g->mark[g->graph.beside[e]] = mark;
                    g->list[count++] = g->graph.beside[e];
                }
        if (count > most) {
            for (int64_t at = end; at < count; at++)
                g->mark[g->list[at]] = 0;
            return end;
        }
        begin = end;
    }
    return count;
}

/* Rows of a patch in the order of its factor. */
static bool place_patch(hf_relax *relax, struct growing *g, int64_t block) {
    const int64_t count = grow_block(relax, g, block, relax->opts.overlap);
    const int32_t mark = (int32_t)block + 1;
    if (!reserve_rows(g, count))
        return false;
    for (int64_t at = 0; at < count; at++) {
        if (g->mark[g->list[at]] != mark)
            continue;
        int32_t *order = g->row + g->used;
        const int64_t part = hf_graph_order(&g->graph, g->mark, mark, g->list[at], order, g->level);
        for (int64_t i = 0; i < part; i++)
            g->mark[order[i]] = -mark;
        g->used += part;
    }
    relax->patches.start[block + 1] = g->used;
    relax->patches.largest = count > relax->patches.largest ? count : relax->patches.largest;
    return true;
}

/* Elements of the rows of a patch in its factor. */
static void measure_patch(hf_relax *relax, struct growing *g, int64_t patch) {
    struct hf_relax_patches *p = &relax->patches;
    const int64_t first = p->start[patch], count = p->start[patch + 1] - first;
    for (int64_t i = 0; i < count; i++)
        g->local[p->row[first + i]] = (int32_t)i + 1;
    for (int64_t i = 0; i < count; i++) {
        const int32_t v = p->row[first + i];
        int64_t least = i;
        for (int64_t e = g->graph.start[v]; e < g->graph.start[v + 1]; e++) {
            const int64_t other = g->local[g->graph.beside[e]];
            least = other > 0 && other - 1 < least ? other - 1 : least;
        }
        p->envelope[first + i + 1] =
            p->envelope[first + i] + (p->inverse[patch] ? count : i + 1 - least);
    }
    for (int64_t i = 0; i < count; i++)
        g->local[p->row[first + i]] = 0;
}

/* Which places are added up for an unknown: of its own block, or all. */
static bool choose_owners(hf_relax *relax) {
    struct hf_relax_patches *p = &relax->patches;
    const int64_t n = relax->m.n, places = p->start[p->count];
    const bool all = relax->opts.symmetric != 0;
    p->own_start = hf_relax_take(relax, n + 2, sizeof *p->own_start);
    p->own = hf_relax_take(relax, all ? places : n, sizeof *p->own);
    if (p->own_start == NULL || p->own == NULL)
        return false;
    memset(p->own_start, 0, (size_t)(n + 2) * sizeof *p->own_start);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t patch = 0; patch < p->count; patch++)
            for (int64_t at = p->start[patch]; at < p->start[patch + 1]; at++) {
                const int64_t v = p->row[at];
                const bool own =
                    v >= relax->blocks.start[patch] && v < relax->blocks.start[patch + 1];
                if (!all && !own)
                    continue;
                if (pass == 0)
                    p->own_start[v + 2]++;
                else
                    p->own[p->own_start[v + 1]++] = at;
            }
        for (int64_t i = 0; pass == 0 && i < n; i++)
            p->own_start[i + 2] += p->own_start[i + 1];
    }
    return true;
}

static bool open_growing(hf_relax *relax, struct growing *g) {
    const size_t bytes = (size_t)relax->m.n * sizeof(int32_t);
    g->mark = hf_alloc_zero(bytes);
    g->level = hf_alloc(bytes);
    g->list = hf_alloc(bytes);
    g->local = hf_alloc_zero(bytes);
    if (g->level != NULL)
        memset(g->level, -1, bytes);
    return g->mark != NULL && g->level != NULL && g->list != NULL && g->local != NULL;
}

static void close_growing(struct growing *g) {
    hf_graph_close(&g->graph);
    hf_free(g->mark);
    hf_free(g->level);
    hf_free(g->list);
    hf_free(g->local);
    hf_free(g->row);
}

/* Rows of all patches, elements of their factors. */
static bool lay_out(hf_relax *relax, struct growing *g) {
    struct hf_relax_patches *p = &relax->patches;
    p->count = relax->blocks.count;
    p->start = hf_relax_take(relax, p->count + 1, sizeof *p->start);
    p->inverse = hf_relax_take(relax, p->count, 1);
    if (p->start == NULL || p->inverse == NULL || !open_growing(relax, g))
        return false;
    p->start[0] = 0;
    memset(p->inverse, hf_relax_uses_cholesky(relax) ? 0 : 1, (size_t)p->count);
    for (int64_t block = 0; block < p->count; block++)
        if (!place_patch(relax, g, block))
            return false;
    p->row = hf_relax_take(relax, g->used, sizeof *p->row);
    p->envelope = hf_relax_take(relax, g->used + 1, sizeof *p->envelope);
    if (p->row == NULL || p->envelope == NULL)
        return false;
    memcpy(p->row, g->row, (size_t)g->used * sizeof *p->row);
    p->envelope[0] = 0;
    for (int64_t patch = 0; patch < p->count; patch++)
        measure_patch(relax, g, patch);
    return choose_owners(relax);
}

static hf_status take_factor(hf_relax *relax) {
    struct hf_relax_patches *p = &relax->patches;
    const int64_t elements = p->envelope[p->start[p->count]];
    const uint64_t bytes = (uint64_t)elements * hf_dtype_bytes(relax->opts.inside);
    if (bytes > relax->opts.memory_bytes)
        return hf_ctx_fail(relax->ctx, HF_E_NOMEM,
                           "the factors of %lld blocks of up to %lld rows need %llu bytes, "
                           "opts.memory_bytes allows %llu: make block_rows or overlap smaller",
                           (long long)p->count, (long long)p->largest, (unsigned long long)bytes,
                           (unsigned long long)relax->opts.memory_bytes);
    p->factor = hf_relax_take(relax, elements, hf_dtype_bytes(relax->opts.inside));
    return p->factor != NULL ? HF_OK : hf_relax_no_memory(relax, "the factors of the blocks");
}

void hf_relax_clear_patches(hf_relax *relax) {
    struct hf_relax_patches *p = &relax->patches;
    hf_free(p->start);
    hf_free(p->row);
    hf_free(p->envelope);
    hf_free(p->inverse);
    hf_free(p->factor);
    hf_free(p->own_start);
    hf_free(p->own);
    *p = (struct hf_relax_patches){0};
    relax->patched = false;
}

static hf_status try_patches(hf_relax *relax) {
    struct growing g = {.room = 0};
    HF_TRY(hf_graph_open(relax, &g.graph));
    const bool there = lay_out(relax, &g);
    close_growing(&g);
    if (!there)
        return hf_relax_no_memory(relax, "the blocks with overlap");
    HF_TRY(take_factor(relax));
    relax->patched = true;
    return hf_relax_factor_patches(relax);
}

/* A symmetric matrix may turn out to be indefinite only here: then inverses serve. */
hf_status hf_relax_make_patches(hf_relax *relax) {
    hf_status status = try_patches(relax);
    if (status == HF_E_DATA && relax->symmetric && relax->positive) {
        hf_relax_clear_patches(relax);
        relax->positive = false;
        status = try_patches(relax);
    }
    return status;
}

/* What a worker needs to factor a patch. */
struct factoring {
    hf_relax *relax;
    int workers;
    int64_t most;   /* elements of the largest factor */
    int32_t *local; /* [workers, n] 0 */
    double *a;      /* [workers, most] */
    int64_t *pivot; /* [workers, largest] */
    uint8_t *bad;   /* [patches] */
};

/* The matrix of the patch's rows and columns into the shape of its factor. */
static void fill_patch(const hf_relax *relax, int64_t patch, int32_t *local, double *a) {
    const struct hf_relax_patches *p = &relax->patches;
    const struct hf_relax_matrix *m = &relax->m;
    const int64_t first = p->start[patch], count = p->start[patch + 1] - first;
    const int64_t *envelope = p->envelope + first;
    memset(a, 0, (size_t)(envelope[count] - envelope[0]) * sizeof *a);
    for (int64_t i = 0; i < count; i++)
        local[p->row[first + i]] = (int32_t)i + 1;
    for (int64_t i = 0; i < count; i++) {
        const int64_t v = p->row[first + i];
        const int64_t left = p->inverse[patch] ? 0 : i + 1 - (envelope[i + 1] - envelope[i]);
        double *row = a + envelope[i] - envelope[0];
        for (int64_t e = m->row_start[v]; e < m->row_start[v + 1]; e++) {
            const int64_t j = (int64_t)local[m->column[e]] - 1;
            if (j >= left && (p->inverse[patch] || j <= i))
                row[j - left] = sparse_value(m->value, m->dtype, e);
        }
    }
    for (int64_t i = 0; i < count; i++)
        local[p->row[first + i]] = 0;
}

static bool factor_one(struct factoring *f, int worker, int64_t patch) {
    const struct hf_relax_patches *p = &f->relax->patches;
    const int64_t first = p->envelope[p->start[patch]];
    const int64_t count = p->start[patch + 1] - p->start[patch];
    const int64_t elements = p->envelope[p->start[patch + 1]] - first;
    double *a = f->a + worker * f->most;
    fill_patch(f->relax, patch, f->local + worker * f->relax->m.n, a);
    const bool done = p->inverse[patch]
                          ? hf_dense_invert(a, count, f->pivot + worker * p->largest)
                          : hf_envelope_factor(a, p->envelope + p->start[patch], count);
    for (int64_t e = 0; done && e < elements; e++) {
        if (f->relax->opts.inside == HF_F32)
            ((float *)p->factor)[first + e] = (float)a[e];
        else
            ((double *)p->factor)[first + e] = a[e];
    }
    return done;
}

static void factor_range(void *user, int worker, int64_t begin, int64_t end) {
    struct factoring *f = user;
    for (int64_t patch = begin; patch < end; patch++)
        f->bad[patch] = !factor_one(f, worker, patch);
}

static bool open_factoring(struct factoring *f) {
    const struct hf_relax_patches *p = &f->relax->patches;
    for (int64_t patch = 0; patch < p->count; patch++) {
        const int64_t elements = p->envelope[p->start[patch + 1]] - p->envelope[p->start[patch]];
        f->most = elements > f->most ? elements : f->most;
    }
    const size_t workers = (size_t)f->workers;
    f->local = hf_alloc_zero(workers * (size_t)f->relax->m.n * sizeof *f->local);
    f->a = hf_alloc(workers * (size_t)f->most * sizeof *f->a);
    f->pivot = hf_alloc(workers * (size_t)p->largest * sizeof *f->pivot);
    f->bad = hf_alloc_zero((size_t)p->count);
    return f->local != NULL && f->a != NULL && f->pivot != NULL && f->bad != NULL;
}

static void close_factoring(struct factoring *f) {
    hf_free(f->local);
    hf_free(f->a);
    hf_free(f->pivot);
    hf_free(f->bad);
}

/* A block that is not positive definite or singular, or HF_OK. */
static hf_status find_bad(const struct factoring *f) {
    const struct hf_relax_patches *p = &f->relax->patches;
    for (int64_t patch = 0; patch < p->count; patch++) {
        const int64_t v = f->relax->blocks.start[patch];
        const int64_t row = f->relax->perm != NULL ? f->relax->perm[v] : v;
        if (f->bad[patch])
            return hf_ctx_fail(
                f->relax->ctx, HF_E_DATA,
                "block %lld, which begins with row %lld, is %s: it cannot be solved; "
                "use another method or block_rows",
                (long long)patch, (long long)row,
                p->inverse[patch] ? "singular" : "not positive definite");
    }
    return HF_OK;
}

hf_status hf_relax_factor_patches(hf_relax *relax) {
    hf_pool *pool = hf_ctx_pool(relax->ctx);
    struct factoring f = {.relax = relax, .workers = hf_pool_workers(pool)};
    hf_status status = HF_OK;
    if (open_factoring(&f)) {
        hf_parallel_for(pool, relax->patches.count, 1, factor_range, &f);
        status = find_bad(&f);
    } else {
        status = hf_relax_no_memory(relax, "the factors of the blocks");
    }
    close_factoring(&f);
    return status;
}

hf_status hf_relax_factor_patch(hf_relax *relax, int64_t patch) {
    struct factoring f = {.relax = relax, .workers = 1};
    const bool there = open_factoring(&f);
    const bool done = there && factor_one(&f, 0, patch);
    close_factoring(&f);
    if (!there)
        return hf_relax_no_memory(relax, "the factors of the blocks");
    return done ? HF_OK
                : hf_ctx_fail(relax->ctx, HF_E_CORRUPT,
                              "the factor of block %lld was damaged and cannot be made again",
                              (long long)patch);
}
