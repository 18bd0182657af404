/* SPDX-License-Identifier: Apache-2.0
 * Rows into blocks: strips of the matrix's own order, or parts of its graph. Rows of a block keep
 * their order. */
#include "algo/relax/graph.h"

#include "base/mem.h"
#include <stdio.h>
#include <string.h>

hf_status hf_relax_make_strips(hf_relax *relax, int64_t rows) {
    const int64_t n = relax->m.n;
    struct hf_relax_blocks *blocks = &relax->blocks;
    blocks->count = (n + rows - 1) / rows;
    blocks->largest = hf_min64(rows, n);
    blocks->start = hf_relax_take(relax, blocks->count + 1, sizeof *blocks->start);
    if (blocks->start == NULL)
        return hf_relax_no_memory(relax, "the blocks of rows");
    for (int64_t i = 0; i <= blocks->count; i++)
        blocks->start[i] = hf_min64(i * rows, n);
    (void)snprintf(relax->partition, sizeof relax->partition, "strips");
    return HF_OK;
}

struct parting {
    const struct hf_graph *graph;
    int64_t rows;    /* of a block, about */
    int32_t *part;   /* [n] block of each row; -1: none yet */
    int32_t *order;  /* [n] scratch */
    int32_t *level;  /* [n] scratch, -1 */
    int32_t *local;  /* [n] scratch */
    int64_t count;   /* blocks so far */
    int64_t filled;  /* rows of the last block, while small components are packed into it */
    bool cut, metis; /* some component was too large; it was METIS that cut all of those */
};

/* A component that is too large for a block. False when there is no memory. */
static bool cut_component(struct parting *p, int64_t count) {
    const int64_t parts = (count + p->rows - 1) / p->rows;
    const hf_status status = hf_graph_cut(p->graph, p->order, count, parts, p->local);
    const bool metis = status == HF_OK;
    for (int64_t i = 0; i < count; i++)
        p->part[p->order[i]] = (int32_t)(p->count + (metis ? p->local[i] : i * parts / count));
    p->count += parts;
    p->filled = p->rows; /* the next component begins a block */
    p->cut = true;
    p->metis = p->metis && metis;
    return status != HF_E_NOMEM;
}

static bool place_component(struct parting *p, int32_t root) {
    const int64_t count = hf_graph_order(p->graph, p->part, -1, root, p->order, p->level);
    if (count > p->rows)
        return cut_component(p, count);
    if (p->count == 0 || p->filled + count > p->rows) {
        p->count++;
        p->filled = 0;
    }
    p->filled += count;
    for (int64_t i = 0; i < count; i++)
        p->part[p->order[i]] = (int32_t)(p->count - 1);
    return true;
}

/* perm and the starts of the blocks, of which METIS may leave some empty. */
static bool number_places(hf_relax *relax, const struct parting *p) {
    const int64_t n = relax->m.n;
    struct hf_relax_blocks *blocks = &relax->blocks;
    blocks->start = hf_relax_take(relax, p->count + 1, sizeof *blocks->start);
    relax->perm = hf_relax_take(relax, n, sizeof *relax->perm);
    int64_t *next = hf_alloc_zero((size_t)(p->count + 1) * sizeof *next);
    const bool there = blocks->start != NULL && relax->perm != NULL && next != NULL;
    for (int64_t i = 0; there && i < n; i++)
        next[p->part[i] + 1]++;
    blocks->count = 0;
    for (int64_t b = 0; there && b < p->count; b++) {
        if (next[b + 1] > 0) {
            blocks->largest = next[b + 1] > blocks->largest ? next[b + 1] : blocks->largest;
            blocks->start[blocks->count++] = next[b];
        }
        next[b + 1] += next[b];
    }
    if (there)
        blocks->start[blocks->count] = n;
    for (int64_t i = 0; there && i < n; i++)
        relax->perm[next[p->part[i]]++] = (int32_t)i;
    hf_free(next);
    return there;
}

hf_status hf_relax_make_graph_blocks(hf_relax *relax, int64_t rows) {
    const int64_t n = relax->m.n;
    const size_t bytes = (size_t)n * sizeof(int32_t);
    struct hf_graph graph;
    HF_TRY(hf_graph_open(relax, &graph));
    struct parting p = {.graph = &graph,
                        .rows = rows,
                        .part = hf_alloc(bytes),
                        .order = hf_alloc(bytes),
                        .level = hf_alloc(bytes),
                        .local = hf_alloc(bytes),
                        .metis = true};
    bool there = p.part != NULL && p.order != NULL && p.level != NULL && p.local != NULL;
    if (there) {
        memset(p.part, -1, bytes);
        memset(p.level, -1, bytes);
    }
    for (int64_t i = 0; there && i < n; i++)
        if (p.part[i] < 0)
            there = place_component(&p, (int32_t)i);
    there = there && number_places(relax, &p);
    hf_free(p.part);
    hf_free(p.order);
    hf_free(p.level);
    hf_free(p.local);
    hf_graph_close(&graph);
    (void)snprintf(relax->partition, sizeof relax->partition, "%s",
                   !p.cut    ? "components"
                   : p.metis ? "metis"
                             : "rcm");
    return there ? HF_OK : hf_relax_no_memory(relax, "the blocks of rows");
}

/* Rows that can be reached from `root`, at most `most` + 1; list [most + 1 + a row] is scratch. */
static int64_t reach(const struct hf_relax_matrix *m, int32_t root, int64_t most, uint8_t *seen,
                     int32_t *list) {
    int64_t count = 1;
    list[0] = root;
    seen[root] = 1;
    for (int64_t at = 0; at < count && count <= most; at++)
        for (int64_t e = m->row_start[list[at]]; e < m->row_start[list[at] + 1]; e++)
            if (!seen[m->column[e]]) {
                seen[m->column[e]] = 1;
                list[count++] = m->column[e];
            }
    return count;
}

hf_status hf_relax_components_fit(hf_relax *relax, int64_t rows, bool *fit) {
    const int64_t n = relax->m.n;
    uint8_t *seen = hf_alloc_zero((size_t)n);
    int32_t *list = hf_alloc((size_t)n * sizeof *list);
    const bool there = seen != NULL && list != NULL;
    *fit = there;
    for (int64_t i = 0; there && i < n && *fit; i++)
        *fit = seen[i] || reach(&relax->m, (int32_t)i, rows, seen, list) <= rows;
    hf_free(seen);
    hf_free(list);
    return there ? HF_OK : hf_relax_no_memory(relax, "the components of the matrix");
}
