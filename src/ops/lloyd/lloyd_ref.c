/* SPDX-License-Identifier: Apache-2.0
 * Reference of lloyd: those of assign, update and means, problem by problem. */
#include "base/dtype.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "core/array.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/audit/audit.h"
#include "ops/lloyd/lloyd.h"
#include "ops/sums.h"
#include <string.h>

extern const struct hf_kernel_table hf_assign_kernels_scalar, hf_means_kernels_scalar,
    hf_audit_kernels_scalar;

struct ref {
    const struct hf_lloyd_args *a;
    const struct hf_call *call;
    void *ws;     /* of assign */
    void *next;   /* [k, d] */
    size_t bytes; /* of that */
};

static struct hf_assign_args assign_args(const struct hf_lloyd_args *a, int64_t p,
                                         struct hf_sums *sums, struct hf_assign_stats *stats) {
    const int64_t n = a->x.rows / a->batch;
    const int64_t values = sums->k * sums->d;
    char *centers = (char *)a->current + (size_t)(p * values) * hf_dtype_bytes(a->rule.type);
    return (struct hf_assign_args){.x = hf_array_slice(&a->x, p * n, n),
                                   .c = hf_array_view(centers, a->rule.type, sums->k, sums->d),
                                   .metric = a->rule.metric,
                                   .exact = a->exact,
                                   .filter = a->filter,
                                   .labels = a->labels + p * n,
                                   .sums = sums,
                                   .weights = a->weights ? a->weights + p * n : NULL,
                                   .stats = stats};
}

/* Labels of problem p for its centroids, and its sums over all ranks. */
static hf_status assign(const struct ref *ref, int64_t p, struct hf_sums *sums,
                        struct hf_assign_stats *stats) {
    const struct hf_kernel *row = hf_assign_kernels_scalar.kernels;
    const struct hf_assign_args args = assign_args(ref->a, p, sums, stats);
    const hf_comm *comm = ref->call->comm;
    hf_sums_begin(comm, sums);
    HF_TRY(hf_run_part(ref->call, row, &args, ref->ws));
    return hf_sums_reduce(comm, ref->call->stream, sums, &stats->changed);
}

/* Op means of problem p: its centroids into ref->next, how far they moved, the inertia. */
static hf_status means(const struct ref *ref, int64_t p, const struct hf_sums *s,
                       hf_kmeans_iteration *it) {
    const struct hf_lloyd_args *a = ref->a;
    struct hf_means_args args = {.rule = a->rule,
                                 .sums = s,
                                 .total_square = a->total_square[p],
                                 .now = (const char *)a->current + (size_t)p * ref->bytes,
                                 .next = ref->next,
                                 .shift = &it->shift,
                                 .inertia = &it->inertia};
    args.rule.unit += p * s->d;
    return hf_run_part(ref->call, hf_means_kernels_scalar.kernels, &args, NULL);
}

/* Labels and sums of an iteration against the book; what disagrees is told in the slot. */
static hf_status audit(const struct ref *ref, const struct hf_sums *s, int64_t changed) {
    const struct hf_lloyd_args *a = ref->a;
    const struct hf_lloyd_book *b = a->book;
    struct hf_audit_found found;
    struct hf_finding finding = {.kernel = ref->call->kernel, .unit = -1, .column = -1, .row = -1};
    struct hf_audit_args args = {.labels = a->labels,
                                 .booked = b->labels,
                                 .hash = b->hash,
                                 .word = b->word,
                                 .rows = b->count,
                                 .c = hf_array_view(a->current, a->rule.type, s->k, s->d),
                                 .metric = a->rule.metric,
                                 .sums = s,
                                 .factor = b->factor,
                                 .n = a->x.rows,
                                 .k = s->k,
                                 .found = &found};
    if (a->exact)
        args.x = a->x;
    HF_TRY(hf_run_part(ref->call, hf_audit_kernels_scalar.kernels, &args, ref->ws));
    finding.row = found.outside >= 0 ? found.outside : found.farther;
    finding.fault = found.outside >= 0         ? HF_FAULT_RANGE
                    : found.farther >= 0       ? HF_FAULT_MOVES
                    : found.sum >= 0           ? HF_FAULT_SUMS
                    : found.count >= 0         ? HF_FAULT_COUNTS
                    : found.changed != changed ? HF_FAULT_CHANGES
                                               : HF_FAULT_NONE;
    if (finding.fault != HF_FAULT_NONE)
        hf_slot_tell(ref->call->slot, &finding);
    return HF_OK;
}

/* The signatures of the centroids that come out. */
static hf_status sign(const struct ref *ref) {
    const struct hf_lloyd_args *a = ref->a;
    if (a->book)
        *a->book->packed = 0; /* it packs no rows */
    const void *centers[2] = {a->current, a->previous};
    for (int i = 0; a->book && i < 2; i++) {
        struct hf_audit_found found;
        const struct hf_audit_args args = {
            .words = centers[i], .n_words = (int64_t)(ref->bytes / 4), .found = &found};
        HF_TRY(hf_run_part(ref->call, hf_audit_kernels_scalar.kernels, &args, NULL));
        a->book->sign[i] = found.sign;
    }
    return HF_OK;
}

/* Whether another iteration follows, or why not. */
static int decide(const struct ref *ref, int64_t p, const struct hf_sums *s,
                  hf_kmeans_iteration *it) {
    const struct hf_lloyd_args *a = ref->a;
    struct hf_lloyd_facts facts = {.n = a->x.rows / a->batch,
                                   .fault = hf_slot_fault(ref->call->slot),
                                   .tally = hf_lloyd_tally(s->count, s->k),
                                   .inertia = it->inertia,
                                   .changed = it->changed};
    for (int64_t j = 0; j < s->k; j++)
        facts.tally.empty += hf_sums_weight(s, j) <= 0;
    it->empty = facts.tally.empty;
    const struct hf_lloyd_laws laws = hf_lloyd_laws(a, p);
    const struct hf_lloyd_state *state = &a->state[p];
    const struct hf_lloyd_before before = {a->first + state->iterations, state->inertia,
                                           state->empty};
    const int stop = hf_lloyd_decide(&laws, &before, &facts);
    return stop == HF_STOP_NONE && it->shift <= a->tol[p] ? HF_STOP_TOL : stop;
}

/* What follows the labels of an iteration: the new centroids into current, those before into
 * previous, unless it ended the problem. */
static hf_status conclude(const struct ref *ref, int64_t p, const struct hf_sums *s,
                          hf_kmeans_iteration *it) {
    const struct hf_lloyd_args *a = ref->a;
    char *current = (char *)a->current + (size_t)p * ref->bytes;
    HF_TRY(means(ref, p, s, it));
    const int stop = decide(ref, p, s, it);
    a->state[p].stop = stop;
    if (stop == HF_STOP_NONE || stop == HF_STOP_TOL) {
        memcpy((char *)a->previous + (size_t)p * ref->bytes, current, ref->bytes);
        memcpy(current, ref->next, ref->bytes);
    } else {
        it->shift = 0;
    }
    return HF_OK;
}

static hf_status iterate(const struct ref *ref, int64_t p) {
    const struct hf_lloyd_args *a = ref->a;
    struct hf_lloyd_state *state = &a->state[p];
    struct hf_sums sums = hf_lloyd_sums(a, p);
    struct hf_assign_stats stats = {0};
    HF_TRY(assign(ref, p, &sums, &stats));
    if (a->book)
        HF_TRY(audit(ref, &sums, stats.changed));
    hf_kmeans_iteration it = {
        .changed = stats.changed, .rows_rechecked = stats.rechecked, .rows_float64 = stats.float64};
    HF_TRY(conclude(ref, p, &sums, &it));
    a->history[p * a->count + state->iterations] = it;
    if (state->stop >= HF_LLOYD_EMPTY)
        return HF_OK;
    state->inertia = it.inertia;
    state->empty = it.empty;
    state->iterations++;
    if (a->progress && a->progress(a->progress_user, a->first + state->iterations, &it) &&
        state->stop == HF_STOP_NONE)
        state->stop = HF_STOP_CANCELLED;
    return HF_OK;
}

static size_t lloyd_workspace(const struct hf_call *call) {
    const struct hf_lloyd_args *a = call->args;
    struct hf_sums sums = hf_lloyd_sums(a, 0);
    struct hf_assign_stats stats;
    const struct hf_assign_args args = assign_args(a, 0, &sums, &stats);
    const size_t centers = (size_t)(sums.k * sums.d) * hf_dtype_bytes(a->rule.type);
    const struct hf_call part = hf_call_part(call, &args);
    const size_t pair = a->book ? 2 * (size_t)sums.d * sizeof(double) : 0; /* of audit */
    return hf_align_up(hf_assign_kernels_scalar.kernels->workspace(&part) + pair) + centers;
}

static hf_status lloyd_run(const struct hf_call *call) {
    const struct hf_lloyd_args *a = call->args;
    const size_t centers = (size_t)(a->sums->k * a->sums->d) * hf_dtype_bytes(a->rule.type);
    const size_t all = lloyd_workspace(call);
    struct ref ref = {a, call, call->ws, (char *)call->ws + all - centers, centers};
    int32_t steps = 0; /* of the problem that goes on longest, events included */
    for (int64_t b = 0; b < a->batch; b++) {
        struct hf_lloyd_state *state = &a->state[b];
        state->iterations = 0;
        state->stop = HF_STOP_NONE;
        state->calls++;
        while (state->stop == HF_STOP_NONE && state->iterations < a->count)
            HF_TRY(iterate(&ref, b));
        const int32_t made = state->iterations + (state->stop >= HF_LLOYD_EMPTY);
        steps = made > steps ? made : steps;
    }
    for (int64_t b = 0; b < a->batch; b++) {
        struct hf_sums sums = hf_lloyd_sums(a, b);
        struct hf_assign_stats stats = {0};
        struct hf_lloyd_state *state = &a->state[b];
        const bool tol = state->stop == HF_STOP_TOL;
        state->settled = a->settle && (tol || state->stop == HF_STOP_NONE);
        if (state->settled || (tol && !a->settle && state->iterations < steps))
            HF_TRY(assign(&ref, b, &sums, &stats));
    }
    return sign(&ref);
}

static double lloyd_estimate(const struct hf_call *call) {
    const struct hf_lloyd_args *a = call->args;
    return 1.5 * (double)a->x.rows * (double)a->sums->k * (double)a->x.cols * a->count;
}

static const struct hf_kernel kernels[] = {{.name = "lloyd_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .workspace = lloyd_workspace,
                                            .run = lloyd_run,
                                            .estimate = lloyd_estimate}};

const struct hf_kernel_table hf_lloyd_kernels_scalar = {kernels, 1};
