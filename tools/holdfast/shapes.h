/* SPDX-License-Identifier: Apache-2.0
 * Which calls `bench` and `tune` measure: from options or from a suite file. */
#ifndef SHAPES_H
#define SHAPES_H

#include "tool.h"
#include <holdfast/dev.h>

#define SHAPES_MAX 256

struct shaped_call {
    char op[32];
    hf_dev_shape shape;
};

struct shapes {
    struct shaped_call call[SHAPES_MAX];
    int count;
    const char *op; /* of --op, NULL: "assign" with --shape, every op of a suite */
    hf_dtype dtype; /* of --dtype */
};

/* Value of --dtype. */
hf_dtype shapes_dtype(struct argp_state *state, const char *text);

/* "N,K,D" as a call of `op`; a malformed one is a usage error. */
void shapes_add(struct shapes *shapes, struct argp_state *state, const char *op, const char *text);

/* The lines `op dtype N K D` of a file; # begins a comment. With --op only those of that op. An
 * exit code; messages name file and line. */
int shapes_read(struct shapes *shapes, const char *path);

/* The shapes that the kernels are judged by, when neither --shape nor --suite was given. */
void shapes_default(struct shapes *shapes, struct argp_state *state);

/* A name of an op, or a usage error that lists them. */
void shapes_check_op(struct argp_state *state, const char *name);

#endif
