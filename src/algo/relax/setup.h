/* SPDX-License-Identifier: Apache-2.0
 * What hf_relax_setup() makes, and the steps by which it does. "Place" is a row of the matrix
 * inside, in the order of the blocks; perm gives the caller's row. */
#ifndef HF_RELAX_SETUP_H
#define HF_RELAX_SETUP_H

#include "core/context.h"
#include "ops/march/march.h"
#include "ops/slices.h"
#include <holdfast/relax.h>
#include <stdbool.h>

struct hf_kernel;
struct hf_relax_several;

/* Rows in blocks; places are numbered through them. */
struct hf_relax_blocks {
    int64_t count, largest;
    int64_t *start; /* [count + 1] */
};

/* Blocks in colours for Gauss-Seidel (ops/seidel/seidel.h). */
struct hf_relax_colours {
    int64_t count;
    int64_t *start; /* [count + 1] */
    int32_t *block; /* [blocks] */
    int64_t *row;   /* [n + 1] 0, 1, 2, ...: blocks are rows (colour_rows.c); NULL: they are not */
};

/* Factors of blocks with overlap (ops/patches/patches.h). */
struct hf_relax_patches {
    int64_t count, largest;
    int64_t *start;
    int32_t *row;
    int64_t *envelope;
    uint8_t *inverse;
    void *factor;
    int64_t *own_start, *own;
};

/* The matrix that methods work on, in the order of the blocks: a copy, or the caller's own arrays,
 * where those are in order and iterations read slices. */
struct hf_relax_matrix {
    int64_t n;
    bool borrowed; /* row_start, column and value are the caller's */
    int64_t *row_start;
    int32_t *column; /* ascending in each row */
    void *value;
    hf_dtype dtype;
    double *inverse; /* [n] 1 / diagonal */
    int32_t *inner;  /* [n, 2] ops/sweep/sweep.h; NULL: not made */
    int32_t *before; /* [n] ops/seidel/seidel.h; NULL: not made */
};

#define HF_RELAX_HELD 40 /* pieces at most */

/* Memory of a device that a set-up holds, with checksums of what was copied there. */
struct hf_relax_held {
    void *p[HF_RELAX_HELD];
    size_t bytes[HF_RELAX_HELD]; /* 0: it changes */
    int count;
    uint64_t *sums; /* there, [2, HF_RELAX_HELD]: as they were, and as they are; NULL: none yet */
};

/* What kernels read, where they reach it: on the CPU the arrays above and the caller's matrix, on a
 * device copies of them; there all vectors are in the order of places (mirror.c). */
struct hf_relax_seen {
    struct hf_sparse a;      /* the copy */
    struct hf_sparse truth;  /* the caller's matrix, for the residual that counts */
    struct hf_slices slices; /* of a device: those of a, if there are any */
    const double *inverse;
    const int32_t *inner, *before;
    const int64_t *block_start, *colour_start;
    const int32_t *colour_block;
    const int64_t *colour_row; /* NULL: colours are of blocks */
    struct hf_relax_patches patches;
    const double *coarse;
    const int64_t *row_of, *place_of; /* device: [n] perm and its inverse; NULL: places are rows */
    double *unread;                   /* device: where a sum goes that nobody reads */
    struct hf_relax_held held;
};

/* Iterations of which many are one launch (one_launch.c). */
struct hf_relax_march {
    bool on;
    struct hf_march_map map; /* in memory of the device */
    double *factor;          /* [factors, 2] */
    int factors, sweeps;
    bool momentum;
    int every, lead;
    void *state;
    struct hf_march_report *report; /* in memory of the device: nothing waits for it in a launch */
    uint64_t next; /* number of the next call's first epoch; 0: state is to be cleared */
    struct hf_relax_held held;
};

/* Calls of one kind keep their kernel. */
enum hf_relax_call {
    HF_CALL_TRUE, /* residual from the caller's matrix */
    HF_CALL_SPMV,
    HF_CALL_AXPY,
    HF_CALL_SWEEP,
    HF_CALL_DRIFT,
    HF_CALL_SEIDEL,
    HF_CALL_PATCHES,
    HF_CALL_COARSE,
    HF_CALL_MARCH,
    HF_CALL_GATHER,
    HF_CALL_WORDSUM,
    HF_CALLS
};

#define HF_RELAX_VECTORS 12 /* on the CPU without the last two, on a device in its memory */

/* For experiments: called before each iteration of a solution, may change what the matrix, the
 * factors and x hold, and says whose blocks nobody works on. */
struct hf_relax_probe {
    void (*before)(void *user, hf_relax *relax, double *x, int64_t iteration);
    void *user;
    int64_t until;          /* the iteration for which it waits: a call of many ends there */
    const uint8_t *frozen;  /* [blocks] now; NULL: none */
    int64_t taken_over;     /* blocks that others have adopted so far */
    const uint8_t *lost;    /* [blocks] of HF_TIMING_FREE (ops/drift/drift.h); NULL: none */
    int64_t lost_from, lag; /* of those; lag 0: nobody takes over */
    bool lost_ends;         /* their workers end in the middle of a block, or sleep so long: */
    double lost_pause_s;
    struct hf_march_loss loss; /* of a launch of many iterations; `at` counts iterations */
    /* Of several devices: one that makes each sweep `slow` times (0: none does), and one that falls
     * silent after so many iterations. */
    int slow, slow_part, silent_part;
    bool silent;
    int64_t silent_from;
};

struct hf_relax {
    hf_context *ctx; /* of the set-up: the caller's, or one of the host where several devices share
                          the system */
    hf_context *owner;                /* the caller's */
    struct hf_relax_several *several; /* NULL: there is one device */
    hf_relax_opts opts;               /* zeros resolved */
    hf_csr a;                         /* the caller's */
    bool kept;                        /* for many calls */
    bool once;                        /* for one right-hand side */
    bool shared;                      /* by several devices */
    bool automatic;                   /* the library chose the method */
    bool symmetric;                   /* its values */
    bool symmetry_known;              /* it was looked at */
    bool rows_wanted;                 /* Gauss-Seidel: and nothing else was asked for */
    bool by_rows;                     /* Gauss-Seidel: places are in the order of colours of rows */
    bool in_order;    /* Gauss-Seidel: rows of the caller's own arrays, one after another */
    bool positive;    /* its diagonal */
    double dominance; /* largest sum of the absolute values of a row of I - D^-1 A */
    int64_t odd_row, odd_column; /* where it is not symmetric */
    struct hf_relax_matrix m;
    struct hf_slices slices; /* of m, for sums of rows on the CPU; count 0: there are none */
    int32_t *perm;           /* [n] NULL: places are rows */
    struct hf_relax_blocks blocks;
    struct hf_relax_colours colours;
    struct hf_relax_patches patches;
    bool overlap_asked; /* by the caller; else it is kept within bounds */
    bool patched;       /* there are patches */
    double *coarse;     /* [blocks, blocks] inverse; NULL: none */
    double lambda_min, lambda_max;
    double smooth_min,
        smooth_max; /* as they were at the set-up: smoothing stays the same operator */
    bool rough;     /* lambda_min is a rough estimate, good enough to smooth */
    double damping;
    char partition[16];
    char advice[256];
    uint32_t *sums; /* [sums_count] checksums of the matrix by block, patches, coarse, slices */
    int64_t sums_count;
    struct hf_relax_seen seen;
    struct hf_relax_march march;
    double *scratch;                  /* [n] of the host, for what goes to a device and back */
    double *vector[HF_RELAX_VECTORS]; /* [n] each */
    const struct hf_kernel *kernel[HF_CALLS];
    double seconds_setup;
    uint64_t bytes; /* held by all this */
    struct hf_relax_probe *probe;
};

/* relax_memory.c: memory of the set-up, counted; NULL when there is none: the caller says so. */
void *hf_relax_take(hf_relax *relax, int64_t count, size_t size);
hf_status hf_relax_no_memory(hf_relax *relax, const char *what);
void hf_relax_forget_blocks(hf_relax *relax);
uint64_t hf_relax_matrix_bytes(const struct hf_relax_matrix *m);

/* relax_check.c: the caller's arguments; opts with zeros resolved but for what the matrix decides.
 * */
/* What a look at the whole matrix tells. */
struct hf_relax_scan {
    bool ascending; /* columns of each row, without repetitions */
    bool mirrored;  /* symmetry was looked for, and each element above the diagonal has its like
                       below, bit for bit; else nothing is known of it */
    bool positive;  /* the diagonal */
    double dominance;
    double *inverse; /* [n] 1 / diagonal, to be freed */
};
/* mirror: look for symmetry too. On failure there is nothing to be freed. */
hf_status hf_relax_check_matrix(hf_context *ctx, const hf_csr *a, bool mirror,
                                struct hf_relax_scan *scan);
hf_status hf_relax_check_opts(hf_context *ctx, const hf_relax_opts *given, hf_relax_opts *opts);
hf_status hf_relax_check_vectors(hf_context *ctx, int64_t n, const hf_array *b, const hf_array *x,
                                 bool finite);

/* matrix.c: copy the caller's matrix in the order of perm (NULL: its own). `into` is empty, or has
 * arrays of the same pattern, whose values are written. */
hf_status hf_relax_copy_matrix(hf_relax *relax, const int32_t *perm, hf_dtype dtype,
                               struct hf_relax_matrix *into);
/* m from the caller's matrix in its own order: borrowed where that will do, else a copy. Takes
 * scan->inverse. */
hf_status hf_relax_take_matrix(hf_relax *relax, struct hf_relax_scan *scan);
/* m anew, a copy in the order of perm. */
hf_status hf_relax_own_matrix(hf_relax *relax);
hf_status hf_relax_make_inner(hf_relax *relax);
/* m->before of rows [begin, end) */
void hf_relax_count_before(struct hf_relax_matrix *m, int64_t begin, int64_t end);
void hf_relax_matrix_clear(struct hf_relax_matrix *m);
/* Arrays for as many elements as the caller's matrix has, if there are none; false: no memory. */
bool hf_relax_take_arrays(hf_relax *relax, hf_dtype dtype, struct hf_relax_matrix *m);
/* One block of the copy again, from the caller's matrix. */
hf_status hf_relax_reload_block(hf_relax *relax, int64_t block);
struct hf_sparse hf_relax_sparse(const struct hf_relax_matrix *m);
/* The caller's matrix as ops see one. */
struct hf_sparse hf_relax_csr(const hf_csr *a);
/* symmetry.c: does A = A^T hold, as far as float64 can tell? mirrored: it is known to. */
hf_status hf_relax_test_symmetry(hf_relax *relax, bool mirrored);

/* row_slices.c: slices of m, where the method reads them. */
bool hf_relax_has_vectors(const hf_relax *relax); /* there are kernels that do */
bool hf_relax_may_slice(const hf_relax *relax);
hf_status hf_relax_make_slices(hf_relax *relax);
/* Slices of m for a device, which the caller clears; count 0 where rows are few, or take less. */
hf_status hf_relax_slice_for_device(hf_relax *relax, struct hf_slices *slices);

/* partition.c: perm and blocks. */
hf_status hf_relax_make_strips(hf_relax *relax, int64_t rows);
hf_status hf_relax_make_graph_blocks(hf_relax *relax, int64_t rows);
/* Has every component of a symmetric matrix at most `rows` rows? */
hf_status hf_relax_components_fit(hf_relax *relax, int64_t rows, bool *fit);
/* colour.c */
hf_status hf_relax_make_colours(hf_relax *relax);
/* colour_rows.c: perm and colours of rows instead of blocks, and m in that order, where colours are
 * few: by_rows then says so. */
hf_status hf_relax_colour_rows(hf_relax *relax);
/* For a single solution: one block of all rows, read where the caller has them; in_order then says
 * so. */
hf_status hf_relax_keep_order(hf_relax *relax);
/* Would colours pay for so many sweeps? */
bool hf_relax_wants_colours(const hf_relax *relax, double sweeps);
/* Do the matrix and the vectors of the iterations lie in memory of a device? (mirror.c) */
static inline bool hf_relax_on_device(const hf_relax *relax) { return !hf_ctx_is_host(relax->ctx); }
/* Triangles of blocks are solved row after row, which a device does slowly: it gets inverses. */
static inline bool hf_relax_uses_cholesky(const hf_relax *relax) {
    return !hf_relax_on_device(relax) && relax->symmetric && relax->positive;
}
/* patches.c, coarse.c: of the copy as it is; again after its values changed. */
hf_status hf_relax_make_patches(hf_relax *relax);
void hf_relax_clear_patches(hf_relax *relax);
hf_status hf_relax_factor_patches(hf_relax *relax);
hf_status hf_relax_factor_patch(hf_relax *relax, int64_t patch);
hf_status hf_relax_make_coarse(hf_relax *relax);
/* spectrum.c: lambda_min, lambda_max of M^-1 A by `steps` Lanczos steps, fewer once they settle.
 * What the first `smooth` of them tell goes to smooth_min, smooth_max; 0: nothing does. */
hf_status hf_relax_make_spectrum(hf_relax *relax, int steps, int smooth);
/* choose.c: the method of HF_RELAX_AUTO, and options that the method and the matrix decide; what
 * the method needs of blocks and factors; what of them depends on the spectrum. */
hf_status hf_relax_choose(hf_relax *relax);
hf_status hf_relax_build(hf_relax *relax);
hf_status hf_relax_tune(hf_relax *relax);
/* The spectrum as a solution needs it, if it is a rough one. */
hf_status hf_relax_refine_spectrum(hf_relax *relax);
void hf_relax_reconsider(hf_relax *relax, hf_status *status);
/* checksum.c */
hf_status hf_relax_make_sums(hf_relax *relax);
/* Build again what has another checksum than it had; *reloads counts. HF_E_CORRUPT if that does not
 * help. */
hf_status hf_relax_repair(hf_relax *relax, int64_t *reloads);

/* mirror.c */
/* A copy on the device of `bytes` bytes (p NULL: room for them), which `held` notes. NULL after a
 * failure, now or before, and for nothing to copy. */
void *hf_relax_copy_there(hf_relax *relax, struct hf_relax_held *held, const void *p, size_t bytes,
                          hf_status *status);
/* Is all that was copied there as it was? */
hf_status hf_relax_compare_there(hf_relax *relax, struct hf_relax_held *held, bool *same);
void hf_relax_release_there(hf_relax *relax, struct hf_relax_held *held);
/* A copy of p on a device; NULL for NULL, and after a failure, now or before. */
typedef void *hf_relax_copy(void *user, const void *p, size_t bytes, hf_status *status);
/* Stencils of n rows, each array copied by copy(user, ...). */
struct hf_stencils hf_relax_stencils_there(const struct hf_stencils *made, int64_t n,
                                           hf_relax_copy *copy, void *user, hf_status *status);
/* Fill seen; again after anything that it shows was made again. */
hf_status hf_relax_look(hf_relax *relax);
void hf_relax_look_away(hf_relax *relax);
/* Column j of an array where iterations may work on it in place; NULL: it must be copied. */
double *hf_relax_column_there(const hf_relax *relax, const hf_array *a, int64_t j);
/* A vector of a device, in the order of places, from or to one of the host in the caller's. */
hf_status hf_relax_bring(hf_relax *relax, const double *v, double *places);
hf_status hf_relax_fetch(hf_relax *relax, const double *places, double *v);
hf_status hf_relax_zero(hf_relax *relax, double *v);
/* Column j of an array in any memory, from or to a vector in the order of places. */
hf_status hf_relax_get_column(hf_relax *relax, const hf_array *a, int64_t j, double *v);
hf_status hf_relax_put_column(hf_relax *relax, const hf_array *a, int64_t j, const double *v);

/* one_launch.c: the maps of op march, where they serve the method and fit; after hf_relax_tune().
 */
hf_status hf_relax_make_march(hf_relax *relax);
void hf_relax_clear_march(hf_relax *relax);
bool hf_relax_may_march(const hf_relax *relax);
bool hf_relax_fits_launch(const hf_relax *relax); /* the matrix, whatever the method is */
/* exact_map.c: the map of blocks that are solved exactly. HF_E_UNSUPPORTED: it is too large. */
hf_status hf_relax_exact_map(const hf_relax *relax, struct hf_march_map *map);

/* setup.c */
/* Build what other set-ups have from the start, while a solution goes on. */
hf_status hf_relax_leave_order(hf_relax *relax);
/* hf_relax_update_values() inside a public call. */
hf_status hf_relax_renew(hf_relax *relax, const hf_csr *a);
/* What a set-up is for: how much may pay. */
enum hf_relax_use {
    HF_RELAX_ONCE,    /* a single right-hand side */
    HF_RELAX_COLUMNS, /* those of one call */
    HF_RELAX_KEPT     /* many calls */
};
hf_status hf_relax_open(hf_context *ctx, const hf_csr *a, const hf_relax_opts *opts,
                        enum hf_relax_use use, hf_relax **out);
/* A failure's words, to the caller's context. Returns status. */
hf_status hf_relax_told(hf_relax *relax, hf_status status);
/* columns.c: the right-hand sides, arguments checked. result may be NULL. */
hf_status hf_relax_solve_columns(hf_relax *relax, const hf_array *b, const hf_array *x,
                                 hf_relax_result *result);
/* relax_api.c: hf_relax_solve() inside a public call. */
struct hf_relax_system {
    const hf_csr *a;
    const hf_array *b, *x;
};
hf_status hf_relax_solve_inside(hf_context *ctx, const struct hf_relax_system *system,
                                const hf_relax_opts *opts, hf_relax_result *result);

struct hf_relax_sweeps {
    int count;
    bool guess_zero;
};
hf_status hf_relax_smooth(hf_relax *relax, const hf_array *b, const hf_array *x,
                          const struct hf_relax_sweeps *sweeps);

#endif
