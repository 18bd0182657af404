/* SPDX-License-Identifier: Apache-2.0
 * Grids too large for SciPy's 32-bit column indices, on one and several devices: async-(5) in
 * strips of 128 rows, to 1e-10, b = 1. Links libholdfast_dev, for one device that makes each sweep
 * twice:
 *   relax_several SIZE DEVICES RUNS tagged|free ...   such as: 16384 cuda:0,cuda:1 3 tagged free
 * Prints seconds of iterations and checks, least of the runs; those of the set-up beside them. */
#include <holdfast/dev_relax.h>
#include <holdfast/holdfast.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 64

/* Nine points: -0.5 to the sides, -0.25 to the corners. */
struct grid {
    int64_t size, *row_start;
    int32_t *column;
    double *value;
};

struct range {
    struct grid *grid;
    int64_t first, last; /* lines */
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Neighbours along one axis, the point included, of points before `at`. */
static int64_t before(int64_t size, int64_t at) {
    return at == 0 ? 0 : at == size ? 3 * size - 2 : 3 * at - 1;
}

static void *fill_lines(void *user) {
    const struct range *range = user;
    struct grid *g = range->grid;
    const int64_t n = g->size;
    for (int64_t i = range->first; i < range->last; i++)
        for (int64_t j = 0; j < n; j++) {
            const int64_t lines = before(n, i + 1) - before(n, i);
            int64_t e = before(n, i) * before(n, n) + lines * before(n, j);
            g->row_start[i * n + j] = e;
            for (int64_t di = -(i > 0); di <= (i + 1 < n); di++)
                for (int64_t dj = -(j > 0); dj <= (j + 1 < n); dj++) {
                    g->column[e] = (int32_t)((i + di) * n + j + dj);
                    g->value[e++] = di == 0 && dj == 0   ? 3.510152
                                    : di != 0 && dj != 0 ? -0.25
                                                         : -0.5;
                }
        }
    return NULL;
}

static int make_grid(int64_t size, struct grid *g) {
    const int64_t n = size * size, elements = before(size, size) * before(size, size);
    const int threads = (int)sysconf(_SC_NPROCESSORS_ONLN) < MOST_THREADS
                            ? (int)sysconf(_SC_NPROCESSORS_ONLN)
                            : MOST_THREADS;
    pthread_t thread[MOST_THREADS];
    struct range range[MOST_THREADS];
    *g = (struct grid){.size = size,
                       .row_start = malloc(((size_t)n + 1) * sizeof *g->row_start),
                       .column = malloc((size_t)elements * sizeof *g->column),
                       .value = malloc((size_t)elements * sizeof *g->value)};
    if (g->row_start == NULL || g->column == NULL || g->value == NULL)
        return 0;
    g->row_start[n] = elements;
    int started = 0;
    for (int t = 0; t < threads; t++) {
        range[t] = (struct range){g, size * t / threads, size * (t + 1) / threads};
        started += pthread_create(&thread[t], NULL, fill_lines, &range[t]) == 0;
    }
    for (int t = 0; t < started; t++)
        pthread_join(thread[t], NULL);
    return started == threads;
}

struct bench {
    struct grid grid;
    hf_context *ctx;
    const char *devices;
    double *b, *x;
    int runs;
};

/* A row of the table: the least of the runs. slow: the last device makes each sweep twice. */
static int measure(const struct bench *bench, hf_relax *relax, const char *timing, int slow,
                   double setup) {
    const int64_t n = bench->grid.size * bench->grid.size;
    const hf_array b = hf_array_view(bench->b, HF_F64, n, 1);
    const hf_array x = hf_array_view(bench->x, HF_F64, n, 1);
    int devices = 1;
    for (const char *p = bench->devices; *p != 0; p++)
        devices += *p == ',';
    const hf_dev_relax_fault fault = {
        .kind = HF_DEV_RELAX_SLOW, .outage = slow ? 2 : 1, .device = devices - 1};
    double least = 0, residual = 0;
    int64_t iterations = 0;
    for (int run = 0; run < bench->runs; run++) {
        hf_relax_result result = {0};
        memset(bench->x, 0, (size_t)n * sizeof *bench->x);
        if (hf_dev_relax_solve(relax, &b, &x, &fault, &result) != HF_OK) {
            fprintf(stderr, "solve: %s\n", hf_last_error(bench->ctx));
            return 0;
        }
        const double seconds = result.columns[0].seconds_launch;
        least = run == 0 || seconds < least ? seconds : least;
        iterations = result.iterations;
        residual = result.residual > residual ? result.residual : residual;
        hf_relax_result_clear(&result);
    }
    printf("%lld\t%s\t%s\t%s\t%.4f\t%lld\t%.3e\t%.1f\n", (long long)bench->grid.size,
           bench->devices, timing, slow ? "last one slowed twice" : "-", least,
           (long long)iterations, residual, setup);
    fflush(stdout);
    return 1;
}

static int measure_timing(const struct bench *bench, const char *timing) {
    const int64_t n = bench->grid.size * bench->grid.size;
    const hf_csr a = {.rows = n,
                      .cols = n,
                      .dtype = HF_F64,
                      .row_start = bench->grid.row_start,
                      .column = bench->grid.column,
                      .value = bench->grid.value};
    const hf_relax_opts opts = {.method = HF_RELAX_ASYNC,
                                .partition = HF_PARTITION_STRIPS,
                                .block_rows = 128,
                                .damping = 1,
                                .timing =
                                    strcmp(timing, "free") == 0 ? HF_TIMING_FREE : HF_TIMING_TAGGED,
                                .devices = bench->devices};
    hf_relax *relax = NULL;
    const double begin = now();
    if (hf_relax_setup(bench->ctx, &a, &opts, &relax) != HF_OK) {
        fprintf(stderr, "set up: %s\n", hf_last_error(bench->ctx));
        return 0;
    }
    const double setup = now() - begin;
    int good = measure(bench, relax, timing, 0, setup);
    if (good && strchr(bench->devices, ',') != NULL)
        good = measure(bench, relax, timing, 1, setup);
    hf_relax_destroy(relax);
    return good;
}

int main(int argc, char **argv) {
    struct bench bench = {.devices = argc > 2 ? argv[2] : ""};
    const int64_t size = argc > 4 ? strtoll(argv[1], NULL, 10) : 0;
    bench.runs = argc > 4 ? atoi(argv[3]) : 0;
    if (size < 2 || size > 46340 || bench.runs < 1) {
        fprintf(stderr, "usage: relax_several SIZE DEVICES RUNS tagged|free ...\n");
        return 2;
    }
    char first[32] = "";
    (void)snprintf(first, sizeof first, "%.*s", (int)strcspn(bench.devices, ","), bench.devices);
    const hf_context_opts opts = {.device = first};
    if (hf_context_create(&bench.ctx, &opts) != HF_OK) {
        fprintf(stderr, "%s\n", hf_last_error(NULL));
        return 1;
    }
    const double begin = now();
    bench.b = malloc((size_t)(size * size) * sizeof *bench.b);
    bench.x = malloc((size_t)(size * size) * sizeof *bench.x);
    if (bench.b == NULL || bench.x == NULL || !make_grid(size, &bench.grid)) {
        fprintf(stderr, "no memory for a grid of %lld x %lld\n", (long long)size, (long long)size);
        return 1;
    }
    for (int64_t i = 0; i < size * size; i++)
        bench.b[i] = 1;
    printf("# grid made in %.1f s\n", now() - begin);
    puts("size\tdevices\ttiming\tfault\tseconds\titerations\tresidual\tsetup_s");
    int good = 1;
    for (int t = 4; t < argc && good; t++)
        good = measure_timing(&bench, argv[t]);
    hf_context_destroy(bench.ctx);
    return good ? 0 : 1;
}
