/* SPDX-License-Identifier: Apache-2.0
 * Where the data of a problem lie: copied to the device once, so that no call copies them again.
 * On the CPU nothing moves. */
#ifndef HF_RESIDENT_H
#define HF_RESIDENT_H

#include "core/context.h"
#include <holdfast/array.h>

struct hf_reader;

/* Rows on the device: `array` is a view of them, `owned` the copy, if one was made. Or the reader
 * that brings them there panel by panel. On the CPU there is neither. */
struct hf_resident {
    void *owned;
    hf_array array;
    const hf_array *origin; /* the caller's, of which owned is a copy; NULL: nobody has it */
    struct hf_reader *reader;
};

/* Let *x point to r->array and *source be NULL when the rows lie on the device, or are to stay
 * there as a whole: if they and what kernels need for each of them fit into the memory allowed.
 * Else leave both and make a reader. Free with hf_resident_clear(), on failure too. */
hf_status hf_resident_take(hf_context *ctx, const hf_array **x, const hf_source **source,
                           struct hf_resident *r);

/* Leave the rows dropped[0..count), ascending, out of r->array, on the device. */
hf_status hf_resident_drop(hf_context *ctx, struct hf_resident *r, const int64_t *dropped,
                           int64_t count);

/* Copy the rows to the device once more: what lies there may have changed. */
hf_status hf_resident_refresh(hf_context *ctx, const struct hf_resident *r);

void hf_resident_clear(hf_context *ctx, struct hf_resident *r);

/* Bytes that kernels on a device need for a row of d columns beside the row itself. */
uint64_t hf_resident_row_bytes(hf_dtype dtype, int64_t d);

#endif
