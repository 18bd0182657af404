/* SPDX-License-Identifier: Apache-2.0
 * Experiments with relaxation. Found in libholdfast_dev only. Unstable: may change in any release.
 */
#ifndef HF_DEV_RELAX_H
#define HF_DEV_RELAX_H

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
    HF_DEV_RELAX_FACTOR = 5    /* of a factor of a block */
} hf_dev_relax_fault_kind;

/* When and where it strikes. */
typedef struct hf_dev_relax_fault {
    hf_dev_relax_fault_kind kind; /* what happens */
    int64_t iteration;            /* before this one, counted from 0 */
    double share;                 /* FREEZE: of all rows, about */
    int64_t outage;               /* FREEZE: iterations that it lasts; < 0 for ever */
    int64_t lag;                  /* FREEZE: others adopt the blocks when these are so far behind;
                                     0: nobody does */
    int bit;                      /* which flips, 0 is the lowest */
    uint64_t seed;                /* chooses the blocks or the element */
} hf_dev_relax_fault;

/* hf_relax_solve_with() struck by one fault. With HF_TIMING_FREE a FREEZE lasts for ever. */
HF_API hf_status hf_dev_relax_solve(hf_relax *relax, const hf_array *b, const hf_array *x,
                                    const hf_dev_relax_fault *fault, hf_relax_result *result);

#ifdef __cplusplus
}
#endif
#endif
