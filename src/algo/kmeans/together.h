/* SPDX-License-Identifier: Apache-2.0
 * A batch of small problems on a device, iterated in one call of op lloyd. */
#ifndef HF_TOGETHER_H
#define HF_TOGETHER_H

#include <holdfast/kmeans.h>
#include <stdbool.h>

/* Neighbouring problems of a batch. */
struct hf_group {
    const hf_array *x; /* [count] of one shape and type */
    int64_t count;
    int64_t first;          /* number of x[0] in the batch: it is added to the seed */
    hf_kmeans_result *fits; /* [count] out, where done */
    bool *done;             /* [count] out: fitted; false before */
};

/* Fit the problems of the group, or those of them that the context's device can iterate together:
 * group->done says which. The others, and all when it cannot, are left to be fitted one by one.
 * opts are checked; the context's device is not the CPU. */
hf_status hf_fit_together(hf_context *ctx, const hf_kmeans_opts *opts,
                          const struct hf_group *group);

#endif
