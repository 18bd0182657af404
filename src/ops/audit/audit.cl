/* SPDX-License-Identifier: Apache-2.0
 * audit: a second book of the labels, and the comparison of the sums with it. It shares no code
 * with update.cl. What is told: the lowest row or cluster of each kind, ~0u where there is none. */

enum { OUTSIDE, FARTHER, SUM, COUNT }; /* of `told` */
enum { CHANGED, SIGN };                /* of `total` */

#define STEP 2654435769u

static int is_cluster(int label, long k) { return label >= 0 && label < k; }

static void move_word(__global long *word, __global long *rows, int cluster, ulong v, long count) {
    add_long(word + cluster, (long)v);
    add_long(rows + cluster, count);
}

/* Rows whose label differs from the book move in it; those that left a cluster are listed, with the
 * cluster that they left. */
__kernel void audit_book(GLOBAL(labels), GLOBAL(booked), GLOBAL(hash), GLOBAL(word), GLOBAL(rows),
                         long n, long k, GLOBAL(told), GLOBAL(total), GLOBAL(list),
                         GLOBAL(listed)) {
    __global const int *label = VIEW(const int, labels);
    __global int *book = VIEW(int, booked);
    __global volatile uint *tell = VIEW(uint, told);
    __global int2 *moved = VIEW(int2, list);
    long changed = 0;
    FOR_MINE(i, n) {
        const int from = book[i], to = label[i];
        if (from == to)
            continue;
        changed++;
        if (!is_cluster(to, k)) {
            atomic_min(tell + OUTSIDE, (uint)i);
            continue;
        }
        const ulong v = VIEW(const ulong, hash)[i];
        if (is_cluster(from, k)) {
            move_word(VIEW(long, word), VIEW(long, rows), from, 0 - v, -1);
            if (moved)
                moved[next_number(VIEW(long, listed))] = (int2)((int)i, from);
        }
        move_word(VIEW(long, word), VIEW(long, rows), to, v, 1);
        book[i] = to;
    }
    if (changed > 0)
        add_long(VIEW(long, total) + CHANGED, changed);
}

/* Whether the rows of the list may have moved: to a centroid that is nearer, or as near and of
 * lower number. What is not a number decides nothing. */
__kernel void audit_moves(GLOBAL(x), int x_type, long x_stride, GLOBAL(c), int c_type,
                          long c_stride, long d, int metric, GLOBAL(booked), GLOBAL(list),
                          GLOBAL(listed), GLOBAL(told)) {
    __global const int2 *moved = VIEW(const int2, list);
    const long count = *VIEW(const long, listed);
    FOR_MINE(i, count) {
        const int row = moved[i].x, from = moved[i].y, to = VIEW(const int, booked)[row];
        __global const uchar *own = row_of(VIEW(const uchar, x), row, x_stride, x_type);
        __global const uchar *centers = VIEW(const uchar, c);
        const f64 before = reference_distance(
            metric, own, x_type, row_of(centers, from, c_stride, c_type), c_type, d);
        const f64 after = reference_distance(
            metric, own, x_type, row_of(centers, to, c_stride, c_type), c_type, d);
        if (f64_less(before, after) || (f64_equal(before, after) && from < to))
            atomic_min(VIEW(volatile uint, told) + FARTHER, (uint)row);
    }
}

/* sum [limbs, k, d], weight [limbs, k] or NULL, factor [limbs, d + 1] */
__kernel void audit_clusters(GLOBAL(sum), GLOBAL(count), GLOBAL(weight), GLOBAL(factor), long k,
                             long d, int limbs, GLOBAL(word), GLOBAL(rows), GLOBAL(told)) {
    __global volatile uint *tell = VIEW(uint, told);
    __global const ulong *heavy = VIEW(const ulong, weight);
    FOR_MINE(j, k) {
        ulong v = 0;
        for (long limb = 0; limb < limbs; limb++) {
            __global const ulong *times = VIEW(const ulong, factor) + limb * (d + 1);
            __global const ulong *own = VIEW(const ulong, sum) + (limb * k + j) * d;
            for (long f = 0; f < d; f++)
                v += times[f] * own[f];
            if (heavy)
                v += times[d] * heavy[limb * k + j];
        }
        if (v != VIEW(const ulong, word)[j])
            atomic_min(tell + SUM, (uint)j);
        if (VIEW(const long, count)[j] != VIEW(const long, rows)[j])
            atomic_min(tell + COUNT, (uint)j);
    }
}

__kernel void audit_words(GLOBAL(words), long n, GLOBAL(total)) {
    __global const uint *word = VIEW(const uint, words);
    ulong sum = 0;
    FOR_MINE(i, n)
        sum += (ulong)word[i] * (((uint)i * STEP) | 1);
    if (sum != 0)
        add_long(VIEW(long, total) + SIGN, (long)sum);
}
