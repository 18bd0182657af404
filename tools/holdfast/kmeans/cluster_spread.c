/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans/cluster_spread.h"
#include <stdlib.h>
#include <string.h>

static int compare_counts(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

bool spread_of(const int64_t *sizes, int64_t k, struct spread *s) {
    int64_t *counts = malloc((size_t)k * sizeof *counts);
    if (!counts)
        return false;
    memcpy(counts, sizes, (size_t)k * sizeof *counts);
    qsort(counts, (size_t)k, sizeof *counts, compare_counts);
    s->least = counts[0];
    s->median = counts[k / 2];
    s->most = counts[k - 1];
    for (s->empty = 0; s->empty < k && counts[s->empty] == 0; s->empty++)
        continue;
    free(counts);
    return true;
}

void spread_print(const struct spread *s, FILE *out) {
    fprintf(out, "%s to %s rows, median %s%s%s\n", tool_count_text(s->least),
            tool_count_text(s->most), tool_count_text(s->median), s->empty ? "; empty: " : "",
            s->empty ? tool_count_text(s->empty) : "");
}
