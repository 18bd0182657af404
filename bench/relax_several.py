# SPDX-License-Identifier: Apache-2.0
"""One system on several GPUs of a process: speed over one, the paper's ways of exchange (its Figure 11), one GPU slowed
down, one lost. Faults need libholdfast_dev (--lib). Devices that are not there are left out."""
import ctypes as C
import time

import numpy as np

SILENT, SLOW = 6, 7


class Fault(C.Structure):
    """hf_dev_relax_fault."""
    _fields_ = [("kind", C.c_int), ("iteration", C.c_int64), ("share", C.c_double), ("outage", C.c_int64),
                ("lag", C.c_int64), ("bit", C.c_int), ("seed", C.c_uint64), ("device", C.c_int), ("moment", C.c_int)]


def count_gpus():
    try:
        import cupy
        return cupy.cuda.runtime.getDeviceCount()
    except Exception:  # whatever CuPy raises: there is none
        return 0


def names(bench, count):
    return ",".join(f"cuda:{i}" if bench.args.device == "cuda" else "cpu" for i in range(count))


def solve(bench, smoother, b, fault=None):
    """Seconds of iterations and checks, and the report."""
    from holdfast import _abi_relax, relaxation
    if fault is None:
        s = smoother.solve(b, warn=False)
        return s.columns[0]["seconds_launch"], s
    x, result = np.zeros(len(b)), _abi_relax.RelaxResult()
    call = relaxation.lib.hf_dev_relax_solve
    call.argtypes, call.restype = [C.c_void_p] * 5, C.c_int
    views = relaxation._view(b), relaxation._view(x)
    status = call(smoother._open(), C.addressof(views[0]), C.addressof(views[1]), C.addressof(fault),
                  C.addressof(result))
    if status:
        raise bench.holdfast.HoldfastError(f"hf_dev_relax_solve returned {status}")
    seconds = result.columns[0].seconds_launch
    s = relaxation.Solution(x, result)
    return seconds, s


def measure(bench, table, title, A, devices, fault=None, rounds=5, **options):
    """A row of the table; the median of its seconds."""
    b = np.ones(A.shape[0])
    begin = time.perf_counter()
    try:
        smoother = bench.holdfast.Smoother(A, "async", device=bench.args.device, devices=names(bench, devices),
                                           block=options.pop("block", 128), damping=1.0, partition="strips",
                                           **options)
        setup = time.perf_counter() - begin
        runs = [solve(bench, smoother, b, fault) for _ in range(rounds)]
    except bench.holdfast.HoldfastError as error:
        print(f"{title}, {devices} devices, {options}: {error}", flush=True)
        return None
    times, s = sorted(r[0] for r in runs), runs[-1][1]
    median = times[len(times) // 2]
    bench.row(table, matrix=title, devices=devices, timing=options.get("timing", "tagged"),
              exchange=s.report["exchange"], fault={None: "-", SILENT: "lost", SLOW: "slow x2"}[fault and fault.kind],
              ms=1e3 * median, least=1e3 * times[0], most=1e3 * times[-1], iterations=s.iterations,
              ms_each=1e3 * median / max(s.iterations, 1), stop=s.stop, residual=s.residual,
              left=s.report["devices"], adopted=s.report["faults"]["takeovers"], setup_s=setup)
    return median


def exchanges(bench, devices):
    """The paper's Figure 11: Trefethen_20000."""
    A = bench.matrices["Trefethen_20000"]
    table = "Figure 11: Trefethen_20000 to 1e-10 on several devices, async-(5), blocks of 448"
    alone = {}
    for count in range(1, devices + 1):
        for exchange in ("amc", "dc", "dk", "push"):
            for timing in ("free", "tagged"):
                taken = measure(bench, table, "Trefethen_20000", A, count, exchange=exchange, timing=timing, block=448)
                if count == 1:
                    alone[exchange, timing] = taken
    return alone


def scaling(bench, devices):
    from relax_cuda import grid
    size = bench.args.size
    begin = time.perf_counter()
    A = grid(size, 3.510152)
    print(f"(grid {size} made in {time.perf_counter() - begin:.1f} s)", flush=True)
    title, table = f"grid {size} x {size}", "Several devices: async-(5) to 1e-10"
    seen = {}
    for timing in ("tagged", "free"):
        seen[1, timing] = measure(bench, table, title, A, 1, rounds=3, timing=timing) if timing == "tagged" else None
        seen[devices, timing] = measure(bench, table, title, A, devices, rounds=3, timing=timing)
        slow = Fault(kind=SLOW, outage=2, device=devices - 1)
        seen["slow", timing] = measure(bench, table, title, A, devices, slow, rounds=3, timing=timing)
        lost = Fault(kind=SILENT, iteration=40, device=devices - 1)
        measure(bench, table, title, A, devices, lost, rounds=1, timing=timing)
    one, all_ = seen[1, "tagged"], seen[devices, "tagged"]
    if one and all_:
        bench.row("Several devices: in words", what=f"{devices} devices over one", value=one / all_)
    for timing in ("tagged", "free"):
        if seen[devices, timing] and seen["slow", timing]:
            bench.row("Several devices: in words", what=f"{timing}: one slowed twice costs, times",
                      value=seen["slow", timing] / seen[devices, timing])


def compare(bench):
    devices = count_gpus() if bench.args.device == "cuda" else 2
    if devices < 1:
        print("several devices take no part: there is no GPU that CuPy sees")
        return
    exchanges(bench, devices)
    scaling(bench, devices)
