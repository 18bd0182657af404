/* SPDX-License-Identifier: Apache-2.0
 * Lloyd's loop: iterations from the first centroids to the end of a restart. */
#ifndef HF_LLOYD_LOOP_H
#define HF_LLOYD_LOOP_H

#include "algo/kmeans/fit.h"

/* Iterate from the centroids in fit->centers.current; run->iteration > 0: go on after
 * hf_lloyd_rebuild(). */
hf_status hf_lloyd(struct hf_fit *fit, struct hf_restart *run, const struct hf_restart *best);
/* All rows are in no cluster, the sums are empty. */
hf_status hf_lloyd_clear(struct hf_fit *fit);
/* Labels and sums as they were after iteration run->iteration, from fit->centers.previous. */
hf_status hf_lloyd_rebuild(struct hf_fit *fit);
/* Labels and sums of fit->centers.current, where those of a restart had followed its last ones. */
hf_status hf_lloyd_settle(struct hf_fit *fit);

#endif
