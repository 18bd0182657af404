/* SPDX-License-Identifier: Apache-2.0
 * What rows are read from: a source that is asked for them, and the numbers that rows have there,
 * where those that take no part (hf_rows.dropped) count too. */
#ifndef HF_SOURCE_H
#define HF_SOURCE_H

#include "rows/rows.h"

/* Ask the source for rows; the message is ended in any case. What it returns is a status for sure:
 * HF_E_IO and words about it where that was none. */
hf_status hf_source_read(const hf_source *source, int64_t first, int64_t count, void *dst,
                         char *message, size_t message_bytes);

/* How many of the dropped rows stand before row `raw`, dropped ones counted. */
int64_t hf_rows_dropped_before(const struct hf_rows *rows, int64_t raw);
/* The number in the source of row i of those that take part. */
int64_t hf_rows_number(const struct hf_rows *rows, int64_t i);

#endif
