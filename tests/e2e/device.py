# SPDX-License-Identifier: Apache-2.0
"""The command on a GPU writes the bytes that it writes on the CPU; skipped where there is none."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (CITIES, FASHION, GPUS, RESOURCES, SIFT, Skip, check, content, equal, fit, holdfast,  # noqa: E402
                 loads, main, same_files, scratch, test)


def need_gpu():
    devices = loads(holdfast("info", "--json", env=GPUS).out)["devices"]
    gpus = [d for d in devices if d["name"].startswith("cuda")]
    if not any(d["available"] for d in gpus):
        raise Skip("; ".join(d["text"] for d in gpus) or "built without CUDA")


def both(data, *args):
    """Reports of the same fit on the CPU and on the GPU that auto takes; their files are equal."""
    cpu, gpu = scratch("cpu"), scratch("gpu")
    reports = [fit(data, *args, "--device", "cpu", out=cpu), fit(data, *args, out=gpu, env=GPUS)]
    equal([r["options"]["device"] for r in reports], ["cpu", "cuda:0"])
    same_files(cpu, gpu)
    equal(*[r["result"] for r in reports], what="results")
    return reports


@test
def real_data():
    need_gpu()
    both(SIFT, "-k", 64)
    both(CITIES, "-k", 300, "--max-iter", 12, "--init", "random")
    both(FASHION, "-k", 40, "--max-iter", 8, "--init", "kmeans-parallel", "--n-init", 2)


@test
def metrics_and_types():
    need_gpu()
    for metric in ("cosine", "dot"):
        both(SIFT, "-k", 20, "--metric", metric, "--max-iter", 10)
    both(FASHION, "-k", 10, "--max-iter", 5, "--empty", "split", "--tol", 0)


@test
def resumed_on_the_other_device():
    need_gpu()
    args = [SIFT, "-k", 50, "--tol", 0, "--max-iter", 20]
    whole = scratch("whole")
    fit(*args, "--device", "cpu", out=whole)
    for first, second in (("cpu", "cuda"), ("cuda", "cpu")):
        part, end, checkpoint = scratch("part"), scratch("end"), scratch(first + ".hfc")
        fit(*args[:-1], 7, "--device", first, "--checkpoint", checkpoint, "--every", 1, out=part, env=GPUS)
        fit(*args, "--device", second, "--resume", checkpoint, out=end, env=GPUS)
        same_files(whole, end)


@test
def labels_of_given_centroids():
    need_gpu()
    fit(SIFT, "-k", 30, "--device", "cpu", out=scratch("fitted"))
    centroids = os.path.join(scratch("fitted"), "centroids.npy")
    written = []
    for device in ("cpu", "cuda"):
        labels, distances = scratch(device + "-labels.npy"), scratch(device + "-distances.npy")
        holdfast("predict", SIFT, "--centroids", centroids, "-o", labels, "--distances", distances,
                 "--device", device, "-q", env=GPUS)
        written.append(content(labels) + content(distances))
    check(written[0] == written[1], "labels or distances differ")


@test
def too_little_memory():
    need_gpu()
    result = holdfast("kmeans", SIFT, "-k", 64, "--memory", "1M", "--device", "cuda", code=RESOURCES, env=GPUS)
    check("memory" in result.err, str(result))


@test
def no_gpu_to_be_seen():
    result = holdfast("kmeans", SIFT, "-k", 2, "--device", "cuda", code=RESOURCES)
    check("cuda" in result.err, str(result))


if __name__ == "__main__":
    main()
