/* SPDX-License-Identifier: Apache-2.0
 * What `holdfast kmeans` was asked to do. */
#ifndef KMEANS_OPTIONS_H
#define KMEANS_OPTIONS_H

#include "kmeans/labels_format.h"
#include "kmeans/preparation.h"
#include "tool.h"

/* Whether the report has a digest of each iteration: where that costs little, ... */
enum kmeans_chain { CHAIN_AUTO, CHAIN_OFF, CHAIN_ON };

struct kmeans_options {
    const char *data;
    const char *out_dir;
    const char *init_file; /* NULL unless fit.init is HF_INIT_GIVEN */
    const char *weights_file;
    const char *checkpoint;                /* as given; fit.checkpoint is what is used */
    int64_t picture_height, picture_width; /* 0: no picture */
    bool quiet, json;
    enum kmeans_chain chain;
    struct preparation preparation;
    bool format_given;
    enum labels_format labels_format;
    hf_context_opts context;
    hf_kmeans_opts fit; /* k is 0 when it is to be taken from init_file */
};

/* Fill all fields with what was given or the defaults; ends the program on a usage error. */
void kmeans_options_parse(struct kmeans_options *o, int argc, char **argv);

/* Names in the order of the enums, NULL-ended. */
extern const char *const kmeans_metric_names[];
extern const char *const kmeans_init_names[];
extern const char *const kmeans_empty_names[];
extern const char *const kmeans_precision_names[];
extern const char *const kmeans_centroids_names[];
extern const char *const kmeans_skipping_names[];
extern const char *const kmeans_nan_names[];
extern const char *const kmeans_guard_names[];

#define KMEANS_GUARD_HELP                                                                          \
    "Wrong arithmetic: correct (default: it is repaired), sampled (likewise; of the scores a "     \
    "share is checked), detect (the command stops), weighted (of FT K-Means, to compare) or off"

/* The value of --guard. */
hf_guard kmeans_guard(struct argp_state *state, const char *text);

#endif
