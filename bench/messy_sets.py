# SPDX-License-Identifier: Apache-2.0
"""Data as tables hold it, for messy.py: outliers, sentinels, heavy tails, mixed scales; from fixed
seeds, with numpy on the host or with torch where it lies. And what iterations over it may cost."""
import os

import numpy as np

import data

SEED = 1
BEFORE = 4  # iterations from rows to the centroids that times begin with
JITTER = 1e-3  # degrees: copies of cities do not coincide

# Most times the same shape's normal data; least times as fast as flash-kmeans, as scikit-learn
SETS = {
    "normal": {},
    "clustered": {},
    "outlier1e4": dict(normal=1.3),
    "outlier1e8": dict(normal=1.3),
    "sentinels": dict(normal=1.3),
    "lognormal": dict(normal=1.5, flash=1.0, sklearn=1.0),
    "cauchy": dict(normal=1.5, flash=1.0, sklearn=1.0),
    "column1e5": dict(normal=4.0, flash=0.5, sklearn=1.0),
    "column1e8": {},
    "scales": {},
    "nested": dict(normal=4.0, flash=0.5, sklearn=1.0),
    "dupes": dict(normal=4.0, flash=0.5, sklearn=1.0),
    "spikes16": dict(normal=1.5),
    "geo": dict(normal=4.0, flash=0.5, sklearn=1.0),
    "fashion": {},
    "sift": {},
}
REAL = ("geo", "fashion", "sift")


class Numpy:
    """Draws on the host."""

    def __init__(self, seed):
        self.g = np.random.default_rng(seed)

    def normal(self, *shape):
        return self.g.standard_normal(shape, dtype="f4")

    def unit(self, n):
        return self.g.random(n, dtype="f4")

    def below(self, most, n):
        return self.g.integers(0, most, n)

    def order(self, n):
        return self.g.permutation(n)

    def put(self, a):
        return a

    def exp(self, a):
        return np.exp(a)

    def half(self, a):
        return a.astype("f2")


class Torch:
    """The same on a torch device; other numbers."""

    def __init__(self, seed, device):
        import torch
        self.torch, self.device = torch, device
        self.g = torch.Generator(device=device).manual_seed(seed)
        self.exp = torch.exp

    def normal(self, *shape):
        return self.torch.randn(shape, device=self.device, generator=self.g)

    def unit(self, n):
        return self.torch.rand(n, device=self.device, generator=self.g)

    def below(self, most, n):
        return self.torch.randint(0, most, (n,), device=self.device, generator=self.g)

    def order(self, n):
        return self.torch.randperm(n, device=self.device, generator=self.g)

    def put(self, a):
        return self.torch.as_tensor(a, device=self.device)

    def half(self, a):
        return a.half()


def draw_for(name, device):
    """A generator of the set's own, whichever other sets are made."""
    seed = SEED + list(SETS).index(name)
    return Numpy(seed) if device == "cpu" else Torch(seed, device)


def made(name, n, d, k, draw):
    x = draw.normal(n, d)
    if name == "clustered":
        x += 4 * draw.normal(k, d)[draw.below(k, n)]
    elif name.startswith("outlier"):
        x[7, 3] = float(name[7:])
    elif name == "sentinels":
        x[draw.unit(n) < 0.02, 2] = -9999
    elif name == "lognormal":
        x = draw.exp(2 * x)
    elif name == "cauchy":
        below = draw.normal(n, d)
        below[below == 0] = 1  # one in some hundred millions
        x /= below
    elif name.startswith("column"):
        x[:, 1] *= float(name[6:])
    elif name == "scales":
        x *= 10 ** (6 * draw.unit(d) - 3)
    elif name == "nested":
        x += 1e4 * draw.normal(32, d)[draw.below(32, n)]
    elif name == "dupes":
        copies = draw.unit(n) < 0.9
        x[copies] = draw.normal(50, d)[draw.below(50, n)[copies]]
    elif name == "spikes16":
        x = draw.half(x)
        x[draw.below(n, 20), draw.below(d, 20)] = 6e4
    return x


def real(name, fashion):
    if name == "geo":
        folder = os.path.join(data.TEST_DATA, "geo-cities")
        people = np.load(os.path.join(folder, "population_i32.npy"))
        return np.column_stack([data.cities(None)[0], people]).astype("f4")
    if name == "fashion":
        return data.read_idx(fashion or os.path.join(data.TEST_DATA, "fashion-mnist",
                                                     "t10k-images-idx3-ubyte.gz"))
    return np.ascontiguousarray(data.sift(None)[0])


def rows_of(name, n, d, k, device, fashion=None):
    """[n, d] of a set. Real data have a d of their own and, on the host, no more rows than the file;
    elsewhere rows are repeated until there are n."""
    draw = draw_for(name, device)
    if name not in REAL:
        return made(name, n, d, k, draw)
    x = draw.put(real(name, fashion))
    if n <= len(x) or device == "cpu":
        return x[draw.order(len(x))[:n]]
    x = x.repeat(-(-n // len(x)), 1)[:n].contiguous()
    if name == "geo":
        x[:, :2] += JITTER * draw.normal(n, 2)
    return x


def start(x, k, device):
    """k distinct rows in the order drawn, as float32 on the host."""
    draw = Numpy(SEED) if device == "cpu" else Torch(SEED, device)
    rows = x[draw.order(len(x))[:32 * k]]
    rows = (rows if device == "cpu" else rows.cpu().numpy()).astype("f4")
    first = np.sort(np.unique(rows, axis=0, return_index=True)[1])[:k]
    if len(first) < k:
        raise ValueError(f"only {len(first)} distinct rows for {k} clusters")
    return np.ascontiguousarray(rows[first])
