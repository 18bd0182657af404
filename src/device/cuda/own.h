/* SPDX-License-Identifier: Apache-2.0
 * What only the backend knows of a context's stream. */
#ifndef HF_CUDA_OWN_H
#define HF_CUDA_OWN_H

#include "device/cuda/cuda.h"

struct hf_cuda_own {
    struct hf_cuda cuda; /* first: the stream that kernels see */
    const char *lent;    /* host memory that kernels may read in place */
    size_t lent_bytes;
    cudaStream_t made; /* a stream of ours, or NULL */
    /* Small arguments pass through a slab: locked memory here, its twin there. */
    char *slab_host, *slab_device;
    size_t slab_used;
    struct hf_stage *joint; /* of calls that share what they stage, or NULL */
};

#define HF_CUDA_SLAB ((size_t)256 << 10) /* bytes */

/* Does the matrix at p lie in lent memory? */
bool hf_cuda_lent(const struct hf_cuda *cuda, const void *p);

/* Of the table in device.h: in stage.c; the kernel is in zero.cu. */
bool hf_cuda_begin_calls(void *stream);
hf_status hf_cuda_end_calls(void *stream, hf_status status);
hf_status hf_cuda_is_zero(void *stream, const void *p, size_t bytes, bool *zero);

/* What an error of the runtime means, and whether the process can go on using the GPU. */
hf_status hf_cuda_status(cudaError_t error);
/* What to do about it; "" where the runtime's words say it all. */
const char *hf_cuda_advice(cudaError_t error);

#endif
