/* SPDX-License-Identifier: Apache-2.0
 * The steps of update on a GPU, for kernels whose blocks wait for each other (grid.cuh).
 *
 * Many rows: they are counted by cluster, each gets its number within its cluster, the clusters
 * are laid one behind the other and cut into pieces, and a group of threads adds up a piece in
 * registers: a thread keeps its columns, a row is read once, whole. Only the sums of a piece go to
 * memory with atomic additions. Few rows go there at once. The terms are integers, so no order
 * matters. */
#ifndef HF_UPDATE_CUDA_CUH
#define HF_UPDATE_CUDA_CUH

#include "device/cuda/grid.cuh"
#include "device/cuda/pack.cuh"
#include "ops/update/update_cuda.h"

#define UPDATE_WARP 32
#define UPDATE_PIECES 6                        /* about, of a warp */
#define UPDATE_LESS 0x80000000u                /* in hf_update_scratch.order: taken out */
#define UPDATE_MAGIC_BITS 0x4338000000000000ll /* those of HF_RINT_MAGIC */

/* What is added up. Without moves: row i into cluster labels[i], for i < entries. With moves:
 * entries 2 i and 2 i + 1 take row list[i] (list NULL: i) out of old_labels and into labels. Labels
 * of -1, or beyond the clusters, mean none; a row that stays is left out, as is one that is not
 * there. */
struct update_source {
    const int32_t *labels, *old_labels, *list;
    uint32_t entries;
    bool moves;
};

/* A label, -1 in place of one that is no cluster of the problem: it addresses nothing. */
static __device__ __forceinline__ int32_t update_label(const struct hf_update_job &job,
                                                       int32_t label) {
    return (uint32_t)label < (uint32_t)job.k ? label : -1;
}

struct update_entry {
    uint32_t row;
    int32_t cluster; /* counted through all problems, -1: none */
};

static __device__ __forceinline__ void update_red(int64_t *sum, int64_t q) {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(sum), "l"(q) : "memory");
}

/* rint(v * mult) + HF_RINT_MAGIC: its bits, less UPDATE_MAGIC_BITS, are the integer. */
static __device__ __forceinline__ double update_high(double v, double mult) {
    return __fma_rn(v, mult, HF_RINT_MAGIC);
}

/* The same for the second limb; scale is 2^bits. */
static __device__ __forceinline__ double update_low(double v, double mult, double high,
                                                    double scale) {
    const double rest = __fma_rn(v, mult, __dsub_rn(HF_RINT_MAGIC, high));
    return __fma_rn(rest, scale, HF_RINT_MAGIC);
}

static __device__ __forceinline__ int64_t update_integer(double magic) {
    return __double_as_longlong(magic) - UPDATE_MAGIC_BITS;
}

static __device__ __forceinline__ double update_scale(int bits) { return (double)(1ll << bits); }

/* Threads that share a row: a power of two of at most a warp, each with V columns. */
static __host__ __device__ __forceinline__ int update_group(int64_t d, int v) {
    int group = 1;
    while (group < UPDATE_WARP && group * v < d)
        group *= 2;
    return group;
}

static __device__ __forceinline__ unsigned update_group_mask(int group) {
    const unsigned lane = threadIdx.x % UPDATE_WARP;
    return group == UPDATE_WARP ? 0xffffffffu : ((1u << group) - 1) << (lane & ~(group - 1));
}

/* ---- many rows */

static __device__ __forceinline__ struct update_entry
update_at(const struct hf_update_job &job, const struct update_source &from, uint32_t i) {
    struct update_entry entry;
    entry.row = i;
    int32_t label;
    if (from.moves) {
        entry.row = from.list != NULL ? (uint32_t)from.list[i / 2] : i / 2;
        if (entry.row >= (uint32_t)(job.batch * job.n))
            return {0, -1};
        const int32_t before = from.old_labels != NULL ? from.old_labels[entry.row] : -1;
        label = from.labels[entry.row];
        label = before == label ? -1 : i % 2 == 0 ? before : label;
    } else {
        label = from.labels[i];
    }
    label = update_label(job, label);
    const int32_t base =
        job.batch == 1 ? 0 : (int32_t)(entry.row / (uint32_t)job.n) * (int32_t)job.k;
    entry.cluster = label < 0 ? -1 : base + label;
    return entry;
}

/* Entries [begin, end), whose clusters are [base, base + width). */
struct update_entries {
    uint32_t begin, end;
    int32_t base, width;
};

/* Those, counted in bins [width] first: one global addition per block and cluster. */
static __device__ void update_rank_in_block(const struct hf_update_job &job,
                                            const struct update_source &from,
                                            const struct update_entries &entries, uint32_t *bins) {
    const struct hf_update_scratch &s = job.scratch;
    const uint32_t begin = entries.begin, end = entries.end;
    const int32_t base = entries.base, width = entries.width;
    for (int32_t j = (int32_t)threadIdx.x; j < width; j += (int32_t)blockDim.x)
        bins[j] = 0;
    __syncthreads();
    for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        const int32_t cluster = update_at(job, from, i).cluster;
        if (cluster >= 0)
            s.rank[i] = atomicAdd(&bins[cluster - base], 1u);
    }
    __syncthreads();
    for (int32_t j = (int32_t)threadIdx.x; j < width; j += (int32_t)blockDim.x)
        if (bins[j] > 0)
            bins[j] = atomicAdd(&s.held[base + j], bins[j]);
    __syncthreads();
    for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        const int32_t cluster = update_at(job, from, i).cluster;
        if (cluster >= 0)
            s.rank[i] += bins[cluster - base];
    }
    __syncthreads();
}

static __device__ void update_rank_at_once(const struct hf_update_job &job,
                                           const struct update_source &from, uint32_t begin,
                                           uint32_t end) {
    const struct hf_update_scratch &s = job.scratch;
    for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        const int32_t cluster = update_at(job, from, i).cluster;
        if (cluster >= 0)
            s.rank[i] = atomicAdd(&s.held[cluster], 1u);
    }
}

/* This block's share of the entries: [begin, end). */
static __device__ __forceinline__ void update_share(const struct update_source &from,
                                                    uint32_t *begin, uint32_t *end) {
    const uint32_t share = (from.entries + gridDim.x - 1) / gridDim.x;
    *begin = min(from.entries, blockIdx.x * share);
    *end = min(from.entries, *begin + share);
}

/* Count the entries of each cluster and number them. bins: hf_update_bins_bytes(). */
static __device__ void update_rank(const struct hf_update_job &job,
                                   const struct update_source &from, uint32_t *bins) {
    uint32_t begin, end;
    update_share(from, &begin, &end);
    while (begin < end) {
        const uint32_t n = (uint32_t)job.n;
        const uint32_t p = from.moves ? 0 : begin / n;
        const uint32_t stop = from.moves ? end : min(end, (p + 1) * n);
        const int64_t width = from.moves ? job.batch * job.k : job.k;
        if (width <= HF_UPDATE_BINS && (int64_t)(stop - begin) * 4 >= width)
            update_rank_in_block(job, from,
                                 {begin, stop, (int32_t)p * (int32_t)job.k, (int32_t)width}, bins);
        else
            update_rank_at_once(job, from, begin, stop);
        begin = stop;
    }
}

/* Exclusive sum of v over the block; *total gets the sum. */
static __device__ unsigned long long update_block_scan(unsigned long long v,
                                                       unsigned long long *total) {
    __shared__ unsigned long long part[HF_UPDATE_THREADS / UPDATE_WARP];
    const int lane = threadIdx.x % UPDATE_WARP;
    unsigned long long sum = v;
    for (int step = 1; step < UPDATE_WARP; step *= 2) {
        const unsigned long long left = __shfl_up_sync(0xffffffffu, sum, step);
        sum += lane >= step ? left : 0;
    }
    __syncthreads();
    if (lane == UPDATE_WARP - 1)
        part[threadIdx.x / UPDATE_WARP] = sum;
    __syncthreads();
    unsigned long long before = 0, all = 0;
    for (int w = 0; w < (int)(blockDim.x / UPDATE_WARP); w++) {
        before += w < (int)(threadIdx.x / UPDATE_WARP) ? part[w] : 0;
        all += part[w];
    }
    *total = all;
    return before + sum - v;
}

/* Most rows of a piece: small enough that all warps have some. */
static __device__ __forceinline__ uint32_t update_piece_rows(const struct update_source &from) {
    const uint32_t warps = gridDim.x * (blockDim.x / UPDATE_WARP);
    return max((uint32_t)HF_UPDATE_LEAST_PIECE, (from.entries / (warps * UPDATE_PIECES) + 7) & ~7u);
}

/* Room for the entries and pieces of each cluster, in no fixed order of blocks. When nothing is
 * taken out, the counts follow here. */
static __device__ void update_place(const struct hf_update_job &job,
                                    const struct update_source &from) {
    const struct hf_update_scratch &s = job.scratch;
    const uint32_t piece_rows = update_piece_rows(from);
    const int64_t clusters = job.batch * job.k;
    __shared__ unsigned long long base;
    for (int64_t at = (int64_t)blockIdx.x * blockDim.x; at < clusters;
         at += (int64_t)gridDim.x * blockDim.x) {
        const int64_t g = at + threadIdx.x;
        const uint32_t rows = g < clusters ? s.held[g] : 0;
        const unsigned long long pieces = (rows + piece_rows - 1) / piece_rows;
        unsigned long long total;
        const unsigned long long before = update_block_scan(pieces << 32 | rows, &total);
        if (threadIdx.x == 0)
            base = atomicAdd(s.taken, total);
        __syncthreads();
        if (g < clusters) {
            const unsigned long long own = base + before;
            s.start[g] = (uint32_t)own;
            s.first_piece[g] = (uint32_t)(own >> 32);
            if (!from.moves)
                job.count[g] += rows;
        }
    }
}

/* Entries into their order, and the list of pieces: a warp for each cluster. */
static __device__ void update_sort(const struct hf_update_job &job,
                                   const struct update_source &from) {
    const struct hf_update_scratch &s = job.scratch;
    uint32_t begin, end;
    update_share(from, &begin, &end);
    for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        const struct update_entry entry = update_at(job, from, i);
        if (entry.cluster >= 0)
            s.order[s.start[entry.cluster] + s.rank[i]] =
                entry.row | (from.moves && i % 2 == 0 ? UPDATE_LESS : 0);
    }
    const uint32_t piece_rows = update_piece_rows(from);
    const int64_t warps = (int64_t)gridDim.x * (blockDim.x / UPDATE_WARP);
    for (int64_t g = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / UPDATE_WARP;
         g < job.batch * job.k; g += warps) {
        const uint32_t rows = s.held[g];
        for (uint32_t at = threadIdx.x % UPDATE_WARP * piece_rows; at < rows;
             at += UPDATE_WARP * piece_rows) {
            struct hf_update_piece piece;
            piece.first = s.start[g] + at;
            piece.rows = (int32_t)min(piece_rows, rows - at);
            piece.problem = (int32_t)(g / job.k);
            piece.cluster = (int32_t)(g % job.k);
            s.pieces[s.first_piece[g] + at / piece_rows] = piece;
        }
    }
}

/* The sums of a piece, V columns of each thread, go to memory so that neighbouring threads write
 * neighbouring columns. */
template <int V>
static __device__ __forceinline__ void update_flush(int64_t *sum, const int64_t (&acc)[V],
                                                    int column, int d, int group, unsigned mask) {
    if constexpr (V == 1) {
        if (column < d)
            update_red(sum + column, acc[0]);
    } else {
        const int lane = threadIdx.x % group;
        const int first = column - lane * V;
#pragma unroll
        for (int j = 0; j < V; j++) {
            const int at = group * j + lane; /* the column that this thread writes */
            int64_t q = 0;
#pragma unroll
            for (int e = 0; e < V; e++) {
                const int64_t other = __shfl_sync(mask, acc[e], at / V, group);
                q = at % V == e ? other : q;
            }
            if (first + at < d)
                update_red(sum + first + at, q);
        }
    }
}

/* What a thread keeps of its columns. */
template <int V, int LIMBS> struct update_columns {
    double mult[V];
    int64_t acc[LIMBS][V];
};

template <hf_dtype T, int V, int LIMBS, bool FACTOR>
static __device__ __forceinline__ void update_add(struct update_columns<V, LIMBS> &c,
                                                  const hf_pack<T, V> &pack, bool less,
                                                  double factor, double scale) {
#pragma unroll
    for (int e = 0; e < V; e++) {
        const typename hf_element<T>::wide w = hf_widen<T>(pack.e[e]);
        double v = (double)(less ? -w : w);
        if constexpr (FACTOR)
            v = __dmul_rn(v, factor);
        const double high = update_high(v, c.mult[e]);
        c.acc[0][e] += __double_as_longlong(high);
        if constexpr (LIMBS == 2)
            c.acc[1][e] += __double_as_longlong(update_low(v, c.mult[e], high, scale));
    }
}

/* Counts, where some are taken out, and weights of all pieces: a warp for each. */
static __device__ void update_piece_counts(const struct hf_update_job &job, bool count_too) {
    const uint32_t pieces = (uint32_t)(*job.scratch.taken >> 32);
    const int lane = threadIdx.x % UPDATE_WARP;
    for (uint32_t at = (blockIdx.x * blockDim.x + threadIdx.x) / UPDATE_WARP; at < pieces;
         at += gridDim.x * (blockDim.x / UPDATE_WARP)) {
        const struct hf_update_piece piece = job.scratch.pieces[at];
        const double mult = job.weight != NULL ? job.weight_mult[piece.problem] : 0;
        int64_t count = 0, high_sum = 0, low_sum = 0;
        for (int r = lane; r < piece.rows; r += UPDATE_WARP) {
            const uint32_t entry = job.scratch.order[piece.first + r];
            const bool less = entry & UPDATE_LESS;
            count += less ? -1 : 1;
            if (job.weight == NULL)
                continue;
            const double w = job.weights[entry & ~UPDATE_LESS];
            const double high = update_high(less ? -w : w, mult);
            high_sum += update_integer(high);
            low_sum +=
                update_integer(update_low(less ? -w : w, mult, high, update_scale(job.bits)));
        }
        for (int step = UPDATE_WARP / 2; step > 0; step /= 2) {
            count += __shfl_xor_sync(0xffffffffu, count, step);
            high_sum += __shfl_xor_sync(0xffffffffu, high_sum, step);
            low_sum += __shfl_xor_sync(0xffffffffu, low_sum, step);
        }
        if (lane > 0)
            continue;
        if (count_too)
            update_red(job.count + piece.problem * job.k + piece.cluster, count);
        if (job.weight == NULL)
            continue;
        int64_t *weight = job.weight + piece.problem * job.limbs * job.k + piece.cluster;
        update_red(weight, high_sum);
        if (job.limbs == 2)
            update_red(weight + job.k, low_sum);
    }
}

/* Rows on their way to a thread: 64 bytes, or what registers are left for. */
template <hf_dtype T, int V, int LIMBS, bool FACTOR>
inline constexpr int update_flight = LIMBS == 2 || FACTOR        ? 2
                                     : V *hf_device_bytes<T> > 8 ? 4
                                                                 : 8;

/* Add up one piece, columns [column, column + V) in this thread. */
template <hf_dtype T, int V, int LIMBS, bool FACTOR>
static __device__ __forceinline__ void update_piece(const struct hf_update_job &job,
                                                    const struct hf_update_piece &piece, int column,
                                                    int group, unsigned mask) {
    constexpr int FLIGHT = update_flight<T, V, LIMBS, FACTOR>;
    const uint32_t *order = job.scratch.order + piece.first;
    const double scale = update_scale(job.bits);
    const double *mult = job.mult + piece.problem * job.mult_stride + column;
    const int d = (int)job.d;
    const int64_t offset = (column < d ? column : 0) * hf_device_bytes<T>;
    struct update_columns<V, LIMBS> c;
#pragma unroll
    for (int e = 0; e < V; e++) {
        c.mult[e] = column + e < d ? mult[e] : 0;
        c.acc[0][e] = c.acc[LIMBS - 1][e] = 0;
    }
    int r = 0;
    for (; r + FLIGHT <= piece.rows; r += FLIGHT) {
        hf_pack<T, V> pack[FLIGHT];
        const char *x[FLIGHT];
        double factor[FLIGHT];
        bool less[FLIGHT];
#pragma unroll
        for (int u = 0; u < FLIGHT; u++) {
            const uint32_t entry = order[r + u];
            const uint32_t row = entry & ~UPDATE_LESS;
            less[u] = entry & UPDATE_LESS;
            x[u] = job.x + row * job.row_bytes;
            factor[u] = FACTOR ? job.factor[row] : 1;
        }
#pragma unroll
        for (int u = 0; u < FLIGHT; u++)
            pack[u] = *(const hf_pack<T, V> *)(x[u] + offset);
#pragma unroll
        for (int u = 0; u < FLIGHT; u++)
            update_add<T, V, LIMBS, FACTOR>(c, pack[u], less[u], factor[u], scale);
    }
#pragma unroll 1
    for (; r < piece.rows; r++) {
        const uint32_t row = order[r] & ~UPDATE_LESS;
        const hf_pack<T, V> pack = *(const hf_pack<T, V> *)(job.x + row * job.row_bytes + offset);
        update_add<T, V, LIMBS, FACTOR>(c, pack, order[r] & UPDATE_LESS,
                                        FACTOR ? job.factor[row] : 1, scale);
    }
#pragma unroll
    for (int l = 0; l < LIMBS; l++) {
#pragma unroll
        for (int e = 0; e < V; e++)
            c.acc[l][e] -= piece.rows * UPDATE_MAGIC_BITS;
        const int64_t cluster = ((int64_t)piece.problem * LIMBS + l) * job.k + piece.cluster;
        update_flush<V>(job.sum + cluster * d, c.acc[l], column, d, group, mask);
    }
}

/* Groups take the next piece when they are done with one: clusters differ in size. */
template <hf_dtype T, int V, int LIMBS, bool FACTOR>
static __device__ void update_pieces(const struct hf_update_job &job) {
    const int group = update_group(job.d, V);
    const unsigned mask = update_group_mask(group);
    const uint32_t tiles = ((uint32_t)job.d + group * V - 1) / (group * V);
    const uint32_t work = (uint32_t)(*job.scratch.taken >> 32) * tiles;
    const uint32_t groups = gridDim.x * (blockDim.x / group);
    uint32_t w = (blockIdx.x * blockDim.x + threadIdx.x) / group;
    while (w < work) {
        uint32_t next = 0;
        if (threadIdx.x % group == 0)
            next = groups + atomicAdd(job.scratch.next, 1u);
        const struct hf_update_piece piece = job.scratch.pieces[w / tiles];
        const int column = (int)(w % tiles * (group * V) + threadIdx.x % group * V);
        update_piece<T, V, LIMBS, FACTOR>(job, piece, column, group, mask);
        w = __shfl_sync(mask, next, 0, group);
    }
}

/* Columns of a thread: 16 bytes at most, and what int64 sums leave registers for. */
template <hf_dtype T, int LIMBS>
inline constexpr int update_width = T == HF_F64 || LIMBS == 2 ? 2 : 4;

template <hf_dtype T, int LIMBS, bool FACTOR>
static __device__ void update_sum_all(const struct hf_update_job &job) {
    constexpr int V = update_width<T, LIMBS>;
    const bool aligned =
        ((uintptr_t)job.x | (uintptr_t)job.row_bytes) % (V * hf_device_bytes<T>) == 0;
    if (aligned && job.d % V == 0)
        update_pieces<T, V, LIMBS, FACTOR>(job);
    else
        update_pieces<T, 1, LIMBS, FACTOR>(job);
}

static __device__ __forceinline__ void update_release(const struct hf_update_job &job) {
    *job.scratch.taken = 0;
    *job.scratch.next = 0;
}

/* Leave the rest of the scratch as the next run needs it. */
static __device__ void update_reset(const struct hf_update_job &job) {
    for (int64_t g = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; g < job.batch * job.k;
         g += (int64_t)gridDim.x * blockDim.x)
        job.scratch.held[g] = 0;
}

/* All steps for many rows. The caller waits (hf_grid_wait) before it uses the sums, and one of its
 * threads calls update_release() after that. */
template <hf_dtype T>
static __device__ void update_many(const struct hf_update_job &job,
                                   const struct update_source &from, uint32_t *bins) {
    update_rank(job, from, bins);
    hf_grid_wait(job.scratch.barrier);
    update_place(job, from);
    hf_grid_wait(job.scratch.barrier);
    update_sort(job, from);
    hf_grid_wait(job.scratch.barrier);
    update_reset(job);
    if (from.moves || job.weight != NULL)
        update_piece_counts(job, from.moves);
    if (job.limbs == 1 && job.factor == NULL)
        update_sum_all<T, 1, false>(job);
    else if (job.limbs == 1)
        update_sum_all<T, 1, true>(job);
    else if (job.factor == NULL)
        update_sum_all<T, 2, false>(job);
    else
        update_sum_all<T, 2, true>(job);
}

/* ---- few rows */

/* Count and weight of a row that moves. */
static __device__ void update_count_row(const struct hf_update_job &job, int64_t row, int64_t p,
                                        int32_t from, int32_t to) {
    int64_t *count = job.count + p * job.k;
    if (from >= 0)
        update_red(count + from, -1);
    if (to >= 0)
        update_red(count + to, 1);
    if (job.weight == NULL)
        return;
    const double w = job.weights[row];
    const double mult = job.weight_mult[p];
    const double high = update_high(w, mult);
    const int64_t q[HF_MAX_LIMBS] = {
        update_integer(high), update_integer(update_low(w, mult, high, update_scale(job.bits)))};
#pragma unroll
    for (int l = 0; l < HF_MAX_LIMBS; l++) {
        if (l >= job.limbs)
            break;
        int64_t *weight = job.weight + (p * job.limbs + l) * job.k;
        if (from >= 0)
            update_red(weight + from, -q[l]);
        if (to >= 0)
            update_red(weight + to, q[l]);
    }
}

/* A row of problem p that goes from one cluster to another; -1: none. */
struct update_change {
    int64_t row, p;
    int32_t from, to;
};

template <hf_dtype T>
static __device__ __forceinline__ void update_move(const struct hf_update_job &job,
                                                   const struct update_change &change, int lane,
                                                   int group) {
    const int64_t row = change.row, p = change.p;
    const int32_t from = change.from, to = change.to;
    const char *x = job.x + row * job.row_bytes;
    const double *mult = job.mult + p * job.mult_stride;
    const double factor = job.factor != NULL ? job.factor[row] : 1;
    const double scale = update_scale(job.bits);
    int64_t *sum = job.sum + p * job.limbs * job.k * job.d;
    for (int64_t j = lane; j < job.d; j += group) {
        double v = hf_device_load<T>(x, j);
        v = job.factor != NULL ? __dmul_rn(v, factor) : v;
        const double high = update_high(v, mult[j]);
        int64_t q = update_integer(high);
        if (from >= 0)
            update_red(sum + from * job.d + j, -q);
        if (to >= 0)
            update_red(sum + to * job.d + j, q);
        if (job.limbs == 1)
            continue;
        q = update_integer(update_low(v, mult[j], high, scale));
        if (from >= 0)
            update_red(sum + (job.k + from) * job.d + j, -q);
        if (to >= 0)
            update_red(sum + (job.k + to) * job.d + j, q);
    }
}

/* Rows list[0 .. count), or all of the first `count` where list is NULL, from their old to their
 * new clusters. */
template <hf_dtype T>
static __device__ void update_few(const struct hf_update_job &job, const int32_t *list,
                                  int64_t count, const int32_t *old_labels, const int32_t *labels) {
    const int group = update_group(job.d, 1);
    const int lane = threadIdx.x % group;
    const int64_t groups = (int64_t)gridDim.x * (blockDim.x / group);
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / group; i < count;
         i += groups) {
        const int64_t row = list != NULL ? list[i] : i;
        if ((uint64_t)row >= (uint64_t)(job.batch * job.n))
            continue;
        const int32_t from = update_label(job, old_labels != NULL ? old_labels[row] : -1);
        const int32_t to = update_label(job, labels[row]);
        if (from == to)
            continue;
        const int64_t p = job.batch == 1 ? 0 : row / job.n;
        update_move<T>(job, {row, p, from, to}, lane, group);
        if (lane == 0)
            update_count_row(job, row, p, from, to);
    }
}

#endif
