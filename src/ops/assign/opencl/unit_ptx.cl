/* SPDX-License-Identifier: Apache-2.0
 * The matrix unit of NVIDIA GPUs from compute capability 8.0 on, through inline PTX: a warp of 32
 * work-items multiplies [16, 16] by [16, 8]. matrix.cl says what the functions do. Work-item q of
 * the four that share a row has columns 8 q to 8 q + 7 of each 32, of rows and centroids alike:
 * the unit adds products up, so their order is free. */
#define WARPS 8
#define UNIT_SHARED 1
#define UNROLL _Pragma("unroll")
#define LARGER(a, b) fmax(a, b)
#define SMALLER(a, b) fmin(a, b)

INLINED uint unit_halves(float a, float b) {
    uint two;
    __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(b), "f"(a));
    return two;
}

INLINED float2 unit_singles(uint two) {
    float2 v;
    __asm__("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }"
        : "=f"(v.x), "=f"(v.y)
        : "r"(two));
    return v;
}

INLINED void unit_fetch(__local uint4 *to, __global const uint4 *from) {
    __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"l"(to), "l"(from) : "memory");
}

INLINED void unit_arrive(void) { __asm__ volatile("cp.async.wait_all;" ::: "memory"); }

INLINED void unit_share(__local uint4 *shared, uint x[PARTS][MT][2][BLOCKS][4]) {}

INLINED void unit_step(float d[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
    __asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

INLINED void unit_multiply(float score[MT][STRIP][4], __local const uint4 *shared,
                          uint x[PARTS][MT][2][BLOCKS][4], int part,
                          __local const uint4 *centroids) {
    const int lane = (int)get_local_id(0) & 31;
UNROLL
    for (int b = 0; b < BLOCKS; b++)
UNROLL
        for (int s = 0; s < STRIP; s++) {
            const uint4 c = centroids[(s * PARTS * BLOCKS + b) * 32 + lane];
UNROLL
            for (int m = 0; m < MT; m++) {
                unit_step(score[m][s], x[part][m][0][b][0], x[part][m][1][b][0],
                          x[part][m][0][b][1], x[part][m][1][b][1], c.x, c.y);
                unit_step(score[m][s], x[part][m][0][b][2], x[part][m][1][b][2],
                          x[part][m][0][b][3], x[part][m][1][b][3], c.z, c.w);
            }
        }
}
