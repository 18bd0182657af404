/* SPDX-License-Identifier: Apache-2.0
 * What both kernels by mma.sync share: who does what, copies, steps of the product, the end of a
 * row. A thread has rows lane / 4 and lane / 4 + 8 of each 16 that its warp looks at. */
#ifndef HF_ASSIGN_MMA_ROWS_CUH
#define HF_ASSIGN_MMA_ROWS_CUH

#include "ops/assign/cuda/filter_sweep.cuh"
#include "ops/assign/cuda/mma.h"

enum {
    MMA_WARPS = 8,
    MMA_THREADS = MMA_WARPS * 32,
    MMA_ROWS = 256 /* of a block: a unit */
};

struct mma_none {}; /* stands for a shape that filter_finish() does not need here */

/* What the kernels are told of packed centroids. */
static inline void mma_describe(struct filter_args *a, const struct hf_filter_centroids *c,
                                const void *packed) {
    const struct filter_memory m = hf_mma_memory(c->k, c->d, c->batch);
    a->tiles = (const uint8_t *)packed;
    a->bounds = (const struct filter_bounds *)(a->tiles + m.tiles + m.info);
    a->facts = (const struct filter_fact *)(a->tiles + m.tiles + m.info + m.bounds);
    a->tiles_per_problem = m.tiles_per_problem;
    a->infos_per_problem = m.infos_per_problem;
    a->tile_bytes = hf_mma_tile(c->d).bytes;
    /* A step adds 16 products and the sum so far, aligned to the largest and cut off at float32's
     * last bit of that, in one go or in two: at most 20 times 2^-23. */
    a->acc = (float)((c->d + 15) / 16 + 3) * 0x1p-18f;
    filter_describe(a, c);
}

/* A block's piece of work: tiles [t0, t1) for one unit of rows. */
struct mma_work {
    int problem, unit, t0, t1;
    int item, items, units; /* which of the problem's, their number */
    int shift;              /* the block that has the problem's first item */
};

static __device__ __forceinline__ int mma_rows_of(const struct filter_args &a, int problem) {
    return a.rows.list ? filter_rows_of<true>(a, problem) : (int)a.rows.n;
}

static __device__ __forceinline__ struct mma_work mma_first(void) {
    return {-1, 0, 0, 0, 0, 0, 0, 0};
}

/* The items of w->problem, and this block's first. The rows of a problem are cut into units and,
 * where nothing has to be merged (a.split), their tiles too, so that few rows keep many blocks
 * busy. whole: all items are this block's. */
static __device__ __forceinline__ void mma_enter(const struct filter_args &a, struct mma_work *w,
                                                 bool whole) {
    const int blocks = (int)gridDim.x, block = (int)blockIdx.x;
    w->units = (mma_rows_of(a, w->problem) + MMA_ROWS - 1) / MMA_ROWS;
    int parts = 1;
    if (a.split && !whole && w->units > 0 && w->units < blocks)
        parts = min(blocks / w->units, a.tiles_per_problem);
    w->shift = (w->shift + w->items) % blocks;
    w->items = w->units * parts;
    w->item = whole ? 0 : (block - w->shift + blocks) % blocks;
}

/* The next piece of this block, or false. Items go round the blocks; with very many problems each
 * block takes whole ones, as walking through all would cost too much. */
static __device__ __forceinline__ bool mma_next(const struct filter_args &a, struct mma_work *w) {
    const int blocks = (int)gridDim.x;
    const bool whole = a.rows.batch > 4 * blocks;
    w->item += whole ? 1 : blocks;
    while (w->problem < 0 || w->item >= w->items) {
        if (w->problem < 0)
            w->problem = whole ? (int)blockIdx.x : 0;
        else
            w->problem += whole ? blocks : 1;
        if (w->problem >= a.rows.batch)
            return false;
        mma_enter(a, w, whole);
    }
    const int parts = w->items / w->units, part = w->item % parts;
    w->unit = w->item / parts;
    w->t0 = (int)((int64_t)a.tiles_per_problem * part / parts);
    w->t1 = (int)((int64_t)a.tiles_per_problem * (part + 1) / parts);
    return true;
}

/* 16 bytes from global to shared memory, or zeros behind the first `bytes`. */
static __device__ __forceinline__ void mma_copy(uint32_t dst, const void *src, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void mma_commit(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int LEFT> static __device__ __forceinline__ void mma_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* d [16, 8] += A [16, 16] B [16, 8]. */
static __device__ __forceinline__ void mma_step(float *d, const uint32_t (&a)[4], uint32_t b0,
                                                uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The row's number in its problem, -1: none. i: place in the problem or its list. */
static __device__ __forceinline__ int mma_row(const struct filter_args &a, int problem, int i) {
    if (i >= mma_rows_of(a, problem))
        return -1;
    if (!a.rows.list)
        return i;
    return a.rows.list[problem * (a.split ? a.out.open.cap : a.rows.n) + i];
}

/* The end of a row, all lanes of a warp. */
static __device__ __forceinline__ void mma_finish(const struct filter_args &a, int mode,
                                                  const struct filter_entry &row,
                                                  const struct filter_view &bounds,
                                                  struct filter_open_rows *opens,
                                                  const struct filter_found &f) {
    if (mode == FILTER_BEST) {
        filter_finish<mma_none, FILTER_BEST>(a, row, filter_worth(bounds), bounds, opens, f);
    } else if (mode == FILTER_TOP2) {
        const struct filter_row_facts facts = filter_know<FILTER_TOP2>(a, row.problem, row.place);
        filter_finish<mma_none, FILTER_TOP2>(
            a, row, filter_error(a, bounds, facts.norm, facts.loss), bounds, opens, f);
    } else {
        const struct filter_row_facts facts = filter_know<FILTER_LIST>(a, row.problem, row.place);
        filter_finish<mma_none, FILTER_LIST>(
            a, row, filter_error(a, bounds, facts.norm, facts.loss), bounds, opens, f);
    }
}

#endif
