#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each check is worth: overhead and coverage of schemes, and of `correct` with one check left out.

  guard_ablation.py LIBRARY COMMAND [--device cpu] [-o FILE]          processor time of one thread
  guard_ablation.py LIBRARY COMMAND --device cuda [-o FILE]           iterations on a GPU, rows in its memory
  guard_ablation.py LIBRARY COMMAND --rounds 0 [--beside 4]           coverage alone, some campaigns side by side

LIBRARY is timed; COMMAND, the `holdfast` of the same tree, plants the faults. Overhead: seconds of a fit of many
iterations less one of few, against those of `off` in the same round, median of the rounds. Coverage: of the faults that
have consequences without protection, those that stay silent. The file has a line for each scheme and check."""
import argparse
import concurrent.futures
import json
import os
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


def covered(command, device, guard, check, faults):
    """Faults, those with consequences without protection, and those of these that stay silent, in all and by fit."""
    total = {"faults": 0, "consequential": 0, "silent": 0, "silent by fit": []}
    for fit in FITS[device]:
        args = [command, "inject", "kmeans", *fit.split(), "--faults", str(faults), "--guard", guard,
                "--device", device, "--json", "--quiet"]
        if device != "cpu":
            args += ["--at-once", "8"]
        done = subprocess.run(args, capture_output=True, text=True, check=False,
                              env={**os.environ, "HF_GUARD_WITHOUT": check})
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(args)}: exit code {done.returncode}: {done.stderr[-300:]}")
        report = json.loads(done.stdout)["all"]
        total["faults"] += report["faults"]
        total["consequential"] += report["consequential"]
        total["silent"] += report["guarded"]["silent"]
        total["silent by fit"].append(report["guarded"]["silent"])
    return total


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("library")
    p.add_argument("command")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--rounds", type=int, default=4, help="of the timings (default 4); 0: no timings")
    p.add_argument("--faults", type=int, default=1500, help="of each campaign (default 1500); 0: no campaigns")
    p.add_argument("--beside", type=int, default=1, help="campaigns side by side (default 1)")
    p.add_argument("--seconds", type=float, default=600, help="for the timings, about")
    p.add_argument("-o", "--output")
    o = p.parse_args()
    end = time.monotonic() + o.seconds
    h = hf.Holdfast(o.library, 1 if o.device == "cpu" else 4, o.device)
    over = overheads(h, o.device, o.rounds, end) if o.rounds else {}
    version = h.version
    h.close()
    pool = concurrent.futures.ThreadPoolExecutor(o.beside)
    campaigns = {run: pool.submit(covered, o.command, o.device, *run, o.faults) for run in runs(o.device) if o.faults}
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
            json.dump({"device": h.machine(o.device) if hasattr(h.lib, "hf_dev_device_at") else o.device,
                       "date": time.strftime("%Y-%m-%d"), "version": version, "lines": lines}, f, indent=1)


if __name__ == "__main__":
    main()
