/* SPDX-License-Identifier: Apache-2.0
 * Words of a fit's memory that flip between two iterations: the result is bit for bit that of a fit
 * without a fault, or, with detect, the fit ends. Each place has its own flips. */
#include "algo/kmeans/check.h"
#include "algo/kmeans/fit.h"
#include "algo/kmeans/guard/distances.h"
#include "algo/kmeans/kmeans_api.h"
#include "algo/kmeans/restarts.h"
#include "algo/kmeans/workspace.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "core/run.h"
#include "core/array.h"
#include "guard/guard.h"
#include <holdfast/holdfast.h>
#include "ops/reference.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N 3000
#define D 12
#define K 20

enum place {
    SUM,
    COUNT,
    LABEL,
    LABEL_BEYOND,
    CURRENT,
    PREVIOUS,
    SCALE,
    UPPER,
    LOWER,
    PACKED,
    BOOK_LABEL,
    BOOK_HASH,
    BOOK_WORD,
    BOOK_COUNT,
    PLACES
};

static const char *const place_names[PLACES] = {"sum",
                                                "count",
                                                "label",
                                                "label beyond all",
                                                "centroid",
                                                "old centroid",
                                                "scale",
                                                "upper bound",
                                                "lower bound",
                                                "packed row",
                                                "label of the ledger",
                                                "hash of the ledger",
                                                "word of the ledger",
                                                "count of the ledger"};

struct plan {
    struct hf_fit *fit;
    enum place place;
    int iteration; /* after which the word flips */
    uint64_t lot;
    int flipped, told;
    hf_init init;
    int64_t
        chosen; /* of the start: the word flips when there are so many centroids, 0: none does */
};

static float values[N * D];

static void make_rows(void) {
    struct hf_rng rng = {.seed = 5};
    for (int i = 0; i < N; i++)
        for (int f = 0; f < D; f++)
            values[i * D + f] = (float)(hf_rng_next_normal(&rng) + (double)((i * 7 + f * 3) % 13));
}

static void flip32(void *words, uint64_t count, uint64_t lot, int bits) {
    ((uint32_t *)words)[lot % count] ^= UINT32_C(1) << (lot / count % (uint64_t)bits);
}

static void flip64(void *words, uint64_t count, uint64_t lot) {
    ((uint64_t *)words)[lot % count] ^= UINT64_C(1) << (lot / count % 64);
}

static void strike(struct plan *p) {
    struct hf_fit *fit = p->fit;
    struct hf_ledger *l = &fit->ledger;
    const uint64_t lot = p->lot;
    switch (p->place) {
    case SUM:
        flip64(fit->centers.sums.sum, K * D, lot);
        break;
    case COUNT:
        flip64(fit->centers.sums.count, K, lot);
        break;
    case LABEL:
        fit->labels.host[lot % N] = (fit->labels.host[lot % N] + 1 + (int32_t)(lot / N % 15)) % K;
        break;
    case LABEL_BEYOND: /* a kernel may read memory of nobody by it */
        fit->labels.host[lot % N] = -1;
        break;
    case CURRENT:
        flip32(fit->centers.current, K * D, lot, 32);
        break;
    case PREVIOUS:
        flip32(fit->centers.previous, K * D, lot, 32);
        break;
    case SCALE:
        flip64(fit->columns.mult, D, lot);
        break;
    case UPPER:
        flip32(fit->skip.bounds.upper, N, lot, 31);
        break;
    case LOWER:
        flip32(fit->skip.bounds.lower, N, lot, 31);
        break;
    case PACKED:
        flip32(fit->work.packed->data,
               (uint64_t)fit->work.packed->filled * fit->work.packed->row_bytes / sizeof(uint32_t),
               lot, 32);
        break;
    case BOOK_LABEL:
        l->labels[lot % N] = (l->labels[lot % N] + 1 + (int32_t)(lot / N % 15)) % K;
        break;
    case BOOK_HASH:
        flip64(l->hash, N, lot);
        break;
    case BOOK_WORD:
        flip64(l->word, K, lot);
        break;
    case BOOK_COUNT:
        flip64(l->count, K, lot);
        break;
    case PLACES:
        break;
    }
    p->flipped++;
}

/* What the start knows of a row: the distance to the nearest centroid, or which one that is. */
static void strike_start(struct plan *p) {
    if (p->lot % 2 == 0)
        flip64(p->fit->work.nearest, N, p->lot / 2);
    else
        flip32(p->fit->labels.host, N, p->lot / 2, 32);
    p->flipped++;
}

static int progress(void *user, int restart, int iteration, const hf_kmeans_iteration *it,
                    int64_t done, int64_t total) {
    struct plan *p = user;
    (void)restart;
    (void)it;
    (void)total;
    if (iteration == 0 && p->chosen > 0 && done == p->chosen && p->flipped == 0)
        strike_start(p);
    if (iteration > 0 && p->chosen == 0 && iteration == p->iteration && p->flipped == 0)
        strike(p);
    return 0;
}

static void told(void *user, const hf_fault_note *note) {
    struct plan *p = user;
    assert_non_null(note->check);
    assert_non_null(note->kernel);
    assert_true(note->text[0] != '\0');
    p->told++;
}

/* A fit whose inside the plan can reach. */
static hf_status fit_with(hf_context *ctx, struct plan *p, hf_guard guard, hf_kmeans_result *r) {
    struct hf_fit fit = {.problem = {.ctx = ctx}};
    const hf_array x = hf_array_view(values, HF_F32, N, D);
    const hf_kmeans_opts o = {.k = K,
                              .seed = 3,
                              .init = p->init,
                              .tol = -1,
                              .max_iter = 40,
                              .skipping = p->place == PACKED ? HF_SKIP_OFF : HF_SKIP_ON,
                              .progress = progress,
                              .progress_user = p};
    const struct hf_shape shape = {.n = N, .d = D, .dtype = HF_F32};
    struct hf_restart best = {.number = -1};
    hf_guard_counts faults = {0};
    p->fit = &fit;
    p->told = p->flipped = 0;
    fit.problem.x = &x;
    assert_true(hf_ctx_enter(ctx));
    assert_int_equal(hf_check_opts(ctx, &o, &shape, &fit.problem.opts), HF_OK);
    assert_int_equal(hf_guard_begin(ctx, guard, told, p), HF_OK);
    fit.problem.n_all = N;
    fit.problem.d = D;
    fit.problem.k = K;
    fit.problem.dtype = fit.problem.center_type = HF_F32;
    hf_status status = hf_fit_begin(&fit);
    if (status == HF_OK)
        status = hf_restarts(&fit, &best);
    if (status == HF_OK)
        status = hf_guard_read(ctx, &faults);
    if (status == HF_OK) {
        hf_fit_move_result(&fit, &best, r);
        r->faults = faults;
    }
    hf_free(best.history.it);
    hf_fit_free(&fit);
    return hf_ctx_leave(ctx, status);
}

static bool same(const hf_kmeans_result *a, const hf_kmeans_result *b) {
    return memcmp(a->labels, b->labels, N * sizeof(int32_t)) == 0 &&
           memcmp(a->centroids.data, b->centroids.data, K * D * sizeof(float)) == 0 &&
           memcmp(&a->inertia, &b->inertia, sizeof(double)) == 0 &&
           memcmp(a->sizes, b->sizes, K * sizeof(int64_t)) == 0 && a->iterations == b->iterations;
}

/* Without protection such a flip may go through: else the test would show nothing. */
static int strike_all(hf_context *ctx, hf_guard guard, enum place place, int flips,
                      const hf_kmeans_result *want) {
    int wrong = 0;
    for (int i = 0; i < flips; i++) {
        struct plan p = {.place = place,
                         .iteration = 1 + i % 9,
                         .init = HF_INIT_RANDOM,
                         .lot = hf_rng_bits(9, (uint64_t)place, (uint64_t)i)};
        hf_kmeans_result got = {0};
        const hf_status status = fit_with(ctx, &p, guard, &got);
        assert_int_equal(p.flipped, 1);
        if (guard == HF_GUARD_DETECT) {
            assert_true(status == HF_OK ? same(&got, want) : status == HF_E_CORRUPT);
            assert_int_equal(p.told, status == HF_OK ? 0 : 1);
        } else if (guard == HF_GUARD_CORRECT) {
            if (status != HF_OK)
                fail_msg("%s, flip %d: %s", place_names[place], i, hf_last_error(ctx));
            if (!same(&got, want))
                fail_msg("%s, flip %d: another result without a word", place_names[place], i);
            assert_int_equal(got.faults.repaired > 0, p.told > 0);
            assert_int_equal(got.faults.repaired, got.faults.confirmed);
        }
        wrong += status != HF_OK || !same(&got, want);
        hf_kmeans_result_clear(&got);
    }
    return wrong;
}

static void words_flip(void **state) {
    (void)state;
    const hf_context_opts opts = {.device = "cpu", .threads = 2};
    hf_context *ctx = NULL;
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
    make_rows();
    struct plan none = {.iteration = -1, .init = HF_INIT_RANDOM};
    hf_kmeans_result want = {0};
    hf_kmeans_result off = {0};
    assert_int_equal(fit_with(ctx, &none, HF_GUARD_CORRECT, &want), HF_OK);
    assert_int_equal(fit_with(ctx, &none, HF_GUARD_OFF, &off), HF_OK);
    assert_true(same(&want, &off));
    assert_true(want.iterations > 11);
    assert_int_equal(want.faults.suspected, 0);
    assert_true(want.faults.checked > 10 * N);
    assert_int_equal(off.faults.checked, 0);
    for (int place = 0; place < PLACES; place++) {
        if (place == PACKED && hf_assign_packed_bytes(N, D) == 0)
            continue; /* no kernel here keeps rows packed */
        const int flips = place == UPPER || place == LOWER ? 6 : 12;
        const int detected = strike_all(ctx, HF_GUARD_DETECT, (enum place)place, flips, &want);
        strike_all(ctx, HF_GUARD_CORRECT, (enum place)place, flips, &want);
        const bool of_book = place >= BOOK_LABEL;
        const bool safe = place == LABEL_BEYOND || place == LABEL || place == COUNT;
        const int wrong =
            of_book || !safe ? 0 : strike_all(ctx, HF_GUARD_OFF, (enum place)place, flips, &want);
        print_message("%-20s %d flips: %d ended the fit, with off %d\n", place_names[place], flips,
                      detected, wrong);
        assert_true(detected > 0);
    }
    hf_kmeans_result_clear(&want);
    hf_kmeans_result_clear(&off);
    hf_context_destroy(ctx);
}

/* A start that goes wrong leads to another result, which nothing but a second start shows. */
static void starts_are_repaired(void **state) {
    (void)state;
    const hf_context_opts opts = {.device = "cpu", .threads = 2};
    static const hf_init inits[] = {HF_INIT_KMEANSPP, HF_INIT_KMEANS_PARALLEL};
    hf_context *ctx = NULL;
    int harmed = 0;
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
    make_rows();
    for (int i = 0; i < 2; i++) {
        struct plan none = {.iteration = -1, .init = inits[i]};
        hf_kmeans_result want = {0};
        assert_int_equal(fit_with(ctx, &none, HF_GUARD_CORRECT, &want), HF_OK);
        assert_int_equal(want.faults.suspected, 0);
        for (int flip = 0; flip < 16; flip++) {
            struct plan p = {.iteration = -1,
                             .init = inits[i],
                             .chosen = i == 0 ? 1 + flip % (K - 2) : K * (1 + flip % 5) / 10,
                             .lot = hf_rng_bits(11, (uint64_t)i, (uint64_t)flip)};
            hf_kmeans_result got = {0};
            hf_kmeans_result off = {0};
            if (fit_with(ctx, &p, HF_GUARD_CORRECT, &got) != HF_OK || !same(&got, &want))
                fail_msg("start %d, flip %d: %s", i, flip, hf_last_error(ctx));
            assert_int_equal(got.faults.repaired, p.told);
            assert_int_equal(p.flipped, 1);
            if (fit_with(ctx, &p, HF_GUARD_OFF, &off) == HF_OK)
                harmed += !same(&off, &want);
            hf_kmeans_result_clear(&got);
            hf_kmeans_result_clear(&off);
        }
        hf_kmeans_result_clear(&want);
    }
    print_message("32 flips in starts, %d with consequences without checks\n", harmed);
    assert_true(harmed > 0);
    hf_context_destroy(ctx);
}

/* Distances of some rows to some centroids by their definition. */
static void fill(double *out, const hf_array *x, const hf_array *c, hf_metric metric) {
    double row[D];
    double center[D];
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < c->rows; j++) {
            hf_to_f64(row, hf_array_row(x, i), x->dtype, D);
            hf_to_f64(center, hf_array_row(c, j), c->dtype, D);
            const double v = hf_reference_distance(metric, row, center, D);
            out[i * c->rows + j] = metric == HF_EUCLIDEAN ? sqrt(v) : v;
        }
}

/* Right distances are never suspected; a wrong one is put right, two that are exchanged too. */
static void distances_are_checked(void **state) {
    (void)state;
    static double out[200 * K];
    static double want[200 * K];
    hf_context *ctx = NULL;
    const hf_context_opts opts = {.device = "cpu", .threads = 2};
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
    make_rows();
    const hf_array x = hf_array_view(values, HF_F32, 200, D);
    const hf_array c = hf_array_view(values + 1000 * D, HF_F32, K, D);
    for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++) {
        struct hf_distance_book book;
        struct hf_distance_check check = {
            .x = &x, .c = &c, .metric = (hf_metric)metric, .out = out, .first = 7};
        hf_guard_set(ctx, HF_SCHEME_CORRECT, HF_CHECKS_ALL);
        assert_int_equal(hf_distance_book_open(ctx, &c, check.metric, &book), HF_OK);
        fill(want, &x, &c, check.metric);
        memcpy(out, want, sizeof out);
        assert_int_equal(hf_distance_book_check(ctx, &book, &check), HF_OK);
        assert_int_equal(ctx->guard.counts.suspected, 0);
        assert_int_equal(ctx->guard.counts.checked, 200);
        for (int fault = 0; fault < 4; fault++) {
            double *at = out + 31 * K + 3;
            if (fault == 3) {
                const double other = at[1];
                at[1] = at[0];
                at[0] = other;
            } else {
                const double wrong[] = {NAN, INFINITY, at[0] * (1 + 0x1p-20)};
                at[0] = wrong[fault];
            }
            assert_int_equal(hf_distance_book_check(ctx, &book, &check), HF_OK);
            assert_int_equal(ctx->guard.counts.repaired, fault + 1);
            assert_memory_equal(out, want, sizeof out);
        }
        out[5 * K] += 1;
        hf_guard_set(ctx, HF_SCHEME_DETECT, HF_CHECKS_ALL);
        assert_int_equal(hf_distance_book_check(ctx, &book, &check), HF_E_CORRUPT);
        assert_non_null(strstr(hf_last_error(ctx), "row 12"));
        hf_distance_book_close(&book);
    }
    hf_context_destroy(ctx);
}

/* Work that errs in the turns of a mask. */
struct erring {
    uint32_t wrong;
    int turns;
    uint64_t value;
};

static hf_status err(void *user, int turn) {
    struct erring *e = user;
    e->turns++;
    e->value = e->wrong >> turn & 1 ? 100 + (uint64_t)turn : 7;
    return HF_OK;
}

static uint64_t value_of(const void *user) { return ((const struct erring *)user)->value; }

static void work_is_repeated(void **state) {
    (void)state;
    hf_context *ctx = NULL;
    assert_int_equal(hf_context_create(&ctx, NULL), HF_OK);
    const struct hf_repeated work = {
        .fault = HF_FAULT_MEANS, .run = err, .sign = value_of, .what = "a number"};
    static const struct {
        enum hf_scheme scheme;
        uint32_t without, wrong;
        hf_status status;
        int turns, repaired;
    } cases[] = {
        {HF_SCHEME_OFF, 0, 1, HF_OK, 1, 0},
        {HF_SCHEME_CORRECT, HF_CHECK_BIT(HF_FAULT_MEANS), 1, HF_OK, 1, 0},
        {HF_SCHEME_CORRECT, 0, 0, HF_OK, 2, 0},
        {HF_SCHEME_CORRECT, 0, 1, HF_OK, 3, 1},
        {HF_SCHEME_SAMPLED, 0, 2, HF_OK, 4, 1},
        {HF_SCHEME_CORRECT, 0, 31, HF_E_CORRUPT, 5, 0},
        {HF_SCHEME_DETECT, 0, 1, HF_E_CORRUPT, 2, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct erring e = {.wrong = cases[i].wrong};
        hf_guard_set(ctx, cases[i].scheme, HF_CHECKS_ALL & ~cases[i].without);
        assert_int_equal(hf_guard_repeat(ctx, &work, &e), cases[i].status);
        assert_int_equal(e.turns, cases[i].turns);
        assert_int_equal(ctx->guard.counts.repaired, cases[i].repaired);
        assert_true(cases[i].status != HF_OK || e.value == 7 || cases[i].turns == 1);
    }
    hf_context_destroy(ctx);
}

/* No single word leaves a signature the same, in one piece or by threads. */
static void signatures(void **state) {
    (void)state;
    static uint32_t words[70000];
    hf_pool *pool = hf_pool_create(2);
    assert_non_null(pool);
    for (uint32_t i = 0; i < 70000; i++)
        words[i] = i * 2654435761u;
    const uint64_t sign = hf_guard_sign(words, sizeof words);
    assert_true(sign == hf_guard_sign_by(pool, words, sizeof words));
    for (uint32_t i = 0; i < 70000; i += 997)
        for (int bit = 0; bit < 32; bit += 7) {
            words[i] ^= UINT32_C(1) << bit;
            assert_true(sign != hf_guard_sign_by(pool, words, sizeof words));
            words[i] ^= UINT32_C(1) << bit;
        }
    hf_pool_destroy(pool);
}

/* Signatures of parts of the rows add up to that of all, whatever a row's bytes and the gaps. */
static void signatures_of_rows(void **state) {
    (void)state;
    static uint8_t bytes[300 * 40];
    static const struct {
        hf_dtype dtype;
        int64_t cols, stride;
    } cases[] = {{HF_F32, 9, 9}, {HF_F32, 9, 10}, {HF_U8, 13, 13}, {HF_U8, 3, 5}, {HF_F16, 7, 7}};
    hf_pool *pool = hf_pool_create(2);
    assert_non_null(pool);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 89 + 7);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hf_array x = hf_array_view(bytes, cases[i].dtype, 300, cases[i].cols);
        x.row_stride = cases[i].stride;
        const size_t size = hf_dtype_bytes(x.dtype);
        const uint64_t all = hf_guard_sign_rows(pool, &x, 0);
        for (int64_t cut = 1; cut < 300; cut += 71) {
            hf_array end = x;
            hf_array begin = x;
            begin.rows = cut;
            end.rows = 300 - cut;
            end.data = bytes + (size_t)(cut * cases[i].stride) * size;
            assert_true(all ==
                        hf_guard_sign_rows(NULL, &begin, 0) + hf_guard_sign_rows(pool, &end, cut));
        }
        for (int64_t byte = 0; byte < cases[i].stride * (int64_t)size; byte++) {
            uint8_t *at = bytes + 200 * (size_t)cases[i].stride * size + byte;
            const bool own = byte < cases[i].cols * (int64_t)size;
            *at ^= 0x10;
            assert_int_equal(own, all != hf_guard_sign_rows(pool, &x, 0));
            *at ^= 0x10;
        }
    }
    hf_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_flip),
                                       cmocka_unit_test(starts_are_repaired),
                                       cmocka_unit_test(distances_are_checked),
                                       cmocka_unit_test(work_is_repeated),
                                       cmocka_unit_test(signatures),
                                       cmocka_unit_test(signatures_of_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
