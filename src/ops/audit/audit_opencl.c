/* SPDX-License-Identifier: Apache-2.0
 * audit with OpenCL. What kernels tell is kept as 32-bit numbers, whose least is taken by atomics
 * that every device has. */
#include "ops/audit/audit.h"
#include "ops/opencl.h"

#define NOBODY UINT32_MAX

enum { OUTSIDE, FARTHER, SUM, COUNT, KINDS }; /* audit.cl */
enum { CHANGED, SIGN, TOTALS };

/* Memory of a call: what is told, totals, rows that left a cluster. */
struct audit {
    const struct hf_call *call;
    struct hf_audit_args a; /* arrays on the device */
    struct hf_sums sums;
    uint32_t *told;  /* [KINDS] */
    int64_t *total;  /* [TOTALS] */
    int64_t *listed; /* [1] */
    int32_t *list;   /* [n, 2] row and cluster; NULL: moves are not looked at */
};

static size_t carve(const struct hf_audit_args *a, void *ws, struct audit *job) {
    hf_carve carve = {.base = ws};
    job->told = hf_carve_take(&carve, KINDS * sizeof *job->told);
    job->total = hf_carve_take(&carve, TOTALS * sizeof *job->total);
    job->listed = hf_carve_take(&carve, sizeof *job->listed);
    job->list = a->labels != NULL && a->x.data != NULL
                    ? hf_carve_take(&carve, 2 * (size_t)a->n * sizeof *job->list)
                    : NULL;
    return carve.used;
}

static void stage_book(struct hf_cl_stage *stage, struct audit *job) {
    struct hf_audit_args *a = &job->a;
    const size_t n = (size_t)a->n, k = (size_t)a->k;
    if (a->labels != NULL || a->sums != NULL) {
        a->word = hf_cl_inout(stage, a->word, k * sizeof *a->word);
        a->rows = hf_cl_inout(stage, a->rows, k * sizeof *a->rows);
    }
    if (a->labels == NULL)
        return;
    a->labels = hf_cl_in(stage, a->labels, n * sizeof *a->labels);
    a->booked = hf_cl_inout(stage, a->booked, n * sizeof *a->booked);
    a->hash = hf_cl_in(stage, a->hash, n * sizeof *a->hash);
    if (a->x.data == NULL)
        return;
    a->x = hf_cl_array(stage, &a->x);
    a->c = hf_cl_array(stage, &a->c);
}

static void stage_sums(struct hf_cl_stage *stage, struct audit *job) {
    struct hf_audit_args *a = &job->a;
    struct hf_sums *s = &job->sums;
    if (a->sums == NULL)
        return;
    *s = *a->sums;
    a->sums = s;
    const size_t clusters = (size_t)(s->limbs * s->k) * sizeof(int64_t);
    s->sum = hf_cl_inout(stage, s->sum, clusters * (size_t)s->d);
    s->count = hf_cl_inout(stage, s->count, (size_t)s->k * sizeof *s->count);
    s->weight = s->weight != NULL ? hf_cl_inout(stage, s->weight, clusters) : NULL;
    a->factor = hf_cl_in(stage, a->factor, (size_t)(s->limbs * (s->d + 1)) * sizeof *a->factor);
}

static hf_status book(const struct audit *job) {
    const struct hf_audit_args *a = &job->a;
    const struct hf_device_props *device = job->call->device;
    const struct hf_cl_job run = hf_opencl_job(device, "audit", "audit_book", a->n);
    HF_TRY(hf_opencl_run(job->call->stream, &run, "pppppiipppp", a->labels, a->booked, a->hash,
                         a->word, a->rows, a->n, a->k, job->told, job->total, job->list,
                         job->listed));
    if (job->list == NULL)
        return HF_OK;
    const struct hf_cl_job moves = hf_opencl_job(device, "audit", "audit_moves", a->n);
    return hf_opencl_run(job->call->stream, &moves, "pnipniinpppp", a->x.data, (int32_t)a->x.dtype,
                         a->x.row_stride, a->c.data, (int32_t)a->c.dtype, a->c.row_stride,
                         a->x.cols, (int32_t)a->metric, a->booked, job->list, job->listed,
                         job->told);
}

static hf_status compare(const struct audit *job) {
    const struct hf_audit_args *a = &job->a;
    const struct hf_sums *s = a->sums;
    const struct hf_cl_job run = hf_opencl_job(job->call->device, "audit", "audit_clusters", s->k);
    return hf_opencl_run(job->call->stream, &run, "ppppiinppp", s->sum, s->count, s->weight,
                         a->factor, s->k, s->d, (int32_t)s->limbs, a->word, a->rows, job->told);
}

static hf_status sign(const struct audit *job) {
    const struct hf_audit_args *a = &job->a;
    const struct hf_cl_job run =
        hf_opencl_job(job->call->device, "audit", "audit_words", a->n_words);
    return hf_opencl_run(job->call->stream, &run, "pip", a->words, a->n_words, job->total);
}

static hf_status start(const struct audit *job) {
    struct hf_opencl *cl = job->call->stream;
    HF_TRY(hf_opencl_fill(cl, job->told, 0xff, KINDS * sizeof *job->told));
    HF_TRY(hf_opencl_fill(cl, job->total, 0, TOTALS * sizeof *job->total));
    HF_TRY(hf_opencl_fill(cl, job->listed, 0, sizeof *job->listed));
    if (job->a.labels != NULL)
        HF_TRY(book(job));
    if (job->a.sums != NULL)
        HF_TRY(compare(job));
    return job->a.words != NULL ? sign(job) : HF_OK;
}

static int64_t told_of(uint32_t at) { return at == NOBODY ? -1 : (int64_t)at; }

static hf_status tell(const struct audit *job) {
    struct hf_cl_stage stage;
    hf_cl_stage_begin(&stage, job->call->stream);
    const uint32_t *told = hf_cl_host(&stage, job->told, KINDS * sizeof *told, false);
    const int64_t *total = hf_cl_host(&stage, job->total, TOTALS * sizeof *total, false);
    if (stage.status == HF_OK)
        *job->a.found = (struct hf_audit_found){.changed = total[CHANGED],
                                                .outside = told_of(told[OUTSIDE]),
                                                .farther = told_of(told[FARTHER]),
                                                .sum = told_of(told[SUM]),
                                                .count = told_of(told[COUNT]),
                                                .sign = (uint64_t)total[SIGN]};
    return hf_cl_stage_end(&stage, HF_OK);
}

static hf_status audit_run(const struct hf_call *call) {
    struct audit job = {.call = call, .a = *(const struct hf_audit_args *)call->args};
    struct hf_cl_stage stage;
    (void)carve(&job.a, call->ws, &job);
    hf_cl_stage_begin(&stage, call->stream);
    stage_book(&stage, &job);
    stage_sums(&stage, &job);
    job.a.words = hf_cl_in(&stage, job.a.words, (size_t)job.a.n_words * sizeof *job.a.words);
    hf_status status = stage.status == HF_OK ? start(&job) : stage.status;
    if (status == HF_OK)
        status = tell(&job);
    return hf_cl_stage_end(&stage, status);
}

static size_t audit_workspace(const struct hf_call *call) {
    struct audit job;
    return carve(call->args, NULL, &job);
}

static bool audit_supports(const struct hf_call *call) {
    const struct hf_audit_args *a = call->args;
    return a->n < INT32_MAX && a->k < INT32_MAX;
}

static const struct hf_kernel kernels[] = {{.name = "audit_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .supports = audit_supports,
                                            .workspace = audit_workspace,
                                            .run = audit_run}};

const struct hf_kernel_table hf_audit_kernels_opencl = {kernels, 1};
