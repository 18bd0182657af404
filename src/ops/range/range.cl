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

/* Rows and where their extremes go: least and largest value of each column and whether a value has
 * a fraction, [3, d], as float64 of data in float64 and as float of others, which float holds. */
struct look {
    __global const uchar *data, *bad;
    int type;
    long stride, d;
    __global f64 *wide;
    __global float *narrow;
};

/* Adding +0 turns -0 into +0, so that equal extremes are the same bits whichever row came first. */
static void look_single(const struct look *l, long begin, long end, long j) {
    float least = l->narrow[j], most = l->narrow[l->d + j], fraction = l->narrow[2 * l->d + j];
    for (long i = begin; i < end; i++) {
        const float v = load_single(row_of(l->data, i, l->stride, l->type), j, l->type) + 0.0f;
        if (l->bad[i])
            continue;
        least = fmin(least, v);
        most = fmax(most, v);
        fraction = v == rint(v) ? fraction : 1;
    }
    l->narrow[j] = least;
    l->narrow[l->d + j] = most;
    l->narrow[2 * l->d + j] = fraction;
}

static void look_wide(const struct look *l, long begin, long end, long j) {
    f64 least = l->wide[j], most = l->wide[l->d + j], fraction = l->wide[2 * l->d + j];
    for (long i = begin; i < end; i++) {
        const f64 v = f64_add(load(row_of(l->data, i, l->stride, F64), j, F64), f64_of(0));
        if (l->bad[i])
            continue;
        least = f64_min(least, v);
        most = f64_max(most, v);
        fraction = f64_equal(v, f64_rint(v)) ? fraction : f64_of(1);
    }
    l->wide[j] = least;
    l->wide[l->d + j] = most;
    l->wide[2 * l->d + j] = fraction;
}

static void look_column(const struct look *l, long begin, long end, long j) {
    if (l->type == F64)
        look_wide(l, begin, end, j);
    else
        look_single(l, begin, end, j);
}

#if HF_WIDE
#define STRIP 64 /* rows that stay in the cache until all columns are done */

/* 16 columns of float32. */
static void look_16(const struct look *l, long begin, long end, long j) {
    float16 least = vload16(0, l->narrow + j), most = vload16(0, l->narrow + l->d + j);
    int16 whole = 1;
    for (long i = begin; i < end; i++) {
        __global const float *row = (__global const float *)row_of(l->data, i, l->stride, F32);
        const float16 v = vload16(0, row + j) + 0.0f;
        if (l->bad[i])
            continue;
        least = select(least, v, isless(v, least));
        most = select(most, v, isless(most, v));
        whole &= v == rint(v);
    }
    vstore16(least, 0, l->narrow + j);
    vstore16(most, 0, l->narrow + l->d + j);
    const float16 fraction = vload16(0, l->narrow + 2 * l->d + j);
    vstore16(select((float16)1, fraction, whole != 0), 0, l->narrow + 2 * l->d + j);
}

static void look_part(const struct look *l, long begin, long end) {
    for (long first = begin; first < end; first += STRIP) {
        const long last = min(first + STRIP, end);
        long j = 0;
        for (; l->type == F32 && j + 16 <= l->d; j += 16)
            look_16(l, first, last, j);
        for (; j < l->d; j++)
            look_column(l, first, last, j);
    }
}
#endif

static struct look look_of(__global const uchar *data, int type, long stride, long d,
                           __global const uchar *bad, __global f64 *found, long p) {
    struct look l;
    l.data = data;
    l.bad = bad;
    l.type = type;
    l.stride = stride;
    l.d = d;
    l.wide = found + p * 3 * d;
    l.narrow = (__global float *)found + p * 3 * d;
    return l;
}

static void begin_column(const struct look *l, long j) {
    for (int i = 0; i < 3; i++) {
        const float v = i == 0 ? INFINITY : i == 1 ? -INFINITY : 0;
        if (l->type == F64)
            l->wide[i * l->d + j] = f64_of(v);
        else
            l->narrow[i * l->d + j] = v;
    }
}

/* Parts p = 0 .. parts - 1 of the rows, [parts, 3, d]; columns side by side. */
__kernel void range_parts(GLOBAL(x), int type, long stride, long n, long d, GLOBAL(row_bad),
                          long parts, GLOBAL(found)) {
#if HF_WIDE
    FOR_MINE(p, parts) {
        const struct look l = look_of(VIEW(const uchar, x), type, stride, d,
                                      VIEW(const uchar, row_bad), VIEW(f64, found), p);
        for (long j = 0; j < d; j++)
            begin_column(&l, j);
        look_part(&l, n * p / parts, n * (p + 1) / parts);
    }
#else
    FOR_MINE(item, parts * d) {
        const long p = item / d, j = item % d;
        const struct look l = look_of(VIEW(const uchar, x), type, stride, d,
                                      VIEW(const uchar, row_bad), VIEW(f64, found), p);
        begin_column(&l, j);
        look_column(&l, n * p / parts, n * (p + 1) / parts, j);
    }
#endif
}

static f64 found_at(__global const f64 *found, int type, long at) {
    return type == F64 ? found[at] : f64_of(((__global const float *)found)[at]);
}

__kernel void range_join(GLOBAL(found), int type, long parts, long d, GLOBAL(min), GLOBAL(max),
                         GLOBAL(whole)) {
    __global const f64 *part = VIEW(const f64, found);
    FOR_MINE(j, d) {
        f64 least = VIEW(f64, min)[j], most = VIEW(f64, max)[j], fraction = f64_of(0);
        for (long p = 0; p < parts; p++) {
            least = f64_min(least, found_at(part, type, p * 3 * d + j));
            most = f64_max(most, found_at(part, type, p * 3 * d + d + j));
            fraction = f64_max(fraction, found_at(part, type, p * 3 * d + 2 * d + j));
        }
        VIEW(f64, min)[j] = least;
        VIEW(f64, max)[j] = most;
        if (is_above_zero(fraction))
            *VIEW(uchar, whole) = 0;
    }
}
