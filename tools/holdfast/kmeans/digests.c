/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans/digests.h"
#include <stdlib.h>

#define WORD_DIGITS 8

void digests_add(void *user, int restart, int iteration, const hf_kmeans_digest *digest) {
    struct digests *d = user;
    /* A restart that was found wrong begins again. */
    while (d->count > 0 && d->list[d->count - 1].restart == restart &&
           d->list[d->count - 1].iteration >= iteration)
        d->count--;
    if (d->count == d->room) {
        const size_t room = d->room ? 2 * d->room : 64;
        struct digest *more = realloc(d->list, room * sizeof *more);
        if (!more)
            return;
        d->list = more;
        d->room = room;
    }
    d->list[d->count++] = (struct digest){restart, iteration, *digest};
}

static json_t *json_words(const uint32_t words[HF_DIGEST_BLOCKS]) {
    char text[HF_DIGEST_BLOCKS * WORD_DIGITS + 1];
    for (size_t b = 0; b < HF_DIGEST_BLOCKS; b++)
        snprintf(text + b * WORD_DIGITS, WORD_DIGITS + 1, "%08x", words[b]);
    return json_string(text);
}

/* By restart, then iteration, as they come. */
static int in_order(const void *a, const void *b) {
    const struct digest *p = a, *q = b;
    return p->restart != q->restart ? (p->restart > q->restart) - (p->restart < q->restart)
                                    : (p->iteration > q->iteration) - (p->iteration < q->iteration);
}

json_t *digests_json(const struct digests *d, int restart, int iteration) {
    const struct digest key = {.restart = restart, .iteration = iteration};
    const struct digest *found =
        d->count > 0 ? bsearch(&key, d->list, d->count, sizeof key, in_order) : NULL;
    char chain[20];
    if (!found)
        return json_null();
    snprintf(chain, sizeof chain, "%016llx", (unsigned long long)found->value.chain);
    return json_pack("{s:s, s:o, s:o}", "chain", chain, "centroids",
                     json_words(found->value.centroids), "sizes", json_words(found->value.sizes));
}

void digests_clear(struct digests *d) { free(d->list); }
