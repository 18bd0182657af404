# SPDX-License-Identifier: Apache-2.0
"""One contender in a process of its own, so that no thread pool disturbs another: takes a line of JSON
from standard input, answers with one. Started by rivals.py."""
import importlib.metadata
import json
import os
import sys
import time
import warnings

warnings.filterwarnings("ignore")
SHORT = 0.2  # seconds: fits are repeated for so long, and the median counts


def repeated(fit):
    """What `fit` gave last, and the seconds of each call: shorter than this they vary with what ran
    before on these cores."""
    seconds, begin = [], time.perf_counter()
    while not seconds or time.perf_counter() - begin + seconds[-1] < SHORT:
        start = time.perf_counter()
        r = fit()
        seconds.append(time.perf_counter() - start)
    return r, {"sample": sorted(seconds)[len(seconds) // 2], "all": seconds}


class Ours:
    def __init__(self, threads, library):
        import hf
        self.hf = hf.Holdfast(library, threads)
        self.version = self.hf.version

    def iterate(self, x, init, few, many, skipping):
        start = time.perf_counter()
        r = self.hf.fit(x, init, many, -1.0, skipping)
        seconds = [h["seconds"] for h in r["history"]]
        later = seconds[few:] or seconds  # the same iterations that the rivals are timed on
        sample = (sorted(later)[len(later) // 2] if skipping == "off" else sum(later) / len(later))
        return r, {"sample": sample, "first": seconds[0], "all": seconds,
                   "wall": time.perf_counter() - start,
                   "rechecked": [h["rows_rechecked"] for h in r["history"]],
                   "float64": [h["rows_float64"] for h in r["history"] if "rows_float64" in h],
                   "skipped": [h["rows_skipped"] for h in r["history"]]}

    def fit(self, x, init, max_iter, tol):
        r, times = repeated(lambda: self.hf.fit(x, init, max_iter, tol, "auto"))
        return r, dict(times, phases=r["seconds"])


class Sklearn:
    def __init__(self, threads, algorithm):
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits
        self.limits = threadpool_limits(threads)
        self.make = lambda init, m, tol: KMeans(len(init), init=init, n_init=1, max_iter=m, tol=tol,
                                                algorithm=algorithm)
        self.version = importlib.metadata.version("scikit-learn")

    def _run(self, x, init, max_iter, tol):
        start = time.perf_counter()
        model = self.make(init, max_iter, tol).fit(x)
        seconds = time.perf_counter() - start
        return seconds, {"labels": model.labels_, "centroids": model.cluster_centers_,
                         "inertia": float(model.inertia_), "iterations": int(model.n_iter_),
                         "kernels": []}

    def iterate(self, x, init, few, many, skipping):
        t_few, r_few = self._run(x, init, few, 0)
        t_many, r = self._run(x, init, many, 0)
        steps = r["iterations"] - r_few["iterations"]
        if steps < 1:
            raise RuntimeError(f"converged within {few} iterations: nothing to time")
        return r, {"sample": (t_many - t_few) / steps, "steps": steps}

    def fit(self, x, init, max_iter, tol):
        return repeated(lambda: self._run(x, init, max_iter, tol)[1])


class Faiss:
    def __init__(self, threads):
        import faiss
        self.faiss = faiss
        faiss.omp_set_num_threads(threads)
        self.version = faiss.__version__

    def iterate(self, x, init, few, many, skipping):
        n, d = x.shape
        k = len(init)
        model = self.faiss.Kmeans(d, k, niter=many, max_points_per_centroid=n,
                                  min_points_per_centroid=1, seed=1)
        model.train(x, init_centroids=init)
        ends = [s["time"] for s in model.iteration_stats]
        steps = [b - a for a, b in zip([0.0] + ends, ends)][1:]
        r = {"labels": None, "centroids": model.centroids, "inertia": float(model.obj[-1]),
             "iterations": many, "kernels": []}
        return r, {"sample": sorted(steps)[len(steps) // 2], "all": steps}


class SuperKMeans:
    def __init__(self, threads, blas_only):
        from superkmeans import SuperKMeans as Model
        self.make = lambda k, d, iters: Model(
            k, d, hierarchical=False, iters=iters, sampling_fraction=1.0,
            max_points_per_cluster=1 << 30, n_threads=threads, early_termination=False,
            use_blas_only=blas_only)
        self.version = importlib.metadata.version("superkmeans")

    def _run(self, x, k, iters):
        model = self.make(k, x.shape[1], iters)
        start = time.perf_counter()
        centroids = model.train(x)
        return time.perf_counter() - start, centroids

    def iterate(self, x, init, few, many, skipping):
        t_few, _ = self._run(x, len(init), few)
        t_many, centroids = self._run(x, len(init), many)
        r = {"labels": None, "centroids": centroids, "inertia": None, "iterations": many,
             "kernels": []}
        return r, {"sample": (t_many - t_few) / (many - few), "steps": many - few}


class OpenBlas:
    """No k-means: the product X C^T alone, block by block, as a floor of what is built on it."""

    ROWS = 4096

    def __init__(self, threads):
        import ctypes
        try:
            self.lib = ctypes.CDLL("libopenblas.so.0")
        except OSError as e:
            raise ImportError(f"{e} (Debian: libopenblas0-pthread)")
        self.lib.openblas_set_num_threads(threads)
        self.lib.openblas_get_config.restype = ctypes.c_char_p
        self.version = self.lib.openblas_get_config().decode()
        pointer, one = ctypes.c_void_p, ctypes.c_float
        self.lib.cblas_sgemm.argtypes = ([ctypes.c_int] * 6 + [one, pointer, ctypes.c_int, pointer,
                                                               ctypes.c_int, one, pointer, ctypes.c_int])

    def _product(self, x, c, out):
        row_major, plain, transposed = 101, 111, 112
        d, k = x.shape[1], c.shape[0]
        for first in range(0, len(x), self.ROWS):
            block = x[first:first + self.ROWS]
            self.lib.cblas_sgemm(row_major, plain, transposed, len(block), k, d, 1.0,
                                 block.ctypes.data, d, c.ctypes.data, d, 0.0, out.ctypes.data, k)

    def iterate(self, x, init, few, many, skipping):
        import numpy as np
        out = np.empty((self.ROWS, len(init)), "f4")
        samples = []
        for _ in range(1 + many - few):
            start = time.perf_counter()
            self._product(x, init, out)
            samples.append(time.perf_counter() - start)
        r = {"labels": None, "inertia": None, "iterations": 0, "kernels": ["product alone"]}
        return r, {"sample": sorted(samples[1:])[(len(samples) - 1) // 2], "all": samples}


def make(kind, threads, library):
    if kind.startswith("holdfast"):
        return Ours(threads, library)
    return {"sklearn-lloyd": lambda: Sklearn(threads, "lloyd"),
            "sklearn-elkan": lambda: Sklearn(threads, "elkan"),
            "openblas": lambda: OpenBlas(threads),
            "faiss": lambda: Faiss(threads),
            "superkmeans": lambda: SuperKMeans(threads, False),
            "superkmeans-blas": lambda: SuperKMeans(threads, True)}[kind]()


def serve(kind, threads, library, answers):
    import numpy as np
    contender = make(kind, threads, library)
    x = init = None
    print(json.dumps({"ok": True, "version": contender.version}), file=answers, flush=True)
    for line in sys.stdin:
        ask = json.loads(line)
        try:
            answer = {"ok": True}
            if ask["do"] == "load":
                x, init = np.load(ask["x"]), np.load(ask["init"])
            elif ask["do"] == "drop":
                x = init = None
            else:
                r, times = (contender.iterate(x, init, ask["few"], ask["many"], ask["skipping"])
                            if ask["do"] == "iterate" else
                            contender.fit(x, init, ask["max_iter"], ask["tol"]))
                answer.update(times, inertia=r["inertia"], iterations=r["iterations"],
                              kernels=r["kernels"], labelled=r["labels"] is not None)
                if ask.get("save") and r["labels"] is not None:
                    np.savez(ask["save"], labels=r["labels"], centroids=r["centroids"])
        except Exception as e:  # reported by the other side, row by row
            answer = {"ok": False, "why": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    cpus = [int(c) for c in sys.argv[4].split(",")]
    os.sched_setaffinity(0, cpus)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not be taken for an answer
    try:
        serve(sys.argv[1], int(sys.argv[2]), sys.argv[3], answers)
    except ImportError as e:
        print(json.dumps({"ok": False, "why": str(e)}), file=answers, flush=True)
    except Exception as e:
        print(json.dumps({"ok": False, "why": f"{type(e).__name__}: {e}"}), file=answers, flush=True)
