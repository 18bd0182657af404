/* SPDX-License-Identifier: Apache-2.0
 * Labels of a warp's rows: scores by mma.sync, all of a row in the registers of four lanes. A row
 * is decided if a single score reaches its threshold, best - 2 E (cuda/filter.h); else those that
 * do are its candidates. A lane looks at rows lane / 4 and lane / 4 + 8 of a unit. */
#ifndef HF_LLOYD_NARROW_LABEL_CUH
#define HF_LLOYD_NARROW_LABEL_CUH

#include "ops/lloyd/sm90/narrow_follow.cuh"

/* Scores less thresholds are multiplied by that: differences of floats, of which the threshold is
 * at least NARROW_LEAST in size, are then 1 or more, or not above 0. */
#define NARROW_STEEP 0x1p60f
#define NARROW_LEAST 0x1p-30f

/* A score that reaches the threshold counts so much, and its column. */
#define NARROW_CODE 256

/* All centroids of the problem: the B operands of a lane, of centroid lane / 4 of each tile. */
template <class S> struct narrow_centroids {
    uint32_t c[S::TILES][2 * S::KS];
    uint32_t bias[S::TILES]; /* pieces: column 0 and 1, or 2, of one more step */
    uint32_t one;            /* what they are multiplied by */
};

static __device__ __forceinline__ uint32_t narrow_pair(__half a, __half b) {
    return (uint32_t)__half_as_ushort(b) << 16 | __half_as_ushort(a);
}

/* A bias is three pieces of 11 bits, the first of padding -Inf. */
template <class S>
static __device__ __forceinline__ void narrow_take(const struct small_memory<S> *m,
                                                   const struct filter_units &units,
                                                   struct narrow_centroids<S> *own) {
    const int q = (int)threadIdx.x % 4, j = (int)threadIdx.x % 32 / 4;
    /* of powers of two, so exact; a division for each bias would cost a tenth of all time */
    const float inverse[3] = {1 / units.unit[0], 1 / units.unit[1], 1 / units.unit[2]};
#pragma unroll
    for (int t = 0; t < S::TILES; t++) {
        const int slot = 8 * t + j;
        const uint32_t *const at = (const uint32_t *)(m->tile + (slot * S::DP + 2 * q) * 2);
#pragma unroll
        for (int i = 0; i < 2 * S::KS; i++)
            own->c[t][i] = at[4 * i];
        const int place = slot / 16 * 16 + slot % 8 / 2 * 4 + slot % 16 / 8 * 2 + slot % 2;
        float left = m->bias[place];
        const __half first = __float2half_rn(left * inverse[0]);
        left = isinf(left) ? 0.0f : left - __half2float(first) * units.unit[0];
        const __half next = __float2half_rn(left * inverse[1]);
        left -= __half2float(next) * units.unit[1];
        const __half last = __float2half_rn(left * inverse[2]);
        own->bias[t] = q == 0   ? narrow_pair(first, next)
                       : q == 1 ? narrow_pair(last, __ushort_as_half(0))
                                : 0;
    }
    own->one = q == 0 ? narrow_pair(__float2half_rn(units.unit[0]), __float2half_rn(units.unit[1]))
               : q == 1 ? narrow_pair(__float2half_rn(units.unit[2]), __ushort_as_half(0))
                        : 0;
}

/* E where all centroids are of the level that every row reaches: linear but for the last term. */
struct narrow_error {
    float norm, loss, base, slack, length;
    bool flat; /* they are */
};

static __device__ __forceinline__ struct narrow_error
narrow_error_of(const struct filter_args &a, const struct filter_view &bounds) {
    const struct filter_fact all = bounds.most[FILTER_LEVELS];
    const struct filter_fact near = bounds.most[filter_level(a.inverse, bounds.reach_base)];
    const float up = 1 + 0x1p-10f, reach = all.length + all.rc + FILTER_LEAST;
    struct narrow_error e;
    e.flat = near.length >= all.length && near.rc >= all.rc && !(bounds.lost < INFINITY);
    e.norm = (all.rc + a.acc * reach) * up;
    e.loss = all.length * up;
    e.base = (a.acc * (a.half * all.length * all.length + FILTER_LEAST * reach) + a.tiny) * up;
    e.slack = a.slack * up;
    e.length = all.length;
    return e;
}

/* E of other rows. Out of line: its registers would cost all rows a tenth of their time. */
static __device__ __noinline__ float narrow_error_by_level(const struct filter_args &a,
                                                           const struct filter_bounds *bounds,
                                                           float norm, float loss) {
    return filter_error(a, filter_view_of(bounds), norm, loss);
}

/* What scores must pass: best - 2 E, or a little less. NaN or -Inf where nothing is known. */
static __device__ __forceinline__ float narrow_threshold(const struct filter_args &a,
                                                         const struct filter_bounds *bounds,
                                                         const struct narrow_error &e, float best,
                                                         float norm, float loss) {
    const float apart = norm + loss + e.length;
    float error = fmaf(norm, e.norm, fmaf(loss, e.loss, fmaf(apart * apart, e.slack, e.base)));
    if (!e.flat)
        error = narrow_error_by_level(a, bounds, norm, loss);
    const float threshold = fmaf(fabsf(best), -0x1p-21f, fmaf(-2.0f, error, best));
    return fabsf(threshold) < NARROW_LEAST ? -NARROW_LEAST : threshold;
}

/* Scores of the 16 rows at x and all centroids. */
template <class S>
static __device__ __forceinline__ void narrow_scores(const struct narrow_centroids<S> &own,
                                                     const uint8_t *x, float (&d)[S::TILES][4]) {
    const int lane = (int)threadIdx.x % 32;
    const uint32_t at = hf_shared(x) + (uint32_t)(lane % 16 * S::DP * 2 + lane / 16 * 16);
    uint32_t r[S::KS][4];
#pragma unroll
    for (int s = 0; s < S::KS; s++)
        hf_ldmatrix(r[s], at + 32 * s);
#pragma unroll
    for (int t = 0; t < S::TILES; t++) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5}, {%6}, {%7, %7, %7, %7};"
                     : "=f"(d[t][0]), "=f"(d[t][1]), "=f"(d[t][2]), "=f"(d[t][3])
                     : "r"(own.one), "r"(own.one), "r"(own.bias[t]), "f"(0.0f));
#pragma unroll
        for (int s = 0; s < S::KS; s++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                         "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(d[t][0]), "+f"(d[t][1]), "+f"(d[t][2]), "+f"(d[t][3])
                         : "r"(r[s][0]), "r"(r[s][1]), "r"(r[s][2]), "r"(r[s][3]),
                           "r"(own.c[t][2 * s]), "r"(own.c[t][2 * s + 1]));
    }
}

/* Of row r over all lanes that have it. */
template <class S>
static __device__ __forceinline__ float narrow_best(const float (&d)[S::TILES][4], int r) {
    float even = d[0][2 * r], odd = d[0][2 * r + 1];
#pragma unroll
    for (int t = 1; t < S::TILES; t++) {
        even = fmaxf(even, d[t][2 * r]);
        odd = fmaxf(odd, d[t][2 * r + 1]);
    }
    float best = fmaxf(even, odd);
    best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
    return fmaxf(best, __shfl_xor_sync(~0u, best, 2));
}

/* The sum of the codes of all scores of row r beyond the threshold: with one of them, NARROW_CODE
 * and its column; else less or at least twice as much. Nothing here waits for a predicate. */
template <class S>
static __device__ __forceinline__ float narrow_code(const float (&d)[S::TILES][4], int r,
                                                    float threshold) {
    const float less = threshold * -NARROW_STEEP;
    float sum[2] = {0, 0};
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float is = __saturatef(__fmaf_rn(d[t][2 * r + e], NARROW_STEEP, less));
            sum[e] = __fmaf_rn(is, (float)(NARROW_CODE + 8 * t + e), sum[e]);
        }
    float all = sum[0] + sum[1];
    all += all > 0 ? (float)(2 * (threadIdx.x % 4)) : 0.0f;
    all += __shfl_xor_sync(~0u, all, 1);
    return all + __shfl_xor_sync(~0u, all, 2);
}

/* This lane's candidates of row r: all columns where nothing is known. */
template <class S>
static __device__ __forceinline__ uint32_t narrow_candidates(const float (&d)[S::TILES][4], int r,
                                                             float threshold, int k) {
    const bool all = !(threshold > -FLT_MAX);
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 2 * S::TILES; i++) {
        const int column = i / 2 * 8 + 2 * (int)(threadIdx.x % 4) + i % 2;
        const bool is = all ? column < k : d[i / 2][2 * r + i % 2] > threshold;
        bits |= (uint32_t)is << i;
    }
    return bits;
}

/* Unit `unit` of the problem into its place in the ring: 16 bytes and numbers at a time. */
template <class S>
static __device__ __forceinline__ void narrow_fetch(const struct small_args &a, int p, int unit,
                                                    struct narrow_unit<S::DP> *to) {
    const int lane = (int)threadIdx.x % 32;
    const int64_t n = a.job.update.n, row = (int64_t)unit * NARROW_ROWS, first = p * n + row;
    const int left = (int)min((int64_t)NARROW_ROWS, n - row);
    constexpr int PIECES = S::DP / 8;
#pragma unroll
    for (int i = 0; i < NARROW_ROWS * PIECES; i += 32) {
        const int r = (i + lane) / PIECES, c = (i + lane) % PIECES;
        if (r < left && c * 8 < a.ld)
            narrow_copy<16>(to->x + r * S::DP * 2 + c * 16,
                            (const uint8_t *)a.x16 + ((first + r) * a.stride + c * 8) * 2);
    }
    const int r = lane % 16;
    if (r >= left)
        return;
    if (lane < 16)
        narrow_copy<4>(&to->norm[r], a.norm + first + r);
    else if (a.loss != NULL)
        narrow_copy<4>(&to->loss[r], a.loss + first + r);
    if (lane < 16)
        narrow_copy<4>(&to->label[r], a.job.labels[0] + first + r);
}

/* The rows of a unit: the first one's number in the problem, how many there are from it on. */
template <class S> struct narrow_rows {
    int first, left;
    const struct narrow_unit<S::DP> *unit;
};

/* What the unit's rows come to: labels that changed and open rows, into the warp's lists. */
template <class S>
static __device__ __forceinline__ void
narrow_unit_end(const struct small_args &a, struct small_memory<S> *m,
                const struct narrow_rows<S> &rows, const float (&d)[S::TILES][4],
                const struct narrow_error &error, struct narrow_lists *lists) {
    const struct narrow_unit<S::DP> &unit = *rows.unit;
    const int row = rows.first, left = rows.left;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int at = lane / 4 + 8 * r, old = unit.label[at];
        const float threshold = narrow_threshold(a.filter, &m->bounds, error, narrow_best<S>(d, r),
                                                 unit.norm[at], unit.loss[at]);
        const float code = narrow_code<S>(d, r, threshold);
        const bool known = code >= NARROW_CODE && code < 2 * NARROW_CODE && threshold > -FLT_MAX;
        const int label = (int)code - NARROW_CODE;
        const bool open = at < left && !known;
        if (__any_sync(~0u, open)) {
            const uint32_t bits = narrow_candidates<S>(d, r, threshold, (int)a.job.update.k);
            const unsigned opens = __ballot_sync(~0u, open) & SMALL_ROWS;
            struct narrow_open *const to =
                &m->open[warp][lists->opens + __popc(opens & ((1u << (lane & ~3)) - 1))];
            if (open) {
                to->bits[lane & 3] = bits;
                to->row = row + at;
                to->label = old;
            }
            lists->opens += __popc(opens);
            lists->rechecked += __popc(opens);
        }
        const bool moves = at < left && known && label != old && (lane & 3) == 0;
        narrow_note(a, m, {moves, row + at, old, label}, lists);
    }
}

/* This warp's units of the problem; the block's sums begin. */
template <int KS, int TILES>
static __device__ void small_open_rows(const struct small_args &a,
                                       struct small_memory<struct narrow_shape<KS, TILES>> *m,
                                       const CUtensorMap *map, struct small_place *w) {
    typedef struct narrow_shape<KS, TILES> S;
    constexpr int parts = FILTER_WG_ROWS / NARROW_ROWS;
    (void)map;
    const int most = (int)((a.job.update.n + NARROW_ROWS - 1) / NARROW_ROWS);
    const int end = min(most, parts * (int)((int64_t)a.units * (w->g + 1) / a.blocks));
    w->first = parts * (int)((int64_t)a.units * w->g / a.blocks) + (int)threadIdx.x / 32;
    w->count = end > w->first ? (end - w->first + S::WARPS - 1) / S::WARPS : 0;
    for (int i = (int)threadIdx.x; i < S::SUMS; i += S::THREADS)
        m->low[i] = m->high[i] = 0;
    for (int i = (int)threadIdx.x; i < S::NT; i += S::THREADS)
        m->count[i] = 0;
    uint32_t *const ring = (uint32_t *)m->ring;
    for (int i = (int)threadIdx.x; i < (int)sizeof m->ring / 4; i += S::THREADS)
        ring[i] = 0;
}

/* Labels of all rows of the block, then its sums to those of the problem. Out of line: it is needed
 * twice. */
template <int KS, int TILES>
static __device__ __noinline__ void
small_label(const struct small_args &a, struct small_memory<struct narrow_shape<KS, TILES>> *m,
            const CUtensorMap *map, struct small_place *w, bool first) {
    typedef struct narrow_shape<KS, TILES> S;
    struct narrow_unit<S::DP> *const ring = m->ring[threadIdx.x / 32];
    (void)map;
    (void)first;
    struct narrow_centroids<S> own;
    narrow_take(m, a.pieces, &own);
    const struct narrow_error error = narrow_error_of(a.filter, filter_view_of(&m->bounds));
    struct narrow_lists lists = {w->p, 0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < NARROW_RING; i++) {
        if (i < w->count)
            narrow_fetch<S>(a, w->p, w->first + i * S::WARPS, &ring[i]);
        narrow_commit();
    }
    for (int i = 0; i < w->count; i++) {
        struct narrow_unit<S::DP> *const unit = &ring[i % NARROW_RING];
        const int row = (w->first + i * S::WARPS) * NARROW_ROWS;
        const int left = (int)min((int64_t)NARROW_ROWS, a.job.update.n - row);
        float d[S::TILES][4];
        narrow_arrived<NARROW_RING - 1>();
        __syncwarp();
        narrow_scores<S>(own, unit->x, d);
        narrow_unit_end<S>(a, m, {row, left, unit}, d, error, &lists);
        __syncwarp(); /* nobody looks at this unit any more */
        if (i + NARROW_RING < w->count)
            narrow_fetch<S>(a, w->p, w->first + (i + NARROW_RING) * S::WARPS, unit);
        narrow_commit();
        if (lists.opens < 16 && lists.moves < 32)
            continue;
        if (lists.opens >= 16)
            narrow_settle(a, m, &lists);
        if (lists.moves >= 32)
            narrow_follow(a, m, &lists);
        narrow_take(m, a.pieces, &own); /* registers were needed */
    }
    narrow_end_lists(a, m, &lists);
    __syncthreads();
    narrow_put_sums(a, m, *w);
}

/* No copy is under way here. */
template <int KS, int TILES>
static __device__ void small_drain(struct small_memory<struct narrow_shape<KS, TILES>> *m,
                                   struct small_place *w, bool used) {
    (void)m;
    (void)w;
    (void)used;
}

#endif
