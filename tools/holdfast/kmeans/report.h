/* SPDX-License-Identifier: Apache-2.0
 * What a fit did: report.json for programs, the summary for people. */
#ifndef REPORT_H
#define REPORT_H

#include "kmeans/digests.h"
#include "kmeans/kmeans_options.h"

struct report {
    const struct kmeans_options *options;
    hf_context *ctx;
    const hf_dataset *data;
    hf_dtype dtype;
    bool streamed; /* read in chunks */
    const hf_kmeans_result *fit;
    const struct digests *digests;
    double seconds_load, seconds_write; /* write: all files but report.json itself */
    double started;                     /* tool_now() */
    bool checkpointed;                  /* a checkpoint was left for --resume */
    json_t *files;                      /* what was written beside the report; NULL: nothing */
};

/* NULL when memory is out. Takes r->files. */
json_t *report_json(struct report *r);

void report_summary(const struct report *r, FILE *out);

#endif
