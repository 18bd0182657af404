/* SPDX-License-Identifier: Apache-2.0
 * rowhash: what op update would add for a row, each word times a factor of its own. It shares no
 * code with update.cl, so that a fault of one is seen by the other. */

__kernel void rowhash_rows(GLOBAL(x), int type, long stride, long n, long d, int metric,
                           GLOBAL(weights), GLOBAL(mult), double weight_mult, int limbs, int bits,
                           int weighs, GLOBAL(factor), GLOBAL(hash)) {
    __global const double *weight = VIEW(const double, weights);
    __global const double *scale = VIEW(const double, mult);
    __global const ulong *times = VIEW(const ulong, factor);
    const double unit = (double)(1L << bits);
    const long upper = limbs > 1 ? d + 1 : 0;
    FOR_MINE(i, n) {
        __global const uchar *row = row_of(VIEW(const uchar, x), i, stride, type);
        const double w = weight ? weight[i] : 1;
        double share = w;
        if (metric == COSINE) {
            const double norm = norm_of(row, type, d);
            share = norm > 0 ? w / norm : 0;
        }
        ulong sum = 0;
        for (long j = 0; j < d; j++) {
            const long2 q = limbs_of(load(row, j, type) * share, scale[j], unit);
            sum += times[j] * (ulong)q.x;
            if (upper > 0)
                sum += times[upper + j] * (ulong)q.y;
        }
        if (weighs) {
            const long2 q = limbs_of(w, weight_mult, unit);
            sum += times[d] * (ulong)q.x;
            if (upper > 0)
                sum += times[upper + d] * (ulong)q.y;
        }
        VIEW(ulong, hash)[i] = sum;
    }
}
