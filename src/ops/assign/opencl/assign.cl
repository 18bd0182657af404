/* SPDX-License-Identifier: Apache-2.0
 * assign, the parts that no tile has: rows that bounds decide, rows that are compared with all
 * centroids in float64, and what is needed to know of the centroids. */

/* struct hf_assign_stats */
enum { CHANGED, SKIPPED, PARTIAL, RECHECKED, WIDE, PAIRS };

#define UP (1 + 0x1p-22f) /* pays for one rounding of a sum */
#define LOW (1 - 0x1p-22f)

/* Rows that bounds leave open, into list: their number is added to count[0].
 * docs/numerics/bounds.md */
__kernel void assign_skip(GLOBAL(x), int x_type, long x_stride, GLOBAL(c), int c_type,
                          long c_stride, long n, long k, long d, GLOBAL(labels), GLOBAL(upper),
                          GLOBAL(lower), GLOBAL(drift), GLOBAL(half), int most_index, float most,
                          float second, GLOBAL(list), GLOBAL(count), GLOBAL(stats)) {
    __global const int *label_of = VIEW(const int, labels);
    __global const float *drift_of = VIEW(const float, drift);
    __global const float *half_of = VIEW(const float, half);
    long skipped = 0;
    FOR_MINE(i, n) {
        const int label = label_of[i];
        int open = label < 0 || label >= k;
        if (!open) {
            const float moved = drift_of[label];
            const float others = label == most_index ? second : most;
            float up = VIEW(float, upper)[i], low = VIEW(float, lower)[i];
            low = others > 0 ? fmax((low - others) * LOW, 0.0f) : low;
            up = moved > 0 ? (up + moved) * UP : up;
            const float reach = half_of ? fmax(low, half_of[label]) : low;
            if (!(up < reach) && moved > 0) {
                const f64 own = reference_distance(
                    EUCLIDEAN, row_of(VIEW(const uchar, x), i, x_stride, x_type), x_type,
                    row_of(VIEW(const uchar, c), label, c_stride, c_type), c_type, d);
                up = fmin(up, f64_to_float(f64_sqrt(own)) * (1 + 0x1p-20f) + 0x1p-126f);
            }
            open = !(up < reach);
            if (!open) {
                VIEW(float, upper)[i] = up;
                VIEW(float, lower)[i] = low;
            }
        }
        if (open)
            VIEW(int, list)[next_number(VIEW(long, count))] = (int)i;
        skipped += !open;
    }
    if (skipped > 0)
        add_long(VIEW(long, stats) + SKIPPED, skipped);
}

/* The nearest centroids of a row among those seen so far; equal distances: the first. */
struct nearest {
    f64 least, next;
    int label;
};

/* Others of which the nearest two are known. */
static void also(struct nearest *f, f64 least, f64 next, int label) {
    const int same = f64_equal(least, f->least) && label < f->label;
    f->next = f64_min(f64_min(f->next, next), f64_max(f->least, least));
    if (f64_less(least, f->least) || same)
        f->label = label;
    f->least = f64_min(f->least, least);
}

/* Panels [from, end) by steps of `step`, eight centroids each. */
static void look(int metric, __global const uchar *row, int type, __global const f64 *panels,
                 __global const f64 *norms, long k, long d, long from, long step,
                 struct nearest *found) {
    const f64 norm = metric == COSINE ? norm_of(row, type, d) : f64_of(0);
    struct nearest f = {f64_of(INFINITY), f64_of(INFINITY), 0};
    for (long g = from; g < (k + 7) / 8; g += step) {
        f64 own[8];
        f64x8_store(distances8(metric, row, type, norm, panels + g * 8 * d, norms + g * 8, d), own);
        for (int l = 0; l < 8 && g * 8 + l < k; l++) {
            if (f64_less(own[l], f.least)) {
                f.next = f.least;
                f.least = own[l];
                f.label = (int)(g * 8 + l);
            } else if (f64_less(own[l], f.next)) {
                f.next = own[l];
            }
        }
    }
    *found = f;
}

/* What is written of row i; bounds: upper and lower, or NULL. Returns whether its label changed. */
static int settle(const struct nearest *f, long i, long d, __global int *labels,
                  __global float *upper, __global float *lower) {
    const int changed = labels[i] != f->label;
    const f64 one = f64_of(1), slack = f64_mul(f64_of_long(d + 4), f64_of(0x1p-52f));
    labels[i] = f->label;
    if (upper) {
        const f64 near = f64_mul(f64_sqrt(f->least), f64_add(one, slack));
        const f64 far = f64_mul(f64_sqrt(f->next), f64_sub(one, slack));
        upper[i] = f64_to_float(near) * (1 + 0x1p-20f) + 0x1p-126f;
        lower[i] = fmin(f64_to_float(far) * (1 - 0x1p-20f), FLT_MAX);
    }
    return changed;
}

#if !HF_WIDE
#define CHAINS 4 /* distances of a work-item at once; assign_opencl.c knows it */

/* Centroids lane, lane + lanes, ...: neighbours read neighbouring ones. Four columns are loaded at
 * once. */
static struct nearest look_apart(int metric, __global const uchar *row, int type,
                                 __global const f64 *panels, __global const f64 *norms, long k,
                                 long d, long lane, long lanes) {
    const f64 norm = metric == COSINE ? norm_of(row, type, d) : f64_of(0);
    struct nearest f = {f64_of(INFINITY), f64_of(INFINITY), 0};
    for (long from = lane; from < k; from += CHAINS * lanes) {
        __global const f64 *at[CHAINS];
        f64 sum[CHAINS];
#pragma unroll
        for (int u = 0; u < CHAINS; u++) {
            const long c = min(from + u * lanes, k - 1);
            at[u] = panels + c / 8 * 8 * d + c % 8;
            sum[u] = f64_of(0);
        }
        for (long j = 0; j < d; j += 4) {
            f64 v[4], c[4][CHAINS];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const long column = min(j + i, d - 1);
                v[i] = load(row, column, type);
#pragma unroll
                for (int u = 0; u < CHAINS; u++)
                    c[i][u] = at[u][column * 8];
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int u = 0; u < CHAINS; u++)
                    if (j + i < d) {
                        const f64 t = metric == EUCLIDEAN ? f64_sub(v[i], c[i][u]) : v[i];
                        sum[u] = add_product(sum[u], t, metric == EUCLIDEAN ? t : c[i][u]);
                    }
        }
#pragma unroll
        for (int u = 0; u < CHAINS; u++) {
            const long c = from + u * lanes;
            if (c >= k)
                break;
            const f64 away = metric == EUCLIDEAN ? sum[u]
                             : metric == DOT     ? f64_neg(sum[u])
                                                 : cosine(sum[u], norm, norms[c]);
            if (f64_less(away, f.least)) {
                f.next = f.least;
                f.least = away;
                f.label = (int)c;
            } else if (f64_less(away, f.next)) {
                f.next = away;
            }
        }
    }
    return f;
}
#endif

/* Rows of `list` (NULL: all), count[0] of them (NULL: n), against all centroids in float64.
 * A work-item takes a row; or, as a row takes long and may be the only one, `lanes` of a group of
 * SHARERS share it. */
#define SHARERS 64

__kernel void assign_exact(GLOBAL(x), int type, long stride, GLOBAL(panels), GLOBAL(norms), long n,
                           long k, long d, int metric, GLOBAL(list), GLOBAL(count), GLOBAL(labels),
                           GLOBAL(upper), GLOBAL(lower), GLOBAL(stats), int lanes) {
    __global const int *row_number = VIEW(const int, list);
    __global const long *some = VIEW(const long, count);
    const long rows = some ? *some : n;
    long changed = 0, done = 0;
#if HF_WIDE
    FOR_MINE(slot, rows) {
        const long i = row_number ? row_number[slot] : slot;
        struct nearest f;
        look(metric, row_of(VIEW(const uchar, x), i, stride, type), type, VIEW(const f64, panels),
             VIEW(const f64, norms), k, d, 0, 1, &f);
        changed += settle(&f, i, d, VIEW(int, labels), VIEW(float, upper), VIEW(float, lower));
        done++;
    }
#else
    __local f64 least[SHARERS], next[SHARERS];
    __local int label[SHARERS];
    const int own = (int)get_local_id(0), lane = own % lanes, together = SHARERS / lanes;
    const long first = (long)get_group_id(0) * together, step = get_num_groups(0) * together;
    for (long begin = first; begin < rows; begin += step) {
        const long slot = begin + own / lanes;
        const long i = slot >= rows ? -1 : row_number ? row_number[slot] : slot;
        if (i >= 0) {
            const struct nearest f =
                look_apart(metric, row_of(VIEW(const uchar, x), i, stride, type), type,
                           VIEW(const f64, panels), VIEW(const f64, norms), k, d, lane, lanes);
            least[own] = f.least;
            next[own] = f.next;
            label[own] = f.label;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i >= 0 && lane == 0) {
            struct nearest f = {least[own], next[own], label[own]};
            for (int o = own + 1; o < own + min((long)lanes, k); o++)
                also(&f, least[o], next[o], label[o]);
            changed += settle(&f, i, d, VIEW(int, labels), VIEW(float, upper), VIEW(float, lower));
            done++;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#endif
    if (changed > 0)
        add_long(VIEW(long, stats) + CHANGED, changed);
    if (done > 0) {
        add_long(VIEW(long, stats) + RECHECKED, done);
        add_long(VIEW(long, stats) + WIDE, done);
        add_long(VIEW(long, stats) + PAIRS, done * k);
    }
}

#define NEAR 8 /* filters.h */

/* Rows of `list`, count[0] of them, of which near.cl has found all centroids that may be the
 * nearest, by NEAR work-items each; the others go to `open`. told: as decide.cl has it. Bounds: in,
 * those by which the filter knows of all other centroids. */
__kernel void assign_near(GLOBAL(x), int type, long stride, GLOBAL(c), int c_type, long c_stride,
                          long d, int metric, GLOBAL(list), GLOBAL(count), GLOBAL(told), long nears,
                          GLOBAL(labels), GLOBAL(upper), GLOBAL(lower), GLOBAL(open),
                          GLOBAL(opened), GLOBAL(stats)) {
    __local f64 away[SHARERS];
    __local int label[SHARERS];
    __global const int *found_of = VIEW(const int, told) + nears, *near_of = found_of + nears;
    __global float *lower_of = VIEW(float, lower);
    const long rows = *VIEW(const long, count);
    const int own = (int)get_local_id(0), lanes = min((int)get_local_size(0), NEAR);
    const int lane = own % lanes, together = (int)get_local_size(0) / lanes;
    long changed = 0, done = 0, pairs = 0;
    for (long begin = (long)get_group_id(0) * together; begin < rows;
         begin += (long)get_num_groups(0) * together) {
        const long place = begin + own / lanes;
        const int found = place < min(rows, nears) ? found_of[place] : 0;
        const int few = found > 0 && found <= NEAR;
        struct nearest f = {f64_of(INFINITY), f64_of(INFINITY), 0};
        for (int e = lane; few && e < found; e += lanes) {
            const int near = near_of[place * NEAR + e];
            const f64 distance = reference_distance(
                metric,
                row_of(VIEW(const uchar, x), VIEW(const int, list)[place], stride, type), type,
                row_of(VIEW(const uchar, c), near, c_stride, c_type), c_type, d);
            also(&f, distance, f64_of(INFINITY), near);
        }
        away[own] = f.least;
        label[own] = f.label;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (place < rows && lane == 0) {
            const int i = VIEW(const int, list)[place];
            if (few) {
                for (int o = own + 1; o < own + min(lanes, found); o++)
                    also(&f, away[o], f64_of(INFINITY), label[o]);
                const float others = lower_of ? lower_of[i] : 0;
                changed += settle(&f, i, d, VIEW(int, labels), VIEW(float, upper), lower_of);
                if (lower_of)
                    lower_of[i] = fmin(lower_of[i], others);
                done++;
                pairs += found;
            } else {
                VIEW(int, open)[next_number(VIEW(long, opened))] = i;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (changed > 0)
        add_long(VIEW(long, stats) + CHANGED, changed);
    if (done > 0) {
        add_long(VIEW(long, stats) + RECHECKED, done);
        add_long(VIEW(long, stats) + WIDE, done);
        add_long(VIEW(long, stats) + PAIRS, pairs);
    }
}

/* For each centroid, one a group, |c|, the length of (c - shift) * scale, and the largest
 * |component|, all in float64: [3, k]. shift: float, NULL means 0. */
__kernel void assign_lengths(GLOBAL(c), int type, long stride, long k, long d, GLOBAL(shift),
                             f64 scale, GLOBAL(lengths)) {
    __local f64 part[SHARERS];
    __global const float *off = VIEW(const float, shift);
    __global f64 *length = VIEW(f64, lengths);
    const long i = get_group_id(0);
    const int lane = (int)get_local_id(0), lanes = (int)get_local_size(0);
    __global const uchar *row = row_of(VIEW(const uchar, c), i, stride, type);
    f64 plain = f64_of(0), sum = plain, most = plain;
    for (long j = lane; j < d; j += lanes) {
        const f64 v = load(row, j, type);
        const f64 t = f64_mul(f64_sub(v, f64_of(off ? off[j] : 0)), scale);
        plain = add_product(plain, v, v);
        sum = add_product(sum, t, t);
        most = f64_max(most, f64_abs(v));
    }
    plain = sum_of_group(plain, part);
    sum = sum_of_group(sum, part);
    barrier(CLK_LOCAL_MEM_FENCE);
    part[lane] = most;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane > 0)
        return;
    for (int l = 1; l < lanes; l++)
        most = f64_max(most, part[l]);
    length[i] = f64_sqrt(plain);
    length[k + i] = f64_sqrt(sum);
    length[2 * k + i] = most;
}

/* What comes before the filters. old [n], NULL: not wanted; words of `count` become 0; shift [d] as
 * float, NULL: none. */
__kernel void assign_begin(GLOBAL(labels), GLOBAL(old), long n, GLOBAL(count), int words,
                           GLOBAL(shift), long d, GLOBAL(to)) {
    __global const int *label_of = VIEW(const int, labels);
    __global int *old_of = VIEW(int, old);
    if (old_of)
        FOR_MINE(i, n)
            old_of[i] = label_of[i];
    FOR_MINE(i, words)
        VIEW(int, count)[i] = 0;
    if (VIEW(float, to))
        FOR_MINE(j, d)
            VIEW(float, to)[j] = f64_to_float(VIEW(const f64, shift)[j]);
}
