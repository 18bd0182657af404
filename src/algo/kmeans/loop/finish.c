/* SPDX-License-Identifier: Apache-2.0
 * The end of a restart: labels, centroids and inertia that belong together, in one pass over the
 * data. */
#include "algo/kmeans/loop/finish.h"
#include "algo/kmeans/guard/ledger.h"
#include "algo/kmeans/guard/others.h"
#include "algo/kmeans/mend/past.h"
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/loop/clusters.h"
#include "algo/kmeans/loop/labels.h"
#include "algo/kmeans/loop/sizes.h"
#include "algo/kmeans/loop/skip.h"
#include "base/dtype.h"
#include "core/array.h"
#include "guard/guard.h"
#include "ops/inertia/inertia.h"
#include <math.h>
#include <string.h>

#define SLICE_CLUSTERS 8 /* at least so many rows for each */

struct finish {
    struct hf_fit *fit;
    bool fresh, verify;
    bool twice; /* the inertia */
    bool moves; /* rows whose label changes move between the sums, for the ledger */
    bool joint; /* the calls for a panel share what they bring to the device */
    int32_t *labels;
    struct hf_assign_bounds *bounds;
    bool again; /* labels, once more: none may change, at once where rows pass by, else last */
    struct hf_assign_stats stats;
    struct hf_assign_stats second_stats;
    hf_wide sum;
    hf_wide second; /* the same once more */
};

/* One of the calls below: joint calls are not waited for. */
static hf_status call(const struct finish *f, enum hf_op_id op, const void *args) {
    const struct hf_kernel *kernel = NULL;
    return f->joint ? hf_queue(f->fit->problem.ctx, op, args, &kernel)
                    : hf_run(f->fit->problem.ctx, op, args);
}

/* Rows are added to the sums by the labels that came in. */
static hf_status add_rows(struct finish *f, const hf_array *panel, int64_t first,
                          const int32_t *labels) {
    struct hf_fit *fit = f->fit;
    const struct hf_update_args out = {.x = *panel,
                                       .metric = fit->problem.opts.metric,
                                       .weights =
                                           fit->weights.scaled ? fit->weights.scaled + first : NULL,
                                       .labels = labels,
                                       .sums = &fit->centers.sums};
    HF_TRY(call(f, HF_OP_UPDATE, &out));
    hf_note_kernel(&fit->problem, HF_OP_UPDATE, fit->outcome.kernel_update);
    return HF_OK;
}

/* Labels of the last centroids. For the ledger rows that change their label move between the sums,
 * and those that came in go to fit->work.panel_labels. */
static hf_status assign_rows(struct finish *f, const hf_array *panel, int64_t first) {
    struct hf_fit *fit = f->fit;
    const double *weights = fit->weights.scaled ? fit->weights.scaled + first : NULL;
    struct hf_assign_bounds own;
    struct hf_assign_args args = hf_lloyd_args(fit, panel, first, f->bounds, &own, &f->stats);
    args.labels = f->labels + first;
    args.sums = f->moves && fit->work.fused ? &fit->centers.sums : NULL;
    args.weights = args.sums ? weights : NULL;
    args.old_labels = f->moves ? fit->work.panel_labels : NULL;
    HF_TRY(call(f, HF_OP_ASSIGN, &args));
    hf_note_kernel(&fit->problem, HF_OP_ASSIGN, fit->outcome.kernel_assign);
    args.stats = &f->second_stats;
    if (f->again && fit->data.rows.reader)
        HF_TRY(call(f, HF_OP_ASSIGN, &args));
    if (!f->moves || fit->work.fused)
        return HF_OK;
    const struct hf_update_args moves = {.x = *panel,
                                         .metric = fit->problem.opts.metric,
                                         .weights = weights,
                                         .old_labels = args.old_labels,
                                         .labels = args.labels,
                                         .sums = &fit->centers.sums};
    return hf_update(fit->problem.ctx, &moves);
}

/* The inertia once more, by the same kernel: the first row alone and then the others, so that each
 * row falls to another lane, and a unit that is always wrong gives another sum. Half of the cores
 * rest meanwhile: one that is always wrong has other rows then, or none. Where there is another
 * copy of rows and labels it is taken from that. */
static hf_status measure_again(struct finish *f, const struct hf_inertia_args *args,
                               int64_t first) {
    const struct hf_fit *fit = f->fit;
    const struct hf_ledger *l = &fit->ledger;
    hf_context *ctx = fit->problem.ctx;
    const struct hf_kernel *kernel = ctx->last_kernel[HF_OP_INERTIA];
    const bool other = f->fresh && l->labels_signed && l->twin_labels;
    const int32_t *labels = other ? l->twin_labels + first : args->labels;
    const int64_t n = args->x.rows;
    hf_array x = args->x;
    struct hf_inertia_args part = *args;
    part.sum = &f->second;
    if (fit->ledger.twice && fit->ledger.twin) {
        x = hf_array_view(fit->ledger.twin, x.dtype, fit->problem.n, x.cols);
        x = hf_array_slice(&x, first, n);
    }
    for (int64_t at = 0; at < n; at += part.x.rows) {
        part.x = hf_array_slice(&x, at, at == 0 ? 1 : n - 1);
        part.weights = args->weights ? args->weights + at : NULL;
        part.labels = labels + at;
        HF_TRY(f->joint ? hf_queue(ctx, HF_OP_INERTIA, &part, &kernel)
                        : hf_run_kernel(ctx, HF_OP_INERTIA, kernel, &part));
    }
    return HF_OK;
}

static hf_status measure_rows(struct finish *f, const hf_array *panel, int64_t first) {
    struct hf_fit *fit = f->fit;
    const struct hf_inertia_args args = {.x = *panel,
                                         .c = hf_centers(&fit->problem, fit->centers.current),
                                         .metric = fit->problem.opts.metric,
                                         .weights =
                                             fit->weights.given ? fit->weights.given + first : NULL,
                                         .labels = f->labels + first,
                                         .sum = &f->sum};
    HF_TRY(call(f, HF_OP_INERTIA, &args));
    if (!f->twice)
        return HF_OK;
    const int workers = hf_pool_workers(hf_ctx_pool(fit->problem.ctx));
    const int resting = hf_others_begin(&fit->problem, workers / 2);
    const hf_status status = measure_again(f, &args, first);
    hf_others_end(&fit->problem, resting);
    return status;
}

/* Rows that are in the caches for all passes, but not so few that what each call does for the
 * clusters counts. */
static int64_t slice_rows(const struct hf_fit *fit, const hf_array *panel) {
    const int64_t cached = hf_cached_rows(fit->problem.ctx, panel);
    return cached > SLICE_CLUSTERS * fit->problem.k ? cached : SLICE_CLUSTERS * fit->problem.k;
}

/* Where the ledger looks on, the rows are added last: they must still be what the others read. On a
 * device their words are made once more, as late. */
static hf_status finish_rows(struct finish *f, const hf_array *panel, int64_t first) {
    const struct hf_fit *fit = f->fit;
    const bool last = f->moves && !f->fresh;
    const int64_t most = slice_rows(fit, panel);
    if (!fit->ledger.device)
        HF_TRY(hf_ledger_panel(f->fit, panel, first));
    if (f->verify && !f->moves)
        HF_TRY(add_rows(f, panel, first, f->labels + first));
    if (!f->fresh)
        HF_TRY(assign_rows(f, panel, first));
    for (int64_t at = 0; at < panel->rows; at += most) {
        const hf_array some = hf_array_slice(panel, at, hf_min64(most, panel->rows - at));
        const int32_t *added = last ? fit->work.panel_labels : f->labels + first;
        HF_TRY(measure_rows(f, &some, first + at));
        if (f->verify && f->moves)
            HF_TRY(add_rows(f, &some, first + at, added + at));
    }
    return fit->ledger.device ? hf_ledger_panel(f->fit, panel, first) : HF_OK;
}

/* The last labels once more, behind all that was made of them: one that changed since they were
 * found becomes another one. Those that are booked are compared with the result. */
static hf_status confirm_rows(void *job, const hf_array *panel, int64_t first) {
    struct finish *f = job;
    struct hf_assign_bounds own;
    struct hf_assign_args args =
        hf_lloyd_args(f->fit, panel, first, f->bounds, &own, &f->second_stats);
    args.labels = f->labels + first;
    return hf_assign(f->fit->problem.ctx, &args);
}

bool hf_finish_confirms(const struct hf_fit *fit) {
    const struct hf_guard_state *guard = &fit->problem.ctx->guard;
    return (fit->ledger.device || fit->ledger.twice) && fit->problem.opts.precision == HF_EXACT &&
           guard->scheme != HF_SCHEME_SAMPLED && hf_guard_checks(fit->problem.ctx, HF_FAULT_FINISH);
}

static hf_status finish_panel(void *job, const hf_array *panel, int64_t first) {
    struct finish *f = job;
    /* panels leave no memory for what the calls have beside each other */
    const struct hf_fit_problem *problem = &f->fit->problem;
    f->joint = f->fit->data.rows.reader == NULL && hf_ctx_begin_calls(problem->ctx);
    const bool fetched = f->joint && f->fresh && problem->opts.n_init == 1;
    hf_status status = fetched ? hf_labels_start_fetch(problem, &f->fit->labels) : HF_OK;
    if (status == HF_OK)
        status = finish_rows(f, panel, first);
    if (status == HF_OK && fetched)
        status = hf_labels_end_fetch(problem, &f->fit->labels); /* while the device computes */
    return f->joint ? hf_ctx_end_calls(problem->ctx, status) : status;
}

/* Pieces of the sums, the last of them NULL without weights. */
struct piece {
    int64_t *at, count;
};

static void list_sums(const struct hf_sums *s, struct piece piece[3]) {
    piece[0] = (struct piece){s->sum, s->limbs * s->k * s->d};
    piece[1] = (struct piece){s->count, s->k};
    piece[2] = (struct piece){s->weight, s->weight ? s->limbs * s->k : 0};
}

/* The sums are integers: when all rows are added to their negative, nothing may be left. */
static void owe_sums(const struct hf_centers *centers) {
    struct piece piece[3];
    list_sums(&centers->sums, piece);
    for (int p = 0; p < 3; p++)
        for (int64_t i = 0; i < piece[p].count; i++)
            piece[p].at[i] = (int64_t)(0 - (uint64_t)piece[p].at[i]);
}

hf_status hf_sums_are_wrong(const struct hf_fit_problem *problem) {
    hf_guard_found(problem->ctx, HF_FAULT_SUMS, -1, -1);
    return hf_ctx_fail(problem->ctx, HF_E_CORRUPT,
                       "the sums of the clusters are not those of their rows: %s",
                       hf_suspects(problem));
}

static hf_status check_nothing_left(const struct hf_fit_problem *problem,
                                    const struct hf_centers *centers) {
    struct piece piece[3];
    int64_t left = 0;
    list_sums(&centers->sums, piece);
    for (int p = 0; p < 3; p++)
        for (int64_t i = 0; i < piece[p].count; i++)
            left |= piece[p].at[i];
    return left == 0 ? HF_OK : hf_sums_are_wrong(problem);
}

static hf_status check_inertia(const struct finish *f) {
    hf_context *ctx = f->fit->problem.ctx;
    const double first = hf_wide_value(&f->sum);
    const double second = hf_wide_value(&f->second);
    if (!f->twice)
        return HF_OK;
    hf_guard_checked(ctx, HF_FAULT_INERTIA, f->fit->problem.n);
    if (memcmp(f->sum.bin, f->second.bin, sizeof f->sum.bin) == 0 && /* before they are rounded */
        hf_guard_sign(&first, sizeof first) == hf_guard_sign(&second, sizeof second))
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_INERTIA, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "the inertia of the last labels came out as %.17g and as %.17g: the machine "
                       "computes wrongly",
                       first, second);
}

/* Bounds had decided rows, and all rows were looked at once more. */
static hf_status check_confirmed(const struct finish *f, enum hf_finish_labels labels) {
    hf_context *ctx = f->fit->problem.ctx;
    const int64_t changed =
        labels == HF_LABELS_CONFIRM ? f->stats.changed : f->second_stats.changed;
    if (labels != HF_LABELS_CONFIRM && !f->again)
        return HF_OK;
    hf_guard_checked(ctx, HF_FAULT_FINISH, f->fit->problem.n);
    if (changed == 0)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_FINISH, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "%lld of the last labels are not the nearest, though bounds or an "
                       "assignment said so: the machine or a kernel computes wrongly",
                       (long long)changed);
}

static hf_status count_sizes(const struct finish *f) {
    struct hf_fit *fit = f->fit;
    if (f->verify)
        HF_TRY(check_nothing_left(&fit->problem, &fit->centers));
    HF_TRY(hf_ledger_check_used(fit, fit->centers.current));
    if (f->verify && f->stats.changed == 0)
        return HF_OK;
    HF_TRY(hf_labels_fetch(&fit->problem, &fit->labels));
    return hf_count_labels(&fit->problem, &fit->labels, &fit->outcome);
}

/* Of sums from which all rows were taken, those are left that moved since. */
static hf_status check_moves(const struct finish *f) {
    struct hf_fit *fit = f->fit;
    HF_TRY(hf_ledger_book(fit, f->stats.changed));
    HF_TRY(hf_ledger_compare(fit));
    HF_TRY(hf_ledger_check_used(fit, fit->centers.current));
    for (int64_t j = 0; j < fit->problem.k; j++)
        fit->outcome.sizes[j] = (f->verify ? fit->outcome.sizes[j] : 0) + fit->ledger.count[j];
    return HF_OK;
}

/* On a device: the book has the sizes, too. */
static hf_status check_book(const struct finish *f) {
    struct hf_fit *fit = f->fit;
    HF_TRY(hf_ledger_book(fit, f->stats.changed));
    HF_TRY(hf_ledger_check_used(fit, fit->centers.current));
    return hf_ctx_copy(fit->problem.ctx, fit->outcome.sizes, fit->ledger.count,
                       (size_t)fit->problem.k * sizeof *fit->ledger.count);
}

/* The sums are those of the labels that come in: by the rows themselves, or by the book of a
 * device, whose words the rows confirm later. */
static hf_status verify_sums(struct hf_fit *fit) {
    if (fit->ledger.device)
        return hf_ledger_compare(fit);
    memcpy(fit->outcome.sizes, fit->centers.sums.count, (size_t)fit->problem.k * sizeof(int64_t));
    owe_sums(&fit->centers);
    return HF_OK;
}

hf_status hf_finish(struct hf_fit *fit, enum hf_finish_labels labels, bool verify,
                    double *inertia) {
    const bool fresh = labels == HF_LABELS_FRESH;
    const hf_context *ctx = fit->problem.ctx;
    const bool guarded = fit->ledger.block != NULL;
    struct finish f = {.fit = fit,
                       .fresh = fresh,
                       .verify = verify && !fit->ledger.device,
                       .again = labels == HF_LABELS_OLD && hf_finish_confirms(fit),
                       .twice = guarded && hf_guard_checks(ctx, HF_FAULT_INERTIA)};
    if (!fresh && !(guarded && hf_guard_checks(ctx, HF_FAULT_FINISH)))
        HF_TRY(hf_skip_arm(fit, &f.bounds));
    if (f.bounds && !f.bounds->valid)
        f.bounds = NULL;        /* they would only be learnt, and nobody asks for them any more */
    HF_TRY(hf_past_check(fit)); /* a last assignment may pack them anew in another form */
    if (verify)
        HF_TRY(verify_sums(fit));
    if (fit->ledger.device)
        fit->ledger.hashed = false;
    f.moves = hf_ledger_owe(fit);
    HF_TRY(hf_labels_for_ops(&fit->problem, &fit->labels, &f.labels));
    HF_TRY(hf_panels_each(&fit->data.rows, fit->data.panel_rows, finish_panel, &f));
    HF_TRY(hf_ledger_hashed(fit));
    hf_skip_reset(&fit->skip);
    if (!fresh) {
        hf_labels_by_ops(&fit->labels);
        fit->ledger.labels_signed = false;
    }
    HF_TRY(hf_verify(fit->problem.ctx));
    HF_TRY(f.moves ? check_moves(&f) : fit->ledger.device ? check_book(&f) : count_sizes(&f));
    if (f.again && !fit->data.rows.reader)
        HF_TRY(hf_panels_each(&fit->data.rows, fit->data.panel_rows, confirm_rows, &f));
    HF_TRY(check_confirmed(&f, labels));
    HF_TRY(check_inertia(&f));
    *inertia = hf_wide_value(&f.sum);
    return HF_OK;
}

void hf_expand_labels(const struct hf_fit_problem *problem, const struct hf_data *data,
                      const struct hf_labels *labels) {
    int64_t from = problem->n;
    int64_t skip = problem->n_all - problem->n;
    for (int64_t i = problem->n_all; i-- > 0 && skip > 0;) {
        const bool dropped = data->dropped[skip - 1] == i;
        skip -= dropped;
        labels->host[i] = dropped ? -1 : labels->host[--from];
    }
}
