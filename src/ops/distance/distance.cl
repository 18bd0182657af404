/* SPDX-License-Identifier: Apache-2.0
 * distance: reference distances of rows to all centroids, 8 at a time. */

__kernel void distance_rows(GLOBAL(x), int type, long stride, GLOBAL(panels), GLOBAL(norms), long n,
                            long k, long d, int metric, int root, GLOBAL(out)) {
    __global const uchar *data = VIEW(const uchar, x);
    __global double *distance_of = VIEW(double, out);
    const long groups = (k + 7) / 8;
    FOR_MINE(i, n * groups) {
        const long at = i / groups, g = i % groups;
        __global const uchar *row = row_of(data, at, stride, type);
        const double norm = metric == COSINE ? norm_of(row, type, d) : 0;
        double8 v = distances8(metric, row, type, norm, VIEW(const double, panels) + g * 8 * d,
                               VIEW(const double, norms) + g * 8, d);
        double own[8];
        vstore8(root ? sqrt(v) : v, 0, own);
        for (int l = 0; l < 8 && g * 8 + l < k; l++)
            distance_of[at * k + g * 8 + l] = own[l];
    }
}
