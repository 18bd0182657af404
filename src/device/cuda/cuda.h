/* SPDX-License-Identifier: Apache-2.0
 * The stream of a CUDA context: what kernel->run() gets as `void *stream`. */
#ifndef HF_CUDA_H
#define HF_CUDA_H

#include "device/device.h"
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hf_cuda {
    cudaStream_t stream;
    bool owned;                 /* the stream is ours, not the caller's */
    cudaMemPool_t pool;         /* stream-ordered memory that stays with the context */
    int device;                 /* CUDA's number */
    int sm;                     /* compute capability: 90 for 9.0 */
    int sms;                    /* multiprocessors */
    int smem;                   /* most dynamic shared memory of a block, bytes */
    int64_t l2;                 /* bytes of second-level cache */
    uint64_t memory;            /* bytes of device memory */
    cudaEvent_t mark[HF_MARKS]; /* made when first used */
    char name[64];
    char error[256]; /* what the last failure said */
};

/* Ours to theirs: HF_OK, HF_E_NOMEM, HF_E_UNSUPPORTED or HF_E_DEVICE; the words go to cuda->error.
 * what: "copy", the kernel's name, ... */
hf_status hf_cuda_check(struct hf_cuda *cuda, cudaError_t error, const char *what);

/* After a launch: did it start? */
hf_status hf_cuda_launched(struct hf_cuda *cuda, const char *kernel);

/* Make the context's device the current one; returns the caller's, for hf_cuda_leave(). */
int hf_cuda_enter(const struct hf_cuda *cuda);
void hf_cuda_leave(int before);

/* Device memory from the context's pool, in stream order; NULL when there is none. */
void *hf_cuda_alloc(struct hf_cuda *cuda, size_t bytes);
void hf_cuda_release(struct hf_cuda *cuda, void *p);

/* Is p memory that kernels may use and the host must not read? */
bool hf_cuda_owns(const void *p);

/* Compute capability of device `index` (CUDA's number): 90 for 9.0; 0 when there is no such one. */
int hf_cuda_sm(int index);

#ifdef __cplusplus
}
#endif
#endif
