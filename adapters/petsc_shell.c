/* SPDX-License-Identifier: Apache-2.0 */
#include "petsc_shell.h"

#define TRY(s, call)                                                                               \
    PetscCheck(!(call), PETSC_COMM_SELF, PETSC_ERR_LIB, "%s", hf_last_error((s)->ctx))

typedef struct {
    hf_context *ctx;
    hf_relax_opts opts;
    hf_relax *relax;
    int64_t *start; /* the row starts of the matrix, in 64 bits */
} Shell;

static PetscErrorCode drop(PC pc) {
    Shell *s;
    PetscCall(PCShellGetContext(pc, &s));
    hf_relax_destroy(s->relax);
    PetscCall(PetscFree(s->start));
    return PetscFree(s);
}

static PetscErrorCode set_up(PC pc) {
    Shell *s;
    Mat a;
    PetscInt n;
    const PetscInt *i, *j;
    PetscScalar *v;
    PetscCall(PCShellGetContext(pc, &s));
    PetscCall(PCGetOperators(pc, NULL, &a));
    PetscCall(MatGetSize(a, &n, NULL));
    PetscCall(MatSeqAIJGetCSRAndMemType(a, &i, &j, &v, NULL));
    hf_relax_destroy(s->relax);
    PetscCall(PetscRealloc((n + 1) * sizeof *s->start, &s->start));
    for (PetscInt r = 0; r <= n; r++)
        s->start[r] = i[r];
    const hf_csr csr = {n, n, HF_F64, s->start, j, v};
    TRY(s, hf_relax_setup(s->ctx, &csr, &s->opts, &s->relax));
    return 0;
}

static PetscErrorCode sweep(PC pc, Vec b, Vec x, Vec w, PetscReal rtol, PetscReal abstol,
                            PetscReal dtol, PetscInt its, PetscBool zero, PetscInt *done,
                            PCRichardsonConvergedReason *why) {
    Shell *s;
    hf_array from = hf_array_view(NULL, HF_F64, 0, 1), to = from;
    PetscCall(PCShellGetContext(pc, &s));
    PetscCall(VecGetLocalSize(b, (PetscInt *)done));
    from.rows = to.rows = *done;
    PetscCall(VecGetArrayRead(b, (const PetscScalar **)&from.data));
    PetscCall(VecGetArray(x, (PetscScalar **)&to.data));
    TRY(s, hf_relax_apply(s->relax, &from, &to, its, zero));
    PetscCall(VecRestoreArrayRead(b, (const PetscScalar **)&from.data));
    PetscCall(VecRestoreArray(x, (PetscScalar **)&to.data));
    *done = its, *why = PCRICHARDSON_CONVERGED_ITS;
    return 0;
}

static PetscErrorCode apply(PC pc, Vec b, Vec x) {
    PetscInt its;
    PCRichardsonConvergedReason why;
    return sweep(pc, b, x, NULL, 0, 0, 0, 1, PETSC_TRUE, &its, &why);
}

PetscErrorCode HoldfastShell(PC pc, hf_context *ctx, const hf_relax_opts *opts) {
    Shell *s;
    PetscCall(PetscNew(&s));
    *s = (Shell){.ctx = ctx, .opts = opts ? *opts : (hf_relax_opts){0}};
    PetscCall(PCSetType(pc, PCSHELL));
    PetscCall(PCShellSetContext(pc, s));
    PetscCall(PCShellSetSetUp(pc, set_up));
    PetscCall(PCShellSetApply(pc, apply));
    PetscCall(PCShellSetApplyRichardson(pc, sweep));
    return PCShellSetDestroy(pc, drop);
}
