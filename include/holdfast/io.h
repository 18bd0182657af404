/* SPDX-License-Identifier: Apache-2.0
 * Data files. Reading: .npy, .npz, .fvecs, .bvecs, IDX, CSV/TSV, some of them compressed. Writing:
 * .npy, whole or not at all. */
#ifndef HF_IO_H
#define HF_IO_H

#include <holdfast/array.h>
#include <holdfast/base.h>
#include <holdfast/context.h>
#include <holdfast/prep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open data file; made by hf_dataset_open(). */
typedef struct hf_dataset hf_dataset;

/* Is the first line of a text file one of names? */
typedef enum hf_header {
    HF_HEADER_AUTO = 0, /* when no field of it is a number and one is text, or columns have names */
    HF_HEADER_YES = 1,  /* whatever it holds */
    HF_HEADER_NO = 2    /* never: it is a row */
} hf_header;

/* All zero means default. */
typedef struct hf_open_opts {
    uint64_t memory_bytes; /* rows that take more are not loaded but read in chunks where the format
                              allows it (all but CSV and what is compressed), else HF_E_NOMEM;
                              0 means the context's limit, but with a GPU no more than half of
                              the host's free memory */
    int stream;            /* non-zero: read in chunks even if it would fit; no effect on CSV and
                              compressed files */
    int float64;           /* non-zero: CSV becomes F64 whatever it holds */
    hf_header header;      /* of text */
    const char *columns;   /* to keep, in this order: numbers from 1, ranges and names, as in
                              "2,5-9,age,12-"; a name with a comma, or of digits alone, in double
                              quotes. Other formats have no names. NULL: all */
    const char *skip_columns; /* to leave out of these, the same way; NULL: none */
    const char *missing; /* what means NaN, as in "-9999,?"; text in text files only, a number is
                                  met however it is written; NULL: what hf_dataset_open() says */
    hf_scale scale;      /* scale the columns; hf_dataset_scaling() has the parameters */
    const hf_scaling *scaling; /* scale with these instead: those of an earlier fit */
} hf_open_opts;

/* Open a data file as a matrix; any format but .fvecs and .bvecs may be compressed with gzip. Of a
 * ZIP archive such as .npz, stored or deflated, the only member is read, or with the path
 * "FILE.npz:NAME" the one of that name. "-" is standard input, of any format, all of which is kept
 * in memory while the dataset is open, unless it is a file. The format is told from the content,
 * then from the name. [n, h, w] becomes [n, h * w], one dimension becomes [n, 1]; .npy may be in
 * Fortran order and of either byte order.
 * Elements keep their type where hf_dtype has it ('<V2' is BF16); others are converted exactly:
 * integers of 8 and 16 bits to F32, of 32 and 64 bits to F64 (an error where a value has more than
 * 53 bits), bool to U8. CSV numbers are rounded to the nearest float64, then to F32, unless one
 * beyond 2^24 is not exact in F32: then all are F64. CSV: delimiter , ; tab or spaces; lines that
 * begin with # are comments; fields in double quotes may hold delimiters and line ends; empty
 * fields, NA, NaN, null and the like, as pandas has them, are NaN. Prepared rows (prep.h) are in
 * memory where they fit, else they are prepared anew each time they are read; whole columns of NaN
 * are an error.
 * HF_E_ARG   columns, skip_columns or missing are not to be understood, whatever the file
 * HF_E_IO    cannot be opened or read
 * HF_E_DATA  malformed, or has no such column; the message names file, place and remedy
 * HF_E_NOMEM larger than allowed and not to be read in chunks
 * Free *data with hf_dataset_close(); NULL is allowed there. ctx is used during this call alone. */
HF_API hf_status hf_dataset_open(hf_context *ctx, const char *path, const hf_open_opts *opts,
                                 hf_dataset **data);

/* Close a dataset and free its rows. NULL is allowed. */
HF_API void hf_dataset_close(hf_dataset *data);

/* The rows in memory, or NULL when they are read in chunks. Belongs to the dataset. */
HF_API const hf_array *hf_dataset_array(const hf_dataset *data);
/* The rows as a source, or NULL when they are in memory. Belongs to the dataset. Reading fails with
 * HF_E_IO once the file has been changed. */
HF_API const hf_source *hf_dataset_source(const hf_dataset *data);
/* "npy", "fvecs", "bvecs", "idx" or "csv"; belongs to the library. */
HF_API const char *hf_dataset_format(const hf_dataset *data);
/* What the elements are in the file, before they were converted, as NumPy calls it: "int8",
 * "float32", "bfloat16"; "text" for CSV; belongs to the library. */
HF_API const char *hf_dataset_type(const hf_dataset *data);
/* The number in the file, from 1, of column j of the rows; *name (NULL allowed) is what the header
 * calls it, or NULL without one; belongs to the dataset. 0 for a j that is none. */
HF_API int64_t hf_dataset_column(const hf_dataset *data, int64_t j, const char **name);
/* The parameters of the scaling, NULL without; belong to the dataset. */
HF_API const hf_scaling *hf_dataset_scaling(const hf_dataset *data);
/* What the user should be told, such as that a first line of numbers that was taken for a row looks
 * like a header; "" where there is nothing. Belongs to the dataset. */
HF_API const char *hf_dataset_warning(const hf_dataset *data);

/* Write a matrix as .npy (format 1.0, C order; BF16 is written as the '<V2' numpy and ml_dtypes
 * use). One column is a vector: its shape in the file is (n,). The file appears whole or not at
 * all: temporary file beside it, fsync, rename.
 * HF_E_ARG a has an unknown type or impossible sizes; HF_E_IO with the system's words */
HF_API hf_status hf_write_npy(hf_context *ctx, const char *path, const hf_array *a);

/* The same, but one column keeps the shape (n, 1). */
HF_API hf_status hf_write_npy_matrix(hf_context *ctx, const char *path, const hf_array *a);

/* Write `bytes` bytes to path, whole or not at all, as above. */
HF_API hf_status hf_write_file(hf_context *ctx, const char *path, const void *data, size_t bytes);

/* Could a file be written at path? Begins one and gives it up. Not checked: room on the disk. */
HF_API hf_status hf_write_check(hf_context *ctx, const char *path);

/* Up to 16 files that appear together; made by hf_file_set_create(). Each lies complete under a
 * hidden name beside its place until hf_file_set_commit() renames them all, in the order they were
 * added: put last the file that says that the others are there. */
typedef struct hf_file_set hf_file_set;

/* Begin a set. ctx must outlive it. Free it with hf_file_set_destroy(). */
HF_API hf_status hf_file_set_create(hf_context *ctx, hf_file_set **set);

/* Give up what was not committed, and free the set. NULL is allowed. */
HF_API void hf_file_set_destroy(hf_file_set *set);

/* Add a file as hf_write_npy() would write it. On failure the set is as it was before. */
HF_API hf_status hf_file_set_npy(hf_file_set *set, const char *path, const hf_array *a);

/* The same for hf_write_npy_matrix(). */
HF_API hf_status hf_file_set_npy_matrix(hf_file_set *set, const char *path, const hf_array *a);

/* The same for hf_write_file(). */
HF_API hf_status hf_file_set_file(hf_file_set *set, const char *path, const void *data,
                                  size_t bytes);

/* Add a file piece by piece: begin, append, end, before anything else is added. The file is a .npy
 * of rows x cols elements of a type, C order, and its header is there from the beginning; with
 * HF_DTYPE_NONE and sizes of 0 it is what is appended alone. HF_E_ARG by end: the pieces are not as
 * long as the header promises. On failure the set is as it was before begin. */
HF_API hf_status hf_file_set_begin(hf_file_set *set, const char *path, hf_dtype dtype, int64_t rows,
                                   int64_t cols);
/* The next piece of the file that was begun. */
HF_API hf_status hf_file_set_append(hf_file_set *set, const void *data, size_t bytes);
/* The file that was begun is complete. */
HF_API hf_status hf_file_set_end(hf_file_set *set);

/* Size and CRC-32 (that of gzip and zlib) of the i-th file added; 0 past the last one. */
HF_API int hf_file_set_at(const hf_file_set *set, int i, int64_t *bytes, uint32_t *crc32);

/* Rename all. *appeared (NULL allowed) counts those that have their names: on failure none, unless
 * the system refused a rename after others were done. The set is empty afterwards. */
HF_API hf_status hf_file_set_commit(hf_file_set *set, int *appeared);

#ifdef __cplusplus
}
#endif
#endif
