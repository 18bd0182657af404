/* SPDX-License-Identifier: Apache-2.0
 * The header of a .npy file: a Python dictionary, read by a parser that knows nothing else. */
#ifndef HF_NPY_HEADER_H
#define HF_NPY_HEADER_H

#include "base/status.h"
#include <stdbool.h>

#define HF_NPY_MAX_DIMS 64 /* NumPy 2 allows as many */

struct hf_npy_header {
    char descr[64]; /* "<f4"; cut when longer, "[" for a structured type */
    bool fortran;
    int dims;
    int64_t shape[HF_NPY_MAX_DIMS];
};

/* Parse `bytes` bytes of text. `name` and `offset` (of the text in the file) are for messages. */
hf_status hf_npy_parse(struct hf_npy_header *h, const char *text, size_t bytes, const char *name,
                       int64_t offset, hf_error *err);

#endif
