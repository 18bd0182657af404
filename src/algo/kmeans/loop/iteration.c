/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/loop/iteration.h"
#include "algo/kmeans/loop/centers.h"
#include "algo/kmeans/loop/clusters.h"
#include "algo/kmeans/loop/empty.h"
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/loop/light.h"
#include "algo/kmeans/prepare.h"
#include "base/clock.h"
#include "base/mem.h"
#include "guard/guard.h"
#include "ops/lloyd/lloyd.h"
#include <string.h>

hf_status hf_iteration_check_counts(const struct hf_fit_problem *problem,
                                    const struct hf_centers *centers, int iteration) {
    const struct hf_lloyd_tally tally = hf_lloyd_tally(centers->sums.count, problem->k);
    if (!hf_counts_are_wrong(&tally, problem->n))
        return HF_OK;
    hf_guard_found(problem->ctx, HF_FAULT_COUNTS, -1, -1);
    return hf_ctx_fail(problem->ctx, HF_E_CORRUPT,
                       "iteration %d: the clusters hold %lld rows%s, not %lld: %s", iteration,
                       (long long)tally.rows, tally.negative > 0 ? ", some less than none" : "",
                       (long long)problem->n, hf_suspects(problem));
}

static hf_status check_inertia(const struct hf_fit *fit, const struct hf_restart *run,
                               double inertia) {
    const struct hf_fit_problem *problem = &fit->problem;
    const struct hf_lloyd_laws laws = {.metric = problem->opts.metric,
                                       .exact = problem->opts.precision == HF_EXACT,
                                       .empty = problem->opts.empty,
                                       .slack = fit->frame.slack};
    struct hf_lloyd_before before = {.iterations = run->iteration};
    if (run->iteration > 0) {
        before.inertia = run->history.it[run->iteration - 1].inertia;
        before.empty = run->history.it[run->iteration - 1].empty;
    }
    if (!hf_inertia_rose(&laws, &before, inertia))
        return HF_OK;
    hf_guard_found(problem->ctx, HF_FAULT_INERTIA, -1, -1);
    return hf_ctx_fail(problem->ctx, HF_E_CORRUPT,
                       "iteration %d: the inertia rose from %.17g to %.17g, beyond rounding: %s",
                       run->iteration + 1, hf_inertia_given(&fit->weights, before.inertia),
                       hf_inertia_given(&fit->weights, inertia), hf_suspects(problem));
}

static hf_status remember(const struct hf_fit_problem *problem, struct hf_history *h,
                          const hf_kmeans_iteration *it) {
    if (h->count == h->room) {
        const int room = h->room ? h->room * 2 : 64;
        hf_kmeans_iteration *more = hf_alloc((size_t)room * sizeof(*more));
        if (!more)
            return hf_ctx_fail(problem->ctx, HF_E_NOMEM, "no memory for a history of %d iterations",
                               room);
        if (h->count > 0)
            memcpy(more, h->it, (size_t)h->count * sizeof(*more));
        hf_free(h->it);
        h->it = more;
        h->room = room;
    }
    h->it[h->count++] = *it;
    return HF_OK;
}

/* An iteration from the inertia of its labels on: new centroids, shift; `stepped`: by
 * hf_centers_step(). */
hf_status hf_iteration_conclude(struct hf_fit *fit, struct hf_restart *run, hf_kmeans_iteration *it,
                                bool stepped) {
    const int number = run->iteration + 1;
    HF_TRY(check_inertia(fit, run, it->inertia));
    it->empty = 0;
    if (it->changed == 0) {
        run->stop = HF_STOP_LABELS;
        for (int64_t j = 0; j < fit->problem.k; j++)
            it->empty += hf_cluster_is_empty(&fit->centers, &fit->light, j);
    } else {
        HF_TRY(hf_empty_clusters(fit, number, &it->empty));
        if (stepped) {
            hf_centers_swap(&fit->centers);
        } else {
            HF_TRY(hf_centers_update(fit));
            HF_TRY(hf_light_means(fit));
            if (it->empty > 0)
                HF_TRY(hf_empty_split(fit)); /* only if that is the policy */
            HF_TRY(hf_centers_moves(fit, NULL, &it->shift));
        }
        if (it->shift <= fit->frame.tol)
            run->stop = HF_STOP_TOL;
    }
    return HF_OK;
}

hf_status hf_iteration_record(const struct hf_fit_problem *problem, struct hf_restart *run,
                              double begin, hf_kmeans_iteration *it) {
    it->seconds = hf_now_s() - begin;
    HF_TRY(remember(problem, &run->history, it));
    run->iteration++;
    return HF_OK;
}

hf_status hf_iteration_report(const struct hf_fit_problem *problem,
                              const struct hf_weights *weights, struct hf_restart *run) {
    const hf_kmeans_opts *o = &problem->opts;
    const hf_comm *comm = &problem->ctx->comm;
    hf_kmeans_iteration it = run->history.it[run->iteration - 1];
    it.inertia = hf_inertia_given(weights, it.inertia);
    int32_t stop = o->progress && o->progress(o->progress_user, run->number, run->iteration, &it,
                                              run->iteration, o->max_iter) != 0;
    HF_TRY(hf_ctx_check(problem->ctx, comm->agree(comm, &stop)));
    run->cancelled = run->cancelled || stop;
    return HF_OK;
}
