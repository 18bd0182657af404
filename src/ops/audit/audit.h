/* SPDX-License-Identifier: Apache-2.0
 * audit: a second book of the labels of a fit, kept by other code than that of assign and update,
 * and the comparison of the clusters' sums with it (docs/fault-model.md). */
#ifndef HF_AUDIT_H
#define HF_AUDIT_H

#include "ops/update/update.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What was found. Of rows and clusters the lowest is told, -1 where there is none. */
struct hf_audit_found {
    int64_t changed; /* rows whose label is not that of the book */
    int64_t outside; /* a row whose label is no number of a cluster: it stays as booked */
    int64_t farther; /* a row that moved to a centroid that is not nearer than that of its old
                        cluster: by the reference distance, and of lower index where equal */
    int64_t sum;     /* a cluster whose sums are not those of its rows */
    int64_t count;   /* a cluster that has another number of rows */
    uint64_t sign;   /* of words */
};

/* Three parts, in this order; each is left out where its first array is NULL. */
struct hf_audit_args {
    /* 1. Rows whose label differs from the book move in it. */
    const int32_t *labels; /* [n] */
    int32_t *booked;       /* [n] in, out; -1: in no cluster */
    const uint64_t *hash;  /* [n] words of the rows (op rowhash) */
    uint64_t *word;        /* [k] in, out: sums of the words of each cluster, modulo 2^64 */
    int64_t *rows;         /* [k] in, out: rows of each cluster */
    hf_array x;            /* [n, d], data NULL: whether they may move is not looked at */
    hf_array c;            /* [k, d] F32 or F64, then: what the labels were found for */
    hf_metric metric;
    /* 2. Are the sums and sizes of the clusters those of the book? */
    const struct hf_sums *sums;
    const uint64_t *factor; /* [limbs, d + 1] of the words */
    /* 3. The sum of words[i] * ((i * 2654435769 mod 2^32) | 1), as hf_guard_sign() */
    const uint32_t *words; /* [n_words] */
    int64_t n_words;
    int64_t n, k;
    struct hf_audit_found *found; /* host memory, out */
};

#ifndef __CUDACC__
/* The word that the sums of a cluster give. */
static inline uint64_t hf_audit_word(const struct hf_audit_args *a, int64_t j) {
    const struct hf_sums *s = a->sums;
    uint64_t word = 0;
    for (int64_t limb = 0; limb < s->limbs; limb++) {
        const uint64_t *factor = a->factor + limb * (s->d + 1);
        for (int64_t f = 0; f < s->d; f++)
            word += factor[f] * (uint64_t)s->sum[(limb * s->k + j) * s->d + f];
        if (s->weight)
            word += factor[s->d] * (uint64_t)s->weight[limb * s->k + j];
    }
    return word;
}

static inline hf_status hf_audit(hf_context *ctx, const struct hf_audit_args *args) {
    return hf_run(ctx, HF_OP_AUDIT, args);
}
#endif

#ifdef __cplusplus
}
#endif

#endif
