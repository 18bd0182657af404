/* SPDX-License-Identifier: Apache-2.0
 * lanes: chains of arithmetic that never leave their lane of a vector unit, so that a wrong value
 * names the lane that made it. Each chain is chaotic or one to one: a value that is wrong once
 * stays wrong to the end. */
#ifndef HF_LANES_H
#define HF_LANES_H

#include "core/kernel.h"
#include "core/op.h"
#include "device/host/isa.h"

/* A step of each chain; every operation rounds once. */
#define HF_LANES_MAP (-1.9375) /* v = 1 + (MAP v) v: from [-1, 1] to itself */
#define HF_LANES_TIMES 0x9e3779b1U
#define HF_LANES_PLUS 0x85ebca6bU

/* Lanes of 32 bits: of a warp's four neighbours that share a multiprocessor, of a vector. */
#define HF_LANES_CUDA 128

struct hf_lanes_args {
    int64_t n;            /* of each array */
    int64_t steps;        /* of each chain */
    const float *single;  /* [n] in [-1, 1] */
    const double *wide;   /* [n] in [-1, 1] */
    const uint32_t *word; /* [n] */
    float *single_end; /* [n] out, likewise below: element i was made by lane i modulo the width */
    double *wide_end;  /* of two neighbouring lanes, element i modulo half the width */
    uint32_t *word_end;
    int32_t
        *unit; /* [n / HF_LANES_CUDA, rounded up] out: the multiprocessor of a GPU that had these
                      elements; NULL: not wanted */
};

/* The number of lanes of 32 bits of the unit that a kernel of this op uses. */
static inline int hf_lanes_width(const struct hf_kernel *kernel) {
    if (kernel->device == HF_DEV_CUDA)
        return HF_LANES_CUDA;
    return kernel->isa == HF_ISA_ID_avx512 ? 16 : kernel->isa == HF_ISA_ID_avx2 ? 8 : 1;
}

#endif
