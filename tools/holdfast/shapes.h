/* SPDX-License-Identifier: Apache-2.0
 * Which calls `bench` and `tune` measure, and how: from options or from a suite file. */
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
    const char *op;                /* of --op, NULL: "assign" with --shape, every op of a suite */
    hf_dtype dtype;                /* of --dtype, F32 if it was not given */
    const char *texts[SHAPES_MAX]; /* of --shape, parsed when --op and --dtype are known */
    int text_count;
    const char *suite; /* of --suite */
    hf_context_opts context;
    hf_dev_time_opts time;
};

/* --op, --shape, --suite, --dtype, --threads, --rounds, --budget and --device as a child of a
 * verb's parser; its input is a struct shapes. */
extern const struct argp shapes_argp;

/* Value of --dtype. */
hf_dtype shapes_dtype(struct argp_state *state, const char *text);

/* "N,K,D" as a call of `op`; a malformed one is a usage error. */
void shapes_add(struct shapes *shapes, struct argp_state *state, const char *op, const char *text);

/* Add the lines `op dtype N K D` of --suite, if that was given; # begins a comment. With --op only
 * those of that op. An exit code; messages name file and line. */
int shapes_read(struct shapes *shapes);

/* A name of an op, or a usage error that lists them. */
void shapes_check_op(struct argp_state *state, const char *name);

#endif
