/* SPDX-License-Identifier: Apache-2.0
 * The filter for large d: neither rows nor centroids fit registers, so both come by in slabs of 64
 * columns. A block is two thread blocks of a cluster, each with two consumer warpgroups of 64 rows
 * and a producer; a product is 64 x 256. Each thread block loads its own rows and half of the
 * centroids, which go to both: without that, the second-level cache would be the limit. */
#ifndef HF_ASSIGN_FILTER_STREAM_CUH
#define HF_ASSIGN_FILTER_STREAM_CUH

#include "device/cuda/chain.cuh"
#include "ops/assign/sm90/filter_conclude.cuh"
#include "ops/assign/cuda/filter_sweep.cuh"

#define FILTER_STREAM_ROWS 8 /* listed rows of which a producer's thread copies pieces */

/* BF16: rows are bf16, which consumers make f16 in registers, under the product of the slab before;
 * others are multiplied from shared memory. */
template <bool BF16_> struct filter_stream_shape {
    static constexpr bool BF16 = BF16_;
    static constexpr int NT = 256, WGS = 2, CLUSTER = 2, UNITS = 4;
    static constexpr int SWIZZLE = 128, CHUNK = 8;
    static constexpr bool BIAS_STEP = false, TWICE = false, COUNT = false;
    static constexpr int REGS = 232, PRODUCER_REGS = 40; /* of a thread */
    static constexpr int THREADS = WGS * 128 + 128;
    static constexpr int ROWS = FILTER_WG_ROWS * 128; /* bytes of a unit's slab */
    static constexpr int SLAB = NT * 128;             /* of the centroids' */
    static constexpr int STAGE = WGS * ROWS + SLAB + 1024;
    static constexpr int STAGES = 4, BARS = 512 + WGS * 4 * FILTER_WARP_OPEN * 8;
    static constexpr int SHARED = STAGES * STAGE + BARS;
};

/* A stage: rows of both units, centroids, and, in a tile's first stage, biases. */
template <class S> struct filter_stream_shared {
    uint32_t base;
    __device__ __forceinline__ uint32_t rows(int stage, int wg) const {
        return base + (uint32_t)(stage * S::STAGE + wg * S::ROWS);
    }
    __device__ __forceinline__ uint32_t slab(int stage) const { return rows(stage, S::WGS); }
    __device__ __forceinline__ uint32_t bias(int stage) const { return slab(stage) + S::SLAB; }
    __device__ __forceinline__ uint32_t full(int i) const {
        return base + (uint32_t)(S::STAGES * S::STAGE + i * 8);
    }
    __device__ __forceinline__ uint32_t empty(int i) const { return full(S::STAGES + i); }
    __device__ __forceinline__ uint32_t flag(int wg) const { return full(2 * S::STAGES + wg); }
    __device__ __forceinline__ uint32_t bounds(int wg) const { return full(32 + 2 * wg); }
    __device__ __forceinline__ uint32_t opens(int warp) const {
        return full(64) + (uint32_t)(warp * FILTER_WARP_OPEN * 8);
    }
};

/* Where this lane's share of listed rows lies: the producers' 128 threads copy 16 bytes each of the
 * same columns of FILTER_STREAM_ROWS rows, eight neighbouring lanes a slab of one. */
struct filter_stream_listed {
    const uint16_t *x[FILTER_STREAM_ROWS]; /* column 0; rows lie 16 apart in this thread block */
    int valid;                             /* bit r: is there a row r? */
};

template <class S>
static __device__ __forceinline__ void
filter_stream_listed_rows(const struct filter_args &a, const struct filter_segment &s, int round,
                          struct filter_stream_listed *rows) {
    static_assert(S::WGS * FILTER_WG_ROWS == 16 * FILTER_STREAM_ROWS, "rows of a thread block");
    const int first =
        ((s.group + round) * S::UNITS + (int)hf_cluster_rank() * S::WGS) * FILTER_WG_ROWS +
        (int)(threadIdx.x & 127) / 8;
    const int64_t list = a.split ? s.problem * a.out.open.cap : s.problem * a.rows.n;
    const int count = filter_rows_of<true>(a, s.problem);
    rows->valid = 0;
#pragma unroll
    for (int r = 0; r < FILTER_STREAM_ROWS; r++) {
        const int i = first + 16 * r;
        const int row = i < count ? a.rows.list[list + i] : 0;
        rows->x[r] = (const uint16_t *)a.rows.x16 + (s.problem * a.rows.n + row) * a.rows.ld;
        rows->valid |= (i < count) << r;
    }
}

/* This lane's share of slab c into a stage, as the copy engine lays it out; zeros behind the last
 * row and column. */
template <class S>
static __device__ __forceinline__ void
filter_stream_gather(const struct filter_args &a, const struct filter_stream_shared<S> &m,
                     const struct filter_stream_listed &rows, int c, int stage) {
    const int piece = (int)threadIdx.x & 7, row = (int)(threadIdx.x & 127) / 8;
    const int column = c * FILTER_STREAM_DP + piece * 8;
    const int left = a.rows.d > column ? a.rows.d - column : 0;
    const uint32_t bytes = left < 8 ? (uint32_t)left * 2 : 16;
    const uint32_t to =
        m.rows(stage, 0) + (uint32_t)(row * S::SWIZZLE + ((piece ^ (row & 7)) << 4));
#pragma unroll
    for (int r = 0; r < FILTER_STREAM_ROWS; r++)
        hf_copy_async(to + (uint32_t)(r * 16 * S::SWIZZLE), rows.x[r] + (left > 0 ? column : 0),
                      rows.valid >> r & 1 ? bytes : 0);
    hf_copy_arrive(m.full(stage));
}

/* Slab c of tile t, and of the rows of a round. */
struct filter_stream_slab {
    int round, t, c;
};

/* One thread: a slab into a stage, without rows if they are listed. */
template <class S, bool LIST>
static __device__ __forceinline__ void
filter_stream_fetch(const struct filter_args &a, const struct filter_stream_shared<S> &m,
                    const CUtensorMap *map, const struct filter_segment &s,
                    const struct filter_stream_slab &slab, int stage) {
    const int slabs = (a.rows.d + FILTER_STREAM_DP - 1) / FILTER_STREAM_DP;
    const uint32_t rank = hf_cluster_rank(), half = S::SLAB / 2;
    const uint8_t *const tile =
        a.tiles + ((int64_t)s.problem * a.tiles_per_problem + slab.t) * a.tile_bytes;
    const bool first = slab.c == 0;
    hf_mbar_expect(m.full(stage),
                   (LIST ? 0 : S::WGS * S::ROWS) + S::SLAB + (first ? S::NT * 4 : 0));
    for (int wg = 0; wg < S::WGS && !LIST; wg++)
        hf_tma_load(m.rows(stage, wg), map, slab.c * FILTER_STREAM_DP,
                    ((s.group + slab.round) * S::UNITS + (int)rank * S::WGS + wg) * FILTER_WG_ROWS,
                    s.problem, m.full(stage));
    hf_bulk_copy_all(m.slab(stage) + rank * half, tile + (int64_t)slab.c * S::SLAB + rank * half,
                     half, m.full(stage), 3);
    if (first)
        hf_bulk_copy(m.bias(stage), tile + (int64_t)slabs * S::SLAB, S::NT * 4, m.full(stage));
}

/* A place in the ring. */
struct filter_stream_place {
    int stage;
    uint32_t parity;
};

/* A consumer warp. */
struct filter_stream_consumer {
    int wg;
    struct filter_stream_place at;
    int before; /* the stage before, if this warp has not released it yet; -1: it has */
};

/* All slabs of a round: of its rows and of the tiles. */
template <class S, bool LIST>
static __device__ __forceinline__ void
filter_stream_round(const struct filter_args &a, const struct filter_stream_shared<S> &m,
                    const CUtensorMap *map, const struct filter_segment &s, int round,
                    struct filter_stream_place *p) {
    const int slabs = (a.rows.d + FILTER_STREAM_DP - 1) / FILTER_STREAM_DP;
    struct filter_stream_listed listed;
    if constexpr (LIST)
        filter_stream_listed_rows<S>(a, s, round, &listed);
    for (int t = s.t0; t < s.t1; t++)
        for (int c = 0; c < slabs; c++) {
            hf_mbar_wait(m.empty(p->stage), p->parity);
            if ((threadIdx.x & 127) == 0)
                filter_stream_fetch<S, LIST>(a, m, map, s, {round, t, c}, p->stage);
            if constexpr (LIST)
                filter_stream_gather<S>(a, m, listed, c, p->stage);
            p->stage = p->stage + 1 == S::STAGES ? 0 : p->stage + 1;
            p->parity ^= p->stage == 0;
        }
}

/* The producers of a thread block: one thread, or, with listed rows, all of them, as the copy
 * engine does not know those. Consumers that loaded such rows themselves, a slab ahead, waited for
 * memory at each slab. */
template <class S, bool LIST>
static __device__ __forceinline__ void
filter_stream_produce(const struct filter_args &a, const struct filter_stream_shared<S> &m,
                      const CUtensorMap *map) {
    struct filter_segment s;
    struct filter_stream_place p = {0, 1};
    for (int i = 0; filter_segment_at<S, LIST>(a, i, &s); i++)
        for (int round = 0; round < s.rounds; round++)
            filter_stream_round<S, LIST>(a, m, map, s, round, &p);
}

/* A warp is done with a stage: it says so to both thread blocks, as both write it. seen: 0, made
 * from what was loaded of it, which must have come before. */
template <class S>
static __device__ __forceinline__ void
filter_stream_release(const struct filter_stream_shared<S> &m, int stage, uint32_t seen) {
    __syncwarp();
    if ((threadIdx.x & 31) < S::CLUSTER)
        hf_mbar_arrive_at(m.empty(stage) + seen, threadIdx.x & 31);
}

/* Squared lengths of a lane's two rows, of its columns alone, times a.measure^2. */
struct filter_stream_squares {
    float row[2];
};

/* 0, which the compiler does not know: to add it is to wait for these. */
static __device__ __forceinline__ uint32_t
filter_stream_seen(const struct filter_args &a, const struct filter_stream_squares &squares) {
    const uint32_t nothing = (uint32_t)__float_as_int(a.minus_zero) << 1;
    return (uint32_t)__float_as_int(squares.row[0] + squares.row[1]) & nothing;
}

/* Add what one slab has, from the A operand of its four steps: squares in f16 (see
 * filter_squares()), eight to a sum, then float32. */
static __device__ __forceinline__ void filter_stream_square(const struct filter_args &a,
                                                            const uint32_t (&r)[4][4],
                                                            struct filter_stream_squares *squares) {
    const __half2 by = __float2half2_rn(a.measure);
    __half2 sums[2] = {__float2half2_rn(0.0f), __float2half2_rn(0.0f)};
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const __half2 v = __hmul2_rn(*(const __half2 *)&r[i / 4][i % 4], by);
        sums[i % 2] = __hfma2(v, v, sums[i % 2]);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float2 both = __half22float2(sums[i]);
        squares->row[i] += both.x + both.y;
    }
}

/* At least the length of the row that this lane answers for. A sum of eight squares lacks a share
 * of 2^-11 for each, a square that underflows 2^-24, float32's roundings of up to 128 slabs are
 * below 2^-16. Overflow and NaN stay: nothing is known of such a row. */
static __device__ __forceinline__ float
filter_stream_measure(const struct filter_args &a, const struct filter_stream_squares &squares) {
    constexpr float share = 1.0f / (1.0f - 8 * 0x1p-11f) + 0x1p-16f;
    const int columns = (a.rows.d + FILTER_STREAM_DP - 1) / FILTER_STREAM_DP * FILTER_STREAM_DP;
    const bool half = filter_half();
    float sum = half ? squares.row[1] : squares.row[0];
    sum += __shfl_xor_sync(~0u, half ? squares.row[0] : squares.row[1], 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    return sqrtf(sum * share + (float)columns * 0x1p-24f) * a.measured;
}

/* A slab of this warpgroup's rows, as the A operand of four steps. */
template <class S>
static __device__ __forceinline__ void filter_stream_rows(uint32_t slab, uint32_t (&r)[4][4]) {
    const int lane = (int)(threadIdx.x & 31), warp = (int)(threadIdx.x >> 5) & 3;
    const int row = warp * 16 + (lane & 15);
#pragma unroll
    for (int i = 0; i < 4; i++)
        hf_ldmatrix(r[i],
                    slab + (uint32_t)(row * S::SWIZZLE + ((i * 2 + (lane >> 4) ^ (row & 7)) << 4)));
}

/* The scores of one tile, bias included. MEASURE: squares become the rows'. That the stage is the
 * same in all lanes must stay plain to the compiler: descriptors cost more otherwise, 1 % of a call
 * with MEASURE. */
template <class S, bool LIST, bool MEASURE>
static __device__ __forceinline__ void
filter_stream_scores_f16(const struct filter_args &a, const struct filter_stream_shared<S> &m,
                         struct filter_stream_consumer *c, struct filter_stream_squares *squares,
                         float (&d)[S::NT / 2]) {
    const int slabs = (a.rows.d + FILTER_STREAM_DP - 1) / FILTER_STREAM_DP;
    uint32_t seen = 0, next = 0;
    c->before = -1;
    hf_mbar_wait(m.full(c->at.stage), c->at.parity);
    filter_begin_bias<S::NT, false>(d, m.bias(c->at.stage));
    for (int slab = 0; slab < slabs; slab++) {
        const int now = c->at.stage;
        hf_mbar_wait(m.full(now), c->at.parity);
        if constexpr (LIST)
            hf_copied_fence();
        const uint32_t low = hf_wgmma_low(m.slab(now)) + (1 << 16);
        const uint32_t own = hf_wgmma_low(m.rows(now, c->wg)) + (1 << 16);
        hf_wgmma_begin();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint64_t b = hf_wgmma_desc(low + (uint32_t)(k * 2), hf_wgmma_swizzled(128));
            hf_wgmma_ss<S::NT>(d, hf_wgmma_desc(own + (uint32_t)(k * 2), hf_wgmma_swizzled(128)), b,
                               1);
        }
        hf_wgmma_commit();
        if constexpr (MEASURE) { /* under the product */
            uint32_t r[4][4];
            filter_stream_rows<S>(m.rows(now, c->wg), r);
            filter_stream_square(a, r, squares);
            next = filter_stream_seen(a, *squares);
        }
        c->at.stage = now + 1 == S::STAGES ? 0 : now + 1;
        c->at.parity ^= c->at.stage == 0;
        hf_wgmma_wait<1>();
        if (c->before >= 0)
            filter_stream_release(m, c->before, seen);
        c->before = now;
        seen = next;
    }
    hf_wgmma_wait<0>();
    hf_wgmma_hold(d);
    filter_stream_release(m, c->before, seen);
}

/* The next slab of bf16 rows as the A operand. */
template <class S>
static __device__ __forceinline__ void filter_stream_halve(const struct filter_stream_shared<S> &m,
                                                           const struct filter_stream_consumer &c,
                                                           uint32_t (&r)[4][4]) {
    hf_mbar_wait(m.full(c.at.stage), c.at.parity);
    filter_stream_rows<S>(m.rows(c.at.stage, c.wg), r);
    filter_halve_rows(r);
}

/* One slab of those, r: its product is under way when this returns. */
template <class S, bool MEASURE>
static __device__ __forceinline__ void
filter_stream_step(const struct filter_args &a, const struct filter_stream_shared<S> &m,
                   const uint32_t (&r)[4][4], struct filter_stream_consumer *c,
                   struct filter_stream_squares *squares, float (&d)[S::NT / 2]) {
    const uint32_t low = hf_wgmma_low(m.slab(c->at.stage)) + (1 << 16);
    hf_wgmma_begin();
#pragma unroll
    for (int k = 0; k < 4; k++)
        hf_wgmma_rs<S::NT>(d, r[k], hf_wgmma_desc(low + (uint32_t)(k * 2), hf_wgmma_swizzled(128)),
                           1);
    hf_wgmma_commit();
    if constexpr (MEASURE)
        filter_stream_square(a, r, squares);
    hf_wgmma_wait<1>();
    if (c->before >= 0)
        filter_stream_release(m, c->before, 0);
    c->before = c->at.stage;
    c->at.stage = c->at.stage + 1 == S::STAGES ? 0 : c->at.stage + 1;
    c->at.parity ^= c->at.stage == 0;
}

/* The same for rows of bf16: those of a slab become f16 under the product of the one before. */
template <class S, bool MEASURE>
static __device__ __forceinline__ void
filter_stream_scores_bf16(const struct filter_args &a, const struct filter_stream_shared<S> &m,
                          struct filter_stream_consumer *consumer,
                          struct filter_stream_squares *squares, float (&d)[S::NT / 2]) {
    const int slabs = (a.rows.d + FILTER_STREAM_DP - 1) / FILTER_STREAM_DP;
    /* A copy: worked on in place, it cost rows of a list 8 bytes of spills a thread. */
    struct filter_stream_consumer c = {consumer->wg, consumer->at, -1};
    uint32_t even[4][4], odd[4][4];
    hf_mbar_wait(m.full(c.at.stage), c.at.parity);
    filter_begin_bias<S::NT, false>(d, m.bias(c.at.stage));
    filter_stream_halve<S>(m, c, even);
    for (int slab = 0; slab < slabs; slab += 2) {
        filter_stream_step<S, MEASURE>(a, m, even, &c, squares, d);
        if (slab + 1 >= slabs)
            break;
        filter_stream_halve<S>(m, c, odd);
        filter_stream_step<S, MEASURE>(a, m, odd, &c, squares, d);
        if (slab + 2 < slabs)
            filter_stream_halve<S>(m, c, even);
    }
    hf_wgmma_wait<0>();
    hf_wgmma_hold(d);
    filter_stream_release(m, c.before, 0);
    consumer->at = c.at;
}

template <class S, bool LIST, bool MEASURE>
static __device__ __forceinline__ void
filter_stream_scores(const struct filter_args &a, const struct filter_stream_shared<S> &m,
                     struct filter_stream_consumer *c, struct filter_stream_squares *squares,
                     float (&d)[S::NT / 2]) {
    if constexpr (S::BF16)
        filter_stream_scores_bf16<S, MEASURE>(a, m, c, squares, d);
    else
        filter_stream_scores_f16<S, LIST, MEASURE>(a, m, c, squares, d);
}

/* All units of a segment that belong to this warpgroup. */
template <class S, int MODE>
static __device__ __forceinline__ void
filter_stream_run(const struct filter_args &a, const struct filter_stream_shared<S> &m,
                  const struct filter_segment &s, struct filter_stream_consumer *c,
                  struct filter_open_rows *opens) {
    constexpr bool LIST = filter_lists(MODE);
    constexpr int C = filter_chunks(MODE) ? S::CHUNK : 2;
    for (int v = 0; v < s.rounds; v++) {
        const int unit = (s.group + v) * S::UNITS + (int)hf_cluster_rank() * S::WGS + c->wg;
        const int i = unit * FILTER_WG_ROWS + filter_row();
        struct filter_row_facts facts =
            filter_know<MODE>(a, s.problem, MODE == FILTER_EMIT ? i : i + 8 * filter_half());
        struct filter_row_facts next = {};
        if constexpr (MODE == FILTER_EMIT)
            next = filter_know<MODE>(a, s.problem, i + 8);
        struct filter_stream_squares squares = {{0, 0}};
        struct filter_track<C> track;
        filter_track_begin(&track);
        for (int t = s.t0; t < s.t1; t++) {
            float d[S::NT / 2];
            if (filter_decides(MODE) && !a.rows.norm && t == s.t0) {
                filter_stream_scores<S, LIST, true>(a, m, c, &squares, d);
                facts.norm = filter_stream_measure(a, squares);
            } else {
                filter_stream_scores<S, LIST, false>(a, m, c, &squares, d);
            }
            if constexpr (MODE == FILTER_EMIT) {
                const struct filter_open_pair rows = {s.problem, i, {facts.norm, next.norm}};
                filter_list<S::NT, true>(a, d, t, rows,
                                         filter_get_bounds(a, s.problem, m.bounds(c->wg)));
            } else {
                filter_keep<S::NT, MODE, C>(d, t, a.minus_zero, &track);
            }
        }
        if constexpr (MODE != FILTER_EMIT) {
            const struct filter_warpgroup wg = {c->wg, m.flag(c->wg), m.bounds(c->wg), opens};
            filter_conclude<S, MODE, C>(a, s, wg, unit, facts, track);
        }
    }
}

template <class S, int MODE>
__global__ void __launch_bounds__(S::THREADS, 1)
    hf_filter_stream_kernel(const __grid_constant__ CUtensorMap map,
                            const __grid_constant__ filter_args a) {
    constexpr bool LIST = filter_lists(MODE);
    extern __shared__ __align__(1024) uint8_t memory[];
    const struct filter_stream_shared<S> m = { hf_shared(memory) };
    const int wg = (int)__reduce_or_sync(~0u, threadIdx.x >> 7);
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::STAGES; i++) {
            hf_mbar_init(m.full(i), LIST ? 1 + 128 : 1);
            hf_mbar_init(m.empty(i), 4 * S::WGS * S::CLUSTER);
        }
        hf_mbar_init_fence();
    }
    hf_cluster_sync(); /* while the kernel before ends */
    hf_chain_wait();
    hf_chain_next();
    if (a.rows.stop && *a.rows.stop)
        return;
    if (wg == S::WGS) {
        hf_regs_lower<S::PRODUCER_REGS>();
        if (LIST || (threadIdx.x & 127) == 0)
            filter_stream_produce<S, LIST>(a, m, &map);
    } else {
        hf_regs_raise<S::REGS>();
        const uint32_t bounds = m.bounds(wg);
        struct filter_segment s = {};
        struct filter_open_rows opens = {m.opens((int)threadIdx.x / 32), 0};
        struct filter_stream_consumer consumer = {wg, {0, 0}, -1};
        int problem = -1;
        for (int i = 0; filter_segment_agreed<S, LIST>(a, i, &s); i++) {
            if (s.problem != problem && MODE != FILTER_EMIT)
                filter_open_flush(a, problem, &opens);
            if (s.problem != problem)
                filter_put_bounds(filter_view_of(a.bounds + s.problem), wg, bounds);
            problem = s.problem;
            filter_stream_run<S, MODE>(a, m, s, &consumer, &opens);
        }
        if (MODE != FILTER_EMIT)
            filter_open_flush(a, problem, &opens);
    }
    /* Nobody leaves while the other may still write here. */
    __syncwarp();
    hf_cluster_sync();
}

#endif
