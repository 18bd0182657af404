/* SPDX-License-Identifier: Apache-2.0
 * Open rows and the neighbours of their labels so far (found.cuh). Rows with the same label a,
 * which any may have, meet the centroids nearest to a, until by the triangle inequality none beyond
 * can be nearer: |x - c_j| >= |c_j - c_a| - |x - c_a|. Rows that this cannot decide are left to
 * others. It pays where many rows are open, so one launch makes all of it, which ends at once where
 * few are: launches that find nothing to do would cost more than the rest of a small step. */
#include "base/mem.h"
#include "device/cuda/phase.cuh"
#include "ops/assign/cuda/open/lists.cuh"
#include "ops/assign/cuda/open/order.cuh"

/* Rows of one label. */
struct near_tile {
    int label, first, count;
};

/* All lanes: the label whose tiles have number t among them. */
__device__ static struct near_tile find_tile(const struct tiles_job &job, int t) {
    const struct hf_neighbors &neighbors = job.s.neighbors;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int label = 0;
    for (int size = static_cast<int>(job.k); size > 1;) {
        const int step = (size + 31) / 32, at = lane * step;
        const unsigned before = __ballot_sync(~0u, at < size && neighbors.tile[label + at] <= t);
        const int last = 31 - __clz(static_cast<int>(before));
        label += last * step;
        size = min(step, size - last * step);
    }
    const int begin = label > 0 ? neighbors.place[label - 1] : 0, end = neighbors.place[label];
    const int first = begin + (t - neighbors.tile[label]) * TILE_ROWS;
    return {label, first, min(TILE_ROWS, end - first)};
}

/* Bounds of a row that is decided. beyond: all that were not looked at are at least so far away. */
template <typename S>
__device__ static void put_bounds(const struct tiles_job &job, int64_t row,
                                  const struct tile_found<S> &f, double beyond) {
    const double second = static_cast<double>(f.second) * (1 - job.share) - job.tiny;
    job.s.bounds.upper[row] =
        hf_bounds_up(sqrt(static_cast<double>(f.least) * (1 + job.share) + job.tiny));
    job.s.bounds.lower[row] = hf_bounds_down(fmin(sqrt(fmax(second, 0.0)), beyond));
}

/* A tile. Neighbours come TILE_K at a time; a row is done when the next are too far away for it,
 * and given up when so are not all that are listed. */
template <hf_dtype X, hf_dtype C>
__device__ __forceinline__ void near_rows(const struct tiles_job &job, struct tile_shared &sm,
                                          const struct near_tile &tile, bool bounded) {
    typedef tile_sum<X, C> S;
    const struct hf_neighbors &neighbors = job.s.neighbors;
    const int thread = static_cast<int>(threadIdx.x);
    const uint16_t *const list = neighbors.list + static_cast<int64_t>(tile.label) * HF_NEIGHBORS;
    const double *const edge =
        neighbors.edge + static_cast<int64_t>(tile.label) * (HF_NEIGHBORS_STEPS + 1);
    const int listed = static_cast<int>(job.k < HF_NEIGHBORS ? job.k : HF_NEIGHBORS);
    const struct tile_source source = source_of<X, C>(job, 0);
    sm.row[thread] = neighbors.row[tile.first + min(thread, tile.count - 1)];
    const bool valid = tile_own() < tile.count;
    struct tile_found<S> found = tile_nothing<S>();
    double own = 0, beyond = 0; /* at least how far its label's centroid, at most how far others */
    bool done = false, wants = valid;
    for (int first = 0; __syncthreads_or(wants && first < listed); first += TILE_K) {
        if (thread < TILE_K)
            sm.arg[thread] = list[min(first + thread, listed - 1)];
        __syncthreads();
        S sum[TILE_EACH][TILE_BESIDE];
        tile_sums<X, C>(source, sm, sum);
        const struct tile_found<S> these = tile_fold(sm, sum, listed - first);
        const S to_label = tile_first_sum(sum);
        if (!wants) /* what is found out about a row does not depend on the rows beside it */
            continue;
        tile_join(&found, these);
        if (first == 0)
            own = tile_reach(job, to_label);
        const double reach = own + tile_reach(job, found.least), next = edge[first / TILE_K + 1];
        done = next > reach;
        wants = !done && edge[HF_NEIGHBORS_STEPS] > reach;
        beyond = next - own;
    }
    const int32_t row = sm.row[tile_own()];
    const bool decided = valid && done && tile_decides(job, found), left = valid && !decided;
    if (decided)
        job.labels[row] = found.id;
    if (decided && bounded)
        put_bounds(job, row, found, beyond);
    const float threshold = left ? neighbors.threshold[tile.first + tile_own()] : 0;
    leave_row(left, row, threshold, job.s.open.row, job.s.open.threshold, job.s.left_count);
}

/* How many open rows each label has. shares: parts of the open rows. */
__device__ static void count_labels(const struct tiles_job &job, struct tile_shared &sm, int count,
                                    int shares) {
    struct hf_phase *const phase = job.s.phases + HF_PHASE_COUNT;
    int own = 0;
    for (int t; (t = hf_phase_take(phase, shares)) < shares; own++)
        order_count(job, order_share_of(count, t, shares), reinterpret_cast<int *>(&sm));
    hf_phase_wait(phase, own, shares);
}

/* The places of the labels' rows, and the distances of all centroids. */
template <hf_dtype C>
__device__ static void find_places(const struct tiles_job &job, const struct lists_of &lists,
                                   struct tile_shared &sm) {
    struct hf_phase *const phase = job.s.phases + HF_PHASE_PLACE;
    const int k = static_cast<int>(job.k);
    const int squares = (k + TILE_ROWS - 1) / TILE_ROWS * ((k + TILE_K - 1) / TILE_K);
    int own = 0;
    for (int t; (t = hf_phase_take(phase, 1 + squares)) < 1 + squares; own++)
        if (t == 0)
            order_places(job);
        else
            list_squares<C>(job, lists, sm, t - 1);
    hf_phase_wait(phase, own, 1 + squares);
}

/* Rows to their places; neighbours of the labels that have open rows. */
template <hf_dtype C>
__device__ static void list_rows(const struct tiles_job &job, const struct lists_of &lists,
                                 struct tile_shared &sm, int count, int shares) {
    struct hf_phase *const phase = job.s.phases + HF_PHASE_LIST;
    const int items = shares + static_cast<int>(job.k);
    int own = 0;
    for (int t; (t = hf_phase_take(phase, items)) < items; own++) {
        const int a = t - shares;
        if (a < 0)
            order_rows(job, order_share_of(count, t, shares), reinterpret_cast<int *>(&sm));
        else if (job.s.neighbors.tile[a] != job.s.neighbors.tile[a + 1])
            list_neighbors<tile_sum<C, C>>(job, lists, reinterpret_cast<unsigned long long *>(&sm),
                                           a);
    }
    hf_phase_wait(phase, own, items);
}

/* The labels of a step that has many open rows. */
template <hf_dtype X, hf_dtype C>
static __global__ void __launch_bounds__(TILE_THREADS, TILE_BLOCKS)
    settle_neighbors(const struct tiles_job job, const struct lists_of lists) {
    __shared__ struct tile_shared sm;
    hf_chain_wait();
    hf_chain_next();
    if (job.stop && *job.stop)
        return;
    const int count = order_rows_wanted(job), shares = static_cast<int>(gridDim.x);
    if (count == 0) {
        if (blockIdx.x == 0 && threadIdx.x == 0)
            *job.s.left_count = *job.s.open.count; /* all of them */
        return;
    }
    count_labels(job, sm, count, shares);
    find_places<C>(job, lists, sm);
    list_rows<C>(job, lists, sm, count, shares);
    const bool bounded = hf_bounds_wanted(job.s.bounds);
    for (int t = static_cast<int>(blockIdx.x); t < job.s.neighbors.tile[job.k]; t += shares) {
        const struct near_tile tile = find_tile(job, t);
        __syncthreads(); /* all are done with the last one's rows */
        near_rows<X, C>(job, sm, tile, bounded);
    }
}

/* ---- host */

bool hf_neighbors_carve(const struct hf_assign_problem *p, void *ws, size_t room,
                        struct hf_neighbors *neighbors) {
    *neighbors = (struct hf_neighbors){};
    const bool wide = p->x.dtype == HF_F64 || p->c_type == HF_F64;
    if (p->batch != 1 || p->metric != HF_EUCLIDEAN || p->k < 2 || p->k > HF_NEIGHBORS_K ||
        p->x.cols > HF_TILES_D)
        return false;
    const size_t n = (size_t)p->x.rows, k = (size_t)p->k;
    hf_carve carve = {(char *)ws, 0};
    struct hf_neighbors all = {};
    all.row = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * n);
    all.threshold = (float *)hf_carve_take(&carve, sizeof(float) * n);
    all.place = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * k);
    all.tile = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * (k + 1));
    all.square = hf_carve_take(&carve, (wide ? sizeof(double) : sizeof(float)) * k * k);
    all.list = (uint16_t *)hf_carve_take(&carve, sizeof(uint16_t) * HF_NEIGHBORS * k);
    all.edge = (double *)hf_carve_take(&carve, sizeof(double) * (HF_NEIGHBORS_STEPS + 1) * k);
    if (carve.used > room)
        return false;
    *neighbors = all;
    return true;
}

template <hf_dtype X, hf_dtype C>
static cudaError_t launch(struct hf_cuda *cuda, struct tiles_job job) {
    const int64_t bytes = job.d * (int64_t)hf_device_bytes<C>;
    struct lists_of lists = {tile_aligned<C, C>(job.c, bytes, job.c, job.d),
                             tile_share<C, C>(job.d), tile_tiny<C, C>(job.d)};
    tile_errors<X, C>(&job);
    int blocks = 0;
    const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, settle_neighbors<X, C>, TILE_THREADS, 0);
    if (error != cudaSuccess)
        return error;
    return hf_chain_launch(cuda, settle_neighbors<X, C>, dim3((unsigned)(cuda->sms * blocks)),
                           TILE_THREADS, 0, 1, job, lists);
}

hf_status hf_settle_by_neighbors(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                                 const struct hf_assign_step *step, struct hf_settle *s) {
    if (s->neighbors.row == NULL || !rows->problem.hard || !tiles_serve(&rows->problem))
        return HF_OK;
    const struct tiles_job job = tiles_job_of(rows, step, s);
    cudaError_t error = cudaSuccess;
    hf_for_dtype(rows->problem.x.dtype, [&](auto type) {
        constexpr hf_dtype X = decltype(type)::value;
        error = launch<X, tile_center<X>>(cuda, job);
    });
    s->open.count = s->left_count;
    return hf_cuda_check(cuda, error, "assign: neighbours of open rows");
}
