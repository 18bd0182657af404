#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""versions.py BEFORE AFTER: two versions of holdfast on one machine, in one process and in turns.

BEFORE and AFTER are source trees, each with its bench/hf.py and headers; the library of a tree is
TREE/libholdfast_dev.so or, where it was built, TREE/build/ci/libholdfast_dev.so. Prints for each shape
the median seconds of an iteration and, on a GPU, of an exact assignment with both, their ratio, and
whether the results are the same bits. A GPU needs torch. A ratio of 1.03 is the most that a change may
cost."""
import argparse
import datetime
import importlib.util
import json
import os
import statistics
import sys
import time

import numpy as np

KEEP, GUARD_OFF = 2, 1  # of hf_empty and hf_guard
MOST = 1.03
M = 1 << 20
# n, k, d, type of the rows
ITERATE = [(M, 4096, 128, "f16"), (M, 1024, 128, "f16"), (M, 256, 128, "f16"), (M, 1024, 128, "f32"),
           (M, 128, 64, "f32"), (M, 100, 20, "f32"), (4 * M, 100, 16, "f32"), (8 * M, 64, 32, "f32"),
           (8 * M, 1024, 128, "f16"), (65_536, 1024, 128, "f16"), (16_384, 128, 64, "f16"),
           (M, 4096, 512, "f32"), (M, 256, 64, "f64")]
ASSIGN = [(M, 4096, 128, "f16"), (M, 1024, 128, "f16"), (M, 256, 128, "f16"), (65_536, 1024, 128, "f16"),
          (M, 1024, 128, "f32"), (20_000, 100, 64, "f32"), (M, 100, 20, "f32")]
CPU = [(200_000, 100, 20, "f32"), (200_000, 256, 64, "f32"), (100_000, 1024, 128, "f32"),
       (100_000, 1024, 128, "f16"), (100_000, 256, 64, "f64"), (1_000_000, 16, 8, "f32"),
       (50_000, 256, 300, "f32")]
TYPES = {"f16": "f2", "f32": "f4", "f64": "f8"}


def load(tree, number, args):
    """The binding of a tree, as a module of its own, with its library."""
    path = os.path.join(tree, "bench", "hf.py")
    spec = importlib.util.spec_from_file_location(f"hf_{number}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    library = next(p for p in (os.path.join(tree, "libholdfast_dev.so"),
                               os.path.join(tree, "build", "ci", "libholdfast_dev.so")) if os.path.exists(p))
    return module.Holdfast(library, args.threads, args.device)


def data(device, n, k, d, dtype, seed=8):
    if device == "cpu":
        g = np.random.default_rng(seed)
        x = g.standard_normal((n, d), "f4").astype(TYPES[dtype])
        return x, x[g.permutation(n)[:k]].astype("f4")
    import torch
    g = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(n, d, device=device, generator=g).to(
        {"f16": torch.float16, "f32": torch.float32, "f64": torch.float64}[dtype])
    c = x[torch.randperm(n, device=device, generator=g)[:k]].float().contiguous()
    torch.cuda.synchronize()
    return x, c


def guard_off(ours):
    """Versions are compared without protection, which old ones do not have."""
    fields = dict(sys.modules[type(ours).__module__].Opts._fields_)
    return {"guard": GUARD_OFF} if "guard" in fields else {}


def step(ours, x, c, steps):
    """Seconds of an iteration: the difference of fits of few and of many."""
    few, many = 4, 4 + steps
    off = guard_off(ours)

    def run(iterations):
        return ours.fit(x, c, iterations, -1, "off", empty=KEEP, **off)
    seconds = (run(many)["seconds"]["iterate"] - run(few)["seconds"]["iterate"]) / steps
    r = run(many)
    bits = r["labels"].tobytes(), r["centroids"].tobytes(), r["inertia"]
    return seconds, bits, r["kernels"][0]


def call(ours, x, c, rounds):
    import torch
    labels = torch.empty(len(x), dtype=torch.int32, device=x.device)
    torch.cuda.synchronize()
    seconds, kernel, _ = ours.time_assign(x, c, labels, rounds, True, 1)
    return statistics.median(seconds), (labels.cpu().numpy().tobytes(),), kernel


def compare(what, both, shape, measure, args):
    x, c = data(args.device, *shape)
    times, bits, kernels = ([], []), [None, None], [None, None]
    for turn in range(args.repeats + 1):  # the first warms up
        for i in (0, 1) if turn % 2 else (1, 0):
            seconds, bits[i], kernels[i] = measure(both[i], x, c)
            if turn:
                times[i].append(seconds)
    before, after = (statistics.median(t) for t in times)
    row = dict(what=what, n=shape[0], k=shape[1], d=shape[2], dtype=shape[3], before=before, after=after,
               ratio=after / before, spread=[min(times[1]) / before, max(times[1]) / before],
               same=bits[0] == bits[1], kernels=kernels)
    print(f"{what:8} {shape[0]:8} x {shape[2]:4} k {shape[1]:5} {shape[3]}: {before * 1e3:8.4f} -> "
          f"{after * 1e3:8.4f} ms, {row['ratio']:.3f}{'' if row['ratio'] <= MOST else ' SLOWER'}"
          f"{'' if row['same'] else ' OTHER BITS'}"
          f"{'' if kernels[0] == kernels[1] else ' (' + kernels[0] + ', now ' + kernels[1] + ')'}", flush=True)
    return row


def keep(rows, args):
    device, day = both_names(args), datetime.date.today().strftime("%Y%m%d")
    path = os.path.join(args.results, f"versions-{device[1]}-{day}.json")
    with open(path, "w") as f:
        json.dump(dict(device=device[0], threads=args.threads, date=day, most=MOST, rows=rows), f, indent=1)


def both_names(args):
    """Of the device: as it calls itself, and for files."""
    if args.device == "cpu":
        with open("/proc/cpuinfo") as f:
            name = next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
        return name, "cpu"
    import torch
    name = torch.cuda.get_device_name(0)
    return name, name.split()[-1].lower()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("before", help="source tree with a built library")
    p.add_argument("after", help="source tree with a built library")
    p.add_argument("--device", default="cuda:0", help="of the library: cuda:0, cpu")
    p.add_argument("--threads", type=int, default=0, help="of the CPU")
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--budget", type=float, default=1e9, help="seconds, then stop with what there is")
    p.add_argument("--results", help="folder for the JSON file")
    args = p.parse_args()
    both, begin = [load(args.before, 0, args), load(args.after, 1, args)], time.time()
    gpu = args.device != "cpu"
    jobs = [("iterate", s, lambda h, x, c: step(h, x, c, args.steps)) for s in (ITERATE if gpu else CPU)]
    jobs += [("assign", s, lambda h, x, c: call(h, x, c, 5)) for s in (ASSIGN if gpu else [])]
    rows = []
    for what, shape, measure in jobs:
        if time.time() - begin < args.budget:
            rows.append(compare(what, both, shape, measure, args))
        else:
            print(f"{what} {shape}: no time left")
    if args.results:
        keep(rows, args)
    slow = [r for r in rows if r["ratio"] > MOST]
    print(f"{len(rows)} shapes, {len(slow)} slower than {MOST}, "
          f"{sum(not r['same'] for r in rows)} with other bits")
    return int(any(not r["same"] for r in rows))


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
