/* SPDX-License-Identifier: Apache-2.0
 * k-means: fit, predict, transform, score. docs/numerics/README.md says what exact and repeatable
 * mean. */
#ifndef HF_KMEANS_H
#define HF_KMEANS_H

#include <holdfast/array.h>
#include <holdfast/base.h>
#include <holdfast/context.h>
#include <holdfast/guard.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The distance d(x, c); every operation of the reference is one float64 operation, features in
 * order. */
typedef enum hf_metric {
    HF_EUCLIDEAN = 0, /* sum of (x_j - c_j)^2; a centroid is the mean of its rows */
    HF_COSINE = 1,    /* 1 - x.c / (|x| |c|); a centroid is the normalised sum of normalised rows */
    HF_DOT = 2        /* -x.c; a centroid is the mean of its rows */
} hf_metric;

/* Where the centroids start. */
typedef enum hf_init {
    HF_INIT_KMEANSPP = 0, /* greedy k-means++ (Arthur and Vassilvitskii 2007), 2 + ln k trials */
    HF_INIT_KMEANS_PARALLEL = 1, /* k-means|| (Bahmani et al. 2012) */
    HF_INIT_RANDOM = 2,          /* k distinct rows */
    HF_INIT_GIVEN = 3            /* opts->centroids */
} hf_init;

/* What happens to a cluster that lost all its rows. */
typedef enum hf_empty {
    HF_EMPTY_RELOCATE = 0, /* its centroid moves to the row farthest from its own centroid */
    HF_EMPTY_SPLIT = 1,    /* it takes half of the cluster with the most rows */
    HF_EMPTY_KEEP = 2,     /* its centroid stays where it was */
    HF_EMPTY_ERROR = 3     /* the fit ends with HF_E_DATA */
} hf_empty;

/* What a label is worth. */
typedef enum hf_precision {
    HF_EXACT = 0, /* labels equal those of the float64 reference, lowest index on ties */
    HF_FAST = 1   /* the filter's answer is taken as it is: a few rows may differ, and by kernel */
} hf_precision;

/* How centroids are kept between iterations. */
typedef enum hf_centroids {
    HF_CENTROIDS_WIDE = 0, /* float32; float64 for float64 data */
    HF_CENTROIDS_SAME = 1  /* rounded to the data's own 16-bit type after each update */
} hf_centroids;

/* Work skipping never changes a result. */
typedef enum hf_skipping {
    HF_SKIP_AUTO = 0, /* on while it saved work in the last iteration */
    HF_SKIP_OFF = 1,  /* never */
    HF_SKIP_ON = 2    /* always */
} hf_skipping;

/* What happens to rows with NaN or Inf. */
typedef enum hf_nan {
    HF_NAN_ERROR = 0, /* a row with NaN or Inf is HF_E_DATA; the message names the first */
    HF_NAN_DROP = 1   /* such rows take no part and get label -1 */
} hf_nan;

/* Why a fit ended. */
typedef enum hf_stop {
    HF_STOP_NONE = 0,     /* not yet */
    HF_STOP_LABELS = 1,   /* no label changed */
    HF_STOP_TOL = 2,      /* the centroids moved less than tol */
    HF_STOP_MAX_ITER = 3, /* max_iter iterations were made */
    HF_STOP_CANCELLED = 4 /* by the progress callback; the result holds the last full iteration */
} hf_stop;

/* One Lloyd iteration as it ended. */
typedef struct hf_kmeans_iteration {
    double inertia;         /* of the labels against the centroids they were computed from */
    double shift;           /* sum over all centroids of the squared distance moved */
    double seconds;         /* that it took */
    int64_t changed;        /* rows whose label changed */
    int64_t rows_skipped;   /* rows whose bounds proved the label without any distance */
    int64_t rows_partial;   /* rows compared with the moved centroids only */
    int64_t rows_rechecked; /* rows that the filter left open: differences were compared, */
    int64_t rows_float64;   /* and these of them were decided in float64 */
    int64_t empty;          /* clusters that were empty */
} hf_kmeans_iteration;

/* Called after each iteration, from the calling thread. Return non-zero to stop. restart counts
 * from 0 to n_init - 1, iteration from 1; iteration 0 reports progress of the initialisation
 * (done of total centroids), with it == NULL. */
typedef int (*hf_kmeans_progress)(void *user, int restart, int iteration,
                                  const hf_kmeans_iteration *it, int64_t done, int64_t total);

#define HF_DIGEST_BLOCKS 16 /* words of a digest's arrays */

/* What stands for the state after an iteration. Block b has the clusters from b k / 16 to
 * (b + 1) k / 16 - 1. Equal fits have equal digests on every machine; where two differ, the first
 * iteration and block that do so say where one of them computed wrongly. */
typedef struct hf_kmeans_digest {
    uint64_t chain; /* of this digest, the iteration's inertia, shift, changed and empty, and of the
                       chain of the iteration before; a restart, and a resumed fit, begin with 0 */
    uint32_t centroids[16]; /* CRC-32C of the new centroids, a block each */
    uint32_t sizes[16];     /* of the numbers of rows that they were made of, int64 */
} hf_kmeans_digest;

/* Called after each iteration, before progress, from the calling thread. */
typedef void (*hf_kmeans_on_digest)(void *user, int restart, int iteration,
                                    const hf_kmeans_digest *digest);

/* Called, from the calling thread, with a sentence about something that ends no fit: a checkpoint
 * that cannot be written (the first time), and clusters that have no rows when the fit has
 * converged, as where there are fewer different rows than clusters. Not for batches. */
typedef void (*hf_kmeans_warning)(void *user, const char *text);

/* All zero means default; k must be set. */
typedef struct hf_kmeans_opts {
    int64_t k;                 /* clusters, 1 to the number of rows */
    hf_metric metric;          /* distance and kind of centroid */
    hf_init init;              /* where the centroids start */
    const hf_array *centroids; /* HF_INIT_GIVEN: [k, d] of any type */
    int n_init;                /* restarts, the best is kept; 0 means 1 */
    uint64_t seed;             /* of all random choices */
    int max_iter;              /* 0 means 300 */
    double tol; /* relative to the mean variance of the columns; 0 means 1e-4, < 0 means
                   only unchanged labels stop (scikit-learn's tol=0) */
    const hf_array *weights;     /* [n, 1] of any type, >= 0, not all 0; NULL means 1 */
    hf_empty empty;              /* what happens to clusters without rows */
    hf_precision precision;      /* exact labels, or those of the fast filter */
    hf_centroids store;          /* element type of the centroids */
    hf_skipping skipping;        /* of work that bounds prove needless */
    hf_nan nan;                  /* what happens to rows with NaN or Inf */
    const char *checkpoint;      /* file written as the fit goes on, also while a start takes long;
                                    NULL means none */
    int checkpoint_every;        /* iterations between two writes; 0 means 10, < 0 means that
                                    only a fit that is cancelled writes */
    const char *resume;          /* a checkpoint of the same data and options to go on from */
    hf_kmeans_progress progress; /* called after each iteration; NULL means none */
    void *progress_user;         /* its first argument */
    hf_kmeans_warning warn;      /* NULL means none */
    void *warn_user;             /* its first argument */
    hf_guard guard;              /* what is done about wrong arithmetic */
    hf_on_fault on_fault;        /* told of it; NULL means nobody */
    void *on_fault_user;         /* its first argument */
    hf_kmeans_on_digest digest;  /* called after each iteration; on a GPU this makes iterations
                                    slower, as each is a call. NULL means none; not for batches */
    void *digest_user;           /* its first argument */
} hf_kmeans_opts;

/* The column whose values are spread most: where it dwarfs the others, distances are its own. */
typedef struct hf_column_note {
    int64_t column;   /* counted from 0 */
    double min;       /* its values lie between this */
    double max;       /* and this */
    double deviation; /* its standard deviation, */
    double typical;   /* and the lower median of those of all columns */
} hf_column_note;

/* A fit. Centroids and labels belong together: each label is the nearest of these centroids. */
typedef struct hf_kmeans_result {
    int64_t n;                    /* rows */
    int64_t k;                    /* clusters */
    int64_t d;                    /* columns */
    hf_array centroids;           /* [k, d] F32, or F64 for F64 data */
    int32_t *labels;              /* [n]; -1 for rows dropped by HF_NAN_DROP */
    int64_t *sizes;               /* [k] rows of each cluster, whatever their weights */
    double inertia;               /* sum of weight * d(row, its centroid) */
    int iterations;               /* of the restart that was kept */
    int restart;                  /* which restart that was */
    hf_stop stop;                 /* why the fit ended */
    int converged;                /* stop is LABELS or TOL */
    int64_t clusters_found;       /* with rows, in the last iteration: fewer than k where there are
                                     fewer different rows, or with HF_EMPTY_KEEP */
    int64_t rows_dropped;         /* by HF_NAN_DROP */
    int checkpoints_failed;       /* writes of opts->checkpoint that did not succeed */
    hf_column_note widest;        /* of the columns */
    hf_kmeans_iteration *history; /* [iterations] */
    double seconds_init;          /* finding the first centroids */
    double seconds_iterate;       /* the iterations */
    double seconds_finish;        /* the last labels and inertia */
    double seconds_total;         /* all of the call */
    uint64_t workspace_bytes; /* most memory held at once beside the data, labels and centroids */
    int64_t chunk_rows;       /* rows worked on at once */
    char kernel_assign[64];   /* kernel that assigned, for the record */
    char kernel_update[64];   /* kernel that summed */
    char guard[16];           /* the scheme in force; "off" where the kernels have no checks */
    uint32_t checks;          /* bit i: check hf_guard_check_name(i) was made, in all iterations */
    hf_guard_counts faults;   /* what they looked at and found */
} hf_kmeans_result;

/* Cluster the rows of x into opts->k groups with Lloyd's algorithm.
 *   x       [n, d] F32, F64, F16, BF16 or U8; borrowed until return
 *   fit     written on HF_OK only; free with hf_kmeans_result_clear()
 * HF_E_ARG      k < 1 or > n, d < 1, bad options, weights or centroids of another shape
 * HF_E_DATA     NaN or Inf in x, weights negative or all zero, empty cluster with HF_EMPTY_ERROR
 * HF_E_NOMEM    the workspace does not fit the context's memory limit
 * HF_E_CANCELLED  opts->progress said stop while the first centroids of the first restart were
 *              chosen: there is no result yet, but those chosen so far are in opts->checkpoint
 * HF_E_BUSY     the context is at work for another call; so for all functions below
 * HF_E_IO, HF_E_CORRUPT  opts->resume cannot be read, or is damaged (one of another problem is
 *              HF_E_ARG; a few rows that changed places may escape notice)
 * Reaching max_iter and being cancelled are HF_OK; see fit->stop. A checkpoint that cannot be
 * written ends no fit: opts->warn is told why, and fit->checkpoints_failed counts; what was written
 * before stays. */
HF_API hf_status hf_kmeans_fit(hf_context *ctx, const hf_array *x, const hf_kmeans_opts *opts,
                               hf_kmeans_result *fit);

/* The same for rows that are read in chunks. Same bits as hf_kmeans_fit() on the same rows. */
HF_API hf_status hf_kmeans_fit_source(hf_context *ctx, const hf_source *source,
                                      const hf_kmeans_opts *opts, hf_kmeans_result *fit);

/* Fit `batch` independent problems of one shape: problem b is x[b] with fits[b]; opts->seed + b is
 * its seed. Checkpoints and progress are not available here (HF_E_ARG). All or nothing. */
HF_API hf_status hf_kmeans_fit_batch(hf_context *ctx, const hf_array *x, int64_t batch,
                                     const hf_kmeans_opts *opts, hf_kmeans_result *fits);

/* The first centroids alone, those that a fit with the same arguments begins with. Exactly one of x
 * and source is not NULL.
 *   centroids  [k, d] F64 in host memory, out: rows of the data (HF_INIT_GIVEN: opts->centroids);
 *              anything is in it after a failure
 * HF_E_CANCELLED when opts->progress asked to stop; other statuses as those of hf_kmeans_fit(). */
HF_API hf_status hf_kmeans_seed(hf_context *ctx, const hf_array *x, const hf_source *source,
                                const hf_kmeans_opts *opts, const hf_array *centroids);

/* Free what a fit holds and zero it. NULL is allowed. */
HF_API void hf_kmeans_result_clear(hf_kmeans_result *fit);

/* Label of the nearest centroid for every row. Exactly one of x and source is not NULL.
 *   centroids  [k, d] of any type
 *   labels     [n] out
 *   distances  [n] out, d(row, its centroid) in float64; NULL when not wanted
 *   inertia    out, sum of weight * distance; NULL when not wanted (weights may be NULL)
 * The outputs share no memory with what goes in. A first pass over the rows finds NaN and Inf
 * (HF_E_DATA); a call that fails after it, for want of memory (HF_E_NOMEM) or by a row that cannot
 * be read again, leaves anything in labels and distances, and inertia as it was. */
HF_API hf_status hf_kmeans_predict(hf_context *ctx, const hf_array *x, const hf_source *source,
                                   const hf_array *centroids, hf_metric metric,
                                   hf_precision precision, const hf_array *weights, int32_t *labels,
                                   double *distances, double *inertia);

/* Called as rows are done, from the calling thread, done of total visits of rows (predict visits
 * each twice). Return non-zero to stop. */
typedef int (*hf_rows_progress)(void *user, int64_t done, int64_t total);

/* All zero means default. */
typedef struct hf_predict_opts {
    hf_metric metric;          /* that of the fit */
    hf_precision precision;    /* predict: exact labels, or those of the fast filter */
    hf_nan nan;                /* what happens to rows with NaN or Inf */
    const hf_array *weights;   /* predict: [n, 1] of any type, >= 0, not all 0; NULL means 1 */
    hf_rows_progress progress; /* NULL means none */
    void *user;                /* first argument of progress, and of the sink of transform */
    hf_guard guard;            /* what is done about wrong arithmetic */
    hf_on_fault on_fault;      /* told of it; NULL means nobody */
    void *on_fault_user;       /* its first argument */
    hf_guard_counts *faults;   /* out, what the checks looked at and found; NULL: not wanted */
    char *scheme;              /* [16] out, as guard of hf_kmeans_result; NULL: not wanted */
    uint32_t *checks;          /* out, as checks of it; NULL: not wanted */
} hf_predict_opts;

/* Where hf_kmeans_predict_with() writes; what is NULL is not wanted, but labels must be. */
typedef struct hf_prediction {
    int32_t *labels;       /* [n] out; -1 for rows dropped by HF_NAN_DROP */
    double *distances;     /* [n] out, d(row, its centroid); NaN for those */
    double *inertia;       /* out, sum of weight * distance of the others */
    double *weight;        /* out, sum of their weights */
    int64_t *sizes;        /* [k] out, rows of each cluster */
    int64_t *rows_dropped; /* out, by HF_NAN_DROP */
} hf_prediction;

/* hf_kmeans_predict() with options; rows that are all dropped are no failure. HF_E_CANCELLED when
 * progress asked to stop, which leaves anything in labels and distances. opts may be NULL. */
HF_API hf_status hf_kmeans_predict_with(hf_context *ctx, const hf_array *x, const hf_source *source,
                                        const hf_array *centroids, const hf_predict_opts *opts,
                                        const hf_prediction *out);

/* Gets the distances of rows [first, first + count) to all centroids, [count, k] float64. Return
 * non-zero to stop. */
typedef int (*hf_transform_sink)(void *user, int64_t first, int64_t count, const double *distances);

/* Distances of rows to all centroids (Euclidean: the root of d), a chunk at a time: each goes to
 * sink. Exactly one of x and source is not NULL. HF_E_CANCELLED when sink asked to stop. */
HF_API hf_status hf_kmeans_transform(hf_context *ctx, const hf_array *x, const hf_source *source,
                                     const hf_array *centroids, hf_metric metric,
                                     hf_transform_sink sink, void *user);

/* The same with options: the distances of rows dropped by HF_NAN_DROP are NaN. opts may be NULL. */
HF_API hf_status hf_kmeans_transform_with(hf_context *ctx, const hf_array *x,
                                          const hf_source *source, const hf_array *centroids,
                                          const hf_predict_opts *opts, hf_transform_sink sink);

/* "no label changed", "moved less than tol", ... */
HF_API const char *hf_stop_text(hf_stop stop);

#ifdef __cplusplus
}
#endif
#endif
