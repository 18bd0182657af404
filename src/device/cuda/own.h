/* SPDX-License-Identifier: Apache-2.0
 * What only the backend knows of a context's stream. */
#ifndef HF_CUDA_OWN_H
#define HF_CUDA_OWN_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HF_CUDA_ROOMY 61

struct hf_cuda_own {
    struct hf_cuda cuda; /* first: the stream that kernels see */
    cudaStream_t made;   /* a stream of ours, or NULL */
    /* Small arguments pass through a slab: locked host memory and as much of the device's. */
    char *slab_host, *slab_device;
    size_t slab_used;
    bool seen;                    /* nothing is under way: see hf_cuda_seen() */
    uint32_t *found;              /* locked memory behind the slab, for inspect.cu, */
    uint32_t *told;               /* and of the guard slot, */
    struct hf_slot *slot;         /* which lies behind the slab's twin */
    int threads;                  /* of the host that the context may use */
    struct hf_download *download; /* of download.c; NULL: not used yet */
    struct hf_fetch {
        void *dst;
        const void *src;
        size_t bytes;
        bool queued;        /* into the locked memory */
    } fetch;                /* that was started */
    struct hf_stage *joint; /* of calls that share what they stage, or NULL */
    uint64_t reached;       /* bit i: memory of device i may be used, see hf_cuda_reach() */
    const void *roomy[HF_CUDA_ROOMY]; /* kernels, each at a place of its address; see room.c */
};

#define HF_CUDA_SLAB ((size_t)256 << 10) /* bytes */

/* A piece of the slab on the host, its twin lies as far from slab_device; NULL: it is too small.
 * The taker puts slab_used back. */
char *hf_cuda_take_slab(struct hf_cuda_own *own, size_t bytes);

/* Is p memory of CUDA's device `device` that the host cannot read? Of any device? */
bool hf_cuda_is_on(int device, const void *p);
bool hf_cuda_is_device(const void *p);

/* May kernels of this stream use p: memory of its device, or of one that it reaches? */
bool hf_cuda_sees(const struct hf_cuda_own *own, const void *p);

/* Queue a copy between the device's memory and locked memory, for sizes up to that of the slab. */
cudaError_t hf_cuda_carry(cudaStream_t with, void *dst, const void *src, size_t bytes);

/* A copy from the device to the host, beside what the stream does; done on return. What pageable
 * memory gets passes in pieces through locked memory, and several threads carry it on. */
hf_status hf_cuda_download(void *stream, void *dst, const void *src, size_t bytes);
/* The same in two parts: what fits into the locked memory is on its way when the first returns. */
hf_status hf_cuda_start_fetch(void *stream, void *dst, const void *src, size_t bytes);
hf_status hf_cuda_end_fetch(void *stream);
/* alive: what it has of the device still exists. */
void hf_cuda_download_close(struct hf_cuda_own *own, bool alive);

#define HF_DOWNLOAD_BYTES ((size_t)256 << 10) /* less is copied by the driver */

/* Of the table in device.h: in peers.c, stage.c and inspect.cu. */
bool hf_cuda_reach(void *stream, void *other);
hf_status hf_cuda_follow(void *stream, void *other, int which);
hf_status hf_cuda_lock(void *stream, void *p, size_t bytes);
void hf_cuda_unlock(void *stream, void *p);
bool hf_cuda_begin_calls(void *stream);
hf_status hf_cuda_end_calls(void *stream, hf_status status);
hf_status hf_cuda_is_zero(void *stream, const void *p, size_t bytes, bool *zero);
hf_status hf_cuda_start_below(void *stream, const int32_t *p, size_t count, int32_t limit);
bool hf_cuda_end_below(void *stream);

/* What an error of the runtime means, and whether the process can go on using the GPU. */
hf_status hf_cuda_status(cudaError_t error);
/* What to do about it; "" where the runtime's words say it all. */
const char *hf_cuda_advice(cudaError_t error);

#ifdef __cplusplus
}
#endif
#endif
