#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stack.py OBJECT... : the tile loops of the assign kernels keep their accumulators in registers.

A tile loop is an innermost loop of which at least FMAS instructions, and one in SHARE, are fused
multiply-adds on the widest registers of the object. A vector load or store of the stack in it means that
the compiler ran out of registers, or did not unroll: the kernel is then several times slower, and no
other test would notice."""
import re
import shutil
import subprocess
import sys

from common import finish, skip

FMAS = 8
SHARE = 5
LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")


def functions(path):
    """name -> [(address, mnemonic, operands)]"""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True,
                             text=True, check=True).stdout
    code, found = None, {}
    for line in listing.split("\n"):
        head = FUNCTION.match(line)
        if head:
            code = found.setdefault(head.group(1), [])
            continue
        part = LINE.match(line)
        if part and code is not None:
            code.append((int(part.group(1), 16), part.group(2), part.group(3)))
    return found


def innermost_loops(code):
    """Instructions between a backward jump and its target, where no other such pair lies inside."""
    jumps = []
    for address, name, operands in code:
        target = re.match(r"([0-9a-f]+)\b", operands)
        if name.startswith("j") and target and int(target.group(1), 16) <= address:
            jumps.append((int(target.group(1), 16), address))
    for begin, end in jumps:
        if not any((b, e) != (begin, end) and begin <= b and e <= end for b, e in jumps):
            yield [i for i in code if begin <= i[0] <= end]


def main(paths):
    if not shutil.which("objdump"):
        skip("there is no objdump")
    problems, loops = [], 0
    for path in paths:
        isa = re.search(r"hf_isa_(\w+)\.dir", path).group(1)
        seen = 0
        for name, code in functions(path).items():
            framed = any(i[1] == "mov" and i[2] == "%rsp,%rbp" for i in code)
            stack = re.compile(r"\(%rsp|\(%rbp" if framed else r"\(%rsp")
            for loop in innermost_loops(code):
                widest = "%zmm" if any("%zmm" in i[2] for i in loop) else "%ymm"
                fmas = sum((i[1].startswith("vf") and "madd" in i[1] and i[1].endswith("ps")
                            or i[1] == "vpdpwssd") and widest in i[2] for i in loop)
                if fmas < FMAS or fmas * SHARE < len(loop):
                    continue
                seen += 1
                spills = [i for i in loop if re.search(r"%[yz]mm", i[2]) and stack.search(i[2])]
                if spills:
                    problems.append(f"{isa}: {name}: loop of {fmas} multiply-adds at "
                                    f"{loop[0][0]:x} touches the stack {len(spills)} times")
        print(f"{isa}: {seen} tile loops")
        loops += seen
        if not seen and isa != "amx":  # that one multiplies in tiles
            problems.append(f"{isa}: no tile loop found: was it not unrolled?")
    finish(problems, f"{loops} tile loops")


main(sys.argv[1:])
