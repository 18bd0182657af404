# SPDX-License-Identifier: Apache-2.0
"""Centroids applied to data: predict --from, transform, score. Numbers are those of plain float64 arithmetic,
what a result folder says is heeded, and nothing half done is left behind."""
import array
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (CITIES, DIGITS, FAILED, HOLDFAST, INPUT, INTERRUPTED, RESOURCES, USAGE, blobs,  # noqa: E402
                 check, close, content, environment, equal, fit, holdfast, loads, main, matrix, nearest,
                 npy_header, read_npy, scratch, start, test, write_npy)

ROWS = blobs(500, 6, 7, seed=9)
CENTRES = blobs(7, 6, 7, seed=10)
METRICS = ("euclidean", "cosine", "dot")


def data():
    path = scratch("data.npy")
    return path if os.path.exists(path) else write_npy(path, ROWS)


def centres():
    return write_npy(scratch("centres.npy"), CENTRES)


def with_holes():
    """Rows of which every 40th has NaN, and which those are."""
    rows = [list(r) for r in ROWS]
    bad = set(range(7, 500, 40))
    for i in bad:
        rows[i][i % 6] = float("nan") if i % 3 else float("-inf")
    return write_npy(scratch("holes.npy"), rows), bad


# ---- folders of fits

@test
def labels_of_the_fit():
    holes, _ = with_holes()
    for path, options in ((DIGITS, []), (CITIES, ["--metric", "cosine"]), (CITIES, ["--metric", "dot"]),
                          (data(), ["--init", "random", "--max-iter", 2]), (holes, ["--nan", "drop"]),
                          (data(), ["--labels-format", "csv"])):
        out = scratch("fit")
        shutil.rmtree(out, ignore_errors=True)
        report = fit(path, "-k", 12, *options, out=out)
        name = "labels.csv" if "csv" in options else "labels.npy"
        again = scratch("again" + name[-4:])
        for more in ([], ["--memory", "64M", "--threads", 3]):
            result = loads(holdfast("predict", path, "--from", out, "-o", again, "--json", "-q", *more).out)
            equal(content(again), content(os.path.join(out, name)), f"labels of {options}")
            equal(result["metric"], report["options"]["metric"])
            equal(result["sizes"], report["result"]["sizes"])
            equal(result["rows_dropped"], report["data"]["rows_dropped"])
            equal(result["report"], out + "/report.json")
        score = loads(holdfast("score", path, "--from", out + "/", "--json", "-q").out)
        equal((score["inertia"], score["sizes"]), (report["result"]["inertia"], report["result"]["sizes"]))


def table():
    """An id, six columns of which some are missing or in other units, a name."""
    path = scratch("table.csv")
    with open(path, "w", encoding="utf-8") as f:
        f.write("id,a,b,c,d,e,f,name\n")
        for i, row in enumerate(ROWS):
            values = ["-9999" if (i + j) % 61 == 5 else repr(v * (1000.3 if j == 2 else 1)) for j, v in enumerate(row)]
            f.write(f"x{i},{','.join(values)},n{i % 3}\n")
    return path


@test
def prepared_as_the_fit():
    """Columns, missing values and scaling come from the report: labels, sizes and inertia are those of the fit."""
    path, labels = table(), scratch("l.npy")
    columns = ["--columns", "b,c,d,e", "--missing", "-9999", "--nan", "drop"]
    for scale in ("none", "standard", "robust", "minmax"):
        out = scratch("scaled-" + scale)
        report = fit(path, "-k", 5, *columns, "--scale", scale, out=out)
        check(report["data"]["rows_dropped"] > 10, "rows are missing values")
        for more in ([], ["--memory", "64M", "--threads", 3]):
            result = loads(holdfast("predict", path, "--from", out, "-o", labels, "--json", "-q", *more).out)
            equal(content(labels), content(out + "/labels.npy"), scale)
            equal(result["inertia"], report["result"]["inertia"])
            equal(result["preparation"]["columns"], "b,c,d,e")
        score = loads(holdfast("score", path, "--from", out, "--json", "-q").out)
        equal((score["sizes"], score["inertia"]), (report["result"]["sizes"], report["result"]["inertia"]))
        far = scratch("prepared.npy")
        holdfast("transform", path, "--from", out, "-o", far, "-q")
        for label, row in zip(read_npy(labels)[2], matrix(far)):
            check(all(map(math.isnan, row)) if label < 0 else row[label] == min(row), f"{label} of {row}")
        # the same centroids without the report's help are compared with rows in other units
        result = holdfast("predict", path, "--centroids", out + "/centroids.npy", *columns, "-o", labels, "-q")
        equal("--from" in result.err and "scaled" in result.err, scale != "none", result.err)
    result = holdfast("predict", write_npy(scratch("narrow.npy"), [r[:4] for r in ROWS]), "--from", out, "-o", labels,
                      code=INPUT)
    check("narrow.npy" in result.err, str(result))
    wide = scratch("wide.csv")
    with open(wide, "w", encoding="utf-8") as f:
        f.write("\n".join(",".join(map(repr, r)) for r in ROWS) + "\n")
    result = holdfast("predict", wide, "--centroids", out + "/centroids.npy", "-o", labels, code=INPUT)
    check("use --from " + out in result.err, str(result))


@test
def columns_of_other_names():
    """Columns in another order than those of the fit are not compared with its centroids in silence."""
    def named(name, order):
        path = scratch(name + ".csv")
        with open(path, "w", encoding="utf-8") as f:
            f.write(",".join("abcdef"[j] for j in order) + "\n")
            f.write("".join(",".join(repr(row[j]) for j in order) + "\n" for row in ROWS))
        return path

    out, labels = scratch("named"), scratch("named.npy")
    moved = named("moved", [1, 0, 2, 3, 4, 5])
    for columns in ([], ["--columns", "1-6"], ["--skip-columns", "6"]):
        fit(named("own", range(6)), "-k", 5, *columns, out=out)
        for args in (["predict", "-o", labels], ["transform", "-o", labels], ["score"]):
            result = holdfast(args[0], moved, "--from", out, *args[1:], code=INPUT)
            for word in ("moved.csv: column 1 is 'b'", "the fit was 'a'", "--columns"):
                check(word in result.err, f"no '{word}'\n{result}")
        chosen = "a,b,c,d,e" if "6" in columns else "a,b,c,d,e,f"
        holdfast("predict", moved, "--from", out, "--columns", chosen, "-o", labels, "-q")
        equal(content(labels), content(out + "/labels.npy"), "named by the user")
    fit(named("own", range(6)), "-k", 5, "--columns", "b,c", out=out)
    holdfast("predict", moved, "--from", out, "-o", labels, "-q")
    equal(content(labels), content(out + "/labels.npy"), "named by the fit")
    holdfast("predict", write_npy(scratch("none.npy"), [r[1:3] for r in ROWS]), "--from", out, "--columns", "1,2",
             "-o", labels, "-q")
    equal(content(labels), content(out + "/labels.npy"), "without names")


@test
def metric_of_the_report():
    """A fit with dot and a predict without it: the report beside the centroids is heeded, or said to differ."""
    out = scratch("dot")
    fit(CITIES, "-k", 30, "--metric", "dot", out=out)
    c, labels = out + "/centroids.npy", scratch("l.npy")
    result = holdfast("predict", CITIES, "--centroids", c, "-o", labels)
    check("the metric is dot" in result.err and "dot distance" in result.out, str(result))
    equal(content(labels), content(out + "/labels.npy"), "labels")
    equal(holdfast("predict", CITIES, "--centroids", c, "-o", labels, "-q").err, "")
    equal(content(labels), content(out + "/labels.npy"), "labels")
    result = holdfast("predict", CITIES, "--centroids", c, "-o", labels, "--metric", "euclidean")
    check("warning" in result.err and "dot, not euclidean" in result.err, str(result))
    check(content(labels) != content(out + "/labels.npy"), "euclidean labels are others")
    result = holdfast("predict", CITIES, "--from", out, "-o", labels, "--metric", "cosine", code=USAGE)
    check("says dot" in result.err, str(result))
    holdfast("predict", CITIES, "--from", out, "-o", labels, "--metric", "dot", "-q")
    here = holdfast("predict", CITIES, "--centroids", "centroids.npy", "-o", labels, cwd=out)
    check("the metric is dot" in here.err, str(here))
    # a report of other files says nothing about these centroids
    write_npy(c, matrix(c)[:5])
    result = holdfast("predict", CITIES, "--centroids", c, "-o", labels)
    check(result.err == "" and "euclidean" in result.out, str(result))


@test
def damaged_folders():
    out = scratch("damaged")
    report = out + "/report.json"
    labels = scratch("never.npy")

    def refused(*words):
        result = holdfast("predict", data(), "--from", out, "-o", labels, code=INPUT)
        for word in words:
            check(word in result.err, f"lacks {word}\n{result}")
        check(not os.path.exists(labels), "labels of a damaged folder")

    refused("report.json", "No such file", "--from")
    fit(data(), "-k", 4, out=out)
    good, c = content(report), content(out + "/centroids.npy")

    def rewrite(change):
        root = json.loads(good)
        change(root)
        with open(report, "w", encoding="utf-8") as f:
            json.dump(root, f)

    with open(out + "/centroids.npy", "wb") as f:
        f.write(c[:-1] + bytes([c[-1] ^ 1]))
    refused("centroids.npy", "checksum")
    os.remove(out + "/centroids.npy")
    refused("centroids.npy", "No such file")
    with open(out + "/centroids.npy", "wb") as f:
        f.write(c)
    for text, words in ((good[:len(good) // 2], ("report.json", "damaged")), (b"[1]", ("not the report",)),
                        (b'{"holdfast": {"command": "kmeans"}}', ("not the report",)), (b"", ("damaged",))):
        with open(report, "wb") as f:
            f.write(text)
        refused(*words)
    for change, word in ((lambda r: r["options"].update(metric="l1"), "metric"),
                         (lambda r: r["options"].pop("nan"), "--nan"),
                         (lambda r: r["options"].update(metric=7), "metric"),
                         (lambda r: r["files"].pop("centroids.npy"), "not in the report"),
                         (lambda r: r["files"]["centroids.npy"].update(crc32=None), "checksum"),
                         (lambda r: r["files"]["centroids.npy"].update(bytes="12"), "checksum"),
                         (lambda r: r["holdfast"].update(command="predict"), "not the report"),
                         (lambda r: r.update(preparation=5), "preparation")):
        rewrite(change)
        refused(word)
    with open(report, "wb") as f:
        f.write(good)
    result = holdfast("predict", data(), "--from", out, "--centroids", centres(), "-o", labels, code=USAGE)
    check("contradicts" in result.err, str(result))
    for verb in ("predict", "transform"):
        for name in ("centroids.npy", "report.json"):
            result = holdfast(verb, data(), "--from", out, "-o", os.path.join(out, name), code=USAGE)
            check("overwritten" in result.err, str(result))
    equal(content(report), good, "the report")


# ---- labels

@test
def labels_as_text():
    truth, _ = nearest(ROWS, CENTRES)
    text = "label\n" + "".join(f"{v}\n" for v in truth)
    for args in (["l.csv"], ["l.txt", "--labels-format", "csv"]):
        path = scratch(args[0])
        holdfast("predict", data(), "--centroids", centres(), "-o", path, *args[1:], "-q")
        equal(content(path).decode(), text)
    path = scratch("odd.csv")
    holdfast("predict", data(), "--centroids", centres(), "-o", path, "--labels-format", "npy", "-q")
    equal(read_npy(path)[2], truth)
    out = scratch("text")
    fit(CITIES, "-k", 200, "--labels-format", "csv", "--max-iter", 2, out=out)
    lines = content(out + "/labels.csv").decode().split("\n")
    equal((lines[0], lines[-1], len(lines)), ("label", "", 135233 + 2))
    fit(CITIES, "-k", 200, "--max-iter", 2, out=out)
    equal([int(v) for v in lines[1:-1]], read_npy(out + "/labels.npy")[2])
    holes, bad = with_holes()
    holdfast("predict", holes, "--centroids", centres(), "--nan", "drop", "-o", path, "-q")
    lines = content(path).decode().split("\n")[1:-1]
    equal([i for i, line in enumerate(lines) if line == "-1"], sorted(bad))
    for verb in ("kmeans", "predict"):
        result = holdfast(verb, data(), *(["-k", 3] if verb == "kmeans" else ["--centroids", centres(), "--json"]),
                          "--labels-format", "csv", code=USAGE)
        check("--labels-format needs -o" in result.err, str(result))


@test
def weights_and_dropped_rows():
    holes, bad = with_holes()
    weights = [float(i % 5) for i in range(500)]
    w = write_npy(scratch("w.npy"), weights)
    truth, distances = nearest(ROWS, CENTRES)
    labels, far = scratch("l.npy"), scratch("d.npy")
    report = loads(holdfast("predict", holes, "--centroids", centres(), "--weights", w, "--nan", "drop", "-o", labels,
                            "--distances", far, "--json", "-q").out)
    kept = [i for i in range(500) if i not in bad]
    equal(read_npy(labels)[2], [-1 if i in bad else truth[i] for i in range(500)])
    found = read_npy(far)[2]
    check(all(math.isnan(found[i]) for i in bad), "distances of dropped rows")
    equal([found[i] for i in kept], [distances[i] for i in kept])
    close(report["inertia"], math.fsum(weights[i] * distances[i] for i in kept), 3000, "inertia")
    equal(report["rows_dropped"], len(bad))
    equal(report["sizes"], [sum(truth[i] == j for i in kept) for j in range(7)])
    result = holdfast("predict", holes, "--centroids", centres(), "-o", labels, code=INPUT)
    check("row 7, column 1" in result.err and "--nan drop" in result.err, str(result))
    short = write_npy(scratch("short.npy"), weights[:-1])
    for verb in ("predict", "score"):
        result = holdfast(verb, data(), "--centroids", centres(), "--weights", short, "--json", code=INPUT)
        check("--weights" in result.err and "short.npy" in result.err and "500" in result.err, str(result))
    result = holdfast("predict", data(), "--centroids", centres(), "--weights", w, "-o", w, code=USAGE)
    check("overwritten" in result.err, str(result))


@test
def centroids_of_every_type():
    whole = [[float(int(abs(v))) for v in row] for row in CENTRES]
    rows = write_npy(scratch("rows.npy"), ROWS)
    truth, distances = nearest(ROWS, whole)
    start_rows = write_npy(scratch("start-f64.npy"), whole, "f64")
    fit(rows, "--init", start_rows, "--empty", "keep", out=scratch("f64"))
    for dtype in ("f32", "f16", "bf16", "u8", "i32", "i64"):
        values = whole if dtype in ("f32", "f16", "bf16") else [[int(v) for v in row] for row in whole]
        c = write_npy(scratch(dtype + ".npy"), values, dtype)
        far = scratch("d.npy")
        holdfast("predict", rows, "--centroids", c, "-o", scratch("l.npy"), "--distances", far, "-q")
        equal(read_npy(scratch("l.npy"))[2], truth, dtype)
        equal(read_npy(far)[2], distances, dtype)
        fit(rows, "--init", c, "--empty", "keep", out=scratch("typed"))
        equal(content(scratch("typed/labels.npy")), content(scratch("f64/labels.npy")), dtype)
        equal(content(scratch("typed/centroids.npy")), content(scratch("f64/centroids.npy")), dtype)


# ---- transform

def distance(metric, a, b):
    """The reference: one float64 operation at a time, features in order."""
    dot = aa = bb = square = 0.0
    for x, y in zip(a, b):
        dot += x * y
        aa += x * x
        bb += y * y
        square += (x - y) * (x - y)
    if metric == "euclidean":
        return math.sqrt(square)
    return -dot if metric == "dot" else 1 - dot / math.sqrt(aa * bb)


@test
def distances_to_all():
    rows = [r for r in ROWS if any(r)]
    path = write_npy(scratch("nonzero.npy"), rows)
    far = scratch("all.npy")
    for metric in METRICS:
        report = loads(holdfast("transform", path, "--centroids", centres(), "--metric", metric, "-o", far, "--json",
                                "-q").out)
        dtype, shape, values = read_npy(far)
        equal((dtype, shape), ("f64", (len(rows), 7)))
        want = [distance(metric, r, c) for r in rows for c in CENTRES]
        if metric == "cosine":
            worst = max(abs(a - b) for a, b in zip(values, want))
            check(worst <= 32 * 2.0 ** -53, f"cosine is {worst} off")
        else:
            equal(values, want, metric)
        equal((report["metric"], report["centroids"]["k"], report["distances"]), (metric, 7, far))
    result = holdfast("transform", data(), "--centroids", centres(), "-o", far)
    check("500 rows" in result.out and "all.npy" in result.out and result.err == "", str(result))


@test
def distances_in_chunks():
    rows = [[float(i % 101 - j) for j in range(64)] for i in range(9000)]
    path = write_npy(scratch("wide.npy"), rows)
    c = write_npy(scratch("wide-centres.npy"), rows[:5])
    holdfast("transform", path, "--centroids", c, "-o", scratch("whole.npy"), "-q")
    report = loads(holdfast("transform", path, "--centroids", c, "-o", scratch("chunks.npy"), "--memory", "1M",
                            "--json", "-q").out)
    check(report["data"]["streamed"], "not read in chunks")
    equal(content(scratch("chunks.npy")), content(scratch("whole.npy")), "distances")


@test
def distances_of_dropped_rows():
    holes, bad = with_holes()
    far = scratch("far.npy")
    result = holdfast("transform", holes, "--centroids", centres(), "-o", far, code=INPUT)
    check("row 7, column 1" in result.err and "--nan drop" in result.err and not os.path.exists(far), str(result))
    result = holdfast("transform", holes, "--centroids", centres(), "--nan", "drop", "-o", far)
    check(f"{len(bad)} rows with NaN" in result.out, str(result))
    for i, row in enumerate(matrix(far)):
        if i in bad:
            check(all(math.isnan(v) for v in row), f"row {i}")
        else:
            equal(row, [distance("euclidean", ROWS[i], c) for c in CENTRES])


@test
def transform_usage():
    far = scratch("never.npy")
    for args, word in (([data(), "--centroids", centres()], "where to"),
                       (["--centroids", centres(), "-o", far], "data"),
                       ([data(), "-o", far], "--from DIR"), ([data(), data(), "--from", "x", "-o", far], "one data"),
                       ([data(), "--centroids", centres(), "-o", data()], "overwritten"),
                       ([data(), "--centroids", centres(), "-o", far, "--weights", "w.npy"], "weights"),
                       ([data(), "--centroids", centres(), "-o", far, "--metric", "l2"], "euclidean")):
        result = holdfast("transform", *args, code=USAGE)
        check(word in result.err, f"lacks {word}\n{result}")
    narrow = write_npy(scratch("narrow.npy"), [c[:5] for c in CENTRES])
    result = holdfast("transform", data(), "--centroids", narrow, "-o", far, code=INPUT)
    check("5 columns" in result.err and "narrow.npy" in result.err, str(result))
    result = holdfast("transform", data(), "--centroids", centres(), "-o", scratch("no/such.npy"), code=FAILED)
    check("no/such.npy" in result.err, str(result))
    check(not os.path.exists(far), "no file")


@test
def no_room():
    """A limit on the size of files stands for a full disk."""
    os.makedirs(scratch("small"))
    done = subprocess.run(["sh", "-c", 'ulimit -f 8; exec "$0" "$@"', HOLDFAST, "transform", data(), "--centroids",
                           centres(), "-o", scratch("small/far.npy")], capture_output=True, text=True,
                          env=environment())
    equal(done.returncode, RESOURCES, done.stderr)
    check("far.npy" in done.stderr, done.stderr)
    equal(os.listdir(scratch("small")), [], "what a failed write leaves")


def size_of(path):
    """0 for a file that is gone: the trial whether one can be written there, or one that got its name."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def slow_transform(folder):
    """A transform under way: its file has begun to grow under its hidden name."""
    path, c = scratch("many.npy"), scratch("many-centres.npy")
    if not os.path.exists(path):
        values = array.array("f", (float(i * 7 % 1009) for i in range(400000 * 2)))
        with open(path, "wb") as f:
            f.write(npy_header("f32", (400000, 2)) + values.tobytes())
        write_npy(c, [[float(i), float(i * i % 97)] for i in range(40)])
    os.makedirs(folder)
    process = start("transform", path, "--centroids", c, "-o", os.path.join(folder, "far.npy"), "--memory", "2M",
                    "--threads", 1)
    while process.poll() is None:
        hidden = os.listdir(folder)
        if any(size_of(os.path.join(folder, name)) > 100000 for name in hidden if name.startswith(".")):
            break
        time.sleep(0.001)
    return process, ["transform", path, "--centroids", c, "-o", os.path.join(folder, "far.npy"), "-q"]


@test
def killed():
    """No file of that name before all of it is there; the next run removes what was left."""
    folder = scratch("killed")
    process, again = slow_transform(folder)
    process.kill()
    process.communicate()
    equal(process.returncode, -signal.SIGKILL, "it ended before it could be killed")
    check(not os.path.exists(folder + "/far.npy"), "a part of the file has its name")
    holdfast(*again)
    equal(os.listdir(folder), ["far.npy"])
    equal(read_npy(folder + "/far.npy")[1], (400000, 40))


@test
def interrupted():
    folder = scratch("interrupted")
    process, _ = slow_transform(folder)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    equal(process.returncode, INTERRUPTED, err)
    check(b"interrupted" in err and b"nothing was written" in err, err)
    equal(os.listdir(folder), [], "what an interrupted run leaves")


# ---- score

@test
def scores():
    rows = [r for r in ROWS if any(r)]
    path = write_npy(scratch("nonzero.npy"), rows)
    weights = [float(i % 3) for i in range(len(rows))]
    w = write_npy(scratch("w.npy"), weights)
    for metric in METRICS:
        for more, weight in (([], [1.0] * len(rows)), (["--weights", w], weights)):
            report = loads(holdfast("score", path, "--centroids", centres(), "--metric", metric, *more, "--json",
                                    "-q").out)
            table = [[distance(metric, r, c) for c in CENTRES] for r in rows]
            best = [min(t) ** 2 if metric == "euclidean" else min(t) for t in table]
            inertia = math.fsum(a * b for a, b in zip(weight, best))
            bound = 1e-12 * math.fsum(a * abs(b) for a, b in zip(weight, best))
            check(abs(report["inertia"] - inertia) <= bound, f"{report['inertia']} and {inertia}")
            check(abs(report["mean_distance"] - inertia / sum(weight)) <= bound / sum(weight), "mean")
            equal((report["rows"], report["rows_dropped"], report["weight"]), (len(rows), 0, sum(weight)))
            if metric == "euclidean":
                check(abs(report["rms_distance"] - math.sqrt(inertia / sum(weight))) <= 1e-12 * report["rms_distance"])
                labels, _ = nearest(rows, CENTRES)
                equal(report["sizes"], [labels.count(j) for j in range(7)])
            else:
                equal(report["rms_distance"], None)


@test
def score_as_text():
    result = holdfast("score", data(), "--centroids", centres())
    report = loads(holdfast("score", data(), "--centroids", centres(), "--json", "-q").out)
    for word in ("inertia", f"{report['inertia']:.12g}", "root mean square", "rows      500",
                 ", ".join(str(v) for v in report["sizes"])):
        check(word in result.out, f"lacks {word}\n{result}")
    holes, bad = with_holes()
    result = holdfast("score", holes, "--centroids", centres(), "--nan", "drop", "--metric", "dot")
    check(f"dropped   {len(bad)} rows" in result.out and "on average" in result.out, str(result))
    result = holdfast("score", data(), "--centroids", centres(), "-q", code=USAGE)
    check("--json" in result.err, str(result))
    holdfast("score", holes, "--centroids", centres(), code=INPUT)
    nothing = write_npy(scratch("nothing.npy"), [[float("nan")] * 6] * 3)
    report = loads(holdfast("score", nothing, "--centroids", centres(), "--nan", "drop", "--json", "-q").out)
    equal((report["rows"], report["rows_dropped"], report["mean_distance"]), (0, 3, None))


if __name__ == "__main__":
    main()
