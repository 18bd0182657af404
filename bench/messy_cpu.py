# SPDX-License-Identifier: Apache-2.0
"""Rows of messy.py on the CPU: contenders as rivals.py runs them, each in a process of its own."""
import os
import time

import numpy as np

import hf
import messy_sets
import rivals
import verify

SHAPES = [(100_000, 100, 20), (50_000, 256, 64)]  # n, k, d
RIVAL = "sklearn"
FEW, MANY = 1, 6  # iterations whose difference is timed


class Bench:
    def __init__(self, args, rows):
        self.args, self.left, self.end = args, rows, time.time() + args.budget
        self.run = rivals.Run(args)
        os.sched_setaffinity(0, self.run.cpus)
        self.ours = hf.Holdfast(args.lib, args.threads)
        self.device = rivals.cpu_name()
        self.normal = rivals.Contender("holdfast:normal", args, self.run.cpus)
        self.loaded = None  # what data of it

    def versions(self):
        return dict(self.run.versions, holdfast=self.ours.version, threads=self.args.threads,
                    isas=self.run.isas)

    def close(self):
        for contender in [self.normal, *self.run.contenders.values()]:
            contender.close()
        self.run.folder.cleanup()

    def problem(self, name, n, k, d):
        """Rows of a set, and centroids some iterations after k of them."""
        x = messy_sets.rows_of(name, n, d, k, "cpu", self.args.fashion)
        c = messy_sets.start(x, k, "cpu")
        return x, self.ours.fit(x, c, messy_sets.BEFORE, -1.0, "off", empty=2)["centroids"]

    def save(self, who, x, c):
        paths = {what: os.path.join(self.run.folder.name, f"{who}-{what}.npy")
                 for what in ("x", "init")}
        np.save(paths["x"], x)
        np.save(paths["init"], c)
        return paths

    def tasks(self, x, c):
        """What each contender is asked; saved labels are of `who`.npz. Of float16 rows scikit-learn
        would make float64 ones."""
        found, dtype = {}, x.dtype
        if self.loaded != (x.shape, len(c), dtype):
            xn, cn = self.problem("normal", len(x), len(c), x.shape[1])
            self.normal.ask(do="load", **self.save("normal", xn.astype(dtype), cn))
            self.loaded = (x.shape, len(c), dtype)
        self.run.get("holdfast:auto").ask(do="load", **self.save("ours", x, c))
        found["ours"] = self.run.get("holdfast:auto")
        found["normal"] = self.normal
        sklearn = None if self.args.no_rival else self.run.get("sklearn-lloyd")
        if sklearn:
            sklearn.ask(do="load", **self.save("rival", x.astype("f4"), c))
            found["rival"] = sklearn
        return {who: (contender, dict(do="iterate", few=FEW, many=MANY, skipping="off",
                                      save=os.path.join(self.run.folder.name, who + ".npz")))
                for who, contender in found.items()}

    def wrong(self, x, who):
        with np.load(os.path.join(self.run.folder.name, who + ".npz")) as saved:
            return verify.wrong_labels(x, saved["centroids"], saved["labels"], cheap=np.inf,
                                       want=verify.by_definition)

    def row(self, name, n, k, d):
        x, c = self.problem(name, n, k, d)
        row = dict(what="messy", data=name, n=len(x), k=k, d=x.shape[1],
                   dtype={"f2": "f16", "f4": "f32"}[x.dtype.str[1:]])
        share = (self.end - time.time()) / max(1, self.left)
        self.left -= 1
        answers = self.run.rounds(dict(name=name), self.tasks(x, c), share)
        for who in ("ours", "normal"):
            if not answers[who]:
                raise RuntimeError(f"no time of {who}: its process gave none")
        row["samples"] = {who: [a["sample"] for a in got] for who, got in answers.items()}
        row.update((who, rivals.median(t)) for who, t in row["samples"].items() if t)
        last = answers["ours"][-1]
        row["kernels"] = last["kernels"]
        for tier in ("rechecked", "float64"):
            if last[tier]:
                row[tier] = float(np.mean(last[tier][FEW:] or last[tier])) / len(x)
        row["wrong"], row["looked"] = self.wrong(x, "ours")
        if "rival" in row:
            row["rival_wrong"] = self.wrong(x, "rival")[0]
        return row
