/* SPDX-License-Identifier: Apache-2.0
 * A fit, from its arguments to its result. The path: kmeans_api.c checks, prepare.c looks at the
 * data, memory_plan.c and workspace.c take the memory, restarts.c runs init.c, lloyd_loop.c and
 * finish.c and keeps the best. What each of them does stands in the header beside it. */
#ifndef HF_FIT_H
#define HF_FIT_H

#include "algo/kmeans/init/init.h"
#include "algo/kmeans/loop/skip.h"
#include "base/parallel.h"
#include "rows/panels.h"
#include "rows/resident.h"
#include "rows/rows.h"
#include "ops/assign/assign.h"
#include "ops/means/means.h"
#include <holdfast/kmeans.h>

/* What is to be clustered, and how. */
struct hf_fit_problem {
    hf_context *ctx;
    hf_kmeans_opts opts; /* defaults filled in */
    const hf_array *x;   /* one of the two */
    const hf_source *source;
    int64_t n_all;        /* rows, dropped ones included */
    int64_t n, k, d;      /* rows that take part (known once they were read), clusters, columns */
    hf_dtype dtype;       /* of the data */
    hf_dtype center_type; /* F32 or F64 */
};

/* Where the rows lie, and how many of them a call of an op takes. */
struct hf_data {
    struct hf_rows rows;
    struct hf_resident resident; /* of the rows, where the device is not the host */
    int64_t panel_rows;          /* most rows of one call of an op */
    int64_t scan_rows;           /* the same where each row needs a float64 of scratch */
    int64_t *dropped;            /* owned, what rows.dropped points to */
};

struct hf_weights {
    double *given;     /* [n] owned: as given; NULL means 1 */
    double *scaled;    /* [n] the same times 2^shift, owned where that is not 0 */
    double *directed;  /* [n] owned: the same, 0 for rows of zeros; only with HF_COSINE and such
                          rows, NULL means scaled */
    bool any_directed; /* not all of them are 0 */
    bool uneven;       /* so far apart that clusters may be too light for their sums */
    int shift;         /* inertias of iterations are times 2 to this power, too */
    double max;        /* of scaled; 1 without weights */
    double sum;        /* of scaled; n without weights */
};

#define HF_COLUMN_ARRAYS 7

/* What is known of the columns. */
struct hf_columns {
    double *block;     /* owns the arrays below */
    double *min, *max; /* [d] of the rows that take part */
    double *mean;      /* [d] */
    double *variance;  /* [d] */
    double *shift;     /* [d] of the filter; zeros unless the metric is Euclidean */
    double *mult;      /* [d] scale of the sums */
    double *unit; /* [d] 1 / mult where that gives a sum exactly: one limb, no underflow; else 0 */
    bool whole;   /* all values are whole numbers */
};

/* How the iterations see the data, and what they are measured by. */
struct hf_frame {
    struct hf_filter filter;
    double tol;          /* on the sum of the squared centroid moves; < 0: never */
    double total_square; /* Euclidean: sum of weight * |x - shift|^2 */
    double slack;        /* Euclidean: how much rounding may raise the inertia in an iteration */
};

/* Memory of the iterations, taken at once. */
struct hf_memory {
    void *fixed;         /* owns what does not grow with the rows, */
    void *block;         /* and the rest */
    uint64_t held_bytes; /* of the fit, labels and best centroids not counted */
};

struct hf_centers {
    void *current;  /* [k, d] center_type */
    void *previous; /* [k, d] before the last move */
    double *start;  /* [k, d] float64, over both: what the initialisation writes */
    void *best;     /* [k, d] of the best restart, owned; becomes the result's */
    struct hf_sums sums;
};

/* Centroids that iterations begin with. */
struct hf_past {
    void *centers;  /* [depth, k, d] of iteration i at i modulo depth; NULL: none are kept */
    uint64_t *sign; /* [depth] their signatures */
    int depth;
    int begin, end; /* rows that stay packed have been right until `begin`; the next one */
};

/* What the iterations are checked against: a second book of the labels and sums, and a copy of the
 * centroids that were found right last. */
struct hf_ledger {
    void *block;                    /* owns the rest; NULL: there is none */
    void *device;                   /* on a GPU owns factor, hash, labels, word and count instead;
                                       where labels are NULL there is no book (yet) */
    uint64_t lent[2], packed;       /* signatures of current and previous, and of what became of
                                       packed rows, from op lloyd */
    uint64_t *factor;               /* [limbs, d + 1] of op rowhash */
    uint64_t rows, rows_now;        /* signature of the rows when they were first read, and in this
                                       pass so far */
    uint64_t *hash;                 /* [n] by op rowhash */
    uint64_t sign;                  /* their signature */
    uint64_t best_sign;             /* of the best centroids */
    void *before;                   /* copy of the sums, of updates that are made twice */
    int32_t *labels;                /* [n] that the next two are of; -1: in no cluster */
    uint64_t *word;                 /* [k] sum of the hashes of a cluster's rows */
    int64_t *count;                 /* [k] of its rows */
    int64_t changed;                /* labels that changed in this iteration, booked; -1: not yet */
    struct hf_past past;            /* of iterations since rows were packed */
    uint32_t mended;                /* fault that was put right last, */
    int mended_in;                  /* and the iteration */
    void *current, *previous;       /* [k, d] copies of the centroids after the last iteration, */
    uint64_t signs[2];              /* their signatures, */
    struct hf_moved_row *relocated; /* [k] and of the rows moved in it */
    int64_t relocated_count;
    uint64_t bounds_sign;  /* of the bounds of the rows, */
    uint64_t moves_sign;   /* and of what they are moved by */
    uint64_t facts;        /* signature of what holds for all iterations: */
    double *columns;       /* [HF_COLUMN_ARRAYS, d] a copy of it */
    struct hf_frame frame; /* likewise, */
    double weight_mult;    /* and likewise */
    bool hashed, proven;   /* hashes are there, and the sums have agreed with them */
    bool rows_signed, best_signed, bounds_signed; /* there are such signatures */
    bool kept;                                    /* there are copies of the centroids */
    bool careful;         /* a call of op lloyd is to make one iteration alone, */
    bool twice;           /* or such calls have the problem twice, without the book: */
    int agreed;           /* iterations that both had agreed upon, of the last such call; */
    void *twin;           /* owns two copies of the rows, which come first, and of labels; */
    bool twin_known;      /* they are the rows that were first read */
    int32_t *twin_labels; /* [n] of the second copy, in the same memory, or NULL */
    uint64_t labels_sign; /* of labels that came out twice; twin_labels are the same */
    bool labels_signed;
};

/* Scratch of the passes over the rows, and what was decided about them. */
struct hf_work {
    double *nearest;                 /* [n] of the initialisation, over the bounds; NULL: none */
    struct hf_assign_packed *packed; /* rows packed between calls; NULL: they are packed anew */
    int32_t *panel_labels;           /* [panel_rows or n] */
    double *panel_distances;         /* [scan_rows or n]; HF_EMPTY_RELOCATE and HF_EMPTY_SPLIT */
    bool fused;                      /* sums are updated while rows are assigned */
    bool labelled;                   /* labels are those of the centroids before the last move */
    bool thorough, again;            /* all scores are tested: because a unit errs again and again,
                                        or as long as an iteration is made again */
    bool settles;                    /* op lloyd can end with the labels of the last centroids */
    const struct hf_kernel *means;   /* of op means, planned when it is first called, */
    const struct hf_kernel *twin;    /* and another one, for checks */
};

/* A row that was taken out of its cluster to found another. */
struct hf_moved_row {
    int64_t row;
    int64_t cluster;
};

/* A candidate for that. */
struct hf_far_row {
    double distance;
    int64_t row;
};

/* Rows that move at once, as op update takes them, and what the clusters keep without them. */
struct hf_movers {
    int64_t room;         /* most rows of a call, at least 1 */
    double *x;            /* [room, d] */
    double *weights;      /* [room]; NULL without weights */
    int64_t *index;       /* [room] */
    int32_t *from, *to;   /* [room] clusters */
    int64_t *count_left;  /* [k] */
    int64_t *weight_left; /* [limbs, k]; NULL without weights */
};

/* What is done about clusters without rows. */
struct hf_refill {
    struct hf_far_row *far;         /* [k] a heap of the farthest rows; only HF_EMPTY_RELOCATE */
    struct hf_moved_row *relocated; /* [k] rows moved in the last iteration, likewise */
    int64_t relocated_count;
    struct hf_movers movers; /* likewise, or with uneven weights */
    int64_t *share;          /* [k] rows of each cluster off its centroid; only HF_EMPTY_SPLIT */
};

/* A cluster that weighs too little for its sums to give its mean. */
struct hf_light_cluster {
    bool is;
    double heaviest; /* weight of a row of it, as given */
};

/* NULL, and no sums, unless the weights are uneven. */
struct hf_light {
    struct hf_light_cluster *cluster; /* [k] */
    struct hf_sums sums;              /* of such clusters */
};

/* The labels on the host, and on a device from the first iteration to the end. */
struct hf_labels {
    int32_t *host;     /* [n_all] owned, becomes the result's */
    int32_t *device;   /* [n] owned; NULL: there are none, kernels take those of the host */
    bool device_fresh; /* the device's are those of the host, or newer */
    bool device_newer; /* they are newer */
    bool touched;      /* the host's memory is there */
    bool checking;     /* the device checks that they are numbers of clusters */
};

/* What the result will say beside centroids and labels. */
struct hf_outcome {
    int64_t *sizes; /* [k] rows of the clusters by the labels, owned, becomes the result's */
    char kernel_assign[64], kernel_update[64];
    double seconds_init, seconds_iterate, seconds_finish;
};

/* What checkpoints know. */
struct hf_saves {
    uint32_t rows_crc;      /* of some rows; 0 without checkpoints */
    int failed;             /* checkpoints that could not be written */
    struct hf_init_log log; /* of the start that is being made */
};

struct hf_fit {
    struct hf_fit_problem problem;
    struct hf_data data;
    struct hf_weights weights;
    struct hf_columns columns;
    struct hf_frame frame;
    struct hf_memory memory;
    struct hf_centers centers;
    struct hf_ledger ledger;
    struct hf_work work;
    struct hf_skip skip;
    struct hf_refill refill;
    struct hf_light light;
    struct hf_labels labels;
    struct hf_outcome outcome;
    struct hf_saves saves;
    bool doubted; /* its rows on a device changed before anything was proven of them */
};

struct hf_history {
    hf_kmeans_iteration *it; /* [count], room for `room` */
    int count, room;
};

/* One restart as it goes on. */
struct hf_restart {
    int number;    /* from 0 */
    int iteration; /* finished iterations */
    hf_stop stop;
    bool cancelled; /* the progress callback said stop */
    bool settled;   /* labels and sums are those of the last centroids, though these have moved */
    double inertia; /* exact, by the weights given, set by hf_finish() */
    uint64_t chain; /* of the digests so far */
    struct hf_history history;
};

/* How much rows count as starts: those without a direction not at all, unless none has one. */
static inline const double *hf_start_weights(const struct hf_weights *weights) {
    return weights->any_directed ? weights->directed : weights->scaled;
}

#endif
