/* SPDX-License-Identifier: Apache-2.0
 * Matrices of files, in memory as a whole, converted where a product asks for it. */
#ifndef MATRICES_H
#define MATRICES_H

#include "tool.h"

struct matrix {
    const char *path;
    hf_dataset *data;
    hf_dtype dtype;  /* of the file as it was read */
    hf_array view;   /* of data, or of converted */
    void *converted; /* owned; NULL where the type was right */
};

/* Open m->path; `name` is what the user calls it ("A", "--add"). Failures are reported; an exit
 * code. */
int matrix_open(struct matrix *m, hf_context *ctx, uint64_t memory, const char *name);

/* Change the type of all elements: f32 and f64 (rounded where that is narrower), or i8 and i32,
 * where numbers that are not whole or too large are refused. Failures are reported; an exit code.
 */
int matrix_convert(struct matrix *m, hf_context *ctx, hf_dtype dtype);

void matrix_close(struct matrix *m); /* all 0 is allowed */

/* The elements of the view, without gaps, to dst. */
void matrix_copy(void *dst, const hf_array *a);

/* Of floats: the greatest Euclidean length of a row or column, the greatest absolute value of an
 * element; INFINITY where there is a NaN, or no memory. */
double matrix_longest(const struct matrix *m, hf_context *ctx, bool of_columns);
double matrix_largest(const struct matrix *m, hf_context *ctx);

#endif
