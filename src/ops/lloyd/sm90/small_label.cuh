/* SPDX-License-Identifier: Apache-2.0
 * Labels of a block's rows, and the sums that follow them. A warp has 16 rows of a unit: scores of
 * all centroids stay in its registers until float64 has decided the open ones, and rows whose label
 * changed go from sum to sum while they are in shared memory. */
#ifndef HF_LLOYD_SMALL_LABEL_CUH
#define HF_LLOYD_SMALL_LABEL_CUH

#include "ops/assign/cuda/open/exact.cuh"
#include "ops/lloyd/sm90/small.cuh"

/* The 16 rows of a warp. A lane looks at rows lane / 4 and lane / 4 + 8. */
struct small_rows {
    int64_t first;    /* of the warp, counted through all problems */
    int left;         /* rows there are from that one on */
    const uint8_t *x; /* the unit in shared memory */
    int row;          /* the warp's first row in it */
    int number;       /* and in the problem */
    const int *list;  /* NULL, or: they are not in shared memory, and these rows from first on */
};

static __device__ __forceinline__ int64_t small_row(const struct small_rows &rows, int r) {
    return rows.first + (rows.list != NULL ? rows.list[r] : r);
}

/* Element f of row r of the warp. */
template <class S>
static __device__ __forceinline__ double small_value(const struct small_args &a,
                                                     const struct small_rows &rows, int r, int f) {
    const struct hf_update_job &u = a.job.update;
    if constexpr (S::RAW) {
        if (rows.list == NULL)
            return (double)__half2float(
                *(const __half *)(rows.x + small_at(FILTER_WG_ROWS, rows.row + r, f)));
        return hf_device_load<HF_F16>(u.x + small_row(rows, r) * u.row_bytes, f);
    }
    return hf_device_load_any(u.x + small_row(rows, r) * u.row_bytes, u.dtype, f);
}

/* The reference distance of row r to the centroid `at` of [batch * k]. */
template <class S, bool F64>
static __device__ __forceinline__ double small_distance(const struct small_args &a,
                                                        const struct small_rows &rows,
                                                        const void *centers, int r, int64_t at) {
    const int d = (int)a.job.update.d;
    double sum = 0;
#pragma unroll 8
    for (int f = 0; f < d; f++)
        sum = __dadd_rn(sum, hf_exact_term<false>(small_value<S>(a, rows, r, f),
                                                  hf_exact_center<F64>(centers, at * d + f)));
    return sum;
}

/* Pairs of a row of the warp and a centroid whose distances are wanted. */
struct small_wanted {
    const void *centers;
    int64_t base;         /* of the problem's first centroid in [batch * k] */
    const uint32_t *pair; /* [count] row << 16 | centroid */
    int count;
    double *distance; /* [count] */
};

/* The same for pair[0 .. count), few of them: all lanes load, so that all loads are under way
 * together; then a lane adds up the terms of its pair in order. */
template <class S, bool F64>
static __device__ __forceinline__ void
small_few(const struct small_args &a, struct small_memory<S> *m, const struct small_rows &rows,
          const struct small_wanted &wanted) {
    const int d = (int)a.job.update.d, lane = (int)(threadIdx.x & 31);
    double(*const shared)[33] = m->term[threadIdx.x / 32];
    double term[SMALL_FEW][S::COLUMNS];
#pragma unroll
    for (int q = 0; q < SMALL_FEW; q++) {
        const uint32_t own = wanted.pair[q < wanted.count ? q : 0];
        const int64_t at = (wanted.base + (own & 0xffff)) * d;
#pragma unroll
        for (int i = 0; i < S::COLUMNS; i++) {
            const int f = min(lane + 32 * i, d - 1); /* the terms behind are not added */
            term[q][i] = hf_exact_term<false>(small_value<S>(a, rows, (int)(own >> 16), f),
                                              hf_exact_center<F64>(wanted.centers, at + f));
        }
    }
    double sum = 0;
#pragma unroll
    for (int i = 0; i < S::COLUMNS; i++) {
#pragma unroll
        for (int q = 0; q < SMALL_FEW; q++)
            shared[q][lane] = term[q][i];
        __syncwarp();
        const int width = min(32, d - 32 * i);
        if (lane < SMALL_FEW)
#pragma unroll 8
            for (int f = 0; f < width; f++)
                sum = __dadd_rn(sum, shared[lane][f]);
        __syncwarp();
    }
    if (lane < wanted.count)
        wanted.distance[lane] = sum;
}

/* Distances of pair[0 .. count), at most 32. LATER: the scores of a unit are no longer in
 * registers, and there is room. */
template <class S, bool F64, bool LATER>
static __device__ __forceinline__ void
small_distances(const struct small_args &a, struct small_memory<S> *m,
                const struct small_rows &rows, const struct small_wanted &wanted) {
    const int lane = (int)(threadIdx.x & 31), count = wanted.count;
    if (!LATER || count > 2 * SMALL_FEW) {
        if (lane < count)
            wanted.distance[lane] =
                small_distance<S, F64>(a, rows, wanted.centers, (int)(wanted.pair[lane] >> 16),
                                       wanted.base + (wanted.pair[lane] & 0xffff));
        return;
    }
    if constexpr (LATER)
        for (int first = 0; first < count; first += SMALL_FEW)
            small_few<S, F64>(a, m, rows,
                              {wanted.centers, wanted.base, wanted.pair + first,
                               min(SMALL_FEW, count - first), wanted.distance + first});
}

/* Candidates of this lane, a bit for each of its columns: [NT / 4] of each of its two rows. */
template <class S>
static __device__ __forceinline__ uint32_t small_candidates(const struct small_args &a,
                                                            const float (&d)[S::NT / 2], int r,
                                                            float threshold) {
    static_assert(S::NT == 128, "a bit for each of 32 columns");
    const bool all = !(threshold > -FLT_MAX); /* nothing is known */
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const int column = i / 2 * 8 + 2 * (int)(threadIdx.x & 3) + i % 2;
        const bool is =
            all ? column < (int)a.job.update.k : d[i / 2 * 4 + 2 * r + i % 2] >= threshold;
        bits |= (uint32_t)is << i;
    }
    return bits;
}

/* Float64 for the open rows of a warp; bits: this lane's candidates. Lane i returns the label of
 * row i. */
template <class S, bool LATER>
static __device__ int small_settle(const struct small_args &a, struct small_memory<S> *m,
                                   const struct small_rows &rows, const struct small_place &w,
                                   uint32_t (&bits)[2]) {
    const int lane = (int)(threadIdx.x & 31), warp = (int)threadIdx.x / 32;
    uint32_t *const pair = m->pair[warp];
    double *const distance = m->distance[warp];
    const void *centers = a.job.centers[m->moves & 1];
    const int64_t base = w.p * a.job.update.k;
    struct hf_winner best = hf_winner_none();
    for (int left = small_pairs(bits, pair); left > 0; left = small_pairs(bits, pair)) {
        const int count = left < 32 ? left : 32;
        const struct small_wanted wanted = {centers, base, pair, count, distance};
        if (a.job.rule.type == HF_F64)
            small_distances<S, true, LATER>(a, m, rows, wanted);
        else
            small_distances<S, false, LATER>(a, m, rows, wanted);
        __syncwarp();
        for (int i = 0; i < count; i++)
            if ((int)(pair[i] >> 16) == lane)
                hf_winner_offer(&best, distance[i], (int32_t)(pair[i] & 0xffff));
        __syncwarp();
    }
    return hf_winner_label(best);
}

/* Row r of the warp goes from one sum to another; from is -1 for a row that was in none. */
struct small_move {
    int r, from, to;
};

template <class S>
static __device__ __forceinline__ void
small_move_row(const struct small_args &a, const struct small_memory<S> *m,
               const struct small_rows &rows, int p, const struct small_move &move) {
    const int r = move.r, to = move.to;
    const struct hf_update_job &u = a.job.update;
    const int from = update_label(u, move.from); /* it comes from memory */
    const int lane = (int)(threadIdx.x & 31), d = (int)u.d;
    const int64_t row = small_row(rows, r);
    const double factor = u.factor != NULL ? u.factor[row] : 1; /* times 1 changes nothing */
    int64_t *const sum = u.sum + p * u.limbs * u.k * d + lane;
    int64_t *const less = sum + (int64_t)from * d, *const more = sum + (int64_t)to * d;
    const int64_t limb = u.k * d;
#pragma unroll
    for (int i = 0; i < S::COLUMNS; i++) {
        const int f = lane + 32 * i;
        if (f >= d)
            break;
        const double v = __dmul_rn(small_value<S>(a, rows, r, f), factor);
        const double high = update_high(v, m->mult[f]);
        int64_t q = update_integer(high);
        update_red(more + 32 * i, q);
        if (from >= 0)
            update_red(less + 32 * i, -q);
        if (u.limbs == 1)
            continue;
        q = update_integer(update_low(v, m->mult[f], high, update_scale(u.bits)));
        update_red(more + limb + 32 * i, q);
        if (from >= 0)
            update_red(less + limb + 32 * i, -q);
    }
    if (lane == 0)
        update_count_row(u, row, p, from, to);
}

/* Scores of a unit. */
template <class S>
static __device__ __forceinline__ void small_scores(const struct small_memory<S> *m,
                                                    const uint8_t *unit, float (&d)[S::NT / 2]) {
    const uint32_t x = hf_wgmma_low(hf_shared(unit)), c = hf_wgmma_low(hf_shared(m->tile));
    constexpr uint32_t upper = hf_wgmma_swizzled(128);
    hf_wgmma_begin();
#pragma unroll
    for (int k = 0; k < S::DP / 16; k++) {
        const uint32_t in = (uint32_t)(k * 16 % 64 * 2), slab = (uint32_t)(k * 16 / 64);
        hf_wgmma_ss<S::NT>(
            d, hf_wgmma_desc(x + ((slab * FILTER_WG_ROWS * 128 + in) >> 4) + (1 << 16), upper),
            hf_wgmma_desc(c + ((slab * S::NT * 128 + in) >> 4) + (1 << 16), upper), k != 0);
    }
    hf_wgmma_commit();
    hf_wgmma_wait<0>();
    hf_wgmma_hold(d);
    filter_add_bias<S::NT>(d, hf_shared(m->bias));
}

/* What is known of a lane's two rows before their scores. */
struct small_facts {
    float norm[2], loss[2];
    int label[2]; /* the old ones */
};

static __device__ __forceinline__ struct small_facts small_know(const struct small_args &a,
                                                                const struct small_rows &rows) {
    const int lane = (int)(threadIdx.x & 31);
    struct small_facts facts;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int at = lane / 4 + 8 * r;
        const bool valid = at < rows.left;
        facts.norm[r] = valid ? a.norm[rows.first + at] : 0;
        facts.loss[r] = valid && a.loss != NULL ? a.loss[rows.first + at] : 0;
        facts.label[r] = valid ? a.job.labels[0][rows.first + at] : 0;
    }
    return facts;
}

/* Rows whose label changed: written, and moved between the sums. Returns how many. */
template <class S>
static __device__ __forceinline__ int
small_follow(const struct small_args &a, const struct small_memory<S> *m,
             const struct small_rows &rows, int p, const struct small_facts &facts,
             const int (&label)[2]) {
    const int lane = (int)(threadIdx.x & 31);
    int changed = 0;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int at = lane / 4 + 8 * r;
        const bool differs = at < rows.left && label[r] != facts.label[r];
        unsigned who = __ballot_sync(~0u, differs) & SMALL_ROWS;
        if (differs && (lane & 3) == 0)
            a.job.labels[0][small_row(rows, at)] = label[r];
        changed += __popc(who);
        for (; who != 0; who &= who - 1) {
            const int source = __ffs((int)who) - 1;
            const struct small_move move = {source / 4 + 8 * r,
                                            __shfl_sync(~0u, facts.label[r], source),
                                            __shfl_sync(~0u, label[r], source)};
            small_move_row(a, m, rows, p, move);
        }
    }
    return changed;
}

/* Open rows of a warp to those of the block that wait, if there is room for all of them: for each
 * row of `who` (bits of small_row's first lanes) its candidates. */
template <class S>
static __device__ __forceinline__ bool small_defer(struct small_memory<S> *m, int row,
                                                   const unsigned (&who)[2],
                                                   const uint32_t (&bits)[2]) {
    const int lane = (int)(threadIdx.x & 31);
    const int count = __popc(who[0]) + __popc(who[1]);
    int at = 0;
    if (lane == 0)
        at = atomicAdd(&m->opens, count);
    at = __shfl_sync(~0u, at, 0);
    if (at + count > SMALL_OPEN) {
        for (int i = at + lane; i < SMALL_OPEN; i += 32)
            m->open_row[i] = -1;
        return false;
    }
    const int first = lane & ~3; /* the row's first lane */
#pragma unroll
    for (int r = 0; r < 2; r++) {
        if (who[r] >> first & 1) {
            const int place = at + __popc(who[r] & ((1u << first) - 1));
            m->open[place].bits[lane & 3] = bits[r];
            if (lane == first)
                m->open_row[place] = row + lane / 4 + 8 * r;
        }
        at += __popc(who[0]);
    }
    return true;
}

/* Rows of a warp whose label changed, and that were open. */
struct small_counts {
    int changed, open;
};

/* A unit in shared memory; the counts of a warp grow. */
template <class S>
static __device__ __forceinline__ void
small_unit(const struct small_args &a, struct small_memory<S> *m, const struct small_place &w,
           const struct small_rows &rows, const struct small_facts &facts,
           struct small_counts *counts) {
    float d[S::NT / 2];
    struct filter_track<2> track;
    small_scores<S>(m, rows.x, d);
    filter_track_begin(&track);
    filter_keep<S::NT, FILTER_TOP2, 2>(d, 0, a.filter.minus_zero, &track);
    const struct filter_view bounds = filter_view_of(&m->bounds);
    int label[2];
    uint32_t bits[2] = {0, 0};
    unsigned who[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const struct filter_found found = filter_gather<FILTER_TOP2, 2>(track, r);
        const float error = filter_error(a.filter, bounds, facts.norm[r], facts.loss[r]);
        const float threshold = filter_threshold(found.best, error);
        const bool is =
            (int)(threadIdx.x & 31) / 4 + 8 * r < rows.left && !(found.second < threshold);
        label[r] = found.id;
        who[r] = __ballot_sync(~0u, is) & SMALL_ROWS;
        if (who[r] != 0) {
            const uint32_t all = small_candidates<S>(a, d, r, threshold);
            bits[r] = is ? all : 0;
        }
    }
    if ((who[0] | who[1]) != 0) {
        counts->open += __popc(who[0]) + __popc(who[1]);
        const bool later = small_defer(m, rows.number, who, bits);
        int settled = 0;
        if (!later)
            settled = small_settle<S, false>(a, m, rows, w, bits);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int own = __shfl_sync(~0u, settled, (int)(threadIdx.x & 31) / 4 + 8 * r);
            if (who[r] >> (threadIdx.x & 28) & 1) /* those that wait stay as they are so far */
                label[r] = later ? facts.label[r] : own;
        }
    }
    counts->changed += small_follow(a, m, rows, w.p, facts, label);
}

/* The open rows that waited: each warp takes some, up to 16 at a time. Returns how many labels
 * changed. */
template <class S>
static __device__ int small_settle_rest(const struct small_args &a, struct small_memory<S> *m,
                                        const struct small_place &w) {
    const int lane = (int)(threadIdx.x & 31), warp = (int)threadIdx.x / 32;
    const int count = min(m->opens, SMALL_OPEN);
    const int each = min(16, (count + S::WARPS - 1) / S::WARPS);
    int changed = 0;
    for (int first = warp * each; first < count; first += S::WARPS * each) {
        struct small_rows rows = {};
        rows.first = w.p * a.job.update.n;
        rows.left = min(each, count - first);
        rows.list = m->open_row + first;
        struct small_facts facts = {};
        uint32_t bits[2] = {0, 0};
        int label[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int at = lane / 4 + 8 * r;
            if (at < rows.left && rows.list[at] >= 0) {
                bits[r] = m->open[first + at].bits[lane & 3];
                facts.label[r] = a.job.labels[0][small_row(rows, at)];
            }
        }
        const int settled = small_settle<S, true>(a, m, rows, w, bits);
#pragma unroll
        for (int r = 0; r < 2; r++)
            label[r] = __shfl_sync(~0u, settled, lane / 4 + 8 * r);
        changed += small_follow(a, m, rows, w.p, facts, label);
    }
    return changed;
}

/* Unit number i of this warpgroup into stage s: one thread. */
template <class S>
static __device__ __forceinline__ void small_load(struct small_memory<S> *m, const CUtensorMap *map,
                                                  const struct small_place &w, int i, int s) {
    const int wg = (int)threadIdx.x / 128;
    const uint32_t bar = hf_shared(&m->full[wg][s]);
    const int unit = w.first + i * S::WGS;
    hf_mbar_expect(bar, S::UNIT);
#pragma unroll
    for (int f = 0; f < S::DP; f += 64)
        hf_tma_load(hf_shared(m->rows[wg][s]) + (uint32_t)(f * 2 * FILTER_WG_ROWS), map, f,
                    unit * FILTER_WG_ROWS, w.p, bar);
}

/* The first units on their way. */
template <class S>
static __device__ void small_load_first(struct small_memory<S> *m, const CUtensorMap *map,
                                        struct small_place *w) {
    w->stays = w->count <= S::STAGES;
    w->at = 0;
    if (threadIdx.x % 128 == 0)
        for (int i = 0; i < (w->stays ? w->count : S::STAGES); i++)
            small_load(m, map, *w, i, i);
}

/* This warpgroup's units of the problem, and the first of them on their way. */
template <class S>
static __device__ void small_open_rows(const struct small_args &a, struct small_memory<S> *m,
                                       const CUtensorMap *map, struct small_place *w) {
    const int first = (int)((int64_t)a.units * w->g / a.blocks);
    const int end = (int)((int64_t)a.units * (w->g + 1) / a.blocks);
    w->first = first + (int)threadIdx.x / 128;
    w->count = end > w->first ? (end - w->first + S::WGS - 1) / S::WGS : 0;
    small_load_first(m, map, w);
}

static __device__ __forceinline__ void small_arrived(uint64_t *full, struct small_place *w, int s) {
    hf_mbar_wait(hf_shared(&full[s]), w->parity >> s & 1);
    w->parity ^= 1u << s;
}

/* All loads of this warpgroup have come: nothing writes to its stages any more. `used`: those that
 * stay have been waited for. */
template <class S>
static __device__ void small_drain(struct small_memory<S> *m, struct small_place *w, bool used) {
    const int wg = (int)threadIdx.x / 128;
    if (w->stays && used)
        return;
    for (int i = 0; i < (w->stays ? w->count : S::STAGES); i++)
        small_arrived(m->full[wg], w, (w->at + i) % S::STAGES);
}

/* Labels of all rows of the block; first: units that stay have not been waited for. */
template <class S>
static __device__ void small_label(const struct small_args &a, struct small_memory<S> *m,
                                   const CUtensorMap *map, struct small_place *w, bool first) {
    const int wg = (int)threadIdx.x / 128;
    const int64_t n = a.job.update.n;
    struct small_counts counts = {0, 0};
    for (int i = 0; i < w->count; i++) {
        const int s = w->stays ? i : w->at % S::STAGES;
        const int64_t row =
            (int64_t)(w->first + i * S::WGS) * FILTER_WG_ROWS + threadIdx.x % 128 / 32 * 16;
        struct small_rows rows = {};
        rows.first = w->p * n + row;
        rows.left = (int)(n - row < 16 ? n - row : 16);
        rows.x = m->rows[wg][s];
        rows.row = (int)threadIdx.x % 128 / 32 * 16;
        rows.number = (int)row;
        const struct small_facts facts = small_know(a, rows);
        if (!w->stays || first)
            small_arrived(m->full[wg], w, s);
        small_unit(a, m, *w, rows, facts, &counts);
        if (w->stays)
            continue;
        hf_bar_sync(1 + wg, 128); /* nobody looks at this unit any more */
        if (threadIdx.x % 128 == 0)
            small_load(m, map, *w, (i + S::STAGES) % w->count, s);
        w->at++;
    }
    __syncthreads();
    counts.changed += small_settle_rest(a, m, *w);
    if (threadIdx.x % 32 == 0 && counts.changed > 0)
        atomicAdd(&a.counters[w->p].changed, (unsigned long long)counts.changed);
    if (threadIdx.x % 32 == 0 && counts.open > 0) {
        atomicAdd(&a.counters[w->p].rechecked, (unsigned long long)counts.open);
    }
}

#endif
