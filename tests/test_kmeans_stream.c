/* SPDX-License-Identifier: Apache-2.0
 * Fits of data that a GPU may not hold as a whole: they pass through it in panels, from pageable
 * and locked memory, with gaps between rows, and from sources, and give the bits of the CPU. All
 * within the memory allowed. Skipped, with the reason, where there is no GPU. */
#include "kmeans_device.h"

#include "base/parallel.h"
#include "core/context.h"
#include "core/run.h"
#include "device/pipe.h"
#include "slot_toy.h"
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)
#define N 200000

static hf_context *cpu;

static hf_context *open_gpu(uint64_t memory_bytes) {
    const hf_context_opts opts = {.device = "cuda", .threads = 3, .memory_bytes = memory_bytes};
    hf_context *ctx = NULL;
    return hf_context_create(&ctx, &opts) == HF_OK ? ctx : NULL;
}

/* ---- rows as a source */

struct feed {
    const hf_array *x;
    int64_t fails_at; /* this row cannot be read; -1: none */
    int inside;       /* calls going on */
};

static hf_status feed_rows(void *user, int64_t first, int64_t count, void *dst, char *message,
                           size_t message_bytes) {
    struct feed *f = user;
    if (__atomic_add_fetch(&f->inside, 1, __ATOMIC_SEQ_CST) != 1) {
        snprintf(message, message_bytes, "two threads at once");
        return HF_E_INTERNAL;
    }
    const size_t size = hf_dtype_bytes(f->x->dtype), row = (size_t)f->x->cols * size;
    hf_status status = HF_OK;
    if (f->fails_at >= first && f->fails_at < first + count) {
        snprintf(message, message_bytes, "the cable is loose");
        status = HF_E_IO;
    }
    for (int64_t i = 0; status == HF_OK && i < count; i++)
        memcpy((char *)dst + (size_t)i * row,
               (const char *)f->x->data + (size_t)((first + i) * f->x->row_stride) * size, row);
    __atomic_sub_fetch(&f->inside, 1, __ATOMIC_SEQ_CST);
    return status;
}

static hf_source source_of(struct feed *f) {
    return (hf_source){f->x->rows, f->x->cols, f->x->dtype, feed_rows, f};
}

/* ---- comparing */

static void expect_within(const hf_context *g, const char *what) {
    const uint64_t most = hf_pipe_of(g->device->id)->most(g->stream);
    if (most > g->memory_bytes)
        fail_msg("%s: %llu bytes of device memory were in use, %llu are allowed", what,
                 (unsigned long long)most, (unsigned long long)g->memory_bytes);
}

enum form { PAGEABLE, LOCKED, SOURCE, FORMS };
static const char *const form_names[] = {"pageable", "locked", "source"};

/* The fit of p in one form, with so many MiB of the device, is that of the CPU, `a`, and so is
 * another one in the same context, whose workspace is there. */
static void one(const struct problem *p, const hf_kmeans_opts *o, const hf_kmeans_result *a,
                enum form form, uint64_t mib, const char *what) {
    hf_context *g = open_gpu(mib * MIB);
    assert_non_null(g);
    const struct hf_pipe_table *pipe = hf_pipe_of(g->device->id);
    const size_t bytes = (size_t)(p->n * p->x.row_stride) * hf_dtype_bytes(p->x.dtype);
    struct feed feed = {&p->x, -1, 0};
    const hf_source source = source_of(&feed);
    hf_array x = p->x;
    hf_kmeans_result b = {0};
    char text[160];
    snprintf(text, sizeof text, "%s, %s, %d MiB", what, form_names[form], (int)mib);
    if (form == LOCKED) {
        x.data = pipe->lock(bytes);
        assert_non_null(x.data);
        memcpy(x.data, p->x.data, bytes);
    }
    for (int time = 0; time < 2; time++) {
        hf_kmeans_result_clear(&b);
        if (form == SOURCE)
            FIT_OK(g, hf_kmeans_fit_source(g, &source, o, &b));
        else
            FIT_OK(g, hf_kmeans_fit(g, &x, o, &b));
        expect_same(a, &b, text);
    }
    expect_within(g, text);
    printf("  %s: %s, %d rows a panel, %d iterations\n", text, b.kernel_assign, (int)b.chunk_rows,
           b.iterations);
    hf_kmeans_result_clear(&b);
    if (form == LOCKED)
        pipe->unlock(x.data);
    hf_context_destroy(g);
}

static void all_forms(const struct problem *p, const hf_kmeans_opts *o, const uint64_t *mib,
                      int count, const char *what) {
    hf_kmeans_result a = {0};
    FIT_OK(cpu, hf_kmeans_fit(cpu, &p->x, o, &a));
    for (int form = 0; form < FORMS; form++)
        for (int i = 0; i < count; i++)
            one(p, o, &a, (enum form)form, mib[i], what);
    hf_kmeans_result_clear(&a);
}

/* ---- tests */

static void types(void **state) {
    (void)state;
    const hf_dtype all[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8};
    const uint64_t mib[][2] = {{16, 33}, {16, 60}, {12, 24}, {12, 24}, {9, 12}};
    double *v = blobs(1, N, 64, 30, 3);
    for (int t = 0; t < 5; t++) {
        struct problem p = problem_from(v, N, 64, all[t], t == 1 ? 3 : t == 4 ? 1 : 0);
        const hf_kmeans_opts o = {.k = 50, .init = HF_INIT_RANDOM, .seed = 5, .max_iter = 8};
        all_forms(&p, &o, mib[t], 2, hf_dtype_name(all[t]));
        problem_free(&p);
    }
    free(v);
}

static void metrics_and_starts(void **state) {
    (void)state;
    double *v = blobs(2, N, 24, 30, 2);
    struct problem p = problem_from(v, N, 24, HF_F32, 0);
    const uint64_t mib[] = {12};
    for (int metric = HF_COSINE; metric <= HF_DOT; metric++) {
        const hf_kmeans_opts o = {
            .k = 30, .metric = (hf_metric)metric, .init = HF_INIT_RANDOM, .max_iter = 6};
        all_forms(&p, &o, mib, 1, metric == HF_COSINE ? "cosine" : "dot");
    }
    for (int init = HF_INIT_KMEANSPP; init <= HF_INIT_KMEANS_PARALLEL; init++) {
        const hf_kmeans_opts o = {
            .k = 20, .init = (hf_init)init, .seed = 3, .n_init = 2, .max_iter = 6};
        all_forms(&p, &o, mib, 1, init == HF_INIT_KMEANSPP ? "k-means++" : "k-means||");
    }
    problem_free(&p);
    free(v);
}

/* So few rows for each cluster that starts look at all of them: in panels, and where they lie. The
 * least memory for the distances of k-means||'s candidates to each other is 72 MB. */
static void starts_on_all_rows(void **state) {
    (void)state;
    const struct {
        int64_t n, d, k;
        hf_init init;
        uint64_t mib[3];
    } cases[] = {{60000, 64, 30, HF_INIT_KMEANSPP, {12, 34, 400}},
                 {N, 16, 800, HF_INIT_KMEANS_PARALLEL, {16, 54, 400}}};
    for (int i = 0; i < 2; i++) {
        double *v = blobs(4, cases[i].n, cases[i].d, 60, 2);
        struct problem p = problem_from(v, cases[i].n, cases[i].d, HF_F32, 0);
        const hf_kmeans_opts o = {.k = cases[i].k, .init = cases[i].init, .seed = 3, .max_iter = 2};
        all_forms(&p, &o, cases[i].mib, 3, i ? "k-means||, all rows" : "k-means++, all rows");
        problem_free(&p);
        free(v);
    }
}

static void weights_bounds_and_dropped_rows(void **state) {
    (void)state;
    double *v = blobs(3, N, 16, 40, 1);
    double *w = must_alloc(N * sizeof(double));
    for (int i = 0; i < N; i++)
        w[i] = i % 5 ? 1 + i % 13 : 0;
    for (int i = 0; i < N; i += i < N / 2 ? 3 : 1711) /* a third of the first half */
        v[i * 16 + i % 16] = i % 2 ? NAN : INFINITY;
    struct problem dropped = problem_from(v, N, 16, HF_F32, 2);
    const hf_array weights = hf_array_view(w, HF_F64, N, 1);
    const uint64_t mib[] = {8, 12};
    hf_kmeans_opts o = {.k = 30, .init = HF_INIT_RANDOM, .nan = HF_NAN_DROP, .max_iter = 7};
    all_forms(&dropped, &o, mib, 2, "dropped rows");
    const uint64_t whole[] = {400};
    all_forms(&dropped, &o, whole, 1, "dropped rows, all there");
    o.init = HF_INIT_KMEANSPP;
    all_forms(&dropped, &o, mib, 1, "dropped rows, k-means++");
    o.init = HF_INIT_RANDOM;
    o.weights = &weights;
    all_forms(&dropped, &o, mib, 1, "weights");
    o.skipping = HF_SKIP_ON;
    o.max_iter = 12;
    all_forms(&dropped, &o, mib, 1, "bounds");
    problem_free(&dropped);
    free(w);
    free(v);
}

/* Starts far from all rows lose them at once. */
static void empty_clusters(void **state) {
    (void)state;
    double *v = blobs(6, N, 16, 5, 3);
    double *c = must_alloc(12 * 16 * sizeof(double));
    for (int i = 0; i < 12 * 16; i++)
        c[i] = i < 5 * 16 ? v[i] : 1000 + i;
    const hf_array start = hf_array_view(c, HF_F64, 12, 16);
    struct problem p = problem_from(v, N, 16, HF_F32, 0);
    const uint64_t mib[] = {10};
    for (int empty = HF_EMPTY_RELOCATE; empty <= HF_EMPTY_KEEP; empty++) {
        const hf_kmeans_opts o = {.k = 12,
                                  .init = HF_INIT_GIVEN,
                                  .centroids = &start,
                                  .empty = (hf_empty)empty,
                                  .max_iter = 9};
        all_forms(&p, &o, mib, 1, empty == HF_EMPTY_RELOCATE ? "relocate" : "split or keep");
    }
    problem_free(&p);
    free(c);
    free(v);
}

/* Each centroid is there twice: all rows are left open, more than are looked at together. */
static void ties(void **state) {
    (void)state;
    double *v = blobs(8, N, 64, 20, 2);
    const hf_array start = hf_array_view(must_alloc(40 * 64 * sizeof(double)), HF_F64, 40, 64);
    for (int i = 0; i < 40; i++)
        memcpy((double *)start.data + i * 64, v + (int64_t)(i / 2) * 64, 64 * sizeof(double));
    struct problem p = problem_from(v, N, 64, HF_F32, 0);
    const hf_kmeans_opts o = {
        .k = 40, .init = HF_INIT_GIVEN, .centroids = &start, .empty = HF_EMPTY_KEEP, .max_iter = 5};
    const uint64_t mib[] = {16, 400};
    all_forms(&p, &o, mib, 2, "ties");
    problem_free(&p);
    free(start.data);
    free(v);
}

struct sum {
    double total;
    int64_t rows;
    int64_t k;
};

static int add_up(void *user, int64_t first, int64_t count, const double *distances) {
    struct sum *s = user;
    assert_int_equal(first, s->rows);
    for (int64_t i = 0; i < count * s->k; i++)
        s->total += distances[i]; /* in order: the same for any panels */
    s->rows += count;
    return 0;
}

static void predict_and_transform(void **state) {
    (void)state;
    double *v = blobs(11, N, 32, 20, 2);
    struct problem p = problem_from(v, N, 32, HF_F32, 1);
    const hf_array c = hf_array_view(p.x64, HF_F64, 20, 32);
    hf_context *g = open_gpu(10 * MIB);
    hf_context *all = open_gpu(400 * MIB);
    struct feed feed = {&p.x, -1, 0};
    const hf_source source = source_of(&feed);
    hf_context *const on[] = {cpu, g, all, g};
    int32_t *labels[4];
    double *away[4], inertia[4];
    struct sum sums[4];
    for (int i = 0; i < 4; i++) {
        const hf_array *x = i < 3 ? &p.x : NULL;
        const hf_source *s = i < 3 ? NULL : &source;
        labels[i] = must_alloc(N * sizeof(int32_t));
        away[i] = must_alloc(N * sizeof(double));
        sums[i] = (struct sum){.k = 20};
        FIT_OK(on[i], hf_kmeans_predict(on[i], x, s, &c, HF_EUCLIDEAN, HF_EXACT, NULL, labels[i],
                                        away[i], &inertia[i]));
        FIT_OK(on[i], hf_kmeans_transform(on[i], x, s, &c, HF_EUCLIDEAN, add_up, &sums[i]));
        assert_int_equal(sums[i].rows, N);
        assert_memory_equal(labels[0], labels[i], N * sizeof(int32_t));
        assert_memory_equal(away[0], away[i], N * sizeof(double));
        assert_memory_equal(&inertia[0], &inertia[i], sizeof(double));
        assert_memory_equal(&sums[0].total, &sums[i].total, sizeof(double));
    }
    expect_within(g, "predict");
    for (int i = 0; i < 4; i++) {
        free(labels[i]);
        free(away[i]);
    }
    hf_context_destroy(all);
    hf_context_destroy(g);
    problem_free(&p);
    free(v);
}

static void stop_and_resume(void **state) {
    (void)state;
    double *v = blobs(12, N, 16, 40, 1);
    struct problem p = problem_from(v, N, 16, HF_F32, 0);
    char path[512];
    snprintf(path, sizeof path, "%s/stream_resume.hfc", HF_TEST_BUILD);
    hf_kmeans_opts o = {.k = 40, .init = HF_INIT_RANDOM, .max_iter = 12, .checkpoint_every = 1};
    hf_kmeans_result whole = {0};
    FIT_OK(cpu, hf_kmeans_fit(cpu, &p.x, &o, &whole));
    for (int way = 0; way < 3; way++) {
        hf_context *g = open_gpu(9 * MIB);
        hf_context *const from = way == 1 ? cpu : g;
        hf_context *const to = way == 2 ? cpu : g;
        hf_kmeans_result part = {0};
        hf_kmeans_result rest = {0};
        o.checkpoint = path;
        o.progress = stop_at_three;
        FIT_OK(from, hf_kmeans_fit(from, &p.x, &o, &part));
        assert_int_equal(part.stop, HF_STOP_CANCELLED);
        assert_int_equal(part.iterations, 3);
        o.checkpoint = NULL;
        o.progress = NULL;
        o.resume = path;
        FIT_OK(to, hf_kmeans_fit(to, &p.x, &o, &rest));
        o.resume = NULL;
        expect_same(&whole, &rest, "resumed");
        hf_kmeans_result_clear(&part);
        hf_kmeans_result_clear(&rest);
        hf_context_destroy(g);
    }
    remove(path);
    hf_kmeans_result_clear(&whole);
    problem_free(&p);
    free(v);
}

static int never(void *user, int restart, int iteration, const hf_kmeans_iteration *it,
                 int64_t done, int64_t total) {
    (void)user, (void)restart, (void)iteration, (void)it, (void)done, (void)total;
    fail_msg("a fit that must fail was begun");
    return 1;
}

/* What can only fail is refused before the centroids are chosen, one pass over the rows for each:
 * nearly as many clusters as rows, and distances of all rows beside a core. */
static void too_little_is_said_at_once(void **state) {
    (void)state;
    const int64_t n = 400000;
    double *v = blobs(15, n, 2, 10, 1);
    struct problem p = problem_from(v, n, 2, HF_F32, 0);
    hf_context *g = open_gpu(1 * MIB);
    for (int i = 0; i < 2; i++) {
        const hf_kmeans_opts o = {
            .k = i ? 10 : n - 100, .init = (hf_init)i, .empty = HF_EMPTY_KEEP, .progress = never};
        hf_kmeans_result r = {0};
        assert_int_equal(hf_kmeans_fit(g, &p.x, &o, &r), HF_E_NOMEM);
        assert_non_null(strstr(hf_last_error(g), "1048576"));
    }
    hf_context_destroy(g);
    problem_free(&p);
    free(v);
}

/* A source that fails: its words, its status, and a context that still works. */
static void broken_sources(void **state) {
    (void)state;
    double *v = blobs(13, N, 16, 10, 1);
    struct problem p = problem_from(v, N, 16, HF_F32, 0);
    const hf_kmeans_opts o = {.k = 10, .init = HF_INIT_RANDOM, .max_iter = 4};
    hf_context *g = open_gpu(9 * MIB);
    hf_kmeans_result a = {0};
    hf_kmeans_result b = {0};
    const int64_t places[] = {0, N / 2, N - 1};
    for (int i = 0; i < 3; i++) {
        struct feed feed = {&p.x, places[i], 0};
        const hf_source source = source_of(&feed);
        assert_int_equal(hf_kmeans_fit_source(g, &source, &o, &b), HF_E_IO);
        assert_non_null(strstr(hf_last_error(g), "the cable is loose"));
        assert_non_null(strstr(hf_last_error(g), "reading rows "));
        assert_null(b.labels);
    }
    FIT_OK(cpu, hf_kmeans_fit(cpu, &p.x, &o, &a));
    FIT_OK(g, hf_kmeans_fit(g, &p.x, &o, &b));
    expect_same(&a, &b, "after failures");
    hf_kmeans_result_clear(&a);
    hf_kmeans_result_clear(&b);
    ((float *)p.x.data)[(N - 2) * 16 + 5] = NAN;
    assert_int_equal(hf_kmeans_fit(g, &p.x, &o, &b), HF_E_DATA);
    assert_non_null(strstr(hf_last_error(g), "row 199998, column 5"));
    hf_context_destroy(g);
    problem_free(&p);
    free(v);
}

/* ---- a GPU that fails in mid-run: in a process of its own, for it is of no use afterwards */

static int pull_the_plug(void *user, int restart, int iteration, const hf_kmeans_iteration *it,
                         int64_t done, int64_t total) {
    (void)restart, (void)it, (void)done, (void)total;
    if (iteration == 3) {
        const struct toy_args args = {.n = 1, .wrong = -1, .breaks = true};
        (void)hf_run_kernel(user, HF_OP_GATHER, hf_toy_cuda, &args);
    }
    return 0;
}

static char sabotaged_path[512];

static struct problem sabotaged_rows(hf_kmeans_opts *o) {
    double *v = blobs(14, N, 256, 40, 1);
    const struct problem p = problem_from(v, N, 256, HF_F32, 0);
    free(v);
    *o = (hf_kmeans_opts){.k = 40, .init = HF_INIT_RANDOM, .max_iter = 9, .checkpoint_every = 1};
    return p;
}

/* In the child; returns its exit code. */
static int fit_that_breaks(void) {
    hf_context *g = open_gpu(0);
    if (!g)
        return 77;
    hf_kmeans_opts o;
    struct problem p = sabotaged_rows(&o);
    o.checkpoint = sabotaged_path;
    o.progress = pull_the_plug;
    o.progress_user = g;
    hf_kmeans_result r = {0};
    const hf_status status = hf_kmeans_fit(g, &p.x, &o, &r);
    fprintf(stderr, "a fit on a GPU that failed: status %d: %s\n", (int)status, hf_last_error(g));
    const bool said = strstr(hf_last_error(g), "checkpoint") != NULL;
    hf_context_destroy(g);
    problem_free(&p);
    return status == HF_E_DEVICE && said && !r.labels ? 0 : 4;
}

static int child_status;

static void failure_in_mid_run(void **state) {
    (void)state;
    assert_true(WIFEXITED(child_status));
    assert_int_equal(WEXITSTATUS(child_status), 0);
    hf_kmeans_opts o;
    struct problem p = sabotaged_rows(&o);
    hf_kmeans_result a = {0};
    hf_kmeans_result b = {0};
    FIT_OK(cpu, hf_kmeans_fit(cpu, &p.x, &o, &a));
    o.resume = sabotaged_path;
    FIT_OK(cpu, hf_kmeans_fit(cpu, &p.x, &o, &b));
    expect_same(&a, &b, "resumed after a failure");
    remove(sabotaged_path);
    hf_kmeans_result_clear(&a);
    hf_kmeans_result_clear(&b);
    problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types),
        cmocka_unit_test(metrics_and_starts),
        cmocka_unit_test(starts_on_all_rows),
        cmocka_unit_test(weights_bounds_and_dropped_rows),
        cmocka_unit_test(empty_clusters),
        cmocka_unit_test(ties),
        cmocka_unit_test(predict_and_transform),
        cmocka_unit_test(stop_and_resume),
        cmocka_unit_test(too_little_is_said_at_once),
        cmocka_unit_test(broken_sources),
        cmocka_unit_test(failure_in_mid_run),
    };
    snprintf(sabotaged_path, sizeof sabotaged_path, "%s/stream_failure.hfc", HF_TEST_BUILD);
    const pid_t child = fork(); /* before this process has touched the GPU */
    if (child == 0)
        _exit(fit_that_breaks());
    if (child < 0 || waitpid(child, &child_status, 0) != child)
        return 1;
    hf_context *g = open_gpu(0);
    if (!g) {
        printf("skipped: %s\n", hf_last_error(NULL));
        return 77;
    }
    hf_context_destroy(g);
    cpu = open_context(hf_usable_cores() < 8 ? hf_usable_cores() : 8, 0);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hf_context_destroy(cpu);
    return failed;
}
