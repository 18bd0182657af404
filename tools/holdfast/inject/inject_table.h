/* SPDX-License-Identifier: Apache-2.0
 * The faults of a campaign and what became of them: a text file with a line for each, to which
 * whole lines are appended, so that an interrupted campaign can go on. */
#ifndef INJECT_TABLE_H
#define INJECT_TABLE_H

#include "inject/inject_options.h"

struct inject_table {
    char *path;
    FILE *file;
    unsigned char *known;  /* a bit for each fault: it is in the file */
    int64_t faults, there; /* of the campaign; in the file */
};

/* A line of a file. Texts live in it. */
struct inject_row {
    char text[1024];
    const char *op, *place, *model, *line;
    int64_t number;
    int bit, off, guarded;
    int64_t altered, suspected, confirmed, repaired;
    int kind, unit, lane; /* that the guard told */
};

/* Open DIR/faults.tsv, or the shard's own file, for appending; lines that are there must be of the
 * same campaign, and --resume given. Reports failures; an exit code. */
int inject_table_open(struct inject_table *table, const struct inject_options *o);
void inject_table_close(struct inject_table *table);

/* Is fault `number` there? */
bool inject_table_knows(const struct inject_table *table, int64_t number);

/* Append a fault; an exit code. */
int inject_table_add(struct inject_table *table, const hf_dev_injection *one);

/* Calls `each` with the lines of all tables of the campaign in DIR; an exit code. */
typedef void inject_row_fn(void *user, const struct inject_row *row);
int inject_table_read(const struct inject_options *o, inject_row_fn *each, void *user);

#endif
