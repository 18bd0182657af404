/* SPDX-License-Identifier: Apache-2.0
 * The end of an iteration, whoever made its labels and sums: its checks, the new centroids,
 * its entry in the history, the progress report. */
#ifndef HF_KMEANS_ITERATION_H
#define HF_KMEANS_ITERATION_H

#include "algo/kmeans/fit.h"

/* Each row is in one cluster by the sums of iteration `iteration`, counted from 1; else
 * HF_E_CORRUPT. */
hf_status hf_iteration_check_counts(const struct hf_fit_problem *problem,
                                    const struct hf_centers *centers, int iteration);

/* New centroids from labels and sums, whose inertia it->inertia is checked first: sets it->empty,
 * it->shift and, where the fit ends, run->stop. stepped: hf_centers_step() has made the centroids
 * and it->shift. HF_E_CORRUPT: the inertia rose; HF_E_DATA: a cluster is empty, and the options
 * refuse that. */
hf_status hf_iteration_conclude(struct hf_fit *fit, struct hf_restart *run, hf_kmeans_iteration *it,
                                bool stepped);

/* Add the iteration, which began at `begin` (hf_now_s()), to the history; counts it. HF_E_NOMEM */
hf_status hf_iteration_record(const struct hf_fit_problem *problem, struct hf_restart *run,
                              double begin, hf_kmeans_iteration *it);

/* Tell the caller's progress function of the last iteration; run->cancelled: it said stop, on this
 * rank or another. */
hf_status hf_iteration_report(const struct hf_fit_problem *problem,
                              const struct hf_weights *weights, struct hf_restart *run);

#endif
