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

KEEP, GUARD_OFF, SKIP_OFF = 2, 1, 1  # of hf_empty, hf_guard and hf_skipping
MOST = 1.03
M = 1 << 20
# problems, n, k, d, type of the rows: what gpu_fit.py measures, and others
ITERATE = [(1, M, 4096, 128, "f16"), (1, 8 * M, 1024, 128, "f16"), (32, 131_072, 128, 128, "f16"),
           (32, 65_536, 1024, 128, "f16"), (32, 131_072, 1024, 128, "f16"), (8, 16_384, 128, 128, "f16"),
           (1, 16_384, 128, 64, "f16"), (1, M, 4096, 128, "f32"), (1, M, 4096, 512, "f32"),
           (1, 4 * M, 100, 16, "f32"), (1, M, 1024, 128, "f16"), (1, M, 256, 128, "f16"),
           (1, M, 1024, 128, "f32"), (1, M, 128, 64, "f32"), (1, M, 100, 20, "f32"),
           (1, 8 * M, 64, 32, "f32"), (1, 65_536, 1024, 128, "f16"), (1, M, 256, 64, "f64")]
# the same of gpu_assign.py; "once": calls that wait for each other
ASSIGN = [(1, M, 4096, 64, "f16"), (1, M, 4096, 128, "f16"), (1, M, 1024, 128, "f16"),
          (1, M, 256, 128, "f16"), (1, M, 4096, 256, "f16"), (1, 65_536, 4096, 1024, "f16"),
          (1, M, 4096, 32, "f16"), (1, 10_000_000, 20_000, 128, "f16"), (1, M, 65_536, 128, "f16"),
          (1, M, 4096, 512, "f16"), (1, 8 * M, 1024, 32, "f16")]
ONCE = [(1, M, 256, 128, "f16"), (1, 65_536, 1024, 128, "f16"), (1, M, 1024, 128, "f32"),
        (1, 20_000, 100, 64, "f32"), (1, M, 100, 20, "f32")]
CPU = [(1, 200_000, 100, 20, "f32"), (1, 200_000, 256, 64, "f32"), (1, 100_000, 1024, 128, "f32"),
       (1, 100_000, 1024, 128, "f16"), (1, 100_000, 256, 64, "f64"), (1, 1_000_000, 16, 8, "f32"),
       (1, 50_000, 256, 300, "f32")]
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


def step(ours, x, c, batch, steps):
    """Seconds of an iteration of all problems: the difference of fits of few and of many."""
    few, many = 4, 4 + steps
    off, n = guard_off(ours), len(x) // batch

    def run(iterations):
        if batch == 1:
            return [ours.fit(x, c, iterations, -1, "off", empty=KEEP, **off)]
        xs = [x[b * n:(b + 1) * n] for b in range(batch)]
        return ours.fit_batch(xs, c, iterations, -1, skipping=SKIP_OFF, empty=KEEP, **off)

    def seconds(results):
        return max(r["seconds"]["iterate"] for r in results)
    last = run(many)
    took = (seconds(last) - seconds(run(few))) / steps
    bits = [(r["labels"].tobytes(), r["centroids"].tobytes(), r["inertia"]) for r in last]
    return took, bits, last[0]["kernels"][0]


def call(ours, x, c, rounds, waits):
    import torch
    from gpu_measure import calls_for
    labels = torch.empty(len(x), dtype=torch.int32, device=x.device)
    torch.cuda.synchronize()
    calls = 1 if waits else calls_for(2.0 * len(x) * len(c) * x.shape[1])
    seconds, kernel, _ = ours.time_assign(x, c, labels, rounds, True, calls)
    return statistics.median(seconds), (labels.cpu().numpy().tobytes(),), kernel


def compare(what, both, shape, measure, args):
    batch, n, k, d, dtype = shape
    x, c = data(args.device, batch * n, k, d, dtype)
    times, bits, kernels = ([], []), [None, None], [None, None]
    for turn in range(args.repeats + 1):  # the first warms up
        for i in (0, 1) if turn % 2 else (1, 0):
            seconds, bits[i], kernels[i] = measure(both[i], x, c, batch)
            if turn:
                times[i].append(seconds)
    before, after = (statistics.median(t) for t in times)
    row = dict(what=what, batch=batch, n=n, k=k, d=d, dtype=dtype, before=before, after=after,
               ratio=after / before, spread=[min(times[1]) / before, max(times[1]) / before],
               same=bits[0] == bits[1], kernels=kernels)
    print(f"{what:8} {batch:2} x {n:8} x {d:4} k {k:5} {dtype}: {before * 1e3:8.4f} -> "
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
    jobs = [("iterate", s, lambda h, x, c, batch: step(h, x, c, batch, args.steps))
            for s in (ITERATE if gpu else CPU)]
    for what, shapes in (("assign", ASSIGN), ("once", ONCE)) if gpu else ():
        jobs += [(what, s, lambda h, x, c, _, what=what: call(h, x, c, 5, what == "once")) for s in shapes]
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
