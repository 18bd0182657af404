# SPDX-License-Identifier: Apache-2.0
"""holdfast solve: solutions are those of the system, files come whole, and stops have their exit codes."""
import gzip
import json
import math
import os
import signal
import struct
import sys
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (DONE, INPUT, INTERRUPTED, RESOURCES, UNCONVERGED, USAGE, check, content, equal,  # noqa: E402
                 holdfast, loads, main, read_npy, scratch, start, test, write_npy)


def grid(size, diagonal):
    """The nine points of a size x size grid: -0.5 to the sides, -0.25 to the corners; {(i, j): value}."""
    elements = {}
    for y in range(size):
        for x in range(size):
            for dy in (-1, 0, 1):
                for dx in (-1, 0, 1):
                    if 0 <= y + dy < size and 0 <= x + dx < size:
                        value = diagonal if dx == dy == 0 else -0.25 if dx and dy else -0.5
                        elements[y * size + x, (y + dy) * size + x + dx] = value
    return elements


def write_mtx(name, n, elements, symmetric=True):
    kept = {k: v for k, v in elements.items() if not symmetric or k[0] >= k[1]}
    lines = [f"%%MatrixMarket matrix coordinate real {'symmetric' if symmetric else 'general'}", f"{n} {n} {len(kept)}"]
    lines += [f"{i + 1} {j + 1} {v!r}" for (i, j), v in kept.items()]
    text = ("\n".join(lines) + "\n").encode()
    path = scratch(name)
    with (gzip.open(path, "wb", 1) if name.endswith(".gz") else open(path, "wb")) as f:
        f.write(text)
    return path


SIZE = 30
N = SIZE * SIZE
EASY = grid(SIZE, 3.51)
HARD = grid(SIZE, 3.0)


def easy():
    path = scratch("easy.mtx.gz")
    return path if os.path.exists(path) else write_mtx("easy.mtx.gz", N, EASY)


def hard():
    path = scratch("hard.mtx")
    return path if os.path.exists(path) else write_mtx("hard.mtx", N, HARD)


def residual(elements, x, b):
    """|b - A x| / |b|."""
    rest = list(b)
    for (i, j), value in elements.items():
        rest[i] -= value * x[j]
    return math.sqrt(math.fsum(v * v for v in rest) / math.fsum(v * v for v in b))


@test
def solves():
    x_file, report_file = scratch("x.npy"), scratch("report.json")
    result = holdfast("solve", easy(), "-o", x_file, "--report", report_file)
    dtype, shape, x = read_npy(x_file)
    equal((dtype, shape), ("f64", (N,)))
    found = residual(EASY, x, [1.0] * N)
    check(found <= 1.01e-10, f"residual {found}")
    with open(report_file, encoding="utf-8") as f:
        report = loads(f.read())
    equal((report["result"]["converged"], report["result"]["stop"]), (True, "tol"))
    check(abs(report["result"]["residual"] - found) <= 1e-13, "the residual of the report")
    equal(report["matrix"]["rows"], N)
    equal((report["matrix"]["symmetry"], report["matrix"]["elements"]), ("symmetric", len(EASY)))
    history = report["result"]["columns"][0]["history"]
    check(abs(history[0] - 1) < 1e-12 and history[-1] <= 1e-9, "history")
    equal(int(report["files"]["x"]["crc32"], 16), zlib.crc32(content(x_file)))
    for word in ("solved", "true residual", "method", x_file):
        check(word in result.out, f"{word} is not in the summary\n{result}")
    check(result.err == "", str(result))


@test
def every_method():
    for method in ("jacobi", "gauss-seidel", "async", "schwarz", "cg", "chebyshev"):
        x_file = scratch(f"{method}.npy")
        report = loads(holdfast("solve", easy(), "--method", method, "-o", x_file, "--json", "-q", "--tol", "1e-8").out)
        equal(report["options"]["method"], method)
        equal(report["result"]["method"], method)
        check(residual(EASY, read_npy(x_file)[2], [1.0] * N) <= 1.01e-8, method)


@test
def right_hand_sides():
    """Files of all kinds, several columns, and a start."""
    b = [[math.sin(i), float(i % 7)] for i in range(N)]
    files = [write_npy(scratch("b.npy"), b, "f64"), scratch("b.csv"), scratch("b.mtx")]
    with open(files[1], "w", encoding="utf-8") as f:
        f.writelines(f"{row[0]!r},{row[1]!r}\n" for row in b)
    with open(files[2], "w", encoding="utf-8") as f:
        f.write(f"%%MatrixMarket matrix array real general\n{N} 2\n")
        f.writelines(f"{row[j]!r}\n" for j in range(2) for row in b)
    first = None
    for path in files:
        holdfast("solve", easy(), "-b", path, "-o", scratch("xs.npy"), "-q")
        dtype, shape, x = read_npy(scratch("xs.npy"))
        equal((dtype, shape), ("f64", (N, 2)))
        first = first or content(scratch("xs.npy"))
        equal(content(scratch("xs.npy")), first, path)
        for j in range(2):
            check(residual(EASY, x[j::2], [row[j] for row in b]) <= 1.01e-10, f"column {j}")
    report = loads(holdfast("solve", easy(), "-b", files[0], "--x0", scratch("xs.npy"), "--json", "-q").out)
    check(report["result"]["iterations"] <= 1, "the solution is a start that needs nothing")


@test
def same_bits_for_any_threads():
    for method in ("async", "schwarz"):
        outs = []
        for threads in (1, 2, 5):
            out = scratch(f"t{threads}.npy")
            holdfast("solve", easy(), "--method", method, "--threads", threads, "-o", out, "-q")
            outs.append(content(out))
        check(outs[0] == outs[1] == outs[2], method)


@test
def several_devices():
    alone, shared, report_file = scratch("alone.npy"), scratch("shared.npy"), scratch("shared.json")
    common = ["--method", "async", "--block", "90", "--max-iter", "16", "-q"]
    holdfast("solve", easy(), *common, "-o", alone, code=UNCONVERGED)
    holdfast("solve", easy(), *common, "-o", shared, "--devices", "cpu,cpu,cpu", "--report", report_file,
             code=UNCONVERGED)
    check(content(alone) == content(shared), "devices that wait for each other have the bits of one")
    report = loads(content(report_file))
    check(report["result"]["devices"] == 3 and report["options"]["devices"] == "cpu,cpu,cpu", str(report["result"]))
    result = holdfast("solve", easy(), "--devices", "cpu,cpu", "--exchange", "amc", "--timing", "free", "--method",
                      "async", "--block", "90", "-o", shared)
    check("2 devices" in result.out, str(result))
    check(residual(EASY, read_npy(shared)[2], [1.0] * N) <= 1.01e-10, "shared by amc")
    holdfast("solve", easy(), "--timing", "free", "--method", "async", "--block", "90", "-t", "2", "--spares", "1",
             "-o", alone, "--report", report_file)
    report = loads(content(report_file))
    check(residual(EASY, read_npy(alone)[2], [1.0] * N) <= 1.01e-10, "with a spare thread")
    check(report["options"]["spares"] == 1 and isinstance(report["faults"]["taken"], list), str(report["faults"]))


@test
def not_converged():
    out, report_file = scratch("part.npy"), scratch("part.json")
    result = holdfast("solve", hard(), "--method", "jacobi", "--max-iter", 20, "-o", out, "--report", report_file,
                      code=UNCONVERGED)
    check("not converged" in result.err and "NOT CONVERGED" in result.out, str(result))
    with open(report_file, encoding="utf-8") as f:
        report = loads(f.read())
    equal((report["result"]["stop"], report["result"]["converged"]), ("max_iter", False))
    true = residual(HARD, read_npy(out)[2], [1.0] * N)
    check(abs(true - report["result"]["residual"]) <= 1e-12 * true, "the residual of what was written")
    begin = time.monotonic()
    report = loads(holdfast("solve", hard(), "--method", "jacobi", "--tol", "1e-300", "--max-iter", 10**15,
                            "--time-limit", 0.3, "--json", "-q", code=UNCONVERGED).out)
    check(report["result"]["stop"] in ("time", "stall"), str(report["result"]["stop"]))
    check(time.monotonic() - begin < 10, "the limit was passed by far")


@test
def diverging():
    """Off-diagonal elements that outweigh the diagonal: no answer is sold as one."""
    bad = {(i, j): 1.0 if i == j else 0.9 for i in range(40) for j in range(40) if abs(i - j) <= 3}
    path = write_mtx("bad.mtx", 40, bad)
    report = loads(holdfast("solve", path, "--method", "jacobi", "--damping", 1.5, "--json", "-q",
                            code=UNCONVERGED).out)
    check(report["result"]["stop"] in ("diverged", "stall"), str(report["result"]))


@test
def picture():
    path = scratch("c.png")
    holdfast("solve", easy(), "--picture", path, "-q")
    data = content(path)
    check(data[:8] == b"\x89PNG\r\n\x1a\n", "no PNG")
    width, height = struct.unpack(">II", data[16:24])
    equal((width, height), (800, 480))
    pixels = zlib.decompress(b"".join(chunk for kind, chunk in chunks(data) if kind == b"IDAT"))
    check(len(pixels) == (width + 1) * height and len(set(pixels)) > 3, "the picture is empty")


def chunks(data):
    at = 8
    while at < len(data):
        length, = struct.unpack(">I", data[at:at + 4])
        yield data[at + 4:at + 8], data[at + 8:at + 8 + length]
        at += 12 + length


@test
def interrupted():
    """Ctrl-C writes the x so far and the report, and says so by its exit code."""
    out, report_file = scratch("cut.npy"), scratch("cut.json")
    big = write_mtx("big.mtx", 60 * 60, grid(60, 3.0))
    process = start("solve", big, "--method", "jacobi", "--tol", "1e-300", "--max-iter", 10**15, "--damping", 0.1,
                    "-o", out, "--report", report_file)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    equal(process.returncode, INTERRUPTED, err)
    check(b"interrupted" in err, err)
    with open(report_file, encoding="utf-8") as f:
        equal(loads(f.read())["result"]["stop"], "cancelled")
    equal(read_npy(out)[1], (3600,))


@test
def all_or_nothing():
    """Outputs appear together: where one cannot be written the others do not change."""
    out = scratch("whole.npy")
    holdfast("solve", easy(), "-o", out, "-q")
    before = content(out)
    folder = scratch("folder.json")
    os.makedirs(folder, exist_ok=True)
    holdfast("solve", easy(), "--tol", "1e-3", "-o", out, "--report", folder, "-q", code=None)
    holdfast("solve", easy(), "--tol", "1e-3", "-o", out, "--report", scratch("none/r.json"), "-q", code=1)
    equal(content(out), before)
    check(not [n for n in os.listdir(scratch()) if n.startswith(".")], "hidden files are left")
    link = scratch("hard.npy")
    os.symlink(hard(), link)
    result = holdfast("solve", hard(), "-o", link, code=USAGE)
    check("would be overwritten" in result.err, str(result))
    result = holdfast("solve", easy(), "-o", scratch("o"), "--report", scratch("folder.json/../o"), code=USAGE)
    check("two outputs" in result.err, str(result))


@test
def standard_input():
    with gzip.open(easy()) as f:
        text = f.read()
    report = loads(holdfast("solve", "-", "--json", "-q", input=text).out)
    check(report["result"]["converged"], "from standard input")
    holdfast("solve", "-", "-b", "-", code=USAGE, input=text)


@test
def refused():
    wide = scratch("wide.mtx")
    with open(wide, "w", encoding="utf-8") as f:
        f.write("%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 1\n")
    short = write_npy(scratch("short.npy"), [1.0, 2.0], "f64")
    nan = write_npy(scratch("nan.npy"), [math.nan] * N, "f64")
    zero = write_mtx("zero.mtx", 2, {(0, 0): 1.0, (1, 0): 1.0})
    broken = scratch("broken.mtx")
    with open(broken, "w", encoding="utf-8") as f:
        f.write("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n2 x 1\n")
    for args, code, words in (
            (["none.mtx"], INPUT, ["none.mtx", "No such file"]),
            ([wide], INPUT, ["wide.mtx", "square"]),
            ([broken], INPUT, ["broken.mtx", "line 4", "'2 x 1'"]),
            ([short], INPUT, ["dense array", "Matrix Market"]),
            ([easy(), "-b", short], INPUT, ["-b", "short.npy", "900 rows"]),
            ([easy(), "--x0", short], INPUT, ["--x0", "short.npy", "900 rows"]),
            ([easy(), "-b", nan], INPUT, ["-b"]),
            ([zero], INPUT, ["diagonal"]),
            ([], USAGE, ["which matrix"]),
            ([easy(), easy()], USAGE, ["one matrix"]),
            ([easy(), "-q"], USAGE, ["nothing would be left"]),
            ([easy(), "--tol", "0"], USAGE, ["--tol"]),
            ([easy(), "--damping", "2"], USAGE, ["--damping"]),
            ([easy(), "--method", "sor"], USAGE, ["--method", "must be one of"]),
            ([easy(), "--precond", "blocks"], USAGE, ["--precond goes with"]),
            ([easy(), "--sweeps", "3", "--method", "cg"], USAGE, ["--sweeps goes with"]),
            ([easy(), "--overlap", "2", "--method", "jacobi"], USAGE, ["--method schwarz"]),
            ([easy(), "--coarse", "on", "--method", "async"], USAGE, ["--method schwarz"]),
            ([easy(), "--spares", "1", "--method", "async"], USAGE, ["--timing free"]),
            *(([easy(), "--devices", names], USAGE, ["--devices"])
              for names in ("", "cpu,,cpu", "cpu,", "cpux", "banana", "cuda:x,cuda:1", "cpu:", "cpu,cuda:0")),
            ([easy(), "--devices", "cpu:7"], RESOURCES, ["cpu:7", "--devices"]),
            ([easy(), "--method", "gauss-seidel", "--one-launch", "on"], RESOURCES, ["leave --one-launch out"]),
            ([write_mtx("large.mtx", 10000, grid(100, 4.0)), "--memory", "1M"], RESOURCES, ["--memory"])):
        result = holdfast("solve", *args, code=code)
        for word in words:
            check(word in result.err, f"{word} is not said\n{result}")
        check(result.out == "", str(result))


@test
def json_alone():
    result = holdfast("solve", easy(), "--json", "-q")
    check(result.err == "" and json.loads(result.out)["holdfast"]["command"] == "solve", str(result))
    equal(holdfast("solve", easy(), "--json", "-q", code=DONE).code, 0)


@test
def tables_of_the_paper():
    """The synchronous model: 34 iterations of async-(5) to 1e-12 on Trefethen_2000, so outages cost what they last."""
    name = scratch("paper")
    out = holdfast("bench", "relax", "-o", name, "--runs", 2, "--rounds", 1, "--only", "table3,table6", "-t", 2).out
    check("Table 3" in out and "Table 4" not in out, out)
    rows = [line.split("\t") for line in content(name + ".tsv").decode().splitlines()]
    equal(rows[0], ["table", "matrix", "series", "at", "ours", "paper"])
    means = {float(r[3]): (float(r[4]), float(r[5])) for r in rows if r[0] == "Table 3" and r[2] == "average residual"}
    equal(len(means), 10)
    # a block is at most four iterations behind: the synchronous model is at 0.044 after the first
    check(means[5.0][0] < 0.044 and means[30.0][0] < 1e-9 and means[5.0][1] == 8.02e-4, str(means))
    extra = {float(r[3]): float(r[4]) for r in rows if r[0] == "Table 6" and r[1] == "fv1"}
    check(5 < extra[10] < 12 and 14 < extra[20] < 22 and 24 < extra[30] < 33 and math.isinf(extra[-1]), str(extra))
    plot = content(name + "-figure-10-fv1.svg").decode()
    check(plot.startswith("<svg") and plot.endswith("</svg>\n") and plot.count("<polyline") == 5, plot[:300])
    holdfast("bench", "relax", "-o", name, "--only", "figure11", "--devices", "cpu,cpu", "-t", 2)
    rows = [line.split("\t") for line in content(name + ".tsv").decode().splitlines()[1:]]
    equal({(r[2], r[3]) for r in rows}, {(way, at) for way in ("push", "amc", "dc", "dk") for at in "12"})
    check(all(float(r[4]) > 0 for r in rows), str(rows))
    holdfast("bench", "relax", "-o", name, "--only", "figure11", "--devices", "cpu,abacus", code=INPUT)
    holdfast("bench", "relax", "--only", "table9", code=USAGE)
    holdfast("bench", "relax", "-o", scratch("none") + "/x/y", code=None)


if __name__ == "__main__":
    main()
