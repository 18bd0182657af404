/* SPDX-License-Identifier: Apache-2.0
 * One right-hand side. */
#ifndef HF_RELAX_SOLVE_H
#define HF_RELAX_SOLVE_H

#include "algo/relax/step.h"

#define HF_RELAX_HISTORY 65536     /* estimates that are kept at most */
#define HF_RELAX_HISTORY_LEAST 512 /* for which there is room from the start: a power of two */

struct hf_relax_request {
    const double *b;         /* [n] in the caller's order */
    double *x;               /* [n] likewise; in, out */
    double *spare;           /* [n] */
    int64_t number;          /* of the column */
    double deadline;         /* on the clock of hf_now_s(); 0: none */
    hf_relax_column *column; /* zeroed, with room for HF_RELAX_HISTORY_LEAST estimates */
    hf_relax_faults *faults;
};

/* |b| of a column; b [n] in memory of the host, `there` where kernels read it. */
hf_status hf_relax_scale(hf_relax *relax, const struct hf_relax_request *request,
                         const double *there, double *scale);
/* Keep the estimate of an iteration of column->history: every history_step-th; when the room is
 * full, every other one of those goes. */
void hf_relax_note(hf_relax_column *column, int64_t iteration, double estimate);
/* The same of what x really leaves, in the place of an estimate of that iteration. */
void hf_relax_note_truth(hf_relax_column *column, int64_t iteration, double residual);

/* Is the caller to be told how it goes, who was told last at *told? */
bool hf_relax_due(const hf_relax_opts *o, double *told);

hf_status hf_relax_solve_column(hf_relax *relax, const struct hf_relax_request *request);

#endif
