/* SPDX-License-Identifier: Apache-2.0
 * Experiments with relaxation. Found in libholdfast_dev only. Unstable: may change in any release.
 */
#ifndef HF_DEV_RELAX_H
#define HF_DEV_RELAX_H

#include <holdfast/dev_faults.h>
#include <holdfast/relax.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Faults in the middle of hf_relax_solve_with(), for experiments. */
typedef enum hf_dev_relax_fault_kind {
    HF_DEV_RELAX_FREEZE = 0,   /* nobody works on some blocks */
    HF_DEV_RELAX_X = 1,        /* a bit of an element of x flips */
    HF_DEV_RELAX_NAN = 2,      /* an element of x becomes NaN */
    HF_DEV_RELAX_MATRIX = 3,   /* a bit of an element of the matrix inside flips */
    HF_DEV_RELAX_DIAGONAL = 4, /* of an inverse diagonal element */
    HF_DEV_RELAX_FACTOR = 5,   /* of a factor of a block */
    HF_DEV_RELAX_SILENT = 6,   /* of several devices one falls silent */
    HF_DEV_RELAX_SLOW = 7,     /* of several devices one makes each sweep `outage` times */
    HF_DEV_RELAX_DEAD = 8      /* workers of some blocks end in the middle of a call of many
                                  iterations, or sleep for `outage` microseconds */
} hf_dev_relax_fault_kind;

/* When and where it strikes. */
typedef struct hf_dev_relax_fault {
    hf_dev_relax_fault_kind kind; /* what happens */
    int64_t iteration;            /* before this one, counted from 0 */
    double share;                 /* FREEZE, DEAD: of all rows, about; DEAD: 0: a block */
    int64_t outage;               /* FREEZE: iterations that it lasts; < 0 for ever */
    int64_t lag;                  /* FREEZE: others adopt the blocks when these are so far behind;
                                     0: nobody does */
    int bit;                      /* which flips, 0 is the lowest */
    uint64_t seed;                /* chooses the blocks or the element */
    int device;                   /* SILENT, SLOW: which, counted from 0 */
    /* DEAD on a GPU: 0 before `iteration`, 1 with half of what was told of the one before, 2 at the
     * beginning, 3 in the middle, 4 at the end of test number `iteration` for the end. */
    int moment;
} hf_dev_relax_fault;

/* hf_relax_solve_with() struck by one fault. With HF_TIMING_FREE a FREEZE lasts for ever. */
HF_API hf_status hf_dev_relax_solve(hf_relax *relax, const hf_array *b, const hf_array *x,
                                    const hf_dev_relax_fault *fault, hf_relax_result *result);

/* One fault of a campaign. */
typedef struct hf_dev_relax_trial {
    int64_t number;           /* counted from 0 */
    hf_relax_method method;   /* of the solution */
    hf_relax_precond precond; /* likewise */
    hf_dev_relax_fault fault; /* that struck it */
    hf_dev_outcome outcome;   /* see hf_dev_relax_campaign() */
    hf_relax_stop stop;       /* why it ended */
    int64_t iterations;       /* with the fault, */
    int64_t healthy;          /* and without it */
    double residual;          /* |b - A x| / |b|, computed anew by the campaign */
    hf_relax_faults told;     /* what the solution said */
} hf_dev_relax_trial;

/* Called after each; not 0 ends the campaign. */
typedef int (*hf_dev_relax_each)(void *user, const hf_dev_relax_trial *trial);

/* What a campaign is to do. */
typedef struct hf_dev_relax_plan {
    const hf_csr *a;           /* the matrix */
    const hf_relax_opts *opts; /* NULL, or what all solutions have in common; its method and precond
                                  are not looked at */
    uint64_t seed;             /* of the faults */
    int64_t faults;            /* how many */
} hf_dev_relax_plan;

/* Solutions of A x = 1, each struck by one fault: a random bit, element, iteration, kind and method
 * of those that solve the matrix (async with both timings). Outcomes: masked (the same x to the
 * bit), benign (another x, the residual within the tolerance, nothing was told), corrected (the
 * same, and told: faults, or a refused check), detected (not converged, or HF_E_CORRUPT: said so),
 * silent (said to be converged, and the residual is above the tolerance), error. What kills the
 * process is not caught. HF_E_DATA: no method solves the matrix. */
HF_API hf_status hf_dev_relax_campaign(hf_context *ctx, const hf_dev_relax_plan *plan,
                                       hf_dev_relax_each each, void *user);

/* "a bit of x", ...; NULL past the last. */
HF_API const char *hf_dev_relax_fault_name(int kind);

#ifdef __cplusplus
}
#endif
#endif
