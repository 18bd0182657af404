/* SPDX-License-Identifier: Apache-2.0
 * Tiles on AMX: 32 rows by 32 centroids, float32 split into bf16 parts. x' = xh + xl + rest, the
 * same for c', and x'.c' ~ (xh + xl).ch + xh.cl; data that are whole numbers have no xl. The parts
 * of a row lie end to end, [xh | xl], so that only their end is padded to 32. Each tile of 32 of
 * them is multiplied with the tile of [ch | ch] at the same place ("high") and, as far as xh
 * reaches, of [cl | cl] ("low"):
 *   packed rows       [panel of 16][step][16 pairs of features][16 rows][2]      bf16
 *   packed centroids  [group][half][high steps, then low steps][16 centroids][32] bf16
 * A result tile is [16 centroids][16 rows], lane = row as in the float32 tiles.
 * Half jobs leave out cl, and xl unless both parts fit one tile: that is a third of the work. How
 * far it moves rows and centroids is measured, and rows it leaves open are compared in float32.
 * Jobs in bytes (host/tile_i8.h) are half jobs with twice the features per tile. */
#ifndef HF_ASSIGN_TILE_AMX_H
#define HF_ASSIGN_TILE_AMX_H

#include "ops/assign/host/job.h"
#include "ops/assign/host/candidates.h"
#include "ops/assign/host/tile_i8.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define TILE_NAME "bf16_32x32"
#define TILE_HALF_NAME "half_32x32"
#define TILE_HAS_I16 0
#define TILE_HAS_HALF 1
#define TILE_HAS_GUARD 0 /* scores have no checksums in the tiles, */
#define TILE_HAS_SUMS 1  /* but sums beside: host/guard/guard_amx.h */
#define TILE_K 32
#define TILE_ROWS 32
#define TILE_PAD 32                  /* x' and c' are padded with zeros to a multiple of this */
#define TILE_COARSE_UP (1 + 0x1p-7f) /* more than tile_coarse_value() rounds down */
#define STEP 32                      /* bf16 features of a tile */
#define STEP_BYTES 1024              /* of a tile */
#if defined(__clang__)               /* refuses the pragma if the count is not known */
#define UNROLL_KNOWN(n)
#else
#define UNROLL_KNOWN(n) UNROLL(n)
#endif
#define SCORES_STRIDE (2 * 256 + 16) /* floats of 16 rows; loads 2 KB behind a store would wait */

#define SPLIT_BYTES (26 * 1024) /* of centroids that stay in the L1 cache while rows stream */
#define L1_BYTES (32 * 1024)    /* of operands that stay there anyway */

/* Tile registers: 0-3 scores, 4-5 centroids, 6-7 rows; all 16 rows of 64 bytes. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t colsb[16];
    uint8_t rows[16];
} tile_config __attribute__((aligned(64))) = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

/* Rows are packed up to a multiple of this. */
static int tile_rows_least(const struct job *job) {
    (void)job;
    return TILE_ROWS;
}

/* Directions for k centroids: with the length as one more feature, whole steps. */
static int tile_directions(int64_t k) { return k < 512 ? 62 : 126; }

static void tile_begin(void) { _tile_loadconfig(&tile_config); }

static void tile_end(void) { _tile_release(); }

/* Parts of a row: xh alone, or xh and xl. */
static int tile_parts(const struct job *job) {
    return job->whole || (job->half && 2 * job->d > STEP) ? 1 : 2;
}

static int64_t tile_steps(const struct job *job) {
    const int64_t step = job->i8 ? I8_STEP : STEP;
    return (tile_parts(job) * job->d + step - 1) / step;
}

static int64_t tile_low_steps(const struct job *job) {
    if (job->i8 == 2)
        return tile_steps(job);
    return job->single || job->half ? 0 : (job->d + STEP - 1) / STEP;
}

static int64_t tile_all_steps(const struct job *job) {
    return tile_steps(job) + tile_low_steps(job);
}

/* Is the loss of each centroid measured? */
static int tile_measures(const struct job *job) {
    return job->half || !(job->single || job->project);
}

/* The most it can be, relative to |c'|: see tile_rest(). Half jobs have no such bound. */
static float tile_most_share(const struct job *job) {
    return job->half ? FLT_MAX : 2.04f * 0x1p-16f;
}

/* A bf16 part is off by at most 2^-8 of what it stands for. The products leave out the rest of c'
 * (2^-16) and, for split rows, xl.cl and the rest of x', each at most 2^-16 of |x'||c'|; coarse
 * rows and centroids are exact in bf16. If losses are measured, only the rest of x' counts here. A
 * step adds 32 products in chains of 16, and one to the total; twice that covers any order. A key
 * (host/scan_amx.h) differs from its score in the last 5 bits. */
static double tile_dot_error(const struct job *job, int measured) {
    if (job->i8)
        return I8_ROUNDINGS * 0x1p-24;
    const double chain = 2 * (18.0 + (double)tile_all_steps(job));
    const double stored = job->single || measured ? 0 : job->whole ? 1.02 : 2.04;
    const double rows = job->single || job->half || job->whole ? 0 : 1.02;
    return (stored + rows) * 0x1p-16 + 1.02 * chain * 0x1p-24 + 1.02 * 0x1p-18;
}

static size_t tile_row_bytes(const struct job *job) {
    return (size_t)tile_steps(job) * STEP_BYTES / 16;
}

/* Of a row that stays packed. */
static size_t tile_packed_bytes(const struct job *job) { return tile_row_bytes(job); }

static size_t tile_group_bytes(const struct job *job) {
    return 2 * (size_t)tile_all_steps(job) * STEP_BYTES;
}

/* A start tile [16][16] for every 16 centroids. */
static size_t tile_start_bytes(const struct job *job, int64_t groups) {
    (void)job;
    return 2 * STEP_BYTES * (size_t)groups;
}

/* bf16 values of one row of parts, with room behind for the last store of 32. */
static int64_t tile_parts_stride(const struct job *job) { return (tile_steps(job) + 1) * STEP; }

/* 16 rows of parts */
static size_t tile_parts_bytes(const struct job *job) {
    return 16 * sizeof(uint16_t) * (size_t)tile_parts_stride(job);
}

/* Into how many parts the steps of a group are split if its operands do not fit into the L1 cache.
 */
static int64_t tile_splits(int64_t high, int64_t low) {
    const int64_t centroids = 2 * (high + low) * STEP_BYTES;
    if (centroids + 2 * high * STEP_BYTES <= L1_BYTES)
        return 1;
    const int64_t parts = (centroids + SPLIT_BYTES - 1) / SPLIT_BYTES;
    return parts > 2 ? parts : 2;
}

/* Room for parts, and for the scores of three panels, of two groups of two halves
 * (host/sweep_i8x2.h), or of all panels. */
static size_t tile_scratch_bytes(const struct job *job) {
    const int panels = job->block_rows / VW;
    const int split = tile_splits(tile_steps(job), tile_low_steps(job)) > 1;
    const size_t some = job->i8 == 2 ? 4 : 3;
    const size_t scores = split && panels > 3 ? (size_t)panels : some;
    return tile_parts_bytes(job) + scores * SCORES_STRIDE * sizeof(float);
}

ALWAYS_INLINE __m512 tile_widen(__m256i bf16) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
}

/* 32 features as bf16: the high parts, or the low ones. */
ALWAYS_INLINE __m512i tile_part(const float *x, int low) {
    const vf a = vf_load(x);
    const vf b = vf_load(x + 16);
    const __m512i high = (__m512i)_mm512_cvtne2ps_pbh(b, a);
    if (!low)
        return high;
    const vf rest_a = vf_sub(a, tile_widen(_mm512_castsi512_si256(high)));
    const vf rest_b = vf_sub(b, tile_widen(_mm512_extracti64x4_epi64(high, 1)));
    return (__m512i)_mm512_cvtne2ps_pbh(rest_b, rest_a);
}

/* d features, up to a multiple of 32. */
ALWAYS_INLINE void tile_part_row(const float *x, int64_t d, int low, uint16_t *out) {
    for (int64_t j = 0; j < d; j += STEP)
        _mm512_storeu_si512(out + j, tile_part(x + j, low));
}

/* Clear what lies behind the parts of a row, up to the end of its last tile. */
static void tile_clear_end(const struct job *job, uint16_t *row) {
    const int64_t used = tile_parts(job) * job->d;
    memset(row + used, 0, sizeof(uint16_t) * (size_t)(tile_steps(job) * STEP - used));
}

/* How far bf16 moves a centroid; *square: the squared length of the stored one. */
static float tile_loss(const float *c, int64_t d, double *square) {
    vd loss = vd_set1(0);
    vd stored = vd_set1(0);
    for (int64_t j = 0; j < d; j += VW) {
        const vf v = vf_load(c + j);
        const vf high = tile_widen((__m256i)_mm512_cvtneps_pbh(v));
        loss = vd_add_squares(loss, vf_sub(v, high));
        stored = vd_add_squares(stored, high);
    }
    *square = vd_sum(stored);
    return (float)(sqrt(vd_sum(loss)) * (1 + 0x1p-20) + sqrt((double)d) * 0x1p-120);
}

/* The most that a centroid's score leaves out of x'.c', relative to |x'|: the rest of c' and, for
 * split rows, xl.cl. */
static float tile_rest(const struct job *job, const float *c) {
    const int split = tile_parts(job) == 2;
    vd low_square = vd_set1(0);
    vd rest_square = vd_set1(0);
    for (int64_t j = 0; j < job->d; j += VW) {
        const vf v = vf_load(c + j);
        const vf off = vf_sub(v, tile_widen((__m256i)_mm512_cvtneps_pbh(v)));
        const vf low = tile_widen((__m256i)_mm512_cvtneps_pbh(off));
        low_square = split ? vd_add_squares(low_square, low) : low_square;
        rest_square = vd_add_squares(rest_square, vf_sub(off, low));
    }
    const double low = 0x1p-8 * sqrt(vd_sum(low_square));
    return (float)((sqrt(vd_sum(rest_square)) + low) * (1 + 0x1p-20) +
                   sqrt((double)job->d) * 0x1p-120);
}

/* The high or the low tiles of a centroid. */
ALWAYS_INLINE void tile_pack_part(const struct job *job, struct worker *w, const float *c, int low,
                                  int64_t steps, char *tile) {
    if (tile_parts(job) == 1 || job->d % STEP == 0) {
        for (int64_t s = 0, j = 0; s < steps; s++, j += STEP)
            _mm512_storeu_si512(tile + s * STEP_BYTES,
                                tile_part(c + (j < job->d_pad ? j : j - job->d), low));
        return;
    }
    uint16_t *parts = w->scratch; /* the tile that xh and xl share computes xl.cl for free */
    tile_part_row(c, job->d, low, parts);
    tile_part_row(c, job->d, low, parts + job->d);
    tile_clear_end(job, parts);
    for (int64_t s = 0; s < steps; s++)
        memcpy(tile + s * STEP_BYTES, parts + s * STEP, 64);
}

/* Centroid `slot` of a pack: c' [d_pad] and its start score. */
static void tile_pack_centroid(const struct job *job, struct worker *w, struct pack *p,
                               int64_t slot, const float *c, float start) {
    if (job->i8) {
        i8_pack_centroid(job, p, slot, c, start);
        return;
    }
    const int64_t high = tile_steps(job);
    const int64_t low = tile_low_steps(job);
    char *tile = (char *)p->tiles + (size_t)(slot / 16 * (high + low)) * STEP_BYTES +
                 (size_t)(slot % 16) * 64;
    tile_pack_part(job, w, c, 0, high, tile);
    tile_pack_part(job, w, c, 1, low, tile + high * STEP_BYTES);
    if (job->half) {
        double square;
        p->loss[slot] = tile_loss(c, job->d, &square);
        if (start > EXCLUDED && job->a->metric == HF_EUCLIDEAN)
            start = (float)(-square / 2);
    } else if (p->loss) {
        p->loss[slot] = tile_rest(job, c);
    }
    vf_store(p->start + slot * 16, vf_set1(start));
}

/* Step s of the packed rows, where no tile has features of both parts. */
ALWAYS_INLINE void tile_pack_step(const float *rows, int64_t stride, int low, char *dst) {
    vf r[16];
    UNROLL(16)
    for (int i = 0; i < 16; i++)
        r[i] = _mm512_castsi512_ps(tile_part(rows + i * stride, low));
    vf_transpose(r);
    UNROLL(16)
    for (int i = 0; i < 16; i++)
        vf_store((float *)(void *)dst + i * 16, r[i]);
}

/* The one step of rows of 16 features, both parts. */
static void tile_pack_both(const float *rows, int64_t stride, char *dst) {
    vf r[16];
    UNROLL(16)
    for (int i = 0; i < 16; i++) {
        const vf x = vf_load(rows + i * stride);
        const __m256i high = (__m256i)_mm512_cvtneps_pbh(x);
        const __m256i low = (__m256i)_mm512_cvtneps_pbh(vf_sub(x, tile_widen(high)));
        r[i] = _mm512_castsi512_ps(_mm512_inserti64x4(_mm512_castsi256_si512(high), low, 1));
    }
    vf_transpose(r);
    UNROLL(16)
    for (int i = 0; i < 16; i++)
        vf_store((float *)(void *)dst + i * 16, r[i]);
}

/* Rows whose parts share a tile are put together in memory. */
static void tile_pack_shared(const struct job *job, struct worker *w, const float *rows,
                             char *dst) {
    const int64_t stride = tile_parts_stride(job);
    uint16_t *parts = w->scratch; /* [16][stride] */
    for (int i = 0; i < 16; i++) {
        tile_part_row(rows + i * job->d_pad, job->d, 0, parts + i * stride);
        tile_part_row(rows + i * job->d_pad, job->d, 1, parts + i * stride + job->d);
        tile_clear_end(job, parts + i * stride);
    }
    for (int64_t s = 0; s < tile_steps(job); s++) {
        vf r[16];
        UNROLL(16)
        for (int i = 0; i < 16; i++)
            r[i] = vf_load((const float *)(const void *)(parts + i * stride + s * STEP));
        vf_transpose(r);
        UNROLL(16)
        for (int i = 0; i < 16; i++)
            vf_store((float *)(void *)(dst + s * STEP_BYTES) + i * 16, r[i]);
    }
}

/* How far half jobs move 16 rows, to block.loss. `least` covers squares below float32's range. */
static void tile_note_loss(const struct job *job, struct worker *w, int first, const float *rows) {
    const int both = tile_parts(job) == 2;
    for (int i = 0; i < 16; i++) {
        const float *x = rows + i * job->d_pad;
        vf sum = vf_set1(0);
        for (int64_t j = 0; j < job->d; j += VW) {
            vf off = vf_load(x + j);
            off = vf_sub(off, tile_widen((__m256i)_mm512_cvtneps_pbh(off)));
            if (both)
                off = vf_sub(off, tile_widen((__m256i)_mm512_cvtneps_pbh(off)));
            sum = vf_fma(off, off, sum);
        }
        vf_store(w->parts + i * VW, sum);
    }
    const vf least = vf_set1(sqrtf((float)job->d) * 0x1p-62f);
    const vf moved = vf_sqrt(sum_parts(w));
    vf_store(w->block.loss + first, vf_fma(moved, vf_set1(1 + 0x1p-8f), least));
}

/* 16 rows starting at slot `first`, x' as [16][d_pad] in rows, zeros behind d. */
static void tile_pack_panel(const struct job *job, struct worker *w, int first, const float *rows) {
    if (job->i8) {
        i8_pack_panel(job, w, first, rows);
        return;
    }
    const int64_t steps = tile_steps(job);
    const int64_t half = job->d_pad / STEP;
    char *dst = (char *)w->block.x + (size_t)(first / 16 * steps) * STEP_BYTES;
    if (job->half && job->whole)
        vf_store(w->block.loss + first, vf_set1(0));
    else if (job->half)
        tile_note_loss(job, w, first, rows);
    if (tile_parts(job) == 2 && job->d == 16) {
        tile_pack_both(rows, job->d_pad, dst);
        return;
    }
    if (tile_parts(job) == 2 && job->d % STEP != 0) {
        tile_pack_shared(job, w, rows, dst);
        return;
    }
    for (int64_t s = 0; s < half; s++)
        tile_pack_step(rows + s * STEP, job->d_pad, 0, dst + s * STEP_BYTES);
    for (int64_t s = half; s < steps; s++)
        tile_pack_step(rows + (s - half) * STEP, job->d_pad, 1, dst + s * STEP_BYTES);
}

/* Tile registers 0-3 to out [TILE_K][TILE_ROWS]. */
ALWAYS_INLINE void tile_store_scores(float *out) {
    const int stride = TILE_ROWS * sizeof(float);
    _tile_stored(0, out, stride);
    _tile_stored(1, out + 16 * TILE_ROWS, stride);
    _tile_stored(2, out + 16, stride);
    _tile_stored(3, out + 16 * TILE_ROWS + 16, stride);
}

/* The packed operands of a 32 x 32 block: rows x and y, centroids c and e. */
struct tile_operands {
    const char *x, *y, *c, *e;
    int64_t high, low; /* steps */
    int i8;            /* of bytes */
};

/* Tile register c += a times b, which must be literal numbers. */
#define TILE_ADD(i8, c, a, b)                                                                      \
    do {                                                                                           \
        if (i8)                                                                                    \
            _tile_dpbssd(c, a, b);                                                                 \
        else                                                                                       \
            _tile_dpbf16ps(c, a, b);                                                               \
    } while (0)

ALWAYS_INLINE struct tile_operands tile_operands_at(const char *x, const struct pack *p, int64_t g,
                                                    int64_t high, int64_t low, int i8) {
    const char *c = (const char *)p->tiles + (size_t)(2 * (high + low) * g) * STEP_BYTES;
    return (struct tile_operands){
        x, x + high * STEP_BYTES, c, c + (high + low) * STEP_BYTES, high, low, i8};
}

ALWAYS_INLINE void tile_load_start(const struct pack *p, int64_t g) {
    const float *start = p->start + g * 512;
    _tile_loadd(0, start, 64);
    _tile_loadd(1, start + 256, 64);
    _tile_loadd(2, start, 64);
    _tile_loadd(3, start + 256, 64);
}

/* Load the centroids of step s, then multiply the loaded rows of x, and of y, with them. */
ALWAYS_INLINE void tile_load_centroids(const struct tile_operands *o, int64_t s) {
    _tile_loadd(4, o->c + s * STEP_BYTES, 64);
    _tile_loadd(5, o->e + s * STEP_BYTES, 64);
}

ALWAYS_INLINE void tile_products_x(const struct tile_operands *o) {
    TILE_ADD(o->i8, 0, 4, 6);
    TILE_ADD(o->i8, 1, 5, 6);
}

ALWAYS_INLINE void tile_products_y(const struct tile_operands *o) {
    TILE_ADD(o->i8, 2, 4, 7);
    TILE_ADD(o->i8, 3, 5, 7);
}

/* The products of step s; the rows are loaded. */
ALWAYS_INLINE void tile_products(const struct tile_operands *o, int64_t s) {
    tile_load_centroids(o, s);
    tile_products_x(o);
    tile_products_y(o);
}

/* Step s of both panels. */
ALWAYS_INLINE void tile_step(const struct tile_operands *o, int64_t s) {
    _tile_loadd(6, o->x + s * STEP_BYTES, 64);
    _tile_loadd(7, o->y + s * STEP_BYTES, 64);
    tile_products(o, s);
    if (s < o->low)
        tile_products(o, o->high + s);
}

/* Tile i of packed rows. */
static const void *tile_at(const struct job *job, const void *packed, int i) {
    return (const char *)packed + (size_t)i * TILE_ROWS * tile_row_bytes(job);
}

/* Scores of a tile of packed rows against group g: out [TILE_K][TILE_ROWS]. */
static void tile_scores_out(const struct job *job, const void *rows, const struct pack *p,
                            int64_t g, float *out) {
    const struct tile_operands o =
        tile_operands_at(rows, p, g, tile_steps(job), tile_low_steps(job), 0);
    tile_load_start(p, g);
    for (int64_t s = 0; s < o.high; s++)
        tile_step(&o, s);
    tile_store_scores(out);
}

ALWAYS_INLINE vf tile_coarse_value(vf v) { return tile_widen((__m256i)_mm512_cvtneps_pbh(v)); }

/* 16 coarse rows [d][16], already bf16, into their panel. */
static void tile_pack_coarse(const struct job *job, void *packed, int panel, const float *rows) {
    uint32_t *dst = (uint32_t *)(void *)((char *)packed + (size_t)panel * 16 * tile_row_bytes(job));
    for (int64_t j = 0; j < tile_steps(job) * STEP; j += 2) {
        const __m512i a = j < job->d ? _mm512_loadu_si512(rows + j * 16) : _mm512_setzero_si512();
        const __m512i b =
            j + 1 < job->d ? _mm512_loadu_si512(rows + (j + 1) * 16) : _mm512_setzero_si512();
        _mm512_storeu_si512(dst + j * 8, _mm512_or_si512(_mm512_srli_epi32(a, 16), b));
    }
}

/* ---- cost model: fitted to one core of about 3.3 GHz */

/* Nanoseconds that the tiles need for a row: of half jobs, of jobs in bytes and of plain ones. */
static double high_row(const struct hf_assign_args *a, int features) {
    const double k = ceil((double)a->c.rows / TILE_K) * TILE_K;
    return k * (0.019 * ceil((double)a->x.cols / features) + 0.035);
}

static double half_row(const struct hf_assign_args *a) { return high_row(a, STEP); }

static double i8_row(const struct hf_assign_args *a) { return high_row(a, I8_STEP); }

/* Two bytes per component of a centroid. */
static double i8x2_row(const struct hf_assign_args *a) {
    const double k = ceil((double)a->c.rows / TILE_K) * TILE_K;
    return k * (0.038 * ceil((double)a->x.cols / I8_STEP) + 0.045);
}

static double plain_row(const struct hf_assign_args *a) {
    const double d = (double)a->x.cols;
    const double k = ceil((double)a->c.rows / TILE_K) * TILE_K;
    return k * (0.022 * (ceil((a->filter.whole ? 1 : 2) * d / STEP) + ceil(d / STEP)) + 0.035);
}

/* Nanoseconds that an open row costs: it is packed, goes through the tiles again, and float32
 * compares its candidates. */
static double open_row(const struct hf_assign_args *a, double row) {
    return row + 0.8 * (double)a->x.cols + 220;
}

/* Nanoseconds per row for the rows that plain jobs leave open. With few features, centroids are
 * close to each other relative to their lengths: in cities (2 features, 1024 centroids) most gaps
 * between the best scores are below 6e-5 of them. Gaps are about proportional to k^(-2/d). */
static double plain_open(const struct hf_assign_args *a) {
    const double gap = 0.03 * pow((double)a->c.rows, -2.0 / (double)a->x.cols);
    return fmin(1, 5e-5 / gap) * (plain_row(a) + 250);
}

/* Nanoseconds that a row costs in all, */
static double tile_row_ns(const struct hf_assign_args *a) {
    return plain_row(a) + plain_open(a) + 0.33 * (double)a->x.cols + 7;
}

/* in half jobs, */
static double half_row_ns(const struct hf_assign_args *a) {
    return 1.1 * half_row(a) + plain_open(a) + 0.4 * (double)a->x.cols + 7;
}

/* in bytes, which leave a tenth of the rows open, */
static double i8_row_ns(const struct hf_assign_args *a) {
    return 1.1 * i8_row(a) + 0.1 * open_row(a, i8_row(a)) + plain_open(a) +
           0.4 * (double)a->x.cols + 7;
}

/* in two bytes, which leave few open, */
static double i8x2_row_ns(const struct hf_assign_args *a) {
    return i8x2_row(a) + 0.003 * open_row(a, i8x2_row(a)) + plain_open(a) +
           0.33 * (double)a->x.cols + 7;
}

/* and with directions. */
static double tile_project_ns(const struct hf_assign_args *a) {
    const double d = (double)a->x.cols;
    const double k = (double)a->c.rows;
    const double p = tile_directions(a->c.rows);
    const double steps = ceil((a->filter.whole ? 1 : 2) * d / STEP) + ceil(d / STEP);
    return p * 0.022 * steps + 0.0015 * p * k + 0.1 * k + 0.75 * d + 60;
}

/* Nanoseconds of the tiles of this job for a row. */
static double tile_call_ns(const struct job *job) {
    return job->half ? half_row(job->a) : plain_row(job->a);
}

#endif
