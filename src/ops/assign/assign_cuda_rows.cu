/* SPDX-License-Identifier: Apache-2.0
 * Rows as the tensor cores want them: x16 = f16(x'), and bounds on |x16| and |x' - x16| from
 * float64 sums. Euclidean: x' = (x - shift) * scale with one scale for all, because lengths matter;
 * dot and cosine: x' = x times a power of two of its own for each row, because they do not. A warp
 * takes a few rows at a time, as many lanes to a row as it has columns. */
#include "base/mem.h"
#include "device/cuda/load.cuh"
#include "ops/assign/assign_cuda.h"
#include "ops/assign/assign_filter.h"

#include <math.h>

#define ROW_REACH 0x1p15 /* |x'| of rows that the filter looks at; f16 ends at 65504 */
#define THREADS 256
#define SHIFT_PIECE 256 /* columns of the shift looked at together */

struct rows_job {
    const void *x;
    int64_t rows, d, stride;
    const double *shift; /* [d] or NULL */
    double scale;
    bool own_scale; /* each row its own */
    bool raw;       /* x itself is looked at */
    __half *x16;    /* NULL: not wanted */
    int64_t ld;
    float *norm, *loss;
    int64_t n;                  /* rows of a problem */
    int32_t *wild, *wild_count; /* NULL: not wanted */
    int lanes;                  /* of a row: a power of two */
};

__device__ static double lanes_sum(double v, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2)
        v += __shfl_xor_sync(~0u, v, step);
    return v;
}

/* The power of two that brings a length into [2^11, 2^12], 0 where the reference's products of such
 * a row may over- or underflow. */
__device__ static double row_scale(double square) {
    if (!(square >= 0x1p-800 && square <= 0x1p800))
        return 0;
    return exp2(12.0 - ceil(0.5 * log2(square) + 0.001));
}

template <hf_dtype T> __global__ void __launch_bounds__(THREADS) prepare_rows(struct rows_job job) {
    const int lane = static_cast<int>(threadIdx.x) % job.lanes;
    const int64_t here = (static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x) / job.lanes;
    const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS / job.lanes;
    const int64_t end = (job.rows + 31) / 32 * 32; /* whole warps stay together for the shuffles */
    for (int64_t row = here; row < end; row += step) {
        const bool there = row < job.rows;
        const void *x =
            static_cast<const char *>(job.x) + (there ? row : 0) * job.stride * hf_device_bytes<T>;
        double scale = job.scale;
        bool zero = false;
        if (job.own_scale) {
            double square = 0;
            bool any = false;
            for (int64_t j = lane; j < job.d; j += job.lanes) {
                const double v = hf_device_load<T>(x, j);
                square += v * v;
                any |= v != 0;
            }
            square = lanes_sum(square, job.lanes);
            zero = lanes_sum(any, job.lanes) == 0;
            scale = zero ? 1 : row_scale(square);
        }
        double length = 0, centred = 0, lost = 0; /* squares of |x16|, |x'|, |x' - x16| */
        for (int64_t j = 2 * lane; j < job.ld; j += 2 * job.lanes) {
            __half h[2];
            for (int i = 0; i < 2; i++) {
                const bool inside = j + i < job.d;
                const double v = inside ? hf_device_load<T>(x, j + i) : 0;
                const double s = inside && job.shift ? job.shift[j + i] : 0;
                const double t = (v - s) * scale;
                h[i] = __double2half(t);
                const double r = job.raw   ? v
                                 : job.x16 ? static_cast<double>(__half2float(h[i]))
                                           : t;
                length += r * r;
                centred += t * t;
                lost += (t - r) * (t - r);
            }
            if (job.x16 && there)
                *reinterpret_cast<__half2 *>(job.x16 + row * job.ld + j) =
                    __halves2half2(h[0], h[1]);
        }
        length = sqrt(lanes_sum(length, job.lanes));
        centred = sqrt(lanes_sum(centred, job.lanes));
        lost = sqrt(lanes_sum(lost, job.lanes));
        /* NaN compares false: a row with an overflow is out of range as well */
        const bool fine = centred <= ROW_REACH && (zero || scale > 0);
        if (lane == 0 && there) {
            if (!fine && job.wild) {
                const int64_t b = row / job.n;
                job.wild[b * job.n + atomicAdd(job.wild_count + b, 1)] =
                    static_cast<int32_t>(row - b * job.n);
            }
            job.norm[row] = fine ? __double2float_ru(length * (1 + 0x1p-20)) : INFINITY;
            if (job.loss)
                job.loss[row] =
                    fine ? __double2float_ru(lost * (1 + 0x1p-20) + centred * 0x1p-50) : INFINITY;
        }
    }
}

static int64_t array_stride(const hf_array *a) {
    return a->row_stride != 0 ? a->row_stride : a->cols;
}

static bool scale_usable(double scale) { return scale >= 0x1p-100 && scale <= 0x1p100; }

/* Can x be looked at in place? The centroids alone are shifted then, so the error is that of the
 * unshifted length of the rows. */
static bool rows_raw(const struct hf_assign_problem *p) {
    const hf_array *x = &p->x;
    const int64_t stride = array_stride(x);
    if (x->dtype != HF_F16 || p->metric != HF_EUCLIDEAN || x->cols % 8 != 0 || stride % 8 != 0 ||
        (uintptr_t)x->data % 16 != 0)
        return false;
    double shift[SHIFT_PIECE];
    double square = 0;
    for (int64_t j = 0; p->shift != NULL && j < x->cols; j += SHIFT_PIECE) {
        const int64_t count = x->cols - j < SHIFT_PIECE ? x->cols - j : SHIFT_PIECE;
        if (cudaMemcpy(shift, p->shift + j, sizeof(double) * (size_t)count, cudaMemcpyDefault) !=
            cudaSuccess)
            return false;
        for (int64_t i = 0; i < count; i++)
            square += shift[i] * shift[i];
    }
    const double reach = 1 / (p->scale > 0 ? p->scale : 1); /* of x - shift in each column */
    return square <= (double)x->cols * reach * reach / 256;
}

struct rows_memory {
    double *shift;
    float *shift32;
    __half *x16;
    float *norm, *loss;
    int32_t *wild, *wild_count;
    int64_t ld;
};

static size_t rows_carve(const struct hf_assign_problem *p, bool raw, void *memory,
                         struct rows_memory *m) {
    hf_carve carve = {(char *)memory, 0};
    const size_t rows = (size_t)p->x.rows;
    m->ld = (p->x.cols + 7) / 8 * 8;
    m->shift = (double *)hf_carve_take(&carve, sizeof(double) * (size_t)p->x.cols);
    m->shift32 = (float *)hf_carve_take(&carve, sizeof(float) * (size_t)p->x.cols);
    m->norm = (float *)hf_carve_take(&carve, sizeof(float) * rows);
    m->loss = raw ? NULL : (float *)hf_carve_take(&carve, sizeof(float) * rows);
    m->wild = m->wild_count = NULL;
    if (!p->exact) {
        m->wild = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * rows);
        m->wild_count = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * (size_t)p->batch);
    }
    carve.used = (carve.used + 255) / 256 * 256;
    m->x16 = raw ? NULL : (__half *)hf_carve_take(&carve, sizeof(__half) * rows * (size_t)m->ld);
    return (carve.used + 255) / 256 * 256;
}

size_t hf_assign_rows_bytes(const struct hf_assign_problem *problem) {
    struct rows_memory m;
    return rows_carve(problem, rows_raw(problem), NULL, &m);
}

static hf_status rows_launch(struct hf_cuda *cuda, const struct rows_job *job, hf_dtype dtype) {
    const int64_t blocks = (job->rows * job->lanes + THREADS - 1) / THREADS;
    const int64_t most = (int64_t)cuda->sms * 32;
    const unsigned grid = (unsigned)(blocks < most ? blocks : most);
    hf_for_dtype(dtype, [&](auto type) {
        prepare_rows<decltype(type)::value><<<grid, THREADS, 0, cuda->stream>>>(*job);
    });
    return hf_cuda_launched(cuda, "assign: prepare rows");
}

/* The shift in float32, and that again in float64 where the rows shall have been shifted by it. */
__global__ void round_shift(double *shift, float *shift32, int64_t d, bool there, bool both) {
    const int64_t j = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (j >= d)
        return;
    const float s = there ? static_cast<float>(shift[j]) : 0;
    shift32[j] = s;
    if (there && both)
        shift[j] = static_cast<double>(s);
}

static hf_status rows_shift(struct hf_cuda *cuda, struct hf_assign_rows *rows,
                            const struct rows_memory *m) {
    const struct hf_assign_problem *p = &rows->problem;
    const int64_t d = p->x.cols;
    const bool there = p->metric == HF_EUCLIDEAN && p->shift != NULL;
    if (there)
        HF_TRY(hf_cuda_check(cuda,
                             cudaMemcpyAsync(m->shift, p->shift, sizeof(double) * (size_t)d,
                                             cudaMemcpyDefault, cuda->stream),
                             "assign: copy the shift"));
    rows->shift = there ? m->shift : NULL;
    rows->shift32 = m->shift32;
    round_shift<<<(unsigned)((d + 255) / 256), 256, 0, cuda->stream>>>(
        m->shift, m->shift32, d, there, rows->kind == HF_ASSIGN_SIMT);
    return hf_cuda_launched(cuda, "assign: shift");
}

static enum hf_assign_kind choose_kind(const struct hf_cuda *cuda,
                                       const struct hf_assign_problem *p, double scale) {
    const int64_t n = p->x.rows / p->batch;
    if (!scale_usable(scale))
        return HF_ASSIGN_DENSE;
    if (p->kind != HF_ASSIGN_AUTO)
        return p->kind;
    return hf_filter_supports(cuda, n, (int)p->k, (int)p->x.cols, (int)p->batch) ? HF_ASSIGN_TENSOR
                                                                                 : HF_ASSIGN_SIMT;
}

hf_status hf_assign_rows_prepare(struct hf_cuda *cuda, const struct hf_assign_problem *problem,
                                 void *memory, struct hf_assign_rows *rows) {
    struct rows_memory m;
    *rows = (struct hf_assign_rows){};
    rows->problem = *problem;
    rows->n = problem->x.rows / problem->batch;
    rows->scale = problem->scale > 0 ? problem->scale : 1;
    rows->kind = choose_kind(cuda, problem, rows->scale);
    const bool tensor = rows->kind == HF_ASSIGN_TENSOR;
    const bool raw = rows_raw(problem);
    (void)rows_carve(problem, raw, memory, &m);
    rows->raw = raw && tensor;
    rows->x16 = raw ? problem->x.data : m.x16;
    rows->ld = raw ? array_stride(&problem->x) : m.ld;
    rows->norm = m.norm;
    rows->loss = m.loss;
    rows->wild = m.wild;
    rows->wild_count = m.wild_count;
    HF_TRY(rows_shift(cuda, rows, &m));
    if (rows->kind == HF_ASSIGN_DENSE)
        return HF_OK;
    if (m.wild != NULL)
        HF_TRY(
            hf_cuda_check(cuda,
                          cudaMemsetAsync(m.wild_count, 0, sizeof(int32_t) * (size_t)problem->batch,
                                          cuda->stream),
                          "assign: clear counters"));
    struct rows_job job = {};
    job.x = problem->x.data;
    job.rows = problem->x.rows;
    job.d = problem->x.cols;
    job.stride = array_stride(&problem->x);
    job.shift = rows->shift;
    job.scale = rows->scale;
    job.own_scale = tensor && problem->metric != HF_EUCLIDEAN;
    job.raw = rows->raw;
    job.x16 = tensor ? m.x16 : NULL;
    job.ld = job.x16 != NULL ? m.ld : job.d;
    job.norm = m.norm;
    job.loss = m.loss;
    job.n = rows->n;
    job.wild = m.wild;
    job.wild_count = m.wild_count;
    job.lanes = 32;
    while (job.lanes > 4 && job.lanes >= m.ld)
        job.lanes /= 2;
    return rows_launch(cuda, &job, problem->x.dtype);
}
