/* SPDX-License-Identifier: Apache-2.0
 * What the two files of assign's cases share: one makes them, the other judges results. */
#ifndef HF_ASSIGN_CASE_H
#define HF_ASSIGN_CASE_H

#include <holdfast/array.h>
#include <stdbool.h>
#include <stddef.h>

/* The values of m as float64 without gaps, to be freed with hf_free(); NULL when out of memory. */
double *hf_case_widen(const hf_array *m);

/* Are labels, sums, bounds and counts of a call right? As struct hf_op_cases says. */
bool hf_assign_compare(const void *args, void *const *ref, void *const *got, char *why,
                       size_t bytes);

#endif
