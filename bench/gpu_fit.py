# SPDX-License-Identifier: Apache-2.0
"""Iterations, whole fits, starts and batches of gpu.py."""
import statistics
import time
import zlib

import torch

import hf
from gpu_measure import (DEV, KEEP, N, SHORT, clock_mhz, images, make, product_rate, rate, time_rival,
                         wrong)
from rows import judge, ms, shape

ITERATE = [  # batch, n, k, d; bars with centroids in 16 bits: milliseconds, times as fast
    (32, 131_072, 128, 128, 0.45, 3.0), (1, N, 4096, 128, 1.5, 2.15), (1, 8 * N, 1024, 128, 3.5, 2.2),
    (32, 65_536, 1024, 128, 0.95, 2.55), (32, 131_072, 1024, 128, 1.8, 2.35),
    (8, 16_384, 128, 128, 0.03, 15.0), (1, 16_384, 128, 64, 0.015, 25.0)]
WIDE = 1.3  # times as fast with centroids in float32
EXACT = [  # iterations of float32 data
    (1, N, 4096, 128, 4.2, None), (1, N, 4096, 512, None, 1.5), (1, 4 * N, 100, 16, None, 3.0)]
BATCH = [(32, 65_536, 1024, 128), (512, 1024, 16, 64)]  # whole calls of 20 iterations
WHOLE = [(4_000_000, 8, 8, 8.0)]  # the same of one problem; n, k, d; bar: milliseconds
START = [(0, "k-means++", 10.0), (1, "k-means||", 3.0)]  # bars: iterations
FIT = 4.0  # times as fast
CHECKED = 65_536  # rows of a whole call whose labels are compared with float64


def seconds_of(call):
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def iterate_row(what, ours, rival, batch, n, k, d, most, least, dtype, kind, args):
    """Seconds an iteration: the difference of fits of few and of many iterations."""
    x, c = make(batch * n, k, d, kind, dtype, 8)
    few, many = 4, 4 + args.steps
    row = dict(what=what, batch=batch, n=n, k=k, d=d, dtype=SHORT[dtype], data=kind,
               product=product_rate(dtype))
    xs = [x[b * n:(b + 1) * n] for b in range(batch)]
    c32 = c.float().contiguous()
    torch.cuda.synchronize()  # the library's stream does not wait for torch's

    def run(iterations, store):
        """Seconds of all iterations, without what comes before and after them; the fits."""
        if batch == 1:
            r = [ours.fit(x, c32, iterations, -1, args.skipping, empty=KEEP, store=store)]
        else:
            r = ours.fit_batch(xs, c32, iterations, -1, skipping=hf.SKIP[args.skipping], empty=KEEP,
                               store=store)
        return max(f["seconds"]["iterate"] for f in r), r  # problems of a batch go together

    for name, store in (("same", 1), ("wide", 0)) if dtype != torch.float32 else (("wide", 0),):
        run(few, store)
        times = [(run(many, store)[0] - run(few, store)[0]) / (many - few) for _ in range(args.repeats)]
        row.setdefault("clock", clock_mhz())
        row[name] = statistics.median(times)
        r = run(many, store)[1]
        row[name + "_kernels"] = r[0]["kernels"]
        row[name + "_wrong"] = wrong(xs[0], r[0]["centroids"], r[0]["labels"])
    if rival:
        x3, c3 = x.view(batch, n, d), c[None].expand(batch, k, d).contiguous()

        def theirs(iterations):
            return seconds_of(lambda: rival(x3, k, max_iters=iterations, tol=-1.0, init_centroids=c3))
        time_rival(row, lambda: theirs(few), lambda: statistics.median(
            (theirs(many) - theirs(few)) / (many - few) for _ in range(args.repeats)))
    judge_iterate(row, most, least)
    return row


def judge_iterate(row, most, least):
    mine = row.get("same", row["wide"])
    judge(row, "ms", mine * 1e3, most=most)
    if "flash" in row:
        judge(row, "times flash-kmeans", row["flash"] / mine, least=least)
        if "same" in row:
            judge(row, "f32 centroids, times", row["flash"] / row["wide"], least=WIDE)
    judge(row, "labels wrong", row.get("same_wrong", 0) + row["wide_wrong"], most=0)


def show_iterate(row):
    mine, flash = row.get("same", row["wide"]), row.get("flash")
    return (f"{shape(row)} "
            + (f"16-bit / f32 centroids {ms(row['same'], row['wide'])}" if "same" in row else ms(mine))
            + f" an iteration, flash-kmeans {ms(flash)}"
            + (f" ({flash / mine:.2f}x / {flash / row['wide']:.2f}x)" if flash else "")
            + f", {rate(row, mine)}, wrong {row.get('same_wrong', '-')}/{row['wide_wrong']}")


def fit_row(ours, rival, name, x, k, args):
    """A whole fit, ours to its own end; the rival makes as many iterations from the same start."""
    g = torch.Generator(device=DEV).manual_seed(9)
    c = x[torch.randperm(len(x), device=DEV, generator=g)[:k]].contiguous()
    row = dict(what="fit", n=len(x), k=k, d=x.shape[1], dtype=SHORT[x.dtype], data=name,
               product=product_rate(x.dtype))
    c32 = c.float()
    torch.cuda.synchronize()  # the library's stream does not wait for torch's
    ours.fit(x, c32, 300, 1e-4, "auto", empty=KEEP)
    for key, skipping in (("dense", "off"), ("wide", "auto")):
        runs = [ours.fit(x, c32, 300, 1e-4, skipping, empty=KEEP) for _ in range(args.repeats)]
        row[key], r = statistics.median(r["seconds"]["call"] for r in runs), runs[0]
        row["iterations"] = r["iterations"]
        row[key + "_labels"] = zlib.crc32(r["labels"].tobytes())
    row["clock"] = clock_mhz()
    row["wide_wrong"] = wrong(x, r["centroids"], r["labels"])
    if rival:
        def theirs():
            return seconds_of(lambda: rival(x[None], k, max_iters=row["iterations"], tol=-1.0,
                                            init_centroids=c[None]))
        time_rival(row, theirs, lambda: statistics.median(theirs() for _ in range(args.repeats)))
    if "flash" in row:
        judge(row, "times flash-kmeans", row["flash"] / row["wide"], least=FIT)
    judge(row, "labels unlike the dense path's", int(row["dense_labels"] != row["wide_labels"]), most=0)
    judge(row, "labels wrong", row["wide_wrong"], most=0)
    return row


def show_fit(row):
    flash = row.get("flash")
    return (f"{shape(row)} {row['iterations']} iterations in {ms(row['wide'])}, without skipping "
            f"{ms(row['dense'])}, flash-kmeans {ms(flash)}"
            + (f" ({flash / row['wide']:.2f}x)" if flash else "") + f", {rate(row, row['wide'])}")


def batch_row(ours, rival, batch, n, k, d, dtype, args):
    """A call with everything, from rows drawn at random; results of ours come to the host."""
    x = make(batch * n, k, d, "normal", dtype, 14)[0]
    xs, steps = [x[b * n:(b + 1) * n] for b in range(batch)], 20
    row = dict(what="batch", batch=batch, n=n, k=k, d=d, dtype=SHORT[dtype], data="normal",
               iterations=steps, product=product_rate(dtype))
    torch.cuda.synchronize()  # the library's stream does not wait for torch's
    parts = []
    for _ in range(args.repeats + 1):
        r = ours.fit_batch(xs, k, steps, -1, skipping=hf.SKIP[args.skipping], empty=KEEP)
        s = [f["seconds"] for f in r]
        parts.append(dict(call=s[0]["call"], begin=sum(t["init"] for t in s),
                          iterate=max(t["iterate"] for t in s), end=sum(t["finish"] for t in s)))
    row["clock"] = clock_mhz()
    row.update({key: statistics.median(p[key] for p in parts[1:]) for key in parts[0]})
    row["kernels"] = r[0]["kernels"]
    row["wrong"] = wrong(xs[-1], r[-1]["centroids"], r[-1]["labels"])
    if rival:
        def theirs():
            return seconds_of(lambda: rival(x.view(batch, n, d), k, max_iters=steps, tol=-1.0))
        time_rival(row, theirs, lambda: statistics.median(theirs() for _ in range(args.repeats)))
    judge(row, "labels wrong", row["wrong"], most=0)
    return row


def show_batch(row):
    flash = row.get("flash")
    return (f"{shape(row)} {row['iterations']} iterations, the whole call {ms(row['call'])}: begin "
            f"{ms(row['begin'])}, iterations {ms(row['iterate'])}, end {ms(row['end'])}; flash-kmeans "
            f"{ms(flash)}" + (f" ({flash / row['call']:.2f}x)" if flash else ""))


def whole_row(ours, rival, n, k, d, most, args):
    """A call from float32 rows on the device to labels on the host, as users begin it: from rows, with
    work skipping where it pays; the rival makes as many iterations, and its labels are brought too."""
    x, c = make(n, k, d, "normal", torch.float32, 16)
    steps = 20
    row = dict(what="whole", n=n, k=k, d=d, dtype="f32", data="normal", iterations=steps)
    torch.cuda.synchronize()  # the library's stream does not wait for torch's
    runs = [ours.fit(x, c, steps, -1, "auto", empty=KEEP) for _ in range(args.repeats + 1)]
    row["samples"] = [r["seconds"] for r in runs[1:]]
    row["clock"] = clock_mhz()
    row.update({part: statistics.median(s[part] for s in row["samples"])
                for part in ("call", "init", "iterate", "finish")})
    row["kernels"], row["iterations"] = runs[0]["kernels"], runs[0]["iterations"]
    row["wrong"] = wrong(x, runs[0]["centroids"], runs[0]["labels"], CHECKED)
    if rival:
        def theirs():
            return seconds_of(lambda: rival(x[None], k, max_iters=row["iterations"], tol=-1.0,
                                            init_centroids=c[None])[0].cpu())

        def measure():
            row["flash_samples"] = [theirs() for _ in range(args.repeats)]
            return statistics.median(row["flash_samples"])
        time_rival(row, theirs, measure)
    judge(row, "call, ms", row["call"] * 1e3, most=most)
    judge(row, "labels wrong", row["wrong"], most=0)
    return row


def show_whole(row):
    flash = row.get("flash")
    return (f"{shape(row)} {row['iterations']} iterations, the whole call {ms(row['call'])}: init "
            f"{ms(row['init'])}, iterations {ms(row['iterate'])}, finish {ms(row['finish'])}; flash-kmeans "
            f"with its labels on the host {ms(flash)}" + (f" ({flash / row['call']:.2f}x)" if flash else ""))


def start_row(ours, init, name, most, args):
    """What a start costs, in plain iterations of the same fit: those of a fit without work skipping."""
    x = make(4 * N, 1024, 128, "clustered", torch.float16, 11)[0]
    row = dict(what="start", n=len(x), k=1024, d=128, dtype="f16", data="clustered", init=name)
    runs = [ours.start(x, 1024, init, 12) for _ in range(args.repeats + 1)][1:]
    row["clock"] = clock_mhz()
    row["wide"] = statistics.median(r["seconds"]["init"] for r in runs)
    row["iteration"] = statistics.median(r["seconds"]["iterate"] / r["iterations"] for r in runs)
    judge(row, "iterations", row["wide"] / row["iteration"], most=most)
    return row


def show_start(row):
    return f"{shape(row)} {row['init']} {ms(row['wide'])}, a plain iteration {ms(row['iteration'])}"


def iterate_jobs(what, kind, ours, rival, args):
    """Rows "iterate" (float16) or "exact" (float32)."""
    shapes, dtype = {"iterate": (ITERATE, torch.float16), "exact": (EXACT, torch.float32)}[what]
    return [(f"{what} {kind} {s[0]} x {s[1]} x {s[3]}, k {s[2]}",
             lambda s=s: iterate_row(what, ours, rival, *s, dtype, kind, args))
            for s in shapes]


def fit_jobs(ours, rival, args):
    def blobs():
        x = make(4 * N, 1024, 128, "clustered", torch.float16, 10)[0]
        return fit_row(ours, rival, "clustered", x, 1024, args)

    def fashion():
        x, note = images(args.fashion)
        return dict(fit_row(ours, rival, "images", x.to(DEV), 1024, args), note=note)
    return [("fit clustered", blobs), ("fit images", fashion)]


def batch_jobs(ours, rival, args):
    return [(f"batch {s[0]} x {s[1]} x {s[3]}, k {s[2]}",
             lambda s=s: batch_row(ours, rival, *s, torch.float16, args)) for s in BATCH]


def whole_jobs(ours, rival, args):
    return [(f"whole {s[0]} x {s[2]}, k {s[1]}", lambda s=s: whole_row(ours, rival, *s, args))
            for s in WHOLE]


def start_jobs(ours, args):
    return [(f"start {s[1]}", lambda s=s: start_row(ours, *s, args)) for s in reversed(START)]
