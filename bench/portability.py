#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What portability costs: k-means of one design on every backend of this machine.

    bench/portability.py --build build/ci --out results/portability --scale 0.02

Follows the study "SYCL k-means on CPUs and GPUs" (its data, its figure of merit) with this library's backends:
C, CUDA where there is a GPU, OpenCL tuned (`holdfast tune` on a slice first) and untuned, and a plain port to
OpenCL like the study's (naive_opencl.py). Backends take turns; medians count. Writes OUT.tsv, OUT.json, OUT.md
and OUT-SET.svg.

Efficiencies of a backend on a device: architectural, 2 N K D operations a second over the rate of multiply-add
measured there (GPUs: --peak); application, the best time of all backends on that device over its own. Phi is the
harmonic mean over the devices, 0 where one of them is not served (Pennycook, Sewall, Lee)."""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np

import hf
from naive_opencl import Naive

# What the study printed. Its data and machines are others: Core i7-10700, RTX 3090, Arc A770.
PAPER = [("SYCL-CPU on the CPU", "architectural, at most", "37 %"),
         ("SYCL-port on the CPU", "slower than SYCL-CPU by", "46 %"),
         ("SYCL-nGPU, SYCL-iGPU on the CPU", "slower than SYCL-CPU by", "57 %, 66 %"),
         ("SYCL (nvc++) on the RTX 3090", "architectural; application", "0.02 %; 19 %"),
         ("He-Vialle (nvcc) on the RTX 3090", "architectural; application", "0.05 %; 82 %"),
         ("SYCL-port on the Arc", "slower than SYCL-iGPU by", "16 %"),
         ("share of assign on the CPU", "", "88 % to 92 %")]


def uniform(rows, rng):
    return rng.random((rows, 500), "f4")


def census(rows, rng):
    """Like the US census of 1990 as the study has it: 68 columns of small whole numbers, most of them few."""
    values = rng.integers(2, 18, 68)
    kinds = np.floor(rng.random((40, 68)) ** 2 * values)
    x = kinds[rng.integers(0, 40, rows)]
    noise = rng.random((rows, 68)) < 0.3
    x[noise] = np.floor(rng.random(int(noise.sum())) * np.broadcast_to(values, x.shape)[noise])
    return x.astype("f4")


SETS = {"uniform": (1_000_000, uniform), "census": (2_458_285, census)}


class Backend:
    """A context of the library; the tuning file counts from its first plan on."""

    def __init__(self, name, args, device, tuning):
        self.name, self.device, self.tuning = name, device, tuning
        os.environ["HF_TUNE_FILE"] = tuning
        self.lib = hf.Holdfast(os.path.join(args.build, "libholdfast.so"), args.threads, device)

    def iteration(self, x, start, steps):
        os.environ["HF_TUNE_FILE"] = self.tuning
        fit = self.lib.fit(x, start, steps, -1, "off", empty=2)
        self.kernel = fit["kernels"][0]
        return fit["seconds"]["iterate"] / fit["iterations"], fit["labels"]


class NaiveBackend:
    name, kernel = "opencl-naive", "assign"

    def __init__(self, device):
        self.device, self.x, self.split = device, None, (0, 0)

    def iteration(self, x, start, steps):
        if self.x is not x:
            self.run, self.x = Naive(x, int(self.device.split(":")[1])), x
        times, labels = self.run.iterate(start, steps)
        self.split = tuple(statistics.median(t[i] for t in times) for i in range(2))
        return sum(map(sum, times)) / steps, labels


def command(args, *words, tuning=os.devnull):
    done = subprocess.run([os.path.join(args.build, "holdfast"), *map(str, words)], stdout=subprocess.PIPE,
                          env=dict(os.environ, HF_TUNE_FILE=tuning), check=True, text=True)
    return done.stdout


def tune(args, device, shapes, folder):
    """A tuning file for these shapes, measured on slices."""
    path = os.path.join(folder, device.replace(":", "-") + ".tune")
    words = [w for n, k, d in shapes for w in ("--shape", f"{min(n, args.slice)},{k},{d}")]
    command(args, "tune", "--device", device, "--op", "assign", *words, "-o", path, "--rounds", 3, "--budget", 1)
    return path


def devices(args):
    found = json.loads(command(args, "info", "--json"))["devices"]
    return [(d["name"], d["text"]) for d in found if d["available"]]


def is_cpu(name, text):
    return name == "cpu" or any(word in text for word in ("pthread", "Portable Computing", "CPU"))


def backends(args, shapes, folder):
    """[(platform, backend)]: a platform is the CPU, or a GPU."""
    out = []
    for name, text in devices(args):
        place = "CPU" if is_cpu(name, text) else "GPU"
        if name.startswith("opencl"):
            out += [(place, Backend("opencl-tuned", args, name, tune(args, name, shapes, folder))),
                    (place, Backend("opencl-untuned", args, name, os.devnull))]
            if args.naive:
                out.append((place, NaiveBackend(name)))
        else:
            out.append((place, Backend("c" if name == "cpu" else "cuda", args, name, os.devnull)))
    return out


def split(args, backend, shape):
    """Seconds of assign and of update alone, on generated data of that shape."""
    if isinstance(backend, NaiveBackend):
        return backend.split
    text = ",".join(map(str, shape))
    times = []
    for op in ("assign", "update"):
        out = json.loads(command(args, "bench", "--op", op, "--shape", text, "--device", backend.device, "--rounds", 3,
                                 "--budget", 0.5, "-t", args.threads, "--json", tuning=backend.tuning))
        times.append(next(r["median_s"] for r in out["rows"] if r["planned"]))
    return tuple(times)


def measure(args, name, x, k, rows):
    rng = np.random.default_rng(k)
    start = x[rng.choice(len(x), k, replace=False)].copy()
    samples, labels = {}, {}
    for round_number in range(args.rounds + 1):
        for place, b in args.backends:
            seconds, labels[b.name, place] = b.iteration(x, start, args.steps)
            if round_number > 0:  # the first one compiles
                samples.setdefault((b.name, place), []).append(seconds)
    exact = labels[args.backends[0][1].name, args.backends[0][0]]
    for place, b in args.backends:
        parts = split(args, b, (len(x), k, x.shape[1])) if args.split else (None, None)
        rows.append({"set": name, "n": len(x), "d": x.shape[1], "k": k, "backend": b.name, "platform": place,
                     "device": b.device, "kernel": b.kernel, "iteration_s": statistics.median(samples[b.name, place]),
                     "samples": samples[b.name, place], "assign_s": parts[0], "update_s": parts[1],
                     "labels_differ": int((labels[b.name, place] != exact).sum())})


def judge(args, rows):
    """Both efficiencies of each row."""
    for r in rows:
        others = [o for o in rows if all(o[key] == r[key] for key in ("set", "k", "platform"))]
        r["application"] = min(o["iteration_s"] for o in others) / r["iteration_s"]
        peak = args.peaks[r["platform"]]
        r["architectural"] = 2.0 * r["n"] * r["k"] * r["d"] / r["iteration_s"] / peak if peak else None


def phi(rows, backend, platforms, key):
    """The harmonic mean over platforms of the mean efficiency there."""
    each = []
    for p in platforms:
        own = [r[key] for r in rows if r["backend"] == backend and r["platform"] == p]
        if not own or None in own:
            return 0.0
        each.append(statistics.mean(own))
    return len(each) / sum(1 / e for e in each)


def merits(rows):
    """Phi of each backend, and of OpenCL with C and CUDA as one, over all sets of platforms."""
    names = sorted({r["backend"] for r in rows})
    places = sorted({r["platform"] for r in rows})
    subsets = [[p] for p in places] + ([places] if len(places) > 1 else [])
    return [{"backend": b, "platforms": "+".join(s), "architectural": phi(rows, b, s, "architectural"),
             "application": phi(rows, b, s, "application")} for b in names for s in subsets]


COLUMNS = ("set", "n", "d", "k", "backend", "platform", "kernel", "iteration_s", "assign_s", "update_s",
           "architectural", "application", "labels_differ")


def cell(v):
    return "-" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v)


def markdown(result):
    lines = ["# What portability costs", "", f"{result['date']}, {result['machine']}, {result['threads']} threads; "
             f"scale {result['scale']} of the study's rows. `{result['command']}`", "",
             "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(cell(r[c]) for c in COLUMNS) + " |" for r in result["rows"]]
    lines += ["", "## Phi", "", "| backend | platforms | architectural | application |", "|---|---|---|---|"]
    lines += [f"| {m['backend']} | {m['platforms']} | {m['architectural']:.3f} | {m['application']:.3f} |"
              for m in result["phi"]]
    lines += ["", "## The study's own numbers (other machines)", "", "| what | figure | value |", "|---|---|---|"]
    lines += [f"| {' | '.join(p)} |" for p in PAPER]
    return "\n".join(lines) + "\n"


def plot(rows, name, path):
    """Seconds of an iteration over K, both axes logarithmic."""
    own = [r for r in rows if r["set"] == name]
    ks = sorted({r["k"] for r in own})
    low, high = (np.log10(f(r["iteration_s"] for r in own)) for f in (min, max))
    colors = dict(zip(sorted({(r["backend"], r["platform"]) for r in own}),
                      ("#1b6ca8", "#c0392b", "#27ae60", "#8e44ad", "#d68910", "#34495e", "#16a085", "#7f8c8d")))

    def at(k, seconds):
        across = np.log2(k / ks[0]) / max(np.log2(ks[-1] / ks[0]), 1)
        return 60 + 420 * across, 260 - 220 * (np.log10(seconds) - low) / max(high - low, 0.1)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="700" height="310" font-family="sans-serif" font-size="12">',
           f'<text x="60" y="20">{name}: seconds of an iteration over K</text>']
    out += [f'<text x="{at(k, 10 ** low)[0]:.0f}" y="285" text-anchor="middle">{k}</text>' for k in ks]
    out += [f'<text x="50" y="{at(ks[0], s)[1]:.0f}" text-anchor="end">{s:.2g}</text>' for s in (10 ** low, 10 ** high)]
    for i, (key, color) in enumerate(sorted(colors.items())):
        line = sorted((r["k"], r["iteration_s"]) for r in own if (r["backend"], r["platform"]) == key)
        points = " ".join("%.1f,%.1f" % at(*p) for p in line)
        out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>'
                   f'<text x="500" y="{50 + 18 * i}" fill="{color}">{key[0]}, {key[1]}</text>')
    with open(path, "w") as f:
        f.write("\n".join(out + ["</svg>"]) + "\n")


def write(args, result):
    with open(args.out + ".json", "w") as f:
        json.dump(result, f, indent=1)
    with open(args.out + ".tsv", "w") as f:
        f.write("\t".join(COLUMNS) + "\n")
        f.writelines("\t".join(cell(r[c]) for c in COLUMNS) + "\n" for r in result["rows"])
    with open(args.out + ".md", "w") as f:
        f.write(markdown(result))
    for name in args.sets:
        plot(result["rows"], name, f"{args.out}-{name}.svg")


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/ci", help="folder of holdfast and libholdfast.so")
    p.add_argument("--out", default="portability", help="where to write, without an ending")
    p.add_argument("--scale", type=float, default=1.0, help="share of the study's rows")
    p.add_argument("--sets", nargs="+", choices=sorted(SETS), default=sorted(SETS))
    p.add_argument("--k", type=int, nargs="+", default=[2, 4, 8, 16, 32, 64, 128, 256])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=5, help="iterations of a sample")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--slice", type=int, default=20000, help="rows that are tuned on")
    p.add_argument("--peak", type=float, default=0, help="multiply-adds of float32 a GPU makes, in GFLOP/s")
    p.add_argument("--split", action=argparse.BooleanOptionalAction, default=True, help="times of assign and update")
    p.add_argument("--naive", action=argparse.BooleanOptionalAction, default=True)
    return p.parse_args()


def main():
    args = options()
    args.out = os.path.abspath(args.out)
    os.makedirs(os.path.dirname(args.out), exist_ok=True)
    sizes = {s: max(1000, int(SETS[s][0] * args.scale)) for s in args.sets}
    data = {s: SETS[s][1](sizes[s], np.random.default_rng(1)) for s in args.sets}
    ceilings = json.loads(command(args, "bench", "--op", "assign", "--device", "cpu", "--shape", "1000,8,8", "--rounds",
                                  1, "-t", args.threads, "--json"))["ceiling"]
    args.peaks = {"CPU": max(ceilings["fma_f32"].values()), "GPU": args.peak * 1e9}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        shapes = [(len(x), k, x.shape[1]) for x in data.values() for k in args.k]
        args.backends = backends(args, shapes, folder)
        for name, x in data.items():
            for k in args.k:
                measure(args, name, x, k, rows)
                for r in rows[-len(args.backends):]:
                    print(name, k, r["backend"], r["platform"], f"{r['iteration_s'] * 1e3:.2f} ms", flush=True)
    judge(args, rows)
    result = {"date": datetime.date.today().isoformat(), "machine": "; ".join(t for _, t in devices(args)),
              "threads": args.threads, "scale": args.scale, "command": " ".join(sys.argv), "peaks": args.peaks,
              "rows": rows, "phi": merits(rows), "paper": PAPER}
    write(args, result)
    print(f"written: {args.out}.tsv, .json, .md and plots")


if __name__ == "__main__":
    main()
