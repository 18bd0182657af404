/* SPDX-License-Identifier: Apache-2.0
 * adapters/petsc_shell.c in PETSc itself: as the preconditioner of cg, as the smoother of GAMG's
 * levels, and again after the values of the matrix changed. */
#include "../../adapters/petsc_shell.h"

static int failures;

static void expect(int fine, const char *what) {
    failures += !fine;
    if (!fine)
        printf("failed: %s\n", what);
}

/* Five points of a size x size grid, anisotropic. */
static PetscErrorCode grid(PetscInt size, double weak, Mat *a) {
    PetscCall(MatCreateSeqAIJ(PETSC_COMM_SELF, size * size, size * size, 5, NULL, a));
    for (PetscInt y = 0; y < size; y++)
        for (PetscInt x = 0; x < size; x++) {
            const PetscInt i = y * size + x;
            PetscCall(MatSetValue(*a, i, i, 2 + 2 * weak, INSERT_VALUES));
            if (x > 0)
                PetscCall(MatSetValue(*a, i, i - 1, -1, INSERT_VALUES));
            if (x + 1 < size)
                PetscCall(MatSetValue(*a, i, i + 1, -1, INSERT_VALUES));
            if (y > 0)
                PetscCall(MatSetValue(*a, i, i - size, -weak, INSERT_VALUES));
            if (y + 1 < size)
                PetscCall(MatSetValue(*a, i, i + size, -weak, INSERT_VALUES));
        }
    PetscCall(MatAssemblyBegin(*a, MAT_FINAL_ASSEMBLY));
    return MatAssemblyEnd(*a, MAT_FINAL_ASSEMBLY);
}

/* Solve, check the true residual, and return the iterations. */
static PetscErrorCode solve(KSP ksp, Mat a, const char *what, PetscInt *its) {
    Vec b, x, r;
    PetscReal norm, rest;
    PetscCall(MatCreateVecs(a, &x, &b));
    PetscCall(VecDuplicate(b, &r));
    PetscCall(VecSet(b, 1));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetIterationNumber(ksp, its));
    PetscCall(MatMult(a, x, r));
    PetscCall(VecAYPX(r, -1, b));
    PetscCall(VecNorm(r, NORM_2, &rest));
    PetscCall(VecNorm(b, NORM_2, &norm));
    printf("%s: %d iterations, residual %.2g\n", what, (int)*its, rest / norm);
    expect(rest <= 1e-6 * norm, what);
    PetscCall(VecDestroy(&r));
    PetscCall(VecDestroy(&b));
    return VecDestroy(&x);
}

static PetscErrorCode as_preconditioner(hf_context *ctx, Mat a) {
    const hf_relax_opts opts = {.method = HF_RELAX_SCHWARZ, .symmetric = 1};
    KSP ksp;
    PC pc;
    PetscInt plain, ours, again;
    PetscCall(KSPCreate(PETSC_COMM_SELF, &ksp));
    PetscCall(KSPSetType(ksp, KSPCG));
    PetscCall(KSPSetTolerances(ksp, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, 5000));
    PetscCall(KSPSetOperators(ksp, a, a));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCSetType(pc, PCJACOBI));
    PetscCall(solve(ksp, a, "cg, PETSc's Jacobi", &plain));
    PetscCall(HoldfastShell(pc, ctx, &opts));
    PetscCall(solve(ksp, a, "cg, holdfast's blocks", &ours));
    expect(ours < plain, "fewer iterations than with the diagonal");
    PetscCall(MatScale(a, 4)); /* other values: the shell sets up anew */
    PetscCall(solve(ksp, a, "cg, holdfast's blocks, other values", &again));
    expect(again == ours, "the same iterations after scaling");
    return KSPDestroy(&ksp);
}

/* A sweep with damping 1 must be Jacobi's, so Richardson's iterations are PETSc's own. */
static PetscErrorCode as_richardson(hf_context *ctx, Mat a) {
    const hf_relax_opts opts = {.method = HF_RELAX_JACOBI, .damping = 1};
    Vec b, x[2];
    PetscReal apart, norm;
    PetscCall(MatCreateVecs(a, &x[0], &b));
    PetscCall(VecDuplicate(x[0], &x[1]));
    PetscCall(VecSet(b, 1));
    for (int i = 0; i < 2; i++) {
        KSP ksp;
        PC pc;
        PetscCall(KSPCreate(PETSC_COMM_SELF, &ksp));
        PetscCall(KSPSetType(ksp, KSPRICHARDSON));
        PetscCall(KSPSetNormType(ksp, KSP_NORM_NONE));
        PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, 7));
        PetscCall(KSPSetOperators(ksp, a, a));
        PetscCall(KSPGetPC(ksp, &pc));
        PetscCall(i == 0 ? PCSetType(pc, PCJACOBI) : HoldfastShell(pc, ctx, &opts));
        PetscCall(KSPSetInitialGuessNonzero(ksp, PETSC_TRUE));
        PetscCall(VecSet(x[i], 0.25));
        PetscCall(KSPSolve(ksp, b, x[i]));
        PetscCall(KSPDestroy(&ksp));
    }
    PetscCall(VecNorm(x[0], NORM_2, &norm));
    PetscCall(VecAXPY(x[1], -1, x[0]));
    PetscCall(VecNorm(x[1], NORM_2, &apart));
    expect(apart <= 1e-13 * norm, "seven sweeps of Jacobi are PETSc's");
    PetscCall(VecDestroy(&x[0]));
    PetscCall(VecDestroy(&x[1]));
    return VecDestroy(&b);
}

static PetscErrorCode as_smoother(hf_context *ctx, Mat a) {
    const hf_relax_opts opts = {.method = HF_RELAX_ASYNC, .symmetric = 1};
    KSP ksp;
    PC pc;
    PetscInt levels, plain, ours;
    PetscCall(KSPCreate(PETSC_COMM_SELF, &ksp));
    PetscCall(KSPSetType(ksp, KSPCG));
    PetscCall(KSPSetTolerances(ksp, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, 500));
    PetscCall(KSPSetOperators(ksp, a, a));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCSetType(pc, PCGAMG));
    PetscCall(solve(ksp, a, "cg, GAMG", &plain));
    PetscCall(PCMGGetLevels(pc, &levels));
    for (PetscInt level = 1; level < levels; level++) {
        KSP smoother;
        PC inner;
        PetscCall(PCMGGetSmoother(pc, level, &smoother));
        PetscCall(KSPSetType(smoother, KSPRICHARDSON));
        PetscCall(KSPGetPC(smoother, &inner));
        PetscCall(HoldfastShell(inner, ctx, &opts));
    }
    PetscCall(solve(ksp, a, "cg, GAMG, holdfast smooths", &ours));
    expect(levels > 1 && ours <= 2 * plain, "a multigrid that converges");
    return KSPDestroy(&ksp);
}

static PetscErrorCode run(hf_context *ctx) {
    Mat a;
    PetscCall(grid(60, 0.1, &a));
    PetscCall(as_preconditioner(ctx, a));
    PetscCall(as_richardson(ctx, a));
    PetscCall(as_smoother(ctx, a));
    return MatDestroy(&a);
}

int main(int argc, char **argv) {
    const hf_context_opts opts = {.device = "cpu", .threads = 2};
    hf_context *ctx = NULL;
    PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
    expect(hf_context_create(&ctx, &opts) == HF_OK, "a context");
    PetscCall(run(ctx));
    hf_context_destroy(ctx);
    PetscCall(PetscFinalize());
    return failures != 0;
}
