/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/axpy/axpy.h"
#include "ops/cases/sparse_case.h"

#include <math.h>
#include <stdio.h>

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int64_t sizes[] = {1, 2, 7, 8, 9, 1023, 1024, 1025, 5000, 20001};
    static const double factors[] = {0, 1, -1, 0.3, 1e100, 1e-100};
    struct hf_axpy_args *args = c->args;
    if (id >= 60)
        return false;
    args->n = sizes[id % 10];
    args->alpha = factors[(id + id / 10) % 6];
    args->beta = factors[id / 10];
    args->y = hf_sparse_vector(rng, c, args->n, true);
    if (id % 7 != 6)
        args->x = hf_sparse_vector(rng, c, args->n, false);
    if (id % 3 == 0)
        args->scale = hf_sparse_vector(rng, c, args->n, false);
    if (id % 4 != 3) {
        args->w = id % 4 == 2 ? args->y : hf_sparse_vector(rng, c, args->n, false);
        args->dot = hf_case_alloc(c, sizeof(double), true);
    }
    if (args->beta == 0 && args->y != NULL && args->x != NULL)
        args->y[args->n / 2] = NAN; /* must not matter */
    (void)snprintf(c->name, sizeof c->name, "n=%d alpha=%g beta=%g%s%s%s", (int)args->n,
                   args->alpha, args->beta, args->x ? "" : " sum only", args->scale ? " scale" : "",
                   args->dot ? " dot" : "");
    return true;
}

const struct hf_op_cases hf_axpy_cases = {.make_case = make_case};
