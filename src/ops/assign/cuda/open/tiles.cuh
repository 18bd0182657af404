/* SPDX-License-Identifier: Apache-2.0
 * Rows of a list and all centroids (found.cuh), where the list is long. */
#ifndef HF_ASSIGN_CUDA_OPEN_TILES_CUH
#define HF_ASSIGN_CUDA_OPEN_TILES_CUH

#include "device/cuda/phase.cuh"
#include "ops/assign/cuda/open/found.cuh"

#define LEAST_LISTED 4096 /* rows that meet all centroids; fewer are spread better in float64 */

/* The centroids nearest to rows [at, at + count) of s.rest; rows that this does not decide become
 * the open ones, s.last_count of them. */
template <hf_dtype X, hf_dtype C>
__device__ __forceinline__ void listed_rows(const struct tiles_job &job, struct tile_shared &sm,
                                            int64_t at, int count) {
    typedef tile_sum<X, C> S;
    const int thread = static_cast<int>(threadIdx.x), k = static_cast<int>(job.k);
    const struct tile_source source = source_of<X, C>(job, 0);
    sm.row[thread] = job.s.rest[at + min(thread, count - 1)];
    struct tile_found<S> found = tile_nothing<S>();
    for (int first = 0; first < k; first += TILE_K) {
        if (thread < TILE_K)
            sm.arg[thread] = min(first + thread, k - 1);
        __syncthreads();
        S sum[TILE_EACH][TILE_BESIDE];
        tile_sums<X, C>(source, sm, sum);
        tile_join(&found, tile_fold(sm, sum, k - first));
        __syncthreads();
    }
    const int32_t row = sm.row[tile_own()];
    const bool valid = tile_own() < count, decided = valid && tile_decides(job, found);
    if (decided)
        job.labels[row] = found.id;
    leave_row(valid && !decided, row, 0, job.s.open.row, NULL, job.s.last_count);
}

/* All blocks, with the number of rows in s.rest: goes on when all of them have been looked at. */
template <hf_dtype X, hf_dtype C>
__device__ __forceinline__ void listed_tiles(const struct tiles_job &job, struct tile_shared &sm,
                                             int64_t count, struct hf_phase *phase) {
    const int tiles = static_cast<int>((count + TILE_ROWS - 1) / TILE_ROWS);
    int own = 0;
    for (int t; (t = hf_phase_take(phase, tiles)) < tiles; own++) {
        const int64_t at = static_cast<int64_t>(t) * TILE_ROWS;
        listed_rows<X, C>(job, sm, at,
                          static_cast<int>(min(count - at, static_cast<int64_t>(TILE_ROWS))));
    }
    hf_phase_wait(phase, own, tiles);
}

#endif
