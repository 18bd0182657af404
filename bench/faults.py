#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Campaigns of planted faults over tame and messy data, and their pictures (docs/fault-injection.md).

  faults.py run FOLDER [--faults N] [--guard SCHEME] [--command holdfast]   goes on where it was
  faults.py run FOLDER --device cuda [--seconds S]                          on a GPU, S seconds for each fit at most
  faults.py table FOLDER                                                    outcomes by fit, place and model
  faults.py draw FOLDER                                                     coverage by place and bit
"""
import argparse
import collections
import json
import math
import os
import signal
import subprocess
import sys

# Shapes that reach different kernels and different parts of them: bounds on and off, few columns, many,
# float64, half precision, whole numbers, other metrics, sums updated apart, rows that the filter leaves open.
FITS = {
    "blobs": "--synthetic blobs --rows 1000 --columns 16 -k 8",
    "normal": "--synthetic normal --rows 1000 --columns 16 -k 24 --max-iter 12",
    "normal-wide": "--synthetic normal --rows 400 --columns 150 -k 20 --max-iter 8",
    "skipping": "--synthetic normal --rows 1500 --columns 8 -k 16 --skipping on --max-iter 15",
    "f64": "--synthetic normal --dtype f64 --rows 700 --columns 12 -k 16 --max-iter 10",
    "f16": "--synthetic blobs --dtype f16 --rows 700 --columns 20 -k 12 --max-iter 10",
    "bytes": "--synthetic whole --dtype u8 --rows 900 --columns 24 -k 12 --max-iter 10",
    "cosine": "--synthetic normal --metric cosine --rows 700 --columns 12 -k 12 --max-iter 10",
    "plusplus": "--synthetic blobs --init kmeans++ --rows 800 --columns 10 -k 10 --max-iter 10",
    "outlier": "--synthetic outlier-1e4 --rows 1000 --columns 12 -k 12 --max-iter 10",
    "sentinels": "--synthetic sentinels --rows 1000 --columns 12 -k 12 --max-iter 10",
    "lognormal": "--synthetic lognormal --rows 1000 --columns 12 -k 12 --max-iter 10",
    "cauchy": "--synthetic cauchy --rows 1000 --columns 8 -k 12 --max-iter 10",
    "decades": "--synthetic decades --rows 1000 --columns 12 -k 12 --max-iter 10",
    "nested": "--synthetic nested --rows 1000 --columns 8 -k 16 --max-iter 10",
    "copies": "--synthetic copies --rows 1000 --columns 8 -k 12 --max-iter 10",
}
# Up to 128 clusters one launch makes all iterations, until a cluster is empty ("emptied", "copies"); more have a book.
# One after the other, each by many fits at once in one process: processes that share a GPU wait for each other's slices
# of time.
FITS_CUDA = {
    "small": "--synthetic blobs --rows 2000 --columns 48 -k 12 --max-iter 8",
    "narrow": "--synthetic normal --rows 2000 --columns 12 -k 24 --max-iter 8",
    "f32": "--synthetic blobs --rows 2000 --columns 32 -k 140 --max-iter 8",
    "f16": "--synthetic blobs --dtype f16 --rows 2000 --columns 64 -k 140 --max-iter 8",
    "f64": "--synthetic normal --dtype f64 --rows 1500 --columns 16 -k 140 --max-iter 8",
    "bytes": "--synthetic whole --dtype u8 --rows 1500 --columns 24 -k 140 --max-iter 8",
    "cosine": "--synthetic normal --metric cosine --rows 1500 --columns 12 -k 20 --max-iter 8",
    "skipping": "--synthetic normal --rows 3000 --columns 8 -k 140 --skipping on --max-iter 10",
    "sentinels": "--synthetic sentinels --rows 1500 --columns 12 -k 140 --max-iter 8",
    "nested": "--synthetic nested --rows 1500 --columns 8 -k 140 --max-iter 8",
    "lognormal": "--synthetic lognormal --rows 2000 --columns 12 -k 40 --max-iter 8",
    "cauchy": "--synthetic cauchy --rows 1500 --columns 40 -k 140 --max-iter 8",
    "emptied": "--synthetic blobs --rows 2000 --columns 48 -k 12 --max-iter 8 --seed 16",
    "copies": "--synthetic copies --rows 2000 --columns 12 -k 40 --max-iter 8",
    "plusplus": "--synthetic blobs --init kmeans++ --rows 2000 --columns 16 -k 12 --max-iter 8",
    "workspace": "--synthetic normal --rows 3000 --columns 8 -k 140 --skipping on --max-iter 10 "
                 "--where lloyd.workspace --words 65536",
}


def campaign(command, seconds):
    """One; it ends itself, with its report, when it is interrupted."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        code = child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
        code = child.wait()
    if code not in (0, 130):
        raise RuntimeError(f"{' '.join(command)}: exit code {code}")


def run(folder, options):
    """All campaigns one after the other; an interrupted one goes on."""
    os.makedirs(folder, exist_ok=True)
    fits = FITS if options.device == "cpu" else FITS_CUDA
    each = -(-options.faults // len(fits))
    total = {}
    for name, fit in fits.items():
        place = os.path.join(folder, name)
        args = [options.command, "inject", "kmeans", "--seed", str(options.seed), *fit.split(), "--faults", str(each),
                "--guard", options.guard, "--device", options.device, "-o", place]
        if options.device != "cpu":
            args += ["--at-once", str(options.at_once)]
        if os.path.exists(os.path.join(place, "faults.tsv")):
            args.append("--resume")
        campaign(args, options.seconds)
        with open(os.path.join(place, "report.json"), encoding="utf-8") as f:
            report = json.load(f)
        outcomes = report["all"].get("guarded", report["all"]["off"])
        print(f"{name:12} {report['all']['faults']:>8} faults, {report['all']['consequential']:>7} consequential, "
              f"{outcomes['silent']:>6} silent")
        sys.stdout.flush()
        for key, count in outcomes.items():
            total[key] = total.get(key, 0) + count
    print(json.dumps(total))


def interval(hits, n):
    """Of Clopper and Pearson, at 95 % confidence."""
    def at_most(k, p):
        return math.fsum(math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * math.log(p)
                                  + (n - i) * math.log1p(-p)) for i in range(k + 1))

    def solve(above):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if above(middle) else (low, middle)
        return low
    return (0.0 if hits == 0 else solve(lambda p: 1 - at_most(hits - 1, p) < 0.025),
            1.0 if hits == n else solve(lambda p: at_most(hits, p) > 0.025))


def table(folder):
    """As tab-separated values; at the end each fault that stayed silent."""
    outcomes = ("not_activated", "masked", "benign", "corrected", "detected", "misplaced", "silent", "error", "hang",
                "crash")
    counts = {key: collections.defaultdict(collections.Counter) for key in ("fit", "place", "model")}
    silent = []
    for path, _, names in sorted(os.walk(folder)):
        if "faults.tsv" not in names:
            continue
        fit = os.path.basename(path)
        with open(os.path.join(path, "faults.tsv"), encoding="utf-8") as f:
            lines = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
        for line in lines[1:]:
            fault = dict(zip(lines[0], line))
            for key, name in (("fit", fit), ("place", f"{fault['op']}.{fault['place']}"), ("model", fault["model"])):
                for row in (name, "all"):
                    count = counts[key][row]
                    count["faults"] += 1
                    count["altered"] += int(fault["altered"]) > 0
                    matters = fault["off"] not in ("not_activated", "masked", "benign")
                    count["consequential"] += matters
                    count["both"] += matters and fault["guarded"] == "silent"
                    count[fault["guarded"]] += 1
            if fault["guarded"] == "silent":
                silent.append(f"# {fit}\t{fault['off']}\t{fault['fault']}")
    for key, rows in counts.items():
        print(key, "faults", "altered", "consequential", *outcomes, "silent of consequential, 95 %", sep="\t")
        for name, count in sorted(rows.items(), key=lambda row: (row[0] == "all", row[0])):
            low, high = interval(count["both"], count["consequential"]) if count["consequential"] else (0, 1)
            print(name, *(count[c] for c in ("faults", "altered", "consequential", *outcomes)),
                  f"{count['both']} ({100 * low:.3f} to {100 * high:.3f} %)", sep="\t")
    print(f"# silent: {len(silent)}; fit, outcome without protection, the fault", *silent, sep="\n")


def tables(folder):
    for path, _, names in sorted(os.walk(folder)):
        if "coverage.tsv" in names:
            with open(os.path.join(path, "coverage.tsv"), encoding="utf-8") as f:
                head, *lines = [line.rstrip("\n").split("\t") for line in f]
            for line in lines:
                yield dict(zip(head, line))


def draw(folder):
    """Places by bits: how many of the consequential faults stay silent, and of the altered values are told."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    rows = list(tables(folder))
    places = sorted({r["place"] for r in rows})
    sums = {key: np.zeros((len(places), 64)) for key in ("activated", "told", "consequential", "silent")}
    for r in rows:
        for key, total in sums.items():
            total[places.index(r["place"]), int(r["bit"])] += int(r[key])
    figure, axes = plt.subplots(1, 2, figsize=(18, 1.5 + 0.2 * len(places)), sharey=True)
    parts = (("silent", "consequential", "consequential faults that stay silent"),
             ("told", "activated", "altered values that protection told of (raw coverage)"))
    for axis, (hits, of, title) in zip(axes, parts):
        with np.errstate(invalid="ignore", divide="ignore"):
            share = sums[hits] / sums[of]
        image = axis.imshow(share, vmin=0, vmax=1, aspect="auto", cmap="Reds" if hits == "silent" else "viridis")
        axis.set_facecolor("0.9")  # no such faults
        axis.set(title=title, xlabel="bit", yticks=range(len(places)))
        axis.set_yticklabels(places, fontsize=7)
        figure.colorbar(image, ax=axis)
    figure.tight_layout()
    path = os.path.join(folder, "coverage.png")
    figure.savefig(path, dpi=120)
    print(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table", "draw"))
    parser.add_argument("folder")
    parser.add_argument("--faults", type=int, default=300000, help="in all (default 300000)")
    parser.add_argument("--guard", default="correct")
    parser.add_argument("--command", default="holdfast")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--at-once", type=int, default=16, help="fits side by side on a GPU (default 16)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, help="for each fit at most")
    args = parser.parse_args()
    if args.what == "run":
        run(args.folder, args)
    elif args.what == "table":
        table(args.folder)
    else:
        draw(args.folder)


main()
