/* SPDX-License-Identifier: Apache-2.0
 * One product, or the part of it that is worked on: a group of rows and columns of C, and a range
 * of products of each sum ("depth"). What is packed counts depth in units of 32 or 64 bits: one
 * float32 or float64, or two int16 of an I8 product. */
#ifndef HF_GEMM_JOB_H
#define HF_GEMM_JOB_H

#include "base/compiler.h"
#include "base/mem.h"
#include "device/slot.h"
#include "device/host/isa.h"
#include "ops/gemm/gemm.h"

#include <stdbool.h>
#include <string.h>

/* A tile of C in registers: TILE_M rows, two vectors wide; what is left holds its row of B and an
 * element of A. With AMX four of its tiles are one, and a unit is two bfloat16 or four int8. */
#if HF_ISA_TILES
#define TILE_M 32
#else
#define TILE_M (VREGS == 32 ? 14 : 6)
#endif
#define TILE_N32 (2 * VW)
#define TILE_N64 (2 * VDW)
#define TILE_STEP 16 /* units of a line in a tile of AMX */
#if HF_ISA_TILES
#define TILE_32 "32x32"
#elif VREGS == 32
#define TILE_32 "14x32"
#define TILE_64 "14x16"
#else
#define TILE_32 "6x16"
#define TILE_64 "6x8"
#endif

struct gemm_job {
    const hf_gemm_args *args;
    hf_dtype in;           /* computed in: F32, F64, I32 */
    int tile_n;            /* columns of a tile */
    struct hf_gemm_view a; /* op(A) of this product */
    struct hf_gemm_view b; /* op(B) */
    char *c;               /* and its C */
    int64_t row, rows;     /* the group: first row and their number */
    int64_t col, cols;     /* and of columns */
    int64_t first, depth;  /* products; first is a multiple of HF_GEMM_BLOCK */
    int64_t pass;          /* products that a tile sums before the next tile */
    int64_t area[2];       /* tiles of rows and of columns that one worker takes */
    bool own_a; /* with AMX: who sums an area packs A's panels of it, in the place of the worker */
    bool far;   /* C goes to memory past the caches */
    char *pack_a; /* [tile][depth units][TILE_M]; with AMX [tile][step][TILE_M][TILE_STEP], own_a:
                     [worker][tile of the area] likewise */
    char *pack_b; /* [tile][depth units][tile_n] */
    struct hf_slot *slot; /* where a changed panel is told, */
    uint32_t kernel;      /* as whose finding */
    int checksum;         /* id, where args->signatures is not NULL */
    int64_t batch;        /* number of this product */
    uint64_t place;       /* of the group, for signatures: group_place() */
    uint64_t *staged;     /* [panels of the group] their signatures; NULL: not to be compared */
    char *totals;         /* [tile row][tile column][TILE_M][tile_n]: sums of the ranges so far;
                                NULL where k is one range */
    char *own;            /* [worker][tile row of its area] likewise of the passes of a range */
};

/* A tile at (row, col) of C whose sums are to be stored from row `next` on. */
struct unstored {
    const char *total; /* NULL: there is none */
    int64_t row, col, next;
};

/* What one worker sums: tiles [top, bottom) by [left, right), column after column of tiles, and of
 * each pass after pass. */
struct area {
    int64_t top, bottom, left, right;
    char *own;              /* job->own of the worker */
    char *a;                /* panels of A, that of tile row `top` first */
    struct unstored before; /* the tile before */
};

/* Tile (i, j) of the group in the pass that begins with product `first` of the range: its sums
 * before, unless nothing was added yet, and after. */
struct pass {
    int64_t i, j, first;
    char *from, *to;
};

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Bytes of an element of a tile, which are those of a unit. */
static inline int64_t unit_bytes(const struct gemm_job *job) { return job->in == HF_F64 ? 8 : 4; }

/* Products of a unit. */
static inline int unit_products(const struct gemm_job *job) {
#if HF_ISA_TILES
    return job->in == HF_I32 ? 4 : 2;
#else
    return job->in == HF_I32 ? 2 : 1;
#endif
}

/* Units of so many products: whole steps with AMX. */
static inline int64_t units_of(const struct gemm_job *job, int64_t depth) {
    const int64_t units = ceil_div(depth, unit_products(job));
    return HF_ISA_TILES ? ceil_div(units, TILE_STEP) * TILE_STEP : units;
}

/* Where the unit with product p of a line of op(A) lies in its panel, in units. */
static inline int64_t unit_of_a(const struct gemm_job *job, int64_t p, int64_t line) {
    const int64_t unit = p / unit_products(job);
    return HF_ISA_TILES ? (unit / TILE_STEP * TILE_M + line) * TILE_STEP + unit % TILE_STEP
                        : unit * TILE_M + line;
}

static inline int64_t tiles_down(const struct gemm_job *job) { return ceil_div(job->rows, TILE_M); }

static inline int64_t tiles_across(const struct gemm_job *job) {
    return ceil_div(job->cols, job->tile_n);
}

/* Do the sums end with this range of products? */
static inline bool is_last(const struct gemm_job *job) {
    return job->first + job->depth == (hf_gemm_reads_ab(job->args) ? job->args->k : 0);
}

/* And with this pass the range? */
static inline bool ends_range(const struct gemm_job *job, const struct pass *pass) {
    return pass->first + job->pass >= job->depth;
}

/* Bytes of the sums of a tile. */
static inline int64_t tile_bytes(const struct gemm_job *job) {
    return TILE_M * job->tile_n * unit_bytes(job);
}

/* Bytes of the packed panel of a tile that is `width` wide. */
static inline int64_t panel_bytes(const struct gemm_job *job, int64_t width) {
    return units_of(job, job->depth) * width * unit_bytes(job);
}

#endif
