/* SPDX-License-Identifier: Apache-2.0
 * Fits that are cut off while they choose their first centroids. */
#ifndef KMEANS_START_H
#define KMEANS_START_H

#include "kmeans_device.h"

#include <unistd.h>

struct cut {
    int restart; /* where to stop, */
    int64_t at;  /* once so many centroids are chosen */
    int steps;   /* calls about the start until then */
    int calls;   /* and in all */
};

static inline int cut_there(void *user, int restart, int iteration, const hf_kmeans_iteration *it,
                            int64_t done, int64_t total) {
    struct cut *c = user;
    (void)it, (void)total;
    c->calls += iteration == 0;
    c->steps = c->calls;
    return iteration == 0 && restart == c->restart && done >= c->at;
}

static inline const char *start_path(void) {
    static char path[512];
    snprintf(path, sizeof path, "%s/start-%ld.hfc", HF_TEST_BUILD, (long)getpid());
    return path;
}

/* Is there a checkpoint? */
static inline bool start_and_cut(hf_context *ctx, const hf_array *x, hf_kmeans_opts o,
                                 struct cut *cut) {
    hf_kmeans_result r = {0};
    o.checkpoint = start_path();
    o.checkpoint_every = -1;
    o.progress = cut_there;
    o.progress_user = cut;
    unlink(start_path());
    const hf_status status = hf_kmeans_fit(ctx, x, &o, &r);
    if (cut->restart == 0)
        assert_int_equal(status, HF_E_CANCELLED); /* there is no result yet */
    else
        assert_int_equal(r.stop, HF_STOP_CANCELLED);
    hf_kmeans_result_clear(&r);
    return access(start_path(), F_OK) == 0;
}

#endif
