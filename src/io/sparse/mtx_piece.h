/* SPDX-License-Identifier: Apache-2.0
 * Some lines of a Matrix Market file, parsed by one thread. */
#ifndef HF_MTX_PIECE_H
#define HF_MTX_PIECE_H

#include "io/sparse/sparse.h"

enum hf_mtx_error {
    HF_MTX_FINE,
    HF_MTX_FEW, /* numbers on the line */
    HF_MTX_MANY,
    HF_MTX_INDEX, /* is no whole number */
    HF_MTX_ZERO,  /* as an index: they begin with 1 */
    HF_MTX_ROW,   /* beyond the last */
    HF_MTX_COLUMN,
    HF_MTX_VALUE,    /* is no number */
    HF_MTX_INFINITE, /* or NaN */
    HF_MTX_WHOLE,    /* should be, or is not exact in float64 */
    HF_MTX_DIAGONAL  /* of a skew-symmetric matrix */
};

struct hf_mtx_piece {
    const struct hf_mtx_head *head;
    char *begin, *end;  /* whole lines; *end may be written to and is restored */
    int64_t most;       /* elements that there is room for */
    int32_t *row, *col; /* [most], from 0; not of an array */
    double *value;      /* [most] */
    int64_t count;
    int64_t lines;       /* in [begin, end) */
    int64_t lower;       /* elements below the diagonal */
    int64_t first_upper; /* number of the first element above it; -1: none */
    enum hf_mtx_error error;
    int64_t bad_line; /* from 1, within the piece */
    char bad[48];     /* the line, cut and printable */
};

/* Fill in everything from `count` on. Lines behind a bad one are not parsed. */
void hf_mtx_parse(struct hf_mtx_piece *p);

/* The line of an element, from 1, within the piece. */
int64_t hf_mtx_line_of(const struct hf_mtx_piece *p, int64_t element);

/* p->error in words; `before`: lines before the piece. HF_E_DATA */
hf_status hf_mtx_explain(const struct hf_mtx_piece *p, int64_t before, const char *name,
                         hf_error *err);

#endif
