# SPDX-License-Identifier: Apache-2.0
"""What all rows on a GPU share: data, labels by float64, times on the device."""
import functools
import statistics
import sys

import torch

DEV = "cuda:0"
N = 1 << 20
KEEP = 2  # what flash-kmeans does with an empty cluster: its centroid stays
SHORT = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
         torch.uint8: "u8"}


def flash():
    """Version, assignment and fit of flash-kmeans, or three times None."""
    try:
        import flash_kmeans
        from flash_kmeans.assign_euclid_triton import euclid_assign_triton
        from flash_kmeans.kmeans_triton_impl import batch_kmeans_Euclid
        return flash_kmeans.__version__, euclid_assign_triton, batch_kmeans_Euclid
    except ImportError as e:
        print(f"flash-kmeans is not here: {e}", file=sys.stderr)
        return None, None, None


def time_rival(row, warm, measure):
    """Its seconds; or why there are none, without losing ours."""
    try:
        warm()
        row["flash"] = measure()
    except Exception as e:  # whatever it, Triton or torch raise
        row["flash_failed"] = f"{type(e).__name__}: {e}"
        print(f"flash-kmeans failed: {row['flash_failed']}"[:300], flush=True)


def clock_mhz():
    """Right after work: an idle chip goes back to its highest clock."""
    try:
        return torch.cuda.clock_rate(0)
    except Exception:  # needs nvidia-ml-py
        return None


def calls_for(work):
    """Calls of so many operations that make a sample of about 2 ms: a burst, in which what the host
    needs to start the first does not count much."""
    return max(1, min(16, int(2e-3 * 6e14 / work)))


def samples(call, rounds, calls=1, rest=True):
    """Device seconds of a call: means of `calls` back to back, so many rounds after a warm-up. With
    rest, each round is queued behind a pause, 0.13 ms a call, so that the host is ahead of the device."""
    call()
    torch.cuda.synchronize()
    seconds = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        if rest:
            torch.cuda._sleep(500_000 + 250_000 * calls)  # clocks
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        seconds.append(begin.elapsed_time(end) * 1e-3 / calls)
    return seconds


def product(dtype):
    """A call of torch's matrix product, and its operations."""
    n = 8192
    a, b = (torch.randn(n, n, device=DEV, dtype=dtype) for _ in range(2))
    return lambda: a @ b, 2 * n ** 3


def product_rate(dtype):
    """Operations a second of the matrix product; of 16 bits for types whose filter works in them."""
    call, work = product(dtype if dtype in (torch.bfloat16, torch.float64) else torch.float16)
    return work / statistics.median(samples(call, 5))


def settled(seconds):
    """Of calls that went on and on: what they took once the chip had come to its limits."""
    return statistics.median(seconds[len(seconds) // 2:])


@functools.lru_cache(maxsize=None)
def product_rate_sustained(dtype, span):
    call, work = product(dtype)
    return work / settled(samples(call, int(span / (work / 7e14 * 8)) + 2, 8, rest=False))


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


@functools.lru_cache(maxsize=None)
def images(path):
    """Fashion-MNIST's training images or a stand-in, as float32 on the host; which of the two."""
    import data
    x, note = data.fashion(path, 60_000, 15)
    return torch.as_tensor(x), note


def nearest(x, c, sample=4096):
    """A sample of rows, and the labels that float64 gives them."""
    rows = torch.randperm(len(x), device=x.device)[:sample]
    xs, cs = x[rows].double().t().contiguous(), c.double().t().contiguous()
    labels = torch.empty(len(rows), device=x.device, dtype=torch.int64)
    step = max(1, (1 << 24) // cs.shape[1])
    for i in range(0, len(rows), step):
        part = xs[:, i:i + step]
        d = torch.zeros(part.shape[1], cs.shape[1], device=x.device, dtype=torch.float64)
        for f in range(len(cs)):  # in order, as the reference
            d += (part[f, :, None] - cs[f]) ** 2
        labels[i:i + step] = d.argmin(1)
    return rows, labels


def differ(labels, right):
    """How many labels of the sample are not those of float64."""
    return int((labels[right[0]].long() != right[1]).sum())


def wrong(x, c, labels, sample=1024):
    """The same, of labels and centroids that lie on the host."""
    there = [torch.as_tensor(a, device=x.device) for a in (c, labels)]
    return differ(there[1], nearest(x, there[0], sample))


def rate(row, seconds):
    work = 2.0 * row.get("batch", 1) * row["n"] * row["k"] * row["d"] * row.get("iterations", 1)
    return (f"{work / seconds * 1e-12:.0f} TF/s, {100 * work / seconds / row['product']:.0f} % of "
            f"product {row['product'] * 1e-12:.0f}, {row['clock']} MHz")
