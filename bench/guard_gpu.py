#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What protection costs on a GPU: iterations of fits under each scheme against off, in turns, in one process.

  guard_gpu.py LIBRARY [--rounds R] [--seconds S] [--shapes bars,small,paper] [--n N] [--data blobs]
               [--iterations 4,28] [--guards off,correct,sampled] [-o FILE]
  guard_gpu.py LIBRARY --soak [--seconds S] [-o FILE]     faultless fits: rows checked, false alarms

Seconds of an iteration are those of fits of many less those of few iterations, median of the rounds; `call` is a whole
fit of the many. Blobs come to rest after some 30 iterations, normal rows after hundreds. Rows are torch tensors on the
device. A result that differs from that of off ends the program.
`paper`: 131,072 rows, columns and clusters as in FT K-Means (Wu and others, 2024), Figures 13 to 16."""
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

GUARDS = {"off": 1, "correct": 3, "detect": 2, "sampled": 4, "weighted": 5}
MANY = 28
LEAST = 8  # iterations that a fit which comes to rest must make beyond the few
KEEP = 2
N = 1_000_000
# d, k, type, bar of correct in percent
SHAPES = [(128, 264, "f16", 8), (64, 264, "f16", 15), (256, 264, "f16", 5), (128, 1024, "f16", 8),
          (64, 1024, "f16", 15), (256, 1024, "f16", 5), (128, 264, "f32", 8), (64, 264, "f32", 15),
          (128, 1024, "f32", 8), (256, 1024, "f32", 5), (64, 128, "f16", 6), (32, 100, "f32", 6),
          (64, 256, "f64", 8)]
# n, d, k, type: whole fits of at most MANY iterations, which one launch makes without protection
SMALL = [(2_000, 8, 8, "f32"), (20_000, 64, 100, "f32"), (16_384, 64, 128, "f16"), (200_000, 20, 100, "f32")]
PAPER_N = 131_072
PAPER = [(d, k, t) for t in ("f32", "f64") for d in (8, 32, 64, 128) for k in (8, 32, 64, 128)]
TYPES = {"f16": torch.float16, "f32": torch.float32, "f64": torch.float64}


def rows(n, d, k, dtype, data="blobs"):
    g = torch.Generator(device="cuda").manual_seed(7)
    if data == "normal":
        x = torch.randn(n, d, device="cuda", generator=g).to(TYPES[dtype]).contiguous()
        return x, x[:k].to(torch.float64 if dtype == "f64" else torch.float32).contiguous()
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


def warm(h, seconds):
    """Until the clocks have risen."""
    x, c = rows(N, 64, 256, "f16")
    torch.cuda.synchronize()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        fit(h, x, c, MANY, "off")


def measure(h, n, d, k, dtype, options):
    x, c = rows(n, d, k, dtype, options.data)
    torch.cuda.synchronize()
    few_made, many_made = options.iterations
    each = {g: [] for g in options.guards}
    call = {g: [] for g in options.guards}
    opened = {}
    for turn in range(options.rounds + 1):
        clean = None
        for g in options.guards:
            few, many = fit(h, x, c, few_made, g), fit(h, x, c, many_made, g)
            made = many["iterations"]
            if made < few_made + LEAST:
                raise RuntimeError(f"{d} {k} {dtype}: at rest after {made} iterations: make fewer")
            clean = clean or many
            if not same(many, clean):
                raise RuntimeError(f"{d} {k} {dtype}: {g} gives another result than off")
            opened[g] = sum(it["rows_rechecked"] for it in many["history"])
            if turn:
                each[g].append((many["seconds"]["iterate"] - few["seconds"]["iterate"]) / (made - few_made))
                call[g].append(many["call"])
    row = {"n": n, "d": d, "k": k, "dtype": dtype, "kernel": clean["kernels"],
           "iteration_ms": {g: 1e3 * statistics.median(v) for g, v in each.items()},
           "call_ms": {g: 1e3 * statistics.median(v) for g, v in call.items()}, "open_rows": opened}
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


def messy(kind, n, d, g):
    """Rows of which 16 bits, or a single scale, know little."""
    x = torch.randn(n, d, device="cuda", generator=g)
    if kind == "blobs":
        sites = 3 * torch.randn(64, d, device="cuda", generator=g)
        return sites[torch.randint(64, (n,), device="cuda", generator=g)] + x
    if kind == "sentinels":
        x[torch.randint(n, (1 + n // 50,), device="cuda", generator=g), 0] = -9999
    if kind == "nested":
        x *= 10.0 ** torch.randint(5, (n, 1), device="cuda", generator=g)
    if kind == "heavy":
        x /= 0.001 + torch.rand(n, d, device="cuda", generator=g)
    return x + 1e3 if kind == "offset" else x


def soak(h, options):
    """Fits of many kinds, none with a fault. A row of an iteration is checked once, whatever looks at it."""
    end = time.monotonic() + options.seconds
    kinds, types = ("normal", "blobs", "sentinels", "nested", "heavy", "offset"), ("f32", "f16", "f64")
    totals = {"fits": 0, "rows": 0, "suspected": 0, "confirmed": 0, "wrong": 0}
    while time.monotonic() < end:
        seed = totals["fits"]
        g, pick = torch.Generator(device="cuda").manual_seed(seed), np.random.default_rng(seed)
        kind, dtype = kinds[seed % len(kinds)], types[seed // len(kinds) % len(types)]
        if dtype == "f16" and kind in ("nested", "heavy", "sentinels"):
            dtype = "f32"
        n = int(pick.integers(200, 30_000) if seed % 4 == 3 else pick.integers(300_000, 2_000_000))
        d, k = int(pick.choice([2, 8, 16, 33, 64, 100, 128])), min(n, int(pick.integers(2, 500)))
        x = messy(kind, n, d, g).to(TYPES[dtype]).contiguous()
        c = x[torch.randperm(n, device="cuda", generator=g)[:k]]
        c = c.to(torch.float64 if dtype == "f64" else torch.float32).contiguous()
        torch.cuda.synchronize()
        r = h.fit(x, c, 12, -1, ("off", "auto", "on")[seed // 2 % 3], guard=GUARDS["correct"], empty=KEEP)
        if seed % 8 == 0:
            totals["wrong"] += not same(r, h.fit(x, c, 12, -1, "off", empty=KEEP))
        totals["fits"] += 1
        totals["rows"] += n * r["iterations"]
        totals["suspected"] += r["faults"]["suspected"]
        totals["confirmed"] += r["faults"]["confirmed"]
        if r["faults"]["suspected"]:
            print(f"seed {seed}: {kind} {n} x {d} {dtype} k={k}: {r['faults']}", flush=True)
    print(totals, flush=True)
    return [totals]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("library")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=80)
    p.add_argument("--n", type=int, default=N)
    p.add_argument("--shapes", default="bars,small")
    p.add_argument("--soak", action="store_true")
    p.add_argument("--data", choices=("blobs", "normal"), default="blobs")
    p.add_argument("--iterations", default="4,28", help="few, many (default 4,28)")
    p.add_argument("--guards", default="off,correct,sampled")
    p.add_argument("-o", "--output")
    options = p.parse_args()
    options.guards = options.guards.split(",")
    options.iterations = [int(i) for i in options.iterations.split(",")]
    kinds = options.shapes.split(",")
    h = hf.Holdfast(options.library, 4, "cuda")
    warm(h, 1)
    end = time.monotonic() + options.seconds
    lines = soak(h, options) if options.soak else []
    kinds = [] if options.soak else kinds
    iterations = [(options.n, *s) for s in SHAPES if "bars" in kinds]
    iterations += [(PAPER_N, *s, None) for s in PAPER if "paper" in kinds]
    for n, d, k, dtype, bar in iterations:
        if time.monotonic() > end:
            print("no time left", flush=True)
            break
        row = dict(measure(h, n, d, k, dtype, options), bar=bar)
        lines.append(row)
        print(f"{n} x {d} {dtype} k={k}: off {row['iteration_ms']['off']:.4f} ms, "
              + ", ".join(f"{g} {100 * v:+.1f} % (fit {100 * row['call_over'][g]:+.1f} %)"
                          for g, v in row["over"].items()) + (f"; bar {bar} %" if bar else ""), flush=True)
    for n, d, k, dtype in SMALL if "small" in kinds else []:
        row = small(h, n, d, k, dtype, options)
        lines.append(row)
        print(f"{n} x {d} {dtype} k={k}: whole fit off {row['call_ms']['off']:.3f} ms, "
              + ", ".join(f"{g} {100 * v:+.1f} %" for g, v in row["call_over"].items()), flush=True)
    h.close()
    if options.output:
        with open(options.output, "w") as f:
            json.dump({"device": torch.cuda.get_device_name(), "date": time.strftime("%Y-%m-%d"),
                       "version": h.version, "data": options.data, "iterations": options.iterations,
                       "lines": lines}, f, indent=1)


if __name__ == "__main__":
    main()
