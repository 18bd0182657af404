/* SPDX-License-Identifier: Apache-2.0
 * Clusters so light beside the heaviest row that their sums say little: a weight of half a unit of
 * the sums is rounded to one or none, and its mean may lie anywhere, beyond the data too. Their
 * rows are summed anew with weights times a power of two that brings the heaviest row of the
 * cluster near the heaviest of all, which changes no mean. Seldom needed: see fit->uneven. */
#include "algo/kmeans/loop/light.h"
#include "algo/kmeans/loop/clusters.h"
#include "ops/inertia/inertia.h"
#include "ops/reference.h"
#include <math.h>
#include <string.h>

#define LIGHT_BITS 40 /* a mean is right to this share of the largest value, or summed anew */

/* Weight of a row from which on the sums tell enough. */
static double enough(const struct hf_fit *fit) {
    const struct hf_sums *s = &fit->sums;
    return ldexp(1, hf_fixed_exponent(fit->weight_max) + LIGHT_BITS - s->bits * s->limbs);
}

double hf_least_weight(const struct hf_fit *fit) {
    double least = ldexp(fit->weight_max, -fit->weight_shift);
    for (int64_t i = 0; fit->given && i < fit->n; i++)
        if (fit->given[i] > 0 && fit->given[i] < least)
            least = fit->given[i];
    return least;
}

bool hf_light_possible(const struct hf_fit *fit) {
    return fit->weights && fit->sums.limbs > 1 &&
           ldexp(hf_least_weight(fit), fit->weight_shift) < enough(fit);
}

bool hf_light_look(struct hf_fit *fit) {
    bool any = false;
    for (int64_t j = 0; fit->uneven && j < fit->k; j++) {
        const double rows = (double)fit->sums.count[j];
        fit->light[j].is = hf_sums_weight(&fit->sums, j) < rows * enough(fit);
        any |= fit->light[j].is;
    }
    return any;
}

void hf_light_weigh(struct hf_fit *fit) {
    for (int64_t j = 0; j < fit->k; j++)
        fit->light[j].heaviest = 0;
    for (int64_t i = 0; i < fit->n; i++) {
        struct hf_light *own = &fit->light[fit->labels[i]];
        own->heaviest = fmax(own->heaviest, fit->given[i]);
    }
    for (int64_t j = 0; j < fit->k; j++)
        fit->light[j].is &= fit->light[j].heaviest > 0;
}

/* Rows [0, count) of fit->movers into the sums of light clusters. */
static hf_status add_some(struct hf_fit *fit, int64_t count) {
    const struct hf_movers *m = &fit->movers;
    const int e = hf_fixed_exponent(fit->weight_max) - 1;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = m->index[i];
        m->to[i] = fit->labels[row];
        m->weights[i] =
            ldexp(fit->given[row], e - hf_fixed_exponent(fit->light[m->to[i]].heaviest));
    }
    HF_TRY(hf_rows_gather(&fit->rows, m->index, count, m->x));
    const struct hf_update_args args = {.x = hf_array_view(m->x, HF_F64, count, fit->d),
                                        .metric = fit->opts.metric,
                                        .weights = m->weights,
                                        .labels = m->to,
                                        .sums = &fit->light_sums};
    return hf_update(fit->ctx, &args);
}

static hf_status add_all(struct hf_fit *fit) {
    const struct hf_movers *m = &fit->movers;
    int64_t count = 0;
    for (int64_t i = 0; i < fit->n; i++) {
        if (!fit->light[fit->labels[i]].is)
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
    struct hf_sums *s = &fit->light_sums;
    if (!hf_light_look(fit))
        return HF_OK;
    hf_light_weigh(fit);
    memset(s->sum, 0, (size_t)(s->limbs * s->k * s->d) * sizeof(int64_t));
    memset(s->count, 0, (size_t)s->k * sizeof(int64_t));
    memset(s->weight, 0, (size_t)(s->limbs * s->k) * sizeof(int64_t));
    HF_TRY(add_all(fit));
    const struct hf_center_rule rule = hf_fit_rule(fit);
    for (int64_t j = 0; j < fit->k; j++)
        if (fit->light[j].is)
            hf_centers_next_some(&rule, s, fit->previous, fit->current, j, j + 1);
    return HF_OK;
}
