/* SPDX-License-Identifier: Apache-2.0
 * Copies of rows of host memory: places go round, so that the oldest copy makes room. */
#include "device/cuda/row_cache.h"

#define THREADS 256
#define BLOCKS 8 /* of a multiprocessor: one wave, more than the bus needs */
#define ROWS 4   /* of a warp at a time */

/* Copies ahead: the filter fills a multiprocessor, so they must have some for themselves. Blocks of
 * so many threads spread over no more than there are blocks. */
#define AHEAD_THREADS 1024
#define AHEAD_BLOCKS 4

/* What to do when others wait for a copy ahead. */
enum haste { HASTE_NONE, HASTE_END, HASTE_NEVER };

struct fetch {
    const char *x;
    int64_t step;
    const int32_t *list, *choices, *count;
    int64_t most;
    struct hf_row_cache cache;
    const int32_t *haste; /* NULL: go on to the end */
    const int32_t *stop;
};

void hf_row_cache_carve(hf_carve *carve, int64_t n, int64_t room, int64_t row_bytes,
                        struct hf_row_cache *cache) {
    *cache = (struct hf_row_cache){};
    if (room == 0)
        return;
    cache->room = room;
    cache->row_bytes = row_bytes;
    cache->turn = (int32_t *)hf_carve_take(carve, HF_ROW_TURNS * sizeof(int32_t));
    cache->where = (int32_t *)hf_carve_take(carve, sizeof(int32_t) * (size_t)n);
    cache->owner = (int32_t *)hf_carve_take(carve, sizeof(int32_t) * (size_t)room);
    cache->ahead = (int32_t *)hf_carve_take(carve, sizeof(int32_t) * (size_t)room);
    carve->used = (carve->used + 255) / 256 * 256;
    cache->data = (char *)hf_carve_take(carve, (size_t)(room * row_bytes));
}

hf_status hf_row_cache_clear(struct hf_cuda *cuda, const struct hf_row_cache *cache, int64_t n) {
    if (cache->data == NULL)
        return HF_OK;
    /* every byte of -1 is 255 */
    const size_t all = sizeof(int32_t) * (size_t)n, room = sizeof(int32_t) * (size_t)cache->room;
    cudaError_t error =
        cudaMemsetAsync(cache->turn, 0, HF_ROW_TURNS * sizeof(int32_t), cuda->stream);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(cache->where, 255, all, cuda->stream);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(cache->owner, 255, room, cuda->stream);
    return hf_cuda_check(cuda, error, "clear of copied rows");
}

static __device__ __forceinline__ void next_turn(const struct hf_row_cache &cache) {
    int32_t *turn = cache.turn;
    const int64_t given = turn[HF_ROW_GIVEN] < cache.room ? turn[HF_ROW_GIVEN] : cache.room;
    turn[HF_ROW_PLACE] = static_cast<int32_t>((turn[HF_ROW_PLACE] + given) % cache.room);
    turn[HF_ROW_GIVEN] = 0;
}

static __global__ void begin_fetch(const struct hf_row_cache cache, const int32_t *stop) {
    if (!stop || !*stop)
        next_turn(cache);
}

static __global__ void begin_ahead(const struct hf_row_cache cache, const int32_t *moved,
                                   int64_t patient, const int32_t *stop) {
    if (stop && *stop)
        return;
    next_turn(cache);
    cache.turn[HF_ROW_HASTE] = *moved > patient ? HASTE_NEVER : HASTE_NONE;
}

static __global__ void hurry(const struct hf_row_cache cache) {
    if (cache.turn[HF_ROW_HASTE] == HASTE_NONE)
        *static_cast<volatile int32_t *>(cache.turn + HF_ROW_HASTE) = HASTE_END;
}

/* A place for a row that has none; -1 for others, and when this fetch has given all away, so that
 * no place gets two rows. A row of the list whose place goes to another meanwhile is left without:
 * it is then read over the bus. */
static __device__ int32_t take_place(const struct hf_row_cache &cache, int32_t row) {
    if (cache.where[row] >= 0 ||
        *static_cast<volatile int32_t *>(cache.turn + HF_ROW_GIVEN) >= cache.room)
        return -1;
    const int32_t number = atomicAdd(cache.turn + HF_ROW_GIVEN, 1);
    if (number >= cache.room)
        return -1;
    const int32_t place = static_cast<int32_t>(
        (static_cast<int64_t>(cache.turn[HF_ROW_PLACE]) + number) % cache.room);
    if (cache.owner[place] >= 0)
        atomicCAS(cache.where + cache.owner[place], place, -1);
    cache.owner[place] = row;
    atomicExch(cache.where + row, place);
    return place;
}

/* A warp to some rows, W of each at a time. */
template <typename W>
static __global__ void __launch_bounds__(AHEAD_THREADS) fetch_rows(const struct fetch job) {
    if (job.stop && *job.stop)
        return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t count = *job.count <= job.most ? *job.count : 0;
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x / 32 * ROWS;
    const int64_t words = job.cache.row_bytes / static_cast<int64_t>(sizeof(W));
    for (int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32 * ROWS;
         i < count; i += step) {
        const int haste =
            job.haste ? *static_cast<const volatile int32_t *>(job.haste) : HASTE_NONE;
        if (__shfl_sync(~0u, haste, 0) == HASTE_END)
            return; /* all lanes */
        int32_t row = 0, place = -1;
        if (lane < ROWS && i + lane < count && !(job.choices && job.choices[i + lane] == 1)) {
            row = job.list[i + lane];
            place = take_place(job.cache, row);
        }
        const W *from[ROWS];
        W *to[ROWS]; /* NULL: this one is not copied */
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int64_t its = __shfl_sync(~0u, row, r), at = __shfl_sync(~0u, place, r);
            from[r] = reinterpret_cast<const W *>(job.x + its * job.step);
            to[r] =
                at < 0 ? nullptr : reinterpret_cast<W *>(job.cache.data + at * job.cache.row_bytes);
        }
        for (int64_t w = lane; w < words; w += 32) {
            W v[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (to[r])
                    v[r] = from[r][w];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (to[r])
                    to[r][w] = v[r];
        }
    }
}

static void launch_fetch(cudaStream_t stream, unsigned grid, int threads, const struct fetch *job) {
    const uint64_t bits = (uintptr_t)job->x | (uint64_t)job->step | (uint64_t)job->cache.row_bytes;
    if (bits % 16 == 0)
        fetch_rows<uint4><<<grid, threads, 0, stream>>>(*job);
    else if (bits % 4 == 0)
        fetch_rows<uint32_t><<<grid, threads, 0, stream>>>(*job);
    else
        fetch_rows<uint8_t><<<grid, threads, 0, stream>>>(*job);
}

hf_status hf_row_cache_fetch(struct hf_cuda *cuda, const struct hf_row_cache *cache, const void *x,
                             int64_t step, const int32_t *list, const int32_t *choices,
                             const int32_t *count, int64_t most, const int32_t *stop) {
    if (cache->data == NULL)
        return HF_OK;
    const struct fetch job = {(const char *)x, step, list, choices, count, most,
                              *cache,          NULL, stop};
    begin_fetch<<<1, 1, 0, cuda->stream>>>(*cache, stop);
    launch_fetch(cuda->stream, (unsigned)cuda->sms * BLOCKS, THREADS, &job);
    return hf_cuda_launched(cuda, "fetch of rows");
}

hf_status hf_row_cache_open(struct hf_cuda *cuda, struct hf_row_cache *cache) {
    if (cache->data == NULL || cuda->sms < 8 * AHEAD_BLOCKS)
        return HF_OK;
    cudaError_t error = cudaStreamCreateWithFlags(&cache->side, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&cache->begin, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&cache->ended, cudaEventDisableTiming);
    cache->sms = AHEAD_BLOCKS;
    return hf_cuda_check(cuda, error, "stream for copied rows");
}

void hf_row_cache_close(struct hf_row_cache *cache) {
    if (cache->side != NULL) {
        (void)cudaStreamSynchronize(cache->side);
        (void)cudaStreamDestroy(cache->side);
    }
    if (cache->begin != NULL)
        (void)cudaEventDestroy(cache->begin);
    if (cache->ended != NULL)
        (void)cudaEventDestroy(cache->ended);
    cache->side = NULL;
    cache->begin = cache->ended = NULL;
    cache->sms = 0;
}

hf_status hf_row_cache_ahead(struct hf_cuda *cuda, const struct hf_row_cache *cache, const void *x,
                             int64_t step, const int32_t *moved, int64_t patient,
                             const int32_t *stop) {
    if (cache->side == NULL)
        return HF_OK;
    int32_t *const turn = cache->turn;
    const struct fetch job = {
        (const char *)x, step,   cache->ahead,        NULL, turn + HF_ROW_AHEAD,
        cache->room,     *cache, turn + HF_ROW_HASTE, stop};
    cudaError_t error = cudaEventRecord(cache->begin, cuda->stream);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(cache->side, cache->begin, 0);
    if (error != cudaSuccess)
        return hf_cuda_check(cuda, error, "copy of rows");
    begin_ahead<<<1, 1, 0, cache->side>>>(*cache, moved, patient, stop);
    launch_fetch(cache->side, AHEAD_BLOCKS, AHEAD_THREADS, &job);
    error = cudaMemsetAsync(turn + HF_ROW_AHEAD, 0, sizeof(int32_t), cache->side);
    if (error == cudaSuccess)
        error = cudaEventRecord(cache->ended, cache->side);
    return hf_cuda_check(cuda, error, "copy of rows");
}

hf_status hf_row_cache_join(struct hf_cuda *cuda, const struct hf_row_cache *cache) {
    if (cache->side == NULL)
        return HF_OK;
    hurry<<<1, 1, 0, cuda->stream>>>(*cache);
    HF_TRY(hf_cuda_launched(cuda, "copy of rows"));
    /* an event that was never recorded has ended */
    return hf_cuda_check(cuda, cudaStreamWaitEvent(cuda->stream, cache->ended, 0), "copy of rows");
}
