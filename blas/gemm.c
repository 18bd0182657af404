/* SPDX-License-Identifier: Apache-2.0
 * sgemm and dgemm as BLAS and CBLAS have them, by hf_gemm(). Programs find them before those of
 * their own BLAS if this library is loaded first, and all other functions there. The names with 64
 * take integers of 64 bits; those with scipy_ are what the BLAS in wheels of NumPy and SciPy goes
 * by. Errors are told as BLAS does: xerbla_() or cblas_xerbla() of the program, if it has one, gets
 * the name and the number of the argument. */
#include "process_context.h"

#include <holdfast/gemm.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Those of the program or of its BLAS; NULL: none is visible here. The length of a Fortran string
 * comes last. */
extern void xerbla_(const char *name, const int *position, size_t name_length)
    __attribute__((weak));
extern void cblas_xerbla(int position, const char *name, const char *form, ...)
    __attribute__((weak));
/* In the reference CBLAS, and in what is made to its pattern: not 0 while cblas_xerbla() is told
 * positions of the product of the transposes, from which it works out the caller's. */
extern int RowMajorStrg __attribute__((weak));

enum { CBLAS_ROWS = 101, CBLAS_COLUMNS = 102 };
enum { CBLAS_PLAIN = 111, CBLAS_TRANS = 112, CBLAS_CONJUGATE = 113 };

static int64_t at_least_1(int64_t n) { return n > 1 ? n : 1; }

/* The position, among Fortran's arguments, of the first one that is wrong; 0: none is. */
static int wrong_size(const hf_gemm_args *args) {
    const bool by_rows = args->order == HF_ROW_MAJOR;
    const int64_t a = (args->trans_a != 0) == by_rows ? args->m : args->k;
    const int64_t b = (args->trans_b != 0) == by_rows ? args->k : args->n;
    if (args->m < 0)
        return 3;
    if (args->n < 0)
        return 4;
    if (args->k < 0)
        return 5;
    if (args->lda < at_least_1(a))
        return 8;
    if (args->ldb < at_least_1(b))
        return 10;
    return args->ldc < at_least_1(by_rows ? args->n : args->m) ? 13 : 0;
}

/* BLAS has no way to say that a product could not be computed, or is wrong, and the program would
 * go on with what C holds: so it ends. */
static void multiply(const hf_gemm_args *args) {
    hf_context *ctx = blas_borrow();
    hf_gemm_faults found = {.confirmed = 0};
    if (hf_gemm_guarded(ctx, args, blas_guard(), &found, NULL) != HF_OK) {
        (void)fprintf(stderr, "holdfast_blas: %s\n", hf_last_error(ctx));
        abort();
    }
    if (found.confirmed > 0)
        (void)fprintf(stderr, "holdfast_blas: wrong arithmetic: %lld elements were put right\n",
                      (long long)found.repaired);
    blas_return();
}

static void tell_fortran(const char *name, int position) {
    if (xerbla_ != NULL)
        xerbla_(name, &position, strlen(name));
    else
        (void)fprintf(stderr, " ** On entry to %s parameter number %2d had an illegal value\n",
                      name, position);
}

/* An argument of CBLAS in the product of the transposes: m and n change places, lda and ldb. */
static int position_by_columns(int position) {
    static const int other[] = {[4] = 5, [5] = 4, [9] = 11, [11] = 9};
    return position < 12 && other[position] != 0 ? other[position] : position;
}

static void tell_cblas(const char *name, int position, bool by_rows) {
    int *const turned = &RowMajorStrg;
    if (cblas_xerbla != NULL && turned != NULL && by_rows) {
        *turned = 1;
        cblas_xerbla(position_by_columns(position), name, "");
        *turned = 0;
    } else if (cblas_xerbla != NULL)
        cblas_xerbla(position, name, "");
    else
        (void)fprintf(stderr, "Parameter %d to routine %s was incorrect\n", position, name);
}

/* 0, 1: transposed; -1: neither. */
static int fortran_trans(char letter) {
    switch (letter) {
    case 'n':
    case 'N':
        return 0;
    case 't':
    case 'T':
    case 'c':
    case 'C':
        return 1;
    default:
        return -1;
    }
}

static int cblas_trans(int value) {
    return value == CBLAS_PLAIN ? 0 : value == CBLAS_TRANS || value == CBLAS_CONJUGATE ? 1 : -1;
}

static void fortran_gemm(const char *name, hf_gemm_args *args, const char *trans_a,
                         const char *trans_b) {
    args->order = HF_COL_MAJOR;
    args->trans_a = fortran_trans(*trans_a);
    args->trans_b = fortran_trans(*trans_b);
    const int wrong = args->trans_a < 0 ? 1 : args->trans_b < 0 ? 2 : wrong_size(args);
    if (wrong != 0)
        tell_fortran(name, wrong);
    else
        multiply(args);
}

/* CBLAS has the order of the matrices in front of Fortran's arguments. */
static int wrong_c(hf_gemm_args *args, int order, const int trans[2]) {
    if (order != CBLAS_ROWS && order != CBLAS_COLUMNS)
        return 1;
    args->order = order == CBLAS_ROWS ? HF_ROW_MAJOR : HF_COL_MAJOR;
    args->trans_a = cblas_trans(trans[0]);
    args->trans_b = cblas_trans(trans[1]);
    if (args->trans_a < 0 || args->trans_b < 0)
        return args->trans_a < 0 ? 2 : 3;
    const int wrong = wrong_size(args);
    return wrong == 0 ? 0 : 1 + wrong;
}

static void c_gemm(const char *name, hf_gemm_args *args, int order, const int trans[2]) {
    const int wrong = wrong_c(args, order, trans);
    if (wrong != 0)
        tell_cblas(name, wrong, order == CBLAS_ROWS);
    else
        multiply(args);
}

/* A Fortran function and one of C for a type of numbers and one of integers. The lengths of
 * Fortran's two strings, which come last, are not looked at. */
#define GEMM(real, dtype_, integer, fortran, cblas, upper)                                         \
    EXPORT void fortran(const char *trans_a, const char *trans_b, const integer *m,                \
                        const integer *n, const integer *k, const real *alpha, const real *a,      \
                        const integer *lda, const real *b, const integer *ldb, const real *beta,   \
                        real *c, const integer *ldc);                                              \
    void fortran(const char *trans_a, const char *trans_b, const integer *m, const integer *n,     \
                 const integer *k, const real *alpha, const real *a, const integer *lda,           \
                 const real *b, const integer *ldb, const real *beta, real *c,                     \
                 const integer *ldc) {                                                             \
        hf_gemm_args args = {.m = *m,                                                              \
                             .n = *n,                                                              \
                             .k = *k,                                                              \
                             .dtype = (dtype_),                                                    \
                             .alpha = (double)*alpha,                                              \
                             .beta = (double)*beta,                                                \
                             .a = a,                                                               \
                             .b = b,                                                               \
                             .c = c,                                                               \
                             .lda = *lda,                                                          \
                             .ldb = *ldb,                                                          \
                             .ldc = *ldc};                                                         \
        fortran_gemm(upper, &args, trans_a, trans_b);                                              \
    }                                                                                              \
    EXPORT void cblas(int order, int trans_a, int trans_b, integer m, integer n, integer k,        \
                      real alpha, const real *a, integer lda, const real *b, integer ldb,          \
                      real beta, real *c, integer ldc);                                            \
    void cblas(int order, int trans_a, int trans_b, integer m, integer n, integer k, real alpha,   \
               const real *a, integer lda, const real *b, integer ldb, real beta, real *c,         \
               integer ldc) {                                                                      \
        hf_gemm_args args = {.m = m,                                                               \
                             .n = n,                                                               \
                             .k = k,                                                               \
                             .dtype = (dtype_),                                                    \
                             .alpha = (double)alpha,                                               \
                             .beta = (double)beta,                                                 \
                             .a = a,                                                               \
                             .b = b,                                                               \
                             .c = c,                                                               \
                             .lda = lda,                                                           \
                             .ldb = ldb,                                                           \
                             .ldc = ldc};                                                          \
        c_gemm(#cblas, &args, order, (const int[2]){trans_a, trans_b});                            \
    }

GEMM(float, HF_F32, int32_t, sgemm_, cblas_sgemm, "SGEMM ")
GEMM(double, HF_F64, int32_t, dgemm_, cblas_dgemm, "DGEMM ")
GEMM(float, HF_F32, int32_t, scipy_sgemm_, scipy_cblas_sgemm, "SGEMM ")
GEMM(double, HF_F64, int32_t, scipy_dgemm_, scipy_cblas_dgemm, "DGEMM ")
GEMM(float, HF_F32, int64_t, sgemm_64_, cblas_sgemm64_, "SGEMM ")
GEMM(double, HF_F64, int64_t, dgemm_64_, cblas_dgemm64_, "DGEMM ")
GEMM(float, HF_F32, int64_t, scipy_sgemm_64_, scipy_cblas_sgemm64_, "SGEMM ")
GEMM(double, HF_F64, int64_t, scipy_dgemm_64_, scipy_cblas_dgemm64_, "DGEMM ")
