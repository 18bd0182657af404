/* SPDX-License-Identifier: Apache-2.0
 * A fit that was stopped goes on to the bits of one that was not; damaged files are refused. */
#include "kmeans_brute.h"

#include "algo/kmeans/checkpoint.h"
#include "base/file.h"
#include "base/mem.h"
#include <unistd.h>

static char path[256];

static int make_path(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/hf-checkpoint-%ld", base ? base : "/tmp", (long)getpid());
    return 0;
}

static int remove_path(void **state) {
    (void)state;
    unlink(path);
    return 0;
}

/* Stops the fit at one iteration of one restart. */
struct stopper {
    int restart, iteration;
    int calls;
};

static int stop_there(void *user, int restart, int iteration, const hf_kmeans_iteration *it,
                      int64_t done, int64_t total) {
    struct stopper *s = user;
    (void)done;
    (void)total;
    assert_true((iteration == 0) == (it == NULL));
    s->calls++;
    return restart == s->restart && iteration == s->iteration;
}

static hf_kmeans_result fit_all(const struct problem *p, const hf_kmeans_opts *o, int threads) {
    hf_context *ctx = open_context(threads, 0);
    hf_kmeans_result r = {0};
    FIT_OK(ctx, hf_kmeans_fit(ctx, &p->x, o, &r));
    hf_context_destroy(ctx);
    return r;
}

/* Stop at every iteration of every restart, look at what there is, and go on. */
static void stop_everywhere(const struct problem *p, hf_kmeans_opts o) {
    hf_kmeans_result whole = fit_all(p, &o, 2);
    int stops = 0;
    for (int restart = 0; restart < (o.n_init ? o.n_init : 1); restart++)
        for (int iteration = 1;; iteration++) {
            struct stopper stopper = {.restart = restart, .iteration = iteration};
            o.progress = stop_there;
            o.progress_user = &stopper;
            o.checkpoint = path;
            o.resume = NULL;
            hf_kmeans_result part = fit_all(p, &o, 2);
            check_result(p, &o, &part);
            if (part.stop != HF_STOP_CANCELLED) {
                hf_kmeans_result_clear(&part);
                break;
            }
            assert_int_equal(part.converged, 0);
            if (restart == 0)
                assert_int_equal(part.iterations, iteration);
            o.progress = NULL;
            o.checkpoint = NULL;
            o.resume = path;
            hf_kmeans_result rest = fit_all(p, &o, 1);
            assert_same_fit(&whole, &rest);
            hf_kmeans_result_clear(&rest);
            hf_kmeans_result_clear(&part);
            stops++;
        }
    assert_true(stops > 2);
    hf_kmeans_result_clear(&whole);
}

static void resume_at_every_iteration(void **state) {
    (void)state;
    double *v = blobs(1, 900, 5, 8, 2);
    const hf_dtype types[] = {HF_F32, HF_F64, HF_BF16};
    float *w = must_alloc(900 * sizeof(float));
    for (int i = 0; i < 900; i++)
        w[i] = (float)(1 + i % 3);
    const hf_array weights = hf_array_view(w, HF_F32, 900, 1);
    for (int t = 0; t < 3; t++) {
        struct problem p = problem_from(v, 900, 5, types[t], 0);
        hf_kmeans_opts o = {.k = 12, .seed = 5, .n_init = 3};
        o.store = t == 2 ? HF_CENTROIDS_SAME : HF_CENTROIDS_WIDE;
        o.weights = t == 1 ? &weights : NULL;
        stop_everywhere(&p, o);
        o.metric = HF_COSINE;
        o.n_init = 1;
        stop_everywhere(&p, o);
        problem_free(&p);
    }
    free(w);
    free(v);
}

/* Rows that were moved into empty clusters are part of the state. */
static void resume_after_relocation(void **state) {
    (void)state;
    double *v = blobs(2, 600, 3, 5, 6);
    struct problem p = problem_from(v, 600, 3, HF_F32, 0);
    double start[20 * 3];
    for (int i = 0; i < 20 * 3; i++)
        start[i] = i < 9 ? v[i] : 1e4 + i; /* 17 of 20 begin empty */
    const hf_array given = hf_array_view(start, HF_F64, 20, 3);
    hf_kmeans_opts o = {.k = 20, .init = HF_INIT_GIVEN, .centroids = &given, .tol = -1};
    hf_kmeans_result whole = fit_all(&p, &o, 2);
    assert_int_equal(whole.history[0].empty, 17);
    hf_kmeans_result_clear(&whole);
    stop_everywhere(&p, o);
    o.empty = HF_EMPTY_SPLIT;
    stop_everywhere(&p, o);
    o.empty = HF_EMPTY_KEEP;
    stop_everywhere(&p, o);
    problem_free(&p);
    free(v);
}

/* max_iter may be raised: the limit is no part of the problem. */
static void go_on_past_max_iter(void **state) {
    (void)state;
    double *v = blobs(3, 900, 6, 8, 1);
    struct problem p = problem_from(v, 900, 6, HF_F32, 0);
    hf_kmeans_opts o = {.k = 15, .seed = 2, .checkpoint_every = 3};
    hf_kmeans_result whole = fit_all(&p, &o, 2);
    assert_true(whole.iterations > 6);
    o.max_iter = 5;
    o.checkpoint = path;
    hf_kmeans_result part = fit_all(&p, &o, 2);
    assert_int_equal(part.stop, HF_STOP_MAX_ITER);
    o.resume = path;
    o.max_iter = 0;
    hf_kmeans_result rest = fit_all(&p, &o, 2);
    assert_same_fit(&whole, &rest);
    hf_kmeans_result_clear(&rest);
    rest = fit_all(&p, &o, 2); /* the file now says that all is done */
    assert_same_fit(&whole, &rest);
    hf_kmeans_result_clear(&rest);
    hf_kmeans_result_clear(&part);
    hf_kmeans_result_clear(&whole);
    problem_free(&p);
    free(v);
}

static hf_status read_rows(void *user, int64_t first, int64_t count, void *dst, char *message,
                           size_t message_bytes) {
    const struct problem *p = user;
    (void)message;
    (void)message_bytes;
    memcpy(dst, (const float *)p->x.data + first * p->d, (size_t)(count * p->d) * sizeof(float));
    return HF_OK;
}

/* Where the rows lie is no part of the problem. */
static void resume_from_a_source(void **state) {
    (void)state;
    double *v = blobs(5, 60000, 16, 8, 2);
    for (int64_t i = 0; i < 60000; i += 1000)
        v[i * 16 + 3] = NAN;
    struct problem p = problem_from(v, 60000, 16, HF_F32, 0);
    hf_kmeans_opts o = {.k = 9, .init = HF_INIT_RANDOM, .nan = HF_NAN_DROP, .tol = -1};
    hf_kmeans_result whole = fit_all(&p, &o, 2);
    o.max_iter = 4;
    o.checkpoint = path;
    hf_kmeans_result part = fit_all(&p, &o, 2);
    o.max_iter = 0;
    o.checkpoint = NULL;
    o.resume = path;
    const hf_source source = {
        .rows = p.n, .cols = p.d, .dtype = HF_F32, .read = read_rows, .user = &p};
    hf_context *ctx = open_context(1, (uint64_t)4 << 20);
    hf_kmeans_result rest = {0};
    FIT_OK(ctx, hf_kmeans_fit_source(ctx, &source, &o, &rest));
    assert_true(rest.chunk_rows < p.n / 2);
    assert_same_fit(&whole, &rest);
    hf_context_destroy(ctx);
    hf_kmeans_result_clear(&rest);
    hf_kmeans_result_clear(&part);
    hf_kmeans_result_clear(&whole);
    problem_free(&p);
    free(v);
}

static void refuse(const struct problem *p, const hf_kmeans_opts *o, hf_status status,
                   const char *word) {
    hf_context *ctx = open_context(1, 0);
    hf_kmeans_result r;
    memset(&r, 0x5a, sizeof(r));
    assert_int_equal(hf_kmeans_fit(ctx, &p->x, o, &r), status);
    if (!strstr(hf_last_error(ctx), word))
        fail_msg("'%s' is not in: %s", word, hf_last_error(ctx));
    for (size_t i = 0; i < sizeof(r); i++)
        assert_int_equal(((const unsigned char *)&r)[i], 0x5a);
    hf_context_destroy(ctx);
}

/* The same rows from the last to the first. */
static void turn_round(float *x, int64_t n, int64_t d) {
    for (int64_t i = 0; i < n / 2; i++)
        for (int64_t j = 0; j < d; j++) {
            const float v = x[i * d + j];
            x[i * d + j] = x[(n - 1 - i) * d + j];
            x[(n - 1 - i) * d + j] = v;
        }
}

static void other_problem_is_refused(void **state) {
    (void)state;
    double *v = blobs(4, 300, 4, 3, 3);
    struct problem p = problem_from(v, 300, 4, HF_F32, 0);
    hf_kmeans_opts o = {.k = 5, .seed = 1, .max_iter = 2, .checkpoint = path, .tol = 1e-9};
    hf_kmeans_result r = fit_all(&p, &o, 1);
    hf_kmeans_result_clear(&r);
    o.checkpoint = NULL;
    o.resume = path;
    hf_kmeans_opts other = o;
    other.k = 6;
    refuse(&p, &other, HF_E_ARG, "number of clusters");
    other = o;
    other.seed = 2;
    refuse(&p, &other, HF_E_ARG, "seed");
    other = o;
    other.tol = 0;
    refuse(&p, &other, HF_E_ARG, "tolerance");
    other = o;
    other.max_iter = 1;
    refuse(&p, &other, HF_E_ARG, "has 2 iterations, more than max_iter (1)");
    other = o;
    other.metric = HF_COSINE;
    refuse(&p, &other, HF_E_ARG, "metric");
    other = o;
    other.init = HF_INIT_RANDOM;
    refuse(&p, &other, HF_E_ARG, "initialisation");
    float w[300];
    for (int i = 0; i < 300; i++)
        w[i] = 2;
    const hf_array weights = hf_array_view(w, HF_F32, 300, 1);
    other = o;
    other.weights = &weights;
    refuse(&p, &other, HF_E_ARG, "weights");
    float *x = p.x.data;
    x[17] += 0.5f;
    refuse(&p, &o, HF_E_ARG, "data (range");
    x[17] -= 0.5f;
    turn_round(x, 300, 4);
    refuse(&p, &o, HF_E_ARG, "data (rows, or their order)");
    turn_round(x, 300, 4);
    other = o;
    r = fit_all(&p, &other, 1); /* nothing is wrong with these */
    hf_kmeans_result_clear(&r);
    other.resume = "/nowhere/at/all";
    refuse(&p, &other, HF_E_IO, "/nowhere/at/all");
    problem_free(&p);
    free(v);
}

static void damage_is_noticed(void **state) {
    (void)state;
    double *v = blobs(4, 300, 4, 3, 3);
    struct problem p = problem_from(v, 300, 4, HF_F32, 0);
    hf_kmeans_opts o = {.k = 5, .max_iter = 2, .checkpoint = path, .n_init = 2, .tol = -1};
    hf_kmeans_result r = fit_all(&p, &o, 1);
    hf_kmeans_result_clear(&r);
    void *data;
    size_t bytes;
    hf_error err;
    assert_int_equal(hf_file_read_all(path, 1 << 20, &data, &bytes, &err), HF_OK);
    unsigned char *file = data;
    struct hf_checkpoint c;
    assert_int_equal(hf_checkpoint_parse(file, bytes, &c, &err), HF_OK);
    assert_int_equal(c.k, 5);
    assert_int_equal(c.iteration, 2);
    for (size_t i = 0; i < bytes; i++) { /* every byte */
        file[i] ^= 0x10;
        assert_int_equal(hf_checkpoint_parse(file, bytes, &c, &err),
                         i < 8 ? HF_E_DATA : HF_E_CORRUPT); /* another kind of file, or damage */
        file[i] ^= 0x10;
    }
    for (size_t cut = 0; cut < bytes; cut++) /* every length, in memory of just that length */ {
        unsigned char *part = must_alloc(cut);
        memcpy(part, file, cut);
        assert_int_equal(hf_checkpoint_parse(part, cut, &c, &err),
                         cut == 0 ? HF_E_DATA : HF_E_CORRUPT);
        free(part);
    }
    unsigned char *other = must_alloc(bytes); /* whole, of another version */
    memcpy(other, file, bytes);
    other[8]++;
    const uint32_t sum = hf_crc32c(0, other, bytes - 4);
    memcpy(other + bytes - 4, &sum, 4);
    assert_int_equal(hf_checkpoint_parse(other, bytes, &c, &err), HF_E_DATA);
    assert_non_null(strstr(err.text, "of version"));
    free(other);
    /* fields that lie, under a checksum that does not */
    struct hf_rng rng = {.seed = 6};
    for (int i = 0; i < 4000; i++) {
        unsigned char *lie = must_alloc(bytes);
        memcpy(lie, file, bytes);
        const size_t field = 24 + 8 * (hf_rng_next(&rng) % 26);
        const uint64_t values[] = {0,
                                   1,
                                   2,
                                   5,
                                   6,
                                   300,
                                   301,
                                   UINT64_MAX,
                                   INT64_MAX,
                                   1ull << 31,
                                   1ull << 61,
                                   hf_rng_next(&rng),
                                   hf_rng_next(&rng) % 64};
        memcpy(lie + field, &values[hf_rng_next(&rng) % 13], 8);
        const uint32_t crc = hf_crc32c(0, lie, bytes - 4);
        memcpy(lie + bytes - 4, &crc, 4);
        (void)hf_checkpoint_parse(lie, bytes, &c, &err);
        free(lie);
    }
    file[bytes - 1] ^= 1;
    hf_context *ctx = open_context(1, 0);
    assert_int_equal(hf_write_file(ctx, path, file, bytes), HF_OK);
    hf_context_destroy(ctx);
    o.checkpoint = NULL;
    o.resume = path;
    refuse(&p, &o, HF_E_CORRUPT, "checksum");
    hf_free(data);
    problem_free(&p);
    free(v);
}

struct warned {
    int times;
    char text[512];
};

static void take_warning(void *user, const char *text) {
    struct warned *w = user;
    w->times++;
    snprintf(w->text, sizeof w->text, "%s", text);
}

/* The fit goes on, and says so once. */
static void unwritable_place(void **state) {
    (void)state;
    double *v = blobs(4, 300, 4, 3, 3);
    struct problem p = problem_from(v, 300, 4, HF_F32, 0);
    struct warned warned = {0};
    hf_kmeans_opts o = {.k = 5, .max_iter = 3, .tol = -1, .n_init = 2};
    hf_kmeans_result whole = fit_all(&p, &o, 2);
    o.checkpoint = "/nowhere/at/all";
    o.checkpoint_every = 1;
    hf_kmeans_result quiet = fit_all(&p, &o, 2);
    o.warn = take_warning;
    o.warn_user = &warned;
    hf_kmeans_result r = fit_all(&p, &o, 2);
    assert_same_fit(&whole, &r);
    assert_int_equal(warned.times, 1);
    assert_non_null(strstr(warned.text, "/nowhere/at/all"));
    assert_true(whole.checkpoints_failed == 0 && r.checkpoints_failed > 3);
    assert_int_equal(quiet.checkpoints_failed, r.checkpoints_failed);
    hf_kmeans_result_clear(&whole);
    hf_kmeans_result_clear(&quiet);
    hf_kmeans_result_clear(&r);
    problem_free(&p);
    free(v);
}

/* checkpoint_every < 0: a fit that ends by itself writes nothing, not even to a place where it
 * could not; one that is cancelled does, and goes on. */
static void only_when_cancelled(void **state) {
    (void)state;
    double *v = blobs(3, 900, 6, 8, 1);
    struct problem p = problem_from(v, 900, 6, HF_F32, 0);
    hf_kmeans_opts o = {
        .k = 15, .seed = 2, .n_init = 2, .checkpoint = "/nowhere/at/all", .checkpoint_every = -1};
    hf_kmeans_result whole = fit_all(&p, &o, 2);
    struct stopper stopper = {.restart = 1, .iteration = 3};
    o.progress = stop_there;
    o.progress_user = &stopper;
    o.checkpoint = path;
    unlink(path);
    hf_kmeans_result part = fit_all(&p, &o, 2);
    assert_int_equal(part.stop, HF_STOP_CANCELLED);
    assert_int_equal(access(path, F_OK), 0);
    o.progress = NULL;
    o.resume = path;
    hf_kmeans_result rest = fit_all(&p, &o, 2);
    assert_same_fit(&whole, &rest);
    hf_kmeans_result_clear(&rest);
    hf_kmeans_result_clear(&part);
    hf_kmeans_result_clear(&whole);
    problem_free(&p);
    free(v);
}

/* What a cancelled fit has is handed out even where its checkpoint cannot be written. */
static void cancelled_and_unwritable(void **state) {
    (void)state;
    double *v = blobs(3, 900, 6, 8, 1);
    struct problem p = problem_from(v, 900, 6, HF_F32, 0);
    struct stopper stopper = {.restart = 0, .iteration = 2};
    struct warned warned = {0};
    const hf_kmeans_opts o = {.k = 15,
                              .checkpoint = "/nowhere/at/all",
                              .progress = stop_there,
                              .progress_user = &stopper,
                              .warn = take_warning,
                              .warn_user = &warned};
    hf_context *ctx = open_context(2, 0);
    hf_kmeans_result r = {0};
    FIT_OK(ctx, hf_kmeans_fit(ctx, &p.x, &o, &r));
    assert_int_equal(r.stop, HF_STOP_CANCELLED);
    assert_int_equal(r.iterations, 2);
    assert_non_null(strstr(warned.text, "/nowhere/at/all"));
    assert_int_equal(r.checkpoints_failed, 1);
    check_result(&p, &o, &r);
    hf_kmeans_result_clear(&r);
    hf_context_destroy(ctx);
    problem_free(&p);
    free(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resume_at_every_iteration), cmocka_unit_test(resume_after_relocation),
        cmocka_unit_test(go_on_past_max_iter),       cmocka_unit_test(other_problem_is_refused),
        cmocka_unit_test(resume_from_a_source),      cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(unwritable_place),          cmocka_unit_test(only_when_cancelled),
        cmocka_unit_test(cancelled_and_unwritable)};
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
