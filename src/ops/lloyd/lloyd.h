/* SPDX-License-Identifier: Apache-2.0
 * lloyd: many whole iterations of k-means, where a device can do them without the host. What an
 * iteration is stands in algo/kmeans/loop/lloyd_loop.c, which takes over when something happens
 * that this op only reports. Its reference is the composition of assign, update and means. */
#ifndef HF_LLOYD_H
#define HF_LLOYD_H

#include "ops/assign/assign.h"
#include "ops/lloyd/verdict.h"
#include "ops/means/means.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hf_lloyd_state {
    double inertia;     /* in, out: of the last iteration; not looked at where there is none */
    int64_t empty;      /* in, out: its empty clusters */
    int32_t iterations; /* out: made by this call */
    int32_t stop;       /* out: enum hf_stop or enum hf_lloyd_event */
    int32_t settled;    /* out: labels and sums were made to follow the last centroids */
    int32_t calls;      /* in, out: each call adds 1, so that one that happened twice shows */
};

/* Non-zero stops: the problem ends with HF_STOP_CANCELLED. */
typedef int hf_lloyd_progress(void *user, int iteration, const hf_kmeans_iteration *it);

/* A second book of the labels and sums, kept from call to call by other code than that which makes
 * these (op audit). With one each iteration is compared with it before the next one begins; what
 * disagrees is told in the guard slot and ends the call with HF_LLOYD_FAULT. Then labels, sums and
 * the book mean nothing; `iterations` are those that were found right, and `current` and `previous`
 * the centroids after the last of them, or those that came in where there is none. */
struct hf_lloyd_book {
    const uint64_t *hash;   /* [n] words of the rows (op rowhash) by */
    const uint64_t *factor; /* [limbs, d + 1] these odd numbers */
    int32_t *labels;        /* [n] in, out: as booked; in: those of args.labels */
    uint64_t *word;         /* [k] in, out: sums of the words of the rows of each cluster */
    int64_t *count;         /* [k] in, out: their number */
    uint64_t *sign;         /* [2] host memory, in, out: hf_guard_sign() of current and previous */
    uint64_t *packed;       /* [1] host memory, out: the signature of the rows as a kernel had
                               packed them when it ended less that of the same packed once more: but
                               for 0 nothing that came out is right */
};

/* `batch` problems of one shape, one behind the other in every array; each ends by itself. While
 * others go on, the labels and sums of an ended problem follow its last centroids. Not every kernel
 * of the op can settle. */
struct hf_lloyd_args {
    hf_array x;    /* [batch * n, d] any data type */
    int64_t batch; /* at least 1 */
    bool exact;    /* of the labels */
    struct hf_filter filter;
    struct hf_center_rule rule; /* shift [d], unit [batch, d] */
    hf_empty empty;
    hf_skipping skipping;       /* of rows that bounds decide */
    bool settle;                /* at the end labels and sums are to follow the last centroids, as
                                   `settled` of the state tells; not after an event. Without, they
                                   are those before the last move */
    int first;                  /* iterations made before this call */
    int count;                  /* iterations of this call at most, at least 1 */
    const double *tol;          /* [batch] on the sum of the squared moves; < 0: never */
    const double *total_square; /* [batch] of x - shift; Euclidean */
    const double *slack;        /* [batch] how much the inertia may rise; Euclidean and exact */
    const double *weights;      /* [batch * n], NULL means 1 */
    const double *weight_mult;  /* [batch]; the one in sums is not looked at */
    struct hf_sums *sums;       /* of the first problem: sum [batch, limbs, k, d], count [batch, k],
                                   weight [batch, limbs, k] or NULL, mult [batch, d] */
    int32_t *labels;            /* [batch * n] in: those of the sums, -1: in none. out: likewise */
    void *current;              /* [batch, k, d] rule.type in: centroids; out: the last ones */
    void *previous;             /* [batch, k, d] out: those before the last move, if batch is 1, or
                                   one launch makes all iterations, and the last iteration moved
                                   them; else undefined. With a book in, out: always */
    struct hf_lloyd_state *state; /* [batch] host memory */
    hf_kmeans_iteration *history; /* [batch, count] host memory, out; seconds, and what lies beyond
                                     the last iteration, means nothing */
    int32_t *unit; /* [batch] host memory or NULL, in: -1, out: the multiprocessor that had the
                      problem all by itself; -1: several had, or it is not known */
    hf_lloyd_progress *progress; /* after each iteration; batch is 1. NULL: none */
    void *progress_user;
    bool checks_tiles; /* of scores and */
    bool sums_twice;   /* of the sums: the checks of FT K-Means, told in the guard slot; without a
                          book, batch is 1. Not every row of the op makes them */
    const struct hf_lloyd_book *book; /* batch is 1; NULL: none. Not every row of the op keeps it */
};

/* The sums of problem p. */
static inline struct hf_sums hf_lloyd_sums(const struct hf_lloyd_args *args, int64_t p) {
    struct hf_sums s = *args->sums;
    s.mult += p * s.d;
    s.weight_mult = args->weight_mult[p];
    s.sum += p * s.limbs * s.k * s.d;
    s.count += p * s.k;
    s.weight = s.weight ? s.weight + p * s.limbs * s.k : NULL;
    return s;
}

/* What holds for all iterations of problem p. */
static inline struct hf_lloyd_laws hf_lloyd_laws(const struct hf_lloyd_args *args, int64_t p) {
    const struct hf_lloyd_laws laws = {args->rule.metric, args->exact, args->empty, args->slack[p]};
    return laws;
}

/* The rows of the clusters, and how many clusters have less than none. */
static inline struct hf_lloyd_tally hf_lloyd_tally(const int64_t *count, int64_t k) {
    struct hf_lloyd_tally tally = {0, 0, 0};
    for (int64_t j = 0; j < k; j++) {
        tally.rows += count[j];
        tally.negative += count[j] < 0;
    }
    return tally;
}

static inline hf_status hf_lloyd_run(hf_context *ctx, const struct hf_lloyd_args *args) {
    return hf_run(ctx, HF_OP_LLOYD, args);
}

#ifdef __cplusplus
}
#endif
#endif
