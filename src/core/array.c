/* SPDX-License-Identifier: Apache-2.0 */
#include "core/array.h"

#include "base/mem.h"

#include <inttypes.h>

hf_status hf_array_check(const hf_array *a, const char *what, hf_error *err) {
    if (a == NULL || a->data == NULL)
        return hf_fail(err, HF_E_ARG, "%s is NULL", what);
    if (hf_dtype_bytes(a->dtype) == 0)
        return hf_fail(err, HF_E_ARG, "%s has the unknown dtype %d; use one of hf_dtype", what,
                       (int)a->dtype);
    if (a->rows < 1 || a->cols < 1)
        return hf_fail(err, HF_E_ARG, "%s is %" PRId64 " x %" PRId64 "; both must be at least 1",
                       what, a->rows, a->cols);
    if (a->row_stride != 0 && a->row_stride < a->cols)
        return hf_fail(err, HF_E_ARG,
                       "%s has a row_stride of %" PRId64 " elements, less than its %" PRId64
                       " columns; 0 means no gaps",
                       what, a->row_stride, a->cols);
    size_t bytes = 0;
    if (!hf_mul3_size(a->rows, hf_array_stride(a), (int64_t)hf_dtype_bytes(a->dtype), &bytes) ||
        bytes > SIZE_MAX / 2)
        return hf_fail(err, HF_E_ARG,
                       "%s is %" PRId64 " x %" PRId64 " with a row_stride of %" PRId64
                       ": more bytes than an address can reach",
                       what, a->rows, a->cols, hf_array_stride(a));
    return HF_OK;
}

const void *hf_array_row(const hf_array *a, int64_t i) {
    return (const char *)a->data + (size_t)(i * hf_array_stride(a)) * hf_dtype_bytes(a->dtype);
}

hf_array hf_array_slice(const hf_array *a, int64_t first, int64_t count) {
    hf_array slice = *a;
    slice.data = (char *)a->data + (size_t)(first * hf_array_stride(a)) * hf_dtype_bytes(a->dtype);
    slice.rows = count;
    slice.row_stride = hf_array_stride(a);
    return slice;
}
