/* SPDX-License-Identifier: Apache-2.0
 * Which calls `bench`, `plan` and `tune` are about, in the words of their op: from options or from
 * a suite file. */
#ifndef SHAPES_H
#define SHAPES_H

#include "tool.h"
#include <holdfast/dev.h>

#define SHAPES_MAX 256

#define SHAPES_DTYPE_HELP "Types in the op's order: f32 (default), f64, f16, bf16 or u8"
#define SHAPES_FLAGS_HELP                                                                          \
    "Flags of the call, separated by commas; the error for a wrong one lists them"

struct shaped_call {
    hf_dev_op op;
    hf_dev_shape shape;
};

struct shapes {
    struct shaped_call call[SHAPES_MAX];
    int count;
    const char *op;                /* of --op, NULL: "assign" with --shape, every op of a suite */
    const char *dtype;             /* of --dtype, NULL: those of the op's example */
    const char *flags;             /* of --flags, NULL: none is set */
    const char *texts[SHAPES_MAX]; /* of --shape, parsed when the others are known */
    int text_count;
    const char *suite; /* of --suite */
    hf_context_opts context;
    hf_dev_time_opts time;
};

/* --op, --shape, --suite, --dtype, --flags, --threads, --rounds, --budget and --device as a child
 * of a verb's parser; its input is a struct shapes. */
extern const struct argp shapes_argp;

/* Add a call of `op` whose dimensions are `text`: numbers in the op's order or name=number,
 * separated by commas; types and flags as shapes->dtype and flags say. What the op does not know is
 * a usage error that says what it does. */
void shapes_add(struct shapes *shapes, struct argp_state *state, const char *op, const char *text);

/* Add the lines `op types dimensions... [flags]` of --suite, if that was given; # begins a comment.
 * With --op only those of that op. An exit code; messages name file and line. */
int shapes_read(struct shapes *shapes);

/* "f32", and "n=200000 k=256 d=64" with the flags behind, until the next call. */
const char *shapes_types_text(const hf_dev_op *op, const hf_dev_shape *shape);
const char *shapes_text(const hf_dev_op *op, const hf_dev_shape *shape);

/* {"n": 200000, "k": 256, "d": 64} */
json_t *shapes_json(const hf_dev_op *op, const hf_dev_shape *shape);

#endif
