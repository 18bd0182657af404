# SPDX-License-Identifier: Apache-2.0
"""scripts/summary.py counts what ran, failed and was skipped, and why."""
import os
import subprocess
import sys
from xml.sax.saxutils import escape

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import ROOT, equal, main, scratch, test  # noqa: E402

CMOCKA = """[==========] Running 3 test(s).
[ RUN      ] row_of_a_missing_set_is_skipped
[       OK ] row_of_a_missing_set_is_skipped
[ RUN      ] b
[       OK ] b
[ RUN      ] peak_is_bounded
skipped: a sanitizer's own memory is counted too
[  SKIPPED ] peak_is_bounded
[==========] 3 test(s) run.
[  PASSED  ] 2 test(s).
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] peak_is_bounded

 1 SKIPPED TEST(S)
"""
KERNELS = """passed   assign     assign_f32_16x6_avx2                      90 cases
skipped  assign     assign_bf16_32x32_amx                      0 cases: no amx
14 passed, 0 failed, 1 skipped (seed 20240229)
"""


def summary(*cases):
    """Exit code and lines for tests of (name, ctest's status, output)."""
    os.makedirs(scratch("ci"), exist_ok=True)
    report = scratch("ci/report.xml")
    with open(report, "w", encoding="utf-8") as f:
        f.write("<testsuite>")
        for name, status, output in cases:
            skipped = '<skipped message="SKIP_RETURN_CODE=77"/>' if status == "notrun" else ""
            f.write(f'<testcase name="{name}" status="{status}">{skipped}<system-out>{escape(output)}</system-out>'
                    "</testcase>")
        f.write("</testsuite>")
    done = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "summary.py"), report],
                          capture_output=True, text=True)
    equal(done.stderr, "")
    return done.returncode, done.stdout.splitlines()


@test
def counts_and_reasons():
    equal(summary(("memory", "run", CMOCKA)), (0, [
        "skipped: ci: memory: a sanitizer's own memory is counted too", "2 passed, 0 failed, 1 skipped"]))
    equal(summary(("kernels", "run", KERNELS)), (0, [
        "skipped: ci: kernels: assign     assign_bf16_32x32_amx                      0 cases: no amx",
        "14 passed, 0 failed, 1 skipped"]))
    equal(summary(("plain", "run", "all is well; nothing to skip here\n")), (0, ["1 passed, 0 failed, 0 skipped"]))
    equal(summary(("lint", "notrun", "skipped: shellcheck is not installed\n")), (1, [
        "skipped: ci: lint: shellcheck is not installed", "0 passed, 0 failed, 1 skipped"]))
    equal(summary(("silent", "notrun", ""), ("plain", "run", "")), (0, [
        "skipped: ci: silent: no reason given", "1 passed, 0 failed, 1 skipped"]))


@test
def failures():
    equal(summary(("a", "fail", "5 passed, 0 failed, 0 skipped\n"), ("b", "run", "2 passed, 0 failed, 0 skipped\n")),
          (1, ["failed: ci: a", "7 passed, 1 failed, 0 skipped"]))
    equal(summary(), (1, ["failed: ci: no test was run", "0 passed, 1 failed, 0 skipped"]))


if __name__ == "__main__":
    main()
