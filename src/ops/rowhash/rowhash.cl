/* SPDX-License-Identifier: Apache-2.0
 * rowhash: what op update would add for a row, each word times a factor of its own. It shares no
 * code with update.cl, so that a fault of one is seen by the other. */

__kernel void rowhash_rows(GLOBAL(x), int type, long stride, long n, long d, int metric,
                           GLOBAL(weights), GLOBAL(mult), f64 weight_mult, int limbs, int bits,
                           int weighs, GLOBAL(factor), GLOBAL(hash)) {
    __global const f64 *weight = VIEW(const f64, weights);
    __global const f64 *scale = VIEW(const f64, mult);
    __global const ulong *times = VIEW(const ulong, factor);
    const f64 unit = f64_of_long(1L << bits);
    const long upper = limbs > 1 ? d + 1 : 0;
    FOR_MINE(i, n) {
        __global const uchar *row = row_of(VIEW(const uchar, x), i, stride, type);
        const f64 w = weight ? weight[i] : f64_of(1);
        f64 share = w;
        if (metric == COSINE) {
            const f64 norm = norm_of(row, type, d);
            share = f64_less(f64_of(0), norm) ? f64_div(w, norm) : f64_of(0);
        }
        ulong sum = 0;
        for (long j = 0; j < d; j++) {
            const long2 q = limbs_of(f64_mul(load(row, j, type), share), scale[j], unit);
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
