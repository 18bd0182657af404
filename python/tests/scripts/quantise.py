# SPDX-License-Identifier: Apache-2.0
"""Colours of a picture reduced to 64, as in scikit-learn's example of image quantisation."""

import time

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_image
from sklearn.utils import shuffle

try:
    picture = np.array(load_sample_image("china.jpg"), dtype=np.float64) / 255
except ImportError:  # pillow is not installed
    picture = np.random.RandomState(0).rand(427, 640, 3) ** 2
pixels = picture.reshape(-1, 3)
sample = shuffle(pixels, random_state=0, n_samples=20_000)
colours = np.unique(sample, axis=0)
start = colours[:: len(colours) // 64][:64]
start = start + np.random.RandomState(0).uniform(-0.002, 0.002, start.shape)  # no ties
begin = time.perf_counter()
km = KMeans(n_clusters=64, init=start, n_init=1, random_state=0).fit(sample)
labels = km.predict(pixels)
print("seconds", time.perf_counter() - begin)
print("result inertia", km.inertia_)
print("result error", np.mean((km.cluster_centers_[labels] - pixels) ** 2))
