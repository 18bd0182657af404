/* SPDX-License-Identifier: Apache-2.0
 * What `holdfast solve` was asked to do. */
#ifndef SOLVE_OPTIONS_H
#define SOLVE_OPTIONS_H

#include "tool.h"

struct solve_options {
    const char *matrix;
    const char *b_file;                              /* NULL: all ones */
    const char *x0_file;                             /* NULL: zeros */
    const char *x_file, *report_file, *picture_file; /* outputs; NULL: none */
    bool quiet, json;
    hf_context_opts context;
    hf_relax_opts relax;
};

/* Fill all fields with what was given or the defaults; ends the program on a usage error. */
void solve_options_parse(struct solve_options *o, int argc, char **argv);

/* Names in the order of the enums, NULL-ended. */
extern const char *const solve_method_names[];
extern const char *const solve_precond_names[];
extern const char *const solve_partition_names[];
extern const char *const solve_timing_names[];
extern const char *const solve_coarse_names[];

#endif
