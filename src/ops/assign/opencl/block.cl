/* SPDX-License-Identifier: Apache-2.0
 * assign, the filter in float32 for GPUs: a group multiplies ROWS rows by TILE centroids at a time,
 * both in local memory, 16 columns of each at once; a work-item has the scores of 8 rows and 8
 * centroids in registers. The sum of a score is one chain. Options: ROWS, and TILE, which is the
 * same. */
#define SLAB 16 /* columns at once */
#define EACH 8  /* rows, and centroids, of a work-item */
#define ACROSS (TILE / EACH) /* work-items that share a row */
#define GROUP (ROWS / EACH * ACROSS)
#define FOURS (ROWS / 4)              /* of a column */
#define PIECES (SLAB * FOURS / GROUP) /* of a slab, that a work-item brings */

/* Centroids as [k / TILE, d, TILE]. Arguments: as tile_pack() has them. */
__kernel void block_pack(GLOBAL(c), int type, long stride, long k, long d, GLOBAL(shift),
                         f64 factor, GLOBAL(norms), GLOBAL(lengths), int half_norm,
                         GLOBAL(limit), GLOBAL(packed), GLOBAL(start), GLOBAL(length)) {
    __local f64 part[PACKERS];
    const struct centroids from = {VIEW(const uchar, c),  type,   stride, k, d,
                                   VIEW(const float, shift), factor, VIEW(const f64, norms),
                                   VIEW(const f64, lengths)};
    pack_centroid(&from, get_group_id(0), half_norm, TILE, part, VIEW(uint, limit),
                  VIEW(float, packed), VIEW(float, start), VIEW(float, length));
}

struct rows {
    __global const uchar *data;
    int type;
    long stride, d, count;
    __global const int *list;
    __global const float *shift;
    float scale;
};

/* Rows of the group from place `first` on as x', [d, ROWS]; GROUP / ROWS work-items a row. Returns
 * this one's share of the sum of squares. */
INLINED float block_rows(const struct rows *r, long first, __global float *to) {
    const int row = (int)get_local_id(0) % ROWS;
    const long place = min(first + row, r->count - 1);
    __global const uchar *from =
        row_of(r->data, r->list ? r->list[place] : place, r->stride, r->type);
    float sum = 0;
    for (long j = get_local_id(0) / ROWS; j < r->d; j += GROUP / ROWS) {
        const float off = r->shift ? r->shift[j] : 0;
        const float v = r->type == F64
                            ? single_of(from, j, off, r->scale)
                            : (load_single(from, j, r->type) - off) * r->scale;
        to[j * ROWS + row] = v;
        sum = MULTIPLY_ADD(v, v, sum);
    }
    return sum;
}

struct best {
    float best[EACH], next[EACH];
    int arg[EACH];
};

/* ROWS floats of each of SLAB columns, 0 from column `d` on: this work-item's pieces. */
INLINED void slab_load(__global const float *from, long j, long d, float4 piece[PIECES]) {
    const int at = (int)get_local_id(0);
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        const long column = j + (at + i * GROUP) / FOURS;
        piece[i] =
            column < d ? vload4((at + i * GROUP) % FOURS, from + column * ROWS) : (float4)0;
    }
}

INLINED void slab_store(__local float4 *to, const float4 piece[PIECES]) {
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        to[get_local_id(0) + i * GROUP] = piece[i];
}

INLINED void slab_multiply(__local const float4 *x, __local const float4 *c,
                           float score[EACH][EACH]) {
    const int across = (int)get_local_id(0) % ACROSS, down = (int)get_local_id(0) / ACROSS;
#pragma unroll
    for (int j = 0; j < SLAB; j++) {
        float a[EACH], b[EACH];
        vstore4(x[j * FOURS + down], 0, a);
        vstore4(x[j * FOURS + FOURS / 2 + down], 1, a);
        vstore4(c[j * FOURS + across], 0, b);
        vstore4(c[j * FOURS + FOURS / 2 + across], 1, b);
#pragma unroll
        for (int r = 0; r < EACH; r++)
#pragma unroll
            for (int s = 0; s < EACH; s++)
                score[r][s] = MULTIPLY_ADD(a[r], b[s], score[r][s]);
    }
}

INLINED void block_scores(const float score[EACH][EACH], int first, struct best *b) {
#pragma unroll
    for (int s = 0; s < EACH; s++) {
        const int slot = first + s / 4 * (TILE / 2) + s % 4;
#pragma unroll
        for (int r = 0; r < EACH; r++) {
            const float v = score[r][s];
            b->next[r] = fmax(b->next[r], fmin(b->best[r], v));
            b->arg[r] = b->best[r] < v ? slot : b->arg[r];
            b->best[r] = fmax(b->best[r], v);
        }
    }
}

/* All centroids; stage: [2][x, c][SLAB * FOURS]. */
INLINED void block_compare(__global const float *x, __global const float *packed,
                           __global const float *start, long k, long d, __local float4 *stage,
                           struct best *b) {
    const int across = (int)get_local_id(0) % ACROSS;
    for (int r = 0; r < EACH; r++) {
        b->best[r] = b->next[r] = -INFINITY;
        b->arg[r] = 0;
    }
    for (int t = 0; t < (int)((k + TILE - 1) / TILE); t++) {
        float score[EACH][EACH];
        __global const float *c = packed + (long)t * TILE * d;
        float4 next_x[PIECES], next_c[PIECES];
#pragma unroll
        for (int s = 0; s < EACH; s++) {
            const float first = start[t * TILE + s / 4 * (TILE / 2) + across * 4 + s % 4];
#pragma unroll
            for (int r = 0; r < EACH; r++)
                score[r][s] = first;
        }
        slab_load(x, 0, d, next_x);
        slab_load(c, 0, d, next_c);
        for (int j = 0, now = 0; j < (int)d; j += SLAB, now = 1 - now) {
            __local float4 *at = stage + now * 2 * SLAB * FOURS;
            slab_store(at, next_x);
            slab_store(at + SLAB * FOURS, next_c);
            barrier(CLK_LOCAL_MEM_FENCE); /* nobody reads the other half any more */
            if (j + SLAB < (int)d) {
                slab_load(x, j + SLAB, d, next_x);
                slab_load(c, j + SLAB, d, next_c);
            }
            slab_multiply(at, at + SLAB * FOURS, score);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        block_scores(score, t * TILE + across * 4, b);
    }
}

/* Row `row` of the group from what ACROSS work-items know: [3][ROWS][ACROSS]. */
INLINED int end_row(__local const float *fact, int row, float square, const struct bound *b,
                    const struct outcome *o, long i) {
    float best = -INFINITY, next = -INFINITY;
    int arg = 0;
    for (int q = 0; q < ACROSS; q++) {
        const int place = row * ACROSS + q;
        const float s = fact[place];
        next = fmax(fmax(next, fact[ROWS * ACROSS + place]), fmin(best, s));
        arg = best < s ? as_int(fact[2 * ROWS * ACROSS + place]) : arg;
        best = fmax(best, s);
    }
    return conclude(b, o, i, square, best, next, arg, 0, 0);
}

/* As tile_filter(). */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
block_filter(GLOBAL(x), int type, long stride, long n, long k, long d, GLOBAL(list), GLOBAL(count),
             GLOBAL(shift), float scale, GLOBAL(packed), GLOBAL(start), GLOBAL(length), float eps,
             float delta, float tiny, float flush, float qerr, GLOBAL(limit), float half_norm,
             float least, float unit, int exact, GLOBAL(scratch), GLOBAL(labels), GLOBAL(upper),
             GLOBAL(lower), GLOBAL(open), GLOBAL(opened), GLOBAL(stats)) {
    __local float4 stage[4 * SLAB * FOURS];
    __local float squares[GROUP];
    __local float *fact = (__local float *)stage;
    const float cmax = *VIEW(const float, limit) * (1 + 0x1p-20f);
    const struct bound b = {eps,  delta, tiny, flush,   qerr, cmax, half_norm,
                            least, unit, 0,    FLT_MAX, 0,    0x1p25f};
    const struct outcome o = {VIEW(int, labels),  VIEW(float, upper), VIEW(float, lower),
                              VIEW(int, open),    VIEW(long, opened), VIEW(const float, length),
                              exact};
    const struct rows r = {VIEW(const uchar, x),
                           type,
                           stride,
                           d,
                           count_offset != ULONG_MAX ? *VIEW(const long, count) : n,
                           VIEW(const int, list),
                           VIEW(const float, shift),
                           scale};
    __global float *tile = VIEW(float, scratch) + (long)get_group_id(0) * ROWS * d;
    const int own = (int)get_local_id(0), across = own % ACROSS, down = own / ACROSS;
    long changed = 0;
    for (long t = get_group_id(0); t * ROWS < r.count; t += get_num_groups(0)) {
        struct best found;
        squares[own] = block_rows(&r, t * ROWS, tile);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        block_compare(tile, VIEW(const float, packed), VIEW(const float, start), k, d, stage,
                      &found);
        for (int i = 0; i < EACH; i++) {
            const int place = (i / 4 * (ROWS / 2) + down * 4 + i % 4) * ACROSS + across;
            fact[place] = found.best[i];
            fact[ROWS * ACROSS + place] = found.next[i];
            fact[2 * ROWS * ACROSS + place] = as_float(found.arg[i]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const long place = t * ROWS + own;
        if (own < ROWS && place < r.count) {
            float square = squares[own];
            for (int i = own + ROWS; i < GROUP; i += ROWS)
                square += squares[i];
            changed += end_row(fact, own, square, &b, &o, r.list ? r.list[place] : place);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (changed > 0)
        add_long(VIEW(long, stats), changed);
}
