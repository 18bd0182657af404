/* SPDX-License-Identifier: Apache-2.0
 * Iterations: async-(k) and Jacobi (Anzt, Tomov, Dongarra, Heuveline 2012), Gauss-Seidel,
 * restricted and additive Schwarz (Cai, Sarkis 1999), conjugate gradients and Chebyshev's method
 * (Saad, Iterative methods for sparse linear systems, 2003). */
#include "algo/relax/step.h"

#include "core/run.h"
#include "ops/axpy/axpy.h"
#include "ops/coarse/coarse.h"
#include "ops/drift/drift.h"
#include "ops/patches/patches.h"
#include "ops/seidel/seidel.h"
#include "ops/spmv/spmv.h"
#include "ops/sweep/sweep.h"
#include <math.h>

#define FREE_LAG 4     /* epochs until a block is taken over */
#define FREE_EPOCHS 64 /* that blocks drift between two looks at them */

static hf_status queue(hf_relax *relax, enum hf_relax_call call, enum hf_op_id op,
                       const void *args) {
    return hf_queue(relax->ctx, op, args, &relax->kernel[call]);
}

/* Where an op writes a sum. */
static double *sum_of(const struct hf_relax_work *w, double *square) {
    return w->quiet && hf_relax_on_device(w->relax) ? w->relax->seen.unread : square;
}

/* r = b - A x, where x may count as 0 */
static hf_status residual(struct hf_relax_work *w, double *square) {
    double *sum = sum_of(w, square);
    const struct hf_spmv_args args = {
        .a = w->relax->seen.a, .x = w->x, .b = w->b, .y = w->r, .square = sum};
    const struct hf_axpy_args copy = {
        .n = args.a.rows, .alpha = 1, .x = w->b, .y = w->r, .w = w->r, .dot = sum};
    if (w->zero)
        return queue(w->relax, HF_CALL_AXPY, HF_OP_AXPY, &copy);
    return queue(w->relax, HF_CALL_SPMV, HF_OP_SPMV, &args);
}

/* y = beta y + alpha x */
static hf_status combine(struct hf_relax_work *w, double alpha, const double *x, double beta,
                         double *y) {
    const struct hf_axpy_args args = {
        .n = w->relax->m.n, .alpha = alpha, .x = x, .beta = beta, .y = y};
    return queue(w->relax, HF_CALL_AXPY, HF_OP_AXPY, &args);
}

/* x += alpha y, where x may count as 0 */
static hf_status move(struct hf_relax_work *w, double alpha, const double *y) {
    HF_TRY(combine(w, alpha, y, w->zero ? 0 : 1, w->x));
    w->zero = false;
    return HF_OK;
}

static hf_status solve_patches(struct hf_relax_work *w, const double *r, double scale, bool add,
                               double *z) {
    const hf_relax *relax = w->relax;
    const struct hf_relax_patches *p = &relax->seen.patches, *own = &relax->patches;
    const struct hf_patches_args args = {.n = relax->m.n,
                                         .patches = p->count,
                                         .largest = p->largest,
                                         .places = own->start[own->count],
                                         .elements = own->envelope[own->start[own->count]],
                                         .patch_start = p->start,
                                         .patch_row = p->row,
                                         .envelope = p->envelope,
                                         .inverse = p->inverse,
                                         .dtype = relax->opts.inside,
                                         .factor = p->factor,
                                         .own_start = p->own_start,
                                         .own = p->own,
                                         .r = r,
                                         .scale = scale,
                                         .add = add,
                                         .z = z};
    return queue(w->relax, HF_CALL_PATCHES, HF_OP_PATCHES, &args);
}

static hf_status add_coarse(struct hf_relax_work *w, const double *r, double scale, double *z) {
    const hf_relax *relax = w->relax;
    const struct hf_coarse_args args = {.n = relax->m.n,
                                        .blocks = relax->blocks.count,
                                        .block_start = relax->seen.block_start,
                                        .inverse = relax->seen.coarse,
                                        .r = r,
                                        .scale = scale,
                                        .z = z};
    return queue(w->relax, HF_CALL_COARSE, HF_OP_COARSE, &args);
}

/* z = M^-1 r for the preconditioner of CG and Chebyshev. */
static hf_status precondition(struct hf_relax_work *w, const double *r, double *z) {
    const hf_relax *relax = w->relax;
    if (relax->opts.precond == HF_PRECOND_BLOCKS) {
        HF_TRY(solve_patches(w, r, 1, false, z));
        return relax->coarse != NULL ? add_coarse(w, r, 1, z) : HF_OK;
    }
    const struct hf_axpy_args args = {
        .n = relax->m.n, .alpha = 1, .x = r, .scale = relax->seen.inverse, .y = z};
    return queue(w->relax, HF_CALL_AXPY, HF_OP_AXPY, &args);
}

static void swap_x(struct hf_relax_work *w) {
    double *const other = w->x;
    w->x = w->other;
    w->other = other;
    w->other_zero = w->zero;
    w->zero = false;
}

static hf_status step_sweep(struct hf_relax_work *w, double limit, double *square) {
    const hf_relax *relax = w->relax;
    const int k = relax->opts.method == HF_RELAX_JACOBI ? 1 : relax->opts.local_sweeps;
    const struct hf_sweep_args args = {.a = relax->seen.a,
                                       .inverse = relax->seen.inverse,
                                       .block_start = relax->seen.block_start,
                                       .blocks = relax->blocks.count,
                                       .largest = relax->blocks.largest,
                                       .inner = relax->seen.inner,
                                       .k = k,
                                       .damping = relax->damping,
                                       .frozen = relax->probe != NULL ? relax->probe->frozen : NULL,
                                       .b = w->b,
                                       .x = w->zero ? NULL : w->x,
                                       .x_new = w->other,
                                       .square = w->quiet ? NULL : square};
    HF_TRY(queue(w->relax, HF_CALL_SWEEP, HF_OP_SWEEP, &args));
    if (!w->quiet && *square <= limit)
        return HF_OK;
    swap_x(w);
    w->made++;
    return HF_OK;
}

/* Takeovers are told where workers are there for them, or were lost: else they are mere help. */
static void count_takeovers(const struct hf_relax_work *w, const struct hf_drift_report *report) {
    const int64_t made = w->earlier + w->made;
    if (w->faults == NULL)
        return;
    for (int64_t i = 0; i < report->taken_count; i++) {
        const struct hf_drift_taken *t = &report->taken[i];
        const hf_relax_takeover seen = {t->block, made + t->epoch, t->worker, t->after_s};
        hf_relax_note_takeover(w->faults, &seen);
    }
    w->faults->takeovers += report->takeovers - report->taken_count;
}

static hf_status step_free(struct hf_relax_work *w, double limit, double *square) {
    const hf_relax *relax = w->relax;
    const struct hf_relax_probe *probe = relax->probe;
    const bool lost = probe != NULL && probe->lost != NULL;
    const int64_t made = w->earlier + w->made;
    struct hf_drift_report report = {.taken_count = 0};
    *square = w->square;
    if (w->square <= limit)
        return HF_OK;
    if (w->zero)
        HF_TRY(hf_relax_zero(w->relax, w->x));
    const struct hf_drift_args args = {
        .a = relax->seen.a,
        .inverse = relax->seen.inverse,
        .block_start = relax->seen.block_start,
        .blocks = relax->blocks.count,
        .largest = relax->blocks.largest,
        .inner = relax->seen.inner,
        .k = relax->opts.local_sweeps,
        .damping = relax->damping,
        .epochs = w->most < FREE_EPOCHS ? w->most : FREE_EPOCHS,
        .lag = lost ? probe->lag : FREE_LAG,
        .target = limit > 0 ? limit : 0,
        .lost = lost ? probe->lost : NULL,
        .lost_from = lost && made < probe->lost_from ? probe->lost_from - made : 0,
        .ends = lost && probe->lost_ends && (probe->lost_pause_s <= 0 || made <= probe->lost_from),
        .pause_s = lost ? probe->lost_pause_s : 0,
        .spares = relax->opts.spares,
        .b = w->b,
        .x = w->x,
        .report = &report};
    HF_TRY(queue(w->relax, HF_CALL_DRIFT, HF_OP_DRIFT, &args));
    w->zero = false;
    if (lost || relax->opts.spares > 0)
        count_takeovers(w, &report);
    w->made += (report.relaxations + relax->blocks.count - 1) / relax->blocks.count;
    w->stalled = report.relaxations == 0; /* nobody is left who could */
    return residual(w, &w->square);       /* not what blocks had at different times */
}

/* What a sweep knows of its residual is from its own course: x has gained more meanwhile, about as
 * much as from the sweep before to it. The factor, of a square, is a bold guess: true residuals
 * were 0.23 to 0.6 of the plain one. Where it is wrong, the check that refuses x costs less than a
 * sweep and says by how much. Not where a refusal ends a round, which with float32 inside it does,
 * nor where a step is two sweeps. */
#define FORESEEN 0.25
static double foresee(const struct hf_relax_work *w) {
    const bool may = w->relax->opts.inside != HF_F32 && !w->relax->opts.symmetric;
    return may && w->made > 1 && w->square < w->square_before
               ? FORESEEN * w->square * (w->square / w->square_before)
               : INFINITY;
}

static hf_status step_seidel(struct hf_relax_work *w, double limit, double *square) {
    const hf_relax *relax = w->relax;
    *square = fmin(w->square, foresee(w));
    if (*square <= limit)
        return HF_OK;
    *square = w->square;
    if (w->zero)
        HF_TRY(hf_relax_zero(w->relax, w->x));
    w->zero = false;
    w->square_before = w->square;
    struct hf_seidel_args args = {.a = relax->seen.a,
                                  .inverse = relax->seen.inverse,
                                  .block_start = relax->by_rows ? relax->seen.colour_row
                                                                : relax->seen.block_start,
                                  .blocks = relax->by_rows ? relax->m.n : relax->blocks.count,
                                  .colour_start = relax->seen.colour_start,
                                  .colour_block = relax->seen.colour_block,
                                  .colours = relax->colours.count,
                                  .before = relax->seen.before,
                                  .damping = relax->damping,
                                  .b = w->b,
                                  .x = w->x,
                                  .square = sum_of(w, &w->square)};
    HF_TRY(queue(w->relax, HF_CALL_SEIDEL, HF_OP_SEIDEL, &args));
    args.backward = true;
    if (relax->opts.symmetric)
        HF_TRY(queue(w->relax, HF_CALL_SEIDEL, HF_OP_SEIDEL, &args));
    w->made++;
    return HF_OK;
}

/* Restricted additive Schwarz after the coarse correction; the symmetric form adds both up. */
static hf_status step_schwarz(struct hf_relax_work *w, double limit, double *square) {
    const hf_relax *relax = w->relax;
    HF_TRY(residual(w, square));
    if (*square <= limit)
        return HF_OK;
    if (w->zero)
        HF_TRY(hf_relax_zero(w->relax, w->x));
    w->zero = false;
    w->made++;
    if (relax->coarse != NULL) {
        HF_TRY(add_coarse(w, w->r, relax->opts.symmetric ? relax->damping : 1, w->x));
        double unused;
        if (!relax->opts.symmetric)
            HF_TRY(residual(w, &unused));
    }
    return solve_patches(w, w->r, relax->damping, true, w->x);
}

/* The next direction: p = z + beta p for z = M^-1 r. */
static hf_status turn(struct hf_relax_work *w) {
    double product = 0;
    HF_TRY(precondition(w, w->r, w->z));
    const struct hf_axpy_args args = {.n = w->relax->m.n, .y = w->z, .w = w->r, .dot = &product};
    HF_TRY(queue(w->relax, HF_CALL_AXPY, HF_OP_AXPY, &args));
    const double beta = w->made == 0 ? 0 : product / w->product;
    if (w->recording && w->recorded > 0)
        w->beta[w->recorded - 1] = beta;
    w->product = product;
    return combine(w, 1, w->z, beta, w->p);
}

static hf_status step_cg(struct hf_relax_work *w, double limit, double *square) {
    double curvature = 0;
    if (w->made == 0)
        HF_TRY(residual(w, &w->square));
    *square = w->square;
    if (w->square <= limit || w->broke)
        return HF_OK;
    HF_TRY(turn(w));
    const struct hf_spmv_args multiply = {
        .a = w->relax->seen.a, .x = w->p, .y = w->q, .dot = &curvature};
    HF_TRY(queue(w->relax, HF_CALL_SPMV, HF_OP_SPMV, &multiply));
    w->broke = !(curvature > 0 && w->product > 0) && isfinite(w->square);
    if (w->broke)
        return HF_OK;
    const double alpha = w->product / curvature;
    w->recording = w->recording && w->recorded < HF_RELAX_RECORD;
    if (w->recording)
        w->alpha[w->recorded++] = alpha;
    HF_TRY(move(w, alpha, w->p));
    const struct hf_axpy_args reduce = {.n = w->relax->m.n,
                                        .alpha = -alpha,
                                        .x = w->q,
                                        .beta = 1,
                                        .y = w->r,
                                        .w = w->r,
                                        .dot = &w->square};
    w->made++;
    return queue(w->relax, HF_CALL_AXPY, HF_OP_AXPY, &reduce);
}

/* Coefficients of the next step: alpha of the residual, beta of the step before. */
static void next_factors(struct hf_relax_work *w, double *alpha, double *beta) {
    const double middle = (w->high + w->low) / 2, half = (w->high - w->low) / 2;
    *alpha = 1 / middle;
    *beta = 0;
    if (w->made > 0 && half > 0) {
        const double before = w->factor;
        w->factor = 1 / (2 * middle / half - before);
        *beta = w->factor * before;
        *alpha = 2 * w->factor / half;
    } else {
        w->factor = half / middle;
    }
}

static hf_status step_chebyshev_blocks(struct hf_relax_work *w, double limit, double *square) {
    double alpha, beta;
    HF_TRY(residual(w, square));
    if (*square <= limit)
        return HF_OK;
    HF_TRY(precondition(w, w->r, w->z));
    next_factors(w, &alpha, &beta);
    w->made++;
    HF_TRY(combine(w, alpha, w->z, beta, w->p));
    return move(w, 1, w->p);
}

/* With the diagonal a step is a sweep with momentum. It writes beside the x of the step before,
 * which a step from the same x needs once more where this one was one too many. */
static hf_status step_chebyshev(struct hf_relax_work *w, double limit, double *square) {
    const hf_relax *relax = w->relax;
    const double factor = w->factor;
    double *const to = w->made == 0 || w->quiet ? w->other : w->p;
    double alpha, beta;
    next_factors(w, &alpha, &beta);
    const struct hf_sweep_args args = {.a = relax->seen.a,
                                       .inverse = relax->seen.inverse,
                                       .block_start = relax->seen.block_start,
                                       .blocks = relax->blocks.count,
                                       .largest = relax->blocks.largest,
                                       .k = 1,
                                       .damping = alpha,
                                       .momentum = beta,
                                       .before = w->other_zero ? NULL : w->other,
                                       .b = w->b,
                                       .x = w->zero ? NULL : w->x,
                                       .x_new = to,
                                       .square = w->quiet ? NULL : square};
    HF_TRY(queue(w->relax, HF_CALL_SWEEP, HF_OP_SWEEP, &args));
    if (!w->quiet && *square <= limit) {
        w->factor = factor;
        return HF_OK;
    }
    if (to == w->p) {
        w->p = w->other;
        w->other = to;
    }
    swap_x(w);
    w->made++;
    return HF_OK;
}

bool hf_relax_swaps(const hf_relax *relax) {
    const hf_relax_opts *o = &relax->opts;
    return o->method == HF_RELAX_JACOBI ||
           (o->method == HF_RELAX_ASYNC && o->timing == HF_TIMING_TAGGED) ||
           (o->method == HF_RELAX_CHEBYSHEV && o->precond != HF_PRECOND_BLOCKS);
}

void hf_relax_begin(struct hf_relax_work *w, hf_relax *relax) {
    w->relax = relax;
    w->x = relax->vector[0];
    w->other = relax->vector[1];
    w->r = relax->vector[2];
    w->p = relax->vector[3];
    w->q = relax->vector[4];
    w->z = relax->vector[5];
    w->made = 0;
    w->other_zero = false;
    w->most = INT64_MAX;
    w->low = relax->lambda_min;
    w->high = relax->lambda_max;
    w->broke = false;
    w->stalled = false;
    w->recorded = 0;
    w->recording = false;
}

hf_status hf_relax_step(struct hf_relax_work *w, double limit, double *square) {
    if (w->relax->march.on && !w->quiet && w->most >= w->relax->march.sweeps) {
        HF_TRY(hf_relax_step_march(w, limit, square));
        return limit >= 0 || !isfinite(*square) ? HF_OK : residual(w, &w->square);
    }
    switch (w->relax->opts.method) {
    case HF_RELAX_GAUSS_SEIDEL:
        return step_seidel(w, limit, square);
    case HF_RELAX_SCHWARZ:
        return step_schwarz(w, limit, square);
    case HF_RELAX_CG:
        return step_cg(w, limit, square);
    case HF_RELAX_CHEBYSHEV:
        return w->relax->opts.precond == HF_PRECOND_BLOCKS ? step_chebyshev_blocks(w, limit, square)
                                                           : step_chebyshev(w, limit, square);
    case HF_RELAX_ASYNC:
        return w->relax->opts.timing == HF_TIMING_FREE ? step_free(w, limit, square)
                                                       : step_sweep(w, limit, square);
    default:
        return step_sweep(w, limit, square);
    }
}
