# SPDX-License-Identifier: Apache-2.0
"""One-shot use: context, plan and fit of 20 iterations, the second time in a process; and what a fit in a
context that is there takes beside its iterations. Run with a library, a device, where the data lie
("host", "device"), n, k, d and the rows' type it is such a process, in which nothing but numpy and the
library is loaded; measured() starts several."""
import ctypes as C
import json
import statistics
import subprocess
import sys

ITERATIONS = 20
ONCE = (16_384, 128, 64, "f16")  # n, k, d
FIXED = [(200_000, 8, 8, "f32"), (20_000, 8, 8, "f32"), (2_000, 8, 8, "f32"), (200_000, 100, 20, "f32")]
AGAIN = 5  # fits in one context; the first warms up
MOST = 0.3  # bar: milliseconds beside the iterations
PARTS = ("total", "context", "init", "iterate", "finish")


def on_device(a):
    """The array in memory of the first device, brought there by the driver alone."""
    import hf
    cuda, device = C.CDLL("libcuda.so.1"), C.c_int()
    context, at = C.c_void_p(), C.c_uint64()
    for code in (cuda.cuInit(0), cuda.cuDeviceGet(C.byref(device), 0),
                 cuda.cuDevicePrimaryCtxRetain(C.byref(context), device), cuda.cuCtxSetCurrent(context),
                 cuda.cuMemAlloc_v2(C.byref(at), C.c_size_t(a.nbytes)),
                 cuda.cuMemcpyHtoD_v2(at, C.c_void_p(a.ctypes.data), C.c_size_t(a.nbytes)),
                 cuda.cuCtxSynchronize()):
        if code:
            raise SystemExit(f"the driver refused with code {code}")
    return hf.Array(at.value, hf.DTYPES[a.dtype], a.shape[0], a.shape[1], a.shape[1])


def process(library, device, where, n, k, d, dtype):
    """Prints the parts of each of two calls."""
    import numpy as np

    import hf
    n, k, d = int(n), int(k), int(d)
    x = np.random.default_rng(13).standard_normal((n, d), dtype="f4")
    x = x.astype({"f16": "f2", "f32": "f4"}[dtype])
    c = x[:k].astype("f4")
    xv, cv = (on_device(x), on_device(c)) if where == "device" else (x, c)
    ours = hf.Holdfast(library, 0, device, create=False)
    calls = [ours.once(xv, cv, ITERATIONS) for _ in range(2)]
    print(json.dumps(calls + [ours.once(xv, cv, ITERATIONS, own=False) for _ in range(AGAIN)]))


def measured(what, where, n, k, d, dtype, args):
    """A row with the parts of the calls of fresh processes."""
    from gpu_measure import DEV
    row = dict(what=what, n=n, k=k, d=d, dtype=dtype, data=where, calls=[])
    for _ in range(args.processes):
        command = [sys.executable, __file__, args.lib, DEV, where, str(n), str(k), str(d), dtype]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError(f"a process ended with code {done.returncode}: "
                               + done.stderr.strip().rsplit("\n", 1)[-1])
        row["calls"].append(json.loads(done.stdout))
    row["second"] = {part: [calls[1][part] for calls in row["calls"]] for part in PARTS}
    row["wide"] = statistics.median(row["second"]["total"])
    return row


def once_row(where, args):
    from rows import judge
    row = measured("once", where, *ONCE, args)
    judge(row, "second call, ms", row["wide"] * 1e3, most=1.0)
    return row


def beside(call):
    """All of a call but its iterations and the context."""
    return call["total"] - call["context"] - call["iterate"]


def fixed_row(shape, args):
    """What the call takes beside its iterations, in a context that is there; and in one of its own."""
    from rows import judge
    row = measured("fixed", "device", *shape, args)
    own = [calls[1] for calls in row["calls"]]
    again = [statistics.median(beside(call) for call in calls[3:]) for calls in row["calls"]]
    row["fixed"], row["fixed_own"] = again, [beside(call) for call in own]
    judge(row, "beside iterations, ms", statistics.median(row["fixed"]) * 1e3, most=MOST)
    return row


def show_fixed(row):
    from rows import ms, shape
    fixed = row["fixed"]
    return (f"{shape(row)} beside {ITERATIONS} iterations {ms(statistics.median(fixed))}, least and most of "
            f"{len(fixed)} processes {ms(min(fixed), max(fixed))}; in a context of its own "
            f"{ms(statistics.median(row['fixed_own']))}; "
            + ", ".join(f"{part} {ms(statistics.median(row['second'][part]))}" for part in PARTS[1:]))


def show_once(row):
    from rows import ms, shape
    total = row["second"]["total"]
    first = statistics.median(calls[0]["total"] for calls in row["calls"])
    return (f"{shape(row)} second call {ms(row['wide'])}, least and most of {len(total)} processes "
            f"{ms(min(total), max(total))}; "
            + ", ".join(f"{part} {ms(statistics.median(row['second'][part]))}" for part in PARTS[1:])
            + f"; first call {ms(first)}")


def fixed_jobs(args):
    return [(f"fixed {s[0]} x {s[2]}, k {s[1]}", lambda s=s: fixed_row(s, args)) for s in FIXED]


def once_jobs(args):
    return [(f"once {where}", lambda where=where: once_row(where, args)) for where in ("device", "host")]


if __name__ == "__main__":
    process(*sys.argv[1:])
