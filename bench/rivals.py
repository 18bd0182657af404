#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""holdfast against what else can be installed: time per Lloyd iteration, whole fits, the assign kernel.

Contenders take turns, round after round, each in a process of its own on the same cores; medians count.
Labels are compared with float64 brute force in the same run; one wrong label and the exit code is 1.
Usually started by bench/run.sh, which builds holdfast and installs the rivals."""
import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = 5
SHORT = 1.0  # seconds: a contender that answers within gets all its samples, whatever the budget

# name, kind, shape n d k, what it is compared with, bars: {mode: times as fast} for each rival,
# iterations (few, many) whose difference is timed
ROWS = [
    dict(name="lloyd-200k", make="blobs", n=200_000, d=64, k=256, rivals=["sklearn-lloyd", "openblas"],
         bars={"sklearn-lloyd": dict(amx=8, avx512=4)}, few=2, many=12),
    dict(name="lloyd-1m", make="blobs", n=1_000_000, d=16, k=64, rivals=["sklearn-lloyd"],
         bars={"sklearn-lloyd": dict(amx=6, avx512=5)}, few=2, many=12),
    dict(name="lloyd-census", make="census", n=2_458_285, d=68, k=256, rivals=["sklearn-lloyd"],
         bars={"sklearn-lloyd": dict(amx=6, avx512=3)}, few=1, many=5),
    dict(name="lloyd-fashion", make="fashion", n=60_000, d=784, k=1024,
         rivals=["sklearn-lloyd", "superkmeans", "superkmeans-blas", "openblas"],
         bars={"sklearn-lloyd": dict(amx=8, avx512=4), "superkmeans": dict(amx=1.2)}, few=1, many=5),
    dict(name="lloyd-1m128", make="blobs", n=1_000_000, d=128, k=1024, rivals=["faiss"],
         bars={"faiss": dict(amx=4, avx512=1.5)}, few=1, many=4),
    dict(name="lloyd-normal", make="normal", n=200_000, d=64, k=256, rivals=["sklearn-lloyd"],
         bars={}, few=2, many=8, extra=True),
    dict(name="lloyd-uniform", make="uniform", n=200_000, d=32, k=256, rivals=["sklearn-lloyd"],
         bars={}, few=2, many=8, extra=True),
    dict(name="assign", kernel=True, shapes=["200000,256,64", "100000,1024,128", "60000,1024,784"]),
    dict(name="fit-cities", make="cities", n=135_233, d=2, k=1024, fit=True,
         rivals=["sklearn-lloyd", "sklearn-elkan"], bars=dict(amx=10, avx512=8)),
    dict(name="fit-fashion", make="fashion", n=60_000, d=784, k=256, fit=True,
         rivals=["sklearn-lloyd", "sklearn-elkan"], bars=dict(amx=8, avx512=4)),
    dict(name="fit-sift", make="sift", n=5_000, d=128, k=64, fit=True,
         rivals=["sklearn-lloyd", "sklearn-elkan"], bars=dict(amx=8, avx512=4)),
]
DENSE_AND_SKIPPING = (("off", "dense"), ("auto", "skipping"))
MODES = {"auto": "", "avx512": "avx512", "avx2": "avx2"}  # HF_ISA_MAX


def median(values):
    s = sorted(values)
    return (s[(len(s) - 1) // 2] + s[len(s) // 2]) / 2 if s else float("nan")


def pick_cpus(count):
    """`count` usable CPUs on cores of their own as far as there are enough."""
    usable = sorted(os.sched_getaffinity(0))
    first, rest, seen = [], [], set()
    for cpu in usable:
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as f:
                core = f.read().strip()
        except OSError:
            core = str(cpu)
        (rest if core in seen else first).append(cpu)
        seen.add(core)
    cpus = (first + rest)[:count]
    if len(cpus) < count:
        raise SystemExit(f"--threads {count}: only {len(usable)} CPUs may be used here")
    return cpus


class Contender:
    """A worker process; None answers mean that it cannot take part, with the reason in `why`."""

    def __init__(self, kind, args, cpus, isa_max=""):
        self.kind, self.why, self.version = kind, "", None
        path = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH")]))
        env = dict(os.environ, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1", HF_TUNE_FILE="/dev/null")
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            env[name] = str(args.threads)
        env.pop("HF_ISA_MAX", None)
        if isa_max:
            env["HF_ISA_MAX"] = isa_max
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "worker.py"), kind, str(args.threads), args.lib,
             ",".join(map(str, cpus))], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=None if args.verbose else subprocess.DEVNULL, text=True, env=env)
        hello = self._answer()
        self.version = hello.get("version")

    def _answer(self):
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"ok": False, "why": "the process died"}
        if not answer["ok"]:
            self.why = answer["why"]
        return answer

    def ask(self, **what):
        if self.process.poll() is not None:
            return {"ok": False, "why": self.why or "the process died"}
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def make_data(row, args):
    import data
    n = row["n"] // 20 if args.quick else row["n"]
    k = max(8, row["k"] // 4) if args.quick else row["k"]
    what = {"blobs": "generated blobs", "normal": "generated normals", "census": "generated codes",
            "uniform": "generated uniform"}.get(row["make"])
    if row["make"] == "blobs":
        x = data.blobs(n, row["d"], k, 11)
    elif row["make"] == "normal":
        x = data.normals(n, row["d"], 12)
    elif row["make"] == "uniform":
        x = data.uniform(n, row["d"], 13)
    elif row["make"] == "census":
        x = data.census_like(n, row["d"], 14)
    elif row["make"] == "fashion":
        x, what = data.fashion(args.fashion, n, 15)
    elif row["make"] == "cities":
        x, what = data.cities(args.cities)
    else:
        x, what = data.sift(args.sift)
    return x, data.start(x, k, 5), what


def ceilings(args, isa_max, cpus, shapes=()):
    """`holdfast bench` in one mode: ceilings, and assign on some shapes. None without the command."""
    if not args.holdfast:
        return None
    env = dict(os.environ, HF_TUNE_FILE="/dev/null")
    env.pop("HF_ISA_MAX", None)
    if isa_max:
        env["HF_ISA_MAX"] = isa_max
    shapes = list(shapes) or ["512,8,8"]
    command = [args.holdfast, "bench", "--json", "--device", "cpu", "--threads", str(args.threads)]
    for shape in shapes:
        command += ["--shape", shape]
    got = subprocess.run(command, env=env, capture_output=True, text=True,
                         preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    if got.returncode:
        print(f"  holdfast bench failed: {got.stderr.strip()}")
        return None
    return json.loads(got.stdout)


class Run:
    def __init__(self, args):
        self.args = args
        self.cpus = pick_cpus(args.threads)
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=args.tmp)
        self.isas = self.runnable()
        self.modes = self.choose_modes()
        self.contenders = {}
        self.versions = {}
        self.report = []
        self.wrong = 0
        self.missed = []

    def runnable(self):
        """Instruction sets by the command's word, else by the kernel's flags."""
        base = ceilings(self.args, "", self.cpus)
        self.peak = base["ceiling"] if base else None
        if base:
            return [name for name, rate in base["ceiling"]["fma_f32"].items() if rate]
        with open("/proc/cpuinfo") as f:
            flags = set(re.search(r"flags\s*:(.*)", f.read()).group(1).split())
        return (["scalar"] + ["avx2"] * ("avx2" in flags) + ["avx512"] * ("avx512f" in flags) +
                ["amx"] * ("amx_bf16" in flags))

    def choose_modes(self):
        """Modes to run: forcing a set that is the best one anyway would only repeat auto."""
        best = self.isas[-1]
        modes = {}
        for mode in self.args.modes:
            isa = best if mode == "auto" else mode
            if isa in self.isas and isa not in modes.values():
                modes[mode] = isa
        return modes

    def get(self, kind):
        """The contender, started when first needed; None where it cannot take part."""
        if kind not in self.contenders:
            mode = kind.partition(":")[2]
            self.contenders[kind] = Contender(kind, self.args, self.cpus, MODES.get(mode, ""))
            c = self.contenders[kind]
            self.versions[kind.partition(":")[0]] = c.version or f"missing: {c.why}"
            if not c.version:
                print(f"  {kind} takes no part: {c.why}", flush=True)
        return self.contenders[kind] if self.contenders[kind].version else None

    def flop_ceiling(self, mode):
        """FMA flop/s of the mode's set; AMX rows are measured against the widest vector set."""
        return self.peak["fma_f32"].get(self.modes[mode]) if self.peak else None

    def rounds(self, row, tasks, budget):
        """Tasks {key: (contender, question)} in turns until each has its samples or used up its share
        of the time; at least one each. Answers by key."""
        answers = {key: [] for key in tasks}
        spent = dict.fromkeys(tasks, 0.0)
        share = budget / max(1, len(tasks))
        for r in range(self.args.rounds):
            order = list(tasks)[r % len(tasks):] + list(tasks)[:r % len(tasks)]
            for key in order:
                contender, question = tasks[key]
                one = spent[key] / max(1, len(answers[key]))
                if r and (not answers[key] or one > SHORT and spent[key] + one > 1.5 * share):
                    continue
                start = time.monotonic()
                answer = contender.ask(**question)
                spent[key] += time.monotonic() - start
                if answer["ok"]:
                    answers[key].append(answer)
                else:
                    print(f"  {row['name']}: {key}: {answer['why']}", flush=True)
        return answers

    def check(self, x, path, who, entry):
        """Compare saved labels with brute force; count those of ours."""
        import numpy as np
        import verify
        if not os.path.exists(path):
            return
        saved = np.load(path)
        wrong, looked = verify.wrong_labels(x, saved["centroids"], saved["labels"],
                                            sample=self.args.sample, cheap=self.args.cheap)
        entry["wrong_labels"][who] = [wrong, looked]
        if who.startswith("holdfast"):
            self.wrong += wrong

    def load(self, row, kinds):
        import numpy as np
        x, init, what = make_data(row, self.args)
        paths = {name: os.path.join(self.folder.name, name + ".npy") for name in ("x", "init")}
        np.save(paths["x"], x)
        np.save(paths["init"], init)
        for kind in kinds:
            contender = self.get(kind)
            if contender:
                contender.ask(do="load", **paths)
        return x, init, what

    def tasks_of(self, row, kinds):
        """What each contender is asked; ours without and with work skipping."""
        tasks = {}
        for kind in kinds:
            contender = self.get(kind)
            ours = kind.startswith("holdfast")
            if not contender:
                continue
            for skipping, word in DENSE_AND_SKIPPING if ours and not row.get("fit") else (("", ""),):
                key = f"{kind} {word}".strip()
                question = (dict(do="fit", max_iter=self.args.fit_max_iter, tol=self.tol(ours))
                            if row.get("fit") else
                            dict(do="iterate", few=row["few"], many=row["many"], skipping=skipping))
                question["save"] = os.path.join(self.folder.name, re.sub(r"\W", "-", key) + ".npz")
                tasks[key] = (contender, question)
        return tasks

    @staticmethod
    def tol(ours):
        return 1e-4  # both scale it by the mean variance of the columns

    def look_at_ceilings(self):
        """Measure them again, the best of all looks counts: other work on the machine lowers them."""
        got = ceilings(self.args, "", self.cpus) if self.peak else None
        if not got:
            return
        new = got["ceiling"]
        self.peak = dict(fma_f32={isa: max(rate, self.peak["fma_f32"][isa])
                                  for isa, rate in new["fma_f32"].items()},
                         amx_bf16=max(new["amx_bf16"], self.peak["amx_bf16"]),
                         read_bytes=max(new["read_bytes"], self.peak["read_bytes"]))

    def measure(self, row, budget):
        kinds = [f"holdfast:{mode}" for mode in self.modes] + row["rivals"]
        x, init, what = self.load(row, kinds)
        n, d, k = x.shape[0], x.shape[1], len(init)
        print(f"\n{row['name']}: {n:,} x {d}, K={k}, {what}", flush=True)
        tasks = self.tasks_of(row, kinds)
        answers = self.rounds(row, tasks, budget)
        self.look_at_ceilings()
        entry = dict(name=row["name"], n=n, d=d, k=k, dtype="f32", data=what,
                     threads=self.args.threads, fit=bool(row.get("fit")), wrong_labels={},
                     samples={key: a for key, a in answers.items()})
        for key, (_, question) in tasks.items():
            self.check(x, question["save"], key, entry)
        self.compare(row, entry, answers)
        for kind in kinds:
            if self.get(kind):
                self.get(kind).ask(do="drop")
        for key in tasks:
            path = tasks[key][1]["save"]
            if os.path.exists(path):
                os.remove(path)
        self.report.append(entry)

    def compare(self, row, entry, answers):
        times = {key: median([a["sample"] for a in got]) for key, got in answers.items() if got}
        entry["median_s"] = times
        fit = entry["fit"]
        unit = 1 if fit else 1e3
        rivals = [r for r in row["rivals"] if r in times]
        for key, t in times.items():
            last = answers[key][-1]
            wrong, looked = entry["wrong_labels"].get(key, (None, 0))
            labels = "" if wrong is None else f"{wrong} of {looked:,} labels wrong"
            extra = (f"{last['iterations']} iterations, inertia {last['inertia']:.6g}"
                     if fit else " ".join(last["kernels"][:1]))
            print(f"  {key:24} {t * unit:10.3f} {'s ' if fit else 'ms'} "
                  f"({len(answers[key])} samples)  {self.fraction(entry, key, t):8} {labels:28} {extra}")
        for mode in self.modes:
            ours = f"holdfast:{mode}" + ("" if fit else " dense")
            if ours not in times:
                self.missed.append(f"{row['name']} {mode}: no time")
                continue
            against = [min(rivals, key=times.get)] if fit and rivals else rivals
            for rival in against:
                self.judge(row, entry, mode, ours, rival, times)

    def fraction(self, entry, key, t):
        """Share of the multiply-add ceiling, of ours, for iterations."""
        mode = key.partition(":")[2].partition(" ")[0]
        if entry["fit"] or not key.startswith("holdfast") or not self.flop_ceiling(mode):
            return ""
        flops = 2.0 * entry["n"] * entry["d"] * entry["k"]
        share = flops / t / self.flop_ceiling(mode)
        entry.setdefault("ceiling", {})[key] = share
        return f"{100 * share:.0f} % FMA"

    def judge(self, row, entry, mode, ours, rival, times):
        bars = row["bars"] if entry["fit"] else row["bars"].get(rival, {})
        isa = self.modes[mode]
        bar = None if self.args.quick else bars.get(isa)
        ratio = times[rival] / times[ours]
        verdict = "" if bar is None else f"bar {bar:g}: " + ("reached" if ratio >= bar else "MISSED")
        if verdict.endswith("MISSED"):
            self.missed.append(f"{row['name']} {isa}: {ratio:.2f}x {rival}, bar {bar:g}x")
        skip = times.get(f"holdfast:{mode} skipping")
        also = "" if skip is None else f", with work skipping {times[rival] / skip:.2f}x"
        print(f"  -> {isa:7} {ratio:7.2f}x {rival}{also}  {verdict}")
        entry.setdefault("ratios", []).append(dict(mode=mode, isa=isa, rival=rival, ratio=ratio,
                                                   with_skipping=skip and times[rival] / skip,
                                                   bar=bar))

    def kernel(self, row):
        print(f"\n{row['name']}: the assign kernel by itself", flush=True)
        if not self.args.holdfast:
            print("  not measured: no holdfast command (--holdfast)")
            return
        for mode, isa in self.modes.items():
            shapes = ["10000,256,64"] if self.args.quick else row["shapes"]
            got = ceilings(self.args, MODES[mode], self.cpus, shapes)
            if not got:
                self.missed.append(f"{row['name']} {mode}: no time")
                continue
            peak = got["ceiling"]["fma_f32"][isa]
            amx = got["ceiling"]["amx_bf16"]
            for r in got["rows"]:
                shape = r["dimensions"]
                rate = r["flops"] / r["median_s"]
                bar = {"amx": 750e9, "avx512": 0.75 * peak}.get(isa) if not self.args.quick else None
                verdict = "" if bar is None else (f"bar {bar / 1e9:.0f} GF/s: " +
                                                  ("reached" if rate >= bar else "MISSED"))
                if verdict.endswith("MISSED"):
                    self.missed.append(f"assign {isa} {shape['n']} x {shape['d']}, K={shape['k']}: "
                                       f"{rate / 1e9:.0f} GF/s, bar {bar / 1e9:.0f}")
                print(f"  {isa:7} {shape['n']:>9,} x {shape['d']:<4} K={shape['k']:<5} {r['kernel']:30} "
                      f"{r['median_s'] * 1e3:9.3f} ms {rate / 1e9:7.1f} GF/s "
                      f"{100 * rate / peak:5.0f} % FMA"
                      f"{f' {100 * rate / amx:4.0f} % AMX bf16' if amx else ''}  {verdict}")
            self.report.append(dict(name=row["name"], mode=mode, isa=isa, bench=got))

    def all(self):
        rows = [r for r in ROWS if (r["name"] in self.args.only if self.args.only
                                    else not r.get("extra"))]
        end = time.monotonic() + self.args.budget
        for i, row in enumerate(rows):
            if row.get("kernel"):
                self.kernel(row)
                continue
            left = end - time.monotonic()
            if left <= 0:
                print(f"\n{row['name']}: left out, the time budget of {self.args.budget:g} s is used up")
                self.missed.append(f"{row['name']}: left out")
                continue
            self.measure(row, left / (len(rows) - i))
        for contender in self.contenders.values():
            contender.close()
        self.folder.cleanup()


def cpu_name():
    with open("/proc/cpuinfo") as f:
        found = re.search(r"model name\s*:\s*(.*)", f.read())
    return found.group(1) if found else platform.machine()


def write_results(run, args):
    os.makedirs(args.results, exist_ok=True)
    cpu = re.sub(r"[^A-Za-z0-9]+", "-", f"{platform.node()}-{cpu_name()}").strip("-").lower()
    now = datetime.datetime.now(datetime.timezone.utc)
    path = os.path.join(args.results, f"{cpu}-{now:%Y%m%d-%H%M%S}.json")
    with open(path, "w") as f:
        json.dump(dict(cpu=cpu_name(), date=now.isoformat(), kernel=platform.release(),
                       python=platform.python_version(), threads=args.threads, cpus=run.cpus,
                       quick=args.quick, versions=run.versions, isas=run.isas, ceiling=run.peak,
                       rows=run.report, missed=run.missed, wrong_labels=run.wrong), f, indent=1)
    return path


def find_built(name):
    for folder in ("build/bench", "build"):
        path = os.path.join(HERE, "..", folder, name)
        if os.path.exists(path):
            return os.path.abspath(path)
    return ""


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lib", default=find_built("libholdfast.so"), help="libholdfast.so to measure")
    p.add_argument("--holdfast", default=find_built("holdfast"),
                   help="the command, for ceilings and the kernel; '' to do without")
    p.add_argument("--only", default="", help="rows, separated by commas: " +
                   ", ".join(r["name"] for r in ROWS))
    p.add_argument("--modes", default="auto,avx512,avx2", help="auto, avx512, avx2 (HF_ISA_MAX)")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=ROUNDS, help="samples of each contender")
    p.add_argument("--budget", type=float, default=900,
                   help="seconds for all rows; slow contenders get fewer samples, at least one")
    p.add_argument("--fit-max-iter", type=int, default=300)
    p.add_argument("--quick", action="store_true", help="a twentieth of the rows, a quarter of K; no bars")
    p.add_argument("--fashion", help="train-images-idx3-ubyte[.gz]")
    p.add_argument("--cities", help="latitudes and longitudes, .npy")
    p.add_argument("--sift", help="SIFT descriptors, .fvecs")
    p.add_argument("--sample", type=int, default=20000, help="rows to verify where all are too many")
    p.add_argument("--cheap", type=float, default=4e9, help="verify all rows up to so many N * K * D")
    p.add_argument("--results", default=os.path.join(HERE, "results"))
    p.add_argument("--tmp", help="folder for the data while it runs")
    p.add_argument("--verbose", action="store_true", help="show what the contenders print")
    args = p.parse_args()
    args.only = [name for name in args.only.split(",") if name]
    args.modes = args.modes.split(",")
    known = {r["name"] for r in ROWS}
    for name in args.only:
        if name not in known:
            p.error(f"--only {name}: there is no such row; there are {', '.join(sorted(known))}")
    for mode in args.modes:
        if mode not in MODES:
            p.error(f"--modes {mode}: must be of {', '.join(MODES)}")
    if not os.path.exists(args.lib):
        p.error("no libholdfast.so: build first (bench/run.sh does) or give --lib")
    if args.holdfast and not os.path.exists(args.holdfast):
        p.error(f"--holdfast {args.holdfast}: there is no such file")
    return args


def main():
    args = options()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    sys.path.insert(0, HERE)
    sys.dont_write_bytecode = True
    run = Run(args)
    os.sched_setaffinity(0, run.cpus)
    print(f"{cpu_name()}, {args.threads} threads on CPUs {run.cpus}, sets {' '.join(run.isas)}")
    if run.peak:
        rates = ", ".join(f"{isa} {rate / 1e9:.0f} GF/s" for isa, rate in run.peak["fma_f32"].items()
                          if rate)
        print(f"ceilings: {rates}, AMX bf16 {run.peak['amx_bf16'] / 1e9:.0f} GF/s, "
              f"read {run.peak['read_bytes'] / 1e9:.1f} GB/s")
    run.all()
    print(f"\nversions: {', '.join(f'{k} {v}' for k, v in run.versions.items())}")
    print(f"results: {write_results(run, args)}")
    for line in run.missed:
        print(f"below its bar: {line}")
    if run.wrong:
        print(f"FAILED: {run.wrong} labels of holdfast differ from float64 brute force")
    return 1 if run.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
