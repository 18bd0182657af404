/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/guard/ledger.h"
#include "algo/kmeans/guard/device_ledger.h"
#include "algo/kmeans/guard/device_scan.h"
#include "algo/kmeans/guard/differ.h"
#include "algo/kmeans/mend/past.h"
#include "algo/kmeans/loop/clusters.h"
#include "algo/kmeans/loop/labels.h"
#include "algo/kmeans/loop/skip.h"
#include "algo/kmeans/loop/calls.h"
#include "base/mem.h"
#include "base/rng.h"
#include "core/array.h"
#include "guard/guard.h"
#include "ops/rowhash/rowhash.h"
#include <stdatomic.h>
#include <string.h>

#define GRAIN 16384    /* labels that one worker looks at, */
#define LOCAL 1024     /* clusters whose entries a range of rows keeps for itself */
#define AHEAD 512      /* rows whose words are on their way, */
#define FAR_AHEAD 2048 /* and whose labels are */
#define FACTOR_SEED UINT64_C(0x6c6564676572)
#define CHECKS                                                                                     \
    (HF_CHECK_BIT(HF_FAULT_BOUNDS) | HF_CHECK_BIT(HF_FAULT_SUMS) |                                 \
     HF_CHECK_BIT(HF_FAULT_CHANGES) | HF_CHECK_BIT(HF_FAULT_RANGE) |                               \
     HF_CHECK_BIT(HF_FAULT_COUNTS) | HF_CHECK_BIT(HF_FAULT_STATE))

static size_t factors(const struct hf_sums *sums) { return (size_t)(sums->limbs * (sums->d + 1)); }

/* carve->base NULL: measure. */
static void carve_ledger(const struct hf_fit *fit, hf_carve *carve, struct hf_ledger *l) {
    const size_t n = (size_t)fit->problem.n;
    const size_t k = (size_t)fit->problem.k;
    l->factor = hf_carve_take(carve, factors(&fit->centers.sums) * sizeof(uint64_t));
    if (hf_ctx_is_host(fit->problem.ctx)) {
        l->hash = hf_carve_take(carve, n * sizeof(uint64_t));
        l->labels = hf_carve_take(carve, n * sizeof(int32_t));
        l->word = hf_carve_take(carve, k * sizeof(uint64_t));
        l->count = hf_carve_take(carve, k * sizeof(int64_t));
    }
    l->current = hf_carve_take(carve, hf_center_bytes(&fit->problem));
    l->previous = hf_carve_take(carve, hf_center_bytes(&fit->problem));
    l->columns = hf_carve_take(carve, (size_t)fit->problem.d * HF_COLUMN_ARRAYS * sizeof(double));
    hf_past_carve(fit, carve, &l->past);
    l->relocated = fit->refill.relocated ? hf_carve_take(carve, k * sizeof *l->relocated) : NULL;
}

uint64_t hf_ledger_bytes(const struct hf_fit *fit) {
    const hf_context *ctx = fit->problem.ctx;
    struct hf_ledger measured;
    hf_carve carve = {0};
    if (!(ctx->guard.checks & CHECKS) || ctx->comm.size(&ctx->comm) > 1)
        return 0;
    carve_ledger(fit, &carve, &measured);
    return carve.used;
}

/* What holds for all iterations: columns and scales. */
static uint64_t sign_facts(const struct hf_fit_problem *problem, const double *columns,
                           const struct hf_frame *frame, double weight_mult) {
    const double numbers[] = {frame->tol,          frame->total_square,  frame->slack,
                              frame->filter.scale, frame->filter.length, weight_mult};
    return hf_guard_sign(columns, (size_t)problem->d * HF_COLUMN_ARRAYS * sizeof(double)) +
           3 * hf_guard_sign(numbers, sizeof numbers);
}

static uint64_t sign_own_facts(const struct hf_fit *fit) {
    return sign_facts(&fit->problem, fit->columns.block, &fit->frame,
                      fit->centers.sums.weight_mult);
}

hf_status hf_ledger_open(struct hf_fit *fit) {
    struct hf_ledger *l = &fit->ledger;
    hf_carve carve = {.base = hf_alloc((size_t)hf_ledger_bytes(fit))};
    if (!carve.base)
        return hf_ctx_fail(fit->problem.ctx, HF_E_NOMEM,
                           "the system gave no memory for the checks of %lld rows: guard off needs "
                           "none",
                           (long long)fit->problem.n);
    void *block = carve.base;
    carve_ledger(fit, &carve, l);
    l->block = block;
    l->hashed = l->proven = l->kept = l->best_signed = false;
    for (size_t i = 0; i < factors(&fit->centers.sums); i++)
        l->factor[i] = hf_rng_bits(FACTOR_SEED, 0, i) | 1;
    l->facts = sign_own_facts(fit);
    memcpy(l->columns, fit->columns.block,
           (size_t)fit->problem.d * HF_COLUMN_ARRAYS * sizeof(double));
    l->frame = fit->frame;
    l->weight_mult = fit->centers.sums.weight_mult;
    return HF_OK;
}

/* On a device the book begins when it is known that there is to be one. */
static hf_status begin_book(struct hf_fit *fit) {
    struct hf_ledger *l = &fit->ledger;
    HF_TRY(hf_device_ledger_open(fit, l->factor));
    if (!l->device)
        hf_ledger_close(fit->problem.ctx, l);
    return HF_OK;
}

void hf_ledger_close(hf_context *ctx, struct hf_ledger *ledger) {
    hf_device_ledger_close(ctx, ledger);
    hf_free(ledger->block);
    ledger->block = NULL;
    ledger->labels = NULL;
    ledger->twice = false;
}

hf_status hf_ledger_clear(struct hf_fit *fit) {
    struct hf_ledger *l = &fit->ledger;
    l->labels_signed = false;
    if (l->block && !l->labels && !l->twice)
        HF_TRY(begin_book(fit));
    if (!l->labels)
        return HF_OK;
    if (l->device)
        return hf_device_ledger_clear(fit);
    memset(l->labels, 0xff, (size_t)fit->problem.n * sizeof *l->labels);
    memset(l->word, 0, (size_t)fit->problem.k * sizeof *l->word);
    memset(l->count, 0, (size_t)fit->problem.k * sizeof *l->count);
    return HF_OK;
}

/* Are the rows compared with their signature? On a device, where that is another pass, until the
 * sums have agreed with their words. */
static bool signs_rows(const struct hf_ledger *l) {
    return l->rows_signed && !(l->device && l->proven);
}

bool hf_ledger_doubts_rows(const struct hf_fit *fit) {
    return fit->ledger.rows_signed && !fit->ledger.proven && !fit->ledger.twin_known;
}

hf_status hf_ledger_panel(struct hf_fit *fit, const hf_array *panel, int64_t first) {
    struct hf_ledger *l = &fit->ledger;
    hf_context *ctx = fit->problem.ctx;
    if (!l->labels || l->hashed)
        return HF_OK;
    if (first == 0)
        l->rows_now = 0;
    const int64_t most = hf_cached_rows(ctx, panel);
    for (int64_t at = 0; at < panel->rows; at += most) {
        const int64_t row = first + at;
        const struct hf_rowhash_args args = {
            .x = hf_array_slice(panel, at, hf_min64(most, panel->rows - at)),
            .metric = fit->problem.opts.metric,
            .weights = fit->weights.scaled ? fit->weights.scaled + row : NULL,
            .sums = &fit->centers.sums,
            .factor = l->factor,
            .hash = l->hash + row};
        HF_TRY(hf_rowhash(ctx, &args));
        if (signs_rows(l) && l->device) /* behind it: rows that it read changed */
            HF_TRY(hf_device_scan_sign(fit, &args.x, &l->rows_now));
        else if (signs_rows(l))
            l->rows_now += hf_guard_sign_rows(hf_ctx_pool(ctx), &args.x, row);
    }
    return HF_OK;
}

hf_status hf_ledger_hashed(struct hf_fit *fit) {
    struct hf_ledger *l = &fit->ledger;
    const struct hf_fit_problem *problem = &fit->problem;
    if (!l->labels || l->hashed)
        return HF_OK;
    const size_t bytes = (size_t)problem->n * sizeof *l->hash;
    uint64_t sign = 0;
    if (l->device)
        HF_TRY(hf_device_ledger_sign(fit, l->hash, bytes, &sign));
    else
        sign = hf_guard_sign(l->hash, bytes);
    const bool changed = signs_rows(l) && l->rows_now != l->rows;
    l->hashed = !changed && (!l->proven || sign == l->sign);
    if (!l->hashed) {
        hf_guard_found(problem->ctx, HF_FAULT_SUMS, -1, -1);
        return hf_ctx_fail(problem->ctx, HF_E_CORRUPT, "rows are not what they were: %s",
                           hf_suspects(problem));
    }
    l->sign = sign;
    return HF_OK;
}

/* ---- booking rows */

struct booking {
    const struct hf_fit *fit;
    _Atomic int64_t changed;
    _Atomic int64_t outside; /* a row whose label is none, -1: no such row */
};

/* What a range of rows changes: sums of words wrap, in any order. */
struct entry {
    uint64_t word;
    int64_t count;
};

static bool is_cluster(const struct booking *b, int32_t label) {
    return (uint32_t)label < (uint32_t)b->fit->problem.k;
}

/* Into the book of all. */
static void book_into(const struct hf_ledger *l, int64_t cluster, const struct entry *e) {
    __atomic_add_fetch(&l->word[cluster], e->word, __ATOMIC_RELAXED);
    __atomic_add_fetch(&l->count[cluster], e->count, __ATOMIC_RELAXED);
}

/* A row has another label: clusters of many. False: it is none. */
static bool book_row(struct booking *b, int64_t i) {
    const struct hf_ledger *l = &b->fit->ledger;
    const int32_t from = l->labels[i];
    const int32_t to = b->fit->labels.host[i];
    if (!is_cluster(b, to)) {
        b->outside = i;
        return false;
    }
    if (is_cluster(b, from))
        book_into(l, from, &(struct entry){0 - l->hash[i], -1});
    book_into(l, to, &(struct entry){l->hash[i], 1});
    l->labels[i] = to;
    return true;
}

/* The same of few clusters, whose entries are the range's own; own[0] is of labels that are
 * none. */
static bool book_own(struct booking *b, struct entry *own, int64_t i) {
    const struct hf_ledger *l = &b->fit->ledger;
    const int32_t old = l->labels[i];
    const int32_t to = b->fit->labels.host[i];
    const int64_t from = is_cluster(b, old) ? old + 1 : 0;
    if (!is_cluster(b, to)) {
        b->outside = i;
        return false;
    }
    own[from].word -= l->hash[i];
    own[from].count--;
    own[to + 1].word += l->hash[i];
    own[to + 1].count++;
    l->labels[i] = to;
    return true;
}

/* What is looked at of the block of rows from `at` on into the L1 cache. */
static void fetch_labels(const struct hf_fit *fit, int64_t at, int64_t end) {
    const int64_t stop = hf_min64(end, at + HF_DIFFER_BLOCK);
    for (int64_t i = at; i < stop; i += HF_ALIGN / (int64_t)sizeof(int32_t)) {
        __builtin_prefetch(fit->ledger.labels + i);
        __builtin_prefetch(fit->labels.host + i);
    }
}

static void fetch_words(const uint64_t *hash, int64_t at, int64_t end) {
    const int64_t stop = hf_min64(end, at + HF_DIFFER_BLOCK);
    for (int64_t i = at; i < stop; i += HF_ALIGN / (int64_t)sizeof *hash)
        __builtin_prefetch(hash + i);
}

/* own: NULL for many clusters. */
static void book_rows(struct booking *b, struct entry *own, int64_t begin, int64_t end) {
    int64_t changed = 0;
    for (int64_t at = begin; at < end; at += HF_DIFFER_BLOCK) {
        fetch_labels(b->fit, at + FAR_AHEAD, end);
        uint64_t bits = hf_differ(b->fit->ledger.labels + at, b->fit->labels.host + at,
                                  hf_min64(HF_DIFFER_BLOCK, end - at));
        if (bits)
            fetch_words(b->fit->ledger.hash, at + AHEAD, end);
        for (; bits; bits &= bits - 1)
            changed += own ? book_own(b, own, at + __builtin_ctzll(bits))
                           : book_row(b, at + __builtin_ctzll(bits));
    }
    b->changed += changed;
}

static void book_range(void *user, int worker, int64_t begin, int64_t end) {
    struct booking *b = user;
    const int64_t k = b->fit->problem.k;
    struct entry own[LOCAL + 1];
    (void)worker;
    if (k > LOCAL) {
        book_rows(b, NULL, begin, end);
        return;
    }
    memset(own, 0, sizeof *own * (size_t)(k + 1));
    book_rows(b, own, begin, end);
    for (int64_t j = 0; j < k; j++)
        if (own[j + 1].word != 0 || own[j + 1].count != 0)
            book_into(&b->fit->ledger, j, &own[j + 1]);
}

/* ---- comparing */

struct comparison {
    const struct hf_fit *fit;
    _Atomic int64_t wrong; /* a cluster whose sums are not those of its rows, -1: none */
};

uint64_t hf_ledger_word(const struct hf_fit *fit, int64_t j) {
    const struct hf_sums *s = &fit->centers.sums;
    uint64_t word = 0;
    for (int limb = 0; limb < s->limbs; limb++) {
        const uint64_t *factor = fit->ledger.factor + limb * (s->d + 1);
        word += hf_guard_fold(factor, s->sum + (limb * s->k + j) * s->d, s->d);
        if (s->weight)
            word += hf_guard_fold(factor + s->d, s->weight + limb * s->k + j, 1);
    }
    return word;
}

static void compare_range(void *user, int worker, int64_t begin, int64_t end) {
    struct comparison *c = user;
    (void)worker;
    for (int64_t j = begin; j < end; j++)
        if (hf_ledger_word(c->fit, j) != c->fit->ledger.word[j])
            atomic_store_explicit(&c->wrong, j, memory_order_relaxed);
}

static hf_status check_sizes(struct hf_fit *fit, const int64_t *count) {
    const struct hf_fit_problem *problem = &fit->problem;
    hf_context *ctx = problem->ctx;
    if (!hf_guard_checks(ctx, HF_FAULT_COUNTS))
        return HF_OK;
    hf_guard_checked(ctx, HF_FAULT_COUNTS, problem->k);
    int64_t j = 0;
    while (j < problem->k && fit->ledger.count[j] == count[j])
        j++;
    if (j == problem->k)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_COUNTS, -1, j);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "cluster %lld holds %lld rows by its labels, not %lld: %s", (long long)j,
                       (long long)fit->ledger.count[j], (long long)count[j], hf_suspects(problem));
}

static hf_status check_sums(struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    hf_context *ctx = problem->ctx;
    struct comparison c = {.fit = fit, .wrong = -1};
    if (!hf_guard_checks(ctx, HF_FAULT_SUMS))
        return HF_OK;
    hf_guard_checked(ctx, HF_FAULT_SUMS, problem->n);
    hf_for_clusters(problem, problem->k, compare_range, &c);
    if (c.wrong < 0)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_SUMS, -1, c.wrong);
    return hf_ctx_fail(ctx, HF_E_CORRUPT, "the sums of cluster %lld are not those of its rows: %s",
                       (long long)c.wrong, hf_suspects(problem));
}

static hf_status check_booking(struct hf_fit *fit, const struct booking *b, int64_t changed) {
    const struct hf_fit_problem *problem = &fit->problem;
    hf_context *ctx = problem->ctx;
    hf_guard_checked(ctx, HF_FAULT_RANGE, problem->n);
    if (b->outside >= 0)
        return hf_labels_outside(problem, b->outside);
    if (changed == HF_LEDGER_ANY || !hf_guard_checks(ctx, HF_FAULT_CHANGES))
        return HF_OK;
    hf_guard_checked(ctx, HF_FAULT_CHANGES, 1);
    if (b->changed == changed)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_CHANGES, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "%lld labels changed where the kernels count %lld: the machine or a kernel "
                       "computes wrongly",
                       (long long)b->changed, (long long)changed);
}

bool hf_ledger_looks(const struct hf_fit *fit) { return fit->ledger.labels && !fit->ledger.device; }

static hf_status book(struct hf_fit *fit, int64_t changed, int64_t *booked) {
    struct booking b = {.fit = fit, .outside = -1};
    hf_parallel_for(hf_ctx_pool(fit->problem.ctx), fit->problem.n, GRAIN, book_range, &b);
    *booked = b.changed;
    return check_booking(fit, &b, changed);
}

hf_status hf_ledger_rebook(struct hf_fit *fit, int64_t *changed) {
    return book(fit, HF_LEDGER_ANY, changed);
}

hf_status hf_ledger_book(struct hf_fit *fit, int64_t changed) {
    if (!fit->ledger.labels)
        return HF_OK;
    if (fit->ledger.device)
        return hf_device_ledger_book(fit, changed, true);
    HF_TRY(book(fit, changed, &fit->ledger.changed));
    return check_sizes(fit, fit->centers.sums.count);
}

hf_status hf_ledger_compare(struct hf_fit *fit) {
    if (!fit->ledger.labels)
        return HF_OK;
    if (fit->ledger.device)
        return hf_device_ledger_compare(fit);
    HF_TRY(check_sizes(fit, fit->centers.sums.count));
    HF_TRY(check_sums(fit));
    fit->ledger.proven = true;
    return HF_OK;
}

bool hf_ledger_owe(struct hf_fit *fit) {
    struct hf_ledger *l = &fit->ledger;
    if (!l->labels || l->device || !hf_guard_checks(fit->problem.ctx, HF_FAULT_SUMS))
        return false;
    memset(l->word, 0, (size_t)fit->problem.k * sizeof *l->word);
    memset(l->count, 0, (size_t)fit->problem.k * sizeof *l->count);
    return true;
}

hf_status hf_ledger_check_labels(struct hf_fit *fit) {
    const struct hf_ledger *l = &fit->ledger;
    hf_context *ctx = fit->problem.ctx;
    if (l->labels_signed)
        return hf_device_ledger_check_labels(fit);
    if (!l->labels || !hf_guard_checks(ctx, HF_FAULT_LABELS) ||
        !hf_guard_checks(ctx, HF_FAULT_SUMS)) /* without which the last ones are not booked */
        return HF_OK;
    if (l->device)
        return hf_device_ledger_check_labels(fit);
    hf_guard_checked(ctx, HF_FAULT_LABELS, fit->problem.n);
    if (memcmp(l->labels, fit->labels.host, (size_t)fit->problem.n * sizeof *l->labels) == 0)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_LABELS, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "labels changed in memory after they were found: the machine or a program "
                       "writes where it must not");
}

hf_status hf_ledger_move(struct hf_fit *fit, const struct hf_moved_row *moves, int64_t count) {
    struct booking b = {.fit = fit, .outside = -1};
    if (!fit->ledger.labels)
        return HF_OK;
    if (fit->ledger.device) {
        HF_TRY(hf_device_ledger_book(fit, HF_LEDGER_ANY, false));
        return hf_device_ledger_compare(fit);
    }
    for (int64_t i = 0; i < count; i++)
        (void)book_row(&b, moves[i].row);
    HF_TRY(check_booking(fit, &b, HF_LEDGER_ANY));
    HF_TRY(check_sizes(fit, fit->centers.sums.count));
    return check_sums(fit);
}

/* ---- the state between two iterations */

static hf_status check_centers(struct hf_fit *fit, void *now, const void *kept, uint64_t sign,
                               const char *which) {
    hf_context *ctx = fit->problem.ctx;
    const size_t bytes = hf_center_bytes(&fit->problem);
    if (hf_guard_sign(now, bytes) == sign)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_STATE, -1, -1);
    const hf_status status = hf_ctx_fail(
        ctx, HF_E_CORRUPT,
        "the %s centroids changed in memory between two iterations: the machine or a program "
        "writes where it must not",
        which);
    if (!hf_guard_retries(ctx, status) || hf_guard_sign(kept, bytes) != sign)
        return status;
    memcpy(now, kept, bytes);
    hf_guard_repaired(ctx, HF_FAULT_TRANSIENT, 0);
    return HF_OK;
}

/* What holds for all iterations, as it was. */
static bool restore_facts(struct hf_fit *fit) {
    const struct hf_ledger *l = &fit->ledger;
    if (sign_facts(&fit->problem, l->columns, &l->frame, l->weight_mult) != l->facts)
        return false;
    memcpy(fit->columns.block, l->columns,
           (size_t)fit->problem.d * HF_COLUMN_ARRAYS * sizeof(double));
    fit->frame = l->frame;
    fit->centers.sums.weight_mult = l->weight_mult;
    return true;
}

/* Centroids that the work of an iteration has read. */
static hf_status check_read(struct hf_fit *fit, const void *centers, uint64_t sign,
                            const char *which) {
    hf_context *ctx = fit->problem.ctx;
    hf_guard_checked(ctx, HF_FAULT_STATE, fit->problem.k);
    if (hf_guard_sign(centers, hf_center_bytes(&fit->problem)) == sign)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_STATE, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "the %s centroids changed in memory while they were in use: the machine or "
                       "a program writes where it must not",
                       which);
}

static bool checks_state(const struct hf_fit *fit) {
    return fit->ledger.block && fit->ledger.kept &&
           hf_guard_checks(fit->problem.ctx, HF_FAULT_STATE);
}

hf_status hf_ledger_check_old(struct hf_fit *fit) {
    return checks_state(fit) ? check_read(fit, fit->centers.previous, fit->ledger.signs[1], "old")
                             : HF_OK;
}

bool hf_ledger_facts_hold(const struct hf_fit *fit) {
    return sign_own_facts(fit) == fit->ledger.facts;
}

hf_status hf_ledger_check_used(struct hf_fit *fit, const void *centers) {
    hf_context *ctx = fit->problem.ctx;
    if (!checks_state(fit))
        return HF_OK;
    HF_TRY(check_read(fit, centers, fit->ledger.signs[0], "new"));
    if (hf_ledger_facts_hold(fit))
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_STATE, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "scales or limits of the fit changed in memory: the machine or a program "
                       "writes where it must not");
}

hf_status hf_ledger_check_state(struct hf_fit *fit) {
    const struct hf_ledger *l = &fit->ledger;
    hf_context *ctx = fit->problem.ctx;
    if (!l->block || !l->kept)
        return HF_OK;
    if (!hf_guard_checks(ctx, HF_FAULT_STATE))
        return HF_OK;
    hf_guard_checked(ctx, HF_FAULT_STATE, 2 * fit->problem.k);
    HF_TRY(check_centers(fit, fit->centers.current, l->current, l->signs[0], "new"));
    HF_TRY(check_centers(fit, fit->centers.previous, l->previous, l->signs[1], "old"));
    return HF_OK;
}

/* fit->centers.current, and what else the state is beside the centroids before. */
static void keep_current(struct hf_fit *fit) {
    struct hf_ledger *l = &fit->ledger;
    const size_t bytes = hf_center_bytes(&fit->problem);
    hf_device_ledger_keep_bounds(fit);
    memcpy(l->current, fit->centers.current, bytes);
    l->signs[0] = hf_guard_sign(l->current, bytes);
    l->relocated_count = l->relocated ? fit->refill.relocated_count : 0;
    for (int64_t i = 0; i < l->relocated_count; i++)
        l->relocated[i] = fit->refill.relocated[i];
    l->kept = true;
}

void hf_ledger_keep_state(struct hf_fit *fit) {
    struct hf_ledger *l = &fit->ledger;
    const size_t bytes = hf_center_bytes(&fit->problem);
    if (!l->block)
        return;
    memcpy(l->previous, fit->centers.previous, bytes);
    l->signs[1] = hf_guard_sign(l->previous, bytes);
    keep_current(fit);
}

void hf_ledger_keep_step(struct hf_fit *fit, const void *used) {
    struct hf_ledger *l = &fit->ledger;
    void *kept = l->current;
    if (!checks_state(fit) || used != fit->centers.previous) {
        hf_ledger_keep_state(fit);
        return;
    }
    l->current = l->previous;
    l->previous = kept;
    l->signs[1] = l->signs[0];
    keep_current(fit);
}

bool hf_ledger_restore_state(struct hf_fit *fit) {
    const struct hf_ledger *l = &fit->ledger;
    const size_t bytes = hf_center_bytes(&fit->problem);
    if (!l->block || !l->kept || hf_guard_sign(l->current, bytes) != l->signs[0] ||
        hf_guard_sign(l->previous, bytes) != l->signs[1] || !restore_facts(fit))
        return false;
    memcpy(fit->centers.current, l->current, bytes);
    memcpy(fit->centers.previous, l->previous, bytes);
    fit->refill.relocated_count = l->relocated_count;
    for (int64_t i = 0; i < l->relocated_count; i++)
        fit->refill.relocated[i] = l->relocated[i];
    return true;
}
