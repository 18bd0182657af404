/* SPDX-License-Identifier: Apache-2.0
 * Problems that do not need each other: side by side, each on a context with one thread, or one
 * after another on the caller's context with all its threads. */
#ifndef HF_SIDE_BY_SIDE_H
#define HF_SIDE_BY_SIDE_H

#include "core/context.h"

struct hf_problems {
    int64_t count;
    const char *name; /* of one, in messages: "problem" */
    hf_status (*run)(void *user, hf_context *ctx, int64_t i);
    void *user;
};

/* Run all of them, on `workers` threads where that is more than 1. With one worker it ends at the
 * first failure. Returns the failure of the lowest problem that failed, whichever thread met it;
 * HF_E_NOMEM */
hf_status hf_problems_run(hf_context *ctx, const struct hf_problems *problems, int workers);

#endif
