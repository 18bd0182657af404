/* SPDX-License-Identifier: Apache-2.0
 * What units need of work-items where a group is one warp and all rows of it lie in local memory.
 * unit_none.cl and unit_dpas.cl multiply. */
#define UNROLL
#define UNIT_PLACE(centroid, j) ((centroid) * 32 + (j))
#define UNIT_ROWS (PARTS * MT * 16 * BLOCKS * 4) /* pieces of 16 bytes */
#define LARGER(a, b) fmax(a, b)
#define SMALLER(a, b) fmin(a, b)

INLINED uint unit_halves(float a, float b) {
    ushort two[2];
    vstore_half_rte(a, 0, (half *)two);
    vstore_half_rte(b, 1, (half *)two);
    return two[0] | (uint)two[1] << 16;
}

INLINED float2 unit_singles(uint two) {
    const ushort each[2] = {(ushort)two, (ushort)(two >> 16)};
    return vload_half2(0, (const half *)each);
}

INLINED void unit_fetch(__local uint4 *to, __global const uint4 *from) { *to = *from; }

INLINED void unit_arrive(void) {}

/* Rows for all to see: [part][row][block][four of a row] */
INLINED void unit_share(__local uint4 *shared, uint x[MT][PARTS][BLOCKS][8]) {
    const int lane = (int)get_local_id(0);
    for (int part = 0; part < PARTS; part++)
        for (int m = 0; m < MT; m++)
            for (int h = 0; h < 2; h++)
                for (int b = 0; b < BLOCKS; b++)
                    shared[((part * MT * 16 + m * 16 + h * 8 + lane / 4) * BLOCKS + b) * 4 +
                           lane % 4] = (uint4)(x[m][part][b][h], x[m][part][b][2 + h],
                                               x[m][part][b][4 + h], x[m][part][b][6 + h]);
    barrier(CLK_LOCAL_MEM_FENCE);
}

INLINED void unit_keep(const float v[CHUNK], float number, float zero, float *best, float *next,
                       float *at, float kept[CHUNK]) {
    float m = v[0];
    for (int i = 1; i < CHUNK; i++)
        m = fmax(m, v[i]);
    if (m > *best) {
        *next = *best;
        *best = m;
        *at = number;
        for (int i = 0; i < CHUNK; i++)
            kept[i] = v[i];
    } else {
        *next = fmax(*next, m);
    }
}
