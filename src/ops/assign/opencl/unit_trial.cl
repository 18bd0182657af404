/* SPDX-License-Identifier: Apache-2.0
 * Does the matrix unit (the file in front of this one) do what matrix.cl expects of it? 16 rows of
 * 32 columns for each of TRIAL warps times 8 STRIP centroids: score [16 TRIAL, 8 STRIP] += their
 * products. centroids: as matrix_pack() lays them out. device/opencl/cl_unit.c knows the result. */
__kernel __attribute__((reqd_work_group_size(32 * TRIAL, 1, 1))) void
unit_trial(GLOBAL(rows), GLOBAL(centroids), GLOBAL(score)) {
    __local uint4 stage[32 * STRIP];
    __local uint4 shared[UNIT_SHARED];
    const int own = (int)get_local_id(0), lane = own % 32, row = own / 32 * 16 + lane / 4;
    __global const float *value = VIEW(const float, rows);
    __global float *to = VIEW(float, score) + row * 8 * STRIP + lane % 4 * 2;
    uint x[MT][PARTS][BLOCKS][8];
    float sum[MT][STRIP][4] = {0};
    for (int i = 0; i < 8; i++) {
        const int at = (row + i % 2 * 8) * 32 + lane % 4 * 8 + i / 2 * 2;
        x[0][0][0][i] = unit_halves(value[at], value[at + 1]);
    }
    for (int i = own; i < 32 * STRIP; i += 32 * TRIAL)
        unit_fetch(stage + i, VIEW(const uint4, centroids) + i);
    unit_share(shared, x);
    unit_arrive();
    barrier(CLK_LOCAL_MEM_FENCE);
#if STRIP == 8
    unit_start(sum[0], x[0], stage);
    unit_wait(sum[0], 0);
#else
    unit_multiply(sum, shared, x, 0, stage);
#endif
    for (int i = 0; i < STRIP * 4; i++)
        to[i % 4 / 2 * 64 * STRIP + i / 4 * 8 + i % 2] += sum[0][i / 4][i % 4];
}
