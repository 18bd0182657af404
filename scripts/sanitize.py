#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kernel test on a GPU under compute-sanitizer: memcheck, initcheck, synccheck and racecheck.

The tools make kernels 10 to 1000 times slower, so each row runs by itself, on a share of the cases, many
processes at once. Rows that no process tested are failures too."""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import time

TOOLS = {"memcheck": 20_000_000, "synccheck": 2_000_000, "initcheck": 500_000, "racecheck": 200_000}
NOISE = ("Host Frame", "backtrace", "COMPUTE-SANITIZER", "Device Frame")


def run(command, env, limit):
    begin = time.time()
    try:
        done = subprocess.run(command, env={**os.environ, **env}, text=True, timeout=limit,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout, time.time() - begin
    except subprocess.TimeoutExpired as e:
        return None, (e.stdout or b"").decode(errors="replace"), time.time() - begin


def rows_of(test):
    """(op, row) of every CUDA row that runs here."""
    code, said, _ = run([test], {"HF_CHECK_DEVICE": "cuda", "HF_CHECK_SHARE": "0/16"}, 600)
    here = r"^(?:passed +(\w+) +(\w+) +\d+ cases|skipped +(\w+) +(\w+) +0 cases: no case of this part)"
    found = [(a or c, b or d) for a, b, c, d in re.findall(here, said, re.M)]
    if code != 0:
        sys.exit(f"{test} does not pass without a tool, or was built without CUDA:\n{said[-2000:]}")
    if not found:
        why = re.search(r"^skipped +\w+ +\w+ +\d+ cases: (.*)", said, re.M)
        sys.exit(f"no CUDA row runs here: {why[1] if why else 'this build has none'}")
    return found


def piece(args, tool, op, row, share):
    """One process: (tool, row, cases it ran, what is wrong or '')."""
    env = {"HF_CHECK_DEVICE": "cuda", "HF_CHECK_ONCE": "1", "HF_CHECK_SHARE": f"{share}/{args.shares}",
           "HF_CHECK_LARGEST": str(args.largest or TOOLS[tool]), "HF_CHECK_SEED": str(args.seed),
           "HF_CHECK_LEAVE": "1" if tool == "initcheck" else "0"}
    command = [args.sanitizer, "--tool", tool, "--print-limit", "20", "--error-exitcode", "9", args.test, op, row]
    code, said, seconds = run(command, env, args.timeout)
    cases = sum(int(n) for n in re.findall(rf"^passed +{op} +{row} +(\d+) cases", said, re.M))
    lines = [line for line in said.splitlines()
             if line.startswith(("=========", "FAILED", " ")) and not any(n in line for n in NOISE)]
    if code is None:
        return tool, row, 0, "\n".join(lines[:20] + [f"not done after {seconds:.0f} s: smaller --largest"])
    return tool, row, cases, "" if code == 0 else "\n".join(lines[:20]) or said[-1000:]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--test", required=True, help="test_kernels of the build")
    p.add_argument("--tools", default=",".join(TOOLS))
    p.add_argument("--rows", default=".", help="regular expression of row names")
    p.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1), help="processes at once")
    p.add_argument("--shares", type=int, default=4, help="pieces of each row's cases")
    p.add_argument("--only", type=int, default=99, help="so many of these pieces")
    p.add_argument("--largest", type=int, default=0, help="most n * k * d of a case (each tool its own)")
    p.add_argument("--timeout", type=float, default=600, help="seconds of a process")
    p.add_argument("--seed", type=int, default=20240229)
    args = p.parse_args()
    args.sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.access(args.test, os.X_OK):
        sys.exit(f"there is no {args.test}: build the target test_kernels")
    rows = [(op, row) for op, row in rows_of(args.test) if re.search(args.rows, row)]
    if not rows:
        sys.exit(f"no row that runs here is called {args.rows}")
    if not os.access(args.sanitizer, os.X_OK):
        sys.exit(f"there is no {args.sanitizer}: it is a part of the CUDA toolkit")
    jobs = [(tool, op, row, share) for share in range(min(args.shares, args.only))
            for tool in reversed(args.tools.split(",")) for op, row in rows]
    cases = {(tool, row): 0 for tool, _, row, _ in jobs}
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for tool, row, count, text in pool.map(lambda job: piece(args, *job), jobs):
            cases[tool, row] += count
            wrong += bool(text)
            if text:
                print(f"{tool} {row}:\n{text}", flush=True)
    for (tool, row), count in cases.items():
        print(f"{tool:10s} {row:36s} {count:5d} cases" + ("" if count else ": NOT TESTED"))
    missing = sum(count == 0 for count in cases.values())
    print(f"{len(jobs)} runs, {wrong} with errors, {missing} of {len(cases)} rows and tools not tested")
    return 1 if wrong or missing else 0


if __name__ == "__main__":
    sys.exit(main())
