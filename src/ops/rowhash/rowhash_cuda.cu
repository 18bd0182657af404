/* SPDX-License-Identifier: Apache-2.0
 * rowhash on CUDA: a group of lanes has a row. It rounds before it makes integers, where update
 * does both in one addition, so that the two share no instruction that makes a term. */
#include "core/array.h"
#include "core/kernel.h"
#include "device/cuda/load.cuh"
#include "device/cuda/reduce.cuh"
#include "device/cuda/stage.h"
#include "ops/rowhash/rowhash.h"

#define THREADS 256
#define WARP 32
#define ROWS 4 /* of a group, under way at once */

struct hash_job {
    const char *x;
    int64_t row_bytes, n, d;
    const double *norm;    /* [n] of the rows, HF_COSINE; else NULL */
    const double *weights; /* [n] or NULL */
    const double *mult;    /* [d] */
    const hf_u64 *factor;  /* [limbs, d + 1] */
    hf_u64 *hash;
    double weight_mult, scale; /* scale: 2^bits */
    int limbs, group;          /* lanes of a row, a power of two */
    bool weighted;             /* the sums have weights */
};

static int lanes_of(int64_t d) {
    int lanes = 1;
    while (lanes < WARP && lanes < d)
        lanes *= 2;
    return lanes;
}

/* |x_i|, in the order of the reference. */
template <hf_dtype T>
static __global__ void __launch_bounds__(THREADS)
    hash_norms(const struct hash_job job, double *norm) {
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= job.n)
        return;
    double sum = 0;
    for (int64_t j = 0; j < job.d; j++) {
        const double v = hf_device_load<T>(job.x + i * job.row_bytes, j);
        sum = __dadd_rn(sum, __dmul_rn(v, v));
    }
    norm[i] = __dsqrt_rn(sum);
}

/* The limbs of v, each times the factor of its column. */
static __device__ __forceinline__ hf_u64 hash_term(const struct hash_job &job, double v,
                                                   double mult, int64_t column) {
    const double t = __dmul_rn(v, mult);
    const double high = rint(t);
    hf_u64 term = job.factor[column] * (hf_u64)__double2ll_rn(high);
    if (job.limbs == 2)
        term += job.factor[job.d + 1 + column] *
                (hf_u64)__double2ll_rn(__dmul_rn(__dsub_rn(t, high), job.scale));
    return term;
}

/* r_i of update.h */
static __device__ __forceinline__ double factor_of(const struct hash_job &job, int64_t i) {
    const double weight = job.weights != NULL ? job.weights[i] : 1;
    if (job.norm == NULL)
        return weight;
    return job.norm[i] > 0 ? __ddiv_rn(weight, job.norm[i]) : 0;
}

template <hf_dtype T>
static __global__ void __launch_bounds__(THREADS) hash_rows(const struct hash_job job) {
    const int lane = (int)threadIdx.x % job.group;
    const int64_t groups = (int64_t)gridDim.x * (THREADS / job.group);
    const int64_t first = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / job.group;
    const int64_t rounds = (job.n + groups * ROWS - 1) / (groups * ROWS);
    for (int64_t round = 0; round < rounds; round++) {
        const char *x[ROWS];
        double factor[ROWS];
        hf_u64 hash[ROWS];
#pragma unroll
        for (int u = 0; u < ROWS; u++) {
            const int64_t row = min(first + (round * ROWS + u) * groups, job.n - 1);
            x[u] = job.x + row * job.row_bytes;
            factor[u] = factor_of(job, row);
            hash[u] = 0;
        }
        for (int64_t j = lane; j < job.d; j += job.group) {
            const double mult = job.mult[j];
            double v[ROWS];
#pragma unroll
            for (int u = 0; u < ROWS; u++)
                v[u] = hf_device_load<T>(x[u], j);
#pragma unroll
            for (int u = 0; u < ROWS; u++)
                hash[u] += hash_term(job, __dmul_rn(v[u], factor[u]), mult, j);
        }
#pragma unroll
        for (int u = 0; u < ROWS; u++) {
            const int64_t row = first + (round * ROWS + u) * groups;
            for (int step = job.group / 2; step > 0; step /= 2)
                hash[u] += __shfl_xor_sync(~0u, hash[u], step);
            if (lane != 0 || row >= job.n)
                continue;
            const double weight = job.weights != NULL ? job.weights[row] : 1;
            job.hash[row] =
                hash[u] + (job.weighted ? hash_term(job, weight, job.weight_mult, job.d) : 0);
        }
    }
}

static hf_status launch(struct hf_cuda *cuda, hf_dtype dtype, struct hash_job job, double *norm) {
    const int64_t rows = THREADS / job.group * ROWS;
    const int64_t most = (job.n + rows - 1) / rows;
    const int64_t full = (int64_t)cuda->sms * 8;
    const unsigned blocks = (unsigned)(most < full ? most : full);
    if (job.n == 0)
        return HF_OK;
    hf_for_dtype(dtype, [&](auto type) {
        constexpr hf_dtype T = decltype(type)::value;
        if (norm != NULL) {
            const int64_t each = (job.n + THREADS - 1) / THREADS;
            hash_norms<T><<<(unsigned)each, THREADS, 0, cuda->stream>>>(job, norm);
            job.norm = norm;
        }
        hash_rows<T><<<blocks, THREADS, 0, cuda->stream>>>(job);
    });
    return hf_cuda_launched(cuda, "rowhash");
}

static size_t rowhash_workspace(const struct hf_call *call) {
    const struct hf_rowhash_args *args = (const struct hf_rowhash_args *)call->args;
    return args->metric == HF_COSINE ? (size_t)args->x.rows * sizeof(double) : 0;
}

static hf_status rowhash_run(const struct hf_call *call) {
    const struct hf_rowhash_args *args = (const struct hf_rowhash_args *)call->args;
    const struct hf_sums *s = args->sums;
    const size_t n = (size_t)args->x.rows, d = (size_t)args->x.cols;
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    const hf_array x = hf_stage_array(&stage, &args->x);
    struct hash_job job = {};
    job.weights = (const double *)hf_stage_in(&stage, args->weights, n * sizeof(double));
    job.mult = (const double *)hf_stage_in(&stage, s->mult, d * sizeof(double));
    job.factor = (const hf_u64 *)hf_stage_in(&stage, args->factor,
                                             (size_t)s->limbs * (d + 1) * sizeof(hf_u64));
    job.hash = (hf_u64 *)hf_stage_out(&stage, args->hash, n * sizeof(hf_u64));
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    job.x = (const char *)x.data;
    job.row_bytes = hf_array_stride(&x) * (int64_t)hf_dtype_bytes(x.dtype);
    job.n = x.rows;
    job.d = x.cols;
    job.weight_mult = s->weight_mult;
    job.scale = (double)(1ll << s->bits);
    job.limbs = s->limbs;
    job.group = lanes_of(x.cols);
    job.weighted = s->weight != NULL;
    double *norm = args->metric == HF_COSINE ? (double *)call->ws : NULL;
    return hf_stage_end(&stage, launch((struct hf_cuda *)call->stream, x.dtype, job, norm));
}

static double rowhash_estimate(const struct hf_call *call) {
    const struct hf_rowhash_args *args = (const struct hf_rowhash_args *)call->args;
    return hf_cuda_pass_ns((double)args->x.rows * (double)args->x.cols *
                           (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("rowhash_any_cuda", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE, NULL,
                   rowhash_workspace, rowhash_run, rowhash_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_rowhash_kernels_cuda;
const struct hf_kernel_table hf_rowhash_kernels_cuda = {kernels, 1};
}
