# SPDX-License-Identifier: Apache-2.0
"""python -m holdfast [-m MODULE | SCRIPT] [ARGUMENTS]: run a program on holdfast's k-means."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys

_USAGE = """usage: python -m holdfast SCRIPT [ARGUMENTS]
       python -m holdfast -m MODULE [ARGUMENTS]

Run a program whose sklearn.cluster.KMeans, k_means and kmeans_plusplus are holdfast's.
With HOLDFAST_LOG=info in the environment each call says on standard error who served it.
"""


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


def main() -> None:
    """Run what the command line names."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        sys.stdout.write(_USAGE)
        sys.exit(0 if arguments[:1] in (["-h"], ["--help"]) else 2)
    from . import patch

    try:
        patch.patch_sklearn()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        sys.exit(
            "python -m holdfast: scikit-learn, whose KMeans it replaces, is not installed: "
            "pip install scikit-learn"
        )
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        if not _is_there(arguments[1]):
            sys.exit(f"python -m holdfast: there is no module {arguments[1]}")
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    script = arguments[0]
    if not os.path.exists(script):
        sys.exit(f"python -m holdfast: there is no file {script}")
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
