/* SPDX-License-Identifier: Apache-2.0
 * A copy on the device of what a pass over the panels needs besides rows and labels, so that it is
 * not copied for each panel. On the CPU there is no mirror. */
#ifndef HF_MIRROR_H
#define HF_MIRROR_H

#include "algo/kmeans/fit.h"

struct hf_mirror {
    void *block;         /* owns the rest; NULL: there is no mirror */
    int32_t *old_labels; /* [panel_rows] */
    void *centers;       /* [k, d] fit->centers.current */
    double *mult;        /* [d] */
    struct hf_sums sums;
    struct hf_assign_stats *stats; /* of a pass */
    bool none;                     /* the device has no memory for a mirror */
};

/* hf_carve_take() of a device's memory: each piece is aligned for any kernel. */
void *hf_mirror_take(hf_carve *carve, size_t bytes);
/* Make it ready for a pass: fit->centers.current, sums and labels are copied to it.
 * m->block stays NULL where there is no use for one. */
hf_status hf_mirror_begin(struct hf_fit *fit, struct hf_mirror *m);
/* The sums and counters after a pass to the host; labels stay on the device until
 * hf_labels_fetch(). */
hf_status hf_mirror_sums(struct hf_fit *fit, struct hf_mirror *m, struct hf_assign_stats *stats);
void hf_mirror_clear(const struct hf_fit_problem *problem, struct hf_mirror *m);

#endif
