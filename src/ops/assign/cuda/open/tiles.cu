/* SPDX-License-Identifier: Apache-2.0
 * Rows of a list and all centroids (found.cuh), where the list is long. */
#include "ops/assign/cuda/open/found.cuh"

#define LEAST_LISTED 4096 /* rows that meet all centroids; fewer are spread better in float64 */

struct listed_job : tiles_job {
    const int32_t *list, *count; /* [batch, n] and [batch] */
};

template <hf_dtype X, hf_dtype C>
__device__ __forceinline__ void listed_rows(const struct listed_job &job, struct tile_shared &sm,
                                            int64_t b, int64_t begin, int count) {
    typedef tile_sum<X, C> S;
    const int thread = static_cast<int>(threadIdx.x), k = static_cast<int>(job.k);
    const struct tile_source source = source_of<X, C>(job, b);
    sm.row[thread] = job.list[b * job.n + begin + min(thread, count - 1)];
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
        job.labels[b * job.n + row] = found.id;
    leave_row(valid && !decided, row, 0, job.s.open.row + b * job.s.open.cap, NULL,
              job.s.last_count + b);
}

template <hf_dtype X, hf_dtype C>
static __global__ void __launch_bounds__(TILE_THREADS, TILE_BLOCKS)
    compare_listed(const struct listed_job job) {
    __shared__ struct tile_shared sm;
    hf_chain_wait();
    hf_chain_next();
    if (job.stop && *job.stop)
        return;
    for (int64_t b = blockIdx.y; b < job.batch; b += gridDim.y) {
        const int64_t count = job.count[b], thread = threadIdx.x;
        for (int64_t at = blockIdx.x * TILE_ROWS; at < count; at += gridDim.x * TILE_ROWS) {
            const int rows = static_cast<int>(min(count - at, static_cast<int64_t>(TILE_ROWS)));
            __syncthreads(); /* all are done with the last tile's rows */
            if (count >= LEAST_LISTED)
                listed_rows<X, C>(job, sm, b, at, rows);
            else if (thread < rows)
                job.s.open.row[b * job.s.open.cap + at + thread] =
                    job.list[b * job.n + at + thread];
        }
        if (blockIdx.x == 0 && thread == 0 && count < LEAST_LISTED)
            job.s.last_count[b] = static_cast<int32_t>(count);
    }
}

/* ---- host */

template <hf_dtype X, hf_dtype C>
static cudaError_t launch(struct hf_cuda *cuda, struct listed_job job) {
    tile_errors<X, C>(&job);
    const int64_t most = (job.n + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t share = (cuda->sms * TILE_BLOCKS + job.batch - 1) / job.batch;
    const dim3 grid((unsigned)(most < share ? most : share),
                    (unsigned)(job.batch < 65535 ? job.batch : 65535));
    return hf_chain_launch(cuda, compare_listed<X, C>, grid, TILE_THREADS, 0, 1, job);
}

hf_status hf_settle_listed(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                           const struct hf_assign_step *step, const struct hf_settle *s,
                           const int32_t **list, const int32_t **count) {
    if (!rows->problem.hard || rows->problem.metric != HF_EUCLIDEAN ||
        rows->problem.x.cols > HF_TILES_D)
        return HF_OK;
    struct listed_job job = {};
    static_cast<struct tiles_job &>(job) = tiles_job_of(rows, step, s);
    job.list = *list;
    job.count = *count;
    cudaError_t error = cudaSuccess;
    hf_for_dtype(rows->problem.x.dtype, [&](auto type) {
        constexpr hf_dtype X = decltype(type)::value;
        error = rows->problem.c_type == HF_F64 ? launch<X, HF_F64>(cuda, job)
                                               : launch<X, HF_F32>(cuda, job);
    });
    *list = s->open.row;
    *count = s->last_count;
    return hf_cuda_check(cuda, error, "assign: tiles of listed rows");
}
