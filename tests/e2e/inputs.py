# SPDX-License-Identifier: Apache-2.0
"""Every file format gives the labels of a float64 brute force."""
import gzip
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (CITIES, DIGITS, FASHION, SIFT, blobs, check, check_result, content, equal, fit,  # noqa: E402
                 holdfast, loads, main, matrix, npy_header, pack, same_files, scratch, test, write_npy)

ROWS = blobs(400, 7, 5, seed=2)
WHOLE = [[abs(int(v)) % 256 for v in row] for row in ROWS]


def write(name, data):
    with open(scratch(name), "wb") as f:
        f.write(data)
    return scratch(name)


def expect(path, rows, **data):
    """Fit path; its labels must be right for rows. Returns the folder of results."""
    out = scratch(os.path.basename(path) + ".out")
    report = fit(path, "-k", 5, out=out)
    for name, value in data.items():
        equal(report["data"][name], value, name)
    equal((report["data"]["rows"], report["data"]["columns"]), (len(rows), len(rows[0])), "shape")
    check_result(out, rows, report)
    return out


@test
def npy_of_every_type():
    for dtype in ("f32", "f64", "f16", "bf16"):
        expect(write_npy(scratch(f"{dtype}.npy"), ROWS, dtype), ROWS, dtype=dtype, format="npy")
    expect(write_npy(scratch("u8.npy"), WHOLE, "u8"), WHOLE, dtype="u8")


@test
def npy_orders_and_versions():
    plain = expect(write_npy(scratch("c.npy"), ROWS), ROWS)
    fortran = expect(write_npy(scratch("fortran.npy"), ROWS, fortran=True), ROWS)
    same_files(plain, fortran)
    for version in ((2, 0), (3, 0)):
        same_files(plain, expect(write_npy(scratch("v%d.npy" % version[0]), ROWS, version=version), ROWS))


@test
def npy_of_one_dimension():
    column = [r[0] for r in ROWS]
    expect(write_npy(scratch("one.npy"), column), [[v] for v in column], columns=1)


@test
def npy_whatever_its_name():
    expect(write_npy(scratch("no-suffix"), ROWS), ROWS, format="npy")


@test
def fvecs_and_bvecs():
    data = b"".join(struct.pack("<i", 7) + pack(r, "f32") for r in ROWS)
    same_files(expect(write("rows.fvecs", data), ROWS, format="fvecs", dtype="f32"),
               expect(write_npy(scratch("rows.npy"), ROWS), ROWS))
    data = b"".join(struct.pack("<i", 7) + bytes(r) for r in WHOLE)
    expect(write("rows.bvecs", data), WHOLE, format="bvecs", dtype="u8")


@test
def idx():
    head = struct.pack(">BBBBIII", 0, 0, 8, 3, 400, 7, 1)
    plain = expect(write("images-idx3-ubyte", head + bytes(v for r in WHOLE for v in r)), WHOLE,
                   format="idx", dtype="u8")
    packed = expect(write("images.gz", gzip.compress(content(scratch("images-idx3-ubyte")))), WHOLE,
                    format="idx")
    same_files(plain, packed)


@test
def csv_and_tsv():
    lines = [[repr(v) for v in r] for r in ROWS]
    plain = None
    names = ["a", "b", "column c", "d", "e", "f", "g"]
    for name, text in (
            ("plain.csv", "\n".join(",".join(r) for r in lines) + "\n"),
            ("no-newline.csv", "\n".join(",".join(r) for r in lines)),
            ("old-mac.csv", "\r".join(",".join(r) for r in lines) + "\r"),
            ("dos.csv", "\r\n".join(",".join(r) for r in lines) + "\r\n"),
            ("header.csv", "\n".join(",".join(r) for r in [names] + lines) + "\n"),
            ("tabs.tsv", "\n".join("\t".join(r) for r in [names] + lines) + "\n")):
        out = expect(write(name, text.encode()), ROWS, format="csv")
        plain = plain or out
        same_files(plain, out)
    same_files(plain, expect(write("packed.csv.gz", gzip.compress(content(scratch("header.csv")))), ROWS))


@test
def digits():
    with gzip.open(DIGITS, "rt") as f:
        rows = [[float(v) for v in line.split(",")] for line in f]
    for k in (1, 10, 100):
        out = scratch(f"digits-{k}")
        report = fit(DIGITS, "-k", k, out=out)
        check_result(out, rows, report)


@test
def cities():
    rows = matrix(CITIES)
    out = scratch("cities")
    report = fit(CITIES, "-k", 24, out=out)
    check_result(out, rows, report)


@test
def sift():
    data = content(SIFT)
    rows = [struct.unpack_from("<128f", data, i * 516 + 4) for i in range(len(data) // 516)]
    out = scratch("sift")
    report = fit(SIFT, "-k", 8, out=out)
    check_result(out, rows, report)


@test
def fashion():
    with gzip.open(FASHION) as f:
        f.seek(16)
        rows = [f.read(784) for _ in range(10000)]
    out = scratch("fashion")
    report = fit(FASHION, "-k", 10, "--max-iter", 5, out=out)
    equal(report["data"]["dtype"], "u8")
    # brute force over all rows takes a minute in plain Python: every 20th
    labels = content(out + "/labels.npy")
    labels = struct.unpack("<10000i", labels[-40000:])
    centroids = matrix(out + "/centroids.npy")
    for i in range(0, 10000, 20):
        distances = []
        for centre in centroids:
            distance = 0.0
            for a, b in zip(rows[i], centre):
                distance += (a - b) * (a - b)
            distances.append(distance)
        equal(labels[i], distances.index(min(distances)), f"label of row {i}")


@test
def huge_offset():
    rows = [[v + 1e4 for v in r] for r in ROWS]
    expect(write_npy(scratch("offset.npy"), rows), rows)


@test
def bad_scales():
    scales = [1e-20, 1e-10, 1e-3, 1.0, 1e5, 1e12, 1e18]
    rows = [[v * s for v, s in zip(r, scales)] for r in ROWS]
    expect(write_npy(scratch("scales.npy"), rows, "f64"), rows)


@test
def duplicates():
    rows = [ROWS[i % 9] for i in range(400)]
    expect(write_npy(scratch("duplicates.npy"), rows), rows)


@test
def as_many_clusters_as_rows():
    out = scratch("all")
    report = fit(write_npy(scratch("few.npy"), WHOLE[:40], "u8"), "-k", 40, out=out)
    equal(report["result"]["inertia"], 0)
    check_result(out, WHOLE[:40], report)


@test
def one_row():
    out = scratch("single")
    report = fit(write_npy(scratch("single.npy"), ROWS[:1]), "-k", 1, out=out)
    check_result(out, ROWS[:1], report)


@test
def name_that_is_not_utf8():
    path = os.fsdecode(os.fsencode(scratch()) + b"/na\xefve \xff.npy")
    os.link(write_npy(scratch("plain.npy"), ROWS), path)
    report = fit(path, "-k", 2)
    equal(os.path.basename(report["data"]["path"]), "na?ve ?.npy")
    # in every place that holds a name
    odd = os.fsdecode(os.fsencode(scratch()) + b"/\xff\xc3\x28\xed\xa0\x80\xf5\x1b")
    os.link(scratch("plain.npy"), odd + ".npy")
    weights = write_npy(odd + "w.npy", [1.0] * 400)
    start = write_npy(odd + "c.npy", ROWS[:2])
    args = [odd + ".npy", "--init", start, "--weights", weights, "--max-iter", 2]
    report = fit(*args, "--checkpoint", odd + ".hfc", out=odd)
    equal(loads(content(odd + "/report.json").decode()), report)
    report = fit(*args, "--resume", odd + ".hfc", out=odd)
    check(all("?" in report["options"][name] for name in ("init_file", "weights", "resume")), "names")
    result = holdfast("predict", odd + ".npy", "--centroids", start, "-o", odd + "l.npy", "--distances",
                      odd + "d.npy", "--json", "-q")
    check("?" in loads(result.out)["distances"], str(result))
    loads(holdfast("info", "--json", env={"HF_TUNE_FILE": odd}).out)


@test
def header_helper_is_numpy_like():
    equal(len(npy_header("f32", (3, 4))) % 64, 0)


if __name__ == "__main__":
    main()
