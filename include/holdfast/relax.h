/* SPDX-License-Identifier: Apache-2.0
 * Sparse linear systems A x = b by relaxation: solve, and smooth inside somebody else's solver.
 * docs/relaxation.md says which method does what. */
#ifndef HF_RELAX_H
#define HF_RELAX_H

#include <holdfast/array.h>
#include <holdfast/base.h>
#include <holdfast/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A sparse matrix in compressed rows, in host memory. A view never owns its memory. Columns of a
 * row may come in any order and more than once: then their values add up. A zero may be stored. */
typedef struct hf_csr {
    int64_t rows;             /* at least 1, at most 2^31 - 2 */
    int64_t cols;             /* likewise */
    hf_dtype dtype;           /* of value: HF_F64 or HF_F32 */
    const int64_t *row_start; /* [rows + 1]: row i is elements row_start[i] .. row_start[i + 1] - 1;
                                 row_start[0] is 0, row_start[rows] the number of elements */
    const int32_t *column;    /* [elements], counted from 0 */
    const void *value;        /* [elements] of dtype */
} hf_csr;

/* How x is improved. */
typedef enum hf_relax_method {
    HF_RELAX_AUTO = 0,   /* the fastest by the rule in docs/relaxation.md; see result.advice */
    HF_RELAX_JACOBI = 1, /* damped by the spectrum */
    HF_RELAX_GAUSS_SEIDEL = 2, /* rows in colours, where those are few, or blocks of block_rows
                                  rows in colours; block_rows >= rows: plain, in order */
    HF_RELAX_ASYNC = 3,        /* async-(k): k Jacobi sweeps in each block of rows */
    HF_RELAX_SCHWARZ = 4,      /* blocks with overlap are solved exactly */
    HF_RELAX_CG = 5,           /* conjugate gradients: A symmetric, positive definite */
    HF_RELAX_CHEBYSHEV = 6     /* Chebyshev acceleration: the same demand on A */
} hf_relax_method;

/* What CG and Chebyshev accelerate. */
typedef enum hf_relax_precond {
    HF_PRECOND_AUTO = 0,   /* Jacobi */
    HF_PRECOND_JACOBI = 1, /* the diagonal */
    HF_PRECOND_BLOCKS = 2  /* exact blocks, as HF_RELAX_SCHWARZ, in the symmetric form */
} hf_relax_precond;

/* How rows are put into blocks. */
typedef enum hf_relax_partition {
    HF_PARTITION_AUTO = 0,   /* strips for async, the graph for Schwarz and block preconditioners */
    HF_PARTITION_STRIPS = 1, /* block_rows consecutive rows, in the order of the matrix */
    HF_PARTITION_GRAPH = 2   /* connected components, those too large cut by METIS where the build
                                has it, else along reverse Cuthill-McKee order */
} hf_relax_partition;

/* When blocks see each other's new values (HF_RELAX_ASYNC). */
typedef enum hf_relax_timing {
    HF_TIMING_TAGGED = 0, /* those of the iteration before: repeatable, the same bits for any number
                             of threads, as all other methods are */
    HF_TIMING_FREE = 1    /* whatever is there: not repeatable */
} hf_relax_timing;

/* How several devices tell each other what they have computed. All but the first are there to be
 * compared with it: they are those of the paper that docs/relaxation.md names. */
typedef enum hf_relax_exchange {
    HF_EXCHANGE_PUSH = 0, /* each writes what others read into their memory; amc where devices have
                             no access to each other's */
    HF_EXCHANGE_AMC = 1,  /* x lies in the host's memory, all of it is copied from and to there */
    HF_EXCHANGE_DC = 2,   /* x lies in the memory of the first device, copied from and to there */
    HF_EXCHANGE_DK = 3    /* the same, but kernels use it where it lies */
} hf_relax_exchange;

/* Two-way options in which zero means that the library decides. */
typedef enum hf_relax_switch {
    HF_SWITCH_AUTO = 0,
    HF_SWITCH_ON = 1,
    HF_SWITCH_OFF = 2
} hf_relax_switch;

/* Why a solution ended. */
typedef enum hf_relax_stop {
    HF_RELAX_STOP_NONE = 0,      /* not yet */
    HF_RELAX_STOP_TOL = 1,       /* the true residual, from the caller's matrix, is within tol */
    HF_RELAX_STOP_STALL = 2,     /* the residual no longer falls */
    HF_RELAX_STOP_DIVERGED = 3,  /* it grew beyond bounds or is no number */
    HF_RELAX_STOP_TIME = 4,      /* max_seconds went by */
    HF_RELAX_STOP_MAX_ITER = 5,  /* max_iter iterations were made */
    HF_RELAX_STOP_CANCELLED = 6, /* by the progress callback */
    HF_RELAX_STOP_BROKE_DOWN = 7 /* CG or Chebyshev met a direction in which A is not positive */
} hf_relax_stop;

/* Called before the first iteration and after each (free timing: after several; progress_seconds),
 * from the calling thread. Return non-zero to stop. rhs is the column of b at work, residual the
 * estimate of |b - A x| / |b|. */
typedef int (*hf_relax_progress)(void *user, int64_t rhs, int64_t iteration, double residual);

/* All zero means default. */
typedef struct hf_relax_opts {
    hf_relax_method method;       /* how x is improved */
    hf_relax_precond precond;     /* of CG and Chebyshev */
    hf_relax_partition partition; /* rows into blocks */
    hf_relax_timing timing;       /* of HF_RELAX_ASYNC */
    double tol;         /* |b - A x| <= tol |b|, Euclidean norms; 0 means 1e-10, < 0 means that
                           max_iter iterations are made without a test */
    int64_t max_iter;   /* global iterations; 0 means 100,000 */
    double max_seconds; /* of hf_relax_solve() for all columns; 0 means no limit */
    int64_t block_rows; /* rows of a block; 0 means the method's own (async: 128) */
    int local_sweeps;   /* k of async-(k), at most 1000; 0 means 5 */
    int overlap;        /* layers of neighbours that a Schwarz block takes in, at most 64; 0 means
                           the method's own, < 0 none */
    double damping;     /* factor of each correction, below 2; 0 means the method's own: from the
                           spectrum for Jacobi and Schwarz, 1 for the others */
    hf_relax_switch coarse; /* one coarse unknown per block beside Schwarz blocks */
    int symmetric;   /* not 0: a symmetric operator: Gauss-Seidel goes forth and back, Schwarz
                               adds up where blocks overlap; a GPU then keeps the rows in the
                               caller's order, which smoothing is faster in, unless one_launch is
                               on */
    hf_dtype inside; /* type of the matrix inside sweeps and blocks: HF_F64, or HF_F32: half
                               the bytes, x and residuals stay float64; HF_DTYPE_NONE means F64 */
    hf_relax_exchange exchange; /* between devices */
    uint64_t memory_bytes;      /* that factors of blocks may take; 0 means 1 GiB */
    hf_relax_progress progress; /* NULL means none */
    void *progress_user;        /* its first argument */
    hf_relax_switch one_launch; /* on a GPU: all iterations of jacobi, async, schwarz and chebyshev
                                   with the diagonal in one launch, which keeps blocks in registers;
                                   progress is then told of whole launches. ON: an error where the
                                   blocks do not fit, OFF: a launch for each step */
    int spares; /* workers beyond the need, which take over the blocks of one that falls silent: on
                   a GPU in a launch of many iterations, on the CPU threads of HF_TIMING_FREE; at
                   most 64; <= 0: none */
    const char *devices;     /* NULL means the context's alone; else all that share the rows, such
                                   as "cuda:0,cuda:1" or, groups of threads, "cpu,cpu": for
                                   HF_RELAX_JACOBI and HF_RELAX_ASYNC, up to 16. The set-up is then
                                   made by the host. One that fails or falls silent is left behind,
                                   the others adopt its blocks */
    double progress_seconds; /* least time between two calls of progress; 0 means none: each
                                iteration */
} hf_relax_opts;

/* How one right-hand side went. */
typedef struct hf_relax_column {
    hf_relax_stop stop;    /* why it ended */
    int64_t iterations;    /* global ones made */
    double residual;       /* |b - A x| / |b| of the x returned, from the caller's matrix in
                                float64 (|b - A x| where b is 0) */
    double *history;       /* [history_count] estimates: before the first iteration, then after
                                each, every history_step-th of them */
    int64_t history_count; /* at most 65,536 */
    int64_t history_step;  /* 1, or a power of two where there were more */
    int64_t checks;        /* tests with the true residual, */
    int64_t refused;       /* and those of them that went on */
    double seconds;        /* that it took */
    double seconds_launch; /* of those what launches of many iterations took, by the device's clock;
                              on several devices what iterations and checks took, by the host's;
                              0: there were none */
} hf_relax_column;

/* A block whose worker fell silent in the middle of iterations, and who went on. */
typedef struct hf_relax_takeover {
    int64_t block;     /* counted from 0 */
    int64_t iteration; /* the last one of the block that was complete, */
    int64_t worker;    /* and who made the next: a spare worker of a GPU, a thread of the CPU, each
                          counted from 0 */
    double seconds;    /* since the launch (CPU: the call of 64 iterations) began */
} hf_relax_takeover;

/* What protection saw and did. */
typedef struct hf_relax_faults {
    int64_t missed_forecasts; /* residuals far above what the iterations before foretold */
    int64_t rollbacks;        /* x put back to the last state that was checked */
    int64_t reloads;          /* blocks whose checksum was wrong, built again from the matrix */
    int64_t takeovers;        /* blocks whose worker fell silent, done by another */
    int64_t taken_count;      /* of `taken` */
    /* The first ones, in launches of many iterations and in free timing. */
    hf_relax_takeover taken[16];
} hf_relax_faults;

/* A solution. */
typedef struct hf_relax_result {
    int64_t n;                /* unknowns */
    int64_t rhs;              /* right-hand sides */
    hf_relax_column *columns; /* [rhs] */
    hf_relax_stop stop;       /* of the column with the largest residual */
    int converged;            /* every column stopped by HF_RELAX_STOP_TOL */
    double residual;          /* the largest of the columns */
    int64_t iterations;       /* the most of the columns */
    hf_relax_method method;   /* that was used */
    hf_relax_precond precond; /* that was used; HF_PRECOND_AUTO: none */
    int repeatable;           /* 0: HF_TIMING_FREE was used */
    double
        lambda_min; /* estimate of the least eigenvalue of D^-1 A by Lanczos steps (with blocks: of
                          M^-1 A); 0 where it was not needed */
    double lambda_max;      /* of the largest */
    double damping;         /* that was used */
    int64_t blocks;         /* of rows, without overlap; 0 where the method has none */
    int64_t overlap;        /* layers */
    int coarse;             /* a coarse unknown per block was used */
    char partition[16];     /* "strips", "metis", "rcm", "rows"; "" where there are no blocks */
    char advice[256];       /* what auto chose and why, or why relaxation is the wrong tool here;
                                 "" where there is nothing to say */
    hf_relax_faults faults; /* of all columns */
    double seconds_setup;   /* ordering, blocks, factors, spectrum */
    double seconds_solve;   /* the iterations and checks */
    uint64_t setup_bytes;   /* memory that the set-up holds */
    int one_launch;         /* iterations were made many to a launch */
    int devices;            /* that were at work in the end */
    int devices_lost;       /* that were left behind */
    hf_relax_exchange exchange; /* between them */
} hf_relax_result;

/* Solve A x = b. Set-up and solution in one.
 *   a       [n, n] with a non-zero diagonal (other than CG: any sign); borrowed until return
 *   b       [n, m] HF_F64 or HF_F32 in host memory: m right-hand sides, element (i, j) is row i of
 *           column j; a vector is [n, 1]
 *   x       [n, m] HF_F64 in host memory. In: where to start (zeros are a good start). Out: the
 *           solution; where it did not converge, the best of those whose true residual was looked
 *           at. Shares no memory with b
 *   opts    may be NULL
 *   result  written on HF_OK only; free with hf_relax_result_clear(). May be NULL
 * HF_E_ARG   a is not square, shapes that do not fit, options out of range
 * HF_E_DATA  NaN or Inf in a, b or x; a column out of range; a zero or missing diagonal element; a
 *            not symmetric for CG or Chebyshev; a block that is singular. The message names row and
 *            column. x is untouched
 * HF_E_UNSUPPORTED  the context's device has no relaxation
 * HF_E_NOMEM, HF_E_BUSY as everywhere
 * HF_E_CORRUPT  the matrix inside was damaged and building it again did not help
 * Whatever result->stop says is HF_OK: look at result->converged. */
HF_API hf_status hf_relax_solve(hf_context *ctx, const hf_csr *a, const hf_array *b,
                                const hf_array *x, const hf_relax_opts *opts,
                                hf_relax_result *result);

/* Free what a result holds and zero it. NULL is allowed. */
HF_API void hf_relax_result_clear(hf_relax_result *result);

/* Solve `batch` independent systems: a[i] x[i] = b[i] with results[i], each as hf_relax_solve()
 * would, with the same bits. Small systems run side by side, each on one thread. Systems of one
 * pattern share row_start and column by pointing to the same. Progress and max_seconds are not
 * available here (HF_E_ARG). All or nothing: on failure the message names the system and results
 * are untouched (x may be changed). results may be NULL. */
HF_API hf_status hf_relax_solve_batch(hf_context *ctx, const hf_csr *a, const hf_array *b,
                                      const hf_array *x, int64_t batch, const hf_relax_opts *opts,
                                      hf_relax_result *results);

/* A matrix set up for a method: order, blocks, factors, spectrum. Opaque. */
typedef struct hf_relax hf_relax;

/* Set up a matrix once for many calls.
 *   a     as for hf_relax_solve(), but its arrays are borrowed until hf_relax_destroy(): the true
 *         residual is taken from them
 *   opts  may be NULL; copied
 *   out   NULL on failure; free with hf_relax_destroy(), before its context
 * Statuses as for hf_relax_solve(). HF_RELAX_AUTO chooses here, and factors what it can, since many
 * solutions are to follow: not always the method that it chooses for one. */
HF_API hf_status hf_relax_setup(hf_context *ctx, const hf_csr *a, const hf_relax_opts *opts,
                                hf_relax **out);

/* Take the values of another matrix of the same pattern (the same row_start and column, element by
 * element). Order, blocks and method stay; factors and spectrum are made again. The arrays of `a`
 * are borrowed from now on, those of the matrix before no longer. On HF_E_DATA (values that do not
 * do) nothing has changed; after any other failure only hf_relax_destroy() and another update are
 * allowed. */
HF_API hf_status hf_relax_update_values(hf_relax *relax, const hf_csr *a);

/* Solve with what is set up; otherwise as hf_relax_solve(). */
HF_API hf_status hf_relax_solve_with(hf_relax *relax, const hf_array *b, const hf_array *x,
                                     hf_relax_result *result);

/* `sweeps` (at least 1) iterations on A x = b without any test: a smoother or preconditioner.
 *   b, x        [n, m] as for hf_relax_solve(), HF_F64; in host memory or in that of the context's
 *               device. Where both are the device's, the call does not wait for it
 *   guess_zero  not 0: x is taken for 0 and only written, which saves a pass
 * With HF_TIMING_TAGGED and any method but HF_RELAX_CG the new x is a fixed linear function of b
 * and the old x, with the same bits whenever it is called; with opts->symmetric and guess_zero it
 * is a symmetric one of b (Jacobi, async and Chebyshev are that anyway where A is symmetric). b and
 * x are not searched for NaN. HF_E_ARG for HF_RELAX_CG, which is no linear function. */
HF_API hf_status hf_relax_apply(hf_relax *relax, const hf_array *b, const hf_array *x, int sweeps,
                                int guess_zero);

/* Free a set-up. NULL is allowed. */
HF_API void hf_relax_destroy(hf_relax *relax);

/* "auto", "jacobi", "gauss-seidel", "async", "schwarz", "cg", "chebyshev"; NULL past the last. */
HF_API const char *hf_relax_method_name(hf_relax_method method);

/* "push", "amc", "dc", "dk"; NULL past the last. */
HF_API const char *hf_relax_exchange_name(hf_relax_exchange exchange);

/* "residual within the tolerance", "the residual no longer falls", ... */
HF_API const char *hf_relax_stop_text(hf_relax_stop stop);

#ifdef __cplusplus
}
#endif
#endif
