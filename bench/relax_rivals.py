# SPDX-License-Identifier: Apache-2.0
"""Time to a relative residual of 1e-10, b = ones, x0 = 0, in turns: ours, SciPy and pyamg in Python, ours with its
set-up but without starting threads; ours and PETSc as programs in C, both with what they set up apart."""
import os
import random
import shlex
import subprocess
import tempfile

import numpy as np
import scipy.sparse as sp
from scipy.sparse import linalg

HERE = os.path.dirname(os.path.abspath(__file__))
TOL = 1e-10
MOST = 60000
EVERY = 10  # sweeps between two tests of those that do not know their residual


def timed(bench, solve, A, b):
    """Seconds, iterations and true residual of solve(A, b) -> x, iterations, seconds where it knows them."""
    begin = bench.now()
    x, count, *known = solve(A, b)
    seconds = bench.now() - begin
    if known and bench.args.clock == "wall":
        seconds = known[0]
    return seconds, count, float(np.linalg.norm(b - A @ x) / np.linalg.norm(b))


def ours(bench, **options):
    def solve(A, b):
        s = bench.holdfast.solve(A, b, tol=TOL, maxiter=MOST, threads=bench.args.threads, warn=False, **options)
        return s.x, s.iterations, s.report["seconds"]["setup"] + s.report["seconds"]["solve"]
    return solve


def scipy_jacobi(A, b):
    inverse = 1 / A.diagonal()
    x = np.zeros_like(b)
    goal = TOL * np.linalg.norm(b)
    for count in range(MOST):
        r = b - A @ x
        norm = np.linalg.norm(r)
        if norm <= goal or not norm < 1e10 * goal / TOL:
            break
        x += inverse * r
    return x, count


def scipy_cg(A, b):
    count = [0]

    def step(_):
        count[0] += 1
    inverse = 1 / A.diagonal()
    M = linalg.LinearOperator(A.shape, matvec=lambda r: inverse * r)
    x, _ = linalg.cg(A, b, rtol=TOL, M=M, maxiter=MOST, callback=step)
    return x, count[0]


def pyamg_sweeps(sweep):
    def solve(A, b):
        x = np.zeros_like(b)
        goal = TOL * np.linalg.norm(b)
        count = 0
        norm = np.inf
        while norm > goal and count < MOST and norm < np.inf if count else True:
            sweep(A, x, b, EVERY)
            count += EVERY
            norm = np.linalg.norm(b - A @ x)
            if norm > 1e10 * goal / TOL:
                break
        return x, count
    return solve


def contenders(bench):
    found = {
        ("Jacobi", "holdfast"): ours(bench, method="jacobi", damping=1.0),
        ("Jacobi", "SciPy"): scipy_jacobi,
        ("Gauss-Seidel", "holdfast"): ours(bench, method="gauss-seidel"),
        ("async-(5)", "holdfast"): ours(bench, method="async"),
        ("Schwarz", "holdfast"): ours(bench, method="schwarz"),
        ("CG", "holdfast"): ours(bench, method="cg"),
        ("CG", "SciPy"): scipy_cg,
        ("auto", "holdfast"): ours(bench),
    }
    try:
        from pyamg.relaxation import relaxation
    except ImportError:
        print("pyamg takes no part: it is not installed")
        return found
    found["Jacobi", "pyamg"] = pyamg_sweeps(lambda A, x, b, n: relaxation.jacobi(A, x, b, iterations=n))
    found["Gauss-Seidel", "pyamg"] = pyamg_sweeps(lambda A, x, b, n: relaxation.gauss_seidel(A, x, b, iterations=n))
    return found


def library_flags():
    """To build against the library that is measured."""
    library = os.path.dirname(os.path.abspath(os.environ["HOLDFAST_LIBRARY"]))
    return ["-I" + os.path.join(HERE, "..", "include"), "-L" + library, "-Wl,-rpath," + library, "-lholdfast"]


def petsc_program(folder, name="relax_petsc", more=()):
    """bench/NAME.c, built with PETSc; None where PETSc cannot be had."""
    program = os.path.join(folder, name)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "PETSc"], capture_output=True, text=True)
    if flags.returncode:
        print("PETSc takes no part: pkg-config does not know it (libpetsc-real-dev)")
        return None
    source = os.path.join(HERE, name + ".c")
    done = subprocess.run(["mpicc", "-O2", source, *more, *shlex.split(flags.stdout), "-o", program],
                          capture_output=True, text=True)
    if done.returncode:
        print(f"PETSc takes no part: {name}.c cannot be built:", done.stderr[-300:])
        return None
    return program


def our_program(folder):
    """bench/relax_ours.c, built."""
    program = os.path.join(folder, "relax_ours")
    subprocess.run(["cc", "-O2", os.path.join(HERE, "relax_ours.c"), *library_flags(), "-o", program], check=True)
    return program


def our_run(bench, program, path, method):
    """Seconds of the solution, of the whole call, iterations, true residual."""
    args = [program, path, method, str(bench.args.threads), str(TOL), str(MOST), bench.args.clock]
    out = subprocess.run(args, capture_output=True, text=True, timeout=600, check=True).stdout.split()
    return float(out[0]), float(out[1]), int(out[2]), float(out[3])


def write_petsc(path, A):
    """PETSc's binary form."""
    with open(path, "wb") as f:
        np.array([1211216, *A.shape, A.nnz], ">i4").tofile(f)
        np.diff(A.indptr).astype(">i4").tofile(f)
        A.indices.astype(">i4").tofile(f)
        A.data.astype(">f8").tofile(f)


PETSC = {"Jacobi": ["-ksp_type", "richardson", "-pc_type", "jacobi"],
         "Gauss-Seidel": ["-ksp_type", "richardson", "-pc_type", "sor", "-pc_sor_forward"],
         "CG": ["-ksp_type", "cg", "-pc_type", "jacobi", "-ksp_norm_type", "unpreconditioned"]}


def petsc(program, path, method, clock):
    """Seconds, iterations, true residual. Richardson needs a norm of its own to stop by the true residual."""
    args = [program, "-matrix", path, "-tol", str(TOL), "-most", str(MOST), "-clock", clock,
            *PETSC[method]]
    out = subprocess.run(args, capture_output=True, text=True, timeout=600)
    if out.returncode:
        return None
    seconds, count, residual = out.stdout.split()
    return float(seconds), int(count), float(residual)


def against_petsc(bench, programs, name, path):
    """Programs in C in turns; PETSc has one process."""
    ours_at, petsc_at = programs
    for method in PETSC:
        if name == "s1rmt3m1" and method != "CG":
            continue
        mine, theirs = [], []
        for _ in range(bench.args.rounds):
            mine.append(our_run(bench, ours_at, path, method))
            theirs.append(petsc(petsc_at, path, method, bench.args.clock))
        solve, whole, other = (float(np.median([r[i] for r in runs]))
                               for runs, i in ((mine, 0), (mine, 1), (theirs, 0)))
        bench.row("Rivals: PETSc, a solution to 1e-10, set-up apart", matrix=name, method=method, ours=solve,
                  ours_with_setup=whole, petsc=other, ratio=other / solve, ratio_with_setup=other / whole,
                  iterations=mine[0][2], petsc_iterations=theirs[0][1], residual=mine[0][3],
                  petsc_residual=theirs[0][2], bar="reached" if other >= solve else "MISSED")


def compare(bench):
    solvers = contenders(bench)
    with tempfile.TemporaryDirectory() as folder:
        program = petsc_program(folder)
        programs = (our_program(folder), program) if program else None
        for name, A in bench.matrices.items():
            A = sp.csr_matrix(A)
            b = np.ones(A.shape[0])
            path = os.path.join(folder, "matrix")
            write_petsc(path, A)
            hopeless = name == "s1rmt3m1"  # relaxation gets nowhere in days
            chosen = {k: s for k, s in solvers.items() if not hopeless or k[0] in ("CG", "auto")}
            samples = {}
            for turn in range(bench.args.rounds):
                order = list(chosen)
                random.Random(turn).shuffle(order)  # who finds what it needs in caches is chance
                for key in order:
                    samples.setdefault(key, []).append(timed(bench, chosen[key], A, b))
            if programs:
                against_petsc(bench, programs, name, path)
            report(bench, name, samples)


def report(bench, name, samples):
    times = {}
    for (method, who), runs in sorted(samples.items()):
        runs = [r for r in runs if r is not None]
        if not runs:
            continue
        seconds = float(np.median([r[0] for r in runs]))
        solved = runs[0][2] <= 1.01 * TOL
        times[method, who] = seconds if solved else None
        bench.row("Rivals: time to 1e-10", matrix=name, method=method, who=who,
                  seconds=seconds if solved else None, iterations=runs[0][1], residual=runs[0][2])
    for method in sorted({m for m, _ in times}):
        mine = times.get((method, "holdfast"))
        others = {w: t for (m, w), t in times.items() if m == method and w != "holdfast" and t}
        if mine and others:
            best = min(others, key=others.get)
            bench.row("Rivals: times as fast as the fastest other one", matrix=name, method=method, rival=best,
                      ratio=others[best] / mine, bar="reached" if others[best] >= mine else "MISSED")
