#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""identity.py LIBRARY [--device NAME] [--threads N] [--write FILE | --compare FILE] [--filter TEXT]

Results are the same bits on every device, with every instruction set and number of threads, and from one
version to the next. This makes some 240 exact fits on data of all kinds, types, metrics, starts and policies
and prints the CRC-32 of labels, of centroids and of inertia, iterations and sizes for each. The default is
--compare tests/data/identity.tsv; fits that differ are named, and the exit status is 1. --write is for a
change that is meant to change results, which the changelog must then name."""
import argparse
import ctypes as C
import itertools
import os
import sys
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "bench"))
import hf  # noqa: E402

GOLDEN = os.path.join(HERE, "data", "identity.tsv")
COLUMNS = "fit\tlabels\tcentroids\tinertia\titerations"
SKIPPED = 77


class Draw:
    """Numbers from a counter by integer arithmetic (splitmix64): the same with every NumPy."""

    def __init__(self, seed):
        self.next = np.uint64(seed) << np.uint64(40)

    def bits(self, count):
        z = self.next + np.arange(1, count + 1, dtype=np.uint64)
        self.next += np.uint64(count)
        z = z * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    def unit(self, *shape):
        """In [0, 1)."""
        values = self.bits(int(np.prod(shape))) >> np.uint64(11)
        return (values.astype("f8") * 2.0**-53).reshape(shape)

    def bell(self, *shape):
        """Nearly normal: mean 0, variance 1."""
        return (self.unit(*shape) + self.unit(*shape) + self.unit(*shape) - 1.5) * 2.0

    def below(self, most, count):
        return (self.bits(count) % np.uint64(most)).astype("i8")


def clusters(g, n, d):
    return 4 * g.bell(11, d)[g.below(11, n)] + g.bell(n, d)


def with_outlier(g, n, d):
    x = clusters(g, n, d)
    x[g.below(n, 1)[0], 0] = 1e8
    return x


def with_sentinels(g, n, d):
    x = clusters(g, n, d)
    x[g.below(n, max(1, n // 50)), 0] = -9999
    return x


def with_wide_column(g, n, d):
    x = clusters(g, n, d)
    x[:, d // 2] *= 1e5
    return x


def heavy_tails(g, n, d):
    return g.bell(n, d) / (0.001 + g.unit(n, d))


def nested(g, n, d):
    scale = 10.0 ** g.below(5, n)
    return clusters(g, n, d) * scale[:, None]


def duplicates(g, n, d):
    return clusters(g, 40, d)[g.below(40, n)]


def ties(g, n, d):
    return g.below(3, n * d).reshape(n, d).astype("f8")


KINDS = [clusters, with_outlier, with_sentinels, with_wide_column, heavy_tails, nested, duplicates, ties]
SHAPES = [(1, 1, 1), (37, 5, 3), (700, 8, 2), (3001, 33, 20), (2500, 100, 16), (1800, 64, 129), (1500, 17, 300),
          (6000, 260, 64), (20000, 12, 8)]
METRICS = ["euclidean", "cosine", "dot"]


def as_type(x, dtype):
    """An hf.Array of a C-contiguous copy, and the copy."""
    if dtype == "u8":
        low, high = x.min(), x.max()
        a = np.floor((x - low) * (255 / (high - low if high > low else 1))).astype("u1")
    elif dtype == "bf16":  # cut, not rounded: the upper half of a float32
        a = (np.clip(x, -1e30, 1e30).astype("f4").view("u4") >> 16).astype("u2")
        return hf.Array(a.ctypes.data, 4, a.shape[0], a.shape[1], 0), a
    else:
        a = np.clip(x, -6e4, 6e4).astype("f2") if dtype == "f16" else x.astype({"f32": "f4", "f64": "f8"}[dtype])
    a = np.ascontiguousarray(a)
    return hf.view(a), a


def fits():
    """(name, data maker, shape, dtype, options, weighted): every shape with every kind of data, in three types;
    what else there is by lot."""
    for number, ((n, k, d), kind, turn) in enumerate(itertools.product(SHAPES, KINDS, range(3))):
        lot = Draw(1000 + number)
        dtype = ("f32", ("f64", "u8")[lot.below(2, 1)[0]], ("f16", "bf16")[lot.below(2, 1)[0]])[turn]
        metric, init, empty, skipping, weighted, same = (int(lot.below(most, 1)[0]) for most in (5, 3, 3, 3, 4, 3))
        options = {"metric": max(0, metric - 2), "init": init, "empty": empty, "skipping": skipping,
                   "n_init": 1 + (number % 13 == 0), "store": int(turn == 2 and same == 0), "max_iter": 5 + number % 9,
                   "seed": number, "tol": (0, -1)[number % 2]}
        name = (f"{number}:{kind.__name__}:{dtype}:{n}x{d}:k{k}:{METRICS[options['metric']]}:init{init}:empty{empty}"
                f":skip{skipping}{':weights' if weighted == 0 else ''}{':same' if options['store'] else ''}")
        yield name, kind, (n, k, d), dtype, options, weighted == 0


def digest(lib, fit):
    """The line of a fit, without its name."""
    name, kind, (n, k, d), dtype, options, weighted = fit
    g = Draw(options["seed"] + 1)
    x, keep = as_type(kind(g, n, d), dtype)
    options = dict(options, k=k)
    if weighted:
        weights = np.ascontiguousarray((g.unit(n, 1) + 0.25).astype("f4"))
        options["weights"] = C.pointer(hf.view(weights))
    opts, result = hf.Opts(**options), hf.Result()
    status = lib.lib.hf_kmeans_fit(lib.ctx, C.byref(x), C.byref(opts), C.byref(result))
    del keep
    if status:
        message = lib.lib.hf_last_error(lib.ctx).decode()
        return f"-\t-\t{zlib.crc32(str(status).encode()):08x}\t-", message
    inertia, iterations = result.inertia, result.iterations
    out = lib._take(result)
    parts = out["labels"], out["centroids"], np.float64(inertia)
    crc = [zlib.crc32(np.ascontiguousarray(part).tobytes()) for part in parts]
    return "\t".join(f"{c:08x}" for c in crc) + f"\t{iterations}", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--compare", metavar="FILE", default=GOLDEN)
    parser.add_argument("--part", metavar="I/N", default="0/1", help="only fit I of each N")
    parser.add_argument("--filter", default="", help="only fits whose name holds this")
    args = parser.parse_args()
    try:
        lib = hf.Holdfast(args.library, args.threads, args.device)
    except RuntimeError as error:
        if args.device == "cpu":  # which is always there
            raise
        print(f"skipped: {error}")
        return SKIPPED
    lines, failed = [COLUMNS], []
    first, step = map(int, args.part.split("/"))
    for fit in itertools.islice(fits(), first, None, step):
        if args.filter in fit[0]:
            line, message = digest(lib, fit)
            lines.append(f"{fit[0]}\t{line}")
            if message:
                failed.append(f"{fit[0]}: {message}")
    if failed:
        print("\n".join(failed))
        return 1
    if args.write:
        with open(args.write, "w") as f:
            f.write("\n".join(lines) + "\n")
        print(f"{len(lines) - 1} fits written to {args.write}")
        return 0
    with open(args.compare) as f:
        known = dict(line.rstrip("\n").split("\t", 1) for line in f)
    different = [line for line in lines if known.get(line.split("\t", 1)[0]) != line.split("\t", 1)[1]]
    for line in different:
        name, now = line.split("\t", 1)
        print(f"{name}\n    was {known.get(name, 'not there')}\n    is  {now}")
    print(f"{len(lines) - 1} fits on {args.device}: {len(different)} differ from {os.path.basename(args.compare)}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
