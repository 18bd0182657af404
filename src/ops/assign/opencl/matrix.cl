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
              GLOBAL(opened), GLOBAL(stats), GLOBAL(words), GLOBAL(facts), GLOBAL(told),
              long nears) {
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
                              exact,                     nears,
                              VIEW(float, told)};
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
