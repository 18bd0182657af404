#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relaxation: the paper's Tables 2 to 6 and Figures 6, 7, 9, 10 and 11 beside its numbers, the same
matrices solved by others in the same run, and smoothers inside algebraic multigrid.

    bench/relax.py --lib build/release/libholdfast.so --matrices DIR --results bench/results
    bench/relax.py --device cuda --only launch,large ...

Needs NumPy and SciPy; pyamg, PETSc (through bench/relax_petsc.c) and matplotlib take part where they can be had."""
import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
GPU_PARTS = ("launch", "fewest", "large", "several", "smoother", "recover")
PARTS = ("table2", "table3", "table4", "table5", "table6", "figure6", "figure7", "figure9", "figure11", "rivals",
         "smoother", "several", "recover")


def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--lib", help="libholdfast.so to measure (default: that of the installed package)")
    p.add_argument("--matrices", metavar="DIR", help="folder of the matrices that cannot be made here")
    p.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="cuda: " + ",".join(GPU_PARTS))
    p.add_argument("--only", help="of " + ",".join(PARTS))
    p.add_argument("--runs", type=int, default=1000, help="runs of Tables 2 and 3 (default %(default)s)")
    p.add_argument("--rounds", type=int, default=5, help="of whatever is timed, in turns (default %(default)s)")
    p.add_argument("--size", type=int, default=1000,
                   help="of the grid for smoothers, and of the large one (default %(default)s)")
    p.add_argument("--threads", type=int, default=0, help="of ours (default: all)")
    p.add_argument("--clock", default="wall", choices=("wall", "cpu"),
                   help="of rivals and smoothers; cpu, with --threads 1, where others keep the machine busy")
    p.add_argument("--results", metavar="DIR", help="folder for a JSON file, TSV files and pictures")
    args = p.parse_args()
    parts = PARTS if args.device == "cpu" else GPU_PARTS
    args.only = args.only.split(",") if args.only else parts
    wrong = set(args.only) - set(parts)
    if wrong:
        p.error(f"--only: there is no {', '.join(sorted(wrong))} on {args.device}; there are {', '.join(parts)}")
    return args


class Bench:
    """What the parts share: options, matrices, and where rows go."""

    def __init__(self, args, holdfast, matrices):
        self.args, self.holdfast, self.matrices = args, holdfast, matrices
        self.tables, self.curves = {}, {}
        self.now = time.process_time if args.clock == "cpu" else time.perf_counter

    def row(self, table, **values):
        """Print and keep a row of a table."""
        rows = self.tables.setdefault(table, [])
        if not rows:
            print(f"\n## {table}")
            print("\t".join(values))
        rows.append(values)
        print("\t".join(f"{v:.4g}" if isinstance(v, float) else "-" if v is None else str(v)
                        for v in values.values()), flush=True)

    def curve(self, figure, label, x, y):
        self.curves.setdefault(figure, []).append({"label": label, "x": list(map(float, x)), "y": list(map(float, y))})

    def run(self, name, **options):
        """A solution for b = ones that warns of nothing."""
        A = self.matrices[name]
        return self.holdfast.solve(A, np.ones(A.shape[0]), threads=self.args.threads, warn=False, **options)

    def medians(self, calls):
        """{name: function that returns seconds}, in turns: the median of each."""
        taken = {name: [] for name in calls}
        for _ in range(self.args.rounds):
            for name, call in calls.items():
                taken[name].append(call())
        return {name: statistics.median(times) for name, times in taken.items()}


# What the paper ran: no damping, rows in their order, the residual read off without a test.
def faithful(sweeps, block, **more):
    return {"method": "async", "sweeps": sweeps, "block": block, "damping": 1.0, "partition": "strips", "tol": 0,
            **more}


OTHERS = {"Jacobi": {"method": "jacobi", "damping": 1.0, "tol": 0},
          "Gauss-Seidel": {"method": "gauss-seidel", "damping": 1.0, "block": 2 ** 31 - 1, "tol": 0}}


def spread(bench, table, name):
    """Tables 2 and 3: the true residual of many runs of async-(5), whose blocks of 128 rows never wait."""
    from relax_sets import SPREAD
    paper = SPREAD[name]
    A = bench.matrices[name]
    b = np.ones(A.shape[0])
    norm = np.linalg.norm(b)
    options = {k: v for k, v in faithful(5, 128).items() if k != "tol"}
    free = bench.holdfast.Smoother(A, threads=bench.args.threads, timing="free", **options)
    tagged = bench.holdfast.Smoother(A, threads=bench.args.threads, **options)

    def residual(smoother, iterations):
        return np.linalg.norm(b - A @ smoother.apply(b, None, iterations)) / norm
    seen = np.array([[residual(free, i) for i in paper] for _ in range(bench.args.runs)])
    for (i, (theirs, varies)), values in zip(paper.items(), seen.T):
        mean = values.mean()
        bench.row(f"{table}: {name}, {len(seen)} runs of async-(5)", iteration=i, average=mean, most=values.max(),
                  least=values.min(), variation=values.max() - values.min(),
                  relative=(values.max() - values.min()) / mean, deviation=values.std(ddof=min(1, len(seen) - 1)),
                  paper=theirs, paper_relative=varies, tagged=residual(tagged, i))


def table2(bench):
    spread(bench, "Table 2", "fv1")


def table3(bench):
    spread(bench, "Table 3", "Trefethen_2000")


def table4(bench):
    """Seconds of 100 to 500 iterations of async-(k) on fv3."""
    from relax_sets import SWEEPS
    steps = (100, 200, 300, 400, 500)
    for step, column in zip(steps, range(5)):
        def one(k, step=step):
            return bench.run("fv3", **faithful(k, 448, maxiter=step)).report["seconds"]["solve"]
        times = bench.medians({k: lambda k=k: one(k) for k in SWEEPS})
        for k, theirs in SWEEPS.items():
            bench.row("Table 4: fv3, time of async-(k)", iterations=step, k=k, seconds=times[k],
                      of_k1=times[k] / times[1], paper=theirs[column], paper_of_k1=theirs[column] / SWEEPS[1][column])


def table5(bench):
    """Seconds of an iteration."""
    from relax_sets import ITERATION
    kinds = {**OTHERS, "async-(5)": faithful(5, 448)}
    for name, theirs in ITERATION.items():
        if name not in bench.matrices:
            continue

        def one(kind, name=name):
            s = bench.run(name, **{**kind, "maxiter": 100})
            return s.report["seconds"]["solve"] / s.iterations
        times = bench.medians({label: lambda kind=kind: one(kind) for label, kind in kinds.items()})
        bench.row("Table 5: seconds of an iteration (paper: 4 CPU cores, GPU, GPU)", matrix=name,
                  gauss_seidel=times["Gauss-Seidel"], jacobi=times["Jacobi"], async5=times["async-(5)"],
                  paper_gauss_seidel=theirs[0], paper_jacobi=theirs[1], paper_async5=theirs[2])


def broken(bench, name, rest, rng, most):
    """Residuals while a quarter of the blocks rests for `rest` iterations (None: for good) from the tenth on."""
    A = bench.matrices[name]
    n = A.shape[0]
    b = np.ones(n)
    smoother = bench.holdfast.Smoother(A, threads=bench.args.threads,
                                       **{k: v for k, v in faithful(5, 128).items() if k != "tol"})
    blocks = np.arange(n) // 128
    dead = np.isin(blocks, rng.choice(blocks[-1] + 1, (blocks[-1] + 1) // 4, replace=False))
    x = np.zeros(n)
    residuals = [1.0]
    for i in range(most):
        before = x[dead]
        smoother.apply(b, x)
        if i >= 10 and (rest is None or i < 10 + rest):
            x[dead] = before
        residuals.append(np.linalg.norm(b - A @ x) / np.sqrt(n))
    return np.array(residuals)


def table6(bench):
    """Table 6 and Figure 10: extra iterations to 1e-12 after a quarter of the blocks rested."""
    from relax_sets import RECOVER
    for name, theirs in RECOVER.items():
        whole = None
        for rest in (0, 10, 20, 30, None):
            history = broken(bench, name, rest, np.random.default_rng(1), 260 if name == "fv1" else 100)
            bench.curve(f"Figure 10, {name}", "no recovery" if rest is None else f"recover-({rest})",
                        range(len(history)), history)
            reached = np.flatnonzero(history <= 1e-12)
            count = int(reached[0]) if len(reached) else None
            whole = count if rest == 0 else whole
            bench.row("Table 6: extra iterations to 1e-12 in %, a quarter of the blocks rests from iteration 10 on",
                      matrix=name, rest="for good" if rest is None else rest, iterations=count,
                      extra=None if count is None else 100 * (count / whole - 1), paper=theirs.get(rest),
                      last_residual=float(history[-1]))


def convergence(bench, figure, kinds, counts):
    for name in bench.matrices:
        if name == "Trefethen_20000":
            continue
        for label, kind in kinds.items():
            s = bench.run(name, **{**kind, "maxiter": counts.get(name, 200)})
            bench.curve(f"{figure}, {name}", label, range(len(s.history[0])), s.history[0])
            reached = np.flatnonzero(s.history[0] <= 1e-10)
            bench.row(f"{figure}: iterations to 1e-10", matrix=name, method=label,
                      iterations=int(reached[0]) if len(reached) else None, last_residual=float(s.history[0][-1]))


def figure6(bench):
    convergence(bench, "Figure 6", {**OTHERS, "async-(1)": faithful(1, 448)}, {"fv3": 25000, "Trefethen_2000": 200})


def figure7(bench):
    convergence(bench, "Figure 7", {"Gauss-Seidel": OTHERS["Gauss-Seidel"], "async-(5)": faithful(5, 448)},
                {"fv3": 20000, "Trefethen_2000": 100})


def figure9(bench):
    """Residuals over time."""
    kinds = {**OTHERS, "async-(5)": faithful(5, 448), "CG": {"method": "cg", "precond": "jacobi"}, "auto": {}}
    for name in ("Chem97ZtZ (rebuilt)", "fv1", "fv3", "Trefethen_2000"):
        if name not in bench.matrices:
            continue
        for label, kind in kinds.items():
            s = bench.run(name, **{**kind, "tol": 1e-12, "maxiter": 60000})
            step = s.report["seconds"]["solve"] / max(s.iterations, 1) * s.columns[0]["history_step"]
            bench.curve(f"Figure 9, {name}", label, np.arange(len(s.history[0])) * step, s.history[0])
            bench.row("Figure 9: time to 1e-12, set-up apart", matrix=name, method=label,
                      seconds=s.report["seconds"]["solve"],
                      setup=s.report["seconds"]["setup"], iterations=s.iterations, stop=s.stop, residual=s.residual)


def figure11(bench):
    """Trefethen_20000 by the number of threads: a CPU's cores stand for the paper's GPUs."""
    cores = len(os.sched_getaffinity(0))
    A = bench.matrices["Trefethen_20000"]
    b = np.ones(A.shape[0])
    options = {k: v for k, v in faithful(5, 448).items() if k != "tol"}

    def one(threads, timing):
        s = bench.holdfast.solve(A, b, threads=threads, timing=timing, warn=False, **options)
        return s.report["seconds"]["solve"]
    counts = sorted({1, 2, cores} & set(range(1, cores + 1)))
    times = bench.medians({(t, k): lambda t=t, k=k: one(t, k) for t in counts for k in ("tagged", "free")})
    for (threads, timing), seconds in times.items():
        bench.row("Figure 11: Trefethen_20000 to 1e-10, async-(5)", threads=threads, timing=timing, seconds=seconds,
                  speedup=times[1, timing] / seconds)


def rivals(bench):
    import relax_rivals
    relax_rivals.compare(bench)


def smoother(bench):
    if bench.args.device == "cuda":
        import relax_smoother_cuda as part
    else:
        import relax_smoother as part
    part.compare(bench)


def launch(bench):
    import relax_cuda
    relax_cuda.compare(bench)


def large(bench):
    import relax_cuda
    relax_cuda.large(bench)


def fewest(bench):
    import relax_cuda
    relax_cuda.fewest(bench)


def recover(bench):
    import relax_recover
    relax_recover.compare(bench)


def several(bench):
    import relax_several
    relax_several.compare(bench)


def write(bench, started):
    import scipy
    folder = bench.args.results
    os.makedirs(folder, exist_ok=True)
    place = platform.machine() if bench.args.device == "cpu" else bench.args.device
    stamp = f"relax-{place}-{started:%Y%m%d-%H%M%S}"
    with open(os.path.join(folder, stamp + ".json"), "w", encoding="utf-8") as f:
        json.dump({"date": started.isoformat(), "options": vars(bench.args), "holdfast": bench.holdfast.__version__,
                   "numpy": np.__version__, "scipy": scipy.__version__, "cores": len(os.sched_getaffinity(0)),
                   "tables": bench.tables, "figures": bench.curves}, f, indent=1)
    for title, rows in bench.tables.items():
        name = "".join(c if c.isalnum() else "-" for c in title.lower())
        with open(os.path.join(folder, f"{stamp}-{name}.tsv"), "w", encoding="utf-8") as f:
            f.write("\t".join(rows[0]) + "\n")
            f.writelines("\t".join("" if v is None else str(v) for v in row.values()) + "\n" for row in rows)
    plot(bench, os.path.join(folder, stamp))
    print(f"\nwritten: {os.path.join(folder, stamp)}*")


def plot(bench, base):
    try:
        import matplotlib
    except ImportError:
        print("no pictures: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot
    for title, curves in bench.curves.items():
        figure, axes = pyplot.subplots(figsize=(6, 4))
        for curve in curves:
            axes.semilogy(curve["x"], np.maximum(curve["y"], 1e-18), label=curve["label"])
        axes.set(title=title, ylabel="relative residual", xlabel="seconds" if "Figure 9" in title else "iterations")
        axes.legend()
        figure.tight_layout()
        name = "".join(c if c.isalnum() else "-" for c in title.lower())
        figure.savefig(f"{base}-{name}.png", dpi=110)
        pyplot.close(figure)


def main():
    args = parse()
    if args.lib:
        os.environ["HOLDFAST_LIBRARY"] = os.path.abspath(args.lib)
        sys.path.insert(0, os.path.join(HERE, "..", "python"))
    import holdfast
    import relax_sets
    started = datetime.datetime.now()
    bench = Bench(args, holdfast, relax_sets.load(args.matrices))
    for part in args.only:
        begin = time.monotonic()
        globals()[part](bench)
        print(f"({part}: {time.monotonic() - begin:.1f} s)", flush=True)
    if args.results:
        write(bench, started)


if __name__ == "__main__":
    main()
