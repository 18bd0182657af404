/* SPDX-License-Identifier: Apache-2.0
 * greedy with OpenCL: the rows and their distances stay on the device; the host draws, and learns
 * for it the sums of blocks of rows and the rows of a block. */
#include "base/rng.h"
#include "ops/greedy/greedy.h"
#include "ops/seed/seed_launch.h"

#define SCALE_LATER ((double)1)

struct job {
    const struct hf_call *call;
    struct hf_opencl *cl;
    struct hf_greedy_args a; /* arrays on the device, but for chosen */
    struct hf_opencl_panels panels;
    double *candidates; /* [trials, d] */
    int64_t *drawn;     /* [trials] on the device */
    uint64_t *gain;     /* [trials] on the device */
    struct hf_potentials potentials;
    uint64_t total;
    double unit;
    int64_t count;
};

static size_t carve_job(struct job *job, const struct hf_greedy_args *a, void *ws) {
    hf_carve carve = {ws, 0};
    const size_t trials = (size_t)a->trials, blocks = (size_t)hf_potential_blocks(a->x.rows);
    hf_opencl_panels_carve(&carve, a->trials, a->x.cols, &job->panels);
    job->candidates = hf_carve_take(&carve, trials * (size_t)a->x.cols * sizeof(double));
    job->drawn = hf_carve_take(&carve, trials * sizeof(int64_t));
    job->gain = hf_carve_take(&carve, trials * sizeof(uint64_t));
    job->potentials.sum = hf_carve_take(&carve, blocks * sizeof(uint64_t));
    job->potentials.most = hf_carve_take(&carve, blocks * sizeof(double));
    return carve.used;
}

static size_t greedy_workspace(const struct hf_call *call) {
    struct job job;
    return carve_job(&job, call->args, NULL);
}

/* The sum of the potentials; with a new scale where there is none or the old one is too coarse. */
static hf_status add_up(struct job *job, bool refine) {
    double most = 0;
    job->potentials.unit = job->unit;
    HF_TRY(hf_potentials_add(job->call, &job->potentials, &job->total, &most));
    if (!refine || !((double)job->total < job->a.limit * HF_GREEDY_FINER))
        return HF_OK;
    job->unit = job->potentials.unit = hf_potentials_unit(job->a.x.rows, most);
    return hf_potentials_add(job->call, &job->potentials, &job->total, &most);
}

/* The row where the running sum of the potentials exceeds each target. */
static hf_status locate(struct job *job, const uint64_t *target, int64_t *row) {
    const struct hf_greedy_args *a = &job->a;
    const int64_t n = a->x.rows, blocks = hf_potential_blocks(n);
    hf_status status = HF_OK;
    for (int l = 0; l < a->trials && status == HF_OK; l++) {
        struct hf_cl_stage stage;
        hf_cl_stage_begin(&stage, job->cl);
        const uint64_t *sum =
            hf_cl_host(&stage, job->potentials.sum, (size_t)blocks * sizeof *sum, false);
        uint64_t left = target[l];
        int64_t b = 0;
        while (stage.status == HF_OK && b < blocks - 1 && left >= sum[b])
            left -= sum[b++];
        const int64_t first = b * HF_SEED_BLOCK;
        const size_t bytes = (size_t)hf_min64(HF_SEED_BLOCK, n - first) * sizeof(double);
        const double *nearest = hf_cl_host(&stage, a->nearest + first, bytes, false);
        const double *weight =
            a->weights ? hf_cl_host(&stage, a->weights + first, bytes, false) : NULL;
        int64_t i = 0;
        for (uint64_t q; stage.status == HF_OK && first + i < n - 1; i++) {
            q = hf_seed_quantum(nearest[i], weight ? weight[i] : 1, job->unit, a->limit);
            if (left < q)
                break;
            left -= q;
        }
        row[l] = first + i;
        status = hf_cl_stage_end(&stage, HF_OK);
    }
    return status;
}

static hf_status gather(struct job *job, const int64_t *row, int64_t count, double *out) {
    const hf_array *x = &job->a.x;
    HF_TRY(hf_opencl_copy(job->cl, job->drawn, row, (size_t)count * sizeof *row));
    const struct hf_cl_job run =
        hf_opencl_job(job->call->device, "gather", "gather_rows", count * x->cols);
    return hf_opencl_run(job->cl, &run, "pniipinp", x->data, (int32_t)x->dtype, x->row_stride,
                         x->cols, job->drawn, count, (int32_t)1, out);
}

static struct hf_seed_args seed_args(const struct job *job, double *candidates, int64_t count) {
    const struct hf_greedy_args *a = &job->a;
    return (struct hf_seed_args){.x = a->x,
                                 .candidates = hf_array_view(candidates, HF_F64, count, a->x.cols),
                                 .metric = a->metric,
                                 .weights = a->weights,
                                 .unit = job->unit,
                                 .limit = a->limit,
                                 .nearest = a->nearest};
}

/* The candidate that lowers the sum most, the first of equals. */
static hf_status evaluate(struct job *job, int *winner) {
    uint64_t gain[HF_GREEDY_TRIALS];
    const size_t bytes = (size_t)job->a.trials * sizeof *gain;
    struct hf_seed_args args = seed_args(job, job->candidates, job->a.trials);
    args.gain = job->gain;
    HF_TRY(hf_opencl_fill(job->cl, job->gain, 0, bytes));
    HF_TRY(hf_seed_launch(job->call, &args, &job->panels));
    HF_TRY(hf_opencl_copy(job->cl, gain, job->gain, bytes));
    *winner = 0;
    for (int l = 1; l < job->a.trials; l++)
        if (gain[l] > gain[*winner])
            *winner = l;
    return HF_OK;
}

static hf_status step(struct job *job) {
    const struct hf_greedy_args *a = &job->a;
    const double zero = 0;
    uint64_t target[HF_GREEDY_TRIALS];
    int64_t row[HF_GREEDY_TRIALS];
    int winner = 0;
    for (int l = 0; l < a->trials; l++)
        target[l] =
            hf_rng_below(a->seed, a->stream,
                         (uint64_t)job->count * (uint64_t)a->trials + (uint64_t)l, job->total);
    HF_TRY(locate(job, target, row));
    HF_TRY(gather(job, row, a->trials, job->candidates));
    HF_TRY(evaluate(job, &winner));
    double *best = job->candidates + winner * a->x.cols;
    struct hf_seed_args commit = seed_args(job, best, 1);
    commit.commit = true;
    HF_TRY(hf_seed_launch(job->call, &commit, &job->panels));
    HF_TRY(hf_opencl_copy(job->cl, a->nearest + row[winner], &zero, sizeof zero));
    if (a->centroids != NULL)
        HF_TRY(hf_opencl_copy(job->cl, a->centroids + job->count * a->x.cols, best,
                              (size_t)a->x.cols * sizeof *best));
    HF_TRY(hf_opencl_copy(job->cl, a->chosen + job->count, &row[winner], sizeof *row));
    job->count++;
    return add_up(job, true);
}

static hf_status steps(struct job *job) {
    const struct hf_greedy_args *a = &job->a;
    double unit = 0;
    HF_TRY(hf_opencl_copy(job->cl, &unit, a->unit, sizeof unit));
    HF_TRY(hf_opencl_copy(job->cl, &job->count, a->count, sizeof job->count));
    job->unit = unit != 0 ? unit : SCALE_LATER;
    HF_TRY(add_up(job, false));
    if (unit == 0) {
        double most = 0;
        HF_TRY(hf_potentials_add(job->call, &job->potentials, &job->total, &most));
        job->unit = hf_potentials_unit(a->x.rows, most);
        HF_TRY(add_up(job, false));
    }
    while (job->count < a->upto && job->total > 0)
        HF_TRY(step(job));
    HF_TRY(hf_opencl_copy(job->cl, a->unit, &job->unit, sizeof job->unit));
    return hf_opencl_copy(job->cl, a->count, &job->count, sizeof job->count);
}

static hf_status greedy_run(const struct hf_call *call) {
    const struct hf_greedy_args *args = call->args;
    struct job job = {.call = call, .cl = call->stream, .a = *args};
    struct hf_cl_stage stage;
    const size_t n = (size_t)args->x.rows * sizeof(double);
    carve_job(&job, args, call->ws);
    hf_cl_stage_begin(&stage, call->stream);
    job.a.x = hf_cl_array(&stage, &args->x);
    job.a.weights = hf_cl_in(&stage, args->weights, n);
    job.a.nearest = hf_cl_inout(&stage, args->nearest, n);
    job.a.centroids =
        hf_cl_inout(&stage, args->centroids, (size_t)(args->upto * args->x.cols) * sizeof(double));
    job.potentials.n = args->x.rows;
    job.potentials.nearest = job.a.nearest;
    job.potentials.weights = job.a.weights;
    job.potentials.limit = args->limit;
    return hf_cl_stage_end(&stage, stage.status == HF_OK ? steps(&job) : stage.status);
}

static const struct hf_kernel kernels[] = {{.name = "greedy_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = greedy_workspace,
                                            .run = greedy_run}};

const struct hf_kernel_table hf_greedy_kernels_opencl = {kernels, 1};
