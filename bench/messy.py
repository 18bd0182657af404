#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""holdfast on data as tables hold it: outliers, sentinels, heavy tails, mixed scales, copies.

For each set and shape: time of an iteration without work skipping, in turns with normal data of the same
shape; the share of the rows that each tier decided; a rival's time in the same run; wrong labels of both by
float64. The rival is scikit-learn on the CPU, flash-kmeans on a GPU (needs torch)."""
import argparse
import datetime
import importlib
import json
import os
import re
import sys
import time

import messy_sets
import rivals
import rows
from rows import judge, ms

HEAD = (f"{'set':11s} type {'n':>9s} {'k':>5s} {'d':>4s} {'ms':>10s} {'of normal':>9s} {'rechecked':>10s} "
        f"{'float64':>9s} {'wrong':>12s} {'rival ms':>10s} {'times':>7s} {'wrong':>8s}")


def judged(row, rival):
    """The row with its bars; where the rival has no time, without those."""
    bars = messy_sets.SETS[row["data"]]
    for who in ("ours", "normal", "rival"):
        if row.get(who, 1) <= 0:  # a difference of two fits
            raise RuntimeError(f"{who}: more iterations took no more time: {row['samples'][who]}")
    judge(row, "times normal data's time", row["ours"] / row["normal"], most=bars.get("normal"))
    if "rival" in row:
        judge(row, f"times as fast as {rival}", row["rival"] / row["ours"], least=bars.get(rival))
    judge(row, "labels wrong", row["wrong"], most=0)
    return row


def line(row):
    def percent(key):
        return f"{100 * row[key]:8.2f} %" if key in row else "        - "
    rival = (f"{row['rival'] * 1e3:10.4f} {row['rival'] / row['ours']:6.2f}x {row.get('rival_wrong', '-'):>8}"
             if "rival" in row else f"{'-':>10s} {'-':>7s} {'-':>8s}")
    return (f"{row['data']:11s} {row['dtype']:4s} {row['n']:9d} {row['k']:5d} {row['d']:4d} "
            f"{row['ours'] * 1e3:10.4f} {row['ours'] / row['normal']:8.2f}x {percent('rechecked')} "
            f"{percent('float64')[1:]} {row['wrong']:>4d}/{row['looked']:<8d}{rival}")


def show(row):
    print(rows.shape(row), f"{ms(row['ours'])}, normal data {ms(row['normal'])}, rival",
          ms(row.get("rival")), row["kernels"][0], flush=True)


def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--lib", default=rivals.find_built("libholdfast.so"), help="libholdfast.so to measure")
    p.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    p.add_argument("--sets", default=",".join(messy_sets.SETS), help="of %(default)s")
    p.add_argument("--shapes", nargs="+", metavar="N,K,D", help="instead of those of the device")
    p.add_argument("--budget", type=float, default=900, help="seconds, then stop with what there is")
    p.add_argument("--results", help="folder for the JSON file")
    p.add_argument("--rounds", type=int, default=5, help="samples of each contender")
    p.add_argument("--steps", type=int, default=20, help="iterations of a sample on a GPU, at most")
    p.add_argument("--threads", type=int, default=2, help="on the CPU")
    p.add_argument("--fashion", help="Fashion-MNIST's images (IDX) instead of those of the tests")
    p.add_argument("--tmp", help="folder for the data while it runs")
    p.add_argument("--no-rival", action="store_true")
    p.add_argument("--verbose", action="store_true", help="show what the contenders print")
    args = p.parse_args()
    args.holdfast, args.modes = "", ["auto"]  # of rivals.Run
    if not os.path.exists(args.lib):
        p.error(f"--lib {args.lib}: there is no such file: build the library first")
    args.sets = args.sets.split(",")
    for name in args.sets:
        if name not in messy_sets.SETS:
            p.error(f"--sets {name}: must be of {', '.join(messy_sets.SETS)}")
    for text in args.shapes or []:
        if not re.fullmatch(r"[1-9]\d*,[1-9]\d*,[1-9]\d*", text):
            p.error(f"--shapes {text}: must be rows, clusters and columns, as 100000,100,20")
    return args


def main():
    args, begin = parse(), time.time()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, str(args.threads))
    sys.dont_write_bytecode = True
    kind = importlib.import_module("messy_cpu" if args.device == "cpu" else "messy_gpu")
    shapes = [tuple(map(int, text.split(","))) for text in args.shapes or []] or kind.SHAPES
    bench = kind.Bench(args, len(shapes) * len(args.sets))
    now = datetime.datetime.now(datetime.timezone.utc)
    command = [os.path.basename(word) for word in sys.argv]  # where things lie says nothing to others
    out = dict(device=bench.device, date=now.isoformat(), command=command, versions={},
               rows=[], failed=[], left=[], stopped="ended from outside", seconds=0.0)
    host = re.sub(r"[^A-Za-z0-9]+", "-", bench.device).strip("-").lower()

    def keep():
        out["seconds"], out["versions"] = time.time() - begin, bench.versions()
        if args.results:
            os.makedirs(args.results, exist_ok=True)
            with open(os.path.join(args.results, f"messy-{host}-{now:%Y%m%d-%H%M%S}.json"), "w") as f:
                json.dump(out, f, indent=1)
    jobs = [(f"{name} {','.join(map(str, shape))}",
             lambda name=name, shape=shape: judged(bench.row(name, *shape), kind.RIVAL))
            for shape in shapes for name in args.sets]
    rows.run(jobs, out, keep, show, begin + args.budget)
    keep()
    print("\n".join([HEAD] + [line(row) for row in out["rows"]]))
    rows.summary(out)
    bench.close()
    return rows.any_wrong(out)


if __name__ == "__main__":
    sys.exit(main())
