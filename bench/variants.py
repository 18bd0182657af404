#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each kernel is worth: on the shape that each one is for, all that can serve it, one after the other.

HF_KERNEL_<OP> forces them, in turns in one process, so that their ratio does not depend on the state of the
machine. On the CPU a sample is an iteration of a fit; on a GPU (needs torch) it is one of these: an iteration,
a whole call of 20 iterations, a call of op assign as a whole, or a start. A fit forced to a kernel whose first
rows show that it does not pay goes on with the next simpler one, as it would unforced. The library is the target
holdfast_dev_shared. docs/kernels.md quotes the files that this writes."""
import argparse
import contextlib
import datetime
import json
import os
import re
import statistics
import sys
import time

import numpy as np

import data
import hf
import rows

CPU = [  # name, type, n, k, d, data
    ("common", "f32", 200_000, 256, 64, "blobs"), ("narrow", "f32", 1_000_000, 64, 16, "blobs"),
    ("many", "f32", 200_000, 1024, 128, "blobs"), ("images", "f32", 60_000, 1024, 784, "images"),
    ("image bytes", "u8", 60_000, 256, 784, "images"), ("image bytes", "u8", 60_000, 1024, 784, "images"),
    ("descriptor bytes", "u8", 200_000, 256, 128, "bytes"),
    ("descriptor bytes", "u8", 200_000, 1024, 128, "bytes")]
LLOYD = [  # batch, n, k, d, type: an iteration and a whole call
    (1, 4_000_000, 8, 8, "f32"), (1, 1 << 22, 100, 16, "f32"), (1, 1 << 20, 100, 20, "f32"),
    (1, 1 << 20, 128, 32, "f32"), (1, 200_000, 100, 20, "f32"), (1, 1 << 22, 100, 16, "f16"),
    (1, 16_384, 128, 64, "f16"), (8, 16_384, 128, 128, "f16"), (512, 1024, 16, 64, "f16")]
ASSIGN = [(1 << 20, 1024, 128, "f16"), (1 << 20, 4096, 64, "f32"), (20_000, 100, 64, "f32"),
          (100_000, 20, 8, "f32"), (60_000, 1024, 784, "u8"), (1 << 20, 1024, 784, "u8")]
GREEDY = [(200_000, 100, 20), (1 << 20, 1024, 64)]  # n, k, d of k-means++ and k-means||
UPDATE = [(1 << 20, 1024, 128), (1 << 22, 100, 16), (1 << 20, 8, 8), (1 << 20, 65536, 32), (20_000, 100, 64)]  # n, k, d
STEPS = 20  # iterations of a whole call


@contextlib.contextmanager
def forced(op, kernel):
    name = "HF_KERNEL_" + op.upper()
    os.environ[name] = kernel
    try:
        yield
    finally:
        del os.environ[name]


def in_turns(kernels, rounds, sample, more=None):
    """{kernel: list of samples, or why there is none}; each warms up once."""
    out, left = {}, list(kernels)
    for turn in range(rounds + 1):
        for kernel in list(left):
            try:
                got = sample(kernel)
            except RuntimeError as e:
                out[kernel] = str(e)
                left.remove(kernel)
                continue
            if turn > 0:
                out.setdefault(kernel, []).append(got)
    return out


def finish(row, samples):
    """Medians into the row; the kernel that the plan takes is compared with the best of the others."""
    row["samples"] = {k: s for k, s in samples.items() if not isinstance(s, str)}
    row["cannot"] = {k: s for k, s in samples.items() if isinstance(s, str)}
    row["median"] = {k: statistics.median(s) for k, s in row["samples"].items()}
    return row


def show(row):
    best = min(row["median"].values())
    print(f"{row['what']:9s} {row['name']}: {row['dtype']} {row.get('batch', 1)} x {row['n']} x {row['d']}, "
          f"k {row['k']} ({row['data']})", flush=True)
    for kernel, s in sorted(row["median"].items(), key=lambda item: item[1]):
        sign = "*" if kernel == row.get("planned") else " "
        print(f"  {sign} {kernel:34s} {s * 1e3:10.4f} ms  {s / best:7.2f}", flush=True)


# ---- CPU

def host_data(kind, dtype, n, d, args):
    if kind == "images":
        x = data.fashion(args.fashion, n, 15)[0]
    elif kind == "bytes":
        x = np.clip(np.rint(24 * data.blobs(n, d, 500, 21, 1.0) + 60), 0, 255)
    else:
        x = data.blobs(n, d, 256, 22)
    x = np.ascontiguousarray(x[:n].astype({"f32": "f4", "u8": "u1"}[dtype]))
    picked = np.random.default_rng(3).choice(len(x), 2048, replace=False)
    return x, x[picked].astype("f4")


def host_row(ours, kernels, name, dtype, n, k, d, kind, args):
    x, c = host_data(kind, dtype, n, d, args)
    c = np.ascontiguousarray(c[:k])
    row = dict(what="assign", name=name, n=len(x), k=k, d=d, dtype=dtype, data=kind)

    def sample(kernel):
        with forced("assign", kernel):
            r = ours.fit(x, c, 6, -1, "off")
        row.setdefault("inertia", r["inertia"])
        if r["inertia"] != row["inertia"]:
            raise SystemExit(f"{kernel}: inertia {r['inertia']!r}, others {row['inertia']!r}")
        return statistics.median(i["seconds"] for i in r["history"][1:])
    row["planned"] = ours.fit(x, c, 6, -1, "off")["kernels"][0]
    return finish(row, in_turns(kernels, args.rounds, sample))


# ---- a GPU

def there(n, d, k, dtype, fashion):
    import torch
    import gpu_measure
    kinds = {"f32": torch.float32, "f16": torch.float16}
    if dtype != "u8":
        x, c = gpu_measure.make(n, k, d, "normal", kinds[dtype], 8)
        return x, c.float().contiguous(), "normal"
    few = gpu_measure.images(fashion)[0].to(gpu_measure.DEV).to(torch.uint8)
    x = few.repeat(-(-n // len(few)), 1)[:n].contiguous()
    return x, few[:k].float().contiguous(), "images"


def lloyd_row(ours, kernels, batch, n, k, d, dtype, args):
    import torch
    import gpu_measure
    x, c, kind = there(batch * n, d, k, dtype, args.fashion)
    xs = [x[b * n:(b + 1) * n] for b in range(batch)]
    row = dict(what="lloyd", name="an iteration", batch=batch, n=n, k=k, d=d, dtype=dtype, data=kind)
    whole, few = dict(row, name=f"a whole call of {STEPS} iterations"), 4
    torch.cuda.synchronize()
    calls = {}

    def fit(iterations):
        if batch == 1:
            return ours.fit(x, c, iterations, -1, "auto", empty=gpu_measure.KEEP)
        return ours.fit_batch(xs, c, iterations, -1, empty=gpu_measure.KEEP)[0]

    def sample(kernel):
        with forced("lloyd", kernel):
            short, r = fit(few), fit(few + STEPS)
        if r["kernels"][0] != kernel:
            raise RuntimeError(f"{r['kernels'][0]} served the call")
        calls.setdefault(kernel, []).append(r["seconds"]["call"])
        return (r["seconds"]["iterate"] - short["seconds"]["iterate"]) / STEPS
    row["planned"] = whole["planned"] = fit(few)["kernels"][0]
    finish(row, in_turns(kernels, args.rounds, sample))
    return [row, finish(whole, {kernel: s[1:] for kernel, s in calls.items()})]


def assign_row(ours, kernels, n, k, d, dtype, args):
    import torch
    import gpu_measure
    x, c, kind = there(n, d, k, dtype, args.fashion)
    row = dict(what="assign", name="a call", n=n, k=k, d=d, dtype=dtype, data=kind)
    labels = torch.empty(n, device=gpu_measure.DEV, dtype=torch.int32)
    if kind == "images":
        c = torch.as_tensor(ours.fit(x, c, 2, -1, "off")["centroids"], device=gpu_measure.DEV)
    torch.cuda.synchronize()
    calls = gpu_measure.calls_for(2.0 * n * k * d)

    def sample(kernel):
        with forced("assign", kernel):
            t, served, _ = ours.time_assign(x, c, labels, 3, True, calls)
        if served != kernel:
            raise RuntimeError(f"{served} served the call")
        return statistics.median(t)
    row["planned"] = ours.time_assign(x, c, labels, 1, True, 1)[1]
    return [finish(row, in_turns(kernels, args.rounds, sample))]


def greedy_row(ours, kernels, n, k, d, init, args):
    x, _, kind = there(n, d, k, "f32", None)
    name = ("k-means++", "k-means||")[init]
    row = dict(what="greedy", name=f"a start by {name}", n=n, k=k, d=d, dtype="f32", data=kind)

    def sample(kernel):
        with forced("greedy", kernel):
            return ours.start(x, k, init, 1)["seconds"]["init"]
    return [finish(row, in_turns(kernels, args.rounds, sample))]


def update_row(ours, n, k, d, args):
    row = dict(what="update", name="the sums of all rows", n=n, k=k, d=d, dtype="f32", data="blobs")
    timed = ours.time_op("update", hf.DTYPES[np.dtype("f4")], (n, k, d), args.rounds)
    row["planned"] = next(kernel for kernel, (_, planned) in timed.items() if planned)
    return [finish(row, {kernel: [seconds] for kernel, (seconds, _) in timed.items()})]


def jobs_of(ours, device, args):
    listed = {op: [k for k in ours.kernels(op) if k["device"] == device and k["runs"] and not k["reference"]
                   and re.search(args.kernels, k["name"])]
              for op in ("assign", "lloyd", "greedy")}
    names = {op: [k["name"] for k in found] for op, found in listed.items()}
    if device == "cpu":
        return [(f"assign {r[0]} {r[1]} {r[2]} x {r[4]}, k {r[3]}",
                 lambda r=r: [host_row(ours, names["assign"], *r, args)]) for r in CPU]
    jobs = [(f"lloyd {s}", lambda s=s: lloyd_row(ours, names["lloyd"], *s, args)) for s in LLOYD]
    jobs += [(f"assign {s}", lambda s=s: assign_row(
        ours, [k["name"] for k in listed["assign"] if s[3] in k["dtypes"].split()
               and not k["name"].startswith("assign_f64")], *s, args)) for s in ASSIGN]
    jobs += [(f"greedy {s} {init}", lambda s=s, init=init: greedy_row(ours, names["greedy"], *s, init, args))
             for s in GREEDY for init in (0, 1)]
    return jobs + [(f"update {s}", lambda s=s: update_row(ours, *s, args)) for s in UPDATE]


def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--lib", required=True, help="libholdfast_dev.so")
    p.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    p.add_argument("--threads", type=int, default=2, help="of the CPU (%(default)s)")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--rows", default="", help="only rows in whose name this regular expression is found")
    p.add_argument("--kernels", default="", help="only kernels in whose name this is found")
    p.add_argument("--fashion", help="Fashion-MNIST's training images (IDX); generated ones without")
    p.add_argument("--results", help="folder for the JSON file")
    p.add_argument("--budget", type=float, default=1e9, help="seconds, then stop with what there is")
    return p.parse_args()


def main():
    args, begin = parse(), time.time()
    on_gpu = args.device == "cuda"
    ours = hf.Holdfast(args.lib, args.threads, "cuda:0" if on_gpu else "cpu")
    machine = ours.machine(args.device)
    out = dict(machine=machine, threads=args.threads, holdfast=ours.version, rows=[], failed=[], left=[],
               date=datetime.date.today().strftime("%Y%m%d"))
    jobs = [job for job in jobs_of(ours, args.device, args) if re.search(args.rows, job[0])]
    for i, (name, job) in enumerate(jobs):
        if time.time() > begin + args.budget:
            out["left"] = [name for name, _ in jobs[i:]]
            break
        try:
            found = job()
        except RuntimeError as e:
            out["failed"].append(dict(name=name, why=str(e)))
            print(f"{name} failed: {e}", flush=True)
            continue
        for row in found:
            show(row)
        out["rows"] += found
        if args.results:
            word = re.sub(r"\W+", "-", machine.split(",")[0].lower()).strip("-")
            with open(os.path.join(args.results, f"variants-{word}-{out['date']}.json"), "w") as f:
                json.dump(out, f, indent=1)
    print(f"{len(out['rows'])} rows, {len(out['failed'])} failed, {len(out['left'])} not run, "
          f"{time.time() - begin:.0f} s")
    return bool(out["failed"])


if __name__ == "__main__":
    sys.exit(main())
