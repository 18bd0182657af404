/* SPDX-License-Identifier: Apache-2.0
 * What a protected call keeps beside its job: checksums of the centroids, what the tiles leave of
 * each row for the checks, and the rows that a check suspects. docs/numerics/guard.md has the
 * proofs, docs/fault-model.md what each check sees. */
#ifndef HF_ASSIGN_GUARD_JOB_H
#define HF_ASSIGN_GUARD_JOB_H

#include "core/call.h"
#include "device/slot.h"
#include <stdatomic.h>
#include <stdint.h>

#define GUARD_TESTS 8     /* checksums of a pack at most */
#define GUARD_SUSPECTS 64 /* suspects of a worker whose rows are computed again for a verdict */
#define GUARD_MANY 8      /* suspects of a pass that may be so by themselves */
#define GUARD_SHARE 32    /* where moves are looked at, scores of one block in so many are tested */
#define GUARD_RUN 9       /* a block is that of its first row, 2^so many of them at a time */
#define GUARD_BUCKET 12   /* labels are checked 2^so many rows at a time */
#define GUARD_COLUMNS 256 /* centroids of a checksum, where the pack has room */
#define GUARD_LISTED (-1) /* in worker.listed: a suspect, for float64 against all centroids */
#define GUARD_SAMPLE 128  /* rows that show how large rounding is */
#define GUARD_CALIBRATE 4096 /* calls with fewer rows take the largest threshold */

/* What the score of a slot of a pack is for. */
enum guard_role {
    GUARD_SCORE, /* a centroid */
    GUARD_NONE,  /* an excluded centroid, or padding: its score is in no sum */
    GUARD_CHECK  /* GUARD_CHECK + q: a column of checksum q */
};

/* What is in the slots of a group. */
enum guard_mixed {
    GUARD_PURE,   /* centroids alone */
    GUARD_PARTS,  /* others, too, but no checksum of other groups than its own test is of */
    GUARD_FOREIGN /* such ones, too */
};

/* Checksums of a pack: q is of groups [q * groups_each, ...), alternately + and - by slot. */
struct guard_pack {
    int tests;
    int64_t groups_each;
    uint8_t *role;  /* [slots] enum guard_role */
    uint8_t *mixed; /* [groups] enum guard_mixed */
    float *factor;  /* [slots] of columns: what 1 of their score stands for in the test */
    float *part;    /* [slots] what scores are multiplied with in the sum of the group's checksum */
    float *start;   /* of the pack, with columns that no pass finds best */
    uint32_t words; /* what the words of the pack add up to (guard_sum_pack()) */
    uint32_t *in;   /* AMX: [groups] bit t: slot t of the group is in the sums */
    float *weight;  /* AMX: [places of a packed row] the column */
    float *begin;   /* [GUARD_TESTS] minus the starts' sum */
    /* Of the scheme `weighted` (host/guard/weighted.h): */
    float *group_sums;   /* [groups, 2, d_pad] */
    float *group_starts; /* [groups, 2] */
    float *one, *place;  /* [slots] 1 and the place in its group, counted from 1; 0: in no sum */
    double *column;      /* [GUARD_TESTS, d_pad] scratch */
};

/* Centroids of few columns, in the order of one of them (host/guard/guard_slab.h). */
struct guard_slab {
    int count;       /* 0: there are none */
    int column;      /* that they are in the order of, */
    float *key;      /* [k] and it, rounded */
    int32_t *index;  /* [k] their numbers */
    void *value;     /* [d][k] float32 or float64, as differences are */
    uint32_t *spare; /* [2][k] scratch */
};

/* Where a row looks for centroids. */
struct slab_scan {
    int first;       /* place where it begins */
    double cut, end; /* largest squared distance, and largest key */
    int32_t *list;   /* [most] of those that it finds */
    int most;
};

/* The scheme of a call. */
struct guard {
    uint32_t checks;      /* HF_CHECK_BIT()s; 0: off */
    int words;            /* packed rows are summed up: host/guard/guard_words.h */
    int labels;           /* labels are summed up: host/guard/guard_labels.h */
    int scores;           /* the tiles compute what the checks of scores need */
    int near;             /* each label is confirmed by host/guard/guard_near.h, not its scores */
    int weighted;         /* tiles have checksums of their own: host/guard/weighted.h */
    int correct;          /* 0: findings are told, 1: repaired */
    int before;           /* moves are looked at among the centroids before, too */
    int share;            /* scores of one block in so many are tested, */
    uint32_t turn;        /* another one with each number */
    float kappa;          /* threshold of the row test by |x'| cmax + cmax^2 / 2, */
    float width;          /* and what margins grow by */
    double root;          /* square root of the columns */
    double longest;       /* centroids as long as this are in no checksum, */
    float cmax;           /* and the others are no longer than this */
    struct hf_slot *slot; /* where findings go, as those of `kernel` */
    uint32_t kernel;
    _Atomic int packing; /* a worker packs the centroids again */
    _Atomic int stale;   /* packed rows are not what they were */
    uint64_t *bucket;    /* [buckets] sums of labels, */
    int32_t *who;        /* and whose rows they are: 1 + worker, 0: nobody's, GUARD_SEVERAL */
    int64_t buckets;
    struct guard_slab slab;
};

/* A row that a check suspects, with the bits that it saw. */
struct guard_suspect {
    int64_t row;
    uint32_t fault; /* enum hf_fault */
    int32_t lane;   /* place in its tile */
    int moved;      /* in the pack of moved centroids */
    int32_t words;  /* sum of its words */
    int32_t arg;
    float best, next, z;
};

/* What a worker's tiles leave for the checks, by slot of its block. */
struct guard_block {
    float *z;         /* [GUARD_TESTS, capacity] sums of scores less checksums */
    float *most;      /* [2, capacity] largest score of even and of odd columns */
    uint32_t *listed; /* [open rows] sums of the candidates listed */
    float *row_sums;  /* [capacity / VW, 2, d_pad] (host/guard/weighted.h) */
    int again;        /* the centroids were packed again for this pass */
    int32_t *place;   /* [capacity] -1 - place of the largest score */
    int sums;         /* AMX: scores are summed */
    int replay;       /* rows are computed again: suspect none */
    int64_t at;       /* bucket of the labels in these sums */
    uint64_t sum;     /* of single rows, */
    int64_t lanes[8]; /* and of vectors, in lanes */
    uint64_t checked, suspected, confirmed, repaired, beyond;
    uint64_t more;           /* suspects that suspect[] had no room for */
    uint32_t bounds;         /* what bounds add to the caller's sum, of single rows, */
    int32_t bound_lanes[16]; /* and of vectors, in lanes */
    int suspects;
    struct guard_suspect suspect[GUARD_SUSPECTS];
};

/* Is this check part of the call? */
static inline int guard_checks(const struct guard *g, enum hf_fault fault) {
    return (g->checks & HF_CHECK_BIT(fault)) != 0;
}

/* Are the scores of the block tested that begins with this row? */
static inline int guard_tested(const struct guard *g, const struct guard_block *b, int64_t row) {
    return g->share == 1 || b->replay ||
           ((uint32_t)(row >> GUARD_RUN) + g->turn) % (uint32_t)g->share == 0;
}

/* Columns of a pack for checksums, at least. */
static inline int64_t guard_columns(int64_t count, int64_t each) {
    return count == 0 ? 0 : each * (1 + count / GUARD_COLUMNS);
}

#endif
