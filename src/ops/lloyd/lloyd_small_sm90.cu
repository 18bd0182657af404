/* SPDX-License-Identifier: Apache-2.0
 * The kernel. An iteration of a problem: labels of all rows; its blocks wait; new centroids; they
 * wait again. Row counts of changed labels, sums and tallies are integers, so nothing depends on
 * who comes first. */
#include "ops/lloyd/lloyd_small_label.cuh"
#include "ops/lloyd/lloyd_small_means.cuh"
#include <cudaTypedefs.h>

/* Is every sum one limb times a unit, every divisor a count, and no quotient near the ends of the
 * range? As is_plain() of lloyd_cuda_conclude.cu. */
template <class S>
static __device__ bool small_is_plain(const struct small_args &a, const struct small_memory<S> *m) {
    const struct hf_update_job &u = a.job.update;
    bool plain = u.limbs == 1 && u.weight == NULL;
    for (int f = (int)threadIdx.x; plain && f < (int)u.d; f += S::THREADS)
        plain = m->unit[f] > 0x1p-700 && m->unit[f] < 0x1p700;
    return __syncthreads_and(plain);
}

/* What stays the same in all iterations of a problem. */
template <class S>
static __device__ void small_open(const struct small_args &a, struct small_memory<S> *m,
                                  const CUtensorMap *map, struct small_place *w) {
    const struct hf_update_job &u = a.job.update;
    const int first = (int)((int64_t)a.units * w->g / a.blocks);
    const int end = (int)((int64_t)a.units * (w->g + 1) / a.blocks);
    w->first = first + (int)threadIdx.x / 128;
    w->count = end > w->first ? (end - w->first + S::WGS - 1) / S::WGS : 0;
    __syncthreads(); /* nobody needs the last problem's any more */
    small_load_first(m, map, w);
    for (int f = (int)threadIdx.x; f < (int)u.d; f += S::THREADS) {
        m->mult[f] = u.mult[w->p * u.mult_stride + f];
        m->unit[f] = a.job.rule.unit[w->p * u.d + f];
        m->shift[f] = a.job.rule.shift[f];
        m->base[f] = a.shift != NULL ? a.shift[f] : 0;
    }
    if (threadIdx.x == 0) {
        struct known *const known = &m->totals.known;
        memset(known, 0, sizeof *known);
        known->state = a.job.state[w->p];
        known->tol = a.job.tol[w->p];
        known->total_square = a.job.total_square[w->p];
        known->slack = a.job.slack[w->p];
        m->changed = m->rechecked = 0;
        m->moves = 0;
        m->go = true;
    }
    __syncthreads();
    const bool plain = small_is_plain(a, m);
    if (threadIdx.x == 0)
        m->plain = plain;
}

/* This iteration's share of counters that only grow. Between the two waits nobody adds. */
template <class S>
static __device__ void small_count(const struct small_args &a, struct small_memory<S> *m, int p) {
    const unsigned long long changed = __ldcg(&a.counters[p].changed);
    const unsigned long long rechecked = __ldcg(&a.counters[p].rechecked);
    m->totals.known.counts.changed = changed - m->changed;
    m->totals.known.counts.rechecked = rechecked - m->rechecked;
    m->changed = changed;
    m->rechecked = rechecked;
}

/* Where the caller has them: the last centroids in centers[0], those before in centers[1]. */
template <class S>
static __device__ void small_put_back(const struct small_args &a, const struct small_memory<S> *m,
                                      const struct small_place &w) {
    const struct hf_lloyd_job &job = a.job;
    const int64_t values = job.update.k * job.update.d;
    if (m->moves % 2 == 0)
        return;
    for (int64_t i = w.g * S::THREADS + threadIdx.x; i < values; i += a.blocks * S::THREADS) {
        const int64_t at = w.p * values + i;
        const double last = center_at(job.centers[1], job.rule.type, at);
        put_center(job.centers[1], job.rule.type, at, center_at(job.centers[0], job.rule.type, at));
        put_center(job.centers[0], job.rule.type, at, last);
    }
}

template <class S>
static __device__ void small_problem(const struct small_args &a, struct small_memory<S> *m,
                                     const CUtensorMap *map, struct small_place *w) {
    small_open(a, m, map, w);
    small_pack_first<S>(a, *w);
    small_wait(a, *w);
    bool first = true;
    for (;;) {
        small_turn(a, m, w, !first);
        if (!m->go)
            break;
        small_label(a, m, map, w, first);
        small_wait(a, *w);
        if (threadIdx.x == S::THREADS - 1)
            small_count(a, m, w->p);
        small_move(a, m, *w);
        small_wait(a, *w);
        first = false;
    }
    small_drain(m, w, true);
    small_put_back(a, m, *w);
    if (threadIdx.x == 0 && w->g == 0) {
        const struct hf_lloyd_state &state = m->totals.known.state;
        atomicMax(a.steps, state.iterations + (state.stop >= HF_LLOYD_EMPTY));
    }
}

/* Labels and sums of a problem that ended early follow its last centroids, whose tile is there. */
template <class S>
static __device__ void small_catch_up(const struct small_args &a, struct small_memory<S> *m,
                                      const CUtensorMap *map, struct small_place *w) {
    const struct hf_lloyd_state state = a.job.state[w->p];
    if (state.stop != HF_STOP_TOL || state.iterations >= *a.steps)
        return;
    small_open(a, m, map, w);
    small_turn(a, m, w, false);
    small_label(a, m, map, w, true);
    small_drain(m, w, true);
}

template <class S>
static __global__ void __launch_bounds__(S::THREADS, 1)
    lloyd_small(const __grid_constant__ CUtensorMap map, const __grid_constant__ small_args a) {
    extern __shared__ __align__(1024) uint8_t memory[];
    struct small_memory<S> *const m = (struct small_memory<S> *)memory;
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::WGS * S::STAGES; i++)
            hf_mbar_init(hf_shared(&m->full[0][i]), 1);
        hf_mbar_init(hf_shared(&m->ready), 1);
        hf_mbar_init_fence();
    }
    __syncthreads();
    struct small_place w = {};
    const int group = (int)blockIdx.x / a.blocks;
    const int batch = (int)a.job.update.batch;
    w.g = (int)blockIdx.x % a.blocks;
    for (w.p = group; w.p < batch; w.p += a.groups)
        small_problem(a, m, &map, &w);
    if (batch == 1)
        return;
    hf_grid_wait(a.barrier);
    for (w.p = group; w.p < batch; w.p += a.groups)
        small_catch_up(a, m, &map, &w);
}

/* ---- host */

/* Memory of a run, in this order. */
static size_t small_packed_bytes(int64_t batch) {
    return (size_t)batch * (HF_LLOYD_SMALL_K * (HF_LLOYD_SMALL_D * 2 + 4));
}

static size_t small_zero_bytes(int64_t batch) {
    return ((size_t)batch * sizeof(struct small_counters) + 256 + 255) / 256 * 256;
}

size_t hf_lloyd_small_bytes(int64_t batch) {
    return small_packed_bytes(batch) + small_zero_bytes(batch) +
           (size_t)batch * HF_LLOYD_SMALL_K * sizeof(struct small_cluster);
}

bool hf_lloyd_small_supports(const struct hf_lloyd_args *a) {
    return a->rule.metric == HF_EUCLIDEAN && a->exact && a->sums->k <= HF_LLOYD_SMALL_K &&
           a->sums->d <= HF_LLOYD_SMALL_D && a->skipping != HF_SKIP_ON &&
           (double)a->x.rows * (double)a->x.cols <= HF_LLOYD_SMALL_VALUES;
}

bool hf_lloyd_small_takes(const struct hf_cuda *cuda, const struct hf_assign_rows *rows) {
    return cuda->sm == 90 && (rows->kind == HF_ASSIGN_TENSOR || rows->kind == HF_ASSIGN_SHORT);
}

/* The rows as the copy engine sees them: boxes of 64 rows and 64 columns. */
static hf_status small_map(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                           CUtensorMap *map) {
    void *entry = NULL;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    HF_TRY(hf_cuda_check(cuda,
                         cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                                          cudaEnableDefault, &found),
                         "cuTensorMapEncodeTiled"));
    if (found != cudaDriverEntryPointSuccess)
        return hf_cuda_check(cuda, cudaErrorNotSupported, "cuTensorMapEncodeTiled");
    const cuuint64_t dims[3] = {(cuuint64_t)rows->problem.x.cols, (cuuint64_t)rows->n,
                                (cuuint64_t)rows->problem.batch};
    const cuuint64_t steps[2] = {(cuuint64_t)rows->ld * 2,
                                 (cuuint64_t)rows->ld * 2 * (cuuint64_t)rows->n};
    const cuuint32_t box[3] = {64, FILTER_WG_ROWS, 1};
    const cuuint32_t every[3] = {1, 1, 1};
    const CUresult result = ((PFN_cuTensorMapEncodeTiled_v12000)entry)(
        map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, (void *)(uintptr_t)rows->x16, dims, steps, box,
        every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return hf_cuda_check(cuda, result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue,
                         "tensor map of the rows");
}

static struct small_args make_args(const struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                                   const struct hf_assign_rows *rows, int dp, void *memory) {
    struct small_args a = {};
    const int64_t batch = job->update.batch, n = rows->n;
    uint8_t *at = (uint8_t *)memory;
    a.job = *job;
    a.filter.acc = (float)(dp / 16 + 3) * 0x1p-19f; /* see assign_filter.cu */
    a.filter.slack = (float)(job->update.d + 8) * 0x1p-53f;
    a.filter.tiny = 0x1p-100f; /* biases may underflow */
    a.filter.minus_zero = -0.0f;
    a.norm = rows->norm;
    a.loss = rows->raw ? NULL : rows->loss;
    a.shift = rows->shift;
    a.scale = rows->raw ? 1 : rows->scale;
    a.packed = at;
    at += small_packed_bytes(batch);
    a.steps = (int32_t *)at;
    a.barrier = (unsigned *)at + 1;
    a.counters = (struct small_counters *)(at + 256);
    a.clusters = (struct small_cluster *)(at + small_zero_bytes(batch));
    a.units = (int)((n + FILTER_WG_ROWS - 1) / FILTER_WG_ROWS);
    a.groups = (int)(batch < cuda->sms ? batch : cuda->sms);
    a.blocks = cuda->sms / a.groups;
    a.blocks = a.blocks < a.units ? a.blocks : a.units;
    return a;
}

template <int DP, bool RAW>
static hf_status small_start(struct hf_cuda *cuda, CUtensorMap map, struct small_args a) {
    typedef struct small_shape<DP, RAW> S;
    const void *kernel = (const void *)lloyd_small<S>;
    const int bytes = (int)sizeof(struct small_memory<S>);
    void *args[] = {&map, &a};
    cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error == cudaSuccess)
        error = cudaLaunchCooperativeKernel(kernel, dim3((unsigned)(a.groups * a.blocks)),
                                            dim3(S::THREADS), args, (size_t)bytes, cuda->stream);
    return hf_cuda_check(cuda, error, "lloyd_small");
}

hf_status hf_lloyd_small_run(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                             const struct hf_assign_rows *rows, void *memory) {
    CUtensorMap map;
    const int dp = job->update.d <= 64 ? 64 : 128;
    const struct small_args a = make_args(cuda, job, rows, dp, memory);
    HF_TRY(hf_cuda_check(cuda,
                         cudaMemsetAsync((uint8_t *)memory + small_packed_bytes(job->update.batch),
                                         0, small_zero_bytes(job->update.batch), cuda->stream),
                         "lloyd_small: counters"));
    HF_TRY(small_map(cuda, rows, &map));
    if (dp == 64)
        return rows->raw ? small_start<64, true>(cuda, map, a)
                         : small_start<64, false>(cuda, map, a);
    return rows->raw ? small_start<128, true>(cuda, map, a) : small_start<128, false>(cuda, map, a);
}
