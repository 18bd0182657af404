#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each check is worth: overhead and coverage of schemes, and of `correct` with one check left out.

  guard_ablation.py LIBRARY COMMAND [--device cpu] [-o FILE]          processor time of one thread
  guard_ablation.py LIBRARY COMMAND --device cuda [-o FILE]           iterations on a GPU, rows in its memory
  guard_ablation.py LIBRARY COMMAND --rounds 0 [--beside 4]           coverage alone, some campaigns side by side
  guard_ablation.py draw FILE PICTURE                                 cost and coverage of what such a run wrote

LIBRARY is timed; COMMAND, the `holdfast` of the same tree, plants the faults. Overhead: seconds of a fit of many
iterations less one of few, against those of `off` in the same round, median of the rounds. Coverage: of the faults that
have consequences without protection, those that stay silent. With --campaigns-s each campaign ends in its share of that
time; all lines plant the same faults in the same order, as far as they get. The file has a line for each scheme and
check."""
import argparse
import concurrent.futures
import json
import os
import signal
import statistics
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hf  # noqa: E402

GUARDS = {"off": 1, "detect": 2, "correct": 3, "sampled": 4, "weighted": 5}
CHECKS = {"cpu": ("rows", "operand", "best", "index", "moves", "open", "settle", "pack", "norm", "labels", "changes",
                  "sums", "counts", "means", "bounds", "inertia", "finish", "state"),
          "cuda": ("sums", "counts", "changes", "range", "means", "moves", "index", "operand", "state", "start",
                   "inertia", "finish", "labels")}
# rows, columns, clusters, type; fits of the campaign
SHAPES = {"cpu": ((50_000, 64, 256, "f4"), (20_000, 300, 256, "f4")),
          "cuda": ((1_000_000, 128, 264, "f2"), (1_000_000, 64, 1024, "f4"), (1_000_000, 64, 128, "f2"))}
LENGTHS = {"cpu": (4, 10), "cuda": (28, 92)}
FITS = {"cpu": ("--synthetic normal --rows 1000 --columns 32 -k 24 --max-iter 10",
                "--synthetic outlier-1e4 --rows 1000 --columns 32 -k 12 --max-iter 10"),
        # with a book; with one, bounds and open rows; twice in one launch; with a book from an empty cluster on; from
        # k-means++
        "cuda": ("--synthetic blobs --rows 2000 --columns 32 -k 140 --max-iter 8",
                 "--synthetic sentinels --rows 3000 --columns 8 -k 140 --skipping on --max-iter 8",
                 "--synthetic blobs --rows 2000 --columns 48 -k 12 --max-iter 8",
                 "--synthetic copies --rows 2000 --columns 12 -k 40 --max-iter 8",
                 "--synthetic blobs --init kmeans++ --rows 2000 --columns 16 -k 12 --max-iter 8")}


def runs(device):
    """Scheme, check that is left out, or ""."""
    schemes = [(guard, "") for guard in ("correct", "sampled", "weighted")]
    return schemes + [("correct", check) for check in CHECKS[device]] + [("weighted", c) for c in ("tile", "twice")]


def leave_out(check):
    os.environ["HF_GUARD_WITHOUT"] = check


def rows(n, d, k, dtype, device):
    rng = np.random.default_rng(7)
    sites = 2 * rng.standard_normal((2 * k, d), "f4")
    x = (sites[rng.integers(2 * k, size=n)] + rng.standard_normal((n, d), "f4")).astype(dtype)
    c = x[rng.permutation(n)[:k]].astype("f4")
    if device == "cpu":
        return x, c
    import torch
    moved = torch.from_numpy(x).cuda(), torch.from_numpy(c).cuda()
    torch.cuda.synchronize()
    return moved


def iterate_s(h, x, c, guard, device):
    """Of one iteration."""
    took = []
    for iterations in LENGTHS[device]:
        begin = time.process_time()
        r = h.fit(x, c, iterations, -1, "off", guard=GUARDS[guard], empty=2)
        took.append(time.process_time() - begin if device == "cpu" else r["seconds"]["iterate"])
    return (took[1] - took[0]) / (LENGTHS[device][1] - LENGTHS[device][0])


def overheads(h, device, rounds, end):
    """{(scheme, check): {shape: median of the overheads}}"""
    found = {}
    for n, d, k, dtype in SHAPES[device]:
        x, c = rows(n, d, k, dtype, device)
        over = {run: [] for run in runs(device)}
        for turn in range(rounds + 1):
            if time.monotonic() > end and turn > 1:
                break
            leave_out("")
            base = iterate_s(h, x, c, "off", device)
            for guard, check in over:
                leave_out(check)
                over[guard, check].append(iterate_s(h, x, c, guard, device) / base - 1)
        for run, values in over.items():
            found.setdefault(run, {})[f"{n} x {d} {dtype} k={k}"] = statistics.median(values[1:] or values)
    leave_out("")
    return found


def campaign(args, check, seconds):
    """Its report, of what it came to in so many seconds; 0: of all."""
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "HF_GUARD_WITHOUT": check}) as child:
        try:
            out, err = child.communicate(timeout=seconds or None)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
            out, err = child.communicate()
    if child.returncode not in (0, 130):
        raise RuntimeError(f"{' '.join(args)}: exit code {child.returncode}: {err[-300:]}")
    return json.loads(out)["all"]


def covered(o, guard, check):
    """Faults, those with consequences without protection, and those of these that stay silent, in all and by fit."""
    total = {"faults": 0, "consequential": 0, "silent": 0, "consequential by fit": [], "silent by fit": []}
    seconds = o.campaigns_s * o.beside / (len(runs(o.device)) * len(FITS[o.device]))
    for fit in FITS[o.device]:
        args = [o.command, "inject", "kmeans", *fit.split(), "--faults", str(o.faults), "--guard", guard,
                "--device", o.device, "--seed", str(o.seed), "--json", "--quiet"]
        if o.device != "cpu":
            args += ["--at-once", str(o.at_once)]
        report = campaign(args, check, seconds)
        total["faults"] += report["faults"]
        for key, count in (("consequential", report["consequential"]), ("silent", report["guarded"]["silent"])):
            total[key] += count
            total[key + " by fit"].append(count)
    return total


def draw(path, picture):
    """What schemes and checks cost against what stays silent without them."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with open(path, encoding="utf-8") as f:
        report = json.load(f)
    figure, axes = plt.subplots(figsize=(9, 6))
    for line in report["lines"]:
        if not line["overhead"] or not line.get("consequential"):
            continue
        cost = 100 * statistics.median(line["overhead"].values())
        covered_share = 100 * (1 - line["silent"] / line["consequential"])
        axes.plot(cost, covered_share, "o" if not line["without"] else "x")
        axes.annotate(line["scheme"] if not line["without"] else f"{line['scheme']} - {line['without']}",
                      (cost, covered_share), textcoords="offset points", xytext=(2, 2), fontsize=7,
                      rotation=45)
    axes.set(xlabel="added to an iteration, %", ylabel="faults with consequences that do not stay silent, %",
             title=f"{report['device']}, {report['date']}")
    figure.tight_layout()
    figure.savefig(picture, dpi=120)


def main():
    if sys.argv[1:2] == ["draw"] and len(sys.argv) == 4:
        draw(*sys.argv[2:])
        return
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("library")
    p.add_argument("command")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--rounds", type=int, default=4, help="of the timings (default 4); 0: no timings")
    p.add_argument("--faults", type=int, default=1500, help="of each campaign (default 1500); 0: no campaigns")
    p.add_argument("--campaigns-s", type=float, default=0, help="seconds for all campaigns, about (default: no limit)")
    p.add_argument("--beside", type=int, default=1, help="campaigns side by side (default 1)")
    p.add_argument("--at-once", type=int, default=8, help="fits side by side in one, on a GPU (default 8)")
    p.add_argument("--seed", type=int, default=0, help="of the faults")
    p.add_argument("--seconds", type=float, default=600, help="for the timings, about")
    p.add_argument("-o", "--output")
    o = p.parse_args()
    end = time.monotonic() + o.seconds
    device, over = o.device, {}
    if o.rounds:
        h = hf.Holdfast(o.library, 1 if o.device == "cpu" else 4, o.device)
        over = overheads(h, o.device, o.rounds, end)
        device = h.machine(o.device) if hasattr(h.lib, "hf_dev_device_at") else o.device
        h.close()
    version = subprocess.run([o.command, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    pool = concurrent.futures.ThreadPoolExecutor(o.beside)
    campaigns = {run: pool.submit(covered, o, *run) for run in runs(o.device) if o.faults}
    lines = []
    for guard, check in runs(o.device):
        line = {"scheme": guard, "without": check, "overhead": over.get((guard, check), {})}
        if o.faults:
            line.update(campaigns[guard, check].result())
        lines.append(line)
        costs = ", ".join(f"{100 * v:+.1f}" for v in line["overhead"].values())
        print(f"| {guard}{' without ' + check if check else ''} | {costs} % | {line.get('consequential', '')} | "
              f"{line.get('silent', '')} |", flush=True)
    if o.output:
        with open(o.output, "w", encoding="utf-8") as f:
            json.dump({"device": device, "date": time.strftime("%Y-%m-%d"), "version": version, "lines": lines}, f,
                      indent=1)


if __name__ == "__main__":
    main()
