/* SPDX-License-Identifier: Apache-2.0
 * Centroids of the last iterations, on the host, with signatures. They tell of a row that stood
 * wrong in memory whether its label would have been another one meanwhile: if not, nothing came of
 * it. */
#ifndef HF_PAST_H
#define HF_PAST_H

#include "algo/kmeans/fit.h"
#include "base/mem.h"

/* Memory for them; none on a device, or where they would take too much beside the rows. */
void hf_past_carve(const struct hf_fit *fit, hf_carve *carve, struct hf_past *past);

/* fit->centers.current, which the ledger has just kept and signed, are what iteration number
 * `iteration` begins with, from 0. first: nothing was packed before. */
void hf_past_keep(struct hf_fit *fit, int iteration, bool first);

/* Are rows that stay packed what was packed? Rows that are not are repaired if they had no part in
 * any label. HF_E_CORRUPT */
hf_status hf_past_check(struct hf_fit *fit);
/* The same before an iteration, where after it it would be too late to tell what came of them. */
hf_status hf_past_check_due(struct hf_fit *fit);
/* Rows that are wrong now: is it certain that they had no part in any label? Then all are packed
 * anew. at_work: in an iteration, whose labels may be wrong: those of such rows become -1. */
bool hf_past_excuses(struct hf_fit *fit, bool at_work);
/* All rows are packed anew, when they were looked at for the last time. */
void hf_past_drop(struct hf_fit *fit);

#endif
