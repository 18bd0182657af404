/* SPDX-License-Identifier: Apache-2.0
 * Weighted sums of the rows and columns of a matrix, from which the checks of a product are made.
 * In float64, in any order. */
#ifndef HF_GEMM_SUMS_H
#define HF_GEMM_SUMS_H

#include "core/context.h"
#include "ops/gemm/gemm.h"

#include <math.h>

#ifdef __CUDACC__
#define HF_SUMS_BOTH static __host__ __device__ inline /* on the device, too */
#else
#define HF_SUMS_BOTH static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* row[i] = sum of m[i][j] by_col[j], col[j] = sum of m[i][j] by_row[i]; the sizes are the same of
 * absolute values, with weights of their own. All arrays lie where the matrix lies. */
struct hf_sums_pass {
    struct hf_gemm_view m; /* one of its strides is 1 */
    int64_t rows, cols;
    const double *by_row, *by_row_size; /* [rows]; NULL: 1 */
    const double *by_col, *by_col_size; /* [cols]; NULL: 1 */
    double *row, *row_size;             /* [rows] out; NULL: not wanted */
    double *col, *col_size;             /* [cols] out; likewise */
};

/* On the CPU; in memory of the context's device, where they are added to what is in the arrays. */
hf_status hf_gemm_sums(hf_context *ctx, const struct hf_sums_pass *pass);
hf_status hf_gemm_sums_there(hf_context *ctx, const struct hf_sums_pass *pass);

/* On the stream of a CUDA context; the rows of the matrix lie in one piece. (cuda/sums.cu) */
hf_status hf_gemm_sums_cuda(void *stream, const struct hf_sums_pass *pass);

/* The same pass over the transpose, if that has its rows in one piece. */
struct hf_sums_pass hf_sums_by_rows(const struct hf_sums_pass *pass);

/* Sums that a kernel may make beside the product, in memory of the device, where they are added to
 * what is in the arrays: of rows or of columns of the operands, first those whose weights are 1,
 * then those that have these as weights; of the rows and columns of C. */
#define HF_SUMS_BESIDE 4
#define HF_SUMS_EARLY 2
struct hf_sums_beside {
    struct hf_sums_pass pass[HF_SUMS_BESIDE], c;
    unsigned *next;         /* [2] zeros; lost */
    bool operands, product; /* out: which of them were made */
};

/* A product of which such sums are wanted; order is HF_GEMM_SUMMED, which no other call has. */
#define HF_GEMM_SUMMED ((hf_order)2)
struct hf_gemm_summed {
    hf_gemm_args args;
    struct hf_sums_beside *beside;
};
static inline struct hf_sums_beside *hf_sums_beside_of(const hf_gemm_args *args) {
    return args->order == HF_GEMM_SUMMED
               ? ((const struct hf_gemm_summed *)(const void *)args)->beside
               : NULL;
}

/* How far the sums of a product's lines may be off. */
struct hf_sums_bound {
    int64_t m, n, k;
    double alpha, beta; /* beta 0: C was not read */
    double error, tiny; /* as in hf_gemm_report, of the sums; */
    double rounding;    /* relative, of a C of 16 bits, */
    double summed;      /* of the sums, beside that of float64; */
    double terms;       /* float64 additions one after the other, from operands to the sum */
    bool whole;         /* I8: they are whole numbers */
};

/* Terms of the sums of a pass: on a CPU one after the other; on a GPU 32 rows by a warp or 8
 * columns by a lane, then 8 warps or 5 steps within one, then blocks of 256; twice for operands. */
static inline double hf_sums_terms(const hf_gemm_args *args, bool on_gpu) {
    const double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    return on_gpu ? 96 + (m + n + k) / 256 : m + k + 2 * n + 8;
}

/* Sums on a GPU of numbers of types other than float64 and whole ones: a float32 chain of at most
 * 32 terms, 5 more additions and the rounding of a weight, from below and from above. */
#define HF_SUMS_SHORT_ERROR (64 * 0x1p-24)

/* Sums beside a product: the same with chains of 64 terms. */
#define HF_SUMS_BESIDE_ERROR (160 * 0x1p-24)

/* Of a line of C: what A and B make of its sum, before alpha; what it was, before beta; what it is;
 * each with the size of what was added. */
struct hf_sums_line {
    double want, want_size, old, old_size, found, found_size;
};

/* Line i of n, of which six arrays lie one behind the other. */
HF_SUMS_BOTH struct hf_sums_line hf_sums_line(const double *of, int64_t n, int64_t i) {
    const struct hf_sums_line line = {of[i],         of[n + i],     of[2 * n + i],
                                      of[3 * n + i], of[4 * n + i], of[5 * n + i]};
    return line;
}

/* What the sum of a line should be, and the size of what it is made of. */
HF_SUMS_BOTH double hf_sums_wanted(const struct hf_sums_bound *b, struct hf_sums_line s,
                                   double *size) {
    *size = fabs(b->alpha) * s.want_size + (b->beta != 0 ? fabs(b->beta) * s.old_size : 0);
    return b->beta != 0 ? b->alpha * s.want + b->beta * s.old : b->alpha * s.want;
}

/* How far from it the sum of so many elements may be. A sum by c additions one after the other is
 * off by at most c 2^-52 times the sum of sizes. */
HF_SUMS_BOTH double hf_sums_most(const struct hf_sums_bound *b, int64_t length,
                                 struct hf_sums_line s) {
    double size;
    (void)hf_sums_wanted(b, s, &size);
    const double off = b->terms * 0x1p-52 + b->summed;
    return (b->error * size + b->rounding * s.found_size) * (1 + 2 * b->summed) +
           (double)length * b->tiny + off * (size + s.found_size);
}

/* Can a line of so many elements be right? Sums of I8 are exact below 2^53, and equal modulo
 * 2^32. */
HF_SUMS_BOTH bool hf_sums_plausible(const struct hf_sums_bound *b, int64_t length,
                                    struct hf_sums_line s) {
    double size;
    const double want = hf_sums_wanted(b, s, &size), most = hf_sums_most(b, length, s);
    if (b->whole)
        return size + s.found_size < 0x1p53 && fmod(s.found - want, 0x1p32) == 0;
    return most < (double)INFINITY && fabs(s.found - want) <= most;
}

/* Lines of a product to compare, in memory of the device: six arrays of the rows, six of the
 * columns, of which the pass over C makes the last two each. */
struct hf_sums_check {
    struct hf_sums_bound bound;
    const double *lines;
    unsigned *tickets; /* [hf_sums_tickets()] zeros; lost. NULL: C has been summed */
};

/* 256 rows, or columns, are one group. */
static inline size_t hf_sums_tickets(int64_t m, int64_t n) {
    return (size_t)((m + 255) / 256 + (n + 255) / 256);
}

/* Sum the rows and columns of C; is some line of the product not plausible? Waits for the device.
 * (cuda/sums.cu) */
hf_status hf_gemm_suspects_cuda(void *stream, const struct hf_sums_pass *c,
                                const struct hf_sums_check *check, uint32_t *suspect);

/* Rows [begin, end) of a pass by one worker: the columns are added to `col` and `col_size`. The
 * rows of the matrix lie in one piece. (host/sums_simd.c, once for each instruction set) */
typedef void hf_sums_fn(const struct hf_sums_pass *pass, int64_t begin, int64_t end, double *col,
                        double *col_size);

#ifdef __cplusplus
}
#endif
#endif
