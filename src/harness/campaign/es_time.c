/* SPDX-License-Identifier: Apache-2.0
 * What signatures cost: the protected and the unprotected product take turns, so that a slow moment
 * of the machine hits both; the median of the ratios counts. */
#include "base/clock.h"
#include "base/mem.h"
#include "harness/campaign/es.h"

#include <stdlib.h>

#define MIN_ROUNDS 3
#define MAX_ROUNDS 101
#define SAMPLE_S 0.002 /* short products are repeated until a sample takes so long */

static int compare_doubles(const void *a_, const void *b_) {
    const double a = *(const double *)a_, b = *(const double *)b_;
    return (a > b) - (a < b);
}

static double median(double *sample, int count) {
    qsort(sample, (size_t)count, sizeof *sample, compare_doubles);
    return count % 2 ? sample[count / 2] : 0.5 * (sample[count / 2 - 1] + sample[count / 2]);
}

struct turns {
    hf_context *ctx;
    hf_es_call *call;
    void *user;
};

/* Of a device from the first to the last kernel of each call: what the host does between calls is
 * not in it. */
static hf_status device_seconds(const struct turns *t, bool protected, double *seconds) {
    const struct hf_device *const device = t->ctx->device;
    HF_TRY(hf_ctx_check(t->ctx, device->mark(t->ctx->stream, 0)));
    HF_TRY(t->call(t->user, protected));
    HF_TRY(hf_ctx_check(t->ctx, device->mark(t->ctx->stream, 1)));
    *seconds += device->span(t->ctx->stream);
    return HF_OK;
}

/* Of the host the time of this thread, which is the only one at work: what other programs take is
 * not in it. */
static hf_status seconds_of(const struct turns *t, bool protected, int calls, double *seconds) {
    const double start = hf_thread_s();
    *seconds = 0;
    for (int i = 0; i < calls; i++)
        HF_TRY(hf_ctx_is_host(t->ctx) ? t->call(t->user, protected)
                                      : device_seconds(t, protected, seconds));
    if (hf_ctx_is_host(t->ctx))
        *seconds = hf_thread_s() - start;
    *seconds /= calls;
    return HF_OK;
}

hf_status hf_es_turns(hf_context *ctx, hf_es_call *call, void *user, double budget_s,
                      hf_dev_es_timing *timing) {
    const struct turns t = {ctx, call, user};
    const double start = hf_now_s();
    double plain[MAX_ROUNDS], ratio[MAX_ROUNDS], warm, with;
    HF_TRY(seconds_of(&t, false, 1, &warm));
    HF_TRY(seconds_of(&t, true, 1, &with));
    HF_TRY(seconds_of(&t, false, 1, &warm));
    const int calls = warm < SAMPLE_S ? 1 + (int)(SAMPLE_S / (warm + 1e-9)) : 1;
    int rounds = 0;
    while (rounds < MIN_ROUNDS || (rounds < MAX_ROUNDS && hf_now_s() - start < budget_s)) {
        HF_TRY(seconds_of(&t, false, calls, &plain[rounds]));
        HF_TRY(seconds_of(&t, true, calls, &with));
        ratio[rounds] = with / plain[rounds];
        rounds++;
    }
    timing->plain_s = median(plain, rounds);
    timing->ratio = median(ratio, rounds);
    return HF_OK;
}

struct timed {
    hf_context *ctx;
    struct hf_gemm_es_args args;
    enum hf_es_level level;
};

static hf_status call_es(void *user, bool protected) {
    struct timed *t = user;
    t->args.level = protected ? t->level : HF_ES_NONE;
    return hf_gemm_es(t->ctx, &t->args);
}

/* Operands and results lie on the device, as those of a user of a GPU do. */
static hf_status time_on_device(struct timed *t, double budget_s, hf_dev_es_timing *timing) {
    struct hf_gemm_es_args *const p = &t->args;
    const size_t a = (size_t)(p->m * p->k) * sizeof(float),
                 b = (size_t)(p->k * p->n) * sizeof(float),
                 c = (size_t)(p->m * p->n) * sizeof(float);
    const void *const from[2] = {p->a, p->b};
    char *const room = hf_ctx_alloc(t->ctx, hf_align_up(a) + hf_align_up(b) + hf_align_up(c) +
                                                HF_ES_ENTRIES * sizeof(uint64_t));
    if (room == NULL)
        return hf_ctx_fail(t->ctx, HF_E_NOMEM, "no memory on the device for a timed product");
    p->a = (const float *)(const void *)room;
    p->b = (const float *)(const void *)(room + hf_align_up(a));
    p->c = (float *)(void *)(room + hf_align_up(a) + hf_align_up(b));
    p->signature = (uint64_t *)(void *)(room + hf_align_up(a) + hf_align_up(b) + hf_align_up(c));
    hf_status status = hf_ctx_copy(t->ctx, room, from[0], a);
    if (status == HF_OK)
        status = hf_ctx_copy(t->ctx, room + hf_align_up(a), from[1], b);
    if (status == HF_OK)
        status = hf_es_turns(t->ctx, call_es, t, budget_s, timing);
    hf_ctx_release(t->ctx, room);
    return status;
}

hf_status hf_dev_es_time(hf_context *ctx, const hf_dev_es *es, hf_dev_dims dims, double budget_s,
                         hf_dev_es_timing *timing) {
    struct es_problem p;
    *timing = (hf_dev_es_timing){0, 0};
    HF_TRY(hf_es_problem(ctx, es, dims, 1, &p));
    struct timed t = {.ctx = ctx, .args = p.args, .level = (enum hf_es_level)es->level};
    t.args.signature = p.signature;
    const hf_status status = hf_ctx_is_host(ctx) ? hf_es_turns(ctx, call_es, &t, budget_s, timing)
                                                 : time_on_device(&t, budget_s, timing);
    hf_es_problem_clear(&p);
    return status;
}
