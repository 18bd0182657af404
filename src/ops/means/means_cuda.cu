/* SPDX-License-Identifier: Apache-2.0
 * means on CUDA, for the iterations that the host leads: a warp for each cluster, then a block adds
 * up what the clusters gave. In op lloyd the same is a part of a launch (ops/lloyd/cuda). */
#include "core/kernel.h"
#include "device/cuda/reduce.cuh"
#include "device/cuda/stage.h"
#include "ops/lloyd/cuda/means.cuh"
#include "ops/means/means.h"

#define WARPS 4 /* of a block */
#define LAUNCH_NS 20000.0

struct means_job {
    struct hf_lloyd_job sums; /* of which only `update` and `rule` say something */
    const void *now;
    void *next;
    double *score, *moved; /* [k] */
    double *shift, *inertia;
    double total_square;
    bool given;
};

/* Column f of cluster c. */
static __device__ __forceinline__ void means_column(const struct means_job &job,
                                                    const struct cluster &c,
                                                    const struct divisor &divisor, int f,
                                                    struct lane_sums &lane) {
    const struct hf_center_rule &rule = job.sums.rule;
    const double before = center_at(job.now, rule.type, c.at + f);
    if (job.given) {
        const double way = __dsub_rn(center_at(job.next, rule.type, c.at + f), before);
        lane.moved = __dadd_rn(lane.moved, __dmul_rn(way, way));
    }
    if (job.given && job.inertia == NULL)
        return;
    const double sum = sum_at<false>(job.sums.update, c, f, c.sum[f]);
    const double shift = rule.metric == HF_EUCLIDEAN ? rule.shift[f] : 0;
    add_inertia(rule.metric, shift, c, sum, before, lane);
    if (job.next != NULL && !job.given)
        put_center(job.next, rule.type, c.at + f,
                   moved_to<false>(rule, divisor, sum, before, lane));
}

static __global__ void __launch_bounds__(WARPS *UPDATE_WARP)
    means_clusters(const __grid_constant__ struct means_job job) {
    const struct hf_update_job &u = job.sums.update;
    const int64_t j = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / UPDATE_WARP;
    if (j >= u.k)
        return;
    struct cluster c;
    c.sum = u.sum + j * u.d;
    c.unit = job.sums.rule.unit;
    c.p = 0;
    c.at = j * u.d;
    c.weight = weight_of(u, 0, j);
    const struct divisor divisor = {job.given ? 0 : divisor_of(job.sums, c), 0};
    struct lane_sums lane = {0, 0, 0};
    for (int f = (int)threadIdx.x % UPDATE_WARP; f < (int)u.d; f += UPDATE_WARP)
        means_column(job, c, divisor, f, lane);
    const double score = inertia_part(job.sums.rule.metric, c, lane);
    const double moved = fold_warp(lane.moved);
    if (threadIdx.x % UPDATE_WARP == 0) {
        job.score[j] = c.weight > 0 ? score : 0;
        job.moved[j] = moved;
    }
}

/* What the clusters gave, as hf_tree_fold(). */
static __global__ void __launch_bounds__(HF_UPDATE_THREADS)
    means_total(const __grid_constant__ struct means_job job) {
    __shared__ double lane[2 * TREE_LANES];
    const int warp = (int)threadIdx.x / UPDATE_WARP;
    fill_lanes(job.score, job.moved, job.sums.update.k, lane);
    __syncthreads();
    if (warp >= 2)
        return;
    const double sum = fold_lanes(lane + warp * TREE_LANES);
    if (threadIdx.x % UPDATE_WARP != 0)
        return;
    if (warp == 1 && job.shift != NULL)
        *job.shift = sum;
    if (warp == 1 || job.inertia == NULL)
        return;
    const bool euclidean = job.sums.rule.metric == HF_EUCLIDEAN;
    const double inertia = euclidean ? __dadd_rn(job.total_square, sum) : sum;
    *job.inertia = euclidean && !(inertia > 0) ? 0 : inertia;
}

/* ---- host */

static void stage_sums(struct hf_stage *stage, const struct hf_means_args *a,
                       struct hf_lloyd_job *job) {
    const struct hf_sums *s = a->sums;
    struct hf_update_job *u = &job->update;
    const size_t d = (size_t)s->d * sizeof(double);
    const size_t cells = (size_t)(s->limbs * s->k) * sizeof(int64_t);
    u->batch = 1;
    u->k = s->k;
    u->d = s->d;
    u->limbs = s->limbs;
    u->bits = s->bits;
    u->mult_stride = s->d;
    u->mult = (const double *)hf_stage_in(stage, s->mult, d);
    u->sum = (int64_t *)(uintptr_t)hf_stage_in(stage, s->sum, cells * (size_t)s->d);
    u->count = (int64_t *)(uintptr_t)hf_stage_in(stage, s->count, (size_t)s->k * sizeof(int64_t));
    if (s->weight != NULL) {
        u->weight = (int64_t *)(uintptr_t)hf_stage_in(stage, s->weight, cells);
        u->weight_mult = (const double *)hf_stage_in(stage, &s->weight_mult, sizeof(double));
    }
    job->rule = a->rule;
    job->rule.shift = (const double *)hf_stage_in(stage, a->rule.shift, d);
    job->rule.unit = (const double *)hf_stage_in(stage, a->rule.unit, d);
}

static struct means_job make_job(struct hf_stage *stage, const struct hf_call *call) {
    const struct hf_means_args *a = (const struct hf_means_args *)call->args;
    const size_t terms = (size_t)a->sums->k * sizeof(double);
    const size_t centers = (size_t)(a->sums->k * a->sums->d) * hf_dtype_bytes(a->rule.type);
    struct means_job job = {};
    stage_sums(stage, a, &job.sums);
    job.now = hf_stage_in(stage, a->now, centers);
    job.next = a->given ? (void *)(uintptr_t)hf_stage_in(stage, a->next, centers)
                        : hf_stage_out(stage, a->next, centers);
    job.score = (double *)call->ws;
    job.moved =
        a->moved != NULL ? (double *)hf_stage_out(stage, a->moved, terms) : job.score + a->sums->k;
    job.shift = (double *)hf_stage_out(stage, a->shift, sizeof(double));
    job.inertia = (double *)hf_stage_out(stage, a->inertia, sizeof(double));
    job.total_square = a->total_square;
    job.given = a->given;
    return job;
}

static hf_status launch(struct hf_cuda *cuda, const struct means_job &job) {
    const unsigned blocks = (unsigned)((job.sums.update.k + WARPS - 1) / WARPS);
    means_clusters<<<blocks, WARPS * UPDATE_WARP, 0, cuda->stream>>>(job);
    if (job.shift != NULL || job.inertia != NULL)
        means_total<<<1, HF_UPDATE_THREADS, 0, cuda->stream>>>(job);
    return hf_cuda_launched(cuda, "means");
}

static hf_status means_run(const struct hf_call *call) {
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    const struct means_job job = make_job(&stage, call);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    return hf_stage_end(&stage, launch((struct hf_cuda *)call->stream, job));
}

static size_t means_workspace(const struct hf_call *call) {
    return 2 * sizeof(double) * (size_t)((const struct hf_means_args *)call->args)->sums->k;
}

static bool means_supports(const struct hf_call *call) {
    const struct hf_sums *s = ((const struct hf_means_args *)call->args)->sums;
    return s->k < INT32_MAX && s->d < INT32_MAX - UPDATE_WARP;
}

static double means_estimate(const struct hf_call *call) {
    const struct hf_sums *s = ((const struct hf_means_args *)call->args)->sums;
    return LAUNCH_NS + hf_cuda_pass_ns(16.0 * (double)s->k * (double)s->d);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("means_f64_32_cuda", HF_DT(HF_F32) | HF_DT(HF_F64), 80, HF_TRAIT_FIXED_ORDER,
                   HF_TILE(1, 32, 0), means_supports, means_workspace, means_run, means_estimate,
                   NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_means_kernels_cuda;
const struct hf_kernel_table hf_means_kernels_cuda = {kernels, 1};
}
