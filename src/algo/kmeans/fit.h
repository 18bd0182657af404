/* SPDX-License-Identifier: Apache-2.0
 * What the parts of a fit share. The path: kmeans_api.c checks, prepare.c looks at the data,
 * memory_plan.c and workspace.c take the memory, restarts.c runs init.h, lloyd.c and finish.c and
 * keeps the best. */
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
    bool settles;        /* op lloyd can end with the labels of the last centroids; */
    bool lean;           /* it is to use less memory, */
    int64_t cached;      /* and may copy so many rows of locked memory */
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

/* ---- prepare.c: n, rows, weights, columns, filter, tolerance, scales of the sums */
hf_status hf_prepare(struct hf_fit *fit);
/* prepare_joint.c: the same of `count` fits without weights, whose rows x [count * n, d] lie one
 * behind the other in the device's memory, in three calls for all. Fails where one of them has rows
 * with NaN or Inf. */
hf_status hf_prepare_joint(struct hf_fit *fits, int64_t count, const hf_array *x);
/* The inertia of an iteration by the weights that were given. */
double hf_inertia_given(const struct hf_fit *fit, double inertia);
/* The unit roundoff of stored centroids, and the absolute error where that fails. */
void hf_center_rounding(const struct hf_fit *fit, double *relative, double *absolute);
/* The largest |x - shift| of values in [min, max], [d] each. */
double hf_filter_reach(int64_t d, const double *min, const double *max, const double *shift);
/* Do whole numbers within these fit a byte, less the middle of their column? */
bool hf_filter_bytes(int64_t d, const double *min, const double *max);
/* The power of two that brings values up to `largest` into [-1, 1]. */
double hf_filter_scale(double largest);

/* Look at the data from another origin and scale; length: as hf_bulk_length() of it. Only without
 * weights. */
void hf_prepare_filter(struct hf_fit *fit, const double *shift, double scale, double length);

/* ---- prepare_frame.c: origin and scale of the filter, from medians of some rows (op frame) */
struct hf_bulk {
    double *median;                    /* [d] of the columns */
    double length_mean, length_median; /* medians of |x - mean| and |x - median| */
};
/* What `sample` takes below. */
size_t hf_frame_sample_bytes(int64_t n, int64_t d);
/* Fills bulk; lengths of 0 where columns are too many. mean [d]; sample: scratch where rows are
 * streamed, lent or dropped, else NULL. */
hf_status hf_look_at_frame(const struct hf_rows *rows, double *sample, const double *mean,
                           struct hf_bulk *bulk);
/* shift [d] in: the mean; out: the origin. */
void hf_choose_origin(const struct hf_bulk *bulk, bool euclidean, int64_t d, double *shift);
/* The median of |x - origin|; 0 where it is not known. */
double hf_bulk_length(const struct hf_bulk *bulk, bool euclidean);
/* The scale for rows of that length, where |x - origin| has no component beyond `largest`. */
double hf_choose_scale(double length, double largest);

/* ---- workspace.c */
/* Take all memory that the iterations need, within the context's limit. */
hf_status hf_fit_workspace(struct hf_fit *fit);
/* Free all that a fit owns. */
void hf_fit_free(struct hf_fit *fit);
static inline int64_t hf_min64(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- kmeans_api.c */
/* hf_kmeans_fit() or hf_kmeans_fit_source() inside a public call. */
hf_status hf_fit_rows(hf_context *ctx, const hf_array *x, const hf_source *source,
                      const hf_kmeans_opts *opts, hf_kmeans_result *result);
/* Look at the data and take all memory. fit: ctx, opts, x or source, n_all, k, d and types are set.
 */
hf_status hf_fit_begin(struct hf_fit *fit);
/* Move what a finished fit holds into the result. */
void hf_fit_hand_over(struct hf_fit *fit, struct hf_restart *best, hf_kmeans_result *result);

/* ---- restarts.c: all restarts, the best into fit->best and fit->labels */
/* The first centroids of a restart, into fit->current. */
hf_status hf_fit_start(struct hf_fit *fit, int restart);
hf_status hf_restarts(struct hf_fit *fit, struct hf_restart *best);

/* ---- lloyd.c */
/* Iterate from the centroids in fit->current; run->iteration > 0: go on after hf_lloyd_rebuild().
 */
hf_status hf_lloyd(struct hf_fit *fit, struct hf_restart *run, const struct hf_restart *best);
/* Labels and sums as they were after iteration run->iteration, from fit->previous. */
hf_status hf_lloyd_rebuild(struct hf_fit *fit);
/* Arguments to assign rows [first, first + panel->rows) to fit->current. bounds are those of all
 * rows, or NULL; *own is where those of the panel go. */
struct hf_assign_args hf_lloyd_args(const struct hf_fit *fit, const hf_array *panel, int64_t first,
                                    const struct hf_assign_bounds *bounds,
                                    struct hf_assign_bounds *own, struct hf_assign_stats *stats);
/* Record which kernel row last served an op, unless one is recorded. */
void hf_note_kernel(const struct hf_fit *fit, int op, char name[64]);

/* ---- labels.c: on the host and on the device */
/* Take memory for them on the device, where it has any; else nothing is done. */
void hf_labels_open(struct hf_fit *fit);
/* Give it back: what was not brought to the host is lost. */
void hf_labels_close(struct hf_fit *fit);
/* All rows are in no cluster. */
hf_status hf_labels_clear(struct hf_fit *fit);
/* Where ops are to read and write them. */
hf_status hf_labels_for_ops(struct hf_fit *fit, int32_t **labels);
/* Ops have written them there. */
void hf_labels_by_ops(struct hf_fit *fit);
/* The host has written fit->labels, which were the last ones. */
void hf_labels_by_host(struct hf_fit *fit);
/* fit->labels are the last ones. now: without waiting for calls that were queued and do not write
 * labels. */
hf_status hf_labels_bring(struct hf_fit *fit, bool now);
/* Have memory for them on the host, if what is there counts no more. */
void hf_labels_touch(struct hf_fit *fit);
/* Are labels [first, first + count) of the host numbers of clusters? */
hf_status hf_labels_check(const struct hf_fit *fit, int64_t first, int64_t count);
/* The same of all, where they are: asked on the device between hf_ctx_begin_calls() and
 * hf_ctx_end_calls(), known after that; without the question the host looks. */
hf_status hf_labels_ask(struct hf_fit *fit);
hf_status hf_labels_answer(struct hf_fit *fit);

/* ---- centers.c: from sums to centroids */
/* A loop over clusters, on the threads of the CPU where they are worth it. */
void hf_for_clusters(const struct hf_fit *fit, int64_t count, hf_range_fn *fn, void *job);
/* A view of [k, d] centroids. */
hf_array hf_centers(const struct hf_fit *fit, void *centers);
/* What its centroids are, for ops/means.h. */
struct hf_center_rule hf_fit_rule(const struct hf_fit *fit);
/* Store v, rounded, as element i of the centroids dst. */
void hf_center_put(const struct hf_fit *fit, void *dst, int64_t i, double v);
/* fit->previous becomes the new centroids, then the two are swapped. Empty clusters stay. */
void hf_centers_update(struct hf_fit *fit);
void hf_centers_swap(struct hf_fit *fit);
/* Sum of the squared moves between fit->previous and fit->current. */
double hf_centers_shift(struct hf_fit *fit);
/* Inertia of the labels in the sums against fit->current. */
double hf_centers_inertia(struct hf_fit *fit);
/* All of these and the drifts of fit->skip in one pass over the sums, for an iteration that will
 * not look for rows to move: gives the inertia, and *shift. The new centroids wait in fit->previous
 * for hf_centers_swap(). */
double hf_centers_step(struct hf_fit *fit, double *shift);
/* Float64 centroids [k, d] rounded to their storage. dst may be src. */
void hf_centers_store(const struct hf_fit *fit, void *dst, const double *src, int64_t count);
/* Has a cluster no rows, or only such of weight 0? */
bool hf_cluster_is_empty(const struct hf_fit *fit, int64_t cluster);

/* ---- light.c: clusters that weigh so little that their sums do not tell their means */
/* The smallest weight given but 0. */
double hf_least_weight(const struct hf_fit *fit);
/* Can there be any? */
bool hf_light_possible(const struct hf_fit *fit);
/* Mark those whose sums say so; are there any? */
bool hf_light_look(struct hf_fit *fit);
/* Of those marked, find the heaviest rows, by labels on the host; one without is not light, but
 * empty. */
void hf_light_weigh(struct hf_fit *fit);
/* After hf_centers_update(), labels on the host: centroids of the clusters that are light now. */
hf_status hf_light_means(struct hf_fit *fit);

/* ---- empty.c */
/* Count the empty clusters and do what the options say, before the centroids are updated: relocate
 * changes labels and sums. */
hf_status hf_empty_clusters(struct hf_fit *fit, int iteration, int64_t *count);
/* HF_EMPTY_SPLIT: after the centroids are updated. */
hf_status hf_empty_split(struct hf_fit *fit);
/* Move rows of the problem, each at most once, into clusters: sums, labels, bounds. */
hf_status hf_move_rows(struct hf_fit *fit, const struct hf_moved_row *moves, int64_t count);

/* ---- finish.c */
/* Labels (unless fresh), sizes and exact inertia of fit->current; verify: also check that the sums
 * are those of the labels that came in. */
hf_status hf_finish(struct hf_fit *fit, bool fresh, bool verify, double *inertia);
/* Count the labels into fit->sizes; one that is no cluster's is HF_E_CORRUPT. */
hf_status hf_count_labels(struct hf_fit *fit);
/* What may be behind arithmetic that contradicts itself: the end of a message. */
const char *hf_suspects(const struct hf_fit *fit);
/* Says that sums from which all rows were taken are not 0; gives HF_E_CORRUPT. */
hf_status hf_sums_are_wrong(const struct hf_fit *fit);
/* Labels of the rows that take part -> labels of all rows, -1 for dropped ones. */
void hf_expand_labels(const struct hf_fit *fit);

#endif
