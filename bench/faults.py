#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Campaigns of planted faults over tame and messy data, and their pictures (docs/fault-injection.md).

  faults.py run FOLDER [--faults N] [--guard SCHEME] [--command holdfast]   goes on where it was
  faults.py draw FOLDER                                                     coverage by place and bit
"""
import argparse
import json
import os
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


def run(folder, faults, guard, command):
    """All campaigns one after the other; an interrupted one goes on."""
    os.makedirs(folder, exist_ok=True)
    each = -(-faults // len(FITS))
    total = {}
    for name, fit in FITS.items():
        place = os.path.join(folder, name)
        args = [command, "inject", "kmeans", *fit.split(), "--faults", str(each), "--guard", guard, "-o", place]
        if os.path.exists(os.path.join(place, "faults.tsv")):
            args.append("--resume")
        subprocess.run(args, check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(place, "report.json"), encoding="utf-8") as f:
            report = json.load(f)
        outcomes = report["all"].get("guarded", report["all"]["off"])
        print(f"{name:12} {report['all']['faults']:>8} faults, {report['all']['consequential']:>7} consequential, "
              f"{outcomes['silent']:>6} silent")
        sys.stdout.flush()
        for key, count in outcomes.items():
            total[key] = total.get(key, 0) + count
    print(json.dumps(total))


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
    parser.add_argument("what", choices=("run", "draw"))
    parser.add_argument("folder")
    parser.add_argument("--faults", type=int, default=300000, help="in all (default 300000)")
    parser.add_argument("--guard", default="correct")
    parser.add_argument("--command", default="holdfast")
    args = parser.parse_args()
    if args.what == "run":
        run(args.folder, args.faults, args.guard, args.command)
    else:
        draw(args.folder)


main()
