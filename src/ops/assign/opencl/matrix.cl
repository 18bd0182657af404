/* SPDX-License-Identifier: Apache-2.0
 * assign, the filter in 16 bits: float16 products of rows and centroids, summed up in float by a
 * matrix unit, of which the best two of each row are kept. docs/numerics/gpu-filter.md says what
 * storing in 16 bits and the unit's sums cost. Options:
 *   PARTS   1: x' and c' are float16. 2: each is the sum of two, the second 2^11 times as fine
 *   BLOCKS  32 columns each that a row has room for
 *   MT      rows of a warp / 16
 *   STRIP   8 centroids each that are scored at once
 * A unit is a file of its own in front of this one (unit_*.cl):
 *   WARPS           of 32 work-items, in a group
 *   unit_halves()   two float as two float16; unit_singles(): back
 *   unit_fetch()    begin to copy 16 bytes; unit_arrive(): wait for all of them
 *   unit_share()    all that a unit needs of the rows before it multiplies
 *   unit_multiply() adds the products of 16 MT rows and 8 STRIP centroids
 * Work-item 4 g + q of a warp has columns 8 q to 8 q + 7 of each 32 of rows g and g + 8 of every
 * 16, and the scores of these rows and centroids 2 q and 2 q + 1 of every 8. */
#define COLS (32 * BLOCKS)
#define GROUP (WARPS * 32)
#define ROWS (WARPS * 16 * MT)
#define OWN (2 * MT) /* rows that a work-item has scores of */
/* Centroids at once in local memory, at most 16 KiB: whole strips. */
#define TILE (256 / (BLOCKS * PARTS) / (8 * STRIP) * (8 * STRIP))
#define PIECES (TILE * COLS * PARTS / 8)
#define AT_ONCE (BLOCKS * PARTS > 8 ? 8 / PARTS : BLOCKS) /* blocks of all in `stage` */
#define LOST 0x1p15 /* a centroid of this length is not held */

/* Centroids as [k / 8][PARTS][BLOCKS][8][32] float16. moved: bits of the two floats that struct
 * bound has, 0 before. factor, norms, lengths, half_norm: as those of tile_pack(). */
__kernel void matrix_pack(GLOBAL(c), int type, long stride, long k, long d, GLOBAL(shift),
                          double factor, GLOBAL(norms), GLOBAL(lengths), int half_norm,
                          GLOBAL(packed), GLOBAL(start), GLOBAL(length), GLOBAL(moved)) {
    __global const float *off = VIEW(const float, shift);
    __global const double *norm = VIEW(const double, norms);
    __global volatile uint *most = VIEW(uint, moved);
    FOR_MINE(slot, (k + TILE - 1) / TILE * TILE) {
        __global const uchar *row =
            row_of(VIEW(const uchar, c), slot < k ? slot : k - 1, stride, type);
        __global half *to = VIEW(half, packed) + slot / 8 * PARTS * BLOCKS * 256 + slot % 8 * 32;
        const double far = slot < k ? VIEW(const double, lengths)[slot] : INFINITY;
        const int lost = !(far < LOST);
        const double times = norm && slot < k ? (norm[slot] > 0 ? 1 / norm[slot] : 0) : factor;
        double square = 0, rest = 0;
        for (long j = 0; j < COLS; j++) {
            double t = 0;
            if (j < d && !lost)
                t = (load(row, j, type) - (off ? (double)off[j] : 0)) * times;
            const float v = (float)t;
            float left = v;
            for (int p = 0; p < PARTS; p++) {
                const long at = (long)p * BLOCKS * 256 + j / 32 * 256 + j % 32;
                const float unit = p == 0 ? 1.0f : 0x1p-11f;
                vstore_half_rte(left / unit, at, to);
                left -= vload_half(at, to) * unit;
            }
            square += (double)v * (double)v;
            rest += (double)left * (double)left;
        }
        const float size = (float)sqrt(square), off_by = (float)sqrt(rest);
        VIEW(float, start)[slot] = lost ? EXCLUDED : half_norm ? (float)(-0.5 * square) : 0.0f;
        VIEW(float, length)[slot] = size * (1 + 0x1p-20f);
        if (off_by > 0) {
            atomic_max(most, as_uint(off_by * (1 + 0x1p-6f)));
            atomic_max(most + 1, as_uint(off_by / fmax(size, 0x1p-60f) * (1 + 0x1p-6f)));
        }
    }
}

/* Eight columns of a row from j on as x', 0 behind d. */
INLINED void take_columns(__global const uchar *row, int type, long d, long j,
                          __global const float *shift, float scale, float v[8]) {
    const int full = j + 8 <= d;
    float8 t = 0, off = 0;
    float o[8];
    for (int i = 0; i < 8; i++)
        o[i] = shift && !full && j + i < d ? shift[j + i] : 0;
    off = shift && full ? vload8(0, shift + j) : vload8(0, o);
    if (type == F64) {
        vstore8(off, 0, o);
        for (int i = 0; i < 8; i++)
            v[i] = j + i < d
                       ? (float)((load(row, j + i, F64) - (double)o[i]) * (double)scale)
                       : 0;
        return;
    }
    if (type == F32 && full) {
        t = vload8(0, (__global const float *)row + j);
    } else if (type == F16 && full) {
        t = vload_half8(0, (__global const half *)row + j);
    } else {
        for (int i = 0; i < 8; i++)
            v[i] = j + i < d ? load_single(row, j + i, type) : 0;
        t = vload8(0, v);
    }
    vstore8((t - off) * scale, 0, v);
}

struct rows {
    __global const uchar *data;
    int type;
    long stride, d, count; /* count: of the list, or of all */
    __global const int *list;
    __global const float *shift;
    float scale;
};

/* Columns [first, end) / 32 of a row in float16, into place: PARTS of each, GROUP apart. Not
 * unrolled: a compiler takes its time over 16 copies of it. */
INLINED void store_row(const struct rows *r, long place, int first, int end, __local uint4 *to,
                       float *sum, float *rest) {
    __global const uchar *row =
        row_of(r->data, r->list ? r->list[place] : place, r->stride, r->type);
#pragma unroll 1
    for (int b = first; b < end; b++) {
        float v[8];
        uint two[PARTS][4];
        take_columns(row, r->type, r->d, b * 32 + (int)get_local_id(0) % 4 * 8, r->shift, r->scale,
                     v);
        UNROLL
        for (int i = 0; i < 4; i++) {
            float2 left = (float2)(v[2 * i], v[2 * i + 1]);
            *sum = MULTIPLY_ADD(left.x, left.x, *sum);
            *sum = MULTIPLY_ADD(left.y, left.y, *sum);
            UNROLL
            for (int p = 0; p < PARTS; p++) {
                const float unit = p == 0 ? 1.0f : 0x1p-11f;
                two[p][i] = unit_halves(left.x / unit, left.y / unit);
                left -= unit_singles(two[p][i]) * unit;
            }
            *rest = MULTIPLY_ADD(left.x, left.x, *rest);
            *rest = MULTIPLY_ADD(left.y, left.y, *rest);
        }
        UNROLL
        for (int p = 0; p < PARTS; p++)
            to[((b - first) * PARTS + p) * GROUP] = vload4(0, two[p]);
    }
}

/* The rows of this work-item from place `first` of the list on, in float16, through `stage`, where
 * it has places of its own; its share of their sums of squares, and of what is lost. */
INLINED void take_rows(const struct rows *r, long first, __local uint4 *stage,
                       uint x[PARTS][MT][2][BLOCKS][4], float square[OWN], float lost[OWN]) {
    const int own = (int)get_local_id(0), lane = own & 31, warp = own / 32;
    UNROLL
    for (int i = 0; i < OWN; i++) {
        const long place =
            min(first + (warp * MT + i / 2) * 16 + i % 2 * 8 + lane / 4, r->count - 1);
        float sum = 0, rest = 0;
        UNROLL
        for (int from = 0; from < BLOCKS; from += AT_ONCE) {
            store_row(r, place, from, from + AT_ONCE, stage + own, &sum, &rest);
            UNROLL
            for (int e = 0; e < AT_ONCE * PARTS; e++)
                vstore4(stage[e * GROUP + own], 0,
                        x[e % PARTS][i / 2][i % 2][from + e / PARTS]);
        }
        square[i] = sum;
        lost[i] = rest;
    }
}

struct best {
    float best[OWN], next[OWN];
    int arg[OWN];
};

INLINED void take_scores(float score[MT][STRIP][4], int first, struct best *b) {
UNROLL
    for (int r = 0; r < OWN; r++)
UNROLL
        for (int i = 0; i < STRIP * 2; i++) {
            const float s = score[r / 2][i / 2][r % 2 * 2 + i % 2];
            b->next[r] = LARGER(b->next[r], SMALLER(b->best[r], s));
            b->arg[r] = b->best[r] < s ? first + i / 2 * 8 + i % 2 : b->arg[r];
            b->best[r] = LARGER(b->best[r], s);
        }
}

/* Scores of 8 STRIP centroids; bias: theirs from this work-item's first on. */
INLINED void score_strip(float score[MT][STRIP][4], __local const uint4 *shared,
                        uint x[PARTS][MT][2][BLOCKS][4], __local const uint4 *centroids,
                        __local const float *bias) {
UNROLL
    for (int i = 0; i < MT * STRIP * 4; i++)
        score[i / (STRIP * 4)][i / 4 % STRIP][i % 4] =
            PARTS == 1 ? bias[i / 4 % STRIP * 8 + i % 2] : 0;
#if PARTS == 2 /* small products first: the unit cuts them off at the size of the sum */
    unit_multiply(score, shared, x, 1, centroids);
    unit_multiply(score, shared, x, 0, centroids + BLOCKS * 32);
UNROLL
    for (int i = 0; i < MT * STRIP * 4; i++)
        score[i / (STRIP * 4)][i / 4 % STRIP][i % 4] *= 0x1p-11f;
#endif
    unit_multiply(score, shared, x, 0, centroids);
#if PARTS == 2
UNROLL
    for (int i = 0; i < MT * STRIP * 4; i++)
        score[i / (STRIP * 4)][i / 4 % STRIP][i % 4] += bias[i / 4 % STRIP * 8 + i % 2];
#endif
}

INLINED void fetch(__local uint4 *stage, __local float *bias, __global const uint4 *packed,
                  __global const float *start, long tile) {
    const int own = (int)get_local_id(0);
    for (int i = own; i < PIECES; i += GROUP)
        unit_fetch(stage + i, packed + tile * PIECES + i);
    for (int i = own; i < TILE / 4; i += GROUP)
        unit_fetch((__local uint4 *)bias + i, (__global const uint4 *)(start + tile * TILE) + i);
}

/* stage: two tiles of centroids, bias: theirs. All work-items have the stage behind them. */
INLINED void compare(uint x[PARTS][MT][2][BLOCKS][4], __local const uint4 *shared,
                    __local uint4 *stage, __local float *bias, __global const uint4 *packed,
                    __global const float *start, long tiles, struct best *b) {
    const int q = (int)get_local_id(0) % 4;
UNROLL
    for (int r = 0; r < OWN; r++) {
        b->best[r] = b->next[r] = -INFINITY;
        b->arg[r] = 0;
    }
    fetch(stage, bias, packed, start, 0);
    for (int t = 0; t < (int)tiles; t++) {
        const int now = t & 1;
        unit_arrive();
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t + 1 < (int)tiles)
            fetch(stage + (1 - now) * PIECES, bias + (1 - now) * TILE, packed, start, t + 1);
        for (int s = 0; s < TILE / 8; s += STRIP) {
            float score[MT][STRIP][4];
            score_strip(score, shared, x, stage + now * PIECES + s * PARTS * BLOCKS * 32,
                        bias + now * TILE + s * 8 + 2 * q);
            take_scores(score, t * TILE + s * 8 + 2 * q, b);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* What the four work-items of a row know: [6][ROWS][4] in local memory. */
enum { BEST, NEXT, ARG, SQUARE, LOSS, FACTS };

INLINED void tell(__local float *fact, const struct best *b, const float square[OWN],
                 const float lost[OWN]) {
    const int lane = (int)get_local_id(0) & 31, warp = (int)get_local_id(0) / 32;
UNROLL
    for (int r = 0; r < OWN; r++) {
        const int place = ((warp * MT + r / 2) * 16 + r % 2 * 8 + lane / 4) * 4 + lane % 4;
        fact[BEST * ROWS * 4 + place] = b->best[r];
        fact[NEXT * ROWS * 4 + place] = b->next[r];
        fact[ARG * ROWS * 4 + place] = as_float(b->arg[r]);
        fact[SQUARE * ROWS * 4 + place] = square[r];
        fact[LOSS * ROWS * 4 + place] = lost[r];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Row `row` of the group, which is row i of all. */
INLINED int end_row(__local const float *fact, int row, const struct bound *b,
                   const struct outcome *o, long i) {
    float best = -INFINITY, next = -INFINITY, square = 0, rest = 0;
    int arg = 0;
    for (int q = 0; q < 4; q++) {
        const int place = row * 4 + q;
        const float s = fact[BEST * ROWS * 4 + place];
        next = LARGER(LARGER(next, fact[NEXT * ROWS * 4 + place]), SMALLER(best, s));
        arg = best < s ? as_int(fact[ARG * ROWS * 4 + place]) : arg;
        best = LARGER(best, s);
        square += fact[SQUARE * ROWS * 4 + place];
        rest += fact[LOSS * ROWS * 4 + place];
    }
    const float loss = sqrt(rest) * (1 + 0x1p-10f) + 0x1p-60f;
    if (!(loss < INFINITY)) /* a value that float16 does not hold */
        square = INFINITY;
    return conclude(b, o, i, square, best, next, arg, loss, 0);
}

/* As tile_filter(); small, far: of struct bound; moved: as matrix_pack() left it. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
matrix_filter(GLOBAL(x), int type, long stride, long n, long k, long d, GLOBAL(list),
              GLOBAL(count), GLOBAL(shift), float scale, GLOBAL(packed), GLOBAL(start),
              GLOBAL(length), GLOBAL(moved), float eps, float delta, float tiny, float flush,
              float qerr, float cmax, float half_norm, float least, float unit, float small_,
              float far, int exact, GLOBAL(labels), GLOBAL(upper), GLOBAL(lower), GLOBAL(open),
              GLOBAL(opened), GLOBAL(stats)) {
    __local uint4 stage[2 * PIECES];
    __local float4 bias[2 * TILE / 4];
    __local uint4 shared[UNIT_SHARED];
    __global const float *most = VIEW(const float, moved);
    const struct bound b = {eps,  delta,   tiny,    flush,  qerr, cmax, half_norm, least,
                            unit, most[0], most[1], small_, far};
    const struct outcome o = {VIEW(int, labels),         VIEW(float, upper),
                              VIEW(float, lower),        VIEW(int, open),
                              VIEW(long, opened),        VIEW(const float, length),
                              exact};
    const struct rows r = {VIEW(const uchar, x),
                           type,
                           stride,
                           d,
                           count_offset != ULONG_MAX ? *VIEW(const long, count) : n,
                           VIEW(const int, list),
                           VIEW(const float, shift),
                           scale};
    const int own = (int)get_local_id(0);
    long changed = 0;
    for (long t = get_group_id(0); t * ROWS < r.count; t += get_num_groups(0)) {
        uint rows[PARTS][MT][2][BLOCKS][4];
        float square[OWN], lost[OWN];
        struct best found;
        take_rows(&r, t * ROWS, stage, rows, square, lost);
        barrier(CLK_LOCAL_MEM_FENCE);
        unit_share(shared, rows);
        compare(rows, shared, stage, (__local float *)bias, VIEW(const uint4, packed),
                VIEW(const float, start), (k + TILE - 1) / TILE, &found);
        tell((__local float *)stage, &found, square, lost);
        const long place = t * ROWS + own;
        if (own < ROWS && place < r.count)
            changed += end_row((__local const float *)stage, own, &b, &o,
                               r.list ? r.list[place] : place);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (changed > 0)
        add_long(VIEW(long, stats), changed);
}
