#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs.py BUILD : the API reference can be made, and describes all that is public."""
import os
import shutil
import subprocess
import sys

from common import ROOT, finish, skip


def main(build):
    if not shutil.which("doxygen"):
        skip("doxygen is not installed")
    doxyfile = os.path.join(build, "Doxyfile")
    if not os.path.exists(doxyfile):
        skip("doxygen was not there when this build was configured")
    done = subprocess.run(["doxygen", doxyfile], cwd=build, capture_output=True, text=True)
    lines = [line.replace(ROOT + "/", "") for line in done.stderr.split("\n")]
    # What one version of doxygen thinks of Markdown is not another's opinion.
    problems = [line for line in lines if line.startswith("include/")]
    if done.returncode and not any(lines):
        problems.append(f"doxygen ended with status {done.returncode}")
    finish(problems, "API reference")


main(sys.argv[1])
