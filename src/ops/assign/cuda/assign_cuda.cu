/* SPDX-License-Identifier: Apache-2.0
 * assign on NVIDIA GPUs, the kernels: prepare the data, make one step (assign_cuda.h), and
 * move changed rows between the sums with the row of update. */
#include "base/mem.h"
#include "core/array.h"
#include "core/kernel.h"
#include "device/cuda/stage.h"
#include "ops/assign/assign.h"
#include "ops/assign/cuda/assign_cuda.h"
#include "ops/assign/cuda/open/settle.h"
#include "ops/assign/cuda/i8.h"
#include "ops/assign/cuda/mma.h"

extern "C" const struct hf_kernel_table hf_update_kernels_cuda;

/* No bounds are kept: these hold for any data. */
static __global__ void open_bounds(float *upper, float *lower, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        upper[i] = __int_as_float(0x7f800000);
        lower[i] = 0;
    }
}

struct row_memory {
    void *rows, *step;
    void *c;         /* [k, d] without gaps */
    int32_t *labels; /* [n] that the step finds */
    int32_t *old;    /* [n] that came in, if the row of update needs them */
    struct hf_assign_counts *counts;
    float *bounds; /* [2, n] upper and lower */
    void *update;  /* workspace of the row of update */
};

/* Rows whose label changed, to the row of update. */
static struct hf_update_args update_of(const struct hf_assign_args *a) {
    struct hf_update_args u = {};
    u.x = a->x;
    u.metric = a->metric;
    u.weights = a->weights;
    u.old_labels = a->labels; /* stands for what the row puts there */
    u.labels = a->labels;
    u.sums = a->sums;
    return u;
}

static struct hf_assign_problem problem_of(const struct hf_call *call, enum hf_assign_kind kind) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)call->args;
    struct hf_assign_problem p = {};
    p.device = call->device;
    p.x = a->x;
    p.batch = 1;
    p.k = a->c.rows;
    p.c_type = a->c.dtype;
    p.metric = a->metric;
    p.exact = a->exact;
    p.shift = a->metric == HF_EUCLIDEAN ? a->filter.shift : NULL;
    p.scale = a->filter.scale;
    p.length = a->metric == HF_EUCLIDEAN ? a->filter.length : 0;
    p.once = a->bounds == NULL;
    p.hard = (double)a->x.rows * (double)a->c.rows * (double)a->x.cols >= HF_ASSIGN_HARD;
    p.kind = kind;
    return p;
}

static size_t row_carve(const struct hf_call *call, enum hf_assign_kind kind, void *ws,
                        struct row_memory *m) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)call->args;
    hf_carve carve = {(char *)ws, 0};
    const struct hf_assign_problem p = problem_of(call, kind);
    m->rows = hf_carve_take(&carve, hf_assign_rows_bytes(&p));
    carve.used = (carve.used + 255) / 256 * 256;
    m->step = hf_carve_take(&carve, hf_assign_step_bytes(&p));
    m->c = hf_carve_take(&carve, hf_dtype_bytes(a->c.dtype) * (size_t)(a->c.rows * a->c.cols));
    carve.used = (carve.used + 255) / 256 * 256;
    m->labels = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * (size_t)a->x.rows);
    m->old = NULL;
    if (a->sums != NULL && a->old_labels == NULL)
        m->old = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * (size_t)a->x.rows);
    m->counts = (struct hf_assign_counts *)hf_carve_take(&carve, sizeof *m->counts);
    m->bounds = NULL;
    if (a->bounds != NULL)
        m->bounds = (float *)hf_carve_take(&carve, 2 * sizeof(float) * (size_t)a->x.rows);
    if (a->sums != NULL) {
        const struct hf_update_args u = update_of(a);
        carve.used = (carve.used + 255) / 256 * 256;
        const struct hf_call part = hf_call_part(call, &u);
        const struct hf_kernel *update = call->step[0];
        m->update = hf_carve_take(&carve, update->workspace != NULL ? update->workspace(&part) : 0);
    }
    return carve.used + 256;
}

static size_t row_workspace(const struct hf_call *call) {
    struct row_memory m;
    return row_carve(call, HF_ASSIGN_TENSOR, NULL, &m);
}

static size_t i8_workspace(const struct hf_call *call) {
    struct row_memory m;
    return row_carve(call, HF_ASSIGN_I8, NULL, &m);
}

/* The arguments, seen by the device. */
struct row_views {
    hf_array x, c;
    int32_t *labels, *old_labels;
    struct hf_assign_stats *stats;
    float *upper, *lower;
    const float *drift; /* NULL: bounds do not hold yet */
};

static void row_stage(struct hf_stage *stage, const struct hf_assign_args *a, struct row_views *v) {
    const size_t n = (size_t)a->x.rows;
    v->x = hf_stage_array(stage, &a->x);
    v->c = hf_stage_array(stage, &a->c);
    v->labels = (int32_t *)hf_stage_inout(stage, a->labels, sizeof(int32_t) * n);
    v->old_labels = (int32_t *)hf_stage_out(stage, a->old_labels, sizeof(int32_t) * n);
    v->stats = (struct hf_assign_stats *)hf_stage_inout(stage, a->stats, sizeof *a->stats);
    v->upper = v->lower = NULL;
    v->drift = NULL;
    if (a->bounds != NULL) {
        v->upper = (float *)hf_stage_inout(stage, a->bounds->upper, sizeof(float) * n);
        v->lower = (float *)hf_stage_inout(stage, a->bounds->lower, sizeof(float) * n);
        if (a->bounds->valid)
            v->drift = (const float *)hf_stage_in(stage, a->bounds->drift,
                                                  sizeof(float) * (size_t)a->c.rows);
    }
}

/* Can a step look at the centroids where they are? */
static bool centroids_serve(const struct row_views *v) {
    return hf_array_stride(&v->c) == v->c.cols && (uintptr_t)v->c.data % 16 == 0 &&
           hf_cuda_owns(v->c.data);
}

static hf_status copy_centroids(struct hf_cuda *cuda, const struct row_views *v, void *to) {
    const size_t row = hf_dtype_bytes(v->c.dtype) * (size_t)v->c.cols;
    const size_t pitch = hf_dtype_bytes(v->c.dtype) * (size_t)hf_array_stride(&v->c);
    return hf_cuda_check(cuda,
                         cudaMemcpy2DAsync(to, row, v->c.data, pitch, row, (size_t)v->c.rows,
                                           cudaMemcpyDefault, cuda->stream),
                         "assign: copy centroids");
}

static hf_status copy_bounds(struct hf_cuda *cuda, float *to, const float *from, int64_t n) {
    return hf_cuda_check(
        cuda, cudaMemcpyAsync(to, from, sizeof(float) * (size_t)n, cudaMemcpyDefault, cuda->stream),
        "assign: copy bounds");
}

static hf_status row_launch(const struct hf_call *call, const struct row_views *v,
                            enum hf_assign_kind kind) {
    struct hf_cuda *cuda = (struct hf_cuda *)call->stream;
    const struct hf_assign_args *a = (const struct hf_assign_args *)call->args;
    struct row_memory m;
    (void)row_carve(call, kind, (void *)(((uintptr_t)call->ws + 255) / 256 * 256), &m);
    const bool serve = centroids_serve(v);
    if (!serve)
        HF_TRY(copy_centroids(cuda, v, m.c));
    struct hf_assign_problem problem = problem_of(call, kind);
    problem.x = v->x;
    struct hf_assign_rows rows;
    HF_TRY(hf_assign_rows_prepare(cuda, &problem, m.rows, &rows));
    struct hf_assign_step step = {};
    step.c = serve ? v->c.data : m.c;
    step.old_labels = step.replaced = v->labels;
    step.labels = m.labels;
    step.before = v->old_labels != NULL ? v->old_labels : m.old;
    step.counts = m.counts;
    step.stats = v->stats;
    const bool bounded =
        v->upper != NULL && a->exact && rows.kind == HF_ASSIGN_TENSOR && rows.i8 == NULL;
    if (bounded) {
        step.bounds = m.bounds;
        step.drift = v->drift;
        HF_TRY(copy_bounds(cuda, m.bounds, v->upper, v->x.rows));
        HF_TRY(copy_bounds(cuda, m.bounds + v->x.rows, v->lower, v->x.rows));
    }
    HF_TRY(hf_assign_step(cuda, &rows, &step, m.step));
    if (bounded) {
        HF_TRY(copy_bounds(cuda, v->upper, m.bounds, v->x.rows));
        HF_TRY(copy_bounds(cuda, v->lower, m.bounds + v->x.rows, v->x.rows));
    }
    if (v->upper != NULL && !bounded) {
        open_bounds<<<(unsigned)((v->x.rows + 255) / 256), 256, 0, cuda->stream>>>(
            v->upper, v->lower, v->x.rows);
        HF_TRY(hf_cuda_launched(cuda, "assign: bounds"));
    }
    if (a->sums == NULL)
        return HF_OK;
    struct hf_update_args u = update_of(a);
    u.x = v->x;
    u.old_labels = step.before;
    u.labels = v->labels;
    return hf_run_part(call, call->step[0], &u, m.update);
}

static hf_status row_run(const struct hf_call *call, enum hf_assign_kind kind) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)call->args;
    struct hf_stage stage;
    struct row_views views;
    hf_stage_begin(&stage, call->stream);
    row_stage(&stage, a, &views);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    return hf_stage_end(&stage, row_launch(call, &views, kind));
}

/* Fused sums are moved by a kernel of update. */
static void row_steps(const struct hf_call *call, hf_step_fn *report, void *user) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)call->args;
    if (a->sums == NULL)
        return;
    const struct hf_update_args u = update_of(a);
    report(user, HF_OP_UPDATE, &u);
}

static hf_status dense_run(const struct hf_call *call) { return row_run(call, HF_ASSIGN_DENSE); }

static hf_status tensor_run(const struct hf_call *call) { return row_run(call, HF_ASSIGN_TENSOR); }

static hf_status mma_run(const struct hf_call *call) { return row_run(call, HF_ASSIGN_MMA); }

static hf_status i8_run(const struct hf_call *call) { return row_run(call, HF_ASSIGN_I8); }

static bool row_supports(const struct hf_call *call) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)call->args;
    if (a->sums != NULL) {
        const struct hf_update_args u = update_of(a);
        const struct hf_kernel *update = hf_update_kernels_cuda.kernels;
        const struct hf_call part = hf_call_part(call, &u);
        if (update->supports != NULL && !update->supports(&part))
            return false;
    }
    return a->x.rows < INT32_MAX && a->c.rows < INT32_MAX && a->x.cols < INT32_MAX;
}

static bool tensor_supports(const struct hf_call *call) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)call->args;
    return row_supports(call) &&
           hf_filter_supports(call->device, a->x.rows, (int)a->c.rows, (int)a->x.cols, 1);
}

static bool i8_supports(const struct hf_call *call) {
    const struct hf_assign_problem p = problem_of(call, HF_ASSIGN_I8);
    return tensor_supports(call) && hf_i8_supports(&p);
}

static bool mma_supports(const struct hf_call *call) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)call->args;
    return row_supports(call) &&
           hf_mma_supports(call->device, a->x.rows, (int)a->c.rows, (int)a->x.cols, 1);
}

/* Launches, and passes over the rows that are made before the kernels. */
static double row_overhead(const struct hf_assign_args *a) {
    const double values = (double)a->x.rows * (double)a->x.cols;
    return 40000 + values * (double)(hf_dtype_bytes(a->x.dtype) + 2) / 2000;
}

static double dense_estimate(const struct hf_call *call) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)call->args;
    const double tiles = (double)((a->c.rows + HF_SETTLE_CENTROIDS - 1) / HF_SETTLE_CENTROIDS);
    const double pairs = (double)a->x.rows * tiles * HF_SETTLE_CENTROIDS;
    return row_overhead(a) + pairs * (double)a->x.cols / 3000;
}

static double tensor_estimate(const struct hf_call *call) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)call->args;
    return row_overhead(a) +
           1.1 * hf_filter_estimate_ns(call->device, a->x.rows, (int)a->c.rows, (int)a->x.cols, 1);
}

static double i8_estimate(const struct hf_call *call) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)call->args;
    const struct hf_assign_problem p = problem_of(call, HF_ASSIGN_AUTO);
    return tensor_estimate(call) * (hf_i8_wanted(&p) && a->bounds == NULL ? 0.8 : 1.5);
}

static double mma_estimate(const struct hf_call *call) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)call->args;
    return row_overhead(a) +
           1.1 * hf_mma_estimate_ns(call->device, a->x.rows, (int)a->c.rows, (int)a->x.cols, 1);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("assign_f64_32x64_cuda", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER,
                   HF_TILE(HF_SETTLE_TILE, HF_SETTLE_CENTROIDS, 0), row_supports, row_workspace,
                   dense_run, dense_estimate, row_steps),
    HF_CUDA_KERNEL("assign_f16_256x128_cuda", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER,
                   HF_TILE(256, 128, 0), mma_supports, row_workspace, mma_run, mma_estimate,
                   row_steps),
    HF_CUDA_KERNEL("assign_f16_64x128_sm90", HF_DT_DATA, 90, HF_TRAIT_FIXED_ORDER,
                   HF_TILE(64, 128, 0), tensor_supports, row_workspace, tensor_run, tensor_estimate,
                   row_steps),
    HF_CUDA_KERNEL("assign_i8_64x256_sm90", HF_DT(HF_U8), 90, HF_TRAIT_FIXED_ORDER,
                   HF_TILE(64, 256, 0), i8_supports, i8_workspace, i8_run, i8_estimate, row_steps),
};

/* In the order of kernels[]. */
static const enum hf_assign_kind kinds[] = {HF_ASSIGN_DENSE, HF_ASSIGN_MMA, HF_ASSIGN_TENSOR,
                                            HF_ASSIGN_I8};
static_assert(sizeof kinds / sizeof *kinds == sizeof kernels / sizeof *kernels,
              "a kind for each kernel");

enum hf_assign_kind hf_assign_kind_of(const struct hf_kernel *kernel) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (kernel == &kernels[i])
            return kinds[i];
    return HF_ASSIGN_TENSOR;
}

extern "C" {
extern const struct hf_kernel_table hf_assign_kernels_cuda;
const struct hf_kernel_table hf_assign_kernels_cuda = {kernels, 4};
}
