#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The include graph obeys the dependency rule of docs/architecture.md; no folder of code is too long to read."""
import collections
import os
import re

from common import ROOT, files, finish, text

# layer: the layers it may include from, besides itself. Lists (.def) are open to all.
BELOW = {
    "base": [],
    "device": ["base"],
    "comm": ["base", "device"],
    "core": ["base", "device", "comm"],
    "rows": ["base", "device", "core"],
    "ops": ["base", "device", "comm", "core"],
    "guard": ["base", "device", "core", "ops"],
    "algo": ["base", "core", "rows", "ops", "guard", "comm"],
    "io": ["base", "core"],
    "harness": ["base", "device", "core", "rows", "ops", "guard", "comm", "algo", "io"],
}
MOST_FILES = 30  # of one folder, without its subfolders
CODE = ("src/", "tools/", "python/", "include/", "blas/")
COMMAND = "tools/holdfast"
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.M)
BACKEND = re.compile(r"\b(?:WITH|HF)_(?:CUDA|OPENCL|MPI|NCCL)\b")
BACKEND_PLACES = ("src/ops/registry.c", "src/device/", "src/comm/")


def check_internal(path, name, layer):
    """One #include "name" of a source file of a layer; the problem or None."""
    if not os.path.isfile(os.path.join(ROOT, "src", name)):
        return f'"{name}" is not a path relative to src/'
    if name.endswith(".def"):
        return None
    target = name.split("/")[0]
    if target != layer and target not in BELOW[layer]:
        return f'"{name}": {layer} may not include from {target}'
    if layer == "algo" and target == "ops":
        parts = name.split("/")
        if len(parts) > 2 and parts[2:] != [parts[1] + ".h"]:
            return f'"{name}": algo may name an op\'s argument header ({parts[1]}.h) only'
    return None


def check_source(path):
    layer = path.split("/")[1]
    if layer not in BELOW:
        yield f"{path}: src/{layer} is no layer"
        return
    developer = layer == "harness" or path.endswith("_case.c")
    for match in INCLUDE.finditer(text(path)):
        internal, system = match.groups()
        if internal:
            problem = check_internal(path, internal, layer)
            if problem:
                yield f"{path}: {problem}"
        elif (system or "").startswith("holdfast/dev") and not developer:
            yield f"{path}: <{system}> is for libholdfast_dev only"


def may_quote(path, name):
    """May this file outside src include "name"? A verb of the command: its own folder, and what all verbs share."""
    if path.startswith(COMMAND + "/"):
        own = os.path.dirname(path)[len(COMMAND):].strip("/")
        return (os.path.dirname(name) in ("", own)
                and os.path.isfile(os.path.join(ROOT, COMMAND, name)))
    return (not path.startswith("include/")
            and os.path.isfile(os.path.join(ROOT, os.path.dirname(path), name)))


def check_outside(path):
    """Public headers and the command: the public API only, and what may_quote() lets them."""
    for match in INCLUDE.finditer(text(path)):
        internal, system = match.groups()
        if internal and not may_quote(path, internal):
            yield (f'{path}: "{internal}": only <holdfast/...> may be included here, and by a verb, '
                   f"relative to {COMMAND}, files of its own folder and of that one")
        if system and system.startswith("holdfast/"):
            if not os.path.isfile(os.path.join(ROOT, "include", system)):
                yield f"{path}: <{system}> does not exist"
            elif (path.startswith("include/") and system.startswith("holdfast/dev")
                  and not path.startswith("include/holdfast/dev")):
                yield f"{path}: <{system}> is not installed"


def main():
    problems = []
    sources = files(".c", ".h", ".cu", ".cuh", ".cl", under=("src/",))
    outside = files(".c", ".h", under=("tools/", "include/", "examples/"))
    for path in sources:
        problems += check_source(path)
        if BACKEND.search(text(path)) and not path.startswith(BACKEND_PLACES):
            problems.append(f"{path}: a backend is chosen in {', '.join(BACKEND_PLACES)} only")
    for path in outside:
        problems += check_outside(path)
    folders = collections.Counter(os.path.dirname(path) for path in files(under=CODE))
    problems += [f"{folder}: {count} files; split it, {MOST_FILES} are the most"
                 for folder, count in folders.items() if count > MOST_FILES]
    if not sources:
        problems.append("no sources found")
    finish(problems, f"includes of {len(sources) + len(outside)} files")


main()
