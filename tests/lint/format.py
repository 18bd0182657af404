#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All C and CUDA sources are formatted as clang-format 14 does with .clang-format; `make fmt` mends."""
import re
import shutil
import subprocess

from common import ROOT, files, finish, skip


def formatter():
    for name in ("clang-format-14", "clang-format"):
        if shutil.which(name):
            version = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            found = re.search(r"version (\d+)", version)
            if found and found.group(1) == "14":
                return name
    skip("clang-format 14 is not installed; other versions format differently")


def main():
    tool = formatter()
    sources = files(".c", ".h", ".cu", ".cuh")
    done = subprocess.run([tool, "--dry-run", *sources], cwd=ROOT, capture_output=True, text=True)
    first = {}
    for path, line in re.findall(r"^(.+?):(\d+):\d+: warning", done.stderr, re.M):
        first.setdefault(path, line)
    problems = [f"{path}: line {line}: make fmt would change this" for path, line in first.items()]
    finish(problems, f"format of {len(sources)} files")


main()
