/* SPDX-License-Identifier: Apache-2.0
 * What `holdfast inject kmeans` was asked to do. */
#ifndef INJECT_OPTIONS_H
#define INJECT_OPTIONS_H

#include "tool.h"
#include <holdfast/dev_faults.h>

struct inject_options {
    const char *data;      /* a file; NULL: generated */
    const char *synthetic; /* kind of generated rows */
    hf_dtype dtype;
    int64_t rows, columns;
    const char *out_dir;
    const char *line;   /* one fault, in place of a campaign */
    const char *kernel; /* that the fit uses for its op; NULL: the planned one */
    bool list, resume, quiet, json;
    int64_t repeat;           /* fits without faults; 0: a campaign */
    double rate;              /* faults a second; 0: a campaign */
    hf_dev_campaign campaign; /* but for rows and callbacks */
    hf_kmeans_opts fit;
};

/* Fill all fields with what was given or the defaults; ends the program on a usage error. */
void inject_options_parse(struct inject_options *o, int argc, char **argv);

/* All that decides which faults a campaign plants and what they meet, in one line. */
const char *inject_options_text(const struct inject_options *o);

#endif
