/* SPDX-License-Identifier: Apache-2.0
 * spread with OpenCL: rows stay on the device; the host adds up what blocks of rows have. */
#include "ops/seed/seed_launch.h"
#include "ops/spread/spread.h"

struct job {
    const struct hf_call *call;
    struct hf_opencl *cl;
    struct hf_spread_args a; /* arrays of rows on the device */
    struct hf_potentials potentials;
    int64_t *first; /* [blocks] where the rows drawn of a block begin */
};

static size_t carve_job(struct job *job, const struct hf_spread_args *a, void *ws) {
    hf_carve carve = {ws, 0};
    const size_t blocks = (size_t)hf_potential_blocks(a->x.rows);
    job->potentials.sum = hf_carve_take(&carve, blocks * sizeof(uint64_t));
    job->potentials.most = hf_carve_take(&carve, blocks * sizeof(double));
    job->first = hf_carve_take(&carve, blocks * sizeof(int64_t));
    return carve.used;
}

static size_t spread_workspace(const struct hf_call *call) {
    struct job job;
    return carve_job(&job, call->args, NULL);
}

/* What the last candidates changed; the scale and the sum that follow. */
static hf_status settle(struct job *job, uint64_t *total) {
    const struct hf_spread_args *a = &job->a;
    const struct hf_cl_job take = hf_opencl_job(job->call->device, "seed", "seed_take", a->x.rows);
    double unit = 0, most = 0;
    HF_TRY(hf_opencl_copy(job->cl, &unit, a->unit, sizeof unit));
    if (a->far != NULL)
        HF_TRY(hf_opencl_run(job->cl, &take, "ppnipp", a->far, a->nearest_candidate, a->first_label,
                             a->x.rows, a->nearest, a->label));
    job->potentials.unit = unit != 0 ? unit : 1;
    HF_TRY(hf_potentials_add(job->call, &job->potentials, total, &most));
    if (unit != 0 && !(a->far != NULL && (double)*total < a->limit * HF_SPREAD_FINER))
        return HF_OK;
    unit = job->potentials.unit = hf_potentials_unit(a->x.rows, most);
    HF_TRY(hf_opencl_copy(job->cl, a->unit, &unit, sizeof unit));
    return hf_potentials_add(job->call, &job->potentials, total, &most);
}

static hf_status draw_blocks(struct job *job, uint64_t total, int64_t *index) {
    const struct hf_spread_args *a = &job->a;
    const struct hf_cl_job run =
        hf_opencl_job(job->call->device, "seed", "seed_draw", hf_potential_blocks(a->x.rows));
    return hf_opencl_run(job->cl, &run, "ppiddiiiipp", a->nearest, a->weights, a->x.rows,
                         job->potentials.unit, a->limit, a->wanted, (int64_t)total,
                         (int64_t)a->seed, (int64_t)a->stream, job->first, index);
}

/* Counts become places. */
static hf_status number_blocks(struct job *job, int64_t *count) {
    struct hf_cl_stage stage;
    const int64_t blocks = hf_potential_blocks(job->a.x.rows);
    hf_cl_stage_begin(&stage, job->cl);
    int64_t *first = hf_cl_host(&stage, job->first, (size_t)blocks * sizeof *first, true);
    *count = 0;
    for (int64_t b = 0; b < blocks && stage.status == HF_OK; b++) {
        const int64_t drawn = first[b];
        first[b] = *count;
        *count += drawn;
    }
    return hf_cl_stage_end(&stage, HF_OK);
}

static hf_status round_of(struct job *job) {
    const struct hf_spread_args *a = &job->a;
    uint64_t total = 0;
    int64_t count = 0;
    HF_TRY(settle(job, &total));
    HF_TRY(hf_opencl_copy(job->cl, a->total, &total, sizeof total));
    if (a->wanted > 0) {
        HF_TRY(draw_blocks(job, total, NULL));
        HF_TRY(number_blocks(job, &count));
        HF_TRY(draw_blocks(job, total, a->index));
    }
    return hf_opencl_copy(job->cl, a->count, &count, sizeof count);
}

static hf_status spread_run(const struct hf_call *call) {
    const struct hf_spread_args *args = call->args;
    struct job job = {.call = call, .cl = call->stream, .a = *args};
    struct hf_cl_stage stage;
    const size_t n = (size_t)args->x.rows;
    carve_job(&job, args, call->ws);
    hf_cl_stage_begin(&stage, call->stream);
    job.a.weights = hf_cl_in(&stage, args->weights, n * sizeof(double));
    job.a.far = hf_cl_in(&stage, args->far, n * sizeof(double));
    job.a.nearest_candidate = hf_cl_in(&stage, args->nearest_candidate, n * sizeof(int32_t));
    job.a.nearest = hf_cl_inout(&stage, args->nearest, n * sizeof(double));
    job.a.label = hf_cl_inout(&stage, args->label, n * sizeof(int32_t));
    job.a.index = hf_cl_inout(&stage, args->index, n * sizeof(int64_t));
    job.potentials.n = args->x.rows;
    job.potentials.nearest = job.a.nearest;
    job.potentials.weights = job.a.weights;
    job.potentials.limit = args->limit;
    return hf_cl_stage_end(&stage, stage.status == HF_OK ? round_of(&job) : stage.status);
}

static const struct hf_kernel kernels[] = {{.name = "spread_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = spread_workspace,
                                            .run = spread_run}};

const struct hf_kernel_table hf_spread_kernels_opencl = {kernels, 1};
