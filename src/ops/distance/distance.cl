/* SPDX-License-Identifier: Apache-2.0
 * distance: reference distances of rows to all centroids, 8 at a time. */

__kernel void distance_rows(GLOBAL(x), int type, long stride, GLOBAL(panels), GLOBAL(norms), long n,
                            long k, long d, int metric, int root, GLOBAL(out)) {
    __global const uchar *data = VIEW(const uchar, x);
    __global f64 *distance_of = VIEW(f64, out);
    const long groups = (k + 7) / 8;
    FOR_MINE(i, n * groups) {
        const long at = i / groups, g = i % groups;
        __global const uchar *row = row_of(data, at, stride, type);
        const f64 norm = metric == COSINE ? norm_of(row, type, d) : f64_of(0);
        const f64x8 v = distances8(metric, row, type, norm, VIEW(const f64, panels) + g * 8 * d,
                                   VIEW(const f64, norms) + g * 8, d);
        f64 own[8];
        f64x8_store(root ? f64x8_sqrt(v) : v, own);
        for (int l = 0; l < 8 && g * 8 + l < k; l++)
            distance_of[at * k + g * 8 + l] = own[l];
    }
}
