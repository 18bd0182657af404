/* SPDX-License-Identifier: Apache-2.0
 * greedy on CUDA: all steps are queued at once, the state stays on the device. */
#include "core/kernel.h"
#include "device/cuda/stage.h"
#include "ops/greedy/greedy_commit.cuh"
#include "ops/greedy/greedy_evaluate.cuh"

/* The state as the caller has it; the rest is 0. */
static __global__ void greedy_begin(const struct greedy_job job) {
    job.state->count = *job.count;
    job.state->unit = *job.unit;
    job.state->stop = 0;
    job.state->done = 0;
    for (int l = 0; l < HF_GREEDY_TRIALS; l++)
        job.state->gain[l] = 0;
}

template <hf_dtype T, int C>
static void launch_steps(struct hf_cuda *cuda, const struct greedy_job &job, int64_t steps) {
    const unsigned tiles = (unsigned)job.tiles;
    for (int64_t s = 0; s < steps; s++) {
        if (job.cosine)
            greedy_evaluate<T, C, true><<<tiles, EVALUATE_THREADS, 0, cuda->stream>>>(job);
        else
            greedy_evaluate<T, C, false><<<tiles, EVALUATE_THREADS, 0, cuda->stream>>>(job);
        greedy_commit<false><<<tiles, GREEDY_TILE, 0, cuda->stream>>>(job);
    }
}

template <hf_dtype T>
static void launch_type(struct hf_cuda *cuda, const struct greedy_job &job, int64_t steps) {
    greedy_begin<<<1, 1, 0, cuda->stream>>>(job);
    greedy_convert<T><<<cuda->sms * 8, 128, 0, cuda->stream>>>(job);
    greedy_commit<true><<<(unsigned)job.tiles, GREEDY_TILE, 0, cuda->stream>>>(job);
    if (job.trials <= 8)
        launch_steps<T, 8>(cuda, job, steps);
    else if (job.trials <= 12)
        launch_steps<T, 12>(cuda, job, steps);
    else
        launch_steps<T, HF_GREEDY_TRIALS>(cuda, job, steps);
}

/* seed_filter_terms() of seed_filter.h, for sums of dp terms one after the other. */
static void filter_terms(struct greedy_job *job, const struct hf_filter *filter) {
    const double unit = 0x1p-24;
    const double m = (double)(job->dp + 6) * unit;
    const double scale = filter->scale;
    job->scale = job->x.dtype == HF_F64 || scale < 0x1p127 ? scale : 0x1p127;
    job->slack = m < 0.25 ? 2 * m / (1 - m) + 12 * unit + ((double)job->d + 8) * 0x1p-50 : 1;
    job->floor = (double)job->d * (0x1p-120 + 0x1p-1070 * job->scale * job->scale);
}

static void shape(struct greedy_job *job, const struct hf_greedy_args *a) {
    job->x = a->x;
    job->n = a->x.rows;
    job->d = a->x.cols;
    job->dp = (job->d + 3) / 4 * 4;
    job->tiles = (job->n + GREEDY_TILE - 1) / GREEDY_TILE;
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
    const size_t rows = (size_t)job->tiles * GREEDY_TILE;
    const size_t trials = (size_t)job->trials;
    job->state = (struct greedy_state *)carve(base, &used, sizeof *job->state);
    job->t = (float *)carve(base, &used, rows * (size_t)job->dp * sizeof(float));
    job->nx = (float *)carve(base, &used, rows * sizeof(float));
    job->c = (float *)carve(base, &used, trials * (size_t)job->dp * sizeof(float));
    job->c64 = (double *)carve(base, &used, trials * (size_t)job->d * sizeof(double));
    job->mask = (unsigned *)carve(base, &used, rows * sizeof(unsigned));
    job->found = (double *)carve(base, &used, trials * (size_t)job->n * sizeof(double));
    job->tile = (hf_u64 *)carve(base, &used, (size_t)job->tiles * sizeof(hf_u64));
    return used;
}

static size_t greedy_workspace(const void *p, int workers) {
    (void)workers;
    struct greedy_job job;
    shape(&job, (const struct hf_greedy_args *)p);
    return layout(&job, NULL);
}

/* How many steps to queue; the device may find that fewer are needed. */
static hf_status steps_left(struct hf_cuda *cuda, const struct hf_greedy_args *a, int64_t *steps) {
    int64_t count = 0;
    HF_TRY(hf_cuda_check(
        cuda, cudaMemcpyAsync(&count, a->count, sizeof count, cudaMemcpyDefault, cuda->stream),
        "greedy"));
    HF_TRY(hf_cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "greedy"));
    *steps = a->upto > count ? a->upto - count : 0;
    return HF_OK;
}

static hf_status greedy_run(void *stream, const void *p, void *ws) {
    const struct hf_greedy_args *a = (const struct hf_greedy_args *)p;
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    struct hf_stage stage;
    struct greedy_job job;
    int64_t steps = 0;
    HF_TRY(steps_left(cuda, a, &steps));
    hf_stage_begin(&stage, stream);
    shape(&job, a);
    layout(&job, ws);
    const size_t column = (size_t)job.n * sizeof(double);
    job.x = hf_stage_array(&stage, &a->x);
    job.row_bytes =
        (job.x.row_stride ? job.x.row_stride : job.d) * (int64_t)hf_dtype_bytes(job.x.dtype);
    job.weights = (const double *)hf_stage_in(&stage, a->weights, column);
    const double *shift = job.cosine ? NULL : a->filter.shift;
    job.shift = (const double *)hf_stage_in(&stage, shift, (size_t)job.d * sizeof(double));
    job.unit = (double *)hf_stage_inout(&stage, a->unit, sizeof(double));
    job.nearest = (double *)hf_stage_inout(&stage, a->nearest, column);
    job.chosen = (int64_t *)hf_stage_inout(&stage, a->chosen, (size_t)a->upto * sizeof(int64_t));
    job.centroids = (double *)hf_stage_inout(&stage, a->centroids,
                                             (size_t)a->upto * (size_t)job.d * sizeof(double));
    job.count = (int64_t *)hf_stage_inout(&stage, a->count, sizeof(int64_t));
    if (stage.status != HF_OK)
        return hf_stage_end(&stage, HF_OK);
    hf_for_dtype(job.x.dtype,
                 [&](auto type) { launch_type<decltype(type)::value>(cuda, job, steps); });
    return hf_stage_end(&stage, hf_cuda_launched(cuda, "greedy"));
}

/* Two launches a step, and the rows from the memory or the cache. */
static double greedy_estimate(const void *p) {
    const struct hf_greedy_args *a = (const struct hf_greedy_args *)p;
    return (double)a->upto * (8000 + 4 * (double)a->x.rows * (double)a->x.cols / 4000);
}

static const struct hf_kernel rows[] = {{"greedy_any_cuda",
                                         HF_DEV_CUDA,
                                         HF_DT_DATA,
                                         80,
                                         HF_TRAIT_FIXED_ORDER,
                                         0,
                                         {GREEDY_TILE, 0, 0},
                                         NULL,
                                         greedy_workspace,
                                         greedy_run,
                                         greedy_estimate}};

extern "C" {
extern const struct hf_kernel_table hf_greedy_rows_cuda;
const struct hf_kernel_table hf_greedy_rows_cuda = {rows, 1};
}
