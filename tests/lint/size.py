#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""size.py COMPRESSED FILE... : no shared library is larger than 12.7 MB (12 is the aim), with all GPU code in it, no
archive than 14.2. COMPRESSED: 1 if nvcc compresses for size (cmake/Cuda.cmake), or if there is no GPU code."""
import os
import sys

from common import finish, skip

LIMIT = {".a": 14_200_000}  # archives keep names that the linker drops
SHARED = 12_700_000


def main(compressed, *paths):
    if compressed != "1":
        skip("this nvcc has no --compress-mode=size, which came with CUDA 12.8")
    problems = []
    for path in paths:
        size = os.path.getsize(path)
        print(f"{os.path.basename(path)}: {size:,} bytes")
        limit = LIMIT.get(os.path.splitext(path)[1], SHARED)
        if size > limit:
            problems.append(f"{path}: {size:,} bytes, {limit:,} are allowed: is GPU code compressed "
                            "(cmake/Cuda.cmake), and does some plan choose each instance?")
    finish(problems, f"size of {len(paths)} libraries")


main(*sys.argv[1:])
