/* SPDX-License-Identifier: Apache-2.0
 * What the parts of greedy_cuda.cu share. One kernel makes all steps: a block owns chunks of
 * neighbouring rows, and all blocks meet once a step, when the gains of the candidates are
 * complete. Then every block finds the same winner and draws the same candidates by itself: from
 * the potentials before the winner and what each chunk lost to it. What a step leaves behind is
 * kept twice, for even and odd steps, because blocks still read it while others write the next. */
#ifndef HF_GREEDY_STATE_CUH
#define HF_GREEDY_STATE_CUH

#include "device/cuda/pack.cuh"
#include "ops/greedy/greedy.h"
#include "ops/seed/seed_device.cuh"

#define GREEDY_WARP 32
#define GREEDY_THREADS 512
#define GREEDY_WARPS (GREEDY_THREADS / GREEDY_WARP)
#define GREEDY_CHUNK 64 /* rows whose potentials are added up */
#define GREEDY_PASS 512 /* rows that a block looks at side by side */
#define GREEDY_SLAB 32  /* steps of 16 columns whose candidates are in shared memory */
#define GREEDY_PAIRS 4  /* pairs of a warp */

/* Rows and columns of a matrix instruction, and candidates of one. */
#define GREEDY_M 16
#define GREEDY_K 16
#define GREEDY_N 8

#define GREEDY_PARTS (GREEDY_PASS / GREEDY_CHUNK)

/* Columns of a pair that are in shared memory, so that the rest leaves room for 99 KiB in all. */
template <int C> inline constexpr int greedy_exact = C == GREEDY_N ? 64 : 32;

/* In device memory, what blocks tell each other. */
struct greedy_state {
    hf_u64 gain[3][HF_GREEDY_TRIALS]; /* of a step, the one before and the one behind */
    hf_u64 own[2][HF_GREEDY_TRIALS];  /* potential that a candidate leaves to its own row */
    hf_u64 most;                      /* bits of the largest weight * nearest */
    unsigned arrived;                 /* at the barriers so far, all blocks together */
};

struct greedy_job {
    const char *x;
    hf_dtype dtype;
    int64_t row_bytes, n, d, kp; /* kp: steps of 16 columns */
    int64_t chunks;
    bool cosine, resident; /* resident: a block's rows are in its shared memory */
    int trials, bits;
    int64_t upto;
    uint64_t seed, stream;
    const double *weights, *shift;
    double limit;        /* of the integers */
    double scale, floor; /* of the filter, see greedy_filter.cuh */
    float slack;
    struct greedy_state *state;
    double *unit, *nearest;
    int64_t *chosen, *count;
    double *centroids; /* [upto, d] or NULL */
    uint4 *t;          /* [n / 16, kp, 32] rows as the filter sees them, as an A operand is */
    float2 *size;      /* [n] |t|^2 and how far t is from the row */
    unsigned *mask[2]; /* [n] bit l: candidate l is nearer */
    double *found[2];  /* [trials, n] its distance, where the bit is set */
    hf_u64 *lost[2];   /* [trials, chunks] what candidates gain in each chunk */
    hf_u64 *sum[2];    /* [chunks] potentials */
    double *pairs;     /* [n, pitch] distances of all rows to each other; greedy_few_sm90.cu only */
    int64_t pitch;
};

/* In shared memory. C: candidates, rounded up to GREEDY_N. Behind it the block's rows, if resident.
 */
template <int C> struct __align__(16) greedy_shared {
    /* rows and candidates of pairs; the odd pitch spreads pairs over the banks */
    double exact[GREEDY_WARPS][2][GREEDY_PAIRS][greedy_exact<C> + 1];
    uint2 c[GREEDY_SLAB][C / GREEDY_N][GREEDY_WARP]; /* candidates as a B operand */
    hf_u64 gain[C][GREEDY_PARTS], target[C], rest[C];
    int64_t chunk[C], drawn[C]; /* candidates: the chunk, then the row */
    float2 size[C];
    /* of the rows of a pass: distances, |t|^2 and the radius of the filter, nearer candidates */
    double nearest[GREEDY_PASS];
    float2 row[GREEDY_PASS];
    unsigned mask[GREEDY_PASS];
    unsigned queued;
    unsigned short queue[GREEDY_PASS * C]; /* open pairs: row of the pass * C + candidate */
};

/* What a block knows of the run; the same in all of them but for its own chunks. */
struct greedy_run {
    int64_t count;
    double unit;
    unsigned barriers; /* passed so far */
    unsigned steps;    /* evaluated so far: the last of them is what `winner` tells */
    int winner;        /* -1: sum[steps % 2] is complete */
    int64_t row;       /* of the winner */
    hf_u64 own;        /* potential to take from its chunk beside what the chunk lost */
    int64_t first_chunk, chunks;
    bool one_pass; /* what shared memory knows of the rows stays valid from step to step */
};

static __device__ __forceinline__ double greedy_weight(const struct greedy_job &job, int64_t i) {
    return job.weights ? job.weights[i] : 1;
}

static __device__ __forceinline__ hf_u64 greedy_quantum(const struct greedy_job &job, double unit,
                                                        int64_t i, double v) {
    return hf_seed_quantum_of(v, greedy_weight(job, i), unit, job.limit);
}

#endif
