/* SPDX-License-Identifier: Apache-2.0
 * What the verbs that apply centroids to data share: options, opening the files, progress, and the
 * common part of what they report. A verb has a struct apply, zeroed, in what its options fill,
 * names apply_argp (and apply_labels_argp, if it finds labels) in the `children` of its argp, and
 * hands the struct to them at ARGP_KEY_INIT. */
#ifndef APPLY_H
#define APPLY_H

#include "kmeans/model.h"
#include "kmeans/preparation.h"
#include "progress.h"
#include "tool.h"

struct apply {
    /* options */
    const char *data_file, *centroids_file, *from, *weights_file;
    bool metric_given, nan_given, quiet, json;
    hf_metric metric;
    hf_nan nan;
    hf_precision precision;
    hf_guard guard;
    hf_context_opts context;
    struct preparation preparation;
    /* open */
    struct model model;
    hf_context *ctx;
    hf_dataset *data, *centroids, *weights;
    int64_t rows, cols, k;
    hf_dtype dtype;
    struct progress progress;
    hf_guard_counts faults;
    char scheme[16];                /* in force, */
    uint32_t checks;                /* and the checks that were made */
    double begun, loaded, computed; /* tool_now() at these moments */
    /* predicted */
    int32_t *labels; /* [rows] */
    int64_t *sizes;  /* [k] */
    int64_t dropped;
    double inertia, weight;
};

/* A file that the verb writes: how the user named it, and where; NULL: not wanted. */
struct apply_output {
    const char *option, *path;
};

/* --centroids, --from, --metric, --nan, --json, --quiet, how to compute, how to prepare, DATA. */
extern const struct argp apply_argp;
/* --weights, --precision. */
extern const struct argp apply_labels_argp;

/* Open everything, and see that all outputs can be written and overwrite nothing that is read. The
 * progress bar says `what` is done. Failures are reported; an exit code. */
int apply_open(struct apply *a, const struct apply_output *outputs, int count, const char *what);

/* As the C interface wants them, with progress that a signal stops; user is what comes back. */
hf_predict_opts apply_options(struct apply *a);

/* hf_kmeans_predict_with() of the outputs that `a` has, the labels and sizes among them, and
 * distances unless that is NULL; failures are reported, an exit code. */
int apply_predict(struct apply *a, double *distances);

/* Report the failure of a call on the data. */
int apply_failed(const struct apply *a, hf_status status);

/* Print the members that all verbs have, and `more` of this one, whose reference is dropped (NULL:
 * out of memory); an exit code. */
int apply_print_json(const struct apply *a, const char *command, json_t *more);

/* The first lines of a summary: the data, the centroids. */
void apply_summary(const struct apply *a, int64_t dropped, FILE *out);

void apply_close(struct apply *a);

#endif
