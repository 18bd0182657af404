#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A function has at most 6 parameters; more are a struct. clang-tidy has this rule too, but not for .cu files."""
import re

from common import files, finish, text

MOST = 6
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
# The arguments of a template, whose commas part no parameters.
TEMPLATE = re.compile(r"(?<=\w)<[\w\s:*,+\-/%()]*>(?=\s*[&*\w>{(])")
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
# A name, or (*name), behind a type and before its parameters.
HEAD = re.compile(r"[\w*&>]\s*\b(\w+)\s*\(|\(\s*\*\s*(\w+)\s*\)\s*\(")
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "defined", "alignas", "else", "do", "case",
            "__attribute__", "__launch_bounds__", "decltype", "asm", "__typeof__"}


def plain(code):
    """The code without comments, strings and preprocessor lines, in as many lines."""
    for pattern in (COMMENT, STRING, DIRECTIVE):
        code = pattern.sub(lambda m: "\n" * m.group().count("\n") + " ", code)
    return code


def closing(code, at):
    """Where the parenthesis that opens at `at` closes, and the commas directly inside it."""
    depth, commas = 0, 0
    for i in range(at, len(code)):
        c = code[i]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return i, commas
        elif c == "," and depth == 1:
            commas += 1
    return len(code), commas


def is_types(parameters):
    """Does a list look like parameters, not like the arguments of a call? Each has a type and a name."""
    depth, part, parts = 0, "", []
    for c in parameters:
        depth += c in "([{"
        depth -= c in ")]}"
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    parts.append(part)
    return all(re.match(r"\s*(?:const\s+|struct\s+|enum\s+|unsigned\s+|volatile\s+)*\w[\w:<>]*[\s*&]+\(?[\w*&]", p)
               and not re.match(r"\s*return\b", p) for p in parts)


def functions(code):
    """(line, name, parameters) of each function and pointer to one that is declared or defined."""
    code = plain(code)
    code = TEMPLATE.sub(lambda m: "\n" * m.group().count("\n"), code)
    for head in HEAD.finditer(code):
        name = head.group(1) or head.group(2)
        if name in KEYWORDS:
            continue
        begin = head.end() - 1
        end, commas = closing(code, begin)
        behind = code[end + 1:end + 40].lstrip()
        if commas >= MOST and behind[:1] in "{;" and is_types(code[begin + 1:end]):
            yield code.count("\n", 0, head.start()) + 1, name, commas + 1


def main():
    public = set(re.findall(r"\b(hf_\w+)\s*\(", "".join(text(p) for p in files(".h", under=("include/",)))))
    paths = files(".c", ".h", ".cu", ".cuh", under=("src/", "tools/"))
    problems = []
    for path in paths:
        for line, name, count in functions(text(path)):
            if name not in public:
                problems.append(f"{path}:{line}: {name} has {count} parameters; make a struct of those "
                                f"that belong together (at most {MOST})")
    finish(problems, f"{len(paths)} files, for functions of more than {MOST} parameters")


main()
