/* SPDX-License-Identifier: Apache-2.0
 * holdfast as a preconditioner of PETSc, and as the smoother of its multigrid. */
#ifndef HOLDFAST_PETSC_SHELL_H
#define HOLDFAST_PETSC_SHELL_H

#include <holdfast/holdfast.h>
#include <petscksp.h>

/* What PCShellGetContext() gives; relax is there after PCSetUp(). */
typedef struct {
    hf_context *ctx;
    hf_relax_opts opts;
    hf_relax *relax;
    int64_t *start; /* the row starts of the matrix, in 64 bits */
} HoldfastData;

/* Make pc a shell that makes iterations of a method: one as a preconditioner, as many as a
 * KSPRICHARDSON around it asks for as a smoother, in one call. The matrix is a sequential AIJ of
 * double and 32-bit indices; in parallel use it inside PCBJACOBI. opts may be NULL; ctx must
 * outlive pc. */
PetscErrorCode HoldfastShell(PC pc, hf_context *ctx, const hf_relax_opts *opts);

#endif
