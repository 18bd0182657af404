#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""summary.py REPORT.xml... : sum the JUnit reports of ctest over all builds.

A ctest test counts as many tests as its own output says it ran (cmocka's "[  PASSED  ] 3 test(s).", or
a last line "N passed, N failed, N skipped"), else as one. The last line printed is that sum; the exit
status is 1 when something failed, when a report is missing and when nothing ran.
"""
import re
import sys
import xml.etree.ElementTree as ET

TALLY = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped(?: \(.*\))?$", re.M)
CMOCKA = {
    "passed": re.compile(r"\[  PASSED  \] (\d+) test"),
    "failed": re.compile(r"\[  FAILED  \] (?:[^:\n]+: )?(\d+) test\(s\), listed"),
    "skipped": re.compile(r"\[  SKIPPED \] (?:[^:\n]+: )?(\d+) test\(s\), listed"),
}
REASON = re.compile(r"^skipped:? +(\S.*)$", re.M)


def counts(text, status):
    """passed, failed, skipped of one ctest test; its own words cannot overrule ctest's verdict."""
    if status == "skipped":
        return [0, 0, 1]
    tallies = TALLY.findall(text)
    if tallies:
        found = [int(n) for n in tallies[-1]]
    else:
        found = [sum(int(n) for n in CMOCKA[k].findall(text)) for k in ("passed", "failed", "skipped")]
    if status == "failed":
        return [found[0], max(found[1], 1), found[2]]
    return [found[0], found[1], found[2]] if sum(found) else [1, 0, 0]


def read(path):
    """(name, status, output) of each test in a report."""
    for case in ET.parse(path).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        skipped = case.find("skipped")
        # A program that is missing is "skipped" too in ctest's eyes, but not in ours.
        if skipped is not None and skipped.get("message", "").startswith("SKIP_"):
            status = "skipped"
        else:
            status = "passed" if case.get("status") == "run" else "failed"
        yield case.get("name"), status, output


def main(paths):
    total = [0, 0, 0]
    broken = []
    for path in paths:
        build = path.split("/")[-2] if "/" in path else path
        try:
            tests = list(read(path))
            if not tests:
                total[1] += 1
                broken.append(f"failed: {build}: no test was run")
            for name, status, output in tests:
                tally = counts(output, status)
                total = [a + b for a, b in zip(total, tally)]
                if tally[1]:
                    broken.append(f"failed: {build}: {name}")
                if tally[2]:
                    for reason in REASON.findall(output) or ["no reason given"]:
                        print(f"skipped: {build}: {name}: {reason}")
        except (OSError, ET.ParseError) as error:
            total[1] += 1
            broken.append(f"failed: {build}: no report: {error}")
    for line in broken:
        print(line)
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
