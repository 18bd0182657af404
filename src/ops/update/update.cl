/* SPDX-License-Identifier: Apache-2.0
 * update: rows move between the sums of their clusters. The sums are integers, so the order of the
 * additions changes nothing. */

/* r_i of update.h */
static double factor_of(int metric, __global const uchar *row, int type, long d, double weight) {
    double sum = 0;
    if (metric != COSINE)
        return weight;
    for (long j = 0; j < d; j++) {
        const double v = load(row, j, type);
        sum += v * v;
    }
    return sum > 0 ? weight / sqrt(sum) : 0;
}

/* What becomes of the sums, counts and weights of a call, or of a part of it. */
struct sums {
    long k, d;
    int limbs, own; /* own: no other work-item adds to them */
    double scale, weight_mult;
    __global const double *mult;
    __global long *sum, *count, *weight;
};

static void add(const struct sums *s, __global long *p, long v) {
    if (s->own)
        *p += v;
    else
        add_long(p, v);
}

/* 8 features from j on, of sums that no other work-item adds to. */
static void move_8(const struct sums *s, __global const uchar *row, int type, double factor,
                   int from, int to, long j) {
    long8 q[2];
    limbs_of_8(load_8(row, j, type) * factor, vload8(0, s->mult + j), s->scale, q);
    for (int l = 0; l < s->limbs; l++) {
        __global long *sum = s->sum + l * s->k * s->d + j;
        if (from >= 0)
            vstore8(vload8(0, sum + from * s->d) - q[l], 0, sum + from * s->d);
        if (to >= 0)
            vstore8(vload8(0, sum + to * s->d) + q[l], 0, sum + to * s->d);
    }
}

static void move_features(const struct sums *s, __global const uchar *row, int type, double factor,
                          int from, int to) {
    long j = 0;
    for (; s->own && j + 8 <= s->d; j += 8)
        move_8(s, row, type, factor, from, to, j);
    for (; j < s->d; j++) {
        const long2 q = limbs_of(load(row, j, type) * factor, s->mult[j], s->scale);
        for (int l = 0; l < s->limbs; l++) {
            const long v = l == 0 ? q.x : q.y;
            __global long *sum = s->sum + l * s->k * s->d + j;
            if (from >= 0)
                add(s, sum + from * s->d, -v);
            if (to >= 0)
                add(s, sum + to * s->d, v);
        }
    }
}

static void move_count(const struct sums *s, double weight, int from, int to) {
    const long2 q = limbs_of(weight, s->weight_mult, s->scale);
    if (from >= 0)
        add(s, s->count + from, -1);
    if (to >= 0)
        add(s, s->count + to, 1);
    for (int l = 0; s->weight && l < s->limbs; l++) {
        const long v = l == 0 ? q.x : q.y;
        if (from >= 0)
            add(s, s->weight + l * s->k + from, -v);
        if (to >= 0)
            add(s, s->weight + l * s->k + to, v);
    }
}

/* own: each work-item has sums of its own in `sum`, `cells` after those of the one before, in the
 * order sum, count, weight. */
__kernel void update_rows(GLOBAL(x), int type, long stride, long n, long d, int metric,
                          GLOBAL(weights), GLOBAL(old_labels), GLOBAL(labels), GLOBAL(sum),
                          GLOBAL(count), GLOBAL(weight), GLOBAL(mult), double weight_mult, long k,
                          int limbs, int bits, int own, long cells) {
    __global const uchar *data = VIEW(const uchar, x);
    __global const double *given = VIEW(const double, weights);
    __global const int *old = VIEW(const int, old_labels);
    __global const int *now = VIEW(const int, labels);
    struct sums s;
    s.k = k;
    s.d = d;
    s.limbs = limbs;
    s.scale = (double)(1L << bits);
    s.weight_mult = weight_mult;
    s.mult = VIEW(const double, mult);
    s.sum = VIEW(long, sum);
    s.count = VIEW(long, count);
    s.weight = VIEW(long, weight);
    s.own = own;
    if (own) {
        s.sum += (long)get_global_id(0) * cells;
        s.count = s.sum + limbs * k * d;
        s.weight = s.weight ? s.count + k : s.weight;
    }
    FOR_MINE(i, n) {
        const int from = old ? old[i] : -1, to = now[i];
        const double w = given ? given[i] : 1;
        /* a label that is no cluster's, which a fault in memory left, addresses nothing */
        if (from == to || from < -1 || from >= k || to < -1 || to >= k)
            continue;
        __global const uchar *row = row_of(data, i, stride, type);
        move_features(&s, row, type, factor_of(metric, row, type, d, w), from, to);
        move_count(&s, w, from, to);
    }
}

/* Add the parts [parts, cells] to the sums. */
__kernel void update_join(GLOBAL(parts), int count_parts, long cells, GLOBAL(sum), long sums,
                          GLOBAL(count), long k, GLOBAL(weight)) {
    __global const long *part = VIEW(const long, parts);
    FOR_MINE(i, cells) {
        long v = 0;
        for (int p = 0; p < count_parts; p++)
            v += part[p * cells + i];
        if (i < sums)
            VIEW(long, sum)[i] += v;
        else if (i < sums + k)
            VIEW(long, count)[i - sums] += v;
        else
            VIEW(long, weight)[i - sums - k] += v;
    }
}
