/* SPDX-License-Identifier: Apache-2.0
 * The filter for d up to 512. A block is WGS consumer warpgroups and a producer. A warpgroup keeps
 * 64 rows in registers, as the A operand, while all tiles of centroids go by (a ring in shared
 * memory, filled by one bulk copy a tile): D / 16 products of 64 x NT x 16, then the best of each
 * row is kept while the other warpgroups multiply. One set of accumulators a warpgroup: two, one
 * kept under the product of the other, were 15 to 25 % slower. The bias is one more step of the
 * product (d <= 128) or what accumulators begin with, from shared memory: 6 % faster at d = 256
 * than an addition afterwards, but 2 to 30 % slower than the step below (that memory is busy).
 *
 * Power is the limit (an H200 falls from 1.98 to about 1.6 GHz at once; f16 data, whose products
 * have more bits, run 3 to 5 % slower than bf16 data): with no copies of values at all d = 64 would
 * gain 4 %, more columns 0 to 2 %. At d = 128 the clock falls when fewer cycles are needed. Tried
 * without gain: two halves of a tile, rows that begin at different tiles, branches round scores far
 * from the best, the next rows loaded while the last scores are looked at, a unit's end while rows
 * are loaded, rows multiplied from shared memory by four warpgroups, tiles shared by two blocks,
 * rows two units ahead, norms worked out under a product (the rows' memory is free later then). */
#ifndef HF_ASSIGN_FILTER_KERNEL_CUH
#define HF_ASSIGN_FILTER_KERNEL_CUH

#include "device/cuda/chain.cuh"
#include "ops/assign/sm90/filter_conclude.cuh"
#include "ops/assign/cuda/filter_sweep.cuh"

template <int DP_, bool BF16_> struct filter_shape {
    static constexpr int DP = DP_;
    static constexpr bool BF16 = BF16_;
    static constexpr int NT = DP <= 256 ? 128 : 64;
    static constexpr int WGS = DP <= 64 ? 4 : DP <= 256 ? 3 : 2;
    static constexpr int CLUSTER = 1;
    static constexpr int UNITS = WGS;                                  /* of a group */
    static constexpr int REGS = WGS == 4 ? 112 : WGS == 3 ? 160 : 232; /* of a consumer thread */
    static constexpr int PRODUCER_REGS = WGS == 2 ? 40 : 32;
    static constexpr int THREADS = WGS * 128 + 128;
    static constexpr int SWIZZLE = DP % 64 ? 64 : 128;
    static constexpr int SLAB = SWIZZLE / 2; /* columns of a slab */
    /* Conclusions under the next rows' first product: 2 to 4 % with few tiles, but at d = 64 the
     * registers that it takes would halve CHUNK, which costs more. */
    static constexpr bool UNDER = DP == 96 || DP == 128;
    /* Quick ends, and other savings that take registers: at d = 32 and 64 they are short. */
    static constexpr bool COUNT = UNDER;
    /* Columns looked at together: what registers allow. */
    static constexpr int CHUNK = DP == 192 || DP == 256 ? 4 : 8;
    static constexpr bool BIAS_STEP = DP <= 128;
    static constexpr bool TWICE = DP == FILTER_TWICE_DP; /* biases, 1 to 2 % */
    static constexpr int PIECES = DP > 256 ? 2 : 1;      /* rows come in so many pieces */
    static constexpr int TILE = NT * (DP * 2 + (BIAS_STEP ? FILTER_BIAS_STEP : TWICE ? 8 : 4));
    static constexpr int STAGE = (TILE + 1023) / 1024 * 1024;
    static constexpr int ROWS = FILTER_WG_ROWS * DP * 2 / PIECES; /* bytes of a piece */
    static constexpr int MAX_STAGES = DP == 256 ? 2 : 8;
    static constexpr int BOUNDS = (2 * MAX_STAGES + 3 * WGS + 1) / 2 * 16; /* behind barriers */
    static constexpr int OPENS = BOUNDS + WGS * 16;
    static constexpr int BARS = OPENS + WGS * 4 * FILTER_WARP_OPEN * 8;
    static constexpr int ROOM = 232448 - BARS - WGS * ROWS;
    static constexpr int STAGES = ROOM / STAGE < MAX_STAGES ? ROOM / STAGE : MAX_STAGES;
    static constexpr int SHARED = STAGES * STAGE + WGS * ROWS + BARS;
    static_assert(STAGES >= 2, "a ring needs two stages");
};

/* Do warpgroups multiply in turn? 2 to 4 % with few tiles at d = 128; at d = 64 2 % without the
 * second best, but 2 to 5 % lost with it, as at d = 32. */
template <class S, int MODE> static __device__ __forceinline__ constexpr bool filter_turns(void) {
    return S::DP == 64 ? MODE == FILTER_BEST || MODE == FILTER_BEST_CHUNK
                       : S::DP > 64 && S::DP <= 128;
}

/* Addresses of a block's shared memory. */
template <class S> struct filter_shared {
    uint32_t base;
    __device__ __forceinline__ uint32_t stage(int i) const { return base + (uint32_t)i * S::STAGE; }
    __device__ __forceinline__ uint32_t rows(int wg) const {
        return base + (uint32_t)(S::STAGES * S::STAGE + wg * S::ROWS);
    }
    __device__ __forceinline__ uint32_t bars() const { return rows(S::WGS); }
    __device__ __forceinline__ uint32_t full(int i) const { return bars() + (uint32_t)i * 8; }
    __device__ __forceinline__ uint32_t empty(int i) const {
        return bars() + (uint32_t)(S::STAGES + i) * 8;
    }
    __device__ __forceinline__ uint32_t rows_full(int wg) const {
        return bars() + (uint32_t)(2 * S::STAGES + wg) * 8;
    }
    __device__ __forceinline__ uint32_t rows_empty(int wg) const {
        return bars() + (uint32_t)(2 * S::STAGES + S::WGS + wg) * 8;
    }
    __device__ __forceinline__ uint32_t flag(int wg) const {
        return bars() + (uint32_t)(2 * S::STAGES + 2 * S::WGS + wg) * 8;
    }
    /* What filter_put_bounds() keeps there. */
    __device__ __forceinline__ uint32_t bounds(int wg) const {
        return bars() + S::BOUNDS + (uint32_t)wg * 16;
    }
    /* Of filter_open_rows. */
    __device__ __forceinline__ uint32_t opens(int warp) const {
        return bars() + S::OPENS + (uint32_t)(warp * FILTER_WARP_OPEN * 8);
    }
};

/* One thread: tiles into the ring. */
template <class S, bool LIST>
static __device__ __forceinline__ void filter_produce_tiles(const struct filter_args &a,
                                                            const struct filter_shared<S> &m) {
    struct filter_segment s;
    int stage = 0, last = -1;
    uint32_t parity = 1;
    for (int i = 0; filter_segment_at<S, LIST>(a, i, &s); i++) {
        if (a.resident && (s.problem == last || s.rounds == 0))
            continue; /* an empty list: its tiles are not looked at */
        last = s.problem;
        const int begin = a.resident ? 0 : s.t0, end = a.resident ? a.tiles_per_problem : s.t1;
        const uint8_t *tiles = a.tiles + (int64_t)s.problem * a.tiles_per_problem * a.tile_bytes;
        for (int round = 0; round < (a.resident ? 1 : s.rounds); round++)
            for (int t = begin; t < end; t++) {
                hf_mbar_wait(m.empty(stage), parity);
                hf_mbar_expect(m.full(stage), S::TILE);
                hf_bulk_copy(m.stage(stage), tiles + (int64_t)t * S::TILE, S::TILE, m.full(stage));
                const bool wrap = ++stage == (a.resident ? a.tiles_per_problem : S::STAGES);
                stage = wrap ? 0 : stage;
                parity ^= wrap;
            }
    }
}

/* One thread for warpgroups `first`, `first` + 3: their rows. */
template <class S>
static __device__ __forceinline__ void filter_produce_rows(const struct filter_args &a,
                                                           const struct filter_shared<S> &m,
                                                           const CUtensorMap *map, int first) {
    struct filter_segment s;
    uint32_t parity = 3; /* bit 0: of `first`, bit 1: of the other */
    for (int i = 0; filter_segment_at<S, false>(a, i, &s); i++)
        for (int v = 0; v < s.rounds; v++)
            for (int wg = first; wg < S::WGS; wg += 3) {
                const uint32_t bit = wg == first ? 1 : 2;
                const int unit = (s.group + v) * S::WGS + wg;
                for (int p = 0; p < S::PIECES; p++, parity ^= bit) {
                    hf_mbar_wait(m.rows_empty(wg), (parity & bit) != 0);
                    hf_mbar_expect(m.rows_full(wg), S::ROWS);
                    for (int x = 0; x < S::DP / S::PIECES; x += S::SLAB)
                        hf_tma_load(m.rows(wg) + (uint32_t)x * 2 * FILTER_WG_ROWS, map,
                                    p * (S::DP / S::PIECES) + x, unit * FILTER_WG_ROWS, s.problem,
                                    m.rows_full(wg));
                }
            }
}

/* This warp has a piece of its rows. The arrival must wait for what was loaded: without a use of
 * it, it came first (seen: rows of the next unit in this one). nothing is 0, which the compiler
 * does not know. */
template <class S, int PIECE>
static __device__ __forceinline__ void filter_release_rows(const struct filter_shared<S> &m, int wg,
                                                           uint32_t nothing,
                                                           const uint32_t (&a)[S::DP / 16][4]) {
    constexpr int steps = S::DP / 16 / S::PIECES;
    constexpr bool used = PIECE == S::PIECES - 1; /* products that need the others are under way */
    uint32_t seen = 0;
#pragma unroll
    for (int i = PIECE * steps + (used ? steps - 1 : 0); i < PIECE * steps + steps; i++)
        seen ^= a[i][0] ^ a[i][1] ^ a[i][2] ^ a[i][3];
    __syncwarp();
    if ((threadIdx.x & 31) == 0)
        hf_mbar_arrive(m.rows_empty(wg) + (seen & nothing));
}

/* The A operand of all steps from this warpgroup's rows in shared memory. The last piece is
 * released later, when nobody waits for it. */
template <class S>
static __device__ __forceinline__ void filter_load_rows(const struct filter_shared<S> &m, int wg,
                                                        uint32_t *parity, uint32_t nothing,
                                                        uint32_t (&a)[S::DP / 16][4]) {
    constexpr int steps = S::DP / 16 / S::PIECES;
    const int lane = (int)(threadIdx.x & 31), warp = (int)(threadIdx.x >> 5) & 3;
    const int row = warp * 16 + (lane & 15);
    const int flip = S::SWIZZLE == 128 ? row & 7 : row >> 1 & 3;
#pragma unroll
    for (int p = 0; p < S::PIECES; p++, *parity ^= 1) {
        hf_mbar_wait(m.rows_full(wg), *parity);
#pragma unroll
        for (int i = 0; i < steps; i++) {
            const int slab = i * 16 / S::SLAB, piece = i * 16 % S::SLAB / 8 + (lane >> 4);
            hf_ldmatrix(a[p * steps + i],
                        m.rows(wg) + (uint32_t)(slab * FILTER_WG_ROWS * S::SWIZZLE +
                                                row * S::SWIZZLE + ((piece ^ flip) << 4)));
        }
        if (p + 1 < S::PIECES)
            filter_release_rows<S, 0>(m, wg, nothing, a);
    }
}

/* The same for listed rows, from where they are. */
template <class S>
static __device__ __forceinline__ void filter_fetch_rows(const struct filter_args &a, int problem,
                                                         int unit, uint32_t (&r)[S::DP / 16][4]) {
    const int lane = (int)(threadIdx.x & 31), warp = (int)(threadIdx.x >> 5) & 3;
    const int count = filter_rows_of<true>(a, problem);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = unit * FILTER_WG_ROWS + warp * 16 + lane / 4 + 8 * half;
        const int64_t list = a.split ? problem * a.out.open.cap : problem * a.rows.n;
        const int row = i < count ? a.rows.list[list + i] : -1;
        const uint16_t *x = (const uint16_t *)a.rows.x16 + (problem * a.rows.n + row) * a.rows.ld;
#pragma unroll
        for (int k = 0; k < S::DP / 8; k++) {
            const int column = k * 8 + 2 * (lane & 3);
            uint32_t v = 0;
            if (row >= 0 && column < a.rows.d)
                v = *(const uint32_t *)(x + column);
            if (column + 1 == a.rows.d)
                v &= 0xFFFF;
            r[k / 2][half + 2 * (k % 2)] = v;
        }
    }
}

/* The tiles that stay have all come: whoever frees their memory must know. */
template <class S>
static __device__ __forceinline__ void
filter_await_tiles(const struct filter_args &a, const struct filter_shared<S> &m, uint32_t parity) {
    for (int t = 0; a.resident && t < a.tiles_per_problem; t++)
        hf_mbar_wait(m.full(t), parity);
}

/* Squared lengths of a lane's two rows, of its columns alone, as two halves: from the A operand, in
 * f16 after a multiplication by a.measure, which makes components at most about 1, or small enough
 * where it is 1. A lane adds DP / 8 squares to each of four sums, then those in pairs, with a share
 * of 2^-11 lost at each addition and 2^-24 under f16's least. Overflow and NaN stay: nothing is
 * known of such a row. What takes long is left to filter_length(): the product waits for this. */
template <class S>
static __device__ __forceinline__ float filter_squares(const struct filter_args &a,
                                                       const uint32_t (&rows)[S::DP / 16][4]) {
    const __half2 by = __float2half2_rn(a.measure);
    __half2 sums[2] = {__float2half2_rn(0.0f), __float2half2_rn(0.0f)};
    if (S::COUNT ? a.plain : a.measure == 1.0f) {
#pragma unroll
        for (int i = 0; i < S::DP / 4; i++) {
            const __half2 v = *(const __half2 *)&rows[i / 4][i % 4];
            sums[i % 2] = __hfma2(v, v, sums[i % 2]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < S::DP / 4; i++) {
            const __half2 v = __hmul2_rn(*(const __half2 *)&rows[i / 4][i % 4], by);
            sums[i % 2] = __hfma2(v, v, sums[i % 2]);
        }
    }
    const __half2 both =
        __hadd2_rn(__lows2half2(sums[0], sums[1]), __highs2half2(sums[0], sums[1]));
    return __int_as_float(*(const int *)&both);
}

/* Begin the scores of a tile; one: A operand of the bias step, of a lane's two rows. */
template <class S>
static __device__ __forceinline__ void filter_multiply(uint32_t stage, const uint32_t (&one)[2],
                                                       const uint32_t (&rows)[S::DP / 16][4],
                                                       float (&d)[S::NT / 2]) {
    const uint32_t low = hf_wgmma_low(stage);
    if constexpr (!S::BIAS_STEP)
        filter_begin_bias<S::NT, S::TWICE>(d, stage + S::NT * S::DP * 2);
    hf_wgmma_begin();
    if constexpr (S::BIAS_STEP) { /* 8 x 8 pieces: 128 bytes to the next along k, 256 along rows */
        const uint32_t ones[4] = {one[0], one[1], 0, 0};
        hf_wgmma_rs<S::NT>(
            d, ones, hf_wgmma_desc(low + (S::NT * S::DP * 2 >> 4) + (128 >> 4 << 16), 256 >> 4), 0);
    }
#pragma unroll
    for (int k = 0; k < S::DP / 16; k++) {
        const int at = k * 16 / S::SLAB * S::NT * S::SWIZZLE + k * 16 % S::SLAB * 2;
        hf_wgmma_rs<S::NT>(
            d, rows[k],
            hf_wgmma_desc(low + (uint32_t)(at >> 4) + (1 << 16), hf_wgmma_swizzled(S::SWIZZLE)), 1);
    }
    hf_wgmma_commit();
}

/* A consumer warp: its warpgroup, its place in the ring and among its rows, its open rows. */
struct filter_consumer {
    int wg;
    int stage;
    uint32_t parity;
    uint32_t rows_parity;
    struct filter_open_rows opens;
};

/* 0, which the compiler does not know. */
static __device__ __forceinline__ uint32_t filter_nothing(const struct filter_args &a) {
    return (uint32_t)__float_as_int(a.minus_zero) << 1;
}

/* This warp is done with a stage of the ring. */
template <class S>
static __device__ __forceinline__ void
filter_release_tile(const struct filter_args &a, const struct filter_shared<S> &m, int stage) {
    __syncwarp();
    if ((threadIdx.x & 31) == 0 && !a.resident)
        hf_mbar_arrive(m.empty(stage));
}

/* Begin a tile's product, when it is this warpgroup's turn if they take turns: they would else fall
 * into step, all multiply at once and then none. */
template <class S, int MODE>
static __device__ __forceinline__ void
filter_tile_begin(uint32_t stage, int wg, const uint32_t (&one)[2],
                  const uint32_t (&rows)[S::DP / 16][4], float (&d)[S::NT / 2]) {
    if constexpr (filter_turns<S, MODE>())
        hf_bar_sync(FILTER_TURN + wg, 256);
    filter_multiply<S>(stage, one, rows, d);
    if constexpr (filter_turns<S, MODE>())
        hf_bar_arrive(FILTER_TURN + (wg + 1 == S::WGS ? 0 : wg + 1), 256);
}

/* What a warpgroup knows of its unit's rows while tiles go by. EMIT: facts are of the first row,
 * next of the second. Rows without norms: facts.norm is what filter_squares() gave; with quick ends
 * that decide, facts become errors under the second tile's product, where most time is left. */
template <int C> struct filter_unit {
    int number;
    struct filter_row_facts facts, next;
    struct filter_track<C> track;
};

/* A tile's product ends. more: another tile follows. */
template <class S>
static __device__ __forceinline__ void
filter_tile_end(const struct filter_args &a, const struct filter_shared<S> &m, bool more,
                struct filter_consumer *c, float (&d)[S::NT / 2]) {
    const int now = c->stage;
    const bool wrap = now + 1 == S::STAGES && !a.resident;
    c->stage = wrap ? 0 : now + 1;
    c->parity ^= wrap;
    /* The next tile will have come when the scores of this one have been compared. */
    if (more)
        hf_mbar_wait(m.full(c->stage), c->parity);
    hf_wgmma_wait<0>();
    hf_wgmma_hold(d);
    filter_release_tile<S>(a, m, now);
}

/* The scores of tile t: candidates are listed (EMIT), or the best are kept. */
template <class S, int MODE, int C>
static __device__ __forceinline__ void
filter_tile_scores(const struct filter_args &a, const struct filter_shared<S> &m, int problem,
                   int t, const float (&d)[S::NT / 2], struct filter_unit<C> *u) {
    if constexpr (MODE == FILTER_EMIT) {
        const struct filter_open_pair rows = {
            problem, u->number * FILTER_WG_ROWS + filter_row(), {u->facts.norm, u->next.norm}};
        filter_list<S::NT, !S::BIAS_STEP>(
            a, d, t, rows, filter_get_bounds(a, problem, m.bounds((int)threadIdx.x / 128)));
    } else {
        filter_keep<S::NT, MODE, C>(d, t, a.minus_zero, &u->track);
    }
}

template <class S, int MODE, int C>
static __device__ __forceinline__ void
filter_unit_end(const struct filter_args &a, const struct filter_shared<S> &m,
                const struct filter_segment &s, struct filter_consumer *c,
                const struct filter_unit<C> &u) {
    struct filter_row_facts facts = u.facts;
    if constexpr (filter_decides(MODE) && !filter_quick<S, MODE>())
        if (!a.rows.norm)
            facts.norm = filter_length<S>(a, facts.norm);
    const struct filter_warpgroup wg = {c->wg, m.flag(c->wg), m.bounds(c->wg), &c->opens};
    filter_conclude<S, MODE, C>(a, s, wg, u.number, facts, u.track);
}

/* The rows of a unit (place: its number) into registers, when its first tile has come; returns what
 * else is known of them. */
template <class S, int MODE>
static __device__ __forceinline__ struct filter_row_facts
filter_unit_rows(const struct filter_args &a, const struct filter_shared<S> &m,
                 const struct filter_entry &unit, struct filter_consumer *c,
                 uint32_t (&rows)[S::DP / 16][4]) {
    constexpr bool LIST = filter_lists(MODE);
    const int problem = unit.problem, i = unit.place * FILTER_WG_ROWS + filter_row();
    struct filter_row_facts facts =
        filter_know<MODE, S::COUNT>(a, problem, MODE == FILTER_EMIT ? i : i + 8 * filter_half());
    hf_mbar_wait(m.full(c->stage), c->parity);
    if constexpr (LIST)
        filter_fetch_rows<S>(a, problem, unit.place, rows);
    else
        filter_load_rows<S>(m, c->wg, &c->rows_parity, filter_nothing(a), rows);
    if constexpr (S::BF16)
        filter_halve_rows(rows);
    if (filter_decides(MODE) && !a.rows.norm)
        facts.norm = filter_squares<S>(a, rows);
    return facts;
}

/* EMIT: what a lane's two listed rows bring to the bias step for the errors of their scores, and
 * thresholds that go with these. one: of any rows. */
template <class S>
static __device__ __forceinline__ void
filter_unit_keys(const struct filter_args &a, const struct filter_view &bounds, int problem,
                 uint32_t one, struct filter_unit<2> *u, uint32_t (&ones)[2]) {
    const int lane = (int)threadIdx.x & 3, place = u->number * FILTER_WG_ROWS + filter_row();
    struct filter_row_facts *const facts[2] = {&u->facts, &u->next};
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const struct filter_listed l =
            filter_listed_row(a, bounds, problem, place + 8 * r, facts[r]->norm);
        const uint32_t norm = __half_as_ushort(__float2half_ru(l.norm));
        const uint32_t loss = __half_as_ushort(__float2half_ru(l.loss));
        const bool known = l.lower > -FLT_MAX;
        ones[r] = lane < 2    ? one
                  : !known    ? 0
                  : lane == 2 ? loss << 16 | norm
                              : __half_as_ushort(__float2half_rn(a.key));
        const float apart = l.norm + l.loss;
        const float rest =
            (a.tiny + 2 * a.slack * apart * apart + a.acc * bounds.up) * (1 + 0x1p-8f);
        if (known)
            facts[r]->norm = l.lower - rest - fabsf(l.lower) * 0x1p-20f;
    }
}

/* The units of a segment: for each load its rows, look at all tiles, conclude, maybe under the next
 * one's first product. */
template <class S, int MODE>
static __device__ __forceinline__ void
filter_segment_run(const struct filter_args &a, const struct filter_shared<S> &m,
                   const struct filter_segment &s, uint32_t one, struct filter_consumer *c) {
    constexpr int C = filter_chunks(MODE) ? S::CHUNK : 2;
    struct filter_unit<C> u;
    for (int v = 0; v < s.rounds; v++) {
        const int number = (s.group + v) * S::WGS + c->wg;
        uint32_t rows[S::DP / 16][4];
        if (a.resident)
            c->stage = s.t0;
        const struct filter_row_facts facts =
            filter_unit_rows<S, MODE>(a, m, {s.problem, number}, c, rows);
        uint32_t ones[2] = {one, one};
        if constexpr (MODE == FILTER_EMIT) {
            u.number = number;
            u.facts = facts;
            u.next = filter_know<MODE>(a, s.problem, number * FILTER_WG_ROWS + filter_row() + 8);
            if constexpr (S::BIAS_STEP)
                filter_unit_keys<S>(a, filter_get_bounds(a, s.problem, m.bounds(c->wg)), s.problem,
                                    one, &u, ones);
        }
        {
            float d[S::NT / 2];
            filter_tile_begin<S, MODE>(m.stage(c->stage), c->wg, ones, rows, d);
            if (!filter_lists(MODE))
                filter_release_rows<S, S::PIECES - 1>(m, c->wg, filter_nothing(a), rows);
            if (S::UNDER && MODE != FILTER_EMIT && v > 0)
                filter_unit_end<S, MODE, C>(a, m, s, c, u);
            if constexpr (MODE != FILTER_EMIT) {
                u.number = number;
                u.facts = facts;
            }
            filter_track_begin(&u.track);
            filter_tile_end<S>(a, m, s.t0 + 1 < s.t1, c, d);
            filter_tile_scores<S, MODE, C>(a, m, s.problem, s.t0, d, &u);
        }
        for (int t = s.t0 + 1; t < s.t1; t++) {
            float d[S::NT / 2];
            filter_tile_begin<S, MODE>(m.stage(c->stage), c->wg, ones, rows, d);
            if (filter_quick<S, MODE>() && filter_decides(MODE) && t == s.t0 + 1)
                u.facts = filter_quick_errors<S>(a, s.problem, m.bounds(c->wg), u.facts);
            filter_tile_end<S>(a, m, t + 1 < s.t1, c, d);
            filter_tile_scores<S, MODE, C>(a, m, s.problem, t, d, &u);
        }
        if (!S::UNDER && MODE != FILTER_EMIT)
            filter_unit_end<S, MODE, C>(a, m, s, c, u);
    }
    if (S::UNDER && MODE != FILTER_EMIT)
        filter_unit_end<S, MODE, C>(a, m, s, c, u);
}

/* One consumer warpgroup. */
template <class S, int MODE>
static __device__ __forceinline__ void filter_consume(const struct filter_args &a,
                                                      const struct filter_shared<S> &m, int wg) {
    constexpr bool LIST = filter_lists(MODE);
    const int lane = (int)(threadIdx.x & 31);
    const uint32_t bounds = m.bounds(wg);
    struct filter_consumer c = {wg, 0, 0, 0, {m.opens((int)threadIdx.x / 32), 0}};
    uint32_t one = 0;
    struct filter_segment s = {};
    if (filter_turns<S, MODE>() && wg == S::WGS - 1)
        hf_bar_arrive(FILTER_TURN, 256);
    int problem = -1;
    for (int i = 0; filter_segment_agreed<S, LIST>(a, i, &s); i++) {
        if (s.rounds == 0)
            continue;
        if (s.problem != problem && a.resident && problem >= 0) { /* its tiles may go */
            filter_await_tiles<S>(a, m, c.parity);
            __syncwarp();
            for (int t = 0; t < a.tiles_per_problem && lane == 0; t++)
                hf_mbar_arrive(m.empty(t));
            c.parity ^= 1;
        }
        if (s.problem != problem) {
            struct filter_view most = filter_view_of(a.bounds + s.problem);
            const uint32_t piece = filter_shift_piece<S>(a, &most);
            if (MODE != FILTER_EMIT)
                filter_open_flush(a, problem, &c.opens);
            filter_put_bounds(most, wg, bounds);
            one = (lane & 3) == 0 ? a.one[0] : (lane & 3) == 1 ? a.one[1] | piece << 16 : 0;
            asm volatile("" : "+r"(one)); /* not to be worked out again for each tile */
        }
        problem = s.problem;
        filter_segment_run<S, MODE>(a, m, s, one, &c);
    }
    if (problem >= 0)
        filter_await_tiles<S>(a, m, c.parity);
    if (MODE != FILTER_EMIT)
        filter_open_flush(a, problem, &c.opens);
}

template <class S, int MODE>
__global__ void __launch_bounds__(S::THREADS, 1)
    hf_filter_kernel(const __grid_constant__ CUtensorMap map,
                     const __grid_constant__ filter_args a) {
    constexpr bool LIST = filter_lists(MODE);
    extern __shared__ __align__(1024) uint8_t memory[];
    struct filter_shared<S> m = {
        hf_shared(memory)
    };
    asm volatile("" : "+r"(m.base)); /* a number, not something to be worked out again */
    const int wg = (int)__reduce_or_sync(~0u, threadIdx.x >> 7);
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::STAGES; i++) {
            hf_mbar_init(m.full(i), 1);
            hf_mbar_init(m.empty(i), 4 * S::WGS);
        }
        for (int i = 0; i < S::WGS; i++) {
            hf_mbar_init(m.rows_full(i), 1);
            hf_mbar_init(m.rows_empty(i), 4);
        }
        hf_mbar_init_fence();
    }
    hf_chain_wait();
    hf_chain_next();
    if (a.rows.stop && *a.rows.stop)
        return;
    __syncthreads();
    if (wg == S::WGS) {
        hf_regs_lower<S::PRODUCER_REGS>();
        const int warp = ((int)threadIdx.x >> 5) & 3;
        if ((threadIdx.x & 31) == 0 && warp == 0)
            filter_produce_tiles<S, LIST>(a, m);
        else if ((threadIdx.x & 31) == 0 && warp <= S::WGS && !LIST)
            filter_produce_rows<S>(a, m, &map, warp - 1);
    } else {
        hf_regs_raise<S::REGS>();
        filter_consume<S, MODE>(a, m, wg);
    }
}

#endif
