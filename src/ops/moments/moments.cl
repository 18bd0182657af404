/* SPDX-License-Identifier: Apache-2.0
 * moments: integer sums of x - shift and of its square, for each column. */

struct moments {
    __global const uchar *data;
    int type;
    long stride, d;
    __global const f64 *shift, *mult, *square;
    f64 scale;
    __global long *sum, *sum_square; /* [2, d] */
};

/* Column j of rows [begin, end). */
static void add_column(const struct moments *m, long begin, long end, long j) {
    const f64 off = m->shift[j], mult = m->mult[j], square = m->square[j];
    long2 first = 0, second = 0;
    for (long i = begin; i < end; i++) {
        const f64 t = f64_sub(load(row_of(m->data, i, m->stride, m->type), j, m->type), off);
        first += limbs_of(t, mult, m->scale);
        second += limbs_of(f64_mul(t, t), square, m->scale);
    }
    add_long(m->sum + j, first.x);
    add_long(m->sum + m->d + j, first.y);
    add_long(m->sum_square + j, second.x);
    add_long(m->sum_square + m->d + j, second.y);
}

#if HF_WIDE
#define STRIP 128 /* rows that stay in the cache until all columns are done */

static void add_8(__global long *to, long8 v) {
    long each[8];
    vstore8(v, 0, each);
    for (int l = 0; l < 8; l++)
        add_long(to + l, each[l]);
}

/* Columns j to j + 7. */
static void add_columns(const struct moments *m, long begin, long end, long j) {
    const f64x8 off = f64x8_load(m->shift + j), mult = f64x8_load(m->mult + j);
    const f64x8 square = f64x8_load(m->square + j);
    long8 first[2] = {0, 0}, second[2] = {0, 0}, limb[2];
    for (long i = begin; i < end; i++) {
        const f64x8 t =
            f64x8_sub(load_8(row_of(m->data, i, m->stride, m->type), j, m->type), off);
        limbs_of_8(t, mult, m->scale, limb);
        first[0] += limb[0];
        first[1] += limb[1];
        limbs_of_8(f64x8_mul(t, t), square, m->scale, limb);
        second[0] += limb[0];
        second[1] += limb[1];
    }
    for (int l = 0; l < 2; l++) {
        add_8(m->sum + l * m->d + j, first[l]);
        add_8(m->sum_square + l * m->d + j, second[l]);
    }
}
#endif

/* Part p = 0 .. parts - 1 of the rows; columns side by side. */
__kernel void moments_parts(GLOBAL(x), int type, long stride, long n, long d, GLOBAL(shift),
                            GLOBAL(mult), GLOBAL(mult_square), int bits, long parts, GLOBAL(sum),
                            GLOBAL(sum_square)) {
    struct moments m;
    m.data = VIEW(const uchar, x);
    m.type = type;
    m.stride = stride;
    m.d = d;
    m.shift = VIEW(const f64, shift);
    m.mult = VIEW(const f64, mult);
    m.square = VIEW(const f64, mult_square);
    m.scale = f64_of_long(1L << bits);
    m.sum = VIEW(long, sum);
    m.sum_square = VIEW(long, sum_square);
#if HF_WIDE
    FOR_MINE(strip, (n + STRIP - 1) / STRIP) {
        const long begin = strip * STRIP, end = min(begin + STRIP, n);
        long j = 0;
        for (; j + 8 <= d; j += 8)
            add_columns(&m, begin, end, j);
        for (; j < d; j++)
            add_column(&m, begin, end, j);
    }
#else
    FOR_MINE(item, parts * d) {
        const long p = item / d;
        add_column(&m, n * p / parts, n * (p + 1) / parts, item % d);
    }
#endif
}
