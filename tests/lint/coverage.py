#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/coverage.tsv: which GPU rows passed the kernel test, on which machine, from which sources.

    coverage.py [HOLDFAST]            check: each GPU row of the build has a line; stale ones are listed
    coverage.py --record LOG MACHINE  note the rows that passed in the output LOG of test_kernels

A row's sources are the .cu and .cuh files of its op and all that these include, other ops' kernels too;
the line holds their hash, so a change of any of them makes the row unverified until it is run again."""
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys

from common import ROOT, files, finish, skip, text

TABLE = os.path.join(ROOT, "tests", "coverage.tsv")
HEAD = "# kernel\tsources\tmachine\tdate\n"
INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.M)


def closure(op):
    """All sources that the CUDA rows of an op are made of."""
    todo = files(".cu", ".cuh", under=(f"src/ops/{op}/", "src/device/cuda/"))
    seen = set()
    while todo:
        path = todo.pop()
        if path in seen or not os.path.isfile(os.path.join(ROOT, path)):
            continue
        seen.add(path)
        todo += ["src/" + name for name in INCLUDE.findall(text(path))]
        other = re.match(r"src/ops/(\w+)/(?:cuda/)?\w+_cuda\.h$", path)
        if other:  # a header of launch functions stands for what they launch
            todo += files(".cu", ".cuh", under=(f"src/ops/{other.group(1)}/",))
    return sorted(seen)


def sources_hash(op):
    h = hashlib.sha256()
    for path in closure(op):
        h.update(path.encode() + b"\0" + text(path).encode() + b"\0")
    return h.hexdigest()[:16]


def read_table():
    lines = text("tests/coverage.tsv").split("\n") if os.path.exists(TABLE) else []
    return {line.split("\t")[0]: line.split("\t") for line in lines
            if line and not line.startswith("#")}


def record(log, machine):
    table = read_table()
    today = datetime.date.today().isoformat()
    with open(log) as f:
        for line in f:
            m = re.match(r"(passed|FAILED)\s+(\w+)\s+(\w+)\s+\d+ cases", line)
            if not m or not re.search(r"_(cuda|sm\d+)(_|$)", m.group(3)):
                continue
            table.pop(m.group(3), None)
            if m.group(1) == "passed":
                table[m.group(3)] = [m.group(3), sources_hash(m.group(2)), machine, today]
    with open(TABLE, "w") as f:
        f.write(HEAD + "".join("\t".join(table[name]) + "\n" for name in sorted(table)))


def gpu_rows(holdfast):
    """{row: op} of the build."""
    out = subprocess.run([holdfast, "info", "--json"], capture_output=True, text=True, check=True)
    return {row["name"]: op["op"] for op in json.loads(out.stdout)["ops"]
            for row in op["kernels"] if row["device"] == "cuda"}


def check(holdfast):
    rows, table = gpu_rows(holdfast), read_table()
    if not rows:
        skip("this build has no GPU rows")
    problems = [f"tests/coverage.tsv: {name}: not in this build" for name in table if name not in rows]
    for name, op in sorted(rows.items()):
        if name not in table:
            problems.append(f"tests/coverage.tsv: {name}: it never ran on its hardware")
        elif table[name][1] != sources_hash(op):
            print(f"unverified: {name}: its sources changed since {table[name][3]}")
    finish(problems, f"{len(rows)} GPU rows")


if sys.argv[1:2] == ["--record"]:
    record(*sys.argv[2:])
else:
    command = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("HOLDFAST", "")
    if not command:
        skip("there is no command to ask")
    check(command)
