# SPDX-License-Identifier: Apache-2.0
import matplotlib.pyplot as plt
import numpy as np

from holdfast import KMeans

X = np.random.default_rng(0).normal(size=(20_000, 16)).astype("f4")
seen = []


def watch(event):
    if event.iteration:
        seen.append(event.inertia)
    return len(seen) > 5 and seen[-2] - seen[-1] < 1e-4 * seen[-1]  # that is good enough


km = KMeans(100, random_state=0, progress=watch).fit(X)

figure, ax = plt.subplots()
ax.plot(seen, "o-")
ax.set(xlabel="iteration", ylabel="inertia")
ax.set_title(f"stopped after {km.n_iter_} iterations: {km.report_['stop']}", fontsize=9)
