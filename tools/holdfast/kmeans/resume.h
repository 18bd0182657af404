/* SPDX-License-Identifier: Apache-2.0
 * The checkpoint of a fit: where it goes, whether it was written, how to go on from it. */
#ifndef RESUME_H
#define RESUME_H

#include "kmeans/kmeans_options.h"
#include <sys/stat.h>

struct checkpoint {
    char *own;          /* DIR/checkpoint.hfc, to be freed; NULL when another file was named */
    struct stat before; /* of the file as the fit began; all 0 if there was none */
};

/* Is path something that --resume can read? Reported if not; an exit code. */
int resume_check(const char *path);

/* Set o->fit.checkpoint: as told, else in DIR, and there only on Ctrl-C unless --every asks for
 * more. See that it can be written where it was asked for; an exit code. */
int checkpoint_choose(struct checkpoint *c, struct kmeans_options *o, hf_context *ctx);

/* Did this run write it? Each one is a new file. */
bool checkpoint_written(const struct checkpoint *c, const struct kmeans_options *o);

/* The fit is over, so nobody needs DIR/checkpoint.hfc if it is this fit's: written by this run or
 * what it went on from. */
void checkpoint_drop(const struct checkpoint *c, const struct kmeans_options *o);

/* Print `what` and how to go on: the same command, where the last --resume counts. */
void resume_print(const char *checkpoint, const char *what, int argc, char **argv);

#endif
