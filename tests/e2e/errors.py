# SPDX-License-Identifier: Apache-2.0
"""Bad input: exit code 3, a message that names file, place and remedy, nothing on standard output, no crash,
no files."""
import gzip
import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (CORRUPT, FAILED, FASHION, INPUT, RESOURCES, USAGE, blobs, check, content, equal,  # noqa: E402
                 holdfast, main, npy_header, obedient, pack, scratch, test, write_npy)

ROWS = blobs(50, 3, 4)


def good():
    path = scratch("good.npy")
    return path if os.path.exists(path) else write_npy(path, ROWS)


def write(name, data):
    with open(scratch(name), "wb") as f:
        f.write(data)
    return scratch(name)


def refused(*args, words=(), code=INPUT, **more):
    """The message is on standard error and holds all the words; no files appear."""
    out = scratch("refused")
    result = holdfast("kmeans", *args, "-o", out, "--json", code=code, **more)
    for word in words:
        check(word in result.err, f"the message lacks {word!r}\n{result}")
    check(result.err.startswith("holdfast: ") and result.out == "", str(result))
    check(not re.search(r"HF_(?!KERNEL|ISA|TUNE)|memory_bytes|given (weights|centroids)", result.err),
          f"speaks of the library\n{result}")
    check(not os.path.exists(out), f"{out} was made")
    return result


@test
def no_such_file():
    refused(scratch("nowhere.npy"), "-k", 2, words=["nowhere.npy", "No such file"])
    refused(scratch(), "-k", 2, words=["irectory"])
    refused(good(), "-k", 2, "--weights", scratch("w.npy"), words=["w.npy", "No such file"])
    refused(good(), "-k", 2, "--init", scratch("c.npy"), words=["c.npy", "No such file"])
    refused(good(), "-k", 2, "--resume", scratch("r.hfc"), words=["r.hfc", "No such file", "start anew"])


@test
def unreadable_file():
    path = write_npy(scratch("secret.npy"), ROWS)
    os.chmod(path, 0)
    refused(path, "-k", 2, words=["secret.npy", "ermission"], **obedient())
    refused(good(), "-k", 2, "--weights", path, words=["secret.npy", "ermission"], **obedient())
    refused(good(), "-k", 2, "--resume", path, words=["secret.npy", "ermission"], **obedient())


@test
def truncated_npy():
    data = content(good())
    for cut in (0, 5, 9, 60, 127, 130, len(data) - 1):
        refused(write("cut.npy", data[:cut]), "-k", 2, words=["cut.npy"])


@test
def hostile_npy():
    body = pack([v for r in ROWS for v in r], "f32")
    def header(text):
        text = text + " " * (-(len(text) + 11) % 64) + "\n"
        return b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text.encode()
    for name, data in (
            ("dtype", header("{'descr': '<c8', 'fortran_order': False, 'shape': (50, 3), }") + body),
            ("object", header("{'descr': '|O', 'fortran_order': False, 'shape': (50, 3), }") + body),
            ("huge", header("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 3), }") + body),
            ("product", header("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }") + body),
            ("negative", header("{'descr': '<f4', 'fortran_order': False, 'shape': (-50, 3), }") + body),
            ("three", header("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 10, 3), }")[:-1] + b"\n" + body),
            ("no-columns", header("{'descr': '<f4', 'fortran_order': False, 'shape': (50, 0), }") + body),
            ("no-rows", header("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }") + body),
            ("no-dict", header("(50, 3)") + body),
            ("code", header("__import__('os').abort()") + body),
            ("version", b"\x93NUMPY\x09\0" + npy_header("f32", (50, 3))[8:] + body),
            ("length", b"\x93NUMPY\x02\0" + struct.pack("<I", 2 ** 32 - 1) + body)):
        path = write(name + ".npy", data)
        result = holdfast("kmeans", path, "-k", 2, "--quiet", "--json", code=None)
        if name == "three" and result.code == 0:
            continue  # read as [5, 30]
        check(result.code in (INPUT, RESOURCES), f"{name}\n{result}")
        check(name + ".npy" in result.err or "d < 1" in result.err, str(result))


@test
def bad_vecs():
    row = struct.pack("<i3f", 3, 1, 2, 3)
    for name, data in (("width", row + struct.pack("<i2f", 2, 1, 2) + row), ("cut", row * 5 + row[:7]),
                       ("zero", struct.pack("<i", 0) * 4), ("negative", struct.pack("<i", -3) + row),
                       ("empty", b"")):
        refused(write(name + ".fvecs", data), "-k", 1, words=[name + ".fvecs"])


@test
def bad_idx():
    good_idx = struct.pack(">BBBBII", 0, 0, 8, 2, 10, 3) + bytes(30)
    for name, data in (("cut", good_idx[:-1]), ("type", good_idx[:2] + b"\x07" + good_idx[3:]),
                       ("header", good_idx[:7]),
                       ("huge", struct.pack(">BBBBIIII", 0, 0, 8, 4, *[2 ** 32 - 1] * 4) + bytes(30))):
        refused(write(name + "-idx2-ubyte", data), "-k", 1, words=[name + "-idx2-ubyte"])
    packed = gzip.compress(good_idx * 10)
    refused(write("broken.gz", packed[:-9]), "-k", 1, words=["broken.gz"])
    damaged = bytearray(content(FASHION))
    damaged[len(damaged) // 2] ^= 0x10
    refused(write("damaged.gz", bytes(damaged)), "-k", 1, words=["damaged.gz"])


@test
def bad_csv():
    for name, text, place in (
            ("word", "1,2,3\n4,five,6\n7,8,9\n", "line 2"), ("ragged", "1,2,3\n4,5\n7,8,9\n", "line 2"),
            ("missing", "1,2,3\n4,,6\n", "row 1, column 1"), ("empty", "", "empty.csv"),
            ("only-header", "a,b,c\n", "only-header.csv"), ("nul", "1,2\n3,\0004\n", "line 2")):
        refused(write(name + ".csv", text.encode()), "-k", 1, words=[name + ".csv", place])


@test
def not_a_data_file():
    refused(write("noise.bin", bytes(range(256)) * 4), "-k", 1, words=["noise.bin"])


@test
def nan_is_named():
    rows = [list(r) for r in ROWS]
    rows[33][1] = float("nan")
    path = write_npy(scratch("n.npy"), rows)
    refused(path, "-k", 2, words=["row 33, column 1 of " + path, "NaN", "--nan drop"])
    out = scratch("predicted.npy")
    result = holdfast("predict", path, "--centroids", good(), "-o", out, code=INPUT)
    check("row 33, column 1 of " + path in result.err and "--nan drop" in result.err, str(result))


@test
def all_rows_nan():
    path = write_npy(scratch("all-nan.npy"), [[float("nan")] * 3] * 5)
    refused(path, "-k", 1, "--nan", "drop", words=["all 5 rows of " + path + " hold NaN", "repair"])
    path = write_npy(scratch("far.npy"), [[1.0, 1e200]] * 5, "f64")
    refused(path, "-k", 1, words=["column 1 (counted from 0) of " + path + " holds values beyond 1e150"])


@test
def options_against_data():
    refused(good(), "-k", 51, words=["k = 51 for the 50 rows of " + good()])
    refused(good(), "-k", 2147483647, words=["2147483647"])
    start = write_npy(scratch("start.npy"), [r[:2] for r in ROWS[:4]])
    refused(good(), "-k", 4, "--init", start,
            words=["--init " + start + ": 2 columns", "rows of " + good() + " have 3: give"])
    start = write_npy(scratch("start3.npy"), ROWS[:3])
    refused(good(), "-k", 4, "--init", start, words=["--init " + start + ": 3 of them for 4 clusters: leave -k out"])
    start = write_npy(scratch("nan-start.npy"), [[0.0] * 3] * 3 + [[0, float("nan"), 0]])
    refused(good(), "-k", 4, "--init", start, words=["--init " + start + ": row 3, column 1"])
    start = write_npy(scratch("large-start.npy"), [[1e300] * 3] * 4, "f64")
    refused(good(), "-k", 4, "--init", start, words=["--init " + start, "too large"])
    refused(good(), "-k", 4, "--centroids", "same", words=["--centroids same", "f32"])
    bad = write_npy(scratch("nan-centroids.npy"), [[0, 0, float("inf")]])
    result = holdfast("predict", good(), "--centroids", bad, "-o", scratch("l.npy"), code=INPUT)
    check("--centroids " + bad + ": row 0, column 2" in result.err, str(result))


@test
def bad_weights():
    for name, weights, word in (
            ("short", [1.0] * 49, "[49, 1]"), ("negative", [1.0] * 49 + [-1.0], "number 49"),
            ("zero", [0.0] * 50, "all are zero"), ("nan", [1.0] * 49 + [float("nan")], "number 49"),
            ("inf", [float("inf")] + [1.0] * 49, "number 0"), ("wide", ROWS, "[50, 3]")):
        path = write_npy(scratch(name + "-w.npy"), weights)
        refused(good(), "-k", 2, "--weights", path, words=["--weights " + path + ": ", word])


@test
def too_little_memory():
    path = write_npy(scratch("wide.npy"), [[float(i + j) for j in range(2000)] for i in range(300)])
    refused(path, "-k", 300, "--memory", "1M", code=RESOURCES, words=["--memory allows 1048576"])
    for little in ("1", "64K", "1048575"):
        result = holdfast("kmeans", path, "-k", 300, "--memory", little, code=USAGE)
        check(f"--memory {little}: must be at least 1M" in result.err, str(result))
    refused(FASHION, "-k", 5, "--memory", "1M", code=RESOURCES, words=["t10k-images"])


@test
def forced_kernel_that_is_not_there():
    result = holdfast("kmeans", good(), "-k", 2, env={"HF_KERNEL_ASSIGN": "assign_nothing"}, code=INPUT)
    check("assign_nothing" in result.err and "holdfast info" in result.err, str(result))


@test
def foreign_files_as_checkpoint():
    for name, data in (("empty.hfc", b""), ("noise.hfc", bytes(range(256)) * 20), ("npy.hfc", content(good()))):
        refused(good(), "-k", 2, "--resume", write(name, data), words=[name, "not a k-means checkpoint"])


@test
def damaged_checkpoint():
    checkpoint = scratch("c.hfc")
    holdfast("kmeans", good(), "-k", 4, "--init", "random", "--max-iter", 1, "--checkpoint", checkpoint,
             "--every", 1, "-q")
    data = content(checkpoint)
    holdfast("kmeans", good(), "-k", 4, "--init", "random", "--max-iter", 1, "--resume", checkpoint, "-q", "--json")
    for at in range(0, len(data), max(1, len(data) // 40)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        code = INPUT if at < 8 else CORRUPT  # another kind of file, or damage
        refused(good(), "-k", 4, "--init", "random", "--max-iter", 1, "--resume",
                write("damaged.hfc", bytes(damaged)), code=code, words=["damaged.hfc"])
    for cut in (1, len(data) // 2, len(data) - 1):
        refused(good(), "-k", 4, "--init", "random", "--max-iter", 1, "--resume",
                write("cut.hfc", data[:cut]), code=CORRUPT, words=["cut.hfc"])
    for other in (["-k", 5], ["-k", 4, "--seed", 9], ["-k", 4, "--metric", "cosine"]):
        refused(good(), *other, "--resume", checkpoint, words=["c.hfc", "another"])


@test
def names_do_not_write_to_the_terminal():
    """Control characters in names come out as question marks; the command to go on holds them quoted."""
    odd = scratch("a\033[31mb\nc'd")
    result = holdfast("kmeans", odd + ".npy", "-k", 2, code=INPUT)
    check("a?[31mb?c'd.npy" in result.err and result.err.count("\n") == 1, str(result))
    write_npy(odd + ".npy", ROWS)
    result = holdfast("kmeans", odd + ".npy", "-k", 2, "-o", odd)
    check("\033" not in result.out + result.err and "a?[31mb?c'd.npy: 50 rows" in result.out, str(result))
    result = holdfast("predict", odd + ".npy", "--centroids", odd + "/centroids.npy", "-o", odd + "/l.npy")
    check("\033" not in result.out + result.err, str(result))
    os.remove(odd + "/labels.npy")
    os.mkdir(odd + "/labels.npy")
    result = holdfast("kmeans", odd + ".npy", "-k", 2, "-o", odd, code=FAILED)
    check("\033" not in result.err and result.err.count("\n") == 1, str(result))


@test
def one_line_each():
    result = holdfast("kmeans", good(), "-k", 99, "-q", "--json", code=INPUT)
    equal(result.err.count("\n"), 1, "lines of the message")


if __name__ == "__main__":
    main()
