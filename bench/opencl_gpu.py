#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A GPU through NVIDIA's OpenCL against CUDA and flash-kmeans: op assign alone, and an iteration of a fit.

    python3 bench/opencl_gpu.py build/ci/libholdfast_dev.so [--rounds 7] [--shape 1000000,4096,128] [--types f16]

Needs torch and flash-kmeans. All are in one process; flash-kmeans is timed before and after each of the two. An
iteration is the difference of fits of 4 and of 24, of rows on the host by OpenCL. Times are medians in milliseconds."""
import argparse
import ctypes as C
import statistics

import hf
import numpy as np
import torch
from gpu_measure import DEV, KEEP, clock_mhz, flash, make, samples
from gpu_fit import seconds_of

FEW, MANY = 4, 24
TYPES = {"f16": torch.float16, "f32": torch.float32}
KINDS = {"blobs": "clustered", "normal": "normal"}


def time_op(context, dtype, shape, data, rounds):
    """Milliseconds of the planned kernel on generated rows that lie on the device; its name."""
    n, k, d = shape
    opts = hf.TimeOpts(rounds=rounds, budget_s=20, data=data.encode())
    found = []

    def each(_, timing):
        found.append((timing.contents.median_s * 1e3, timing.contents.kernel.decode()))
    each = C.CFUNCTYPE(None, C.c_void_p, C.POINTER(hf.Timing))(each)
    context._check(context.lib.hf_dev_time(context.ctx, b"assign", C.byref(hf.Shape(dtype=(dtype,), dim=(n, k, d))),
                                           C.byref(opts), each, None))
    return found[0]


def assign_rows(contexts, rival, shape, rounds, cases):
    n, k, d = shape
    for name, data in cases:
        dtype = TYPES[name]
        x, c = make(n, k, d, KINDS[data], dtype, 7)
        x3, c3, sq = x[None], c[None], (x.float() ** 2).sum(-1)[None]
        out = torch.empty(1, n, device=DEV, dtype=torch.int32)

        def theirs():
            return samples(lambda: rival(x3, c3, sq, out=out), rounds, 2)
        taken, ours = theirs(), {}
        clock = clock_mhz()
        for device, context in contexts.items():
            ours[device] = time_op(context, hf.TORCH_DTYPES[str(dtype)], shape, data, rounds)
            taken += theirs()
        mine, cuda, best = ours["opencl"][0], ours["cuda"][0], statistics.median(taken) * 1e3
        print(f"assign {n} x {d}, K={k} {name} {data:6} {mine:.3f} ms {ours['opencl'][1]}, CUDA {cuda:.3f} "
              f"({100 * cuda / mine:.0f} %), flash-kmeans {best:.3f} ({min(taken) * 1e3:.3f} to "
              f"{max(taken) * 1e3:.3f}; {best / mine:.3f} times as long), {clock} MHz", flush=True)


def iteration(fit):
    """Milliseconds of an iteration; the median of five."""
    fit(FEW)
    return statistics.median(1e3 * (fit(MANY) - fit(FEW)) / (MANY - FEW) for _ in range(5))


def fit_rows(contexts, rival, shape, cases):
    n, k, d = shape
    for name, data in cases:
        dtype = TYPES[name]
        x, c = make(n, k, d, KINDS[data], dtype, 8)
        host, start = x.cpu().numpy(), c.float().cpu().numpy()
        x3, c3 = x[None], c[None]
        torch.cuda.synchronize()
        labels, ours = {}, {}
        for device, rows, first in (("opencl", host, start), ("cuda", x, c.float().contiguous())):
            def fit(iterations, device=device, rows=rows, first=first):
                r = contexts[device].fit(rows, first, iterations, -1, "off", empty=KEEP)
                labels[device] = r["labels"]
                return r["seconds"]["iterate"]
            ours[device] = iteration(fit)
        best = iteration(lambda i: seconds_of(lambda: rival(x3, k, max_iters=i, tol=-1.0, init_centroids=c3)))
        same = int((labels["opencl"] != np.asarray(labels["cuda"])).sum())
        print(f"iteration {n} x {d}, K={k} {name} {data:6} {ours['opencl']:.3f} ms, CUDA "
              f"{ours['cuda']:.3f}, flash-kmeans {best:.3f} ({best / ours['opencl']:.3f} times as long), "
              f"{same} labels differ", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shape", default="1000000,4096,128")
    parser.add_argument("--types", default="f16,f32")
    parser.add_argument("--data", default="blobs,normal")
    parser.add_argument("--only", choices=["assign", "iteration"])
    args = parser.parse_args()
    shape = tuple(map(int, args.shape.split(",")))
    cases = [(name, data) for name in args.types.split(",") for data in args.data.split(",")]
    contexts = {"opencl": hf.Holdfast(args.library, 0, "opencl:nvidia"), "cuda": hf.Holdfast(args.library, 0, "cuda")}
    version, assign, whole = flash()
    print(contexts["opencl"].version, "flash-kmeans", version, contexts["cuda"].machine("cuda"))
    if args.only != "iteration":
        assign_rows(contexts, assign, shape, args.rounds, cases)
    if args.only != "assign":
        fit_rows(contexts, whole, shape, cases)


if __name__ == "__main__":
    main()
