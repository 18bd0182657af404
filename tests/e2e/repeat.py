# SPDX-License-Identifier: Apache-2.0
"""The same bytes for any number of threads, any amount of memory, and again."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (CITIES, FASHION, POPULATION, SIFT, blobs, check, equal, fit, main, same_files, scratch,  # noqa: E402
                 test, write_npy)

VARIANTS = (["--threads", 1], ["--threads", 2], ["--threads", 7], ["--threads", 2],
            ["--threads", 7, "--skipping", "off"], ["--threads", 2, "--memory", "64M"])


def essence(report):
    """What must not depend on how it was computed."""
    result = {k: v for k, v in report["result"].items()}
    history = [(row["inertia"], row["shift"], row["changed"], row["empty"]) for row in report["history"]]
    return result, history


def same_always(name, data, *args, variants=VARIANTS):
    first = None
    for i, variant in enumerate(variants):
        out = scratch(f"{name}-{i}")
        report = fit(data, *args, *variant, out=out)
        if first:
            same_files(first[0], out)
            equal(essence(report), essence(first[1]), "reports")
        first = first or (out, report)


@test
def cities():
    same_always("cities", CITIES, "-k", 50, "--max-iter", 25)


@test
def cities_with_weights():
    same_always("weights", CITIES, "-k", 20, "--weights", POPULATION, "--max-iter", 15)


@test
def sift_from_each_init():
    for init in ("kmeans++", "kmeans-parallel", "random"):
        same_always("sift-" + init, SIFT, "-k", 24, "--init", init, "--n-init", 2, "--max-iter", 15)


@test
def sift_in_each_metric():
    for metric in ("cosine", "dot"):
        same_always("sift-" + metric, SIFT, "-k", 16, "--metric", metric, "--max-iter", 10)


@test
def images():
    same_always("images", FASHION, "-k", 10, "--max-iter", 5)


@test
def chunks():
    """The same rows in memory and read in chunks."""
    path = write_npy(scratch("rows.npy"), blobs(20000, 64, 9, seed=4))
    whole = scratch("whole")
    fit(path, "-k", 9, "--init", "random", "--memory", "1G", out=whole)
    for memory in ("4M", "3500000"):
        out = scratch("chunks-" + memory)
        report = fit(path, "-k", 9, "--init", "random", "--memory", memory, "--threads", 2, out=out)
        check(report["data"]["streamed"], "was not read in chunks")
        same_files(whole, out)


if __name__ == "__main__":
    main()
