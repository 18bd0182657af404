/* SPDX-License-Identifier: Apache-2.0
 * Clusters without rows (or whose rows all have weight 0). */
#include "algo/kmeans/loop/empty.h"
#include "algo/kmeans/loop/centers.h"
#include "algo/kmeans/loop/clusters.h"
#include "algo/kmeans/loop/labels.h"
#include "algo/kmeans/guard/ledger.h"
#include "algo/kmeans/loop/skip.h"
#include "algo/kmeans/prepare.h"
#include "base/mem.h"
#include "base/dtype.h"
#include "guard/guard.h"
#include "ops/inertia/inertia.h"
#include "ops/reference.h"
#include <math.h>
#include <string.h>

/* The rows farthest from their centroids, as a heap with the least far of them on top. */
struct search {
    struct hf_fit *fit;
    int64_t count;
};

/* Farther first, then the lower row. */
static bool farther(struct hf_far_row a, struct hf_far_row b) {
    return a.distance > b.distance || (a.distance == b.distance && a.row < b.row);
}

static void sift_down(struct hf_far_row *heap, int64_t count, int64_t at) {
    const struct hf_far_row moving = heap[at];
    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && farther(heap[child], heap[child + 1]))
            child++;
        if (!farther(moving, heap[child]))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static void offer(struct search *s, struct hf_far_row candidate) {
    struct hf_far_row *heap = s->fit->refill.far;
    const int64_t room = s->fit->problem.k;
    if (s->count < room) {
        heap[s->count++] = candidate;
        if (s->count == room)
            for (int64_t at = room / 2; at-- > 0;)
                sift_down(heap, room, at);
    } else if (farther(candidate, heap[0])) {
        heap[0] = candidate;
        sift_down(heap, room, 0);
    }
}

/* A row this near to its centroid, or nearer, is at it, but for rounding: of a direction in its
 * storage, of which the distance takes half the square, and of float64. */
static double at_center(const struct hf_fit_problem *problem) {
    double relative;
    double absolute;
    if (problem->opts.metric == HF_EUCLIDEAN)
        return 0;
    if (problem->opts.metric == HF_DOT)
        return -INFINITY;
    hf_center_rounding(problem, &relative, &absolute);
    return relative * relative + (double)(problem->d + 16) * 0x1p-51;
}

/* Distances of a panel's rows, which have the same bits each time. */
struct measuring {
    struct hf_fit *fit;
    const struct hf_inertia_args *args;
};

static hf_status run_distances(void *user, int turn) {
    const struct measuring *m = user;
    hf_context *ctx = m->fit->problem.ctx;
    if (turn % 2 == 0)
        return hf_inertia(ctx, m->args);
    return hf_run_kernel(
        ctx, HF_OP_INERTIA,
        hf_guard_twin(ctx, HF_OP_INERTIA, ctx->last_kernel[HF_OP_INERTIA], m->args), m->args);
}

static uint64_t sign_distances(const void *user) {
    const struct measuring *m = user;
    return hf_guard_sign_by(hf_ctx_pool(m->fit->problem.ctx), m->args->distances,
                            (size_t)m->args->x.rows * sizeof(double));
}

/* Distances of a panel's rows to their centroids into fit->work.panel_distances; -INFINITY: the row
 * does not weigh, has no direction, or is at its centroid. */
static hf_status measure(struct hf_fit *fit, const hf_array *panel, int64_t first) {
    hf_wide ignored = {.special = 0};
    const double *pull = fit->weights.directed ? fit->weights.directed : fit->weights.scaled;
    const double at = at_center(&fit->problem);
    double *distance = fit->work.panel_distances;
    const struct hf_inertia_args args = {.x = *panel,
                                         .c = hf_centers(&fit->problem, fit->centers.current),
                                         .metric = fit->problem.opts.metric,
                                         .labels = fit->labels.host + first,
                                         .distances = distance,
                                         .sum = &ignored};
    struct measuring m = {fit, &args};
    const struct hf_repeated work = {.fault = HF_FAULT_INERTIA,
                                     .run = run_distances,
                                     .sign = sign_distances,
                                     .what = "the distances of rows to their centroids"};
    HF_TRY(hf_guard_repeat(fit->problem.ctx, &work, &m));
    for (int64_t i = 0; i < panel->rows; i++)
        if (!(distance[i] > at) || (pull && pull[first + i] == 0))
            distance[i] = -INFINITY;
    /* what follows goes by labels, and memory beyond the clusters is nobody's */
    return hf_labels_check(&fit->problem, &fit->labels, first, panel->rows);
}

static hf_status search_panel(void *job, const hf_array *panel, int64_t first) {
    struct search *s = job;
    HF_TRY(measure(s->fit, panel, first));
    for (int64_t i = 0; i < panel->rows; i++)
        if (s->fit->work.panel_distances[i] > -INFINITY)
            offer(s, (struct hf_far_row){s->fit->work.panel_distances[i], first + i});
    return HF_OK;
}

/* The heap in order, farthest first. */
static void sort_far(struct search *s) {
    struct hf_far_row *heap = s->fit->refill.far;
    for (int64_t at = s->count / 2; at-- > 0;)
        sift_down(heap, s->count, at);
    for (int64_t count = s->count; count > 1; count--) {
        const struct hf_far_row least = heap[0];
        heap[0] = heap[count - 1];
        heap[count - 1] = least;
        sift_down(heap, count - 1, 0);
    }
}

/* May the row leave its cluster, so that both clusters weigh something? If so, it is taken out of
 * what its cluster has left. */
static bool may_leave(struct hf_fit *fit, int64_t row) {
    const struct hf_sums *s = &fit->centers.sums;
    struct hf_movers *m = &fit->refill.movers;
    const int32_t from = fit->labels.host[row];
    if (m->count_left[from] < 2)
        return false;
    if (s->weight) {
        int64_t own[HF_MAX_LIMBS];
        hf_fixed_limbs(fit->weights.scaled[row], s->weight_mult, s->bits, own);
        own[1] = s->limbs > 1 ? own[1] : 0;
        const int64_t rest[HF_MAX_LIMBS] = {
            m->weight_left[from] - own[0], s->limbs > 1 ? m->weight_left[s->k + from] - own[1] : 0};
        if (hf_fixed_value(own, s->limbs, s->bits, s->weight_mult) <= 0 ||
            hf_fixed_value(rest, s->limbs, s->bits, s->weight_mult) <= 0)
            return false;
        m->weight_left[from] = rest[0];
        if (s->limbs > 1)
            m->weight_left[s->k + from] = rest[1];
    }
    m->count_left[from]--;
    return true;
}

/* As many rows as there is room for. */
static hf_status move_some(struct hf_fit *fit, const struct hf_moved_row *moves, int64_t count) {
    const struct hf_fit_problem *problem = &fit->problem;
    const struct hf_movers *m = &fit->refill.movers;
    for (int64_t i = 0; i < count; i++) {
        m->index[i] = moves[i].row;
        m->from[i] = fit->labels.host[moves[i].row];
        m->to[i] = (int32_t)moves[i].cluster;
        if (m->weights)
            m->weights[i] = fit->weights.scaled[moves[i].row];
    }
    HF_TRY(hf_rows_gather(&fit->data.rows, m->index, count, m->x));
    const struct hf_update_args args = {.x = hf_array_view(m->x, HF_F64, count, problem->d),
                                        .metric = problem->opts.metric,
                                        .weights = m->weights,
                                        .old_labels = m->from,
                                        .labels = m->to,
                                        .sums = &fit->centers.sums};
    HF_TRY(hf_update(problem->ctx, &args));
    for (int64_t i = 0; i < count; i++) {
        fit->labels.host[moves[i].row] = m->to[i];
        hf_skip_forget_row(&fit->skip, moves[i].row);
    }
    hf_labels_by_host(&fit->labels);
    return HF_OK;
}

hf_status hf_move_rows(struct hf_fit *fit, const struct hf_moved_row *moves, int64_t count) {
    const int64_t room = fit->refill.movers.room;
    for (int64_t i = 0; i < count; i += room)
        HF_TRY(move_some(fit, moves + i, hf_min64(room, count - i)));
    return count > 0 ? hf_ledger_move(fit, moves, count) : HF_OK;
}

/* As scikit-learn: the i-th empty cluster takes the i-th farthest row of those that may leave. A
 * cluster refuses at most once, with its last row, so the k farthest rows are enough for all. A row
 * that lies on its centroid is not worth moving; a cluster for which none is left stays as it is.
 * Rows without a direction neither move nor hold a cluster by themselves. */
static hf_status relocate(struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    const struct hf_sums *sums = &fit->centers.sums;
    struct search s = {.fit = fit};
    HF_TRY(hf_panels_each(&fit->data.rows, fit->data.scan_rows, search_panel, &s));
    sort_far(&s);
    memcpy(fit->refill.movers.count_left, sums->count, (size_t)problem->k * sizeof(int64_t));
    for (int64_t i = 0; fit->weights.directed && i < problem->n; i++)
        fit->refill.movers.count_left[fit->labels.host[i]] -= fit->weights.directed[i] == 0;
    if (sums->weight)
        memcpy(fit->refill.movers.weight_left, sums->weight,
               (size_t)(sums->limbs * problem->k) * sizeof(int64_t));
    int64_t at = 0;
    for (int64_t j = 0; j < problem->k && at < s.count; j++) {
        if (!hf_cluster_is_empty(&fit->centers, &fit->light, j))
            continue;
        while (at < s.count && !may_leave(fit, fit->refill.far[at].row))
            at++;
        if (at < s.count)
            fit->refill.relocated[fit->refill.relocated_count++] =
                (struct hf_moved_row){.row = fit->refill.far[at++].row, .cluster = j};
    }
    return hf_move_rows(fit, fit->refill.relocated, fit->refill.relocated_count);
}

hf_status hf_empty_clusters(struct hf_fit *fit, int iteration, int64_t *count) {
    const struct hf_fit_problem *problem = &fit->problem;
    int64_t empty = 0;
    int64_t first = 0;
    for (int64_t j = problem->k; j-- > 0;) {
        if (!hf_cluster_is_empty(&fit->centers, &fit->light, j))
            continue;
        first = j;
        empty++;
    }
    *count = empty;
    fit->refill.relocated_count = 0;
    if (empty == 0)
        return HF_OK;
    if (problem->opts.empty == HF_EMPTY_ERROR)
        return hf_ctx_fail(
            problem->ctx, HF_E_DATA,
            "cluster %lld (counted from 0) lost all its rows in iteration %d: ask for "
            "fewer clusters, another seed or init, or HF_EMPTY_RELOCATE",
            (long long)first, iteration);
    return problem->opts.empty == HF_EMPTY_RELOCATE ? relocate(fit) : HF_OK;
}

/* Column f of a half of cluster `from`: up, or down, by its step. */
static double half_at(const struct hf_fit *fit, int64_t from, int64_t f, bool up) {
    const struct hf_fit_problem *problem = &fit->problem;
    const bool cosine = problem->opts.metric == HF_COSINE;
    double relative;
    double absolute;
    hf_center_rounding(problem, &relative, &absolute);
    const double c =
        hf_center_at(fit->centers.current, problem->center_type, from * problem->d + f);
    const double spread = cosine ? 1 / (double)problem->d : fit->columns.variance[f];
    const double step = fmax(sqrt(spread) * 0x1p-10, fabs(c) * 4 * relative);
    return up == (f % 2 == 0) ? c + step : c - step;
}

/* What it is divided by: a direction has length 1. */
static double half_length(const struct hf_fit *fit, int64_t from, bool up) {
    double square = 0;
    if (fit->problem.opts.metric != HF_COSINE)
        return 1;
    for (int64_t f = 0; f < fit->problem.d; f++) {
        const double v = half_at(fit, from, f, up);
        square += v * v;
    }
    return square > 0 ? sqrt(square) : 1;
}

/* Element i of the centroids; the middle where the type does not reach so far. */
static void put_half(struct hf_fit *fit, int64_t i, double v, double middle) {
    const struct hf_fit_problem *problem = &fit->problem;
    hf_center_put(problem, &fit->columns, fit->centers.current, i, v);
    if (!isfinite(hf_center_at(fit->centers.current, problem->center_type, i)))
        hf_center_put(problem, &fit->columns, fit->centers.current, i, middle);
}

/* The two halves of a cluster start on both sides of its centroid, up in one column and down in the
 * next, by 1/1024 of the column's standard deviation (of 1 / sqrt(d) for directions), or by 4
 * roundings of the storage where that is more. */
static void split_center(struct hf_fit *fit, int64_t from, int64_t to) {
    const struct hf_fit_problem *problem = &fit->problem;
    const double length_up = half_length(fit, from, true);
    const double length_down = half_length(fit, from, false);
    for (int64_t f = 0; f < problem->d; f++) {
        const int64_t at = from * problem->d + f;
        const double middle = hf_center_at(fit->centers.current, problem->center_type, at);
        const double up = half_at(fit, from, f, true) / length_up;
        const double down = half_at(fit, from, f, false) / length_down;
        put_half(fit, to * problem->d + f, up, middle);
        put_half(fit, at, down, middle);
    }
}

static hf_status share_panel(void *job, const hf_array *panel, int64_t first) {
    struct hf_fit *fit = job;
    HF_TRY(measure(fit, panel, first));
    for (int64_t i = 0; i < panel->rows; i++)
        fit->refill.share[fit->labels.host[first + i]] += fit->work.panel_distances[i] > -INFINITY;
    return HF_OK;
}

/* Halves of a cluster whose rows all lie at its centroid would only lie beside them: as none is
 * left to split, the other empty clusters stay as they are. */
hf_status hf_empty_split(struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    if (problem->opts.empty != HF_EMPTY_SPLIT)
        return HF_OK;
    memset(fit->refill.share, 0, (size_t)problem->k * sizeof(int64_t));
    HF_TRY(hf_panels_each(&fit->data.rows, fit->data.scan_rows, share_panel, fit));
    for (int64_t j = 0; j < problem->k; j++) {
        if (!hf_cluster_is_empty(&fit->centers, &fit->light, j))
            continue;
        int64_t most = 0;
        for (int64_t i = 1; i < problem->k; i++)
            most = fit->refill.share[i] > fit->refill.share[most] ? i : most;
        if (fit->refill.share[most] < 2)
            break;
        split_center(fit, most, j);
        fit->refill.share[j] = fit->refill.share[most] / 2;
        fit->refill.share[most] -= fit->refill.share[j];
    }
    return HF_OK;
}
