/* SPDX-License-Identifier: Apache-2.0
 * How data are prepared: the options that choose columns, name missing values and scale; opening a
 * file with them; writing them into a report and taking them from one. A verb
 *   - has a struct preparation, zeroed, in what its options fill,
 *   - names preparation_argp in the `children` of its argp, {&preparation_argp, 0, NULL, 0}, and at
 *     ARGP_KEY_INIT sets state->child_inputs[0] to that struct,
 *   - with a result folder calls preparation_read() after the options were parsed, and takes its
 *     centroids from the file that preparation_centroids() names,
 *   - opens its data with preparation_open() in place of tool_open(), and
 *   - ends with preparation_clear() after the data were closed. */
#ifndef PREPARATION_H
#define PREPARATION_H

#include "tool.h"

/* Centroids in the units of the scaled rows, in a result folder of scaled data. Those of
 * centroids.npy, in the units of the data, are rounded: only these give the labels of the fit. */
#define PREPARATION_CENTROIDS "centroids-scaled.npy"

struct preparation {
    hf_open_opts
        opts; /* header, columns, skip_columns, missing, scale, scaling; strings borrowed */
    bool header_given;   /* on the command line */
    hf_scaling scaling;  /* taken from a report; opts.scaling points here then */
    double *parameters;  /* [2, scaling.cols] of it */
    json_t *report;      /* that strings and names are borrowed from */
    const json_t *names; /* those of the columns that a fit used, where nobody chose others */
};

/* --columns, --skip-columns, --missing, --header. */
extern const struct argp preparation_argp;

/* Names in the order of hf_scale, NULL-ended: for --scale, which only a fit has. */
extern const char *const preparation_scale_names[];

/* Open a data file and prepare its rows, which may take `memory` bytes (0: the default). Columns
 * with other names than those of the fit are an error. Warnings and failures are reported; an exit
 * code. */
int preparation_open(const struct preparation *p, hf_context *ctx, uint64_t memory,
                     const char *path, hf_dataset **data);

/* What was done, as the member "preparation" of a report. */
json_t *preparation_json(const struct preparation *p, const hf_dataset *data);

/* Take from the report of a fit, read from the file `path`, what the command line did not set:
 * header, columns, skip_columns, missing; and its scaling. A report without preparation (of an
 * older version) changes nothing. Keeps a reference to the report. Failures are reported; an exit
 * code. */
int preparation_read(struct preparation *p, json_t *report, const char *path);

/* Which file of the result folder holds the centroids to compare prepared rows with. */
const char *preparation_centroids(const struct preparation *p);

void preparation_clear(struct preparation *p);

#endif
