/* SPDX-License-Identifier: Apache-2.0
 * The matrix unit of NVIDIA GPUs from compute capability 8.0 on, through inline PTX: a warp of 32
 * work-items multiplies [16, 16] by [16, 8]. matrix.cl says what the functions do. Work-item q of
 * the four that share a row has columns 8 q to 8 q + 7 of each 32, of rows and centroids alike:
 * the unit adds products up, so their order is free. */
#define WARPS 4 /* groups that are small wait for each other less */
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

INLINED void unit_share(__local uint4 *shared, uint x[MT][PARTS][BLOCKS][8]) {}

INLINED void unit_step(float d[4], const uint a[4], uint b0, uint b1) {
    __asm__("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* A sum takes five times as long as the unit's next product may begin, so products of other sums
 * come in between. */
INLINED void unit_multiply(float score[MT][STRIP][4], __local const uint4 *shared,
                           uint x[MT][PARTS][BLOCKS][8], int part,
                           __local const uint4 *centroids) {
    const int lane = (int)get_local_id(0) & 31;
UNROLL
    for (int b = 0; b < BLOCKS; b++) {
        uint4 c[STRIP];
UNROLL
        for (int s = 0; s < STRIP; s++)
            c[s] = centroids[(s * PARTS * BLOCKS + b) * 32 + lane];
UNROLL
        for (int i = 0; i < STRIP * MT; i++)
            unit_step(score[i % MT][i / MT], x[i % MT][part][b], c[i / MT].x, c[i / MT].y);
UNROLL
        for (int i = 0; i < STRIP * MT; i++)
            unit_step(score[i % MT][i / MT], x[i % MT][part][b] + 4, c[i / MT].z, c[i / MT].w);
    }
}

/* Copies are additions of -0: they go to the pipe that comparisons leave idle. */
INLINED void unit_keep(const float v[CHUNK], float number, float zero, float *best, float *next,
                       float *at, float kept[CHUNK]) {
    float m = v[0];
UNROLL
    for (int i = 1; i < CHUNK; i++)
        m = fmax(m, v[i]);
#if CHUNK == 8
    __asm__("{ .reg .pred p; setp.gt.f32 p, %11, %0;\n"
            "@!p max.f32 %1, %1, %11;\n"
            "@p add.f32 %1, %0, %13;\n"
            "@p add.f32 %0, %11, %13;\n"
            "@p add.f32 %2, %12, %13;\n"
            "@p add.f32 %3, %14, %13;\n"
            "@p add.f32 %4, %15, %13;\n"
            "@p add.f32 %5, %16, %13;\n"
            "@p add.f32 %6, %17, %13;\n"
            "@p add.f32 %7, %18, %13;\n"
            "@p add.f32 %8, %19, %13;\n"
            "@p add.f32 %9, %20, %13;\n"
            "@p add.f32 %10, %21, %13; }"
            : "+f"(*best), "+f"(*next), "+f"(*at), "+f"(kept[0]), "+f"(kept[1]), "+f"(kept[2]),
              "+f"(kept[3]), "+f"(kept[4]), "+f"(kept[5]), "+f"(kept[6]), "+f"(kept[7])
            : "f"(m), "f"(number), "f"(zero), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]),
              "f"(v[4]), "f"(v[5]), "f"(v[6]), "f"(v[7]));
#else
    __asm__("{ .reg .pred p; setp.gt.f32 p, %7, %0;\n"
            "@!p max.f32 %1, %1, %7;\n"
            "@p add.f32 %1, %0, %9;\n"
            "@p add.f32 %0, %7, %9;\n"
            "@p add.f32 %2, %8, %9;\n"
            "@p add.f32 %3, %10, %9;\n"
            "@p add.f32 %4, %11, %9;\n"
            "@p add.f32 %5, %12, %9;\n"
            "@p add.f32 %6, %13, %9; }"
            : "+f"(*best), "+f"(*next), "+f"(*at), "+f"(kept[0]), "+f"(kept[1]), "+f"(kept[2]),
              "+f"(kept[3])
            : "f"(m), "f"(number), "f"(zero), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]));
#endif
}
