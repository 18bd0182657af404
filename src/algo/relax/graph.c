/* SPDX-License-Identifier: Apache-2.0
 * Graphs of matrices and their order. Reverse Cuthill-McKee: A. George, J. Liu, Computer solution
 * of large sparse positive definite systems, 1981. */
#include "algo/relax/graph.h"

#include "base/mem.h"
#include <math.h>
#include <string.h>

#if HF_HAVE_METIS
#include <metis.h>
#endif

void hf_graph_close(struct hf_graph *graph) {
    hf_free(graph->start);
    hf_free(graph->beside);
    hf_free(graph->weight);
    *graph = (struct hf_graph){0};
}

static float weight_of(const struct hf_relax_matrix *m, int64_t i, int64_t e) {
    return (float)(fabs(sparse_value(m->value, m->dtype, e)) *
                   sqrt(fabs(m->inverse[i] * m->inverse[m->column[e]])));
}

/* Elements (j, i) of all rows j as rows: column numbers ascend. */
static void transpose(const struct hf_relax_matrix *m, int64_t *start, int32_t *row,
                      float *weight) {
    memset(start, 0, (size_t)(m->n + 1) * sizeof *start);
    for (int64_t e = 0; e < m->row_start[m->n]; e++)
        start[m->column[e] + 1]++;
    for (int64_t i = 0; i < m->n; i++)
        start[i + 1] += start[i];
    for (int64_t i = 0; i < m->n; i++)
        for (int64_t e = m->row_start[i]; e < m->row_start[i + 1]; e++) {
            const int64_t at = start[m->column[e]]++;
            row[at] = (int32_t)i;
            weight[at] = weight_of(m, i, e);
        }
    for (int64_t i = m->n; i > 0; i--)
        start[i] = start[i - 1];
    start[0] = 0;
}

/* Merge row i of the matrix and of its transpose; both ascend. */
static void merge_row(const struct hf_relax_matrix *m, const int64_t *start, const int32_t *row,
                      const float *weight, int64_t i, struct hf_graph *graph) {
    int64_t e = m->row_start[i], t = start[i], at = graph->start[i];
    while (e < m->row_start[i + 1] || t < start[i + 1]) {
        const int32_t left = e < m->row_start[i + 1] ? m->column[e] : INT32_MAX;
        const int32_t right = t < start[i + 1] ? row[t] : INT32_MAX;
        const int32_t next = left < right ? left : right;
        const float there = left == next ? weight_of(m, i, e) : 0;
        const float back = right == next ? weight[t] : 0;
        e += left == next;
        t += right == next;
        if (next == i)
            continue;
        graph->beside[at] = next;
        graph->weight[at++] = there > back ? there : back;
    }
    graph->start[i + 1] = at;
}

hf_status hf_graph_open(hf_relax *relax, struct hf_graph *graph) {
    const struct hf_relax_matrix *m = &relax->m;
    const size_t rows = (size_t)m->n + 1, elements = (size_t)m->row_start[m->n];
    *graph = (struct hf_graph){.n = m->n,
                               .start = hf_alloc_zero(rows * sizeof *graph->start),
                               .beside = hf_alloc(2 * elements * sizeof *graph->beside),
                               .weight = hf_alloc(2 * elements * sizeof *graph->weight)};
    int64_t *start = hf_alloc(rows * sizeof *start);
    int32_t *row = hf_alloc(elements * sizeof *row);
    float *weight = hf_alloc(elements * sizeof *weight);
    const bool there = graph->start != NULL && graph->beside != NULL && graph->weight != NULL &&
                       start != NULL && row != NULL && weight != NULL;
    if (there)
        transpose(m, start, row, weight);
    for (int64_t i = 0; there && i < m->n; i++)
        merge_row(m, start, row, weight, i, graph);
    hf_free(start);
    hf_free(row);
    hf_free(weight);
    if (there)
        return HF_OK;
    hf_graph_close(graph);
    return hf_relax_no_memory(relax, "the graph of the matrix");
}

static int64_t degree(const struct hf_graph *graph, int64_t v) {
    return graph->start[v + 1] - graph->start[v];
}

/* Breadth first from `root`: vertices to `order`, their levels to `level`. Neighbours of a vertex
 * in ascending degree. Returns how many there are. */
static int64_t walk(const struct hf_graph *graph, const int32_t *wanted, int32_t mark, int32_t root,
                    int32_t *order, int32_t *level) {
    int64_t count = 1;
    order[0] = root;
    level[root] = 0;
    for (int64_t at = 0; at < count; at++) {
        const int32_t v = order[at];
        const int64_t first = count;
        for (int64_t e = graph->start[v]; e < graph->start[v + 1]; e++) {
            const int32_t u = graph->beside[e];
            if (wanted[u] != mark || level[u] >= 0)
                continue;
            level[u] = level[v] + 1;
            int64_t to = count++;
            for (; to > first && degree(graph, order[to - 1]) > degree(graph, u); to--)
                order[to] = order[to - 1];
            order[to] = u;
        }
    }
    return count;
}

static void forget(const int32_t *order, int64_t count, int32_t *level) {
    for (int64_t i = 0; i < count; i++)
        level[order[i]] = -1;
}

/* A vertex from which levels are many and narrow: the far end of a walk, while that gets longer. */
#define WALKS 4
static int32_t far_end(const struct hf_graph *graph, const int32_t *wanted, int32_t mark,
                       int32_t root, int32_t *order, int32_t *level) {
    int32_t depth = -1;
    for (int tries = 0; tries < WALKS; tries++) {
        const int64_t count = walk(graph, wanted, mark, root, order, level);
        const int32_t deepest = level[order[count - 1]];
        int32_t end = order[count - 1];
        for (int64_t i = count - 1; i >= 0 && level[order[i]] == deepest; i--)
            end = degree(graph, order[i]) < degree(graph, end) ? order[i] : end;
        forget(order, count, level);
        if (deepest <= depth)
            break;
        depth = deepest;
        root = end;
    }
    return root;
}

int64_t hf_graph_order(const struct hf_graph *graph, const int32_t *wanted, int32_t mark,
                       int32_t first, int32_t *order, int32_t *level) {
    const int32_t root = far_end(graph, wanted, mark, first, order, level);
    const int64_t count = walk(graph, wanted, mark, root, order, level);
    for (int64_t i = 0; i < count / 2; i++) {
        const int32_t other = order[i];
        order[i] = order[count - 1 - i];
        order[count - 1 - i] = other;
    }
    forget(order, count, level);
    return count;
}

#if HF_HAVE_METIS

#define WEIGHT_UNIT 1000 /* of edges: METIS wants whole numbers */

struct cut {
    idx_t *start, *beside, *weight, *part;
    int32_t *number; /* [n] of a vertex among those cut */
};

/* The part of the graph that is cut, with vertices numbered through. */
static void fill_cut(struct cut *c, const struct hf_graph *graph, const int32_t *vertex,
                     int64_t count) {
    idx_t at = 0;
    memset(c->number, -1, (size_t)graph->n * sizeof *c->number);
    for (int64_t i = 0; i < count; i++)
        c->number[vertex[i]] = (int32_t)i;
    c->start[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t e = graph->start[vertex[i]]; e < graph->start[vertex[i] + 1]; e++) {
            if (c->number[graph->beside[e]] < 0)
                continue;
            const float weight = fminf(graph->weight[e], 1) * WEIGHT_UNIT;
            c->beside[at] = c->number[graph->beside[e]];
            c->weight[at++] = 1 + (idx_t)weight;
        }
        c->start[i + 1] = at;
    }
}

static bool cut_by_metis(struct cut *c, int64_t count, int64_t parts) {
    idx_t options[METIS_NOPTIONS], vertices = (idx_t)count, constraints = 1, wanted = (idx_t)parts;
    idx_t across = 0;
    (void)METIS_SetDefaultOptions(options);
    options[METIS_OPTION_SEED] = 1;
    options[METIS_OPTION_NUMBERING] = 0;
    return METIS_PartGraphKway(&vertices, &constraints, c->start, c->beside, NULL, NULL, c->weight,
                               &wanted, NULL, NULL, options, &across, c->part) == METIS_OK;
}

hf_status hf_graph_cut(const struct hf_graph *graph, const int32_t *vertex, int64_t count,
                       int64_t parts, int32_t *part) {
    const size_t edges = (size_t)graph->start[graph->n];
    if (edges > INT32_MAX)
        return HF_E_UNSUPPORTED;
    struct cut c = {.start = hf_alloc((size_t)(count + 1) * sizeof(idx_t)),
                    .beside = hf_alloc(edges * sizeof(idx_t)),
                    .weight = hf_alloc(edges * sizeof(idx_t)),
                    .part = hf_alloc((size_t)count * sizeof(idx_t)),
                    .number = hf_alloc((size_t)graph->n * sizeof(int32_t))};
    hf_status status = HF_E_NOMEM;
    if (c.start != NULL && c.beside != NULL && c.weight != NULL && c.part != NULL &&
        c.number != NULL) {
        fill_cut(&c, graph, vertex, count);
        status = cut_by_metis(&c, count, parts) ? HF_OK : HF_E_UNSUPPORTED;
    }
    for (int64_t i = 0; status == HF_OK && i < count; i++)
        part[i] = (int32_t)c.part[i];
    hf_free(c.start);
    hf_free(c.beside);
    hf_free(c.weight);
    hf_free(c.part);
    hf_free(c.number);
    return status;
}

#else

hf_status hf_graph_cut(const struct hf_graph *graph, const int32_t *vertex, int64_t count,
                       int64_t parts, int32_t *part) {
    (void)graph, (void)vertex, (void)count, (void)parts, (void)part;
    return HF_E_UNSUPPORTED;
}

#endif
