# SPDX-License-Identifier: Apache-2.0
"""Texts clustered by TF-IDF, which are sparse rows; the texts are made here."""

import time

import numpy as np
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score

rng = np.random.RandomState(0)
words = np.array([f"w{i}" for i in range(3000)])
topics = [rng.dirichlet(np.full(3000, 0.02)) for _ in range(8)]
truth = rng.randint(8, size=3000)
texts = [" ".join(rng.choice(words, 60, p=topics[t])) for t in truth]
x = TfidfVectorizer(max_features=1000).fit_transform(texts)
start = np.array([x[truth == t][:40].mean(axis=0).A1 for t in range(8)])
begin = time.perf_counter()
km = KMeans(8, init=start, n_init=1, max_iter=100).fit(x)
print("seconds", time.perf_counter() - begin)
print("result inertia", km.inertia_)
print("result agreement", adjusted_rand_score(truth, km.labels_))
