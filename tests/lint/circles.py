#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No circles in src or in the command: no files that include each other, or whose functions call each other."""
import collections
import re

from common import files, finish, text

# A definition begins in the first column and ends its head with an opening brace.
DEFINITION = re.compile(r"^(?!static|typedef|#|extern)[a-z][\w \t*]*?\b(hf_\w+)\([^;{}]*\)\s*\{", re.M)
ROOTS = ("src/", "tools/holdfast/")  # names in #include are relative to these
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
NAME = re.compile(r"(?<!struct )\b(hf_\w+)\b")


def root_of(path):
    return next(root for root in ROOTS if path.startswith(root))


def includes(code):
    """file: {file it includes: why}"""
    return {path: {root_of(path) + name: "includes it" for name in INCLUDE.findall(code[path])}
            for path in code}


def calls(code):
    """file: {file that defines a function it names: that function}"""
    home = {name: path for path in code if path.endswith((".c", ".cu"))
            for name in DEFINITION.findall(code[path])}
    needs = collections.defaultdict(dict)
    for path in code:
        if path.endswith((".c", ".cu")):
            for name in NAME.findall(code[path]):
                if home.get(name, path) != path:
                    needs[path][home[name]] = "calls " + name
    return needs


def circles(needs):
    """Groups of files each of which needs all others (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(at):
        index[at] = low[at] = len(index)
        stack.append(at)
        for to in sorted(needs.get(at, {})):
            if to not in index:
                visit(to)
                low[at] = min(low[at], low[to])
            elif to in stack:
                low[at] = min(low[at], index[to])
        if low[at] == index[at]:
            group = stack[stack.index(at):]
            del stack[stack.index(at):]
            if len(group) > 1:
                found.append(sorted(group))

    for at in sorted(needs):
        if at not in index:
            visit(at)
    return found


def main():
    code = {path: COMMENT.sub(" ", text(path))
            for path in files(".c", ".h", ".cu", ".cuh", under=ROOTS)}
    problems = []
    for needs in (includes(code), calls(code)):
        for group in circles(needs):
            why = [f"    {a} -> {b}: {needs[a][b]}" for a in group for b in group if b in needs[a]]
            problems.append("circle of " + ", ".join(group) + "\n" + "\n".join(why))
    finish(problems, f"{len(code)} files, for circles")


main()
