/* SPDX-License-Identifier: Apache-2.0
 * An op is something that can be computed. Its arguments and its typed wrapper stand in
 * ops/<op>/<op>.h, the description in ops/<op>/<op>_op.c, the reference in ops/<op>/<op>_ref.c. */
#ifndef HF_OP_H
#define HF_OP_H

#include "base/status.h"
#include <holdfast/array.h>
#include <stdbool.h>

/* Op ids in the order of ops/ops.def: HF_OP_ASSIGN, ... */
enum hf_op_id {
#define OP(NAME, name) HF_OP_##NAME,
#include "ops/ops.def"
#undef OP
    HF_OP_COUNT
};

/* The most of each that an op can name; dev.h has the same numbers. */
#define HF_KEY_TYPES 3
#define HF_KEY_DIMS 4
#define HF_KEY_FLAGS 4

/* What kind of call it is: all that the planner and a tuning file know of it. The op gives the
 * names; what it does not name is 0. */
struct hf_key {
    hf_dtype dtype[HF_KEY_TYPES]; /* the first is that of the data: hf_kernel::dtypes */
    int64_t dim[HF_KEY_DIMS];
    uint32_t flags; /* bit i: the i-th flag is set */
};

struct hf_op {
    const char *name;
    size_t args_size;
    /* Names of the key's types ("x"), dimensions ("n", "k", "d") and flags; a name has at most 15
     * letters, digits or _. NULL after the last. */
    const char *type[HF_KEY_TYPES];
    const char *dim[HF_KEY_DIMS];
    const char *flag[HF_KEY_FLAGS];
    void (*key)(const void *args, struct hf_key *key); /* key comes zeroed */
    /* Floating-point operations and bytes that a perfect implementation needs. */
    void (*cost)(const void *args, double *flops, double *bytes);
    /* Do all kernels give this call the same answer, bit for bit? NULL: always. */
    bool (*unanimous)(const void *args);
    /* How far element i of output number `out` may lie from its value in exact arithmetic,
     * whichever kernel computed it: derived from the arguments, for checks of float results.
     * INFINITY: nothing is promised, as after an overflow. The op's header numbers the outputs and
     * says how i counts; an output that it does not number has no error. NULL: none has. */
    double (*bound)(const void *args, int out, int64_t i);
};

/* The op with this id; its id from its name, or -1. */
const struct hf_op *hf_op_at(int id);
int hf_op_find(const char *name);

/* The key of a call. */
static inline struct hf_key hf_op_key(const struct hf_op *op, const void *args) {
    struct hf_key key = {{HF_DTYPE_NONE}, {0}, 0};
    op->key(args, &key);
    return key;
}

#endif
