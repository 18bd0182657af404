/* SPDX-License-Identifier: Apache-2.0
 * The end of a restart: labels, centroids and inertia that belong together. */
#ifndef HF_KMEANS_FINISH_H
#define HF_KMEANS_FINISH_H

#include "algo/kmeans/fit.h"

/* Whose the labels that come in are. */
enum hf_finish_labels {
    HF_LABELS_OLD,    /* those of other centroids */
    HF_LABELS_FRESH,  /* those of fit->centers.current */
    HF_LABELS_CONFIRM /* the same; all rows are looked at again, as bounds decided some of them, or
                         hf_finish_confirms() */
};

/* On a device nothing else looks at the scores of rows that stay: are last labels found twice? */
bool hf_finish_confirms(const struct hf_fit *fit);

/* Labels, unless they are fresh, sizes and exact inertia of fit->centers.current; verify: also
 * check that the sums are those of the labels that came in. HF_E_CORRUPT */
hf_status hf_finish(struct hf_fit *fit, enum hf_finish_labels labels, bool verify, double *inertia);

/* Says that sums from which all rows were taken are not 0; gives HF_E_CORRUPT. */
hf_status hf_sums_are_wrong(const struct hf_fit_problem *problem);
/* Labels of the rows that take part -> labels of all rows, -1 for dropped ones. */
void hf_expand_labels(const struct hf_fit_problem *problem, const struct hf_data *data,
                      const struct hf_labels *labels);

#endif
