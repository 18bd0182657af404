/* SPDX-License-Identifier: Apache-2.0
 * The matrix unit of Intel GPUs whose sub-groups have 16 work-items, by OpenCL's extension
 * cl_intel_subgroup_matrix_multiply_accumulate: a sub-group multiplies [8, 16] by [16, 16]. A warp
 * is two of them; each takes 8 of 16 rows with two strips of centroids. */
#define reqd_work_group_size(x, y, z) reqd_work_group_size(x, y, z), intel_reqd_sub_group_size(16)
#ifndef DPAS_SPARE
#define DPAS_SPARE 0
#endif
#define DPAS_SCORES 64 /* pieces of 16 bytes: [16, 16] scores */
#define UNIT_SHARED (UNIT_ROWS + DPAS_SCORES + DPAS_SPARE)

/* The product of 8 rows with centroid `lane` of two strips. Work-item l has column l of each row,
 * and all columns of its centroid. rows: [8][BLOCKS][4] pieces; centroid: [BLOCKS][32] pieces. */
INLINED float8 dpas_score(__local const uint4 *rows, __local const uint4 *centroid, int lane,
                          __local uint4 *spare) {
    float8 sum = 0;
    for (int half_of = 0; half_of < 2 * BLOCKS; half_of++) { /* 16 columns each */
        short column[8];
        for (int r = 0; r < 8; r++)
            column[r] = ((__local const short *)(rows + r * BLOCKS * 4 + half_of * 2))[lane];
        __local const uint4 *c = centroid + half_of / 2 * 32 + half_of % 2 * 2;
        const int8 all = (int8)(as_int4(c[0]), as_int4(c[1]));
        sum = intel_sub_group_f16_f16_matrix_mad_k16(vload8(0, column), all, sum);
    }
    return sum;
}

INLINED void unit_multiply(float score[MT][STRIP][4], __local const uint4 *shared,
                           uint x[MT][PARTS][BLOCKS][8], int part,
                           __local const uint4 *centroids) {
    const int own = (int)get_local_id(0), upper = own / 16, lane = own % 16;
    __local uint4 *own_space = (__local uint4 *)(shared + UNIT_ROWS); /* behind the rows */
    __local float *to = (__local float *)own_space;
    for (int i = 0; i < MT * ((STRIP + 1) / 2); i++) {
        const int m = i / ((STRIP + 1) / 2), s = i % ((STRIP + 1) / 2) * 2;
        const int strip = min(s + lane / 8, STRIP - 1);
        const int row = part * MT * 16 + m * 16 + upper * 8;
        float found[8];
        vstore8(dpas_score(shared + row * BLOCKS * 4,
                           centroids + strip * PARTS * BLOCKS * 32 + lane % 8 * 4, lane,
                           own_space + DPAS_SCORES),
                0, found);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int r = 0; r < 8; r++)
            to[(upper * 8 + r) * 16 + lane] = found[r];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int e = 0; e < 8; e++) /* as matrix.cl has them */
            if (s + e / 4 < STRIP)
                score[m][s + e / 4][e % 4] +=
                    to[(e % 4 / 2 * 8 + own / 4) * 16 + e / 4 * 8 + own % 4 * 2 + e % 2];
    }
}
