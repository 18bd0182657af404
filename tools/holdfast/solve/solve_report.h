/* SPDX-License-Identifier: Apache-2.0
 * What `holdfast solve` did: the report for programs, the summary for people. */
#ifndef SOLVE_REPORT_H
#define SOLVE_REPORT_H

#include "solve/solve_options.h"

struct solve_report {
    const struct solve_options *options;
    hf_context *ctx;
    const hf_csr *matrix;
    const hf_sparse_info *about;
    const hf_relax_result *result;
    double seconds_load, seconds_write; /* write: all files but the report itself */
    double started;                     /* tool_now() */
    json_t *files;                      /* what was written beside the report; NULL: nothing */
};

/* NULL when memory is out. Takes r->files. */
json_t *solve_report_json(struct solve_report *r);

void solve_report_summary(const struct solve_report *r, FILE *out);

/* "tol", "stall", ... */
const char *solve_stop_name(hf_relax_stop stop);

#endif
