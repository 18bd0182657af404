/* SPDX-License-Identifier: Apache-2.0
 * march: many iterations of block relaxation in one call. Each block of rows is an affine map that
 * a kernel keeps near its arithmetic for the whole call; between two steps it exchanges values with
 * its neighbours alone.
 *
 * x_ext of a block is its own rows, then `row_count - own` copies of neighbours' rows that it
 * computes as well, then what it only reads. An epoch is
 *   s = 1 .. sweeps:  g = c + M x_ext for all its rows, c_i = inverse_i b_i (or rhs_map b)
 *                     p = alpha g + beta p,  x = x + p  (alpha, beta: factor of this step)
 *   then x, and p where `momentum`, of all that is not its own are those of their owners after this
 *   epoch; where `free` is set, those that are there by then, which may be older.
 * With M = -D^-1 A: sweeps = 1 is Jacobi's or Chebyshev's method; without copies sweeps = k is
 * async-(k); with at least sweeps - 1 layers of copies the own rows are those of sweeps = 1.
 *
 * With goal >= 0 blocks estimate |b - A x|^2 meanwhile, by the residuals of rows at the beginning
 * of every `every`-th epoch. Where a forecast for `lead` epochs later is within `target`, all leave
 * after that one, and the true residual is taken from `a`. If it is above goal they go on.
 *
 * `spares` workers more than there are blocks stand by. A worker that has given no sign of life for
 * silence_s loses its block to one of them, which goes on from what the block told last; what the
 * late one says afterwards does not count. Without copies of rows beta must be 0 or factors above 1
 * for that. */
#ifndef HF_MARCH_H
#define HF_MARCH_H

#include "core/run.h"
#include "ops/sparse.h"
#include <stdbool.h>

#define HF_MARCH_MOST_WIDTH 16
#define HF_MARCH_MOST_FACTORS 1024
#define HF_MARCH_SPARES 64 /* at most */

struct hf_march_map {
    int64_t blocks;
    int32_t threads;             /* places of a block in value: a multiple of 32, >= lanes * rows */
    int32_t lanes;               /* to a row: 1, 2 or 4 */
    int32_t width;               /* elements of a lane: 3, 6, 9 or 16 */
    int32_t rows;                /* of the largest block, copies included */
    int32_t own;                 /* without */
    int32_t extent;              /* length of the longest x_ext, at most 65,535 */
    int32_t rhs;                 /* most rows of b that a block's rhs_map takes */
    int64_t sources;             /* of all blocks */
    int64_t rhs_places;          /* of all blocks */
    int64_t rhs_elements;        /* of rhs_map */
    const int64_t *block_start;  /* [blocks + 1] own rows, ascending from 0 to n */
    const int32_t *row_count;    /* [blocks] own rows and copies */
    const int64_t *source_start; /* [blocks + 1] */
    const int32_t *source;       /* [sources] rows of x_ext behind the own ones; if a block has one
                                    of another, that has one of it */
    const double *value;         /* [blocks, width, threads] element w of lane l of row r is at
                                    thread r * lanes + l */
    const uint16_t *column;      /* [blocks, width, threads] into x_ext */
    /* NULL, or a map of each block from b to the c of its own rows; then there are no copies. */
    const int64_t *rhs_start;     /* [blocks + 1] */
    const int32_t *rhs_place;     /* [rhs_places] */
    const int64_t *rhs_map_start; /* [blocks + 1] */
    const double *rhs_map;        /* [rhs_elements] row by row of each block */
};

enum hf_march_stop {
    HF_MARCH_MOST = 0,   /* all epochs were made */
    HF_MARCH_GOAL = 1,   /* the true residual is within the goal */
    HF_MARCH_STALL = 2,  /* the estimate no longer falls, or grew beyond bounds */
    HF_MARCH_ABORTED = 3 /* a block fell silent, or limit_s went by: x is undefined */
};

/* A block that a spare worker took over. */
struct hf_march_taken {
    uint64_t
        call; /* first + 1 of the call that it happened in: those of other calls do not count */
    int64_t block;  /* which */
    int64_t epoch;  /* that was its last one to be complete */
    double after_s; /* the beginning of the call */
};

struct hf_march_report {
    uint64_t call;   /* first + 1; anything else: nobody was left to fill it in */
    double square;   /* |b - A x|^2 of the x returned, from `a`; goal < 0: not taken */
    double estimate; /* what the last decision was made by */
    int64_t epochs, checks;
    int64_t stop;                                 /* enum hf_march_stop */
    struct hf_march_taken taken[HF_MARCH_SPARES]; /* in: anything; by each spare worker */
};

/* Where workers are lost in an experiment. */
enum hf_march_moment {
    HF_MARCH_IN_EPOCHS = 0,    /* before epoch hf_march_loss.at */
    HF_MARCH_HALF_TOLD = 1,    /* there, and half of what epoch at - 1 told is lost too */
    HF_MARCH_CHECK_BEGINS = 2, /* before check hf_march_loss.at, counted from 1, */
    HF_MARCH_CHECK_HALF = 3,   /* in the middle of it, */
    HF_MARCH_CHECK_ENDS = 4    /* and at its end */
};

struct hf_march_loss {
    const uint8_t *blocks; /* [blocks] not 0: this one's worker */
    enum hf_march_moment moment;
    int64_t at;
    double pause_s; /* after which it goes on, if it may; 0: never */
};

struct hf_march_args {
    struct hf_march_map map;
    struct hf_sparse a;    /* [n, n] for the true residual */
    const double *inverse; /* [n] 1 / diagonal */
    const double *b;       /* [n] */
    double *x;             /* [n] in, out; output 0 of the op's bound */
    int32_t sweeps;
    int32_t factors;      /* 1 .. HF_MARCH_MOST_FACTORS */
    const double *factor; /* [factors, 2] alpha, beta; the last for all further steps */
    bool momentum;        /* beta is not 0, and there are copies */
    bool free;
    int32_t every, lead; /* at least 1; lead a multiple of every, at most twice that */
    int64_t most;        /* epochs, at most 2^30 */
    double target, goal;
    double limit_s;   /* after which a call gives up: nothing can hang */
    int32_t spares;   /* at most HF_MARCH_SPARES; a kernel may have room for fewer, or none */
    double silence_s; /* 0: a kernel's own */
    struct hf_march_loss loss; /* blocks NULL: none; the reference loses nobody */
    void *state;               /* hf_march_state_bytes(): a kernel's own from call to call */
    uint64_t first; /* more than first + most of any call before with this state; 0: state holds
                       anything and is cleared */
    struct hf_march_report *report; /* in, out */
    bool timed; /* on a device: marks 0 and 1 of its stream stand around the launch */
};

/* Bytes of hf_march_args.state: numbers with their epochs, of x and p twice, of what blocks tell
 * all others, and of what one that takes over must know. */
static inline size_t hf_march_state_bytes(int64_t n, int64_t blocks) {
    return 16 * (4 * (size_t)n + 20 * (size_t)blocks);
}

/* What a map is made of; `a` and the rest lie in host memory. */
struct hf_march_plan {
    struct hf_sparse a;         /* [n, n] */
    const double *inverse;      /* [n] */
    const int64_t *block_start; /* [blocks + 1] */
    int64_t blocks;
    int layers; /* of copies */
};

/* M = -D^-1 A. HF_E_UNSUPPORTED: a block or a row is too large; HF_E_NOMEM. */
hf_status hf_march_map_make(const struct hf_march_plan *plan, struct hf_march_map *map);
/* Frees the arrays of a map that was made. */
void hf_march_map_clear(struct hf_march_map *map);

static inline hf_status hf_march(hf_context *ctx, const struct hf_march_args *args) {
    return hf_run(ctx, HF_OP_MARCH, args);
}

#endif
