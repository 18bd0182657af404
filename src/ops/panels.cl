/* SPDX-License-Identifier: Apache-2.0
 * Centroids as float64 in panels of 8, [panels, d, 8], so that a work-item compares a row with 8 at
 * once; |c| of each. Slots behind the last centroid repeat it. */

__kernel void panels_pack(GLOBAL(c), int type, long stride, long k, long d, GLOBAL(panels),
                          GLOBAL(norms)) {
    __global const uchar *centers = VIEW(const uchar, c);
    __global f64 *panel = VIEW(f64, panels);
    const long slots = (k + 7) / 8 * 8;
#if !HF_WIDE /* neighbours write neighbours */
    FOR_MINE(at, slots * d) {
        const long slot = at / (8 * d) * 8 + at % 8;
        panel[at] =
            load(row_of(centers, slot < k ? slot : k - 1, stride, type), at / 8 % d, type);
    }
#endif
    FOR_MINE(slot, slots) {
        __global const uchar *row = row_of(centers, slot < k ? slot : k - 1, stride, type);
#if HF_WIDE
        for (long j = 0; j < d; j++)
            panel[(slot / 8 * d + j) * 8 + slot % 8] = load(row, j, type);
#endif
        VIEW(f64, norms)[slot] = norm_of(row, type, d);
    }
}
