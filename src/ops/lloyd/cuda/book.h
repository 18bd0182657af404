/* SPDX-License-Identifier: Apache-2.0
 * The checks of op lloyd on the device (struct hf_lloyd_book): what is launched beside the steps,
 * so that these are the same with and without. */
#ifndef HF_LLOYD_CUDA_BOOK_H
#define HF_LLOYD_CUDA_BOOK_H

#include "core/call.h"
#include "device/cuda/stage.h"
#include "ops/audit/audit_cuda.h"
#include "ops/lloyd/cuda/lloyd_cuda.h"

#define HF_LLOYD_KEPT 3 /* sets of centroids: the last two that are right, and those to come */

/* What the checks of a run know, in memory of the device. */
struct hf_lloyd_ledger {
    int32_t moves;      /* of the centroids, found right: they are in kept[moves % HF_LLOYD_KEPT] */
    int32_t iterations; /* found right */
    int32_t ended;      /* a fault was told */
    int32_t looked;     /* steps that were looked at */
    int32_t listed;     /* rows in the list of a step, */
    uint32_t ticket;    /* blocks that are done with it, */
    uint32_t wrong;     /* HF_CHECK_BIT() of what is wrong in it, */
    int32_t cluster;    /* and in which cluster; -1: not known */
    uint64_t sign[HF_LLOYD_KEPT]; /* of the kept centroids */
    uint64_t used, next;          /* of those of a step, as they are read in it */
    double totals[2];             /* inertia and shift over its clusters, once more */
    uint64_t packed;              /* of hf_lloyd_book */
    int64_t empty;                /* clusters without weight */
    int64_t stray;                /* a row that is nearer to another centroid; -1: none */
    int64_t late;                 /* a row that should have moved a step before; -1: none */
    struct hf_audit_found found;  /* of a step */
};

struct hf_lloyd_checks {
    struct hf_audit_job audit; /* labels and centroids are those of each step */
    const uint64_t *factor;    /* of hf_lloyd_book */
    struct hf_lloyd_ledger *ledger;
    void *kept[HF_LLOYD_KEPT]; /* [k, d] */
    int32_t *first;            /* [n] the first labels of a fit, found once more, or NULL */
    struct hf_slot *slot;
    uint32_t kernel, checks; /* of the call */
    int every; /* sampled: one step in so many looks for rows that should have moved; else 1 */
};

/* What runs beside the steps. */
struct hf_lloyd_beside {
    cudaStream_t stream;     /* NULL: not open */
    cudaEvent_t begin, done; /* what it waits for, what waits for it */
};

/* The rows as the steps had them, and what they are packed from. */
struct hf_lloyd_packed {
    const struct hf_assign_problem *problem;
    const struct hf_assign_rows *rows;
    void *memory;
};

/* Bytes of memory; memory NULL: measure, else *checks gets its pointers. */
size_t hf_lloyd_checks_carve(const struct hf_lloyd_args *args, void *memory,
                             struct hf_lloyd_checks *checks);

/* The book of the call, and what its checks look at. */
void hf_lloyd_checks_stage(struct hf_stage *stage, const struct hf_call *call,
                           const struct hf_update_job *update, struct hf_lloyd_checks *checks);

/* Before the first step; job->centers[0] are the current centroids, [1] the previous ones. */
hf_status hf_lloyd_checks_begin(struct hf_cuda *cuda, const struct hf_lloyd_args *args,
                                const struct hf_lloyd_job *job,
                                const struct hf_lloyd_checks *checks);

/* The step that ended last is looked at, if nobody has: its sums, its centroids and their totals,
 * and rows; what is wrong is told in the slot and ends the run. It is done before anything of the
 * next step but its labels is written. */
hf_status hf_lloyd_check(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                         const struct hf_lloyd_checks *checks, cudaStream_t stream);

/* The same beside what is queued on cuda->stream between the two calls. */
hf_status hf_lloyd_check_beside(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                                const struct hf_lloyd_checks *checks,
                                const struct hf_lloyd_beside *beside);
hf_status hf_lloyd_check_join(struct hf_cuda *cuda, const struct hf_lloyd_beside *beside);

/* Are the labels of the first step, which no label came before, those in checks->first? */
hf_status hf_lloyd_check_first(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                               const struct hf_lloyd_checks *checks);

hf_status hf_lloyd_beside_open(struct hf_cuda *cuda, struct hf_lloyd_beside *beside);
void hf_lloyd_beside_close(struct hf_lloyd_beside *beside);

/* Between the labels of a step and hf_lloyd_conclude(): what of their checks needs launches of its
 * own there. checks NULL: nothing. */
hf_status hf_lloyd_check_moves(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                               const struct hf_lloyd_checks *checks, int side);

/* The centroids that were found right last, after `moves` of them, to job->centers; their
 * signatures, and that of the packed rows, to the caller. */
hf_status hf_lloyd_checks_end(struct hf_stage *stage, const struct hf_lloyd_args *args,
                              const struct hf_lloyd_job *job, int moves,
                              const struct hf_lloyd_checks *checks,
                              const struct hf_lloyd_packed *packed);

#endif
