# SPDX-License-Identifier: Apache-2.0
"""Rows of messy.py on a GPU: data made and checked there with torch, flash-kmeans beside."""
import functools
import statistics

import torch

import gpu_fit
import hf
import messy_sets
from gpu_measure import DEV, KEEP, SHORT, clock_mhz, differ, flash, nearest, time_rival

SHAPES = [(1_000_000, 100, 20), (1_000_000, 1024, 128)]  # n, k, d
RIVAL = "flash"
FEW = 2  # iterations before those that are timed
SPAN = 0.5  # seconds that these take at most
CHECKED = 65_536  # rows at least, and
PAIRS = 8e9       # multiply-adds at least that labels are checked with


class Bench:
    def __init__(self, args, rows):
        self.args = args
        self.ours = hf.Holdfast(args.lib, 0, DEV)
        self.flash, _, self.rival = (None, None, None) if args.no_rival else flash()
        self.device = torch.cuda.get_device_name(0)

    def versions(self):
        return dict(holdfast=self.ours.version, torch=torch.__version__, flash_kmeans=self.flash)

    def close(self):
        self.ours.close()

    def problem(self, name, n, k, d, dtype=None):
        """Rows of a set, and centroids some iterations after k of them."""
        x = messy_sets.rows_of(name, n, d, k, DEV, self.args.fashion)
        x = x if dtype is None else x.to(dtype)
        c = torch.as_tensor(messy_sets.start(x, k, DEV), device=DEV)
        torch.cuda.synchronize()  # the library's stream does not wait for torch's
        return x, torch.as_tensor(self.fit(x, c, messy_sets.BEFORE)["centroids"], device=DEV)

    @functools.lru_cache(maxsize=1)
    def normal(self, n, k, d, dtype):
        return self.problem("normal", n, k, d, dtype)

    def fit(self, x, c, iterations):
        return self.ours.fit(x, c, iterations, -1.0, "off", empty=KEEP)

    def sample(self, x, c, steps):
        """Seconds of one of `steps` iterations after the first few, and the fit."""
        few, many = self.fit(x, c, FEW), self.fit(x, c, FEW + steps)
        made = many["iterations"] - few["iterations"]
        if made < 1:
            raise RuntimeError(f"converged within {few['iterations']} iterations: nothing to time")
        return (many["seconds"]["iterate"] - few["seconds"]["iterate"]) / made, many

    def steps(self, seconds):
        """Iterations for a sample, when the first take so long each."""
        return max(2, min(self.args.steps, int(SPAN / seconds)))

    def steps_of(self, x, c):
        for _ in range(2):  # the first time warms up
            r = self.fit(x, c, FEW)
        return self.steps(r["seconds"]["iterate"] / r["iterations"])

    def row(self, name, n, k, d):
        torch.cuda.empty_cache()
        torch.manual_seed(messy_sets.SEED)  # of the rows that are checked
        x, c = self.problem(name, n, k, d)
        n, d = x.shape
        row = dict(what="messy", data=name, n=n, k=k, d=d, dtype=SHORT[x.dtype])
        both = {"ours": (x, c), "normal": self.normal(n, k, d, x.dtype)}
        torch.cuda.synchronize()
        steps = {who: self.steps_of(*p) for who, p in both.items()}
        row["samples"] = {who: [] for who in both}
        for _ in range(self.args.rounds):
            for who, p in both.items():
                seconds, r = self.sample(*p, steps[who])
                row["samples"][who].append(seconds)
                if who == "ours":
                    fit = r
        row["clock"] = clock_mhz()
        row.update((who, statistics.median(t)) for who, t in row["samples"].items())
        self.note(row, x, fit)
        if self.rival:
            self.time_flash(row, x, c)
        return row

    def note(self, row, x, fit):
        """Kernels, tiers and labels of a fit."""
        later = fit["history"][FEW:]
        row["kernels"] = fit["kernels"]
        for tier in ("rechecked", "float64"):
            if "rows_" + tier in later[0]:
                row[tier] = statistics.mean(h["rows_" + tier] for h in later) / row["n"]
        row["looked"] = self.checked(row)
        there = [torch.as_tensor(fit[what], device=DEV) for what in ("centroids", "labels")]
        row["wrong"] = differ(there[1], nearest(x, there[0], row["looked"]))

    def checked(self, row):
        return int(min(row["n"], max(CHECKED, PAIRS / (row["k"] * row["d"]))))

    def time_flash(self, row, x, c):
        """Its iterations, and the labels that the first of them gives, in the data's own type."""
        x3, c3, times = x[None], c.to(x.dtype)[None].contiguous(), []

        def theirs(iterations):
            return gpu_fit.seconds_of(lambda: self.rival(
                x3, row["k"], max_iters=iterations, tol=-1.0, init_centroids=c3))

        def measure():
            steps = self.steps(theirs(FEW) / FEW)
            times.extend((theirs(FEW + steps) - theirs(FEW)) / steps for _ in range(self.args.rounds))
            labels = self.rival(x3, row["k"], max_iters=1, tol=-1.0, init_centroids=c3)[0][0]
            row["rival_wrong"] = differ(labels, nearest(x, c3[0], row["looked"]))
            return statistics.median(times)
        time_rival(row, lambda: theirs(FEW), measure)
        if "flash" in row:
            row["rival"], row["samples"]["rival"] = row.pop("flash"), times
