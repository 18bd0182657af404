/* SPDX-License-Identifier: Apache-2.0
 * A system of a PETSc binary matrix and ones, solved by holdfast: seconds of the solution, seconds
 * of the whole call, iterations and true residual on standard output. As relax_petsc.c does, it
 * solves once before the times are taken.
 *     relax_ours MATRIX METHOD THREADS TOL MOST wall|cpu */
#include <holdfast/holdfast.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMES 5 /* the median of so many */

static int cpu_clock;

static double now(void) {
    struct timespec t;
    clock_gettime(cpu_clock ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what) {
    fprintf(stderr, "relax_ours: %s\n", what);
    exit(1);
}

static void check(hf_status status, hf_context *ctx) {
    if (status != HF_OK)
        die(hf_last_error(ctx));
}

/* Numbers of `size` bytes, most significant first, turned round. */
static void *take(FILE *f, size_t count, size_t size) {
    unsigned char *p = malloc(count * size + 1);
    if (p == NULL || fread(p, size, count, f) != count)
        die("the matrix cannot be read");
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < size / 2; j++) {
            const unsigned char byte = p[i * size + j];
            p[i * size + j] = p[i * size + size - 1 - j];
            p[i * size + size - 1 - j] = byte;
        }
    return p;
}

static hf_csr read_matrix(const char *path) {
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        die("there is no such matrix");
    const int32_t *head = take(f, 4, 4);
    const int32_t *count = take(f, (size_t)head[1], 4);
    int64_t *start = calloc((size_t)head[1] + 1, sizeof *start);
    for (int32_t i = 0; start != NULL && i < head[1]; i++)
        start[i + 1] = start[i] + count[i];
    const int32_t *column = take(f, (size_t)head[3], 4);
    const double *value = take(f, (size_t)head[3], 8);
    fclose(f);
    return (hf_csr){head[1], head[2], HF_F64, start, column, value};
}

static hf_relax_opts options(const char *method) {
    hf_relax_opts o = {.method = HF_RELAX_CG};
    if (strcmp(method, "Jacobi") == 0) {
        o.method = HF_RELAX_JACOBI;
        o.damping = 1;
    } else if (strcmp(method, "Gauss-Seidel") == 0) {
        o.method = HF_RELAX_GAUSS_SEIDEL;
    } else if (strcmp(method, "Chebyshev") == 0) {
        o.method = HF_RELAX_CHEBYSHEV;
    }
    return o;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc != 7)
        die("MATRIX METHOD THREADS TOL MOST wall|cpu");
    const hf_csr a = read_matrix(argv[1]);
    hf_relax_opts o = options(argv[2]);
    const hf_context_opts host = {.device = "cpu", .threads = atoi(argv[3])};
    hf_context *ctx = NULL;
    hf_relax *kept = NULL;
    hf_relax_result r;
    double *b = malloc((size_t)a.rows * sizeof *b), *x = malloc((size_t)a.rows * sizeof *x);
    double solve[TIMES], whole[TIMES];
    o.tol = atof(argv[4]);
    o.max_iter = atoll(argv[5]);
    cpu_clock = argv[6][0] == 'c';
    check(hf_context_create(&ctx, &host), NULL);
    check(hf_relax_setup(ctx, &a, &o, &kept), ctx);
    for (int64_t i = 0; i < a.rows; i++)
        b[i] = 1;
    const hf_array bv = hf_array_view(b, HF_F64, a.rows, 1);
    const hf_array xv = hf_array_view(x, HF_F64, a.rows, 1);
    for (int i = -1; i < TIMES; i++) {
        memset(x, 0, (size_t)a.rows * sizeof *x);
        double begin = now();
        check(hf_relax_solve(ctx, &a, &bv, &xv, &o, &r), ctx);
        whole[i < 0 ? 0 : i] = now() - begin;
        hf_relax_result_clear(&r);
        memset(x, 0, (size_t)a.rows * sizeof *x);
        begin = now();
        check(hf_relax_solve_with(kept, &bv, &xv, &r), ctx);
        solve[i < 0 ? 0 : i] = now() - begin;
        if (i + 1 < TIMES)
            hf_relax_result_clear(&r);
    }
    qsort(solve, TIMES, sizeof *solve, ascending);
    qsort(whole, TIMES, sizeof *whole, ascending);
    printf("%.9g %.9g %lld %.9g\n", solve[TIMES / 2], whole[TIMES / 2], (long long)r.iterations,
           r.residual);
    return 0;
}
