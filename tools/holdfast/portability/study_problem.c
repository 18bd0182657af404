/* SPDX-License-Identifier: Apache-2.0
 * The rows of a set, and first centroids. */
#include "portability/portability.h"
#include <stdlib.h>
#include <string.h>

int64_t study_scaled(const struct study *s, int64_t rows) {
    const int64_t n = (int64_t)((double)rows * s->options.scale);
    return n < 1000 ? 1000 : n;
}

int study_problem(int set, int64_t rows, int64_t columns, int64_t most_k, struct problem *p) {
    *p = (struct problem){.set = set};
    const hf_status status = hf_dev_study_rows(study_sets[set], rows, columns, &p->x);
    if (status == HF_OK && most_k > 0 && p->x.cols > 0) {
        p->room = calloc((size_t)(most_k * p->x.cols), sizeof *p->room);
        p->labels = calloc((size_t)p->x.rows, sizeof *p->labels);
    }
    if (!p->room || !p->labels) {
        tool_error("no memory for %lld rows of the study; use a smaller --scale", (long long)rows);
        return EXIT_RESOURCES;
    }
    if (most_k > p->x.rows) {
        tool_error("-k %lld: the set has %lld rows at this scale", (long long)most_k,
                   (long long)p->x.rows);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

void study_end_problem(struct problem *p) {
    free(p->labels);
    free(p->room);
    hf_dev_study_free(&p->x);
}

void study_choose_centroids(struct problem *p, int64_t k) {
    const int64_t d = p->x.cols;
    for (int64_t c = 0; c < k; c++)
        memcpy(p->room + c * d, (const float *)p->x.data + c * (p->x.rows / k) * d,
               (size_t)d * sizeof *p->room);
    p->centroids =
        (hf_array){.data = p->room, .dtype = HF_F32, .rows = k, .cols = d, .row_stride = d};
}
