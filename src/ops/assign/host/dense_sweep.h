/* SPDX-License-Identifier: Apache-2.0
 * The part of host/dense.h that is the same in float32 and in float64, by the names of
 * device/host/isa_real.h; DENSE_TILE is the number of centroids of a tile, DENSE_VALUE what planted
 * faults call its sums. No guard. */
#define TILE_PAIR (2 * REAL_LANES) /* rows of a tile */

ALWAYS_INLINE void OF_REAL(dense_chain)(VREAL s[2][DENSE_TILE], const REAL *x, const REAL *y,
                                        const REAL *c, int64_t depth, int euclidean) {
    UNROLL(12)
    for (int t = 0; t < DENSE_TILE; t++)
        s[0][t] = s[1][t] = VERB(set1)(0);
    for (int64_t j = 0; j < depth; j++) {
        const VREAL a = VERB(load)(x + j * REAL_LANES);
        const VREAL b = VERB(load)(y + j * REAL_LANES);
        UNROLL(12)
        for (int t = 0; t < DENSE_TILE; t++) {
            const VREAL q = VERB(set1)(c[j * REAL_LANES + t]);
            const VREAL da = VERB(sub)(a, q);
            const VREAL db = VERB(sub)(b, q);
            s[0][t] = euclidean ? VERB(fma)(da, da, s[0][t]) : VERB(fma)(a, q, s[0][t]);
            s[1][t] = euclidean ? VERB(fma)(db, db, s[1][t]) : VERB(fma)(b, q, s[1][t]);
        }
    }
}

ALWAYS_INLINE void OF_REAL(dense_tile_as)(const struct job *job, const REAL *x, const REAL *c,
                                          REAL *out, int euclidean) {
    const REAL *y = x + job->d_pad * REAL_LANES;
    const int64_t d = job->d;
    for (int64_t j = 0; j < d; j += DENSE_DEPTH) {
        VREAL s[2][DENSE_TILE];
        OF_REAL(dense_chain)
        (s, x + j * REAL_LANES, y + j * REAL_LANES, c + j * REAL_LANES,
         d - j < DENSE_DEPTH ? d - j : DENSE_DEPTH, euclidean);
        UNROLL(12)
        for (int t = 0; t < DENSE_TILE; t++) {
            REAL *at = out + t * TILE_PAIR;
            VERB(store)(at, j == 0 ? s[0][t] : VERB(add)(VERB(load)(at), s[0][t]));
            VERB(store)
            (at + REAL_LANES, j == 0 ? s[1][t] : VERB(add)(VERB(load)(at + REAL_LANES), s[1][t]));
        }
    }
}

/* Sums of a tile of rows: out [DENSE_TILE][TILE_PAIR]. Float32 is for Euclidean distances alone. */
static NOINLINE void OF_REAL(dense_tile)(const struct job *job, const REAL *x, const REAL *c,
                                         REAL *out) {
    if (REAL_BITS == 32 || job->a->metric == HF_EUCLIDEAN)
        OF_REAL(dense_tile_as)(job, x, c, out, 1);
    else
        OF_REAL(dense_tile_as)(job, x, c, out, 0);
}

static void OF_REAL(dense_sweep)(const struct job *job, struct worker *w, const struct dense *q) {
    REAL out[DENSE_TILE * TILE_PAIR];
    for (int k = 0; k < job->n_live; k += DENSE_TILE) {
        const int count = job->n_live - k < DENSE_TILE ? job->n_live - k : DENSE_TILE;
        OF_REAL(dense_pack_centroids)(job, w, k, count);
        for (int row = 0; row < q->count; row += TILE_PAIR) {
            OF_REAL(dense_tile)
            (job, (const REAL *)w->own.x + (int64_t)row * job->d_pad,
             (const REAL *)(const void *)w->rows, out);
            STRIKE_DENSE_AS(DENSE_VALUE, w, q, row, TILE_PAIR, job->live + k, count, out);
            const struct dense_keys keys = {.key = out, .row = row, .first = k, .count = count};
            if (q->collect)
                OF_REAL(dense_collect)(job, w, q, &keys);
            else
                OF_REAL(dense_best)(job, w, &keys);
        }
    }
}

static void OF_REAL(dense)(const struct job *job, struct worker *w, struct dense *q) {
    const int rows = (q->count + TILE_PAIR - 1) / TILE_PAIR * TILE_PAIR;
    for (int i = 0; i < rows; i += REAL_LANES)
        OF_REAL(dense_begin_panel)(job, w, q, i);
    OF_REAL(dense_sweep)(job, w, q);
    if (OF_REAL(dense_conclude)(job, w, q) == 0)
        return;
    q->collect = 1;
    OF_REAL(dense_sweep)(job, w, q);
}

#undef TILE_PAIR
#undef DENSE_TILE
#undef DENSE_VALUE
