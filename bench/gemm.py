#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hf_gemm() against a BLAS, both loaded into this process, in turns; bf16 against what AMX multiplies in registers.

The median of the ratios of neighbouring samples counts, so that other work on the machine weighs on both.
C = A B, by rows, without transposes."""
import argparse
import ctypes as C
import datetime
import glob
import json
import os
import statistics
import sys
import time

import library
import numpy as np
import rows

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = ["80,80,80", "512,512,512", "1024,1024,1024", "2048,2048,2048", "1000,1000,1000",
          "4097,1000,33", "1000,4097,33", "4097,4097,33", "1000,1000,4097", "33,4097,1000", "8,4096,4096",
          "4096,8,4096"]
SAMPLE_S = 0.02
DTYPES = {"f4": 1, "f8": 2, "u2": 4}  # bf16 in arrays of whole numbers
HEAD = (f"{'type':4s} {'m':>5s} {'n':>5s} {'k':>5s} {'threads':>7s} {'ours':>10s} {'rival':>10s} {'GFLOP/s':>8s} "
        f"{'rival':>7s} {'times as fast':>13s}")


class Ours:
    """hf_gemm() of a shared library; an older build of it beside another."""

    def __init__(self, path, other=None):
        os.environ["HOLDFAST_LIBRARY"] = path
        sys.path.insert(0, os.path.join(HERE, "..", "python"))
        from holdfast import _abi, _library
        self.abi, self.lib, self.contexts = _abi, C.CDLL(path) if other else _library.lib, {}
        for name in ("hf_context_create", "hf_gemm", "hf_last_error"):
            getattr(self.lib, name).argtypes = getattr(_library.lib, name).argtypes
            getattr(self.lib, name).restype = getattr(_library.lib, name).restype
        self.report = _abi.GemmReport()

    def call(self, a, b, c, threads):
        if threads not in self.contexts:
            handle, opts = C.c_void_p(), self.abi.ContextOpts(b"cpu", threads, 0, None)
            if self.lib.hf_context_create(C.addressof(handle), C.addressof(opts)):
                raise RuntimeError("no context")
            self.contexts[threads] = handle
        args = self.abi.GemmArgs(m=a.shape[0], n=b.shape[1], k=a.shape[1], dtype=DTYPES[a.dtype.str[1:]],
                                 dtype_c=DTYPES[c.dtype.str[1:]], alpha=1.0, a=a.ctypes.data, b=b.ctypes.data,
                                 c=c.ctypes.data)
        context = self.contexts[threads]

        def run():
            if self.lib.hf_gemm(context, C.addressof(args), C.addressof(self.report)):
                raise RuntimeError(self.lib.hf_last_error(context).decode())
        return run


class Blas:
    """cblas_?gemm() of OpenBLAS or another library; integers of 64 bits in names that end so."""

    def __init__(self, path):
        self.lib, self.path = C.CDLL(path), path
        for prefix, suffix in (("", ""), ("scipy_", "64_"), ("scipy_", ""), ("", "64_")):
            if hasattr(self.lib, f"{prefix}cblas_dgemm{suffix}"):
                self.prefix, self.suffix = prefix, suffix
                break
        else:
            raise RuntimeError(f"{path} has no cblas_dgemm")

    def function(self, name):
        return getattr(self.lib, self.prefix + name + self.suffix, None)

    def version(self):
        config = self.function("openblas_get_config")
        if not config:
            return os.path.basename(self.path)
        config.restype = C.c_char_p
        return config().decode()

    def call(self, a, b, c, threads):
        limit = self.function("openblas_set_num_threads")
        real, integer = {4: C.c_float, 8: C.c_double}[a.itemsize], C.c_int64 if self.suffix else C.c_int
        gemm = self.function("cblas_sgemm" if a.itemsize == 4 else "cblas_dgemm")
        p = C.c_void_p
        gemm.argtypes = [C.c_int] * 3 + [integer] * 3 + [real, p, integer, p, integer, real, p, integer]
        gemm.restype = None
        (m, k), n = a.shape, b.shape[1]
        args = (101, 111, 111, m, n, k, 1.0, a.ctypes.data, k, b.ctypes.data, n, 0.0, c.ctypes.data, n)
        if limit:
            limit(threads)
        return lambda: gemm(*args)


class Registers:
    """What AMX multiplies without memory, by libholdfast_dev, on so many threads."""

    class Ceiling(C.Structure):
        _fields_ = [("fma", C.c_double * 8), ("amx", C.c_double), ("read", C.c_double)]

    def __init__(self, ours):
        self.ours = ours

    def flops(self, threads):
        ceiling = self.Ceiling()
        if self.ours.lib.hf_dev_measure_ceiling(self.ours.contexts[threads], C.byref(ceiling)) or not ceiling.amx:
            raise RuntimeError("no AMX")
        return ceiling.amx


def find_rival():
    """The OpenBLAS in NumPy's wheel, else that of the distribution."""
    folder = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs", "*openblas*")
    return next(iter(glob.glob(folder)), "libopenblas.so.0")


def sample(run, calls):
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - begin) / calls


def measure(ours, rival, shape, dtype, threads, rounds):
    m, n, k = shape
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (k, n)))
    c, d = np.zeros((m, n), dtype), np.zeros((m, n), dtype)
    runs = [ours.call(a, b, c, threads), rival.call(a, b, d, threads)]
    once = min(sample(run, 1) for _ in range(2) for run in runs)
    size = np.linalg.norm(a, axis=1).max() * np.linalg.norm(b, axis=0).max()
    if not abs(c - d).max() <= 2 * ours.report.error * float(size):
        raise RuntimeError(f"results differ by {abs(c - d).max()}")
    calls = max(1, int(SAMPLE_S / max(once, 1e-7)))
    times = [[], []]
    for i in range(rounds):
        for who in ((0, 1), (1, 0))[i % 2]:
            times[who].append(sample(runs[who], calls))
    ratio = statistics.median(theirs / mine for mine, theirs in zip(*times))
    row = dict(dtype="f32" if a.itemsize == 4 else "f64", m=m, n=n, k=k, threads=threads, samples=times,
               ours=statistics.median(times[0]), rival=statistics.median(times[1]), ratio=ratio, calls=calls,
               kernel=ours.report.kernel.decode(), arithmetic=ours.report.arithmetic.decode())
    if min(shape) >= 512:
        rows.judge(row, "times as fast as the rival", ratio, least=0.75)
    return row


def to_bf16(x):
    return (x.view(np.uint32) >> 16).astype(np.uint16)


def measure_bf16(libraries, shape, threads, rounds):
    """Against the time that the product would take at the rate measured before and after, the faster of both; each
    library in turn."""
    m, n, k = shape
    rng = np.random.default_rng(1)
    a, b = (to_bf16(rng.standard_normal(s).astype("f4")) for s in ((m, k), (k, n)))
    c = np.zeros((m, n), "f4")
    ours, registers = libraries[0], Registers(libraries[0])
    runs = [one.call(a, b, c, threads) for one in libraries]
    calls = max(1, int(SAMPLE_S / max(min(sample(runs[0], 1) for _ in range(3)), 1e-7)))
    x, y = ((s.astype(np.uint32) << 16).view("f4") for s in (a, b))
    d, size = x @ y, np.linalg.norm(x, axis=1).max() * np.linalg.norm(y, axis=0).max()
    if not abs(c - d).max() <= 2 * ours.report.error * float(size):
        raise RuntimeError(f"results differ by {abs(c - d).max()}")
    times, rates = [[] for _ in runs], [[] for _ in runs]
    last = registers.flops(threads)
    for i in range(rounds):
        for who in (range(len(runs)), range(len(runs) - 1, -1, -1))[i % 2]:
            times[who].append(min(sample(runs[who], calls) for _ in range(3)))
            before, last = last, registers.flops(threads)
            rates[who].append(max(before, last))
    shares = [statistics.median(2 * m * n * k / t / r for t, r in zip(*pair)) for pair in zip(times, rates)]
    row = dict(dtype="bf16", m=m, n=n, k=k, threads=threads, samples=times, rates=rates, calls=calls,
               ours=statistics.median(times[0]), ratio=shares[0], shares=shares,
               rival=statistics.median(2 * m * n * k / r for r in rates[0]), kernel=ours.report.kernel.decode(),
               arithmetic=ours.report.arithmetic.decode())
    rows.judge(row, "of the AMX rate", shares[0], least=0.6)
    return row


def line(r):
    flops = 2e-9 * r["m"] * r["n"] * r["k"]
    return (f"{r['dtype']:4s} {r['m']:5d} {r['n']:5d} {r['k']:5d} {r['threads']:7d} {rows.ms(r['ours']):>10s} "
            f"{rows.ms(r['rival']):>10s} {flops / r['ours']:8.1f} {flops / r['rival']:7.1f} {r['ratio']:13.2f}"
            + "".join(f" (before {share:.2f})" for share in r.get("shares", [])[1:]))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--lib", default=os.path.join(HERE, "..", "build", "release", "libholdfast.so"))
    p.add_argument("--rival", default=find_rival(), help="library with cblas_?gemm (default: OpenBLAS)")
    p.add_argument("--before", help="an older libholdfast_dev.so, for bf16, in turns")
    p.add_argument("--shapes", nargs="+", default=SHAPES, metavar="M,N,K")
    p.add_argument("--types", nargs="+", default=["f4", "f8"], help="f4, f8; bf16 with --lib libholdfast_dev.so")
    p.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--results", help="folder for the JSON file")
    args = p.parse_args()
    ours, rival = Ours(args.lib), Blas(args.rival) if set(args.types) - {"bf16"} else None
    cpu = next((x.split(":")[1].strip() for x in open("/proc/cpuinfo") if x.startswith("model name")), "cpu")
    libraries = [ours] + [Ours(args.before, ours)] * bool(args.before)
    out = dict(what="gemm", cpu=cpu, holdfast=library.origin(args.lib),
               rival=rival.version() if rival else "AMX in registers",
               before=library.origin(args.before) if args.before else None, rows=[], rounds=args.rounds,
               date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), load=[])
    print(f"{cpu}; rival: {out['rival']}\n{HEAD}", flush=True)
    for dtype in args.types:
        for threads in args.threads:
            for text in args.shapes:
                shape = tuple(int(x) for x in text.split(","))
                row = (measure_bf16(libraries, shape, threads, args.rounds) if dtype == "bf16" else
                       measure(ours, rival, shape, dtype, threads, args.rounds))
                out["rows"].append(row)
                out["load"].append(os.getloadavg()[0])
                print(line(row), flush=True)
    bars = [bar for row in out["rows"] for bar in row.get("bars", [])]
    print(f"bars: {sum(b['reached'] for b in bars)} of {len(bars)} reached")
    if args.results:
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
        name = f"gemm-{'-'.join(cpu.lower().replace('(', ' ').replace(')', ' ').split())}-{stamp}.json"
        with open(os.path.join(args.results, name), "w") as f:
            json.dump(out, f, indent=1)
        print(name)


if __name__ == "__main__":
    main()
