/* SPDX-License-Identifier: Apache-2.0
 * Faults in the middle of a relaxation: what the paper did (a quarter of the components frozen),
 * and damaged numbers. They go through the probe that a set-up has for this. */
#include "algo/relax/step.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "base/rng.h"
#include <holdfast/dev_relax.h>
#include <math.h>
#include <string.h>

struct experiment {
    const hf_dev_relax_fault *fault;
    struct hf_relax_probe probe;
    uint8_t *blocks; /* [blocks] those that are hit */
    int64_t hit;     /* how many of them */
    uint8_t *there;  /* the same in memory of a device */
    bool struck;
    hf_status status; /* of getting at memory of a device */
};

/* Blocks in random order until they hold the share of all rows. */
static void choose_blocks(struct experiment *e, const hf_relax *relax) {
    const int64_t count = relax->blocks.count;
    double rows = 0;
    const double share = fmax(e->fault->share * (double)relax->m.n, 0.5);
    for (int64_t i = 0; i < count && rows < share; i++) {
        const int64_t block =
            (int64_t)hf_rng_permute(e->fault->seed, 0, (uint64_t)count, (uint64_t)i);
        e->blocks[block] = 1;
        e->hit++;
        rows += (double)(relax->blocks.start[block + 1] - relax->blocks.start[block]);
    }
}

/* Nobody works on the blocks for a while: until the outage is over, or others adopt them. */
static void freeze(struct experiment *e, int64_t iteration) {
    const hf_dev_relax_fault *f = e->fault;
    const int64_t since = iteration - f->iteration;
    const bool adopted = f->lag > 0 && since >= f->lag;
    const bool over = f->outage >= 0 && since >= f->outage;
    e->probe.frozen = since >= 0 && !adopted && !over ? e->blocks : NULL;
    if (since >= 0 && adopted && !over && !e->struck) {
        e->struck = true;
        e->probe.taken_over = e->hit;
    }
}

static void flip(void *number, size_t size, int bit) {
    if (bit >= 0 && (size_t)bit < 8 * size)
        ((uint8_t *)number)[bit / 8] ^= (uint8_t)(1U << bit % 8);
}

/* What is struck: an array, which may lie in memory of a device. */
struct target {
    void *array;
    int64_t count;
    hf_dtype dtype;
};

/* A bit of one of its elements flips, or the element becomes NaN. */
static void strike_array(struct experiment *e, hf_relax *relax, const struct target *t) {
    const size_t size = hf_dtype_bytes(t->dtype);
    if (t->array == NULL || t->count < 1 || e->status != HF_OK)
        return;
    char *place = (char *)t->array + hf_rng_below(e->fault->seed, 1, 0, (uint64_t)t->count) * size;
    double number = 0;
    e->status = hf_ctx_copy(relax->ctx, &number, place, size);
    if (e->fault->kind == HF_DEV_RELAX_NAN)
        number = NAN;
    else
        flip(&number, size, e->fault->bit);
    if (e->status == HF_OK)
        e->status = hf_ctx_copy(relax->ctx, place, &number, size);
}

/* The values that iterations multiply x with, in the form that they read. */
static struct target matrix_of(const hf_relax *relax) {
    const struct hf_sparse *seen = &relax->seen.a;
    const struct hf_march_map *map = &relax->march.map;
    const struct hf_slices *s = &relax->slices;
    const bool there = hf_relax_on_device(relax);
    if (!there && s->count > 0)
        return (struct target){s->value, SLICE_ROWS * s->slots, relax->m.dtype};
    if (!there)
        return (struct target){relax->m.value, relax->m.row_start[relax->m.n], relax->m.dtype};
    if (relax->march.on)
        return (struct target){(void *)(uintptr_t)map->value,
                               map->blocks * map->width * map->threads, HF_F64};
    if (seen->stencils.count > 0 && relax->opts.method != HF_RELAX_GAUSS_SEIDEL)
        return (struct target){(void *)(uintptr_t)seen->stencils.value, seen->stencils.elements,
                               HF_F64};
    if (seen->slices != NULL)
        return (struct target){seen->slices->value, SLICE_ROWS * seen->slices->slots, seen->dtype};
    return (struct target){(void *)(uintptr_t)seen->value, seen->elements, seen->dtype};
}

static struct target diagonal_of(const hf_relax *relax) {
    const struct hf_stencils *s = &relax->seen.a.stencils;
    if (!hf_relax_on_device(relax))
        return (struct target){relax->m.inverse, relax->m.n, HF_F64};
    if (s->count > 0 && s->inverse != NULL && !relax->march.on && hf_relax_swaps(relax))
        return (struct target){(void *)(uintptr_t)s->inverse, s->count, HF_F64};
    return (struct target){(void *)(uintptr_t)relax->seen.inverse, relax->m.n, HF_F64};
}

static struct target factor_of(const hf_relax *relax) {
    const struct hf_relax_patches *p = &relax->patches;
    const struct hf_march_map *map = &relax->march.map;
    const bool there = hf_relax_on_device(relax);
    if (there && relax->march.on)
        return (struct target){(void *)(uintptr_t)map->rhs_map, map->rhs_elements, HF_F64};
    return (struct target){there ? relax->seen.patches.factor : p->factor,
                           relax->patched ? p->envelope[p->start[p->count]] : 0,
                           relax->opts.inside};
}

static void strike(void *user, hf_relax *relax, double *x, int64_t iteration) {
    struct experiment *e = user;
    const hf_dev_relax_fault *f = e->fault;
    if (f->kind == HF_DEV_RELAX_FREEZE) {
        freeze(e, iteration);
        return;
    }
    if (iteration < f->iteration || e->struck)
        return;
    e->struck = true;
    e->probe.until = 0;
    struct target t = {NULL, 0, HF_F64};
    switch (f->kind) {
    case HF_DEV_RELAX_X:
    case HF_DEV_RELAX_NAN:
        t = (struct target){x, relax->m.n, HF_F64};
        break;
    case HF_DEV_RELAX_MATRIX:
        t = matrix_of(relax);
        break;
    case HF_DEV_RELAX_DIAGONAL:
        t = diagonal_of(relax);
        break;
    case HF_DEV_RELAX_FACTOR:
        t = factor_of(relax);
        break;
    default:
        break;
    }
    strike_array(e, relax, &t);
}

/* Workers of the blocks end or sleep in the middle of a call of op march or drift. */
static hf_status lose_workers(struct experiment *e, hf_relax *relax) {
    const hf_dev_relax_fault *f = e->fault;
    const size_t bytes = (size_t)relax->blocks.count;
    const bool host = !hf_relax_on_device(relax) && relax->opts.method == HF_RELAX_ASYNC &&
                      relax->opts.timing == HF_TIMING_FREE;
    if (!relax->march.on && !host)
        return hf_ctx_fail(relax->ctx, HF_E_UNSUPPORTED,
                           "no call makes many iterations here: take a GPU and one_launch, or free "
                           "timing on the CPU");
    choose_blocks(e, relax);
    if (host) {
        e->probe.before = NULL;
        e->probe.lost = e->blocks;
        e->probe.lost_from = f->iteration;
        e->probe.lost_ends = true;
        e->probe.lost_pause_s = f->outage > 0 ? 1e-6 * (double)f->outage : 0;
        e->probe.lag = f->lag;
        return HF_OK;
    }
    e->there = hf_ctx_alloc(relax->ctx, bytes);
    if (e->there == NULL)
        return hf_ctx_fail(relax->ctx, HF_E_NOMEM, "no memory for an experiment with faults");
    e->probe.before = NULL;
    e->probe.until = 0;
    e->probe.loss = (struct hf_march_loss){.blocks = e->there,
                                           .moment = (enum hf_march_moment)f->moment,
                                           .at = f->iteration,
                                           .pause_s = f->outage > 0 ? 1e-6 * (double)f->outage : 0};
    return hf_ctx_copy(relax->ctx, e->there, e->blocks, bytes);
}

hf_status hf_dev_relax_solve(hf_relax *relax, const hf_array *b, const hf_array *x,
                             const hf_dev_relax_fault *fault, hf_relax_result *result) {
    struct experiment e = {.fault = fault};
    e.blocks = hf_alloc_zero((size_t)relax->blocks.count);
    if (e.blocks == NULL)
        return hf_ctx_fail(relax->ctx, HF_E_NOMEM, "no memory for an experiment with faults");
    e.probe = (struct hf_relax_probe){.before = strike, .user = &e, .until = fault->iteration};
    e.probe.silent = fault->kind == HF_DEV_RELAX_SILENT;
    e.probe.silent_part = e.probe.slow_part = fault->device;
    e.probe.silent_from = fault->iteration;
    e.probe.slow = fault->kind == HF_DEV_RELAX_SLOW ? (int)fault->outage : 0;
    if (fault->kind == HF_DEV_RELAX_FREEZE) {
        choose_blocks(&e, relax);
        if (relax->opts.timing == HF_TIMING_FREE) {
            e.probe.before = NULL;
            e.probe.lost = e.blocks;
            e.probe.lost_from = fault->iteration;
            e.probe.lag = fault->lag;
        }
    }
    hf_status status = HF_OK;
    if (fault->kind == HF_DEV_RELAX_DEAD)
        status = lose_workers(&e, relax);
    const bool march = relax->march.on;
    relax->march.on = march && fault->kind != HF_DEV_RELAX_FREEZE; /* whose launch has no frozen */
    relax->probe = &e.probe;
    if (status == HF_OK)
        status = hf_relax_solve_with(relax, b, x, result);
    relax->probe = NULL;
    relax->march.on = march;
    if (status == HF_OK)
        status = e.status;
    if (status == HF_OK && result != NULL)
        result->faults.takeovers += e.probe.taken_over;
    if (e.there != NULL)
        hf_ctx_release(relax->ctx, e.there);
    hf_free(e.blocks);
    return status;
}
