/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checksum/checksum.h"
#include "base/dtype.h"
#include "base/file.h"
#include <holdfast/dev.h>

static uint32_t crc_of(uint32_t crc, const char *data, size_t bytes) {
    const size_t words = (uintptr_t)data % sizeof(uint32_t) == 0 ? bytes / sizeof(uint32_t) : 0;
    crc = hf_crc32c_words(crc, (const void *)data, (int64_t)words);
    return hf_crc32c(crc, data + words * sizeof(uint32_t), bytes - words * sizeof(uint32_t));
}

uint32_t hf_dev_array_crc(const hf_array *x) {
    const size_t element = hf_dtype_bytes(x->dtype), row = (size_t)x->cols * element;
    const size_t step = x->row_stride ? (size_t)x->row_stride * element : row;
    uint32_t crc = 0;
    if (step == row)
        return crc_of(crc, x->data, (size_t)x->rows * row);
    for (int64_t i = 0; i < x->rows; i++)
        crc = crc_of(crc, (const char *)x->data + (size_t)i * step, row);
    return crc;
}
