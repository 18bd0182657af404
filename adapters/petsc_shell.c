/* SPDX-License-Identifier: Apache-2.0 */
#include "petsc_shell.h"

#define TRY(call) PetscCheck(!(call), PETSC_COMM_SELF, PETSC_ERR_LIB, "%s", hf_last_error(s->ctx))

static PetscErrorCode drop(PC pc) {
    HoldfastData *s;
    PetscCall(PCShellGetContext(pc, &s));
    hf_relax_destroy(s->relax);
    PetscCall(PetscFree(s->start));
    return PetscFree(s);
}

static PetscErrorCode set_up(PC pc) {
    HoldfastData *s;
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
    TRY(hf_relax_setup(s->ctx, &(hf_csr){n, n, HF_F64, s->start, j, v}, &s->opts, &s->relax));
    return 0;
}

static PetscErrorCode sweep(PC pc, Vec b, Vec x, Vec w, PetscReal r, PetscReal a, PetscReal d,
                            PetscInt its, PetscBool zero, PetscInt *done,
                            PCRichardsonConvergedReason *why) {
    HoldfastData *s;
    PetscScalar *f, *t;
    PetscCall(PCShellGetContext(pc, &s));
    PetscCall(VecGetLocalSize(b, done));
    PetscCall(VecGetArrayPair(b, x, &f, &t));
    const hf_array v[] = {hf_array_view(f, HF_F64, *done, 1), hf_array_view(t, HF_F64, *done, 1)};
    TRY(hf_relax_apply(s->relax, &v[0], &v[1], its, zero));
    *done = its, *why = PCRICHARDSON_CONVERGED_ITS;
    return VecRestoreArrayPair(b, x, &f, &t);
}

static PetscErrorCode apply(PC pc, Vec b, Vec x) {
    return sweep(pc, b, x, NULL, 0, 0, 0, 1, 1, &(PetscInt){0}, &(PCRichardsonConvergedReason){0});
}

PetscErrorCode HoldfastShell(PC pc, hf_context *ctx, const hf_relax_opts *opts) {
    HoldfastData *s;
    PetscCall(PetscNew(&s));
    *s = (HoldfastData){.ctx = ctx, .opts = opts ? *opts : (hf_relax_opts){0}};
    PetscCall(PCSetType(pc, PCSHELL));
    PetscCall(PCShellSetContext(pc, s));
    PetscCall(PCShellSetSetUp(pc, set_up));
    PetscCall(PCShellSetApply(pc, apply));
    PetscCall(PCShellSetApplyRichardson(pc, sweep));
    return PCShellSetDestroy(pc, drop);
}
