# SPDX-License-Identifier: Apache-2.0
import matplotlib.pyplot as plt
import numpy as np
import sklearn.cluster
from sklearn.datasets import make_blobs

import holdfast

X, _ = make_blobs(3000, centers=12, cluster_std=1.4, random_state=3)
start = X[:12].copy()
theirs = sklearn.cluster.KMeans(12, init=start, tol=0).fit(X)
ours = holdfast.KMeans(12, init=start, tol=0).fit(X)
assert np.array_equal(ours.labels_, theirs.labels_)
assert ours.n_iter_ == theirs.n_iter_

figure, axes = plt.subplots(1, 2)
for ax, km, name in zip(axes, (theirs, ours), ("scikit-learn", "holdfast")):
    ax.scatter(*X.T, c=km.labels_, s=3, cmap="tab20")
    ax.plot(*km.cluster_centers_.T, "k+")
    ax.set_title(f"{name}: {km.n_iter_} iterations, inertia {km.inertia_:.2f}", fontsize=9)
