/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/guard/device_screen.h"
#include "algo/kmeans/guard/device_copies.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "core/array.h"
#include <string.h>

#define ROWS 512    /* of the part, at most, */
#define CLUSTERS 32 /* clusters, from its first rows, */
#define ITERATIONS 4

/* The part, with sums and centroids of its own. */
struct part {
    struct hf_lloyd_args args;
    struct hf_sums sums;
    struct hf_lloyd_state state;
    hf_kmeans_iteration history[ITERATIONS];
    void *block;
};

/* carve->base NULL: measure. */
static void carve_part(struct part *p, hf_carve *carve) {
    const struct hf_sums *s = &p->sums;
    const size_t centers = (size_t)(s->k * s->d) * hf_dtype_bytes(p->args.rule.type);
    const size_t clusters = (size_t)(s->limbs * s->k) * sizeof(int64_t);
    p->sums.sum = hf_carve_take(carve, clusters * (size_t)s->d);
    p->sums.count = hf_carve_take(carve, (size_t)s->k * sizeof(int64_t));
    p->sums.weight = s->weight ? hf_carve_take(carve, clusters) : NULL;
    p->args.current = hf_carve_take(carve, centers);
    p->args.previous = hf_carve_take(carve, centers);
    p->args.labels = hf_carve_take(carve, (size_t)p->args.x.rows * sizeof(int32_t));
}

static bool open_part(struct part *p, const struct hf_lloyd_args *whole) {
    *p = (struct part){.args = *whole, .sums = *whole->sums};
    p->args.x = hf_array_slice(&whole->x, 0, hf_min64(whole->x.rows, ROWS));
    p->sums.k = hf_min64(hf_min64(whole->sums->k, CLUSTERS), p->args.x.rows);
    hf_carve carve = {0};
    carve_part(p, &carve);
    p->block = hf_alloc_zero(carve.used);
    if (!p->block)
        return false;
    carve = (hf_carve){.base = p->block};
    carve_part(p, &carve);
    p->args.sums = &p->sums;
    p->args.state = &p->state;
    p->args.history = p->history;
    p->args.empty = HF_EMPTY_KEEP;
    p->args.settle = false;
    p->args.first = 0;
    p->args.count = ITERATIONS;
    memcpy(p->args.current, whole->current,
           (size_t)(p->sums.k * p->sums.d) * hf_dtype_bytes(whole->rule.type));
    return true;
}

/* The one copy that differs from that which most agree with; -1: none, or several. */
static int odd_one(const struct hf_copies *c) {
    for (int i = 0; i < c->count; i++) {
        int others = 0;
        int odd = -1;
        for (int j = 0; j < c->count; j++)
            if (!hf_copies_agree(c, i, j)) {
                odd = j;
                others++;
            }
        if (2 * others < c->count)
            return others == 1 ? odd : -1;
    }
    return -1;
}

static hf_status run_part(struct hf_fit *fit, const struct hf_lloyd_args *part, int32_t *unit) {
    struct hf_copies c;
    *unit = -1;
    const hf_status opened = hf_copies_open(&c, fit, part, fit->problem.ctx->props.sms, NULL);
    if (opened == HF_E_NOMEM)
        return HF_OK;
    HF_TRY(opened);
    const hf_status status = hf_copies_run(&c);
    const int odd = status == HF_OK ? odd_one(&c) : -1;
    if (odd >= 0)
        *unit = c.unit[odd];
    hf_copies_close(&c);
    return status;
}

hf_status hf_screen_units(struct hf_fit *fit, const struct hf_lloyd_args *args, int32_t *unit) {
    struct part part;
    int32_t again = -1;
    *unit = -1;
    if (fit->problem.ctx->props.sms < 3 || !open_part(&part, args))
        return HF_OK;
    hf_status status = run_part(fit, &part.args, unit);
    if (status == HF_OK && *unit >= 0)
        status = run_part(fit, &part.args, &again);
    if (again != *unit)
        *unit = -1;
    hf_free(part.block);
    return status;
}
