/* SPDX-License-Identifier: Apache-2.0
 * What a campaign shows: outcomes by place, by model and by bit, and coverage with its interval. */
#ifndef INJECT_REPORT_H
#define INJECT_REPORT_H

#include "inject/inject_table.h"

enum { INJECT_GROUPS = 256, INJECT_BITS = 64 };

/* Outcomes of some faults. */
struct inject_tally {
    int64_t off[HF_DEV_OUTCOMES], guarded[HF_DEV_OUTCOMES];
    int64_t faults, activated;
    int64_t told;          /* activated ones that protection told of */
    int64_t matter;        /* without protection: result wrong, or none */
    int64_t matter_silent; /* those of them whose result stays wrong with it, */
    int64_t matter_died;   /* and those that have none: error, hang, crash */
};

struct inject_group {
    char name[64]; /* "assign.score", "flip" */
    struct inject_tally all;
};

struct inject_report {
    const struct inject_options *options;
    bool guarded;
    struct inject_tally all;
    struct inject_group place[INJECT_GROUPS], model[INJECT_GROUPS];
    struct inject_tally bit[INJECT_GROUPS][INJECT_BITS]; /* of a place; models of single bits */
    int places, models;
    int64_t permanent, permanent_right; /* told ones, and whose verdict is permanent, worker 0; */
    int64_t laned, lane_right;          /* of these, with a lane; the lane that was struck */
};

/* Read the tables of the folder; an exit code. */
int inject_report_read(struct inject_report *r, const struct inject_options *o);

/* Write coverage.tsv, report.json and report.md there; an exit code. */
int inject_report_write(const struct inject_report *r);

/* The same as text, and as JSON. */
void inject_report_print(const struct inject_report *r, FILE *out);
json_t *inject_report_json(const struct inject_report *r);

#endif
