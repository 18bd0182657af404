/* SPDX-License-Identifier: Apache-2.0
 * The filter of seed: float32 dot products that prove for most pairs that the candidate is no
 * nearer than the centroid the row has.
 *
 * u = 2^-24, m = ceil(d / VW) + 6, g = m u / (1 - m u). Rows and candidates are stored as
 * t = float32((v - shift) * scale); scale is a power of two, so |t - (v - shift) scale| <= (1 +
 * 2^-20) u |t| for each feature unless it underflows. VW lanes sum the products of every VW-th
 * feature with fma, then the lanes are added as a tree: no term passes more than m roundings, hence
 * for the stored vectors |p - P| <= g |tx| |tc| <= g (A + C) / 2,  |nx - A| <= g A   with P =
 * tx.tc, A = |tx|^2, C = |tc|^2. Storing moves the distance: | |tx - tc| - scale |x - c| | <= (1 +
 * 2^-20) u (|tx| + |tc|), which changes its square by at most 4.2 u (A + C). With near = nearest *
 * scale^2 and slack e the pair is dropped when p <= [nx (1 - e) - near'] / 2 + nc (1 - e) / 2,
 * near' = near (1 + 2^-20) + floor, because then scale^2 |x - c|^2 >= A + C - 2 p - (g + 4.2 u) (A
 * + C)
 *                              >= near' + (e (1 - g) - 2 g - 4.2 u - 2 u) (A + C) - u near
 * (2 u and u near: the float32 roundings of the right side), and the reference's own roundings take
 * away at most a share (d + 4) 2^-53. So e = 2 g + 12 u + (d + 4) 2^-51 is enough. floor pays for
 * underflow: at most 2^-122 for each feature here, also where denormals are flushed, and 2^-1074
 * scale^2 in the reference. NaN and overflow: the comparison is false, or its right side -Inf, and
 * the pair stays open.
 *
 * Cosine: candidates are stored as c / |c|, shift is 0, and the pair is dropped when
 *     p <= sqrt(nx) (1 - nearest - e):  the errors, g + 2.1 u of p, (g / 2 + u) |1 - nearest| of
 * sqrt(nx), and (d + 8) 2^-52 of the reference, stay below e. Vectors whose square is outside
 * 1e-280 .. 1e280, where the reference itself may underflow, are left open. */
#ifndef HF_SEED_FILTER_H
#define HF_SEED_FILTER_H

#include "ops/seed/seed_job.h"

#define SMALL_SQUARE 1e-280
#define LARGE_SQUARE 1e280

static void seed_filter_terms(struct seed_job *job) {
    const double unit = 0x1p-24;
    const double m = (double)(job->dp / VW + 6) * unit;
    const double d = (double)job->d;
    const double scale = job->args->filter.scale;
    job->scale = job->args->x.dtype == HF_F64 || scale < 0x1p127 ? scale : 0x1p127;
    job->slack = m < 0.25 ? 2 * m / (1 - m) + 12 * unit + (d + 8) * 0x1p-50 : 1;
    job->floor = d * (0x1p-120 + 0x1p-1070 * job->scale * job->scale);
}

/* The same shift for rows and candidates: float32 where the rows can be read as float32. */
static void seed_filter_shift(struct seed_job *job) {
    const struct hf_seed_args *a = job->args;
    for (int64_t j = 0; j < job->dp; j++) {
        const bool some = j < job->d && a->filter.shift && a->metric != HF_COSINE;
        const double s = some ? a->filter.shift[j] : 0;
        job->shift[j] = (float)s;
        job->shift64[j] = a->x.dtype == HF_F64 ? s : (double)job->shift[j];
    }
}

static void seed_filter_candidate(struct seed_job *job, int64_t l) {
    const struct hf_seed_args *a = job->args;
    const double *c = hf_array_row(&a->candidates, l);
    const bool cosine = a->metric == HF_COSINE;
    float *dst = job->c + l * job->dp;
    double factor = job->scale;
    double square = 0;
    if (cosine) {
        job->c_norm[l] = hf_reference_norm(c, job->d);
        factor = 1 / job->c_norm[l];
        square = job->c_norm[l] * job->c_norm[l];
    }
    double nc = 0;
    for (int64_t j = 0; j < job->dp; j++) {
        dst[j] = j < job->d ? (float)((c[j] - job->shift64[j]) * factor) : 0;
        nc += (double)dst[j] * (double)dst[j];
    }
    double limit = 0.5 * nc * (1 - job->slack) * (1 - 0x1p-22);
    if (cosine)
        limit = square > SMALL_SQUARE && square < LARGE_SQUARE ? 0 : NAN;
    for (int64_t i = l % GROUP; i < VW; i += GROUP)
        job->c_limit[l / GROUP * VW + i] = (float)limit;
}

static void seed_filter_candidates(struct seed_job *job) {
    memset(job->c, 0, (size_t)(job->lp * job->dp) * sizeof *job->c);
    memset(job->c_limit, 0, (size_t)(job->lp / GROUP * VW) * sizeof *job->c_limit);
    for (int64_t l = 0; l < job->l; l++)
        seed_filter_candidate(job, l);
}

/* What the conversion of a row needs, in registers. */
struct seed_view {
    const float *shift;
    const double *shift64;
    float scale;
    double scale64;
};

/* VW features from j on as the filter sees them; row is that of feature `from`. */
ALWAYS_INLINE vf seed_stored(struct seed_view view, const void *row, hf_dtype dtype, int64_t from,
                             int64_t j) {
    if (dtype != HF_F64)
        return vf_mul(vf_sub(seed_load_vf(row, dtype, j - from), vf_load(view.shift + j)),
                      vf_set1(view.scale));
    double t[VW];
    const double *x = (const double *)row + (j - from);
    const vd scale = vd_set1(view.scale64);
    vd_store(t, vd_mul(vd_sub(vd_load(x), vd_load(view.shift64 + j)), scale));
    vd_store(t + VDW, vd_mul(vd_sub(vd_load(x + VDW), vd_load(view.shift64 + j + VDW)), scale));
    return vf_from_f64(t);
}

/* dst [dp] = the row as the filter sees it; returns nx. */
ALWAYS_INLINE float seed_store_row(const struct seed_job *job, const void *row, hf_dtype dtype,
                                   float *restrict dst) {
    const struct seed_view view = {job->shift, job->shift64, (float)job->scale, job->scale};
    const int64_t d = job->d;
    vf s[4];
    UNROLL(4)
    for (int i = 0; i < 4; i++)
        s[i] = vf_set1(0);
    int64_t j = 0;
    for (; j + 4 * VW <= d; j += 4 * VW) {
        UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const vf t = seed_stored(view, row, dtype, 0, j + i * VW);
            vf_store(dst + j + i * VW, t);
            s[i] = vf_fma(t, t, s[i]);
        }
    }
    for (; j + VW <= d; j += VW) {
        const vf t = seed_stored(view, row, dtype, 0, j);
        vf_store(dst + j, t);
        s[0] = vf_fma(t, t, s[0]);
    }
    if (j < d) {
        char tail[VW * 8] = {0};
        const size_t size = hf_dtype_bytes(dtype);
        memcpy(tail, (const char *)row + (size_t)j * size, (size_t)(d - j) * size);
        const vf t = seed_stored(view, tail, dtype, j, j);
        vf_store(dst + j, t);
        s[1] = vf_fma(t, t, s[1]);
    }
    float part[4];
    vf_sum4(part, s[0], s[1], s[2], s[3]);
    return (part[0] + part[1]) + (part[2] + part[3]);
}

static float seed_store_any(const struct seed_job *job, const void *row, float *dst) {
    switch (job->args->x.dtype) {
    case HF_F64:
        return seed_store_row(job, row, HF_F64, dst);
    case HF_F16:
        return seed_store_row(job, row, HF_F16, dst);
    case HF_BF16:
        return seed_store_row(job, row, HF_BF16, dst);
    case HF_U8:
        return seed_store_row(job, row, HF_U8, dst);
    default:
        return seed_store_row(job, row, HF_F32, dst);
    }
}

/* What the row adds to the right side of the comparison. */
ALWAYS_INLINE float seed_row_limit(const struct seed_job *job, double nearest, float nx) {
    double limit;
    if (job->args->metric == HF_COSINE) {
        const double square = (double)nx / job->scale / job->scale;
        if (!(nx > 0x1p-60f && square > SMALL_SQUARE && square < LARGE_SQUARE))
            return NAN;
        limit = sqrt((double)nx) * (1 - nearest - job->slack);
    } else {
        const double squared = nearest * job->scale * job->scale * (1 + 0x1p-20) + job->floor;
        limit = 0.5 * ((double)nx * (1 - job->slack) - squared);
    }
    return (float)(limit - fabs(limit) * 0x1p-22);
}

/* dots [rows of the tile][GROUP] of TILE rows and GROUP candidates. next: rows wanted soon,
 * `step` bytes of them for each vector, brought into the cache meanwhile. */
ALWAYS_INLINE void seed_tile(const float *x, const float *c, int64_t dp, const char *const *next,
                             int64_t step, float *dots) {
    vf acc[TILE][GROUP];
    UNROLL(8)
    for (int r = 0; r < TILE; r++) {
        UNROLL(4)
        for (int l = 0; l < GROUP; l++)
            acc[r][l] = vf_set1(0);
    }
    int64_t at = 0;
    for (int64_t j = 0; j < dp; j += VW, at += step) {
        vf v[TILE];
        UNROLL(8)
        for (int r = 0; r < TILE; r++)
            v[r] = vf_load(x + r * dp + j);
        for (int r = 0; next && r < TILE; r++)
            __builtin_prefetch(next[r] + at);
        UNROLL(4)
        for (int l = 0; l < GROUP; l++) {
            const vf cv = vf_load(c + l * dp + j);
            UNROLL(8)
            for (int r = 0; r < TILE; r++)
                acc[r][l] = vf_fma(v[r], cv, acc[r][l]);
        }
    }
    UNROLL(8)
    for (int r = 0; r < TILE; r++)
        vf_sum4(dots + r * GROUP, acc[r][0], acc[r][1], acc[r][2], acc[r][3]);
}

#endif
