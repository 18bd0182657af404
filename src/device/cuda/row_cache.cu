/* SPDX-License-Identifier: Apache-2.0
 * Copies of rows of host memory: places go round, so that the oldest copy makes room. */
#include "device/cuda/row_cache.h"

#define THREADS 256
#define BLOCKS 8 /* of a multiprocessor: one wave, more than the bus needs */

struct fetch {
    const char *x;
    int64_t step;
    const int32_t *list, *choices, *count;
    int64_t most;
    struct hf_row_cache cache;
    const int32_t *stop;
};

void hf_row_cache_carve(hf_carve *carve, int64_t n, int64_t room, int64_t row_bytes,
                        struct hf_row_cache *cache) {
    *cache = (struct hf_row_cache){};
    if (room == 0)
        return;
    cache->room = room;
    cache->row_bytes = row_bytes;
    cache->turn = (int32_t *)hf_carve_take(carve, 2 * sizeof(int32_t));
    cache->where = (int32_t *)hf_carve_take(carve, sizeof(int32_t) * (size_t)n);
    cache->owner = (int32_t *)hf_carve_take(carve, sizeof(int32_t) * (size_t)room);
    carve->used = (carve->used + 255) / 256 * 256;
    cache->data = (char *)hf_carve_take(carve, (size_t)(room * row_bytes));
}

hf_status hf_row_cache_clear(struct hf_cuda *cuda, const struct hf_row_cache *cache, int64_t n) {
    if (cache->data == NULL)
        return HF_OK;
    /* every byte of -1 is 255 */
    const size_t all = sizeof(int32_t) * (size_t)n, room = sizeof(int32_t) * (size_t)cache->room;
    cudaError_t error = cudaMemsetAsync(cache->turn, 0, 2 * sizeof(int32_t), cuda->stream);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(cache->where, 255, all, cuda->stream);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(cache->owner, 255, room, cuda->stream);
    return hf_cuda_check(cuda, error, "clear of copied rows");
}

static __global__ void begin_fetch(const struct hf_row_cache cache, const int32_t *stop) {
    if (stop && *stop)
        return;
    const int64_t given = cache.turn[1] < cache.room ? cache.turn[1] : cache.room;
    cache.turn[0] = static_cast<int32_t>((cache.turn[0] + given) % cache.room);
    cache.turn[1] = 0;
}

/* A place for a row that has none; -1 for others, and when this fetch has given all away, so that
 * no place gets two rows. A row of the list whose place goes to another meanwhile is left without:
 * it is then read over the bus. */
static __device__ int32_t take_place(const struct hf_row_cache &cache, int32_t row) {
    if (cache.where[row] >= 0 || *static_cast<volatile int32_t *>(cache.turn + 1) >= cache.room)
        return -1;
    const int32_t number = atomicAdd(cache.turn + 1, 1);
    if (number >= cache.room)
        return -1;
    const int32_t place =
        static_cast<int32_t>((static_cast<int64_t>(cache.turn[0]) + number) % cache.room);
    if (cache.owner[place] >= 0)
        atomicCAS(cache.where + cache.owner[place], place, -1);
    cache.owner[place] = row;
    atomicExch(cache.where + row, place);
    return place;
}

/* A warp to a row, W at a time. */
template <typename W>
static __global__ void __launch_bounds__(THREADS) fetch_rows(const struct fetch job) {
    if (job.stop && *job.stop)
        return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t count = *job.count <= job.most ? *job.count : 0;
    const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS / 32;
    const int64_t words = job.cache.row_bytes / static_cast<int64_t>(sizeof(W));
    for (int64_t i = (static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x) / 32; i < count;
         i += step) {
        if (job.choices && job.choices[i] == 1)
            continue; /* all lanes */
        const int32_t row = job.list[i];
        const int32_t place = __shfl_sync(~0u, lane == 0 ? take_place(job.cache, row) : 0, 0);
        if (place < 0)
            continue;
        const W *from = reinterpret_cast<const W *>(job.x + row * job.step);
        W *to = reinterpret_cast<W *>(job.cache.data + place * job.cache.row_bytes);
        for (int64_t w = lane; w < words; w += 32)
            to[w] = from[w];
    }
}

hf_status hf_row_cache_fetch(struct hf_cuda *cuda, const struct hf_row_cache *cache, const void *x,
                             int64_t step, const int32_t *list, const int32_t *choices,
                             const int32_t *count, int64_t most, const int32_t *stop) {
    if (cache->data == NULL)
        return HF_OK;
    const struct fetch job = {(const char *)x, step, list, choices, count, most, *cache, stop};
    const unsigned grid = (unsigned)cuda->sms * BLOCKS;
    const uint64_t bits = (uintptr_t)x | (uint64_t)step | (uint64_t)cache->row_bytes;
    begin_fetch<<<1, 1, 0, cuda->stream>>>(*cache, stop);
    if (bits % 16 == 0)
        fetch_rows<uint4><<<grid, THREADS, 0, cuda->stream>>>(job);
    else if (bits % 4 == 0)
        fetch_rows<uint32_t><<<grid, THREADS, 0, cuda->stream>>>(job);
    else
        fetch_rows<uint8_t><<<grid, THREADS, 0, cuda->stream>>>(job);
    return hf_cuda_launched(cuda, "fetch of rows");
}
