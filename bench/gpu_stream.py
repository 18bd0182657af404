# SPDX-License-Identifier: Apache-2.0
"""Iterations of gpu.py over rows in locked host memory, with a cap on the device's."""
import ctypes as C
import statistics

import torch

import hf
from gpu_measure import DEV, KEEP, N, SHORT, differ, make, nearest, samples
from rows import judge, ms, shape

CAP = 4 << 30
ITERATIONS = 13  # of which the first two warm up: 11 are left for the median
SHARE = 0.95  # bar: of the rate of plain copies
RESIDENT = 1.05  # bar: of the time with all of the device; speeds as close as that are the same


def host_rate(x):
    """Bytes a second from locked memory to the device."""
    part = x[:max(1, (1 << 30) // (x.shape[1] * x.element_size()))]
    there = torch.empty_like(part, device=DEV)
    seconds = statistics.median(samples(lambda: there.copy_(part, non_blocking=True), 5))
    return part.numel() * x.element_size() / seconds


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
    there = torch.as_tensor(result["centroids"], device=DEV)
    return differ(labels, nearest(x[rows].to(DEV), there, sample))


def run(row, key, x, c, memory, args):
    least = [torch.cuda.mem_get_info()[0]] * 2

    def look(*_):
        least[1] = min(least[1], torch.cuda.mem_get_info()[0])
        return 0
    seen = hf.PROGRESS(look)
    ours = hf.Holdfast(args.lib, 0, DEV, memory)
    # without progress the times are the mean of all iterations, the first among them
    r = ours.fit(x, c, ITERATIONS, -1, "off", empty=KEEP, progress=C.cast(seen, C.c_void_p))
    times = [i["seconds"] for i in r["history"]]
    row[key], row[key + "_first"] = statistics.median(times[2:]), times[0]
    row[key + "_times"], row[key + "_seconds"] = times, r["seconds"]
    row[key + "_changed"] = [i["changed"] for i in r["history"]]
    row[key + "_rechecked"] = [i["rows_rechecked"] for i in r["history"]]
    row[key + "_wrong"] = wrong_on_host(x, r)
    row[key + "_kernels"] = r["kernels"]
    ours.close()
    return least[0] - least[1]


def stream_row(x, resident, args):
    """With the cap alone; and, where the rows fit below it in 16 bits, with all of the device."""
    row = dict(what="stream", n=len(x), k=256, d=x.shape[1], dtype=SHORT[x.dtype],
               data="16 bits" if resident else "streamed")
    c = fill(x, 256).float().contiguous()
    torch.cuda.empty_cache()
    row["rate"] = host_rate(x)
    torch.cuda.empty_cache()
    row["memory"] = run(row, "wide", x, c, CAP, args)
    row["share"] = x.numel() * x.element_size() / row["wide"] / row["rate"]
    if resident:
        run(row, "resident", x, c, 0, args)
        judge(row, "of the time with all of the device", row["wide"] / row["resident"], most=RESIDENT)
    else:
        judge(row, "share of the copies' rate", row["share"], least=SHARE)
    judge(row, "labels wrong", row["wide_wrong"] + row.get("resident_wrong", 0), most=0)
    return row


def show_stream(row):
    return (f"{shape(row)} {ms(row['wide'])} an iteration (first {ms(row['wide_first'])}), "
            f"{row['share']:.3f} of {row['rate'] * 1e-9:.1f} GB/s, device memory "
            f"{row['memory'] / 2 ** 30:.2f} GiB"
            + (f", with all of the device {ms(row['resident'])}" if "resident" in row else ""))


def stream_jobs(args):
    """Rows that fit in 16 bits first: 9M or 12M; then all of the locked memory."""
    held = []

    def job(dtype, count, resident):
        if not held:
            held.append(torch.empty(args.stream_gib << 30, dtype=torch.uint8, pin_memory=True))
        size = torch.empty(0, dtype=dtype).element_size()
        return stream_row(held[0][:count * 128 * size].view(dtype).view(count, 128), resident, args)
    whole = args.stream_gib << 30
    rows = [(torch.float16, 9 << 20, True), (torch.float32, whole // 512, False),
            (torch.float16, whole // 256, False)]
    return [(f"stream {SHORT[dtype]} {count} rows",
             lambda dtype=dtype, count=count, resident=resident: job(dtype, count, resident))
            for dtype, count, resident in rows]
