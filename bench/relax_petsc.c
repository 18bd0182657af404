/* SPDX-License-Identifier: Apache-2.0
 * A system of a PETSc binary matrix and ones, solved as the options say: seconds, iterations and
 * true residual on standard output, the seconds being the median of five. One iteration before
 * builds what PETSc builds lazily. */
#include <petscksp.h>
#include <time.h>

#define TIMES 5

/* With a monitor Richardson looks at the residual after each iteration, with SOR too. */
static PetscErrorCode watch(KSP ksp, PetscInt its, PetscReal norm, void *user) {
    (void)ksp;
    (void)its;
    (void)norm;
    (void)user;
    return 0;
}

static PetscErrorCode now(double *seconds) {
    char name[8] = "wall";
    struct timespec t;
    PetscCall(PetscOptionsGetString(NULL, NULL, "-clock", name, sizeof name, NULL));
    clock_gettime(name[0] == 'c' ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    *seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    return 0;
}

static PetscErrorCode run(KSP ksp, Vec b, Vec x, double *seconds) {
    double begin, end;
    PetscCall(VecSet(x, 0));
    PetscCall(now(&begin));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(now(&end));
    *seconds = end - begin;
    return 0;
}

int main(int argc, char **argv) {
    Mat a;
    Vec b, x, r;
    KSP ksp;
    PetscViewer viewer;
    char path[4096];
    PetscReal tol = 1e-10, norm, rest;
    PetscInt most = 60000, its;
    double seconds;
    PetscReal taken[TIMES];
    PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
    PetscCall(PetscOptionsGetString(NULL, NULL, "-matrix", path, sizeof path, NULL));
    PetscCall(PetscOptionsGetReal(NULL, NULL, "-tol", &tol, NULL));
    PetscCall(PetscOptionsGetInt(NULL, NULL, "-most", &most, NULL));
    PetscCall(PetscViewerBinaryOpen(PETSC_COMM_SELF, path, FILE_MODE_READ, &viewer));
    PetscCall(MatCreate(PETSC_COMM_SELF, &a));
    PetscCall(MatSetType(a, MATSEQAIJ));
    PetscCall(MatLoad(a, viewer));
    PetscCall(MatCreateVecs(a, &x, &b));
    PetscCall(VecDuplicate(b, &r));
    PetscCall(VecSet(b, 1));
    PetscCall(KSPCreate(PETSC_COMM_SELF, &ksp));
    PetscCall(KSPSetOperators(ksp, a, a));
    PetscCall(KSPSetTolerances(ksp, tol, 1e-300, 1e12, 1));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(KSPSetNormType(ksp, KSP_NORM_UNPRECONDITIONED));
    PetscCall(KSPMonitorSet(ksp, watch, NULL, NULL));
    PetscCall(run(ksp, b, x, &seconds));
    PetscCall(KSPSetTolerances(ksp, tol, 1e-300, 1e12, most));
    for (int i = 0; i < TIMES; i++)
        PetscCall(run(ksp, b, x, &taken[i]));
    PetscCall(PetscSortReal(TIMES, taken));
    seconds = taken[TIMES / 2];
    PetscCall(KSPGetIterationNumber(ksp, &its));
    PetscCall(MatMult(a, x, r));
    PetscCall(VecAYPX(r, -1, b));
    PetscCall(VecNorm(r, NORM_2, &rest));
    PetscCall(VecNorm(b, NORM_2, &norm));
    printf("%.9g %d %.9g\n", seconds, (int)its, rest / norm);
    return PetscFinalize();
}
