/* SPDX-License-Identifier: Apache-2.0
 * Centroids as the filter sees them: c' in float32, and how long they are. */
#ifndef HF_ASSIGN_CENTRED_H
#define HF_ASSIGN_CENTRED_H

#include "ops/assign/host/gather.h"
#include "ops/assign/host/job.h"
#include <math.h>
#include <string.h>

/* c' is c - shift times this. */
static double centred_factor(const struct job *job, int64_t k) {
    if (job->a->metric == HF_COSINE)
        return job->c_norm[k] > 0 ? 1 / job->c_norm[k] : 0;
    return job->a->metric == HF_EUCLIDEAN ? (double)job->scale : job->c_scale;
}

/* c' of centroid k to out [d_pad], zeros behind d; computed in float64, rounded once to float32. */
static void centred_wide(const struct job *job, struct worker *w, int64_t k, float *out) {
    const vd factor = vd_set1(centred_factor(job, k));
    double *c = w->x64;
    gather_wide(c, hf_array_row(&job->a->c, k), job->a->c.dtype, job->d);
    memset(c + job->d, 0, sizeof *c * (size_t)(job->d_pad - job->d));
    for (int64_t j = 0; j < job->d_pad; j += VDW)
        vd_store(c + j, vd_mul(vd_sub(vd_load(c + j), vd_from_f32(job->shift + j)), factor));
    for (int64_t j = 0; j < job->d_pad; j += VW)
        vf_store(out + j, vf_from_f64(c + j));
}

static double centred_square(const float *c, int64_t d_pad) {
    vd sum[2] = {vd_set1(0), vd_set1(0)};
    for (int64_t j = 0; j < d_pad; j += 2 * VDW) {
        const vd a = vd_from_f32(c + j);
        const vd b = vd_from_f32(c + j + VDW);
        sum[0] = vd_fma(a, a, sum[0]);
        sum[1] = vd_fma(b, b, sum[1]);
    }
    return vd_sum(vd_add(sum[0], sum[1]));
}

/* c' of centroid k to out [d_pad], zeros behind d. Returns |c'|^2. It is computed as x' is, unless
 * that overflows. */
static double centred_row(const struct job *job, struct worker *w, int64_t k, float *out) {
    const char *c = hf_array_row(&job->a->c, k);
    double square = INFINITY;
    if (job->a->metric == HF_EUCLIDEAN && job->a->c.dtype == HF_F32) {
        (void)gather_row(job, c, HF_F32, out);
        square = centred_square(out, job->d_pad);
    }
    if (square < INFINITY)
        return square;
    centred_wide(job, w, k, out);
    return centred_square(out, job->d_pad);
}

/* The largest |component| of c' [d_pad]. */
static double centred_most(const float *c, int64_t d_pad) {
    vf most = vf_set1(0);
    for (int64_t j = 0; j < d_pad; j += VW)
        most = vf_max(most, vf_max(vf_load(c + j), vf_sub(vf_set1(0), vf_load(c + j))));
    float lanes[VW];
    vf_store(lanes, most);
    for (int i = 1; i < VW; i++)
        lanes[0] = larger(lanes[0], lanes[i]);
    return (double)lanes[0];
}

#endif
