/* SPDX-License-Identifier: Apache-2.0
 * seed with OpenCL: every distance in float64, a row and 8 candidates at once. */
#include "ops/seed/seed_launch.h"

#include <float.h>

_Static_assert(sizeof(struct hf_seed_pair) == 24, "seed.cl has the same struct");

hf_status hf_seed_launch(const struct hf_call *call, const struct hf_seed_args *a,
                         const struct hf_opencl_panels *p) {
    struct hf_opencl *cl = call->stream;
    const int32_t metric = a->metric == HF_COSINE ? HF_COSINE : HF_EUCLIDEAN;
    const struct hf_cl_job job =
        hf_opencl_job(call->device, "seed", a->commit ? "seed_commit" : "seed_evaluate", a->x.rows);
    HF_TRY(hf_opencl_pack(call, &a->candidates, p));
    if (a->commit)
        return hf_opencl_run(cl, &job, "pniiinpppipppddnpi", a->x.data, (int32_t)a->x.dtype,
                             a->x.row_stride, a->x.rows, a->x.cols, metric, a->weights, p->panel,
                             p->norm, a->candidates.rows, a->nearest, a->label, a->reach, a->unit,
                             a->limit, a->first_label, a->block, a->first);
    return hf_opencl_run(cl, &job, "pniiinpppipppddppipi", a->x.data, (int32_t)a->x.dtype,
                         a->x.row_stride, a->x.rows, a->x.cols, metric, a->weights, p->panel,
                         p->norm, a->candidates.rows, a->nearest, a->label, a->reach, a->unit,
                         a->limit, a->gain, a->pairs, a->pairs_room, a->pairs_count, a->first);
}

hf_status hf_potentials_add(const struct hf_call *call, const struct hf_potentials *p,
                            uint64_t *total, double *most) {
    struct hf_cl_stage stage;
    const int64_t blocks = hf_potential_blocks(p->n);
    const struct hf_cl_job job = hf_opencl_job(call->device, "seed", "seed_blocks", blocks);
    HF_TRY(hf_opencl_run(call->stream, &job, "ppiddpp", p->nearest, p->weights, p->n, p->unit,
                         p->limit, p->sum, p->most));
    hf_cl_stage_begin(&stage, call->stream);
    const uint64_t *sum = hf_cl_host(&stage, p->sum, (size_t)blocks * sizeof *sum, false);
    const double *each = hf_cl_host(&stage, p->most, (size_t)blocks * sizeof *each, false);
    *total = 0;
    *most = 0;
    for (int64_t b = 0; b < blocks && stage.status == HF_OK; b++) {
        *total += sum[b];
        *most = each[b] > *most ? each[b] : *most;
    }
    return hf_cl_stage_end(&stage, HF_OK);
}

double hf_potentials_unit(int64_t n, double most) {
    return hf_fixed_mult(hf_fixed_bits(n), hf_fixed_exponent(most < DBL_MAX ? most : DBL_MAX));
}

static size_t carve(const struct hf_seed_args *a, void *ws, struct hf_opencl_panels *p) {
    hf_carve carve = {ws, 0};
    hf_opencl_panels_carve(&carve, a->candidates.rows, a->x.cols, p);
    return carve.used;
}

static size_t seed_workspace(const struct hf_call *call) {
    struct hf_opencl_panels panels;
    return carve(call->args, NULL, &panels);
}

static void stage_outputs(struct hf_cl_stage *stage, struct hf_seed_args *a) {
    const size_t n = (size_t)a->x.rows;
    const int64_t last = a->first + a->x.rows;
    a->nearest = hf_cl_inout(stage, a->nearest, n * sizeof *a->nearest);
    a->label = hf_cl_inout(stage, a->label, n * sizeof *a->label);
    if (a->commit) {
        a->block =
            hf_cl_inout(stage, a->block, (size_t)hf_potential_blocks(last) * sizeof *a->block);
        return;
    }
    a->gain = hf_cl_inout(stage, a->gain, (size_t)a->candidates.rows * sizeof *a->gain);
    a->pairs = hf_cl_inout(stage, a->pairs, (size_t)a->pairs_room * sizeof *a->pairs);
    a->pairs_count = hf_cl_inout(stage, a->pairs_count, sizeof *a->pairs_count);
}

/* How many centroids `reach` is of is not said: as many as the largest label counts. */
static const double *stage_reach(struct hf_cl_stage *stage, const struct hf_seed_args *a) {
    struct hf_cl_stage view;
    int32_t most = -1;
    if (a->reach == NULL || a->label == NULL || a->x.rows == 0)
        return NULL;
    hf_cl_stage_begin(&view, stage->cl);
    const int32_t *label = hf_cl_host(&view, a->label, (size_t)a->x.rows * sizeof *label, false);
    for (int64_t i = 0; view.status == HF_OK && i < a->x.rows; i++)
        most = label[i] > most ? label[i] : most;
    if (hf_cl_stage_end(&view, HF_OK) != HF_OK || most < 0)
        return NULL;
    return hf_cl_in(stage, a->reach, ((size_t)most + 1) * sizeof *a->reach);
}

static hf_status seed_run(const struct hf_call *call) {
    struct hf_seed_args a = *(const struct hf_seed_args *)call->args;
    struct hf_opencl_panels panels;
    struct hf_cl_stage stage;
    carve(&a, call->ws, &panels);
    hf_cl_stage_begin(&stage, call->stream);
    a.reach = stage_reach(&stage, &a);
    a.x = hf_cl_array(&stage, &a.x);
    a.candidates = hf_cl_array(&stage, &a.candidates);
    a.weights = hf_cl_in(&stage, a.weights, (size_t)a.x.rows * sizeof *a.weights);
    stage_outputs(&stage, &a);
    return hf_cl_stage_end(&stage, stage.status == HF_OK ? hf_seed_launch(call, &a, &panels)
                                                         : stage.status);
}

static const struct hf_kernel kernels[] = {{.name = "seed_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .workspace = seed_workspace,
                                            .run = seed_run}};

const struct hf_kernel_table hf_seed_kernels_opencl = {kernels, 1};
