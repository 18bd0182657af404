/* SPDX-License-Identifier: Apache-2.0
 * Test cases and benchmark problems of an op; part of libholdfast_dev, not of libholdfast. The file
 * ops/<op>/<op>_case.c defines `const struct hf_op_cases hf_<op>_cases`. */
#ifndef HF_CASE_H
#define HF_CASE_H

#include "base/rng.h"
#include "core/op.h"

#define HF_CASE_BUFS 32

#define HF_CASE_DATA 4

/* Arguments whose arrays lie in buffers with canaries around them. */
struct hf_case {
    char name[96]; /* "ties n=37 k=5 d=3 f32" */
    void *args;    /* hf_op::args_size bytes, zeroed; the buffers below are what it points to */
    struct hf_case_buf {
        char *ptr;
        size_t bytes;
        bool out;       /* written by the kernel: compared with the reference */
        bool state;     /* the kernel's own from one run to the next: hf_case_alloc_state() */
        char *block;    /* what was allocated, canaries included */
        char *saved;    /* content as the case maker left it */
        char *device;   /* where hf_case_move() put it, or NULL */
        hf_dtype dtype; /* of the elements that hf_op::bound() bounds; HF_DTYPE_NONE: it does not */
        int output;     /* its number for that */
    } buf[HF_CASE_BUFS];
    int bufs;
    bool failed;   /* out of memory, or of buf[] */
    hf_status ran; /* what the last run of a kernel returned */
};

/* `bytes` zeroed bytes for a case, aligned to HF_ALIGN. `out`: the kernel writes there; what the
 * case maker leaves in it is put back before each run. Everything else must be the same after a run
 * as before. NULL when out of memory. (harness/case.c) */
void *hf_case_alloc(struct hf_case *c, size_t bytes, bool out);

/* hf_case_alloc() for `count` float elements of output number `output` of hf_op::bound(). */
void *hf_case_alloc_output(struct hf_case *c, hf_dtype dtype, int64_t count, int output);

/* The same for what a row finds again as its last run left it: checks run it on what the case maker
 * left there, then on what that run left. Never compared. */
void *hf_case_alloc_state(struct hf_case *c, size_t bytes);

/* A benchmark problem to be made. */
struct hf_bench {
    struct hf_key key; /* the kind of call */
    int data;          /* index of hf_op_cases::data */
    bool plan_only;    /* for a plan, never to be run: only the numbers in the arguments are looked
                          at, so that arrays may be shorter than these say */
};

struct hf_op_cases {
    /* Case `id` = 0, 1, 2, ...; false when there are no more. Args and buffers are filled. Cases
     * must be random, structured, degenerate (k=1, d=1, n=1, n below a tile), unaligned, strided,
     * with ties, huge offsets, huge and tiny exponents, and cover every dtype. */
    bool (*make_case)(struct hf_rng *rng, int64_t id, struct hf_case *c);
    /* Is `got` (the out buffers in order of allocation) right, given what the reference wrote in
     * `ref`? Writes the first difference to why. NULL: every byte must be equal, but elements of
     * hf_case_alloc_output(), where kernels need not agree (hf_op::unanimous), may differ by twice
     * their bound. */
    bool (*compare)(const void *args, void *const *ref, void *const *got, char *why,
                    size_t why_bytes);
    /* Arguments for bench, plan and tune whose key is bench->key; false when there are none of that
     * kind. The op owns how its data are distributed. NULL: it is not timed by itself. */
    bool (*make_bench)(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c);
    const char *data[HF_CASE_DATA]; /* names of the distributions, the usual first; NULL after the
                                       last */
    struct hf_key example;          /* a call that make_bench makes and that is typical */
};

#endif
