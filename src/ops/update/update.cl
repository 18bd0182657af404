/* SPDX-License-Identifier: Apache-2.0
 * update: rows move between the sums of their clusters. The sums are integers, so the order of the
 * additions changes nothing. */

#define GROUP 64 /* HF_OPENCL_GROUP */

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

/* Features begin, begin + step, ... */
static void move_features(const struct sums *s, __global const uchar *row, int type, double factor,
                          int from, int to, long begin, long step) {
    for (long j = begin; j < s->d; j += step) {
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

/* Rows and where they move: from old[i], -1 without, to now[i]. */
struct moves {
    __global const uchar *data;
    int type, metric;
    long stride;
    __global const double *weight;
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
static void move_rows(const struct moves *m, const struct sums *s, long n) {
    FOR_MINE(i, n) {
        int from, to;
        if (!is_move(m, i, &from, &to))
            continue;
        const double w = m->weight ? m->weight[i] : 1;
        __global const uchar *row = row_of(m->data, i, m->stride, m->type);
        const double factor = factor_of(m->metric, row, m->type, s->d, w);
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
            const double w = m->weight ? m->weight[i] : 1;
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

/* own: each work-item has sums of its own in `sum`, `cells` after those of the one before, in the
 * order sum, count, weight. */
__kernel void update_rows(GLOBAL(x), int type, long stride, long n, long d, int metric,
                          GLOBAL(weights), GLOBAL(old_labels), GLOBAL(labels), GLOBAL(sum),
                          GLOBAL(count), GLOBAL(weight), GLOBAL(mult), double weight_mult, long k,
                          int limbs, int bits, int own, long cells) {
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
    struct moves m;
    m.data = VIEW(const uchar, x);
    m.type = type;
    m.metric = metric;
    m.stride = stride;
    m.weight = VIEW(const double, weights);
    m.old = VIEW(const int, old_labels);
    m.now = VIEW(const int, labels);
    m.k = k;
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
