/* SPDX-License-Identifier: Apache-2.0
 * Many iterations in one launch of a device (op march): maps of the blocks, factors of the steps,
 * and the call. */
#include "algo/relax/step.h"

#include "base/mem.h"
#include "core/plan.h"
#include "core/run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_ROWS 700 /* of a block */
#define MOST_EPOCHS                                                                                \
    20000             /* of a launch: then the caller, the clock and the true residual are asked */
#define LIMIT_S 2     /* after which a launch gives up: ten times what one may take */
#define MOST_COPIES 4 /* rows that a block works on, times its own */

bool hf_relax_fits_launch(const hf_relax *relax) {
    return relax->ctx->device->id == HF_DEV_CUDA && relax->opts.one_launch != HF_SWITCH_OFF &&
           relax->m.n <= (int64_t)MOST_ROWS * relax->ctx->props.sms;
}

/* Blocks of a launch want an order of their own. Who asks for a symmetric operator smooths with it,
 * and a sweep is faster on the caller's vectors where they lie than launches that reorder them. */
bool hf_relax_may_march(const hf_relax *relax) {
    const hf_relax_opts *o = &relax->opts;
    const bool smooths = o->symmetric != 0 && o->one_launch != HF_SWITCH_ON;
    if (!hf_relax_fits_launch(relax) || smooths)
        return false;
    return o->method == HF_RELAX_JACOBI || o->method == HF_RELAX_ASYNC ||
           (o->method == HF_RELAX_CHEBYSHEV && o->precond != HF_PRECOND_BLOCKS) ||
           (o->method == HF_RELAX_SCHWARZ && o->symmetric == 0 && o->coarse != HF_SWITCH_ON);
}

void hf_relax_clear_march(hf_relax *relax) {
    struct hf_relax_march *march = &relax->march;
    hf_relax_release_there(relax, &march->held);
    *march = (struct hf_relax_march){.on = false};
}

static void *copy_there(hf_relax *relax, const void *p, size_t bytes, hf_status *status) {
    return hf_relax_copy_there(relax, &relax->march.held, p, bytes, status);
}

static hf_status map_there(hf_relax *relax, const struct hf_march_map *made) {
    struct hf_march_map *map = &relax->march.map;
    const size_t blocks = (size_t)made->blocks, starts = (blocks + 1) * sizeof(int64_t);
    const size_t places = blocks * (size_t)made->width * (size_t)made->threads;
    hf_status status = HF_OK;
    *map = *made;
    map->block_start = copy_there(relax, made->block_start, starts, &status);
    map->row_count = copy_there(relax, made->row_count, blocks * sizeof *made->row_count, &status);
    map->source_start = copy_there(relax, made->source_start, starts, &status);
    map->source =
        copy_there(relax, made->source, (size_t)made->sources * sizeof *made->source, &status);
    map->value = copy_there(relax, made->value, places * sizeof *made->value, &status);
    map->column = copy_there(relax, made->column, places * sizeof *made->column, &status);
    if (made->rhs_map == NULL)
        return status;
    map->rhs_start = copy_there(relax, made->rhs_start, starts, &status);
    map->rhs_place = copy_there(relax, made->rhs_place,
                                (size_t)made->rhs_places * sizeof *made->rhs_place, &status);
    map->rhs_map_start = copy_there(relax, made->rhs_map_start, starts, &status);
    map->rhs_map = copy_there(relax, made->rhs_map,
                              (size_t)made->rhs_elements * sizeof *made->rhs_map, &status);
    return status;
}

/* Would the device take a call with this map? */
static bool is_supported(hf_relax *relax, const struct hf_march_map *map) {
    const struct hf_march_args args = {.map = *map,
                                       .a = relax->seen.truth,
                                       .sweeps = relax->march.sweeps,
                                       .factors = HF_MARCH_MOST_FACTORS,
                                       .most = 1};
    const struct hf_kernel *kernel = NULL;
    const bool found = hf_plan(relax->ctx, HF_OP_MARCH, &args, &kernel, NULL) == HF_OK;
    relax->kernel[HF_CALL_MARCH] = found ? kernel : NULL;
    return found;
}

static hf_status make_map(hf_relax *relax, int layers, struct hf_march_map *map) {
    const struct hf_march_plan plan = {.a = hf_relax_sparse(&relax->m),
                                       .inverse = relax->m.inverse,
                                       .block_start = relax->blocks.start,
                                       .blocks = relax->blocks.count,
                                       .layers = layers};
    return relax->opts.method == HF_RELAX_SCHWARZ ? hf_relax_exact_map(relax, map)
                                                  : hf_march_map_make(&plan, map);
}

/* Steps between two exchanges that copies of neighbours' rows allow: four where these are not many,
 * as in grids; one in graphs in which everything is near. */
static hf_status choose_sweeps(hf_relax *relax, struct hf_march_map *map) {
    struct hf_relax_march *march = &relax->march;
    const bool accelerated = relax->opts.method == HF_RELAX_CHEBYSHEV;
    march->sweeps = accelerated                            ? 4
                    : relax->opts.method == HF_RELAX_ASYNC ? relax->opts.local_sweeps
                                                           : 1;
    for (;;) {
        const int layers = accelerated ? march->sweeps - 1 : 0;
        const hf_status status = make_map(relax, layers, map);
        const bool fits = status == HF_OK && (layers == 0 || map->rows <= MOST_COPIES * map->own) &&
                          is_supported(relax, map);
        march->momentum = layers > 0;
        if (fits || (status != HF_OK && status != HF_E_UNSUPPORTED))
            return status;
        hf_march_map_clear(map);
        if (layers == 0)
            return HF_E_UNSUPPORTED;
        march->sweeps /= 2;
    }
}

/* alpha and beta of each step; Chebyshev's settle long before the last (Saad 2003, 12.3.2). */
static void fill_factors(const hf_relax *relax, double *factor) {
    const double middle = (relax->lambda_max + relax->lambda_min) / 2;
    const double half = (relax->lambda_max - relax->lambda_min) / 2;
    factor[0] = relax->damping;
    factor[1] = 0;
    if (relax->opts.method != HF_RELAX_CHEBYSHEV)
        return;
    factor[0] = 1 / middle;
    double now = half / middle;
    for (int64_t i = 1; i < relax->march.factors; i++) {
        const double before = now;
        now = half > 0 ? 1 / (2 * middle / half - before) : 0;
        factor[2 * i] = half > 0 ? 2 * now / half : 1 / middle;
        factor[2 * i + 1] = now * before;
    }
}

static hf_status march_there(hf_relax *relax, const struct hf_march_map *made) {
    struct hf_relax_march *march = &relax->march;
    double factor[2 * HF_MARCH_MOST_FACTORS];
    hf_status status = map_there(relax, made);
    march->factors = relax->opts.method == HF_RELAX_CHEBYSHEV ? HF_MARCH_MOST_FACTORS : 1;
    fill_factors(relax, factor);
    march->factor = copy_there(relax, factor, 2 * (size_t)march->factors * sizeof *factor, &status);
    march->state = copy_there(relax, NULL, hf_march_state_bytes(relax->m.n, made->blocks), &status);
    march->report = copy_there(relax, NULL, sizeof *march->report, &status);
    march->next = 0;
    march->every = march->sweeps > 2 || relax->opts.method == HF_RELAX_SCHWARZ ? 1 : 2;
    march->lead = relax->opts.method == HF_RELAX_SCHWARZ ? 1 : 2 * march->every;
    march->on = status == HF_OK;
    return status;
}

hf_status hf_relax_make_march(hf_relax *relax) {
    struct hf_march_map map;
    hf_relax_clear_march(relax);
    hf_status status = HF_E_UNSUPPORTED;
    if (hf_relax_may_march(relax))
        status = choose_sweeps(relax, &map);
    if (status == HF_OK) {
        status = march_there(relax, &map);
        hf_march_map_clear(&map);
        return status;
    }
    if (status == HF_E_NOMEM)
        return hf_relax_no_memory(relax, "the blocks");
    if (relax->opts.one_launch == HF_SWITCH_ON)
        return hf_ctx_fail(relax->ctx, HF_E_UNSUPPORTED,
                           "method %s with %lld blocks of up to %lld rows does not fit into one "
                           "launch of %s: choose jacobi, async, chebyshev or schwarz with smaller "
                           "blocks, or leave one_launch to the library",
                           hf_relax_method_name(relax->opts.method), (long long)relax->blocks.count,
                           (long long)relax->blocks.largest, hf_context_device(relax->ctx));
    return HF_OK;
}

/* What the call did, in iterations: each step of Chebyshev's method is one. */
static int64_t iterations_of(const hf_relax *relax, int64_t epochs) {
    return relax->opts.method == HF_RELAX_CHEBYSHEV ? epochs * relax->march.sweeps : epochs;
}

/* Blocks that spare workers took over. */
static void count_takeovers(const struct hf_relax_work *w, const struct hf_march_report *report,
                            uint64_t call) {
    for (int i = 0; w->faults != NULL && i < HF_MARCH_SPARES; i++) {
        const struct hf_march_taken *t = &report->taken[i];
        const hf_relax_takeover seen = {.block = t->block,
                                        .iteration = w->earlier + w->made +
                                                     iterations_of(w->relax, t->epoch),
                                        .worker = i,
                                        .seconds = t->after_s};
        if (t->call == call)
            hf_relax_note_takeover(w->faults, &seen);
    }
}

/* For experiments: who is lost in this call. */
static struct hf_march_loss loss_of(const struct hf_relax_work *w) {
    const struct hf_relax_probe *probe = w->relax->probe;
    struct hf_march_loss loss = {.blocks = NULL};
    const int64_t made = w->earlier + w->made;
    if (probe == NULL || probe->loss.blocks == NULL)
        return loss;
    loss = probe->loss;
    if (loss.moment <= HF_MARCH_HALF_TOLD)
        loss.at = (loss.at - made) / iterations_of(w->relax, 1) + 1;
    return loss;
}

static hf_status call_march(struct hf_relax_work *w, double limit, struct hf_march_report *report) {
    hf_relax *relax = w->relax;
    struct hf_relax_march *march = &relax->march;
    const struct hf_device *device = relax->ctx->device;
    const int64_t each = iterations_of(relax, 1);
    const struct hf_march_args args = {.map = march->map,
                                       .a = relax->seen.truth,
                                       .inverse = relax->seen.inverse,
                                       .b = w->b,
                                       .x = w->x,
                                       .sweeps = march->sweeps,
                                       .factors = march->factors,
                                       .factor = march->factor,
                                       .momentum = march->momentum,
                                       .free = relax->opts.timing == HF_TIMING_FREE,
                                       .every = march->every,
                                       .lead = march->lead,
                                       .most = hf_min64(w->most / each, MOST_EPOCHS),
                                       .target = limit,
                                       .goal = limit,
                                       .limit_s = LIMIT_S,
                                       .spares = relax->opts.spares,
                                       .loss = loss_of(w),
                                       .state = march->state,
                                       .first = march->next,
                                       .report = march->report,
                                       .timed = true};
    march->next += (uint64_t)args.most + 1;
    HF_TRY(hf_queue(relax->ctx, HF_OP_MARCH, &args, &relax->kernel[HF_CALL_MARCH]));
    HF_TRY(hf_ctx_copy(relax->ctx, report, march->report, sizeof *report));
    w->seconds += fmax(0, device->span(relax->ctx->stream));
    count_takeovers(w, report, args.first + 1);
    if (report->call != args.first + 1)
        report->stop = HF_MARCH_ABORTED;
    return HF_OK;
}

/* Nobody was left to take over, or the device is overloaded: x is no number, so that the solution
 * goes back to the last state that was checked, and on with a launch for each step. */
static void give_up(struct hf_relax_work *w, double *square) {
    hf_relax *relax = w->relax;
    relax->march.on = false;
    relax->march.next = 0;
    *square = w->square = NAN;
    (void)snprintf(relax->advice, sizeof relax->advice,
                   "a launch of many iterations did not end within %d s and gave up, with %d spare "
                   "workers: each step has a launch of its own since; look after the device",
                   LIMIT_S, relax->opts.spares);
}

hf_status hf_relax_step_march(struct hf_relax_work *w, double limit, double *square) {
    struct hf_march_report report;
    *square = w->square;
    if (w->square <= limit || !isfinite(w->square)) /* or what a launch left is no number */
        return HF_OK;
    if (w->zero)
        HF_TRY(hf_relax_zero(w->relax, w->x));
    HF_TRY(call_march(w, limit, &report));
    w->zero = false;
    if (report.stop == HF_MARCH_ABORTED) {
        give_up(w, square);
        return HF_OK;
    }
    w->made += iterations_of(w->relax, report.epochs);
    w->stalled = report.stop == HF_MARCH_STALL && isfinite(report.square);
    w->square = report.square;
    return HF_OK;
}
