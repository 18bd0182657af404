/* SPDX-License-Identifier: Apache-2.0
 * The labels of a fit, on the host and on the device. */
#ifndef HF_KMEANS_LABELS_H
#define HF_KMEANS_LABELS_H

#include "algo/kmeans/fit.h"

/* Take memory for them on the device, where it has any; else nothing is done. */
void hf_labels_open(const struct hf_problem *problem, struct hf_labels *labels);
/* Give it back: what was not brought to the host is lost. */
void hf_labels_close(const struct hf_problem *problem, struct hf_labels *labels);
/* All rows are in no cluster. */
hf_status hf_labels_clear(const struct hf_problem *problem, struct hf_labels *labels);
/* Where ops are to read and write them. */
hf_status hf_labels_for_ops(const struct hf_problem *problem, struct hf_labels *labels,
                            int32_t **at);
/* Ops have written them there. */
void hf_labels_by_ops(struct hf_labels *labels);
/* The host has written fit->labels.host, which were the last ones. */
void hf_labels_by_host(struct hf_labels *labels);
/* fit->labels.host are the last ones. now: without waiting for calls that were queued and do not
 * write labels. */
hf_status hf_labels_bring(const struct hf_problem *problem, struct hf_labels *labels, bool now);
/* Have memory for them on the host, if what is there counts no more. */
void hf_labels_touch(const struct hf_problem *problem, struct hf_labels *labels);
/* Are labels [first, first + count) of the host numbers of clusters? */
hf_status hf_labels_check(const struct hf_problem *problem, const struct hf_labels *labels,
                          int64_t first, int64_t count);
/* The same of all, where they are: asked on the device between hf_ctx_begin_calls() and
 * hf_ctx_end_calls(), known after that; without the question the host looks. */
hf_status hf_labels_ask(const struct hf_problem *problem, struct hf_labels *labels);
hf_status hf_labels_answer(const struct hf_problem *problem, struct hf_labels *labels);

#endif
