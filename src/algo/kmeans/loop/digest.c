/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/loop/digest.h"
#include "algo/kmeans/prepare.h"
#include "base/checksum/checksum.h"
#include "base/dtype.h"
#include <string.h>

/* Elements of float32 and more are whole words. */
static uint32_t crc_of(const void *data, size_t first, size_t count, size_t element_bytes) {
    const char *p = (const char *)data + first * element_bytes;
    return hf_crc32c_words(0, (const uint32_t *)(const void *)p,
                           (int64_t)(count * element_bytes / sizeof(uint32_t)));
}

/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014), which is one to one: no step forgets. */
static uint64_t chained(uint64_t chain, uint64_t word) {
    uint64_t z = chain * 0x9e3779b97f4a7c15u + word + 1;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t bits_of(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

void hf_digest_tell(const struct hf_fit *fit, struct hf_restart *run) {
    const struct hf_fit_problem *problem = &fit->problem;
    const hf_kmeans_opts *o = &problem->opts;
    if (!o->digest)
        return;
    const hf_kmeans_iteration *it = &run->history.it[run->iteration - 1];
    const size_t k = (size_t)problem->k, d = (size_t)problem->d;
    hf_kmeans_digest digest = {.chain = run->iteration > 1 ? run->chain : 0};
    for (size_t b = 0; b < HF_DIGEST_BLOCKS; b++) {
        const size_t first = b * k / HF_DIGEST_BLOCKS;
        const size_t count = (b + 1) * k / HF_DIGEST_BLOCKS - first;
        digest.centroids[b] = crc_of(fit->centers.current, first * d, count * d,
                                     hf_dtype_bytes(problem->center_type));
        digest.sizes[b] = crc_of(fit->centers.sums.count, first, count, sizeof(int64_t));
        digest.chain = chained(digest.chain, (uint64_t)digest.centroids[b] << 32 | digest.sizes[b]);
    }
    const uint64_t words[] = {bits_of(hf_inertia_given(&fit->weights, it->inertia)),
                              bits_of(it->shift), (uint64_t)it->changed, (uint64_t)it->empty};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        digest.chain = chained(digest.chain, words[i]);
    run->chain = digest.chain;
    o->digest(o->digest_user, run->number, run->iteration, &digest);
}
