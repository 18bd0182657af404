/* SPDX-License-Identifier: Apache-2.0
 * A matrix as it lies in a file: what .npy, .fvecs, .bvecs and IDX files are once their headers
 * have been read. Its rows can be read in any order. */
#ifndef HF_TABLE_H
#define HF_TABLE_H

#include "io/input.h"

#define HF_TABLE_SCRATCH ((size_t)256 << 10)

/* Element types in files. Those without a hf_dtype of their own are converted exactly: whole
 * numbers of 8 and 16 bits to F32, of 32 and 64 bits to F64, bool to U8. */
enum hf_wire {
    HF_WIRE_F32,
    HF_WIRE_F64,
    HF_WIRE_F16,
    HF_WIRE_BF16,
    HF_WIRE_U8,
    HF_WIRE_BOOL,
    HF_WIRE_I8,
    HF_WIRE_I16,
    HF_WIRE_U16,
    HF_WIRE_I32,
    HF_WIRE_U32,
    HF_WIRE_I64,
    HF_WIRE_U64
};

struct hf_table {
    int64_t rows, cols; /* both at least 1 */
    int64_t offset;     /* of the first row in the content */
    int64_t prefix;     /* bytes before each row: 4, an int32 that must equal cols, or 0 */
    enum hf_wire wire;
    bool big_endian;
    bool fortran; /* element (i, j) is number i + j * rows, not i * cols + j; prefix is 0 */
};

size_t hf_wire_bytes(enum hf_wire wire);
/* The type of the elements in memory, and their name in the file, as NumPy has it. */
hf_dtype hf_wire_dtype(enum hf_wire wire);
const char *hf_wire_name(enum hf_wire wire);

/* *bytes = the length of the whole file, *memory = that of the rows in memory; false when either is
 * beyond 2^63 - 1. */
bool hf_table_size(const struct hf_table *t, int64_t *bytes, int64_t *memory);

/* A table and where it is read from; all borrowed. */
struct hf_table_reader {
    const struct hf_table *table;
    struct hf_input *in;
    unsigned char *scratch; /* [HF_TABLE_SCRATCH] */
};

/* Rows [first, first + count) into dst [count, cols] of hf_wire_dtype(), without gaps. Compressed
 * files: rows in order, each once, and not fortran. */
hf_status hf_table_read(const struct hf_table_reader *reader, int64_t first, int64_t count,
                        void *dst, hf_error *err);

#endif
