# SPDX-License-Identifier: Apache-2.0
import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import holdfast

rows = int(os.environ.get("HOLDFAST_EXAMPLE_ROWS", 200_000))  # 20,000,000 are 10 GB
path = os.path.join(tempfile.mkdtemp(), "big.npy")
big = np.lib.format.open_memmap(path, "w+", np.float32, (rows, 128))
rng = np.random.default_rng(0)
centers = rng.normal(size=(50, 128)) * 3
for first in range(0, rows, 50_000):
    part = big[first : first + 50_000]
    part[:] = centers[rng.integers(50, size=len(part))] + rng.normal(size=part.shape)
big.flush()

km = holdfast.KMeans(50, init="k-means||", random_state=0, memory_limit="64MiB", max_iter=20)
km.fit(holdfast.source(path))

figure, ax = plt.subplots()
ax.plot(km.report_["history"]["inertia"], "o-")
ax.set(xlabel="iteration", ylabel="inertia")
ax.set_title(
    f"{os.path.getsize(path) / 1e9:.1f} GB from disk, workspace "
    f"{km.report_['workspace_bytes'] / 2**20:.0f} MiB", fontsize=9)
os.remove(path)
