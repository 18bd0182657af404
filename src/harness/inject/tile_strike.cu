/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/inject/tile_strike.h"
#include "ops/assign/cuda/tile_check.cuh"
#include <stdlib.h>
#include <string.h>

enum { N = HF_STRUCK_ROWS, K = HF_STRUCK_CLUSTERS, D = HF_STRUCK_COLUMNS };

/* All that the device has, in one piece. */
struct on_device {
    uint16_t x[N * D];
    float norm[N], c[K * D], threshold[N];
    int32_t label[N], open[N], count;
    unsigned struck;
    struct hf_slot slot;
    uint32_t told;
};

struct hf_struck_tiles {
    struct hf_cuda *cuda;
    struct on_device *device;
    float *sums;
    void *packed;
    struct on_device host;
};

template <class S, bool C>
static __global__ void __launch_bounds__(MMA_THREADS, 1)
    struck_kernel(const __grid_constant__ filter_args a,
                  const __grid_constant__ hf_tile_check check, const tile_strike strike) {
    extern __shared__ __align__(1024) uint8_t memory[];
    tile_watch<C, true> watch = {};
    watch.check = check;
    watch.strike = strike;
    mma_all<S, false>(a, FILTER_TOP2, memory, watch);
}

static hf_status copy(struct hf_cuda *cuda, void *to, const void *from, size_t bytes) {
    return hf_cuda_check(cuda, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda->stream),
                         "struck tiles");
}

static struct hf_filter_call call_of(const struct hf_struck_tiles *t) {
    struct hf_filter_call call = {};
    call.rows.x16 = t->device->x;
    call.rows.norm = t->device->norm;
    call.rows.n = N;
    call.rows.ld = D;
    call.rows.d = D;
    call.rows.batch = 1;
    call.rows.mma = true;
    call.centroids.c = t->device->c;
    call.centroids.scale = 1;
    call.centroids.k = K;
    call.centroids.d = D;
    call.centroids.batch = 1;
    call.centroids.metric = HF_EUCLIDEAN;
    call.centroids.mma = true;
    call.centroids.raw = true;
    call.packed = t->packed;
    return call;
}

static struct hf_tile_check check_of(const struct hf_struck_tiles *t) {
    return {t->sums, &t->device->slot, 0};
}

static hf_status prepare(struct hf_struck_tiles *t) {
    const struct hf_filter_call call = call_of(t);
    const struct hf_tile_check check = check_of(t);
    HF_TRY(copy(t->cuda, t->device, &t->host, sizeof t->host));
    HF_TRY(hf_filter_pack(t->cuda, &call.centroids, t->packed));
    HF_TRY(hf_tile_check_sums(t->cuda, &call.centroids, t->packed, &check));
    return hf_cuda_check(t->cuda, cudaStreamSynchronize(t->cuda->stream), "struck tiles");
}

struct hf_struck_tiles *hf_struck_tiles_open(void *stream, const uint16_t *x, const float *norm,
                                             const float *c) {
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    struct hf_device_props props = {};
    props.sm = cuda->sm;
    props.sms = cuda->sms;
    struct hf_struck_tiles *t = (struct hf_struck_tiles *)calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->cuda = cuda;
    t->device = (struct on_device *)hf_cuda_alloc(cuda, sizeof *t->device);
    t->packed = hf_cuda_alloc(cuda, hf_filter_pack_bytes(&props, K, D, 1));
    t->sums = (float *)hf_cuda_alloc(cuda, hf_tile_check_bytes(K, D));
    memcpy(t->host.x, x, sizeof t->host.x);
    memcpy(t->host.norm, norm, sizeof t->host.norm);
    memcpy(t->host.c, c, sizeof t->host.c);
    t->host.slot.told = t->device != NULL ? &t->device->told : NULL;
    if (t->device != NULL && t->packed != NULL && t->sums != NULL && prepare(t) == HF_OK)
        return t;
    hf_struck_tiles_close(t);
    return NULL;
}

void hf_struck_tiles_close(struct hf_struck_tiles *t) {
    if (t == NULL)
        return;
    if (t->device != NULL)
        hf_cuda_release(t->cuda, t->device);
    if (t->packed != NULL)
        hf_cuda_release(t->cuda, t->packed);
    if (t->sums != NULL)
        hf_cuda_release(t->cuda, t->sums);
    free(t);
}

template <bool C>
static cudaError_t launch(struct hf_struck_tiles *t, const struct filter_args &a,
                          const struct tile_strike &strike) {
    typedef struct mma_shape<D> S;
    const size_t shared = (size_t)S::SHARED + MMA_WARPS * 2 * S::DP * sizeof(float);
    const cudaError_t error = cudaFuncSetAttribute(
        struck_kernel<S, C>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (error != cudaSuccess)
        return error;
    struck_kernel<S, C>
        <<<(unsigned)t->cuda->sms, MMA_THREADS, shared, t->cuda->stream>>>(a, check_of(t), strike);
    return cudaGetLastError();
}

hf_status hf_struck_tiles_label(struct hf_struck_tiles *t, bool checked,
                                const struct hf_struck_score *score, struct hf_struck_labels *out) {
    const size_t from = offsetof(struct on_device, label);
    const size_t bytes = sizeof t->host - from;
    const struct hf_filter_call call = call_of(t);
    struct on_device *const d = t->device;
    struct filter_args a = {};
    t->host.count = 0;
    t->host.struck = 0;
    t->host.told = 0;
    t->host.slot = {};
    t->host.slot.told = &d->told;
    HF_TRY(copy(t->cuda, (char *)d + from, (char *)&t->host + from, bytes));
    a.rows = call.rows;
    a.limit = N;
    a.out.label = d->label;
    a.out.open.count = &d->count;
    a.out.open.row = d->open;
    a.out.open.threshold = d->threshold;
    a.out.open.cap = N;
    mma_describe(&a, &call.centroids, t->packed);
    const struct tile_strike strike = {score->row, score->column, score->mask, &d->struck};
    HF_TRY(hf_cuda_check(t->cuda,
                         checked ? launch<true>(t, a, strike) : launch<false>(t, a, strike),
                         "struck tiles"));
    HF_TRY(copy(t->cuda, (char *)&t->host + from, (char *)d + from, bytes));
    HF_TRY(hf_cuda_check(t->cuda, cudaStreamSynchronize(t->cuda->stream), "struck tiles"));
    memcpy(out->label, t->host.label, sizeof t->host.label);
    for (int i = 0; i < t->host.count && i < N; i++)
        out->label[t->host.open[i]] = -1;
    out->slot = t->host.slot;
    out->struck = (int)t->host.struck;
    return HF_OK;
}
