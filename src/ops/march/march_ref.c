/* SPDX-License-Identifier: Apache-2.0
 * Reference of march: the maps, block by block, in lockstep; with a goal the true residual is taken
 * after each epoch. */
#include "base/mem.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/march/march.h"
#include <string.h>

struct march_work {
    const struct hf_march_args *args;
    double *p, *x_next, *p_next; /* [n] */
    double *x_ext, *p_ext;       /* [extent] of the block at work, */
    double *g;                   /* [rows] */
    double *c;                   /* [rows] */
};

static size_t carve_work(struct march_work *w, void *ws) {
    const struct hf_march_args *args = w->args;
    const size_t n = (size_t)args->a.rows, extent = (size_t)args->map.extent;
    hf_carve carve = {ws, 0};
    w->p = hf_carve_take(&carve, n * sizeof(double));
    w->x_next = hf_carve_take(&carve, n * sizeof(double));
    w->p_next = hf_carve_take(&carve, n * sizeof(double));
    w->x_ext = hf_carve_take(&carve, extent * sizeof(double));
    w->p_ext = hf_carve_take(&carve, extent * sizeof(double));
    w->g = hf_carve_take(&carve, extent * sizeof(double));
    w->c = hf_carve_take(&carve, extent * sizeof(double));
    return carve.used;
}

static size_t march_workspace(const struct hf_call *call) {
    struct march_work w = {.args = call->args};
    return carve_work(&w, NULL);
}

/* The place of row r of x_ext. */
static int64_t place_of(const struct hf_march_map *map, int64_t block, int64_t r) {
    const int64_t own = map->block_start[block + 1] - map->block_start[block];
    return r < own ? map->block_start[block] + r : map->source[map->source_start[block] + r - own];
}

static double right_side(const struct hf_march_args *args, int64_t block, int64_t r) {
    const struct hf_march_map *map = &args->map;
    const int64_t place = place_of(map, block, r);
    if (map->rhs_map == NULL)
        return args->inverse[place] * args->b[place];
    const int64_t first = map->rhs_start[block], count = map->rhs_start[block + 1] - first;
    const double *row = map->rhs_map + map->rhs_map_start[block] + r * count;
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += row[i] * args->b[map->rhs_place[first + i]];
    return sum;
}

static double row_of(const struct hf_march_map *map, int64_t block, int64_t r,
                     const double *x_ext) {
    const int64_t base = block * map->width * map->threads + r * map->lanes;
    double sum = 0;
    for (int64_t w = 0; w < map->width; w++)
        for (int64_t lane = 0; lane < map->lanes; lane++) {
            const int64_t at = base + w * map->threads + lane;
            sum += map->value[at] * x_ext[map->column[at]];
        }
    return sum;
}

static void march_block(struct march_work *w, int64_t block, int64_t epoch) {
    const struct hf_march_args *args = w->args;
    const struct hf_march_map *map = &args->map;
    const int64_t begin = map->block_start[block], own = map->block_start[block + 1] - begin;
    const int64_t rows = map->row_count[block];
    const int64_t sources = map->source_start[block + 1] - map->source_start[block];
    for (int64_t r = 0; r < own + sources; r++) {
        w->x_ext[r] = args->x[place_of(map, block, r)];
        w->p_ext[r] = w->p[place_of(map, block, r)];
        if (r < rows)
            w->c[r] = right_side(args, block, r);
    }
    for (int64_t s = 0; s < args->sweeps; s++) {
        const int64_t step = epoch * args->sweeps + s;
        const double *factor = args->factor + 2 * hf_min64(step, args->factors - 1);
        for (int64_t r = 0; r < rows; r++)
            w->g[r] = w->c[r] + row_of(map, block, r, w->x_ext);
        for (int64_t r = 0; r < rows; r++) {
            w->p_ext[r] = factor[0] * w->g[r] + factor[1] * w->p_ext[r];
            w->x_ext[r] += w->p_ext[r];
        }
    }
    memcpy(w->x_next + begin, w->x_ext, (size_t)own * sizeof(double));
    memcpy(w->p_next + begin, w->p_ext, (size_t)own * sizeof(double));
}

static double true_square(const struct hf_march_args *args) {
    const struct hf_sparse *a = &args->a;
    double square = 0;
    for (int64_t i = 0; i < a->rows; i++) {
        const double r =
            args->b[i] - sparse_dot(a, a->dtype, a->row_start[i], a->row_start[i + 1], args->x);
        square += r * r;
    }
    return square;
}

static hf_status march_run(const struct hf_call *call) {
    const struct hf_march_args *args = call->args;
    struct march_work w = {.args = args};
    struct hf_march_report report = {.call = args->first + 1, .stop = HF_MARCH_MOST};
    (void)carve_work(&w, call->ws);
    const size_t bytes = (size_t)args->a.rows * sizeof(double);
    memset(w.p, 0, bytes);
    while (report.epochs < args->most && report.stop == HF_MARCH_MOST) {
        for (int64_t block = 0; block < args->map.blocks; block++)
            march_block(&w, block, report.epochs);
        memcpy(args->x, w.x_next, bytes);
        memcpy(w.p, w.p_next, bytes);
        report.epochs++;
        if (args->goal < 0)
            continue;
        report.checks++;
        report.square = true_square(args);
        report.estimate = report.square;
        if (report.square <= args->goal)
            report.stop = HF_MARCH_GOAL;
    }
    *args->report = report;
    return HF_OK;
}

static double march_estimate(const struct hf_call *call) {
    const struct hf_march_args *args = call->args;
    return hf_estimate_ns(16.0 * (double)args->most * args->sweeps * (double)args->a.elements, 1,
                          0);
}

static const struct hf_kernel kernels[] = {{.name = "march_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64),
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .workspace = march_workspace,
                                            .run = march_run,
                                            .estimate = march_estimate}};

const struct hf_kernel_table hf_march_kernels_scalar = {kernels, 1};
