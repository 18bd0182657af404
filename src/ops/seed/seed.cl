/* SPDX-License-Identifier: Apache-2.0
 * seed: how much each candidate would lower the potential of the rows; and what greedy and spread
 * need of potentials. All that is added up are integers. */

/* Rows of a block of potentials: HF_SEED_BLOCK. */
#define BLOCK 4096

struct rows {
    __global const uchar *data;
    int type, metric;
    long stride, d;
    __global const f64 *weight, *panel, *norm;
    f64 unit, limit;
    __global f64 *nearest;
    __global int *label;
    __global const f64 *reach;
};

static f64 weight_at(const struct rows *r, long i) { return r->weight ? r->weight[i] : f64_of(1); }

/* Distances of row i to the candidates of panel g; false: it is nearer to none of them. */
static int compare(const struct rows *r, long i, long g, f64 own[8]) {
    __global const uchar *row = row_of(r->data, i, r->stride, r->type);
    if (r->reach && r->label[i] >= 0) {
        const f64 now = r->nearest[i], reach = r->reach[r->label[i]];
        if (f64_less(now, reach) || f64_equal(now, reach))
            return 0;
    }
    const f64 norm = r->metric == COSINE ? norm_of(row, r->type, r->d) : f64_of(0);
    const f64x8 v = distances8(r->metric, row, r->type, norm, r->panel + g * 8 * r->d,
                                 r->norm + g * 8, r->d);
    f64x8_store(r->metric == COSINE ? f64x8_if_negative(v, f64_of(0), v) : v, own);
    return 1;
}

/* A row that a candidate would bring nearer: struct hf_seed_pair. */
struct pair {
    long row;
    f64 d;
    int candidate, unused;
};

static struct rows rows_of(__global const uchar *data, int type, long stride, long d, int metric,
                           __global const f64 *weight, __global const f64 *panel,
                           __global const f64 *norm) {
    struct rows r;
    r.data = data;
    r.type = type;
    r.stride = stride;
    r.d = d;
    r.metric = metric;
    r.weight = weight;
    r.panel = panel;
    r.norm = norm;
    return r;
}

__kernel void seed_evaluate(GLOBAL(x), int type, long stride, long n, long d, int metric,
                            GLOBAL(weights), GLOBAL(panels), GLOBAL(norms), long count,
                            GLOBAL(nearest), GLOBAL(label), GLOBAL(reach), f64 unit,
                            f64 limit, GLOBAL(gain), GLOBAL(pairs), long pairs_room,
                            GLOBAL(pairs_count), long first) {
    struct rows r =
        rows_of(VIEW(const uchar, x), type, stride, d, metric, VIEW(const f64, weights),
                VIEW(const f64, panels), VIEW(const f64, norms));
    __global struct pair *pair = VIEW(struct pair, pairs);
    r.nearest = VIEW(f64, nearest);
    r.label = VIEW(int, label);
    r.reach = VIEW(const f64, reach);
    for (long g = 0; g < (count + 7) / 8; g++) {
        const int some = count - g * 8 < 8 ? (int)(count - g * 8) : 8;
        ulong sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        FOR_MINE(i, n) {
            f64 own[8];
            if (!compare(&r, i, g, own))
                continue;
            const f64 w = weight_at(&r, i), distance_now = r.nearest[i];
            for (int l = 0; l < some; l++) {
                if (!f64_less(own[l], distance_now))
                    continue;
                sum[l] += quantum(distance_now, w, unit, limit) - quantum(own[l], w, unit, limit);
                if (!pair)
                    continue;
                const long at = next_number(VIEW(long, pairs_count));
                if (at < pairs_room) {
                    pair[at].row = first + i;
                    pair[at].d = own[l];
                    pair[at].candidate = (int)(g * 8 + l);
                }
            }
        }
        for (int l = 0; l < some; l++)
            if (sum[l] != 0)
                add_long(VIEW(long, gain) + g * 8 + l, (long)sum[l]);
    }
}

__kernel void seed_commit(GLOBAL(x), int type, long stride, long n, long d, int metric,
                          GLOBAL(weights), GLOBAL(panels), GLOBAL(norms), long count,
                          GLOBAL(nearest), GLOBAL(label), GLOBAL(reach), f64 unit, f64 limit,
                          int first_label, GLOBAL(block), long first) {
    struct rows r =
        rows_of(VIEW(const uchar, x), type, stride, d, metric, VIEW(const f64, weights),
                VIEW(const f64, panels), VIEW(const f64, norms));
    __global long *potential = VIEW(long, block);
    r.nearest = VIEW(f64, nearest);
    r.label = VIEW(int, label);
    r.reach = VIEW(const f64, reach);
    long at = -1;
    ulong sum = 0;
    FOR_MINE(i, n) {
        f64 distance_now = r.nearest[i];
        int nearest_of = -1;
        for (long g = 0; g < (count + 7) / 8; g++) {
            f64 own[8];
            if (!compare(&r, i, g, own))
                break;
            for (int l = 0; l < 8 && g * 8 + l < count; l++)
                if (f64_less(own[l], distance_now)) {
                    distance_now = own[l];
                    nearest_of = (int)(g * 8 + l);
                }
        }
        if (nearest_of >= 0) {
            r.nearest[i] = distance_now;
            if (r.label)
                r.label[i] = first_label + nearest_of;
        }
        if (!potential)
            continue;
        if (at != (first + i) / BLOCK && at >= 0) {
            add_long(potential + at, (long)sum);
            sum = 0;
        }
        at = (first + i) / BLOCK;
        sum += quantum(distance_now, weight_at(&r, i), unit, limit);
    }
    if (at >= 0)
        add_long(potential + at, (long)sum);
}

/* ---- potentials of all rows, for greedy and spread */

/* For each block of rows the sum of the potentials and the largest weight * nearest. */
__kernel void seed_blocks(GLOBAL(nearest), GLOBAL(weights), long n, f64 unit, f64 limit,
                          GLOBAL(sum), GLOBAL(most)) {
    __global const f64 *distance_now = VIEW(const f64, nearest);
    __global const f64 *weight = VIEW(const f64, weights);
    FOR_MINE(b, (n + BLOCK - 1) / BLOCK) {
        ulong total = 0;
        f64 largest = f64_of(0);
        for (long i = b * BLOCK; i < n && i < (b + 1) * BLOCK; i++) {
            const f64 w = weight ? weight[i] : f64_of(1);
            total += quantum(distance_now[i], w, unit, limit);
            if (f64_less(f64_of(0), w))
                largest = f64_max(largest, f64_mul(w, distance_now[i]));
        }
        VIEW(ulong, sum)[b] = total;
        VIEW(f64, most)[b] = largest;
    }
}

/* spread: rows that the last candidates brought nearer. */
__kernel void seed_take(GLOBAL(far), GLOBAL(nearest_candidate), int first_label, long n,
                        GLOBAL(nearest), GLOBAL(label)) {
    FOR_MINE(i, n) {
        const f64 v = VIEW(const f64, far)[i];
        if (!f64_less(v, VIEW(const f64, nearest)[i]))
            continue;
        VIEW(f64, nearest)[i] = v;
        VIEW(int, label)[i] = first_label + VIEW(const int, nearest_candidate)[i];
    }
}

/* spread: is row i drawn? total < 2^63, so q wanted has no upper half where it counts. */
static int is_drawn(ulong q, ulong wanted, ulong total, ulong seed, ulong stream, long i) {
    const ulong low = q * wanted, high = mul_hi(q, wanted);
    if (low == 0 && high == 0)
        return 0;
    if (high != 0 || low >= total)
        return 1;
    return mul_hi(random_bits(seed, stream, (ulong)i), total) < low;
}

/* How many rows of each block are drawn; with `index`, where those of a block begin at count[b],
 * which. */
__kernel void seed_draw(GLOBAL(nearest), GLOBAL(weights), long n, f64 unit, f64 limit,
                        long wanted, long total, long seed, long stream, GLOBAL(count),
                        GLOBAL(index)) {
    __global const f64 *distance_now = VIEW(const f64, nearest);
    __global const f64 *weight = VIEW(const f64, weights);
    __global long *drawn = VIEW(long, index);
    FOR_MINE(b, (n + BLOCK - 1) / BLOCK) {
        long at = drawn ? VIEW(long, count)[b] : 0;
        for (long i = b * BLOCK; i < n && i < (b + 1) * BLOCK; i++) {
            const ulong q = quantum(distance_now[i], weight ? weight[i] : f64_of(1), unit, limit);
            if (!is_drawn(q, (ulong)wanted, (ulong)total, (ulong)seed, (ulong)stream, i))
                continue;
            if (drawn)
                drawn[at] = i;
            at++;
        }
        if (!drawn)
            VIEW(long, count)[b] = at;
    }
}
