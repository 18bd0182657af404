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

/* Without what fmax() and fmin() do about NaN, which takes three instructions; a NaN never becomes
 * the best. */
#define LARGER(a, b) select(a, b, isless(a, b))
#define SMALLER(a, b) select(a, b, isless(b, a))

/* factor: that of all, or 1 / |c| where there are norms. */
__kernel void tile_pack(GLOBAL(c), int type, long stride, long k, long d, GLOBAL(shift),
                        f64 factor, GLOBAL(norms), GLOBAL(lengths), int half_norm,
                        GLOBAL(limit), GLOBAL(packed), GLOBAL(start), GLOBAL(length)) {
    __local f64 part[PACKERS];
    const struct centroids from = {VIEW(const uchar, c),  type,   stride, k, d,
                                   VIEW(const float, shift), factor, VIEW(const f64, norms),
                                   VIEW(const f64, lengths)};
    pack_centroid(&from, get_group_id(0), half_norm, TILE, part, VIEW(uint, limit),
                  VIEW(float, packed), VIEW(float, start), VIEW(float, length));
}

#if VW > 1
/* Of two vectors every other block of `step` elements: those of both that come first, or second.
 * Places are written out, as shuffles by a mask become loads of single elements. */
#define EXCHANGE(row, step, FIRST, SECOND)                                                         \
    for (int v = 0; v < VW; v++)                                                                   \
        if (!(v & (step))) {                                                                       \
            const vf a = row[v], b = row[v + (step)];                                              \
            row[v] = FIRST;                                                                        \
            row[v + (step)] = SECOND;                                                              \
        }

/* log2(VW) rounds of it turn rows into columns. */
static void transpose(vf row[VW]) {
#if VW == 16
#pragma unroll
    EXCHANGE(row, 8, ((vf)(a.lo, b.lo)), ((vf)(a.hi, b.hi)))
#pragma unroll
    EXCHANGE(row, 4, ((vf)(a.s0123, b.s0123, a.s89ab, b.s89ab)),
             ((vf)(a.s4567, b.s4567, a.scdef, b.scdef)))
#pragma unroll
    EXCHANGE(row, 2, ((vf)(a.s01, b.s01, a.s45, b.s45, a.s89, b.s89, a.scd, b.scd)),
             ((vf)(a.s23, b.s23, a.s67, b.s67, a.sab, b.sab, a.sef, b.sef)))
#pragma unroll
    EXCHANGE(row, 1,
             ((vf)(a.s0, b.s0, a.s2, b.s2, a.s4, b.s4, a.s6, b.s6, a.s8, b.s8, a.sa, b.sa, a.sc,
                   b.sc, a.se, b.se)),
             ((vf)(a.s1, b.s1, a.s3, b.s3, a.s5, b.s5, a.s7, b.s7, a.s9, b.s9, a.sb, b.sb, a.sd,
                   b.sd, a.sf, b.sf)))
#else
#pragma unroll
    EXCHANGE(row, 4, ((vf)(a.lo, b.lo)), ((vf)(a.hi, b.hi)))
#pragma unroll
    EXCHANGE(row, 2, ((vf)(a.s01, b.s01, a.s45, b.s45)), ((vf)(a.s23, b.s23, a.s67, b.s67)))
#pragma unroll
    EXCHANGE(row, 1, ((vf)(a.s0, b.s0, a.s2, b.s2, a.s4, b.s4, a.s6, b.s6)),
             ((vf)(a.s1, b.s1, a.s3, b.s3, a.s5, b.s5, a.s7, b.s7)))
#endif
}

/* VW columns from j on of VW rows of float32, as x', without the first `known` of them; what is
 * added to their squares. Rows lie side by side in memory, but not those that a vector needs, so
 * that a CPU does not see what comes next: the same rows of the next tile, `ahead` bytes on. */
static vf pack_block(__global const uchar *const row[VW], long j, int known,
                     __global const float *shift, float scale, long ahead, __global float *to,
                     vf sum) {
    vf block[VW];
    const vf off = shift ? LOADV(shift + j) : (vf)0;
#pragma unroll
    for (int v = 0; v < VW; v++) {
        FETCH_AHEAD(row[v] + j * 4 + ahead);
        block[v] = (LOADV((__global const float *)row[v] + j) - off) * scale;
    }
    transpose(block);
#pragma unroll
    for (int v = 0; v < VW; v++) {
        if (v < known)
            continue;
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
        const long ahead = ROWS * stride * 4;
        for (; type == F32 && j + VW <= d; j += VW)
            sum = pack_block(row, j, 0, shift, scale, ahead, to + p * d * LANES + own, sum);
        if (type == F32 && j < d && d >= VW) { /* the last columns with some before them */
            const int known = (int)(j + VW - d);
            sum = pack_block(row, d - VW, known, shift, scale, ahead, to + p * d * LANES + own,
                             sum);
            j = d;
        }
#endif
        for (; j < d; j++) {
            float t[VW];
            const float off = shift ? shift[j] : 0;
            if (type == F64)
                for (int v = 0; v < VW; v++)
                    t[v] = single_of(row[v], j, off, scale);
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
#pragma unroll
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

/* Compilers prefer vectors of half the size on CPUs that have whole ones. */
#if VW == 16 && defined(__has_attribute)
#if __has_attribute(min_vector_width) && !defined(HF_HALF)
#define WHOLE_VECTORS __attribute__((min_vector_width(512)))
#endif
#endif
#ifndef WHOLE_VECTORS
#define WHOLE_VECTORS
#endif

/* The filter on rows of `list` (NULL: all), count[0] of them (NULL: n). Rows that it leaves open
 * go to `open`, their number is added to opened[0]. scratch: ROWS * d floats for each group. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) WHOLE_VECTORS void
tile_filter(GLOBAL(x), int type, long stride, long n, long k, long d, GLOBAL(list), GLOBAL(count),
            GLOBAL(shift), float scale, GLOBAL(packed), GLOBAL(start), GLOBAL(length), float eps,
            float delta, float tiny, float flush, float qerr, GLOBAL(limit), float half_norm,
            float least, float unit, int exact, GLOBAL(scratch), GLOBAL(labels), GLOBAL(upper),
            GLOBAL(lower), GLOBAL(open), GLOBAL(opened), GLOBAL(stats)) {
    const float cmax = *VIEW(const float, limit) * (1 + 0x1p-20f);
    const struct bound b = {eps,  delta,     tiny,  flush, qerr,    cmax, half_norm,
                            least, unit, 0, FLT_MAX, 0, 0x1p25f};
    __global const int *rows_of = VIEW(const int, list);
    const long rows = count_offset != ULONG_MAX ? *VIEW(const long, count) : n;
    __global float *tile = VIEW(float, scratch) + (long)get_group_id(0) * ROWS * d;
    __global int *label_of = VIEW(int, labels);
    const struct outcome o = {label_of,
                              VIEW(float, upper),
                              VIEW(float, lower),
                              VIEW(int, open),
                              VIEW(long, opened),
                              VIEW(const float, length),
                              exact};
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
                changed += conclude(&b, &o, i, q[v], best[v], next[v], arg[v], 0, known[v] != 0);
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
