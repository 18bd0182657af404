/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/wordsum/wordsum.h"

#include "core/case.h"
#include <stdio.h>

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int64_t sizes[] = {0, 1, 3, 4, 7, 64, 1021, 4096, 100003, 3000000};
    struct hf_wordsum_args *args = c->args;
    if (id >= (int64_t)(sizeof sizes / sizeof sizes[0]))
        return false;
    args->bytes = sizes[id];
    char *data = hf_case_alloc(c, (size_t)args->bytes, false);
    for (int64_t i = 0; data != NULL && i < args->bytes; i++)
        data[i] = (char)hf_rng_next(rng);
    args->data = data;
    args->sum = hf_case_alloc(c, sizeof *args->sum, true);
    (void)snprintf(c->name, sizeof c->name, "bytes=%d", (int)args->bytes);
    return true;
}

const struct hf_op_cases hf_wordsum_cases = {.make_case = make_case};
