/* SPDX-License-Identifier: Apache-2.0
 * Rows that do not fit into the memory of a device, copied to it panel by panel: while kernels work
 * on one panel, the next ones are copied. Panels for which there is memory stay; they are
 * spread evenly among the others, so that the copies never wait for long. Rows in locked memory are
 * copied from where they lie; others, and those of a source, are first read into locked memory by a
 * thread of the reader. */
#ifndef HF_READER_H
#define HF_READER_H

#include "rows/rows.h"

/* Rows of `x` or of `source`, which must outlive the reader and are read from its thread until
 * hf_reader_pause(). *reader is NULL after a failure. */
hf_status hf_reader_open(hf_context *ctx, const hf_array *x, const hf_source *source,
                         struct hf_reader **reader);
void hf_reader_close(struct hf_reader *reader); /* NULL is allowed */

/* Most rows that it hands out at once. */
int64_t hf_reader_panel_rows(const struct hf_reader *reader);

/* Leave as many panels on the device as there is room for beside `spare` bytes, from the next pass
 * on. UINT64_MAX: none. */
hf_status hf_reader_cache(struct hf_reader *reader, uint64_t spare);

/* End all reading ahead; the next pass begins it anew. */
void hf_reader_pause(struct hf_reader *reader);

/* hf_rows_each() of rows that have a reader: all rows that take part in order, on the device, at
 * most rows->chunk_rows at once. */
hf_status hf_reader_each(struct hf_reader *reader, const struct hf_rows *rows, hf_rows_fn *fn,
                         void *job);

#endif
