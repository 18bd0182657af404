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
            finite &= isfinite(load(row, j, type));
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
        __global double *part = VIEW(double, found) + p * 3 * d;
        double least = INFINITY, most = -INFINITY, fraction = 0;
        for (long i = n * p / parts; i < n * (p + 1) / parts; i++) {
            const double v = load(row_of(data, i, stride, type), j, type) + 0.0;
            if (bad[i])
                continue;
            least = fmin(least, v);
            most = fmax(most, v);
            fraction = v == rint(v) ? fraction : 1;
        }
        part[j] = least;
        part[d + j] = most;
        part[2 * d + j] = fraction;
    }
}

__kernel void range_join(GLOBAL(found), long parts, long d, GLOBAL(min), GLOBAL(max),
                         GLOBAL(whole)) {
    __global const double *part = VIEW(const double, found);
    FOR_MINE(j, d) {
        double least = VIEW(double, min)[j], most = VIEW(double, max)[j], fraction = 0;
        for (long p = 0; p < parts; p++) {
            least = fmin(least, part[p * 3 * d + j]);
            most = fmax(most, part[p * 3 * d + d + j]);
            fraction = fmax(fraction, part[p * 3 * d + 2 * d + j]);
        }
        VIEW(double, min)[j] = least;
        VIEW(double, max)[j] = most;
        if (fraction > 0)
            *VIEW(uchar, whole) = 0;
    }
}
