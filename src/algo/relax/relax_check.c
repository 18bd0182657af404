/* SPDX-License-Identifier: Apache-2.0
 * What callers pass: the only place that checks it. */
#include "algo/relax/setup.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "core/array.h"
#include "ops/sparse_scan.h"
#include <math.h>
#include <string.h>
#include <sys/random.h>

#define MOST_ROWS (INT32_MAX - 1)
#define DEFAULT_TOL 1e-10
#define DEFAULT_ITERATIONS 100000
#define DEFAULT_SWEEPS 5
#define DEFAULT_MEMORY ((uint64_t)1 << 30)
#define MOST_SWEEPS 1000
#define MOST_OVERLAP 64
#define SCAN_PARTS 32       /* in which a matrix is looked at */
#define SCAN_ELEMENTS 20000 /* for which threads pay */

static hf_status check_shape(hf_context *ctx, const hf_csr *a) {
    if (a->rows < 1 || a->cols < 1 || a->rows > MOST_ROWS || a->cols > MOST_ROWS)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "the matrix is %lld x %lld; it must have 1 to %lld rows and columns",
                           (long long)a->rows, (long long)a->cols, (long long)MOST_ROWS);
    if (a->rows != a->cols)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "the matrix is %lld x %lld; a linear system needs as many rows as "
                           "columns",
                           (long long)a->rows, (long long)a->cols);
    if (a->dtype != HF_F64 && a->dtype != HF_F32)
        return hf_ctx_fail(ctx, HF_E_ARG, "the matrix has values of type %s; give f64 or f32",
                           hf_dtype_name(a->dtype));
    if (a->row_start == NULL || a->column == NULL || a->value == NULL)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "the matrix has no %s array; all three of hf_csr must be there",
                           a->row_start == NULL ? "row_start"
                           : a->column == NULL  ? "column"
                                                : "value");
    return HF_OK;
}

static hf_status check_row(hf_context *ctx, const hf_csr *a, int64_t i) {
    double diagonal = 0;
    for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++) {
        const double value = sparse_value(a->value, a->dtype, e);
        if (a->column[e] < 0 || a->column[e] >= a->cols)
            return hf_ctx_fail(ctx, HF_E_DATA,
                               "row %lld has an element in column %lld; columns are 0 to %lld",
                               (long long)i, (long long)a->column[e], (long long)a->cols - 1);
        if (!isfinite(value))
            return hf_ctx_fail(ctx, HF_E_DATA,
                               "the element in row %lld, column %lld is %g; all must be finite",
                               (long long)i, (long long)a->column[e], value);
        diagonal += a->column[e] == i ? value : 0;
    }
    if (diagonal == 0 || !isfinite(1 / diagonal))
        return hf_ctx_fail(ctx, HF_E_DATA,
                           "the diagonal element of row %lld is %s; relaxation divides by it: "
                           "reorder the rows, or use another kind of solver",
                           (long long)i,
                           diagonal == 0 ? "zero or missing" : "too small to divide by");
    return HF_OK;
}

struct scan_job {
    const struct hf_sparse *a;
    double *inverse;
    uint64_t key; /* 0: symmetry is not looked for */
    struct hf_sparse_scan part[SCAN_PARTS];
};

static void scan_parts(void *user, int worker, int64_t begin, int64_t end) {
    struct scan_job *job = user;
    const int64_t rows = job->a->rows;
    (void)worker;
    for (int64_t p = begin; p < end; p++)
        job->part[p] = hf_sparse_scan_rows(job->a, p * rows / SCAN_PARTS,
                                           (p + 1) * rows / SCAN_PARTS, job->key, job->inverse);
}

/* Drawn anew, so that no matrix can be made to look symmetric. */
static uint64_t draw_key(void) {
    uint64_t key = 0;
    if (getrandom(&key, sizeof key, GRND_NONBLOCK) != sizeof key)
        key = (uint64_t)(1e9 * hf_now_s());
    return key + (key == 0);
}

/* row_start alone, so that rows can be looked at in any order. */
static hf_status check_starts(hf_context *ctx, const hf_csr *a) {
    if (a->row_start[0] != 0)
        return hf_ctx_fail(ctx, HF_E_DATA, "row_start[0] is %lld; it must be 0",
                           (long long)a->row_start[0]);
    for (int64_t i = 0; i < a->rows; i++)
        if (a->row_start[i + 1] < a->row_start[i])
            return hf_ctx_fail(
                ctx, HF_E_DATA,
                "row_start[%lld] is %lld, less than row_start[%lld] = %lld; it must not fall",
                (long long)i + 1, (long long)a->row_start[i + 1], (long long)i,
                (long long)a->row_start[i]);
    return HF_OK;
}

/* All rows at once; only a matrix that has something wrong is looked at again for the words. */
hf_status hf_relax_check_matrix(hf_context *ctx, const hf_csr *a, bool mirror,
                                struct hf_relax_scan *scan) {
    if (a == NULL)
        return hf_ctx_fail(ctx, HF_E_ARG, "the matrix is NULL");
    HF_TRY(check_shape(ctx, a));
    HF_TRY(check_starts(ctx, a));
    const struct hf_sparse rows = hf_relax_csr(a);
    struct scan_job job = {.a = &rows,
                           .inverse = hf_alloc((size_t)a->rows * sizeof *job.inverse),
                           .key = mirror ? draw_key() : 0};
    if (job.inverse == NULL)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory to look at a matrix of %lld rows",
                           (long long)a->rows);
    const bool small = a->row_start[a->rows] < SCAN_ELEMENTS;
    struct hf_sparse_scan found = {.bad = false};
    hf_parallel_for(hf_ctx_pool(ctx), SCAN_PARTS, small ? SCAN_PARTS : 1, scan_parts, &job);
    for (int p = 0; p < SCAN_PARTS; p++)
        hf_sparse_scan_add(&found, &job.part[p]);
    hf_status status = HF_OK;
    for (int64_t i = 0; found.bad && i < a->rows && status == HF_OK; i++)
        status = check_row(ctx, a, i);
    *scan = (struct hf_relax_scan){.ascending = !found.unordered,
                                   .mirrored = mirror && !found.unordered && found.mirror == 0,
                                   .positive = !found.negative,
                                   .dominance = found.dominance,
                                   .inverse = job.inverse};
    if (status == HF_OK)
        return HF_OK;
    hf_free(job.inverse);
    scan->inverse = NULL;
    return status;
}

static hf_status check_choices(hf_context *ctx, const hf_relax_opts *o) {
    const struct {
        const char *name;
        int value, most;
    } choices[] = {{"method", (int)o->method, HF_RELAX_CHEBYSHEV},
                   {"precond", (int)o->precond, HF_PRECOND_BLOCKS},
                   {"partition", (int)o->partition, HF_PARTITION_GRAPH},
                   {"timing", (int)o->timing, HF_TIMING_FREE},
                   {"coarse", (int)o->coarse, HF_SWITCH_OFF},
                   {"one_launch", (int)o->one_launch, HF_SWITCH_OFF},
                   {"exchange", (int)o->exchange, HF_EXCHANGE_DK}};
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++)
        if (choices[i].value < 0 || choices[i].value > choices[i].most)
            return hf_ctx_fail(ctx, HF_E_ARG, "%s is %d; it must be 0 to %d", choices[i].name,
                               choices[i].value, choices[i].most);
    if (o->inside != HF_DTYPE_NONE && o->inside != HF_F64 && o->inside != HF_F32)
        return hf_ctx_fail(ctx, HF_E_ARG, "inside is %s; it must be f64 or f32",
                           hf_dtype_name(o->inside));
    return HF_OK;
}

static hf_status check_numbers(hf_context *ctx, const hf_relax_opts *o) {
    if (isnan(o->tol) || o->tol >= 1)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "tol is %g; it must be below 1, 0 for 1e-10, or negative for a fixed "
                           "number of iterations",
                           o->tol);
    if (o->max_iter < 0 || isnan(o->max_seconds) || o->max_seconds < 0)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "max_iter is %lld and max_seconds %g; neither may be negative",
                           (long long)o->max_iter, o->max_seconds);
    if (!(o->progress_seconds >= 0))
        return hf_ctx_fail(ctx, HF_E_ARG, "progress_seconds is %g; it must be 0 or more",
                           o->progress_seconds);
    if (o->block_rows < 0 || o->local_sweeps < 0 || o->local_sweeps > MOST_SWEEPS)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "block_rows is %lld and local_sweeps %d; they must be 0 or more, and "
                           "local_sweeps at most %d",
                           (long long)o->block_rows, o->local_sweeps, MOST_SWEEPS);
    if (o->overlap > MOST_OVERLAP)
        return hf_ctx_fail(ctx, HF_E_ARG, "overlap is %d; it must be at most %d", o->overlap,
                           MOST_OVERLAP);
    if (o->spares > HF_MARCH_SPARES)
        return hf_ctx_fail(ctx, HF_E_ARG, "spares is %d; it must be at most %d", o->spares,
                           HF_MARCH_SPARES);
    if (!(o->damping >= 0 && o->damping < 2))
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "damping is %g; it must be above 0 and below 2, or 0 for the method's "
                           "own",
                           o->damping);
    if (o->tol < 0 && o->max_iter == 0)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "tol is %g, so nothing but max_iter ends the iteration: set it", o->tol);
    return HF_OK;
}

hf_status hf_relax_check_opts(hf_context *ctx, const hf_relax_opts *given, hf_relax_opts *opts) {
    static const hf_relax_opts defaults = {0};
    const hf_relax_opts *o = given != NULL ? given : &defaults;
    HF_TRY(check_choices(ctx, o));
    HF_TRY(check_numbers(ctx, o));
    *opts = *o;
    opts->tol = o->tol == 0 ? DEFAULT_TOL : o->tol;
    opts->max_iter = o->max_iter == 0 ? DEFAULT_ITERATIONS : o->max_iter;
    opts->local_sweeps = o->local_sweeps == 0 ? DEFAULT_SWEEPS : o->local_sweeps;
    opts->inside = o->inside == HF_DTYPE_NONE ? HF_F64 : o->inside;
    opts->spares = o->spares > 0 ? o->spares : 0;
    opts->memory_bytes = o->memory_bytes == 0 ? DEFAULT_MEMORY : o->memory_bytes;
    return HF_OK;
}

/* Exponents of all ones: infinity or NaN. */
ALWAYS_INLINE bool is_odd(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits >> 52 & 0x7ff) == 0x7ff;
}

static bool all_finite(const hf_array *a) {
    const int64_t stride = hf_array_stride(a);
    bool odd = false;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++)
            odd |= is_odd(sparse_value(a->data, a->dtype, i * stride + j));
    return !odd;
}

static hf_status check_finite(hf_context *ctx, const hf_array *a, const char *what) {
    if (all_finite(a))
        return HF_OK;
    for (int64_t i = 0; i < a->rows; i++) {
        const void *row = hf_array_row(a, i);
        for (int64_t j = 0; j < a->cols; j++) {
            const double value = sparse_value(row, a->dtype, j);
            if (!isfinite(value))
                return hf_ctx_fail(ctx, HF_E_DATA,
                                   "%s is %g in row %lld, column %lld; all must be finite", what,
                                   value, (long long)i, (long long)j);
        }
    }
    return HF_OK;
}

hf_status hf_relax_check_vectors(hf_context *ctx, int64_t n, const hf_array *b, const hf_array *x,
                                 bool finite) {
    HF_TRY(hf_array_check(b, "b", &ctx->error));
    HF_TRY(hf_array_check(x, "x", &ctx->error));
    if (b->dtype != HF_F64 && (b->dtype != HF_F32 || !finite))
        return hf_ctx_fail(ctx, HF_E_ARG, "b is of type %s; give f64%s", hf_dtype_name(b->dtype),
                           finite ? " or f32" : "");
    if (x->dtype != HF_F64)
        return hf_ctx_fail(ctx, HF_E_ARG, "x is of type %s; give f64", hf_dtype_name(x->dtype));
    if (b->rows != n || x->rows != n || b->cols != x->cols)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "b is [%lld, %lld] and x is [%lld, %lld]; both must have %lld rows, as "
                           "the matrix, and the same number of columns",
                           (long long)b->rows, (long long)b->cols, (long long)x->rows,
                           (long long)x->cols, (long long)n);
    if (finite) {
        HF_TRY(check_finite(ctx, b, "b"));
        HF_TRY(check_finite(ctx, x, "x"));
    }
    return HF_OK;
}
