/* SPDX-License-Identifier: Apache-2.0
 * Centroids that a fit left behind, and the report that tells of them. */
#ifndef MODEL_H
#define MODEL_H

#include "tool.h"

struct model {
    char *folder;    /* of the fit, as it was given or found */
    char *report;    /* its report.json; NULL when there is none */
    char *centroids; /* the file with the centroids */
    json_t *root;    /* what is in the report */
};

/* Read the report of a result folder; an exit code. */
int model_read(struct model *m, const char *folder);

/* Take the centroids from the file `name` of that folder, which must be the one that the report
 * was written with. */
int model_take(struct model *m, const char *name);

/* Take the centroids from a file. If a report.json beside it was written with that very file, it
 * is read too; else it is as if there were none. */
int model_find(struct model *m, const char *centroids);

/* The place of options.`member` in a list of names; -1: there is no report, or it does not say. */
int model_choice(const struct model *m, const char *member, const char *const *names);

/* Did the fit scale its columns? */
bool model_is_scaled(const struct model *m);

void model_clear(struct model *m);

#endif
