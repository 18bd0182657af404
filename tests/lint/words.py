#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Text of the tree: the SPDX line, length of lines and files, words that have no place here, links of pages and
results that they name."""
import os
import re

from common import ROOT, files, finish, text

CODE = (".c", ".h", ".def", ".cu", ".cuh", ".cl", ".py", ".sh", ".cmake")
MAX_COLUMNS = {".py": 120, ".sh": 120}  # 100 for all others
MAX_LINES = 600
# Spelt in two halves so that this file does not contain them.
MARKS = "|".join(a + b for a, b in (("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK")))
FORBIDDEN = [
    (re.compile(rf"\b(?:{MARKS})\b"), "open ends belong into an issue"),
    (re.compile(r"(?<![\w.])/(?:work|home|root|Users)/\w"), "a path of somebody's machine"),
    (re.compile(r"(?<!\w)-march=native\b"), "code for one machine only"),
    (re.compile(r"(?<!never )-ffast-math\b"), "arithmetic that the compiler may change"),
    (re.compile(r"^(?:<{7}|>{7}) ", re.M), "a merge conflict"),
]
# What a device without float64 does not know; comments and float64.cl, which has it, are not looked at.
COMMENT = re.compile(r"/\*.*?\*/", re.S)
FLOAT64 = re.compile(r"\bdouble\d*\b|"
                     r"(?<![\w.])(?:0x[\da-fA-F.]+p[-+]?\d+|\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+)(?![\w.])")
# Numbers of one's own machine may stand in measured results; names of flags in what forbids them.
EXEMPT = ("docs/", "CHANGELOG.md", "README.md", "tests/lint/words.py", "bench/")


LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]*))?\)")
RESULTS = re.compile(r"(?<![\w.-])(?:bench/results/)?([a-z][\w-]*-20\d{6}[\w-]*\.(?:txt|tsv|json|md))\b")


def anchors(path):
    heads = re.findall(r"^#+ (.*)", text(path), re.M)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}


def links(path):
    """A link leads to a file of the tree, and to a heading of it."""
    content = text(path)
    for match in LINK.finditer(content):
        name, anchor = match.groups()
        target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(os.path.join(ROOT, target)):
            yield f"{path}:{line_of(content, match.start())}: no file {name}"
        elif anchor and target.endswith(".md") and anchor not in anchors(target):
            yield f"{path}:{line_of(content, match.start())}: {target} has no heading #{anchor}"


def results(path, there):
    """A file of results that a page names is in the tree; git would leave a new one out."""
    content = text(path)
    for match in RESULTS.finditer(content):
        if match.group(1) not in there:
            yield f"{path}:{line_of(content, match.start())}: no file bench/results/{match.group(1)}"


def line_of(content, position):
    return content.count("\n", 0, position) + 1


def check(path):
    content = text(path)
    lines = content.split("\n")
    code = path.endswith(CODE) or path.endswith(("CMakeLists.txt", "Makefile"))
    if code and not any("SPDX-License-Identifier: Apache-2.0" in s for s in lines[:3]):
        yield f"{path}: no SPDX line on top"
    if code and not path.endswith(".def"):
        most = MAX_COLUMNS.get(path[path.rfind("."):], 100)
        for number, line in enumerate(lines, 1):
            if len(line) > most:
                yield f"{path}:{number}: {len(line)} columns, {most} are allowed"
    if code and len(lines) > MAX_LINES:
        yield f"{path}: {len(lines)} lines, {MAX_LINES} are allowed"
    if path.endswith(".cl") and "/float64" not in path:
        bare = COMMENT.sub(lambda m: "\n" * m.group(0).count("\n"), content)
        for match in FLOAT64.finditer(bare):
            yield f"{path}:{line_of(bare, match.start())}: '{match.group(0)}': float64 has functions, in float64.cl"
    for pattern, why in FORBIDDEN:
        if path.startswith(EXEMPT):
            continue
        for match in pattern.finditer(content):
            yield f"{path}:{line_of(content, match.start())}: '{match.group(0)}': {why}"


def main():
    texts = files(*CODE, ".md", ".txt", ".json", ".in", ".1", "Makefile")
    texts = [p for p in texts if not p.startswith("tests/data/") and "/corpus/" not in p]
    there = {p.split("/")[-1] for p in files(".txt", ".tsv", ".json", ".md", under=("bench/results/",))}
    names = {}
    problems = []
    for path in texts:
        problems += check(path)
        if path.endswith(".md"):
            problems += links(path)
        if path.endswith(".md") and not path.startswith("bench/results/"):
            problems += results(path, there)
        if path.endswith((".c", ".h")):
            names.setdefault(path.split("/")[-1], []).append(path)
    for name, paths in sorted(names.items()):
        if len(paths) > 1 and not all(p.startswith(("include/", "src/")) for p in paths):
            problems.append(f"{name}: one name for {', '.join(paths)}")
    finish(problems, f"text of {len(texts)} files")


main()
