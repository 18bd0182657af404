# SPDX-License-Identifier: Apache-2.0
"""Conjugate gradients preconditioned by a pyamg hierarchy, to 1e-8: our smoothers against l1-Jacobi, Chebyshev and
Gauss-Seidel in the same hierarchy; the same inside PETSc's GAMG (bench/relax_gamg.c). Time of the solution counts;
that of setting the smoothers up is told beside it."""
import os
import subprocess
import tempfile

import numpy as np
import scipy.sparse as sp

TOL = 1e-8


def anisotropic(size, weak=0.1):
    """Five points of a size x size grid, weakly coupled in one direction."""
    line = sp.diags([-np.ones(size - 1), 2 * np.ones(size), -np.ones(size - 1)], [-1, 0, 1])
    eye = sp.eye(size)
    return (sp.kron(eye, line) + weak * sp.kron(line, eye)).tocsr()


def l1_jacobi(sweeps):
    """Each correction is divided by the sum of the row's absolute values."""
    def install(ml):
        for level in ml.levels[:-1]:
            A = level.A.tocsr()
            inverse = 1 / np.asarray(abs(A).sum(axis=1)).ravel()

            def smooth(_, x, b, A=A, inverse=inverse):
                for _ in range(sweeps):
                    x += inverse * (b - A @ x)
            level.presmoother = level.postsmoother = smooth
    return install


def of_pyamg(kind, **options):
    def install(ml):
        from pyamg.relaxation.smoothing import change_smoothers
        change_smoothers(ml, (kind, options), (kind, options))
    return install


def of_ours(bench, method, iterations=1, **options):
    def install(ml):
        for level in ml.levels[:-1]:
            level.presmoother = level.postsmoother = bench.holdfast.Smoother(
                level.A, method, iterations=iterations, symmetric=True, threads=bench.args.threads, **options)
    return install


def smoothers(bench):
    """name: (passes over the matrix in a cycle of a level, installer)."""
    return {
        "l1-Jacobi x1": l1_jacobi(1), "l1-Jacobi x2": l1_jacobi(2), "l1-Jacobi x4": l1_jacobi(4),
        "Chebyshev 2 (pyamg)": of_pyamg("chebyshev", degree=2),
        "Chebyshev 3 (pyamg)": of_pyamg("chebyshev", degree=3),
        "Gauss-Seidel (pyamg)": of_pyamg("gauss_seidel", sweep="symmetric"),
        "holdfast jacobi x2": of_ours(bench, "jacobi", 2, damping=2 / 3),
        "holdfast chebyshev x2": of_ours(bench, "chebyshev", 2),
        "holdfast gauss-seidel": of_ours(bench, "gauss-seidel"),
        "holdfast async-(1)": of_ours(bench, "async", sweeps=1, damping=2 / 3),
        "holdfast async-(2)": of_ours(bench, "async", sweeps=2),
        "holdfast async-(5)": of_ours(bench, "async", sweeps=5),
        "holdfast async-(5), graph": of_ours(bench, "async", sweeps=5, partition="graph"),
    }


def solve(bench, ml, A, b):
    residuals = []
    begin = bench.now()
    x = ml.solve(b, tol=TOL, accel="cg", maxiter=300, residuals=residuals)
    seconds = bench.now() - begin
    return seconds, len(residuals) - 1, float(np.linalg.norm(b - A @ x) / np.linalg.norm(b))


def problems(size):
    import pyamg
    A = anisotropic(size)
    yield f"Poisson {size} x {size}, 1 : 0.1", A, lambda: pyamg.smoothed_aggregation_solver(
        A, strength=("symmetric", {"theta": 0.1}), max_coarse=200)
    side = max(size // 4, 20)
    E, B = pyamg.gallery.linear_elasticity((side, side))
    E = E.tocsr()
    yield f"elasticity {side} x {side}", E, lambda: pyamg.smoothed_aggregation_solver(E, B=B, max_coarse=200)


def in_petsc(bench, title, A, block):
    """The levels of PETSc's own hierarchy."""
    import relax_rivals
    with tempfile.TemporaryDirectory() as folder:
        adapter = os.path.join(relax_rivals.HERE, "..", "adapters", "petsc_shell.c")
        program = relax_rivals.petsc_program(folder, "relax_gamg", [adapter, *relax_rivals.library_flags()])
        if program is None:
            return
        path = os.path.join(folder, "matrix")
        relax_rivals.write_petsc(path, A)
        out = subprocess.run([program, "-matrix", path, "-block", str(block), "-rounds", str(bench.args.rounds),
                              "-threads", str(bench.args.threads or len(os.sched_getaffinity(0))),
                              "-clock", bench.args.clock], capture_output=True, text=True, check=True).stdout
    times = {}
    for line in out.splitlines():
        name, solve_s, setup_s, count, residual = line.split("\t")
        times[name] = float(solve_s) if float(residual) <= 10 * TOL else np.inf
        bench.row(f"Smoothers in GAMG: {title}, cg to 1e-8", smoother=name, seconds=float(solve_s),
                  setup=float(setup_s), iterations=int(count), residual=float(residual))
    judge(bench, title + ", GAMG", times)


def judge(bench, title, times):
    mine = min((n for n in times if n.startswith("holdfast")), key=times.get)
    other = min((n for n in times if not n.startswith("holdfast")), key=times.get)
    bench.row("Smoothers: times as fast as the best of the others", problem=title, ours=mine, other=other,
              ratio=times[other] / times[mine], bar="reached" if times[other] >= times[mine] else "MISSED")


def compare(bench):
    try:
        import pyamg  # noqa: F401
    except ImportError:
        print("no smoothers: pyamg is not installed")
        return
    for title, A, make in problems(bench.args.size):
        ml = make()
        b = np.random.default_rng(1).standard_normal(A.shape[0])
        samples, setups = {}, {}
        for _ in range(bench.args.rounds):
            for name, install in smoothers(bench).items():
                begin = bench.now()
                install(ml)
                setups.setdefault(name, []).append(bench.now() - begin)
                samples.setdefault(name, []).append(solve(bench, ml, A, b))
        medians = {name: float(np.median([r[0] for r in runs])) for name, runs in samples.items()}
        solved = {name: runs[0][2] <= 10 * TOL for name, runs in samples.items()}
        for name, runs in samples.items():
            bench.row(f"Smoothers: {title}, cg to 1e-8", smoother=name, seconds=medians[name],
                      setup=float(np.median(setups[name])), iterations=runs[0][1],
                      cycle=medians[name] / max(runs[0][1], 1), residual=runs[0][2])
        judge(bench, title, {n: t if solved[n] else np.inf for n, t in medians.items()})
        sorted_rows = A.tocsr()
        sorted_rows.sort_indices()
        in_petsc(bench, title, sorted_rows, 2 if title.startswith("elasticity") else 1)
