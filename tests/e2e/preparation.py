# SPDX-License-Identifier: Apache-2.0
"""Columns chosen, missing values, headers and scaling: what kmeans makes of tables as people have them."""
import math
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (INPUT, USAGE, blobs, check, content, equal, fit, holdfast, loads, main, matrix, nearest,  # noqa: E402
                 read_npy, same_files, scratch, test, write_npy)

ROWS = blobs(300, 4, 3, seed=5)
NAMES = ["lat", "lon", "height", "year 2"]
METHODS = ("standard", "robust", "minmax")


def write(name, text):
    with open(scratch(name), "w", encoding="utf-8", newline="") as f:
        f.write(text)
    return scratch(name)


def table(name, rows=None, head=("id", *NAMES, "city")):
    """A table with an id in front and a city behind."""
    lines = [",".join(head)] if head else []
    for i, row in enumerate(ROWS if rows is None else rows):
        lines.append(f"x{i}," + ",".join(v if isinstance(v, str) else repr(v) for v in row) + ',"Bern, CH"')
    return write(name, "\n".join(lines) + "\n")


def refused(code, *args, words=()):
    result = holdfast("kmeans", *args, "-k", 2, "--json", "-q", code=code)
    for word in words:
        check(word in result.err, f"no '{word}'\n{result}")
    return result


def narrow(v):
    """Rounded to float32."""
    return struct.unpack("<f", struct.pack("<f", v))[0]


def scaled(rows, scaling, rounded=narrow):
    return [[rounded((v - s) / u) for v, s, u in zip(row, scaling["shift"], scaling["unit"])] for row in rows]


def labels(folder):
    return read_npy(os.path.join(folder, "labels.npy"))[2]


@test
def columns_by_number_and_name():
    path = table("t.csv")
    plain = scratch("plain")
    fit(write_npy(scratch("t.npy"), ROWS), "-k", 3, out=plain)
    for args in (["--columns", "2-5"], ["--columns", "lat,lon,height,year 2"], ["--columns", "2,3-4,5"],
                 ["--skip-columns", "1,6"], ["--skip-columns", "city,id"], ["--columns", "2-", "--skip-columns", "6"],
                 ["--columns=-5", "--skip-columns", "id"]):
        out = scratch("chosen")
        report = fit(path, "-k", 3, *args, out=out)
        same_files(plain, out)
        equal(report["preparation"]["columns_used"], [2, 3, 4, 5], args)
        equal(report["preparation"]["names_used"], NAMES)
        equal(report["preparation"]["scaling"], None)
    swapped = scratch("swapped")
    report = fit(path, "-k", 3, "--columns", "year 2,lat", out=swapped)
    equal(report["preparation"]["columns_used"], [5, 2], "in the order that was asked for")
    check(abs(sum(r[0] for r in matrix(swapped + "/centroids.npy")) - sum(
        r[3] for r in matrix(plain + "/centroids.npy"))) < 50, "columns in the order that was asked for")
    # other formats have numbers alone
    two = scratch("two")
    fit(write_npy(scratch("t2.npy"), [r[1:3] for r in ROWS]), "-k", 3, out=two)
    report = fit(scratch("t.npy"), "-k", 3, "--columns", "2,3", out=out)
    same_files(two, out)
    equal((report["preparation"]["columns_used"], report["preparation"]["names_used"]), ([2, 3], None))
    refused(INPUT, scratch("t.npy"), "--columns", "lat", words=["t.npy: --columns 'lat'", "no header", "numbers"])


@test
def text_is_named_with_the_remedy():
    path = table("words.csv")
    result = refused(INPUT, path, words=["line 2", "columns 1 (id), 6 (city) hold text", "'x0'", "--skip-columns 1,6"])
    check("--header" not in result.err, str(result))
    fit(path, "-k", 2, "--skip-columns", "1,6")
    path = table("words-only.csv", head=None)
    refused(INPUT, path, words=["line 1", "columns 1, 6 hold text", "--skip-columns 1,6", "--header yes"])
    equal(fit(path, "-k", 2, "--skip-columns", "1,6")["data"]["rows"], len(ROWS))
    refused(INPUT, write("typo.csv", "a,b\n1,2\n3,none\n"), words=[
        "line 3, column 2 (b)", "'none' is not a number", "--missing 'none'", "--skip-columns 2"])


@test
def wrong_lists():
    path = table("lists.csv")
    for option in ("--columns", "--skip-columns"):
        for text, words in (("", "empty"), ("2,,3", "empty"), ("0", "counted from 1"), ("5-2", "lower number"),
                            ('"lat', "quotes")):
            refused(USAGE, path, option, text, words=[option, words])
        for text, words in (("7", "no such column, its rows have 6"), ("2-7", "no such column"),
                            ("latitude", "no column has that name; the header has 'id', 'lat' and others")):
            refused(INPUT, path, option, text, words=["lists.csv: " + option, words])
    refused(INPUT, path, "--columns", "2,lat", words=["column 2 is in the list twice"])
    refused(INPUT, path, "--skip-columns", "1-6", words=["no column is left"])
    refused(USAGE, path, "--missing", "1,", words=["--missing", "empty"])
    refused(USAGE, path, "--scale", "zscore", words=["none, standard, robust, minmax"])
    refused(USAGE, path, "--header", "maybe", words=["auto, yes, no"])
    refused(INPUT, write_npy(scratch("w.npy"), ROWS), "--missing", "?", words=["w.npy: --missing '?'", "number"])


@test
def headers():
    rows = "".join(",".join(map(repr, row)) + "\n" for row in ROWS)
    path = write("years.csv", "2019,2020,2021,2022\n" + rows)
    result = holdfast("kmeans", path, "-k", 3, "--json", "-q")
    check("warning" in result.err and "looks like a header" in result.err and "--header yes" in result.err, str(result))
    report = loads(result.out)
    equal(report["data"]["rows"], len(ROWS) + 1)
    check("--header yes" in report["preparation"]["warning"], "the report warns, too")
    # fit() fails where anything is said
    equal(fit(path, "-k", 3, "--header", "no")["data"]["rows"], len(ROWS) + 1)
    report = fit(path, "-k", 3, "--header", "yes")
    equal((report["data"]["rows"], report["preparation"]["names_used"]), (len(ROWS), ["2019", "2020", "2021", "2022"]))
    report = fit(path, "-k", 3, "--columns", '"2020","2022"')
    equal((report["data"]["rows"], report["preparation"]["columns_used"]), (len(ROWS), [2, 4]))
    path = write("lines.csv", '"height\nin ""m"", sea level","b\r\n",c,d\n' + rows)
    report = fit(path, "-k", 3, "--columns", '2-4,"height\nin ""m"", sea level"')
    equal(report["preparation"]["names_used"], ["b\r\n", "c", "d", 'height\nin "m", sea level'])
    equal(report["data"]["rows"], len(ROWS))
    refused(INPUT, write("open.csv", 'a,"b\n1,2\n'), words=["line 1", "a quote opens a field", "close it"])


@test
def missing_values():
    rows = [list(map(repr, row)) for row in ROWS]
    gaps = {3: "", 10: "NA", 17: "null", 24: "NaN", 31: "-9999", 38: "-9999.0", 45: "?"}
    for i, text in gaps.items():
        rows[i][i % 4] = text
    path = table("gaps.csv", rows)
    args = ["--columns", "2-5", "--missing", "-9999,?"]
    refused(INPUT, path, *args, words=["row 3, column 3 of the columns chosen from", "gaps.csv", "--nan drop"])
    refused(INPUT, path, "--columns", "2-5", words=["line 47, column 3 (lon)", "'?'", "--missing '?'"])
    out, kept = scratch("gaps"), scratch("kept")
    report = fit(path, "-k", 3, *args, "--nan", "drop", out=out)
    equal(report["data"]["rows_dropped"], len(gaps))
    equal(report["preparation"]["missing"], "-9999,?")
    fit(write_npy(scratch("kept.npy"), [r for i, r in enumerate(ROWS) if i not in gaps]), "-k", 3, out=kept)
    same_files(out, kept, "centroids.npy")
    equal([v for v in labels(out) if v >= 0], labels(kept), "labels")
    equal([i for i, v in enumerate(labels(out)) if v < 0], sorted(gaps), "rows dropped")
    # numbers of a matrix, as its type has them; bytes have no NaN and become float32
    numbers = [[-99.9 if i in gaps else v for v in row] for i, row in enumerate(ROWS)]
    fit(write_npy(scratch("numbers.npy"), numbers), "-k", 3, "--missing", "-99.9", "--nan", "drop", out=out)
    same_files(out, kept, "centroids.npy")
    path = write_npy(scratch("bytes.npy"), [[255 if i in gaps else i % 200, i % 7] for i in range(300)], "u8")
    report = fit(path, "-k", 3, "--missing", "255", "--nan", "drop")
    equal((report["data"]["dtype"], report["data"]["rows_dropped"]), ("f32", len(gaps)))
    refused(INPUT, write("comma.csv", "1,2,\n3,4,\n"), words=["column 3 has no value", "delimiter", "--skip-columns 3"])


def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (at - low)


def parameters(column, method):
    if method == "standard":
        mean = math.fsum(column) / len(column)
        return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in column) / len(column))
    if method == "robust":
        return quantile(column, 0.5), quantile(column, 0.75) - quantile(column, 0.25)
    return min(column), max(column) - min(column)


def uneven(n, seed):
    """Columns of very different size, exact in float32; one is constant."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        near = rng.gauss(5 * (i % 3), 0.2)
        rows.append([narrow(v) for v in (1e6 * near, near + rng.random(), 1e-3 * near + 1e4, 0.1)])
    return rows


@test
def scaling_is_what_it_says():
    rows = uneven(400, 1)
    for dtype in ("f32", "f64"):
        path = write_npy(scratch(f"uneven-{dtype}.npy"), rows, dtype)
        for method in METHODS:
            out = scratch(f"{dtype}-{method}")
            report = fit(path, "-k", 3, "--scale", method, out=out)
            scaling = report["preparation"]["scaling"]
            equal((scaling["method"], scaling["centroids"]), (method, "centroids-scaled.npy"))
            check("centroids-scaled.npy" in report["files"], "among the files of the report")
            for column, shift, unit in zip(zip(*rows), scaling["shift"], scaling["unit"]):
                true_shift, true_unit = parameters(column, method)
                if len(set(column)) == 1:
                    true_shift, true_unit = column[0], 1
                slack = 8 * 2.0 ** -52 * (abs(true_shift) + true_unit)
                check(abs(shift - true_shift) <= slack and abs(unit - true_unit) <= slack,
                      f"{dtype} {method}: {shift} {unit}, not {true_shift} {true_unit}")
            own = matrix(out + "/centroids.npy")
            centroids = matrix(out + "/centroids-scaled.npy")
            rounded = narrow if dtype == "f32" else float
            equal(own, [[rounded(v * u + s) for v, s, u in zip(row, scaling["shift"], scaling["unit"])]
                        for row in centroids], "centroids in the data's own units")
            equal(labels(out), nearest(scaled(rows, scaling, rounded), centroids)[0], "labels of the scaled rows")
            check(all(len(set(labels(out)[i::3])) == 1 for i in range(3)), "the groups, whatever the units")


@test
def stored_parameters_give_the_labels_of_the_fit():
    rows = uneven(400, 2)
    for dtype, rounded in (("f32", narrow), ("f64", float)):
        path = write_npy(scratch("again.npy"), rows, dtype)
        for method in METHODS:
            out = scratch("again")
            report = fit(path, "-k", 25, "--max-iter", 3, "--scale", method, out=out)
            with open(out + "/report.json", encoding="utf-8") as f:
                scaling = loads(f.read())["preparation"]["scaling"]
            equal(scaling, report["preparation"]["scaling"])
            moved = write_npy(scratch("moved.npy"), scaled(rows, scaling, rounded), dtype)
            result = holdfast("predict", moved, "--centroids", out + "/" + scaling["centroids"], "-o",
                              scratch("again.labels.npy"), "--json", "-q")
            equal(read_npy(scratch("again.labels.npy"))[2], labels(out), f"{dtype} {method}")
            equal(loads(result.out)["inertia"], report["result"]["inertia"], "inertia of the scaled rows")


@test
def scaling_streams():
    rng = random.Random(3)
    rows = [[rng.gauss(0, 1) * 10 ** (j % 5) for j in range(400)] for _ in range(4000)]
    plain = write_npy(scratch("large.npy"), rows)
    for args in (["--scale", "standard"], ["--scale", "robust", "--columns", "400,1-300"],
                 ["--scale", "minmax", "--missing", "0"]):
        once, often = scratch("once"), scratch("often")
        report = fit(plain, "-k", 5, "--max-iter", 3, *args, out=once)
        small = fit(plain, "-k", 5, "--max-iter", 3, *args, "--memory", "2M", "--threads", 1, out=often)
        check(small["data"]["streamed"] and not report["data"]["streamed"], "read in chunks")
        equal(small["preparation"], report["preparation"])
        same_files(once, often, "centroids.npy", "labels.npy", "centroids-scaled.npy")
    report = fit(plain, "-k", 5, "--max-iter", 1, "--columns", "3", "--memory", "2M", "--threads", 1)
    check(not report["data"]["streamed"], "one column of it fits")


@test
def bytes_and_halves_become_float32():
    whole = [[i * (2 * j + 3) % 251 for j in range(4)] for i in range(300)]
    for dtype, rows in (("u8", whole), ("f16", ROWS), ("bf16", ROWS)):
        path = write_npy(scratch(dtype + ".npy"), rows, dtype)
        wide = write_npy(scratch(dtype + "-wide.npy"), [list(map(float, row)) for row in rows])
        a, b = scratch("a"), scratch("b")
        for method in METHODS:
            report = fit(path, "-k", 3, "--scale", method, out=a)
            equal(report["data"]["dtype"], "f32")
            fit(wide, "-k", 3, "--scale", method, out=b)
            same_files(a, b, "centroids.npy", "labels.npy", "centroids-scaled.npy")


@test
def given_centroids_are_in_own_units():
    rows = uneven(300, 4)
    path = write_npy(scratch("own.npy"), rows, "f64")
    start = write_npy(scratch("start.npy"), [rows[0], rows[1], rows[2]], "f64")
    out = scratch("own")
    report = fit(path, "--init", start, "--scale", "standard", "--max-iter", 1, out=out)
    scaling = report["preparation"]["scaling"]
    moved = scaled(rows, scaling, float)
    first = nearest(moved, moved[:3])[1]
    equal(report["history"][0]["inertia"] > 0, True)
    check(abs(report["history"][0]["inertia"] - math.fsum(first)) < 1e-9 * math.fsum(first), "the start was scaled")
    narrow_start = write_npy(scratch("two.npy"), [r[:2] for r in rows[:3]], "f64")
    result = holdfast("kmeans", path, "--init", narrow_start, "--scale", "standard", "--json", "-q", code=INPUT)
    check("two.npy" in result.err, str(result))


@test
def the_summary_says_so():
    path = table("said.csv")
    result = holdfast("kmeans", path, "-k", 2, "--skip-columns", "id,city", "--missing", "-99", "--scale", "robust",
                      "-o", scratch("said"))
    check("prepared  without columns id,city; missing: -99; scaled: robust" in result.out, str(result))
    check("centroids.npy, centroids-scaled.npy, labels.npy" in result.out, str(result))
    check("prepared" not in holdfast("kmeans", path, "-k", 2, "--header", "yes", "--columns", "2,3").out.replace(
        "prepared  columns 2,3\n", ""), "what was asked for, and no more")


@test
def outputs_spare_inputs():
    folder = scratch("spare")
    os.makedirs(folder)
    path = write_npy(folder + "/centroids-scaled.npy", ROWS)
    before = content(path)
    refused(USAGE, path, "--scale", "minmax", "-o", folder, words=["would be overwritten"])
    equal(content(path), before, "the input")


if __name__ == "__main__":
    main()
