/* SPDX-License-Identifier: Apache-2.0
 * The matrix unit of NVIDIA GPUs from compute capability 8.0 on, through inline PTX: a warp of 32
 * work-items multiplies [16, 16] by [16, 8]. matrix.cl says what the functions do. Work-item q of
 * the four that share a row has columns 8 q to 8 q + 7 of each 32, of rows and centroids alike:
 * the unit adds products up, so their order is free. */
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

INLINED void unit_arrive(void) {
    __asm__ volatile("cp.async.wait_all;" ::: "memory");
#if STRIP == 8
    __asm__ volatile("//HF fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

INLINED void unit_share(__local uint4 *shared, uint x[MT][PARTS][BLOCKS][8]) {}

#if STRIP == 8
/* Hopper's own instruction, by four warps at once, which the compiler does not know: cl_program.c.
 * It reads centroids from local memory, where two columns of four of the eights lie side by side,
 * and works while the warps go on. */
#define UNIT_PLACE(centroid, j) ((j) % 8 / 2 * 64 + (centroid) * 8 + (j) / 8 * 2 + (j) % 2)

#define WGMMA                                                                                      \
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, " \
    "%10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "   \
    "%28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1, 0; }"
#define FOUR(how, d) how((d)[0]), how((d)[1]), how((d)[2]), how((d)[3])
#define ALL(how, d)                                                                                \
    FOUR(how, (d)[0]), FOUR(how, (d)[1]), FOUR(how, (d)[2]), FOUR(how, (d)[3]),                    \
        FOUR(how, (d)[4]), FOUR(how, (d)[5]), FOUR(how, (d)[6]), FOUR(how, (d)[7])

/* The first step does not read the sums: what wrote to them would have to wait for the unit. */
INLINED void unit_step_first(float d[STRIP][4], const uint a[4], ulong b) {
    __asm__ volatile("//HF { .reg .pred p; setp.ne.u32 p, 0, 0; " WGMMA
                     : ALL("=f", d)
                     : FOUR("r", a), "l"(b));
}

INLINED void unit_step(float d[STRIP][4], const uint a[4], ulong b) {
    __asm__ volatile("//HF { .reg .pred p; setp.eq.u32 p, 0, 0; " WGMMA
                     : ALL("+f", d)
                     : FOUR("r", a), "l"(b));
}

INLINED void unit_start(float score[STRIP][4], uint x[PARTS][BLOCKS][8],
                        __local const uint4 *centroids) {
    const uint place = (uint)(ulong)centroids >> 4 & 0x3FFF; /* in pieces of 16 bytes */
    const ulong apart = (ulong)(BLOCKS * 32) << 32 | 8 << 16; /* centroids, columns */
    __asm__ volatile("//HF wgmma.fence.sync.aligned;" ::: "memory");
    unit_step_first(score, x[0][0], apart | place);
UNROLL
    for (int i = 1; i < BLOCKS * 2; i++)
        unit_step(score, x[0][i / 2] + i % 2 * 4, apart | (place + i * 16));
    __asm__ volatile("//HF wgmma.commit_group.sync.aligned;" ::: "memory");
}

INLINED void unit_wait(float score[STRIP][4], int behind) {
    if (behind == 0)
        __asm__ volatile("//HF wgmma.wait_group.sync.aligned 0;" ::: "memory");
    else
        __asm__ volatile("//HF wgmma.wait_group.sync.aligned 1;" ::: "memory");
UNROLL
    for (int i = 0; i < STRIP * 4; i++) /* is read after this */
        __asm__ volatile("" : "+f"(score[i / 4][i % 4])::"memory");
}
#else
#define UNIT_PLACE(centroid, j) ((centroid) * 32 + (j))

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

#endif

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
