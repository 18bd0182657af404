#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check.py [BASE] : build, then the tests and lints of what changed, in a minute or two.
check.py --list PATH... : which tests those would be for these paths, from the build that is there.

Changed is what differs between the working tree, new files included, and the commit where this branch left
BASE (main; origin/main where there is no main). Which tests belong to a folder says HF_FOLDERS in
tests/CMakeLists.txt. The last line is "N passed, N failed, N skipped"."""
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join("build", "ci")
JOBS = os.environ.get("JOBS") or str(os.cpu_count() or 1)
TESTS_AT_ONCE = "1" if os.path.exists("/dev/nvidiactl") else JOBS  # as in test.sh


def output(*command):
    """Standard output, or None if the command failed."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout if done.returncode == 0 else None


def fork(base):
    """The commit where this branch left `base`."""
    for name in [base] if base else ["main", "origin/main"]:
        found = output("git", "merge-base", "HEAD", name)
        if found:
            return found.strip()
    sys.exit(f"check.py: git knows no commit of both HEAD and {base or 'main'}: name a commit (make check "
             "BASE=HEAD~1), or run all tests (make test)")


def changed(commit):
    paths = output("git", "diff", "--name-only", "--no-renames", commit).split("\n")
    paths += output("git", "ls-files", "--others", "--exclude-standard").split("\n")
    return sorted({p for p in paths if p})


def all_tests():
    """{name: labels} of the build."""
    text = output("ctest", "--test-dir", BUILD, "--show-only=json-v1")
    if text is None:
        sys.exit(f"check.py: there is no build in {BUILD}: make check makes it")
    return {t["name"]: next((p["value"] for p in t["properties"] if p["name"] == "LABELS"), [])
            for t in json.loads(text)["tests"]}


def tests_of(path, tests):
    """A test's own source means that test; any other path the tests of the innermost folder that has some."""
    own = re.fullmatch(r"tests/(e2e/)?(\w+)\.(?:c|py|sh)", path)
    if own:
        name = "e2e_" + own.group(2) if own.group(1) else own.group(2)
        return {t for t in tests if t == name or t.startswith(name + "_") and not own.group(1)}
    while path:
        found = {t for t, labels in tests.items() if path in labels}
        if found:
            return found
        path = os.path.dirname(path)
    return set()


def choose(paths, tests):
    """The tests of all paths, and all lints."""
    chosen = {t for t, labels in tests.items() if "lint" in labels}
    return sorted(chosen.union(*(tests_of(path, tests) for path in paths)))


def for_tidy(paths):
    """The sources to look at: those changed, and for each header one source that includes it."""
    sources = {p for p in paths if p.endswith(".c")}
    for header in (p for p in paths if p.endswith(".h")):
        name = re.sub(r"^(src|tools/holdfast|include)/", "", header)
        include = rf'#include ["<]{re.escape(name)}[">]'
        found = output("git", "grep", "--untracked", "-lE", include, "--", "src/*.c", "tools/*.c") or ""
        near = sorted(found.split(), key=lambda p: (os.path.dirname(p) != os.path.dirname(header), p))
        sources.update(near[:1])
    return sorted(sources)


def run(base):
    commit = fork(base)
    paths = changed(commit)
    if not paths:
        print(f"Nothing differs from {commit[:10]}, so there is nothing to check; make test runs all tests.")
        return 0
    for command in (["cmake", "--preset", "ci"], ["cmake", "--build", "--preset", "ci", "-j", JOBS]):
        if subprocess.run(command, cwd=ROOT).returncode:
            return 1
    chosen = choose(paths, all_tests())
    print(f"== {len(paths)} files differ from {commit[:10]}: {len(chosen)} tests", flush=True)
    report = os.path.join(BUILD, "check.xml")
    names = "|".join(re.escape(name) for name in chosen)
    subprocess.run(["ctest", "--test-dir", BUILD, "-j", TESTS_AT_ONCE, "-R", f"^({names})$", "--output-on-failure",
                    "--no-label-summary", "--test-output-size-passed", "4194304",
                    "--test-output-size-failed", "4194304", "--output-junit", os.path.join(ROOT, report)],
                   cwd=ROOT, env=dict(os.environ, HF_TIDY_FILES=" ".join(for_tidy(paths))))
    return subprocess.run([sys.executable, "scripts/summary.py", report], cwd=ROOT).returncode


if sys.argv[1:2] == ["--list"]:
    print("\n".join(choose(sys.argv[2:], all_tests())))
else:
    sys.exit(run(sys.argv[1] if len(sys.argv) > 1 else ""))
