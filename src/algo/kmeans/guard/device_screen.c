/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/guard/device_screen.h"
#include "algo/kmeans/guard/device_copies.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "base/rng.h"
#include "core/array.h"
#include "core/run.h"
#include "ops/lanes/lanes.h"
#include <string.h>

#define ROWS 512    /* of the part, at most, */
#define COLUMNS 128 /* columns, */
#define CLUSTERS 32 /* clusters, from its first rows, */
#define ITERATIONS 4

#define SHARES 16 /* of each multiprocessor, in which every lane has chains */
#define STEPS 64  /* of a chain */
#define CHAIN_SEED UINT64_C(0x6c616e6573)

/* The part, with sums and centroids of its own. */
struct part {
    struct hf_lloyd_args args;
    struct hf_sums sums;
    struct hf_lloyd_state state;
    hf_kmeans_iteration history[ITERATIONS];
    void *block;
};

/* carve->base NULL: measure. */
static void carve_part(struct part *p, hf_carve *carve) {
    const struct hf_sums *s = &p->sums;
    const size_t centers = (size_t)(s->k * s->d) * hf_dtype_bytes(p->args.rule.type);
    const size_t clusters = (size_t)(s->limbs * s->k) * sizeof(int64_t);
    p->sums.sum = hf_carve_take(carve, clusters * (size_t)s->d);
    p->sums.count = hf_carve_take(carve, (size_t)s->k * sizeof(int64_t));
    p->sums.weight = s->weight ? hf_carve_take(carve, clusters) : NULL;
    p->args.current = hf_carve_take(carve, centers);
    p->args.previous = hf_carve_take(carve, centers);
    p->args.labels = hf_carve_take(carve, (size_t)p->args.x.rows * sizeof(int32_t));
}

/* What is left of the rule is a problem that one launch makes, whatever that of the fit is. */
static void simplify(struct part *p) {
    p->args.x.row_stride = p->args.x.row_stride ? p->args.x.row_stride : p->args.x.cols;
    p->args.x.cols = p->sums.d = hf_min64(p->args.x.cols, COLUMNS);
    p->args.rule.metric = HF_EUCLIDEAN;
    p->args.exact = true;
    p->args.skipping = HF_SKIP_OFF;
    p->args.checks_tiles = p->args.sums_twice = false;
    p->args.book = NULL;
    p->args.progress = NULL;
}

static bool open_part(struct part *p, const struct hf_lloyd_args *whole) {
    *p = (struct part){.args = *whole, .sums = *whole->sums};
    p->args.x = hf_array_slice(&whole->x, 0, hf_min64(whole->x.rows, ROWS));
    simplify(p);
    p->sums.k = hf_min64(hf_min64(whole->sums->k, CLUSTERS), p->args.x.rows);
    hf_carve carve = {0};
    carve_part(p, &carve);
    p->block = hf_alloc_zero(carve.used);
    if (!p->block)
        return false;
    carve = (hf_carve){.base = p->block};
    carve_part(p, &carve);
    p->args.sums = &p->sums;
    p->args.state = &p->state;
    p->args.history = p->history;
    p->args.empty = HF_EMPTY_KEEP;
    p->args.settle = false;
    p->args.first = 0;
    p->args.count = ITERATIONS;
    const size_t each = hf_dtype_bytes(whole->rule.type);
    for (int64_t j = 0; j < p->sums.k; j++)
        memcpy((char *)p->args.current + (size_t)(j * p->sums.d) * each,
               (const char *)whole->current + (size_t)(j * whole->sums->d) * each,
               (size_t)p->sums.d * each);
    return true;
}

/* The one copy that differs from that which most agree with; -1: none, or several. */
static int odd_one(const struct hf_copies *c) {
    for (int i = 0; i < c->count; i++) {
        int others = 0;
        int odd = -1;
        for (int j = 0; j < c->count; j++)
            if (!hf_copies_agree(c, i, j)) {
                odd = j;
                others++;
            }
        if (2 * others < c->count)
            return others == 1 ? odd : -1;
    }
    return -1;
}

static hf_status run_part(struct hf_fit *fit, const struct hf_lloyd_args *part, int32_t *unit) {
    struct hf_copies c;
    *unit = -1;
    const hf_status opened = hf_copies_open(&c, fit, part, fit->problem.ctx->props.sms, NULL);
    if (opened == HF_E_NOMEM)
        return HF_OK;
    HF_TRY(opened);
    const hf_status status = hf_copies_run(&c);
    const int odd = status == HF_OK ? odd_one(&c) : -1;
    if (odd >= 0)
        *unit = c.unit[odd];
    hf_copies_close(&c);
    return status;
}

/* ---- lanes */

/* Chains that are the same for all who have lane i modulo the width. */
struct chains {
    struct hf_lanes_args args;
    float *single;
    double *wide;
    uint32_t *word;
    void *block;
};

/* carve->base NULL: measure. */
static void carve_chains(struct chains *c, hf_carve *carve) {
    const size_t n = (size_t)c->args.n;
    c->wide = hf_carve_take(carve, n * sizeof *c->wide);
    c->args.wide_end = hf_carve_take(carve, n * sizeof *c->args.wide_end);
    c->single = hf_carve_take(carve, n * sizeof *c->single);
    c->args.single_end = hf_carve_take(carve, n * sizeof *c->args.single_end);
    c->word = hf_carve_take(carve, n * sizeof *c->word);
    c->args.word_end = hf_carve_take(carve, n * sizeof *c->args.word_end);
    c->args.unit = hf_carve_take(carve, n / HF_LANES_CUDA * sizeof *c->args.unit);
}

static bool open_chains(struct chains *c, int64_t shares) {
    *c = (struct chains){.args = {.n = shares * HF_LANES_CUDA, .steps = STEPS}};
    hf_carve carve = {0};
    carve_chains(c, &carve);
    c->block = hf_alloc(carve.used);
    if (!c->block)
        return false;
    carve = (hf_carve){.base = c->block};
    carve_chains(c, &carve);
    for (int64_t i = 0; i < c->args.n; i++) {
        const uint64_t lane = (uint64_t)(i % HF_LANES_CUDA);
        c->wide[i] = 2 * hf_rng_unit(CHAIN_SEED, 0, lane) - 1;
        c->single[i] = (float)c->wide[i];
        c->word[i] = (uint32_t)hf_rng_bits(CHAIN_SEED, 1, lane);
    }
    c->args.wide = c->wide;
    c->args.single = c->single;
    c->args.word = c->word;
    return true;
}

/* Elements i and j of an array. */
static bool same(const void *array, size_t bytes, int64_t i, int64_t j) {
    const char *at = array;
    return memcmp(at + (size_t)i * bytes, at + (size_t)j * bytes, bytes) == 0;
}

static bool same_end(const struct hf_lanes_args *a, int64_t i, int64_t j) {
    return same(a->word_end, sizeof *a->word_end, i, j) &&
           same(a->single_end, sizeof *a->single_end, i, j) &&
           same(a->wide_end, sizeof *a->wide_end, i, j);
}

/* The only lane whose chains end otherwise on this multiprocessor than on another one; -1: none, or
 * several. */
static int odd_lane(const struct hf_lanes_args *a, int32_t unit) {
    const int64_t shares = a->n / HF_LANES_CUDA;
    int64_t other = 0;
    int lane = -1;
    while (other < shares && a->unit[other] == unit)
        other++;
    for (int64_t i = 0; other < shares && i < a->n; i++) {
        const int at = (int)(i % HF_LANES_CUDA);
        if (a->unit[i / HF_LANES_CUDA] != unit || same_end(a, i, other * HF_LANES_CUDA + at))
            continue;
        if (lane >= 0 && lane != at)
            return -1;
        lane = at;
    }
    return lane;
}

static hf_status find_lane(struct hf_fit *fit, int32_t unit, int *lane) {
    struct chains c;
    if (!open_chains(&c, (int64_t)fit->problem.ctx->props.sms * SHARES))
        return HF_OK;
    const hf_status status = hf_run(fit->problem.ctx, HF_OP_LANES, &c.args);
    if (status == HF_OK)
        *lane = odd_lane(&c.args, unit);
    hf_free(c.block);
    return status;
}

hf_status hf_screen_units(struct hf_fit *fit, const struct hf_lloyd_args *args, int32_t *unit,
                          int *lane) {
    struct part part;
    int32_t again = -1;
    *unit = *lane = -1;
    if (fit->problem.ctx->props.sms < 3 || !open_part(&part, args))
        return HF_OK;
    hf_status status = run_part(fit, &part.args, unit);
    if (status == HF_OK && *unit >= 0)
        status = run_part(fit, &part.args, &again);
    if (again != *unit)
        *unit = -1;
    hf_free(part.block);
    return status == HF_OK && *unit >= 0 ? find_lane(fit, *unit, lane) : status;
}
