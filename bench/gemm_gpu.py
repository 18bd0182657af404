#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hf_gemm() on a GPU against cuBLAS through torch, on the same tensors and stream, in turns; and what
signatures (T+O) add to it. Each figure is the median of samples of several calls between two events, as a
caller sees them: calls of hf_gemm() wait for the device, those of torch do not. C = A B by rows."""
import argparse
import ctypes as C
import datetime
import json
import math
import os
import statistics
import sys
import time

import library
import rows
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {"f32": (torch.float32, 1), "f64": (torch.float64, 2), "f16": (torch.float16, 3),
         "bf16": (torch.bfloat16, 4)}
SPEED = [("bf16", 4096, 4096, 4096), ("bf16", 8192, 8192, 8192), ("f16", 4096, 4096, 4096),
         ("f16", 8192, 8192, 8192), ("f32", 4096, 4096, 4096), ("f32", 8192, 8192, 8192),
         ("f64", 4096, 4096, 4096), ("f64", 8192, 8192, 8192), ("bf16", 1000, 4096, 4096),
         ("bf16", 4096, 1000, 4096), ("bf16", 4097, 4097, 4097), ("bf16", 4096, 4096, 33),
         ("f16", 4097, 1000, 4097), ("f32", 1000, 4096, 4096), ("f32", 4097, 4097, 4097),
         ("f32", 4096, 4096, 33), ("f64", 1000, 4096, 4096), ("f64", 4097, 4097, 4097),
         ("f64", 4096, 4096, 33)]
SIZES = [320, 512, 1024, 2048, 4096, 8192]
SAMPLE_S = 0.02


class Gemm:
    """hf_gemm() of a shared library, on torch's stream."""

    def __init__(self, path, stream):
        os.environ["HOLDFAST_LIBRARY"] = path
        sys.path.insert(0, os.path.join(HERE, "..", "python"))
        from holdfast import _abi, _abi_matmul, _library
        self.correct = _abi.ENUMS["hf_guard"]["HF_GUARD_CORRECT"]
        self.abi, self.lib, self.report = _abi_matmul, _library.lib, _abi_matmul.GemmReport()
        self.context, opts = C.c_void_p(), _abi.ContextOpts(b"cuda", 1, 0, stream.cuda_stream)
        if self.lib.hf_context_create(C.addressof(self.context), C.addressof(opts)):
            raise RuntimeError("no context on the GPU")

    def guarded(self, kind, a, b, c, plant_at=None):
        """A product whose rows and columns are checked and repaired; plant_at: a bit of a sum that flips."""
        args, faults = self.args(kind, a, b, c), self.abi.GemmFaults()
        if plant_at is not None:
            args.keep = self.abi.GemmSignatures(checksum=b"fletcher", plant=2, plant_at=plant_at)
            args.signatures = C.addressof(args.keep)
        report = C.addressof(self.report)

        def run():
            if self.lib.hf_gemm_guarded(self.context, C.addressof(args), self.correct, C.addressof(faults), report):
                raise RuntimeError(self.lib.hf_last_error(self.context).decode())
            return faults
        return run

    def args(self, kind, a, b, c):
        return self.abi.GemmArgs(m=a.shape[0], n=b.shape[1], k=a.shape[1], dtype=TYPES[kind][1], alpha=1.0,
                                 a=a.data_ptr(), b=b.data_ptr(), c=c.data_ptr())

    def call(self, kind, a, b, c, checksum=None):
        args = self.args(kind, a, b, c)
        if checksum:
            sign = self.abi.GemmSignatures(checksum=checksum.encode())
            args.signatures = C.addressof(sign)
            args.keep = sign
        report = C.addressof(self.report)

        def run():
            if self.lib.hf_gemm(self.context, C.addressof(args), report):
                raise RuntimeError(self.lib.hf_last_error(self.context).decode())
        return run


def sample(run, calls):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / calls


def in_turns(runs, rounds):
    """Samples of each, the order reversed in every other round."""
    for run in runs:
        run()
    once = min(sample(run, 2) for run in runs)
    calls = max(1, min(200, int(SAMPLE_S / max(once, 1e-6))))
    times = [[] for _ in runs]
    for i in range(rounds):
        for who in range(len(runs)) if i % 2 else reversed(range(len(runs))):
            times[who].append(sample(runs[who], calls))
    return times


def operands(kind, m, n, k):
    g = torch.Generator(device="cuda").manual_seed(1)
    a, b = (torch.randn(s, device="cuda", generator=g, dtype=torch.float32).to(TYPES[kind][0])
            for s in ((m, k), (k, n)))
    return a, b, torch.full((m, n), float("nan"), device="cuda", dtype=TYPES[kind][0])


def check(kind, a, b, c):
    """Is it a product at all? Relative to float64, on some rows."""
    want = a[:64].double() @ b.double()
    off = ((c[:64].double() - want).norm() / want.norm()).item()
    if not off < {"f32": 1e-5, "f64": 1e-13, "f16": 1e-3, "bf16": 8e-3}[kind]:
        raise RuntimeError(f"the product is off by {off}")
    return off


def speed(ours, kind, m, n, k, rounds):
    a, b, c = operands(kind, m, n, k)
    mine, d = ours.call(kind, a, b, c), torch.empty_like(c)
    times = in_turns([mine, lambda: torch.matmul(a, b, out=d)], rounds)
    ratio = statistics.median(t / o for o, t in zip(*times))
    row = dict(what="speed", dtype=kind, m=m, n=n, k=k, samples=times, ours=statistics.median(times[0]),
               rival=statistics.median(times[1]), ratio=ratio, off=check(kind, a, b, c),
               off_rival=check(kind, a, b, d), kernel=ours.report.kernel.decode(),
               arithmetic=ours.report.arithmetic.decode())
    rows.judge(row, "of cuBLAS's speed", ratio, least=0.8 if "16" in kind and m == n == k and m % 4096 == 0 else 0.7)
    return row


def signed(ours, kind, size, checksum, rounds):
    a, b, c = operands(kind, size, size, size)
    times = in_turns([ours.call(kind, a, b, c), ours.call(kind, a, b, c, checksum)], rounds)
    ratio = statistics.median(s / p for p, s in zip(*times))
    row = dict(what="signed", dtype=kind, m=size, n=size, k=size, checksum=checksum, samples=times,
               plain=statistics.median(times[0]), signed=statistics.median(times[1]), ratio=ratio,
               kernel=ours.report.kernel.decode())
    rows.judge(row, "times the unsigned product", ratio, most=1.10)
    return row


def guarded(ours, kind, size, rounds):
    a, b, c = operands(kind, size, size, size)
    times = in_turns([ours.call(kind, a, b, c), ours.guarded(kind, a, b, c)], rounds)
    ratio = statistics.median(s / p for p, s in zip(*times))
    row = dict(what="guarded", dtype=kind, m=size, n=size, k=size, samples=times, plain=statistics.median(times[0]),
               signed=statistics.median(times[1]), ratio=ratio, kernel=ours.report.kernel.decode(),
               checksum="rows+columns")
    rows.judge(row, "times the unchecked product", ratio, most=1.08)
    return row


def repairs(ours, kind, size):
    """All bits of some sums flip, each in a product of its own. A fault is consequential if it moves the sum of its
    row or column by more than the bound of that line: roundings, and those of float32 sums that look for it."""
    a, b, c = operands(kind, size, size, size)
    ours.call(kind, a, b, c)()
    right, left, repaired, consequential, worst = c.clone(), 0, 0, 0, 0.0
    wide, absolute = (a.double(), b.double()), (a.double().abs(), b.double().abs())
    want, sizes = ((wide[0] @ wide[1].sum(1), wide[0].sum(0) @ wide[1]),
                   (absolute[0] @ absolute[1].sum(1), absolute[0].sum(0) @ absolute[1]))
    short = {"f64": 0, "f32": 64}.get(kind, 160) * 2.0 ** -24  # see ops/gemm/sums.h
    summed = (96 + 3 * size / 256) * 2.0 ** -52 + short

    def off(place):
        lines = (c[place[0]].double(), c[:, place[1]].double())
        most = [(ours.report.error + summed) * sizes[i][place[i]] + summed * lines[i].abs().sum() for i in range(2)]
        over = max(((lines[i].sum() - want[i][place[i]]).abs() / most[i]).item() for i in range(2))
        return over if math.isfinite(over) else math.inf
    for i in range(24):
        place = i * 131 % size, i * 197 % size
        for bit in range(32):
            faults = ours.guarded(kind, a, b, c, plant_at=(place[0] * size + place[1]) * 32 + bit)()
            if torch.equal(c, right):
                repaired += 1
                continue
            left, over = left + 1, off(place)
            consequential, worst = consequential + (over > 1), max(worst, over)
            if faults.confirmed:
                raise RuntimeError(f"a fault of bit {bit} was confirmed, but not repaired")
    row = dict(what="repairs", dtype=kind, m=size, n=size, k=size, repaired=repaired, left=left, worst=worst,
               consequential=consequential, kernel=ours.report.kernel.decode())
    rows.judge(row, "consequential faults left", consequential, most=0)
    return row


def line(r):
    flops = 2e-12 * r["m"] * r["n"] * r["k"]
    if r["what"] == "repairs":
        return (f"{r['dtype']:4s} {r['m']:5d}: {r['repaired']} faults repaired, {r['left']} left, "
                f"{r['consequential']} of them beyond the bound of their line, the largest {r['worst']:.3g} of it")
    what = f"{r['dtype']:4s} {r['m']:5d} {r['n']:5d} {r['k']:5d} {r['kernel']:24s}"
    if r["what"] == "speed":
        return (f"{what} {r['ours'] * 1e3:9.4f} ms {flops / r['ours']:7.1f} TFLOP/s, cuBLAS "
                f"{r['rival'] * 1e3:9.4f} ms {flops / r['rival']:7.1f}: {r['ratio']:5.2f}")
    return f"{what} {r['plain'] * 1e3:9.4f} ms, {r['checksum']} {r['signed'] * 1e3:9.4f} ms: {r['ratio']:5.3f}x"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--lib", default=os.path.join(HERE, "..", "build", "release", "libholdfast.so"))
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--budget", type=float, default=80, help="seconds")
    p.add_argument("--only", default="speed,signed,guarded,repairs")
    p.add_argument("--types", default="bf16,f16,f32,f64")
    p.add_argument("--signed-types", default="bf16,f16,f32,f64")
    p.add_argument("--checksums", default="fletcher,crc32c")
    p.add_argument("--results", help="folder or file for the JSON")
    args = p.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    stream = torch.cuda.Stream()
    end = time.time() + args.budget
    device = torch.cuda.get_device_name()
    with torch.cuda.stream(stream):
        ours = Gemm(args.lib, stream)
        kinds = args.types.split(",")
        jobs = [(f"speed {s}", lambda s=s: speed(ours, *s, args.rounds)) for s in SPEED
                if "speed" in args.only and s[0] in kinds]
        jobs += [(f"signed {kind} {size} {checksum}",
                  lambda k=kind, s=size, c=checksum: signed(ours, k, s, c, args.rounds))
                 for kind in args.signed_types.split(",") for checksum in args.checksums.split(",")
                 for size in SIZES if "signed" in args.only]
        jobs += [(f"guarded {kind} {size}", lambda k=kind, s=size: guarded(ours, k, s, args.rounds))
                 for kind in args.signed_types.split(",") for size in SIZES[4:] if "guarded" in args.only]
        jobs += [(f"repairs {kind}", lambda k=kind: repairs(ours, k, 512))
                 for kind in args.signed_types.split(",") if "repairs" in args.only]
        out = dict(what="gemm on a GPU", device=device, holdfast=library.origin(args.lib),
                   torch=torch.__version__, cuda=torch.version.cuda,
                   rounds=args.rounds, rows=[], failed=[],
                   date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"))
        start = time.time()
        rows.run(jobs, out, lambda: None, lambda row: print(line(row), flush=True), end)
        out["seconds"] = time.time() - start
    bars = [bar for row in out["rows"] for bar in row.get("bars", [])]
    print(f"{device}, torch {torch.__version__}; bars: {sum(b['reached'] for b in bars)} of {len(bars)} reached, "
          f"{len(out['failed'])} rows failed, {len(out['left'])} not run")
    if args.results:
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
        folder = os.path.isdir(args.results)
        name = f"gemm-{'-'.join(device.lower().split())}-{stamp}.json"
        with open(os.path.join(args.results, name) if folder else args.results, "w") as f:
            json.dump(out, f, indent=1)


if __name__ == "__main__":
    main()
