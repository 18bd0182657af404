# SPDX-License-Identifier: Apache-2.0
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import holdfast

rows = int(os.environ.get("HOLDFAST_EXAMPLE_ROWS", 200_000))  # 20,000,000 are 10 GB
path = os.path.join(tempfile.mkdtemp(), "big.npy")
big = np.lib.format.open_memmap(path, "w+", np.float32, (rows, 128))
centers = np.random.default_rng(0).normal(size=(50, 128)).astype("f4") * 3


def fill(first):
    part, rng = big[first : first + 50_000], np.random.default_rng(first)
    part[:] = rng.standard_normal(part.shape, "f4") + centers[rng.integers(50, size=len(part))]


with ThreadPoolExecutor() as threads:
    list(threads.map(fill, range(0, rows, 50_000)))
big = None  # closed

km = holdfast.KMeans(50, init="random", n_init=1, random_state=0, memory_limit="512MiB", max_iter=10)
km.fit(holdfast.source(path))

import matplotlib.pyplot as plt

figure, ax = plt.subplots()
ax.plot(np.arange(km.n_iter_) + 1, km.report_["history"]["inertia"], "o-")
ax.set(xlabel="iteration", ylabel="inertia")
ax.set_title(
    f"{os.path.getsize(path) / 1e9:.1f} GB from disk, workspace "
    f"{km.report_['workspace_bytes'] / 2**20:.0f} MiB", fontsize=9)
os.remove(path)
