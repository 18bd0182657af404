# SPDX-License-Identifier: Apache-2.0
"""What Python costs over C: python python/tests/measure.py [rounds]; and what unmodified scripts of
scikit-learn gain: python python/tests/measure.py scripts [rounds].

Each round makes a call by the estimator and the same call of the C library, in turns; what is
reported is the median of the differences, since other work on the machine disturbs both alike. Of
fits that take milliseconds only what is spent outside the library's own clock is compared, which
still has the cost of caches that the fit emptied.
"""

import ctypes as C
import pathlib
import re
import statistics
import subprocess
import sys
import time

import numpy as np

import holdfast
from holdfast import _abi
from holdfast._library import context_create, lib

ROUNDS = int(sys.argv[1]) if len(sys.argv) == 2 and sys.argv[1].isdigit() else 200


def differences(ours, theirs, rounds):
    """Median microseconds of ours, theirs, and of ours - theirs in turns."""
    samples = []
    for i in range(rounds + 5):
        pair = {}
        for f in (ours, theirs) if i % 2 else (theirs, ours):
            begin = time.perf_counter()
            f()
            pair[f] = time.perf_counter() - begin
        if i >= 5:
            samples.append((pair[ours], pair[theirs], pair[ours] - pair[theirs]))
    return [1e6 * statistics.median(column) for column in zip(*samples)]


def outside(fit, seconds, rounds):
    """Median microseconds of a fit beyond what the library's own clock says it took."""
    samples = []
    for _ in range(rounds):
        begin = time.perf_counter()
        fit()
        samples.append(time.perf_counter() - begin - seconds())
    return 1e6 * statistics.median(samples)


def view(a):
    code = {"float32": 1, "float64": 2}[a.dtype.name]
    return _abi.Array(a.ctypes.data, code, a.shape[0], a.shape[1], a.shape[1])


def seconds_of(*command):
    """What a script says its k-means took."""
    out = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    return float(re.search(r"^seconds (.*)$", out.stdout, re.M)[1])


def scripts(rounds):
    """Each of python/tests/scripts by scikit-learn and by holdfast, in turns."""
    slower = []
    for script in sorted((pathlib.Path(__file__).parent / "scripts").glob("*.py")):
        theirs, ours = [], []
        for _ in range(rounds):
            theirs.append(seconds_of(script))
            ours.append(seconds_of("-m", "holdfast", script))
        gain = statistics.median(theirs) / statistics.median(ours)
        slower += [script.stem] if gain <= 1 else []
        print(
            f"{script.stem}: {statistics.median(theirs):.3f} s by scikit-learn "
            f"({min(theirs):.3f} at best), {statistics.median(ours):.3f} s by holdfast "
            f"({min(ours):.3f}): {gain:.1f} times as fast",
            flush=True,
        )
    return f"slower: {', '.join(slower)}" if slower else 0


def main():
    """Print the figures."""
    rng = np.random.default_rng(0)
    context = context_create(b"auto", 0, 0)
    x = rng.normal(size=(16384, 64)).astype("f4")
    start = x[:128].copy()
    xs, cs = view(x), view(start)
    opts = _abi.KMeansOpts(k=128, init=3, max_iter=20, tol=-1.0, centroids=C.pointer(cs))
    km = holdfast.KMeans(128, init=start, max_iter=20, tol=0)

    def show(name, bar, ours, theirs, rounds):
        python, c, over = differences(ours, theirs, rounds)
        print(
            f"{name}: {python:.0f} us by Python, {c:.0f} us by C, {over:.0f} us over C (bar {bar})"
        )

    last = {}

    def fit_c_timed():
        result = _abi.KMeansResult()
        lib.hf_kmeans_fit(context, C.addressof(xs), C.addressof(opts), C.addressof(result))
        last["total"] = result.seconds_total
        lib.hf_kmeans_result_clear(C.addressof(result))

    rounds = max(ROUNDS // 2, 20)
    ours = outside(lambda: km.fit(x), lambda: km.report_["seconds"]["total"], rounds)
    theirs = outside(fit_c_timed, lambda: last["total"], rounds)
    print(
        f"fit of 16,384 x 64, K=128, 20 iterations, {1e3 * last['total']:.1f} ms: {ours:.0f} us "
        f"outside the library by Python, {theirs:.0f} us by C, {ours - theirs:.0f} us over C "
        "(bar 100)"
    )
    tiny, few = x[:64].copy(), x[:4].copy()
    ts, fs = view(tiny), view(few)
    small_opts = _abi.KMeansOpts(k=4, init=3, max_iter=20, tol=-1.0, centroids=C.pointer(fs))
    small = holdfast.KMeans(4, init=few, max_iter=20, tol=0)

    def fit_small():
        result = _abi.KMeansResult()
        lib.hf_kmeans_fit(context, C.addressof(ts), C.addressof(small_opts), C.addressof(result))
        lib.hf_kmeans_result_clear(C.addressof(result))

    show("fit of 64 x 64, K=4", 100, lambda: small.fit(tiny), fit_small, ROUNDS)
    one, label = x[:1], np.empty(1, "i4")
    v, c = view(one), view(km.cluster_centers_)

    def predict_c():
        lib.hf_kmeans_predict(
            context, C.addressof(v), None, C.addressof(c), 0, 0, None, label.ctypes.data, None, None
        )

    show("predict of 1 row", 50, lambda: km.predict(one), predict_c, ROUNDS * 5)
    base, ours = [], []
    for _ in range(9):
        for imports, times in (("numpy", base), ("numpy, holdfast", ours)):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {imports}"], check=True)
            times.append(time.perf_counter() - begin)
    extra = 1e3 * statistics.median(b - a for a, b in zip(base, ours))
    print(
        f"import: {extra:.1f} ms beyond NumPy, {1e3 * min(ours):.0f} ms the whole process at best "
        f"(NumPy alone {1e3 * min(base):.0f} ms)"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["scripts"]:
        sys.exit(scripts(int(sys.argv[2]) if len(sys.argv) > 2 else 5))
    main()
