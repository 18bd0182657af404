/* SPDX-License-Identifier: Apache-2.0
 * Who does what. Rows are cut into units of 64, `wgs` units of one problem are a group: what a
 * block looks at together. With G groups and B blocks each block takes G / B whole groups, which
 * lie together; what is left (less than a group a block) is cut along the centroids too, unless
 * these are few, so that all blocks end at the same time, or that no block takes only a few tiles:
 * its pieces are merged by whoever comes last (cuda/filter_rows.cuh). Every role of a block walks
 * through the same segments. */
#ifndef HF_ASSIGN_FILTER_SCHEDULE_CUH
#define HF_ASSIGN_FILTER_SCHEDULE_CUH

#include "ops/assign/cuda/filter_layout.h"

/* What a kernel does. _CHUNK: the same with another sweep, for many centroids; EMIT and LIST look
 * at listed rows. */
enum filter_mode {
    FILTER_BEST,
    FILTER_TOP2,
    FILTER_EMIT,
    FILTER_LIST,
    FILTER_BEST_CHUNK,
    FILTER_TOP2_CHUNK
};

static __device__ __forceinline__ constexpr bool filter_lists(int mode) {
    return mode == FILTER_EMIT || mode == FILTER_LIST;
}

static __device__ __forceinline__ constexpr bool filter_chunks(int mode) {
    return mode == FILTER_BEST_CHUNK || mode == FILTER_TOP2_CHUNK;
}

/* Does it look for the second best, and for open rows? */
static __device__ __forceinline__ constexpr bool filter_decides(int mode) {
    return mode == FILTER_TOP2 || mode == FILTER_LIST || mode == FILTER_TOP2_CHUNK;
}

/* The arguments of a filter kernel. */
struct filter_args {
    const uint8_t *tiles;               /* [batch, tiles_per_problem, tile_bytes] */
    const struct filter_bounds *bounds; /* [batch] */
    const struct filter_fact *facts;    /* [batch, infos_per_problem * FILTER_CHUNK] */
    float *parts;
    int *counters;
    struct hf_filter_rows rows;
    struct hf_filter_out out;
    const int32_t *found; /* EMIT: [batch * n] the labels so far */
    struct hf_filter_slots slots;
    int64_t limit; /* most rows of a problem */
    int tiles_per_problem, infos_per_problem, tile_bytes;
    bool resident;    /* all tiles of a problem stay in shared memory */
    bool shifted;     /* biases are moved up, so that best scores are positive */
    bool split;       /* cut along the centroids without merging: emit */
    bool labels;      /* nothing else is wanted of a row that is decided: no score, no error */
    bool unread;      /* rows have no norm or loss to be read */
    bool plain;       /* measure is 1 */
    bool whole;       /* no group is cut: to merge its pieces would take longer */
    float acc, slack; /* shares of the error bound, see filter_error() */
    float half;       /* a bias is -half |c'|^2: 0.5 or, without Euclidean distances, 0 */
    float length;     /* of most rows, see filter_bounds_from(); 0: lengths tell nothing */
    float inverse;    /* 1 / length; 2^100 */
    float loss;       /* how far f16 moves a row, where rows.loss is NULL */
    float tiny;       /* what the pieces of a bias may lack */
    float measure;    /* power of two by which rows are multiplied to measure their norms */
    float measured;   /* 1 / measure, and 2^-20 of it more for float32's roundings */
    float minus_zero; /* -0, which the compiler must not know */
    uint32_t one[2];  /* A operand of the bias step: columns 0 and 1, column 2 */
    float rise;       /* what the piece in column 3 is multiplied by, which moves biases up */
    float key;        /* and column 6 */
};

/* What all kernels with this filter's bound are told of it, but for acc and tiny. */
static inline void filter_describe(struct filter_args *a, const struct hf_filter_centroids *c) {
    const double unit = c->raw ? 1 / c->scale : 1; /* components of tame data are at most that */
    a->half = c->metric == HF_EUCLIDEAN ? 0.5f : 0.0f;
    const double length = c->length > 0 ? c->length : sqrt((double)c->d) * unit;
    /* below, what does not shrink with the lengths is not small beside it */
    const bool tells = c->metric == HF_EUCLIDEAN && length >= 0x1p-13 && length >= 0x1p-8 * unit;
    a->length = tells ? (float)length : 0.0f;
    a->inverse = tells ? (float)(1 / length) : 0x1p100f;
    a->slack = (float)(c->d + 8) * 0x1p-53f;
    a->minus_zero = -0.0f;
}

struct filter_segment {
    int problem, group; /* the first group, within the problem */
    int rounds;         /* groups */
    int t0, t1;         /* tiles */
    int tail;           /* number of the group among those that are cut, -1: not cut */
};

/* A block is a cluster of S::CLUSTER; it takes groups of S::UNITS units. */
template <class S> static __device__ __forceinline__ int filter_block(void) {
    return (int)blockIdx.x / S::CLUSTER;
}

template <class S> static __device__ __forceinline__ int filter_blocks(void) {
    return (int)gridDim.x / S::CLUSTER;
}

template <bool LIST>
static __device__ __forceinline__ int filter_rows_of(const struct filter_args &a, int problem) {
    if constexpr (!LIST)
        return (int)a.rows.n;
    const int64_t count = a.rows.count[problem];
    return (int)(count < a.limit ? count : a.limit);
}

template <class S, bool LIST>
static __device__ __forceinline__ int filter_groups_of(const struct filter_args &a, int problem) {
    const unsigned per = S::UNITS * FILTER_WG_ROWS;
    return (int)(((unsigned)filter_rows_of<LIST>(a, problem) + per - 1) / per);
}

template <class S, bool LIST>
static __device__ __forceinline__ int filter_groups(const struct filter_args &a) {
    if constexpr (!LIST)
        return a.rows.batch * filter_groups_of<S, LIST>(a, 0);
    int groups = 0;
    for (int p = 0; p < a.rows.batch; p++)
        groups += filter_groups_of<S, LIST>(a, p);
    return groups;
}

/* Group g of all: its problem, and the groups of the problems before that. */
template <class S, bool LIST>
static __device__ __forceinline__ int filter_locate(const struct filter_args &a, int g,
                                                    int *before) {
    int size = filter_groups_of<S, LIST>(a, 0), p = 0;
    if constexpr (!LIST) {
        p = g / size;
        *before = p * size;
        return p;
    }
    *before = 0;
    while (g - *before >= size) {
        *before += size;
        size = filter_groups_of<S, LIST>(a, ++p);
    }
    return p;
}

/* Are groups that are left not cut? S::COUNT: the question takes registers. */
template <class S, bool LIST>
static __device__ __forceinline__ bool filter_uncut(const struct filter_args &a) {
    return S::COUNT && !LIST && a.whole;
}

/* The groups that are left: from `base` on, in `work` pieces, over `blocks` blocks. */
struct filter_tail {
    int base, blocks;
    int64_t work;
};

template <class S, bool LIST>
static __device__ __forceinline__ struct filter_tail filter_tail_of(const struct filter_args &a) {
    const int groups = filter_groups<S, LIST>(a), blocks = filter_blocks<S>();
    struct filter_tail tail;
    tail.base = a.split ? 0 : groups / blocks * blocks;
    tail.work = (int64_t)(groups - tail.base) * a.tiles_per_problem;
    if (filter_uncut<S, LIST>(a)) {
        tail.work = tail.blocks = groups - tail.base; /* fewer than blocks */
        return tail;
    }
    const bool merged = !a.split && a.tiles_per_problem >= FILTER_SHARE;
    const int64_t most = merged ? tail.work / FILTER_SHARE : tail.work;
    tail.blocks = most < blocks ? (int)most : blocks;
    return tail;
}

/* Where block c's pieces begin. */
static __device__ __forceinline__ int64_t filter_tail_begin(const struct filter_tail &tail, int c) {
    return c * tail.work / tail.blocks;
}

/* The block that has piece x: the last c with c * work / blocks <= x. */
static __device__ __forceinline__ int filter_tail_owner(const struct filter_tail &tail, int64_t x) {
    return (int)(((x + 1) * tail.blocks - 1) / tail.work);
}

/* Where block c leaves its part of cut group `group`: it has pieces of two groups at most. */
static __device__ __forceinline__ int filter_tail_slot(const struct filter_tail &tail, int tiles,
                                                       int group, int c) {
    return 2 * c + (group != (int)(filter_tail_begin(tail, c) / tiles));
}

/* Segment i of this block, or false. It is worked out anew rather than kept: registers are short.
 * More problems than blocks, with lists: each block takes whole problems, as searching for groups
 * would cost too much; some of its segments may be empty. */
template <class S, bool LIST>
static __device__ __forceinline__ bool filter_segment_at(const struct filter_args &a, int i,
                                                         struct filter_segment *s) {
    const int tiles = a.tiles_per_problem, block = filter_block<S>(), blocks = filter_blocks<S>();
    int before;
    s->tail = -1;
    s->t0 = 0;
    s->t1 = tiles;
    if (LIST && a.rows.batch > 4 * blocks) {
        s->problem = block + i * blocks;
        s->group = 0;
        s->rounds = s->problem < a.rows.batch ? filter_groups_of<S, LIST>(a, s->problem) : 0;
        return s->problem < a.rows.batch;
    }
    const int rounds = a.split ? 0 : filter_groups<S, LIST>(a) / blocks;
    int g = block * rounds;
    const int end = g + rounds;
    if (!LIST && rounds > 0) {
        const int size = filter_groups_of<S, LIST>(a, 0), first = g / size;
        s->problem = first + i;
        before = s->problem * size;
        g = i == 0 ? g : before;
        s->group = g - before;
        s->rounds = (before + size < end ? before + size : end) - g;
        if (s->rounds > 0)
            return true;
        i -= (end - 1) / size - first + 1;
    } else if (rounds > 0) {
        for (s->problem = filter_locate<S, LIST>(a, g, &before); g < end; s->problem++) {
            const int size = filter_groups_of<S, LIST>(a, s->problem);
            s->group = g - before;
            s->rounds = size - s->group < end - g ? size - s->group : end - g;
            g += s->rounds;
            before += size;
            if (s->rounds > 0 && i-- == 0)
                return true;
        }
    }
    const struct filter_tail tail = filter_tail_of<S, LIST>(a);
    if (block >= tail.blocks)
        return false;
    int64_t pos = filter_tail_begin(tail, block);
    const int64_t pos_end = filter_tail_begin(tail, block + 1);
    if (filter_uncut<S, LIST>(a)) { /* a piece is a group */
        s->problem = filter_locate<S, LIST>(a, tail.base + (int)pos, &before);
        s->group = tail.base + (int)pos - before;
        s->rounds = 1;
        return i == 0 && pos < pos_end;
    }
    const int group = (int)(pos / tiles) + i;
    pos = i == 0 ? pos : (int64_t)group * tiles;
    if (pos >= pos_end)
        return false;
    s->problem = filter_locate<S, LIST>(a, tail.base + group, &before);
    s->group = tail.base + group - before;
    s->rounds = 1;
    s->t0 = (int)(pos - (int64_t)group * tiles);
    s->t1 = pos_end - pos < tiles - s->t0 ? s->t0 + (int)(pos_end - pos) : tiles;
    if (!a.split && s->t1 - s->t0 < tiles)
        s->tail = group;
    return true;
}

/* The same for whole warps. Its result is the same in all lanes; told so, the compiler keeps it,
 * and what follows from it, in uniform registers: descriptors of tiles cost half as much then. */
template <class S, bool LIST>
static __device__ __forceinline__ bool filter_segment_agreed(const struct filter_args &a, int i,
                                                             struct filter_segment *s) {
    const bool valid = filter_segment_at<S, LIST>(a, i, s);
    s->problem = __reduce_max_sync(~0u, s->problem);
    s->group = __reduce_max_sync(~0u, s->group);
    s->rounds = __reduce_max_sync(~0u, s->rounds);
    s->t0 = __reduce_max_sync(~0u, s->t0);
    s->t1 = __reduce_max_sync(~0u, s->t1);
    s->tail = __reduce_max_sync(~0u, s->tail);
    return __any_sync(~0u, valid);
}

#endif
