/* SPDX-License-Identifier: Apache-2.0
 * Rows as the tensor cores want them: x16 = f16(x'), and bounds on |x16| and |x' - x16|. Euclidean:
 * x' = (x - shift) * scale with one scale for all, because lengths matter; dot and cosine: x' = x
 * times a power of two of its own for each row, because they do not. A warp takes a few rows at a
 * time, as many lanes to a row as it has packs of columns. Float64 data are converted in float64,
 * others in float32, whose roundings the bounds pay for. */
#include "base/mem.h"
#include "device/cuda/pack.cuh"
#include "ops/assign/cuda/assign_cuda.h"
#include "ops/assign/cuda/i8.h"
#include "ops/assign/cuda/mma.h"

#include <math.h>

#define ROW_REACH 0x1p15f /* |x'| of rows that the filter looks at; f16 ends at 65504 */
#define THREADS 256
#define SHIFT_PIECE 256 /* columns of the shift looked at together */

struct rows_job {
    const void *x;
    int64_t rows, d, stride;
    const double *shift;  /* [d] for float64 data; NULL: 0 */
    const float *shift32; /* [d] the same for all others */
    double scale;
    bool own_scale; /* each row its own */
    bool raw;       /* x itself is looked at */
    __half *x16;    /* NULL: not wanted */
    int64_t ld;
    float *norm, *loss;
    int64_t n;                                  /* rows of a problem */
    int32_t *out_of_range, *out_of_range_count; /* NULL: not wanted */
    int lanes;                                  /* of a row: a power of two */
    const int32_t *list;                        /* [*count] only these rows, NULL: all */
    const int32_t *count;
    const int32_t *stop; /* NULL, or: nothing is done if *stop != 0 by then */
};

template <typename W> __device__ static W lanes_sum(W v, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2)
        v += __shfl_xor_sync(~0u, v, step);
    return v;
}

/* N columns of a row from j on, exactly; zeros from d on. */
template <hf_dtype T, int N, bool WIDE, typename W>
__device__ __forceinline__ void load_columns(const void *x, int64_t j, int64_t d, W v[N]) {
    if constexpr (WIDE) {
        struct hf_pack<T, N> pack = {};
        if (j < d)
            pack = *reinterpret_cast<const struct hf_pack<T, N> *>(static_cast<const char *>(x) +
                                                                   j * hf_device_bytes<T>);
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = hf_widen<T>(pack.e[i]);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = j + i < d
                       ? hf_widen<T>(static_cast<const typename hf_element<T>::type *>(x)[j + i])
                       : 0;
    }
}

/* The power of two that brings the row's length into [2^11, 2^12]; 1 for a row of zeros, 0 where
 * the reference's products of such a row may over- or underflow. */
template <hf_dtype T>
__device__ static double own_scale(const void *x, int64_t d, int lane, int lanes) {
    double square = 0;
    int any = 0;
    for (int64_t j = lane; j < d; j += lanes) {
        const double v = hf_device_load<T>(x, j);
        square += v * v;
        any |= v != 0;
    }
    square = lanes_sum(square, lanes);
    if (lanes_sum(any, lanes) == 0)
        return 1;
    if (!(square >= 0x1p-800 && square <= 0x1p800))
        return 0;
    return exp2(12.0 - ceil(0.5 * log2(square) + 0.001));
}

/* Squares of lengths. */
template <typename W> struct row_sums {
    W length;  /* |x16|^2 */
    W centred; /* |x'|^2 */
    W lost;    /* |x' - x16|^2 */
};

/* A row's columns, N at a time. */
template <hf_dtype T, int N, bool WIDE, typename W>
__device__ __forceinline__ struct row_sums<W> convert_row(const struct rows_job &job, const void *x,
                                                          __half *x16, W scale, int lane) {
    struct row_sums<W> sums = {
        0, 0, 0
    };
    for (int64_t j = static_cast<int64_t>(lane) * N; j < job.ld;
         j += static_cast<int64_t>(job.lanes) * N) {
        W v[N];
        load_columns<T, N, WIDE>(x, j, job.d, v);
        W shift[N] = {};
        if (job.shift && T == HF_F64)
            load_columns<HF_F64, N, WIDE>(job.shift, j, job.d, shift);
        else if (job.shift)
            load_columns<HF_F32, N, WIDE>(job.shift32, j, job.d, shift);
        struct hf_pack<HF_F16, N> h;
#pragma unroll
        for (int i = 0; i < N; i++) {
            const W t = (v[i] - shift[i]) * scale;
            if constexpr (T == HF_F64)
                h.e[i] = __double2half(t);
            else
                h.e[i] = __float2half_rn(t);
            const W r = job.raw ? v[i] : x16 ? static_cast<W>(__half2float(h.e[i])) : t;
            sums.length += r * r;
            sums.centred += t * t;
            sums.lost += (t - r) * (t - r);
        }
        if (x16)
            *reinterpret_cast<struct hf_pack<HF_F16, N> *>(x16 + j) = h;
    }
    sums.length = lanes_sum(sums.length, job.lanes);
    sums.centred = lanes_sum(sums.centred, job.lanes);
    sums.lost = lanes_sum(sums.lost, job.lanes);
    return sums;
}

/* Bounds of a row. float32: t has one rounding, 2^-24 of it; sums of d / 32 squares a lane and
 * their roots are off by less than 2^-20 + d 2^-30; squares that underflow are below 2^-126. */
template <typename W>
__device__ static void write_bounds(const struct rows_job &job, int64_t row,
                                    const struct row_sums<W> &sums, bool known) {
    const float up = 1 + 0x1p-19f + static_cast<float>(job.d) * 0x1p-29f;
    const float length = sqrtf(static_cast<float>(sums.length)) * up + 0x1p-60f;
    const float centred = sqrtf(static_cast<float>(sums.centred)) * up;
    const float lost = sqrtf(static_cast<float>(sums.lost)) * up;
    /* NaN compares false: a row with an overflow is out of range as well */
    const bool fine = known && centred <= ROW_REACH && length < INFINITY;
    if (!fine && job.out_of_range) {
        const int64_t b = row / job.n;
        job.out_of_range[b * job.n + atomicAdd(job.out_of_range_count + b, 1)] =
            static_cast<int32_t>(row - b * job.n);
    }
    job.norm[row] = !fine ? INFINITY : job.own_scale && sums.centred == 0 ? 0 : length;
    if (job.loss)
        job.loss[row] = fine ? lost + centred * 0x1p-22f + 0x1p-60f : INFINITY;
}

/* WIDE: rows lie so that N columns can be loaded at once, and d is a multiple of N. */
template <hf_dtype T, int N, bool WIDE>
static __global__ void __launch_bounds__(THREADS) prepare_rows(const struct rows_job job) {
    typedef typename hf_element<T>::wide W;
    if (job.stop && *job.stop)
        return;
    const int lane = static_cast<int>(threadIdx.x) % job.lanes;
    const int64_t rows = job.list ? *job.count : job.rows;
    const int64_t here = (static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x) / job.lanes;
    const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS / job.lanes;
    const int64_t end = (rows + 31) / 32 * 32; /* whole warps stay together for the shuffles */
    for (int64_t i = here; i < end; i += step) {
        const int64_t place = i < rows ? i : rows - 1;
        const int64_t row = job.list ? job.list[place] : place;
        const void *x = static_cast<const char *>(job.x) + row * job.stride * hf_device_bytes<T>;
        double scale = job.scale;
        if (job.own_scale)
            scale = own_scale<T>(x, job.d, lane, job.lanes);
        const struct row_sums<W> sums = convert_row<T, N, WIDE>(
            job, x, job.x16 ? job.x16 + row * job.ld : nullptr, static_cast<W>(scale), lane);
        if (lane == 0 && i < rows)
            write_bounds(job, row, sums, scale > 0);
    }
}

static int64_t array_stride(const hf_array *a) {
    return a->row_stride != 0 ? a->row_stride : a->cols;
}

static bool scale_usable(double scale) { return scale >= 0x1p-100 && scale <= 0x1p100; }

/* Values of the shift on the host. Where it lies on the device, a stream of this thread's own
 * brings them: the legacy one would wait for all others. */
static bool read_shift(double *to, const double *from, int64_t count) {
    const size_t bytes = sizeof(double) * (size_t)count;
    struct cudaPointerAttributes attr;
    if (cudaPointerGetAttributes(&attr, from) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    if (attr.type == cudaMemoryTypeUnregistered || attr.type == cudaMemoryTypeHost) {
        memcpy(to, from, bytes);
        return true;
    }
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cudaStreamPerThread) ==
               cudaSuccess &&
           cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess;
}

/* Is the shift small beside the spread of the data, and beside most rows? */
static bool shift_small(const struct hf_assign_problem *p) {
    double shift[SHIFT_PIECE];
    double square = 0;
    for (int64_t j = 0; p->shift != NULL && j < p->x.cols; j += SHIFT_PIECE) {
        const int64_t count = p->x.cols - j < SHIFT_PIECE ? p->x.cols - j : SHIFT_PIECE;
        if (!read_shift(shift, p->shift + j, count))
            return false;
        for (int64_t i = 0; i < count; i++)
            square += shift[i] * shift[i];
    }
    const double reach = 1 / (p->scale > 0 ? p->scale : 1); /* of x - shift in each column */
    const double length = p->length > 0 ? p->length * reach : INFINITY;
    return square <= (double)p->x.cols * reach * reach / 256 && square <= length * length / 4;
}

/* 16-bit data are best left where they are if they are not far from 0: then they are exact in f16,
 * and so are centroids stored in the type of the data. */
static bool shift_dropped(const struct hf_assign_problem *p) {
    return p->shift == NULL || p->metric != HF_EUCLIDEAN ||
           ((p->x.dtype == HF_F16 || p->x.dtype == HF_BF16) && shift_small(p));
}

/* Can x be looked at in place? bf16 rows are where that is all that is done with them: Hopper's
 * filter takes them to f16, where they lose next to nothing if they are neither large nor small. */
static bool rows_raw(const struct hf_assign_problem *p) {
    const hf_array *x = &p->x;
    const double scale = p->scale > 0 ? p->scale : 1;
    if ((double)x->cols / (scale * scale) > 0x1p30) /* half norms beyond what 16-bit pieces hold */
        return false;
    if (x->dtype == HF_BF16 && !(p->once && scale >= 0x1p-14 && scale <= 0x1p4))
        return false;
    return (x->dtype == HF_F16 || x->dtype == HF_BF16) && p->metric == HF_EUCLIDEAN &&
           x->cols % 8 == 0 && array_stride(x) % 8 == 0 && (uintptr_t)x->data % 16 == 0 &&
           shift_dropped(p);
}

/* On any device? */
static bool rows_unmoved(const struct hf_assign_problem *p) {
    return p->x.dtype == HF_F16 && rows_raw(p);
}

struct rows_memory {
    double *shift;
    float *shift32;
    __half *x16;
    float *norm, *loss;
    int32_t *out_of_range, *out_of_range_count;
    void *i8;
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
    m->out_of_range = m->out_of_range_count = NULL;
    if (!p->exact) {
        m->out_of_range = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * rows);
        m->out_of_range_count =
            (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * (size_t)p->batch);
    }
    carve.used = (carve.used + 255) / 256 * 256;
    m->x16 = raw ? NULL : (__half *)hf_carve_take(&carve, sizeof(__half) * rows * (size_t)m->ld);
    carve.used = (carve.used + 255) / 256 * 256;
    m->i8 = NULL;
    if (hf_i8_wanted(p)) {
        struct hf_i8_rows i8;
        m->i8 = hf_carve_take(&carve, hf_i8_rows_carve(p, NULL, &i8));
    }
    return (carve.used + 255) / 256 * 256;
}

size_t hf_assign_rows_bytes(const struct hf_assign_problem *problem) {
    struct rows_memory m;
    return rows_carve(problem, rows_unmoved(problem), NULL, &m);
}

template <hf_dtype T> static void launch_type(struct hf_cuda *cuda, struct rows_job job) {
    constexpr int N = T == HF_U8 ? 8 : 16 / hf_device_bytes<T>;
    constexpr int BYTES = N * hf_device_bytes<T>;
    const bool wide = job.d % N == 0 && (uintptr_t)job.x % BYTES == 0 &&
                      job.stride * hf_device_bytes<T> % BYTES == 0;
    const int64_t packs = job.ld / (wide ? N : 2);
    job.lanes = 32;
    while (job.lanes > 1 && job.lanes / 2 >= packs)
        job.lanes /= 2;
    const int64_t blocks = (job.rows * job.lanes + THREADS - 1) / THREADS;
    const int64_t most = (int64_t)cuda->sms * 32;
    const unsigned grid = (unsigned)(blocks < most ? blocks : most);
    if (wide)
        prepare_rows<T, N, true><<<grid, THREADS, 0, cuda->stream>>>(job);
    else
        prepare_rows<T, 2, false><<<grid, THREADS, 0, cuda->stream>>>(job);
}

static hf_status rows_launch(struct hf_cuda *cuda, const struct rows_job *job, hf_dtype dtype) {
    hf_for_dtype(dtype, [&](auto type) { launch_type<decltype(type)::value>(cuda, *job); });
    return hf_cuda_launched(cuda, "assign: prepare rows");
}

/* The shift as the device wants it: m->shift and, behind it, m->shift32; host: room for both. Rows
 * and centroids have one shift: the float32 one, unless the rows are float64. */
static hf_status bring_shift(struct hf_cuda *cuda, const struct hf_assign_problem *p,
                             const struct rows_memory *m, char *host) {
    const int64_t d = p->x.cols;
    const size_t behind = (size_t)((char *)m->shift32 - (char *)m->shift);
    double *const shift = (double *)host;
    float *const shift32 = (float *)(host + behind);
    if (!read_shift(shift, p->shift, d))
        return hf_cuda_check(cuda, cudaErrorInvalidValue, "assign: read the shift");
    for (int64_t j = 0; j < d; j++) {
        shift32[j] = static_cast<float>(shift[j]);
        if (p->x.dtype != HF_F64)
            shift[j] = static_cast<double>(shift32[j]);
    }
    return hf_cuda_check(cuda,
                         cudaMemcpyAsync(m->shift, host, behind + sizeof(float) * (size_t)d,
                                         cudaMemcpyHostToDevice, cuda->stream),
                         "assign: copy the shift");
}

static hf_status rows_shift(struct hf_cuda *cuda, struct hf_assign_rows *rows,
                            const struct rows_memory *m) {
    const struct hf_assign_problem *p = &rows->problem;
    rows->shift32 = m->shift32;
    if (shift_dropped(p))
        return HF_OK;
    rows->shift = m->shift;
    const size_t bytes = (size_t)((char *)(m->shift32 + p->x.cols) - (char *)m->shift);
    char *const host = (char *)hf_alloc(bytes);
    if (host == NULL)
        return hf_cuda_check(cuda, cudaErrorMemoryAllocation, "assign: copy the shift");
    const hf_status status = bring_shift(cuda, p, m, host);
    hf_free(host); /* the copy has read it */
    return status;
}

/* Does the filter find out by itself what else it needs of rows that it sees in place? */
static bool filter_alone(const struct hf_assign_rows *rows) {
    const struct hf_assign_problem *p = &rows->problem;
    if (!rows->raw || rows->mma)
        return false;
    return !p->exact || p->once;
}

/* What the kernel that was planned does with such rows. */
static enum hf_assign_kind kind_here(const struct hf_assign_problem *p, double scale, bool *mma) {
    *mma = p->kind == HF_ASSIGN_MMA || p->device->sm != 90;
    const int64_t n = p->x.rows / p->batch;
    if (!scale_usable(scale))
        return HF_ASSIGN_DENSE;
    if (p->kind == HF_ASSIGN_DENSE)
        return p->kind;
    if (!(*mma ? hf_mma_supports : hf_filter_supports)(p->device, n, (int)p->k, (int)p->x.cols,
                                                       (int)p->batch))
        return HF_ASSIGN_DENSE; /* too long */
    return HF_ASSIGN_TENSOR;
}

/* x16, norm and loss of the rows of a list, or of all. */
static hf_status rows_convert(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                              const int32_t *list, const int32_t *count, const int32_t *stop) {
    const struct hf_assign_problem *problem = &rows->problem;
    const bool tensor = rows->kind == HF_ASSIGN_TENSOR;
    struct rows_job job = {};
    job.x = problem->x.data;
    job.rows = problem->x.rows;
    job.d = problem->x.cols;
    job.stride = array_stride(&problem->x);
    job.shift = rows->shift;
    job.shift32 = rows->shift32;
    job.scale = rows->scale;
    job.own_scale = tensor && problem->metric != HF_EUCLIDEAN;
    job.raw = rows->raw;
    job.x16 = tensor && !rows->raw ? (__half *)(uintptr_t)rows->x16 : NULL;
    job.ld = (problem->x.cols + 7) / 8 * 8;
    job.norm = (float *)(uintptr_t)rows->norm;
    job.loss = (float *)(uintptr_t)rows->loss;
    job.n = rows->n;
    job.out_of_range = (int32_t *)(uintptr_t)rows->out_of_range;
    job.out_of_range_count = (int32_t *)(uintptr_t)rows->out_of_range_count;
    job.list = list;
    job.count = count;
    job.stop = stop;
    return rows_launch(cuda, &job, problem->x.dtype);
}

hf_status hf_assign_rows_prepare(struct hf_cuda *cuda, const struct hf_assign_problem *problem,
                                 void *memory, struct hf_assign_rows *rows) {
    struct rows_memory m;
    *rows = (struct hf_assign_rows){};
    rows->problem = *problem;
    rows->n = problem->x.rows / problem->batch;
    rows->scale = problem->scale > 0 ? problem->scale : 1;
    rows->kind = kind_here(problem, rows->scale, &rows->mma);
    const bool tensor = rows->kind == HF_ASSIGN_TENSOR;
    const bool unmoved = rows_unmoved(problem);
    (void)rows_carve(problem, unmoved, memory, &m);
    rows->raw = tensor && (unmoved || (!rows->mma && rows_raw(problem)));
    rows->bf16 = rows->raw && !unmoved;
    const bool raw = unmoved || rows->raw;
    rows->x16 = raw ? problem->x.data : m.x16;
    rows->ld = raw ? array_stride(&problem->x) : m.ld;
    rows->length = rows->raw ? problem->length / rows->scale : problem->length;
    HF_TRY(rows_shift(cuda, rows, &m));
    if (rows->kind == HF_ASSIGN_DENSE || filter_alone(rows))
        return HF_OK;
    rows->norm = m.norm;
    rows->loss = m.loss;
    rows->out_of_range = m.out_of_range;
    rows->out_of_range_count = m.out_of_range_count;
    if (rows->kind == HF_ASSIGN_TENSOR && hf_i8_chosen(cuda, problem)) {
        struct hf_i8_rows i8;
        rows->i8 = m.i8;
        (void)hf_i8_rows_carve(problem, m.i8, &i8);
        HF_TRY(hf_i8_prepare(cuda, problem, &i8));
        if (problem->kind == HF_ASSIGN_I8 && problem->once)
            return HF_OK; /* for one step: hf_assign_rows_convert() */
    }
    if (m.out_of_range != NULL)
        HF_TRY(
            hf_cuda_check(cuda,
                          cudaMemsetAsync(m.out_of_range_count, 0,
                                          sizeof(int32_t) * (size_t)problem->batch, cuda->stream),
                          "assign: clear counters"));
    return rows_convert(cuda, rows, NULL, NULL, NULL);
}

hf_status hf_assign_rows_convert(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                                 const int32_t *list, const int32_t *count, const int32_t *stop) {
    if (rows->problem.kind != HF_ASSIGN_I8 || !rows->problem.once)
        return HF_OK; /* all are there */
    return rows_convert(cuda, rows, list, count, stop);
}
