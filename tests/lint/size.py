#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""size.py COMPRESSED FILE... : no shared library is larger than 12 MB, with all GPU code in it; archives are told.
COMPRESSED: 1 if nvcc compresses for size (cmake/Cuda.cmake), or if there is no GPU code."""
import os
import sys

from common import finish, skip

LIMIT = 12_000_000


def main(compressed, *paths):
    if compressed != "1":
        skip("this nvcc has no --compress-mode=size, which came with CUDA 12.8")
    problems = []
    for path in paths:
        size = os.path.getsize(path)
        print(f"{os.path.basename(path)}: {size:,} bytes")
        if size > LIMIT and not path.endswith(".a"):
            problems.append(f"{path}: {size:,} bytes, {LIMIT:,} are allowed: is GPU code compressed "
                            "(cmake/Cuda.cmake), and does some plan choose each instance?")
    finish(problems, f"size of {len(paths)} libraries")


main(*sys.argv[1:])
