/* SPDX-License-Identifier: Apache-2.0
 * What is done when a check of the loop fails: back to the last state that was found right, and the
 * same again; then without a worker that computes wrongly, or with other kernels; in the end the
 * fit fails. */
#ifndef HF_PROTECT_H
#define HF_PROTECT_H

#include "algo/kmeans/fit.h"

/* Can failed work of this fit be made again? */
bool hf_protects(const struct hf_fit *fit);

/* Work on the labels and sums as they were after iteration run->iteration. */
struct hf_protected {
    hf_status (*run)(void *user);
    hf_status (*mend)(void *user); /* go on from where a check failed, when what it found is put
                                      right; NULL: never */
    void *user;
    hf_stop stop;                             /* of the restart when the work begins */
    hf_status (*clear)(struct hf_fit *fit);   /* all rows in no cluster, sums empty */
    hf_status (*rebuild)(struct hf_fit *fit); /* labels and sums from fit->centers.previous */
};

/* Do it; where a check fails (HF_E_CORRUPT) and the scheme is to correct, put the state back and do
 * it again, a few times. */
hf_status hf_protect(struct hf_fit *fit, struct hf_restart *run, const struct hf_protected *work);

#endif
