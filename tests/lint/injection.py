#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""injection.py SHARED STATIC DEV: the library that is shipped holds nothing of planted faults, and
all of its objects but the door are, byte for byte, in the development library."""
import hashlib
import re
import sys

from common import finish

TRACE = re.compile(rb"[\w./]*(?:hf_inject|hf_strike|hf_fault_parse|_inject\b|harness/inject)[\w./]*", re.I)
DOOR = "run.c.o"


def members(path):
    """Name and contents of each member of an archive as GNU ar writes it."""
    with open(path, "rb") as f:
        data = f.read()
    if data[:8] != b"!<arch>\n":
        raise ValueError(f"{path}: is no archive")
    names, at = b"", 8
    while at + 60 <= len(data):
        name = data[at:at + 16].rstrip()
        size = int(data[at + 48:at + 58])
        body = data[at + 60:at + 60 + size]
        at += 60 + size + size % 2
        if name == b"//":
            names = body
        elif name not in (b"/", b"/SYM64/"):
            if name.startswith(b"/"):
                start = int(name[1:])
                name = names[start:names.index(b"/", start)]
            yield name.rstrip(b"/").decode(), body


def digest(body):
    return hashlib.sha256(body).digest()


def main(shared, static, dev):
    problems = []
    for path in (shared, static):
        with open(path, "rb") as f:
            for found in sorted(set(TRACE.findall(f.read())))[:5]:
                problems.append(f"{path}: holds '{found.decode(errors='replace')}': planted faults are for the "
                                "development library only")
    developed = {(name, digest(body)) for name, body in members(dev)}
    shipped = list(members(static))
    for name, body in shipped:
        if name != DOOR and (name, digest(body)) not in developed:
            problems.append(f"{static}: {name} is not the object of that name in {dev}: what is tested is not "
                            "what is shipped")
    if sum(name == DOOR for name, _ in shipped) != 1:
        problems.append(f"{static}: the door, {DOOR}, is not in it once: tell this test its name")
    if not any(TRACE.search(body) for _, body in members(dev)):
        problems.append(f"{dev}: has no trace of planted faults either: this test looks for the wrong words")
    finish(problems, f"{len(shipped)} objects")


main(*sys.argv[1:])
