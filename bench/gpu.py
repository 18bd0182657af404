#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""holdfast against flash-kmeans on one NVIDIA GPU: the assignment step, whole Lloyd iterations, fits.

Both run in this process on the same tensors; medians of device time after a warm-up. Labels are compared
with float64 on a sample of rows. Beside each figure stand the rate of the library's matrix product
(torch, bf16, 8192^3) measured just before, and the clock read just after. Needs torch; rows of
flash-kmeans need it installed. The library is the target holdfast_dev_shared of the build."""
import argparse
import ctypes as C
import datetime
import json
import statistics
import sys
import time
import zlib

import torch

import hf

DEV = "cuda:0"
N = 1 << 20
KEEP = 2  # what flash-kmeans does with an empty cluster: its centroid stays
ASSIGN = [  # n, k, d, times as fast as flash-kmeans (plain kernel)
    (N, 4096, 64, 2.8), (N, 4096, 128, 2.05), (N, 4096, 256, 2.4), (N, 4096, 512, 2.0),
    (N, 1024, 128, 2.1), (N, 256, 128, 2.1), (N, 65536, 128, 1.85), (10_000_000, 20_000, 128, 2.6),
    (N, 4096, 32, None), (8 * N, 1024, 32, 3.0), (65_536, 4096, 1024, 1.33)]
ITERATE = [  # batch, n, k, d, times as fast (centroids in 16 bits; 1.3 with float32)
    (32, 65_536, 1024, 128, 2.55), (32, 131_072, 1024, 128, 2.35), (32, 131_072, 128, 128, 3.0),
    (8, 16_384, 128, 128, 15.0), (1, 16_384, 128, 64, 25.0), (1, N, 4096, 128, 2.15),
    (1, 8 * N, 1024, 128, 2.2)]
EXACT = [  # f32 iterations: n, k, d, times as fast
    (N, 4096, 128, None), (N, 4096, 512, 1.5), (4 * N, 100, 16, 3.0)]


def flash():
    try:
        import flash_kmeans
        from flash_kmeans.assign_euclid_triton import euclid_assign_triton
        from flash_kmeans.kmeans_triton_impl import batch_kmeans_Euclid
        return flash_kmeans.__version__, euclid_assign_triton, batch_kmeans_Euclid
    except ImportError as e:
        print(f"flash-kmeans is not here: {e}", file=sys.stderr)
        return None, None, None


def clock_mhz():
    try:
        return torch.cuda.clock_rate(0)
    except Exception:  # needs nvidia-ml-py
        return None


def spans(call, rounds, sustained=0.0):
    """Median device seconds of a call; with `sustained`, of calls back to back for that long."""
    call()
    torch.cuda.synchronize()
    if sustained:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start, count = time.perf_counter(), 0
        begin.record()
        while time.perf_counter() - start < sustained:
            call()
            count += 1
            torch.cuda.synchronize()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / count
    seconds = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        seconds.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(seconds)


def product_rate():
    n = 8192
    a, b = (torch.randn(n, n, device=DEV, dtype=torch.bfloat16) for _ in range(2))
    return 2 * n ** 3 / spans(lambda: a @ b, 5)


def make(n, k, d, kind, dtype, seed):
    g = torch.Generator(device=DEV).manual_seed(seed)
    c = torch.randn(k, d, device=DEV, generator=g)
    x = torch.empty(n, d, device=DEV, dtype=dtype)
    for i in range(0, n, N):
        m = min(N, n - i)
        noise = torch.randn(m, d, device=DEV, generator=g)
        if kind == "clustered":
            noise = 2 * c[torch.randint(0, k, (m,), device=DEV, generator=g)] + 0.9 * noise
        x[i:i + m] = noise.to(dtype)
    return x, x[torch.randperm(n, device=DEV, generator=g)[:k]].contiguous()  # rows, as users begin


def wrong(x, c, labels, sample=4096):
    """How many of a sample of rows have a label that float64 does not give."""
    rows = torch.randperm(len(x), device=DEV)[:sample]
    xs, cs = x[rows].double(), c.double()
    count = 0
    for i in range(0, len(rows), 256):
        d = torch.zeros(len(xs[i:i + 256]), len(cs), device=DEV, dtype=torch.float64)
        for f in range(xs.shape[1]):  # in order, as the reference
            d += (xs[i:i + 256, f, None] - cs[None, :, f]) ** 2
        count += int((d.argmin(1) != labels[rows[i:i + 256]].long()).sum())
    return count


def assign_row(ours, rival, n, k, d, bar, kind, args):
    x, c = make(n, k, d, kind, torch.float16, 7)
    labels = torch.empty(n, device=DEV, dtype=torch.int32)
    row = dict(what="assign", n=n, k=k, d=d, dtype="f16", data=kind, bar=bar, product=product_rate())
    c32 = c.float()
    torch.cuda.synchronize()  # the library's stream does not wait for torch's
    for name, exact in (("fast", False), ("exact", True)):
        t, kernel, rechecked = ours.time_assign(x, c32, labels, args.rounds, exact)
        row[name] = statistics.median(t)
        row[name + "_kernel"], row[name + "_rechecked"] = kernel, rechecked
        row[name + "_wrong"] = wrong(x, c, labels)
    row["clock"] = clock_mhz()
    if rival:
        x3, c3, sq = x[None], c[None], (x.float() ** 2).sum(-1)[None]
        out = torch.empty(1, n, device=DEV, dtype=torch.int32)
        row["flash"] = spans(lambda: rival(x3, c3, sq, out=out), args.rounds)
        row["flash_wrong"] = wrong(x, c, out[0])
    return row


def iterate_row(ours, rival, batch, n, k, d, bar, dtype, kind, args):
    x, c = make(batch * n, k, d, kind, dtype, 8)
    few, many = 4, 4 + args.steps
    row = dict(what="iterate", batch=batch, n=n, k=k, d=d, dtype=str(dtype)[6:], data=kind, bar=bar,
               product=product_rate())
    xs = [x[b * n:(b + 1) * n] for b in range(batch)]
    c32 = c.float().contiguous()
    torch.cuda.synchronize()  # the library's stream does not wait for torch's

    def run(iterations, **more):
        """Seconds of all iterations, without what comes before and after them; the fits."""
        if batch == 1:
            r = [ours.fit(x, c32, iterations, -1, args.skipping, empty=KEEP, **more)]
        else:
            r = ours.fit_batch(xs, c32, iterations, -1, skipping=hf.SKIP[args.skipping], empty=KEEP,
                               **more)
        return max(f["seconds"]["iterate"] for f in r), r  # problems of a batch go together

    stores = (("same", 1), ("wide", 0)) if dtype != torch.float32 else (("wide", 0),)
    for name, store in stores:
        run(few, store=store)
        samples = [(run(many, store=store)[0] - run(few, store=store)[0]) / (many - few)
                   for _ in range(args.repeats)]
        row[name] = statistics.median(samples)
        r = run(many, store=store)[1]
        row[name + "_kernels"] = r[0]["kernels"]
        row[name + "_wrong"] = wrong(xs[0], torch.as_tensor(r[0]["centroids"], device=DEV),
                                     torch.as_tensor(r[0]["labels"], device=DEV), 1024)
    row["clock"] = clock_mhz()
    if rival:
        x3, c3 = x.view(batch, n, d), c[None].expand(batch, k, d).contiguous()

        def theirs(iterations):
            torch.cuda.synchronize()
            start = time.perf_counter()
            rival(x3, k, max_iters=iterations, tol=-1.0, init_centroids=c3)
            torch.cuda.synchronize()
            return time.perf_counter() - start
        theirs(few)
        row["flash"] = statistics.median(
            (theirs(many) - theirs(few)) / (many - few) for _ in range(args.repeats))
    return row


def fit_row(ours, rival, name, x, k, args):
    """A whole fit, ours to its own end; the rival makes as many iterations from the same start."""
    g = torch.Generator(device=DEV).manual_seed(9)
    c = x[torch.randperm(len(x), device=DEV, generator=g)[:k]].contiguous()
    row = dict(what="fit", n=len(x), k=k, d=x.shape[1], dtype=str(x.dtype)[6:], data=name, bar=4.0,
               product=product_rate())

    c32 = c.float()
    torch.cuda.synchronize()  # the library's stream does not wait for torch's

    def run(skipping):
        start = time.perf_counter()
        r = ours.fit(x, c32, 300, 1e-4, skipping, empty=KEEP)
        return time.perf_counter() - start, r
    run("auto")
    for key, skipping in (("dense", "off"), ("wide", "auto")):
        runs = [run(skipping) for _ in range(args.repeats)]
        row[key], r = statistics.median(t for t, _ in runs), runs[0][1]
        row["iterations"] = r["iterations"]
        row[key + "_labels"] = zlib.crc32(r["labels"].tobytes())
    row["wide_wrong"] = int(row["dense_labels"] != row["wide_labels"]) + wrong(
        x, torch.as_tensor(r["centroids"], device=DEV), torch.as_tensor(r["labels"], device=DEV), 1024)
    row["clock"] = clock_mhz()
    if rival:
        def theirs():
            torch.cuda.synchronize()
            start = time.perf_counter()
            rival(x[None], k, max_iters=row["iterations"], tol=-1.0, init_centroids=c[None])
            torch.cuda.synchronize()
            return time.perf_counter() - start
        theirs()
        row["flash"] = statistics.median(theirs() for _ in range(args.repeats))
    return row


def fit_jobs(ours, rival, args):
    def blobs():
        return make(4 * N, 1024, 128, "clustered", torch.float16, 10)[0]

    def fashion():
        import data
        return torch.as_tensor(data.fashion(args.fashion, 60_000, 15)[0], device=DEV)
    jobs = [lambda: fit_row(ours, rival, "clustered", blobs(), 1024, args)]
    if args.fashion:
        jobs.append(lambda: fit_row(ours, rival, "fashion", fashion(), 1024, args))
    return jobs


def seed_row(ours, init, name, args):
    """What a start costs, in plain iterations of the same fit: those of a fit without work skipping."""
    x = make(4 * N, 1024, 128, "clustered", torch.float16, 11)[0]
    row = dict(what="start", n=len(x), k=1024, d=128, dtype="float16", data=name, bar=None,
               product=product_rate())
    runs = [ours.start(x, 1024, init, 12) for _ in range(args.repeats + 1)][1:]
    row["wide"] = statistics.median(r["seconds"]["init"] for r in runs)
    row["iteration"] = statistics.median(r["seconds"]["iterate"] / r["iterations"] for r in runs)
    return row


def host_rate(x):
    """Bytes a second from locked memory to the device."""
    part = x[:max(1, (1 << 30) // (x.shape[1] * x.element_size()))]
    there = torch.empty_like(part, device=DEV)
    return part.numel() * x.element_size() / spans(lambda: there.copy_(part, non_blocking=True), 5)


def fill(x, k):
    """Clustered rows: one block, shifted a little from copy to copy."""
    block, c = make(min(N, len(x)), k, x.shape[1], "clustered", torch.float32, 13)
    for i in range(0, len(x), N):
        m = min(N, len(x) - i)
        x[i:i + m].copy_((block[:m] + 1e-3 * (i // N)).to(x.dtype), non_blocking=True)
    torch.cuda.synchronize()
    return c


def wrong_on_host(x, result, sample=1024):
    rows = torch.randint(0, len(x), (sample,))
    labels = torch.as_tensor(result["labels"][rows.numpy()], device=DEV)
    return wrong(x[rows].to(DEV), torch.as_tensor(result["centroids"], device=DEV), labels, sample)


def stream_row(x, name, bar, args):
    """Iterations with 4 GiB of the device, rows in locked memory; beside them, where that holds all
    of it, the same with all of the device."""
    row = dict(what="stream", n=len(x), k=256, d=x.shape[1], dtype=str(x.dtype)[6:], data=name,
               bar=bar)
    c = fill(x, 256).float().contiguous()
    torch.cuda.empty_cache()
    row["rate"] = host_rate(x)
    torch.cuda.empty_cache()
    least = [torch.cuda.mem_get_info()[0]] * 2

    def look(*_):
        least[1] = min(least[1], torch.cuda.mem_get_info()[0])
        return 0
    seen = hf.PROGRESS(look)
    for key, memory in (("wide", 4 << 30), ("resident", 0)):
        if memory == 0 and bar != "resident":
            continue
        ours = hf.Holdfast(args.lib, 0, "cuda:0", memory)
        # without progress the times are the mean of all iterations, the first among them
        r = ours.fit(x, c, 7, -1, "off", empty=KEEP, progress=C.cast(seen, C.c_void_p))
        times = [i["seconds"] for i in r["history"]]
        row[key], row[key + "_first"] = statistics.median(times[2:]), times[0]
        row[key + "_times"], row[key + "_seconds"] = times, r["seconds"]
        row[key + "_changed"] = [i["changed"] for i in r["history"]]
        row[key + "_rechecked"] = [i["rows_rechecked"] for i in r["history"]]
        row[key + "_wrong"] = wrong_on_host(x, r)
        row[key + "_kernels"] = r["kernels"]
        ours.close()
        if memory:
            row["memory"] = least[0] - least[1]
    row["share"] = x.numel() * x.element_size() / row["wide"] / row["rate"]
    return row


def stream_jobs(args):
    held = []

    def rows(dtype, count):
        size = torch.empty(0, dtype=dtype).element_size()
        if not held:
            held.append(torch.empty(args.stream_gib << 30, dtype=torch.uint8, pin_memory=True))
        return held[0][:count * 128 * size].view(dtype).view(count, 128)
    whole = args.stream_gib << 30
    return [lambda: stream_row(rows(torch.float32, whole // 512), "streamed", "0.95", args),
            lambda: stream_row(rows(torch.float16, whole // 256), "streamed", "0.95", args),
            lambda: stream_row(rows(torch.float32, 9 << 20), "16 bits", "resident", args),
            lambda: stream_row(rows(torch.float16, 9 << 20), "16 bits", "resident", args),
            lambda: stream_row(rows(torch.float16, 12 << 20), "16 bits", "resident", args)]


def show_stream(row):
    print(f"stream {row['dtype']} {row['n']} x {row['d']}, k {row['k']} ({row['data']}): "
          f"{row['wide'] * 1e3:.1f} ms an iteration (first {row['wide_first'] * 1e3:.1f}), "
          f"{row['share']:.3f} of {row['rate'] * 1e-9:.1f} GB/s, bar {row['bar']}, device memory "
          f"{row['memory'] / 2 ** 30:.2f} GiB, wrong {row['wide_wrong']}"
          + (f", with all of the device {row['resident'] * 1e3:.1f} ms" if "resident" in row else ""),
          flush=True)
    for key in ("times", "seconds", "changed", "rechecked", "kernels"):
        print("   ", key, row["wide_" + key], row.get("resident_" + key, ""), flush=True)


def once_row(ours, where, args):
    """One-shot use: context, plan and fit of 16384 x 64, the second call and the median of ten."""
    x, c = make(16384, 128, 64, "normal", torch.float16, 13)
    c = c.float().contiguous()
    if where == "host":
        x, c = x.cpu(), c.cpu()
    row = dict(what="once", n=len(x), k=128, d=64, dtype="float16", data=where, bar=1e-3)
    runs = [ours.once(x, c, 20) for _ in range(11)]
    row["second"] = runs[1]
    row["median"] = {key: statistics.median(r[key] for r in runs[1:]) for key in runs[1]}
    return row


def show(row):
    if row["what"] == "stream":
        show_stream(row)
        return
    if row["what"] == "once":
        for key in ("second", "median"):
            print(f"once, data on the {row['data']}, {key}: "
                  + ", ".join(f"{part} {t * 1e3:.3f}" for part, t in row[key].items())
                  + f" ms, bar {row['bar'] * 1e3:.0f}", flush=True)
        return
    mine = row.get("fast", row.get("same", row.get("wide")))
    other = row.get("exact", row.get("wide"))
    if row["what"] == "start":
        print(f"start {row['data']}: {mine * 1e3:.2f} ms, a plain iteration {row['iteration'] * 1e3:.2f} ms: "
              f"{mine / row['iteration']:.1f} iterations", flush=True)
        return
    work = 2.0 * row.get("batch", 1) * row["n"] * row["k"] * row["d"] * row.get("iterations", 1)
    ratio = f"{row['flash'] / mine:6.2f}x" if "flash" in row else "      -"
    slow = f"{row['flash'] / other:6.2f}x" if "flash" in row else "      -"
    errors = "/".join(str(row[key]) for key in row if key.endswith("_wrong"))
    print(f"{row['what']:8s}{row.get('batch', 1):4d}{row['n']:10d}{row['k']:6d}{row['d']:5d} "
          f"{row['dtype']:8s}{row['data']:10s}{mine * 1e3:9.3f}{other * 1e3:9.3f}"
          f"{row.get('flash', float('nan')) * 1e3:9.3f} {ratio}{slow} bar {row['bar'] or '-':>5} "
          f"{work / mine * 1e-12:6.0f} TF ({100 * work / mine / row['product']:3.0f} % of product) "
          f"wrong {errors} {row.get('clock')} MHz", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--lib", required=True, help="libholdfast_dev.so")
    p.add_argument("--results", help="folder for the JSON file")
    p.add_argument("--rounds", type=int, default=10)
    p.add_argument("--steps", type=int, default=20, help="iterations whose time is taken")
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--skipping", default="off", choices=sorted(hf.SKIP))
    p.add_argument("--only", default="assign,iterate,exact,fit,start,once",
                   help="assign, iterate, exact, fit, start, once, stream")
    p.add_argument("--stream-gib", type=int, default=32, help="locked memory of the row stream")
    p.add_argument("--fashion", help="Fashion-MNIST's training images (IDX), for a whole fit")
    p.add_argument("--data", default="normal,clustered")
    p.add_argument("--shapes", type=int, default=99, help="at most so many shapes of each kind")
    p.add_argument("--no-rival", action="store_true")
    p.add_argument("--budget", type=float, default=1e9, help="seconds, then stop with what there is")
    args = p.parse_args()
    begin = time.time()
    version, assign, fit = (None, None, None) if args.no_rival else flash()
    ours = hf.Holdfast(args.lib, 0, "cuda:0")
    jobs = []
    for kind in args.data.split(","):
        if "assign" in args.only:
            jobs += [lambda s=s, kind=kind: assign_row(ours, assign, *s, kind, args)
                     for s in ASSIGN[:args.shapes]]
        if "iterate" in args.only:
            jobs += [lambda s=s, kind=kind: iterate_row(ours, fit, *s, torch.float16, kind, args)
                     for s in ITERATE[:args.shapes]]
        if "exact" in args.only:
            jobs += [lambda s=s, kind=kind: iterate_row(ours, fit, 1, *s, torch.float32, kind, args)
                     for s in EXACT[:args.shapes]]
    if "fit" in args.only:
        jobs += fit_jobs(ours, fit, args)
    if "start" in args.only:
        jobs += [lambda: seed_row(ours, 0, "k-means++", args),
                 lambda: seed_row(ours, 1, "k-means||", args)]
    if "stream" in args.only:
        jobs += stream_jobs(args)
    if "once" in args.only:
        jobs[:0] = [lambda: once_row(ours, "device", args), lambda: once_row(ours, "host", args)]
    rows = []
    for job in jobs:
        if time.time() - begin > args.budget:
            print(f"stopped after {args.budget:.0f} s, {len(jobs) - len(rows)} rows left")
            break
        try:
            rows.append(job())
            show(rows[-1])
        except RuntimeError as e:
            print(f"a row failed: {e}", flush=True)
        torch.cuda.empty_cache()
    if args.results:
        name = torch.cuda.get_device_name(0).split()[-1].lower()
        stamp = datetime.date.today().strftime("%Y%m%d")
        with open(f"{args.results}/{name}-{stamp}.json", "w") as f:
            json.dump(dict(device=torch.cuda.get_device_name(0), torch=torch.__version__,
                           date=stamp, holdfast=ours.version, flash_kmeans=version, rows=rows), f,
                      indent=1)


if __name__ == "__main__":
    main()
