/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HF_CORE_ARRAY_H
#define HF_CORE_ARRAY_H

#include "base/status.h"
#include <holdfast/array.h>

/* Is `a` a usable view: not NULL, a known dtype, rows and cols >= 1, row_stride 0 or >= cols, and
 * all of its bytes below 2^63? `what` names it in the message ("weights"). */
hf_status hf_array_check(const hf_array *a, const char *what, hf_error *err);

/* Elements from one row to the next. */
static inline int64_t hf_array_stride(const hf_array *a) {
    return a->row_stride != 0 ? a->row_stride : a->cols;
}

/* First element of row i. */
const void *hf_array_row(const hf_array *a, int64_t i);

/* Rows [first, first + count) as a view. */
hf_array hf_array_slice(const hf_array *a, int64_t first, int64_t count);

#endif
