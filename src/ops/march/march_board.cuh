/* SPDX-License-Identifier: Apache-2.0
 * What blocks of threads of op march tell each other: numbers with their epochs in global memory,
 * and a board in shared memory between the workers of a block and its watcher. */
#ifndef HF_MARCH_BOARD_CUH
#define HF_MARCH_BOARD_CUH

#include "ops/march/march.h"
#include "ops/sparse.cuh"

#define SLOTS 4 /* decisions whose sums may be under way at once */
#define NEVER 0x7fffffff

struct __align__(16) tag {
    double value;
    hf_u64 epoch;
};

struct march_job {
    struct hf_march_map map;
    struct hf_sparse a;
    const double *inverse, *b, *factor;
    double *x;
    int sweeps, factors, every, lead, most;
    bool momentum, free, tested;
    double target, goal;
    long long limit; /* clock cycles */
    hf_u64 first;
    int64_t n;
    struct tag *x_tag, *p_tag; /* [2, n] */
    struct tag *sum;           /* [SLOTS, blocks] */
    struct tag *arrival;       /* [2, blocks] */
    struct hf_march_report *report;
};

/* What workers and watcher of a block tell each other. */
struct board {
    volatile int done;    /* epochs that are complete */
    volatile int horizon; /* epochs that may be made */
    volatile int last;    /* the last one, NEVER: not decided */
    volatile int first;   /* that the watcher looks at, of */
    volatile int round;
    volatile int abort, over;
    volatile int hopeless; /* the estimate does not fall, or grew beyond bounds */
    volatile int leave[2];
    volatile double target, estimate;
    double total;
};

static __device__ __forceinline__ struct tag load_tag(const struct tag *p) {
    struct tag t;
    asm volatile("{.reg .b128 v; ld.relaxed.gpu.global.b128 v, [%2]; mov.b128 {%0, %1}, v;}"
                 : "=d"(t.value), "=l"(t.epoch)
                 : "l"(p)
                 : "memory");
    return t;
}

static __device__ __forceinline__ void store_tag(struct tag *p, double value, hf_u64 epoch) {
    asm volatile(
        "{.reg .b128 v; mov.b128 v, {%1, %2}; st.relaxed.gpu.global.b128 [%0], v;}" ::"l"(p),
        "d"(value), "l"(epoch)
        : "memory");
}

/* All workers, but not the watcher. */
static __device__ __forceinline__ void meet(int threads) {
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

/* The same bits in all threads of the warp. */
static __device__ __forceinline__ double warp_total(double v) {
    for (int step = 16; step > 0; step /= 2)
        v = __dadd_rn(v, __shfl_xor_sync(0xffffffffu, v, step));
    return v;
}

/* The sum of what all blocks published for `epoch`, by a warp; waits for them. */
static __device__ double collect(const struct tag *from, int64_t blocks, hf_u64 epoch,
                                 const struct board *board) {
    double sum = 0;
    for (int64_t j = threadIdx.x % 32; j < blocks; j += 32) {
        struct tag seen = load_tag(from + j);
        while (seen.epoch != epoch && !board->abort)
            seen = load_tag(from + j);
        sum = __dadd_rn(sum, seen.value);
    }
    return warp_total(sum);
}

#endif
