/* SPDX-License-Identifier: Apache-2.0
 * lloyd: what follows the labels of an iteration, in the order of float64 operations that op means
 * has on the host (ops/means/means_parts.h, base/tree.h). */
#define LANES 32      /* HF_TREE_COLUMNS */
#define CLUSTERS 1024 /* HF_TREE_CLUSTERS */
#define MIN_EXPONENT (-1074)
#define MANTISSA 53

/* hf_scaled() of (sum0 * 2^bits + sum1) * 2^exponent; one limb: bits 0, sum1 0. */
static double scaled(long sum0, long sum1, int bits, int exponent) {
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
    const double v = ldexp((double)low, shift > 0 ? last : exponent);
    return negative ? -v : v;
}

struct sums {
    long k, d;
    int limbs, bits;
    __global const long *sum, *count, *weight; /* weight: NULL means count */
    __global const double *mult, *unit;
    double weight_mult;
};

/* hf_fixed_value() */
static double value_of(const struct sums *s, long sum0, long sum1, double mult) {
    const int up = ilogb(mult);
    return s->limbs == 1 ? scaled(sum0, 0, 0, -up) : scaled(sum0, sum1, s->bits, -up - s->bits);
}

static double sum_at(const struct sums *s, long j, long f) {
    const double unit = s->unit[f];
    const long sum0 = s->sum[j * s->d + f];
    if (unit > 0)
        return (double)sum0 * unit;
    return value_of(s, sum0, s->limbs > 1 ? s->sum[(s->k + j) * s->d + f] : 0, s->mult[f]);
}

static double weight_of(const struct sums *s, long j) {
    if (!s->weight)
        return (double)s->count[j];
    return value_of(s, s->weight[j], s->limbs > 1 ? s->weight[s->k + j] : 0, s->weight_mult);
}

/* To float32 with the last bit set if it is inexact: rounded once more it is as rounded once. */
static float to_odd(double v) {
    const float f = convert_float_rtz(v);
    return (double)f == v || isnan(v) ? f : as_float(as_uint(f) | 1);
}

/* hf_round_to() */
static double rounded(double v, int store) {
    if (store == F32)
        return (double)(float)v;
    if (store == F16) {
        ushort two[1];
        vstore_half_rte(to_odd(v), 0, (half *)two);
        return (double)vload_half(0, (const half *)two);
    }
    if (store == BF16) {
        const uint bits = as_uint(to_odd(v));
        const uint up = isnan(v) ? bits : bits + 0x7FFF + (bits >> 16 & 1);
        return (double)as_float(up & 0xFFFF0000u);
    }
    return v;
}

/* The sum of the terms of all lanes, as hf_tree_fold(), for all work-items. */
static double fold(__local double *lane, int lanes) {
    for (int half_of = lanes / 2; half_of > 0; half_of /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = (int)get_local_id(0); i < half_of; i += (int)get_local_size(0))
            lane[i] = lane[i] + lane[i + half_of];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const double v = lane[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return v;
}

struct centers {
    int metric, type, store; /* struct hf_center_rule */
    __global const double *shift;
    __global const uchar *now;
    __global uchar *next;
};

/* What the sum of cluster j is divided by; 0 or less: its centroid stays. */
static double divisor_of(const struct sums *s, long j, int metric, double weight,
                         __local double *lane) {
    for (int l = (int)get_local_id(0); l < LANES; l += (int)get_local_size(0)) {
        double sum = 0;
        for (long f = l; metric == COSINE && f < s->d; f += LANES) {
            const double v = sum_at(s, j, f);
            sum += v * v;
        }
        lane[l] = sum;
    }
    const double square = fold(lane, LANES);
    return weight > 0 && metric == COSINE ? sqrt(square) : weight;
}

/* Lane l of cluster j: its parts of the inertia and of the squared move, its columns of next. */
static void lane_of(const struct sums *s, const struct centers *c, long j, int l, double weight,
                    double divisor, __local double *part, __local double *squares,
                    __local double *moved) {
    double sum_part = 0, sum_square = 0, sum_moved = 0;
    for (long f = l; f < s->d; f += LANES) {
        const double sum = sum_at(s, j, f), before = load(c->now, j * s->d + f, c->type);
        double after = before;
        if (c->metric == EUCLIDEAN) {
            const double shift = c->shift[f], center = before - shift;
            sum_part += center * (weight * center - 2 * (sum - weight * shift));
        } else {
            sum_part += sum * before;
            sum_square += before * before;
        }
        if (divisor > 0) {
            after = rounded(sum / divisor, c->store);
            after = c->type == F64 ? after : (double)(float)after;
        }
        if (c->type == F64)
            ((__global double *)c->next)[j * s->d + f] = after;
        else
            ((__global float *)c->next)[j * s->d + f] = (float)after;
        const double way = after - before;
        sum_moved += way * way;
    }
    part[l] = sum_part;
    squares[l] = sum_square;
    moved[l] = sum_moved;
}

/* A group a cluster: its centroid, and its parts of inertia and shift, [k] each. */
__kernel void lloyd_clusters(GLOBAL(sum), GLOBAL(count), GLOBAL(weight), GLOBAL(mult),
                             GLOBAL(unit), double weight_mult, long k, long d, int limbs, int bits,
                             int metric, int type, int store, GLOBAL(shift), GLOBAL(now),
                             GLOBAL(next), GLOBAL(score), GLOBAL(moves)) {
    __local double part[LANES], squares[LANES], moved[LANES];
    const struct sums s = {k,
                           d,
                           limbs,
                           bits,
                           VIEW(const long, sum),
                           VIEW(const long, count),
                           VIEW(const long, weight),
                           VIEW(const double, mult),
                           VIEW(const double, unit),
                           weight_mult};
    const struct centers c = {metric, type, store, VIEW(const double, shift),
                              VIEW(const uchar, now), VIEW(uchar, next)};
    const long j = get_group_id(0);
    const double heavy = weight_of(&s, j), divisor = divisor_of(&s, j, metric, heavy, part);
    for (int l = (int)get_local_id(0); l < LANES; l += (int)get_local_size(0))
        lane_of(&s, &c, j, l, heavy, divisor, part, squares, moved);
    const double own = fold(part, LANES), square = fold(squares, LANES), way = fold(moved, LANES);
    if (get_local_id(0) > 0)
        return;
    const double product = metric == DOT  ? -own
                           : square > 0 ? heavy - own / sqrt(square)
                                        : heavy;
    VIEW(double, score)[j] = heavy > 0 ? (metric == EUCLIDEAN ? own : product) : 0;
    VIEW(double, moves)[j] = way;
}

/* One group: what the host asks after an iteration, struct told of lloyd_opencl.c. */
__kernel void lloyd_total(GLOBAL(count), GLOBAL(weight), double weight_mult, long k,
                          int limbs, int bits, GLOBAL(score), GLOBAL(moves), GLOBAL(told)) {
    __local double lane[CLUSTERS];
    struct sums s;
    s.k = k;
    s.limbs = limbs;
    s.bits = bits;
    s.count = VIEW(const long, count);
    s.weight = VIEW(const long, weight);
    s.weight_mult = weight_mult;
    __global double *out = VIEW(double, told);
    for (int which = 0; which < 2; which++) {
        __global const double *from = which == 0 ? VIEW(const double, score)
                                                 : VIEW(const double, moves);
        for (int l = (int)get_local_id(0); l < CLUSTERS; l += (int)get_local_size(0)) {
            double v = 0;
            for (long j = l; j < k; j += CLUSTERS)
                v += from[j];
            lane[l] = v;
        }
        const double all = fold(lane, CLUSTERS);
        if (get_local_id(0) == 0)
            out[which] = all;
    }
    long rows = 0, empty = 0, negative = 0;
    for (long j = get_local_id(0); j < k; j += get_local_size(0)) {
        rows += s.count[j];
        empty += weight_of(&s, j) <= 0;
        negative += s.count[j] < 0;
    }
    add_long(VIEW(long, told) + 2, rows);
    add_long(VIEW(long, told) + 3, empty);
    add_long(VIEW(long, told) + 4, negative);
}
