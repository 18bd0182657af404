/* SPDX-License-Identifier: Apache-2.0
 * The labels of a fit, on the host and on the device. */
#ifndef HF_KMEANS_LABELS_H
#define HF_KMEANS_LABELS_H

#include "algo/kmeans/fit.h"

/* Take memory for the labels on the device. Without a device, or without room, nothing is done. */
void hf_labels_open(const struct hf_fit_problem *problem, struct hf_labels *labels);
/* Free it. Labels that the host has not fetched are lost. */
void hf_labels_close(const struct hf_fit_problem *problem, struct hf_labels *labels);
/* All rows are in no cluster. */
hf_status hf_labels_clear(const struct hf_fit_problem *problem, struct hf_labels *labels);
/* *at: where ops are to read and write them, with the newest labels. */
hf_status hf_labels_for_ops(const struct hf_fit_problem *problem, struct hf_labels *labels,
                            int32_t **at);
/* Ops have written them there. */
void hf_labels_by_ops(struct hf_labels *labels);
/* The host has written fit->labels.host, which were the last ones. */
void hf_labels_by_host(struct hf_labels *labels);
/* Copy the newest labels to fit->labels.host. */
hf_status hf_labels_fetch(const struct hf_fit_problem *problem, struct hf_labels *labels);
/* The same beside calls that are queued between the two, which do not write labels. */
hf_status hf_labels_start_fetch(const struct hf_fit_problem *problem, struct hf_labels *labels);
hf_status hf_labels_end_fetch(const struct hf_fit_problem *problem, struct hf_labels *labels);
/* Have the system give the pages of fit->labels.host now, where its contents are old anyway. */
void hf_labels_touch(const struct hf_fit_problem *problem, struct hf_labels *labels);
/* Are labels [first, first + count) of the host numbers of clusters? */
hf_status hf_labels_check(const struct hf_fit_problem *problem, const struct hf_labels *labels,
                          int64_t first, int64_t count);
/* The same of all labels. On the device the check starts between hf_ctx_begin_calls() and
 * hf_ctx_end_calls() and ends after that; where it was not started, the host checks its copy. */
hf_status hf_labels_start_check(const struct hf_fit_problem *problem, struct hf_labels *labels);
hf_status hf_labels_end_check(const struct hf_fit_problem *problem, struct hf_labels *labels);
/* A check found the label of this row outside: HF_E_CORRUPT, and the guard is told. */
hf_status hf_labels_outside(const struct hf_fit_problem *problem, int64_t row);

#endif
