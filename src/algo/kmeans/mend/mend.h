/* SPDX-License-Identifier: Apache-2.0
 * An iteration on the host in which a check failed, put right where it stands: the least that can
 * be wrong comes again, not the iteration. What each kind of finding takes: hf_mend_begin(). */
#ifndef HF_MEND_H
#define HF_MEND_H

#include "algo/kmeans/fit.h"

/* An iteration that failed. */
struct hf_mend {
    bool sound; /* hf_mend_sound() was true when labels had been found */
    bool first; /* of the restart: rows come from no cluster */
    bool all;   /* out: the labels of all rows are to be found again */
};

/* Labels have been found: are the centroids and scales that they were found by still those that
 * were kept? What becomes of these later does the labels no harm. True as well where no iteration
 * of the fit is put right here. */
bool hf_mend_sound(const struct hf_fit *fit);

/* A check of the iteration failed, as ctx->guard.found says. Centroids, scales and limits become
 * those that were kept, labels of no cluster -1. HF_E_CORRUPT: more may be wrong than can come
 * again here. */
hf_status hf_mend_begin(struct hf_fit *fit, struct hf_mend *mend);

/* Labels are those of the centroids, but for single ones, which are put right; they are booked, and
 * sums of clusters that contradict their words are made anew from their rows. *changed: labels that
 * differ from those of the iteration before. HF_E_CORRUPT: it did not help; HF_E_NOMEM */
hf_status hf_mend_clusters(struct hf_fit *fit, const struct hf_mend *mend, int64_t *changed);

#endif
