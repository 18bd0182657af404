# SPDX-License-Identifier: Apache-2.0
"""Data in ZIP archives (.npz) and on standard input: the rows are those of the plain file, damage is
named. The archives are made by Python's zipfile, which numpy.savez uses."""
import io
import os
import re
import struct
import subprocess
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import (DIGITS, HOLDFAST, INPUT, RESOURCES, USAGE, blobs, check, content, equal, environment,  # noqa: E402
                 fit, holdfast, main, npy_header, pack, same_files, scratch, test, write_npy)

ROWS = blobs(400, 3, 5, seed=4)


def npy_bytes(rows, dtype="f32", fortran=False):
    path = write_npy(scratch("member.npy"), rows, dtype, fortran)
    return content(path)


def plain():
    path = scratch("plain.npy")
    if not os.path.exists(path):
        write_npy(path, ROWS)
        fit(path, "-k", 5, out=scratch("plain"))
    return path


def archive(name, members, method=zipfile.ZIP_STORED, comment=b""):
    path = scratch(name)
    with zipfile.ZipFile(path, "w", method) as z:
        for member, data in members.items():
            # numpy.savez writes 64-bit sizes into every local header
            with z.open(zipfile.ZipInfo(member) if method == zipfile.ZIP_STORED else member, "w",
                        force_zip64=True) as f:
                f.write(data)
        z.comment = comment
    return path


def as_plain(data, **more):
    plain()
    report = fit(data, "-k", 5, out=scratch("out"), **more)
    same_files(scratch("plain"), scratch("out"))
    return report


@test
def one_array():
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for members in ({"arr_0.npy": npy_bytes(ROWS)}, {"folder/": b"", "folder/x": npy_bytes(ROWS)}):
            report = as_plain(archive("one.npz", members, method, b"PK\5\6 in a comment"))
            equal(report["data"]["format"], "npy")
    as_plain(archive("fortran.npz", {"a.npy": npy_bytes(ROWS, fortran=True)}))
    text = "\n".join(",".join(str(v) for v in row) for row in ROWS).encode()
    equal(as_plain(archive("table.zip", {"table.csv": text}, zipfile.ZIP_DEFLATED))["data"]["format"], "csv")


@test
def one_of_several():
    path = archive("two.npz", {"x.npy": npy_bytes(ROWS), "y.npy": npy_bytes([[1.0], [2.0]]), "n:m.npy": b"?"})
    as_plain(path + ":x")
    as_plain(path + ":x.npy")
    for name, words in ((path, ("3 arrays", "x, y", "FILE.npz:NAME")), (path + ":z", ("no array 'z'", "x, y")),
                        (path + "/:z", ("Not a directory",)), (plain() + ":x", ("no .npz",)),
                        (scratch("none.npz") + ":x", ("No such file",))):
        result = holdfast("kmeans", name, "-k", 5, "-o", scratch("never"), code=INPUT)
        for word in words:
            check(word in result.err, f"lacks {word}\n{result}")
    # centroids, weights and starts too
    both = archive("both.npz", {"c.npy": npy_bytes(ROWS[:5]), "w.npy": npy_bytes([1.0] * 400)})
    start = fit(plain(), "--init", write_npy(scratch("c.npy"), ROWS[:5]), "--weights",
                write_npy(scratch("w.npy"), [1.0] * 400), out=scratch("start"))
    again = fit(plain(), "--init", both + ":c", "--weights", both + ":w", out=scratch("again"))
    same_files(scratch("start"), scratch("again"))
    equal(start["result"]["inertia"], again["result"]["inertia"])
    holdfast("predict", plain(), "--centroids", both + ":c", "-o", scratch("labels.npy"))
    result = holdfast("predict", plain(), "--centroids", both + ":c", "-o", both, code=USAGE)
    check("overwritten" in result.err, str(result))


@test
def in_chunks():
    """A stored member is read by position; a deflated one must fit."""
    data = npy_header("f32", (20000, 64)) + pack([float(i % 97 + i // 64 % 5) for i in range(20000 * 64)], "f32")
    path = scratch("big.npy")
    with open(path, "wb") as f:
        f.write(data)
    fit(path, "-k", 4, "--init", "random", "--max-iter", 3, out=scratch("big"))
    stored = archive("stored.npz", {"a.npy": data})
    report = fit(stored, "-k", 4, "--init", "random", "--max-iter", 3, "--memory", "2M", out=scratch("streamed"))
    check(report["data"]["streamed"], "not read in chunks")
    same_files(scratch("big"), scratch("streamed"))
    packed = archive("packed.npz", {"a.npy": data}, zipfile.ZIP_DEFLATED)
    result = holdfast("kmeans", packed, "-k", 4, "--memory", "2M", "-o", scratch("never"), code=RESOURCES)
    check("numpy.save" in result.err and "--memory" in result.err, str(result))


def refused(data, *words, name="bad.npz", code=INPUT):
    path = scratch(name)
    with open(path, "wb") as f:
        f.write(data)
    result = holdfast("kmeans", path, "-k", 5, "-o", scratch("never"), code=code)
    for word in (name, *words):
        check(word in result.err, f"lacks {word}\n{result}")
    check(not os.path.exists(scratch("never/report.json")), "a result of damaged data")


@test
def damaged():
    data = npy_bytes(ROWS)
    good = content(archive("good.npz", {"a.npy": data}))
    packed = content(archive("packed.npz", {"a.npy": data}, zipfile.ZIP_DEFLATED))
    for end in (4, 60, len(good) - 30, len(good) - 1):
        refused(good[:end], "cut off")
    at = good.index(b"NUMPY") + 1000
    refused(good[:at] + bytes([good[at] ^ 4]) + good[at + 1:], "checksum")
    at = packed.index(b"PK\1\2")
    refused(packed[:at + 16] + b"\0\0\0\0" + packed[at + 20:], "checksum is wrong")
    refused(packed[:at + 24] + struct.pack("<I", 777) + packed[at + 28:], "length")
    refused(packed[:at - 400] + b"\xff" * 100 + packed[at - 300:], "damaged")
    refused(good.replace(b"PK\1\2", b"PK\1\3"), "directory")
    refused(good[:-6] + struct.pack("<I", len(good)) + good[-2:], "")
    for what, bit in (("encrypted", 1),):
        at = good.index(b"PK\1\2")
        refused(good[:at + 8] + bytes([bit]) + good[at + 9:], what)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_BZIP2) as z:
        z.writestr("a.npy", data)
    refused(buffer.getvalue(), "method 12", "savez")
    refused(b"PK\5\6" + bytes(18), "empty")
    refused(content(archive("fortran.npz", {"a.npy": npy_bytes(ROWS, fortran=True)}, zipfile.ZIP_DEFLATED)),
            "Fortran", "numpy.save")
    refused(content(archive("object.npz", {"a\x1b[31m.npy": npy_bytes(ROWS), "b": b"1"})), "a?[31m")


@test
def a_bomb():
    """What unpacks to far more than its array, and an array that promises more than can be there."""
    long = npy_header("u8", (10, 10)) + bytes(50_000_000)
    refused(content(archive("bomb.npz", {"a.npy": long}, zipfile.ZIP_DEFLATED)), "more than")
    empty = npy_header("u8", (1 << 40, 10)) + bytes(1000)
    refused(content(archive("empty.npz", {"a.npy": empty}, zipfile.ZIP_DEFLATED)), "promises")


# ---- standard input

def piped(data, *args, code=0):
    done = subprocess.run([HOLDFAST, *map(str, args)], input=data, capture_output=True, env=environment(), timeout=600)
    check(done.returncode == code, f"exit code {done.returncode} of {args}: {done.stderr.decode()}")
    return done.stderr.decode()


@test
def standard_input():
    plain()
    text = "\n".join(" ".join(str(v) for v in row) for row in ROWS).encode()
    forms = [npy_bytes(ROWS), text, content(archive("in.npz", {"a.npy": npy_bytes(ROWS)}, zipfile.ZIP_DEFLATED))]
    for data in forms:
        piped(data, "kmeans", "-", "-k", 5, "-o", scratch("out"), "-q")
        same_files(scratch("plain"), scratch("out"))
    with open(plain(), "rb") as f:  # redirected: no copy is needed, whatever the limit
        holdfast("kmeans", "-", "-k", 5, "-o", scratch("out"), "-q", stdin=f)
    same_files(scratch("plain"), scratch("out"))
    gz = content(DIGITS)
    fit(DIGITS, "-k", 10, out=scratch("digits"))
    piped(gz, "kmeans", "-", "-k", 10, "-o", scratch("out"), "-q")
    same_files(scratch("digits"), scratch("out"))
    piped(npy_bytes(ROWS[:5]), "predict", plain(), "--centroids", "-", "-o", scratch("l.npy"), "-q")


@test
def standard_input_refused():
    args = ["kmeans", "-", "-k", 5, "-o", scratch("never")]
    check("standard input: is empty" in piped(b"", *args, code=INPUT), "empty")
    text = piped(npy_header("u8", (3 << 20, 1)) + bytes(3 << 20), *args, "--memory", "1M", code=RESOURCES)
    check("standard input" in text and "--memory" in text and "save it to a file" in text, text)
    text = piped(npy_bytes(ROWS), "kmeans", "-", "--init", "-", "-o", scratch("never"), code=USAGE)
    check("standard input" in text and "--init" in text, text)
    text = piped(npy_bytes(ROWS)[:-1], *args, code=INPUT)
    check(re.search(r"standard input.*cut off", text), text)
    check(not os.path.exists(scratch("never/report.json")), "no result")


if __name__ == "__main__":
    main()
