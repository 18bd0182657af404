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

/* What the planner and the tuning file know of a call. k is 1 where an op has no centroids. */
struct hf_key {
    hf_dtype dtype;
    int64_t n, k, d;
};

struct hf_op {
    const char *name;
    size_t args_size;
    void (*key)(const void *args, struct hf_key *key);
    /* Floating-point operations and bytes that a perfect implementation needs. */
    void (*cost)(const void *args, double *flops, double *bytes);
    /* Do all kernels give this call the same answer, bit for bit? NULL: always. */
    bool (*unanimous)(const void *args);
};

/* The op with this id; its id from its name, or -1. */
const struct hf_op *hf_op_at(int id);
int hf_op_find(const char *name);

#endif
