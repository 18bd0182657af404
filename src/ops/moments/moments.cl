/* SPDX-License-Identifier: Apache-2.0
 * moments: integer sums of x - shift and of its square, for each column. */

/* Part p = 0 .. parts - 1 of the rows; items are parts * d, columns side by side. */
__kernel void moments_parts(GLOBAL(x), int type, long stride, long n, long d, GLOBAL(shift),
                            GLOBAL(mult), GLOBAL(mult_square), int bits, long parts, GLOBAL(sum),
                            GLOBAL(sum_square)) {
    __global const uchar *data = VIEW(const uchar, x);
    const f64 scale = f64_of_long(1L << bits);
    FOR_MINE(item, parts * d) {
        const long p = item / d, j = item % d;
        const f64 off = VIEW(const f64, shift)[j], m = VIEW(const f64, mult)[j];
        const f64 square = VIEW(const f64, mult_square)[j];
        long2 first = 0, second = 0;
        for (long i = n * p / parts; i < n * (p + 1) / parts; i++) {
            const f64 t = f64_sub(load(row_of(data, i, stride, type), j, type), off);
            first += limbs_of(t, m, scale);
            second += limbs_of(f64_mul(t, t), square, scale);
        }
        add_long(VIEW(long, sum) + j, first.x);
        add_long(VIEW(long, sum) + d + j, first.y);
        add_long(VIEW(long, sum_square) + j, second.x);
        add_long(VIEW(long, sum_square) + d + j, second.y);
    }
}
