# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share. The command is $HOLDFAST, data lie in $HF_TEST_DATA, scratch files
below $HF_TEST_BUILD. Only the standard library is needed, so that nothing is skipped for want of numpy."""
import array
import ctypes
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback

HOLDFAST = os.path.abspath(os.environ.get("HOLDFAST", "build/release/holdfast"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
DATA = os.environ.get("HF_TEST_DATA", os.path.join(ROOT, "tests", "data"))
DIGITS = os.path.join(DATA, "digits-64d", "digits.csv.gz")
CITIES = os.path.join(DATA, "geo-cities", "latlon_f32.npy")
POPULATION = os.path.join(DATA, "geo-cities", "population_i32.npy")
SIFT = os.path.join(DATA, "sift5k-128d", "sift5k_base.fvecs")
FASHION = os.path.join(DATA, "fashion-mnist", "t10k-images-idx3-ubyte.gz")

# Exit codes as documented.
DONE, FAILED, USAGE, INPUT, RESOURCES, CORRUPT, UNCONVERGED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 8, 130

_tests = []
_scratch = None


class Skip(Exception):
    """Raised with the reason."""


def test(function):
    """Decorator: a test, run by main() in the order of the file."""
    _tests.append(function)
    return function


def scratch(name=""):
    return os.path.join(_scratch, name)


def main():
    """Run the tests named on the command line, or all; the last line counts them."""
    global _scratch
    base = os.environ.get("HF_TEST_BUILD") or tempfile.gettempdir()
    _scratch = tempfile.mkdtemp(prefix="e2e-", dir=base)
    passed = failed = skipped = 0
    chosen = [t for t in _tests if len(sys.argv) < 2 or t.__name__ in sys.argv[1:]]
    try:
        for function in chosen:
            try:
                function()
                passed += 1
            except Skip as reason:
                skipped += 1
                print(f"skipped: {function.__name__}: {reason}")
            except Exception:
                failed += 1
                print(f"failed: {function.__name__}")
                traceback.print_exc(file=sys.stdout)
            sys.stdout.flush()
    finally:
        shutil.rmtree(_scratch, ignore_errors=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not chosen else 77 if skipped and not passed else 0)


# ---- running

class Result:
    def __init__(self, done, args):
        self.args = args
        self.code = done.returncode
        self.out = done.stdout.decode("utf-8", "replace") if done.stdout is not None else ""
        self.err = done.stderr.decode("utf-8", "replace") if done.stderr is not None else ""

    def __str__(self):
        return (f"holdfast {' '.join(self.args)}\nexit code {self.code}\n--- stdout\n{self.out[-3000:]}"
                f"\n--- stderr\n{self.err[-3000:]}")


def give_up_override():
    """For preexec_fn: root, too, must obey file permissions. Drops CAP_DAC_OVERRIDE and
    CAP_DAC_READ_SEARCH from the bounding set, so that the program started has neither."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (1, 2):
        if libc.prctl(24, capability, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def obedient():
    """Keywords for holdfast() that make permissions count; Skip where that cannot be had."""
    if os.geteuid() != 0:
        return {}
    try:
        subprocess.run(["true"], preexec_fn=give_up_override, check=True)
    except (OSError, subprocess.SubprocessError):
        raise Skip("runs as root, which may read and write everywhere") from None
    return {"preexec_fn": give_up_override}


# What a machine's GPUs are called, for device.py alone: everything else is said of the CPU.
GPUS = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES")}


def environment(extra=None):
    """The process's own less what changes how the command works; extra: None takes a variable out."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_KERNEL_", "HF_ISA_MAX"))}
    env["CUDA_VISIBLE_DEVICES"] = ""
    env.update(extra or {})
    return {k: v for k, v in env.items() if v is not None}


def holdfast(*args, code=DONE, env=None, stdout=subprocess.PIPE, **more):
    """Run the command; anything but the expected exit code fails the test. code=None allows all."""
    args = [str(a) for a in args]
    done = subprocess.run([HOLDFAST, *args], stdout=stdout, stderr=subprocess.PIPE,
                          env=environment(env), timeout=600, **more)
    result = Result(done, args)
    check(code is None or result.code == code, f"expected exit code {code}\n{result}")
    return result


def on_small_disk(options, work):
    """Run work(folder) with a file system in memory, such as one of "size=64k", mounted there."""
    folder = scratch("mount")
    os.makedirs(folder, exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], capture_output=True)
    if mounted.returncode != 0:
        raise Skip("no file system can be mounted here: " + mounted.stderr.decode().strip())
    try:
        work(folder)
    finally:
        subprocess.run(["umount", folder], check=True)


def fit(data, *args, out=None, **more):
    """holdfast kmeans --json: the report, read back."""
    extra = ["-o", out] if out else []
    result = holdfast("kmeans", data, *args, *extra, "--json", "--quiet", **more)
    check(result.err == "", f"--quiet is not quiet\n{result}")
    return loads(result.out)


def loads(text):
    """Strict JSON: NaN and Infinity are errors."""
    def refuse(word):
        raise AssertionError(f"{word} in JSON")
    return json.loads(text, parse_constant=refuse)


def check(condition, message="check failed"):
    if not condition:
        raise AssertionError(message)


def equal(a, b, what="values"):
    check(a == b, f"{what} differ: {str(a)[:300]} and {str(b)[:300]}")


def content(path):
    with open(path, "rb") as f:
        return f.read()


def same_files(a, b, *names):
    for name in names or ("centroids.npy", "labels.npy"):
        check(content(os.path.join(a, name)) == content(os.path.join(b, name)),
              f"{name} differs between {a} and {b}")


def start(*args, **more):
    """The command in the background, its outputs in pipes."""
    return subprocess.Popen([HOLDFAST, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=environment(), **more)


# ---- .npy

CODES = {"f32": "f", "f64": "d", "i32": "i", "i64": "q", "u8": "B", "i8": "b"}
DESCR = {"f32": "<f4", "f64": "<f8", "f16": "<f2", "bf16": "<V2", "u8": "|u1", "i8": "|i1", "i32": "<i4", "i64": "<i8"}


def pack(values, dtype):
    """Values as little-endian bytes."""
    if dtype == "f16":
        return struct.pack(f"<{len(values)}e", *values)
    if dtype == "bf16":  # truncation: callers pass values that need no rounding
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    return array.array(CODES[dtype], values).tobytes()


def npy_header(dtype, shape, fortran=False, version=(1, 0)):
    text = f"{{'descr': '{DESCR[dtype]}', 'fortran_order': {fortran}, 'shape': {tuple(shape)}, }}"
    form = "<H" if version == (1, 0) else "<I"
    used = 8 + struct.calcsize(form) + len(text) + 1
    text += " " * (-used % 64) + "\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack(form, len(text)) + text.encode()


def write_npy(path, rows, dtype="f32", fortran=False, version=(1, 0)):
    """rows: a list of lists, or of numbers."""
    if rows and isinstance(rows[0], (list, tuple)):
        shape = (len(rows), len(rows[0]))
        flat = [v for column in zip(*rows) for v in column] if fortran else [v for r in rows for v in r]
    else:
        shape, flat = (len(rows),), list(rows)
    with open(path, "wb") as f:
        f.write(npy_header(dtype, shape, fortran, version) + pack(flat, dtype))
    return path


def read_npy(path):
    """dtype name, shape, flat list of values."""
    data = content(path)
    check(data[:6] == b"\x93NUMPY", f"{path} is no .npy file")
    length = struct.unpack_from("<H", data, 8)[0]
    header = eval(data[10:10 + length].decode(), {"__builtins__": {}})  # our own file
    dtype = {v: k for k, v in DESCR.items()}[header["descr"]]
    check(not header["fortran_order"], "the files of holdfast are in C order")
    values = array.array(CODES[dtype])
    values.frombytes(data[10 + length:])
    count = 1
    for size in header["shape"]:
        count *= size
    equal(len(values), count, "size of " + path)
    return dtype, header["shape"], values.tolist()


def matrix(path):
    """Rows of a two-dimensional .npy."""
    _, (rows, cols), flat = read_npy(path)
    return [flat[i * cols:(i + 1) * cols] for i in range(rows)]


# ---- data and truth

def blobs(n, d, k, seed=1, spread=0.3):
    """n rows around k centres; the values are exact in float16 and bfloat16."""
    rng = random.Random(seed)
    centres = [[rng.randint(-8, 8) for _ in range(d)] for _ in range(k)]
    return [[c + round(4 * rng.gauss(0, spread)) / 4 for c in centres[i % k]] for i in range(n)]


def nearest(rows, centroids):
    """The reference: float64, features in order, lowest index on ties. labels, distances."""
    labels, distances = [], []
    for row in rows:
        best, least = 0, float("inf")
        for j, centre in enumerate(centroids):
            distance = 0.0
            for a, b in zip(row, centre):
                difference = a - b
                distance += difference * difference
            if distance < least:
                best, least = j, distance
        labels.append(best)
        distances.append(least)
    return labels, distances


def close(a, b, terms, what="values"):
    """Two float64 sums of `terms` products in any order agree within the error of both."""
    bound = 4 * terms * 2.0 ** -53 * max(abs(a), abs(b))
    check(abs(a - b) <= bound, f"{what} differ: {a!r} and {b!r}, more than {bound:.3g}")


def check_result(folder, rows, report=None):
    """Files in folder belong together and to the rows: labels are the nearest centroids'."""
    centroids = matrix(os.path.join(folder, "centroids.npy"))
    dtype, shape, labels = read_npy(os.path.join(folder, "labels.npy"))
    equal((dtype, shape), ("i32", (len(rows),)), "type and shape of labels")
    truth, distances = nearest(rows, centroids)
    wrong = sum(a != b for a, b in zip(labels, truth))
    check(wrong == 0, f"{wrong} of {len(rows)} labels are not those of float64 arithmetic")
    if report:
        close(report["result"]["inertia"], sum(distances), len(rows) * len(rows[0]), "inertia")
    return centroids, labels
