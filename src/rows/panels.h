/* SPDX-License-Identifier: Apache-2.0
 * Panels: parts of the chunks in which rows come, as long as one call of an op takes. */
#ifndef HF_PANELS_H
#define HF_PANELS_H

#include "rows/rows.h"

/* All rows in order, at most `most` of them in a call of fn, which sees them as hf_rows_each()
 * hands them out. Ends with the first failure of fn, or of reading. */
hf_status hf_panels_each(const struct hf_rows *rows, int64_t most, hf_rows_fn *fn, void *job);

#endif
