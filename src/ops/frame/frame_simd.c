/* SPDX-License-Identifier: Apache-2.0
 * frame in SIMD. Medians of a vector of columns at a time: bisection between the least and the
 * largest value over their bits, which have the order of the values; each step walks the sample
 * once and ends at values that are there, so that a dozen of them do. */
#include "base/mem.h"
#include "core/array.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "device/host/isa_load.h"
#include "ops/frame/frame.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define CHAINS 4 /* rows of the sample that are looked at side by side */

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_frame_kernels) = {NULL, 0};
#else

#define REAL_BITS 32
#include "device/host/isa_real.h"
#include "ops/frame/medians.h"
#undef REAL_BITS
#define REAL_BITS 64
#include "device/host/isa_real.h"
#include "ops/frame/medians.h"

/* Rows [first, first + n) of the data are a problem. */
struct problem {
    const struct hf_frame_args *args;
    int64_t first, n, m;
    const char *row[HF_FRAME_ROWS]; /* [m] of the sample */
    double block[HF_FRAME_ROWS * VDW];
    float narrow[HF_FRAME_ROWS * VW];
};

static int columns_left(int64_t d, int64_t j, int most) {
    return d - j < most ? (int)(d - j) : most;
}

static void pad_block(struct problem *p) {
    for (int64_t i = p->m; i % CHAINS != 0; i++)
        vd_store(p->block + i * VDW, vd_set1(INFINITY));
}

/* Medians of columns j to j + n - 1, n <= VW. */
ALWAYS_INLINE void column_medians(struct problem *p, int64_t j, int n, hf_dtype dtype,
                                  double *out) {
    if (dtype == HF_F64) {
        double v[VDW];
        pad_block(p);
        for (int at = 0; at < n; at += VDW) {
            const int some = columns_left(n, at, VDW);
            for (int64_t i = 0; i < p->m; i++)
                vd_store(p->block + i * VDW, vd_load_as_n(p->row[i], dtype, j + at, some));
            medians_f64(p->block, p->m, v);
            for (int t = 0; t < some; t++)
                out[at + t] = v[t] + 0.0;
        }
        return;
    }
    float v[VW];
    for (int64_t i = p->m; i % CHAINS != 0; i++)
        vf_store(p->narrow + i * VW, vf_set1(INFINITY));
    for (int64_t i = 0; dtype == HF_F32 && n == VW && i < p->m; i++)
        vf_store(p->narrow + i * VW, vf_load((const float *)(const void *)p->row[i] + j));
    for (int64_t i = 0; !(dtype == HF_F32 && n == VW) && i < p->m; i++) {
        double wide[VW] = {0};
        for (int at = 0; at < n; at += VDW)
            vd_store(wide + at, vd_load_as_n(p->row[i], dtype, j + at, columns_left(n, at, VDW)));
        vf_store(p->narrow + i * VW, vf_from_f64(wide));
    }
    medians_f32(p->narrow, p->m, v);
    for (int t = 0; t < n; t++)
        out[t] = (double)v[t] + 0.0;
}

/* Squares of the distances of VDW rows of the sample to two points, lane = row. */
ALWAYS_INLINE void squares_of(const char *const row[VDW], int64_t d, hf_dtype dtype,
                              const double *const origin[2], vd sum[2]) {
    sum[0] = sum[1] = vd_set1(0);
    for (int64_t j = 0; j < d; j += VDW) {
        const int n = columns_left(d, j, VDW);
        vd r[VDW];
        UNROLL(8)
        for (int i = 0; i < VDW; i++)
            r[i] = vd_load_as_n(row[i], dtype, j, n);
        vd_transpose(r);
        for (int i = 0; i < n; i++) {
            const vd a = vd_sub(r[i], vd_set1(origin[0][j + i]));
            const vd b = vd_sub(r[i], vd_set1(origin[1][j + i]));
            sum[0] = vd_add(sum[0], vd_mul(a, a));
            sum[1] = vd_add(sum[1], vd_mul(b, b));
        }
    }
}

/* Roots keep the order. */
ALWAYS_INLINE void median_lengths(struct problem *p, hf_dtype dtype, const double *const origin[2],
                                  double out[2]) {
    double lanes[2][VDW];
    double median[VDW];
    memset(p->block, 0, sizeof p->block);
    for (int64_t first = 0; first < p->m; first += VDW) {
        const int64_t last = p->m - 1;
        const char *row[VDW];
        vd sum[2];
        for (int64_t i = 0; i < VDW; i++)
            row[i] = p->row[first + i < last ? first + i : last];
        squares_of(row, p->args->x.cols, dtype, origin, sum);
        vd_store(lanes[0], sum[0]);
        vd_store(lanes[1], sum[1]);
        for (int64_t i = 0; i < VDW && first + i <= last; i++) {
            p->block[(first + i) * VDW] = lanes[0][i];
            p->block[(first + i) * VDW + 1] = lanes[1][i];
        }
    }
    pad_block(p);
    medians_f64(p->block, p->m, median);
    out[0] = sqrt(median[0]);
    out[1] = sqrt(median[1]);
}

ALWAYS_INLINE void frame_as(struct problem *p, int64_t number, hf_dtype dtype) {
    const struct hf_frame_args *a = p->args;
    const int64_t d = a->x.cols;
    double *median = a->median + number * d;
    for (int64_t j = 0; j < d; j += VW)
        column_medians(p, j, columns_left(d, j, VW), dtype, median + j);
    const double *const origin[2] = {a->mean + number * d, median};
    double length[2];
    median_lengths(p, dtype, origin, length);
    a->length_mean[number] = length[0];
    a->length_median[number] = length[1];
}

static size_t frame_workspace(const struct hf_call *call) {
    (void)call;
    return hf_align_up(sizeof(struct problem));
}

static hf_status frame_run(const struct hf_call *call) {
    const struct hf_frame_args *a = call->args;
    const int64_t batch = hf_frame_batch(a);
    struct problem *p = call->ws;
    p->args = a;
    p->n = a->x.rows / batch;
    p->m = hf_frame_rows(p->n, a->x.cols);
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t i = 0; i < p->m; i++)
            p->row[i] = hf_array_row(&a->x, b * p->n + i * p->n / p->m);
        switch (a->x.dtype) {
        case HF_F64:
            frame_as(p, b, HF_F64);
            break;
        case HF_F16:
            frame_as(p, b, HF_F16);
            break;
        case HF_BF16:
            frame_as(p, b, HF_BF16);
            break;
        case HF_U8:
            frame_as(p, b, HF_U8);
            break;
        default:
            frame_as(p, b, HF_F32);
            break;
        }
    }
    return HF_OK;
}

static double frame_estimate(const struct hf_call *call) {
    const struct hf_frame_args *a = call->args;
    const int64_t batch = hf_frame_batch(a);
    return 24.0 / VW * (double)(batch * hf_frame_rows(a->x.rows / batch, a->x.cols) * a->x.cols);
}

static const struct hf_kernel kernels[] = {{.name = "frame_any_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = frame_workspace,
                                            .run = frame_run,
                                            .estimate = frame_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_frame_kernels) = {kernels, 1};
#endif
