# SPDX-License-Identifier: Apache-2.0
"""Data of the comparison: real files where they are, generated data with structure where not."""
import gzip
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
TEST_DATA = os.path.join(HERE, "..", "tests", "data")
FASHION_PLACES = ["/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz",
                  "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte",
                  "/usr/share/dataset-fashion-mnist/train-images-idx3-ubyte.gz"]


def blobs(n, d, k, seed, spread=0.5):
    """k overlapping balls of unit variance whose centres have variance spread^2."""
    rng = np.random.default_rng(seed)
    centres = (rng.standard_normal((k, d)) * spread).astype("f4")
    x = rng.standard_normal((n, d), dtype="f4")
    which = rng.integers(0, k, n)
    for first in range(0, n, 65536):
        x[first:first + 65536] += centres[which[first:first + 65536]]
    return x


def normals(n, d, seed):
    return np.random.default_rng(seed).standard_normal((n, d), dtype="f4")


def uniform(n, d, seed):
    return np.random.default_rng(seed).random((n, d), dtype="f4")


def census_like(n, d, seed):
    """Small codes as in US Census 1990: 200 kinds of people, each column a few likely answers."""
    rng = np.random.default_rng(seed)
    kinds = 200
    answers = rng.integers(2, 11, d)
    typical = rng.integers(0, answers, (kinds, d)).astype("f4")
    faithful = rng.uniform(0.4, 0.98, d)
    which = rng.integers(0, kinds, n)
    x = np.empty((n, d), "f4")
    for first in range(0, n, 65536):
        w = which[first:first + 65536]
        other = np.floor(rng.random((len(w), d), dtype="f4") ** 2 * answers).astype("f4")
        keep = rng.random((len(w), d), dtype="f4") < faithful
        x[first:first + 65536] = np.where(keep, typical[w], other)
    return x


def read_idx(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        raw = f.read()
    if raw[:4] != b"\0\0\x08\x03":
        raise SystemExit(f"{path}: not an IDX file of byte images")
    n, h, w = np.frombuffer(raw, ">i4", 3, 4)
    return np.frombuffer(raw, "u1", n * h * w, 16).reshape(n, h * w).astype("f4")


def image_like(n, seed):
    """Whole numbers 0..255: smooth 28 x 28 shapes of ten kinds, bent and lit in many ways."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 28), np.linspace(-1, 1, 28)), -1)
    basis = np.stack([np.exp(-8 * ((grid - rng.uniform(-0.8, 0.8, 2)) ** 2).sum(-1)).ravel()
                      for _ in range(60)]).astype("f4")
    weights = rng.standard_normal((10, 60)).astype("f4")
    which = rng.integers(0, 10, n)
    x = np.empty((n, 784), "f4")
    for first in range(0, n, 8192):
        w = weights[which[first:first + 8192]]
        w = w + 0.6 * rng.standard_normal(w.shape, dtype="f4")
        v = w @ basis * 110 + 12 * rng.standard_normal((len(w), 784), dtype="f4")
        x[first:first + 8192] = np.clip(np.rint(v), 0, 255)
    return x


def fashion(path, n, seed):
    """The training images, or a stand-in; and which of the two."""
    for place in [path] if path else FASHION_PLACES:
        if os.path.exists(place):
            return read_idx(place)[:n], "Fashion-MNIST training images"
        if path:
            raise SystemExit(f"--fashion {path}: there is no such file")
    return image_like(n, seed), "generated images (no Fashion-MNIST here; see --fashion)"


def cities(path):
    place = path or os.path.join(TEST_DATA, "geo-cities", "latlon_f32.npy")
    return np.ascontiguousarray(np.load(place), "f4"), "cities (GeoNames)"


def sift(path):
    place = path or os.path.join(TEST_DATA, "sift5k-128d", "sift5k_base.fvecs")
    raw = np.fromfile(place, "i4")
    d = int(raw[0])
    return np.ascontiguousarray(raw.reshape(-1, d + 1)[:, 1:]).view("f4"), "SIFT descriptors"


def start(x, k, seed):
    """k distinct rows to start from."""
    rows = np.random.default_rng(seed).choice(x.shape[0], k, replace=False)
    return np.ascontiguousarray(x[np.sort(rows)])
