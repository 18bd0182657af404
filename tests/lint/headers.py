#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone as C11 and as C++17, without a warning; no two headers have one guard."""
import os
import re
import shutil
import subprocess
import tempfile

from common import ROOT, files, finish, skip, text

WARNINGS = "-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror".split()
COMPILERS = [("gcc", "c", "c11"), ("clang", "c", "c11"), ("g++", "c++", "c++17"),
             ("clang++", "c++", "c++17")]


def compile_alone(compiler, language, standard, header):
    """The compiler's complaint, or None."""
    name = header[len("include/"):]
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "alone." + ("c" if language == "c" else "cpp"))
        with open(source, "w", encoding="utf-8") as f:
            f.write(f"#include <{name}>\n#include <{name}>\nint main(void) {{ return 0; }}\n")
        done = subprocess.run(
            [compiler, "-x", language, f"-std={standard}", *WARNINGS, "-fsyntax-only",
             "-I", os.path.join(ROOT, "include"), source], capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr


def shared_guards():
    """The second header of a guard: where the first one is included, it is empty."""
    first = {}
    for path in files(".h", ".cuh"):
        guard = re.search(r"^#ifndef (\w+)\n#define \1$", text(path), re.M)
        if guard and first.setdefault(guard[1], path) != path:
            yield f"{path}: {first[guard[1]]} has the guard {guard[1]} too"


def main():
    usable = [c for c in COMPILERS if shutil.which(c[0])]
    for compiler, _, _ in COMPILERS:
        if not shutil.which(compiler):
            print(f"left out: {compiler} is not installed")
    if not usable:
        skip("no compiler found")
    headers = files(".h", under=("include/",))
    problems = list(shared_guards())
    for header in headers:
        for compiler, language, standard in usable:
            complaint = compile_alone(compiler, language, standard, header)
            if complaint:
                problems.append(f"{header} alone, {compiler} -std={standard}:\n{complaint}")
    finish(problems, f"{len(headers)} headers by {len(usable)} compilers")


main()
