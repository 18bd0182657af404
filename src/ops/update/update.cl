/* SPDX-License-Identifier: Apache-2.0
 * update: rows move between the sums of their clusters. The sums are integers, so the order of the
 * additions changes nothing. */

#define GROUP 64 /* HF_OPENCL_GROUP */
#define ROWS 256         /* of a group at a time */
#define AT_ONCE 8
#define MOST_SORTED 1024 /* clusters; update_opencl.c knows these three */
#define SORT_GROUP 256

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

/* Rows of a group that move, in the order of the clusters that they leave or come to, so that those
 * of a cluster are added up before they meet others in memory. */
struct sorted {
    __local int *end;       /* [k + 1] of the entries of each cluster, */
    __local int *net;       /* [k + 1] rows that come to it less those that leave */
    __local int *entry;     /* [2 ROWS] row * 2, or + 1 if it leaves */
    __local f64 *factor; /* [ROWS] of rows that move */
    __local int *part;      /* [SORT_GROUP] */
};

/* Counts become their running sums. */
static void add_up(__local int *count, long size_of, __local int *part) {
    const int own = (int)get_local_id(0), size = (int)get_local_size(0);
    const long each = (size_of + size - 1) / size;
    const long begin = min(own * each, size_of), end = min(begin + each, size_of);
    int sum = 0;
    for (long j = begin; j < end; j++)
        sum += count[j];
    part[own] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 1; step < size; step *= 2) {
        const int before = own >= step ? part[own - step] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        part[own] += before;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sum = part[own] - sum;
    for (long j = begin; j < end; j++)
        count[j] = sum += count[j];
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Sort what becomes of rows [base, base + count), by counting; how many entries there are. Labels
 * are read once: what a fault in memory makes of them meanwhile addresses nothing. */
static int sort_moves(const struct moves *m, long d, long base, int count,
                      const struct sorted *t) {
    const int own = (int)get_local_id(0);
    int from[ROWS / SORT_GROUP], to[ROWS / SORT_GROUP];
    barrier(CLK_LOCAL_MEM_FENCE); /* nobody needs the last ones any more */
    for (int j = own; j <= m->k; j += SORT_GROUP)
        t->end[j] = t->net[j] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int e = 0; e < ROWS / SORT_GROUP; e++) {
        const int i = e * SORT_GROUP + own;
        if (i >= count || !is_move(m, base + i, &from[e], &to[e])) {
            from[e] = to[e] = -1;
            continue;
        }
        if (from[e] >= 0) {
            (void)atomic_inc(t->end + from[e] + 1);
            (void)atomic_dec(t->net + from[e]);
        }
        if (to[e] >= 0) {
            (void)atomic_inc(t->end + to[e] + 1);
            (void)atomic_inc(t->net + to[e]);
        }
        t->factor[i] = factor_of(m->metric, row_of(m->data, base + i, m->stride, m->type), m->type,
                                 d, m->weight ? m->weight[base + i] : f64_of(1));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    add_up(t->end, m->k + 1, t->part);
#pragma unroll
    for (int e = 0; e < ROWS / SORT_GROUP; e++) { /* from the beginning of a cluster to its end */
        if (from[e] >= 0)
            t->entry[atomic_inc(t->end + from[e])] = (e * SORT_GROUP + own) * 2 + 1;
        if (to[e] >= 0)
            t->entry[atomic_inc(t->end + to[e])] = (e * SORT_GROUP + own) * 2;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return t->end[m->k]; /* which counted nothing */
}

/* Column j of entries [e, end). */
static void add_column(const struct moves *m, const struct sums *s, long base,
                       const struct sorted *t, int e, int end, long j) {
    const f64 mult = s->mult[j];
    for (long cluster = 0; e < end; cluster++) {
        const int stop = min(end, t->end[cluster]);
        long first = 0, second = 0;
        if (e >= stop)
            continue;
        while (e < stop) { /* loads of several rows at once: a work-item waits for little else */
            f64 v[AT_ONCE];
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                const int i = t->entry[min(e + u, stop - 1)] / 2;
                v[u] = load(row_of(m->data, base + i, m->stride, m->type), j, m->type);
            }
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                const int entry = t->entry[min(e + u, stop - 1)];
                const long2 q = limbs_of(f64_mul(v[u], t->factor[entry / 2]), mult, s->scale);
                const long sign = e + u >= stop ? 0 : entry & 1 ? -1 : 1;
                first += sign * q.x;
                second += sign * q.y;
            }
            e += AT_ONCE;
        }
        e = stop;
        add_long(s->sum + cluster * s->d + j, first);
        if (s->limbs > 1)
            add_long(s->sum + (s->k + cluster) * s->d + j, second);
    }
}

/* ROWS rows a group at a time. `width` work-items, neighbours of whom have neighbouring columns,
 * share a part of the entries. */
static void move_sorted(const struct moves *m, const struct sums *s, long n,
                        const struct sorted *t) {
    const int own = (int)get_local_id(0), size = (int)get_local_size(0);
    int width = 1, from, to;
    while (width < size && width < s->d)
        width *= 2;
    const int parts = size / width, part = own / width;
    for (long base = (long)get_group_id(0) * ROWS; base < n;
         base += (long)get_num_groups(0) * ROWS) {
        const int count = (int)min((long)ROWS, n - base);
        const int all = sort_moves(m, s->d, base, count, t);
        for (long j = own % width; j < s->d; j += width)
            add_column(m, s, base, t, all * part / parts, all * (part + 1) / parts, j);
        for (int i = own; m->weight && i < count; i += size)
            if (is_move(m, base + i, &from, &to))
                move_count(s, m->weight[base + i], from, to);
        for (int j = own; !m->weight && j < m->k; j += size)
            if (t->net[j] != 0)
                add_long(s->count + j, t->net[j]);
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

#if !HF_WIDE
/* The same for up to MOST_SORTED clusters. */
__kernel __attribute__((reqd_work_group_size(SORT_GROUP, 1, 1))) void
update_sorted(GLOBAL(x), int type, long stride, long n, long d, int metric, GLOBAL(weights),
              GLOBAL(old_labels), GLOBAL(labels), GLOBAL(sum), GLOBAL(count), GLOBAL(weight),
              GLOBAL(mult), f64 weight_mult, long k, int limbs, int bits) {
    __local int end[MOST_SORTED + 1], net[MOST_SORTED + 1], entry[2 * ROWS], part[SORT_GROUP];
    __local f64 factor[ROWS];
    const struct sums s = sums_of(VIEW(long, sum), VIEW(long, count), VIEW(long, weight),
                                  VIEW(const f64, mult), weight_mult, k, d, limbs, bits);
    const struct moves m =
        moves_of(VIEW(const uchar, x), type, stride, metric, VIEW(const f64, weights),
                 VIEW(const int, old_labels), VIEW(const int, labels), k);
    const struct sorted t = {end, net, entry, factor, part};
    move_sorted(&m, &s, n, &t);
}
#endif

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
