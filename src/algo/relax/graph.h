/* SPDX-License-Identifier: Apache-2.0
 * The graph of a matrix: rows are vertices, an element (i, j) or (j, i) joins i and j. */
#ifndef HF_RELAX_GRAPH_H
#define HF_RELAX_GRAPH_H

#include "algo/relax/setup.h"

struct hf_graph {
    int64_t n;
    int64_t *start;  /* [n + 1] */
    int32_t *beside; /* [start[n]] neighbours, ascending, without the vertex itself */
    float *weight;   /* [start[n]] |a_ij| / sqrt(a_ii a_jj), the larger of both directions */
};

/* Of the copy, whose columns ascend. HF_E_NOMEM. */
hf_status hf_graph_open(hf_relax *relax, struct hf_graph *graph);
void hf_graph_close(struct hf_graph *graph);

/* Reverse Cuthill-McKee order of the vertices with wanted[v] == mark that can be reached from
 * `first` through such vertices.
 *   order  out: vertices; room for all of them
 *   level  [n] -1 for those vertices before and after
 * Returns how many there are. */
int64_t hf_graph_order(const struct hf_graph *graph, const int32_t *wanted, int32_t mark,
                       int32_t first, int32_t *order, int32_t *level);

/* Cut the vertices vertex[0 .. count) of a connected part into `parts` parts of about equal size
 * with few and weak edges between them: part [count] out, 0 .. parts - 1. HF_E_UNSUPPORTED: this
 * build has no METIS, or it failed; HF_E_NOMEM. */
hf_status hf_graph_cut(const struct hf_graph *graph, const int32_t *vertex, int64_t count,
                       int64_t parts, int32_t *part);

#endif
