/* SPDX-License-Identifier: Apache-2.0
 * Progress of `holdfast solve` on standard error: a bar on a terminal, elsewhere a line now and
 * then. */
#ifndef SOLVE_PROGRESS_H
#define SOLVE_PROGRESS_H

#include "progress.h"

struct solve_progress {
    struct progress bar; /* quiet is set by the caller */
    double tol;
    int64_t max_iter, rhs; /* right-hand sides */
    /* state */
    int64_t at;   /* the right-hand side under way */
    double first; /* its residual when it was first seen */
    double begun; /* and when that was */
};

void solve_progress_open(struct solve_progress *p);

/* A hf_relax_progress; user is a struct solve_progress. Non-zero once a signal was seen. */
int solve_progress_step(void *user, int64_t rhs, int64_t iteration, double residual);

#endif
