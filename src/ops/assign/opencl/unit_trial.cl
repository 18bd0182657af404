/* SPDX-License-Identifier: Apache-2.0
 * Does the matrix unit (the file in front of this one) do what matrix.cl expects of it? 16 rows of
 * 32 columns times 8 centroids, one warp: score [16, 8] += their products. centroids: as
 * matrix_pack() lays them out. device/opencl/cl_unit.c knows the result. */
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void
unit_trial(GLOBAL(rows), GLOBAL(centroids), GLOBAL(score)) {
    __local uint4 stage[32];
    __local uint4 shared[UNIT_SHARED];
    const int lane = (int)get_local_id(0);
    __global const float *value = VIEW(const float, rows);
    __global float *to = VIEW(float, score) + lane / 4 * 8 + lane % 4 * 2;
    uint x[MT][PARTS][BLOCKS][8];
    float sum[MT][STRIP][4];
    for (int i = 0; i < 8; i++) {
        const int at = (lane / 4 + i % 2 * 8) * 32 + lane % 4 * 8 + i / 2 * 2;
        x[0][0][0][i] = unit_halves(value[at], value[at + 1]);
    }
    unit_fetch(stage + lane, VIEW(const uint4, centroids) + lane);
    unit_share(shared, x);
    unit_arrive();
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 4; i++)
        sum[0][0][i] = to[i / 2 * 64 + i % 2];
    unit_multiply(sum, shared, x, 0, stage);
    for (int i = 0; i < 4; i++)
        to[i / 2 * 64 + i % 2] = sum[0][0][i];
}
