/* SPDX-License-Identifier: Apache-2.0
 * Once per call: carve the workspace, bring the centroids into the form that the tiles want. */
#ifndef HF_ASSIGN_PREPARE_H
#define HF_ASSIGN_PREPARE_H

#include "base/cpuid.h"
#include "base/dtype.h"
#include "device/host/isa_load.h"
#include "ops/assign/host/basis.h"
#include "ops/assign/host/centred.h"
#include "ops/assign/host/dense.h"
#include "ops/assign/host/gather.h"
#include "ops/assign/host/guard/guard_near.h"
#include "ops/assign/host/guard/guard_prepare.h"
#include "ops/assign/host/job.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

#define BLOCK_ROWS_MAX 512
#define TAKE_ROWS 512                  /* rows that a worker takes at once, at most; */
#define TAKE_SHARE 2                   /* this part of its share of those that are left, */
#define TAKE_LEAST (2 * TILE_ROWS)     /* but not fewer; */
#define TAKE_CACHE ((size_t)256 << 10) /* always the most if centroids take more bytes */

/* Rows of a block: their packed form should stay in half of the L2 cache. */
static int prepare_block_rows(const struct job *job) {
    int64_t l1;
    int64_t l2;
    int64_t l3;
    hf_cpu_caches(&l1, &l2, &l3);
    const int64_t row =
        (int64_t)tile_row_bytes(job) + (job->project ? job->d_pad * (int64_t)sizeof(float) : 0);
    const int64_t fit = l2 / (job->project ? 4 : 2) / row / TILE_ROWS * TILE_ROWS;
    const int64_t need = (job->n + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    int64_t rows = fit < TILE_ROWS ? TILE_ROWS : fit;
    rows = rows > BLOCK_ROWS_MAX ? BLOCK_ROWS_MAX : rows;
    return (int)(rows < need ? rows : need);
}

/* Each block of rows reads all centroids. If these are not in the L2 cache, many rows shall share
 * the cost. */
static int64_t prepare_take_least(const struct job *job) {
    const size_t centroids = tile_group_bytes(job) * (size_t)job->all.groups;
    return centroids > TAKE_CACHE ? TAKE_ROWS : TAKE_LEAST;
}

/* The end of the rows that a worker takes from `first` on. Towards the end of the data they are
 * fewer, so that no worker waits long for another. */
static int64_t take_end(const struct job *job, int64_t first) {
    const int64_t left = job->n - first;
    int64_t rows = left / (TAKE_SHARE * job->n_workers) / TILE_ROWS * TILE_ROWS;
    rows = rows < job->take_least ? job->take_least : rows;
    rows = rows > TAKE_ROWS ? TAKE_ROWS : rows;
    return first + (rows < left ? rows : left);
}

static void carve_pack(hf_carve *carve, const struct job *job, struct pack *p, int64_t count) {
    const int64_t room = (count + guard_room(job, count) + TILE_K - 1) / TILE_K;
    p->count = count;
    p->groups = job->guard.scores ? room : (count + TILE_K - 1) / TILE_K;
    p->tiles = hf_carve_take(carve, tile_group_bytes(job) * (size_t)room);
    p->start = hf_carve_take(carve, tile_start_bytes(job, room));
    p->loss =
        tile_measures(job) ? hf_carve_take(carve, sizeof(float) * TILE_K * (size_t)room) : NULL;
    p->length = hf_carve_take(carve, sizeof(float) * TILE_K * (size_t)room);
}

static void block_put(struct block *b, const struct rows_at *at) {
    b->first = -1;
    b->x = at->x;
    b->norm2 = at->norm2;
    b->loss = at->loss;
    b->unit = at->unit;
    b->word = at->word;
}

static void carve_sums(hf_carve *carve, const struct hf_sums *all, struct hf_sums *s, int own) {
    const size_t k = (size_t)all->k;
    const size_t limbs = (size_t)all->limbs;
    *s = *all;
    if (!own)
        return;
    s->sum = hf_carve_take(carve, sizeof(int64_t) * k * (size_t)all->d * limbs);
    s->count = hf_carve_take(carve, sizeof(int64_t) * k);
    s->weight = all->weight ? hf_carve_take(carve, sizeof(int64_t) * k * limbs) : NULL;
}

/* How many open rows wait for a pass, which reads all centroids. More of them if there are many
 * (half jobs), or if each pass packs the centroids again. */
static int open_most(const struct job *job, const struct block *b) {
    const int most = job->half || job->dense_first ? b->capacity : 2 * TILE_ROWS;
    return most < b->capacity ? most : b->capacity;
}

static void carve_worker(hf_carve *carve, const struct job *job, struct worker *w, int own_sums) {
    const size_t rows = (size_t)job->block_rows;
    struct block *b = &w->block;
    struct rows_at *own = &w->own;
    b->capacity = job->block_rows;
    const size_t open = (size_t)open_most(job, b);
    const size_t packed = tile_row_bytes(job) * rows;
    const size_t differ = DENSE_BYTES(job->d_pad);
    w->dense_bytes = packed > differ ? packed : differ;
    own->x = hf_carve_take(carve, w->dense_bytes);
    own->norm2 = hf_carve_take(carve, sizeof(float) * rows);
    own->loss =
        job->i16 || (job->half && !job->i8) ? hf_carve_take(carve, sizeof(float) * rows) : NULL;
    own->unit = job->i16 ? hf_carve_take(carve, sizeof(float) * rows) : NULL;
    own->word = hf_carve_take(carve, sizeof(int32_t) * rows);
    b->row = hf_carve_take(carve, sizeof(int64_t) * rows);
    b->best = hf_carve_take(carve, sizeof(float) * rows);
    b->next = hf_carve_take(carve, sizeof(float) * rows);
    b->arg = hf_carve_take(carve, sizeof(int32_t) * rows);
    block_put(b, own);
    const size_t unpacked = job->project ? rows : VW;
    w->rows = hf_carve_take(carve, sizeof(float) * (unpacked * (size_t)job->d_pad + 2 * VW));
    w->parts = hf_carve_take(carve, sizeof(float) * VW * VW);
    w->scratch = hf_carve_take(carve, tile_scratch_bytes(job));
    if (job->project) {
        const struct basis *basis = &job->basis;
        const size_t slots = (size_t)(basis->directions.groups * TILE_K);
        w->y = hf_carve_take(carve, sizeof(float) * slots * rows);
        w->scores = hf_carve_take(carve, sizeof(float) * (size_t)(basis->coarse.groups * TILE_K) *
                                             TILE_ROWS);
        w->coarse_row = hf_carve_take(carve, sizeof(float) * BASIS_ROOM * VW);
        w->coarse = hf_carve_take(carve, tile_row_bytes(basis->coarse_job) * rows);
    }
    w->full = hf_carve_take(carve, sizeof(int64_t) * (2 * rows + TAKE_ROWS));
    w->partial = hf_carve_take(carve, sizeof(int64_t) * (rows + TAKE_ROWS));
    w->open = hf_carve_take(carve, sizeof(struct open_row) * 2 * (rows + TILE_ROWS));
    w->list = hf_carve_take(carve, sizeof(int32_t) * open * CANDIDATES_MAX);
    w->listed = hf_carve_take(carve, sizeof(int32_t) * open);
    w->least_arg = hf_carve_take(carve, sizeof(int32_t) * open);
    double **const each[] = {&w->least,    &w->others,  &w->key_best,
                             &w->key_next, &w->key_arg, &w->key_error};
    for (int i = 0; i < 6; i++)
        *each[i] = hf_carve_take(carve, sizeof(double) * open);
    w->decided = hf_carve_take(carve, open);
    w->dense = hf_carve_take(carve, sizeof(int) * (open + 1));
    w->row32 = hf_carve_take(carve, sizeof(float) * (size_t)job->d_pad);
    w->x64 = hf_carve_take(carve, sizeof(double) * (size_t)job->d_pad);
    if (job->a->sums)
        carve_sums(carve, job->a->sums, &w->sums, own_sums);
    guard_carve_worker(carve, job, w, open);
}

/* All workers but the first have sums of their own. To measure, one of these stands for all. */
static void carve_workers(hf_carve *carve, struct job *job) {
    job->workers = hf_carve_take(carve, sizeof(struct worker) * (size_t)job->n_workers);
    if (job->workers) {
        for (int i = 0; i < job->n_workers; i++) {
            memset(&job->workers[i], 0, offsetof(struct worker, moves));
            job->workers[i].slot64 = -1;
            carve_worker(carve, job, &job->workers[i], i > 0);
        }
        return;
    }
    struct worker w;
    carve_worker(carve, job, &w, 0);
    const size_t first = carve->used;
    if (job->n_workers > 1)
        carve_worker(carve, job, &w, 1);
    carve->used = first + (carve->used - first) * (size_t)(job->n_workers - 1);
}

/* Are rows exact in bf16 once centred? Not if float32, in which the shift is subtracted, rounds the
 * shift: rows would have fractions or exceed 256. */
static int rows_are_whole(const struct hf_assign_args *a) {
    if (!a->filter.whole || !a->filter.shift)
        return a->filter.whole;
    const double *shift = a->filter.shift;
    int inexact = a->metric != HF_EUCLIDEAN;
    for (int64_t j = 0; j < a->x.cols; j++) /* no early exit, so that the loop becomes vectors */
        inexact |= (double)(float)shift[j] != shift[j];
    return !inexact;
}

/* Memory of host/basis.h. *coarse stands for the coarse job while measuring. */
static void carve_basis(hf_carve *carve, struct job *job, struct job *coarse) {
    struct basis *b = &job->basis;
    const size_t d = (size_t)job->d_pad;
    const size_t k = (size_t)(job->k + 3) / 4 * 4;
    const size_t square = sizeof(double) * BASIS_ROOM * BASIS_ROOM;
    b->p = tile_directions(job->k);
    b->loss = hf_carve_take(carve, sizeof(float) * k);
    b->v = hf_carve_take(carve, sizeof(float) * d * BASIS_ROOM);
    b->c32 = hf_carve_take(carve, sizeof(float) * k * d);
    b->square = hf_carve_take(carve, sizeof(double) * k);
    b->start = hf_carve_take(carve, sizeof(float) * k);
    b->z = hf_carve_take(carve, sizeof(float) * k * BASIS_ROOM);
    b->wide = hf_carve_take(carve, sizeof(double) * d * BASIS_ROOM);
    b->inner = hf_carve_take(carve, square);
    b->inverse = hf_carve_take(carve, square);
    b->coarse_job = hf_carve_take(carve, sizeof(struct job));
    b->coarse_job = b->coarse_job ? b->coarse_job : coarse;
    memset(b->coarse_job, 0, sizeof(struct job));
    b->coarse_job->d = b->p + 1;
    b->coarse_job->d_pad = BASIS_ROOM;
    b->coarse_job->whole = b->coarse_job->single = 1; /* coordinates are rounded already */
    carve_pack(carve, job, &b->directions, b->p);
    carve_pack(carve, b->coarse_job, &b->coarse, job->k);
}

/* Are moved centroids centroids? A number that changed in memory must address nothing. Where memory
 * is measured there is no list. */
static int moved_exist(const struct hf_assign_bounds *b, int64_t k) {
    int exist = 1;
    for (int64_t i = 0; b->moved && i < b->n_moved; i++)
        exist &= b->moved[i] >= 0 && b->moved[i] < k;
    return exist;
}

/* Lay out everything a call needs; returns the bytes. ws NULL measures. */
static size_t carve_job(struct job *job, const struct hf_call *call, enum variant variant,
                        int workers, void *ws) {
    const struct hf_assign_args *a = call->args;
    struct job coarse;
    hf_carve carve = {ws, 0};
    memset(job, 0, sizeof *job);
    job->a = a;
    job->n = a->x.rows;
    job->k = a->c.rows;
    job->d = a->x.cols;
    job->i8 = variant == VARIANT_I8 ? 1 : variant == VARIANT_I8X2 ? 2 : 0;
    const int64_t pad = job->i8 ? 2 * TILE_PAD : TILE_PAD; /* a tile of bytes has more of them */
    job->d_pad = (job->d + pad - 1) / pad * pad;
    job->row_bytes =
        hf_dtype_bytes(a->x.dtype) * (size_t)(a->x.row_stride ? a->x.row_stride : a->x.cols);
    job->n_workers = workers;
    job->whole = job->i8 || rows_are_whole(a);
    job->project = variant == VARIANT_PROJECT;
    job->i16 = variant == VARIANT_I16;
    job->half = variant == VARIANT_HALF || job->i8;
    guard_begin_call(job, call);
    if (guard_takes_near(job, ws != NULL)) {
        job->guard.near = job->guard.share = 1;
        job->guard.scores = job->guard.words = 0;
    }
    job->block_rows = prepare_block_rows(job);
    job->dense_first = dense_pays(job);
    const size_t k = (size_t)job->k;
    job->shift = hf_carve_take(&carve, sizeof(float) * (size_t)job->d_pad);
    job->i8_off = job->i8 ? hf_carve_take(&carve, sizeof(int16_t) * (size_t)job->d_pad) : NULL;
    job->c_norm = hf_carve_take(&carve, sizeof(double) * k);
    job->c_inverse = hf_carve_take(&carve, sizeof(double) * k);
    job->live = hf_carve_take(&carve, sizeof(int32_t) * k);
    job->c_length = hf_carve_take(&carve, sizeof(double) * k);
    job->c_most = job->i8 == 1 ? hf_carve_take(&carve, sizeof(double) * k) : NULL;
    job->has_equal = hf_carve_take(&carve, k);
    job->c_hash = hf_carve_take(&carve, sizeof(uint64_t) * k);
    job->hash_size = 1;
    while (job->hash_size < 2 * job->k)
        job->hash_size *= 2;
    job->hash_slot = hf_carve_take(&carve, sizeof(int32_t) * (size_t)job->hash_size);
    carve_pack(&carve, job, &job->all, job->k);
    job->take_least = prepare_take_least(job);
    const struct hf_assign_bounds *b = a->bounds;
    const int use_moved =
        b && b->valid && (b->sweep || b->n_moved * 2 <= job->k) && moved_exist(b, job->k);
    carve_pack(&carve, job, &job->moved, use_moved ? b->n_moved : 0);
    job->moved.index = use_moved ? b->moved : NULL;
    guard_carve(&carve, job);
    if (job->project)
        carve_basis(&carve, job, &coarse);
    carve_workers(&carve, job);
    if (!ws && job->project)
        job->basis.coarse_job = NULL;
    return carve.used;
}

#define READ_GRAIN 16                 /* centroids */
#define HASH_WORD 0x9e3779b1u         /* odd, so that products lose nothing */
#define HASH_LANE 0xff51afd7ed558ccdu /* the same */

/* Hash of a centroid's bits: the sum of its words, each times an odd number of its own. Equal
 * centroids that differ in the sign of a zero count as different. */
static uint64_t hash_words(const char *p, size_t words) {
    int32_t lanes[VW];
    for (uint32_t i = 0; i < VW; i++)
        lanes[i] = (int32_t)((2 * i + 1) * HASH_WORD);
    vi key = vi_load(lanes);
    vl sum = vl_set1(0);
    for (; words >= VW; p += sizeof lanes, words -= VW) {
        sum = vl_add(sum, vi_mul_pairs(vi_load((const int32_t *)(const void *)p), key));
        key = vi_add(key, vi_set1((int32_t)(2 * VW * HASH_WORD)));
    }
    if (words > 0) {
        memset(lanes, 0, sizeof lanes);
        memcpy(lanes, p, words * sizeof *lanes);
        sum = vl_add(sum, vi_mul_pairs(vi_load(lanes), key));
    }
    const uint64_t h = (uint64_t)vl_sum(sum) * HASH_LANE;
    return h ^ h >> 32;
}

/* Where c' of centroid k of a pack goes; k < 0: none. Directions need c' of all centroids later. */
static float *centred_place(const struct job *job, const struct worker *w, const struct pack *p,
                            int64_t k) {
    const int keep = job->project && p == &job->all && k >= 0;
    return keep ? job->basis.c32 + k * job->d_pad : w->rows;
}

/* Read centroid k: norm (cosine), hash, c' and length. Returns |c'|^2. */
static double read_centroid(struct job *job, struct worker *w, int64_t k, float *c) {
    const hf_array *centroids = &job->a->c;
    const void *row = hf_array_row(centroids, k);
    job->c_hash[k] =
        hash_words(row, (size_t)job->d * hf_dtype_bytes(centroids->dtype) / sizeof(uint32_t));
    if (job->a->metric == HF_COSINE) {
        gather_wide(w->x64, row, centroids->dtype, job->d);
        job->c_norm[k] = hf_reference_norm(w->x64, job->d);
        job->c_inverse[k] = job->c_norm[k] > 0 ? 1 / job->c_norm[k] : 0;
    }
    const double square = centred_row(job, w, k, c);
    job->c_length[k] = sqrt(square) < OUT_OF_RANGE ? sqrt(square) : INFINITY;
    if (job->c_most)
        job->c_most[k] = job->c_length[k] < OUT_OF_RANGE ? centred_most(c, job->d_pad) : 0;
    return square;
}

/* A centroid as the filter sees it. */
struct centred {
    int64_t k; /* < 0: none, behind the last one */
    float *c;  /* [d_pad] c' */
    double square;
};

/* Pack a centroid into slot `slot`; as zeros if it is excluded. */
static void pack_centroid(struct job *job, struct worker *w, struct pack *p, int64_t slot,
                          const struct centred *from) {
    float start = job->a->metric == HF_EUCLIDEAN ? (float)(-from->square / 2) : 0;
    if (from->k < 0 || !(job->c_length[from->k] < OUT_OF_RANGE)) {
        memset(from->c, 0, sizeof(float) * (size_t)job->d_pad);
        start = EXCLUDED;
    }
    if (from->c != w->rows) { /* c' stays in basis.c32 */
        job->basis.start[from->k] = start;
        job->basis.square[from->k] = from->square;
    }
    p->length[slot] = start > EXCLUDED ? (float)(sqrt(from->square) * (1 + 0x1p-20)) : 0;
    tile_pack_centroid(job, w, p, slot, from->c, start);
}

/* Read and pack the centroid of a slot. */
static void pack_slot(struct job *job, struct worker *w, struct pack *p, int64_t slot) {
    const int64_t k = slot >= p->count ? -1 : p->index ? p->index[slot] : slot;
    struct centred from = {.k = k, .c = centred_place(job, w, p, k)};
    from.square = k < 0 ? 0 : centred_row(job, w, k, from.c);
    pack_centroid(job, w, p, slot, &from);
}

/* Are centroids packed as they are read? int16 and single bytes need to know the longest one first.
 */
static int packs_at_once(const struct job *job) { return !job->i16 && job->i8 != 1; }

static void read_range(void *user, int worker, int64_t begin, int64_t end) {
    struct job *job = user;
    struct worker *w = &job->workers[worker];
    for (int64_t slot = begin; slot < end; slot++) {
        const int64_t k = slot < job->k ? slot : -1;
        struct centred from = {.k = k, .c = centred_place(job, w, &job->all, k)};
        from.square = k < 0 ? 0 : read_centroid(job, w, k, from.c);
        if (packs_at_once(job))
            pack_centroid(job, w, &job->all, slot, &from);
    }
}

static void pack_all_range(void *user, int worker, int64_t begin, int64_t end) {
    struct job *job = user;
    for (int64_t slot = begin; slot < end; slot++)
        pack_slot(job, &job->workers[worker], &job->all, slot);
}

static void pack_moved_range(void *user, int worker, int64_t begin, int64_t end) {
    struct job *job = user;
    for (int64_t slot = begin; slot < end; slot++)
        pack_slot(job, &job->workers[worker], &job->moved, slot);
}

/* Exclude centroids that equal an earlier one: they never win a tie. With many equal rows in the
 * data they would make long lists of candidates. */
static void drop_equal(struct job *job) {
    const hf_array *c = &job->a->c;
    const size_t bytes = (size_t)job->d * hf_dtype_bytes(c->dtype);
    const uint64_t mask = (uint64_t)job->hash_size - 1;
    memset(job->has_equal, 0, (size_t)job->k);
    memset(job->hash_slot, 0xff, sizeof(int32_t) * (size_t)job->hash_size);
    for (int64_t k = 0; k < job->k; k++) {
        uint64_t at = job->c_hash[k] & mask;
        for (; job->hash_slot[at] >= 0; at = (at + 1) & mask) {
            const int64_t other = job->hash_slot[at];
            if (job->c_hash[other] == job->c_hash[k] &&
                memcmp(hf_array_row(c, other), hf_array_row(c, k), bytes) == 0)
                break;
        }
        if (job->hash_slot[at] >= 0) {
            job->c_length[k] = INFINITY;
            if (packs_at_once(job))
                pack_slot(job, &job->workers[0], &job->all, k);
            job->has_equal[job->hash_slot[at]] = 1;
            job->any_equal = 1;
        } else {
            job->live[job->n_live++] = (int32_t)k;
            job->hash_slot[at] = (int32_t)k;
        }
    }
}

/* The power of two that brings the largest component of the centroids to about 1 (dot). */
static double scale_centroids(const struct hf_assign_args *a) {
    double row[VW];
    double most = 0;
    for (int64_t k = 0; k < a->c.rows; k++) {
        const char *c = hf_array_row(&a->c, k);
        for (int64_t j = 0; j < a->c.cols; j += VW) {
            const int64_t count = a->c.cols - j < VW ? a->c.cols - j : VW;
            hf_to_f64(row, c + (size_t)j * hf_dtype_bytes(a->c.dtype), a->c.dtype, count);
            for (int64_t i = 0; i < count; i++)
                most = fmax(most, fabs(row[i]));
        }
    }
    int e = 0;
    if (most > 0)
        frexp(most, &e);
    return ldexp(1, e < -1000 ? 1000 : e > 1000 ? -1000 : -e);
}

/* Dot and cosine: can the reference's products and norms neither overflow nor underflow? The filter
 * is scaled and would not notice. */
static int centroids_in_range(const struct job *job) {
    if (job->a->metric == HF_DOT)
        return job->c_scale >= 0x1p-400 && job->c_scale <= 0x1p400;
    for (int64_t k = 0; job->a->metric == HF_COSINE && k < job->k; k++)
        if (job->c_norm[k] != 0 && !(job->c_norm[k] > 0x1p-400 && job->c_norm[k] < 0x1p400))
            return 0;
    return 1;
}

/* Columns from j on, VDW at most. */
ALWAYS_INLINE int columns_left(int64_t d, int64_t j) { return d - j < VDW ? (int)(d - j) : VDW; }

/* Middles of the ranges of n <= VDW columns. Values are at most 128 below and 127 above them, if
 * the sum is exact in float64. */
ALWAYS_INLINE vd filter_middle(const struct hf_filter *f, int64_t j, int n) {
    const vd sum =
        vd_add(vd_load_as_n(f->least, HF_F64, j, n), vd_load_as_n(f->most, HF_F64, j, n));
    return vd_rint(vd_fma(sum, vd_set1(0.5), vd_set1(0.25)));
}

/* The shift of n <= VDW columns from j on. For one byte it is the middle of the range, which makes
 * centroids short: the step of their components is relative to the longest one. */
ALWAYS_INLINE vd column_shift(const struct job *job, int64_t j, int n) {
    const struct hf_filter *f = &job->a->filter;
    if (job->i8 == 1)
        return filter_middle(f, j, n);
    return job->a->metric == HF_EUCLIDEAN && f->shift ? vd_load_as_n(f->shift, HF_F64, j, n)
                                                      : vd_set1(0);
}

static void prepare_shift(struct job *job) {
    for (int64_t j = 0; j < job->d_pad; j += VW) {
        double v[VW] = {0};
        for (int64_t i = j; i < j + VW && i < job->d; i += VDW)
            vd_store(v + (i - j), column_shift(job, i, columns_left(job->d, i)));
        vf_store(job->shift + j, vf_from_f64(v));
    }
}

#if TILE_HAS_HALF
/* What turns x' into bytes. Returns the most that |x'_j| can be; *all: the sum of these over j. */
static double prepare_i8_rows(struct job *job, double *all) {
    const struct hf_filter *f = &job->a->filter;
    vd sum = vd_set1(0);
    vd most = vd_set1(0);
    float *off = job->workers[0].rows;
    memset(off, 0, sizeof(float) * (size_t)job->d_pad);
    for (int64_t j = 0; j < job->d; j += VDW) {
        const int n = columns_left(job->d, j);
        const vd shift = column_shift(job, j, n);
        const vd reach = vd_max(vd_sub(vd_load_as_n(f->most, HF_F64, j, n), shift),
                                vd_sub(shift, vd_load_as_n(f->least, HF_F64, j, n)));
        _mm256_storeu_ps(off + j, _mm512_cvtpd_ps(vd_sub(shift, filter_middle(f, j, n))));
        sum = vd_add(sum, reach);
        most = vd_max(most, reach);
    }
    i8_store_off(job, off);
    *all = vd_sum(sum);
    return _mm512_reduce_max_pd(most);
}

/* The step of centroids in bytes. Two bytes are fine enough for any centroid that is a mean of
 * rows, so the range of the rows is enough; one byte needs the largest component of the centroids.
 */
static void prepare_i8(struct job *job) {
    double all;
    double most = prepare_i8_rows(job, &all);
    if (job->i8 == 2 && most < 1)
        most = 1; /* columns may be constant, but centroids far from them */
    for (int64_t k = 0; job->c_most && k < job->k; k++)
        if (k == 0 || job->c_most[k] > most)
            most = job->c_most[k];
    i8_choose_step(job, fmin(most, I8_REACH), all);
}
#endif

static void prepare(struct job *job, hf_pool *pool) {
    const struct hf_assign_args *a = job->a;
    prepare_shift(job);
    const double scale = a->filter.scale > 0 && !job->i8 ? a->filter.scale : 1;
    job->scale = (float)scale;
    job->usable = scale <= 0x1p100 && scale >= 0x1p-100;
    if (!job->usable)
        job->scale = 1;
    job->c_scale = a->metric == HF_DOT ? scale_centroids(a) : 1;
#if TILE_HAS_HALF
    if (job->i8 && packs_at_once(job))
        prepare_i8(job);
#endif
    const int64_t slots = job->all.groups * TILE_K;
    const int64_t grain = (READ_GRAIN + TILE_K - 1) / TILE_K * TILE_K;
    hf_parallel_for(pool, slots, grain, read_range, job);
    job->in_range = centroids_in_range(job);
    job->usable &= job->in_range;
    drop_equal(job);
    double cmax = 0;
    for (int64_t k = 0; k < job->k; k++)
        if (job->c_length[k] < OUT_OF_RANGE && job->c_length[k] > cmax)
            cmax = job->c_length[k];
    job->difference_reach = a->metric == HF_DOT ? cmax / job->c_scale * (1 + 0x1p-10) : 1 + 0x1p-10;
    difference_prepare(job);
    const double exact_score = job->project ? ((double)job->d / VW + 12) * 0x1p-24 : 0;
    job->bound =
        filter_bound_make(fmax(tile_dot_error(job, tile_measures(job)), exact_score), job->d, cmax);
    job->exact = a->exact;
    job->differ = 8 * lengths_below(job, cmax) > job->k;
#if TILE_HAS_HALF
    if (job->i8 && !packs_at_once(job))
        prepare_i8(job);
    if (job->i8)
        filter_bound_add(&job->bound, job->i8_step * I8_KEY);
#endif
#if TILE_HAS_I16
    /* if float64 corrects nothing, one short centroid is reason enough */
    job->i16_own = job->i16 && (job->differ || (!job->exact && lengths_below(job, cmax) > 0));
    job->i16_scale = i16_centroid_scale(cmax);
#endif
    if (!packs_at_once(job))
        hf_parallel_for(pool, slots, grain, pack_all_range, job);
    hf_parallel_for(pool, job->moved.groups * TILE_K, TILE_K, pack_moved_range, job);
    if (job->all.loss) {
        /* the stored row may be a little longer than x', and |x'| lacks what underflows */
        job->bound.moved = pack_loss_most(&job->all) * (1 + 0x1p-6f);
        job->bound.share = smaller(tile_most_share(job), pack_loss_share(&job->all));
        filter_bound_add(&job->bound, sqrtf((float)job->d) * 0x1p-62f * job->bound.moved);
    }
    guard_pack_all(job, pool);
    if (job->project && job->usable)
        job->project = basis_make(job, pool);
}

#endif
