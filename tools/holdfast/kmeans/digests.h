/* SPDX-License-Identifier: Apache-2.0
 * The digests of the iterations of a fit: what `holdfast replay` finds the first wrong one by. */
#ifndef DIGESTS_H
#define DIGESTS_H

#include "tool.h"

struct digest {
    int restart, iteration;
    hf_kmeans_digest value;
};

struct digests {
    struct digest *list; /* [count], room for `room` */
    size_t count, room;
};

/* An hf_kmeans_on_digest; `user` is a struct digests. Where memory is out the digest is lost. */
void digests_add(void *user, int restart, int iteration, const hf_kmeans_digest *digest);

/* {"chain": .., "centroids": .., "sizes": ..} in hexadecimal; null: that iteration has none. */
json_t *digests_json(const struct digests *d, int restart, int iteration);

void digests_clear(struct digests *d);

#endif
