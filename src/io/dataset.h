/* SPDX-License-Identifier: Apache-2.0
 * An opened data file, and what a format must provide. A new format is a file here and a line in
 * formats.def. */
#ifndef HF_DATASET_H
#define HF_DATASET_H

#include "io/csv/csv_head.h"
#include "io/input.h"
#include "io/table.h"
#include <holdfast/io.h>

/* What a probe says of the first bytes of a file; the name of the file then decides between equals.
 */
enum hf_probe {
    HF_PROBE_NO = 0,    /* not this format */
    HF_PROBE_MAYBE = 1, /* nothing speaks against it */
    HF_PROBE_LIKELY = 2,
    HF_PROBE_SURE = 3 /* a signature that no other format has */
};

/* What a format's open function fills in: `table` when the file is a matrix behind a header, or
 * `array` with the rows in memory (array.data from hf_alloc) when they had to be parsed. These have
 * the columns that were chosen, and no value that means a missing one. */
struct hf_opened {
    bool is_table;
    struct hf_table table;
    hf_array array;
    int64_t *columns; /* of array: their numbers in the file (hf_alloc) */
    char **names;     /* of all columns of the file, one hf_alloc; NULL: there is no header */
    bool odd_head;    /* the first row of array looks like a header */
};

struct hf_format_limits {
    uint64_t memory_bytes;   /* most that the rows may take in memory */
    bool float64;            /* text becomes F64, not F32 */
    struct hf_csv_wish text; /* columns, header and missing values of what is parsed */
};

typedef enum hf_probe hf_probe_fn(const struct hf_input *in);
/* The locale is "C" during the call. */
typedef hf_status hf_format_open_fn(struct hf_input *in, const struct hf_format_limits *limits,
                                    struct hf_opened *opened, hf_error *err);

#define FORMAT(name, endings, probe, open)                                                         \
    hf_probe_fn probe;                                                                             \
    hf_format_open_fn open;
#include "io/formats.def"
#undef FORMAT

struct hf_format {
    const char *name;
    const char *endings; /* of file names, without .gz, separated by spaces */
    hf_probe_fn *probe;
    hf_format_open_fn *open;
};

/* The format of a file by content, then by name. HF_E_DATA: none, with what it looks like. */
hf_status hf_format_detect(const struct hf_input *in, const char *path,
                           const struct hf_format **format, hf_error *err);

/* What is loaded into the host's memory may take, where the caller says nothing. */
uint64_t hf_io_limit(const hf_context *ctx);

#endif
