/* SPDX-License-Identifier: Apache-2.0
 * Intel's built-in function as its specification has it, by the work-items of two sub-groups of 16,
 * so that unit_dpas.cl can be tested on devices without it. */
#define DPAS_SPARE 32 /* a piece of each work-item */
#define intel_sub_group_f16_f16_matrix_mad_k16(a, b, sum) dpas_alone(a, b, sum, spare)

/* sum [8, 16] += a [8, 16] b [16, 16]: work-item l has column l of a and of sum, and of b column l
 * in pairs of rows. */
INLINED float8 dpas_alone(short8 a, int8 b, float8 sum, __local uint4 *spare) {
    const int own = (int)get_local_id(0), first = own / 16 * 16;
    float of_sum[8];
    uint pair[8];
    vstore8(sum, 0, of_sum);
    vstore8(as_uint8(b), 0, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    spare[own] = as_uint4(a);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < 16; k++) {
        __local const ushort *column = (__local const ushort *)(spare + first + k);
        const float2 two = unit_singles(pair[k / 2]);
        for (int r = 0; r < 8; r++)
            of_sum[r] += unit_singles(column[r]).x * (k % 2 ? two.y : two.x);
    }
    return vload8(0, of_sum);
}
