# SPDX-License-Identifier: Apache-2.0
"""Every option of `holdfast kmeans` does what it says."""
import os
import struct
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (CITIES, DIGITS, FASHION, INPUT, POPULATION, USAGE, blobs, check, check_result, close,  # noqa: E402
                 content, equal, fit, holdfast, loads, main, matrix, nearest, read_npy, same_files, scratch,
                 test, write_npy)

ROWS = blobs(600, 5, 6)


def data():
    path = scratch("blobs.npy")
    return path if os.path.exists(path) else write_npy(path, ROWS)


@test
def defaults():
    out = scratch("defaults")
    report = fit(data(), "-k", 6, out=out)
    check_result(out, ROWS, report)
    equal(sorted(os.listdir(out)), ["centroids.npy", "labels.npy", "report.json"])
    options = report["options"]
    expected = {"k": 6, "init": "kmeans++", "n_init": 1, "seed": 0, "max_iter": 300, "tol": 1e-4,
                "metric": "euclidean", "empty": "relocate", "precision": "exact", "centroids": "f32",
                "nan": "error", "skipping": "auto", "weights": None, "resume": None}
    equal({name: options[name] for name in expected}, expected)
    equal(report["data"]["rows"], 600)
    equal(report["data"]["columns"], 5)
    equal((report["data"]["dtype"], report["data"]["format"]), ("f32", "npy"))
    equal(len(report["history"]), report["result"]["iterations"])
    equal(report["result"]["centroids_dtype"], "f32")
    equal(report["result"]["centroids_shape"], [6, 5])
    check(report["result"]["converged"] and report["result"]["stop"] in ("labels", "tol"), "stop")
    equal(report["guard"]["scheme"], "correct")
    equal(report["guard"]["confirmed"], 0)
    check(report["memory"]["peak_bytes"] > 0 and report["plan"]["assign"], "memory and plan")
    for name in ("load", "init", "iterate", "finish", "write", "total"):
        check(0 <= report["seconds"][name] < 60, name)
    for row in report["history"]:
        equal(set(row), {"iteration", "inertia", "shift", "seconds", "changed", "rows_skipped",
                         "rows_partial", "rows_rechecked", "rows_float64", "digest", "empty"})
    inertias = [row["inertia"] for row in report["history"]]
    check(all(a >= b * (1 - 1e-12) for a, b in zip(inertias, inertias[1:])), "inertia rises")


def advised(name, rows, centroids):
    """work of a fit's report, and what its summary advises."""
    start = write_npy(scratch(f"{name}-start.npy"), centroids)
    result = holdfast("kmeans", write_npy(scratch(f"{name}.npy"), rows), "-k", len(centroids), "--init", start,
                      "--max-iter", 1, "--skipping", "off", "--device", "cpu", "-o", scratch(name))
    work = loads(content(os.path.join(scratch(name), "report.json")).decode())["work"]
    close(sum(work["decided"].values()), 1, 1e-9)
    lines = [line for line in result.out.splitlines() if line.startswith("  advice")]
    equal([line.split(None, 1)[1] for line in lines], [work["advice"]] if work["advice"] else [])
    return work


@test
def what_decided_is_told():
    calm = advised("calm", ROWS, ROWS[:4])
    check(calm["advice"] is None and calm["decided"]["float64"] < 0.1, f"tame data need no advice: {calm}")
    ties = [[-1.0, 5.0 * i] for i in range(100)] + [[0.0, 5.0 * i] for i in range(100)]
    mirror = [[-1.0, 0.0], [1.0, 0.0]]  # rows on the axis are as near to one as to the other
    work = advised("ties", ties, mirror)
    equal(work["decided"]["float64"], 0.5)
    check("column 1" in work["advice"] and "--missing" in work["advice"], work["advice"])
    work = advised("copies", [[0.0, 0.0]] * 50 + [[-1.0, 1.0]] * 50, mirror)
    check("no column" in work["advice"], work["advice"])


@test
def report_file_is_the_printed_report():
    out = scratch("same-report")
    report = fit(data(), "-k", 3, out=out)
    equal(loads(content(os.path.join(out, "report.json")).decode()), report)


@test
def cluster_sizes():
    out = scratch("sizes")
    report = fit(data(), "-k", 6, out=out)
    _, _, labels = read_npy(os.path.join(out, "labels.npy"))
    counts = sorted(labels.count(j) for j in range(6))
    equal(report["result"]["sizes"], [labels.count(j) for j in range(6)])
    sizes = report["result"]["cluster_sizes"]
    equal((sizes["min"], sizes["max"], sizes["mean"], sizes["empty"]), (counts[0], counts[-1], 100, 0))


@test
def every_init():
    for init in ("kmeans++", "kmeans-parallel", "random"):
        out = scratch("init-" + init)
        report = fit(data(), "-k", 6, "--init", init, out=out)
        equal(report["options"]["init"], init)
        check_result(out, ROWS, report)


@test
def guards():
    """The same bits with each scheme; the report says which checks were made."""
    files = set()
    for guard in ("off", "detect", "correct", "sampled"):
        out = scratch("guard-" + guard)
        report = fit(data(), "-k", 6, "--guard", guard, "--device", "cpu", out=out)
        equal((report["guard"]["scheme"], report["options"]["guard"]), (guard, guard))
        equal(report["guard"]["suspected"], 0)
        check(("sums" in report["guard"]["checks"]) == (guard != "off"), "checks of " + guard)
        files.add((report["files"]["labels.npy"]["crc32"], report["files"]["centroids.npy"]["crc32"]))
    equal(len(files), 1)
    report = fit(data(), "-k", 6, "--device", "cpu", out=scratch("guard-less"), env={"HF_GUARD_WITHOUT": "sums,means"})
    check("counts" in report["guard"]["checks"] and "sums" in report["guard"]["not_made"], "left out")
    refused = holdfast("kmeans", data(), "-k", 6, "--device", "cpu", env={"HF_GUARD_WITHOUT": "sum"}, code=None)
    check(refused.code != 0 and "no check called 'sum'" in refused.err, "a wrong name is refused")
    refused = holdfast("kmeans", data(), "-k", 6, "--device", "cpu", "--guard", "weighted",
                       env={"HF_ISA_MAX": "scalar"}, code=None)
    check(refused.code != 0 and "guard weighted" in refused.err and "take guard correct" in refused.err, refused.err)


@test
def init_from_file():
    start = write_npy(scratch("start.npy"), ROWS[:6])
    for options in (["-k", 6], []):  # the file knows K
        out = scratch("init-file%d" % len(options))
        report = fit(data(), *options, "--init", start, "--max-iter", 1, out=out)
        equal(report["options"]["init_file"], start)
        labels, _ = nearest(ROWS, ROWS[:6])
        means = [[sum(c) / len(c) for c in zip(*[r for r, l in zip(ROWS, labels) if l == j])]
                 for j in range(6)]
        got, _ = check_result(out, ROWS, report)
        for a, b in zip(got, means):
            for x, y in zip(a, b):
                check(abs(x - y) <= 2.0 ** -23 * abs(y) + 1e-300, "centroids are the means")


@test
def seeds():
    first, again, other = (scratch("seed-" + n) for n in ("a", "b", "c"))
    fit(data(), "-k", 6, "--init", "random", "--seed", 7, "--max-iter", 1, out=first)
    fit(data(), "-k", 6, "--init", "random", "--seed", 0x7, "--max-iter", 1, out=again)
    fit(data(), "-k", 6, "--init", "random", "--seed", 2 ** 64 - 1, "--max-iter", 1, out=other)
    same_files(first, again)
    check(content(other + "/centroids.npy") != content(first + "/centroids.npy"), "seed without effect")


@test
def n_init_keeps_the_best():
    single = [fit(data(), "-k", 6, "--init", "random", "--n-init", r)["result"] for r in (1, 8)]
    check(single[1]["inertia"] <= single[0]["inertia"], "best of 8 is worse than the first")
    check(0 <= single[1]["restart"] < 8, "restart")


@test
def stopping():
    report = fit(data(), "-k", 6, "--init", "random", "--seed", 3, "--max-iter", 1)
    equal((report["result"]["stop"], report["result"]["iterations"]), ("max_iter", 1))
    check(not report["result"]["converged"], "converged after one iteration")
    report = fit(data(), "-k", 6, "--init", "random", "--seed", 3, "--tol", 0)
    equal((report["result"]["stop"], report["options"]["tol"]), ("labels", 0))
    report = fit(DIGITS, "-k", 10, "--tol", 0.1)
    equal(report["result"]["stop"], "tol")


@test
def metrics():
    for metric in ("euclidean", "cosine", "dot"):
        report = fit(data(), "-k", 4, "--metric", metric)
        equal(report["options"]["metric"], metric)
    out = scratch("cosine")
    fit(data(), "-k", 4, "--metric", "cosine", out=out)
    for centre in matrix(out + "/centroids.npy"):
        check(abs(sum(x * x for x in centre) - 1) < 1e-6, "centroids of cosine have length 1")


@test
def weights():
    report = fit(CITIES, "-k", 12, "--weights", POPULATION, "--max-iter", 20)
    check(report["options"]["weights"] == POPULATION, "weights in the report")
    # a row of weight 3 counts like three rows
    thrice = ROWS[:300] + ROWS[:300] + ROWS
    many = write_npy(scratch("thrice.npy"), thrice)
    start = write_npy(scratch("w-start.npy"), ROWS[:5])
    repeated = scratch("w-repeated")
    fit(many, "-k", 5, "--init", start, "--tol", 0, out=repeated)
    for dtype in ("f32", "f64", "f16", "bf16", "u8", "i32", "i64"):
        w = write_npy(scratch(f"w-{dtype}.npy"), [3] * 300 + [1] * 300, dtype)
        out = scratch("w-" + dtype)
        report = fit(data(), "-k", 5, "--init", start, "--weights", w, "--tol", 0, out=out)
        same_files(out, repeated, "centroids.npy")
        labels, distances = nearest(ROWS, matrix(out + "/centroids.npy"))
        equal(read_npy(out + "/labels.npy")[2], labels, "labels")
        close(report["result"]["inertia"], sum(d * (3 if i < 300 else 1) for i, d in enumerate(distances)),
              6000, "weighted inertia")


@test
def empty_clusters():
    # the third centroid is nobody's nearest
    rows = [[0.0], [1.0], [10.0], [11.0], [12.0]]
    path = write_npy(scratch("empty.npy"), rows)
    start = write_npy(scratch("empty-start.npy"), [[0.5], [11.0], [1000.0]])
    for how in ("relocate", "split"):
        report = fit(path, "-k", 3, "--init", start, "--empty", how, out=scratch("empty-" + how))
        equal(report["result"]["cluster_sizes"]["empty"], 0, how)
        check(report["history"][0]["empty"] == 1, "the report counts the empty cluster")
    report = fit(path, "-k", 3, "--init", start, "--empty", "keep", out=scratch("empty-keep"))
    equal(report["result"]["cluster_sizes"]["empty"], 1)
    equal(matrix(scratch("empty-keep") + "/centroids.npy")[2], [1000.0])
    result = holdfast("kmeans", path, "-k", 3, "--init", start, "--empty", "error", code=INPUT)
    check("empty" in result.err, str(result))


@test
def nan_rows():
    rows = [list(r) for r in ROWS]
    rows[17][2] = float("nan")
    rows[400][0] = float("inf")
    path = write_npy(scratch("nan.npy"), rows)
    result = holdfast("kmeans", path, "-k", 6, code=INPUT)
    check("17" in result.err and "drop" in result.err, f"names neither row nor remedy\n{result}")
    out = scratch("nan-drop")
    report = fit(path, "-k", 6, "--nan", "drop", out=out)
    equal(report["data"]["rows_dropped"], 2)
    _, _, labels = read_npy(out + "/labels.npy")
    equal([i for i, label in enumerate(labels) if label < 0], [17, 400])
    kept = [r for i, r in enumerate(rows) if i not in (17, 400)]
    truth, _ = nearest(kept, matrix(out + "/centroids.npy"))
    equal([label for label in labels if label >= 0], truth)


@test
def precision_and_skipping_change_nothing_here():
    outs = []
    for options in (["--precision", "exact"], ["--skipping", "off"], ["--skipping", "on"]):
        out = scratch("p" + "".join(options))
        report = fit(DIGITS, "-k", 10, *options, out=out)
        outs.append(out)
    for out in outs[1:]:
        same_files(outs[0], out)
    report = fit(DIGITS, "-k", 10, "--precision", "fast")
    equal(report["options"]["precision"], "fast")
    report = fit(DIGITS, "-k", 10, "--skipping", "off")
    equal((report["work"]["skipped"], report["work"]["partial"]), (0, 0))


@test
def centroids_same():
    for dtype in ("f16", "bf16"):
        path = write_npy(scratch(dtype + ".npy"), ROWS, dtype)
        out = scratch("same-" + dtype)
        report = fit(path, "-k", 6, "--centroids", "same", out=out)
        equal(report["result"]["centroids_stored_as"], dtype)
        centres, _ = check_result(out, ROWS, report)
        for value in (v for c in centres for v in c):
            if dtype == "f16":
                equal(struct.unpack("e", struct.pack("e", value))[0], value, "rounded to f16")
            else:
                equal(struct.pack("<f", value)[:2], b"\0\0", "rounded to bf16")
        equal(fit(path, "-k", 6)["result"]["centroids_stored_as"], "f32")


@test
def f64_data_has_f64_centroids():
    rows = [[v + 1e-12 * i for v in r] for i, r in enumerate(ROWS)]
    out = scratch("f64")
    report = fit(write_npy(scratch("f64.npy"), rows, "f64"), "-k", 6, out=out)
    equal(report["result"]["centroids_dtype"], "f64")
    equal(read_npy(out + "/centroids.npy")[0], "f64")
    check_result(out, rows, report)


@test
def threads_memory_device():
    report = fit(data(), "-k", 3, "--threads", 3, "--memory", "64M", "--device", "cpu")
    equal((report["options"]["threads"], report["options"]["memory_bytes"]), (3, 64 << 20))
    equal(report["options"]["device"], "cpu")
    for text, value in (("67108864", 64 << 20), ("0.5GiB", 512 << 20), ("64mb", 64 << 20), ("1g", 1 << 30)):
        equal(fit(data(), "-k", 3, "--memory", text)["options"]["memory_bytes"], value, text)
    fit(data(), "-k", 3, "--device", "auto")


@test
def one_column_keeps_two_dimensions():
    out = scratch("one-column")
    fit(write_npy(scratch("one.npy"), [r[:1] for r in ROWS]), "-k", 3, out=out)
    equal(read_npy(out + "/centroids.npy")[1], (3, 1))
    equal(read_npy(out + "/labels.npy")[1], (600,))


@test
def picture():
    out = scratch("picture")
    holdfast("kmeans", FASHION, "-k", 5, "--max-iter", 2, "--init", "random", "--picture", "28x28", "-o", out, "-q")
    png = content(out + "/centroids.png")
    equal(png[:8], b"\x89PNG\r\n\x1a\n")
    width, height, depth, colour = struct.unpack(">IIBB", png[16:26])
    equal((depth, colour), (8, 0), "grey, 8 bits")
    check(width >= 2 * 28 and height >= 2 * 28, "5 tiles of 28 x 28")
    body, at = b"", 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body += png[at + 8:at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    pixels = zlib.decompress(body)
    equal(len(pixels), height * (width + 1))
    check(0 in pixels and 255 in pixels, "least is black, greatest is white")
    result = holdfast("kmeans", FASHION, "-k", 5, "--picture", "28x27", "-o", scratch("p2"), code=INPUT)
    check("756" in result.err and "784" in result.err, str(result))
    check(not os.path.exists(scratch("p2")), "nothing is made before the check")


@test
def summary_and_progress():
    out = scratch("summary")
    result = holdfast("kmeans", data(), "-k", 6, "-o", out)
    for word in ("600 rows", "6,", "inertia", "report.json", "kernels", "memory"):
        check(word in result.out, f"the summary lacks {word}\n{result}")
    lines = [line for line in result.err.splitlines() if line.startswith("iteration ")]
    equal(len(lines), loads(content(out + "/report.json").decode())["result"]["iterations"])
    check("initialisation: 6 of 6" in result.err, str(result))
    equal(result.err.count("not kept"), 0)
    result = holdfast("kmeans", data(), "-k", 6, "-q", "-o", out)
    equal((result.out, result.err), ("", ""))
    # without -o the result is lost: said before it begins, and refused where not even a word would be left
    result = holdfast("kmeans", data(), "-k", 6)
    check("without -o DIR centroids and labels are not kept" in result.err.splitlines()[0], str(result))
    result = holdfast("kmeans", data(), "-k", 6, "-q", code=USAGE)
    check("nothing would be left" in result.err, str(result))
    saved = scratch("saved.hfc")
    result = holdfast("kmeans", data(), "-k", 6, "-q", "--checkpoint", saved)
    equal((result.out, result.err, os.path.exists(saved)), ("", "", True))
    result = holdfast("kmeans", data(), "-k", 6, "--json")
    loads(result.out)
    check("inertia" in result.err, "with --json the summary goes to standard error")


@test
def fewer_points_than_clusters():
    path = write_npy(scratch("points.npy"), [[i % 3, 0] for i in range(60)])
    result = holdfast("kmeans", path, "-k", 5, "-o", scratch("points"))
    check("warning: only 3 of 5 clusters have rows" in result.err, str(result))
    check("warning" not in holdfast("kmeans", path, "-k", 3, "-o", scratch("points")).err)


@test
def malformed_options():
    path = data()
    for options, word in (
            ([], "-k"), (["-k", "0"], "-k"), (["-k", "-3"], "-k"), (["-k", "3.5"], "whole"), (["-k", "x"], "whole"),
            (["-k", "99999999999999999999"], "between"), (["-k", "3", "--init", "kmean"], "kmeans++"),
            (["-k", "3", "--metric", "l1"], "euclidean"), (["-k", "3", "--tol", "-1"], "--tol"),
            (["-k", "3", "--tol", "nan"], "--tol"), (["-k", "3", "--max-iter", "0"], "--max-iter"),
            (["-k", "3", "--n-init", "0"], "--n-init"), (["-k", "3", "--seed", "-1"], "--seed"),
            (["-k", "3", "--seed", "18446744073709551616"], "--seed"), (["-k", "3", "--memory", "2X"], "512M"),
            (["-k", "3", "--memory", "0"], "--memory"), (["-k", "3", "--memory", "1e30G"], "--memory"),
            (["-k", "3", "--threads", "0"], "--threads"), (["-k", "3", "--threads", "2000"], "1024"),
            (["-k", "3", "--device", "gpu"], "holdfast info"), (["-k", "3", "--empty", "x"], "relocate"),
            (["-k", "3", "-o", ""], "-o: the name is empty"), (["-k", "3", "--weights", ""], "--weights"),
            (["-k", "3", "--checkpoint", ""], "--checkpoint"), (["-k", "3", "--resume", ""], "--resume"),
            (["-k", "3", "--init", ""], "--init"), (["-k", "3", "--memory", "1"], "--memory 1: "),
            (["-k", "3", "--precision", "x"], "fast"), (["-k", "3", "--centroids", "f8"], "same"),
            (["-k", "3", "--nan", "x"], "drop"), (["-k", "3", "--skipping", "x"], "auto"),
            (["-k", "3", "--every", "5"], "--checkpoint"), (["-k", "3", "--picture", "28"], "28x28"),
            (["-k", "3", "--picture", "28x28"], "-o"), (["-k", "3", "another.npy"], "one data file")):
        result = holdfast("kmeans", path, *options, code=USAGE)
        check(word in result.err and result.out == "", f"the message lacks {word}\n{result}")
    result = holdfast("kmeans", "-k", "3", code=USAGE)
    check("data file" in result.err, str(result))
    check("DATA: the name is empty" in holdfast("kmeans", "", "-k", "3", code=USAGE).err, "empty name")


@test
def forced_kernel():
    out, ref = scratch("forced"), scratch("unforced")
    report = fit(data(), "-k", 6, out=out, env={"HF_KERNEL_ASSIGN": "assign_ref"})
    equal(report["plan"]["assign"], "assign_ref")
    fit(data(), "-k", 6, out=ref)
    same_files(out, ref)


if __name__ == "__main__":
    main()
