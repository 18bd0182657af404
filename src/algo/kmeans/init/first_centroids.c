/* SPDX-License-Identifier: Apache-2.0
 * The start is made of sums and draws, and none of its results is optimal: a wrong one is as good a
 * start as the right one, and leads to another result. So nothing but the same work done again, by
 * other kernels, shows a fault. Whatever is wrong shows as other rows that were chosen. */
#include "algo/kmeans/init/first_centroids.h"
#include "algo/kmeans/init/init.h"
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/loop/centers.h"
#include "algo/kmeans/loop/labels.h"
#include "algo/kmeans/loop/clusters.h"
#include "base/dtype.h"
#include "core/run.h"
#include "guard/guard.h"
#include "ops/reference.h"

struct starting {
    struct hf_fit *fit;
    int restart;
    int turn;
};

/* The caller sees the progress of the first turn, and may cancel later ones, which are not done. */
static int start_progress(void *user, int64_t done, int64_t total) {
    const struct starting *s = user;
    const hf_kmeans_opts *o = &s->fit->problem.opts;
    return o->progress(o->progress_user, s->restart, 0, NULL, s->turn == 0 ? done : total - 1,
                       total);
}

static void take_given(const struct hf_fit_problem *problem, const struct hf_centers *centers) {
    const hf_array *c = problem->opts.centroids;
    for (int64_t j = 0; j < problem->k; j++)
        hf_to_f64(centers->start + j * problem->d, hf_array_row(c, j), c->dtype, problem->d);
}

/* Steps are noted, and taken from notes, in the first turn alone. */
static hf_status seed(struct starting *s) {
    struct hf_fit *fit = s->fit;
    const struct hf_fit_problem *problem = &fit->problem;
    const bool logs = s->turn == 0 && (problem->opts.checkpoint || problem->opts.resume);
    const struct hf_init_args args = {.k = problem->k,
                                      .metric = problem->opts.metric,
                                      .init = problem->opts.init,
                                      .seed = problem->opts.seed,
                                      .restart = s->restart,
                                      .weights = hf_start_weights(&fit->weights),
                                      .filter = fit->frame.filter,
                                      .nearest = fit->work.nearest,
                                      .labels = fit->labels.host,
                                      .progress = problem->opts.progress ? start_progress : NULL,
                                      .progress_user = s,
                                      .log = logs ? &fit->saves.log : NULL};
    return hf_kmeans_init(&fit->data.rows, &args, fit->centers.start);
}

static hf_status make(void *user, int turn) {
    struct starting *s = user;
    struct hf_fit *fit = s->fit;
    const struct hf_fit_problem *problem = &fit->problem;
    struct hf_guard_state *guard = &problem->ctx->guard;
    const bool elsewhere = guard->elsewhere;
    hf_status status = HF_OK;
    s->turn = turn;
    /* Devices have one kernel of each op: their second turn is the same work at another time. */
    guard->elsewhere = elsewhere || (turn % 2 == 1 && hf_ctx_is_host(problem->ctx));
    if (problem->opts.init == HF_INIT_GIVEN)
        take_given(problem, &fit->centers);
    else
        status = seed(s);
    guard->elsewhere = elsewhere;
    if (status == HF_OK)
        hf_centers_store(problem, &fit->columns, fit->centers.current, fit->centers.start,
                         problem->k * problem->d);
    return status;
}

static uint64_t sign(const void *user) {
    const struct hf_fit *fit = ((const struct starting *)user)->fit;
    const struct hf_fit_problem *problem = &fit->problem;
    return hf_guard_sign(fit->centers.current, hf_center_bytes(problem));
}

static hf_status make_checked(struct starting *s) {
    static const struct hf_repeated work = {
        .fault = HF_FAULT_START, .run = make, .sign = sign, .what = "the first centroids"};
    const struct hf_fit_problem *problem = &s->fit->problem;
    hf_context *ctx = problem->ctx;
    const bool given = problem->opts.init == HF_INIT_GIVEN;
    if (given ? !hf_ctx_is_host(ctx) : ctx->guard.scheme == HF_SCHEME_SAMPLED)
        return make(s, 0);
    const hf_status status = hf_guard_repeat(ctx, &work, s);
    if (status == HF_E_CORRUPT && ctx->guard.found.fault == HF_FAULT_START)
        return hf_ctx_fail(ctx, status, "the first centroids came out twice differently: %s",
                           hf_suspects(problem));
    return status;
}

hf_status hf_fit_start(struct hf_fit *fit, int restart) {
    const struct hf_fit_problem *problem = &fit->problem;
    const size_t centers = hf_center_bytes(problem);
    struct starting s = {.fit = fit, .restart = restart};
    fit->centers.current = fit->centers.start;
    fit->centers.previous = (char *)fit->centers.start + centers;
    hf_labels_close(problem, &fit->labels); /* of another restart; the start may need the memory */
    HF_TRY(make_checked(&s));
    fit->saves.log.count = fit->saves.log.at = 0;
    const int64_t beyond =
        hf_first_not_finite(fit->centers.current, problem->center_type, problem->k * problem->d);
    return beyond == problem->k * problem->d
               ? HF_OK
               : hf_ctx_fail(problem->ctx, HF_E_ARG,
                             "initial centroid %lld, column %lld (counted from 0) is too large for "
                             "the centroids' type: scale the data or give smaller ones",
                             (long long)(beyond / problem->d), (long long)(beyond % problem->d));
}
