/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/guard/update_twice.h"
#include "guard/guard.h"
#include <string.h>

static bool makes_it(const struct hf_fit *fit) {
    return hf_guard_checks_on_host(fit->problem.ctx, HF_FAULT_TWICE);
}

/* Bytes of sums, counts and weights, known before they have memory. */
static void measure(const struct hf_fit *fit, size_t bytes[3]) {
    const struct hf_sums *s = &fit->centers.sums;
    const size_t cells = (size_t)(s->limbs * s->k) * sizeof(int64_t);
    bytes[0] = cells * (size_t)s->d;
    bytes[1] = (size_t)s->k * sizeof(int64_t);
    bytes[2] = fit->weights.scaled ? cells : 0;
}

void hf_update_twice_carve(struct hf_fit *fit, hf_carve *carve) {
    size_t bytes[3];
    measure(fit, bytes);
    fit->ledger.before =
        makes_it(fit) ? hf_carve_take(carve, bytes[0] + bytes[1] + bytes[2]) : NULL;
}

struct updating {
    struct hf_fit *fit;
    const struct hf_update_args *args;
};

/* Copy the sums away, or back. */
static void copy(struct hf_fit *fit, bool back) {
    const struct hf_sums *s = &fit->centers.sums;
    void *const piece[3] = {s->sum, s->count, s->weight};
    char *kept = fit->ledger.before;
    size_t bytes[3];
    measure(fit, bytes);
    for (int i = 0; i < 3; i++) {
        if (bytes[i] > 0)
            memcpy(back ? piece[i] : kept, back ? kept : piece[i], bytes[i]);
        kept += bytes[i];
    }
}

static hf_status run(void *user, int turn) {
    const struct updating *u = user;
    if (turn > 0)
        copy(u->fit, true);
    return hf_update(u->fit->problem.ctx, u->args);
}

static uint64_t sign(const void *user) {
    const struct hf_fit *fit = ((const struct updating *)user)->fit;
    const struct hf_sums *s = &fit->centers.sums;
    const void *const piece[3] = {s->sum, s->count, s->weight};
    uint64_t all = 0;
    size_t bytes[3];
    measure(fit, bytes);
    for (int i = 0; i < 3; i++)
        all = 3 * all + (bytes[i] > 0 ? hf_guard_sign(piece[i], bytes[i]) : 0);
    return all;
}

hf_status hf_update_twice(struct hf_fit *fit, const struct hf_update_args *args) {
    static const struct hf_repeated work = {
        .fault = HF_FAULT_TWICE, .run = run, .sign = sign, .what = "the sums of the clusters"};
    struct updating u = {fit, args};
    if (!fit->ledger.before)
        return hf_update(fit->problem.ctx, args);
    copy(fit, false);
    return hf_guard_repeat(fit->problem.ctx, &work, &u);
}
