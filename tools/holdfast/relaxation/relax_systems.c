/* SPDX-License-Identifier: Apache-2.0 */
#include "relaxation/relax_study.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 20000, MOST_ROW = 40, SIEVE = 300000 };

struct row {
    int32_t column[MOST_ROW];
    double value[MOST_ROW];
    int count;
};

static void put(struct row *row, int64_t column, double value) {
    row->column[row->count] = (int32_t)column;
    row->value[row->count++] = value;
}

/* Nine points of a size x size grid: -1/2 to the sides, -1/4 to the corners. */
static void stencil_row(struct row *row, int64_t size, double diagonal, int64_t i) {
    for (int64_t y = i / size - 1; y <= i / size + 1; y++)
        for (int64_t x = i % size - 1; x <= i % size + 1; x++) {
            const bool here = y * size + x == i, side = y == i / size || x == i % size;
            if (x >= 0 && x < size && y >= 0 && y < size)
                put(row, y * size + x, here ? diagonal : side ? -0.5 : -0.25);
        }
}

/* A prime on the diagonal, ones at distances that are powers of two. */
static void trefethen_row(struct row *row, int64_t n, double prime, int64_t i) {
    int64_t far = 1;
    while (2 * far < n)
        far *= 2;
    for (int64_t gap = far; gap > 0; gap /= 2)
        if (i - gap >= 0)
            put(row, i - gap, 1);
    put(row, i, prime);
    for (int64_t gap = 1; gap < n; gap *= 2)
        if (i + gap < n)
            put(row, i + gap, 1);
}

static double *make_primes(int64_t count) {
    double *prime = calloc((size_t)count, sizeof *prime);
    char *odd = calloc(SIEVE, 1);
    int64_t found = 0;
    for (int64_t i = 2; prime && odd && i < SIEVE && found < count; i++) {
        if (odd[i])
            continue;
        prime[found++] = (double)i;
        for (int64_t j = i * i; j < SIEVE; j += i)
            odd[j] = 1;
    }
    free(odd);
    return prime;
}

static const struct {
    const char *name;
    int64_t size;
    double diagonal; /* 0: Trefethen's */
} made[] = {{"fv1", 98, 3.510152},
            {"fv2", 99, 3.51005},
            {"fv3", 99, 3},
            {"Trefethen_2000", 2000, 0},
            {"Trefethen_20000", 20000, 0}};

static bool add_ones(struct relax_system *system) {
    system->b = malloc((size_t)system->a.rows * sizeof *system->b);
    for (int64_t i = 0; system->b && i < system->a.rows; i++)
        system->b[i] = 1;
    return system->b != NULL;
}

static bool make(struct relax_system *system, size_t which) {
    const bool grid = made[which].diagonal > 0;
    const int64_t size = made[which].size, n = grid ? size * size : size;
    int64_t *start = calloc((size_t)n + 1, sizeof *start);
    int32_t *column = malloc((size_t)n * MOST_ROW * sizeof *column);
    double *value = malloc((size_t)n * MOST_ROW * sizeof *value);
    double *prime = make_primes(n);
    const bool there = start && column && value && prime;
    for (int64_t i = 0; there && i < n; i++) {
        struct row row = {.count = 0};
        if (grid)
            stencil_row(&row, size, made[which].diagonal, i);
        else
            trefethen_row(&row, n, prime[i], i);
        memcpy(column + start[i], row.column, (size_t)row.count * sizeof *column);
        memcpy(value + start[i], row.value, (size_t)row.count * sizeof *value);
        start[i + 1] = start[i] + row.count;
    }
    free(prime);
    system->name = made[which].name;
    system->a = (hf_csr){n, n, HF_F64, start, column, value};
    return there && add_ones(system);
}

static void *copy(const void *p, size_t bytes) {
    void *to = malloc(bytes);
    return to ? memcpy(to, p, bytes) : NULL;
}

/* One of the collection that no rule makes; left out where it is not. */
static int read_one(struct relax_study *s, const char *name, const char *file) {
    char path[4200];
    hf_sparse *read = NULL;
    snprintf(path, sizeof path, "%s/%s", s->matrices ? s->matrices : ".", file);
    errno = 0;
    const hf_status status = s->matrices ? hf_sparse_open(s->ctx, path, 0, &read) : HF_E_IO;
    if (status == HF_E_IO) {
        fprintf(stderr, "left out: %s: give the folder of %s with --matrices\n", name, file);
        return EXIT_DONE;
    }
    if (status != HF_OK)
        return tool_fail(s->ctx, status, STAGE_READ);
    struct relax_system *system = &s->system[s->systems];
    const hf_csr *a = hf_sparse_csr(read);
    const size_t count = (size_t)a->row_start[a->rows];
    system->name = name;
    system->a = *a;
    system->a.row_start = copy(a->row_start, ((size_t)a->rows + 1) * sizeof *a->row_start);
    system->a.column = copy(a->column, count * sizeof *a->column);
    system->a.value = copy(a->value, count * sizeof(double));
    s->systems++;
    hf_sparse_close(read);
    const bool there = system->a.row_start && system->a.column && system->a.value;
    return there && add_ones(system) ? EXIT_DONE : tool_fail(NULL, HF_E_NOMEM, STAGE_READ);
}

int relax_open(struct relax_study *s) {
    const hf_context_opts opts = {.device = s->device, .threads = s->threads};
    const hf_status status = hf_context_create(&s->ctx, &opts);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    s->cores = hf_context_threads(s->ctx);
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        if (!make(&s->system[s->systems++], i))
            return tool_fail(NULL, HF_E_NOMEM, STAGE_OPEN);
    const int code = read_one(s, "Chem97ZtZ (rebuilt)", "Chem97ZtZ_rebuilt.mtx.gz");
    return code == EXIT_DONE ? read_one(s, "s1rmt3m1", "s1rmt3m1.mtx.gz") : code;
}

void relax_close(struct relax_study *s) {
    for (int i = 0; i < s->systems; i++) {
        free((void *)s->system[i].a.row_start);
        free((void *)s->system[i].a.column);
        free((void *)s->system[i].a.value);
        free(s->system[i].b);
    }
    free(s->number);
    hf_context_destroy(s->ctx);
}

const struct relax_system *relax_find(const struct relax_study *s, const char *name) {
    for (int i = 0; i < s->systems; i++)
        if (strcmp(s->system[i].name, name) == 0)
            return &s->system[i];
    return NULL;
}

double relax_residual(const struct relax_system *system, const double *x) {
    const hf_csr *a = &system->a;
    double square = 0;
    for (int64_t i = 0; i < a->rows; i++) {
        double r = system->b[i];
        for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++)
            r -= ((const double *)a->value)[e] * x[a->column[e]];
        square += r * r;
    }
    return sqrt(square / (double)a->rows);
}
