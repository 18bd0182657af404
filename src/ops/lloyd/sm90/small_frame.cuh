/* SPDX-License-Identifier: Apache-2.0
 * The course of a launch. An iteration of a problem: labels of all rows; its blocks wait; new
 * centroids; they wait again. Row counts of changed labels, sums and tallies are integers, so
 * nothing depends on who comes first.
 *
 * What becomes of rows stands in a header of the kernel's own, included before this one:
 * small_open_rows(), which gives a warp its share of the problem's, small_label() and
 * small_drain(), found by the type of the block's memory. */
#ifndef HF_LLOYD_SMALL_FRAME_CUH
#define HF_LLOYD_SMALL_FRAME_CUH

#include "ops/lloyd/sm90/small_means.cuh"

/* Is every sum one limb times a unit, every divisor a count, and no quotient near the ends of the
 * range? As is_plain() of cuda/conclude.cu. */
template <class S>
static __device__ bool small_is_plain(const struct small_args &a, const struct small_memory<S> *m) {
    const struct hf_update_job &u = a.job.update;
    bool plain = u.limbs == 1 && u.weight == NULL;
    for (int f = (int)threadIdx.x; plain && f < (int)u.d; f += S::THREADS)
        plain = m->unit[f] > 0x1p-700 && m->unit[f] < 0x1p700;
    return __syncthreads_and(plain);
}

/* What stays the same in all iterations of a problem. */
template <class S>
static __device__ void small_open(const struct small_args &a, struct small_memory<S> *m,
                                  const CUtensorMap *map, struct small_place *w) {
    const struct hf_update_job &u = a.job.update;
    __syncthreads(); /* nobody needs the last problem's any more */
    small_open_rows(a, m, map, w);
    for (int f = (int)threadIdx.x; f < (int)u.d; f += S::THREADS) {
        m->mult[f] = u.mult[w->p * u.mult_stride + f];
        m->unit[f] = a.job.rule.unit[w->p * u.d + f];
        m->shift[f] = a.job.rule.shift[f];
        m->base[f] = a.shift != NULL ? a.shift[f] : 0;
    }
    if (threadIdx.x == 0) {
        struct known *const known = &m->totals.known;
        memset(known, 0, sizeof *known);
        known->state = a.job.state[w->p];
        known->tol = a.job.tol[w->p];
        known->total_square = a.job.total_square[w->p];
        known->slack = a.job.slack[w->p];
        m->changed = m->rechecked = 0;
        m->moves = 0;
        m->go = true;
    }
    __syncthreads();
    const bool plain = small_is_plain(a, m);
    if (threadIdx.x == 0)
        m->plain = plain;
}

/* This iteration's share of counters that only grow. Between the two waits nobody adds. */
template <class S>
static __device__ void small_count(const struct small_args &a, struct small_memory<S> *m, int p) {
    const unsigned long long changed = __ldcg(&a.counters[p].changed);
    const unsigned long long rechecked = __ldcg(&a.counters[p].rechecked);
    m->totals.known.counts.changed = changed - m->changed;
    m->totals.known.counts.rechecked = rechecked - m->rechecked;
    m->totals.known.counts.float64 = rechecked - m->rechecked; /* it decides all of them */
    m->changed = changed;
    m->rechecked = rechecked;
}

/* Where the caller has them: the last centroids in centers[0], those before in centers[1]. */
template <class S>
static __device__ void small_put_back(const struct small_args &a, const struct small_memory<S> *m,
                                      const struct small_place &w) {
    const struct hf_lloyd_job &job = a.job;
    const int64_t values = job.update.k * job.update.d;
    if (m->moves % 2 == 0)
        return;
    for (int64_t i = w.g * S::THREADS + threadIdx.x; i < values; i += a.blocks * S::THREADS) {
        const int64_t at = w.p * values + i;
        const double last = center_at(job.centers[1], job.rule.type, at);
        put_center(job.centers[1], job.rule.type, at, center_at(job.centers[0], job.rule.type, at));
        put_center(job.centers[0], job.rule.type, at, last);
    }
}

template <class S>
static __device__ void small_problem(const struct small_args &a, struct small_memory<S> *m,
                                     const CUtensorMap *map, struct small_place *w) {
    small_open(a, m, map, w);
    small_pack_first<S>(a, *w);
    small_wait(a, *w);
    bool first = true;
    for (;;) {
        small_turn(a, m, w, !first);
        if (!m->go)
            break;
        small_label(a, m, map, w, first);
        small_wait(a, *w);
        if (threadIdx.x == S::THREADS - 1)
            small_count(a, m, w->p);
        small_move(a, m, *w);
        small_wait(a, *w);
        first = false;
    }
    const struct hf_lloyd_state &state = m->totals.known.state;
    if (a.job.settle && (state.stop == HF_STOP_NONE || state.stop == HF_STOP_TOL)) {
        small_label(a, m, map, w, false); /* the tile is that of the last centroids */
        small_wait(a, *w);
        if (threadIdx.x == 0 && w->g == 0)
            a.job.state[w->p].settled = 1;
    }
    small_drain(m, w, true);
    small_put_back(a, m, *w);
    if (threadIdx.x == 0 && w->g == 0) {
        atomicMax(a.steps, state.iterations + (state.stop >= HF_LLOYD_EMPTY));
        if (a.job.unit != NULL && a.blocks == 1)
            a.job.unit[w->p] = hf_slot_unit();
    }
}

/* Labels and sums of a problem that ended early follow its last centroids, whose tile is there. */
template <class S>
static __device__ void small_catch_up(const struct small_args &a, struct small_memory<S> *m,
                                      const CUtensorMap *map, struct small_place *w) {
    const struct hf_lloyd_state state = a.job.state[w->p];
    if (state.stop != HF_STOP_TOL || state.iterations >= *a.steps)
        return;
    small_open(a, m, map, w);
    small_turn(a, m, w, false);
    small_label(a, m, map, w, true);
    small_drain(m, w, true);
}

/* All problems of this block. */
template <class S>
static __device__ __forceinline__ void
small_problems(const struct small_args &a, struct small_memory<S> *m, const CUtensorMap *map) {
    struct small_place w = {};
    const int group = (int)blockIdx.x / a.blocks;
    const int batch = (int)a.job.update.batch;
    w.g = (int)blockIdx.x % a.blocks;
    for (w.p = group; w.p < batch; w.p += a.groups)
        small_problem(a, m, map, &w);
    if (batch == 1 || a.job.settle)
        return;
    hf_grid_wait(a.barrier);
    for (w.p = group; w.p < batch; w.p += a.groups)
        small_catch_up(a, m, map, &w);
}

/* ---- host */

/* Memory of a run, in this order. */
static size_t small_packed_bytes(int64_t batch) {
    return (size_t)batch * (HF_LLOYD_SMALL_K * (HF_LLOYD_SMALL_D * 2 + 4));
}

static size_t small_zero_bytes(int64_t batch) {
    return ((size_t)batch * sizeof(struct small_counters) + 256 + 255) / 256 * 256;
}

/* memory: hf_lloyd_small_bytes(), whose counters are cleared first. */
static struct small_args small_make_args(const struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                                         const struct hf_assign_rows *rows, int dp, void *memory) {
    struct small_args a = {};
    const int64_t batch = job->update.batch, n = rows->n;
    uint8_t *at = (uint8_t *)memory;
    a.job = *job;
    struct hf_filter_centroids c = {};
    c.d = (int)job->update.d;
    c.raw = rows->raw;
    c.scale = rows->scale;
    c.length = rows->length;
    filter_describe(&a.filter, &c);
    a.pieces = filter_units_of(&c);
    a.filter.acc = (float)(dp / 16 + 3) * 0x1p-19f; /* see cuda/filter.cu */
    a.filter.tiny = 0x1p-100f;                      /* biases may underflow */
    a.norm = rows->norm;
    a.loss = rows->raw ? NULL : rows->loss;
    a.shift = rows->shift;
    a.scale = rows->raw ? 1 : rows->scale;
    a.packed = at;
    at += small_packed_bytes(batch);
    a.steps = (int32_t *)at;
    a.barrier = (unsigned *)at + 1;
    a.counters = (struct small_counters *)(at + 256);
    a.clusters = (struct small_cluster *)(at + small_zero_bytes(batch));
    a.units = (int)((n + FILTER_WG_ROWS - 1) / FILTER_WG_ROWS);
    a.groups = (int)(batch < cuda->sms ? batch : cuda->sms);
    a.blocks = cuda->sms / a.groups;
    a.blocks = a.blocks < a.units ? a.blocks : a.units;
    return a;
}

static hf_status small_clear(struct hf_cuda *cuda, const struct small_args &a) {
    const int64_t batch = a.job.update.batch;
    return hf_cuda_check(cuda,
                         cudaMemsetAsync(a.packed + small_packed_bytes(batch), 0,
                                         small_zero_bytes(batch), cuda->stream),
                         "lloyd_small: counters");
}

#endif
