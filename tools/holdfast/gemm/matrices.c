/* SPDX-License-Identifier: Apache-2.0 */
#include "gemm/matrices.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int matrix_open(struct matrix *m, hf_context *ctx, uint64_t memory, const char *name) {
    const int code = tool_open(ctx, memory, m->path, name, &m->data);
    if (code != EXIT_DONE)
        return code;
    m->view = *hf_dataset_array(m->data);
    if (m->view.row_stride == 0)
        m->view.row_stride = m->view.cols;
    m->dtype = m->view.dtype;
    return EXIT_DONE;
}

void matrix_close(struct matrix *m) {
    free(m->converted);
    hf_dataset_close(m->data);
}

static const void *row_of(const hf_array *a, int64_t i) {
    return (const char *)a->data + (size_t)(i * a->row_stride) * hf_dtype_bytes(a->dtype);
}

void matrix_copy(void *dst, const hf_array *a) {
    const size_t bytes = (size_t)a->cols * hf_dtype_bytes(a->dtype);
    for (int64_t i = 0; i < a->rows; i++)
        memcpy((char *)dst + (size_t)i * bytes, row_of(a, i), bytes);
}

static int no_memory(const struct matrix *m, hf_dtype dtype) {
    tool_error("no memory for %s as %s", m->path, hf_dtype_name(dtype));
    return EXIT_RESOURCES;
}

/* All of a matrix as F32 or F64: a scaling that does nothing. NULL: no memory. */
static void *widen(hf_context *ctx, const hf_array *a, hf_dtype dtype) {
    void *data = calloc((size_t)a->rows * (size_t)a->cols, hf_dtype_bytes(dtype));
    double *shift = calloc((size_t)a->cols, sizeof *shift);
    double *unit = calloc((size_t)a->cols, sizeof *unit);
    const hf_array out = hf_array_view(data, dtype, a->rows, a->cols);
    bool done = data && shift && unit;
    for (int64_t j = 0; done && j < a->cols; j++)
        unit[j] = 1;
    const hf_scaling same = {.cols = a->cols, .shift = shift, .unit = unit};
    done = done && hf_scaling_apply(ctx, &same, a, &out) == HF_OK;
    free(shift);
    free(unit);
    if (done)
        return data;
    free(data);
    return NULL;
}

/* Whole numbers of float64, in place of them. */
static int narrow(const struct matrix *m, const double *wide, int64_t count, hf_dtype dtype) {
    const double least = dtype == HF_I8 ? INT8_MIN : INT32_MIN;
    const double most = dtype == HF_I8 ? INT8_MAX : INT32_MAX;
    for (int64_t i = 0; i < count; i++) {
        const double v = wide[i];
        if (!(v >= least && v <= most && v == rint(v))) {
            tool_error("%s: row %lld, column %lld (counted from 0) is %g, but as %s only whole "
                       "numbers from %.0f to %.0f can be taken",
                       m->path, (long long)(i / m->view.cols), (long long)(i % m->view.cols), v,
                       hf_dtype_name(dtype), least, most);
            return EXIT_INPUT;
        }
        if (dtype == HF_I8)
            ((int8_t *)m->converted)[i] = (int8_t)v;
        else
            ((int32_t *)m->converted)[i] = (int32_t)v;
    }
    return EXIT_DONE;
}

static int convert_whole(struct matrix *m, hf_context *ctx, hf_dtype dtype) {
    const int64_t count = m->view.rows * m->view.cols;
    double *wide = widen(ctx, &m->view, HF_F64);
    m->converted = calloc((size_t)count, hf_dtype_bytes(dtype));
    const int code = wide && m->converted ? narrow(m, wide, count, dtype) : no_memory(m, dtype);
    free(wide);
    return code;
}

int matrix_convert(struct matrix *m, hf_context *ctx, hf_dtype dtype) {
    if (m->view.dtype == dtype)
        return EXIT_DONE;
    if (dtype == HF_F16 || dtype == HF_BF16) {
        tool_error("%s is of type %s, but the product is %s: save it as %s, or take --out-type f32",
                   m->path, hf_dtype_name(m->dtype), hf_dtype_name(dtype), hf_dtype_name(dtype));
        return EXIT_INPUT;
    }
    if (dtype == HF_I8 || dtype == HF_I32) {
        const int code = convert_whole(m, ctx, dtype);
        if (code != EXIT_DONE)
            return code;
    } else {
        m->converted = widen(ctx, &m->view, dtype);
        if (!m->converted)
            return no_memory(m, dtype);
    }
    m->view = hf_array_view(m->converted, dtype, m->view.rows, m->view.cols);
    return EXIT_DONE;
}

/* ---- sizes */

struct sizes {
    double longest_row, largest;
    double *columns; /* [cols] sums of squares */
};

static void add_row(struct sizes *s, const double *row, int64_t cols) {
    double square = 0;
    for (int64_t j = 0; j < cols; j++) {
        const double v = fabs(row[j]);
        square += v * v;
        s->columns[j] += v * v;
        s->largest = v <= s->largest ? s->largest : v; /* a NaN stays */
    }
    s->longest_row = square <= s->longest_row ? s->longest_row : square;
}

/* Pieces of some rows are widened one after the other. false: no memory. */
static bool measure(const struct matrix *m, hf_context *ctx, struct sizes *s) {
    const int64_t cols = m->view.cols, step = 1 + (1 << 18) / cols;
    s->columns = calloc((size_t)cols, sizeof *s->columns);
    for (int64_t first = 0; s->columns && first < m->view.rows; first += step) {
        hf_array piece = m->view;
        piece.data = (void *)(uintptr_t)row_of(&m->view, first);
        piece.rows = m->view.rows - first < step ? m->view.rows - first : step;
        double *wide = widen(ctx, &piece, HF_F64);
        for (int64_t i = 0; wide && i < piece.rows; i++)
            add_row(s, wide + i * cols, cols);
        free(wide);
        if (!wide)
            return false;
    }
    return s->columns != NULL;
}

double matrix_longest(const struct matrix *m, hf_context *ctx, bool of_columns) {
    struct sizes s = {0};
    const bool known = measure(m, ctx, &s);
    double square = of_columns ? 0 : s.longest_row;
    for (int64_t j = 0; known && of_columns && j < m->view.cols; j++)
        square = s.columns[j] <= square ? square : s.columns[j];
    free(s.columns);
    return known && square < INFINITY ? sqrt(square) : INFINITY;
}

double matrix_largest(const struct matrix *m, hf_context *ctx) {
    struct sizes s = {0};
    const bool known = measure(m, ctx, &s);
    free(s.columns);
    return known && s.largest < INFINITY ? s.largest : INFINITY;
}
