# SPDX-License-Identifier: Apache-2.0
"""holdfast predict: labels and distances are those of float64 arithmetic, and those that the fit gave."""
import math
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (CITIES, DIGITS, FAILED, INPUT, USAGE, blobs, check, close, content, equal, fit,  # noqa: E402
                 holdfast, loads, main, nearest, npy_header, pack, read_npy, scratch, test, write_npy)

ROWS = blobs(500, 6, 7, seed=9)
CENTRES = blobs(7, 6, 7, seed=10)


def data():
    path = scratch("data.npy")
    return path if os.path.exists(path) else write_npy(path, ROWS)


def centres():
    return write_npy(scratch("centres.npy"), CENTRES)


@test
def labels_and_distances():
    truth, distances = nearest(ROWS, CENTRES)
    for dtype in ("f32", "f64"):
        c = write_npy(scratch(dtype + "-centres.npy"), CENTRES, dtype)
        labels, far = scratch("labels.npy"), scratch("distances.npy")
        result = holdfast("predict", data(), "--centroids", c, "-o", labels, "--distances", far, "--json")
        equal(read_npy(labels), ("i32", (500,), truth))
        equal(read_npy(far), ("f64", (500,), distances))
        report = loads(result.out)
        close(report["inertia"], sum(distances), 500 * 6, "inertia")
        equal((report["data"]["rows"], report["data"]["columns"], report["centroids"]["k"]), (500, 6, 7))


@test
def metrics():
    def dot(a, b):
        return math.fsum(x * y for x, y in zip(a, b))
    rows = [r for r in ROWS if dot(r, r) > 0]
    path = write_npy(scratch("nonzero.npy"), rows)
    for metric, measure in (("dot", lambda a, b: -dot(a, b)),
                            ("cosine", lambda a, b: 1 - dot(a, b) / math.sqrt(dot(a, a) * dot(b, b)))):
        labels, far = scratch("m-labels.npy"), scratch("m-distances.npy")
        holdfast("predict", path, "--centroids", centres(), "--metric", metric, "-o", labels,
                 "--distances", far, "-q")
        for row, label, distance in zip(rows, read_npy(labels)[2], read_npy(far)[2]):
            table = [measure(row, c) for c in CENTRES]
            bound = 64 * 2.0 ** -53 * max(1, *map(abs, table))
            check(table[label] <= min(table) + bound, f"{metric}: label {label} of {table}")
            check(abs(distance - table[label]) <= bound, f"{metric}: distance {distance} of {table[label]}")


@test
def same_as_the_fit():
    for path, k in ((DIGITS, 20), (CITIES, 30)):
        out = scratch("fit")
        fit(path, "-k", k, out=out)
        labels = scratch("again.npy")
        for more in ([], ["--threads", 1], ["--threads", 7], ["--memory", "64M"]):
            holdfast("predict", path, "--centroids", out + "/centroids.npy", "-o", labels, "-q", *more)
            equal(content(labels), content(out + "/labels.npy"), "labels")


@test
def in_chunks():
    rows = blobs(9000, 64, 5, seed=3)
    path = scratch("big.fvecs")
    with open(path, "wb") as f:
        for row in rows:
            f.write(struct.pack("<i", 64) + pack(row, "f32"))
    c = write_npy(scratch("wide-centres.npy"), rows[:5])
    whole, chunks = scratch("whole.npy"), scratch("chunks.npy")
    holdfast("predict", path, "--centroids", c, "-o", whole, "-q")
    report = loads(holdfast("predict", path, "--centroids", c, "-o", chunks, "--memory", "1M", "--json").out)
    check(report["data"]["streamed"], "the file was not read in chunks")
    equal(content(chunks), content(whole), "labels")


@test
def memory():
    """No output is held twice. The file is a hole, but for its header."""
    rows, limit = 16_000_000, 64 << 20
    path = scratch("hole.npy")
    with open(path, "wb") as f:
        f.write(npy_header("u8", (rows, 1)))
        f.truncate(f.tell() + rows)
    c = write_npy(scratch("two-centres.npy"), [[5.0], [1.0]])
    out = ["-o", scratch("hole-labels.npy"), "--distances", scratch("hole-distances.npy")]
    peaks = {}
    for outputs, bytes_a_row in ((out[:2], 4), (out, 12)):
        report = loads(holdfast("predict", path, "--centroids", c, *outputs, "--memory", limit, "--threads", 2,
                                "--json", "-q").out)
        equal(report["inertia"], float(rows), "inertia")
        peaks[bytes_a_row] = report["memory"]["peak_bytes"] - rows * bytes_a_row
    for extra in peaks.values():
        check(extra <= limit + (64 << 20), f"bytes beside outputs of 4 and 12 bytes a row: {peaks}")
    for file in [path, *out[1::2]]:
        os.remove(file)


@test
def only_one_output():
    holdfast("predict", data(), "--centroids", centres(), "--distances", scratch("d.npy"))
    check(os.path.exists(scratch("d.npy")), "distances alone")
    result = holdfast("predict", data(), "--centroids", centres(), "--json", "-q")
    check(result.err == "" and loads(result.out)["labels"] is None, str(result))
    result = holdfast("predict", data(), "--centroids", centres(), "-o", scratch("l.npy"), "--precision", "fast",
                      "--device", "cpu")
    check("500 rows" in result.out and "l.npy" in result.out, str(result))


@test
def usage():
    out = ["-o", scratch("never.npy")]
    for args, word in (([data(), *out], "--centroids"), (["--centroids", centres(), *out], "data file"),
                       ([data(), "--centroids", centres()], "--distances"),
                       ([data(), data(), "--centroids", centres(), *out], "one data file"),
                       ([data(), "--centroids", centres(), *out, "--distances", out[1]], "same file"),
                       ([data(), "--centroids", centres(), *out, "--metric", "l1"], "cosine"),
                       ([data(), "--centroids", centres(), *out, "--device", "gpu"], "holdfast info"),
                       ([data(), "--centroids", centres(), "-o", ""], "-o: the name is empty"),
                       ([data(), "--centroids", centres(), "-o", "-"], "standard output is not written to"),
                       ([data(), "--centroids", centres(), "--distances", "d.csv"], "only .npy is written")):
        result = holdfast("predict", *args, code=USAGE)
        check(word in result.err, f"lacks {word}\n{result}")
    check(not os.path.exists(out[1]), "no file")


@test
def both_outputs_or_none():
    """Places are tried before the work; links to one file are one file."""
    labels = scratch("both.npy")
    args = ["predict", data(), "--centroids", centres(), "-o", labels, "-q"]
    result = holdfast(*args, "--distances", scratch("no/such.npy"), code=FAILED)
    check("no/such.npy" in result.err and not os.path.exists(labels), str(result))
    holdfast(*args)
    os.symlink("both.npy", scratch("alias.npy"))
    result = holdfast(*args, "--distances", scratch("alias.npy"), code=USAGE)
    check("same file" in result.err and "alias.npy" in result.err, str(result))
    equal(read_npy(labels)[0], "i32")
    for one, other in (("new.npy", "./new.npy"), (scratch("new.npy"), "new.npy")):  # neither is there yet
        result = holdfast("predict", data(), "--centroids", centres(), "-o", one, "--distances", other, code=USAGE,
                          cwd=scratch())
        check("same file" in result.err and not os.path.exists(scratch("new.npy")), str(result))


@test
def bad_input():
    out = scratch("never.npy")
    narrow = write_npy(scratch("narrow.npy"), [c[:5] for c in CENTRES])
    result = holdfast("predict", data(), "--centroids", narrow, "-o", out, code=INPUT)
    for word in ("narrow.npy", "5", "6", "data.npy"):
        check(word in result.err, f"lacks {word}\n{result}")
    holdfast("predict", scratch("none.npy"), "--centroids", centres(), "-o", out, code=INPUT)
    holdfast("predict", data(), "--centroids", scratch("none.npy"), "-o", out, code=INPUT)
    bad = [list(r) for r in ROWS]
    bad[123][4] = float("nan")
    result = holdfast("predict", write_npy(scratch("nan.npy"), bad), "--centroids", centres(), "-o", out,
                      code=INPUT)
    check("123" in result.err, str(result))
    nan = write_npy(scratch("nan-centres.npy"), [[float("inf")] * 6] * 3)
    holdfast("predict", data(), "--centroids", nan, "-o", out, code=INPUT)
    check(not os.path.exists(out), "no file")


if __name__ == "__main__":
    main()
