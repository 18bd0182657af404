# SPDX-License-Identifier: Apache-2.0
"""The paper's Table 6 by the solver itself: a quarter of the components frozen at iteration 10, on the CPU or a GPU,
and adopted by others after some iterations. Needs libholdfast_dev (--lib)."""
import numpy as np

from relax_several import Fault, solve
from relax_sets import RECOVER

FREEZE, DEAD = 0, 8
SEEDS = range(5)
TOL = 1e-12
OPTIONS = {"method": "async", "block": 128, "damping": 1.0, "partition": "strips", "one_launch": False, "tol": TOL}


def one(bench, smoother, b, fault):
    seconds, s = solve(bench, smoother, b, fault)
    return {"iterations": s.iterations, "stop": s.stop, "residual": s.residual, "seconds": seconds,
            "adopted": s.report["faults"]["takeovers"]}


def compare(bench):
    for name, theirs in RECOVER.items():
        A = bench.matrices[name]
        b = np.ones(A.shape[0])
        smoother = bench.holdfast.Smoother(A, device=bench.args.device, maxiter=20000, **OPTIONS)
        whole = smoother.solve(b, warn=False).iterations
        cases = [(rest, 0) for rest in (1, 2, 3, 5, 10, 20, 30, -1)] + [(-1, lag) for lag in (1, 2, 3)]
        for rest, lag in cases:
            faults = [Fault(kind=FREEZE, iteration=10, share=0.25, outage=rest, lag=lag, seed=seed) for seed in SEEDS]
            runs = [one(bench, smoother, b, fault) for fault in faults]
            extra = [100 * (r["iterations"] / whole - 1) for r in runs]
            stops = "+".join(sorted({r["stop"] for r in runs}))
            solved = stops == "tol"
            bench.row("Recovery: extra iterations to 1e-12 in %, a quarter of the blocks rests from iteration 10 on",
                      matrix=name, device=bench.args.device, rest="for good" if rest < 0 else rest,
                      adopted_after=lag or None, healthy=whole, least=min(extra) if solved else None,
                      most=max(extra) if solved else None, paper=theirs.get(rest), stop=stops,
                      worst_residual=max(r["residual"] for r in runs), adopted=runs[0]["adopted"])


def one_launch(bench):
    """A quarter of the workers ends, or sleeps for a while, in the middle of one launch: spare ones take over."""
    table = "Recovery in one launch: extra time in %, a quarter of the workers is lost before iteration 10"
    for name, size in (("fv1", 128), ("Trefethen_2000", 128), ("Trefethen_2000", 32)):
        A = bench.matrices[name]
        b = np.ones(A.shape[0])
        options = {**OPTIONS, "block": size, "one_launch": True, "spares": 40}
        smoother = bench.holdfast.Smoother(A, device="cuda", maxiter=20000, **options)
        healthy = [smoother.solve(b, warn=False) for _ in range(31)]
        whole = float(np.median([s.columns[0]["seconds_launch"] for s in healthy]))
        for sleep in (0, 100):
            faults = [Fault(kind=DEAD, iteration=10, share=0.25, outage=sleep, seed=seed) for seed in range(40)]
            runs = [one(bench, smoother, b, fault) for fault in faults]
            extra = sorted(100 * (r["seconds"] / whole - 1) for r in runs)
            bench.row(table, matrix=name, blocks=healthy[0].report["blocks"], sleep_us=sleep or None,
                      healthy_us=1e6 * whole, least=extra[0], median=extra[len(extra) // 2], most=extra[-1],
                      iterations=healthy[0].iterations, most_iterations=max(r["iterations"] for r in runs),
                      fewest_taken=min(r["adopted"] for r in runs), most_taken=max(r["adopted"] for r in runs),
                      stop="+".join(sorted({r["stop"] for r in runs})),
                      worst_residual=max(r["residual"] for r in runs))
