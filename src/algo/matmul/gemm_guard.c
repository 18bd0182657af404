/* SPDX-License-Identifier: Apache-2.0
 * Row and column checks of a product: Huang and Abraham, Algorithm-based fault tolerance for matrix
 * operations (1984). The sums are float64. A suspicion costs a line of work and needs no threshold
 * that somebody chose: only a line with other bits is a fault. */
#include "algo/matmul/gemm_check.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "core/kernel.h"
#include "guard/guard.h"
#include "ops/gemm/gemm.h"

#include <math.h>
#include <string.h>

/* One product of the batch, seen so that its lines are rows; for columns all is transposed. */
struct lines {
    hf_context *ctx;
    const hf_gemm_args *args;         /* checked and complete */
    struct hf_gemm_view a, b, c, old; /* [m, k], [k, n], [m, n]; old.data NULL: beta is 0 */
    int64_t m, n, k;
    bool columns;
    double error, tiny; /* as in hf_gemm_report, of the sums; */
    double rounding;    /* relative, of a C of 16 bits */
    double *sum, *size; /* [k] of the rows of b, and of their absolute values */
    double *line;       /* [max(k, n)] */
    char *again;        /* [n] a line computed again, and before it (beta) */
    const struct hf_kernel *twin;
    int64_t number; /* in the batch */
    hf_guard guard;
    hf_gemm_faults *faults;
};

static const char *at(const struct hf_gemm_view *v, int64_t i, int64_t j) {
    return (const char *)v->data + (i * v->row + j * v->col) * (int64_t)hf_dtype_bytes(v->dtype);
}

/* Row i of a view as float64. */
static void load_line(double *dst, const struct hf_gemm_view *v, int64_t i, int64_t count) {
    if (v->col == 1)
        hf_to_f64(dst, at(v, i, 0), v->dtype, count);
    else
        for (int64_t j = 0; j < count; j++)
            dst[j] = hf_load_f64(v->data, v->dtype, i * v->row + j * v->col);
}

/* Along whichever dimension lies in one piece. */
static void sum_rows_of_b(struct lines *l) {
    const struct hf_gemm_view turned = {l->b.data, l->b.dtype, l->b.col, l->b.row};
    memset(l->sum, 0, (size_t)l->k * sizeof *l->sum);
    memset(l->size, 0, (size_t)l->k * sizeof *l->size);
    for (int64_t p = 0; l->b.col == 1 && p < l->k; p++) {
        load_line(l->line, &l->b, p, l->n);
        for (int64_t j = 0; j < l->n; j++) {
            l->sum[p] += l->line[j];
            l->size[p] += fabs(l->line[j]);
        }
    }
    for (int64_t j = 0; l->b.col != 1 && j < l->n; j++) {
        load_line(l->line, &turned, j, l->k);
        for (int64_t p = 0; p < l->k; p++) {
            l->sum[p] += l->line[p];
            l->size[p] += fabs(l->line[p]);
        }
    }
}

/* Row i of op(A) times the sums of B, and the size of what was added. */
static double expected(struct lines *l, int64_t i, double *size) {
    double sum = 0;
    *size = 0;
    load_line(l->line, &l->a, i, l->k);
    for (int64_t p = 0; p < l->k; p++) {
        sum += l->line[p] * l->sum[p];
        *size += fabs(l->line[p]) * l->size[p];
    }
    sum *= l->args->alpha;
    *size *= fabs(l->args->alpha);
    if (l->old.data == NULL)
        return sum;
    load_line(l->line, &l->old, i, l->n);
    for (int64_t j = 0; j < l->n; j++) {
        sum += l->args->beta * l->line[j];
        *size += fabs(l->args->beta * l->line[j]);
    }
    return sum;
}

/* Can line i be right? A sum of c float64 is off by at most c 2^-52 times the sum of sizes; those
 * of I8 are whole numbers, exact below 2^53, and equal modulo 2^32. */
static bool is_plausible(struct lines *l, int64_t i) {
    double size, found = 0, found_size = 0;
    const double want = expected(l, i, &size);
    load_line(l->line, &l->c, i, l->n);
    for (int64_t j = 0; j < l->n; j++) {
        found += l->line[j];
        found_size += fabs(l->line[j]);
    }
    const double difference = found - want;
    if (l->args->dtype == HF_I8)
        return size + found_size < 0x1p53 && fmod(difference, 0x1p32) == 0;
    const double terms = (double)(l->k + 2 * l->n + 8);
    const double bound = l->error * size + l->rounding * found_size + (double)l->n * l->tiny +
                         terms * 0x1p-52 * (size + found_size);
    return bound < INFINITY && fabs(difference) <= bound;
}

/* The call that computes line i alone into `again`. */
static hf_gemm_args line_call(const struct lines *l, int64_t i) {
    hf_gemm_args one = *l->args;
    const bool by_column = l->columns;
    const struct hf_gemm_view first = {l->a.data, l->a.dtype, l->a.row, l->a.col};
    one.batch = 1;
    one.signatures = NULL;
    one.c = l->again;
    if (by_column) { /* a column of C: one column of op(B), which is a row of a here */
        one.n = 1;
        one.ldc = 1;
        one.a = l->b.data;
        one.b = at(&first, i, 0);
    } else {
        one.m = 1;
        one.a = at(&first, i, 0);
        one.b = l->b.data;
        one.ldc = l->args->n;
    }
    return one;
}

/* Put the line's own elements (from C as it was) where beta needs them. */
static void prepare_line(const struct lines *l, int64_t i) {
    const size_t bytes = hf_dtype_bytes(l->c.dtype);
    for (int64_t j = 0; l->old.data != NULL && j < l->n; j++)
        memcpy(l->again + (size_t)j * bytes, at(&l->old, i, j), bytes);
}

static hf_status confirm(struct lines *l, int64_t i) {
    const size_t bytes = hf_dtype_bytes(l->c.dtype);
    const hf_gemm_args one = line_call(l, i);
    int64_t wrong = 0;
    prepare_line(l, i);
    HF_TRY(hf_run_kernel(l->ctx, HF_OP_GEMM, l->twin, &one));
    for (int64_t j = 0; j < l->n; j++) {
        char *element = (char *)(uintptr_t)at(&l->c, i, j);
        if (memcmp(element, l->again + (size_t)j * bytes, bytes) == 0)
            continue;
        wrong++;
        if (l->guard != HF_GUARD_DETECT)
            memcpy(element, l->again + (size_t)j * bytes, bytes);
    }
    if (wrong == 0)
        return HF_OK;
    if (l->faults->confirmed++ == 0) {
        l->faults->row = l->columns ? -1 : i;
        l->faults->column = l->columns ? i : -1;
    }
    if (l->guard == HF_GUARD_DETECT)
        return hf_ctx_fail(l->ctx, HF_E_CORRUPT,
                           "gemm: %s %lld of product %lld is wrong in %lld elements: the machine "
                           "computes wrongly; run it again, and if that fails too, on another "
                           "machine",
                           l->columns ? "column" : "row", (long long)i, (long long)l->number,
                           (long long)wrong);
    l->faults->repaired += wrong;
    if (!is_plausible(l, i))
        return hf_ctx_fail(l->ctx, HF_E_CORRUPT,
                           "gemm: %s %lld of product %lld is wrong and could not be repaired: two "
                           "kernels contradict the sums of the operands",
                           l->columns ? "column" : "row", (long long)i, (long long)l->number);
    return HF_OK;
}

static hf_status check_lines(struct lines *l) {
    sum_rows_of_b(l);
    for (int64_t i = 0; i < l->m; i++) {
        l->faults->lines++;
        if (is_plausible(l, i))
            continue;
        l->faults->suspected++;
        HF_TRY(confirm(l, i));
    }
    return HF_OK;
}

static struct hf_gemm_view turned(struct hf_gemm_view v) {
    return (struct hf_gemm_view){v.data, v.dtype, v.col, v.row};
}

/* C' = op(B)' op(A)' has the columns of C for rows. */
static struct lines transposed(const struct lines *l) {
    struct lines t = *l;
    t.a = turned(l->b);
    t.b = turned(l->a);
    t.c = turned(l->c);
    t.old = turned(l->old);
    t.m = l->n;
    t.n = l->m;
    t.columns = true;
    return t;
}

static hf_status check_product(struct lines *l, int64_t b, const char *before) {
    const hf_gemm_args *args = l->args;
    const int64_t bytes = (int64_t)hf_dtype_bytes(args->dtype_c);
    const int64_t first = b * args->stride_c * bytes;
    l->number = b;
    l->a = hf_gemm_view_a(args, b);
    l->b = hf_gemm_view_b(args, b);
    l->c = (struct hf_gemm_view){(char *)args->c + first, args->dtype_c, args->ldc, 1};
    l->old = l->c;
    l->old.data = before != NULL ? before + first : NULL;
    HF_TRY(check_lines(l));
    struct lines t = transposed(l);
    return check_lines(&t);
}

static size_t span_of_c(const hf_gemm_args *args) {
    return (size_t)((args->batch - 1) * args->stride_c + (args->m - 1) * args->ldc + args->n) *
           hf_dtype_bytes(args->dtype_c);
}

/* What is lost when a sum becomes an element of 16 bits is relative to the element, which may be
 * far smaller than the products in it. */
static void find_errors(struct lines *l) {
    hf_gemm_args wide = *l->args;
    const bool tensors = hf_gemm_is_tensor(l->args, l->ctx->last_kernel[HF_OP_GEMM]);
    double relative;
    hf_gemm_error(l->args, tensors, &relative, &l->tiny);
    wide.dtype_c = hf_gemm_compute(wide.dtype);
    double tiny;
    hf_gemm_error(&wide, tensors, &l->error, &tiny);
    const hf_dtype out = l->args->dtype_c;
    l->rounding = out == HF_F16 ? 0x1p-10 : out == HF_BF16 ? 0x1p-7 : 0;
}

static hf_status multiply(struct lines *l, const char *before) {
    const int64_t longest = l->args->m > l->args->n ? l->args->m : l->args->n;
    const int64_t most = longest > l->args->k ? longest : l->args->k;
    hf_status status = HF_E_NOMEM;
    HF_TRY(hf_gemm_run(l->ctx, l->args));
    l->m = l->args->m;
    l->n = l->args->n;
    l->k = hf_gemm_reads_ab(l->args) ? l->args->k : 0;
    find_errors(l);
    l->twin = l->ctx->last_kernel[HF_OP_GEMM];
    if (!hf_gemm_is_tensor(l->args, l->twin)) /* no other kernel has their bits */
        l->twin = hf_guard_twin(l->ctx, HF_OP_GEMM, l->twin, l->args);
    l->sum = hf_alloc((size_t)l->k * sizeof *l->sum);
    l->size = hf_alloc((size_t)l->k * sizeof *l->size);
    l->line = hf_alloc((size_t)most * sizeof *l->line);
    l->again = hf_alloc((size_t)longest * 8);
    if (l->sum && l->size && l->line && l->again) {
        status = HF_OK;
        for (int64_t b = 0; status == HF_OK && b < l->args->batch; b++)
            status = check_product(l, b, before);
    } else {
        (void)hf_ctx_fail(l->ctx, HF_E_NOMEM, "gemm: no memory for the checks of the rows");
    }
    hf_free(l->sum);
    hf_free(l->size);
    hf_free(l->line);
    hf_free(l->again);
    return status;
}

hf_status hf_gemm_guarded_run(hf_context *ctx, const hf_gemm_args *args, hf_guard guard,
                              hf_gemm_faults *faults) {
    struct lines l = {.ctx = ctx, .args = args, .guard = guard, .faults = faults};
    if (guard == HF_GUARD_OFF)
        return hf_gemm_run(ctx, args);
    char *before = NULL;
    if (args->beta != 0) {
        before = hf_alloc(span_of_c(args));
        if (before == NULL)
            return hf_ctx_fail(ctx, HF_E_NOMEM, "gemm: no memory for a copy of C");
        memcpy(before, args->c, span_of_c(args));
    }
    const hf_status status = multiply(&l, before);
    hf_free(before);
    return status;
}
