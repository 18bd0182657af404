/* SPDX-License-Identifier: Apache-2.0
 * Copies of rows of host memory: places go round, so that the oldest copy makes room. Rows are
 * marked in a bit map first and copied in their order: the bus brings rows of pages that lie close
 * together at 51 GB/s on an H200, rows in random order at 19, for each then needs an entry of the
 * page tables of its own. Few warps are enough, and more would spread over more pages. */
#include "device/cuda/row_cache.h"

#define NOTE_THREADS 256
#define NOTE_BLOCKS 4 /* of a multiprocessor */
#define THREADS 1024
#define BLOCKS 64 /* of a fetch that others wait for: most of its time it looks for marks */
#define ROWS 4    /* of a warp at a time */

/* Copies ahead: the filter fills a multiprocessor, so they must have some for themselves. Blocks of
 * so many threads spread over no more than there are blocks. */
#define AHEAD_BLOCKS 4

/* What to do when others wait for a copy ahead. */
enum haste { HASTE_NONE, HASTE_END, HASTE_NEVER };

struct fetch {
    const char *x;
    int64_t step;
    uint64_t *marks; /* [words] of the rows to copy */
    int64_t words;
    bool keep; /* the marks; else they are cleared */
    const int32_t *count;
    int64_t most;   /* nothing is done with *count > most or 0; count NULL: unknown */
    int64_t places; /* to give away, at most */
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
    cache->words = (n + 63) / 64 * 2;
    cache->soon = (uint32_t *)hf_carve_take(carve, sizeof(uint32_t) * (size_t)cache->words);
    cache->now = (uint32_t *)hf_carve_take(carve, sizeof(uint32_t) * (size_t)cache->words);
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
    for (int i = 0; error == cudaSuccess && i < 2; i++)
        error = cudaMemsetAsync(i == 0 ? cache->soon : cache->now, 0,
                                sizeof(uint32_t) * (size_t)cache->words, cuda->stream);
    return hf_cuda_check(cuda, error, "clear of copied rows");
}

static __device__ __forceinline__ void next_turn(const struct hf_row_cache &cache) {
    int32_t *turn = cache.turn;
    const int64_t given = turn[HF_ROW_GIVEN] < cache.room ? turn[HF_ROW_GIVEN] : cache.room;
    turn[HF_ROW_PLACE] = static_cast<int32_t>((turn[HF_ROW_PLACE] + given) % cache.room);
    turn[HF_ROW_GIVEN] = 0;
}

/* Mark the rows that have no copy. */
static __global__ void __launch_bounds__(NOTE_THREADS)
    mark_rows(const struct hf_row_list list, const struct hf_row_cache cache, const int32_t *stop) {
    if (stop && *stop)
        return;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        next_turn(cache);
    const int64_t count = *list.count <= list.most ? *list.count : 0;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * NOTE_THREADS + threadIdx.x; i < count;
         i += static_cast<int64_t>(gridDim.x) * NOTE_THREADS) {
        const int64_t e = list.entry ? list.entry[i] : i;
        if (list.choices && list.choices[e] == 1)
            continue;
        const int32_t row = list.row[e];
        if (cache.where[row] < 0)
            atomicOr(cache.now + row / 32, 1u << row % 32);
    }
}

static __global__ void begin_turn(const struct hf_row_cache cache, const int32_t *stop) {
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

/* All lanes, some with a row: a place for each of them that has none; -1 for others, and when this
 * fetch has given all away, so that no place gets two rows. A row whose place goes to another
 * meanwhile is left without: it is then read over the bus. */
static __device__ __forceinline__ int32_t take_place(const struct fetch &job, int32_t row,
                                                     bool there) {
    const struct hf_row_cache &cache = job.cache;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool wanted = there && cache.where[row] < 0;
    const unsigned all = __ballot_sync(~0u, wanted);
    const int32_t count = __popc(all);
    int32_t number = 0;
    if (lane == 0 && count > 0) {
        number = atomicAdd(cache.turn + HF_ROW_GIVEN, count);
        const int64_t over = number + count - job.places;
        if (over > 0) /* not given: the next fetch goes on behind the others */
            atomicSub(cache.turn + HF_ROW_GIVEN, over < count ? static_cast<int32_t>(over) : count);
    }
    number = __shfl_sync(~0u, number, 0) + __popc(all & ((1u << lane) - 1));
    if (!wanted || number >= job.places)
        return -1;
    const int32_t place = static_cast<int32_t>(
        (static_cast<int64_t>(cache.turn[HF_ROW_PLACE]) + number) % cache.room);
    if (cache.owner[place] >= 0)
        atomicCAS(cache.where + cache.owner[place], place, -1);
    cache.owner[place] = row;
    atomicExch(cache.where + row, place);
    return place;
}

/* All lanes: the rows of those that have a place, W of each at a time. */
template <typename W>
static __device__ __forceinline__ void copy_rows(const struct fetch &job, int32_t row,
                                                 int32_t place) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int words = static_cast<int>(job.cache.row_bytes / static_cast<int64_t>(sizeof(W)));
    for (unsigned left = __ballot_sync(~0u, place >= 0); left != 0;) {
        const W *from[ROWS];
        int at[ROWS]; /* its place, -1: there is no row */
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int who = left != 0 ? __ffs(static_cast<int>(left)) - 1 : 0;
            const int64_t its = __shfl_sync(~0u, row, who);
            const int there = __shfl_sync(~0u, place, who);
            from[r] = reinterpret_cast<const W *>(job.x + its * job.step);
            at[r] = left != 0 ? there : -1;
            left &= left - 1;
        }
#pragma unroll 1
        for (int w = lane; w < words; w += 32) {
            W v[ROWS] = {}; /* a value of its own each: loads are under way together */
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (at[r] >= 0)
                    v[r] = from[r][w];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (at[r] >= 0)
                    reinterpret_cast<W *>(job.cache.data + at[r] * job.cache.row_bytes)[w] = v[r];
        }
    }
}

/* All lanes: the row of mark number `mark` among those of all lanes, which `end` counts up to and
 * with each lane's; base: the warp's first row. */
static __device__ __forceinline__ int32_t marked_row(uint64_t bits, int end, int mark,
                                                     int64_t base) {
    int who = 0;
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        who += __shfl_sync(~0u, end, who + step - 1) <= mark ? step : 0;
    uint64_t its = __shfl_sync(~0u, bits, who);
    const int before = __shfl_sync(~0u, end, who) - __popcll(its);
    for (int skip = mark - before; skip > 0; skip--)
        its &= its - 1;
    return static_cast<int32_t>(base + who * 64) + __ffsll(static_cast<long long>(its)) - 1;
}

/* All lanes: what lane 0 finds there now. */
static __device__ __forceinline__ int32_t look_at(const int32_t *p) {
    const int32_t v = p ? *static_cast<const volatile int32_t *>(p) : 0;
    return __shfl_sync(~0u, v, 0);
}

/* A warp to 2048 rows: a lane has the marks of 64. Others may set more of them meanwhile. */
template <typename W>
static __global__ void __launch_bounds__(THREADS) fetch_rows(const struct fetch job) {
    if ((job.stop && *job.stop) || (job.count && (*job.count > job.most || *job.count == 0)))
        return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
    int64_t first = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x - lane;
    uint64_t next = first + lane < job.words ? job.marks[first + lane] : 0;
    for (; first < job.words; first += step) {
        const bool full = look_at(job.cache.turn + HF_ROW_GIVEN) >= job.places;
        if (look_at(job.haste) == HASTE_END || (full && job.keep))
            return; /* all lanes */
        const uint64_t bits = next;
        const int64_t then = first + step + lane;
        next = then < job.words ? job.marks[then] : 0;
        if (bits != 0 && !job.keep)
            atomicAnd(reinterpret_cast<unsigned long long *>(job.marks + first + lane), ~bits);
        if (full)
            continue; /* all lanes */
        int end = __popcll(bits);
        for (int by = 1; by < 32; by *= 2) {
            const int before = __shfl_up_sync(~0u, end, by);
            end += lane >= by ? before : 0;
        }
        const int all = __shfl_sync(~0u, end, 31);
        for (int done = 0; done < all; done += 32) {
            const bool there = done + lane < all;
            const int32_t row = marked_row(bits, end, there ? done + lane : done, first * 64);
            copy_rows<W>(job, row, take_place(job, row, there));
        }
    }
}

static void launch_fetch(cudaStream_t stream, unsigned grid, const struct fetch *job) {
    const uint64_t bits = (uintptr_t)job->x | (uint64_t)job->step | (uint64_t)job->cache.row_bytes;
    if (bits % 16 == 0)
        fetch_rows<uint4><<<grid, THREADS, 0, stream>>>(*job);
    else if (bits % 4 == 0)
        fetch_rows<uint32_t><<<grid, THREADS, 0, stream>>>(*job);
    else
        fetch_rows<uint8_t><<<grid, THREADS, 0, stream>>>(*job);
}

static struct fetch fetch_of(const struct hf_row_cache *cache, const void *x, int64_t step,
                             uint32_t *marks, const int32_t *stop) {
    struct fetch job = {};
    job.x = (const char *)x;
    job.step = step;
    job.marks = (uint64_t *)marks;
    job.words = cache->words / 2;
    job.places = cache->room;
    job.cache = *cache;
    job.stop = stop;
    return job;
}

hf_status hf_row_cache_fetch(struct hf_cuda *cuda, const struct hf_row_cache *cache, const void *x,
                             int64_t step, const struct hf_row_list *list, const int32_t *stop) {
    if (cache->data == NULL)
        return HF_OK;
    struct fetch job = fetch_of(cache, x, step, cache->now, stop);
    job.count = list->count;
    job.most = list->most;
    mark_rows<<<(unsigned)cuda->sms * NOTE_BLOCKS, NOTE_THREADS, 0, cuda->stream>>>(*list, *cache,
                                                                                    stop);
    launch_fetch(cuda->stream, BLOCKS, &job);
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

/* The side stream comes after all that the stream has been given. */
static cudaError_t turn_aside(struct hf_cuda *cuda, const struct hf_row_cache *cache) {
    const cudaError_t error = cudaEventRecord(cache->begin, cuda->stream);
    return error == cudaSuccess ? cudaStreamWaitEvent(cache->side, cache->begin, 0) : error;
}

hf_status hf_row_cache_ahead(struct hf_cuda *cuda, const struct hf_row_cache *cache, const void *x,
                             int64_t step, const int32_t *moved, int64_t patient,
                             const int32_t *stop) {
    if (cache->side == NULL)
        return HF_OK;
    struct fetch job = fetch_of(cache, x, step, cache->soon, stop);
    job.haste = cache->turn + HF_ROW_HASTE;
    HF_TRY(hf_cuda_check(cuda, turn_aside(cuda, cache), "copy of rows"));
    begin_ahead<<<1, 1, 0, cache->side>>>(*cache, moved, patient, stop);
    launch_fetch(cache->side, AHEAD_BLOCKS, &job);
    return hf_cuda_check(cuda, cudaEventRecord(cache->ended, cache->side), "copy of rows");
}

hf_status hf_row_cache_early(struct hf_cuda *cuda, const struct hf_row_cache *cache, const void *x,
                             int64_t step, const uint32_t *marks, int64_t most,
                             const int32_t *stop) {
    if (cache->side == NULL)
        return HF_OK;
    struct fetch job = fetch_of(cache, x, step, (uint32_t *)(uintptr_t)marks, stop);
    job.keep = true;
    job.places = most < cache->room ? most : cache->room;
    hurry<<<1, 1, 0, cuda->stream>>>(*cache);
    HF_TRY(hf_cuda_check(cuda, turn_aside(cuda, cache), "copy of rows"));
    begin_turn<<<1, 1, 0, cache->side>>>(*cache, stop);
    launch_fetch(cache->side, AHEAD_BLOCKS, &job);
    return hf_cuda_check(cuda, cudaEventRecord(cache->ended, cache->side), "copy of rows");
}

hf_status hf_row_cache_join(struct hf_cuda *cuda, const struct hf_row_cache *cache) {
    if (cache->side == NULL)
        return HF_OK;
    hurry<<<1, 1, 0, cuda->stream>>>(*cache);
    HF_TRY(hf_cuda_launched(cuda, "copy of rows"));
    /* an event that was never recorded has ended */
    return hf_cuda_check(cuda, cudaStreamWaitEvent(cuda->stream, cache->ended, 0), "copy of rows");
}
