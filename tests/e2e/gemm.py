# SPDX-License-Identifier: Apache-2.0
"""holdfast gemm: products are right within the bound that the report gives, the same bits for any number of
threads, whole or not there; wrong input is named."""
import os
import random
import subprocess
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (HOLDFAST, INPUT, USAGE, check, content, environment, equal, holdfast, loads, main,  # noqa: E402
                 matrix, npy_header, pack, read_npy, scratch, test, write_npy)


def numbers(rows, cols, seed, whole=False):
    rng = random.Random(seed)
    return [[rng.randint(-128, 127) if whole else rng.randint(-4096, 4096) / 512 for _ in range(cols)]
            for _ in range(rows)]


def transposed(rows):
    return [list(column) for column in zip(*rows)]


def product(a, b):
    """Exact: the numbers have few bits."""
    columns = transposed(b)
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def files(m=37, k=300, n=45, dtype="f32"):
    a, b = numbers(m, k, 1), numbers(k, n, 2)
    return a, b, write_npy(scratch("a.npy"), a, dtype), write_npy(scratch("b.npy"), b, dtype)


def run(*args):
    result = holdfast("gemm", *args, "--json", "-q")
    check(result.err == "", str(result))
    return loads(result.out)


@test
def products_and_transposes():
    for dtype in ("f32", "f64"):
        a, b, path_a, path_b = files(dtype=dtype)
        truth, out = product(a, b), scratch("c.npy")
        turned_a = write_npy(scratch("ta.npy"), transposed(a), dtype)
        turned_b = write_npy(scratch("tb.npy"), transposed(b), dtype, fortran=True)
        first = None
        for args in ((path_a, path_b), (turned_a, path_b, "--transa"), (path_a, turned_b, "--transb"),
                     (turned_a, turned_b, "--transa", "--transb")):
            report = run(*args, "-o", out)
            check(report["arithmetic"] == f"{dtype} FMA chain, blocks of 256", str(report))
            equal((report["m"], report["n"], report["k"]), (37, 45, 300), "shape")
            worst = max(abs(x - y) for row, want in zip(matrix(out), truth) for x, y in zip(row, want))
            check(worst <= report["error"]["at_most"], f"off by {worst}: {report}")
            check(report["error"]["at_most"] < 3, str(report))
            first = first or content(out)
            equal(content(out), first, "bits of a product of transposes")
            equal(report["file"], {"path": out, "bytes": len(first), "crc32": f"{zlib.crc32(first):08x}"})


@test
def same_bits_for_threads_and_parts():
    a, b, path_a, path_b = files(m=120, k=700, n=90)
    whole = scratch("whole.npy")
    for threads in (1, 2, 7):
        run(path_a, path_b, "-o", scratch(f"c{threads}.npy"), "--threads", threads)
        equal(content(scratch(f"c{threads}.npy")), content(scratch("c1.npy")), f"{threads} threads")
    run(path_a, path_b, "-o", whole)
    rows = matrix(whole)
    for i in (0, 13, 119):
        run(write_npy(scratch("row.npy"), [a[i]]), path_b, "-o", scratch("one.npy"))
        equal(matrix(scratch("one.npy"))[0], rows[i], f"row {i} alone")
    for isa in ("scalar", "avx2"):
        holdfast("gemm", path_a, path_b, "-o", scratch("isa.npy"), "-q", env={"HF_ISA_MAX": isa})
        equal(content(scratch("isa.npy")), content(whole), isa)


@test
def alpha_and_add():
    a, b, path_a, path_b = files(m=9, k=20, n=11, dtype="f64")
    c, truth = numbers(9, 11, 3), product(a, b)
    path_c, out = write_npy(scratch("add.npy"), c, "f64"), scratch("sum.npy")
    run(path_a, path_b, "--add", path_c, "--alpha", 2, "--beta", -0.5, "-o", out)
    equal(matrix(out), [[2 * t - x / 2 for t, x in zip(*rows)] for rows in zip(truth, c)])
    run(path_a, path_b, "--add", path_c, "-o", out)
    equal(matrix(out), [[t + x for t, x in zip(*rows)] for rows in zip(truth, c)])
    report = run(path_a, path_b, "--alpha", 0, "-o", out)
    equal((matrix(out), report["arithmetic"]), ([[0.0] * 11] * 9, "none"))


@test
def types():
    a, b = numbers(8, 50, 4, whole=True), numbers(50, 6, 5, whole=True)
    path_a, path_b, out = write_npy(scratch("ia.npy"), a), write_npy(scratch("ib.npy"), b), scratch("i.npy")
    report = run(path_a, path_b, "--type", "i8", "-o", out)
    equal(read_npy(out)[0], "i32")
    equal(matrix(out), product(a, b))
    equal((report["error"]["at_most"], report["arithmetic"]), (0.0, "i32 exact, modulo 2^32"))
    add = write_npy(scratch("iadd.npy"), numbers(8, 6, 6, whole=True), "i32")
    run(path_a, path_b, "--type", "i8", "--add", add, "--beta", 3, "-o", out)
    equal(matrix(out), [[t + 3 * x for t, x in zip(*rows)] for rows in zip(product(a, b), matrix(add))])
    small = [[x / 512 for x in row] for row in numbers(8, 50, 4, whole=True)]
    for dtype in ("f16", "bf16"):
        half = scratch(dtype + ".npy")
        with open(half, "wb") as f:
            f.write(npy_header(dtype, (8, 50)) + pack([x for row in small for x in row], dtype))
        report = run(half, half, "--transb", "--out-type", "f32", "-o", out)
        equal((read_npy(out)[0], report["dtype"], report["out_dtype"]), ("f32", dtype, "f32"))
        truth = product(small, transposed(small))
        check(all(abs(x - y) <= report["error"]["at_most"] for row, want in zip(matrix(out), truth)
                  for x, y in zip(row, want)), f"{dtype}: {matrix(out)}")
        equal(run(half, half, "--transb", "-o", out)["out_dtype"], dtype)
    bytes_a, bytes_b = write_npy(scratch("ba.npy"), a, "i8"), write_npy(scratch("bb.npy"), b, "i8")
    report = run(bytes_a, bytes_b, "-o", out)
    equal((report["dtype"], report["out_dtype"], matrix(out)), ("i8", "i32", product(a, b)))
    equal(run(bytes_a, path_b, "-o", out)["dtype"], "f32")
    result = holdfast("gemm", bytes_a, bytes_b, "--alpha", 0.5, "-o", out, code=INPUT)
    check("--alpha 0.5" in result.err and "--type f32" in result.err, str(result))
    equal(run(bytes_a, bytes_b, "--alpha", 0.5, "--type", "f32", "-o", out)["dtype"], "f32")
    mixed = run(write_npy(scratch("f64.npy"), a, "f64"), path_b, "-o", out)
    equal((mixed["dtype"], matrix(out)), ("f64", product(a, b)))


@test
def wrong_input():
    _, _, path_a, path_b = files(m=9, k=20, n=11)
    out = scratch("never.npy")
    for args, words in (((path_b, path_a), ("20 x 11", "9 x 20", "11 columns", "9 rows", "--transa")),
                        ((path_a, path_b, "--add", path_a), ("--add", "9 x 20", "9 x 11")),
                        ((path_a, path_b, "--type", "i8"), ("a.npy", "row 0", "i8")),
                        ((path_a, path_b, "--out-type", "f32", "--type", "f64"), ("--out-type",)),
                        ((path_a, scratch("none.npy")), ("none.npy",)),
                        ((path_a, path_b, "--type", "i8", "--alpha", 0.5), ("--alpha",))):
        result = holdfast("gemm", *args, "-o", out, code=INPUT)
        check(all(word in result.err for word in words), str(result))
        check(not os.path.exists(out), "a file was written")
    for args, word in (((path_a,), "B.npy"), ((path_a, path_b), "-o"), ((path_a, path_b, path_a, "-o", out), "also"),
                       ((path_a, path_b, "-o", out, "--beta", 2), "--add"), (("-", "-", "-o", out), "standard"),
                       ((path_a, path_b, "-o", path_a), "overwritten"),
                       ((path_a, path_b, "-o", out, "--alpha", "inf"), "--alpha"),
                       ((path_a, path_b, "-o", out, "--add", path_a, "--beta", "-1e400"), "--beta")):
        result = holdfast("gemm", *args, code=USAGE)
        check(word in result.err, str(result))


@test
def whole_files():
    """A limit of file size stands for a full disk: the older file stays."""
    _, _, path_a, path_b = files(m=200, k=20, n=200)
    out = write_npy(scratch("old.npy"), [[1.0]])
    before = content(out)
    done = subprocess.run(["bash", "-c", 'ulimit -f 20; exec "$@"', "-", HOLDFAST, "gemm", path_a, path_b, "-o", out],
                          capture_output=True, env=environment(), timeout=60)
    check(done.returncode not in (0, 3), f"{done}")
    check(b"old.npy" in done.stderr, f"{done}")
    equal(content(out), before, "the older file")


@test
def summary():
    _, _, path_a, path_b = files()
    text = holdfast("gemm", path_a, path_b, "-o", scratch("s.npy")).out
    for word in ("37 x 300", "300 x 45", "37 x 45", "FMA chain", "GFLOP/s", "at most", "s.npy"):
        check(word in text, text)


if __name__ == "__main__":
    main()
