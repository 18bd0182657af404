/* SPDX-License-Identifier: Apache-2.0
 * Conjugate gradients with PETSc's GAMG for a PETSc binary matrix, to 1e-8, its levels smoothed by
 * PETSc or by holdfast (adapters/petsc_shell.c), all in one process and in turns. A line for each
 * smoother: name, seconds of a solution (median), of its set-up, iterations, true residual.
 *     relax_gamg -matrix FILE [-rounds 3] [-threads 1] [-clock wall|cpu] */
#include "../adapters/petsc_shell.h"

#include <time.h>

#define MOST_ROUNDS 31

/* Each makes two passes over a level's matrix before the coarser one and two after, but for the
 * symmetric sweeps of Gauss-Seidel, which are one forth and one back. */
static const struct smoother {
    const char *name;
    KSPType ksp; /* of a level */
    PCType pc;   /* NULL: holdfast */
    int steps;
    double scale;
    hf_relax_opts opts;
} smoothers[] = {
    {"Chebyshev 2, Jacobi (PETSc)", KSPCHEBYSHEV, PCJACOBI, 2, 1, {.tol = 0}},
    {"Chebyshev 3, Jacobi (PETSc)", KSPCHEBYSHEV, PCJACOBI, 3, 1, {.tol = 0}},
    {"Jacobi 2, damped (PETSc)", KSPRICHARDSON, PCJACOBI, 2, 2. / 3, {.tol = 0}},
    {"SOR, symmetric (PETSc)", KSPRICHARDSON, PCSOR, 1, 1, {.tol = 0}},
    {"holdfast jacobi x2",
     KSPRICHARDSON,
     NULL,
     2,
     1,
     {.method = HF_RELAX_JACOBI, .damping = 2. / 3}},
    {"holdfast chebyshev x2", KSPRICHARDSON, NULL, 2, 1, {.method = HF_RELAX_CHEBYSHEV}},
    {"holdfast gauss-seidel",
     KSPRICHARDSON,
     NULL,
     1,
     1,
     {.method = HF_RELAX_GAUSS_SEIDEL, .symmetric = 1}},
};
#define SMOOTHERS ((int)(sizeof smoothers / sizeof smoothers[0]))

static clockid_t clock_id;

static double now(void) {
    struct timespec t;
    clock_gettime(clock_id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static PetscErrorCode read_matrix(Mat *a) {
    char path[4096];
    PetscInt block = 1;
    PetscViewer viewer;
    PetscCall(PetscOptionsGetString(NULL, NULL, "-matrix", path, sizeof path, NULL));
    PetscCall(PetscOptionsGetInt(NULL, NULL, "-block", &block, NULL));
    PetscCall(PetscViewerBinaryOpen(PETSC_COMM_SELF, path, FILE_MODE_READ, &viewer));
    PetscCall(MatCreate(PETSC_COMM_SELF, a));
    PetscCall(MatSetType(*a, MATSEQAIJ));
    PetscCall(MatSetBlockSize(*a, block));
    PetscCall(MatLoad(*a, viewer));
    PetscCall(MatSetOption(*a, MAT_SPD, PETSC_TRUE));
    return PetscViewerDestroy(&viewer);
}

/* The levels of a hierarchy that is there get a smoother. */
static PetscErrorCode install(PC pc, const struct smoother *s, hf_context *ctx) {
    PetscInt levels;
    PetscCall(PCMGGetLevels(pc, &levels));
    for (PetscInt level = 1; level < levels; level++) {
        KSP ksp;
        PC inner;
        PetscCall(PCMGGetSmoother(pc, level, &ksp));
        PetscCall(KSPSetType(ksp, s->ksp));
        PetscCall(KSPSetNormType(ksp, KSP_NORM_NONE));
        PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, s->steps));
        PetscCall(KSPGetPC(ksp, &inner));
        PetscCall(s->pc ? PCSetType(inner, s->pc) : HoldfastShell(inner, ctx, &s->opts));
        if (s->pc && s->ksp[0] == 'r')
            PetscCall(KSPRichardsonSetScale(ksp, s->scale));
    }
    return 0;
}

struct taken {
    double solve[MOST_ROUNDS], setup[MOST_ROUNDS];
    PetscInt its;
    PetscReal rest;
};

static PetscErrorCode measure(Mat a, Vec v[3], const struct smoother *s, hf_context *ctx,
                              struct taken *t, PetscInt round) {
    KSP ksp;
    PC pc;
    PetscReal norm;
    PetscCall(KSPCreate(PETSC_COMM_SELF, &ksp));
    PetscCall(KSPSetType(ksp, KSPCG));
    PetscCall(KSPSetNormType(ksp, KSP_NORM_UNPRECONDITIONED));
    PetscCall(KSPSetTolerances(ksp, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, 500));
    PetscCall(KSPSetOperators(ksp, a, a));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCSetType(pc, PCGAMG));
    PetscCall(KSPSetUp(ksp));
    double begin = now();
    PetscCall(install(pc, s, ctx));
    PetscCall(VecSet(v[1], 0));
    PetscCall(PCApply(pc, v[0], v[1])); /* what is set up at the first use */
    t->setup[round] = now() - begin;
    PetscCall(VecSet(v[1], 0));
    begin = now();
    PetscCall(KSPSolve(ksp, v[0], v[1]));
    t->solve[round] = now() - begin;
    PetscCall(KSPGetIterationNumber(ksp, &t->its));
    PetscCall(MatMult(a, v[1], v[2]));
    PetscCall(VecAYPX(v[2], -1, v[0]));
    PetscCall(VecNorm(v[2], NORM_2, &t->rest));
    PetscCall(VecNorm(v[0], NORM_2, &norm));
    t->rest /= norm;
    return KSPDestroy(&ksp);
}

static PetscErrorCode compare(hf_context *ctx, PetscInt rounds) {
    static struct taken taken[SMOOTHERS];
    Mat a;
    Vec v[3];
    PetscCall(read_matrix(&a));
    PetscCall(MatCreateVecs(a, &v[0], &v[1]));
    PetscCall(VecDuplicate(v[0], &v[2]));
    PetscCall(VecSetRandom(v[0], NULL));
    for (PetscInt round = 0; round < rounds; round++)
        for (int i = 0; i < SMOOTHERS; i++)
            PetscCall(measure(a, v, &smoothers[i], ctx, &taken[i], round));
    for (int i = 0; i < SMOOTHERS; i++) {
        struct taken *t = &taken[i];
        PetscCall(PetscSortReal(rounds, t->solve));
        PetscCall(PetscSortReal(rounds, t->setup));
        printf("%s\t%.6g\t%.6g\t%d\t%.3g\n", smoothers[i].name, t->solve[rounds / 2],
               t->setup[rounds / 2], (int)t->its, (double)t->rest);
    }
    for (int i = 0; i < 3; i++)
        PetscCall(VecDestroy(&v[i]));
    return MatDestroy(&a);
}

int main(int argc, char **argv) {
    char clock[8] = "wall";
    PetscInt rounds = 3, threads = 1;
    hf_context *ctx = NULL;
    PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
    PetscCall(PetscOptionsGetString(NULL, NULL, "-clock", clock, sizeof clock, NULL));
    PetscCall(PetscOptionsGetInt(NULL, NULL, "-rounds", &rounds, NULL));
    PetscCall(PetscOptionsGetInt(NULL, NULL, "-threads", &threads, NULL));
    clock_id = clock[0] == 'c' ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    const hf_context_opts opts = {.device = "cpu", .threads = (int)threads};
    PetscCheck(rounds <= MOST_ROUNDS && hf_context_create(&ctx, &opts) == HF_OK, PETSC_COMM_SELF,
               PETSC_ERR_LIB, "%s", hf_last_error(NULL));
    PetscCall(compare(ctx, rounds));
    hf_context_destroy(ctx);
    return PetscFinalize();
}
