/* SPDX-License-Identifier: Apache-2.0
 * The sizes of clusters in a few numbers. */
#ifndef CLUSTER_SPREAD_H
#define CLUSTER_SPREAD_H

#include "tool.h"

struct spread {
    int64_t least, median, most, empty;
};

/* False when memory is out. */
bool spread_of(const int64_t *sizes, int64_t k, struct spread *s);

/* "3 to 120 rows, median 40; empty: 1" and the end of the line. */
void spread_print(const struct spread *s, FILE *out);

#endif
