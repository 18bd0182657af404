/* SPDX-License-Identifier: Apache-2.0
 * Matrices for the tests of relaxation, and a dense solution to compare with. fv and Trefethen are,
 * entry for entry, the families of fv1, fv3 and Trefethen_2000 of the SuiteSparse Matrix
 * Collection.
 */
#ifndef HF_TEST_RELAX_MATRICES_H
#define HF_TEST_RELAX_MATRICES_H

#include "unit.h"

#include <holdfast/holdfast.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

struct matrix {
    hf_csr a;
    int64_t *row_start;
    int32_t *column;
    double *value;
    int64_t used, room;
};

static inline void matrix_open(struct matrix *m, int64_t n) {
    memset(m, 0, sizeof *m);
    m->row_start = calloc((size_t)n + 1, sizeof *m->row_start);
    m->a = (hf_csr){.rows = n, .cols = n, .dtype = HF_F64};
}

/* Rows come in order, each begun by its number. */
static inline void matrix_put(struct matrix *m, int64_t row, int64_t column, double value) {
    if (m->used == m->room) {
        m->room = 2 * m->room + 64;
        m->column = realloc(m->column, (size_t)m->room * sizeof *m->column);
        m->value = realloc(m->value, (size_t)m->room * sizeof *m->value);
    }
    m->column[m->used] = (int32_t)column;
    m->value[m->used++] = value;
    m->row_start[row + 1] = m->used;
}

static inline struct matrix *matrix_close(struct matrix *m) {
    for (int64_t i = 0; i < m->a.rows; i++)
        if (m->row_start[i + 1] < m->row_start[i])
            m->row_start[i + 1] = m->row_start[i];
    m->a.row_start = m->row_start;
    m->a.column = m->column;
    m->a.value = m->value;
    return m;
}

static inline void matrix_free(struct matrix *m) {
    free(m->row_start);
    free(m->column);
    free(m->value);
    memset(m, 0, sizeof *m);
}

/* Nine points on a side x side grid: fv1 is 98, 3.510152; fv3 99, 3. */
static inline void make_fv(struct matrix *m, int64_t side, double diagonal) {
    matrix_open(m, side * side);
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++)
            for (int64_t dy = -1; dy <= 1; dy++)
                for (int64_t dx = -1; dx <= 1; dx++) {
                    if (y + dy < 0 || y + dy >= side || x + dx < 0 || x + dx >= side)
                        continue;
                    const double value = dx == 0 && dy == 0 ? diagonal : dx && dy ? -0.25 : -0.5;
                    matrix_put(m, y * side + x, (y + dy) * side + x + dx, value);
                }
    (void)matrix_close(m);
}

/* Primes on the diagonal, ones where rows and columns are powers of two apart. */
static inline void make_trefethen(struct matrix *m, int64_t n) {
    int64_t prime = 1;
    matrix_open(m, n);
    for (int64_t i = 0; i < n; i++) {
        for (bool found = false; !found;) {
            prime++;
            found = true;
            for (int64_t d = 2; d * d <= prime && found; d++)
                found = prime % d != 0;
        }
        for (int64_t j = 0; j < n; j++) {
            const int64_t gap = i < j ? j - i : i - j;
            if (gap == 0)
                matrix_put(m, i, j, (double)prime);
            else if ((gap & (gap - 1)) == 0)
                matrix_put(m, i, j, 1);
        }
    }
    (void)matrix_close(m);
}

/* -u_xx - epsilon u_yy + wind u_x, five points; wind makes it unsymmetric. */
static inline void make_poisson(struct matrix *m, int64_t side, double epsilon, double wind) {
    matrix_open(m, side * side);
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++) {
            const int64_t i = y * side + x;
            if (y > 0)
                matrix_put(m, i, i - side, -epsilon);
            if (x > 0)
                matrix_put(m, i, i - 1, -1 - wind);
            matrix_put(m, i, i, 2 + 2 * epsilon + wind);
            if (x + 1 < side)
                matrix_put(m, i, i + 1, -1);
            if (y + 1 < side)
                matrix_put(m, i, i + side, -epsilon);
        }
    (void)matrix_close(m);
}

/* The square of Poisson's: a plate, ill-conditioned, for which Jacobi diverges. */
static inline void make_plate(struct matrix *m, int64_t side) {
    static const struct {
        int dx, dy, value;
    } star[] = {{0, -2, 1},  {-1, -1, 2}, {0, -1, -8}, {1, -1, 2}, {-2, 0, 1},
                {-1, 0, -8}, {0, 0, 20},  {1, 0, -8},  {2, 0, 1},  {-1, 1, 2},
                {0, 1, -8},  {1, 1, 2},   {0, 2, 1}};
    matrix_open(m, side * side);
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++)
            for (size_t k = 0; k < sizeof star / sizeof star[0]; k++) {
                const int64_t u = x + star[k].dx, v = y + star[k].dy;
                if (u >= 0 && v >= 0 && u < side && v < side)
                    matrix_put(m, y * side + x, v * side + u, star[k].value);
            }
    (void)matrix_close(m);
}

/* Components of 1 to 37 rows, each a star; the centres come last, so that every coupling is far
 * from the diagonal, as in Chem97ZtZ. */
static inline void make_stars(struct matrix *m, int64_t leaves) {
    const int64_t stars = leaves / 18 + 1;
    matrix_open(m, leaves + stars);
    for (int64_t i = 0; i < leaves; i++) {
        matrix_put(m, i, i, 5.0 + (double)(i % 7));
        matrix_put(m, i, leaves + i * 7919 % leaves % stars, 1.0 + (double)(i % 3));
    }
    for (int64_t s = 0; s < stars; s++) {
        for (int64_t i = 0; i < leaves; i++)
            if (i * 7919 % leaves % stars == s)
                matrix_put(m, leaves + s, i, 1.0 + (double)(i % 3));
        matrix_put(m, leaves + s, leaves + s, 120);
    }
    (void)matrix_close(m);
}

/* Solve by Gaussian elimination with row pivots, for matrices of some hundred rows. x [n] out. */
static inline void dense_solve(const hf_csr *a, const double *b, double *x) {
    const int64_t n = a->rows;
    double *full = calloc((size_t)(n * n), sizeof *full);
    assert_non_null(full);
    for (int64_t i = 0; i < n; i++) {
        x[i] = b[i];
        for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++)
            full[i * n + a->column[e]] += ((const double *)a->value)[e];
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            best = fabs(full[i * n + k]) > fabs(full[best * n + k]) ? i : best;
        for (int64_t j = 0; j < n; j++) {
            const double other = full[k * n + j];
            full[k * n + j] = full[best * n + j];
            full[best * n + j] = other;
        }
        const double right = x[k];
        x[k] = x[best];
        x[best] = right;
        for (int64_t i = k + 1; i < n; i++) {
            const double factor = full[i * n + k] / full[k * n + k];
            for (int64_t j = k; j < n && factor != 0; j++)
                full[i * n + j] -= factor * full[k * n + j];
            x[i] -= factor * x[k];
        }
    }
    for (int64_t k = n - 1; k >= 0; k--) {
        for (int64_t j = k + 1; j < n; j++)
            x[k] -= full[k * n + j] * x[j];
        x[k] /= full[k * n + k];
    }
    free(full);
}

/* |b - A x| / |b| */
static inline double residual_of(const hf_csr *a, const double *b, const double *x) {
    double left = 0, right = 0;
    for (int64_t i = 0; i < a->rows; i++) {
        double r = b[i];
        for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++)
            r -= ((const double *)a->value)[e] * x[a->column[e]];
        left += r * r;
        right += b[i] * b[i];
    }
    return sqrt(left / right);
}

static inline hf_context *cpu_context(int threads) {
    const hf_context_opts opts = {.device = "cpu", .threads = threads};
    hf_context *ctx = NULL;
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
    return ctx;
}

static inline double *ones(int64_t rows) {
    const size_t n = rows > 0 ? (size_t)rows : 1;
    double *b = calloc(n, sizeof *b);
    assert_non_null(b);
    for (size_t i = 0; i < n; i++)
        b[i] = 1;
    return b;
}

/* Solve with b = 1, x = 0; x [n] out, may be NULL. */
static inline hf_relax_result solve_ones(hf_context *ctx, const hf_csr *a,
                                         const hf_relax_opts *opts, double *x) {
    double *b = ones(a->rows), *from = calloc((size_t)a->rows, sizeof *from);
    const hf_array bv = hf_array_view(b, HF_F64, a->rows, 1);
    const hf_array xv = hf_array_view(from, HF_F64, a->rows, 1);
    hf_relax_result result;
    memset(&result, 0, sizeof result);
    if (hf_relax_solve(ctx, a, &bv, &xv, opts, &result) != HF_OK)
        fail_msg("%s", hf_last_error(ctx));
    /* What the library says of its answer is true. */
    const double residual = residual_of(a, b, from);
    assert_true(fabs(residual - result.residual) <= 1e-13 + 1e-6 * residual);
    assert_true(!result.converged || residual <= (opts->tol != 0 ? opts->tol : 1e-10) * 1.001);
    if (x != NULL)
        memcpy(x, from, (size_t)a->rows * sizeof *x);
    free(b);
    free(from);
    return result;
}

#endif
