# SPDX-License-Identifier: Apache-2.0
"""Data larger than the memory allowed: peak memory is bounded, the bytes of the result are the same."""
import array
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (check, content, equal, fit, holdfast, loads, main, npy_header, same_files, scratch,  # noqa: E402
                 test, write_npy)

ROWS, COLS, K = 2400000, 64, 16  # 586 MiB
BUDGET = 64 << 20
SLACK = 64 << 20  # above budget, labels and centroids


def big_file():
    """Blocks of one block of random values, each shifted by another amount."""
    path = scratch("big.npy")
    if os.path.exists(path):
        return path
    rng = random.Random(8)
    rows = 20000
    block = array.array("f", (rng.random() * 8 + (i // COLS) % K for i in range(rows * COLS)))
    with open(path, "wb") as f:
        f.write(npy_header("f32", (ROWS, COLS)))
        for number in range(ROWS // rows):
            at = number * 640 % (rows * COLS)
            f.write(block[at:].tobytes() + block[:at].tobytes())
    equal(os.path.getsize(path) > 600e6, True)
    return path


def check_peak(report, budget=BUDGET, streamed=True):
    peak = report["memory"]["peak_bytes"]
    allowed = budget + 4 * ROWS + 4 * K * COLS + SLACK
    print(f"peak {peak / 2 ** 20:.0f} MiB of {allowed / 2 ** 20:.0f} MiB allowed, "
          f"data {ROWS * COLS * 4 / 2 ** 20:.0f} MiB")
    equal(report["data"]["streamed"], streamed)
    check(peak <= allowed, f"peak memory {peak} above {allowed}")


@test
def fit_larger_than_memory():
    args = [big_file(), "-k", K, "--init", "random", "--max-iter", 3]
    small, whole = scratch("small"), scratch("whole")
    check_peak(fit(*args, "--memory", "64M", out=small))
    report = fit(*args, "--memory", "4G", out=whole)
    same_files(small, whole)
    equal(report["data"]["streamed"], False)


@test
def fit_just_within_memory():
    """Rows that are loaded leave no memory to pack them once more."""
    out = scratch("just")
    report = fit(big_file(), "-k", K, "--init", "random", "--max-iter", 3, "--memory", "700M", out=out)
    check_peak(report, 700 << 20, streamed=False)
    same_files(scratch("small"), out)


@test
def predict_larger_than_memory():
    labels = scratch("labels.npy")
    report = loads(holdfast("predict", big_file(), "--centroids", scratch("small/centroids.npy"), "-o", labels,
                            "--memory", "64M", "--json", "-q").out)
    check_peak(report)
    with open(labels, "rb") as a, open(scratch("small/labels.npy"), "rb") as b:
        equal(a.read() == b.read(), True, "labels of predict and of the fit")


@test
def more_than_2_31_values():
    """A file with holes: rows of zeros but for one in 2^20 and the last."""
    rows, columns, apart = (1 << 24) + 84, 128, 1 << 20
    data, labels = scratch("holes.npy"), scratch("hole-labels.npy")
    with open(data, "wb") as f:
        f.write(npy_header("u8", (rows, columns)))
        begin = f.tell()
        for row in range(0, rows, apart):
            f.seek(begin + row * columns)
            f.write(bytes([200 + row // apart % 2] * columns))
        f.seek(begin + (rows - 1) * columns)
        f.write(bytes([255] * columns))
    marked = len(range(0, rows, apart))
    centroids = write_npy(scratch("hole-centroids.npy"), [[0.0] * columns, [200.0] * columns, [255.0] * columns])
    holdfast("predict", data, "--centroids", centroids, "-o", labels, "--memory", "256M", "-q")
    found = array.array("i", content(labels)[-4 * rows:])
    check(all(found[row] == 1 for row in range(0, rows, apart)) and found[-1] == 2, "labels of marked rows")
    equal(found.count(0), rows - marked - 1)
    report = fit(data, "-k", 3, "--init", centroids, "--max-iter", 2, "--memory", "512M")
    sizes = report["result"]["cluster_sizes"]
    equal((sizes["min"], sizes["median"], sizes["max"]), (1, marked, rows - marked - 1), "cluster sizes")
    check(report["data"]["streamed"], "read in chunks")


if __name__ == "__main__":
    main()
