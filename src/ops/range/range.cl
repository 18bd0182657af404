/* SPDX-License-Identifier: Apache-2.0
 * range: extremes of the columns over the rows that are finite. */

/* Which rows are not finite; their number is added to bad_rows. */
__kernel void range_look(GLOBAL(x), int type, long stride, long n, long d, GLOBAL(row_bad),
                         GLOBAL(bad_rows)) {
    __global const uchar *data = VIEW(const uchar, x);
    __global uchar *bad = VIEW(uchar, row_bad);
    long count = 0;
    FOR_MINE(i, n) {
        __global const uchar *row = row_of(data, i, stride, type);
        int finite = 1;
        for (long j = 0; j < d; j++)
            finite &= f64_finite(load(row, j, type)) != 0;
        bad[i] = !finite;
        count += !finite;
    }
    if (count > 0)
        add_long(VIEW(long, bad_rows), count);
}

/* Part p = 0 .. parts - 1 of the rows: least and largest value of each column, [parts, 3, d], and
 * whether a value has a fraction. Items are parts * d, columns side by side. Adding +0 turns -0
 * into +0, so that equal extremes are the same bits whichever row came first. */
__kernel void range_parts(GLOBAL(x), int type, long stride, long n, long d, GLOBAL(row_bad),
                          long parts, GLOBAL(found)) {
    __global const uchar *data = VIEW(const uchar, x);
    __global const uchar *bad = VIEW(const uchar, row_bad);
    FOR_MINE(item, parts * d) {
        const long p = item / d, j = item % d;
        __global f64 *part = VIEW(f64, found) + p * 3 * d;
        f64 least = f64_of(INFINITY), most = f64_of(-INFINITY), fraction = f64_of(0);
        for (long i = n * p / parts; i < n * (p + 1) / parts; i++) {
            const f64 v = f64_add(load(row_of(data, i, stride, type), j, type), f64_of(0));
            if (bad[i])
                continue;
            least = f64_min(least, v);
            most = f64_max(most, v);
            fraction = f64_equal(v, f64_rint(v)) ? fraction : f64_of(1);
        }
        part[j] = least;
        part[d + j] = most;
        part[2 * d + j] = fraction;
    }
}

__kernel void range_join(GLOBAL(found), long parts, long d, GLOBAL(min), GLOBAL(max),
                         GLOBAL(whole)) {
    __global const f64 *part = VIEW(const f64, found);
    FOR_MINE(j, d) {
        f64 least = VIEW(f64, min)[j], most = VIEW(f64, max)[j], fraction = f64_of(0);
        for (long p = 0; p < parts; p++) {
            least = f64_min(least, part[p * 3 * d + j]);
            most = f64_max(most, part[p * 3 * d + d + j]);
            fraction = f64_max(fraction, part[p * 3 * d + 2 * d + j]);
        }
        VIEW(f64, min)[j] = least;
        VIEW(f64, max)[j] = most;
        if (f64_less(f64_of(0), fraction))
            *VIEW(uchar, whole) = 0;
    }
}
