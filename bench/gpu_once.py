# SPDX-License-Identifier: Apache-2.0
"""One-shot use: context, plan and fit of 16384 x 64, k 128, 20 iterations, the second time in a process.
Run with a library, a device and where the data lie ("host", "device") it is such a process, in which
nothing but numpy and the library is loaded; once_row() starts several."""
import ctypes as C
import json
import statistics
import subprocess
import sys

N, D, K, ITERATIONS = 16384, 64, 128, 20
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


def process(library, device, where):
    """Prints the parts of each of two calls."""
    import numpy as np

    import hf
    x = np.random.default_rng(13).standard_normal((N, D), dtype="f4").astype("f2")
    c = x[:K].astype("f4")
    xv, cv = (on_device(x), on_device(c)) if where == "device" else (x, c)
    ours = hf.Holdfast(library, 0, device, create=False)
    print(json.dumps([ours.once(xv, cv, ITERATIONS) for _ in range(2)]))


def once_row(where, args):
    from gpu_measure import DEV
    from rows import judge
    row = dict(what="once", n=N, k=K, d=D, dtype="f16", data=where, calls=[])
    for _ in range(args.processes):
        done = subprocess.run([sys.executable, __file__, args.lib, DEV, where], capture_output=True,
                              text=True, timeout=60)
        if done.returncode:
            raise RuntimeError(f"a process ended with code {done.returncode}: "
                               + done.stderr.strip().rsplit("\n", 1)[-1])
        row["calls"].append(json.loads(done.stdout))
    row["second"] = {part: [calls[1][part] for calls in row["calls"]] for part in PARTS}
    row["wide"] = statistics.median(row["second"]["total"])
    judge(row, "second call, ms", row["wide"] * 1e3, most=1.0)
    return row


def show_once(row):
    from rows import ms, shape
    total = row["second"]["total"]
    first = statistics.median(calls[0]["total"] for calls in row["calls"])
    return (f"{shape(row)} second call {ms(row['wide'])}, least and most of {len(total)} processes "
            f"{ms(min(total), max(total))}; "
            + ", ".join(f"{part} {ms(statistics.median(row['second'][part]))}" for part in PARTS[1:])
            + f"; first call {ms(first)}")


def once_jobs(args):
    return [(f"once {where}", lambda where=where: once_row(where, args)) for where in ("device", "host")]


if __name__ == "__main__":
    process(*sys.argv[1:])
