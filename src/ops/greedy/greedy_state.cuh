/* SPDX-License-Identifier: Apache-2.0
 * What the kernels of greedy share. A step is two kernels: `greedy_evaluate` finds what the
 * candidates gain, `greedy_commit` takes the winner over and draws the next candidates. Nothing
 * comes back to the host between steps. */
#ifndef HF_GREEDY_STATE_CUH
#define HF_GREEDY_STATE_CUH

#include "device/cuda/pack.cuh"
#include "ops/greedy/greedy.h"
#include "ops/seed/seed_device.cuh"

#define GREEDY_WARP 32
#define GREEDY_TILE 256 /* rows of a block of either kernel */

/* What steps hand on. */
struct greedy_state {
    int64_t count;                   /* centroids so far */
    int64_t drawn[HF_GREEDY_TRIALS]; /* rows of the candidates */
    hf_u64 gain[HF_GREEDY_TRIALS];
    float limit[HF_GREEDY_TRIALS]; /* what a candidate adds to the filter's limit */
    double unit;
    unsigned done; /* blocks of greedy_commit that are through */
    int stop;      /* enough centroids, or no potential left */
};

struct greedy_job {
    hf_array x;
    int64_t n, d, dp; /* dp: d rounded up to 4 */
    int64_t tiles;
    int64_t row_bytes; /* of x */
    bool cosine;
    int trials, bits;
    int64_t upto;
    uint64_t seed, stream;
    const double *weights, *shift;
    double limit;               /* of the integers */
    double scale, slack, floor; /* of the filter, see seed_filter.h */
    struct greedy_state *state;
    double *unit, *nearest;
    int64_t *chosen, *count;
    double *centroids; /* [upto, d] or NULL */
    float *t;          /* [n / 32, dp / 4, 32, 4] rows as the filter sees them */
    float *nx;         /* [n] their squares */
    float *c;          /* [trials, dp] candidates as the filter sees them */
    double *c64;       /* [trials, d] and as they are */
    unsigned *mask;    /* [n] bit l: candidate l is nearer */
    double *found;     /* [trials, n] its distance, where the bit is set */
    hf_u64 *tile;      /* [tiles] sums of potentials */
};

static __device__ __forceinline__ double greedy_weight(const struct greedy_job &job, int64_t i) {
    return job.weights ? job.weights[i] : 1;
}

static __device__ __forceinline__ hf_u64 greedy_quantum(const struct greedy_job &job, double unit,
                                                        int64_t i, double v) {
    return hf_seed_quantum_of(v, greedy_weight(job, i), unit, job.limit);
}

#endif
