#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A CPU through OpenCL (PoCL) against holdfast's own kernels there and scikit-learn: time of a Lloyd iteration.

    python3 bench/opencl_cpu.py build/ci/libholdfast.so [--rounds 7] [--shapes 200000x64x256,1000000x16x64]

All take turns in one process, with two threads. An iteration is the difference of a fit of 8 and one of 2. The time of
the cores that the process took is printed beside that of the clock, as it stands other programs better; set
OMP_WAIT_POLICY=passive, or scikit-learn's threads take time while they wait. Labels must agree."""
import argparse
import os
import resource
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "2")

import data  # noqa: E402
import hf  # noqa: E402
import numpy as np  # noqa: E402

FEW, MANY = 2, 8


def cores_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def sklearn(x, start, iterations):
    from sklearn.cluster import KMeans
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it did not converge
        model = KMeans(start.shape[0], init=start, n_init=1, max_iter=iterations, tol=0, algorithm="lloyd").fit(x)
    return model.labels_


def ours(context):
    return lambda x, start, iterations: context.fit(x, start, iterations, -1.0, "off")["labels"]


def iteration(fit, x, start):
    """Milliseconds of an iteration by the clock and of the cores, half of them; labels."""
    at = []
    for iterations in (FEW, MANY):
        begin = time.perf_counter(), cores_s()
        labels = fit(x, start, iterations)
        at.append((time.perf_counter() - begin[0], (cores_s() - begin[1]) / 2))
    return [1e3 * (at[1][i] - at[0][i]) / (MANY - FEW) for i in (0, 1)], labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shapes", default="200000x64x256,1000000x16x64")
    args = parser.parse_args()
    contexts = {name: hf.Holdfast(args.library, 2, name) for name in ("cpu", "opencl")}
    fits = {"scikit-learn": sklearn, "C": ours(contexts["cpu"]), "OpenCL": ours(contexts["opencl"])}
    print(contexts["cpu"].version, "load", *os.getloadavg())
    for shape in args.shapes.split(","):
        n, d, k = map(int, shape.split("x"))
        x = data.census_like(n, d, 1) if d == 68 else data.blobs(n, d, k, 1)
        start = data.start(x, k, 1)
        samples, labels = {name: [] for name in fits}, {}
        for _ in range(args.rounds):
            for name, fit in fits.items():
                sample, labels[name] = iteration(fit, x, start)
                samples[name].append(sample)
        median = {name: np.median(samples[name], axis=0) for name in fits}
        for name in fits:
            clock, cores = median[name]
            times = median["scikit-learn"] / median[name]
            print(f"{n} x {d}, K={k:<4} {name:13} {clock:8.1f} ms by the clock, {cores:7.1f} of two cores; "
                  f"{times[0]:.2f} and {times[1]:.2f} times as fast as scikit-learn", flush=True)
        if (labels["C"] != labels["OpenCL"]).any():
            raise SystemExit("labels of C and OpenCL differ")


if __name__ == "__main__":
    main()
