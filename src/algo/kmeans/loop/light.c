/* SPDX-License-Identifier: Apache-2.0
 * Clusters so light beside the heaviest row that their sums say little: a weight of half a unit of
 * the sums is rounded to one or none, and its mean may lie anywhere, beyond the data too. Their
 * rows are summed anew with weights times a power of two that brings the heaviest row of the
 * cluster near the heaviest of all, which changes no mean. Seldom needed: see
 * hf_weights.uneven. */
#include "algo/kmeans/loop/light.h"
#include "algo/kmeans/loop/clusters.h"
#include "ops/inertia/inertia.h"
#include "ops/reference.h"
#include <math.h>
#include <string.h>

#define LIGHT_BITS 40 /* a mean is right to this share of the largest value, or summed anew */

/* Weight of a row from which on the sums tell enough. */
static double enough(const struct hf_centers *centers, const struct hf_weights *weights) {
    const struct hf_sums *s = &centers->sums;
    return ldexp(1, hf_fixed_exponent(weights->max) + LIGHT_BITS - s->bits * s->limbs);
}

double hf_least_weight(const struct hf_fit_problem *problem, const struct hf_weights *weights) {
    double least = ldexp(weights->max, -weights->shift);
    for (int64_t i = 0; weights->given && i < problem->n; i++)
        if (weights->given[i] > 0 && weights->given[i] < least)
            least = weights->given[i];
    return least;
}

bool hf_light_possible(const struct hf_fit_problem *problem, const struct hf_weights *weights,
                       const struct hf_centers *centers) {
    return weights->scaled && centers->sums.limbs > 1 &&
           ldexp(hf_least_weight(problem, weights), weights->shift) < enough(centers, weights);
}

bool hf_light_mark(struct hf_fit *fit) {
    bool any = false;
    for (int64_t j = 0; fit->weights.uneven && j < fit->problem.k; j++) {
        const double rows = (double)fit->centers.sums.count[j];
        fit->light.cluster[j].is =
            hf_sums_weight(&fit->centers.sums, j) < rows * enough(&fit->centers, &fit->weights);
        any |= fit->light.cluster[j].is;
    }
    return any;
}

void hf_light_weigh(struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    for (int64_t j = 0; j < problem->k; j++)
        fit->light.cluster[j].heaviest = 0;
    for (int64_t i = 0; i < problem->n; i++) {
        struct hf_light_cluster *own = &fit->light.cluster[fit->labels.host[i]];
        own->heaviest = fmax(own->heaviest, fit->weights.given[i]);
    }
    for (int64_t j = 0; j < problem->k; j++)
        fit->light.cluster[j].is &= fit->light.cluster[j].heaviest > 0;
}

/* Rows [0, count) of fit->refill.movers into the sums of light clusters. */
static hf_status add_some(struct hf_fit *fit, int64_t count) {
    const struct hf_fit_problem *problem = &fit->problem;
    const struct hf_movers *m = &fit->refill.movers;
    const int e = hf_fixed_exponent(fit->weights.max) - 1;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = m->index[i];
        m->to[i] = fit->labels.host[row];
        m->weights[i] = ldexp(fit->weights.given[row],
                              e - hf_fixed_exponent(fit->light.cluster[m->to[i]].heaviest));
    }
    HF_TRY(hf_rows_gather(&fit->data.rows, m->index, count, m->x));
    const struct hf_update_args args = {.x = hf_array_view(m->x, HF_F64, count, problem->d),
                                        .metric = problem->opts.metric,
                                        .weights = m->weights,
                                        .labels = m->to,
                                        .sums = &fit->light.sums};
    return hf_update(problem->ctx, &args);
}

static hf_status add_all(struct hf_fit *fit) {
    const struct hf_movers *m = &fit->refill.movers;
    int64_t count = 0;
    for (int64_t i = 0; i < fit->problem.n; i++) {
        if (!fit->light.cluster[fit->labels.host[i]].is)
            continue;
        m->index[count++] = i;
        if (count < m->room)
            continue;
        HF_TRY(add_some(fit, count));
        count = 0;
    }
    return count > 0 ? add_some(fit, count) : HF_OK;
}

hf_status hf_light_means(struct hf_fit *fit) {
    struct hf_sums *s = &fit->light.sums;
    if (!hf_light_mark(fit))
        return HF_OK;
    hf_light_weigh(fit);
    memset(s->sum, 0, (size_t)(s->limbs * s->k * s->d) * sizeof(int64_t));
    memset(s->count, 0, (size_t)s->k * sizeof(int64_t));
    memset(s->weight, 0, (size_t)(s->limbs * s->k) * sizeof(int64_t));
    HF_TRY(add_all(fit));
    const struct hf_fit_problem *p = &fit->problem;
    const size_t row = (size_t)p->d * hf_dtype_bytes(p->center_type);
    for (int64_t j = 0; j < p->k; j++)
        if (fit->light.cluster[j].is) /* should these sums have no mean either */
            memcpy((char *)fit->centers.current + (size_t)j * row,
                   (const char *)fit->centers.previous + (size_t)j * row, row);
    const struct hf_means_args args = {.rule = hf_fit_rule(p, &fit->columns),
                                       .sums = s,
                                       .now = fit->centers.current,
                                       .next = fit->centers.current};
    return hf_means(p->ctx, &args);
}
