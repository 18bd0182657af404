/* SPDX-License-Identifier: Apache-2.0
 * The parts of holdfast replay: the command line that makes a report again, and the comparison of
 * the two reports. */
#ifndef REPLAY_H
#define REPLAY_H

#include "tool.h"

#define REPLAY_CORES 1024
#define REPLAY_WORDS 64

struct replay {
    const char *report, *data; /* data: in place of the report's; NULL */
    const char *device;        /* NULL: the CPU */
    int core[REPLAY_CORES], cores, threads;
    bool json;
    char folder[4096]; /* of the second run; "": none yet */
};

/* A command line that owns its numbers; NULL-ended. */
struct replay_words {
    char *word[REPLAY_WORDS];
    char number[REPLAY_WORDS][64];
    int count;
};

/* Which verb wrote the report. */
bool replay_is_product(const json_t *report);

/* The command of a report, with an output in r->folder for kmeans, on standard output for gemm. */
void replay_command(const struct replay *r, const json_t *report, struct replay_words *w);

/* Print what differs first; an exit code. */
int replay_compare(const struct replay *r, const json_t *first, const json_t *second);

#endif
