/* SPDX-License-Identifier: Apache-2.0
 * Row and column checks of a product: Huang and Abraham, Algorithm-based fault tolerance for matrix
 * operations (1984). The sums are float64. A suspicion costs a line of work and needs no threshold
 * that somebody chose: only a line with other bits is a fault. */
#include "algo/matmul/gemm_check.h"
#include "guard/gemm_lines.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "core/kernel.h"
#include "guard/guard.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

/* Of floating point, that programs may look at or trap: what checks raise is none of theirs. */
#define SIGNALS (FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW)

/* Lines that contradict are computed again one by one, but not more of them than this part of all:
 * a NaN in one operand reaches every line, and computing all of them one by one takes minutes. */
#define WHOLE_SHARE 32

/* A line is a row of C, or a column. */
struct line {
    bool column;
    int64_t i, length;
    struct hf_sums_line sums;
};

static struct line line_of(const struct gemm_lines *l, bool column, int64_t i) {
    const hf_gemm_args *args = l->args;
    const int64_t lines = column ? args->n : args->m;
    const double *const of = column ? l->sums_here + 6 * args->m : l->sums_here;
    return (struct line){column, i, column ? args->m : args->n, hf_sums_line(of, lines, i)};
}

/* The call that computes the product alone, without gaps, into c. */
static hf_gemm_args product_call(const struct gemm_lines *l, char *c) {
    hf_gemm_args one = *l->args;
    one.batch = 1;
    one.signatures = NULL;
    one.a = hf_gemm_view_a(l->args, l->number).data;
    one.b = hf_gemm_view_b(l->args, l->number).data;
    one.c = c;
    one.ldc = one.n;
    return one;
}

/* The call that computes a line alone into l->again. */
static hf_gemm_args line_call(const struct gemm_lines *l, const struct line *line) {
    hf_gemm_args one = product_call(l, l->again);
    const struct hf_gemm_view a = hf_gemm_view_a(l->args, l->number);
    const struct hf_gemm_view b = hf_gemm_view_b(l->args, l->number);
    const int64_t bytes = (int64_t)hf_dtype_bytes(a.dtype);
    if (line->column) {
        one.n = 1;
        one.ldc = 1;
        one.b = (const char *)b.data + line->i * b.col * bytes;
    } else {
        one.m = 1;
        one.a = (const char *)a.data + line->i * a.row * bytes;
    }
    return one;
}

/* Between a line of C, or of its copy from before, and memory of its own without gaps. */
static hf_status move_line(const struct gemm_lines *l, const struct line *line,
                           struct gemm_place of, char *own, bool out) {
    const int64_t bytes = (int64_t)hf_dtype_bytes(l->args->dtype_c), ld = of.ld;
    char *const begin = of.data + (line->column ? line->i : line->i * ld) * bytes;
    const struct hf_row_copy copy = {.dst = out ? begin : own,
                                     .src = out ? own : begin,
                                     .dst_step = (size_t)(line->column && out ? ld * bytes : bytes),
                                     .src_step =
                                         (size_t)(line->column && !out ? ld * bytes : bytes),
                                     .row_bytes = (size_t)bytes,
                                     .rows = line->length};
    if (!line->column)
        return hf_ctx_copy(l->ctx, copy.dst, copy.src, (size_t)(line->length * bytes));
    return hf_ctx_check(l->ctx, l->ctx->device->copy_rows(l->ctx->stream, &copy));
}

static hf_status say_wrong(const struct gemm_lines *l, const struct line *line, int64_t wrong) {
    return hf_ctx_fail(l->ctx, HF_E_CORRUPT,
                       "gemm: %s %lld of product %lld is wrong in %lld elements: the machine "
                       "computes wrongly; run it again, and if that fails too, on another machine",
                       line->column ? "column" : "row", (long long)line->i, (long long)l->number,
                       (long long)wrong);
}

/* After a repair: the sum of what is in C now, which adds nothing to the bound. */
static bool is_right_now(const struct gemm_lines *l, const struct line *line) {
    long double found = 0, size = 0;
    for (int64_t j = 0; j < line->length; j++) {
        const double v = hf_load_f64(l->here[1], l->args->dtype_c, j);
        found += (long double)v;
        size += (long double)fabs(v);
    }
    struct hf_sums_line sums = line->sums;
    sums.found = (double)found;
    sums.found_size = (double)size;
    return hf_sums_plausible(&l->bound, line->length, sums);
}

/* A line as another kernel computed it, where C lies; other bits are a fault. */
static hf_status compare(struct gemm_lines *l, const struct line *line, char *again) {
    const size_t bytes = hf_dtype_bytes(l->args->dtype_c);
    int64_t wrong = 0;
    HF_TRY(move_line(l, line, hf_gemm_lines_c(l), l->here[0], false));
    HF_TRY(hf_ctx_copy(l->ctx, l->here[1], again, (size_t)line->length * bytes));
    for (int64_t j = 0; j < line->length; j++)
        wrong += memcmp(l->here[0] + (size_t)j * bytes, l->here[1] + (size_t)j * bytes, bytes) != 0;
    if (wrong == 0)
        return HF_OK;
    if (l->faults->confirmed++ == 0) {
        l->faults->row = line->column ? -1 : line->i;
        l->faults->column = line->column ? line->i : -1;
    }
    if (l->guard == HF_GUARD_DETECT)
        return say_wrong(l, line, wrong);
    HF_TRY(move_line(l, line, hf_gemm_lines_c(l), again, true));
    l->faults->repaired += wrong;
    if (!is_right_now(l, line))
        return hf_ctx_fail(l->ctx, HF_E_CORRUPT,
                           "gemm: %s %lld of product %lld is wrong and could not be repaired: two "
                           "kernels contradict the sums of the operands",
                           line->column ? "column" : "row", (long long)line->i,
                           (long long)l->number);
    return HF_OK;
}

/* Compute a suspected line again. */
static hf_status confirm(struct gemm_lines *l, const struct line *line) {
    const hf_gemm_args one = line_call(l, line);
    if (l->before != NULL)
        HF_TRY(move_line(l, line, hf_gemm_lines_before(l), l->again, false));
    HF_TRY(hf_run_kernel(l->ctx, HF_OP_GEMM, l->twin, &one));
    return compare(l, line, l->again);
}

static hf_status check_lines(struct gemm_lines *l, bool columns) {
    for (int64_t i = 0; i < (columns ? l->args->n : l->args->m); i++) {
        const struct line line = line_of(l, columns, i);
        l->faults->lines++;
        if (hf_sums_plausible(&l->bound, line.length, line.sums))
            continue;
        l->faults->suspected++;
        HF_TRY(confirm(l, &line));
    }
    return HF_OK;
}

static int64_t count_suspects(const struct gemm_lines *l) {
    int64_t suspects = 0;
    for (int64_t i = 0; i < l->args->m + l->args->n; i++) {
        const bool column = i >= l->args->m;
        const struct line line = line_of(l, column, column ? i - l->args->m : i);
        suspects += !hf_sums_plausible(&l->bound, line.length, line.sums);
    }
    return suspects;
}

/* Compute all of the product again: if every row is right, so is every column. */
static hf_status check_whole(struct gemm_lines *l, int64_t suspects) {
    const hf_gemm_args one = product_call(l, l->whole);
    const size_t row = (size_t)one.n * hf_dtype_bytes(one.dtype_c);
    l->faults->lines += one.m + one.n;
    l->faults->suspected += suspects;
    if (l->before != NULL)
        HF_TRY(hf_ctx_copy(l->ctx, l->whole, hf_gemm_lines_before(l).data, (size_t)one.m * row));
    HF_TRY(hf_run_kernel(l->ctx, HF_OP_GEMM, l->twin, &one));
    for (int64_t i = 0; i < one.m; i++) {
        const struct line line = line_of(l, false, i);
        HF_TRY(compare(l, &line, l->whole + (size_t)i * row));
    }
    return HF_OK;
}

/* Its operands have been summed. Rows that were repaired have other columns now. */
static hf_status check_product(struct gemm_lines *l) {
    const int64_t repaired = l->faults->repaired;
    bool suspect = true;
    HF_TRY(hf_gemm_lines_sum_c(l, &suspect));
    if (!suspect) {
        l->faults->lines += l->args->m + l->args->n;
        return HF_OK;
    }
    const int64_t suspects = count_suspects(l);
    if (suspects * WHOLE_SHARE > l->args->m + l->args->n && hf_gemm_lines_whole(l))
        return check_whole(l, suspects);
    HF_TRY(check_lines(l, false));
    if (l->faults->repaired > repaired) {
        HF_TRY(hf_gemm_lines_sum_operands(l));
        HF_TRY(hf_gemm_lines_sum_c(l, &suspect));
    }
    return check_lines(l, true);
}

/* Forget what was raised since `before`, which is of fetestexcept(): sums of infinities are NaN. */
static void forget_signals(int before) {
    const int raised = fetestexcept(SIGNALS) & ~before;
    if (raised != 0)
        (void)feclearexcept(raised);
}

/* A device goes on from the sums of the operands to the product, and to those of C, without a wait
 * for the host. */
static hf_status multiply(struct gemm_lines *l) {
    int raised = fetestexcept(SIGNALS);
    if (l->there && !l->ctx->guard.elsewhere) {
        HF_TRY(hf_gemm_lines_queue(l));
    } else {
        HF_TRY(hf_gemm_lines_sum_operands(l));
        forget_signals(raised);
        HF_TRY(hf_gemm_run(l->ctx, l->args));
    }
    raised = fetestexcept(SIGNALS);
    const struct hf_kernel *const kernel = l->ctx->last_kernel[HF_OP_GEMM];
    l->bound = hf_gemm_lines_bound(l->ctx, l->args, l->there);
    if (l->beside.operands)
        l->bound.summed = HF_SUMS_BESIDE_ERROR;
    l->twin = kernel;
    if (!hf_gemm_is_tensor(l->args, kernel)) /* no other kernel has their bits */
        l->twin = hf_guard_twin(l->ctx, HF_OP_GEMM, kernel, l->args);
    hf_status status = HF_OK;
    for (l->number = 0; status == HF_OK && l->number < l->args->batch; l->number++) {
        if (l->number > 0)
            status = hf_gemm_lines_sum_operands(l);
        if (status == HF_OK)
            status = check_product(l);
    }
    forget_signals(raised);
    l->ctx->last_kernel[HF_OP_GEMM] = kernel; /* which the report names */
    return status;
}

hf_status hf_gemm_guarded_run(hf_context *ctx, const hf_gemm_args *args, hf_guard guard,
                              hf_gemm_faults *faults) {
    struct gemm_lines l = {.ctx = ctx, .args = args, .guard = guard, .faults = faults};
    if (guard == HF_GUARD_OFF)
        return hf_gemm_run(ctx, args);
    hf_status status = hf_gemm_lines_open(&l);
    if (status == HF_OK)
        status = multiply(&l);
    hf_gemm_lines_close(&l);
    return status;
}
