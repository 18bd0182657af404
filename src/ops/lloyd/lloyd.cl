/* SPDX-License-Identifier: Apache-2.0
 * lloyd: what follows the labels of an iteration, in the order of float64 operations that op means
 * has on the host (ops/means/means_parts.h, base/tree.h). */
#define LANES 32      /* HF_TREE_COLUMNS */
#define CLUSTERS 1024 /* HF_TREE_CLUSTERS */
#define MIN_EXPONENT (-1074)
#define MANTISSA 53

/* hf_scaled() of (sum0 * 2^bits + sum1) * 2^exponent; one limb: bits 0, sum1 0. */
static f64 scaled(long sum0, long sum1, int bits, int exponent) {
    ulong low = (ulong)sum0 << bits;
    ulong high = (ulong)(bits > 0 ? sum0 >> (64 - bits) : sum0 >> 63);
    const ulong with = low + (ulong)sum1;
    high += (ulong)(sum1 >> 63) + (with < low);
    low = with;
    const int negative = (long)high < 0;
    if (negative) {
        low = -low;
        high = ~high + (low == 0);
    }
    const int length = high != 0 ? 128 - (int)clz(high) : 64 - (int)clz(low);
    const int last = max(length - MANTISSA + exponent, MIN_EXPONENT), shift = last - exponent;
    if (shift > 127) {
        low = 0;
    } else if (shift > 0) { /* to nearest, ties to even */
        const int far = shift > 64; /* the last bit of the result is in the upper half */
        const ulong rest_high = far ? high & ((1UL << (shift - 64)) - 1) : 0;
        const ulong rest_low = shift >= 64 ? low : low & ((1UL << shift) - 1);
        const ulong half_high = far ? 1UL << (shift - 65) : 0;
        const ulong half_low = far ? 0 : 1UL << (shift - 1);
        const ulong q = far         ? high >> (shift - 64)
                        : shift == 64 ? high
                                      : low >> shift | high << (64 - shift);
        const int above =
            rest_high > half_high || (rest_high == half_high && rest_low > half_low);
        const int even = rest_high == half_high && rest_low == half_low;
        low = q + (above || (even && (q & 1)));
    }
    const f64 v = f64_ldexp(f64_of_ulong(low), shift > 0 ? last : exponent);
    return negative ? f64_neg(v) : v;
}

struct sums {
    long k, d;
    int limbs, bits;
    __global const long *sum, *count, *weight; /* weight: NULL means count */
    __global const f64 *mult, *unit;
    f64 weight_mult;
};

/* hf_fixed_value() */
static f64 value_of(const struct sums *s, long sum0, long sum1, f64 mult) {
    const int up = f64_ilogb(mult);
    return s->limbs == 1 ? scaled(sum0, 0, 0, -up) : scaled(sum0, sum1, s->bits, -up - s->bits);
}

static f64 sum_at(const struct sums *s, long j, long f) {
    const f64 unit = s->unit[f];
    const long sum0 = s->sum[j * s->d + f];
    if (is_above_zero(unit))
        return f64_mul(f64_of_long(sum0), unit);
    return value_of(s, sum0, s->limbs > 1 ? s->sum[(s->k + j) * s->d + f] : 0, s->mult[f]);
}

static f64 weight_of(const struct sums *s, long j) {
    if (!s->weight)
        return f64_of_long(s->count[j]);
    return value_of(s, s->weight[j], s->limbs > 1 ? s->weight[s->k + j] : 0, s->weight_mult);
}

/* To float32 with the last bit set if it is inexact: rounded once more it is as rounded once. */
static float to_odd(f64 v) {
    const float f = f64_to_float_rtz(v);
    return f64_equal(f64_of(f), v) || isnan(f) ? f : as_float(as_uint(f) | 1);
}

/* hf_round_to() */
static f64 rounded(f64 v, int store) {
    if (store == F32)
        return f64_of(f64_to_float(v));
    if (store == F16) {
        ushort two[1];
        vstore_half_rte(to_odd(v), 0, (half *)two);
        return f64_of(vload_half(0, (const half *)two));
    }
    if (store == BF16) {
        const float odd = to_odd(v);
        const uint bits = as_uint(odd);
        const uint up = isnan(odd) ? bits : bits + 0x7FFF + (bits >> 16 & 1);
        return f64_of(as_float(up & 0xFFFF0000u));
    }
    return v;
}

/* The sum of the terms of all lanes, as hf_tree_fold(), for all work-items. */
static f64 fold(__local f64 *lane, int lanes) {
    for (int half_of = lanes / 2; half_of > 0; half_of /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = (int)get_local_id(0); i < half_of; i += (int)get_local_size(0))
            lane[i] = f64_add(lane[i], lane[i + half_of]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const f64 v = lane[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return v;
}

struct centers {
    int metric, type, store; /* struct hf_center_rule */
    __global const f64 *shift;
    __global const uchar *now;
    __global uchar *next;
};

/* What the sum of cluster j is divided by; 0 or less: its centroid stays. */
static f64 divisor_of(const struct sums *s, long j, int metric, f64 weight,
                         __local f64 *lane) {
    for (int l = (int)get_local_id(0); l < LANES; l += (int)get_local_size(0)) {
        f64 sum = f64_of(0);
        for (long f = l; metric == COSINE && f < s->d; f += LANES) {
            const f64 v = sum_at(s, j, f);
            sum = add_product(sum, v, v);
        }
        lane[l] = sum;
    }
    const f64 square = fold(lane, LANES);
    return is_above_zero(weight) && metric == COSINE ? f64_sqrt(square) : weight;
}

/* Lane l of cluster j: its parts of the inertia and of the squared move, its columns of next. */
static void lane_of(const struct sums *s, const struct centers *c, long j, int l, f64 weight,
                    f64 divisor, __local f64 *part, __local f64 *squares,
                    __local f64 *moved) {
    f64 sum_part = f64_of(0), sum_square = sum_part, sum_moved = sum_part;
    for (long f = l; f < s->d; f += LANES) {
        const f64 sum = sum_at(s, j, f), before = load(c->now, j * s->d + f, c->type);
        f64 after = before;
        if (c->metric == EUCLIDEAN) {
            const f64 shift = c->shift[f], center = f64_sub(before, shift);
            const f64 own = f64_sub(sum, f64_mul(weight, shift));
            const f64 rest = f64_sub(f64_mul(weight, center), f64_add(own, own));
            sum_part = add_product(sum_part, center, rest);
        } else {
            sum_part = add_product(sum_part, sum, before);
            sum_square = add_product(sum_square, before, before);
        }
        if (is_above_zero(divisor)) {
            after = rounded(f64_div(sum, divisor), c->store);
            after = c->type == F64 ? after : rounded(after, F32);
        }
        if (c->type == F64)
            ((__global f64 *)c->next)[j * s->d + f] = after;
        else
            ((__global float *)c->next)[j * s->d + f] = f64_to_float(after);
        const f64 way = f64_sub(after, before);
        sum_moved = add_product(sum_moved, way, way);
    }
    part[l] = sum_part;
    squares[l] = sum_square;
    moved[l] = sum_moved;
}

/* A group a cluster: its centroid, and its parts of inertia and shift, [k] each. */
__kernel void lloyd_clusters(GLOBAL(sum), GLOBAL(count), GLOBAL(weight), GLOBAL(mult),
                             GLOBAL(unit), f64 weight_mult, long k, long d, int limbs, int bits,
                             int metric, int type, int store, GLOBAL(shift), GLOBAL(now),
                             GLOBAL(next), GLOBAL(score), GLOBAL(moves)) {
    __local f64 part[LANES], squares[LANES], moved[LANES];
    const struct sums s = {k,
                           d,
                           limbs,
                           bits,
                           VIEW(const long, sum),
                           VIEW(const long, count),
                           VIEW(const long, weight),
                           VIEW(const f64, mult),
                           VIEW(const f64, unit),
                           weight_mult};
    const struct centers c = {metric, type, store, VIEW(const f64, shift),
                              VIEW(const uchar, now), VIEW(uchar, next)};
    const long j = get_group_id(0);
    const f64 heavy = weight_of(&s, j), divisor = divisor_of(&s, j, metric, heavy, part);
    for (int l = (int)get_local_id(0); l < LANES; l += (int)get_local_size(0))
        lane_of(&s, &c, j, l, heavy, divisor, part, squares, moved);
    const f64 own = fold(part, LANES), square = fold(squares, LANES), way = fold(moved, LANES);
    if (get_local_id(0) > 0)
        return;
    f64 score_of = own;
    if (metric == DOT)
        score_of = f64_neg(own);
    else if (metric == COSINE && is_above_zero(square))
        score_of = f64_sub(heavy, f64_div(own, f64_sqrt(square)));
    else if (metric == COSINE)
        score_of = heavy;
    VIEW(f64, score)[j] = is_above_zero(heavy) ? score_of : f64_of(0);
    VIEW(f64, moves)[j] = way;
}

/* One group: what the host asks after an iteration, struct told of lloyd_opencl.c; that of the next
 * one, of so many words, becomes 0. */
__kernel void lloyd_total(GLOBAL(count), GLOBAL(weight), f64 weight_mult, long k,
                          int limbs, int bits, GLOBAL(score), GLOBAL(moves), GLOBAL(told),
                          GLOBAL(next), int words) {
    __local f64 lane[CLUSTERS];
    struct sums s;
    s.k = k;
    s.limbs = limbs;
    s.bits = bits;
    s.count = VIEW(const long, count);
    s.weight = VIEW(const long, weight);
    s.weight_mult = weight_mult;
    __global f64 *out = VIEW(f64, told);
    for (int which = 0; which < 2; which++) {
        __global const f64 *from = which == 0 ? VIEW(const f64, score)
                                                 : VIEW(const f64, moves);
        for (int l = (int)get_local_id(0); l < CLUSTERS; l += (int)get_local_size(0)) {
            f64 v = f64_of(0);
            for (long j = l; j < k; j += CLUSTERS)
                v = f64_add(v, from[j]);
            lane[l] = v;
        }
        const f64 all = fold(lane, CLUSTERS);
        if (get_local_id(0) == 0)
            out[which] = all;
    }
    for (int i = (int)get_local_id(0); i < words; i += (int)get_local_size(0))
        VIEW(long, next)[i] = 0;
    long rows = 0, empty = 0, negative = 0;
    for (long j = get_local_id(0); j < k; j += get_local_size(0)) {
        rows += s.count[j];
        empty += !is_above_zero(weight_of(&s, j));
        negative += s.count[j] < 0;
    }
    add_long(VIEW(long, told) + 2, rows);
    add_long(VIEW(long, told) + 3, empty);
    add_long(VIEW(long, told) + 4, negative);
}
