/* SPDX-License-Identifier: Apache-2.0
 * In the place of a matrix unit: the same products by the work-items themselves, one warp a group.
 * For tests of matrix.cl on devices without a unit. */
#define UNIT_SHARED UNIT_ROWS

INLINED float unit_dot(uint4 a, uint4 b) {
    float2 sum = 0;
    sum += unit_singles(a.x) * unit_singles(b.x);
    sum += unit_singles(a.y) * unit_singles(b.y);
    sum += unit_singles(a.z) * unit_singles(b.z);
    sum += unit_singles(a.w) * unit_singles(b.w);
    return sum.x + sum.y;
}

INLINED void unit_multiply(float score[MT][STRIP][4], __local const uint4 *shared,
                          uint x[MT][PARTS][BLOCKS][8], int part,
                          __local const uint4 *centroids) {
    const int lane = (int)get_local_id(0);
    for (int i = 0; i < MT * STRIP * 4; i++) {
        const int m = i / (STRIP * 4), s = i / 4 % STRIP, e = i % 4;
        const int row = (part * MT * 16 + m * 16 + e / 2 * 8 + lane / 4) * BLOCKS * 4;
        float sum = score[m][s][e];
        for (int b = 0; b < BLOCKS; b++)
            for (int q = 0; q < 4; q++)
                sum += unit_dot(shared[row + b * 4 + q],
                                centroids[(s * PARTS * BLOCKS + b) * 32 +
                                          (lane % 4 * 2 + e % 2) * 4 + q]);
        score[m][s][e] = sum;
    }
}
