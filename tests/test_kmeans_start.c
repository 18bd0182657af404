/* SPDX-License-Identifier: Apache-2.0
 * A start that is cut off goes on from its checkpoint: with the same bits, and without making again
 * the steps that were made. */
#include "kmeans_start.h"
#include <unistd.h>

struct form {
    const char *name;
    int64_t n, d, k;
    int points; /* different rows; 0: all */
};

static hf_status read_rows(void *user, int64_t first, int64_t count, void *dst, char *message,
                           size_t message_bytes) {
    const struct problem *p = user;
    (void)message, (void)message_bytes;
    memcpy(dst, (const float *)p->x.data + first * p->d, (size_t)(count * p->d) * sizeof(float));
    return HF_OK;
}

static struct problem make(const struct form *f) {
    double *v = blobs(61, f->n, f->d, 40, 3);
    for (int64_t i = f->points; f->points > 0 && i < f->n; i++)
        memcpy(v + i * f->d, v + i % f->points * f->d, (size_t)f->d * sizeof(double));
    struct problem p = problem_from(v, f->n, f->d, HF_F32, 0);
    free(v);
    return p;
}

static void cut_off(const struct form *f, hf_kmeans_opts o) {
    struct problem p = make(f);
    hf_context *ctx = open_context(2, 0);
    const hf_source source = {f->n, f->d, HF_F32, read_rows, &p};
    int saved = 0;
    o.k = f->k;
    o.max_iter = 3;
    hf_kmeans_result whole = {0};
    struct cut none = {.restart = -1};
    o.progress = cut_there;
    o.progress_user = &none;
    FIT_OK(ctx, hf_kmeans_fit(ctx, &p.x, &o, &whole));
    for (int restart = 0; restart < 2; restart++)
        for (int64_t at = 1; at <= f->k; at += 1 + f->k / 5) {
            struct cut cut = {.restart = restart, .at = at};
            struct cut rest = {.restart = -1};
            hf_kmeans_result r = {0};
            const bool there = start_and_cut(ctx, &p.x, o, &cut);
            o.resume = there ? start_path() : NULL;
            o.progress_user = &rest;
            FIT_OK(ctx, at % 2 ? hf_kmeans_fit(ctx, &p.x, &o, &r)
                               : hf_kmeans_fit_source(ctx, &source, &o, &r));
            o.resume = NULL;
            expect_same(&whole, &r, f->name);
            hf_kmeans_result_clear(&r);
            if (there && rest.calls + cut.steps > none.calls + 8)
                fail_msg("%s: %d calls in all, %d after the cut at step %d", f->name, none.calls,
                         rest.calls, cut.steps);
            saved += there;
        }
    assert_true(saved > 3);
    unlink(start_path());
    hf_kmeans_result_clear(&whole);
    hf_context_destroy(ctx);
    problem_free(&p);
}

static void all_ways(void **state) {
    (void)state;
    static const struct form forms[] = {{"all rows", 3000, 8, 120, 0},
                                        {"a core", 70000, 2, 60, 0},
                                        {"few points", 3000, 3, 90, 50},
                                        {"few points of a core", 70000, 2, 60, 40}};
    for (int i = 0; i < 4; i++)
        for (int init = HF_INIT_KMEANSPP; init <= HF_INIT_KMEANS_PARALLEL; init++)
            cut_off(&forms[i], (hf_kmeans_opts){.init = (hf_init)init, .seed = 4, .n_init = 2});
}

static void with_weights_and_directions(void **state) {
    (void)state;
    static float w[3000];
    static const struct form form = {"weights", 3000, 8, 120, 0};
    for (int i = 0; i < 3000; i++)
        w[i] = i % 5 ? 1 / (float)i : 0;
    const hf_array weights = hf_array_view(w, HF_F32, 3000, 1);
    for (int init = HF_INIT_KMEANSPP; init <= HF_INIT_KMEANS_PARALLEL; init++)
        for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++)
            cut_off(&form, (hf_kmeans_opts){.init = (hf_init)init,
                                            .metric = (hf_metric)metric,
                                            .weights = metric == HF_DOT ? NULL : &weights,
                                            .n_init = 2});
}

/* ---- a start that fails in its second turn */

struct fragile {
    const struct problem *p;
    int64_t chosen; /* as far as the first turn has come */
    int again;      /* calls about the second turn */
};

static hf_status read_until_again(void *user, int64_t first, int64_t count, void *dst,
                                  char *message, size_t message_bytes) {
    const struct fragile *f = user;
    if (f->again > 1) {
        snprintf(message, message_bytes, "the cable is loose");
        return HF_E_IO;
    }
    return read_rows((void *)f->p, first, count, dst, message, message_bytes);
}

static int see_turns(void *user, int restart, int iteration, const hf_kmeans_iteration *it,
                     int64_t done, int64_t total) {
    struct fragile *f = user;
    (void)restart, (void)it;
    f->again += iteration == 0 && f->chosen == total - 1 && done == total - 1;
    f->chosen = done;
    return 0;
}

/* What the first turn chose is not lost with the second. */
static void second_turn_fails(void **state) {
    (void)state;
    static const struct form form = {"fails", 3000, 1500, 20, 0};
    struct problem p = make(&form);
    hf_context *ctx = open_context(2, (uint64_t)9 << 20); /* rows are read again and again */
    struct fragile f = {.p = &p};
    const hf_source source = {form.n, form.d, HF_F32, read_until_again, &f};
    struct cut none = {.restart = -1}, rest = none;
    hf_kmeans_opts o = {.k = form.k, .seed = 4, .max_iter = 3, .progress = cut_there};
    hf_kmeans_result whole = {0}, r = {0};
    o.progress_user = &none;
    FIT_OK(ctx, hf_kmeans_fit_source(ctx, &source, &o, &whole));
    o.checkpoint = start_path();
    o.progress = see_turns;
    o.progress_user = &f;
    assert_int_equal(hf_kmeans_fit_source(ctx, &source, &o, &r), HF_E_IO);
    assert_int_equal(access(start_path(), F_OK), 0);
    f.again = 0;
    o.resume = start_path();
    o.checkpoint = NULL;
    o.progress = cut_there;
    o.progress_user = &rest;
    FIT_OK(ctx, hf_kmeans_fit_source(ctx, &source, &o, &r));
    expect_same(&whole, &r, "after a failure");
    if (rest.calls > none.calls - form.k / 2)
        fail_msg("%d calls in all, %d after the failure", none.calls, rest.calls);
    unlink(start_path());
    hf_kmeans_result_clear(&whole);
    hf_kmeans_result_clear(&r);
    hf_context_destroy(ctx);
    problem_free(&p);
}

/* A fit from the centroids that hf_kmeans_seed() gives is the fit that chooses them itself. */
static void seeds_alone(void **state) {
    (void)state;
    static const struct form forms[] = {{"all rows", 3000, 8, 40, 0}, {"a core", 70000, 2, 60, 0}};
    hf_context *ctx = open_context(2, 0);
    for (int i = 0; i < 6; i++) {
        const struct form *f = &forms[i % 2];
        struct problem p = make(f);
        double *seeds = malloc((size_t)(f->k * f->d) * sizeof *seeds);
        const hf_array place = hf_array_view(seeds, HF_F64, f->k, f->d);
        const hf_source source = {f->n, f->d, HF_F32, read_rows, &p};
        hf_kmeans_opts o = {.k = f->k, .init = (hf_init)(i / 2), .seed = 9, .max_iter = 3};
        hf_kmeans_result whole = {0}, given = {0};
        FIT_OK(ctx, hf_kmeans_fit(ctx, &p.x, &o, &whole));
        FIT_OK(ctx, hf_kmeans_seed(ctx, i % 2 ? &p.x : NULL, i % 2 ? NULL : &source, &o, &place));
        o.init = HF_INIT_GIVEN;
        o.centroids = &place;
        FIT_OK(ctx, hf_kmeans_fit(ctx, &p.x, &o, &given));
        expect_same(&whole, &given, f->name);
        hf_kmeans_result_clear(&whole);
        hf_kmeans_result_clear(&given);
        free(seeds);
        problem_free(&p);
    }
    hf_context_destroy(ctx);
}

static void seeds_refused(void **state) {
    (void)state;
    const struct form form = {"refused", 300, 2, 4, 0};
    struct problem p = make(&form);
    hf_context *ctx = open_context(1, 0);
    double seeds[8];
    const hf_kmeans_opts o = {.k = 4};
    const hf_array narrow = hf_array_view(seeds, HF_F64, 4, 1);
    const hf_array f32 = hf_array_view(seeds, HF_F32, 4, 2);
    assert_int_equal(hf_kmeans_seed(ctx, &p.x, NULL, &o, NULL), HF_E_ARG);
    assert_int_equal(hf_kmeans_seed(ctx, &p.x, NULL, &o, &narrow), HF_E_ARG);
    assert_non_null(strstr(hf_last_error(ctx), "4 x 1"));
    assert_int_equal(hf_kmeans_seed(ctx, &p.x, NULL, &o, &f32), HF_E_ARG);
    assert_int_equal(hf_kmeans_seed(NULL, &p.x, NULL, &o, &f32), HF_E_ARG);
    hf_context_destroy(ctx);
    problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ways), cmocka_unit_test(with_weights_and_directions),
        cmocka_unit_test(second_turn_fails), cmocka_unit_test(seeds_alone),
        cmocka_unit_test(seeds_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
