/* SPDX-License-Identifier: Apache-2.0
 * Single rows of a fit whose rows lie in memory of the host, copied side by side, so that ops take
 * them as they take all. */
#ifndef HF_GATHERED_H
#define HF_GATHERED_H

#include "algo/kmeans/fit.h"

#define HF_GATHERED 1024 /* rows, at most */

struct hf_gathered {
    struct hf_fit *fit;
    hf_array x;     /* [count, d] */
    int64_t *row;   /* [count] their numbers, */
    int32_t *label; /* labels, */
    double *weight; /* and weights in the sums; NULL: all weigh 1 */
    int64_t count;
    void *block; /* owns all of it */
};

/* None yet. HF_E_NOMEM */
hf_status hf_gather_open(struct hf_fit *fit, struct hf_gathered *g);
void hf_gather_close(struct hf_gathered *g);
/* One more, with the label that it has. */
void hf_gather_row(struct hf_gathered *g, int64_t i);
/* None again. */
void hf_gather_forget(struct hf_gathered *g);
/* Their labels become those of these centroids. */
hf_status hf_gather_decide(struct hf_gathered *g, void *centers);

#endif
