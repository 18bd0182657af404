/* SPDX-License-Identifier: Apache-2.0
 * Rows that are stencils, on CUDA: a thread for each row. The stencils lie in shared memory, the x
 * that neighbouring threads read are neighbours, so nothing passes through shared memory. Sums are
 * those of ops/sparse.h. */
#ifndef HF_STENCILS_CUH
#define HF_STENCILS_CUH

#include "device/cuda/room.h"
#include "ops/sparse.cuh"

#define STENCIL_EACH 5 /* x that a thread asks for at once: more takes registers of warps */

/* A copy in shared memory. */
struct stencil_table {
    const double *value, *inverse;
    const int32_t *offset, *start;
};

static inline size_t hf_stencil_table_bytes(const struct hf_stencils &s) {
    return (size_t)(s.elements + s.count) * sizeof(double) +
           (size_t)(s.elements + s.count + 1) * sizeof(int32_t);
}

/* A device view of the stencils of `rows` rows. */
static inline struct hf_stencils hf_stage_stencils(struct hf_stage *stage,
                                                   const struct hf_stencils &s, int64_t rows) {
    struct hf_stencils seen = s;
    const size_t count = (size_t)s.count, elements = (size_t)s.elements;
    seen.of_row = (const uint8_t *)hf_stage_in(stage, s.of_row, (size_t)rows);
    seen.start = (const int32_t *)hf_stage_in(stage, s.start, (count + 1) * sizeof(int32_t));
    seen.offset = (const int32_t *)hf_stage_in(stage, s.offset, elements * sizeof(int32_t));
    seen.value = (const double *)hf_stage_in(stage, s.value, hf_vector_bytes(s.elements));
    seen.inverse = (const double *)hf_stage_in(stage, s.inverse, hf_vector_bytes(s.count));
    seen.diagonal = (const double *)hf_stage_in(stage, s.diagonal, hf_vector_bytes(rows));
    return seen;
}

/* By all threads of the block; room: hf_stencil_table_bytes() of shared memory. */
static __device__ __forceinline__ struct stencil_table load_stencils(const struct hf_stencils &s,
                                                                     double *room) {
    double *value = room, *inverse = value + s.elements;
    int32_t *offset = (int32_t *)(inverse + s.count), *start = offset + s.elements;
    for (int t = (int)threadIdx.x; t < s.elements; t += (int)blockDim.x) {
        value[t] = s.value[t];
        offset[t] = s.offset[t];
    }
    for (int t = (int)threadIdx.x; t <= s.count; t += (int)blockDim.x) {
        start[t] = s.start[t];
        if (t < s.count && s.inverse != NULL)
            inverse[t] = s.inverse[t];
    }
    __syncthreads();
    return {value, inverse, offset, start};
}

/* term(offset, product) for the elements of stencil `number` in their order; x + offset is what an
 * element is multiplied by. APART: `diagonal` is the value at distance 0. */
template <bool APART, typename F>
static __device__ __forceinline__ void stencil_walk(const struct stencil_table &table, int number,
                                                    double diagonal, const double *x, F term) {
    const int first = table.start[number], last = table.start[number + 1];
    for (int e = first; e < last; e += STENCIL_EACH) {
        double factor[STENCIL_EACH];
        int32_t offset[STENCIL_EACH];
#pragma unroll
        for (int u = 0; u < STENCIL_EACH; u++) {
            offset[u] = e + u < last ? table.offset[e + u] : 0;
            factor[u] = e + u < last ? __ldg(x + offset[u]) : 0.0;
        }
#pragma unroll
        for (int u = 0; u < STENCIL_EACH; u++) {
            if (e + u >= last)
                break;
            const double value = APART && offset[u] == 0 ? diagonal : table.value[e + u];
            term(offset[u], __dmul_rn(value, factor[u]));
        }
    }
}

template <bool APART>
static __device__ __forceinline__ double stencil_row(const struct stencil_table &table, int number,
                                                     double diagonal, const double *x) {
    double sum = 0;
    stencil_walk<APART>(table, number, diagonal, x,
                        [&](int32_t, double product) { sum = __dadd_rn(sum, product); });
    return sum;
}

#endif
