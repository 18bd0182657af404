/* SPDX-License-Identifier: Apache-2.0
 * The book of op lloyd and the centroids that were found right: memory, beginning and end. What is
 * checked, and how, stands in check.cu and moves.cuh. */
#include "ops/assign/cuda/i8.h"
#include "ops/audit/audit.cuh"
#include "ops/lloyd/cuda/book.h"

#define SAMPLED_EVERY 4

static size_t center_bytes(const struct hf_lloyd_args *a) {
    return (size_t)(a->sums->k * a->sums->d) * hf_dtype_bytes(a->rule.type);
}

/* Are rows that moved looked at by a launch of its own? The Euclidean distance is looked at beside
 * the sums. */
static bool moves_alone(const struct hf_lloyd_args *a) {
    return a->exact && a->rule.metric != HF_EUCLIDEAN;
}

size_t hf_lloyd_checks_carve(const struct hf_lloyd_args *args, void *memory,
                             struct hf_lloyd_checks *checks) {
    size_t used = 0;
    auto take = [&](size_t bytes) {
        void *p = memory != NULL ? (char *)memory + used : NULL;
        used += (bytes + 255) / 256 * 256;
        return p;
    };
    checks->ledger = (struct hf_lloyd_ledger *)take(sizeof *checks->ledger);
    for (int i = 0; i < HF_LLOYD_KEPT; i++)
        checks->kept[i] = take(center_bytes(args));
    const size_t rows = (size_t)args->x.rows;
    checks->audit.list = NULL;
    checks->first = NULL;
    if (args->exact && args->first == 0)
        checks->first = (int32_t *)take(rows * sizeof(int32_t));
    if (moves_alone(args))
        checks->audit.list = (struct hf_audit_move *)take(rows * sizeof(struct hf_audit_move));
    if (memory == NULL)
        return used;
    checks->audit.found = &checks->ledger->found;
    checks->audit.listed = &checks->ledger->listed;
    return used;
}

void hf_lloyd_checks_stage(struct hf_stage *stage, const struct hf_call *call,
                           const struct hf_update_job *update, struct hf_lloyd_checks *checks) {
    const struct hf_lloyd_args *a = (const struct hf_lloyd_args *)call->args;
    const struct hf_lloyd_book *b = a->book;
    struct hf_audit_job *audit = &checks->audit;
    const size_t n = (size_t)update->n, k = (size_t)update->k;
    const size_t factors = (size_t)(update->limbs * (update->d + 1));
    audit->hash = (const uint64_t *)hf_stage_in(stage, b->hash, n * sizeof(uint64_t));
    audit->booked = (int32_t *)hf_stage_inout(stage, b->labels, n * sizeof(int32_t));
    audit->word = (uint64_t *)hf_stage_inout(stage, b->word, k * sizeof(uint64_t));
    audit->rows = (int64_t *)hf_stage_inout(stage, b->count, k * sizeof(int64_t));
    checks->factor = (const uint64_t *)hf_stage_in(stage, b->factor, factors * sizeof(uint64_t));
    audit->x = update->x;
    audit->x_bytes = update->row_bytes;
    audit->c_bytes = update->d * (int64_t)hf_dtype_bytes(a->rule.type);
    audit->dtype = update->dtype;
    audit->metric = a->rule.metric;
    audit->n = update->n;
    audit->k = update->k;
    audit->d = update->d;
    checks->slot = call->slot;
    checks->kernel = call->kernel;
    checks->checks = call->checks;
    checks->every = call->scheme == HF_SCHEME_SAMPLED ? SAMPLED_EVERY : 1;
}

/* ---- beginning and end */

hf_status hf_lloyd_checks_begin(struct hf_cuda *cuda, const struct hf_lloyd_args *args,
                                const struct hf_lloyd_job *job,
                                const struct hf_lloyd_checks *checks) {
    static const struct hf_audit_found none = {0, -1, -1, -1, -1, 0};
    static_assert(HF_LLOYD_KEPT == 3, "the previous centroids are the last of three");
    struct hf_lloyd_ledger ledger;
    memset(&ledger, 0, sizeof ledger);
    ledger.cluster = -1;
    ledger.found = none;
    ledger.stray = ledger.late = -1;
    ledger.sign[0] = args->book->sign[0];
    ledger.sign[HF_LLOYD_KEPT - 1] = args->book->sign[1];
    HF_TRY(hf_cuda_check(
        cuda,
        cudaMemcpyAsync(checks->ledger, &ledger, sizeof ledger, cudaMemcpyDefault, cuda->stream),
        "lloyd: checks"));
    for (int i = 0; i < 2; i++)
        HF_TRY(hf_cuda_check(cuda,
                             cudaMemcpyAsync(checks->kept[i * (HF_LLOYD_KEPT - 1)], job->centers[i],
                                             center_bytes(args), cudaMemcpyDefault, cuda->stream),
                             "lloyd: checks"));
    return HF_OK;
}

/* `times` the signature of the packed rows is added to *sign. */
static hf_status sign_rows(struct hf_cuda *cuda, const struct hf_assign_rows *rows, int64_t times,
                           uint64_t *sign) {
    const size_t n = (size_t)rows->n;
    if (rows->x16 != rows->problem.x.data)
        HF_TRY(hf_audit_sign(cuda, rows->x16, n * (size_t)rows->ld * 2, times, sign));
    if (rows->norm != NULL)
        HF_TRY(hf_audit_sign(cuda, rows->norm, n * sizeof *rows->norm, times, sign));
    if (rows->i8 != NULL) { /* the rows of these stay where they are */
        struct hf_i8_rows i8;
        (void)hf_i8_rows_carve(&rows->problem, rows->i8, &i8);
        HF_TRY(hf_audit_sign(cuda, i8.fact, n * sizeof *i8.fact, times, sign));
    }
    return rows->loss != NULL ? hf_audit_sign(cuda, rows->loss, n * sizeof *rows->loss, times, sign)
                              : HF_OK;
}

/* The signature of the packed rows less that of the same packed once more. */
static hf_status check_packed(struct hf_stage *stage, const struct hf_lloyd_args *args,
                              const struct hf_lloyd_checks *checks,
                              const struct hf_lloyd_packed *packed) {
    uint64_t *const sign = &checks->ledger->packed;
    struct hf_assign_rows again;
    *args->book->packed = 0;
    if (packed->rows->kind != HF_ASSIGN_TENSOR ||
        (checks->checks & HF_CHECK_BIT(HF_FAULT_OPERAND)) == 0)
        return HF_OK;
    HF_TRY(sign_rows(stage->cuda, packed->rows, 1, sign));
    HF_TRY(hf_assign_rows_prepare(stage->cuda, packed->problem, packed->memory, &again));
    HF_TRY(sign_rows(stage->cuda, &again, -1, sign));
    hf_stage_fetch(stage, args->book->packed, sign, sizeof *sign);
    return HF_OK;
}

hf_status hf_lloyd_checks_end(struct hf_stage *stage, const struct hf_lloyd_args *args,
                              const struct hf_lloyd_job *job, int moves,
                              const struct hf_lloyd_checks *checks,
                              const struct hf_lloyd_packed *packed) {
    HF_TRY(check_packed(stage, args, checks, packed));
    for (int i = 0; i < 2; i++) {
        const int slot = (moves + i * (HF_LLOYD_KEPT - 1)) % HF_LLOYD_KEPT;
        HF_TRY(
            hf_cuda_check(stage->cuda,
                          cudaMemcpyAsync(job->centers[i], checks->kept[slot], center_bytes(args),
                                          cudaMemcpyDefault, stage->cuda->stream),
                          "lloyd: checks"));
        hf_stage_fetch(stage, args->book->sign + i, &checks->ledger->sign[slot], sizeof(uint64_t));
    }
    return HF_OK;
}

/* ---- beside the steps */

hf_status hf_lloyd_beside_open(struct hf_cuda *cuda, struct hf_lloyd_beside *beside) {
    cudaError_t error = cudaStreamCreateWithFlags(&beside->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&beside->begin, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&beside->done, cudaEventDisableTiming);
    return hf_cuda_check(cuda, error, "lloyd: a second stream");
}

void hf_lloyd_beside_close(struct hf_lloyd_beside *beside) {
    if (beside->done != NULL)
        (void)cudaEventDestroy(beside->done);
    if (beside->begin != NULL)
        (void)cudaEventDestroy(beside->begin);
    if (beside->stream != NULL) {
        (void)cudaStreamSynchronize(beside->stream); /* has ended, unless a launch failed */
        (void)cudaStreamDestroy(beside->stream);
    }
    *beside = {};
}

hf_status hf_lloyd_check_beside(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                                const struct hf_lloyd_checks *checks,
                                const struct hf_lloyd_beside *beside) {
    cudaError_t error = cudaEventRecord(beside->begin, cuda->stream);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(beside->stream, beside->begin, 0);
    HF_TRY(hf_cuda_check(cuda, error, "lloyd: a second stream"));
    HF_TRY(hf_lloyd_check(cuda, job, checks, beside->stream));
    return hf_cuda_check(cuda, cudaEventRecord(beside->done, beside->stream),
                         "lloyd: a second stream");
}

hf_status hf_lloyd_check_join(struct hf_cuda *cuda, const struct hf_lloyd_beside *beside) {
    return hf_cuda_check(cuda, cudaStreamWaitEvent(cuda->stream, beside->done, 0),
                         "lloyd: a second stream");
}

/* ---- the labels */

hf_status hf_lloyd_check_moves(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                               const struct hf_lloyd_checks *checks, int side) {
    if (checks == NULL || checks->audit.list == NULL)
        return HF_OK;
    struct hf_audit_job audit = checks->audit;
    audit.labels = job->labels[1 - side];
    audit.c = (const char *)job->centers[side];
    audit.stop = &job->control->halt;
    HF_TRY(hf_audit_book(cuda, &audit));
    return (checks->checks & HF_CHECK_BIT(HF_FAULT_MOVES)) != 0 ? hf_audit_moves(cuda, &audit)
                                                                : HF_OK;
}
