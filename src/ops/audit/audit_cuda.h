/* SPDX-License-Identifier: Apache-2.0
 * audit on NVIDIA GPUs, as its own row and op lloyd see it. All pointers are device memory;
 * everything runs in the order of cuda->stream, nothing waits or allocates. */
#ifndef HF_AUDIT_CUDA_H
#define HF_AUDIT_CUDA_H

#include "device/cuda/cuda.h"
#include "ops/audit/audit.h"

/* A row that left a cluster. */
struct hf_audit_move {
    int32_t row, from;
};

struct hf_audit_job {
    const int32_t *labels;    /* [n] */
    int32_t *booked;          /* [n] */
    const uint64_t *hash;     /* [n] */
    uint64_t *word;           /* [k] */
    int64_t *rows;            /* [k] */
    const char *x, *c;        /* x NULL: moves are not looked at */
    int64_t x_bytes, c_bytes; /* from row to row */
    hf_dtype dtype;           /* of x; c is F64 if x is, else F32 */
    hf_metric metric;
    int64_t n, k, d;
    struct hf_audit_found *found; /* added to, from 0 and -1 on */
    struct hf_audit_move *list;   /* [n]; NULL with x */
    int32_t *listed;              /* [1] their number: 0 before */
    const int32_t *stop;          /* NULL, or: nothing is done if *stop != 0 by then */
};

/* Rows whose label differs from the book move in it. */
hf_status hf_audit_book(struct hf_cuda *cuda, const struct hf_audit_job *job);

/* The signature of `bytes` bytes, a multiple of 4, times 1 or -1 is added to *sign, memory of the
 * device. */
hf_status hf_audit_sign(struct hf_cuda *cuda, const void *data, size_t bytes, int64_t times,
                        uint64_t *sign);

/* Whether the rows of the list may have moved. */
hf_status hf_audit_moves(struct hf_cuda *cuda, const struct hf_audit_job *job);

#endif
