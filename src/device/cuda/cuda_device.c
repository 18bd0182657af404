/* SPDX-License-Identifier: Apache-2.0
 * NVIDIA GPUs through the CUDA runtime, which is linked in statically: a machine without a driver
 * runs the rest of the library and is told what is missing. */
#include "base/mem.h"
#include "device/cuda/own.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define OLDEST_SM 80
#define IDLE_DEVICES 64                 /* devices of a machine that keep what was closed */
#define IDLE_BYTES ((uint64_t)64 << 20) /* of device memory that stays with it */

extern const struct hf_device hf_cuda_device;

static int cuda_count(void) {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess)
        return count;
    (void)cudaGetLastError();
    return 0;
}

/* Why there is no device, in words that say what to do. */
static void explain_none(char *text, size_t text_bytes) {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    (void)cudaGetLastError();
    if (error == cudaErrorInsufficientDriver) {
        int driver = 0;
        (void)cudaDriverGetVersion(&driver);
        if (driver == 0)
            (void)snprintf(text, text_bytes,
                           "no NVIDIA driver is installed, or it cannot be loaded here");
        else
            (void)snprintf(text, text_bytes,
                           "the NVIDIA driver is too old: it supports CUDA %d.%d, this build needs "
                           "%d.%d; update the driver",
                           driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                           CUDART_VERSION % 1000 / 10);
    } else if (error == cudaSuccess || error == cudaErrorNoDevice) {
        (void)snprintf(text, text_bytes, "no NVIDIA GPU is visible (is CUDA_VISIBLE_DEVICES set?)");
    } else {
        (void)snprintf(text, text_bytes, "the NVIDIA driver answers: %s",
                       cudaGetErrorString(error));
    }
}

static hf_status cuda_probe(int index, char *text, size_t text_bytes) {
    const int count = cuda_count();
    if (count == 0) {
        explain_none(text, text_bytes);
        return HF_E_UNSUPPORTED;
    }
    if (index < 0 || index >= count) {
        (void)snprintf(text, text_bytes, "there %s %d, numbered from 0", count == 1 ? "is" : "are",
                       count);
        return HF_E_UNSUPPORTED;
    }
    struct cudaDeviceProp prop;
    const cudaError_t error = cudaGetDeviceProperties(&prop, index);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        (void)snprintf(text, text_bytes, "the driver answers: %s", cudaGetErrorString(error));
        return HF_E_DEVICE;
    }
    (void)snprintf(text, text_bytes, "%s, compute capability %d.%d, %d multiprocessors, %.0f GiB",
                   prop.name, prop.major, prop.minor, prop.multiProcessorCount,
                   (double)prop.totalGlobalMem / (double)(1 << 30));
    if (prop.major * 10 + prop.minor >= OLDEST_SM)
        return HF_OK;
    const size_t used = strlen(text);
    (void)snprintf(text + used, text_bytes - used, "; %d.%d or later is needed", OLDEST_SM / 10,
                   OLDEST_SM % 10);
    return HF_E_UNSUPPORTED;
}

/* All contexts of a process share CUDA's own context of the device; memory freed stays in the pool.
 */
static hf_status open_pool(struct hf_cuda *cuda) {
    struct cudaMemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = cuda->device;
    HF_TRY(hf_cuda_check(cuda, cudaMemPoolCreate(&cuda->pool, &props), "memory pool"));
    uint64_t keep = UINT64_MAX;
    return hf_cuda_check(
        cuda, cudaMemPoolSetAttribute(cuda->pool, cudaMemPoolAttrReleaseThreshold, &keep),
        "memory pool");
}

static hf_status describe(struct hf_cuda *cuda) {
    struct cudaDeviceProp prop;
    HF_TRY(hf_cuda_check(cuda, cudaGetDeviceProperties(&prop, cuda->device), "device properties"));
    cuda->sm = prop.major * 10 + prop.minor;
    cuda->sms = prop.multiProcessorCount;
    cuda->smem = (int)prop.sharedMemPerBlockOptin;
    cuda->l2 = prop.l2CacheSize;
    cuda->memory = prop.totalGlobalMem;
    (void)snprintf(cuda->name, sizeof cuda->name, "%.60s", prop.name);
    return HF_OK;
}

/* What the last context of a device had, for the next one: a pool with its memory, a stream and a
 * slab cost more to make than a small fit takes. At most one for each device; it is never freed, as
 * the driver may be gone when the process ends. */
static _Atomic(struct hf_cuda_own *) idle[IDLE_DEVICES];

/* False if the caller reset the device since: then nothing of it exists any more. */
static bool is_alive(const struct hf_cuda_own *own) {
    struct cudaPointerAttributes host_side, device_side;
    const bool known = cudaPointerGetAttributes(&host_side, own->slab_host) == cudaSuccess &&
                       cudaPointerGetAttributes(&device_side, own->slab_device) == cudaSuccess;
    (void)cudaGetLastError();
    return known && host_side.type == cudaMemoryTypeHost &&
           device_side.type == cudaMemoryTypeDevice && device_side.device == own->cuda.device;
}

static struct hf_cuda_own *take_idle(int device) {
    if (device < 0 || device >= IDLE_DEVICES)
        return NULL;
    struct hf_cuda_own *own = atomic_exchange(&idle[device], NULL);
    if (own == NULL || is_alive(own))
        return own;
    hf_cuda_download_close(own, false);
    hf_free(own);
    return NULL;
}

/* Nothing may be under way or in use. */
static bool keep_idle(struct hf_cuda_own *own) {
    struct hf_cuda *cuda = &own->cuda;
    uint64_t used = 1, most = 0;
    if (cuda->device < 0 || cuda->device >= IDLE_DEVICES || own->slab_device == NULL ||
        cudaStreamSynchronize(cuda->stream) != cudaSuccess ||
        cudaMemPoolGetAttribute(cuda->pool, cudaMemPoolAttrUsedMemCurrent, &used) != cudaSuccess ||
        used != 0 || cudaMemPoolTrimTo(cuda->pool, IDLE_BYTES) != cudaSuccess ||
        cudaMemPoolSetAttribute(cuda->pool, cudaMemPoolAttrUsedMemHigh, &most) != cudaSuccess)
        return false;
    own->slab_used = 0;
    own->reached = 0;
    cuda->stream = NULL;
    cuda->error[0] = '\0';
    struct hf_cuda_own *none = NULL;
    return atomic_compare_exchange_strong(&idle[cuda->device], &none, own);
}

static void cuda_destroy(struct hf_cuda_own *own) {
    struct hf_cuda *cuda = &own->cuda;
    if (cuda->stream != NULL)
        (void)cudaStreamSynchronize(cuda->stream);
    for (int i = 0; i < HF_MARKS; i++)
        if (cuda->mark[i] != NULL)
            (void)cudaEventDestroy(cuda->mark[i]);
    if (own->made != NULL)
        (void)cudaStreamDestroy(own->made);
    if (cuda->pool != NULL)
        (void)cudaMemPoolDestroy(cuda->pool);
    hf_cuda_download_close(own, true);
    (void)cudaFree(own->slab_device);
    (void)cudaFreeHost(own->slab_host);
    (void)cudaGetLastError();
    hf_free(own);
}

static void cuda_close(void *stream) {
    struct hf_cuda_own *own = stream;
    const int before = hf_cuda_enter(&own->cuda);
    if (!keep_idle(own))
        cuda_destroy(own);
    hf_cuda_leave(before);
}

/* Without its twin on the device arguments go one by one, and the guard slot is locked memory. */
static hf_status open_slab(struct hf_cuda_own *own) {
    struct hf_cuda *cuda = &own->cuda;
    const size_t bytes = HF_CUDA_SLAB + 2 * sizeof(uint64_t) + sizeof(struct hf_slot);
    HF_TRY(hf_cuda_check(cuda, cudaHostAlloc((void **)&own->slab_host, bytes, cudaHostAllocDefault),
                         "slab"));
    char *const behind = own->slab_host + HF_CUDA_SLAB;
    own->found = (uint32_t *)(void *)behind;
    own->told = (uint32_t *)(void *)(behind + sizeof(uint64_t));
    if (cudaMalloc((void **)&own->slab_device, HF_CUDA_SLAB + sizeof *own->slot) != cudaSuccess) {
        (void)cudaGetLastError();
        own->slab_device = NULL;
    }
    char *const place =
        own->slab_device != NULL ? own->slab_device + HF_CUDA_SLAB : behind + 2 * sizeof(uint64_t);
    own->slot = (struct hf_slot *)(void *)place;
    return HF_OK;
}

static hf_status open_all(struct hf_cuda_own *own) {
    struct hf_cuda *cuda = &own->cuda;
    HF_TRY(hf_cuda_check(cuda, cudaSetDevice(cuda->device), "device"));
    HF_TRY(describe(cuda));
    HF_TRY(open_pool(cuda));
    return open_slab(own);
}

static hf_status open_stream(struct hf_cuda_own *own, void *stream) {
    struct hf_cuda *cuda = &own->cuda;
    if (stream == NULL && own->made == NULL)
        HF_TRY(hf_cuda_check(cuda, cudaStreamCreateWithFlags(&own->made, cudaStreamNonBlocking),
                             "stream"));
    cuda->owned = stream == NULL;
    cuda->stream = cuda->owned ? own->made : stream;
    return HF_OK;
}

static hf_status cuda_open(const struct hf_device_opts *opts, void **stream, hf_error *err) {
    struct hf_cuda_own *own = take_idle(opts->index);
    const bool fresh = own == NULL;
    if (fresh)
        own = hf_alloc_zero(sizeof *own);
    if (own == NULL)
        return hf_fail(err, HF_E_NOMEM, "no memory to open device cuda:%d", opts->index);
    struct hf_cuda *cuda = &own->cuda;
    cuda->device = opts->index;
    own->threads = opts->threads;
    const int before = hf_cuda_enter(cuda);
    hf_status status = fresh ? open_all(own) : HF_OK;
    if (status == HF_OK)
        status = open_stream(own, opts->stream);
    if (status != HF_OK) {
        (void)hf_fail(err, status, "device cuda:%d cannot be opened: %s", opts->index, cuda->error);
        cuda_destroy(own);
    }
    hf_cuda_leave(before);
    if (status == HF_OK)
        *stream = own;
    return status;
}

static struct hf_device_props cuda_props(const void *stream) {
    const struct hf_cuda *cuda = stream;
    return (struct hf_device_props){.workers = 1, .sm = cuda->sm, .sms = cuda->sms};
}

static void cuda_slot(void *stream, struct hf_slot **slot, uint32_t **told) {
    const struct hf_cuda_own *own = stream;
    *slot = own->slot;
    *told = own->told;
}

static uint64_t cuda_memory(void *stream) {
    struct hf_cuda *cuda = stream;
    size_t free_bytes = 0, total = 0;
    const int before = hf_cuda_enter(cuda);
    const hf_status status = hf_cuda_check(cuda, cudaMemGetInfo(&free_bytes, &total), "memory");
    hf_cuda_leave(before);
    if (status != HF_OK)
        return 0;
    uint64_t held = 0, used = 0; /* what the pool holds and nobody uses is free as well */
    (void)cudaMemPoolGetAttribute(cuda->pool, cudaMemPoolAttrReservedMemCurrent, &held);
    (void)cudaMemPoolGetAttribute(cuda->pool, cudaMemPoolAttrUsedMemCurrent, &used);
    return free_bytes + (held - used);
}

static void *cuda_alloc(void *stream, size_t bytes) { return hf_cuda_alloc(stream, bytes); }

static void cuda_release(void *stream, void *p) { hf_cuda_release(stream, p); }

static bool cuda_owns(const void *stream, const void *p) {
    return hf_cuda_is_on(((const struct hf_cuda *)stream)->device, p);
}

/* A copy that the host takes part in is waited for. */
static hf_status finish_copy(struct hf_cuda *cuda, const void *dst, const void *src) {
    if (hf_cuda_is_device(dst) && hf_cuda_is_device(src))
        return HF_OK;
    return hf_cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "copy");
}

static hf_status cuda_sync(void *stream) {
    struct hf_cuda_own *own = stream;
    const bool seen = own->seen;
    own->seen = false;
    return seen ? HF_OK
                : hf_cuda_check(&own->cuda, cudaStreamSynchronize(own->cuda.stream), "the device");
}

/* By the slab, between the host and the device; *done: that is where they lie, and it was wide
 * enough. */
static hf_status copy_by_slab(struct hf_cuda_own *own, void *dst, const void *src, size_t bytes,
                              bool *done) {
    const bool in = hf_cuda_is_on(own->cuda.device, dst);
    const bool across = in ? !hf_cuda_is_device(src)
                           : hf_cuda_is_on(own->cuda.device, src) && !hf_cuda_is_device(dst);
    const size_t used = own->slab_used;
    char *piece = across ? hf_cuda_take_slab(own, bytes) : NULL;
    *done = piece != NULL;
    if (piece == NULL)
        return HF_OK;
    if (in)
        memcpy(piece, src, bytes);
    struct hf_cuda *cuda = &own->cuda;
    hf_status status = hf_cuda_check(
        cuda, hf_cuda_carry(cuda->stream, in ? dst : piece, in ? piece : src, bytes), "copy");
    if (status == HF_OK)
        status = cuda_sync(own);
    if (status == HF_OK && !in)
        memcpy(dst, piece, bytes);
    own->slab_used = used;
    return status;
}

static hf_status cuda_copy(void *stream, void *dst, const void *src, size_t bytes) {
    struct hf_cuda *cuda = stream;
    bool done = false;
    if (bytes == 0)
        return HF_OK;
    HF_TRY(copy_by_slab(stream, dst, src, bytes, &done));
    if (done)
        return HF_OK;
    if (bytes >= HF_DOWNLOAD_BYTES && hf_cuda_is_on(cuda->device, src) && !hf_cuda_is_device(dst)) {
        HF_TRY(cuda_sync(stream));
        return hf_cuda_download(stream, dst, src, bytes);
    }
    HF_TRY(hf_cuda_check(cuda, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, cuda->stream),
                         "copy"));
    return finish_copy(cuda, dst, src);
}

static hf_status cuda_copy_rows(void *stream, const struct hf_row_copy *c) {
    struct hf_cuda *cuda = stream;
    if (c->rows == 0 || c->row_bytes == 0)
        return HF_OK;
    if (c->dst_step == c->row_bytes && c->src_step == c->row_bytes)
        return cuda_copy(stream, c->dst, c->src, c->row_bytes * (size_t)c->rows);
    HF_TRY(hf_cuda_check(cuda,
                         cudaMemcpy2DAsync(c->dst, c->dst_step, c->src, c->src_step, c->row_bytes,
                                           (size_t)c->rows, cudaMemcpyDefault, cuda->stream),
                         "copy"));
    return finish_copy(cuda, c->dst, c->src);
}

static hf_status cuda_fill(void *stream, void *dst, int byte, size_t bytes) {
    struct hf_cuda *cuda = stream;
    if (bytes == 0)
        return HF_OK;
    return hf_cuda_check(cuda, cudaMemsetAsync(dst, byte, bytes, cuda->stream), "fill");
}

static hf_status cuda_mark(void *stream, int which) {
    struct hf_cuda *cuda = stream;
    if (cuda->mark[which] == NULL) {
        const int before = hf_cuda_enter(cuda);
        const hf_status made = hf_cuda_check(cuda, cudaEventCreate(&cuda->mark[which]), "event");
        hf_cuda_leave(before);
        HF_TRY(made);
    }
    return hf_cuda_check(cuda, cudaEventRecord(cuda->mark[which], cuda->stream), "event");
}

static double cuda_span(void *stream) {
    struct hf_cuda *cuda = stream;
    float ms = -1;
    if (hf_cuda_check(cuda, cudaEventSynchronize(cuda->mark[1]), "event") != HF_OK ||
        hf_cuda_check(cuda, cudaEventElapsedTime(&ms, cuda->mark[0], cuda->mark[1]), "event") !=
            HF_OK)
        return -1;
    return (double)ms * 1e-3;
}

static const char *cuda_error_text(const void *stream) {
    return ((const struct hf_cuda *)stream)->error;
}

int hf_cuda_sm(int index) {
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) == cudaSuccess &&
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index) == cudaSuccess)
        return major * 10 + minor;
    (void)cudaGetLastError();
    return 0;
}

const struct hf_device hf_cuda_device = {
    .name = "cuda",
    .id = HF_DEV_CUDA,
    .count = cuda_count,
    .probe = cuda_probe,
    .open = cuda_open,
    .close = cuda_close,
    .props = cuda_props,
    .slot = cuda_slot,
    .memory = cuda_memory,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .owns = cuda_owns,
    .copy = cuda_copy,
    .start_fetch = hf_cuda_start_fetch,
    .end_fetch = hf_cuda_end_fetch,
    .copy_rows = cuda_copy_rows,
    .fill = cuda_fill,
    .is_zero = hf_cuda_is_zero,
    .start_below = hf_cuda_start_below,
    .end_below = hf_cuda_end_below,
    .begin_calls = hf_cuda_begin_calls,
    .end_calls = hf_cuda_end_calls,
    .sync = cuda_sync,
    .mark = cuda_mark,
    .span = cuda_span,
    .reach = hf_cuda_reach,
    .follow = hf_cuda_follow,
    .lock = hf_cuda_lock,
    .unlock = hf_cuda_unlock,
    .error_text = cuda_error_text,
};
