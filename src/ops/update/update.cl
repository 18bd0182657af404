/* SPDX-License-Identifier: Apache-2.0
 * update: rows move between the sums of their clusters. The sums are integers, so the order of the
 * additions changes nothing. */

#define GROUP 64 /* HF_OPENCL_GROUP */

/* r_i of update.h */
static f64 factor_of(int metric, __global const uchar *row, int type, long d, f64 weight) {
    f64 sum = f64_of(0);
    if (metric != COSINE)
        return weight;
    for (long j = 0; j < d; j++) {
        const f64 v = load(row, j, type);
        sum = add_product(sum, v, v);
    }
    return f64_less(f64_of(0), sum) ? f64_div(weight, f64_sqrt(sum)) : f64_of(0);
}

/* What becomes of the sums, counts and weights of a call, or of a part of it. */
struct sums {
    long k, d;
    int limbs, own; /* own: no other work-item adds to them */
    f64 scale, weight_mult;
    __global const f64 *mult;
    __global long *sum, *count, *weight;
};

static void add(const struct sums *s, __global long *p, long v) {
    if (s->own)
        *p += v;
    else
        add_long(p, v);
}

/* 8 features from j on, of sums that no other work-item adds to. */
static void move_8(const struct sums *s, __global const uchar *row, int type, f64 factor,
                   int from, int to, long j) {
    long8 q[2];
    const f64x8 v = f64x8_mul(load_8(row, j, type), f64x8_all(factor));
    limbs_of_8(v, f64x8_load(s->mult + j), s->scale, q);
    for (int l = 0; l < s->limbs; l++) {
        __global long *sum = s->sum + l * s->k * s->d + j;
        if (from >= 0)
            vstore8(vload8(0, sum + from * s->d) - q[l], 0, sum + from * s->d);
        if (to >= 0)
            vstore8(vload8(0, sum + to * s->d) + q[l], 0, sum + to * s->d);
    }
}

/* Features begin, begin + step, ... */
static void move_features(const struct sums *s, __global const uchar *row, int type, f64 factor,
                          int from, int to, long begin, long step) {
    for (long j = begin; j < s->d; j += step) {
        const long2 q = limbs_of(f64_mul(load(row, j, type), factor), s->mult[j], s->scale);
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

static void move_count(const struct sums *s, f64 weight, int from, int to) {
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

/* Rows and where they move: from old[i], -1 without, to now[i]. */
struct moves {
    __global const uchar *data;
    int type, metric;
    long stride;
    __global const f64 *weight;
    __global const int *old, *now;
    long k;
};

/* Does row i move? A label of no cluster, which a fault in memory left, addresses nothing. */
static int is_move(const struct moves *m, long i, int *from, int *to) {
    *from = m->old ? m->old[i] : -1;
    *to = m->now[i];
    return *from != *to && *from >= -1 && *from < m->k && *to >= -1 && *to < m->k;
}

#if HF_WIDE
#define AHEAD 32

/* Rows that move are few and anywhere, so that no CPU guesses which is next. */
static void fetch_row(const struct moves *m, long i, long n, long d) {
    int from, to;
    if (i >= n || !is_move(m, i, &from, &to))
        return;
    __global const uchar *row = row_of(m->data, i, m->stride, m->type);
    __global const uchar *end = row_of(row, 1, d, m->type);
    for (; row < end; row += 64)
        FETCH_AHEAD(row);
}

static void move_rows(const struct moves *m, const struct sums *s, long n) {
    FOR_MINE(i, n) {
        int from, to;
        fetch_row(m, i + AHEAD, n, s->d);
        if (!is_move(m, i, &from, &to))
            continue;
        const f64 w = m->weight ? m->weight[i] : f64_of(1);
        __global const uchar *row = row_of(m->data, i, m->stride, m->type);
        const f64 factor = factor_of(m->metric, row, m->type, s->d, w);
        long j = 0;
        for (; s->own && j + 8 <= s->d; j += 8)
            move_8(s, row, m->type, factor, from, to, j);
        move_features(s, row, m->type, factor, from, to, j, 1);
        move_count(s, w, from, to);
    }
}
#else
/* Of GROUP rows those that move are listed; then `width` work-items share one, neighbours of whom
 * have neighbouring features. */
static void move_rows(const struct moves *m, const struct sums *s, long n, __local int *list,
                      __local int *listed) {
    const int own = (int)get_local_id(0), size = (int)get_local_size(0);
    int width = 1, from, to;
    while (width < size && width < s->d)
        width *= 2;
    for (long base = (long)get_group_id(0) * size; base < n;
         base += (long)get_num_groups(0) * size) {
        if (own == 0)
            *listed = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (base + own < n && is_move(m, base + own, &from, &to))
            list[atomic_inc(listed)] = own;
        barrier(CLK_LOCAL_MEM_FENCE);
        const int count = *listed;
        for (int e = own / width; e < count; e += size / width) {
            const long i = base + list[e];
            (void)is_move(m, i, &from, &to);
            const f64 w = m->weight ? m->weight[i] : f64_of(1);
            __global const uchar *row = row_of(m->data, i, m->stride, m->type);
            move_features(s, row, m->type, factor_of(m->metric, row, m->type, s->d, w), from, to,
                          own % width, width);
            if (own % width == 0)
                move_count(s, w, from, to);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
#endif

static struct moves moves_of(__global const uchar *x, int type, long stride, int metric,
                             __global const f64 *weights, __global const int *old_labels,
                             __global const int *labels, long k) {
    struct moves m;
    m.data = x;
    m.type = type;
    m.metric = metric;
    m.stride = stride;
    m.weight = weights;
    m.old = old_labels;
    m.now = labels;
    m.k = k;
    return m;
}

static struct sums sums_of(__global long *sum, __global long *count, __global long *weight,
                           __global const f64 *mult, f64 weight_mult, long k, long d,
                           int limbs, int bits) {
    struct sums s;
    s.k = k;
    s.d = d;
    s.limbs = limbs;
    s.scale = f64_of_long(1L << bits);
    s.weight_mult = weight_mult;
    s.mult = mult;
    s.sum = sum;
    s.count = count;
    s.weight = weight;
    s.own = 0;
    return s;
}

/* own: each work-item has sums of its own in `sum`, `cells` after those of the one before, in the
 * order sum, count, weight. */
__kernel void update_rows(GLOBAL(x), int type, long stride, long n, long d, int metric,
                          GLOBAL(weights), GLOBAL(old_labels), GLOBAL(labels), GLOBAL(sum),
                          GLOBAL(count), GLOBAL(weight), GLOBAL(mult), f64 weight_mult, long k,
                          int limbs, int bits, int own, long cells) {
    struct sums s = sums_of(VIEW(long, sum), VIEW(long, count), VIEW(long, weight),
                            VIEW(const f64, mult), weight_mult, k, d, limbs, bits);
    const struct moves m =
        moves_of(VIEW(const uchar, x), type, stride, metric, VIEW(const f64, weights),
                 VIEW(const int, old_labels), VIEW(const int, labels), k);
    if (own) {
        s.own = 1;
        s.sum += (long)get_global_id(0) * cells;
        s.count = s.sum + limbs * k * d;
        s.weight = s.weight ? s.count + k : s.weight;
    }
#if HF_WIDE
    move_rows(&m, &s, n);
#else
    __local int list[GROUP], listed;
    move_rows(&m, &s, n, list, &listed);
#endif
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
