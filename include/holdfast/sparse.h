/* SPDX-License-Identifier: Apache-2.0
 * Files that hold a sparse matrix: Matrix Market, and the .npz of scipy.sparse.save_npz(). */
#ifndef HF_SPARSE_H
#define HF_SPARSE_H

#include <holdfast/relax.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A sparse matrix in memory, read from a file; made by hf_sparse_open(). */
typedef struct hf_sparse hf_sparse;

/* What the file said. The texts belong to the library. */
typedef struct hf_sparse_info {
    const char *format;    /* "mtx", "npz" */
    const char *layout;    /* "coordinate", "array"; of .npz "csr", "csc", "coo" */
    const char *field;     /* "real", "integer", "pattern" (all values are 1) */
    const char *symmetry;  /* "general", "symmetric", "skew-symmetric" */
    int64_t file_elements; /* that stand in the file */
    int64_t elements;      /* of the matrix: both triangles; elements of one place are one */
    int64_t duplicates;    /* that were added to another of the same row and column */
} hf_sparse_info;

/* Read a sparse matrix as compressed rows, float64, columns in ascending order.
 * Matrix Market: coordinate and array; real (also "double"), integer (less than 2^53) and pattern;
 * general, symmetric, skew-symmetric, and hermitian where it is real; comments and blank lines
 * anywhere, LF or CR LF, compressed with gzip or not. A symmetric file may store either triangle,
 * not elements of both. The zeros of an array are not stored, those of coordinates are.
 * .npz: csr, csc and coo, stored or deflated; indices of any whole type, values that are real.
 * Elements that stand more than once for one place are added. `path` may be "-" (standard input)
 * for Matrix Market.
 *   memory_bytes  that reading may take, the result included; 0 means the context's limit, but with
 *                 a GPU no more than half of the host's free memory
 * HF_E_ARG no path; HF_E_IO cannot be opened or read; HF_E_NOMEM more memory would be needed;
 * HF_E_DATA malformed, complex, NaN or Inf: the message names the file, the line and what to do.
 * *matrix is NULL on failure; free it with hf_sparse_close(). */
HF_API hf_status hf_sparse_open(hf_context *ctx, const char *path, uint64_t memory_bytes,
                                hf_sparse **matrix);

/* Free a matrix. NULL is allowed. */
HF_API void hf_sparse_close(hf_sparse *matrix);

/* The matrix, for hf_relax_solve(). Belongs to it. */
HF_API const hf_csr *hf_sparse_csr(const hf_sparse *matrix);

/* What the file said. Belongs to the matrix. */
HF_API const hf_sparse_info *hf_sparse_about(const hf_sparse *matrix);

/* Write the matrix to x, HF_F64 of its shape in host memory, zeros included: a right-hand side.
 * HF_E_ARG: x has another type or shape. */
HF_API hf_status hf_sparse_dense(const hf_sparse *matrix, const hf_array *x);

#ifdef __cplusplus
}
#endif
#endif
