# SPDX-License-Identifier: Apache-2.0
"""The assignment step by itself, for gpu.py: calls of the op against flash-kmeans, the filter's
kernels alone, calls that go on until the chip is hot, and types of their own bar."""
import re
import statistics

import torch

from gpu_measure import (DEV, N, SHORT, calls_for, clock_mhz, differ, images, make, nearest,
                         product_rate, product_rate_sustained, rate, samples, settled, time_rival)
from rows import judge, ms, shape

SHAPES = [  # n, k, d; bars of the plain kernel: milliseconds, times as fast as flash-kmeans
    (N, 4096, 64, 0.80, 2.8), (N, 4096, 128, 1.37, 2.05), (N, 1024, 128, 0.36, 2.1),
    (N, 256, 128, 0.105, 2.1), (N, 4096, 256, 2.63, 2.4), (65_536, 4096, 1024, 0.72, 1.33),
    (N, 4096, 32, 0.60, None), (10_000_000, 20_000, 128, 72.0, 2.6), (N, 65_536, 128, 24.0, 1.85),
    (N, 4096, 512, 5.40, 2.0), (8 * N, 1024, 32, 1.6, 3.0)]
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
SPAN = 0.8  # seconds back to back
TURNS = 5


def surcharge(d):
    """How much more the exact labels may cost."""
    return 1.08 if d >= 128 else 1.15 if d == 64 else None


def begin(what, n, k, d, dtype, kind):
    x, c = make(n, k, d, kind, dtype, 7)
    row = dict(what=what, n=n, k=k, d=d, dtype=SHORT[dtype], data=kind, product=product_rate(dtype))
    labels = torch.empty(n, device=DEV, dtype=torch.int32)
    c32 = c.float()
    torch.cuda.synchronize()  # the library's stream does not wait for torch's
    return row, x, c, c32, labels


def time_both(ours, row, x, c, labels, right, rounds):
    """Calls with the filter's labels and with exact ones; `right`: labels by float64. In turns: one
    after the other, the second ran on a hotter chip, by 3 % and more at d = 512."""
    calls = row["calls"] = calls_for(2.0 * row["n"] * row["k"] * row["d"])
    both = (("fast", False), ("exact", True))
    seconds = {name: [] for name, _ in both}
    for turn in range(TURNS):
        for name, exact in both[::-1] if turn % 2 else both:
            t, row[name + "_kernel"], row[name + "_rechecked"] = ours.time_assign(
                x, c, labels, -(-rounds // TURNS), exact, calls)
            row.setdefault("clock", clock_mhz())
            seconds[name] += t
            row[name + "_wrong"] = differ(labels, right)
    row.update((name, statistics.median(t)) for name, t in seconds.items())


def assign_row(ours, rival, n, k, d, most, least, dtype, kind, args):
    row, x, c, c32, labels = begin("assign", n, k, d, dtype, kind)
    right = nearest(x, c)
    time_both(ours, row, x, c32, labels, right, args.rounds)
    if rival:
        x3, c3, sq = x[None], c[None], (x.float() ** 2).sum(-1)[None]
        out = torch.empty(1, n, device=DEV, dtype=torch.int32)

        def theirs():
            return rival(x3, c3, sq, out=out)
        time_rival(row, theirs, lambda: statistics.median(samples(theirs, args.rounds, row["calls"])))
    if "flash" in row:
        row["flash_wrong"] = differ(out[0], right)
        judge(row, "times flash-kmeans", row["flash"] / row["fast"], least=least)
    judge(row, "call, ms", row["fast"] * 1e3, most=most)
    judge(row, "exact / fast", row["exact"] / row["fast"], most=surcharge(d))
    judge(row, "exact labels wrong", row["exact_wrong"], most=0)
    return row


def show_assign(row):
    flash = row.get("flash")
    return (f"{shape(row)} call fast / exact {ms(row['fast'], row['exact'])}, flash-kmeans {ms(flash)} "
            + (f"({flash / row['fast']:.2f}x / {flash / row['exact']:.2f}x), " if flash else ", ")
            + f"{rate(row, row['fast'])}, rechecked {row['exact_rechecked']} "
            f"({100 * row['exact_rechecked'] / row['n']:.2f} %), wrong {row['fast_wrong']}"
            f"/{row['exact_wrong']}/{row.get('flash_wrong', '-')}")


def split_calls(events, calls):
    """Of (begin, end, name) of all that the device did in calls of the op, one after the other:
    seconds of the filter's kernels in each, and milliseconds a call by name. A kernel may be let in
    while the one before it ends, and waits: what it takes counts from that end."""
    filters, parts, before = [], {}, 0.0
    for first, last, name in sorted(events):
        took = last - max(first, before)
        before = max(before, last)
        found = re.search(r"(\w+)\s*[<(]", name)
        short = found.group(1) if found else name
        parts[short] = parts.get(short, 0.0) + took * 1e3 / calls
        if "hf_filter_" in name:
            filters.append(took)
    if not filters or len(filters) % calls:
        raise RuntimeError(f"{len(filters)} kernels of the filter seen in {calls} calls")
    each = len(filters) // calls
    return [sum(filters[i:i + each]) for i in range(0, len(filters), each)], parts


def device_events(call):
    """(begin, end, name) in seconds of what the device did meanwhile, in this process."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    return [(e.time_range.start * 1e-6, e.time_range.end * 1e-6, e.name) for e in seen.events()
            if e.device_type == DeviceType.CUDA]


def alone_row(ours, n, k, d, most, least, dtype, kind, args):
    """The filter's kernels in each call, as the driver records them. These rows come after all that
    a rival is timed in: what records may go on slowing the start of kernels."""
    row, x, _, c32, labels = begin("alone", n, k, d, dtype, kind)
    calls = row["calls"] = calls_for(2.0 * n * k * d)
    rounds = -(-args.rounds // calls)
    for name, exact in (("fast", False), ("exact", True)):
        def work(exact=exact):
            ours.time_assign(x, c32, labels, rounds, exact, calls)
            row.setdefault("clock", clock_mhz())
        events = device_events(work)
        t, row[name + "_parts"] = split_calls(events, (rounds + 1) * calls)
        row[name] = statistics.median(t[calls:])  # the first round warms up
    judge(row, "kernel, ms", row["fast"] * 1e3, most=most)
    judge(row, "exact / fast, kernels", row["exact"] / row["fast"], most=surcharge(d))
    return row


def show_alone(row):
    return (f"{shape(row)} kernel fast / exact {ms(row['fast'], row['exact'])}, "
            f"{rate(row, row['fast'])}")


def sustained_row(ours, n, k, d, most, least, dtype, kind, args):
    """Calls back to back until the chip has come to its limit of power."""
    row, x, _, c32, labels = begin("sustained", n, k, d, dtype, kind)
    row["product"] = product_rate_sustained(dtype, SPAN)
    t = statistics.median(ours.time_assign(x, c32, labels, 3, False)[0])
    calls = row["calls"] = max(1, int(8e-3 / t))
    row["fast"] = settled(ours.time_assign(x, c32, labels, int(SPAN / (t * calls)) + 2, False, calls)[0])
    row["clock"] = clock_mhz()
    return row


def show_sustained(row):
    return f"{shape(row)} call fast {ms(row['fast'])} back to back, {rate(row, row['fast'])}"


def double_row(ours, kind, args):
    """float64 data: the share of the rate of float64 matrix products."""
    row, x, c, _, labels = begin("types", N, 1024, 64, torch.float64, kind)
    time_both(ours, row, x, c, labels, nearest(x, c), args.rounds)
    work = 2.0 * row["n"] * row["k"] * row["d"]
    judge(row, "share of f64 product", work / row["exact"] / row["product"], least=0.8)
    judge(row, "exact labels wrong", row["exact_wrong"], most=0)
    return row


def bytes_row(ours, args):
    """Images as bytes, against the same in 16 bits; centroids that two iterations gave."""
    few, note = images(args.fashion)
    few = few.to(DEV).to(torch.uint8)
    x = few.repeat(-(-N // len(few)), 1)[:N].contiguous()
    torch.cuda.synchronize()
    c = torch.as_tensor(ours.fit(x, few[:1024].float(), 2, -1, "off")["centroids"], device=DEV)
    row = dict(what="types", n=N, k=1024, d=x.shape[1], dtype="u8", data="images", note=note,
               product=product_rate(torch.float16))
    labels = torch.empty(N, device=DEV, dtype=torch.int32)
    right = nearest(x, c)
    torch.cuda.synchronize()
    time_both(ours, row, x, c, labels, right, args.rounds)
    half = row["half"] = {}
    half.update((key, row[key]) for key in ("n", "k", "d"))
    x = x.half()
    torch.cuda.synchronize()
    time_both(ours, half, x, c, labels, right, args.rounds)
    judge(row, "exact, against f16 exact", row["exact"] / half["exact"], most=1)
    judge(row, "exact labels wrong", row["exact_wrong"] + half["exact_wrong"], most=0)
    return row


def show_types(row):
    half = row.get("half")
    return (f"{shape(row)} call fast / exact {ms(row['fast'], row['exact'])}, "
            + (f"as f16 {ms(half['fast'], half['exact'])}, {row['note']}, " if half else "")
            + f"{rate(row, row['exact'])}, {row['exact_kernel']}, rechecked {row['exact_rechecked']}, "
            f"wrong {row['fast_wrong']}/{row['exact_wrong']}")


def assign_jobs(what, kind, ours, rival, args):
    """Rows "assign", "alone" or "sustained" over all shapes and both types."""
    run = {"assign": lambda *s: assign_row(ours, rival, *s), "alone": lambda *s: alone_row(ours, *s),
           "sustained": lambda *s: sustained_row(ours, *s)}[what]
    return [(f"{what} {name} {kind} {s[0]} x {s[2]}, k {s[1]}",
             lambda s=s, dtype=DTYPES[name]: run(*s, dtype, kind, args))
            for s in SHAPES for name in args.dtypes.split(",")]


def types_jobs(kinds, ours, args):
    return [("types u8", lambda: bytes_row(ours, args))] + [
        (f"types f64 {kind}", lambda kind=kind: double_row(ours, kind, args)) for kind in kinds]


def table(rows):
    """Lines that hold what rows of one shape and type gave: calls, kernels alone, sustained."""
    found = {}
    for row in rows:
        if row["what"] in ("assign", "alone", "sustained"):
            key = tuple(row[part] for part in ("data", "dtype", "n", "k", "d"))
            found.setdefault(key, {})[row["what"]] = row

    def cell(row, *path):
        return f"{row[path[0]] * 1e3:9.4f}" if row and path[0] in row else "        -"
    lines = []
    for (data, dtype, n, k, d), has in found.items():
        call, alone, hot = (has.get(what) for what in ("assign", "alone", "sustained"))
        work = 2.0 * n * k * d
        flash = f"{call['flash'] / call['fast']:6.2f}x" if call and "flash" in call else "      -"
        share = f"{100 * work / alone['fast'] / alone['product']:4.0f} %" if alone else "     -"
        lines.append(f"{data:9s} {dtype:4s} {n:9d} {k:6d} {d:5d}{cell(call, 'fast')}{cell(call, 'exact')}"
                     f"{cell(alone, 'fast')}{cell(alone, 'exact')}{cell(call, 'flash')} {flash} {share}"
                     f"{cell(hot, 'fast')}")
    head = ("ms               type      n         k     d call fast    exact  kernel f.   exact"
            "    flash     ratio product sustained")
    return [head] + lines if lines else []
