#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What protection costs, and whether it is quiet where nothing is wrong.

  guard.py cost LIBRARY [--threads N] [--rounds R] [-o FILE]   each scheme against off, in turns
  guard.py checks LIBRARY [...]                                correct without one check after the other
  guard.py paper LIBRARY [...]                                 iterations of the shapes of FT K-Means (Figures 13, 14)
  guard.py shapes LIBRARY [...]                                correct against off on shapes off the beaten track
  guard.py rows LIBRARY [...]                                  rows that the filter leaves open, off and protected
  guard.py soak LIBRARY [--seconds S] [-o FILE]                faultless fits: rows checked, false alarms

Costs are ratios of times, the least of each in some rounds: of short fits (6 iterations, without skipping, with all
that comes before and after them), of later iterations (from the third on, by the fits' own record, on clusters that
overlap), and of whole fits with skipping."""
import argparse
import json
import os
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hf  # noqa: E402

GUARDS = {"off": 1, "detect": 2, "correct": 3, "sampled": 4, "weighted": 5}
SHAPES = [(100000, 64, 64, "f4"), (50000, 256, 64, "f4"), (50000, 256, 128, "f4"), (20000, 1024, 128, "f4"),
          (20000, 256, 300, "f4"), (20000, 128, 768, "f4"), (50000, 64, 64, "f8"), (100000, 32, 16, "f4"),
          (100000, 16, 2, "f4"), (50000, 256, 64, "f2")]
CHECKS = ("rows operand best index open settle moves pack norm labels changes sums counts means bounds inertia "
          "finish state start").split()
ITERATIONS = 6


def blobs(n, k, d, seed):
    g = np.random.default_rng(seed)
    return 3 * g.standard_normal((k, d))[g.integers(k, size=n)] + g.standard_normal((n, d))


def overlapping(n, k, d, seed):
    """Clusters so close that rows change between them for many iterations."""
    g = np.random.default_rng(seed)
    return 3 / np.sqrt(d) * g.standard_normal((k, d))[g.integers(k, size=n)] + g.standard_normal((n, d))


def heavy(n, k, d, seed):
    g = np.random.default_rng(seed)
    return g.standard_normal((n, d)) / (0.001 + g.random((n, d)))


def sentinels(n, k, d, seed):
    x = blobs(n, k, d, seed)
    x[np.random.default_rng(seed).integers(n, size=1 + n // 50), 0] = -9999
    return x


def nested(n, k, d, seed):
    g = np.random.default_rng(seed)
    return blobs(n, k, d, seed) * 10.0 ** g.integers(5, size=(n, 1))


def offset(n, k, d, seed):
    return blobs(n, k, d, seed) + 1e4


def copies(n, k, d, seed):
    g = np.random.default_rng(seed)
    return blobs(50, k, d, seed)[g.integers(50, size=n)]


def decades(n, k, d, seed):
    return blobs(n, k, d, seed) * 10.0 ** np.linspace(-3, 3, d)


def lognormal(n, k, d, seed):
    return np.exp(2 * np.random.default_rng(seed).standard_normal((n, d)))


SETS = [blobs, heavy, sentinels, nested, offset, copies, decades, lognormal]


def as_type(x, dtype):
    x = np.clip(x, -6e4, 6e4) if dtype == "f2" else x
    return np.ascontiguousarray(x.astype(dtype))


CLOCKS = {"cpu": time.process_time, "wall": time.perf_counter}


def one(h, x, init, run, iterations, clock):
    """A fit, and what it took. 0 iterations: as many as it wants, skipping rows."""
    guard, without = run
    if without:
        os.environ["HF_GUARD_WITHOUT"] = without
    begin = CLOCKS[clock]()
    try:
        fit = h.fit(x, init, iterations or 100, -1, "off" if iterations else "auto", guard=GUARDS[guard])
        return dict(fit, seconds=CLOCKS[clock]() - begin)
    finally:
        os.environ.pop("HF_GUARD_WITHOUT", None)


def same(a, b):
    return np.array_equal(a["labels"], b["labels"]) and a["centroids"].tobytes() == b["centroids"].tobytes()


PARTS = ("first", "later", "fit")


def least_times(h, x, k, runs, iterations, options):
    init = as_type(x[np.random.default_rng(1).choice(len(x), k, replace=False)].astype("f8"), "f4")
    least = dict.fromkeys(runs, np.inf)
    for _ in range(options.rounds):
        fits = [one(h, x, init, run, iterations, options.clock) for run in runs]
        for run, fit in zip(runs, fits):
            if not same(fit, fits[0]):
                raise RuntimeError(f"{run}: another result than {runs[0]}")
            least[run] = min(least[run], fit["seconds"])
    return least


def late_times(h, x, k, runs, options):
    """What an iteration takes from the third on: the mean of the least of each, by the fits' own record."""
    init = as_type(x[np.random.default_rng(1).choice(len(x), k, replace=False)].astype("f8"), "f4")
    least = dict.fromkeys(runs, np.inf)
    for _ in range(options.rounds):
        for run in runs:
            fit = one(h, x, init, run, 2 * ITERATIONS, options.clock)
            least[run] = np.minimum(least[run], [it["seconds"] for it in fit["history"]])
    return {run: least[run][2:].mean() for run in runs}


def ratios(h, n, k, d, dtype, runs, options):
    """Of each run against the first one, in turns: {part: ratio}."""
    apart = as_type(blobs(n, 2 * k, d, 3), dtype)
    close = as_type(overlapping(n, 2 * k, d, 3), dtype)
    took = {"first": least_times(h, close, k, runs, ITERATIONS, options),
            "later": late_times(h, close, k, runs, options),
            "fit": least_times(h, apart, k, runs, 0, options)}
    return {run: {part: took[part][run] / took[part][runs[0]] for part in PARTS} for run in runs}


def percent(found):
    return ", ".join(f"{part} {100 * (ratio - 1):+.1f} %" for part, ratio in found.items())


def cost(h, options):
    runs = [(guard, "") for guard in options.guards.split(",")]
    lines = []
    for n, k, d, dtype in SHAPES[options.part::options.parts]:
        found = ratios(h, n, k, d, dtype, runs, options)
        lines.append(dict({"n": n, "k": k, "d": d, "dtype": dtype}, **{g: found[g, ""] for g, _ in runs[1:]}))
        print(f"{n} x {d} {dtype} k={k}: " + "; ".join(f"{g}: {percent(found[g, ''])}" for g, _ in runs[1:]),
              flush=True)
    return lines


def checks(h, options):
    runs = [("off", ""), ("correct", "")] + [("correct", check) for check in CHECKS]
    lines = []
    for n, k, d, dtype in SHAPES[:3][options.part::options.parts]:
        found = ratios(h, n, k, d, dtype, runs, options)
        all_on = found["correct", ""]
        worth = {check: {part: all_on[part] - found["correct", check][part] for part in PARTS} for check in CHECKS}
        lines.append({"n": n, "k": k, "d": d, "dtype": dtype, "correct": all_on, "share": worth})
        print(f"{n} x {d} {dtype} k={k}: {percent(all_on)}; without "
              + ", ".join(f"{c} {-100 * w['first']:+.1f}/{-100 * w['later']:+.1f}" for c, w in worth.items()),
              flush=True)
    return lines


PAPER_ROWS = 131072
PAPER = [(k, d, t) for t in ("f4", "f8") for k in (8, 32, 64, 128) for d in (8, 32, 64, 128)]


def paper(h, options):
    """What an iteration takes and what protection adds, on clusters that overlap."""
    runs = [(guard, "") for guard in options.guards.split(",")]
    lines = []
    for k, d, dtype in PAPER[options.part::options.parts]:
        late = late_times(h, as_type(overlapping(PAPER_ROWS, 2 * k, d, 3), dtype), k, runs, options)
        took = {guard: seconds for (guard, _), seconds in late.items()}
        lines.append({"n": PAPER_ROWS, "k": k, "d": d, "dtype": dtype, "iteration_s": took})
        print(f"{PAPER_ROWS} x {d} {dtype} k={k}: {1e3 * took['off']:.3f} ms; "
              + ", ".join(f"{g} {100 * (took[g] / took['off'] - 1):+.1f} %" for g in took if g != "off"), flush=True)
    return lines


# Kind of data, rows, columns, clusters, type, metric, whole fit, or labels for given centroids ("predict").
ODD = [("blobs", n, d, k, t, "euclidean", "fit") for n, d, k, t in (
           (135000, 2, 40000, "f4"), (20000, 2, 5000, "f4"), (20000, 3, 5000, "f4"), (20000, 2, 3000, "f8"),
           (200000, 1, 8, "f4"), (200000, 1, 300, "f4"), (100000, 2, 2, "f4"), (100000, 2, 16, "f4"),
           (100000, 4, 100, "f4"), (100000, 8, 16, "f4"), (100000, 8, 500, "f4"), (100000, 16, 32, "f4"),
           (50000, 64, 2, "f4"), (4000, 128, 2000, "f4"), (2000, 16, 1500, "f4"), (20000, 64, 64, "f2"),
           (20000, 64, 64, "f8"), (50000, 784, 10, "u1"), (20000, 16, 64, "u1"), (100, 2, 3, "f4"),
           (150, 4, 3, "f8"), (1000, 16, 8, "f4"), (1000, 64, 100, "f4"), (10000, 20, 100, "f4"),
           (2000, 2000, 20, "f4"))]
ODD += [("blobs", 50000, 32, 64, "f4", metric, "fit") for metric in ("cosine", "dot")]
ODD += [("blobs", 20000, 3, 1000, "f4", "cosine", "fit"), ("blobs", 20000, 3, 1000, "f8", "dot", "fit")]
ODD += [(kind, 50000, d, k, "f4", "euclidean", "fit") for d, k in ((20, 100), (64, 256))
        for kind in ("heavy", "sentinels", "nested", "decades", "copies", "lognormal")]
ODD += [("nested", 20000, 20, 100, "f4", "cosine", "fit"), ("nested", 20000, 20, 100, "f8", "euclidean", "fit")]
ODD += [("blobs", n, d, k, "f4", "euclidean", "predict") for n, d, k in (
            (1, 64, 100), (1, 2, 40000), (100, 16, 50), (10000, 2, 5000), (100000, 64, 64), (100000, 8, 16))]
METRICS = {"euclidean": 0, "cosine": 1, "dot": 2}
SHORT = 0.05  # seconds that a measurement lasts at least


def odd_case(h, kind, n, d, k, dtype, metric, what, clock):
    """A function that makes such a call under a guard and says what it took."""
    x = globals()[kind](n, 2 * k, d, 3)
    x = np.abs(x) % 256 if dtype == "u1" else x
    chosen = np.random.default_rng(1).choice(n, k, replace=n < k)
    x, init = as_type(x, dtype), as_type(as_type(x, dtype)[chosen].astype("f8") + 0.5 * (n < k), "f4")

    def fit(guard):
        h.fit(x, init, ITERATIONS, -1, "auto", guard=GUARDS[guard], metric=METRICS[metric], empty=2)

    def predict(guard):
        h.predict(x, init, guard=GUARDS[guard], metric=METRICS[metric])

    call = {"fit": fit, "predict": predict}[what]

    def took(guard, times):
        begin = CLOCKS[clock]()
        for _ in range(times):
            call(guard)
        return (CLOCKS[clock]() - begin) / times

    return took


def shapes(h, options):
    lines = []
    for case in ODD[options.part::options.parts]:
        took = odd_case(h, *case, options.clock)
        times = max(1, int(SHORT / max(took("off", 1), 1e-6)))
        least = dict.fromkeys(("off", "correct"), np.inf)
        for _ in range(options.rounds):
            least = {guard: min(least[guard], took(guard, times)) for guard in least}
        ratio = least["correct"] / least["off"]
        kind, n, d, k, dtype, metric, what = case
        lines.append(dict(zip(("data", "n", "d", "k", "dtype", "metric", "call"), case), off=least["off"], ratio=ratio))
        print(f"{ratio:6.2f} {'*' if ratio > 1.5 else ' '} {1e3 * least['off']:9.3f} ms  {kind} {n} x {d} {dtype} "
              f"k={k} {metric} {what}", flush=True)
    return lines


def rows(h, options):
    """In the first of six iterations from random rows, and in the others; K = 1024; the same in each run."""
    found = []
    for make in (blobs, overlapping):
        for d in (16, 64, 128, 256):
            for dtype in ("f4", "f2", "f8"):
                x = make(20000, 1024, d, 5).astype(dtype)
                c = x[np.random.default_rng(6).permutation(len(x))[:1024]].astype("f8" if dtype == "f8" else "f4")
                left = {}
                for g in options.guards.split(","):
                    fit = h.fit(x, c, ITERATIONS, -1, "off", guard=GUARDS[g], empty=2)
                    first, *others = (it["rows_rechecked"] for it in fit["history"])
                    left[g] = (first, sum(others))
                found.append({"data": make.__name__, "columns": d, "type": dtype, "open_rows": left})
                print(f"20000 x {d} {dtype} k=1024 {make.__name__}: "
                      + ", ".join(f"{g} {first} + {others}" for g, (first, others) in left.items()), flush=True)
    return found


def soak(h, options):
    end = time.monotonic() + options.seconds
    totals = {"fits": 0, "row_visits": 0, "checked": 0, "suspected": 0, "confirmed": 0, "beyond": 0}
    seed = options.part
    while time.monotonic() < end:
        kind = SETS[seed % len(SETS)]
        g = np.random.default_rng(seed)
        n, k, d = int(g.integers(200, 40000)), int(g.integers(2, 300)), int(g.choice([2, 5, 16, 33, 64, 100, 129]))
        k = min(k, n)
        x = as_type(kind(n, 2 * k, d, seed), ("f4", "f8", "f2")[seed // len(SETS) % 3])
        init = as_type(x[g.choice(n, k, replace=False)].astype("f8"), "f8" if x.dtype == "f8" else "f4")
        fit = h.fit(x, init, 8, -1, ("off", "auto", "on")[seed % 3], guard=GUARDS["correct"])
        totals["fits"] += 1
        totals["row_visits"] += n * fit["iterations"]
        for name in ("checked", "suspected", "confirmed", "beyond"):
            totals[name] += fit["faults"][name]
        if fit["faults"]["suspected"] > 0:
            print(f"seed {seed}: {kind.__name__} {n} x {d} {x.dtype} k={k}: {fit['faults']}", flush=True)
        seed += options.parts
    print(totals)
    return totals


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cost", "checks", "paper", "shapes", "rows", "soak"])
    parser.add_argument("library")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=list(CLOCKS), default="cpu", help="wall: on an idle machine")
    parser.add_argument("--part", type=int, default=0, help="of shapes or seeds: this one of --parts, from 0")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--guards", default="off,detect,correct,sampled")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("-o", dest="output")
    options = parser.parse_args()
    h = hf.Holdfast(options.library, options.threads)
    found = {"cost": cost, "checks": checks, "paper": paper, "shapes": shapes, "rows": rows,
             "soak": soak}[options.what](h, options)
    if options.output:
        with open(options.output, "w") as f:
            json.dump({"what": options.what, "threads": options.threads, "rounds": options.rounds,
                       "clock": options.clock,
                       "version": h.version, "results": found}, f, indent=1)
            f.write("\n")
    h.close()


if __name__ == "__main__":
    main()
