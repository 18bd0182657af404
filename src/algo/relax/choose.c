/* SPDX-License-Identifier: Apache-2.0
 * The rule of HF_RELAX_AUTO, and what the other methods leave to the matrix. docs/relaxation.md
 * gives the measurements behind it. */
#include "algo/relax/setup.h"

#include "base/mem.h"
#include <stdio.h>

#define ASYNC_ROWS 128   /* of a block, as in the paper */
#define DEVICE_ROWS 256  /* where blocks only share out rows: a thread of a device to each */
#define SCHWARZ_ROWS 512 /* of a block whose factor is an envelope: few rows fill it little */
#define INVERSE_ROWS 128 /* of one whose factor is an inverse, which grows with the square */
#define SEIDEL_BLOCKS                                                                              \
    64                   /* about; enough for threads to share, few enough to be near the method
                               in order */
#define SEIDEL_ROWS 256  /* of a block at least */
#define COARSE_LEAST 4   /* blocks; fewer gain nothing */
#define COARSE_MOST 2048 /* blocks: the inverse has their square */
#define LAUNCH_ROWS 112  /* of a block that is solved exactly in one launch (exact_map.c) */
#define ILL 1e4          /* condition above which auto takes conjugate gradients */
#define SCHWARZ_OVERLAP 2
#define PRECOND_OVERLAP 1

static bool needs_symmetry(const hf_relax *relax) {
    return relax->opts.method == HF_RELAX_CG || relax->opts.method == HF_RELAX_CHEBYSHEV;
}

/* Which methods have rows on several devices. */
static hf_status choose_shared(hf_relax *relax) {
    hf_relax_method *method = &relax->opts.method;
    const bool asked = *method != HF_RELAX_AUTO;
    if (!asked)
        *method = relax->dominance < 1 || !relax->symmetric || !relax->positive ? HF_RELAX_ASYNC
                                                                                : HF_RELAX_JACOBI;
    if (!asked)
        (void)snprintf(relax->advice, sizeof relax->advice, "%s: several devices share the rows",
                       hf_relax_method_name(*method));
    return *method == HF_RELAX_ASYNC || *method == HF_RELAX_JACOBI
               ? HF_OK
               : hf_ctx_fail(relax->ctx, HF_E_UNSUPPORTED,
                             "method %s runs on one device: take jacobi or async for several",
                             hf_relax_method_name(*method));
}

static hf_status demand_symmetry(const hf_relax *relax) {
    const char *method = hf_relax_method_name(relax->opts.method);
    if (!relax->symmetric)
        return hf_ctx_fail(relax->ctx, HF_E_DATA,
                           "method %s needs a symmetric matrix; elements (%lld, %lld) and (%lld, "
                           "%lld) differ: use gauss-seidel, async or schwarz",
                           method, (long long)relax->odd_row, (long long)relax->odd_column,
                           (long long)relax->odd_column, (long long)relax->odd_row);
    if (!relax->positive)
        return hf_ctx_fail(
            relax->ctx, HF_E_DATA,
            "method %s needs a positive definite matrix, and this one has a negative "
            "diagonal element: use gauss-seidel, async or schwarz",
            method);
    return HF_OK;
}

/* auto took Chebyshev's method, whose spectrum was looked at since. */
void hf_relax_reconsider(hf_relax *relax, hf_status *status) {
    const bool failed = *status == HF_E_DATA;
    if (!relax->automatic || relax->opts.method != HF_RELAX_CHEBYSHEV ||
        (!failed && relax->lambda_max <= ILL * relax->lambda_min))
        return;
    relax->opts.method = HF_RELAX_CG;
    *status = HF_OK;
    (void)snprintf(relax->advice, sizeof relax->advice,
                   "cg: the matrix is symmetric, and too ill-conditioned for a method that keeps "
                   "no direction");
}

/* HF_RELAX_AUTO. small: every component of the graph fits into a block, which is then solved in one
 * iteration. */
static void choose_method(hf_relax *relax, bool small) {
    char *advice = relax->advice;
    const size_t room = sizeof relax->advice;
    if (small) {
        relax->opts.method = HF_RELAX_SCHWARZ;
        (void)snprintf(
            advice, room,
            "schwarz: every connected component fits into a block and is solved exactly");
    } else if (relax->symmetric && relax->positive && hf_relax_fits_launch(relax)) {
        relax->opts.method = HF_RELAX_CHEBYSHEV;
        (void)snprintf(advice, room,
                       "chebyshev: the matrix is symmetric, and all iterations run in one launch");
    } else if (relax->symmetric && relax->positive) {
        relax->opts.method = HF_RELAX_CG;
        (void)snprintf(
            advice, room,
            "cg: the matrix is symmetric, and conjugate gradients need the fewest passes");
    } else if (relax->dominance < 1) {
        relax->opts.method = HF_RELAX_GAUSS_SEIDEL;
        (void)snprintf(advice, room,
                       "gauss-seidel: not symmetric, but diagonally dominant (factor %.3g): it "
                       "converges for certain",
                       relax->dominance);
    } else {
        relax->opts.method = HF_RELAX_SCHWARZ;
        (void)snprintf(
            advice, room,
            "schwarz: neither symmetric and positive nor diagonally dominant (factor "
            "%.3g), so no relaxation is sure to converge; GMRES or a direct solver may be "
            "the better tool",
            relax->dominance);
    }
}

static int64_t seidel_rows(int64_t n) {
    const int64_t rows = (n + SEIDEL_BLOCKS - 1) / SEIDEL_BLOCKS;
    return rows < SEIDEL_ROWS ? SEIDEL_ROWS : rows;
}

static bool uses_patches(const hf_relax *relax) {
    return relax->opts.method == HF_RELAX_SCHWARZ ||
           (needs_symmetry(relax) && relax->opts.precond == HF_PRECOND_BLOCKS);
}

/* Blocks of `rows` rows, or larger ones where those hold every component whole. */
static hf_status keep_components(hf_relax *relax, int64_t rows) {
    bool fit = false;
    relax->opts.block_rows = rows;
    while (relax->symmetric && !fit && rows < LAUNCH_ROWS) {
        rows = hf_min64(2 * rows, LAUNCH_ROWS);
        HF_TRY(hf_relax_components_fit(relax, rows, &fit));
    }
    if (fit)
        relax->opts.block_rows = rows;
    return HF_OK;
}

/* Zeros of the options that depend on method and matrix. */
static hf_status resolve(hf_relax *relax) {
    hf_relax_opts *o = &relax->opts;
    const bool patches = uses_patches(relax);
    const bool cholesky = hf_relax_uses_cholesky(relax);
    if (o->precond == HF_PRECOND_AUTO && needs_symmetry(relax))
        o->precond = HF_PRECOND_JACOBI;
    if (!needs_symmetry(relax))
        o->precond = HF_PRECOND_AUTO;
    const bool march = hf_relax_may_march(relax);
    const bool global = o->method == HF_RELAX_JACOBI || o->method == HF_RELAX_CHEBYSHEV;
    if (o->partition == HF_PARTITION_AUTO)
        o->partition = patches || (march && global) ? HF_PARTITION_GRAPH : HF_PARTITION_STRIPS;
    if (o->block_rows == 0 && march) {
        const int64_t sms = relax->ctx->props.sms, each = (relax->m.n + sms - 1) / sms;
        o->block_rows = o->method == HF_RELAX_ASYNC && each < ASYNC_ROWS ? ASYNC_ROWS : each;
        if (o->method == HF_RELAX_SCHWARZ)
            HF_TRY(keep_components(relax, each));
    }
    if (o->block_rows == 0 && hf_relax_on_device(relax) && o->method == HF_RELAX_GAUSS_SEIDEL)
        o->block_rows = 1;
    relax->rows_wanted = o->method == HF_RELAX_GAUSS_SEIDEL && o->block_rows <= 1 &&
                         o->partition == HF_PARTITION_STRIPS && hf_relax_has_vectors(relax);
    if (o->block_rows == 0 && hf_relax_on_device(relax) && global && !patches)
        o->block_rows = DEVICE_ROWS;
    if (o->block_rows == 0)
        o->block_rows = patches ? (cholesky ? SCHWARZ_ROWS : INVERSE_ROWS)
                        : o->method == HF_RELAX_GAUSS_SEIDEL ? seidel_rows(relax->m.n)
                                                             : ASYNC_ROWS;
    relax->overlap_asked = o->overlap > 0;
    if (o->overlap == 0)
        o->overlap = o->method == HF_RELAX_SCHWARZ ? SCHWARZ_OVERLAP : PRECOND_OVERLAP;
    if (o->overlap < 0 || !patches)
        o->overlap = 0;
    if (patches && needs_symmetry(relax))
        o->symmetric = 1;
    return HF_OK;
}

hf_status hf_relax_choose(hf_relax *relax) {
    if (relax->shared)
        HF_TRY(choose_shared(relax));
    if (relax->opts.method == HF_RELAX_AUTO) {
        relax->automatic = true;
        const bool asked = relax->opts.block_rows > 0;
        const int64_t rows = asked ? relax->opts.block_rows : SCHWARZ_ROWS;
        bool small = false;
        if (relax->symmetric && relax->kept)
            HF_TRY(hf_relax_components_fit(relax, rows, &small));
        choose_method(relax, small);
    }
    if (needs_symmetry(relax))
        HF_TRY(demand_symmetry(relax));
    return resolve(relax);
}

/* A coarse matrix may be singular where the matrix is not: then there is none, unless it was asked
 * for. */
static hf_status try_coarse(hf_relax *relax) {
    const hf_status status = hf_relax_make_coarse(relax);
    if (status != HF_E_DATA || relax->opts.coarse == HF_SWITCH_ON)
        return status;
    hf_free(relax->coarse);
    relax->coarse = NULL;
    return HF_OK;
}

/* Blocks, factors, coarse unknowns of the method chosen; the copy is in the caller's order before
 * and in that of the blocks after. */
hf_status hf_relax_build(hf_relax *relax) {
    const hf_relax_opts *o = &relax->opts;
    const bool patches = uses_patches(relax);
    if (relax->rows_wanted)
        HF_TRY(hf_relax_keep_order(relax));
    if (relax->in_order)
        return HF_OK;
    if (relax->rows_wanted)
        HF_TRY(hf_relax_colour_rows(relax));
    if (relax->by_rows)
        HF_TRY(hf_relax_make_strips(relax, ASYNC_ROWS));
    else if (o->partition == HF_PARTITION_GRAPH)
        HF_TRY(hf_relax_make_graph_blocks(relax, o->block_rows));
    else
        HF_TRY(hf_relax_make_strips(relax, o->block_rows));
    if (!relax->by_rows && (relax->perm != NULL || relax->m.dtype != o->inside ||
                            (relax->m.borrowed && !hf_relax_may_slice(relax))))
        HF_TRY(hf_relax_own_matrix(relax));
    if (o->method == HF_RELAX_ASYNC)
        HF_TRY(hf_relax_make_inner(relax));
    if (o->method == HF_RELAX_GAUSS_SEIDEL && !relax->by_rows)
        HF_TRY(hf_relax_make_colours(relax));
    HF_TRY(hf_relax_make_slices(relax));
    const int64_t blocks = relax->blocks.count;
    const bool coarse =
        o->coarse == HF_SWITCH_ON ||
        (o->coarse == HF_SWITCH_AUTO && relax->symmetric && !hf_relax_may_march(relax) &&
         blocks >= COARSE_LEAST && blocks <= COARSE_MOST && relax->partition[0] != 'c');
    if (patches && coarse)
        HF_TRY(try_coarse(relax));
    return patches ? hf_relax_make_patches(relax) : HF_OK;
}

/* Steps of Lanczos' method: its largest eigenvalue is then good to a percent or so, for which the
 * one of damping is made smaller. */
#define DAMPING_STEPS 20
#define CHEBYSHEV_STEPS 300
#define MARGIN 1.02

hf_status hf_relax_refine_spectrum(hf_relax *relax) {
    if (relax->rough)
        HF_TRY(hf_relax_make_spectrum(relax, CHEBYSHEV_STEPS, 0));
    relax->rough = false;
    return HF_OK;
}

/* Damping and spectrum, which change with the values. A smoother needs the largest eigenvalue
 * alone, which settles in a few steps: the least one waits for a solution. */
hf_status hf_relax_tune(hf_relax *relax) {
    const hf_relax_opts *o = &relax->opts;
    relax->damping = o->damping > 0 ? o->damping : 1;
    relax->lambda_min = 0;
    relax->lambda_max = 0;
    if (o->method == HF_RELAX_CHEBYSHEV) {
        /* on a device there is no memory for it once a solution has begun */
        relax->rough = relax->kept && !hf_relax_on_device(relax);
        return hf_relax_make_spectrum(relax, relax->rough ? DAMPING_STEPS : CHEBYSHEV_STEPS,
                                      relax->kept ? DAMPING_STEPS : 0);
    }
    const bool by_spectrum =
        o->damping == 0 && relax->symmetric && relax->positive &&
        (o->method == HF_RELAX_JACOBI || (o->method == HF_RELAX_SCHWARZ && o->symmetric));
    if (!by_spectrum)
        return HF_OK;
    const hf_relax_precond precond = o->precond;
    relax->opts.precond = o->method == HF_RELAX_SCHWARZ ? HF_PRECOND_BLOCKS : HF_PRECOND_JACOBI;
    const hf_status status = hf_relax_make_spectrum(relax, DAMPING_STEPS, 0);
    relax->opts.precond = precond;
    HF_TRY(status);
    relax->damping = 2 / (relax->lambda_min + MARGIN * relax->lambda_max);
    return HF_OK;
}
