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
#include "ops/means.h"
#include <holdfast/kmeans.h>

/* A row that was taken out of its cluster to found another. */
struct hf_moved_row {
    int64_t row;
    int64_t cluster;
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

/* A candidate for that: empty.c keeps the farthest in a heap. */
struct hf_far_row {
    double distance;
    int64_t row;
};

/* A cluster that weighs so little that its sums do not tell its mean: light.c. */
struct hf_light {
    bool is;
    double heaviest; /* weight of a row of it, as given */
};

struct hf_history {
    hf_kmeans_iteration *it; /* [count], room for `room` */
    int count, room;
};

/* The labels on a device, from the first iteration to the end: see labels.c. */
struct hf_labels_away {
    int32_t *at;  /* [n] owned; NULL: there are none, kernels take those of the host */
    bool fresh;   /* they are those of the host, or newer */
    bool newer;   /* they are */
    bool touched; /* the host's memory is there */
    bool asked;   /* the device knows whether they are numbers of clusters */
};

#define HF_COLUMN_ARRAYS 7

/* What prepare.c finds out about the data. */
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

struct hf_fit {
    hf_context *ctx;
    hf_kmeans_opts opts; /* defaults filled in */
    const hf_array *x;   /* one of the two */
    const hf_source *source;
    int64_t n_all;        /* rows, dropped ones included */
    int64_t n, k, d;      /* rows that take part, clusters, columns */
    hf_dtype dtype;       /* of the data */
    hf_dtype center_type; /* F32 or F64 */

    struct hf_rows rows;
    struct hf_resident resident; /* of the rows, where the device is not the host */
    int64_t panel_rows;          /* most rows of one call of an op */
    int64_t scan_rows;           /* the same where each row needs a float64 of scratch */
    int64_t *dropped;            /* owned, what rows.dropped points to */
    double *given;               /* [n] owned: the weights as given; NULL means 1 */
    double *weights;             /* [n] the same times 2^weight_shift, owned where that is not 0 */
    double *pull;                /* [n] owned: the same, 0 for rows of zeros; only with HF_COSINE
                                    and such rows, NULL means weights */
    bool pulls;                  /* not all of them are 0 */
    bool uneven;                 /* weights are so far apart that clusters may be too light */
    int weight_shift;            /* inertias of iterations are times 2 to this power, too */
    double weight_max;           /* 1 without weights */
    double weight_sum;           /* n without weights */
    struct hf_columns col;
    struct hf_filter filter;
    double tol;          /* on the sum of the squared centroid moves; < 0: never */
    double total_square; /* Euclidean: sum of weight * |x - shift|^2 */
    double slack;        /* Euclidean: how much rounding may raise the inertia in an iteration */
    uint32_t rows_crc;   /* of some rows, only with checkpoints */
    int checkpoints_failed;

    void *fixed;    /* owns what is carved below and does not grow with the rows, */
    void *block;    /* and the rest */
    void *current;  /* [k, d] center_type: the centroids */
    void *previous; /* [k, d] before the last move */
    double *start;  /* [k, d] float64, over both: what the initialisation writes */
    struct hf_sums sums;
    double *nearest; /* [n] scratch of the initialisation, over the bounds; NULL if not kept */
    struct hf_skip skip;
    struct hf_assign_kept *kept;    /* rows packed between calls; NULL if not kept */
    int32_t *panel_labels;          /* [panel_rows or n] */
    double *panel_distances;        /* [scan_rows or n]; HF_EMPTY_RELOCATE and HF_EMPTY_SPLIT */
    struct hf_far_row *far;         /* [k] only with HF_EMPTY_RELOCATE */
    struct hf_moved_row *relocated; /* [k] rows moved in the last iteration, likewise */
    int64_t relocated_count;
    struct hf_movers movers;   /* likewise */
    struct hf_light *light;    /* [k] only if uneven, */
    struct hf_sums light_sums; /* and the sums of such clusters */
    int64_t *share;      /* [k] rows of each cluster off its centroid; only with HF_EMPTY_SPLIT */
    bool settles;        /* op lloyd can end with the labels of the last centroids */
    bool fused;          /* sums are small enough to be updated while assigning */
    uint64_t held_bytes; /* what this struct holds, labels and best centroids not counted */

    int32_t *labels; /* [n_all], becomes the result's */
    int64_t *sizes;  /* [k] rows of the clusters by the labels, likewise */
    void *best;      /* [k, d] center_type, becomes the result's */
    struct hf_labels_away away;
    char kernel_assign[64], kernel_update[64];
    struct hf_init_log log; /* of the start that is being made; only with checkpoints */
    double seconds_init, seconds_iterate, seconds_finish;
};

/* One restart as it goes on. */
struct hf_restart {
    int number;    /* from 0 */
    int iteration; /* finished iterations */
    hf_stop stop;
    bool cancelled; /* the progress callback said stop */
    bool settled;   /* labels and sums are those of the last centroids, though these have moved */
    double inertia; /* exact, by the weights given, set by hf_finish() */
    struct hf_history history;
};

/* How much rows count as starts: those without a direction not at all, unless none has one. */
static inline const double *hf_start_weights(const struct hf_fit *fit) {
    return fit->pulls ? fit->pull : fit->weights;
}

#endif
