#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tidy.py BUILD : clang-tidy over src and tools, or over those files of them that HF_TIDY_FILES names.
SIMD sources are looked at once, as their AVX-512 version."""
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from common import ROOT, finish, skip


def tool():
    for name in ("clang-tidy-14", "clang-tidy"):
        if shutil.which(name):
            version = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if re.search(r"version 14\b", version):
                return name
    skip("clang-tidy 14 is not installed; other versions have other checks")


def commands(build, only):
    """One compile command for each source."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        entries = json.load(f)
    chosen = {}
    for entry in entries:
        path = os.path.relpath(entry["file"], ROOT)
        if not re.match(r"(src|tools)/.*\.c$", path) or (
                only is not None and path not in only):
            continue
        if path not in chosen or "-DHF_ISA=avx512 " in entry["command"]:
            chosen[path] = entry
    for entry in chosen.values():  # flags that clang 14 may not know are no finding
        entry["command"] += " -Wno-unknown-warning-option -UNDEBUG"  # assertions say what holds
    return chosen


def check(name, folder, path):
    done = subprocess.run([name, "--quiet", "-p", folder, os.path.join(ROOT, path)],
                          capture_output=True, text=True)
    lines = [line.replace(ROOT + "/", "") for line in done.stdout.split("\n")]
    found = [line for line in lines if re.search(r": (?:warning|error): ", line)]
    if done.returncode and not found:
        found = [f"{path}: {done.stderr.strip()[-400:]}"]
    return found


def main(build):
    name = tool()
    only = os.environ.get("HF_TIDY_FILES")
    chosen = commands(build, None if only is None else only.split())
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as f:
            json.dump(list(chosen.values()), f)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(lambda path: check(name, folder, path), sorted(chosen)):
                problems += [line for line in found if line not in problems]
    finish(problems, f"clang-tidy of {len(chosen)} files")


main(sys.argv[1])
