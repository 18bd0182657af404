# SPDX-License-Identifier: Apache-2.0
"""What the lint tests share: the files of the tree, and the way to end."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77


def files(*suffixes, under=("",)):
    """Paths, relative to the root, of the tree's own files; without what git ignores."""
    found = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True)
    if found.returncode == 0:
        paths = found.stdout.split("\n")
    else:  # an unpacked archive
        paths = []
        for folder, folders, names in os.walk(ROOT):
            folders[:] = [f for f in folders if f not in ("build", "demo", ".git", "__pycache__")]
            paths += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
    return sorted(p for p in paths
                  if p and p.startswith(tuple(under)) and (not suffixes or p.endswith(suffixes))
                  and os.path.isfile(os.path.join(ROOT, p)))


def text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def skip(reason):
    print("skipped:", reason)
    sys.exit(SKIPPED)


def finish(problems, what):
    """Print problems and end: 1 if there are any. `what` was looked at."""
    for problem in problems:
        print(problem)
    print(f"{what}: {len(problems)} problems")
    sys.exit(1 if problems else 0)
