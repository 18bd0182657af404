/* SPDX-License-Identifier: Apache-2.0
 * Verified moves of VW rows at a time, in float32 (float64 rows are in float64 until their parts
 * are added up): all but near ties, what underflows, and what is wrong is confirmed here
 * (docs/numerics/guard.md). */
#ifndef HF_ASSIGN_GUARD_BATCH_H
#define HF_ASSIGN_GUARD_BATCH_H

#include "ops/assign/host/differences.h"
#include "ops/assign/host/guard/guard_labels.h"

#define GUARD_FETCH 512 /* bytes of a row that is looked at later, fetched into the L1 cache */

/* The centroids that a row is compared with: those of its move, and the same before. */
enum guard_of { GUARD_TO, GUARD_FROM, GUARD_HAD_TO, GUARD_HAD_FROM, GUARD_OF };

/* Lane i is of move i. "Less": the squared distance from the centroid before, as far as it is
 * beyond doubt, is taken off. */
struct guard_batch {
    vf to[VW];    /* parts of the squared distance from the new centroid, */
    vf less[VW];  /* the same less, */
    vf early[VW]; /* and the same among the centroids before */
    float score[VW], norm2[VW], length[VW];
    uint32_t first; /* bit i: the row comes from no cluster */
    uint32_t valid; /* bit i: its clusters exist, and the new one is its label */
};

/* Can VW moves be looked at so? */
static inline int guard_batches(const struct job *job) {
    return job->a->metric == HF_EUCLIDEAN &&
           (job->a->x.dtype == HF_F64) == (job->a->c.dtype == HF_F64);
}

/* sum + (v - c)^2 */
ALWAYS_INLINE vf guard_add_square(vf sum, vf v, vf c) {
    const vf difference = vf_sub(v, c);
    return vf_fma(difference, difference, sum);
}

/* Squared distances of a row from the first `count` of some centroids, in VW parts. */
ALWAYS_INLINE void guard_parts_f32(const char *x, hf_dtype dtype, const char *const c[GUARD_OF],
                                   int count, int64_t d, vf part[GUARD_OF]) {
    const int64_t full = d - d % VW;
    for (int64_t j = 0; j < full; j += VW) {
        const vf v = gather_raw(x + (size_t)j * gather_bytes(dtype), dtype);
        UNROLL(4)
        for (int i = 0; i < count; i++)
            part[i] = guard_add_square(part[i], v, vf_load((const float *)(const void *)c[i] + j));
    }
    if (full == d)
        return;
    const vf v = difference_load_as(x, dtype, full, d);
    UNROLL(4)
    for (int i = 0; i < count; i++)
        part[i] = guard_add_square(
            part[i], v, vf_load_n((const float *)(const void *)c[i] + full, (int)(d - full)));
}

/* The first n <= VDW values at p, zeros behind them. */
ALWAYS_INLINE vd guard_load64(const double *p, int64_t n) {
    return n >= VDW ? vd_load(p) : n > 0 ? vd_load_n(p, (int)n) : vd_set1(0);
}

ALWAYS_INLINE vd guard_add_square64(vd sum, vd v, vd c) {
    const vd difference = vd_sub(v, c);
    return vd_fma(difference, difference, sum);
}

/* The same of float64 rows and centroids, rounded at last. */
ALWAYS_INLINE void guard_parts_f64(const double *x, const char *const c[GUARD_OF], int count,
                                   int64_t d, vf part[GUARD_OF]) {
    vd sum[GUARD_OF] = {vd_set1(0), vd_set1(0), vd_set1(0), vd_set1(0)};
    const int64_t full = d - d % VDW;
    for (int64_t j = 0; j < full; j += VDW) {
        const vd v = vd_load(x + j);
        UNROLL(4)
        for (int i = 0; i < count; i++)
            sum[i] = guard_add_square64(sum[i], v, vd_load((const double *)(const void *)c[i] + j));
    }
    if (full < d) {
        const vd v = vd_load_n(x + full, (int)(d - full));
        UNROLL(4)
        for (int i = 0; i < count; i++)
            sum[i] = guard_add_square64(
                sum[i], v, vd_load_n((const double *)(const void *)c[i] + full, (int)(d - full)));
    }
    UNROLL(4)
    for (int i = 0; i < count; i++) {
        double both[VW] = {0};
        vd_store(both, sum[i]);
        part[i] = vf_from_f64(both);
    }
}

ALWAYS_INLINE void guard_parts(const char *x, hf_dtype dtype, const char *const c[GUARD_OF],
                               int count, int64_t d, vf part[GUARD_OF]) {
    if (dtype == HF_F64)
        guard_parts_f64((const double *)(const void *)x, c, count, d, part);
    else
        guard_parts_f32(x, dtype, c, count, d, part);
}

/* Bytes from one centroid to the next. */
static inline size_t guard_stride(const hf_array *c) {
    return (size_t)(c->row_stride ? c->row_stride : c->cols) * (c->dtype == HF_F64 ? 8 : 4);
}

/* Row k of centroids; the first one where that is none of them. */
ALWAYS_INLINE const void *guard_centroid_at(const hf_array *c, int32_t k) {
    return (const char *)c->data + (size_t)(k < 0 ? 0 : k) * guard_stride(c);
}

/* Of the centroids a move is between, as much as of a row. */
static inline void guard_fetch_pair(const hf_array *c, const struct move *m) {
    const size_t step = guard_stride(c);
    const char *to = (const char *)c->data + (size_t)m->to * step;
    const char *from = (const char *)c->data + (size_t)m->from * step;
    for (size_t at = 0; at < step && at < GUARD_FETCH; at += HF_ALIGN) {
        __builtin_prefetch(to + at);
        __builtin_prefetch(from + at);
    }
}

/* What a move that is looked at soon is looked at by, into the L1 cache. */
static inline void guard_fetch(const struct job *job, const struct move *m) {
    job_fetch_row(job, m->row, GUARD_FETCH);
    if (m->to < 0 || m->to >= job->k || m->from < 0 || m->from >= job->k)
        return;
    guard_fetch_pair(&job->a->c, m);
    if (job->guard.before)
        guard_fetch_pair(&job->a->before, m);
}

/* A relative error of squared distances. */
static inline float guard_batch_share(const struct job *job) {
    return (float)(job->d / VW + VW + 8) * 0x1p-24f;
}

ALWAYS_INLINE void guard_batch_as(const struct job *job, const struct move *m, int count,
                                  hf_dtype dtype, struct guard_batch *b) {
    const struct hf_assign_args *a = job->a;
    const char *now = a->c.data;
    const char *old = a->before.data;
    const size_t now_step = guard_stride(&a->c);
    const size_t old_step = guard_stride(&a->before);
    const int64_t d = job->d;
    const int before = job->guard.before;
    const vf less = vf_set1(3 * guard_batch_share(job) - 1);
    b->first = b->valid = 0;
    for (int i = 0; i < count; i++, m++) {
        vf part[GUARD_OF] = {vf_set1(0), vf_set1(0), vf_set1(0), vf_set1(0)};
        const int valid = m->to >= 0 && m->to < job->k && m->from >= -1 && m->from < job->k &&
                          a->labels[m->row] == m->to;
        b->length[i] = 0;
        if (valid) {
            const char *x = job_row(job, m->row);
            const size_t to = (size_t)m->to;
            const size_t from = (size_t)(m->from < 0 ? 0 : m->from);
            const char *const at[GUARD_OF] = {now + to * now_step, now + from * now_step,
                                              old + to * old_step, old + from * old_step};
            if (m->from < 0)
                guard_parts(x, dtype, at, 1, d, part);
            else if (!before)
                guard_parts(x, dtype, at, 2, d, part);
            else
                guard_parts(x, dtype, at, GUARD_OF, d, part);
            b->length[i] = (float)job->c_length[to];
        }
        b->to[i] = part[GUARD_TO];
        b->less[i] = vf_fma(less, part[GUARD_FROM], part[GUARD_TO]);
        b->early[i] = vf_fma(less, part[GUARD_HAD_FROM], part[GUARD_HAD_TO]);
        b->score[i] = m->score;
        b->norm2[i] = m->norm2;
        b->first |= (uint32_t)(m->from < 0) << i;
        b->valid |= (uint32_t)valid << i;
    }
}

static NOINLINE void guard_batch_load(const struct job *job, const struct move *m, int count,
                                      struct guard_batch *b) {
    switch (job->a->x.dtype) {
    case HF_F64:
        guard_batch_as(job, m, count, HF_F64, b);
        break;
    case HF_F16:
        guard_batch_as(job, m, count, HF_F16, b);
        break;
    case HF_BF16:
        guard_batch_as(job, m, count, HF_BF16, b);
        break;
    case HF_U8:
        guard_batch_as(job, m, count, HF_U8, b);
        break;
    default:
        guard_batch_as(job, m, count, HF_F32, b);
        break;
    }
}

/* V2: the most that a score may be from the true one; less than guard_score_bound(). */
ALWAYS_INLINE vf guard_batch_bound(const struct job *job, vf norm, vf c) {
    const struct filter_bound *f = &job->bound;
    const vf product = vf_mul(norm, c);
    const vf share = vf_mul(vf_set1(f->share), vf_max(c, vf_set1(SHARE_LEAST)));
    const vf square = vf_mul(c, c);
    vf e = vf_fma(vf_set1(f->eps), vf_fma(vf_set1(0.5f), square, product), vf_set1(f->eta));
    e = vf_fma(norm, vf_min(share, vf_set1(f->moved)), e);
    e = vf_fma(vf_set1(0x1p-22f), vf_add(product, square), e);
    if (job->i16)
        e = vf_fma(vf_set1((float)(0.5 * job->guard.root * 0x1p-14)), product, e);
    if (job->guard.scores)
        e = vf_fma(vf_set1(job->guard.width), job_reach(job, norm), e);
    return e;
}

/* V3: bits of the moves that should have been made in the call before, beyond doubt and more than
 * what underflows. */
ALWAYS_INLINE uint32_t guard_batch_early(const struct job *job, const struct guard_batch *b) {
    if (!job->guard.before)
        return 0;
    return b->valid & ~b->first & vm_bits(vf_lt(vf_sums(b->early), vf_set1(-0x1p-80f)));
}

/* Bits of the first `count` <= VW moves that V1 and V2 confirm beyond doubt; *early: see V3. */
static uint32_t guard_batch_confirms(const struct job *job, const struct move *m, int count,
                                     uint32_t *early) {
    struct guard_batch b;
    const uint32_t all = (uint32_t)((1u << count) - 1);
    guard_batch_load(job, m, count, &b);
    for (int i = count; i < VW; i++) {
        b.to[i] = b.less[i] = b.early[i] = vf_set1(0);
        b.score[i] = b.norm2[i] = b.length[i] = 0;
    }
    const float share = guard_batch_share(job);
    *early = guard_batch_early(job, &b);
    const vf to = vf_sums(b.to);
    const vf score = vf_load(b.score);
    const vf own = vf_load(b.norm2);
    const vf c = vf_load(b.length);
    const uint32_t plain =
        vm_bits(vf_lt(vf_set1(0x1p-80f), to)) & vm_bits(vf_lt(to, vf_set1(0x1p100f)));
    const uint32_t nearer = b.first | vm_bits(vf_lt(vf_sums(b.less), vf_set1(0)));
    const vf square = vf_mul(to, vf_set1(job->scale * job->scale));
    const vf norm = vf_sqrt(vf_mul(own, vf_set1(1 + job->bound.qerr)));
    const vf off = vf_sub(vf_mul(vf_set1(0.5f), vf_sub(own, square)), score);
    const vf slack = vf_fma(own, vf_set1(job->bound.qerr),
                            vf_fma(square, vf_set1(share), guard_batch_bound(job, norm, c)));
    const uint32_t close = vm_bits(vf_le(vf_max(off, vf_sub(vf_set1(0), off)), slack)) &
                           vm_bits(vf_le(off, slack)) & vm_bits(vf_lt(c, vf_set1(OUT_OF_RANGE))) &
                           vm_bits(vf_lt(vf_set1(0x1p-50f), norm));
    const uint32_t chosen = vm_bits(vf_le(score, score)); /* NaN: the filter did not choose it */
    const uint32_t right = TILE_HAS_HALF && job->half ? ~0u : close | ~chosen;
    return b.valid & all & ((plain & nearer & right) | (b.first & ~chosen));
}

#endif
