/* SPDX-License-Identifier: Apache-2.0
 * Once per call: directions V that span most of the centroids, and the coordinates of the
 * centroids. V comes from one step of subspace iteration (Halko, Martinsson, Tropp, 2011) that
 * starts with some of the centroids, orthonormalised by Cholesky QR in float64. A bad V only costs
 * time: the bounds measure how far it is from orthonormal. */
#ifndef HF_ASSIGN_BASIS_H
#define HF_ASSIGN_BASIS_H

#include "ops/assign/host/job.h"
#include <math.h>
#include <string.h>

#define BASIS_CHAIN 128                     /* products added up in one chain */
#define BASIS_LANES (VREGS == 32 ? 64 : 16) /* columns of a product at once */
#define BASIS_LEAST 1e-10 /* a direction with less than this share of the longest is left out */
#define BASIS_STRAIGHT 0x1p-16 /* a basis farther from orthonormal is orthonormalised again; */
#define BASIS_SKEW 0x1p-12     /* if it is still farther than this, it is not used */

/* Four rows of a product: out [4][BASIS_ROOM] += a b; a [4, depth] with strides,
 * b [depth][BASIS_ROOM]. */
ALWAYS_INLINE void basis_multiply_lanes(const float *a, int64_t row, int64_t item, int64_t depth,
                                        const float *b, float *out) {
    enum { V = BASIS_LANES / VW };
    vf sum[4][V];
    UNROLL(4)
    for (int r = 0; r < 4; r++) {
        UNROLL(4)
        for (int v = 0; v < V; v++)
            sum[r][v] = vf_set1(0);
    }
    for (int64_t i = 0; i < depth; i++) {
        vf y[V];
        UNROLL(4)
        for (int v = 0; v < V; v++)
            y[v] = vf_load(b + i * BASIS_ROOM + v * VW);
        UNROLL(4)
        for (int r = 0; r < 4; r++) {
            const vf x = vf_set1(a[r * row + i * item]);
            UNROLL(4)
            for (int v = 0; v < V; v++)
                sum[r][v] = vf_fma(x, y[v], sum[r][v]);
        }
    }
    UNROLL(4)
    for (int r = 0; r < 4; r++) {
        UNROLL(4)
        for (int v = 0; v < V; v++) {
            float *o = out + r * BASIS_ROOM + v * VW;
            vf_store(o, vf_add(vf_load(o), sum[r][v]));
        }
    }
}

static void basis_multiply(const float *a, int64_t row, int64_t item, int64_t depth, const float *b,
                           float *out) {
    memset(out, 0, sizeof(float) * 4 * BASIS_ROOM);
    for (int64_t i = 0; i < depth; i += BASIS_CHAIN) {
        const int64_t part = depth - i < BASIS_CHAIN ? depth - i : BASIS_CHAIN;
        for (int lane = 0; lane < BASIS_ROOM; lane += BASIS_LANES)
            basis_multiply_lanes(a + i * item, row, item, part, b + i * BASIS_ROOM + lane,
                                 out + lane);
    }
}

/* coordinates = C V, four centroids an item */
static void basis_project(void *user, int worker, int64_t begin, int64_t end) {
    const struct job *job = user;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        basis_multiply(job->basis.c32 + i * 4 * job->d_pad, job->d_pad, 1, job->d, job->basis.v,
                       job->basis.z + i * 4 * BASIS_ROOM);
}

/* v = C^T coordinates, four features an item */
static void basis_gather(void *user, int worker, int64_t begin, int64_t end) {
    const struct job *job = user;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        basis_multiply(job->basis.c32 + i * 4, 1, job->d_pad, job->k, job->basis.z,
                       job->basis.v + i * 4 * BASIS_ROOM);
}

/* Row a of the inner products of the columns of wide [d][BASIS_ROOM]. */
static void basis_inner(void *user, int worker, int64_t begin, int64_t end) {
    const struct job *job = user;
    enum { V = BASIS_ROOM / VDW > 8 ? 8 : BASIS_ROOM / VDW };
    (void)worker;
    for (int64_t a = begin; a < end; a++) {
        for (int lane = 0; lane < BASIS_ROOM; lane += V * VDW) {
            vd sum[V];
            UNROLL(8)
            for (int v = 0; v < V; v++)
                sum[v] = vd_set1(0);
            for (int64_t j = 0; j < job->d; j++) {
                const double *row = job->basis.wide + j * BASIS_ROOM;
                const vd x = vd_set1(row[a]);
                UNROLL(8)
                for (int v = 0; v < V; v++)
                    sum[v] = vd_fma(x, vd_load(row + lane + v * VDW), sum[v]);
            }
            UNROLL(8)
            for (int v = 0; v < V; v++)
                vd_store(job->basis.inner + a * BASIS_ROOM + lane + v * VDW, sum[v]);
        }
    }
}

/* wide = wide inverse */
static void basis_apply(void *user, int worker, int64_t begin, int64_t end) {
    const struct job *job = user;
    (void)worker;
    for (int64_t j = begin; j < end; j++) {
        double *row = job->basis.wide + j * BASIS_ROOM;
        double out[BASIS_ROOM] = {0};
        for (int a = 0; a < job->basis.p; a++) {
            const vd x = vd_set1(row[a]);
            const double *r = job->basis.inverse + a * BASIS_ROOM;
            for (int b = a / VDW * VDW; b < BASIS_ROOM; b += VDW)
                vd_store(out + b, vd_fma(x, vd_load(r + b), vd_load(out + b)));
        }
        memcpy(row, out, sizeof out);
    }
}

/* to[from..p) -= factor * row[from..p), with from rounded down to a whole vector. */
ALWAYS_INLINE void basis_reduce(double *to, const double *row, double factor, int from, int p) {
    const vd f = vd_set1(-factor);
    for (int j = from / VDW * VDW; j < p; j += VDW)
        vd_store(to + j, vd_fma(f, vd_load(row + j), vd_load(to + j)));
}

/* inner = R^T R, then inverse = R^-1; columns of dependent directions become 0. */
static void basis_factor(struct basis *b) {
    double low[BASIS_ROOM * BASIS_ROOM] = {0}; /* R^-T */
    double most = 0;
    for (int i = 0; i < b->p; i++)
        most = fmax(most, b->inner[i * BASIS_ROOM + i]);
    for (int i = 0; i < b->p; i++) {
        double *r = b->inner + i * BASIS_ROOM; /* row i of R */
        double *own = low + i * BASIS_ROOM;
        const double unit = r[i] > BASIS_LEAST * most ? 1 / sqrt(r[i]) : 0;
        own[i] += 1;
        for (int j = 0; j < b->p; j++) {
            r[j] *= unit;
            own[j] *= unit;
        }
        for (int a = i + 1; a < b->p; a++) {
            basis_reduce(b->inner + a * BASIS_ROOM, r, r[a], a, b->p);
            basis_reduce(low + a * BASIS_ROOM, own, r[a], 0, i + 1);
        }
    }
    for (int i = 0; i < BASIS_ROOM; i++)
        for (int j = 0; j < BASIS_ROOM; j++)
            b->inverse[j * BASIS_ROOM + i] = low[i * BASIS_ROOM + j];
}

static void basis_widen(struct job *job) {
    for (int64_t i = 0; i < job->d * BASIS_ROOM; i++)
        job->basis.wide[i] = (double)job->basis.v[i];
}

/* Orthonormal columns of v, from those of v. */
static void basis_orthonormalise(struct job *job, hf_pool *pool) {
    struct basis *b = &job->basis;
    basis_widen(job);
    hf_parallel_for(pool, b->p, 4, basis_inner, job);
    basis_factor(b);
    hf_parallel_for(pool, job->d, 64, basis_apply, job);
    for (int64_t i = 0; i < job->d * BASIS_ROOM; i++)
        b->v[i] = (float)b->wide[i];
}

/* Frobenius norm of V^T V - 1 without columns that are 0, because these have no coordinates. */
static double basis_skew(struct job *job, hf_pool *pool) {
    struct basis *b = &job->basis;
    double sum = 0;
    basis_widen(job);
    hf_parallel_for(pool, b->p, 4, basis_inner, job);
    for (int i = 0; i < b->p; i++) {
        for (int j = 0; j < b->p; j++) {
            const double g = b->inner[i * BASIS_ROOM + j];
            const double e = i == j && g != 0 ? g - 1 : g;
            sum += e * e;
        }
    }
    return sqrt(sum) * (1 + 0x1p-20) + 0x1p-40;
}

/* Round coordinates as the tiles store them. Returns how far that moves them. */
static double basis_round(float *c) {
    float exact[BASIS_ROOM];
    double loss = 0;
    memcpy(exact, c, sizeof exact);
    for (int j = 0; j < BASIS_ROOM; j += VW)
        vf_store(c + j, tile_coarse_value(vf_load(exact + j)));
    for (int j = 0; j < BASIS_ROOM; j++)
        loss += ((double)c[j] - (double)exact[j]) * ((double)c[j] - (double)exact[j]);
    return sqrt(loss);
}

/* Pack the coarse centroids: coordinates, and the length of what they leave. */
static void basis_pack(void *user, int worker, int64_t begin, int64_t end) {
    struct job *job = user;
    struct basis *b = &job->basis;
    for (int64_t slot = begin; slot < end; slot++) {
        const int seen = slot < job->k && job->c_length[slot] < OUT_OF_RANGE;
        float c[BASIS_ROOM] = {0};
        float length[BASIS_ROOM] = {0};
        const double all = seen ? b->square[slot] : 0;
        double left = 0; /* |z|^2 - 2 z.(V^T c') */
        if (seen) {
            const float *z = b->z + slot * BASIS_ROOM;
            memcpy(c, z, sizeof(float) * (size_t)b->p);
            b->loss[slot] = (float)(basis_round(c) * (1 + 0x1p-20));
            for (int j = 0; j < b->p; j++)
                left += (double)c[j] * ((double)c[j] - 2 * (double)z[j]);
        }
        length[0] = (float)(sqrt(fmax(0, all + left + b->rest_slack * all)) * (1 + 0x1p-20)) *
                    TILE_COARSE_UP;
        (void)basis_round(length);
        c[b->p] = length[0];
        tile_pack_centroid(b->coarse_job, &job->workers[worker], &b->coarse, slot, c,
                           seen ? b->start[slot] : EXCLUDED);
    }
}

/* V as a pack: direction i in the place of centroid i. */
static void basis_pack_directions(void *user, int worker, int64_t begin, int64_t end) {
    struct job *job = user;
    struct basis *b = &job->basis;
    struct worker *w = &job->workers[worker];
    for (int64_t slot = begin; slot < end; slot++) {
        float *c = w->rows;
        memset(c, 0, sizeof(float) * (size_t)job->d_pad);
        for (int64_t j = 0; slot < b->p && j < job->d; j++)
            c[j] = b->v[j * BASIS_ROOM + slot];
        tile_pack_centroid(job, w, &b->directions, slot, c, 0);
    }
}

/* Once the centroids are packed (c32 and start are set). 0: these centroids have no usable
 * directions. */
static int basis_make(struct job *job, hf_pool *pool) {
    struct basis *b = &job->basis;
    const int64_t groups = (job->k + 3) / 4;
    memset(b->v, 0, sizeof(float) * BASIS_ROOM * (size_t)job->d_pad);
    memset(b->c32 + job->k * job->d_pad, 0,
           sizeof(float) * (size_t)((groups * 4 - job->k) * job->d_pad));
    for (int i = 0; i < b->p; i++) {
        const float *c = b->c32 + (int64_t)i * job->k / b->p * job->d_pad;
        for (int64_t j = 0; j < job->d; j++)
            b->v[j * BASIS_ROOM + i] = c[j];
    }
    basis_orthonormalise(job, pool);
    hf_parallel_for(pool, groups, 8, basis_project, job);
    hf_parallel_for(pool, job->d_pad / 4, 8, basis_gather, job);
    basis_orthonormalise(job, pool);
    double skew = basis_skew(job, pool);
    if (!(skew <= BASIS_STRAIGHT)) {
        basis_orthonormalise(job, pool);
        skew = basis_skew(job, pool);
    }
    if (!(skew <= BASIS_SKEW))
        return 0;
    hf_parallel_for(pool, groups, 8, basis_project, job);
    const double chain = (BASIS_CHAIN + (double)job->d / BASIS_CHAIN + 3) * 0x1p-24;
    const double dot = fmax(tile_dot_error(job, 0), chain);
    const double turn = 1.1 * sqrt(b->p) * dot; /* |V^T x' - y| / |x'|, the same for c' */
    b->rest_slack = (float)(2.2 * turn + 1.1 * skew + (b->p + 16) * 0x1p-22);
    b->slack = (float)(2.2 * turn + 3.3 * skew + 1.2 * tile_dot_error(b->coarse_job, 0) + 0x1p-20);
    b->tiny = (float)(sqrt((double)job->d) * 0x1p-61);
    hf_parallel_for(pool, b->directions.groups * TILE_K, 4, basis_pack_directions, job);
    hf_parallel_for(pool, b->coarse.groups * TILE_K, TILE_K, basis_pack, job);
    b->loss_most = 0;
    for (int64_t k = 0; k < job->k; k++)
        if (job->c_length[k] < OUT_OF_RANGE)
            b->loss_most = fmaxf(b->loss_most, b->loss[k] * (1 + 0x1p-7f));
    return 1;
}

#endif
