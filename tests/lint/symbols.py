#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""symbols.py LIBHOLDFAST.so LIBHOLDFAST.a : what the library gives away and what it calls."""
import re
import shutil
import subprocess
import sys

from common import files, finish, skip, text

# Printing, ending the process, allocating, and what is not safe with threads, by plain name.
FORBIDDEN = set("""
printf vprintf fprintf vfprintf dprintf puts putchar fputs perror
exit _exit _Exit quick_exit abort atexit system popen
malloc calloc realloc reallocarray free posix_memalign aligned_alloc memalign valloc
strdup strndup asprintf vasprintf getline getdelim open_memstream
rand srand random srandom strtok localtime gmtime ctime asctime setlocale
signal sigaction longjmp
""".split())
ALLOCATING = set("malloc calloc realloc free posix_memalign aligned_alloc".split())
# Where the user's own tuning file and compiled kernels lie (XDG Base Directory Specification); what
# the OpenCL loader is told of drivers.
ENVIRONMENT = {"src/core/tune.c": ("XDG_CONFIG_HOME", "HOME"),
               "src/device/opencl/cl_cache.c": ("XDG_CACHE_HOME", "HOME"),
               "src/device/opencl/cl_load.c": ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES")}
# C names, and those of C++ functions in CUDA sources; inline and generated ones of nvcc are local.
OURS = re.compile(r"hf_|_Z\w*?\d+hf_")
GETENV = re.compile(r"\b(?:secure_)?getenv\s*\(\s*([^)]*)\)")


def nm(*args):
    result = subprocess.run(["nm", *args], capture_output=True, text=True, check=True)
    return result.stdout.split("\n")


def plain(symbol):
    """fprintf for __fprintf_chk@GLIBC_2.3.4, strtol for __isoc23_strtol."""
    symbol = symbol.split("@")[0]
    if symbol.startswith("__") and symbol.endswith("_chk"):
        return symbol[2:-4]
    return symbol.replace("__isoc99_", "").replace("__isoc23_", "")


def declared():
    names = set()
    for path in files(".h", under=("include/",)):
        if not path.startswith("include/holdfast/dev"):
            names |= set(re.findall(r"\bHF_API\b[^;{]*?\b(hf_\w+)\s*\(", text(path)))
    return names


def exported(library):
    return {line.split()[-1].split("@")[0] for line in nm("-D", "--defined-only", library) if line}


def check_archive(archive):
    member = "?"
    for line in nm("-g", archive):
        if line.endswith(".o:"):
            member = line[:-1]
            continue
        parts = line.split()
        if not parts:
            continue
        kind, symbol = parts[-2], parts[-1]
        if kind in "Uwv":
            name = plain(symbol)
            allowed = (member == "mem.c.o" and name in ALLOCATING
                       or member.endswith(".cu.o") and name == "atexit")  # nvcc's own
            if name in FORBIDDEN and not allowed:
                yield f"{member}: calls {name}"
        elif not OURS.match(symbol):
            yield f"{member}: {symbol} is external and not hf_*"


def check_environment():
    """Only HF_* variables are read, besides those of ENVIRONMENT; realpath() gets a buffer."""
    for path in files(".c", ".h", ".cu", ".cuh", under=("src/",)):
        for argument in GETENV.findall(text(path)):
            literal = re.match(r'"(\w+)"$', argument.strip())
            if literal and literal.group(1) in ENVIRONMENT.get(path, ()):
                continue
            if literal and not literal.group(1).startswith("HF_"):
                yield f"{path}: reads the variable {literal.group(1)}"
            elif not literal and '"HF_' not in text(path):
                yield f"{path}: reads a variable whose name does not begin with HF_"
        if re.search(r"\brealpath\s*\([^;]*,\s*NULL\s*\)", text(path)):
            yield f"{path}: realpath(..., NULL) allocates"


def main(shared, archive):
    if not shutil.which("nm"):
        skip("there is no nm")
    problems = []
    given, promised = exported(shared), declared()
    problems += [f"{shared}: exports {s}, which no installed header declares"
                 for s in sorted(given - promised)]
    problems += [f"{shared}: does not export {s}, which a header declares"
                 for s in sorted(promised - given)]
    problems += check_archive(archive)
    problems += check_environment()
    finish(problems, f"{len(given)} exported symbols")


main(*sys.argv[1:])
