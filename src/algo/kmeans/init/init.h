/* SPDX-License-Identifier: Apache-2.0
 * Where k-means starts: greedy k-means++, k-means||, random rows. A seed means the same whatever
 * the instruction set, the number of threads, the chunk size and the place of the data. */
#ifndef HF_INIT_H
#define HF_INIT_H

#include "rows/rows.h"
#include "ops/assign/assign.h"
#include <holdfast/kmeans.h>

#define HF_INIT_OVER (-1)

/* The rows that steps of k-means++ chose, in their order, so that a start that is cut off can go on
 * with the same bits, on any device. What comes before the steps is made again. */
struct hf_init_log {
    int64_t *entry; /* [count] rows of the problem at hand (all, a core's, candidates), and
                                 HF_INIT_OVER behind the last step of each; owned, hf_free() */
    int64_t count, room;
    int64_t at;               /* entries before it were taken again */
    double unit;              /* scale of the potentials after the last entry */
    void (*save)(void *user); /* something was added; may be NULL */
    void *user;
};

struct hf_init_args {
    int64_t k; /* 1 to rows->n */
    hf_metric metric;
    hf_init init; /* all but HF_INIT_GIVEN */
    uint64_t seed;
    int restart; /* 0, 1, ...: other numbers of the same seed */
    const double
        *weights; /* [n] of the rows that take part, finite, >= 0, not all 0; NULL means 1 */
    const double *device_weights; /* the same where kernels need no copy; NULL: weights */
    struct hf_filter filter;
    double *nearest; /* [n] scratch; may be NULL with HF_INIT_RANDOM */
    int32_t *labels; /* [n] scratch; not used by HF_INIT_RANDOM, may be NULL there */
    int (*progress)(void *user, int64_t done, int64_t total); /* non-zero stops; may be NULL */
    void *progress_user;
    struct hf_init_log *log; /* NULL: none */
};

/* Candidates of a step of greedy k-means++, as scikit-learn and the authors' own code have it. */
int hf_init_trials(int64_t k);

/* Candidates of a round of k-means||: hardly ever more. */
int64_t hf_init_round_most(int64_t k);

/* Bytes that hf_kmeans_init() holds at most beside its arguments (k-means||: is expected to hold).
 */
uint64_t hf_kmeans_init_bytes(const struct hf_rows *rows, const struct hf_init_args *args);

/* Bytes that it takes for itself of the memory of a device that is not the CPU. */
uint64_t hf_kmeans_init_device_bytes(const struct hf_rows *rows, const struct hf_init_args *args);

/* Write k rows of the data, as float64, to centroids [k, d]. Rows of weight 0 and copies of rows
 * chosen before are taken only when there are no others. The values are those of the rows: not
 * normalised for HF_COSINE, not rounded. HF_E_CANCELLED  progress said so HF_E_NOMEM      no
 * memory; anything else comes from reading the rows */
hf_status hf_kmeans_init(const struct hf_rows *rows, const struct hf_init_args *args,
                         double *centroids);

/* The rows [k] that HF_INIT_RANDOM takes. */
hf_status hf_kmeans_init_random(const struct hf_rows *rows, const struct hf_init_args *args,
                                int64_t *row);

#endif
