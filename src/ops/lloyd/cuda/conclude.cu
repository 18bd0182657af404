/* SPDX-License-Identifier: Apache-2.0
 * One cooperative launch that ends an iteration. Three parts, between which all blocks wait:
 * the sums follow the labels; a warp computes the centroid of a cluster, how far it moved and its
 * part of the inertia; a block adds these up for a problem and decides whether it goes on. The
 * second part is op means, in the form that needs no launch of its own: the float64 operations and
 * their order are those of that op. */
#include "ops/lloyd/cuda/follow.cuh"
#include "ops/lloyd/cuda/means.cuh"

/* ---- centroids */

/* At least the distance whose square this is: 2^-20 covers the sum, 2^-126 what underflows. No
 * square of float32 centroids does: there 0 means that nothing moved. */
static __device__ __forceinline__ float drift_above(double square, hf_dtype type) {
    if (square == 0 && type != HF_F64)
        return 0;
    return __double2float_ru(sqrt(square) * (1 + 0x1p-20)) + 0x1p-126f;
}

/* A cluster: its new centroid, and its parts of inertia and shift. */
template <bool PLAIN>
static __device__ void move_center(const struct hf_lloyd_job &job, const struct cluster &c, int g,
                                   int side) {
    const void *now = job.centers[side];
    struct divisor divisor;
    divisor.b = PLAIN ? c.weight : divisor_of(job, c);
    divisor.y = PLAIN ? __drcp_rn(divisor.b) : 0;
    struct lane_sums lane = {0, 0, 0};
    const int d = (int)job.update.d;
    constexpr int COLUMNS = PLAIN ? 4 : 1; /* whose loads are under way together */
    int f = (int)threadIdx.x % UPDATE_WARP;
    for (; f + (COLUMNS - 1) * UPDATE_WARP < d; f += COLUMNS * UPDATE_WARP) {
        int64_t sum[COLUMNS];
        double before[COLUMNS];
#pragma unroll
        for (int u = 0; u < COLUMNS; u++) {
            sum[u] = c.sum[f + u * UPDATE_WARP];
            before[u] = center_at(now, job.rule.type, c.at + f + u * UPDATE_WARP);
        }
#pragma unroll
        for (int u = 0; u < COLUMNS; u++)
            move_column<PLAIN>(job, c, divisor, {f + u * UPDATE_WARP, sum[u], before[u]},
                               job.centers[1 - side], lane);
    }
    for (; f < d; f += UPDATE_WARP)
        move_column<PLAIN>(job, c, divisor, {f, c.sum[f], center_at(now, job.rule.type, c.at + f)},
                           job.centers[1 - side], lane);
    const double inertia = inertia_part(job.rule.metric, c, lane);
    const double shift = fold_warp(lane.moved);
    if (threadIdx.x % UPDATE_WARP == 0) {
        job.inertia[g] = c.weight > 0 ? inertia : 0;
        job.shift[g] = shift;
        if (job.drift != NULL)
            job.drift[g] = drift_above(shift, job.rule.type);
    }
}

/* What the warps of a block find in their clusters, for the check of the counts. */
static __device__ __forceinline__ void tally(struct hf_lloyd_tally *t, int64_t count,
                                             double weight) {
    if (threadIdx.x % UPDATE_WARP != 0)
        return;
    atomicAdd((unsigned long long *)&t->rows, (unsigned long long)count);
    if (!(weight > 0))
        atomicAdd((unsigned long long *)&t->empty, 1ull);
    if (count < 0)
        atomicAdd((unsigned long long *)&t->negative, 1ull);
}

/* Clusters [begin, end) of problem p: a warp for each. */
template <bool PLAIN>
static __device__ void move_some(const struct hf_lloyd_job &job, int side, int p, int begin,
                                 int end) {
    __shared__ struct hf_lloyd_tally own;
    const struct hf_update_job &u = job.update;
    __syncthreads();
    if (threadIdx.x == 0)
        memset(&own, 0, sizeof own);
    __syncthreads();
    for (int g = begin + (int)threadIdx.x / UPDATE_WARP; g < end;
         g += (int)blockDim.x / UPDATE_WARP) {
        const int j = g - p * (int)u.k;
        struct cluster c;
        c.sum = u.sum + (p * u.limbs * u.k + j) * u.d;
        c.unit = job.rule.unit + p * u.d;
        c.p = p;
        c.at = (int64_t)g * u.d;
        c.weight = weight_of(u, p, j);
        tally(&own, u.count[g], c.weight);
        move_center<PLAIN>(job, c, g, side);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        update_red(&job.tally[p].rows, own.rows);
        if (own.empty > 0)
            update_red(&job.tally[p].empty, own.empty);
        if (own.negative > 0)
            update_red(&job.tally[p].negative, own.negative);
    }
}

/* Is every sum one limb times a unit, every divisor a count, and no quotient near the ends of the
 * range? */
static __device__ bool is_plain(const struct hf_lloyd_job &job, int p) {
    bool plain = job.update.limbs == 1 && job.update.weight == NULL && job.rule.metric != HF_COSINE;
    for (int64_t f = threadIdx.x; plain && f < job.update.d; f += blockDim.x) {
        const double unit = job.rule.unit[p * job.update.d + f];
        plain = unit > 0x1p-700 && unit < 0x1p700;
    }
    return __syncthreads_and(plain);
}

/* A block takes neighbouring clusters, so that they belong to few problems. */
static __device__ void move_centers(const struct hf_lloyd_job &job, int side) {
    const int k = (int)job.update.k;
    const int clusters = (int)job.update.batch * k;
    const int share = (clusters + (int)gridDim.x - 1) / (int)gridDim.x;
    int begin = (int)min((int64_t)clusters, (int64_t)blockIdx.x * share);
    const int end = (int)min((int64_t)clusters, (int64_t)begin + share);
    while (begin < end) {
        const int p = begin / k;
        const int stop = (int)min((int64_t)end, ((int64_t)p + 1) * k);
        if (job.state[p].stop == HF_STOP_NONE && job.state[p].iterations < job.count)
            is_plain(job, p) ? move_some<true>(job, side, p, begin, stop)
                             : move_some<false>(job, side, p, begin, stop);
        begin = stop;
    }
}

/* ---- the end */

static __device__ void learn(const struct hf_lloyd_job &job, int64_t p, struct known *known) {
    const struct known own = {job.tally[p],        job.state[p], job.counts[p],          job.tol[p],
                              job.total_square[p], job.slack[p], hf_slot_fault(job.slot)};
    *known = own;
}

static __device__ void total_up(const struct hf_lloyd_job &job, int64_t p, double *lane,
                                struct totals *t) {
    const int64_t k = job.update.k;
    const int warp = (int)threadIdx.x / UPDATE_WARP;
    if (threadIdx.x == HF_UPDATE_THREADS - 1)
        learn(job, p, &t->known);
    fill_lanes(job.inertia + p * k, job.shift + p * k, k, lane);
    __syncthreads();
    if (warp < 2) {
        const double sum = fold_lanes(lane + warp * TREE_LANES);
        if (threadIdx.x % UPDATE_WARP == 0)
            (warp == 0 ? t->inertia : t->shift) = sum;
    }
    __syncthreads();
}

/* One thread ends the iteration of a problem that goes on; returns whether its centroids moved. */
static __device__ bool end_iteration(const struct hf_lloyd_job &job, int64_t p,
                                     const struct totals &t) {
    struct hf_lloyd_state state;
    hf_kmeans_iteration it;
    const bool moved = end_iteration(job, t, &state, &it);
    job.history[p * job.count + t.known.state.iterations] = it;
    job.state[p] = state;
    if (p == 0) {
        job.control->state = state;
        job.control->last = it;
    }
    memset(&job.tally[p], 0, sizeof job.tally[p]);
    const bool ended = state.stop != HF_STOP_NONE || state.iterations == job.count;
    if (ended && atomicSub(&job.control->running, 1) == 1)
        job.control->halt = 1;
    return moved;
}

/* The centroids of a problem that does not move are carried along. */
static __device__ void carry_centers(const struct hf_lloyd_job &job, int64_t p, int side) {
    const int64_t k = job.update.k;
    const int64_t values = k * job.update.d;
    for (int64_t j = p * k + threadIdx.x; job.drift != NULL && j < (p + 1) * k; j += blockDim.x)
        job.drift[j] = 0;
    for (int64_t i = p * values + threadIdx.x; i < (p + 1) * values; i += blockDim.x) {
        if (job.rule.type == HF_F64)
            ((double *)job.centers[1 - side])[i] = ((const double *)job.centers[side])[i];
        else
            ((float *)job.centers[1 - side])[i] = ((const float *)job.centers[side])[i];
    }
}

/* A block for each problem. */
static __device__ void end_problems(const struct hf_lloyd_job &job, int side, double *lane) {
    __shared__ bool moved;
    __shared__ struct totals totals;
    for (int64_t p = blockIdx.x; p < job.update.batch; p += gridDim.x) {
        const bool runs = job.state[p].stop == HF_STOP_NONE && job.state[p].iterations < job.count;
        __syncthreads();
        if (runs) {
            total_up(job, p, lane, &totals);
            if (threadIdx.x == 0)
                moved = end_iteration(job, p, totals);
        } else if (threadIdx.x == 0) {
            moved = false;
        }
        __syncthreads();
        if (!moved && job.update.batch > 1)
            carry_centers(job, p, side);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        job.control->steps++;
        job.control->moves += job.update.batch > 1 || moved;
        update_release(job.update);
    }
}

template <hf_dtype T>
static __global__ void __launch_bounds__(HF_UPDATE_THREADS, HF_UPDATE_BLOCKS)
    lloyd_conclude(const __grid_constant__ struct hf_lloyd_job job, int side) {
    extern __shared__ double shared[];
    if (job.control->halt)
        return;
    follow_labels<T>(job, side, (uint32_t *)shared);
    hf_grid_wait(job.update.scratch.barrier);
    move_centers(job, side);
    hf_grid_wait(job.update.scratch.barrier);
    end_problems(job, side, shared);
}

static size_t shared_bytes(const struct hf_lloyd_job *job) {
    const size_t bins = hf_update_bins_bytes(job->update.batch, job->update.k);
    const size_t lanes = 2 * TREE_LANES * sizeof(double);
    return bins > lanes ? bins : lanes;
}

hf_status hf_lloyd_conclude(struct hf_cuda *cuda, const struct hf_lloyd_job *job, int side) {
    const dim3 grid((unsigned)cuda->sms * HF_UPDATE_BLOCKS);
    void *args[] = {(void *)job, &side};
    cudaError_t error = cudaSuccess;
    hf_for_dtype(job->update.dtype, [&](auto type) {
        error = cudaLaunchCooperativeKernel((const void *)lloyd_conclude<decltype(type)::value>,
                                            grid, dim3(HF_UPDATE_THREADS), args, shared_bytes(job),
                                            cuda->stream);
    });
    return hf_cuda_check(cuda, error, "lloyd_conclude");
}
