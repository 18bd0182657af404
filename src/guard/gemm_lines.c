/* SPDX-License-Identifier: Apache-2.0
 * Four passes make the sums: the columns of A; with them as weights the columns of B, and its rows;
 * with these the rows of A; at last both of C. */
#include "guard/gemm_lines.h"

#include "base/dtype.h"
#include "base/mem.h"

#include <string.h>

static void *get(const struct gemm_lines *l, size_t bytes) {
    return l->there ? hf_ctx_alloc(l->ctx, bytes) : hf_alloc(bytes);
}

static void put(const struct gemm_lines *l, void *p) {
    if (l->there)
        hf_ctx_release(l->ctx, p);
    else
        hf_free(p);
}

static size_t product_bytes(const hf_gemm_args *args) {
    return (size_t)args->m * (size_t)args->n * hf_dtype_bytes(args->dtype_c);
}

struct gemm_place hf_gemm_lines_c(const struct gemm_lines *l) {
    const hf_gemm_args *args = l->args;
    const int64_t first = l->number * args->stride_c;
    return (struct gemm_place){(char *)args->c + (size_t)first * hf_dtype_bytes(args->dtype_c),
                               args->ldc};
}

struct gemm_place hf_gemm_lines_before(const struct gemm_lines *l) {
    return (struct gemm_place){l->before + (size_t)l->number * product_bytes(l->args), l->args->n};
}

/* C as it is, without what lies between its rows. */
static hf_status keep_c(struct gemm_lines *l) {
    const hf_gemm_args *args = l->args;
    const size_t each = hf_dtype_bytes(args->dtype_c);
    hf_status status = HF_OK;
    for (l->number = 0; status == HF_OK && l->number < args->batch; l->number++) {
        const struct gemm_place from = hf_gemm_lines_c(l), to = hf_gemm_lines_before(l);
        const struct hf_row_copy copy = {.dst = to.data,
                                         .src = from.data,
                                         .dst_step = (size_t)to.ld * each,
                                         .src_step = (size_t)from.ld * each,
                                         .row_bytes = (size_t)args->n * each,
                                         .rows = args->m};
        status = hf_ctx_check(l->ctx, l->ctx->device->copy_rows(l->ctx->stream, &copy));
    }
    l->number = 0;
    return status;
}

static int64_t depth(const hf_gemm_args *args) { return hf_gemm_reads_ab(args) ? args->k : 0; }

/* Those of lines: six arrays of the rows, six of the columns; with those between, four of [k]. */
static size_t line_numbers(const hf_gemm_args *args) { return 6 * (size_t)(args->m + args->n); }
static size_t numbers(const hf_gemm_args *args) {
    return line_numbers(args) + 4 * (size_t)depth(args);
}

/* Of all sums, behind which are the tickets, and two counters. */
static size_t sums_bytes(const hf_gemm_args *args) {
    return hf_align_up(numbers(args) * sizeof(double) +
                       (hf_sums_tickets(args->m, args->n) + 2) * sizeof(unsigned));
}

static unsigned *tickets(const struct gemm_lines *l) {
    return (unsigned *)(void *)(l->sums + numbers(l->args));
}

/* Of all rows, or of all columns: see struct hf_sums_line. */
struct line_arrays {
    double *want, *want_size, *old, *old_size, *found, *found_size;
};

static struct line_arrays cut(double *from, int64_t n) {
    return (struct line_arrays){from,         from + n,     from + 2 * n,
                                from + 3 * n, from + 4 * n, from + 5 * n};
}

/* What is lost when a sum becomes an element of 16 bits is relative to the element, which may be
 * far smaller than the products in it. */
struct hf_sums_bound hf_gemm_lines_bound(hf_context *ctx, const hf_gemm_args *args, bool there) {
    hf_gemm_args wide = *args;
    const bool tensors = hf_gemm_is_tensor(args, ctx->last_kernel[HF_OP_GEMM]);
    const hf_dtype out = wide.dtype_c;
    struct hf_sums_bound b = {.m = wide.m,
                              .n = wide.n,
                              .k = wide.k,
                              .alpha = wide.alpha,
                              .beta = wide.beta,
                              .whole = wide.dtype == HF_I8};
    double relative, tiny;
    b.terms = hf_sums_terms(&wide, there);
    b.summed = there && wide.dtype != HF_F64 && wide.dtype != HF_I8 ? HF_SUMS_SHORT_ERROR : 0;
    b.rounding = out == HF_F16 ? 0x1p-10 : out == HF_BF16 ? 0x1p-7 : 0;
    hf_gemm_error(&wide, tensors, &relative, &b.tiny);
    wide.dtype_c = hf_gemm_compute(wide.dtype);
    hf_gemm_error(&wide, tensors, &b.error, &tiny);
    return b;
}

hf_status hf_gemm_lines_open(struct gemm_lines *l) {
    const hf_gemm_args *args = l->args;
    const size_t longest = (size_t)(args->m > args->n ? args->m : args->n) * 8;
    l->there = l->ctx->device->owns(l->ctx->stream, args->c);
    l->sums = get(l, sums_bytes(args) + longest);
    l->again = l->sums != NULL ? (char *)l->sums + sums_bytes(args) : NULL;
    l->here[0] = hf_alloc(longest);
    l->here[1] = hf_alloc(longest);
    l->sums_here = l->there ? NULL : l->sums;
    if (args->beta != 0)
        l->before = get(l, (size_t)args->batch * product_bytes(args));
    if (!l->here[0] || !l->here[1] || !l->sums || (args->beta != 0 && !l->before))
        return hf_ctx_fail(l->ctx, HF_E_NOMEM, "gemm: no memory for the checks of the rows");
    return l->before ? keep_c(l) : HF_OK;
}

bool hf_gemm_lines_whole(struct gemm_lines *l) {
    if (l->whole == NULL)
        l->whole = get(l, product_bytes(l->args));
    return l->whole != NULL;
}

void hf_gemm_lines_close(struct gemm_lines *l) {
    put(l, l->before);
    put(l, l->whole);
    put(l, l->sums);
    hf_free(l->here[0]);
    hf_free(l->here[1]);
    if (l->there)
        hf_free(l->sums_here);
}

static hf_status make(const struct gemm_lines *l, const struct hf_sums_pass *pass) {
    return l->there ? hf_gemm_sums_there(l->ctx, pass) : hf_gemm_sums(l->ctx, pass);
}

/* What A and B make of both: three passes. [k] numbers between: of the columns of A, of the rows of
 * B. */
static void passes_of(const struct gemm_lines *l, struct hf_sums_pass passes[3]) {
    const hf_gemm_args *args = l->args;
    double *const between = l->sums + line_numbers(args);
    const int64_t k = depth(args);
    const struct line_arrays rows = cut(l->sums, args->m);
    const struct line_arrays cols = cut(l->sums + 6 * args->m, args->n);
    double *const a_cols = between, *const b_rows = between + 2 * k;
    const struct hf_gemm_view a = hf_gemm_view_a(args, l->number);
    const struct hf_gemm_view b = hf_gemm_view_b(args, l->number);
    passes[0] = (struct hf_sums_pass){
        .m = a, .rows = args->m, .cols = k, .col = a_cols, .col_size = a_cols + k};
    passes[1] = (struct hf_sums_pass){.m = b,
                                      .rows = k,
                                      .cols = args->n,
                                      .by_row = a_cols,
                                      .by_row_size = a_cols + k,
                                      .row = b_rows,
                                      .row_size = b_rows + k,
                                      .col = cols.want,
                                      .col_size = cols.want_size};
    passes[2] = (struct hf_sums_pass){.m = a,
                                      .rows = args->m,
                                      .cols = k,
                                      .by_col = b_rows,
                                      .by_col_size = b_rows + k,
                                      .row = rows.want,
                                      .row_size = rows.want_size};
}

static hf_status sum_operands(const struct gemm_lines *l) {
    struct hf_sums_pass passes[3];
    passes_of(l, passes);
    for (int i = 0; i < 3; i++)
        HF_TRY(make(l, &passes[i]));
    return HF_OK;
}

/* Both of C, as it was or as it is. */
static struct hf_sums_pass pass_over_c(const struct gemm_lines *l, bool old) {
    const hf_gemm_args *args = l->args;
    const struct line_arrays rows = cut(l->sums, args->m);
    const struct line_arrays cols = cut(l->sums + 6 * args->m, args->n);
    const struct gemm_place c = old ? hf_gemm_lines_before(l) : hf_gemm_lines_c(l);
    return (struct hf_sums_pass){.m = {c.data, args->dtype_c, c.ld, 1},
                                 .rows = args->m,
                                 .cols = args->n,
                                 .row = old ? rows.old : rows.found,
                                 .row_size = old ? rows.old_size : rows.found_size,
                                 .col = old ? cols.old : cols.found,
                                 .col_size = old ? cols.old_size : cols.found_size};
}

/* The last pass on a device, which compares the sums: they come here only if some are not
 * plausible. */
static hf_status look_there(struct gemm_lines *l, const struct hf_sums_pass *c, bool *suspect) {
    const size_t bytes = line_numbers(l->args) * sizeof *l->sums;
#if HF_HAVE_CUDA
    const struct hf_sums_check check = {l->bound, l->sums, l->beside.product ? NULL : tickets(l)};
    uint32_t found = 1;
    if (l->ctx->device->id != HF_DEV_CUDA)
        return make(l, c);
    HF_TRY(hf_ctx_check(l->ctx, hf_gemm_suspects_cuda(l->ctx->stream, c, &check, &found)));
    *suspect = found != 0;
#else
    HF_TRY(make(l, c));
#endif
    if (!*suspect)
        return HF_OK;
    if (l->sums_here == NULL)
        l->sums_here = hf_alloc(bytes);
    if (l->sums_here == NULL)
        return hf_ctx_fail(l->ctx, HF_E_NOMEM, "gemm: no memory for the checks of the rows");
    return hf_ctx_copy(l->ctx, l->sums_here, l->sums, bytes);
}

hf_status hf_gemm_lines_sum_operands(struct gemm_lines *l) {
    l->beside.product = false;
    if (l->there)
        HF_TRY(hf_ctx_fill(l->ctx, l->sums, 0, sums_bytes(l->args)));
    else if (depth(l->args) == 0)
        memset(l->sums, 0, line_numbers(l->args) * sizeof *l->sums);
    return depth(l->args) > 0 ? sum_operands(l) : HF_OK;
}

hf_status hf_gemm_lines_queue(struct gemm_lines *l) {
    const struct hf_kernel *kernel = NULL;
    struct hf_sums_beside *const beside = &l->beside;
    struct hf_gemm_summed call = {*l->args, beside};
    struct hf_sums_pass passes[3];
    passes_of(l, passes);
    beside->pass[0] = passes[0];
    beside->pass[1] = beside->pass[2] = passes[1];
    beside->pass[1].col = beside->pass[1].col_size = NULL;
    beside->pass[2].row = beside->pass[2].row_size = NULL;
    beside->pass[3] = passes[2];
    beside->c = pass_over_c(l, false);
    beside->next = tickets(l) + hf_sums_tickets(l->args->m, l->args->n);
    call.args.order = HF_GEMM_SUMMED;
    HF_TRY(hf_ctx_fill(l->ctx, l->sums, 0, sums_bytes(l->args)));
    HF_TRY(hf_queue(l->ctx, HF_OP_GEMM, &call.args, &kernel));
    return beside->operands || depth(l->args) == 0 ? HF_OK : sum_operands(l);
}

hf_status hf_gemm_lines_sum_c(struct gemm_lines *l, bool *suspect) {
    const struct hf_sums_pass now = pass_over_c(l, false);
    *suspect = true;
    if (l->before) {
        const struct hf_sums_pass old = pass_over_c(l, true);
        HF_TRY(make(l, &old));
    }
    return l->there ? look_there(l, &now, suspect) : make(l, &now);
}
