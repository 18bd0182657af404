# SPDX-License-Identifier: Apache-2.0
"""scripts/check.py chooses the tests of what changed: by folder, by name, and the lints in any case."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import ROOT, Skip, check, equal, main, test  # noqa: E402

BUILD = os.environ.get("HF_TEST_BUILD", "")


def chosen(*paths):
    """The tests for these paths that are no lints."""
    if os.path.realpath(BUILD) != os.path.realpath(os.path.join(ROOT, "build", "ci")):
        raise Skip("make check works in build/ci, and this is another build")
    done = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "check.py"), "--list", *paths],
                          capture_output=True, text=True)
    equal((done.returncode, done.stderr), (0, ""))
    names = done.stdout.split()
    check("lint_words" in names and "lint_tidy" in names, f"lints run in any case: {names}")
    return {name for name in names if not name.startswith("lint_")}


@test
def folders():
    """The innermost folder with tests of its own counts, also for files that are gone."""
    csv = chosen("src/io/csv/no_such_file.c")
    check({"test_io_csv", "fuzz_csv", "e2e_inputs"} <= csv, csv)
    check(not csv & {"test_kernels", "test_init", "e2e_resume"}, csv)
    check("test_kernels" in chosen("src/ops/assign/host/assign_simd.c"), "the kernel test checks each op")
    check("e2e_resume" in chosen("tools/holdfast/main.c", "README.md"), "tools: all end-to-end tests")
    equal(chosen("tests/lint/tidy.py"), set(), "a lint")
    equal(chosen("README.md", "docs/numerics.md"), set(), "pages")


@test
def tests_themselves():
    equal(chosen("tests/test_parallel.c"), {"test_parallel"})
    equal(chosen("tests/e2e/help.py"), {"e2e_help"})
    check("e2e_resume" in chosen("tests/e2e/support/cli.py"), "what all end-to-end tests share")


@test
def each_test_has_a_folder():
    """Of sources: each is in tests too, and a test that is there alone would never run for what it tests."""
    done = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], capture_output=True, text=True)
    for found in json.loads(done.stdout)["tests"]:
        labels = next((p["value"] for p in found["properties"] if p["name"] == "LABELS"), [])
        sources = re.compile(r"(src|include|tools|python|cmake|scripts)\b")
        check("lint" in labels or any(sources.match(label) for label in labels),
              f"HF_FOLDERS in tests/CMakeLists.txt names no folder of sources for {found['name']}")


if __name__ == "__main__":
    main()
