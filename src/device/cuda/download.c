/* SPDX-License-Identifier: Apache-2.0
 * Results to the host, on a stream of their own. The driver passes what goes to pageable memory
 * through locked memory with one thread, which makes 8 to 13 GB/s of a bus that has 50; so threads
 * of ours do it, each with two pieces of locked memory: while it empties one the other is filled.
 * A copy that is queued costs all threads about 10 us, so pieces are as large as they can be. */
#include "base/mem.h"
#include "base/parallel.h"
#include "device/cuda/own.h"

#include <stdatomic.h>
#include <string.h>

#define WORKERS 4
#define PIECE ((size_t)512 << 10) /* at most, */
#define LEAST ((size_t)64 << 10)  /* and at least */

struct hf_download {
    hf_pool *pool; /* NULL: the caller alone */
    int workers;
    cudaStream_t stream;
    char *locked; /* [workers, 2, PIECE] */
    cudaEvent_t filled[WORKERS][2];
};

struct job {
    struct hf_cuda *cuda;
    const struct hf_download *download;
    char *dst;
    const char *src;
    size_t bytes, piece;
    _Atomic int error; /* the first one's cudaError_t */
};

static char *place(const struct job *job, int worker, int side) {
    return job->download->locked + (size_t)(worker * 2 + side) * PIECE;
}

static size_t piece_at(const struct job *job, size_t at) {
    return job->bytes - at < job->piece ? job->bytes - at : job->piece;
}

static cudaError_t fill(const struct job *job, int worker, int side, size_t at) {
    const struct hf_download *b = job->download;
    const cudaError_t error = cudaMemcpyAsync(place(job, worker, side), job->src + at,
                                              piece_at(job, at), cudaMemcpyDeviceToHost, b->stream);
    return error != cudaSuccess ? error : cudaEventRecord(b->filled[worker][side], b->stream);
}

static cudaError_t carry(const struct job *job, int worker, int64_t begin, int64_t end) {
    cudaError_t error = fill(job, worker, 0, (size_t)begin * job->piece);
    for (int64_t i = begin; i < end && error == cudaSuccess; i++) {
        const int side = (int)((i - begin) % 2);
        const size_t at = (size_t)i * job->piece;
        if (i + 1 < end)
            error = fill(job, worker, 1 - side, at + job->piece);
        if (error == cudaSuccess)
            error = cudaEventSynchronize(job->download->filled[worker][side]);
        if (error == cudaSuccess)
            memcpy(job->dst + at, place(job, worker, side), piece_at(job, at));
    }
    return error;
}

/* Items are pieces. */
static void carry_range(void *user, int worker, int64_t begin, int64_t end) {
    struct job *job = user;
    const int before = hf_cuda_enter(job->cuda);
    const cudaError_t error = carry(job, worker, begin, end);
    int none = cudaSuccess;
    if (error != cudaSuccess)
        (void)atomic_compare_exchange_strong(&job->error, &none, (int)error);
    hf_cuda_leave(before);
}

static cudaError_t carry_all(struct hf_cuda *cuda, const struct hf_download *b, void *dst,
                             const void *src, size_t bytes) {
    struct job job = {.cuda = cuda, .download = b, .dst = dst, .src = src, .bytes = bytes};
    const size_t share = (bytes + (size_t)b->workers - 1) / (size_t)b->workers;
    job.piece = share < LEAST ? LEAST : share < PIECE ? (share + 4095) / 4096 * 4096 : PIECE;
    const int64_t pieces = (int64_t)((bytes + job.piece - 1) / job.piece);
    hf_parallel_for(b->pool, pieces, (pieces + b->workers - 1) / b->workers, carry_range, &job);
    return (cudaError_t)job.error;
}

void hf_cuda_download_close(struct hf_cuda_own *own, bool alive) {
    struct hf_download *b = own->download;
    if (b == NULL)
        return;
    hf_pool_destroy(b->pool);
    for (int i = 0; alive && i < WORKERS * 2; i++)
        if (b->filled[i / 2][i % 2] != NULL)
            (void)cudaEventDestroy(b->filled[i / 2][i % 2]);
    if (alive && b->stream != NULL)
        (void)cudaStreamDestroy(b->stream);
    if (alive)
        (void)cudaFreeHost(b->locked);
    hf_free(b);
    own->download = NULL;
}

static cudaError_t open_download(struct hf_download *b) {
    void *locked = NULL;
    cudaError_t error =
        cudaHostAlloc(&locked, (size_t)b->workers * 2 * PIECE, cudaHostAllocPortable);
    b->locked = locked;
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking);
    for (int i = 0; i < b->workers * 2 && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&b->filled[i / 2][i % 2], cudaEventDisableTiming);
    return error;
}

/* Made when first used. NULL: there is no memory for it. */
static const struct hf_download *download_of(struct hf_cuda_own *own) {
    if (own->download != NULL && own->download->workers <= own->threads)
        return own->download;
    hf_cuda_download_close(own, true); /* of an earlier context with more threads */
    struct hf_download *b = own->download = hf_alloc_zero(sizeof *b);
    if (b == NULL)
        return NULL;
    if (own->threads > 1)
        b->pool = hf_pool_create(own->threads < WORKERS ? own->threads : WORKERS);
    b->workers = hf_pool_workers(b->pool);
    if (open_download(b) == cudaSuccess)
        return b;
    (void)cudaGetLastError();
    hf_cuda_download_close(own, true);
    return NULL;
}

/* Host memory that the copy engine cannot write to? */
static bool is_pageable(const void *p) {
    struct cudaPointerAttributes attr;
    if (cudaPointerGetAttributes(&attr, p) == cudaSuccess)
        return attr.type == cudaMemoryTypeUnregistered;
    (void)cudaGetLastError();
    return true;
}

/* All of it on its way to the locked memory: one copy, for a second would cost more than it saves.
 */
static cudaError_t queue_fetch(const struct hf_download *b, struct hf_fetch *f) {
    const cudaError_t error =
        cudaMemcpyAsync(b->locked, f->src, f->bytes, cudaMemcpyDeviceToHost, b->stream);
    f->queued = error == cudaSuccess;
    return error != cudaSuccess ? error : cudaEventRecord(b->filled[0][0], b->stream);
}

hf_status hf_cuda_start_fetch(void *stream, void *dst, const void *src, size_t bytes) {
    struct hf_cuda_own *own = stream;
    own->fetch = (struct hf_fetch){.dst = dst, .src = src, .bytes = bytes};
    if (bytes < HF_DOWNLOAD_BYTES || !is_pageable(dst))
        return HF_OK;
    const int before = hf_cuda_enter(&own->cuda);
    const struct hf_download *b = download_of(own);
    cudaError_t error = cudaSuccess;
    if (b != NULL && bytes <= (size_t)b->workers * 2 * PIECE)
        error = queue_fetch(b, &own->fetch);
    hf_cuda_leave(before);
    return hf_cuda_check(&own->cuda, error, "copy");
}

/* Items are bytes. */
static void unpack_range(void *user, int worker, int64_t begin, int64_t end) {
    const struct hf_cuda_own *own = user;
    (void)worker;
    memcpy((char *)own->fetch.dst + begin, own->download->locked + begin, (size_t)(end - begin));
}

hf_status hf_cuda_end_fetch(void *stream) {
    struct hf_cuda_own *own = stream;
    const struct hf_fetch *f = &own->fetch;
    if (!f->queued)
        return hf_cuda_download(stream, f->dst, f->src, f->bytes);
    const int before = hf_cuda_enter(&own->cuda);
    const cudaError_t error = cudaEventSynchronize(own->download->filled[0][0]);
    hf_cuda_leave(before);
    if (error == cudaSuccess)
        hf_parallel_for(own->download->pool, (int64_t)f->bytes, (int64_t)LEAST, unpack_range, own);
    return hf_cuda_check(&own->cuda, error, "copy");
}

hf_status hf_cuda_download(void *stream, void *dst, const void *src, size_t bytes) {
    struct hf_cuda *cuda = stream;
    const int before = hf_cuda_enter(cuda);
    const struct hf_download *b = download_of(stream);
    cudaError_t error = cudaSuccess;
    if (b != NULL && bytes >= HF_DOWNLOAD_BYTES && is_pageable(dst)) {
        error = carry_all(cuda, b, dst, src, bytes);
    } else {
        cudaStream_t with = b != NULL ? b->stream : cuda->stream;
        const bool carried = b != NULL && bytes < HF_DOWNLOAD_BYTES;
        error = carried ? hf_cuda_carry(with, b->locked, src, bytes)
                        : cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, with);
        if (error == cudaSuccess)
            error = cudaStreamSynchronize(with);
        if (error == cudaSuccess && carried)
            memcpy(dst, b->locked, bytes);
    }
    hf_cuda_leave(before);
    return hf_cuda_check(cuda, error, "copy");
}
