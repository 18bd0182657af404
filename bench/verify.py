# SPDX-License-Identifier: Apache-2.0
"""Labels against brute force: d(x, c) = sum over features, in order, of (x - c)^2 in float64, lowest
index on ties. A blocked product finds the candidates, with a bound on its rounding; rows with more than
one candidate are decided by the definition itself."""
import numpy as np

EPS = 2.0 ** -53


def _direct(x, c):
    """Distances of x [m, d] to c [m, d], feature by feature as the definition says."""
    total = np.zeros(len(x))
    for j in range(x.shape[1]):
        diff = x[:, j] - c[:, j]
        total += diff * diff
    return total


def _decide(x, c, candidates):
    """Label of each row among its candidates [rows, k] bool."""
    row, col = np.nonzero(candidates)
    best = np.full(len(x), np.inf)
    label = np.zeros(len(x), "i4")
    for first in range(0, len(row), 65536):
        r, j = row[first:first + 65536], col[first:first + 65536]
        for i, l, v in zip(r, j, _direct(x[r], c[j])):
            if v < best[i]:  # columns ascend within a row: ties keep the lowest
                best[i], label[i] = v, l
    return label


def brute_force(x, centroids, block=2048):
    """Labels [n] of rows x [n, d]."""
    c = centroids.astype("f8")
    square = (c * c).sum(1)
    longest = np.sqrt(square.max())
    labels = np.empty(len(x), "i4")
    for first in range(0, len(x), block):
        b = x[first:first + block].astype("f8")
        bb = (b * b).sum(1)
        approx = bb[:, None] - 2 * (b @ c.T) + square
        # |fl - exact| <= gamma (|x| + |c|)^2, three sums of d terms; twice for the two that are compared
        bound = 8 * (x.shape[1] + 4) * EPS * (np.sqrt(bb) + longest) ** 2
        candidates = approx <= (approx.min(1) + bound)[:, None]
        label = candidates.argmax(1).astype("i4")
        open_rows = np.flatnonzero(candidates.sum(1) > 1)
        if len(open_rows):
            label[open_rows] = _decide(b[open_rows], c, candidates[open_rows])
        labels[first:first + block] = label
    return labels


def by_definition(x, centroids, block=2048):
    """The same without products: every distance as the definition says. Slower where few candidates
    are open, and untouched by offsets or outliers, which leave all of them open."""
    c = centroids.astype("f8")
    labels = np.empty(len(x), "i4")
    for first in range(0, len(x), block):
        b = x[first:first + block].astype("f8")
        total = np.zeros((len(b), len(c)))
        for j in range(x.shape[1]):
            diff = b[:, j, None] - c[:, j]
            total += diff * diff
        labels[first:first + block] = total.argmin(1)
    return labels


def wrong_labels(x, centroids, labels, sample=20000, cheap=4e9, seed=7, want=brute_force):
    """(how many labels differ from what `want` gives, how many rows were looked at): all rows where
    that takes at most `cheap` multiply-adds, else a random sample."""
    rows = np.arange(len(x))
    if len(x) > sample and float(x.size) * len(centroids) > cheap:
        rows = np.sort(np.random.default_rng(seed).choice(len(x), sample, replace=False))
    return int((want(x[rows], centroids) != labels[rows]).sum()), len(rows)
