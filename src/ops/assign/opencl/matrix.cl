/* SPDX-License-Identifier: Apache-2.0
 * assign, the filter in 16 bits: float16 products of rows and centroids, summed up in float by a
 * matrix unit, of which the best two of each row are kept. docs/numerics/gpu-filter.md says what
 * storing in 16 bits and the unit's sums cost. Options:
 *   PARTS   1: x' and c' are float16. 2: each is the sum of two, the second 2^11 times as fine
 *   BLOCKS  32 columns each that a row has room for
 *   MT      rows of a warp / 16
 *   STRIP   8 centroids each that are scored at once; 8: by teams of four warps
 *   CHUNK   scores of a row that a work-item looks at together: 2 STRIP or a part of it
 *   HOLD    centroids that stay in local memory while rows that are kept pass by; 0: centroids pass
 *   WARPS   of 32 work-items, in a group
 * A unit is a file of its own in front of this one (unit_*.cl):
 *   unit_halves()   two float as two float16; unit_singles(): back
 *   unit_fetch()    begin to copy 16 bytes; unit_arrive(): wait for all of them
 *   unit_share()    all that a unit needs of the rows before it multiplies
 *   unit_multiply() adds the products of 16 MT rows and 8 STRIP centroids
 *   unit_start()    of a team: begins with those of 16 rows of each warp, from 0 on
 *   unit_wait()     of a team: until they are there; those of `behind` sixteens need not be
 *   unit_keep()     keeps a chunk of scores if the best of all is among them
 *   UNIT_PLACE(c, j) where it wants column j of centroid c, of 32 and 8
 * Work-item 4 g + q of a warp has columns 8 q to 8 q + 7 of each 32 of rows g and g + 8 of every
 * 16, and the scores of these rows and centroids 2 q and 2 q + 1 of every 8. */
#define COLS (32 * BLOCKS)
#define GROUP (WARPS * 32)
#define ROWS (WARPS * 16 * MT)
#define OWN (2 * MT) /* rows that a work-item has scores of */
/* Centroids at once in local memory, at most 16 KiB: whole strips. */
#if HOLD
#define TILE HOLD
#else
#define TILE (256 / (BLOCKS * PARTS) / (8 * STRIP) * (8 * STRIP))
#endif
#define PIECES (TILE * COLS * PARTS / 8)
/* Blocks of a row: that `stage` holds, and that are loaded, at once. */
#define FIT (PIECES / GROUP / PARTS)
#define AT_ONCE (FIT >= BLOCKS ? BLOCKS : BLOCKS % 4 == 0 && FIT >= 4 ? 4 : 1)
#define LOADS (BLOCKS < 4 ? BLOCKS : 4)
#define LOST 0x1p15f /* a centroid of this length is not held */

/* A number as PARTS of float16, `step` apart; what is left. */
INLINED float store_parts(float v, __global half *to, long step) {
    float left = v;
    for (int p = 0; p < PARTS; p++) {
        const float unit = p == 0 ? 1.0f : 0x1p-11f;
        const float low = unit_singles(unit_halves(left / unit, 0)).x;
        vstore_half_rte(low, p * step, to);
        left -= low * unit;
    }
    return left;
}

/* Centroids as [k / 8][PARTS][BLOCKS][8][32] float16, one a group. moved: bits of the two floats
 * that struct bound has, 0 before. The others are those of tile_pack(). */
__kernel void matrix_pack(GLOBAL(c), int type, long stride, long k, long d, GLOBAL(shift),
                          f64 factor, GLOBAL(norms), GLOBAL(lengths), int half_norm,
                          GLOBAL(limit), GLOBAL(packed), GLOBAL(start), GLOBAL(length),
                          GLOBAL(moved)) {
    __local f64 part[PACKERS];
    const struct centroids from = {VIEW(const uchar, c),  type,   stride, k, d,
                                   VIEW(const float, shift), factor, VIEW(const f64, norms),
                                   VIEW(const f64, lengths)};
    __global volatile uint *most = VIEW(uint, moved);
    const long slot = get_group_id(0);
    __global half *to = VIEW(half, packed) + slot / 8 * PARTS * BLOCKS * 256;
    const f64 whole = centroid_length(&from, slot, LOST, part, VIEW(uint, limit));
    const int lost = !f64_less(whole, f64_of(LOST));
    const f64 times = centroid_factor(&from, slot);
    f64 square = f64_of(0), rest = square;
    for (int j = (int)get_local_id(0); j < COLS; j += (int)get_local_size(0)) {
        const float v = j < d && !lost ? f64_to_float(centroid_at(&from, slot, times, j)) : 0;
        const int place = j / 32 * 256 + UNIT_PLACE((int)(slot % 8), j % 32);
        const float left = store_parts(v, to + place, BLOCKS * 256);
        square = add_product(square, f64_of(v), f64_of(v));
        rest = add_product(rest, f64_of(left), f64_of(left));
    }
    square = sum_of_group(square, part);
    rest = sum_of_group(rest, part);
    if (get_local_id(0) > 0)
        return;
    const float size = f64_to_float(f64_sqrt(square)), off_by = f64_to_float(f64_sqrt(rest));
    VIEW(float, start)[slot] = lost ? EXCLUDED : half_norm ? minus_half(square) : 0.0f;
    VIEW(float, length)[slot] = size * (1 + 0x1p-20f);
    if (off_by > 0) {
        atomic_max(most, as_uint(off_by * (1 + 0x1p-6f)));
        atomic_max(most + 1, as_uint(off_by / fmax(size, 0x1p-60f) * (1 + 0x1p-6f)));
    }
}

struct rows {
    __global const uchar *data;
    int type;
    long stride, d, count; /* count: of the list, or of all */
    __global const int *list;
    __global const float *shift;
    float scale;
};

INLINED __global const uchar *place_of(const struct rows *r, long place) {
    const long at = min(place, r->count - 1);
    return row_of(r->data, r->list ? r->list[at] : at, r->stride, r->type);
}

/* Eight columns of a row from j on as x', 0 behind d. */
INLINED void take_columns(const struct rows *r, __global const uchar *row, long j, float v[8]) {
UNROLL
    for (int i = 0; i < 8; i++) {
        const float off = r->shift && j + i < r->d ? r->shift[j + i] : 0;
        v[i] = j + i >= r->d    ? 0
               : r->type == F64 ? single_of(row, j + i, off, r->scale)
                                : (load_single(row, j + i, r->type) - off) * r->scale;
    }
}

/* Eight columns in float16; *sum of their squares, *rest of the squares of what is lost. */
INLINED void halve(const float v[8], uint two[PARTS][4], float *sum, float *rest) {
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
}

/* Columns [first, first + AT_ONCE) / 32 of a row in float16, into words of `to`: of each 32 two
 * fours of words, GROUP fours apart, of which this row has every other word. Not unrolled: a
 * compiler takes its time over many copies of it. */
INLINED void store_row(const struct rows *r, long place, int first, __local uint *to, float *sum,
                       float *rest) {
    __global const uchar *row = place_of(r, place);
#pragma unroll 1
    for (int b = 0; b < AT_ONCE; b++) {
        float v[8];
        uint two[PARTS][4];
        take_columns(r, row, (first + b) * 32 + (int)get_local_id(0) % 4 * 8, v);
        halve(v, two, sum, rest);
UNROLL
        for (int i = 0; i < PARTS * 4; i++)
            to[((b * PARTS + i / 4) * 2 + i % 4 / 2) * GROUP * 4 + i % 2 * 2] = two[i / 4][i % 4];
    }
}

/* 16 rows that are 8 apart, of any type, through places of this work-item's own in `stage`. */
INLINED void take_any(const struct rows *r, long place, __local uint *stage,
                      uint x[PARTS][BLOCKS][8], float square[2], float lost[2]) {
    __local uint *own = stage + get_local_id(0) * 4;
UNROLL
    for (int from = 0; from < BLOCKS; from += AT_ONCE) {
#pragma unroll 1
        for (int h = 0; h < 2; h++) {
            float sum = 0, rest = 0;
            store_row(r, place + 8 * h, from, own + h, &sum, &rest);
            square[h] += sum;
            lost[h] += rest;
        }
UNROLL
        for (int e = 0; e < AT_ONCE * PARTS * 2; e++)
            vstore4(vload4(0, own + e * GROUP * 4), 0,
                    x[e / 2 % PARTS][from + e / 2 / PARTS] + e % 2 * 4);
    }
}

/* 16 bytes of a row from column j on, 0 behind d, which is the end of such a piece. */
INLINED uint4 piece_of(const struct rows *r, __global const uchar *row, long j) {
    return j < r->d ? *(__global const uint4 *)(row + j * (r->type == F32 ? 4 : 2)) : (uint4)0;
}

INLINED float8 shift_of(const struct rows *r, long j) {
    const float4 low = j < r->d ? vload4(0, r->shift + j) : (float4)0;
    const float4 high = j + 4 < r->d ? vload4(0, r->shift + j + 4) : (float4)0;
    return (float8)(low, high);
}

/* The same of float16 or float32 rows that consist of pieces of 16 bytes: several loads at once. */
INLINED void take_whole(const struct rows *r, long place, uint x[PARTS][BLOCKS][8],
                        float square[2], float lost[2]) {
    const long column = get_local_id(0) % 4 * 8;
    const int wide = r->type == F32;
UNROLL
    for (int from = 0; from < BLOCKS; from += LOADS) {
        uint4 raw[2 * LOADS][2];
UNROLL
        for (int i = 0; i < 2 * LOADS; i++) {
            __global const uchar *row = place_of(r, place + i % 2 * 8);
            const long j = column + (from + i / 2) * 32;
            raw[i][0] = piece_of(r, row, j);
            raw[i][1] = wide ? piece_of(r, row, j + 4) : (uint4)0;
        }
UNROLL
        for (int i = 0; i < 2 * LOADS; i++) {
            const uint4 low = raw[i][0];
            float8 t = wide ? (float8)(as_float4(low), as_float4(raw[i][1]))
                            : (float8)(unit_singles(low.x), unit_singles(low.y),
                                       unit_singles(low.z), unit_singles(low.w));
            float v[8];
            uint two[PARTS][4];
            if (r->shift)
                t -= shift_of(r, column + (from + i / 2) * 32);
            vstore8(t * r->scale, 0, v);
            halve(v, two, &square[i % 2], &lost[i % 2]);
UNROLL
            for (int e = 0; e < PARTS * 4; e++)
                x[e / 4][from + i / 2][e % 4 * 2 + i % 2] = two[e / 4][e % 4];
        }
    }
}

/* The rows of this work-item from place `first` of the list on, in float16; its share of their sums
 * of squares, and of what is lost. */
INLINED void take_rows(const struct rows *r, long first, __local uint *stage,
                       uint x[MT][PARTS][BLOCKS][8], float square[OWN], float lost[OWN]) {
    const int own = (int)get_local_id(0), lane = own & 31, warp = own / 32;
    const int size = r->type == F32 ? 4 : 2;
    const int whole = PARTS == 1 && (r->type == F16 || r->type == F32) &&
                      ((ulong)r->data | (ulong)(r->stride * size) | (ulong)(r->d * size)) % 16 == 0;
UNROLL
    for (int i = 0; i < OWN; i++)
        square[i] = lost[i] = 0;
UNROLL
    for (int m = 0; m < MT; m++) {
        const long place = first + (warp * MT + m) * 16 + lane / 4;
        if (whole)
            take_whole(r, place, x[m], square + 2 * m, lost + 2 * m);
        else
            take_any(r, place, stage, x[m], square + 2 * m, lost + 2 * m);
    }
}

/* Rows that are kept in float16: [rows / 16][BLOCKS][2][32] fours of words, a lane's own side by
 * side with those of its neighbours; and of each row the sum of squares, and of what is lost. */
struct held {
    __global uint4 *words;
    __global float2 *facts;
};

/* Sixteen rows of a warp: at most the last one that there is. */
INLINED long tile_of(long first, long count, int m) {
    return min(first / 16 + (int)get_local_id(0) / 32 * MT + m, (count - 1) / 16);
}

INLINED void take_held(const struct held *held, long first, long count,
                       uint x[MT][PARTS][BLOCKS][8], float square[OWN], float lost[OWN]) {
    const int lane = (int)get_local_id(0) & 31;
UNROLL
    for (int m = 0; m < MT; m++) {
        const long tile = tile_of(first, count, m);
UNROLL
        for (int b = 0; b < BLOCKS; b++)
UNROLL
            for (int half_of = 0; half_of < 2; half_of++) {
                const uint4 w = held->words[((tile * BLOCKS + b) * 2 + half_of) * 32 + lane];
                x[m][0][b][half_of * 4] = w.x;
                x[m][0][b][half_of * 4 + 1] = w.y;
                x[m][0][b][half_of * 4 + 2] = w.z;
                x[m][0][b][half_of * 4 + 3] = w.w;
            }
UNROLL
        for (int h = 0; h < 2; h++) {
            const float2 fact = held->facts[min(tile * 16 + h * 8 + lane / 4, count - 1)];
            square[2 * m + h] = lane % 4 == 0 ? fact.x : 0;
            lost[2 * m + h] = lane % 4 == 0 ? fact.y : 0;
        }
    }
}

#if PARTS == 1 && !HOLD
/* Keep all rows. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
matrix_rows(GLOBAL(x), int type, long stride, long n, long d, GLOBAL(shift), float scale,
            GLOBAL(words), GLOBAL(facts)) {
    __local uint4 stage[2 * PIECES];
    __local float2 share[GROUP];
    const struct rows r = {VIEW(const uchar, x),       type, stride, d, n, 0,
                           VIEW(const float, shift), scale};
    __global uint4 *words_of = VIEW(uint4, words);
    const int own = (int)get_local_id(0), lane = own & 31;
    for (long t = get_group_id(0); t * ROWS < n; t += get_num_groups(0)) {
        uint rows[MT][PARTS][BLOCKS][8];
        float square[OWN], lost[OWN];
        take_rows(&r, t * ROWS, (__local uint *)stage, rows, square, lost);
UNROLL
        for (int m = 0; m < MT; m++) {
            const long tile = t * (ROWS / 16) + own / 32 * MT + m;
            for (int i = 0; i < 2 * BLOCKS && tile * 16 < n; i++)
                words_of[(tile * BLOCKS * 2 + i) * 32 + lane] =
                    vload4(i % 2, rows[m][0][i / 2]);
UNROLL
            for (int h = 0; h < 2; h++) {
                const long row = tile * 16 + h * 8 + lane / 4;
                share[own] = (float2)(square[2 * m + h], lost[2 * m + h]);
                barrier(CLK_LOCAL_MEM_FENCE);
                if (lane % 4 == 0 && row < n)
                    VIEW(float2, facts)[row] =
                        share[own] + share[own + 1] + share[own + 2] + share[own + 3];
                barrier(CLK_LOCAL_MEM_FENCE);
            }
        }
    }
}
#endif

/* Of each row the best score, the second best of the best scores of chunks, and the chunk of the
 * best one with its number. So the second best of all is known at the end, and most scores cost
 * less than one comparison more than the largest of a chunk. */
struct best {
    float best[OWN], next[OWN], number[OWN], kept[OWN][CHUNK];
};

/* Scores of 16 rows; number: of the first chunk; zero: -0, which the compiler does not know. */
INLINED void take_scores(float score[STRIP][4], int m, float number, float zero, struct best *b) {
UNROLL
    for (int r = 2 * m; r < 2 * m + 2; r++)
UNROLL
        for (int c = 0; c < STRIP * 2 / CHUNK; c++) {
            float v[CHUNK];
UNROLL
            for (int i = 0; i < CHUNK; i++)
                v[i] = score[(c * CHUNK + i) / 2][r % 2 * 2 + i % 2];
            unit_keep(v, number + c, zero, &b->best[r], &b->next[r], &b->number[r], b->kept[r]);
        }
}

INLINED void fetch(__local uint4 *stage, __local float *bias, __global const uint4 *packed,
                  __global const float *start, long tile) {
    const int own = (int)get_local_id(0);
UNROLL
    for (int from = 0; from < PIECES; from += GROUP)
        if (PIECES % GROUP == 0 || from + own < PIECES)
            unit_fetch(stage + from + own, packed + tile * PIECES + from + own);
    for (int i = own; i < TILE / 4; i += GROUP)
        unit_fetch((__local uint4 *)bias + i, (__global const uint4 *)(start + tile * TILE) + i);
}

INLINED void begin(struct best *b) {
UNROLL
    for (int r = 0; r < OWN; r++) {
        b->best[r] = b->next[r] = -INFINITY;
        b->number[r] = 0;
UNROLL
        for (int i = 0; i < CHUNK; i++)
            b->kept[r][i] = -INFINITY;
    }
}

/* stage: two tiles of centroids, bias: theirs. All work-items have the stage behind them. zero: -0,
 * which the compiler does not know. */
#if STRIP == 8
INLINED void add_bias(float to[STRIP][4], float score[STRIP][4], __local const float *bias) {
UNROLL
    for (int i = 0; i < STRIP * 4; i++)
        to[i / 4][i % 4] = score[i / 4][i % 4] + bias[i / 4 * 8 + i % 2];
}

/* The unit works while scores are compared, those of the last 16 rows while it begins with the next
 * centroids. Biases come at the end: nothing but the unit may write to sums that it adds to, or the
 * assembler makes warps wait for all that it does. The wait for the last sums is at the head of the
 * loop, as the assembler would move it before comparisons. */
INLINED void compare(uint x[MT][PARTS][BLOCKS][8], __local const uint4 *shared,
                     __local uint4 *stage, __local float *bias, __global const uint4 *packed,
                     __global const float *start, long tiles, float zero, struct best *b) {
    __local const float *from = bias + (int)get_local_id(0) % 4 * 2;
    float number = -STRIP * 2 / CHUNK, score[MT][STRIP][4], last[STRIP][4];
    begin(b);
UNROLL
    for (int i = 0; i < STRIP * 4; i++) /* before the first, whatever is added */
        score[MT - 1][i / 4][i % 4] = -INFINITY;
    fetch(stage, bias, packed, start, 0);
    for (int t = 0; t < (int)tiles; t++) {
        const int now = t & 1;
        unit_arrive();
        for (int s = 0; s < TILE / 8; s += STRIP) {
            __local const uint4 *centroids = stage + now * PIECES + s * BLOCKS * 32;
            unit_wait(score[MT - 1], 0);
            add_bias(last, score[MT - 1], from);
            if (s == 0)
                barrier(CLK_LOCAL_MEM_FENCE);
            unit_start(score[0], x[0], centroids);
            if (s == 0 && t + 1 < (int)tiles)
                fetch(stage + (1 - now) * PIECES, bias + (1 - now) * TILE, packed, start, t + 1);
            take_scores(last, MT - 1, number, zero, b);
            from = bias + now * TILE + s * 8 + (int)get_local_id(0) % 4 * 2;
            number += STRIP * 2 / CHUNK;
UNROLL
            for (int m = 1; m < MT; m++) {
                unit_start(score[m], x[m], centroids);
                unit_wait(score[m - 1], 1);
                add_bias(score[m - 1], score[m - 1], from);
                take_scores(score[m - 1], m - 1, number, zero, b);
            }
        }
    }
    unit_wait(score[MT - 1], 0);
    add_bias(last, score[MT - 1], from);
    take_scores(last, MT - 1, number, zero, b);
    barrier(CLK_LOCAL_MEM_FENCE);
}
#else
/* Scores of 8 STRIP centroids; bias: theirs from this work-item's first on. */
INLINED void score_strip(float score[MT][STRIP][4], __local const uint4 *shared,
                        uint x[MT][PARTS][BLOCKS][8], __local const uint4 *centroids,
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

INLINED void compare(uint x[MT][PARTS][BLOCKS][8], __local const uint4 *shared,
                    __local uint4 *stage, __local float *bias, __global const uint4 *packed,
                    __global const float *start, long tiles, float zero, struct best *b) {
    const int q = (int)get_local_id(0) % 4;
    float number = 0;
    begin(b);
#if HOLD
    for (int s = 0; s < (int)tiles; s += STRIP) { /* eights of centroids */
        float score[MT][STRIP][4];
        score_strip(score, shared, x, stage + s * BLOCKS * 32, bias + s * 8 + 2 * q);
UNROLL
        for (int m = 0; m < MT; m++)
            take_scores(score[m], m, number, zero, b);
        number += STRIP * 2 / CHUNK;
    }
    return;
#endif
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
UNROLL
            for (int m = 0; m < MT; m++)
                take_scores(score[m], m, number, zero, b);
            number += STRIP * 2 / CHUNK;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
#endif

/* The centroid of the best score and, in *next, the second best score, of row r. */
INLINED int find_best(const struct best *b, int r, float *next) {
    int column = 0, found = 0;
    *next = b->next[r];
UNROLL
    for (int i = 0; i < CHUNK; i++) {
        const int is = !found && b->kept[r][i] == b->best[r];
        column = is ? i / 2 * 8 + i % 2 : column;
        *next = is ? *next : LARGER(*next, b->kept[r][i]);
        found |= is;
    }
    return (int)b->number[r] * (CHUNK * 4) + column + (int)get_local_id(0) % 4 * 2;
}

/* What the four work-items of a row know: [6][ROWS][4] in local memory. */
enum { BEST, NEXT, ARG, SQUARE, LOSS, FACTS };

INLINED void tell(__local float *fact, const struct best *b, const float square[OWN],
                 const float lost[OWN]) {
    const int lane = (int)get_local_id(0) & 31, warp = (int)get_local_id(0) / 32;
UNROLL
    for (int r = 0; r < OWN; r++) {
        const int place = ((warp * MT + r / 2) * 16 + r % 2 * 8 + lane / 4) * 4 + lane % 4;
        float next;
        const int arg = find_best(b, r, &next);
        fact[BEST * ROWS * 4 + place] = b->best[r];
        fact[NEXT * ROWS * 4 + place] = next;
        fact[ARG * ROWS * 4 + place] = as_float(arg);
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
              float qerr, GLOBAL(limit), float half_norm, float least, float unit, float small_,
              float far, int exact, GLOBAL(labels), GLOBAL(upper), GLOBAL(lower), GLOBAL(open),
              GLOBAL(opened), GLOBAL(stats), GLOBAL(words), GLOBAL(facts)) {
    const struct held held = {VIEW(uint4, words), VIEW(float2, facts)};
#if HOLD
    __local uint4 stage[PIECES];
    __local float4 bias[TILE / 4], told[5 * ROWS];
    __local float *fact = (__local float *)told;
#else
    __local uint4 stage[2 * PIECES];
    __local float4 bias[2 * TILE / 4];
    __local float *fact = (__local float *)stage;
#endif
    __local uint4 shared[UNIT_SHARED];
    __global const float *most = VIEW(const float, moved);
    const float cmax = *VIEW(const float, limit) * (1 + 0x1p-20f);
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
    const long step = get_num_groups(0);
    long changed = 0;
    uint rows[MT][PARTS][BLOCKS][8];
    float square[OWN], lost[OWN];
#if HOLD
    const long tiles = (k + 8 * STRIP - 1) / (8 * STRIP) * STRIP;
    fetch(stage, (__local float *)bias, VIEW(const uint4, packed), VIEW(const float, start), 0);
    if (get_group_id(0) * ROWS < r.count)
        take_held(&held, get_group_id(0) * ROWS, r.count, rows, square, lost);
    unit_arrive();
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    const long tiles = (k + TILE - 1) / TILE;
#endif
    for (long t = get_group_id(0); t * ROWS < r.count; t += step) {
        float sums[OWN], losses[OWN];
        struct best found;
#if !HOLD
        if (PARTS == 1 && held.words)
            take_held(&held, t * ROWS, r.count, rows, square, lost);
        else
            take_rows(&r, t * ROWS, (__local uint *)stage, rows, square, lost);
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
        unit_share(shared, rows);
        compare(rows, shared, stage, (__local float *)bias, VIEW(const uint4, packed),
                VIEW(const float, start), tiles, -0.0f * scale, &found);
UNROLL
        for (int i = 0; i < OWN; i++) {
            sums[i] = square[i];
            losses[i] = lost[i];
        }
#if HOLD /* the next rows are on their way while these end */
        if ((t + step) * ROWS < r.count)
            take_held(&held, (t + step) * ROWS, r.count, rows, square, lost);
#endif
        tell(fact, &found, sums, losses);
        for (int row = own; row < ROWS && t * ROWS + row < r.count; row += GROUP) {
            const long place = t * ROWS + row;
            changed += end_row(fact, row, &b, &o, r.list ? r.list[place] : place);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (changed > 0)
        add_long(VIEW(long, stats), changed);
}
