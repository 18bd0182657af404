/* SPDX-License-Identifier: Apache-2.0
 * Faults in the middle of a relaxation: what the paper did (a quarter of the components frozen),
 * and damaged numbers. They go through the probe that a set-up has for this. */
#include "algo/relax/setup.h"
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
    bool struck;
};

/* Blocks in random order until they hold the share of all rows. */
static void choose_blocks(struct experiment *e, const hf_relax *relax) {
    const int64_t count = relax->blocks.count;
    double rows = 0;
    for (int64_t i = 0; i < count && rows < e->fault->share * (double)relax->m.n; i++) {
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

static void strike_array(const struct experiment *e, void *array, int64_t count, hf_dtype dtype) {
    const size_t size = hf_dtype_bytes(dtype);
    if (array == NULL || count < 1)
        return;
    const uint64_t at = hf_rng_below(e->fault->seed, 1, 0, (uint64_t)count);
    flip((char *)array + at * size, size, e->fault->bit);
}

/* What iterations read of it. */
static void strike_matrix(const struct experiment *e, hf_relax *relax) {
    const struct hf_slices *s = &relax->slices;
    if (s->count > 0)
        strike_array(e, s->value, SLICE_ROWS * s->slots, relax->m.dtype);
    else
        strike_array(e, relax->m.value, relax->m.row_start[relax->m.n], relax->m.dtype);
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
    const struct hf_relax_patches *p = &relax->patches;
    switch (f->kind) {
    case HF_DEV_RELAX_X:
        strike_array(e, x, relax->m.n, HF_F64);
        break;
    case HF_DEV_RELAX_NAN:
        x[hf_rng_below(f->seed, 1, 0, (uint64_t)relax->m.n)] = NAN;
        break;
    case HF_DEV_RELAX_MATRIX:
        strike_matrix(e, relax);
        break;
    case HF_DEV_RELAX_DIAGONAL:
        strike_array(e, relax->m.inverse, relax->m.n, HF_F64);
        break;
    case HF_DEV_RELAX_SILENT:
    case HF_DEV_RELAX_SLOW:
        break;
    default:
        strike_array(e, p->factor, relax->patched ? p->envelope[p->start[p->count]] : 0,
                     relax->opts.inside);
        break;
    }
}

hf_status hf_dev_relax_solve(hf_relax *relax, const hf_array *b, const hf_array *x,
                             const hf_dev_relax_fault *fault, hf_relax_result *result) {
    struct experiment e = {.fault = fault};
    e.blocks = hf_alloc_zero((size_t)relax->blocks.count);
    if (e.blocks == NULL)
        return hf_ctx_fail(relax->ctx, HF_E_NOMEM, "no memory for an experiment with faults");
    e.probe = (struct hf_relax_probe){.before = strike, .user = &e};
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
    relax->probe = &e.probe;
    const hf_status status = hf_relax_solve_with(relax, b, x, result);
    relax->probe = NULL;
    if (status == HF_OK && result != NULL)
        result->faults.takeovers += e.probe.taken_over;
    hf_free(e.blocks);
    return status;
}
