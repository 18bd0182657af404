/* SPDX-License-Identifier: Apache-2.0
 * Execution signatures of a product. Each panel and each tile has a checksum of its words, which is
 * mixed with its place, and the sum of these modulo 2^64 is the signature: it does not depend on
 * which worker was first, but a panel that is left out, repeated or exchanged changes it. */
#ifndef HF_GEMM_SIGN_H
#define HF_GEMM_SIGN_H

#include "base/checksum/fletcher.h"
#include "ops/gemm/host/job.h"

/* Steele, Lea and Flood: Fast splittable pseudorandom number generators (2014). */
static inline uint64_t mixed(uint64_t x, uint64_t place) {
    x += 0x9e3779b97f4a7c15u * (place + 1);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* What a worker has signed; added to the signatures of the product at the end of its range. */
struct signed_sum {
    uint64_t a, b, c;
    int64_t panels, tiles;
};

static inline void add_signed(const struct gemm_job *job, const struct signed_sum *sum) {
    hf_gemm_signatures *const s = job->args->signatures;
    if (s == NULL)
        return;
    if (sum->panels > 0) {
        __atomic_fetch_add(&s->a, sum->a, __ATOMIC_RELAXED);
        __atomic_fetch_add(&s->b, sum->b, __ATOMIC_RELAXED);
        __atomic_fetch_add(&s->panels, sum->panels, __ATOMIC_RELAXED);
    }
    if (sum->tiles > 0) {
        __atomic_fetch_add(&s->c, sum->c, __ATOMIC_RELAXED);
        __atomic_fetch_add(&s->tiles, sum->tiles, __ATOMIC_RELAXED);
    }
}

/* Where panels and tiles of a group belong: product, range of its sums, first row and column. */
static inline uint64_t group_place(const struct gemm_job *job) {
    uint64_t place = mixed((uint64_t)job->batch, (uint64_t)job->first);
    place = mixed(place, (uint64_t)job->row);
    return mixed(place, (uint64_t)job->col);
}

/* A checksum with where it belongs: its group and the line. */
static inline uint64_t placed(const struct gemm_job *job, uint64_t value, int64_t line) {
    return mixed(mixed(value, (uint64_t)line), job->place);
}

static inline const uint32_t *panel_words(const struct gemm_job *job, bool of_a, int64_t tile,
                                          int64_t *words) {
    const int width = of_a ? TILE_M : job->tile_n;
    const int64_t bytes = panel_bytes(job, width);
    *words = bytes / 4;
    return (const uint32_t *)(const void *)((of_a ? job->pack_a : job->pack_b) + tile * bytes);
}

/* The checksum of whole words; Fletcher in the vectors of this instruction set. */
static inline uint64_t words_checksum(const struct gemm_job *job, const uint32_t *words,
                                      int64_t count) {
    if (job->checksum != HF_CHECKSUM_FLETCHER)
        return hf_checksum_of(job->checksum, words, count);
    struct hf_checksum s;
    hf_begin_fletcher(&s);
    hf_fletcher_words(&s, words, count);
    return hf_value_fletcher(&s);
}

static inline uint64_t panel_checksum(const struct gemm_job *job, bool of_a, int64_t tile) {
    int64_t words;
    const uint32_t *const at = panel_words(job, of_a, tile, &words);
    return words_checksum(job, at, words);
}

/* A fault on purpose at bit s->plant_at of op(A), if that is in this panel, which is signed. */
static inline void plant_in_panel(const struct gemm_job *job, int64_t tile) {
    const hf_gemm_signatures *const s = job->args->signatures;
    const int64_t element = s->plant_at / 32, row = element / job->args->k;
    const int64_t line = row - job->row - tile * TILE_M, q = element % job->args->k - job->first;
    if (line < 0 || line >= TILE_M || row >= job->row + job->rows || q < 0 || q >= job->depth)
        return;
    int64_t words;
    uint32_t *const panel = (uint32_t *)(uintptr_t)panel_words(job, true, tile, &words);
    const int64_t each = unit_bytes(job) / 4, bit = s->plant_at % 32;
    const int64_t own = unit_of_a(job, q, line) * each;
    const int64_t other = (line ^ INT64_C(1) << bit % 4) % TILE_M;
    if (s->plant == HF_GEMM_PLANT_A)
        panel[own] ^= 1u << bit;
    if (s->plant == HF_GEMM_PLANT_ADDRESS)
        panel[own] = panel[unit_of_a(job, q, other) * each];
    for (int64_t i = own % 32; s->plant == HF_GEMM_PLANT_STUCK && i < words; i += 32)
        panel[i] |= 1u << bit;
}

/* Panel `tile` of A or B was packed; its number in the group is `panel`. */
static inline void sign_panel(const struct gemm_job *job, bool of_a, int64_t tile, int64_t panel,
                              struct signed_sum *sum) {
    const hf_gemm_signatures *const s = job->args->signatures;
    if (s == NULL)
        return;
    const uint64_t value = panel_checksum(job, of_a, tile);
    const int64_t line = of_a ? job->row + tile * TILE_M : job->col + tile * (int64_t)job->tile_n;
    *(of_a ? &sum->a : &sum->b) += placed(job, value, line);
    sum->panels++;
    if (job->staged != NULL)
        job->staged[panel] = value;
    if (of_a && s->plant != HF_GEMM_PLANT_NONE)
        plant_in_panel(job, tile);
}

/* The tiles of the group are done with it: is it as it was? */
static inline void release_panel(const struct gemm_job *job, bool of_a, int64_t tile, int64_t panel,
                                 int worker) {
    if (panel_checksum(job, of_a, tile) == job->staged[panel])
        return;
    const struct hf_finding finding = {.fault = HF_FAULT_CHECK,
                                       .kernel = job->kernel,
                                       .unit = worker,
                                       .column = of_a ? -1 : (int32_t)(job->col + tile),
                                       .row = of_a ? job->row + tile * TILE_M : -1};
    hf_slot_tell(job->slot, &finding);
}

/* The entry of a tile, in the order of their places. */
static inline void tell_tile(const struct gemm_job *job, uint64_t value, int64_t row, int64_t col,
                             int worker) {
    const hf_gemm_args *const args = job->args;
    const int64_t down = ceil_div(args->m, TILE_M), across = ceil_div(args->n, job->tile_n);
    const int64_t at = (job->batch * down + row / TILE_M) * across + col / job->tile_n;
    args->signatures->tile[at] =
        (hf_gemm_tile){.c = value, .batch = job->batch, .row = row, .col = col, .unit = worker};
}

/* Before the call: nobody computed any. */
static inline void forget_tiles(const struct gemm_job *job) {
    const hf_gemm_args *const args = job->args;
    const int64_t down = ceil_div(args->m, TILE_M), across = ceil_div(args->n, job->tile_n);
    if (args->signatures == NULL || args->signatures->tile == NULL)
        return;
    for (int64_t i = 0; i < down * across * args->batch; i++)
        args->signatures->tile[i].unit = -1;
}

/* The word of the tile at (row, col) that a fault on purpose is in; -1: it is in another. */
static inline int64_t planted_word(const struct gemm_job *job, int64_t row, int64_t col) {
    const int64_t element = job->args->signatures->plant_at / 32;
    const int64_t i = element / job->args->n - row, j = element % job->args->n - col;
    return i >= 0 && i < TILE_M && j >= 0 && j < job->tile_n
               ? (i * job->tile_n + j) * (unit_bytes(job) / 4)
               : -1;
}

/* The sum changes, if it is in this tile. */
static inline void plant_in_tile(const struct gemm_job *job, char *total, int64_t row,
                                 int64_t col) {
    const hf_gemm_signatures *const s = job->args->signatures;
    const int64_t at = planted_word(job, row, col);
    uint32_t *const words = (uint32_t *)(void *)total, bit = 1u << s->plant_at % 32;
    if (at >= 0 && s->plant == HF_GEMM_PLANT_SUM)
        words[at] ^= bit;
    if (at >= 0 && s->plant == HF_GEMM_PLANT_CARRY)
        words[at] += bit;
}

/* Is the tile not to be computed, on purpose? */
static inline bool is_dropped(const struct gemm_job *job, int64_t row, int64_t col) {
    const hf_gemm_signatures *const s = job->args->signatures;
    return s != NULL && s->plant == HF_GEMM_PLANT_DROPPED && planted_word(job, row, col) >= 0;
}

/* The sums of the tile at (row, col) of C, before they are stored. */
static inline void sign_tile(const struct gemm_job *job, char *total, int64_t row, int64_t col,
                             struct signed_sum *sum, int worker) {
    const hf_gemm_signatures *const s = job->args->signatures;
    if (s == NULL)
        return;
    const int64_t words = TILE_M * job->tile_n * unit_bytes(job) / 4;
    if (s->plant != HF_GEMM_PLANT_NONE)
        plant_in_tile(job, total, row, col);
    const uint64_t check = words_checksum(job, (const uint32_t *)(const void *)total, words);
    const uint64_t value = placed(job, mixed(check, (uint64_t)row), col);
    sum->c += value;
    sum->tiles++;
    if (s->tile != NULL)
        tell_tile(job, value, row, col, worker);
}

#endif
