#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What protection costs on a GPU: iterations of fits under each scheme against off, in turns, in one process.

  guard_gpu.py LIBRARY [--rounds R] [--seconds S] [--least N] [-o FILE]

Seconds of an iteration are those of fits of many less those of few iterations, median of the rounds; `call` is a whole
fit of the many. Rows are torch tensors on the device. A result that differs from that of off ends the program."""
import argparse
import json
import os
import statistics
import sys
import time

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hf  # noqa: E402

GUARDS = {"off": 1, "correct": 3, "detect": 2, "sampled": 4}
FEW, MANY = 4, 28
KEEP = 2
N = 1_000_000
# d, k, type, bar of correct in percent
SHAPES = [(128, 264, "f16", 8), (64, 264, "f16", 15), (256, 264, "f16", 5), (128, 1024, "f16", 8),
          (64, 1024, "f16", 15), (256, 1024, "f16", 5), (128, 264, "f32", 8), (64, 264, "f32", 15),
          (128, 1024, "f32", 8), (256, 1024, "f32", 5), (64, 128, "f16", 6), (32, 100, "f32", 6),
          (64, 256, "f64", 8)]
# n, d, k, type: whole fits of at most MANY iterations, which one launch makes without protection
SMALL = [(2_000, 8, 8, "f32"), (20_000, 64, 100, "f32"), (16_384, 64, 128, "f16"), (200_000, 20, 100, "f32")]
TYPES = {"f16": torch.float16, "f32": torch.float32, "f64": torch.float64}


def rows(n, d, k, dtype):
    g = torch.Generator(device="cuda").manual_seed(7)
    sites = 2 * torch.randn(2 * k, d, device="cuda", generator=g)
    x = sites[torch.randint(2 * k, (n,), device="cuda", generator=g)]
    x = (x + torch.randn(n, d, device="cuda", generator=g)).to(TYPES[dtype]).contiguous()
    c = x[torch.randperm(n, device="cuda", generator=g)[:k]]
    return x, c.to(torch.float64 if dtype == "f64" else torch.float32).contiguous()


def fit(h, x, c, iterations, guard):
    begin = time.perf_counter()
    r = h.fit(x, c, iterations, -1, "off", guard=GUARDS[guard], empty=KEEP)
    return dict(r, call=time.perf_counter() - begin)


def same(a, b):
    return np.array_equal(a["labels"], b["labels"]) and a["centroids"].tobytes() == b["centroids"].tobytes()


def measure(h, d, k, dtype, options):
    x, c = rows(options.n, d, k, dtype)
    torch.cuda.synchronize()
    each = {g: [] for g in options.guards}
    call = {g: [] for g in options.guards}
    for turn in range(options.rounds + 1):
        clean = None
        for g in options.guards:
            few, many = fit(h, x, c, FEW, g), fit(h, x, c, MANY, g)
            clean = clean or many
            if not same(many, clean):
                raise RuntimeError(f"{d} {k} {dtype}: {g} gives another result than off")
            if turn:
                each[g].append((many["seconds"]["iterate"] - few["seconds"]["iterate"]) / (MANY - FEW))
                call[g].append(many["call"])
    row = {"n": options.n, "d": d, "k": k, "dtype": dtype, "kernel": clean["kernels"],
           "iteration_ms": {g: 1e3 * statistics.median(v) for g, v in each.items()},
           "call_ms": {g: 1e3 * statistics.median(v) for g, v in call.items()}}
    row["over"] = {g: row["iteration_ms"][g] / row["iteration_ms"]["off"] - 1 for g in options.guards[1:]}
    row["call_over"] = {g: row["call_ms"][g] / row["call_ms"]["off"] - 1 for g in options.guards[1:]}
    return row


def small(h, n, d, k, dtype, options):
    x, c = rows(n, d, k, dtype)
    torch.cuda.synchronize()
    call = {g: [] for g in options.guards}
    for turn in range(4 * options.rounds + 2):
        clean = None
        for g in options.guards:
            r = fit(h, x, c, MANY, g)
            clean = clean or r
            if not same(r, clean):
                raise RuntimeError(f"{n} {d} {k} {dtype}: {g} gives another result than off")
            if turn > 1:
                call[g].append(r["call"])
    row = {"n": n, "d": d, "k": k, "dtype": dtype, "kernel": clean["kernels"],
           "call_ms": {g: 1e3 * statistics.median(v) for g, v in call.items()}}
    row["call_over"] = {g: row["call_ms"][g] / row["call_ms"]["off"] - 1 for g in options.guards[1:]}
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("library")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=80)
    p.add_argument("--n", type=int, default=N)
    p.add_argument("--guards", default="off,correct,detect")
    p.add_argument("-o", "--output")
    options = p.parse_args()
    options.guards = options.guards.split(",")
    h = hf.Holdfast(options.library, 4, "cuda")
    end = time.monotonic() + options.seconds
    lines = []
    for d, k, dtype, bar in SHAPES:
        if time.monotonic() > end:
            print("no time left", flush=True)
            break
        row = dict(measure(h, d, k, dtype, options), bar=bar)
        lines.append(row)
        print(f"{options.n} x {d} {dtype} k={k}: off {row['iteration_ms']['off']:.4f} ms, "
              + ", ".join(f"{g} {100 * v:+.1f} % (fit {100 * row['call_over'][g]:+.1f} %)"
                          for g, v in row["over"].items()) + f"; bar {bar} %", flush=True)
    for n, d, k, dtype in SMALL:
        row = small(h, n, d, k, dtype, options)
        lines.append(row)
        print(f"{n} x {d} {dtype} k={k}: whole fit off {row['call_ms']['off']:.3f} ms, "
              + ", ".join(f"{g} {100 * v:+.1f} %" for g, v in row["call_over"].items()), flush=True)
    h.close()
    if options.output:
        with open(options.output, "w") as f:
            json.dump({"device": torch.cuda.get_device_name(), "date": time.strftime("%Y-%m-%d"),
                       "version": h.version, "lines": lines}, f, indent=1)


if __name__ == "__main__":
    main()
