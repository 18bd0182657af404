/* SPDX-License-Identifier: Apache-2.0
 * update on GPUs, behind update.cl. Rows that move are sorted by cluster first: all of them, by
 * counting. Then each group adds up a piece of the sorted list, so that it adds to each sum in
 * memory once a piece, not once a row. A row is an entry of the cluster that it leaves, and one of
 * the cluster to which it comes. */
#if !HF_WIDE
#define SORT_GROUP 256 /* update_opencl.c knows these two */
#define LEAST_PIECE 64 /* entries */
#define AT_ONCE 8

/* Where entries go. */
struct table {
    __global uint *held;  /* [k] entries of each cluster, 0 before */
    __global uint *first; /* [groups, k] of them: those of the groups before */
    __global uint *start; /* [k + 1] */
    __global uint *order; /* [entries] row * 2, or + 1 if it leaves */
    __global f64 *factor; /* [n] of rows that move; NULL: 1 */
};

/* Rows of this group: [*begin, *end). */
static void own_range(long n, long *begin, long *end) {
    *begin = n * (long)get_group_id(0) / (long)get_num_groups(0);
    *end = n * ((long)get_group_id(0) + 1) / (long)get_num_groups(0);
}

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

/* How many entries each cluster has. bin: [k] */
__kernel __attribute__((reqd_work_group_size(SORT_GROUP, 1, 1))) void
pieces_count(GLOBAL(old_labels), GLOBAL(labels), long n, long k, GLOBAL(held), GLOBAL(first),
             __local int *bin) {
    struct moves m;
    const int own = (int)get_local_id(0);
    __global volatile uint *all = VIEW(uint, held);
    __global uint *before = VIEW(uint, first) + (long)get_group_id(0) * k;
    long begin, end;
    int from, to;
    m.old = VIEW(const int, old_labels);
    m.now = VIEW(const int, labels);
    m.k = k;
    own_range(n, &begin, &end);
    for (long j = own; j < k; j += SORT_GROUP)
        bin[j] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (long i = begin + own; i < end; i += SORT_GROUP) {
        if (!is_move(&m, i, &from, &to))
            continue;
        if (from >= 0)
            (void)atomic_inc(bin + from);
        if (to >= 0)
            (void)atomic_inc(bin + to);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (long j = own; j < k; j += SORT_GROUP)
        before[j] = bin[j] > 0 ? atomic_add(all + j, (uint)bin[j]) : 0;
}

/* A label that a fault changed since the entries were counted must not make them too many. */
static void place(__global uint *order, uint at, uint room, uint entry) {
    if (at < room)
        order[at] = entry;
}

/* Entries to their places. next: [k] */
__kernel __attribute__((reqd_work_group_size(SORT_GROUP, 1, 1))) void
pieces_place(GLOBAL(x), int type, long stride, long n, long d, int metric, GLOBAL(weights),
             GLOBAL(old_labels), GLOBAL(labels), long k, GLOBAL(held), GLOBAL(first), GLOBAL(start),
             GLOBAL(order), GLOBAL(factor), __local int *next) {
    __local int part[SORT_GROUP];
    const int own = (int)get_local_id(0);
    const struct moves m =
        moves_of(VIEW(const uchar, x), type, stride, metric, VIEW(const f64, weights),
                 VIEW(const int, old_labels), VIEW(const int, labels), k);
    __global const uint *all = VIEW(const uint, held);
    __global const uint *before = VIEW(const uint, first) + (long)get_group_id(0) * k;
    __global uint *order_of = VIEW(uint, order), *start_of = VIEW(uint, start);
    __global f64 *factor_at = VIEW(f64, factor);
    const uint room = (uint)(m.old ? 2 * n : n);
    long begin, end;
    int from, to;
    for (long j = own; j < k; j += SORT_GROUP)
        next[j] = (int)all[j];
    barrier(CLK_LOCAL_MEM_FENCE);
    add_up(next, k, part); /* where each ends */
    for (long j = own; j < k; j += SORT_GROUP) {
        if (get_group_id(0) == 0)
            start_of[j + 1] = (uint)next[j];
        next[j] += (int)(before[j] - all[j]);
    }
    if (get_global_id(0) == 0)
        start_of[0] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    own_range(n, &begin, &end);
    for (long i = begin + own; i < end; i += SORT_GROUP) {
        if (!is_move(&m, i, &from, &to))
            continue;
        if (from >= 0)
            place(order_of, (uint)atomic_inc(next + from), room, (uint)i * 2 + 1);
        if (to >= 0)
            place(order_of, (uint)atomic_inc(next + to), room, (uint)i * 2);
        if (factor_at)
            factor_at[i] = factor_of(metric, row_of(m.data, i, stride, type), type, d,
                                     m.weight ? m.weight[i] : f64_of(1));
    }
}

/* The cluster of entry e. */
static long cluster_of(__global const uint *start, long k, uint e) {
    long low = 0, high = k - 1;
    while (low < high) {
        const long middle = (low + high) / 2;
        if (start[middle + 1] > e)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Column j of entries [e, end), which are of n rows. */
static void piece_column(const struct moves *m, const struct sums *s, const struct table *t, long n,
                         uint e, uint end, long j) {
    const f64 mult = s->mult[j];
    for (long cluster = cluster_of(t->start, s->k, e); e < end; cluster++) {
        const uint stop = min(end, t->start[cluster + 1]);
        long first = 0, second = 0, net = 0;
        if (e >= stop)
            continue;
        while (e < stop) { /* loads of several rows at once: a work-item waits for little else */
            f64 v[AT_ONCE];
            uint entry[AT_ONCE];
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++)
                entry[u] = t->order[min(e + u, stop - 1)];
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                const long i = min((long)(entry[u] / 2), n - 1);
                v[u] = load(row_of(m->data, i, m->stride, m->type), j, m->type);
                if (t->factor)
                    v[u] = f64_mul(v[u], t->factor[i]);
            }
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                const long2 q = limbs_of(v[u], mult, s->scale);
                const long sign = e + u >= stop ? 0 : entry[u] & 1 ? -1 : 1;
                first += sign * q.x;
                second += sign * q.y;
                net += sign;
            }
            e += AT_ONCE;
        }
        e = stop;
        add_long(s->sum + cluster * s->d + j, first);
        if (s->limbs > 1)
            add_long(s->sum + (s->k + cluster) * s->d + j, second);
        if (j == 0 && net != 0)
            add_long(s->count + cluster, net);
    }
}

/* The weights of entries [begin, end). */
static void piece_weights(const struct moves *m, const struct sums *s, const struct table *t,
                          long n, uint begin, uint end) {
    for (uint e = begin + (uint)get_local_id(0); e < end; e += SORT_GROUP) {
        const long cluster = cluster_of(t->start, s->k, e);
        const uint entry = t->order[e];
        const f64 weight = m->weight[min((long)(entry / 2), n - 1)];
        const long2 q = limbs_of(weight, s->weight_mult, s->scale);
        for (int l = 0; l < s->limbs; l++) {
            const long v = l == 0 ? q.x : q.y;
            add_long(s->weight + l * s->k + cluster, entry & 1 ? -v : v);
        }
    }
}

/* A piece a group; several parts of it side by side where rows are short. */
__kernel __attribute__((reqd_work_group_size(SORT_GROUP, 1, 1))) void
pieces_add(GLOBAL(x), int type, long stride, long n, long d, int metric, GLOBAL(weights),
           GLOBAL(start), GLOBAL(order), GLOBAL(factor), GLOBAL(sum), GLOBAL(count),
           GLOBAL(weight), GLOBAL(mult), f64 weight_mult, long k, int limbs, int bits) {
    const struct sums s = sums_of(VIEW(long, sum), VIEW(long, count), VIEW(long, weight),
                                  VIEW(const f64, mult), weight_mult, k, d, limbs, bits);
    const struct moves m = moves_of(VIEW(const uchar, x), type, stride, metric,
                                    VIEW(const f64, weights), 0, 0, k);
    const struct table t = {0, 0, VIEW(uint, start), VIEW(uint, order), VIEW(f64, factor)};
    const long own = get_local_id(0), groups = get_num_groups(0), entries = t.start[k];
    const long piece = max((entries + groups - 1) / groups, (long)LEAST_PIECE);
    const long begin = min(piece * (long)get_group_id(0), entries);
    const long size = min(piece, entries - begin);
    const long width = min(d, (long)SORT_GROUP), parts = SORT_GROUP / width, part = own / width;
    for (long j = own % width; part < parts && j < d; j += width)
        piece_column(&m, &s, &t, n, (uint)(begin + size * part / parts),
                     (uint)(begin + size * (part + 1) / parts), j);
    if (m.weight)
        piece_weights(&m, &s, &t, n, (uint)begin, (uint)(begin + size));
}
#endif
