/* SPDX-License-Identifier: Apache-2.0
 * What a launch of op march is told, and what it takes of shared memory. */
#ifndef HF_MARCH_JOB_CUH
#define HF_MARCH_JOB_CUH

#include "ops/march/march.h"
#include "ops/sparse.cuh"

#define SLOTS 4 /* decisions whose sums may be under way at once */
#define NEVER 0x7fffffff
#define CLOCK 1.9e9 /* cycles in a second, about */

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
    bool tells_p; /* also without copies: for one that may have to go on */
    double target, goal;
    long long limit; /* clock cycles */
    hf_u64 first;
    int64_t n;
    struct tag *x_tag, *p_tag; /* [2, n] */
    struct tag *sum;           /* [SLOTS, blocks] */
    struct tag *arrival;       /* [2, blocks] */
    struct tag *round;         /* [2, 2, blocks] target and epochs before, of the last two rounds */
    struct tag *verdict;       /* [2, 4, blocks] what watchers know after the last two decisions */
    hf_u64 *beat, *claim;      /* [blocks] march_life.cuh */
    int spares;                /* blocks of threads beyond those of the map */
    long long silence;         /* clock cycles after which a block is lost */
    struct hf_march_loss loss; /* blocks NULL: none */
    long long pause;           /* clock cycles */
    int lose_epoch;            /* of loss.moment in the epochs; 0: none */
    struct hf_march_report *report;
};

/* What workers and watcher of a block tell each other. Aligned as what follows it. */
struct __align__(16) board {
    volatile int done;    /* epochs that are complete */
    volatile int horizon; /* epochs that may be made */
    volatile int last;    /* the last one, NEVER: not decided */
    volatile int first;   /* that the watcher looks at, of */
    volatile int round;
    volatile int abort, over;
    volatile int hopeless; /* the estimate does not fall, or grew beyond bounds */
    volatile int leave[2];
    volatile double target, estimate;
    volatile double before, least, start; /* of the watcher at the beginning of a round */
    volatile int since;
    volatile int block;       /* of the map, at which this block of threads is */
    volatile int deposed;     /* another one has taken it over */
    volatile int dead;        /* in an experiment */
    volatile long long sleep; /* likewise: until then; 0: no */
    long long begin;          /* of the launch, on the clock */
    volatile long long lease; /* when the last sign of life was given */
    int doubt;                /* signs of life before which to ask whether it was taken over */
    double total;
};

static __host__ __device__ inline size_t near_bytes(const struct march_job &job) {
    const size_t spare =
        job.map.rhs > 2 * job.map.extent ? (size_t)job.map.rhs : 2 * (size_t)job.map.extent;
    return sizeof(double) * (spare + (size_t)job.map.rows + (size_t)job.map.own * (SLOTS + 1) +
                             2 * (size_t)job.factors + 32) +
           sizeof(struct board) + sizeof(int) * (size_t)job.map.extent;
}

#endif
