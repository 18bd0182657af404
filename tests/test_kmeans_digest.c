/* SPDX-License-Identifier: Apache-2.0
 * Digests of iterations: the same for any number of threads and on a GPU, and a row that changed
 * shows in the block of its cluster alone. */
#include "kmeans_brute.h"

#define N 3200
#define K 32
#define D 5
#define MOST 200

struct notes {
    int count, restart[MOST], iteration[MOST];
    hf_kmeans_digest digest[MOST];
};

static void note(void *user, int restart, int iteration, const hf_kmeans_digest *digest) {
    struct notes *n = user;
    assert_true(n->count < MOST);
    n->restart[n->count] = restart;
    n->iteration[n->count] = iteration;
    n->digest[n->count++] = *digest;
}

static struct notes fit(hf_context *ctx, const struct problem *p, hf_kmeans_opts o) {
    struct notes n = {0};
    hf_kmeans_result r = {0};
    o.digest = note;
    o.digest_user = &n;
    FIT_OK(ctx, hf_kmeans_fit(ctx, &p->x, &o, &r));
    int last = 0;
    for (int i = 0; i < n.count; i++) {
        const bool first = i == 0 || n.restart[i] != n.restart[i - 1];
        assert_int_equal(n.iteration[i], first ? 1 : n.iteration[i - 1] + 1);
        last = n.restart[i] == r.restart ? n.iteration[i] : last;
    }
    assert_int_equal(last, r.iterations);
    hf_kmeans_result_clear(&r);
    return n;
}

static void assert_same(const struct notes *a, const struct notes *b) {
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++)
        assert_memory_equal(&a->digest[i], &b->digest[i], sizeof a->digest[i]);
}

/* Threads, skipping, stores, empty clusters and restarts; on a GPU too where there is one. */
static void same_everywhere(void **state) {
    (void)state;
    const hf_context_opts gpu = {.device = "cuda", .threads = 2};
    hf_context *one = open_context(1, 0), *seven = open_context(7, 0), *other = NULL;
    double *v = blobs(7, N, D, 20, 3);
    for (int i = 0; i < 60 * D; i++) /* copies, which leave clusters empty */
        v[i] = v[i % D];
    struct problem p = problem_from(v, N, D, HF_F32, 0);
    const hf_kmeans_opts o[] = {
        {.k = K, .seed = 2, .n_init = 2, .tol = -1},
        {.k = 3, .skipping = HF_SKIP_ON, .init = HF_INIT_RANDOM, .max_iter = 7},
        {.k = K, .init = HF_INIT_RANDOM, .empty = HF_EMPTY_SPLIT, .max_iter = 9}};
    if (hf_context_create(&other, &gpu) != HF_OK)
        printf("not on a GPU: there is none\n");
    for (int i = 0; i < 3; i++) {
        const struct notes a = fit(one, &p, o[i]), b = fit(seven, &p, o[i]);
        assert_true(a.count > 2);
        assert_same(&a, &b);
        if (!other)
            continue;
        const struct notes c = fit(other, &p, o[i]);
        assert_same(&a, &c);
    }
    problem_free(&p);
    free(v);
    hf_context_destroy(one);
    hf_context_destroy(seven);
    hf_context_destroy(other);
}

/* Clusters far apart, each with the rows whose number leaves its own as the rest. */
static void a_row_shows_in_its_block(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    float *x = must_alloc(sizeof(float) * N * D);
    for (int i = 0; i < N * D; i++)
        x[i] = (float)(1000 * (i / D % K) + i % 7);
    struct problem p = {.x = hf_array_view(x, HF_F32, N, D), .n = N, .d = D};
    const hf_array start = hf_array_view(x, HF_F32, K, D); /* its first K rows */
    const hf_kmeans_opts o = {.k = K, .init = HF_INIT_GIVEN, .centroids = &start};
    const struct notes before = fit(ctx, &p, o);
    for (int cluster = 0; cluster < K; cluster += 5) {
        float *changed = x + (K + cluster) * D + 2;
        const float was = *changed;
        *changed += 3;
        const struct notes after = fit(ctx, &p, o);
        *changed = was;
        assert_true(after.digest[0].chain != before.digest[0].chain);
        for (int b = 0; b < HF_DIGEST_BLOCKS; b++) {
            const bool own = b == cluster * HF_DIGEST_BLOCKS / K;
            assert_int_equal(after.digest[0].centroids[b] != before.digest[0].centroids[b], own);
            assert_int_equal(after.digest[0].sizes[b], before.digest[0].sizes[b]);
        }
    }
    free(x);
    hf_context_destroy(ctx);
}

/* What is the same in itself still has a chain that remembers what was before. */
static void the_chain_remembers(void **state) {
    (void)state;
    hf_context *ctx = open_context(1, 0);
    double *v = blobs(9, 900, 3, 6, 2);
    struct problem p = problem_from(v, 900, 3, HF_F64, 0);
    const hf_kmeans_opts o = {.k = 6, .init = HF_INIT_RANDOM, .tol = -1};
    const struct notes n = fit(ctx, &p, o);
    assert_true(n.count > 2);
    const hf_kmeans_digest *last = &n.digest[n.count - 1];
    assert_memory_equal(last->centroids, last[-1].centroids, sizeof last->centroids);
    assert_true(last->chain != last[-1].chain);
    hf_kmeans_result r[1];
    hf_kmeans_opts batch = o;
    batch.digest = note;
    assert_int_equal(hf_kmeans_fit_batch(ctx, &p.x, 1, &batch, r), HF_E_ARG);
    assert_non_null(strstr(hf_last_error(ctx), "digest"));
    problem_free(&p);
    free(v);
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_everywhere),
                                       cmocka_unit_test(a_row_shows_in_its_block),
                                       cmocka_unit_test(the_chain_remembers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
