/* SPDX-License-Identifier: Apache-2.0
 * A fit on a GPU gives the bits of the fit on the CPU: labels, centroids, inertia, iterations, and
 * the course of the fit. Skipped, with the reason, where there is no GPU. */
#include "core/context.h"
#include "core/kernel.h"
#include "kmeans_device.h"
#include "on_device.h"
#include "ops/assign/assign.h"

static hf_context *gpu;

static void both(const hf_array *x, const hf_kmeans_opts *opts, const char *what) {
    hf_context *cpu = open_context(2, 0);
    hf_kmeans_result a = {0};
    hf_kmeans_result b = {0};
    FIT_OK(cpu, hf_kmeans_fit(cpu, x, opts, &a));
    FIT_OK(gpu, hf_kmeans_fit(gpu, x, opts, &b));
    expect_same(&a, &b, what);
    hf_kmeans_result_clear(&a);
    hf_kmeans_result_clear(&b);
    hf_context_destroy(cpu);
}

static void all_types_and_metrics(void **state) {
    (void)state;
    const hf_dtype types[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8};
    const int64_t shapes[][3] = {
        {3000, 12, 16}, {5000, 64, 100}, {2000, 128, 257}, {700, 3, 5}, {900, 200, 30}};
    for (int s = 0; s < 5; s++) {
        const int64_t n = shapes[s][0], d = shapes[s][1];
        double *v = blobs(40 + (uint64_t)s, n, d, 20, 3);
        for (int t = 0; t < 5; t++)
            for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++) {
                struct problem p = problem_from(v, n, d, types[t], t == 1 ? 3 : 0);
                const hf_kmeans_opts o = {.k = shapes[s][2],
                                          .metric = (hf_metric)metric,
                                          .init = HF_INIT_RANDOM,
                                          .seed = 5,
                                          .max_iter = 25};
                char what[80];
                snprintf(what, sizeof what, "%s metric %d d=%d k=%d", hf_dtype_name(types[t]),
                         metric, (int)d, (int)o.k);
                both(&p.x, &o, what);
                problem_free(&p);
            }
        free(v);
    }
}

static void starts_and_restarts(void **state) {
    (void)state;
    double *v = blobs(3, 6000, 20, 30, 2);
    struct problem p = problem_from(v, 6000, 20, HF_F32, 0);
    for (int init = HF_INIT_KMEANSPP; init <= HF_INIT_RANDOM; init++) {
        const hf_kmeans_opts o = {
            .k = 40, .init = (hf_init)init, .seed = 9, .n_init = 3, .max_iter = 20};
        both(&p.x, &o, "restarts");
    }
    problem_free(&p);
    free(v);
}

static void weights_and_stores(void **state) {
    (void)state;
    double *v = blobs(4, 4000, 32, 30, 2);
    double *w = must_alloc(4000 * sizeof(double));
    struct hf_rng rng = {.seed = 8};
    for (int i = 0; i < 4000; i++)
        w[i] = i % 7 ? 10 * hf_rng_next_unit(&rng) : 0;
    const hf_array weights = hf_array_view(w, HF_F64, 4000, 1);
    struct problem p = problem_from(v, 4000, 32, HF_F16, 0);
    for (int same = 0; same < 2; same++)
        for (int weighted = 0; weighted < 2; weighted++) {
            const hf_kmeans_opts o = {.k = 50,
                                      .init = HF_INIT_RANDOM,
                                      .seed = 3,
                                      .store = same ? HF_CENTROIDS_SAME : HF_CENTROIDS_WIDE,
                                      .weights = weighted ? &weights : NULL};
            both(&p.x, &o, weighted ? "weights" : "stores");
        }
    problem_free(&p);
    free(w);
    free(v);
}

/* Starts far from all rows lose them at once. */
static void empty_clusters(void **state) {
    (void)state;
    double *v = blobs(6, 2000, 8, 5, 3);
    double *c = must_alloc(12 * 8 * sizeof(double));
    for (int i = 0; i < 12 * 8; i++)
        c[i] = i < 5 * 8 ? v[i] : 1000 + i;
    const hf_array start = hf_array_view(c, HF_F64, 12, 8);
    struct problem p = problem_from(v, 2000, 8, HF_F32, 0);
    for (int empty = HF_EMPTY_RELOCATE; empty <= HF_EMPTY_KEEP; empty++) {
        const hf_kmeans_opts o = {.k = 12,
                                  .init = HF_INIT_GIVEN,
                                  .centroids = &start,
                                  .empty = (hf_empty)empty,
                                  .max_iter = 40};
        both(&p.x, &o, empty == HF_EMPTY_RELOCATE ? "relocate" : "split or keep");
    }
    problem_free(&p);
    free(c);
    free(v);
}

static void hostile(void **state) {
    (void)state;
    double *v = blobs(7, 3000, 10, 8, 1);
    for (int kind = 0; kind < 4; kind++) {
        double *u = must_alloc(3000 * 10 * sizeof(double));
        for (int i = 0; i < 30000; i++)
            u[i] = kind == 0   ? 1e4 + v[i]
                   : kind == 1 ? v[i] * pow(10, 4 * (i % 10) - 20)
                   : kind == 2 ? rint(v[i] / 2)
                               : v[i] * 1e100;
        struct problem p = problem_from(u, 3000, 10, kind == 3 ? HF_F64 : HF_F32, 0);
        const hf_kmeans_opts o = {.k = 30, .init = HF_INIT_RANDOM, .seed = 2, .max_iter = 30};
        both(&p.x, &o, "hostile");
        problem_free(&p);
        free(u);
    }
    free(v);
}

static void rows_with_nan_dropped(void **state) {
    (void)state;
    double *v = blobs(9, 3000, 16, 10, 2);
    for (int i = 0; i < 3000; i += 97)
        v[i * 16 + i % 16] = i % 2 ? NAN : INFINITY;
    struct problem p = problem_from(v, 3000, 16, HF_F32, 0);
    const hf_kmeans_opts o = {.k = 10, .init = HF_INIT_RANDOM, .nan = HF_NAN_DROP};
    both(&p.x, &o, "dropped rows");
    hf_kmeans_result r = {0};
    const hf_kmeans_opts strict = {.k = 10};
    assert_int_equal(hf_kmeans_fit(gpu, &p.x, &strict, &r), HF_E_DATA);
    assert_non_null(strstr(hf_last_error(gpu), "row 0, column 0"));
    problem_free(&p);
    free(v);
}

/* A fit that begins on one device and goes on, from its checkpoint, on the other. */
static void resume_elsewhere(void **state) {
    (void)state;
    double *v = blobs(10, 5000, 24, 40, 1);
    struct problem p = problem_from(v, 5000, 24, HF_F32, 0);
    hf_context *cpu = open_context(2, 0);
    hf_context *const from[] = {cpu, gpu};
    hf_context *const to[] = {gpu, cpu};
    char path[512];
    snprintf(path, sizeof path, "%s/device_resume.hfc", HF_TEST_BUILD);
    hf_kmeans_opts o = {.k = 40, .init = HF_INIT_RANDOM, .seed = 4, .checkpoint_every = 1};
    hf_kmeans_result whole = {0};
    FIT_OK(cpu, hf_kmeans_fit(cpu, &p.x, &o, &whole));
    assert_true(whole.iterations > 5);
    for (int way = 0; way < 2; way++) {
        hf_kmeans_result part = {0};
        hf_kmeans_result rest = {0};
        o.checkpoint = path;
        o.progress = stop_at_three;
        FIT_OK(from[way], hf_kmeans_fit(from[way], &p.x, &o, &part));
        assert_int_equal(part.stop, HF_STOP_CANCELLED);
        o.checkpoint = NULL;
        o.progress = NULL;
        o.resume = path;
        FIT_OK(to[way], hf_kmeans_fit(to[way], &p.x, &o, &rest));
        o.resume = NULL;
        expect_same(&whole, &rest, way ? "GPU, then CPU" : "CPU, then GPU");
        hf_kmeans_result_clear(&part);
        hf_kmeans_result_clear(&rest);
    }
    remove(path);
    hf_kmeans_result_clear(&whole);
    hf_context_destroy(cpu);
    problem_free(&p);
    free(v);
}

/* Where the problems of a batch lie. */
enum layout {
    APART,   /* each by itself */
    GAPS,    /* likewise, with something between rows */
    PACKED,  /* one behind the other */
    PARTLY,  /* likewise, but for the third */
    RESIDENT /* one behind the other on the device */
};

static void lay_out(hf_array *x, int count, enum layout layout, char **block) {
    const size_t bytes = (size_t)(x->rows * x->cols) * hf_dtype_bytes(x->dtype);
    if (layout < PACKED)
        return;
    char *packed = must_alloc((size_t)count * bytes);
    for (int i = 0; i < count; i++)
        memcpy(packed + (size_t)i * bytes, x[i].data, bytes);
    *block = packed;
    if (layout == RESIDENT) {
        *block = hf_ctx_alloc(gpu, (size_t)count * bytes);
        assert_non_null(*block);
        assert_int_equal(hf_ctx_copy(gpu, *block, packed, (size_t)count * bytes), HF_OK);
        free(packed);
    }
    for (int i = 0; i < count; i++)
        if (layout != PARTLY || i != 2)
            x[i].data = *block + (size_t)i * bytes;
}

/* Each problem of a batch is fitted as on the CPU. */
static void same_batch(int count, int64_t n, int64_t d, hf_dtype type, enum layout layout,
                       const hf_kmeans_opts *o) {
    struct problem *p = must_alloc((size_t)count * sizeof *p);
    hf_array *x = must_alloc((size_t)count * sizeof *x);
    hf_kmeans_result *a = must_alloc((size_t)count * sizeof *a);
    hf_kmeans_result *b = must_alloc((size_t)count * sizeof *b);
    hf_context *cpu = open_context(2, 0);
    char *block = NULL;
    for (int i = 0; i < count; i++) {
        double *v = blobs(20 + (uint64_t)i, n, d, 12, 1 + i % 6);
        if (o->nan == HF_NAN_DROP && i == 1)
            v[d] = NAN;
        p[i] = problem_from(v, n, d, type, layout == GAPS ? 3 : 0);
        x[i] = p[i].x;
        free(v);
    }
    FIT_OK(cpu, hf_kmeans_fit_batch(cpu, x, count, o, a));
    lay_out(x, count, layout, &block);
    FIT_OK(gpu, hf_kmeans_fit_batch(gpu, x, count, o, b));
    for (int i = 0; i < count; i++) {
        char what[80];
        snprintf(what, sizeof what, "problem %d of a batch of %s, layout %d, init %d", i,
                 hf_dtype_name(type), (int)layout, (int)o->init);
        expect_same_but(&a[i], &b[i], 1e-10, what);
        hf_kmeans_result_clear(&a[i]);
        hf_kmeans_result_clear(&b[i]);
        problem_free(&p[i]);
    }
    if (layout == RESIDENT)
        hf_ctx_release(gpu, block);
    else
        free(block);
    hf_context_destroy(cpu);
    free(p);
    free(x);
    free(a);
    free(b);
}

/* Few and many problems, in one launch and not, with and without clusters that lose their rows. */
static void batches(void **state) {
    (void)state;
    const hf_kmeans_opts o = {.k = 20, .init = HF_INIT_RANDOM, .seed = 6, .max_iter = 30};
    const hf_kmeans_opts keep = {.k = 40,
                                 .init = HF_INIT_RANDOM,
                                 .seed = 7,
                                 .max_iter = 12,
                                 .empty = HF_EMPTY_KEEP,
                                 .store = HF_CENTROIDS_SAME};
    same_batch(6, 1500, 32, HF_F16, APART, &o);
    same_batch(6, 1500, 200, HF_F16, PACKED, &o);
    same_batch(40, 400, 150, HF_F16, APART, &keep);
    same_batch(700, 90, 24, HF_F16, PACKED, &o);
    const hf_kmeans_opts pairs = {.k = 150,
                                  .init = HF_INIT_RANDOM,
                                  .seed = 8,
                                  .max_iter = 10,
                                  .skipping = HF_SKIP_OFF,
                                  .empty = HF_EMPTY_KEEP};
    same_batch(3, 20003, 64, HF_F16, PACKED,
               &pairs); /* enough of them for a second pass over open rows */
}

/* Rows of every type in every place, every start, and one problem that cannot go with the rest. */
static void batches_of_all_kinds(void **state) {
    (void)state;
    const hf_dtype types[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8};
    for (int t = 0; t < 5; t++)
        for (int layout = APART; layout <= RESIDENT; layout++) {
            const hf_kmeans_opts o = {.k = 12,
                                      .metric = (hf_metric)((t + layout) % 3),
                                      .init = HF_INIT_RANDOM,
                                      .seed = 11,
                                      .max_iter = 15};
            same_batch(5, 301, 21 + layout, types[t], (enum layout)layout, &o);
        }
    double *c = blobs(5, 12, 16, 12, 3);
    const hf_array given = hf_array_view(c, HF_F64, 12, 16);
    for (int init = HF_INIT_KMEANSPP; init <= HF_INIT_GIVEN; init++) {
        const hf_kmeans_opts o = {.k = 12,
                                  .init = (hf_init)init,
                                  .centroids = init == HF_INIT_GIVEN ? &given : NULL,
                                  .nan = init == HF_INIT_RANDOM ? HF_NAN_DROP : HF_NAN_ERROR,
                                  .empty = HF_EMPTY_KEEP,
                                  .seed = 3,
                                  .max_iter = 10};
        same_batch(7, 500, 16, HF_F32, init % 2 ? PACKED : APART, &o);
    }
    free(c);
}

/* A fit whose iterations this row makes in one launch is the CPU's. False: there is no such row. */
static bool same_in_one_launch(const char *row, const hf_array *x, const hf_kmeans_opts *opts,
                               const char *what) {
    hf_kmeans_result a = {0};
    hf_kmeans_result b = {0};
    setenv("HF_KERNEL_LLOYD", row, 1);
    FIT_OK(gpu, hf_kmeans_fit(gpu, x, opts, &b));
    unsetenv("HF_KERNEL_LLOYD");
    const bool taken = strcmp(b.kernel_assign, row) == 0;
    if (taken) {
        hf_context *cpu = open_context(2, 0);
        FIT_OK(cpu, hf_kmeans_fit(cpu, x, opts, &a));
        expect_same(&a, &b, what);
        hf_kmeans_result_clear(&a);
        hf_context_destroy(cpu);
    } else if (strstr(hf_last_error(gpu), "compute capability")) {
        printf("skipped: %s\n", hf_last_error(gpu));
    } else {
        fail_msg("%s: %s was not taken: %s", what, row, hf_last_error(gpu));
    }
    hf_kmeans_result_clear(&b);
    return taken;
}

struct launch_shape {
    int64_t n, d, k;
    hf_dtype type;
    double offset; /* of all values; WHOLE: whole numbers, which tie */
    hf_empty empty;
};

#define WHOLE 0.5

static void try_in_one_launch(const char *row, const struct launch_shape *shapes, size_t count) {
    for (size_t s = 0; s < count; s++) {
        const int64_t n = shapes[s].n, d = shapes[s].d;
        const hf_dtype type = shapes[s].type;
        double *v = blobs(80 + s, n, d, 25, 1);
        for (int64_t i = 0; i < n * d; i++)
            v[i] = shapes[s].offset == WHOLE ? rint(v[i]) : v[i] + shapes[s].offset;
        struct problem p = problem_from(v, n, d, type, 0);
        bool there = true;
        for (int same = 0; there && same < (type == HF_F16 || type == HF_BF16 ? 2 : 1); same++) {
            const hf_kmeans_opts o = {.k = shapes[s].k,
                                      .init = HF_INIT_RANDOM,
                                      .seed = 7,
                                      .max_iter = 30,
                                      .tol = s % 2 ? 1e-3 : -1,
                                      .empty = shapes[s].empty,
                                      .guard = HF_GUARD_OFF, /* with it there are launches beside */
                                      .store = same ? HF_CENTROIDS_SAME : HF_CENTROIDS_WIDE};
            char what[80];
            snprintf(what, sizeof what, "in one launch: %s n=%d d=%d k=%d same=%d",
                     hf_dtype_name(type), (int)n, (int)d, (int)o.k, same);
            there = same_in_one_launch(row, &p.x, &o, what);
        }
        problem_free(&p);
        free(v);
        if (!there)
            return;
    }
}

/* Shapes of the kernel for small problems: one cluster to all that its tile holds, columns short of
 * a tile and of a step, rows that fill no unit, rows far from 0. */
static void small_problems(void **state) {
    (void)state;
    static const struct launch_shape shapes[] = {{16384, 64, 128, HF_F16, 0, HF_EMPTY_KEEP},
                                                 {9001, 128, 127, HF_F16, 0, HF_EMPTY_RELOCATE},
                                                 {3000, 40, 100, HF_F16, 200, HF_EMPTY_KEEP},
                                                 {2500, 72, 64, HF_BF16, 0, HF_EMPTY_SPLIT},
                                                 {4000, 7, 2, HF_F32, 1e4, HF_EMPTY_RELOCATE},
                                                 {5000, 128, 128, HF_F32, 0, HF_EMPTY_RELOCATE},
                                                 {500, 100, 1, HF_F64, -3, HF_EMPTY_RELOCATE},
                                                 {6000, 33, 90, HF_F64, 1e6, HF_EMPTY_KEEP},
                                                 {8000, 65, 128, HF_U8, 100, HF_EMPTY_KEEP},
                                                 {130, 1, 3, HF_F32, 0, HF_EMPTY_RELOCATE}};
    try_in_one_launch("lloyd_f16_64x128_sm90_small", shapes, sizeof shapes / sizeof *shapes);
}

/* Those of the kernel for narrow rows: each of its tiles, full and with one centroid too many for
 * the one before; columns short of a step and of a load; rows that fill no unit; ties. */
static void narrow_rows(void **state) {
    (void)state;
    static const struct launch_shape shapes[] = {
        {70000, 16, 100, HF_F32, 0, HF_EMPTY_KEEP},    {40001, 16, 104, HF_F32, 100, HF_EMPTY_KEEP},
        {9000, 15, 105, HF_F32, 0, HF_EMPTY_RELOCATE}, {20011, 16, 128, HF_F16, 0, HF_EMPTY_KEEP},
        {5003, 1, 1, HF_F32, 3, HF_EMPTY_RELOCATE},    {30000, 2, 16, HF_F32, 0, HF_EMPTY_KEEP},
        {4097, 3, 32, HF_F64, 1e6, HF_EMPTY_KEEP},     {8000, 8, 33, HF_F16, 0, HF_EMPTY_RELOCATE},
        {30000, 8, 64, HF_F32, 1e4, HF_EMPTY_SPLIT},   {6000, 9, 65, HF_BF16, 0, HF_EMPTY_KEEP},
        {12345, 17, 64, HF_F64, 0, HF_EMPTY_KEEP},     {10000, 32, 128, HF_F32, 1e6, HF_EMPTY_KEEP},
        {7777, 31, 65, HF_U8, 90, HF_EMPTY_RELOCATE},  {6001, 24, 100, HF_F16, 0, HF_EMPTY_KEEP},
        {25000, 4, 100, HF_F32, WHOLE, HF_EMPTY_KEEP}, {17, 32, 2, HF_F32, 0, HF_EMPTY_KEEP},
        {8111, 17, 104, HF_F32, 0, HF_EMPTY_KEEP},     {8200, 32, 105, HF_F16, 3, HF_EMPTY_KEEP}};
    try_in_one_launch("lloyd_f16_16x128_sm90_narrow", shapes, sizeof shapes / sizeof *shapes);
}

/* Without bounds, and more than the kernels for small problems take: candidates of open rows, many
 * where there are no clusters, and last groups that are not cut. */
static void many_pairs(void **state) {
    (void)state;
    const struct {
        int64_t n, d, k;
        hf_dtype type;
        hf_metric metric;
        double apart;
    } shapes[] = {
        {30011, 64, 300, HF_F16, HF_EUCLIDEAN, 0}, {30011, 64, 300, HF_F32, HF_DOT, 3},
        {40001, 128, 170, HF_BF16, HF_COSINE, 0},  {9001, 520, 100, HF_F16, HF_EUCLIDEAN, 0},
        {70001, 30, 200, HF_U8, HF_EUCLIDEAN, 3},  {8193, 200, 257, HF_F64, HF_EUCLIDEAN, 0},
        {33000, 128, 100, HF_F16, HF_EUCLIDEAN, 3}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        double *v = blobs(80 + i, shapes[i].n, shapes[i].d, 40, shapes[i].apart);
        struct problem p = problem_from(v, shapes[i].n, shapes[i].d, shapes[i].type, 0);
        const hf_kmeans_opts o = {.k = shapes[i].k,
                                  .metric = shapes[i].metric,
                                  .init = HF_INIT_RANDOM,
                                  .seed = 3 + i,
                                  .empty = HF_EMPTY_KEEP,
                                  .skipping = HF_SKIP_OFF,
                                  .max_iter = 12};
        char what[80];
        snprintf(what, sizeof what, "many pairs, shape %d", (int)i);
        both(&p.x, &o, what);
        problem_free(&p);
        free(v);
    }
}

/* A call of op assign, the first k rows as centroids, on the GPU by this row; NULL: as planned. */
static void same_call(const struct problem *p, int64_t k, const char *row) {
    hf_context *cpu = open_context(2, 0);
    int32_t *labels[2];
    struct hf_assign_stats stats[2] = {{0}, {0}};
    int64_t changed = 0;
    for (int i = 0; i < 2; i++) {
        labels[i] = must_alloc((size_t)p->n * sizeof(int32_t));
        for (int64_t j = 0; j < p->n; j++)
            labels[i][j] = i ? (int32_t)(j % k) : -1;
        const struct hf_assign_args args = {.x = p->x,
                                            .c = hf_array_view(p->x64, HF_F64, k, p->d),
                                            .exact = true,
                                            .filter.scale = 0x1p-8,
                                            .labels = labels[i],
                                            .stats = &stats[i]};
        setenv("HF_KERNEL_ASSIGN", i && row ? row : "", 1);
        FIT_OK(i ? gpu : cpu, hf_assign(i ? gpu : cpu, &args));
    }
    unsetenv("HF_KERNEL_ASSIGN");
    for (int64_t j = 0; j < p->n; j++)
        changed += labels[0][j] != j % k;
    assert_memory_equal(labels[0], labels[1], (size_t)p->n * sizeof(int32_t));
    assert_int_equal(stats[1].changed, changed);
    free(labels[0]);
    free(labels[1]);
    hf_context_destroy(cpu);
}

/* Few columns, blobs and a lattice, many clusters: fits, and calls by all rows of op assign. */
static void few_columns(void **state) {
    (void)state;
    const double steps[] = {0.03, 1.3, 4};
    const struct hf_kernel *row;
    for (int i = 0; i < 6; i++) {
        const int64_t d = i / 2 + 1;
        double *v = blobs(70, 20000, d, 64, 10);
        for (int64_t j = 0; i % 2 && j < 20000 * d; j++)
            v[j] = rint(v[j] / steps[d - 1]);
        struct problem p = problem_from(v, 20000, d, HF_F32, 0);
        const hf_kmeans_opts o = {.k = 1024, .init = HF_INIT_RANDOM, .seed = 3, .max_iter = 12};
        both(&p.x, &o, "few columns");
        for (int r = 0; (row = hf_kernel_at(HF_OP_ASSIGN, r)) != NULL; r++)
            if (row->device == HF_DEV_CUDA && row->dtypes & HF_DT(HF_F32) &&
                hf_kernel_runs_here(row, NULL, 0))
                same_call(&p, 1024, row->name);
        problem_free(&p);
        free(v);
    }
}

/* So many rows that a thread that compares labels (compare_labels) takes two to four turns on a GPU
 * of 132 multiprocessors; four labels together and one by one. With bounds, or they would be marked
 * as they change; in launches of their own, which narrow rows do without. */
static void many_rows(void **state) {
    (void)state;
    const int64_t rows[] = {1700000, 3300003, 5000000};
    setenv("HF_KERNEL_LLOYD", "lloyd_any_cuda", 1);
    for (int i = 0; i < 3; i++) {
        double *v = blobs(50 + (uint64_t)i, rows[i], 2, 9, 4);
        struct problem p = problem_from(v, rows[i], 2, HF_F32, 0);
        const hf_kmeans_opts o = {.k = 9,
                                  .init = HF_INIT_RANDOM,
                                  .seed = 3,
                                  .skipping = HF_SKIP_ON,
                                  .empty = HF_EMPTY_KEEP,
                                  .max_iter = 8};
        both(&p.x, &o, "many rows");
        same_call(&p, 9, NULL);
        problem_free(&p);
        free(v);
    }
    unsetenv("HF_KERNEL_LLOYD");
}

/* Data that try the bounds, by number: separate clusters; few distinct rows, each many times; far
 * from 0; so small that squares underflow; small whole numbers, which tie; no clusters at all. */
static struct problem bounds_data(int kind, hf_dtype type) {
    const int64_t n = 12000, d = kind % 2 ? 48 : 40;
    double *v = blobs(60 + (uint64_t)kind, n, d, 30, kind == 5 ? 0 : 3);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++) {
            double *at = &v[i * d + j];
            *at = kind == 1   ? v[i % 90 * d + j]
                  : kind == 2 ? *at + 300
                  : kind == 3 ? *at * 1e-25
                  : kind == 4 ? rint(*at)
                              : *at;
        }
    struct problem p = problem_from(v, n, d, type, 0);
    free(v);
    return p;
}

/* Bounds decide rows or do not: the fit is the same, with the host's loop in between (clusters that
 * lose their rows) and from checkpoints. */
static void skipping(void **state) {
    (void)state;
    const hf_dtype types[] = {HF_F16, HF_F32, HF_F64, HF_U8, HF_BF16};
    double *w = must_alloc(12000 * sizeof(double));
    for (int i = 0; i < 12000; i++)
        w[i] = i % 5;
    const hf_array weights = hf_array_view(w, HF_F64, 12000, 1);
    char path[512];
    snprintf(path, sizeof path, "%s/device_skipping.hfc", HF_TEST_BUILD);
    int64_t skipped = 0;
    for (int kind = 0; kind < 6; kind++)
        for (int t = 0; t < 5; t++) {
            struct problem p = bounds_data(kind, types[t]);
            hf_context *cpu = open_context(2, 0);
            hf_kmeans_opts o = {.k = 100,
                                .init = HF_INIT_RANDOM,
                                .seed = 4 + (uint64_t)kind,
                                .max_iter = 40,
                                .tol = 1e-9,
                                .store = t == 0 ? HF_CENTROIDS_SAME : HF_CENTROIDS_WIDE,
                                .weights = t == 1 ? &weights : NULL,
                                .empty = t == 2 ? HF_EMPTY_KEEP : HF_EMPTY_RELOCATE,
                                .checkpoint = t == 3 ? path : NULL,
                                .checkpoint_every = t == 3 ? 3 : 0};
            hf_kmeans_result a = {0};
            FIT_OK(cpu, hf_kmeans_fit(cpu, &p.x, &o, &a));
            for (int mode = HF_SKIP_AUTO; mode <= HF_SKIP_ON; mode++) {
                hf_kmeans_result b = {0};
                char what[80];
                o.skipping = (hf_skipping)mode;
                snprintf(what, sizeof what, "data %d %s skipping %d", kind, hf_dtype_name(types[t]),
                         mode);
                FIT_OK(gpu, hf_kmeans_fit(gpu, &p.x, &o, &b));
                expect_same(&a, &b, what);
                for (int i = 0; i < b.iterations; i++) {
                    assert_true(mode != HF_SKIP_OFF || b.history[i].rows_skipped == 0);
                    skipped += mode == HF_SKIP_ON ? b.history[i].rows_skipped : 0;
                }
                hf_kmeans_result_clear(&b);
            }
            hf_kmeans_result_clear(&a);
            hf_context_destroy(cpu);
            problem_free(&p);
        }
    remove(path);
    free(w);
    printf("bounds decided %lld rows\n", (long long)skipped);
    assert_true(skipped > 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_types_and_metrics),
        cmocka_unit_test(starts_and_restarts),
        cmocka_unit_test(weights_and_stores),
        cmocka_unit_test(empty_clusters),
        cmocka_unit_test(hostile),
        cmocka_unit_test(rows_with_nan_dropped),
        cmocka_unit_test(resume_elsewhere),
        cmocka_unit_test(batches),
        cmocka_unit_test(batches_of_all_kinds),
        cmocka_unit_test(small_problems),
        cmocka_unit_test(narrow_rows),
        cmocka_unit_test(many_pairs),
        cmocka_unit_test(many_rows),
        cmocka_unit_test(few_columns),
        cmocka_unit_test(skipping),
    };
    if (!open_for_tests(&gpu, "cuda", argc, argv))
        return SKIPPED;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hf_context_destroy(gpu);
    return failed;
}
