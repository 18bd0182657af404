/* SPDX-License-Identifier: Apache-2.0
 * assign, the filter in 16 bits: rows and centroids in float16. In front of matrix.cl, whose head
 * names the options and what a unit defines. */
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
