/* SPDX-License-Identifier: Apache-2.0
 * What signatures cost: the protected and the unprotected product take turns, so that a slow moment
 * of the machine hits both; the median of the ratios counts. */
#include "base/clock.h"
#include "harness/campaign/es.h"

#include <stdlib.h>
#include <time.h>

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

/* Time of this thread, which is the only one at work: what other programs take is not in it. */
static double thread_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static hf_status seconds_of(hf_es_call *call, void *user, bool protected, int calls,
                            double *seconds) {
    const double start = thread_s();
    for (int i = 0; i < calls; i++)
        HF_TRY(call(user, protected));
    *seconds = (thread_s() - start) / calls;
    return HF_OK;
}

hf_status hf_es_turns(hf_es_call *call, void *user, double budget_s, hf_dev_es_timing *timing) {
    const double start = hf_now_s();
    double plain[MAX_ROUNDS], ratio[MAX_ROUNDS], warm, with;
    HF_TRY(seconds_of(call, user, false, 1, &warm));
    HF_TRY(seconds_of(call, user, false, 1, &warm));
    const int calls = warm < SAMPLE_S ? 1 + (int)(SAMPLE_S / (warm + 1e-9)) : 1;
    int rounds = 0;
    while (rounds < MIN_ROUNDS || (rounds < MAX_ROUNDS && hf_now_s() - start < budget_s)) {
        HF_TRY(seconds_of(call, user, false, calls, &plain[rounds]));
        HF_TRY(seconds_of(call, user, true, calls, &with));
        ratio[rounds] = with / plain[rounds];
        rounds++;
    }
    timing->plain_s = median(plain, rounds);
    timing->ratio = median(ratio, rounds);
    return HF_OK;
}

struct timed {
    hf_context *ctx;
    struct es_problem p;
    enum hf_es_level level;
};

static hf_status call_es(void *user, bool protected) {
    struct timed *t = user;
    t->p.args.level = protected ? t->level : HF_ES_NONE;
    return hf_gemm_es(t->ctx, &t->p.args);
}

hf_status hf_dev_es_time(hf_context *ctx, const hf_dev_es *es, hf_dev_dims dims, double budget_s,
                         hf_dev_es_timing *timing) {
    struct timed t = {.ctx = ctx, .level = (enum hf_es_level)es->level};
    HF_TRY(hf_es_problem(ctx, es, dims, 1, &t.p));
    t.p.args.signature = t.p.signature;
    const hf_status status = hf_es_turns(call_es, &t, budget_s, timing);
    hf_es_problem_clear(&t.p);
    return status;
}
