/* SPDX-License-Identifier: Apache-2.0
 * A campaign of faults in solutions of a linear system: holdfast inject relax. */
#include "algo/relax/setup.h"
#include "base/mem.h"
#include "base/rng.h"
#include "core/context.h"
#include <holdfast/dev_relax.h>
#include <math.h>
#include <string.h>

#define ROUNDING 1.001 /* what two ways of computing a residual may differ by */

static const char *const names[] = {
    "frozen blocks",       "a bit of x",        "NaN in x",        "a bit of the matrix inside",
    "a bit of a diagonal", "a bit of a factor", "a silent device", "a slow device",
    "a lost worker"};

const char *hf_dev_relax_fault_name(int kind) {
    return kind >= 0 && kind < (int)(sizeof names / sizeof names[0]) ? names[kind] : NULL;
}

/* A method, set up, and its solution without a fault. */
struct way {
    hf_relax_opts opts;
    hf_relax *relax;
    double *x; /* [n] */
    int64_t iterations;
    bool factors; /* it has some */
    bool calls;   /* of many iterations, in which a worker can be lost */
};

struct campaign {
    hf_context *ctx;
    const hf_csr *a;
    uint64_t seed;
    double tol;
    double *b, *x; /* [n] */
    struct way way[8];
    int ways;
};

static double value_at(const hf_csr *a, int64_t e) {
    return a->dtype == HF_F32 ? (double)((const float *)a->value)[e]
                              : ((const double *)a->value)[e];
}

/* |1 - A x| / |1| */
static double residual_of(const hf_csr *a, const double *x) {
    double square = 0;
    for (int64_t i = 0; i < a->rows; i++) {
        double r = 1;
        for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++)
            r -= value_at(a, e) * x[a->column[e]];
        square += r * r;
    }
    return sqrt(square / (double)a->rows);
}

static hf_status solve(struct campaign *c, struct way *way, const hf_dev_relax_fault *fault,
                       hf_relax_result *result) {
    const int64_t n = c->a->rows;
    const hf_array b = hf_array_view(c->b, HF_F64, n, 1), x = hf_array_view(c->x, HF_F64, n, 1);
    memset(c->x, 0, (size_t)n * sizeof *c->x);
    return fault != NULL ? hf_dev_relax_solve(way->relax, &b, &x, fault, result)
                         : hf_relax_solve_with(way->relax, &b, &x, result);
}

/* Keep the way if it solves the matrix. */
static hf_status try_way(struct campaign *c, const hf_relax_opts *opts) {
    struct way *way = &c->way[c->ways];
    hf_relax_result result = {0};
    *way = (struct way){.opts = *opts};
    const hf_status ready = hf_relax_setup(c->ctx, c->a, opts, &way->relax);
    if (ready != HF_OK)
        return ready == HF_E_DATA ? HF_OK : ready;
    way->x = hf_alloc((size_t)c->a->rows * sizeof *way->x);
    const hf_status status = way->x != NULL ? solve(c, way, NULL, &result) : HF_E_NOMEM;
    if (status == HF_OK && result.converged) {
        memcpy(way->x, c->x, (size_t)c->a->rows * sizeof *way->x);
        way->iterations = result.iterations;
        way->calls = way->relax->march.on || opts->timing == HF_TIMING_FREE;
        way->factors = opts->method == HF_RELAX_SCHWARZ || opts->precond == HF_PRECOND_BLOCKS;
        c->ways++;
    } else {
        hf_relax_destroy(way->relax);
        hf_free(way->x);
    }
    hf_relax_result_clear(&result);
    return status;
}

static hf_status find_ways(struct campaign *c, const hf_relax_opts *given) {
    static const struct {
        hf_relax_method method;
        hf_relax_precond precond;
    } all[] = {{HF_RELAX_JACOBI, HF_PRECOND_AUTO},     {HF_RELAX_GAUSS_SEIDEL, HF_PRECOND_AUTO},
               {HF_RELAX_ASYNC, HF_PRECOND_AUTO},      {HF_RELAX_SCHWARZ, HF_PRECOND_AUTO},
               {HF_RELAX_CG, HF_PRECOND_JACOBI},       {HF_RELAX_CG, HF_PRECOND_BLOCKS},
               {HF_RELAX_CHEBYSHEV, HF_PRECOND_JACOBI}};
    hf_relax_opts own = *given;
    own.spares = hf_ctx_is_host(c->ctx) ? 0 : 2; /* workers are lost, too */
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        hf_relax_opts opts = own;
        opts.method = all[i].method;
        opts.precond = all[i].precond;
        HF_TRY(try_way(c, &opts));
    }
    hf_relax_opts opts = own;
    opts.method = HF_RELAX_ASYNC;
    opts.timing = HF_TIMING_FREE;
    HF_TRY(try_way(c, &opts));
    return c->ways > 0 ? HF_OK
                       : hf_ctx_fail(c->ctx, HF_E_DATA,
                                     "no method solves the matrix, so there is nothing to compare "
                                     "with: give another one, or a larger max_iter");
}

static hf_dev_outcome judge(const struct campaign *c, const struct way *way,
                            const hf_relax_result *r, const hf_dev_relax_trial *t) {
    const bool told =
        t->told.missed_forecasts + t->told.rollbacks + t->told.reloads + t->told.takeovers > 0 ||
        r->columns[0].refused > 0;
    if (!r->converged)
        return HF_DEV_DETECTED;
    if (!(t->residual <= ROUNDING * c->tol))
        return HF_DEV_SILENT;
    if (told)
        return HF_DEV_CORRECTED;
    return memcmp(c->x, way->x, (size_t)c->a->rows * sizeof *c->x) == 0 ? HF_DEV_MASKED
                                                                        : HF_DEV_BENIGN;
}

/* A worker ends or sleeps: in a launch of a GPU at one of the moments there are. */
static void lose_worker(const struct campaign *c, uint64_t at, hf_dev_relax_fault *fault) {
    fault->kind = HF_DEV_RELAX_DEAD;
    fault->moment = (int)hf_rng_below(c->seed, at, 7, 5);
    fault->share = 0;
    fault->lag = 2;
    fault->outage =
        hf_rng_below(c->seed, at, 8, 2) ? (int64_t)hf_rng_below(c->seed, at, 9, 200) : 0;
    if (fault->moment >= 2)
        fault->iteration = 1; /* the first test */
}

static hf_status try_fault(struct campaign *c, int64_t number, hf_dev_relax_trial *t) {
    const uint64_t at = (uint64_t)number;
    struct way *way = &c->way[hf_rng_below(c->seed, at, 0, (uint64_t)c->ways)];
    const uint64_t kinds = way->factors ? 5 : 4;
    const int lag = way->opts.method == HF_RELAX_ASYNC;
    *t = (hf_dev_relax_trial){.number = number,
                              .method = way->opts.method,
                              .precond = way->opts.precond,
                              .healthy = way->iterations};
    t->fault.kind = (hf_dev_relax_fault_kind)(1 + hf_rng_below(c->seed, at, 1, kinds));
    if (lag != 0 && hf_rng_below(c->seed, at, 2, 5) == 0)
        t->fault.kind = HF_DEV_RELAX_FREEZE;
    t->fault.iteration = (int64_t)hf_rng_below(c->seed, at, 3, (uint64_t)way->iterations);
    t->fault.share = 0.25;
    t->fault.lag = way->opts.timing == HF_TIMING_FREE ? 2 : 0; /* there they are frozen for good */
    t->fault.outage = (int64_t)hf_rng_below(c->seed, at, 4, 20);
    t->fault.bit = (int)hf_rng_below(c->seed, at, 5, way->opts.inside == HF_F32 ? 32 : 64);
    t->fault.seed = c->seed + at;
    if (way->calls && hf_rng_below(c->seed, at, 6, 4) == 0)
        lose_worker(c, at, &t->fault);
    hf_relax_result result = {0};
    const hf_status status = solve(c, way, &t->fault, &result);
    if (status != HF_OK) {
        t->outcome = status == HF_E_CORRUPT ? HF_DEV_DETECTED : HF_DEV_ERROR;
        return status == HF_E_NOMEM ? status : HF_OK;
    }
    t->stop = result.stop;
    t->iterations = result.iterations;
    t->told = result.faults;
    t->residual = residual_of(c->a, c->x);
    t->outcome = judge(c, way, &result, t);
    hf_relax_result_clear(&result);
    int64_t reloads = 0; /* what nobody noticed must not meet the next fault */
    return hf_relax_repair(way->relax, &reloads);
}

static void close_campaign(struct campaign *c) {
    for (int i = 0; i < c->ways; i++) {
        hf_relax_destroy(c->way[i].relax);
        hf_free(c->way[i].x);
    }
    hf_free(c->b);
    hf_free(c->x);
}

hf_status hf_dev_relax_campaign(hf_context *ctx, const hf_dev_relax_plan *plan,
                                hf_dev_relax_each each, void *user) {
    static const hf_relax_opts none = {0};
    const size_t bytes = (size_t)plan->a->rows * sizeof(double);
    const hf_relax_opts *given = plan->opts != NULL ? plan->opts : &none;
    struct campaign c = {.ctx = ctx,
                         .a = plan->a,
                         .seed = plan->seed,
                         .tol = given->tol > 0 ? given->tol : 1e-10,
                         .b = hf_alloc(bytes),
                         .x = hf_alloc(bytes)};
    hf_status status = HF_E_NOMEM;
    if (c.b != NULL && c.x != NULL) {
        for (int64_t i = 0; i < c.a->rows; i++)
            c.b[i] = 1;
        status = find_ways(&c, given);
    }
    for (int64_t i = 0; status == HF_OK && i < plan->faults; i++) {
        hf_dev_relax_trial trial;
        status = try_fault(&c, i, &trial);
        if (status == HF_OK && each(user, &trial) != 0)
            break;
    }
    close_campaign(&c);
    return status;
}
