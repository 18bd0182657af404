/* SPDX-License-Identifier: Apache-2.0
 * greedy on CUDA: one cooperative kernel makes all steps, see greedy_state.cuh; where the rows are
 * few, a cluster of blocks does, see greedy_few.h. */
#include "core/kernel.h"
#include "device/cuda/room.h"
#include "device/cuda/stage.h"
#include "ops/greedy/greedy_few.h"
#include "ops/greedy/greedy_steps.cuh"

/* Blocks: one for each multiprocessor, but none without a chunk. Their rows stay in shared memory
 * if those of the block that has most fit behind what else is there. */
static int blocks_of(const struct hf_cuda *cuda, const struct greedy_job &job) {
    return (int)(job.chunks < cuda->sms ? job.chunks : cuda->sms);
}

static int64_t resident_bytes(const struct greedy_job &job, int blocks) {
    const int64_t chunks = (job.chunks + blocks - 1) / blocks;
    return chunks * (GREEDY_CHUNK / GREEDY_M) * job.kp * GREEDY_WARP * (int64_t)sizeof(uint4);
}

template <int C, bool COSINE>
static hf_status launch_steps(struct hf_cuda *cuda, struct greedy_job job) {
    static_assert(sizeof(struct greedy_shared<C>) <= 99 * 1024, "what every GPU since 8.0 offers");
    const int blocks = blocks_of(cuda, job);
    const int64_t rows = resident_bytes(job, blocks);
    int64_t smem = (int64_t)sizeof(struct greedy_shared<C>);
    job.resident = smem + rows <= cuda->smem;
    smem += job.resident ? rows : 0;
    void *args[] = {&job};
    const void *kernel = (const void *)greedy_steps<C, COSINE>;
    cudaError_t error = hf_cuda_room(cuda, kernel);
    if (error == cudaSuccess)
        error = cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(GREEDY_THREADS), args,
                                            (size_t)smem, cuda->stream);
    return hf_cuda_check(cuda, error, "greedy");
}

template <bool COSINE>
static hf_status launch_metric(struct hf_cuda *cuda, const struct greedy_job &job) {
    if (job.trials <= GREEDY_N)
        return launch_steps<GREEDY_N, COSINE>(cuda, job);
    if (job.trials <= 2 * GREEDY_N)
        return launch_steps<2 * GREEDY_N, COSINE>(cuda, job);
    return launch_steps<HF_GREEDY_TRIALS, COSINE>(cuda, job);
}

static hf_status launch(struct hf_cuda *cuda, const struct greedy_job &job) {
    hf_for_dtype(job.dtype, [&](auto type) {
        greedy_convert<decltype(type)::value>
            <<<cuda->sms * 8, GREEDY_THREADS, 0, cuda->stream>>>(job);
    });
    HF_TRY(hf_cuda_launched(cuda, "greedy"));
    return job.cosine ? launch_metric<true>(cuda, job) : launch_metric<false>(cuda, job);
}

static void filter_terms(struct greedy_job *job, const struct hf_filter *filter) {
    const double d = (double)job->d;
    const double scale = filter->scale;
    job->scale = scale;
    job->slack = (float)((double)(job->kp + 4) * 0x1p-21 + 0x1p-20);
    job->floor = job->cosine ? 2 * (d + 8) * 0x1p-50 : d * (0x1p-120 + 0x1p-1070 * scale * scale);
}

static void shape(struct greedy_job *job, const struct hf_greedy_args *a) {
    job->n = a->x.rows;
    job->d = a->x.cols;
    job->dtype = a->x.dtype;
    job->kp = (job->d + GREEDY_K - 1) / GREEDY_K;
    job->chunks = (job->n + GREEDY_CHUNK - 1) / GREEDY_CHUNK;
    job->cosine = a->metric == HF_COSINE;
    job->trials = a->trials;
    job->bits = hf_fixed_bits(job->n);
    job->upto = a->upto;
    job->seed = a->seed;
    job->stream = a->stream;
    job->limit = a->limit;
    filter_terms(job, &a->filter);
}

/* The next `bytes` bytes of the workspace, aligned for anything. */
static void *carve(char *base, size_t *used, size_t bytes) {
    void *p = base ? base + *used : NULL;
    *used += (bytes + 255) / 256 * 256;
    return p;
}

static size_t layout(struct greedy_job *job, void *ws) {
    size_t used = 0;
    char *base = (char *)ws;
    const size_t rows = (size_t)job->chunks * GREEDY_CHUNK;
    job->state = (struct greedy_state *)carve(base, &used, sizeof *job->state);
    job->t = (uint4 *)carve(base, &used, rows * (size_t)job->kp * GREEDY_K * sizeof(__half));
    job->size = (float2 *)carve(base, &used, rows * sizeof *job->size);
    const size_t trials = (size_t)job->trials, chunks = (size_t)job->chunks;
    for (int odd = 0; odd < 2; odd++) {
        job->mask[odd] = (unsigned *)carve(base, &used, rows * sizeof(unsigned));
        job->found[odd] = (double *)carve(base, &used, trials * (size_t)job->n * sizeof(double));
        job->lost[odd] = (hf_u64 *)carve(base, &used, trials * chunks * sizeof(hf_u64));
        job->sum[odd] = (hf_u64 *)carve(base, &used, chunks * sizeof(hf_u64));
    }
    return used;
}

static size_t greedy_workspace(const struct hf_call *call) {
    struct greedy_job job;
    shape(&job, (const struct hf_greedy_args *)call->args);
    return layout(&job, NULL);
}

/* Device views of everything. */
static void view(struct hf_stage *stage, const struct hf_greedy_args *a, struct greedy_job *job) {
    const size_t column = (size_t)job->n * sizeof(double);
    const size_t d = (size_t)job->d, upto = (size_t)a->upto;
    const hf_array x = hf_stage_array(stage, &a->x);
    job->x = (const char *)x.data;
    job->row_bytes = (x.row_stride ? x.row_stride : job->d) * (int64_t)hf_dtype_bytes(x.dtype);
    job->weights = (const double *)hf_stage_in(stage, a->weights, column);
    const double *shift = job->cosine ? NULL : a->filter.shift;
    job->shift = (const double *)hf_stage_in(stage, shift, d * sizeof(double));
    job->unit = (double *)hf_stage_inout(stage, a->unit, sizeof(double));
    job->nearest = (double *)hf_stage_inout(stage, a->nearest, column);
    job->chosen = (int64_t *)hf_stage_inout(stage, a->chosen, upto * sizeof(int64_t));
    job->centroids = (double *)hf_stage_inout(stage, a->centroids, upto * d * sizeof(double));
    job->count = (int64_t *)hf_stage_inout(stage, a->count, sizeof(int64_t));
}

static hf_status greedy_run(const struct hf_call *call) {
    const struct hf_greedy_args *a = (const struct hf_greedy_args *)call->args;
    struct hf_cuda *cuda = (struct hf_cuda *)call->stream;
    struct hf_stage stage;
    struct greedy_job job;
    hf_stage_begin(&stage, call->stream);
    shape(&job, a);
    layout(&job, call->ws);
    view(&stage, a, &job);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    hf_status status = hf_cuda_check(
        cuda, cudaMemsetAsync(job.state, 0, sizeof *job.state, cuda->stream), "greedy");
    if (status == HF_OK)
        status = launch(cuda, job);
    return hf_stage_end(&stage, status);
}

/* A step is a meeting of all blocks and a chain of small loads, or the rows from the memory. */
static double greedy_estimate(const struct hf_call *call) {
    const struct hf_greedy_args *a = (const struct hf_greedy_args *)call->args;
    return (double)a->upto * (8000 + 2 * (double)a->x.rows * (double)a->x.cols / 3500);
}

static bool few_supports(const struct hf_call *call) {
    const struct hf_greedy_args *a = (const struct hf_greedy_args *)call->args;
    return a->x.rows <= HF_GREEDY_FEW_ROWS && a->metric != HF_COSINE &&
           (a->room == 0 || hf_greedy_few_bytes(a->x.rows) <= a->room);
}

static size_t few_workspace(const struct hf_call *call) {
    return hf_greedy_few_bytes(((const struct hf_greedy_args *)call->args)->x.rows);
}

static hf_status few_run(const struct hf_call *call) {
    const struct hf_greedy_args *a = (const struct hf_greedy_args *)call->args;
    struct hf_stage stage;
    struct greedy_job job = {};
    hf_stage_begin(&stage, call->stream);
    shape(&job, a);
    view(&stage, a, &job);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    return hf_stage_end(&stage, hf_greedy_few_run((struct hf_cuda *)call->stream, job, call->ws));
}

/* All distances, then steps within a cluster. */
static double few_estimate(const struct hf_call *call) {
    const struct hf_greedy_args *a = (const struct hf_greedy_args *)call->args;
    const double n = (double)a->x.rows;
    return 20000 + 2 * n * n * (double)a->x.cols / 8000 + 1500 * (double)a->upto;
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("greedy_any_cuda", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER,
                   HF_TILE(GREEDY_PASS, GREEDY_N, GREEDY_K), NULL, greedy_workspace, greedy_run,
                   greedy_estimate, NULL),
    HF_CUDA_KERNEL("greedy_few_sm90", HF_DT_DATA, 90, HF_TRAIT_FIXED_ORDER,
                   HF_TILE(HF_GREEDY_FEW_ROWS, 0, 0), few_supports, few_workspace, few_run,
                   few_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_greedy_kernels_cuda;
const struct hf_kernel_table hf_greedy_kernels_cuda = {kernels, 2};
}
