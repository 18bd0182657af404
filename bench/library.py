# SPDX-License-Identifier: Apache-2.0
"""Which build of the library is measured: times of an old build are worthless."""
import datetime
import functools
import os
import subprocess
import sys

SOURCES = (".c", ".h", ".cu", ".cuh", ".cl", ".def")


def tree_of(path):
    """The source tree that a build lies in, or None."""
    folder = os.path.dirname(path)
    while not os.path.isdir(os.path.join(folder, "include", "holdfast")) or not os.path.isdir(
            os.path.join(folder, "src")):
        if folder == os.path.dirname(folder):
            return None
        folder = os.path.dirname(folder)
    return folder


def newest_source(tree):
    found = [os.path.join(folder, name) for top in ("src", "include")
             for folder, _, names in os.walk(os.path.join(tree, top)) for name in names if name.endswith(SOURCES)]
    return max(found, key=os.path.getmtime)


def commit(tree):
    """Of a source tree; "+" means that files differ from it."""
    try:
        return subprocess.run(["git", "-C", tree, "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"],
                              capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


@functools.lru_cache(maxsize=None)
def origin(path):
    """For results: when a library was built, and the commit of the tree that it lies in. Printed to standard
    error, with a warning if a source of that tree is newer."""
    path = os.path.realpath(path)
    made = os.path.getmtime(path)
    text = f"built {datetime.datetime.fromtimestamp(made):%Y-%m-%d %H:%M:%S}"
    tree = tree_of(path)
    if tree:
        text += f", commit {commit(tree)}"
        source = newest_source(tree)
        if os.path.getmtime(source) > made:
            text += f", OLDER than {os.path.relpath(source, tree)}: build it again"
    print(f"{path}: {text}", file=sys.stderr)
    return text
