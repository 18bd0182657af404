/* SPDX-License-Identifier: Apache-2.0
 * How many rows one call of an op takes. */
#ifndef HF_PANEL_ROWS_H
#define HF_PANEL_ROWS_H

#include "core/context.h"
#include <holdfast/kmeans.h>

struct hf_data;
struct hf_fit_problem;

/* Must panels and bounds not depend on memory? With HF_FAST the labels may depend on both: on
 * bounds, and on the kernel, which is chosen by the rows of a call. A GPU has too little memory for
 * such a rule: there they depend on it. */
bool hf_memory_is_rigid(const hf_context *ctx, hf_precision precision);

/* Most rows of one call of an op on rows in the host's memory, of d columns. */
int64_t hf_panel_most(const hf_context *ctx, hf_precision precision, int64_t d, hf_dtype dtype);

/* fit->data.panel_rows and fit->data.scan_rows, by where the rows lie (fit->problem.x,
 * fit->data.resident). */
void hf_fit_panels(const struct hf_fit_problem *problem, struct hf_data *data);

#endif
