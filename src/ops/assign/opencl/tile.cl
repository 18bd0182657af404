/* SPDX-License-Identifier: Apache-2.0
 * assign, the filter: float scores of a tile of rows against all centroids, of which the best two
 * are kept. docs/numerics/filter.md says when they decide a row; others are listed. One source for
 * CPUs and GPUs. Options:
 *   VW      rows in a vector: 16 on CPUs, 1 where neighbouring work-items are the vector
 *   PANELS  vectors of a work-item
 *   TILE    centroids at once, all scores in registers
 *   GROUP   work-items of a group
 *   SHARED  1: a group brings centroids to local memory, STEP features at a time
 * Rows become [PANELS, d, GROUP * VW] in memory of the group that stays in its cache, centroids
 * [centroids / TILE, d, TILE]. */

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if VW == 1
typedef float vf;
typedef int vi;
#define LOADV(p) (*(p))
#define STOREV(v, p) (*(p) = (v))
#else
typedef JOIN(float, VW) vf;
typedef JOIN(int, VW) vi;
#define LOADV(p) JOIN(vload, VW)(0, p)
#define STOREV(v, p) JOIN(vstore, VW)(v, 0, p)
#endif

#define LANES (GROUP * VW)
#define ROWS (PANELS * LANES)
#define DEPTH 128 /* features summed in one chain: keeps the error small */
#define EXCLUDED (-0x1.c2p127f)
#define FAR_ROW 0x1p50f
#define REACH_ROUNDS 6

#if HF_FMA
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

/* Without what fmax() and fmin() do about NaN, which takes three instructions; a NaN never becomes
 * the best. */
#define LARGER(a, b) select(a, b, isless(a, b))
#define SMALLER(a, b) select(a, b, isless(b, a))

/* Centroids as the filter sees them: c' = (c - shift) * factor, rounded once. factor: that of all,
 * or 1 / |c| where there are norms. lost: those of this length or more are left out. */
__kernel void tile_pack(GLOBAL(c), int type, long stride, long k, long d, GLOBAL(shift),
                        double factor, GLOBAL(norms), GLOBAL(lengths), int half_norm,
                        GLOBAL(packed), GLOBAL(start), GLOBAL(length)) {
    __global const float *off = VIEW(const float, shift);
    __global const double *norm = VIEW(const double, norms);
    FOR_MINE(slot, (k + TILE - 1) / TILE * TILE) {
        __global const uchar *row =
            row_of(VIEW(const uchar, c), slot < k ? slot : k - 1, stride, type);
        __global float *to =
            VIEW(float, packed) + slot / TILE * TILE * d + slot % TILE;
        const double far = slot < k ? VIEW(const double, lengths)[slot] : INFINITY;
        const int lost = !(far < 0x1p60);
        const double times =
            norm && slot < k ? (norm[slot] > 0 ? 1 / norm[slot] : 0) : factor;
        double square = 0;
        for (long j = 0; j < d; j++) {
            const double t = (load(row, j, type) - (off ? (double)off[j] : 0)) * times;
            const float v = lost ? 0 : (float)t;
            to[j * TILE] = v;
            square += (double)v * (double)v;
        }
        VIEW(float, start)[slot] = lost ? EXCLUDED : half_norm ? (float)(-0.5 * square) : 0.0f;
        VIEW(float, length)[slot] = lost ? 0 : (float)sqrt(square) * (1 + 0x1p-20f);
    }
}

/* What is known of errors: ops/assign/host/bound.h. */
struct bound {
    float eps, delta, tiny, flush, qerr, cmax;
    float half_norm; /* 0.5, or 0 for cosine and dot */
    float least;     /* |x'|^2 at or below which nothing is known */
    float unit;      /* 1 / scale */
};

struct row {
    float norm, q_up, q_low, best, next, best_length;
};

static float score_error(const struct bound *b, float norm, float c) {
    const float length = c * b->half_norm * c + norm * c;
    return b->eps * length + b->flush * (1 + c) * (1 + c);
}

static float distance_error(const struct bound *b, float norm, float c) {
    return b->delta * (norm + c) + b->tiny;
}

/* At least the lengths of the nearest centroid and of the best; *reach: at least the distance to
 * the best. */
static float longest(const struct bound *b, const struct row *r, float *reach) {
    const int euclidean = b->half_norm > 0;
    float c = b->cmax;
    if (euclidean)
        c = fmin(c, (2 * r->norm + r->best_length) * (1 + 0x1p-3f) + 8 * b->tiny);
    *reach = 0;
    for (int round = 0; round < REACH_ROUNDS; round++) {
        const float e = score_error(b, r->norm, c);
        const float u = fmax(r->q_up - 2 * (r->best - e), 0.0f);
        *reach = 4 * distance_error(b, r->norm, c) + sqrt(u) * (1 + 0x1p-10f);
        const float less = fmin(c, r->norm + *reach);
        const int halved = less < 0.5f * c;
        c = euclidean ? less : c;
        if (!halved || !euclidean)
            break;
    }
    return c;
}

/* Does the filter know the row's nearest centroid? 0: nothing, 1: the threshold is right but does
 * not decide, 2: it is the best. */
static int decide(const struct bound *b, const struct row *r, float q, float *upper,
                  float *lower) {
    float reach;
    const float c = longest(b, r, &reach);
    const float e = score_error(b, r->norm, c), d = distance_error(b, r->norm, c);
    const float root = sqrt(fmax(r->q_up - 2 * (r->best - e), 0.0f));
    float margin = 2 * (e + root * d + d * d);
    if (!(b->half_norm > 0))
        margin = 2 * (4 * b->delta * r->norm * c + e);
    const float threshold = r->best - margin * (1 + 0x1p-10f);
    if (!(reach < FAR_ROW && q < FAR_ROW && b->least < q && EXCLUDED < r->best))
        return 0;
    const float wide = fmin(b->cmax, 4 * reach + r->norm);
    const float we = score_error(b, r->norm, wide), wd = distance_error(b, r->norm, wide);
    const float low = sqrt(fmax(r->q_low - 2 * (r->next + we), 0.0f)) * (1 - 0x1p-20f) - wd;
    const float sight = wide < b->cmax ? (wide - r->norm) * (1 - 0x1p-20f) - wd : 0x1p58f;
    *upper = (root + d) * (1 + 0x1p-20f) * b->unit;
    *lower = fmin(fmax(fmin(low, sight), 0.0f) * b->unit, FLT_MAX);
    return r->next < threshold ? 2 : 1;
}

#if VW > 1
/* Of two vectors every other block of `step` elements: those of both that come first, or second.
 * log2(VW) rounds of it turn rows into columns. */
static void exchange(vf row[VW], int step) {
    JOIN(uint, VW) first, second;
    uint place[VW];
    for (int v = 0; v < VW; v++)
        place[v] = (v & step) ? (uint)(VW + v - step) : (uint)v;
    first = LOADV(place);
    for (int v = 0; v < VW; v++)
        place[v] = (v & step) ? (uint)(VW + v) : (uint)(v + step);
    second = LOADV(place);
    for (int v = 0; v < VW; v++) {
        if (v & step)
            continue;
        const vf a = row[v], b = row[v + step];
        row[v] = shuffle2(a, b, first);
        row[v + step] = shuffle2(a, b, second);
    }
}

/* VW columns from j on of VW rows of float32, as x'; what is added to their squares. */
static vf pack_block(__global const uchar *const row[VW], long j, __global const float *shift,
                     float scale, __global float *to, vf sum) {
    vf block[VW];
    const vf off = shift ? LOADV(shift + j) : (vf)0;
#pragma unroll
    for (int v = 0; v < VW; v++)
        block[v] = (LOADV((__global const float *)row[v] + j) - off) * scale;
#pragma unroll
    for (int step = 1; step < VW; step *= 2)
        exchange(block, step);
#pragma unroll
    for (int v = 0; v < VW; v++) {
        STOREV(block[v], to + (j + v) * LANES);
        sum = MULTIPLY_ADD(block[v], block[v], sum);
    }
    return sum;
}
#endif

/* Rows [first, first + ROWS) of the list as x', PANELS vectors a work-item; |x'|^2 of each. */
static void pack_rows(__global const uchar *data, int type, long stride, long d,
                      __global const int *list, long first, long rows,
                      __global const float *shift, float scale, __global float *to,
                      vf square[PANELS]) {
    const int own = (int)get_local_id(0) * VW;
    for (int p = 0; p < PANELS; p++) {
        __global const uchar *row[VW];
        for (int v = 0; v < VW; v++) {
            const long slot = min(first + p * LANES + own + v, rows - 1);
            row[v] = row_of(data, list ? list[slot] : slot, stride, type);
        }
        vf sum = 0;
        long j = 0;
#if VW > 1
        for (; type == F32 && j + VW <= d; j += VW)
            sum = pack_block(row, j, shift, scale, to + p * d * LANES + own, sum);
#endif
        for (; j < d; j++) {
            float t[VW];
            const float off = shift ? shift[j] : 0;
            if (type == F64)
                for (int v = 0; v < VW; v++)
                    t[v] = (float)((load(row[v], j, F64) - (double)off) * (double)scale);
            else
                for (int v = 0; v < VW; v++)
                    t[v] = (load_single(row[v], j, type) - off) * scale;
            const vf x = LOADV(t);
            STOREV(x, to + (p * d + j) * LANES + own);
            sum = MULTIPLY_ADD(x, x, sum);
        }
        square[p] = sum;
    }
}

struct best {
    vf best[PANELS], next[PANELS];
    vi arg[PANELS];
};

/* The scores of a group of centroids, and what they change. */
static void take_scores(vf score[PANELS][TILE], int first, struct best *b) {
    for (int p = 0; p < PANELS; p++)
#pragma unroll
        for (int t = 0; t < TILE; t++) {
            const vf s = score[p][t];
            b->next[p] = LARGER(b->next[p], SMALLER(b->best[p], s));
            b->arg[p] = select(b->arg[p], (vi)(first + t), isless(b->best[p], s));
            b->best[p] = LARGER(b->best[p], s);
        }
}

static void chain(vf score[PANELS][TILE], __global const float *x, __global const float *c, long d,
                  long begin, long end) {
    for (long j = begin; j < end; j++) {
        vf v[PANELS];
#pragma unroll
        for (int p = 0; p < PANELS; p++)
            v[p] = LOADV(x + (p * d + j) * LANES);
#pragma unroll
        for (int t = 0; t < TILE; t++) {
            const vf y = (vf)(c[j * TILE + t]);
#pragma unroll
            for (int p = 0; p < PANELS; p++)
                score[p][t] = MULTIPLY_ADD(v[p], y, score[p][t]);
        }
    }
}

static void compare(__global const float *x, __global const float *packed,
                    __global const float *start, long k, long d, struct best *b) {
    for (int p = 0; p < PANELS; p++) {
        b->best[p] = b->next[p] = (vf)(-INFINITY);
        b->arg[p] = 0;
    }
    for (long g = 0; g < (k + TILE - 1) / TILE; g++) {
        vf score[PANELS][TILE];
        __global const float *c = packed + g * TILE * d;
#pragma unroll
        for (int t = 0; t < TILE; t++)
#pragma unroll
            for (int p = 0; p < PANELS; p++)
                score[p][t] = (vf)(start[g * TILE + t]);
        chain(score, x, c, d, 0, min(d, (long)DEPTH));
        for (long j = DEPTH; j < d; j += DEPTH) {
            vf more[PANELS][TILE];
#pragma unroll
            for (int t = 0; t < TILE; t++)
#pragma unroll
                for (int p = 0; p < PANELS; p++)
                    more[p][t] = 0;
            chain(more, x, c, d, j, min(d, j + DEPTH));
#pragma unroll
            for (int t = 0; t < TILE; t++)
#pragma unroll
                for (int p = 0; p < PANELS; p++)
                    score[p][t] += more[p][t];
        }
        take_scores(score, (int)(g * TILE), b);
    }
}

/* The filter on rows of `list` (NULL: all), count[0] of them (NULL: n). Rows that it leaves open
 * go to `open`, their number is added to opened[0]. scratch: ROWS * d floats for each group. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
tile_filter(GLOBAL(x), int type, long stride, long n, long k, long d, GLOBAL(list), GLOBAL(count),
            GLOBAL(shift), float scale, GLOBAL(packed), GLOBAL(start), GLOBAL(length), float eps,
            float delta, float tiny, float flush, float qerr, float cmax, float half_norm,
            float least, float unit, int exact, GLOBAL(scratch), GLOBAL(labels), GLOBAL(upper),
            GLOBAL(lower), GLOBAL(open), GLOBAL(opened), GLOBAL(stats)) {
    const struct bound b = {eps, delta, tiny, flush, qerr, cmax, half_norm, least, unit};
    __global const int *rows_of = VIEW(const int, list);
    const long rows = count_offset != ULONG_MAX ? *VIEW(const long, count) : n;
    __global float *tile = VIEW(float, scratch) + (long)get_group_id(0) * ROWS * d;
    __global int *label_of = VIEW(int, labels);
    const int own = (int)get_local_id(0) * VW;
    const int bounds = upper_offset != ULONG_MAX;
    const float reach_most = cmax; /* of the cheaper test */
    long changed = 0;
#if VW > 1
    vi different = 0;
#endif
    const long g = get_group_id(0), groups = get_num_groups(0), tiles = (rows + ROWS - 1) / ROWS;
#if HF_WIDE /* tiles in sequence, as CPUs read ahead */
    const long first_tile = tiles * g / groups, last_tile = tiles * (g + 1) / groups, step = 1;
#else
    const long first_tile = g, last_tile = tiles, step = groups;
#endif
    for (long t = first_tile; t < last_tile; t += step) {
        const long first = t * ROWS;
        vf square[PANELS];
        struct best found;
        pack_rows(VIEW(const uchar, x), type, stride, d, rows_of, first, rows,
                  VIEW(const float, shift), scale, tile, square);
        compare(tile + own, VIEW(const float, packed), VIEW(const float, start), k, d, &found);
        for (int p = 0; p < PANELS; p++) {
            const vf norm = sqrt(square[p] * (1 + qerr)) * (1 + 0x1p-10f);
            const vf e = eps * (cmax * 0.5f * cmax + norm * cmax) +
                         flush * (1 + cmax) * (1 + cmax);
            const vf reach = norm + reach_most;
            const vf dd = delta * reach + tiny;
            const vf margin = 2 * (e + (reach * dd + dd * dd));
            const vf threshold = found.best[p] - margin * (1 + 0x1p-9f);
            const vi clear = isless(found.next[p], threshold) &
                             isless(reach, (vf)(0x1p20f)) &
                             isless((vf)(EXCLUDED), found.best[p]);
#if VW > 1
            /* the common case: neighbours that are all decided, and nobody wants bounds */
            const long begin = first + p * LANES + own;
            if (!rows_of && !bounds && begin + VW <= rows && all(clear)) {
                const vi now = found.arg[p], was = LOADV(label_of + begin);
                different -= now != was;
                STOREV(now, label_of + begin);
                continue;
            }
#endif
            float best[VW], next[VW], q[VW];
            int arg[VW], known[VW];
            STOREV(found.best[p], best);
            STOREV(found.next[p], next);
            STOREV(square[p], q);
            STOREV(found.arg[p], arg);
            STOREV(clear, known);
            for (int v = 0; v < VW; v++) {
                const long slot = first + p * LANES + own + v;
                if (slot >= rows)
                    break;
                const long i = rows_of ? rows_of[slot] : slot;
                int verdict = known[v] != 0 ? 2 : 0;
                if (bounds || verdict != 2) {
                    const float up = q[v] * (1 + qerr);
                    const struct row r = {sqrt(up) * (1 + 0x1p-10f), up, q[v] * (1 - qerr),
                                          best[v], next[v], VIEW(const float, length)[arg[v]]};
                    float above = 0, below = 0;
                    verdict = decide(&b, &r, q[v], &above, &below);
                    if (bounds && (verdict == 2 || (verdict == 1 && !exact))) {
                        VIEW(float, upper)[i] = above;
                        VIEW(float, lower)[i] = below;
                    }
                }
                if (verdict == 2 || (verdict == 1 && !exact)) {
                    changed += label_of[i] != arg[v];
                    label_of[i] = arg[v];
                } else {
                    VIEW(int, open)[next_number(VIEW(long, opened))] = (int)i;
                }
            }
        }
    }
#if VW > 1
    int each[VW];
    STOREV(different, each);
    for (int v = 0; v < VW; v++)
        changed += each[v];
#endif
    if (changed > 0)
        add_long(VIEW(long, stats), changed);
}
