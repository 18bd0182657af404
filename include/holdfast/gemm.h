/* SPDX-License-Identifier: Apache-2.0
 * Products of matrices whose bits do not depend on what is computed beside them. */
#ifndef HF_GEMM_H
#define HF_GEMM_H

#include <holdfast/base.h>
#include <holdfast/context.h>
#include <holdfast/guard.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a matrix lies in memory. */
typedef enum hf_order {
    HF_ROW_MAJOR = 0, /* element (i, j) is element i * ld + j */
    HF_COL_MAJOR = 1  /* element (i, j) is element i + j * ld */
} hf_order;

/* A fault that a signed product makes on purpose, so that it can be proved that it is seen. */
typedef enum hf_gemm_plant {
    HF_GEMM_PLANT_NONE = 0,
    HF_GEMM_PLANT_A = 1,    /* a staged word of op(A) changes after it was signed */
    HF_GEMM_PLANT_SUM = 2,  /* a sum changes before it is signed */
    HF_GEMM_PLANT_UNIT = 3, /* on one multiprocessor of a GPU a sum of one lane changes in each tile
                               before it is signed; CPUs ignore it */
    /* Of kernels of a GPU by those for float32 and float64 alone, the others ignore them: */
    HF_GEMM_PLANT_CARRY = 4,   /* a sum is off by 2^bit as a word, before it is signed */
    HF_GEMM_PLANT_ADDRESS = 5, /* a staged word of op(A) is replaced, after it was signed, by that
                                  of the row whose number in the tile differs in one bit */
    HF_GEMM_PLANT_STUCK = 6,   /* a bit of every 32nd staged word of op(A) is 1 after the signing,
                                  as from a lane that has it stuck */
    HF_GEMM_PLANT_DROPPED = 7  /* the tile of an element of C is not computed */
} hf_gemm_plant;

/* The signature of one tile of C, and who computed it. */
typedef struct hf_gemm_tile {
    uint64_t c;      /* signature of its sums */
    int64_t batch;   /* number of the product, */
    int64_t row;     /* first row of the tile in it, */
    int64_t col;     /* and first column */
    int32_t unit;    /* multiprocessor of a GPU, worker of the CPU; -1: nobody computed it */
    int32_t changed; /* 1: with L, what was staged for it changed before it was used */
    uint64_t a;      /* signatures of what it staged of op(A) */
    uint64_t b;      /* and op(B), which tiles share; 0 on a CPU */
} hf_gemm_tile;

/* Execution signatures of a product: of every word of op(A) and op(B) as it is staged for the
 * arithmetic (T), and of every sum before alpha and beta (O). Runs with equal arguments, kernel and
 * number of threads (up to 8, or above) have equal signatures; a bit that differs in an operand or
 * a sum gives others. C has the same bits as without them. */
typedef struct hf_gemm_signatures {
    const char *checksum; /* in: a name that hf_gemm_checksum() gives; NULL means "crc32c" */
    int release;          /* in: sign what is staged once more when it was used, too (L): if the two
                             differ the call gives HF_E_CORRUPT */
    hf_gemm_plant plant;  /* in */
    int64_t plant_at;     /* in: bit of element plant_at / 32 of op(A) or C, counted by rows; of a
                             sum on multiprocessor plant_at / 32 */
    uint64_t a;           /* out: of op(A), */
    uint64_t b;           /* of op(B), */
    uint64_t c;           /* of the sums */
    int64_t panels;       /* out: parts of operands that were staged and signed */
    int64_t tiles;        /* out: parts of C whose sums were signed */
    hf_gemm_tile *tile;   /* out: [tiles] one for each, so that the place of a fault is known; NULL:
                             not wanted */
    int64_t tile_room;    /* in: of tile; hf_gemm_most_tiles() is enough */
    int64_t plant_step; /* in: from plant_at of a product of a batch to that of the next, on a GPU;
                             0: the first one alone has a fault */
} hf_gemm_signatures;

/* C = alpha op(A) op(B) + beta C, for each of `batch` triples of matrices in host memory or, all of
 * them, in memory of the context's device.
 *
 * op(A) is m x k, op(B) is k x n, C is m x n; op(X) is X or, with trans_x, its transpose, so that A
 * as stored is m x k or k x m. A and B have one type, C may have another:
 *
 *   A and B     C             computed in
 *   F32         F32           float32
 *   F64         F64           float64
 *   F16, BF16   the same,     float32; a C of 16 bits is rounded once, at the end
 *               or F32
 *   I8          I32           int32 modulo 2^32: exact up to k = 131071
 *
 * As in BLAS, A and B are not read if alpha or k is 0, C is not read if beta is 0, and C is left as
 * it is if beta is 1 as well. alpha and beta are rounded to the type computed in; for I8 they must
 * be whole numbers that fit into int32. C shares no memory with A and B.
 *
 * An element of C depends on its row of op(A), its column of op(B), its own value before, k, alpha,
 * beta and the types alone: not on m, n, batch, order, leading dimensions, addresses, threads or
 * the instruction set. With s_b the sum of products p = 256 b .. 256 b + 255 as a chain of fused
 * multiply-adds in that order, from 0, and t = ((s_0 + s_1) + s_2) + ..., it is
 * fma(alpha, t, beta C), or alpha t if beta is 0. Each NaN is the positive quiet NaN without a
 * payload. The rounding mode and flush-to-zero mode of the caller are not looked at. */
typedef struct hf_gemm_args {
    hf_order order;   /* of A, B and C */
    int trans_a;      /* A is stored as its transpose */
    int trans_b;      /* B is stored as its transpose */
    int64_t m;        /* rows of C, at least 0 */
    int64_t n;        /* columns of C, at least 0 */
    int64_t k;        /* products of a sum, at least 0 */
    hf_dtype dtype;   /* of A and B */
    hf_dtype dtype_c; /* of C; 0 means that of A and B, I32 for I8 */
    double alpha;     /* factor of the product */
    double beta;      /* factor of C as it was */
    const void *a;    /* NULL is allowed where it is not read */
    const void *b;    /* the same */
    void *c;          /* NULL is allowed where m or n is 0 */
    int64_t lda;      /* elements from one row of A as stored to the next, from one column to the
                         next with HF_COL_MAJOR; 0 means no gaps */
    int64_t ldb;      /* the same of B */
    int64_t ldc;      /* the same of C */
    int64_t batch;    /* 0 means 1 */
    int64_t stride_a; /* elements from one A to the next; 0 means the same A for all */
    int64_t stride_b; /* the same of B */
    int64_t stride_c; /* at least a whole C if batch is above 1, since no two may overlap */
    hf_gemm_signatures *signatures; /* written on HF_OK and HF_E_CORRUPT; NULL: none */
    int portable; /* F16 and BF16: 1: as described above; 0: by tensor cores of a GPU, BF16 by AMX
                     of a CPU, where there are any: many times as fast, with roundings of their
                     own, which hf_gemm_report.arithmetic names. Elsewhere there is no choice */
} hf_gemm_args;

/* What a product was computed with. */
typedef struct hf_gemm_report {
    char arithmetic[48]; /* "f32 FMA chain, blocks of 256": equal names, equal bits; "none" where
                            nothing was multiplied */
    char kernel[64];     /* the kernel that ran */
    double seconds;      /* of the call */
    double error;        /* |C - exact C| <= error * (|alpha| |A| |B| + |beta C|) + tiny for each
                            element, unless the calculation overflows */
    double tiny;         /* from products that underflow, and from the type of C */
    uint64_t workspace_bytes; /* held beside the matrices */
} hf_gemm_report;

/* Compute. report may be NULL; it is written on HF_OK only.
 * HF_E_ARG    a dimension below 0, a leading dimension or stride that is too small, a type or pair
 *             of types that is not in the table, NULL for a matrix that is needed
 * HF_E_CORRUPT  signatures: what was staged changed before it was used
 * HF_E_UNSUPPORTED  signatures: no kernel of this machine makes them
 * HF_E_NOMEM  the workspace does not fit the context's memory limit
 * HF_E_BUSY   the context is at work for another call */
HF_API hf_status hf_gemm(hf_context *ctx, const hf_gemm_args *args, hf_gemm_report *report);

/* The most tiles that a kernel makes of such products. */
HF_API int64_t hf_gemm_most_tiles(int64_t m, int64_t n, int64_t batch);

/* What the checks of a guarded product found. */
typedef struct hf_gemm_faults {
    int64_t lines;     /* rows and columns of C that were checked */
    int64_t suspected; /* of them: the sum contradicts that of A and B by more than rounding can */
    int64_t confirmed; /* of them: computed again by another kernel they have other bits */
    int64_t repaired;  /* elements that were put right */
    int64_t row;       /* the first confirmed one; -1: none, or it is a column */
    int64_t column;    /* likewise */
} hf_gemm_faults;

/* hf_gemm(), and then the sum of each row and column of C is compared with the product of A or B
 * and the sums of the other (Huang and Abraham 1984), with a bound that rounding cannot exceed; of
 * I8 it must be equal. A line that contradicts is computed again by another kernel, which gives
 * each element the same bits or proves a fault; if more than one of 32 does, as with NaN or
 * infinities in an operand, all of the product is. HF_GUARD_DETECT ends with HF_E_CORRUPT then,
 * HF_GUARD_CORRECT repairs the line; HF_GUARD_SAMPLED is the same; HF_GUARD_OFF: no check. Costs
 * about (m n + m k + k n) float64 additions. faults and report may be NULL. */
HF_API hf_status hf_gemm_guarded(hf_context *ctx, const hf_gemm_args *args, hf_guard guard,
                                 hf_gemm_faults *faults, hf_gemm_report *report);

/* The name of checksum i of those that signatures can be made of; NULL past the last. */
HF_API const char *hf_gemm_checksum(int i);

/* What it is. */
HF_API const char *hf_gemm_checksum_text(int i);

#ifdef __cplusplus
}
#endif
#endif
