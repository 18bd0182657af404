/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm/sums.h"

#include "base/dtype.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "device/host/isa.h"

#include <fenv.h>
#include <math.h>

#define GRAIN 64 /* rows of a range */

/* The plain way. */
static void sum_rows_plain(const struct hf_sums_pass *p, int64_t begin, int64_t end, double *col,
                           double *col_size) {
    for (int64_t i = begin; i < end; i++) {
        const double by = p->by_row != NULL ? p->by_row[i] : 1;
        const double by_size = p->by_row_size != NULL ? p->by_row_size[i] : 1;
        double row = 0, size = 0;
        for (int64_t j = 0; j < p->cols; j++) {
            const double x = hf_load_f64(p->m.data, p->m.dtype, i * p->m.row + j);
            row += x * (p->by_col != NULL ? p->by_col[j] : 1);
            size += fabs(x) * (p->by_col_size != NULL ? p->by_col_size[j] : 1);
            if (p->col != NULL) {
                col[j] += x * by;
                col_size[j] += fabs(x) * by_size;
            }
        }
        if (p->row != NULL) {
            p->row[i] = row;
            p->row_size[i] = size;
        }
    }
}

#define ISA(name, flags, test) extern hf_sums_fn hf_gemm_sum_rows_##name;
#include "device/host/isa.def"
#undef ISA

/* As in registry.c: those that the compiler knows, else NULL. */
#define IF_1 0,
#define SECOND(a, b, ...) b
#define OR_NULL(junk_and_name) SECOND(junk_and_name, NULL, 0)
#define SUMS_(have, name) OR_NULL(IF_##have hf_gemm_sum_rows_##name)
#define SUMS(have, name) SUMS_(have, name)
#define hf_gemm_sum_rows_scalar sum_rows_plain
#define hf_gemm_sum_rows_amx NULL /* it leaves this to avx512 */

static hf_sums_fn *best(void) {
    static hf_sums_fn *const all[HF_ISA_COUNT] = {
#define ISA(name, flags, test) SUMS(HF_HAVE_ISA_##name, name),
#include "device/host/isa.def"
#undef ISA
    };
    for (int isa = HF_ISA_COUNT - 1; isa > 0; isa--)
        if ((hf_cpu_isas() >> isa & 1) != 0 && all[isa] != NULL)
            return all[isa];
    return sum_rows_plain;
}

struct sums_job {
    const struct hf_sums_pass *pass;
    hf_sums_fn *fn;
    double *cols; /* [workers][2][cols], where columns are wanted */
};

static void sum_range(void *job_, int worker, int64_t begin, int64_t end) {
    const struct sums_job *job = job_;
    double *const own = job->cols + (size_t)worker * 2 * (size_t)job->pass->cols;
    fenv_t before;
    (void)fegetenv(&before);
    (void)fesetenv(FE_DFL_ENV);
    job->fn(job->pass, begin, end, own, own + job->pass->cols);
    (void)fesetenv(&before);
}

struct hf_sums_pass hf_sums_by_rows(const struct hf_sums_pass *p) {
    struct hf_sums_pass t = *p;
    if (p->m.col == 1 || p->m.row != 1)
        return t;
    t.m.row = p->m.col;
    t.m.col = p->m.row;
    t.rows = p->cols;
    t.cols = p->rows;
    t.by_row = p->by_col;
    t.by_row_size = p->by_col_size;
    t.by_col = p->by_row;
    t.by_col_size = p->by_row_size;
    t.row = p->col;
    t.row_size = p->col_size;
    t.col = p->row;
    t.col_size = p->row_size;
    return t;
}

hf_status hf_gemm_sums(hf_context *ctx, const struct hf_sums_pass *pass) {
    const struct hf_sums_pass p = hf_sums_by_rows(pass);
    hf_pool *pool = hf_ctx_pool(ctx);
    const int workers = hf_pool_workers(pool);
    const size_t each = p.col != NULL ? 2 * (size_t)p.cols : 0;
    struct sums_job job = {&p, best(), hf_alloc_zero((size_t)workers * each * sizeof(double) + 1)};
    if (job.cols == NULL)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "gemm: no memory for the checks of rows and columns");
    hf_parallel_for(pool, p.rows, GRAIN, sum_range, &job);
    for (int64_t j = 0; p.col != NULL && j < p.cols; j++) {
        p.col[j] = p.col_size[j] = 0;
        for (int w = 0; w < workers; w++) {
            p.col[j] += job.cols[(size_t)w * each + (size_t)j];
            p.col_size[j] += job.cols[(size_t)w * each + (size_t)(p.cols + j)];
        }
    }
    hf_free(job.cols);
    return HF_OK;
}

hf_status hf_gemm_sums_there(hf_context *ctx, const struct hf_sums_pass *pass) {
#if HF_HAVE_CUDA
    const struct hf_sums_pass p = hf_sums_by_rows(pass);
    if (ctx->device->id == HF_DEV_CUDA)
        return hf_ctx_check(ctx, hf_gemm_sums_cuda(ctx->stream, &p));
#endif
    (void)pass;
    return hf_ctx_fail(ctx, HF_E_UNSUPPORTED,
                       "gemm: rows and columns of matrices in memory of %s are not checked: give "
                       "matrices in memory of the host",
                       hf_context_device(ctx));
}
